"""Warps, and the splits that their live lanes are partitioned into.

A split is a set of lanes with one program counter.  Diverged splits reconverge at the branch's immediate
post-dominator and run independently until then.  A split of one lane keeps its registers in a Python
list, so that producer and MMA warps run on plain numbers.  A :class:`WideSplit` is several whole warps of a
CTA at one program counter, which execute together what treats each lane alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation
from ..code.semantic import CLASSES, Op
from ..engine.accounts import Issuer
from ..engine.waits import Wait
from ..memory.access import AccessKind
from .frames import Frame
from .units import RegisterOwner

if TYPE_CHECKING:
    from ..memory.address_space import Segment
    from .collectives import Rendezvous
    from .cta import CTA

__all__ = ["ALL_LANES", "ReconvergencePoint", "Split", "WideSplit", "Warp", "lanes_of", "mask_of", "spins"]

ALL_LANES: NDArray[np.intp] = np.arange(32)
ALL_LANES.setflags(write=False)
FULL_MASK = 0xFFFFFFFF

Owner = TypeVar("Owner", bound=RegisterOwner)


def mask_of(flags: NDArray[np.bool_]) -> int:
    """32 booleans as a bit mask, lane 0 in bit 0."""
    return int(np.packbits(flags, bitorder="little").view("<u4")[0])


def lanes_of(mask: int) -> NDArray[np.intp]:
    """Lane numbers of a bit mask, ascending."""
    flags = np.unpackbits(np.array([mask], "<u4").view(np.uint8), bitorder="little")
    return np.flatnonzero(flags)


class ReconvergencePoint:
    """Splits of one divergent branch or one call, on their way to ``rpc``, where they become one."""

    __slots__ = ("arrived", "expected", "frame", "rpc")

    def __init__(self, expected: int, rpc: int, frame: Frame) -> None:
        self.expected, self.rpc, self.frame = expected, rpc, frame
        self.arrived = 0


class Warp:
    """32 threads of a CTA, their registers, and what their splits share."""

    def __init__(self, cta: CTA, index: int, frame: Frame, threads: int) -> None:
        self.cta, self.index, self.frame = cta, index, frame
        self.live = FULL_MASK if threads >= 32 else (1 << threads) - 1
        #: Units that have registers of this warp at times, by class.
        self.register_owners: dict[Any, Any] = {}
        #: Lanes that wait at a collective instruction: block -> splits there.
        self.gathering: dict[int, list[Split]] = {}
        #: ``bar.warp.sync`` by mask: lanes that have arrived, and how often all have.
        self.syncs: dict[int, list[int]] = {}
        #: Lanes parked at reconvergence points, to release if nothing else can run.
        self.reconvergence: list[tuple[ReconvergencePoint, list[ReconvergencePoint]]] = []
        #: Where lanes at several places in the code execute one collective together.
        self.rendezvous: Rendezvous | None = None
        #: The split of all its live lanes, if that is the last that could run.
        self.whole: Split | None = None
        #: The last wait that timed out because nothing else could happen, and its line.
        self.given_up: tuple[Wait, SourceLocation | None] | None = None
        #: What engines know of it.
        self.issuer = Issuer(cta.grid.account, cta.key, cta.cluster, index, self.thread_names)
        self._splits: dict[int, Split] = {}
        #: Each thread's local stack: the first free address.
        self.stack: NDArray[np.int64] = np.full(32, cta.grid.program.entry.local_bytes, np.int64)

    def thread_names(self, acting: Sequence[int] | NDArray[np.intp], position: int | None = None) -> str:
        """The acting threads by name, or the one at a position among them; 32 is the next warp's first."""
        lanes = [int(number) for number in acting]
        if position is not None and position < len(lanes):
            lanes = [lanes[position]]
        if not lanes:
            return self.name
        # Of a team: the first of its warps that acts.
        warp = self.cta.warps[self.index + lanes[0] // 32]
        lanes = [number % 32 for number in lanes if number // 32 == lanes[0] // 32]
        shown = f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {lanes[0]}..{lanes[-1]}"
        return f"{warp.name} {shown}"

    def split(self, mask: int, frame: Frame) -> Split:
        """A split of some lanes, outside of divergent branches; the same object each time."""
        found = self._splits.get(mask)
        if found is None or found.frame is not frame:
            found = self._splits[mask] = Split(self, mask, 0, [], frame)
            return found
        found.stack, found.rpc, found.blocks = [], -2, 0
        found.spin = found.acting = found.rendezvous = None
        return found

    def unit(self, kind: Callable[[], Owner]) -> Owner:
        """What a unit of the hardware holds for this warp, made when first asked for."""
        found: Owner | None = self.register_owners.get(kind)
        if found is None:
            found = self.register_owners[kind] = kind()
        return found

    def complete_register_writes(self) -> None:
        """Let what is in flight into this warp's registers be written."""
        for owner in self.register_owners.values():
            owner.complete(self.cta.machine.engines)

    @property
    def name(self) -> str:
        return f"CTA {self.cta.coordinates} warp {self.index}"


class Split:
    """Some lanes of a warp at one program counter, in one activation. An :class:`~.memory.Actor`."""

    __slots__ = (
        "acting",
        "blocks",
        "frame",
        "k",
        "lane",
        "lanes",
        "mask",
        "op",
        "pc",
        "queued",
        "regs",
        "rendezvous",
        "rpc",
        "spin",
        "stack",
        "stale",
        "warp",
    )

    def __init__(self, warp: Warp, mask: int, pc: int, stack: list[ReconvergencePoint], frame: Frame) -> None:
        self.warp, self.mask, self.pc, self.stack, self.frame = warp, mask, pc, stack, frame
        self.rpc = stack[-1].rpc if stack else -2
        self.regs: list[Any] | None = None
        #: Whether steps in flight may write registers of the warp that ``regs`` holds old values of.
        self.stale = False
        self.op: Op | None = None
        #: Lanes at other places in the code that it executes a collective with.
        self.rendezvous: Rendezvous | None = None
        #: Whether it is among the machine's ready splits.
        self.queued = False
        #: Blocks run since it last waited, in whole quanta.
        self.blocks = 0
        #: Lanes that execute the current instruction, if a guard leaves some out.
        self.acting: Sequence[int] | NDArray[np.intp] | None = None
        #: Last back edge: (block, memory version), how often it was taken so, registers at some of these
        #: times.
        self.spin: Spin | None = None
        if mask == FULL_MASK:
            self.lanes = ALL_LANES
            self.k: NDArray[np.bool_] | None = None
        else:
            self.lanes = lanes_of(mask)
            self.k = np.zeros(32, np.bool_)
            self.k[self.lanes] = True
        self.lane = int(self.lanes[0]) if len(self.lanes) == 1 else -1

    @property
    def carry(self) -> NDArray[np.uint8]:
        """The condition code's carry, by lane."""
        return self.frame.carry

    def touch(self, location: SourceLocation | None, rows: tuple[int, ...]) -> None:
        """An instruction accesses rows of 32-bit registers that units of the hardware own at times."""
        for owner in self.warp.register_owners.values():
            owner.touch(self, location, rows)
        if self.stale:
            self.refresh()

    # --- actor --------------------------------------------------------------------------------

    @property
    def location(self) -> SourceLocation | None:
        return self.op.location if self.op is not None else None

    @property
    def actors(self) -> Any:
        """Numbers of the lanes that execute the instruction."""
        return self.lanes if self.acting is None else self.acting

    @property
    def issuer(self) -> Issuer:
        """What engines know of its warp."""
        return self.warp.issuer

    @property
    def cta_key(self) -> tuple[int, int]:
        return self.warp.cta.key

    def thread_numbers(self) -> NDArray[np.int64]:
        """Numbers of the acting threads in their CTA."""
        return np.asarray(self.actors, np.int64) + 32 * self.warp.index

    def description(self, lane: int | None = None) -> str:
        """The thread: ``lane`` is a position among the lanes of the access, else the first."""
        return self.warp.thread_names(self.actors, lane)

    def unwritten_rule(self, known: NDArray[np.uint8]) -> str:
        """Of loads: perhaps nothing uses the value, or the part of it that nothing wrote."""
        op = self.op
        if op is None or not op.semantic.loads:
            return "uninitialized-read"
        count = int(op.chosen.get("vec", "v1")[1:])
        if count > 1 and known.reshape(count, -1).all(axis=1).any():
            return "padding-read"
        if "early" not in op.cache:
            blocks = self.warp.cta.grid.program.blocks
            block = next(block for block in blocks if any(each is op for _, each in block.ops))
            op.cache["early"] = block.branches_before_use(op) or block.only_selected(op)
        return "undefined-load" if op.cache["early"] else "uninitialized-read"

    def local(self, address: Any, size: int, kind: AccessKind) -> tuple[Segment, Any]:
        """Where in the CTA's local memory the acting threads' own ``address`` lies. See
        :class:`~.memory.Actor`.
        """
        return self.warp.cta.local_memory.resolve(self, self.actors, address, size, kind)

    # --- memory -------------------------------------------------------------------------------

    def access(
        self,
        kind: AccessKind,
        op: Op,
        lanes: NDArray[np.intp],
        address: NDArray[np.int64],
        size: int,
        **how: Any,
    ) -> list[tuple[Any, Segment, NDArray[np.int64]]]:
        """Resolve and check an access of ``size`` bytes by each of ``lanes``, in the space that ``op`` names.

        Returns ``(which, segment, offsets)`` for each allocation that lanes lie in: ``which`` indexes
        ``lanes`` (all of them, a slice, in the usual case of one). ``how`` goes to
        :meth:`~.memory.Memory.access`.
        """
        self.acting = lanes
        cta = self.warp.cta
        return cta.machine.memory.access_each(kind, op.space, address, size, self, cta.cluster_memory, **how)

    def access_one(
        self, kind: AccessKind, op: Op, lane: int, address: int, size: int, **how: Any
    ) -> tuple[Segment, int]:
        """:meth:`access` for one lane and a plain address."""
        del lane
        cta = self.warp.cta
        return cta.machine.memory.access(kind, op.space, address, size, self, cta.cluster_memory, **how)

    # --- registers ----------------------------------------------------------------------------

    def gather(self) -> list[Any]:
        """Registers of a one-lane split as a list (raw bits; predicates as bools)."""
        owners = self.warp.register_owners
        self.stale = bool(owners) and any(owner.steps for owner in owners.values())
        self.regs = self.frame.lane_values(self.lane)
        return self.regs

    def refresh(self) -> None:
        """Complete the writes of registers in flight, and take the values."""
        self.stale = False
        self.warp.complete_register_writes()
        assert self.regs is not None
        for place in self.frame.code.written_later.values():
            self.regs[place.index] = self.frame.u32[place.row, self.lane].item()

    def scatter(self) -> None:
        """Write a one-lane split's list back to the register file."""
        if self.regs is None:
            return
        values = self.regs
        if self.stale:
            for place in self.frame.code.written_later.values():
                # Not touched here; perhaps written by now.
                values[place.index] = self.frame.u32[place.row, self.lane]
        self.frame.set_lane_values(self.lane, values)
        self.regs = None

    def put(self, name: str, value: Any, lanes: Any = None) -> None:
        """Write a scalar destination of the current instruction, raw bits or bool(s)."""
        assert self.op is not None
        place = self.op.dests.get(name)
        if place is None:
            return
        if self.regs is not None:
            single = np.ravel(value)[0]
            self.regs[place.index] = single.item() if isinstance(single, np.generic) else single
            return
        array = getattr(self.frame, CLASSES[place.cls])
        array[place.row, self.lanes if lanes is None else lanes] = value

    def check_whole_warp(self, lanes: NDArray[np.intp]) -> None:
        """Raise a fault unless the guard of a warp-collective instruction holds in every lane."""
        if len(lanes) != len(self.lanes):
            assert self.op is not None
            raise self.warp.cta.machine.fault(
                "divergent-collective",
                f"{self.op.name}: its guard holds in {len(lanes)} of {len(self.lanes)} lanes of the warp",
                self,
            )

    def snapshot(self) -> Any:
        """The registers as a value that compares: used to recognize a spin."""
        if self.regs is not None:
            return tuple(self.regs)
        return self.frame.snapshot(slice(None) if self.k is None else self.lanes)

    def check_written(
        self, location: SourceLocation | None, rows: tuple[tuple[int, str], ...], mask: Any = None
    ) -> None:
        """Report a read, by all lanes or those of ``mask``, of a register that this path never wrote."""
        self.acting = self.lanes if mask is None else np.flatnonzero(mask)
        for row, name in rows:
            known = self.frame.written[row, self.acting]
            if not known.all():
                self.warp.cta.machine.uninitialized_register(self, name, int(np.argmin(known)), location)

    def note_written(self, row: int) -> None:
        self.frame.written[row, self.lanes] = True


class Spin:
    """A back edge taken again and again while nothing in the world changes.

    Registers are compared with those at the passes 1, 2, 4, 8 ...: a loop that comes back to a state it was
    in is found soon, and one that does not costs little.
    """

    __slots__ = ("count", "mark", "registers", "target", "version")

    def __init__(self, target: int, version: int) -> None:
        self.target, self.version = target, version
        self.count, self.mark = 0, 1
        self.registers: Any = None

    def again(self, s: Split) -> bool:
        """One more pass: whether the registers are what they were."""
        self.count += 1
        if self.count == self.mark + 1 and self.registers is not None and s.snapshot() == self.registers:
            return True
        if self.count >= 2 * self.mark:
            self.mark = self.count
            self.registers = s.snapshot()
        elif self.count == 1:
            self.registers = s.snapshot()
        return False


class Spinner(Protocol):
    """Whatever remembers its last back edge: a split, a part of a team."""

    spin: Spin | None


def spins(spinner: Spinner, s: Split, target: int, version: int) -> bool:
    """Whether ``spinner`` takes the same back edge with the same registers, those of ``s``, and nothing
    changed.
    """
    spin = spinner.spin
    if spin is None or spin.target != target or spin.version != version:
        spinner.spin = Spin(target, version)
        return False
    return spin.again(s)


class WideSplit(Split):
    """Lanes of neighboring whole warps of one CTA, ``warp`` the first: what effects get that treat lanes
    alone.
    """

    __slots__ = ()

    def __init__(self, warp: Warp, frame: Frame, mask: NDArray[np.bool_], lanes: NDArray[np.intp]) -> None:
        super().__init__(warp, FULL_MASK, 0, [], frame)
        if len(lanes) < len(mask):
            self.k = mask
        self.lanes = lanes

    def touch(self, location: SourceLocation | None, rows: tuple[int, ...]) -> None:
        for index in range(self.warp.index, self.warp.index + self.frame.columns // 32):
            for owner in self.warp.cta.warps[index].register_owners.values():
                owner.touch(self, location, rows)
