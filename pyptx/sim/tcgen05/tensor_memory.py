"""Tensor memory: 128 lanes x 512 columns of 32-bit cells of a multiprocessor, their owners, and accesses.

Owns :class:`TensorStorage`, which the CTAs on one multiprocessor share, and :class:`TensorMemory`, one CTA's
part in it: its allocations, and the one seam for accesses.
Source: PTX ISA, `#tensor-memory`_ and ``#tcgen05-memory-alloc-manage-instructions``.

.. _#tensor-memory: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-memory
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.findings import RULES, Finding
from ...layout.tensor_memory import COLUMNS, LANES, unpack_address
from ..engine.events import Engine, Step, StepKind
from ..engine.stream import Life, LifeKind
from ..memory.access import Access, AccessKind, Footprint
from ..memory.address_space import Actor
from ..threads.units import CtaUnit
from .deferred import DeferredSum
from .order import Issued

if TYPE_CHECKING:
    from ..threads.cta import CTA
    from .pair import PairRequest

__all__ = ["TensorMemory", "TensorStorage", "find_room"]


#: Bytes of a cell.
_CELL = 4


class TensorStorage:
    """What belongs to a multiprocessor: the cells, which of them were written, which columns are taken."""

    #: Name of the state space, and the base of offsets, for observers.
    space, base = "tensor", 0

    def __init__(self) -> None:
        #: First column of each live allocation: its width, and whose it is.
        self.taken: dict[int, tuple[int, CTA]] = {}
        #: First column of the allocation that was made exclusively, while it lives.
        self.exclusive: int | None = None
        self._cells: np.ndarray[Any, np.dtype[np.uint32]] | None = None
        self._written: np.ndarray[Any, np.dtype[np.bool_]] | None = None

    @property
    def cells(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """``uint32[lane, column]``; made on first use, since most kernels have none."""
        if self._cells is None:
            self._cells = np.zeros((LANES, COLUMNS), np.uint32)
            self._written = np.zeros((LANES, COLUMNS), np.bool_)
        return self._cells

    @property
    def written(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which cells their owner has written."""
        _ = self.cells
        assert self._written is not None
        return self._written

    def take(self, first: int, columns: int, exclusive: bool, owner: CTA) -> None:
        self.taken[first] = (columns, owner)
        if exclusive:
            self.exclusive = first
        if self._written is not None:
            self._written[:, first : first + columns] = False

    def release(self, first: int) -> None:
        del self.taken[first]
        self.exclusive = None

    def describe(self) -> str:
        """Who holds what."""
        held = [f"{w} at {s} of CTA {o.coordinates}" for s, (w, o) in sorted(self.taken.items())]
        return ", ".join(held) or "nothing"


def find_room(storages: Sequence[TensorStorage], columns: int, exclusive: bool = False) -> int | None:
    """First column of an aligned run of ``columns`` that is free in all of ``storages``, or None.

    An exclusive allocation suffers no other.
    """
    taken: list[tuple[int, int]] = []
    for storage in storages:
        if storage.exclusive is not None or (exclusive and storage.taken):
            return None
        taken += [(start, width) for start, (width, _) in storage.taken.items()]
    for first in range(0, COLUMNS - columns + 1, columns):
        if all(start >= first + columns or start + width <= first for start, width in taken):
            return first
    return None


