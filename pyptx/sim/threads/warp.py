"""Warps, and the splits into which their live lanes are partitioned.

A split is a set of lanes with one program counter. Diverged splits reconverge at the branch's immediate
post-dominator and run independently until then. A split of one lane keeps its registers in a Python list, so
that producer and MMA warps run on plain numbers. A :class:`WideSplit` is several whole warps of a CTA at one
program counter. They execute together those instructions whose lanes do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation
from ..code.propagation import Rule
from ..code.semantic import CLASSES, Op
from ..engine.accounts import Issuer
from ..engine.waits import Wait
from ..memory.access import AccessKind
from .frames import Frame
from .undefined import UnwrittenLoad
from .units import RegisterOwner

if TYPE_CHECKING:
    from ..memory.segments import Segment
    from .collectives import Rendezvous
    from .cta import CTA

__all__ = [
    "ALL_LANES",
    "ReconvergencePoint",
    "Split",
    "WideSplit",
    "Warp",
    "lanes_of",
    "mask_of",
    "mask_of_lanes",
    "spins",
]

ALL_LANES: NDArray[np.intp] = np.arange(32)
ALL_LANES.setflags(write=False)
FULL_MASK = 0xFFFFFFFF

Owner = TypeVar("Owner", bound=RegisterOwner)


def mask_of(flags: NDArray[np.bool_]) -> int:
    """Return the bit mask of 32 booleans; lane 0 is bit 0."""
    return int(np.packbits(flags, bitorder="little").view("<u4")[0])


def mask_of_lanes(lanes: NDArray[np.intp] | Sequence[int]) -> int:
    """Return the bit mask with the bits of these lane numbers set."""
    if lanes is ALL_LANES:
        return FULL_MASK
    return int(np.bitwise_or.reduce(np.left_shift(1, np.asarray(lanes, np.int64))))


def lanes_of(mask: int) -> NDArray[np.intp]:
    """Return the numbers of the lanes whose bits are set in a mask, ascending."""
    flags = np.unpackbits(np.array([mask], "<u4").view(np.uint8), bitorder="little")
    return np.flatnonzero(flags)


class ReconvergencePoint:
    """The block (number ``rpc``) where the splits of one divergent branch or one call merge again."""

    __slots__ = ("arrived", "expected", "frame", "rpc")

    def __init__(self, expected: int, rpc: int, frame: Frame) -> None:
        self.expected, self.rpc, self.frame = expected, rpc, frame
        self.arrived = 0


class Warp:
    """32 threads of a CTA, their registers, and the state that their splits share."""

    def __init__(self, cta: CTA, index: int, frame: Frame, threads: int) -> None:
        self.cta, self.index, self.frame = cta, index, frame
        self.live = FULL_MASK if threads >= 32 else (1 << threads) - 1
        #: Class -> unit that may own registers of this warp until a step has written them.
        self.register_owners: dict[Any, Any] = {}
        #: Lanes that wait at a collective instruction: for each block, the splits there.
        self.gathering: dict[int, list[Split]] = {}
        #: ``bar.warp.sync`` by mask: the lanes that have arrived, and the number of completed rounds.
        self.syncs: dict[int, list[int]] = {}
        #: Reconvergence points where lanes are parked. They are released if nothing else can run.
        self.reconvergence: list[tuple[ReconvergencePoint, list[ReconvergencePoint]]] = []
        #: The rendezvous of lanes that execute one collective at several places in the code.
        self.rendezvous: Rendezvous | None = None
        #: The split of all live lanes of the warp, if it was the last one that became ready.
        self.whole: Split | None = None
        #: The last wait that timed out because nothing else could happen, and its line.
        self.given_up: tuple[Wait, SourceLocation | None] | None = None
        #: The warp as the engines know it.
        self.issuer = Issuer(cta.grid.account, cta.key, cta.cluster, index, self.thread_names)
        self._splits: dict[int, Split] = {}
        #: For each thread, the first free address of its local stack.
        self.stack: NDArray[np.int64] = np.full(32, cta.grid.program.entry.local_bytes, np.int64)

    def thread_names(self, acting: Sequence[int] | NDArray[np.intp], position: int | None = None) -> str:
        """Return text that names the executing threads, or only the one at ``position``, for messages.

        Lane number 32 is the first lane of the next warp.
        """
        lanes = [int(number) for number in acting]
        if position is not None and position < len(lanes):
            lanes = [lanes[position]]
        if not lanes:
            return self.name
        # For a team: name the first of its warps that acts.
        warp = self.cta.warps[self.index + lanes[0] // 32]
        lanes = [number % 32 for number in lanes if number // 32 == lanes[0] // 32]
        shown = f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {lanes[0]}..{lanes[-1]}"
        return f"{warp.name} {shown}"

    def split(self, mask: int, frame: Frame) -> Split:
        """Return the split of these lanes outside of divergent branches.

        Calls with the same lanes return the same object.
        """
        found = self._splits.get(mask)
        if found is None or found.frame is not frame:
            found = self._splits[mask] = Split(self, mask, 0, [], frame)
            return found
        found.stack, found.rpc, found.blocks = [], -2, 0
        found.spin = found.acting = found.rendezvous = None
        return found

    def unit(self, kind: Callable[[], Owner]) -> Owner:
        """Return the state that a unit of the hardware holds for this warp. The first call creates it."""
        found: Owner | None = self.register_owners.get(kind)
        if found is None:
            found = self.register_owners[kind] = kind()
        return found

    def complete_register_writes(self) -> None:
        """Complete all writes in flight to this warp's registers."""
        for owner in self.register_owners.values():
            owner.complete(self.cta.machine.engines)

    @property
    def name(self) -> str:
        return f"CTA {self.cta.coordinates} warp {self.index}"


