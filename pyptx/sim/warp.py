"""Warps, their register files, and the splits that their live lanes are partitioned into.

A split is a set of lanes with one program counter.  Diverged splits reconverge at the branch's immediate
post-dominator and run independently until then.  A split of one lane keeps its registers in a Python
list, so that producer and MMA warps run on plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.source import SourceLocation
from .semantics import Op
from .waits import Wait

if TYPE_CHECKING:
    from .events import Step
    from .machine import CTA
    from .program import Program

__all__ = ["ALL_LANES", "Group", "Split", "Warp", "lanes_of", "mask_of"]

ALL_LANES: NDArray[np.intp] = np.arange(32)
ALL_LANES.setflags(write=False)
FULL_MASK = 0xFFFFFFFF


def mask_of(flags: NDArray[np.bool_]) -> int:
    """32 booleans as a bit mask, lane 0 in bit 0."""
    return int(np.packbits(flags, bitorder="little").view("<u4")[0])


def lanes_of(mask: int) -> NDArray[np.intp]:
    """Lane numbers of a bit mask, ascending."""
    flags = np.unpackbits(np.array([mask], "<u4").view(np.uint8), bitorder="little")
    return np.flatnonzero(flags)


class Group:
    """Splits of one divergent branch on their way to ``rpc``, where they become one again."""

    __slots__ = ("arrived", "expected", "rpc")

    def __init__(self, expected: int, rpc: int) -> None:
        self.expected, self.rpc = expected, rpc
        self.arrived = 0


class Warp:
    """32 threads: registers as ``[register, lane]`` arrays per width, with typed views."""

    def __init__(self, cta: CTA, index: int, program: Program, threads: int) -> None:
        self.cta, self.index, self.program = cta, index, program
        self.live = FULL_MASK if threads >= 32 else (1 << threads) - 1
        self.u32 = np.zeros((program.rows["32"], 32), np.uint32)
        self.u64 = np.zeros((program.rows["64"], 32), np.uint64)
        self.u16 = np.zeros((program.rows["16"], 32), np.uint16)
        self.p = np.zeros((program.rows["p"], 32), np.bool_)
        self.s32, self.f32 = self.u32.view(np.int32), self.u32.view(np.float32)
        self.s64, self.f64 = self.u64.view(np.int64), self.u64.view(np.float64)
        self.s16, self.f16 = self.u16.view(np.int16), self.u16.view(np.float16)
        #: For registers that some read may reach before a write: who has written.
        self.written = np.zeros((len(program.tracked), 32), np.bool_)
        #: Tensor-memory loads in flight into this warp's registers.
        self.loading: list[Step] = []
        #: Tensor-memory stores in flight.
        self.storing: list[Step] = []
        self.special: dict[str, NDArray[Any]] = cta.special_registers(index)
        #: Lanes that wait at a collective instruction: block -> splits there.
        self.gathering: dict[int, list[Split]] = {}
        #: ``bar.warp.sync`` by mask: lanes that have arrived, and how often all have.
        self.syncs: dict[int, list[int]] = {}
        #: Lanes parked at reconvergence points, to release if nothing else can run.
        self.groups: list[tuple[Group, list[Group]]] = []

    def settle(self) -> None:
        """Let every tensor-memory load in flight write its registers: somebody needs them."""
        steps, self.loading = self.loading, []
        for step in steps:
            if not step.done:
                self.cta.machine.engines.force(step)

    @property
    def name(self) -> str:
        return f"CTA {self.cta.coordinates} warp {self.index}"


class Split:
    """Some lanes of a warp at one program counter. An :class:`~.memory.Actor`."""

    __slots__ = (
        "acting",
        "blocks",
        "k",
        "lane",
        "lanes",
        "mask",
        "op",
        "pc",
        "regs",
        "rpc",
        "spin",
        "stack",
        "stale",
        "wait",
        "warp",
    )

    def __init__(self, warp: Warp, mask: int, pc: int, stack: list[Group]) -> None:
        self.warp, self.mask, self.pc, self.stack = warp, mask, pc, stack
        self.rpc = stack[-1].rpc if stack else -2
        self.wait: Wait | None = None
        self.regs: list[Any] | None = None
        #: Whether loads in flight may write registers of the warp that ``regs`` holds old values of.
        self.stale = False
        self.op: Op | None = None
        #: Blocks run since it last waited, in whole quanta.
        self.blocks = 0
        #: Lanes that execute the current instruction, if a guard leaves some out.
        self.acting: Sequence[int] | NDArray[np.intp] | None = None
        #: Last back edge taken: (block, memory version, registers) once it looks like a spin.
        self.spin: tuple[int, int, Any] | None = None
        if mask == FULL_MASK:
            self.lanes = ALL_LANES
            self.k: NDArray[np.bool_] | None = None
        else:
            self.lanes = lanes_of(mask)
            self.k = np.zeros(32, np.bool_)
            self.k[self.lanes] = True
        self.lane = int(self.lanes[0]) if len(self.lanes) == 1 else -1

    # --- actor --------------------------------------------------------------------------------

    @property
    def location(self) -> SourceLocation | None:
        return self.op.location if self.op is not None else None

    def who(self, lane: int | None = None) -> str:
        """The thread: ``lane`` is a position among the lanes of the access, else the first."""
        lanes = [int(number) for number in (self.lanes if self.acting is None else self.acting)]
        if lane is not None and lane < len(lanes):
            lanes = [lanes[lane]]
        shown = f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {lanes[0]}..{lanes[-1]}"
        return f"{self.warp.name} {shown}"

    # --- registers ----------------------------------------------------------------------------

    def gather(self) -> list[Any]:
        """Registers of a one-lane split as a list (raw bits; predicates as bools)."""
        warp, lane = self.warp, self.lane
        self.stale = bool(warp.loading)
        self.regs = [
            *warp.p[:, lane].tolist(),
            *warp.u16[:, lane].tolist(),
            *warp.u32[:, lane].tolist(),
            *warp.u64[:, lane].tolist(),
        ]
        return self.regs

    def refresh(self) -> None:
        """Somebody needs a register that a load may be writing: let it, and take the values."""
        self.stale = False
        self.warp.settle()
        assert self.regs is not None
        for place in self.warp.program.loaded.values():
            self.regs[place.index] = self.warp.u32[place.row, self.lane].item()

    def scatter(self) -> None:
        """Write a one-lane split's list back to the register file."""
        if self.regs is None:
            return
        warp, lane, values = self.warp, self.lane, self.regs
        loaded = warp.program.loaded.values() if self.stale else ()
        for place in loaded:
            # Not touched here; perhaps loaded by now.
            values[place.index] = warp.u32[place.row, lane]
        start = 0
        for array in (warp.p, warp.u16, warp.u32, warp.u64):
            count = array.shape[0]
            array[:, lane] = values[start : start + count]
            start += count
        self.regs = None

    def put(self, name: str, value: Any, lanes: Any = None) -> None:
        """Write a scalar destination of the current instruction, raw bits or bool(s)."""
        assert self.op is not None
        place = self.op.dests.get(name)
        if place is None:
            return
        if self.regs is not None:
            self.regs[place.index] = value
            return
        array = {"p": self.warp.p, "16": self.warp.u16, "32": self.warp.u32, "64": self.warp.u64}[place.cls]
        array[place.row, self.lanes if lanes is None else lanes] = value

    def all_of_them(self, lanes: NDArray[np.intp]) -> None:
        """Raise a fault unless the guard of a warp-collective instruction holds in every lane."""
        if len(lanes) != len(self.lanes):
            assert self.op is not None
            raise self.warp.cta.machine.fault(
                "divergent-collective",
                f"{self.op.name}: its guard holds in {len(lanes)} of {len(self.lanes)} lanes of the warp",
                self,
            )

    def snapshot(self) -> Any:
        """The registers as a value that compares: used to recognise a spin."""
        if self.regs is not None:
            return tuple(self.regs)
        warp, lanes = self.warp, self.lanes
        return b"".join(a[:, lanes].tobytes() for a in (warp.p, warp.u16, warp.u32, warp.u64))

    def check_written(
        self, location: SourceLocation | None, rows: tuple[tuple[int, str], ...], mask: Any = None
    ) -> None:
        """Report a read, by all lanes or those of ``mask``, of a register that this path never wrote."""
        self.acting = self.lanes if mask is None else np.flatnonzero(mask)
        for row, name in rows:
            known = self.warp.written[row, self.acting]
            if not known.all():
                self.warp.cta.machine.uninitialised_register(self, name, int(np.argmin(known)), location)

    def note_written(self, row: int) -> None:
        self.warp.written[row, self.lanes] = True