class TensorMemory(CtaUnit):
    """One CTA's part of its multiprocessor's tensor memory; a CTA reaches its own allocations alone."""

    exit_order = 0

    def __init__(self, cta: CTA) -> None:
        super().__init__(cta)
        self.storage = cta.multiprocessor.unit(TensorStorage)
        #: First column and width of each live allocation, and the line that made it.
        self.allocations: dict[int, tuple[int, Any]] = {}
        self.relinquished = False
        #: Columns of the last allocation: no later one may be larger.
        self.largest = COLUMNS
        #: The CTAs of one instruction, once the kernel's ``.cta_group`` is known: this one, or the pair.
        self.group: tuple[CTA, ...] = ()
        #: By name, the instructions of the pair that a warp of this CTA executes and that are not done yet.
        self.requests: dict[str, PairRequest] = {}
        #: What each thread, (warp, lane), has issued, and what the CTA's threads have released with
        #: fence::before_thread_sync for others to be ordered behind.
        self.issued: dict[tuple[int, int], Issued] = {}
        self.released = Issued(all_steps=cta.machine.stream.active)
        #: Steps in flight that work on this CTA's memory: its own, and those that another CTA issued.
        self._own: list[Step] = []
        self._foreign: list[Step] = []
        #: Counts changes of the allocations.
        self._allocated = 0
        #: Sums that accumulators wait for, by lane, rows, first column and columns.
        self._deferred: dict[tuple[int, int, int, int], DeferredSum] = {}

    @property
    def cells(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """``uint32[lane, column]``."""
        return self.storage.cells

    def issued_by(self, warp: int, lane: int) -> Issued:
        """What one thread has issued."""
        found = self.issued.get((warp, lane))
        if found is None:
            found = self.issued[warp, lane] = Issued(all_steps=self.cta.machine.stream.active)
        return found

    # --- allocation ---------------------------------------------------------------------------

    def request(self, columns: int, exclusive: bool, actor: Actor) -> None:
        """alloc, before it waits for room. Raises a fault for what may not be asked for."""
        legal = range(32, COLUMNS + 1, 32) if exclusive else (32, 64, 128, 256, 512)
        if columns not in legal:
            rule = "a multiple of 32" if exclusive else "a power of two"
            why = f"alloc of {columns} columns; it takes {rule} from 32 to {COLUMNS}"
        elif self.relinquished:
            why = "alloc after relinquish_alloc_permit"
        elif columns > self.largest:
            why = f"alloc of {columns} columns after one of {self.largest}: a later one may not be larger"
        else:
            self.largest = columns
            return
        raise self.cta.machine.fault("tensor-memory", why, actor)

    def allocate(self, first: int, columns: int, exclusive: bool, actor: Actor) -> None:
        self.allocations[first] = (columns, actor.location)
        if self.cta.machine.stream.active:
            self.cta.machine.stream.begin(self._life(first, columns))
        self.storage.take(first, columns, exclusive, self.cta)
        self._allocated += 1

    def _life(self, first: int, columns: int) -> Life:
        """An allocation, for observers."""
        key = (self.cta.multiprocessor.number, first)
        return Life(LifeKind.TENSOR_MEMORY, key, columns, "tensor memory", self.cta.key)

    def check_free(self, address: int, columns: int, exclusive: bool, actor: Actor) -> int:
        """The first column of what dealloc names. Raises a fault unless exactly this was allocated so."""
        lane, first = unpack_address(address)
        width, _ = self.allocations.get(first, (0, None))
        if lane or width != columns or exclusive != (self.storage.exclusive == first):
            have = ", ".join(f"{w} columns at {s:#x}" for s, (w, _) in self.allocations.items()) or "nothing"
            kind = ".exclusive" if exclusive else ""
            how = " exclusively" if self.storage.exclusive in self.allocations else ""
            raise self.cta.machine.fault(
                "tensor-memory",
                f"dealloc{kind} of {columns} columns at {address:#x}; allocated{how}: {have}",
                actor,
            )
        return first

    def free(self, first: int) -> None:
        columns, _ = self.allocations.pop(first)
        if self.cta.machine.stream.active:
            self.cta.machine.stream.end(self._life(first, columns))
        self.storage.release(first)
        self._allocated += 1
        self._deferred.clear()

    # --- the CTA ends -------------------------------------------------------------------------

    def concern(self, steps: list[Step], *, own: bool = False) -> None:
        """An instruction has put these steps in flight: the CTA's ``own``, or another CTA's."""
        known = self._own if own else self._foreign
        known[:] = [step for step in [*known, *steps] if not step.done]

    def leave(self) -> None:
        """All threads of the CTA have ended: report and finish the work in flight that still needs it.

        Its signals to other CTAs' mbarriers do not need it.  Those to its own come to memory that is gone.
        """
        machine = self.cta.machine
        self._report_commits()
        for step in self._own + self._foreign:
            if step.done:
                continue
            operation = step.operation
            does = _DOES[step.kind]
            machine.report(
                Finding(
                    RULES["exit-in-flight"],
                    f"CTA {self.cta.coordinates} ended while {operation.name}, "
                    f"issued by {operation.threads}, may still {does}",
                    operation.location,
                    operation.description(),
                )
            )
            machine.engines.force(step)

    def _report_commits(self) -> None:
        """Commits in flight that signal an mbarrier of the CTA itself."""
        for step in self.cta.in_flight:
            operation, signal = step.operation, step.signal
            if step.done or signal is None or operation.engine is not Engine.MMA:
                continue
            if signal.barrier.address >> 24 != self.cta.rank:
                continue
            self.cta.machine.report(
                Finding(
                    RULES["commit-at-exit"],
                    f"CTA {self.cta.coordinates} ended while {operation.name} was on its way to "
                    f"{signal.barrier.describe()}",
                    operation.location,
                    operation.description(),
                )
            )

    def at_exit(self) -> None:
        """Nothing may be allocated any more; what is, is free from now on."""
        for first, (width, location) in list(self.allocations.items()):
            self.cta.machine.report(
                Finding(
                    RULES["tensor-memory"],
                    f"{width} columns of tensor memory at {first:#x} were never freed",
                    location,
                    f"CTA {self.cta.coordinates}",
                )
            )
            self.free(first)

    # --- access -------------------------------------------------------------------------------

    def defer(
        self,
        shape: tuple[int, int],
        lanes: Any,
        first: int,
        a: Any,
        b: Any,
        accumulate: bool,
        actor: Actor,
    ) -> None:
        """``D = A @ B.T`` (+ D), columns from ``first`` on; ``shape``: the accumulator's lane and rows."""
        key = (*shape, first, len(b))
        known = self._deferred.get(key)
        if known is None:
            self._flush(first, len(b))
            known = self._deferred[key] = DeferredSum(lanes, first)
        if known.checked != self._allocated or self.cta.machine.stream.active:
            if accumulate:
                self.check(AccessKind.READ, lanes, first, len(b), actor, flushed=False)
            self.check(AccessKind.WRITE, lanes, first, len(b), actor, flushed=False)
            known.checked = self._allocated
        if known.add(a, b, accumulate):
            known.flush(self.cells)

    def _flush(self, first: int, columns: int) -> None:
        """Compute what is owed to these columns."""
        for key in [k for k in self._deferred if k[2] < first + columns and first < k[2] + k[3]]:
            self._deferred.pop(key).flush(self.cells)

    def check(
        self, kind: AccessKind, lanes: Any, first: int, columns: int, actor: Actor, *, flushed: bool = True
    ) -> None:
        """The seam for tensor memory: the columns must be allocated, and written before a read.

        ``lanes`` is a slice of lanes or an array of lane numbers.

        Reports an access outside the allocations and goes on, as the hardware would; raises a fault outside
        the 128 x 512 cells.
        """
        if flushed and self._deferred:
            self._flush(first, columns)
        machine = self.cta.machine
        numbers = lanes
        if isinstance(lanes, slice):
            numbers = np.arange(LANES if lanes.stop is None else lanes.stop)[lanes]
        end = first + columns
        owned = sum(max(0, min(end, s + w) - max(first, s)) for s, (w, _) in self.allocations.items())
        beyond = end > COLUMNS or numbers[-1] >= LANES
        if owned < columns or beyond:
            have = ", ".join(f"columns {s}..{s + w - 1}" for s, (w, _) in self.allocations.items())
            fault = machine.fault(
                "tensor-memory",
                f"{kind.value} of lanes {numbers[0]}..{numbers[-1]}, "
                f"columns {first}..{end - 1}{self._where()}; "
                f"allocated: {have or 'nothing'}",
                actor,
            )
            if beyond:
                raise fault
            machine.report(fault.finding)
        if machine.stream.active:
            self._announce(kind, numbers, first, columns, actor)
        written = self.storage.written
        where = (lanes, slice(first, first + columns))
        if kind is AccessKind.WRITE:
            written[where] = True
        elif not written[where].all():
            lane, column = np.argwhere(~written[where])[0]
            machine.report(
                Finding(
                    RULES["uninitialized-read"],
                    f"read of tensor memory lane {numbers[lane]}, column {first + column}{self._where()}: "
                    "never written",
                    actor.location,
                    actor.description(),
                )
            )

    def _announce(self, kind: AccessKind, lanes: Any, first: int, columns: int, actor: Actor) -> None:
        """Tell the observers of an access to ``columns`` cells from ``first`` on of each of ``lanes``."""
        starts = _CELL * (COLUMNS * np.asarray(lanes, np.int64) + first)
        footprint = Footprint(starts, _CELL * columns)
        self.cta.machine.stream.access(
            Access(kind, self.storage.space, self.storage, footprint, actor, None, "tensor", "weak", "")
        )

    def _where(self) -> str:
        """Which CTA's tensor memory it is, where an instruction reaches that of two."""
        return f" of CTA {self.cta.coordinates}" if len(self.group) == 2 else ""


#: What the steps of mma, cp, shift and commit do.
_DOES = {
    StepKind.READ: "read its operands",
    StepKind.READ_A: "read its operands",
    StepKind.WRITE: "write its tensor memory",
    StepKind.SHIFT: "shift rows of its tensor memory",
    StepKind.SIGNAL: "signal its mbarrier",
}