class Split:
    """Some lanes of a warp at one program counter, in one activation of a function.

    Implements :class:`~.memory.Actor`.
    """

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
        "unwritten",
        "warp",
    )

    def __init__(self, warp: Warp, mask: int, pc: int, stack: list[ReconvergencePoint], frame: Frame) -> None:
        self.warp, self.mask, self.pc, self.stack, self.frame = warp, mask, pc, stack, frame
        self.rpc = stack[-1].rpc if stack else -2
        self.regs: list[Any] | None = None
        #: True if steps in flight may write registers whose old values are in ``regs``.
        self.stale = False
        self.op: Op | None = None
        #: In code that follows undefined bits: whether the last load has read unwritten bytes. None in other
        #: code.
        self.unwritten: bool | None = None
        #: The rendezvous with lanes at other places in the code, for one collective.
        self.rendezvous: Rendezvous | None = None
        #: True if the split is among the machine's ready splits.
        self.queued = False
        #: Number of blocks run since the split last waited, in whole quanta.
        self.blocks = 0
        #: Lanes that execute the current instruction, if a guard leaves some out.
        self.acting: Sequence[int] | NDArray[np.intp] | None = None
        #: The last back edge, how often it was taken while memory did not change, and registers at some of
        #: those passes.
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
        """The carry flag of the condition code, by lane."""
        return self.frame.carry

    def touch(self, op: Op, rows: tuple[int, ...]) -> None:
        """Complete writes in flight to rows of 32-bit registers. Called before ``op`` accesses these rows.

        Only registers that a :class:`RegisterOwner` may own have such writes. Raises :class:`UnwrittenLoad`
        if registers have undefined bits now, and the running code does not follow them.
        """
        for owner in self.warp.register_owners.values():
            owner.touch(self, op.location, rows)
        self.follow(op)
        if self.stale:
            self.refresh()

    def follow(self, op: Op) -> None:
        """Raise :class:`UnwrittenLoad` before ``op`` if the running code must follow undefined bits."""
        undefined = self.frame.registers.undefined
        if undefined.rows and self.unwritten is None and undefined.in_threads(self.frame.span):
            self.op = op
            raise UnwrittenLoad

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
        """The split's warp, in the form in which engines get it."""
        return self.warp.issuer

    @property
    def cta_key(self) -> tuple[int, int]:
        return self.warp.cta.key

    def thread_numbers(self) -> NDArray[np.int64]:
        """Return the numbers, in their CTA, of the threads that execute the instruction."""
        return np.asarray(self.actors, np.int64) + 32 * self.warp.index

    def description(self, lane: int | None = None) -> str:
        """Return text that names the thread at position ``lane`` of the access, or all threads if None."""
        return self.warp.thread_names(self.actors, lane)

    def follows_unwritten(self, segment: Segment, position: int, size: int, known: NDArray[np.uint8]) -> bool:
        """Return True for a load in code that follows undefined bits.

        Raises :class:`UnwrittenLoad` for a load in other code, and returns False for other instructions.
        """
        del segment, position, size, known
        if self.op is None or self.op.semantic.undefined.rule is not Rule.LOADED:
            return False
        if self.unwritten is None:
            raise UnwrittenLoad
        self.unwritten = True
        return True

    def local(self, address: Any, size: int, kind: AccessKind) -> tuple[Segment, Any]:
        """Return the segment of local memory, and the offset in it of each executing thread's ``address``.

        See :class:`~.memory.Actor`.
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

        Returns ``(which, segment, offsets)`` for each allocation that the lanes access. ``which`` indexes
        ``lanes``; in the usual case of one allocation it is a slice of all of them. ``how`` goes to
        :meth:`~.memory.Memory.access`.
        """
        self.acting = lanes
        cta = self.warp.cta
        return cta.machine.memory.access_each(kind, op.space, address, size, self, cta.cluster_memory, **how)

    def access_one(
        self, kind: AccessKind, op: Op, lane: int, address: int, size: int, **how: Any
    ) -> tuple[Segment, int]:
        """Like :meth:`access`, for one lane and an address that is a Python number."""
        del lane
        cta = self.warp.cta
        return cta.machine.memory.access(kind, op.space, address, size, self, cta.cluster_memory, **how)

    # --- registers ----------------------------------------------------------------------------

    def gather(self) -> list[Any]:
        """Return the registers of a one-lane split as a list (raw bits; predicates as bools)."""
        owners = self.warp.register_owners
        self.stale = bool(owners) and any(owner.steps for owner in owners.values())
        self.regs = self.frame.lane_values(self.lane)
        return self.regs

    def refresh(self) -> None:
        """Complete the asynchronous writes to registers, and read those registers again."""
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
                # This split has not changed the register; a step may have written it in the meantime.
                values[place.index] = self.frame.u32[place.row, self.lane]
        self.frame.set_lane_values(self.lane, values)
        self.regs = None

    def put(self, name: str, value: Any, lanes: Any = None) -> None:
        """Write ``value`` (raw bits, or booleans) to a scalar destination of the current instruction."""
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
                f"{self.op.name}: its guard is true in {len(lanes)} of {len(self.lanes)} lanes of the warp",
                self,
            )

    def snapshot(self) -> Any:
        """Return the registers as a value that can be compared. Used to recognize a spin."""
        if self.regs is not None:
            return tuple(self.regs)
        return self.frame.snapshot(slice(None) if self.k is None else self.lanes)

    def check_written(
        self, location: SourceLocation | None, rows: tuple[tuple[int, str], ...], mask: Any = None
    ) -> None:
        """Report each register of ``rows`` that a lane reads but never wrote on its path through the code.

        ``mask`` limits the check to some lanes.
        """
        self.acting = self.lanes if mask is None else np.flatnonzero(mask)
        for row, name in rows:
            written = self.frame.written[row]
            if written.all():
                continue
            known = written[self.acting]
            if not known.all():
                self.warp.cta.machine.uninitialized_register(self, name, int(np.argmin(known)), location)

    def wrote(self, rows: slice | NDArray[np.intp]) -> bool:
        """True if ``rows`` are tracked registers, and every lane has written all of them on its path."""
        known = self.frame.written[rows]
        if self.k is not None:
            known = known[:, self.lanes]
        return bool(known.all())

    def note_written(self, rows: int | slice | NDArray[np.intp]) -> None:
        """Record that the lanes have written these tracked registers on their path through the code."""
        if self.k is None:
            self.frame.written[rows] = True
        else:
            self.frame.written[rows] |= self.k


class Spin:
    """Detects that a split spins: it repeats a loop, while neither memory nor its registers change.

    Registers are compared with those at the passes 1, 2, 4, 8 ...: a loop that returns to an earlier state is
    found soon, and a loop that does not costs little.
    """

    __slots__ = ("count", "mark", "registers", "target", "version")

    def __init__(self, target: int, version: int) -> None:
        self.target, self.version = target, version
        self.count, self.mark = 0, 1
        self.registers: Any = None

    def again(self, s: Split) -> bool:
        """Count one more pass of the loop.

        Returns True if the registers are the same as in an earlier pass, so that the loop would repeat
        forever.
        """
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
    """An object that remembers the last loop it repeated: a split, or an entry of a team's SIMT stack."""

    spin: Spin | None


def spins(spinner: Spinner, s: Split, target: int, version: int) -> bool:
    """True if ``spinner`` repeats its last loop while the registers of ``s`` and memory are unchanged.

    ``target`` is the first block of the loop, and ``version`` the number of the memory's last change.
    """
    spin = spinner.spin
    if spin is None or spin.target != target or spin.version != version:
        spinner.spin = Spin(target, version)
        return False
    return spin.again(s)


class WideSplit(Split):
    """Lanes of neighboring whole warps of one CTA that execute an instruction as one array operation.

    Only instructions whose lanes do not depend on each other run this way. ``warp`` is the first of the
    warps.
    """

    __slots__ = ()

    def __init__(self, warp: Warp, frame: Frame, mask: NDArray[np.bool_], lanes: NDArray[np.intp]) -> None:
        super().__init__(warp, FULL_MASK, 0, [], frame)
        if len(lanes) < len(mask):
            self.k = mask
        self.lanes = lanes

    def touch(self, op: Op, rows: tuple[int, ...]) -> None:
        for index in range(self.warp.index, self.warp.index + self.frame.columns // 32):
            for owner in self.warp.cta.warps[index].register_owners.values():
                owner.touch(self, op.location, rows)
        self.follow(op)
