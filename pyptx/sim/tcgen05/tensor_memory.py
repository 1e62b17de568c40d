"""Tensor memory: the 128 lanes x 512 columns of 32-bit cells of a multiprocessor, and their allocation.

Owns :class:`TensorStorage`, which the CTAs on one multiprocessor share, and :class:`TensorMemory`, the state
of one CTA: its allocations, its operations, and the check of every access. Source: PTX ISA, `#tensor-memory`_
and ``#tcgen05-memory-alloc-manage-instructions``.

.. _#tensor-memory: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-memory
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.findings import RULES, Finding
from ...layout.tensor_memory import COLUMNS, LANES, unpack_address
from ..engine.events import AsyncOperation, Engine, Step
from ..engine.stream import Life, LifeKind
from ..memory.access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from ..memory.segments import Actor
from ..threads.units import CtaUnit
from .deferred import DeferredSum
from .order import Issued

if TYPE_CHECKING:
    from ..threads.cta import CTA
    from .pair import PairRequest

__all__ = ["TensorMemory", "TensorStorage", "find_room"]


#: Number of bytes of a cell.
_CELL = 4


class TensorStorage:
    """The tensor memory of a multiprocessor: its cells, flags of written cells, and allocated columns."""

    #: For observers: the state space, the base of offsets, the size in bytes, a name, and no named buffers.
    space, base, size, name, parts = StateSpace.TENSOR, 0, _CELL * LANES * COLUMNS, "tensor memory", None

    def __init__(self) -> None:
        #: First column of each live allocation -> its width, and the CTA that owns it.
        self.taken: dict[int, tuple[int, CTA]] = {}
        #: The CTA that keeps others from allocating here, until it relinquishes its permit or ends.
        self.permitted: CTA | None = None
        #: First column of the exclusive allocation, while it lives.
        self.exclusive: int | None = None
        self._cells: np.ndarray[Any, np.dtype[np.uint32]] | None = None
        self._written: np.ndarray[Any, np.dtype[np.bool_]] | None = None
        #: For unwritten cells that an instruction wrote with undefined values: where these values come from.
        self.origins: np.ndarray[Any, np.dtype[np.int64]] | None = None

    @property
    def cells(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The cells, ``uint32[lane, column]``. Created on first use: most kernels use no tensor memory."""
        if self._cells is None:
            self._cells = np.zeros((LANES, COLUMNS), np.uint32)
            self._written = np.zeros((LANES, COLUMNS), np.bool_)
        return self._cells

    @property
    def written(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """``bool[lane, column]``: True if the CTA that owns a cell has written the cell."""
        _ = self.cells
        assert self._written is not None
        return self._written

    def store_undefined(self, lanes: Any, columns: Any, undefined: Any, origins: Any) -> None:
        """Record that cells were written, some of them with undefined values, which count as unwritten."""
        if self.origins is None:
            self.origins = np.zeros((LANES, COLUMNS), np.int64)
        self.written[lanes, columns] = ~undefined
        self.origins[lanes, columns] = np.where(undefined, origins, 0)

    def take(self, first: int, columns: int, exclusive: bool, owner: CTA) -> None:
        """Mark columns as allocated to ``owner``, and their cells as never written."""
        self.taken[first] = (columns, owner)
        if exclusive:
            self.exclusive = first
        if self._written is not None:
            self._written[:, first : first + columns] = False
        if self.origins is not None:
            self.origins[:, first : first + columns] = 0

    def release(self, first: int) -> None:
        """Mark the columns of an allocation as free."""
        del self.taken[first]
        self.exclusive = None

    def describe(self) -> str:
        """Return the live allocations and their CTAs as text, and which CTA may allocate."""
        held = [f"{w} at {s} of CTA {o.coordinates}" for s, (w, o) in sorted(self.taken.items())]
        if self.permitted is not None:
            held.append(f"CTA {self.permitted.coordinates} has not relinquished its permit")
        return ", ".join(held) or "nothing"


def find_room(storages: Sequence[TensorStorage], columns: int, exclusive: bool = False) -> int | None:
    """Return the first column of an aligned run of ``columns`` that is free in all ``storages``, or None.

    An exclusive allocation has room only if there is no other allocation, and it leaves no room for others.
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
    """One CTA's part of its multiprocessor's tensor memory; a CTA may access only its own allocations."""

    exit_order = 0

    def __init__(self, cta: CTA) -> None:
        super().__init__(cta)
        self.storage = cta.multiprocessor.unit(TensorStorage)
        #: First column and width of each live allocation, and the line that made it.
        self.allocations: dict[int, tuple[int, Any]] = {}
        self.relinquished = False
        #: Number of columns of the last allocation: a later one may not be larger.
        self.largest = COLUMNS
        #: The CTAs that execute an instruction, this one or its pair, once the ``.cta_group`` is known.
        self.group: tuple[CTA, ...] = ()
        #: Instruction name -> the request of this CTA's warp to execute it with the peer, until it is done.
        self.requests: dict[str, PairRequest] = {}
        #: (warp, lane) -> operations that the thread has issued. ``released``: operations that the CTA's
        #: threads have released with fence::before_thread_sync, so that operations of other threads can
        #: follow them.
        self.issued: dict[tuple[int, int], Issued] = {}
        self.released = Issued(all_steps=cta.machine.stream.active)
        #: Steps in flight that access this CTA's memory: steps that it issued, and steps of another CTA.
        self._own: list[Step] = []
        self._foreign: list[Step] = []
        #: Number of changes of the allocations so far.
        self._allocated = 0
        #: Deferred sums of accumulators, by lane, rows, first column and number of columns.
        self._deferred: dict[tuple[int, int, int, int], DeferredSum] = {}

    @property
    def cells(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The cells of the multiprocessor, ``uint32[lane, column]``."""
        return self.storage.cells

    def issued_by(self, warp: int, lane: int) -> Issued:
        """Return the operations that one thread has issued."""
        found = self.issued.get((warp, lane))
        if found is None:
            found = self.issued[warp, lane] = Issued(all_steps=self.cta.machine.stream.active)
        return found

    # --- allocation ---------------------------------------------------------------------------

    def request(self, columns: int, exclusive: bool, actor: Actor) -> None:
        """Check an alloc before it waits for room; raise a fault if the request is not allowed."""
        legal = range(32, COLUMNS + 1, 32) if exclusive else (32, 64, 128, 256, 512)
        if columns not in legal:
            rule = "a multiple of 32" if exclusive else "a power of two"
            why = f"alloc of {columns} columns; expected {rule} from 32 to {COLUMNS}"
        elif self.relinquished:
            why = "alloc after relinquish_alloc_permit"
        elif columns > self.largest:
            why = f"alloc of {columns} columns after one of {self.largest}: a later one may not be larger"
        else:
            self.largest = columns
            return
        raise self.cta.machine.fault("tensor-memory", why, actor)

    def allocate(self, first: int, columns: int, exclusive: bool, actor: Actor) -> None:
        """Allocate columns from ``first`` for this CTA."""
        self.allocations[first] = (columns, actor.location)
        if self.cta.machine.stream.active:
            self.cta.machine.stream.begin(self._life(first, columns))
        self.storage.take(first, columns, exclusive, self.cta)
        if self.cta.machine.policy.keeps_permits:
            self.storage.permitted = self.cta
        self._allocated += 1

    def _life(self, first: int, columns: int) -> Life:
        """Return the event record with which observers learn that an allocation begins or ends."""
        key = (self.cta.multiprocessor.number, first)
        return Life(LifeKind.TENSOR_MEMORY, key, columns, "tensor memory", self.cta.key)

    @property
    def may_allocate(self) -> bool:
        """True unless another CTA of the multiprocessor keeps the permit to allocate.

        The manual says only what relinquishing means for a CTA itself. On hardware CTAs of a multiprocessor
        that do not relinquish run one after the other (NVIDIA Fuser, pull request 3795).
        """
        return self.storage.permitted in (None, self.cta)

    def relinquish(self) -> None:
        """Give up the permit to allocate, so that other CTAs of the multiprocessor may."""
        self.relinquished = True
        self._let_others()

    def _let_others(self) -> None:
        if self.storage.permitted is self.cta:
            self.storage.permitted = None

    def check_free(self, address: int, columns: int, exclusive: bool, actor: Actor) -> int:
        """Return the first column that a dealloc frees; raise a fault if no such allocation exists.

        Address and number of columns must be those of one allocation.
        """
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

    def announce_free(self, first: int, columns: int, actor: Actor) -> None:
        """Send observers the access by which a warp frees its allocation: it ends the use of all cells."""
        if self.cta.machine.stream.active:
            self._announce(AccessKind.INVAL, np.arange(LANES), first, columns, actor)

    def free(self, first: int) -> None:
        """Free the allocation that begins at column ``first``."""
        columns, _ = self.allocations.pop(first)
        if self.cta.machine.stream.active:
            self.cta.machine.stream.end(self._life(first, columns))
        self.storage.release(first)
        self._allocated += 1
        self._deferred.clear()

    # --- the CTA ends -------------------------------------------------------------------------

    def concern(self, steps: list[Step], *, own: bool = False) -> None:
        """Record steps in flight that access this CTA's tensor memory.

        ``own`` is True if a thread of this CTA issued them.
        """
        known = self._own if own else self._foreign
        known[:] = [step for step in [*known, *steps] if not step.done]

    def leave(self) -> None:
        """Report and finish the work that may still need this CTA. Called when all threads have ended.

        The work is reported if no thread has seen its completion, whether or not it has happened by now.
        Signals to other CTAs' mbarriers do not need the CTA. Signals to its own mbarriers may reach memory
        that no longer exists.
        """
        self._report_signals()
        for each in self.group:
            for issued in each.unit(TensorMemory).issued.values():
                for operation in issued.unseen():
                    self._report("exit-in-flight", operation, "was complete")
        for step in self._own + self._foreign:
            if not step.done:
                self.cta.machine.engines.force(step)

    def _report_signals(self) -> None:
        """Report commits to mbarriers of this CTA whose arrivals no thread has seen."""
        for operation, signal in self.cta.unseen_signals():
            if operation.engine is Engine.MMA and not signal.origin.seen:
                own = operation.cta_key == self.cta.key
                rule = "commit-at-exit" if own else "exit-in-flight"
                self._report(rule, operation, f"had arrived at mbarrier {signal.barrier.name}")

    def _report(self, rule: str, operation: AsyncOperation, what: str) -> None:
        self.cta.machine.report_operation(
            rule,
            f"CTA {self.cta.coordinates} ended, and no wait ensured that {operation.name}, "
            f"issued by {operation.threads}, {what}",
            operation,
        )

    def at_exit(self) -> None:
        """Report allocations that were not freed, and free them."""
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
        self._let_others()

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
        """Defer ``D = A @ B.T`` (or ``+ D``, with ``accumulate``) until something reads D.

        Args:
            shape: D's first lane, and the instruction's M.
            lanes: D's lanes.
            first: D's first column.
            a, b: the operands.
            accumulate: True if D is an input.
            actor: the operation that multiplies, for checks and findings.
        """
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

    def shown(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Return a copy of the multiprocessor's cells, with the deferred sums of this CTA, for display."""
        cells = self.storage.cells.copy()
        for deferred in self._deferred.values():
            deferred.write(cells)
        return cells

    def _flush(self, first: int, columns: int) -> None:
        """Compute the deferred sums of these columns."""
        for key in [k for k in self._deferred if k[2] < first + columns and first < k[2] + k[3]]:
            self._deferred.pop(key).flush(self.cells)

    def check(
        self,
        kind: AccessKind,
        lanes: Any,
        first: int,
        columns: int,
        actor: Actor,
        *,
        flushed: bool = True,
        used: bool = True,
    ) -> None:
        """Check an access to tensor memory: columns must be allocated, and cells written before a read.

        ``lanes`` is a slice of lanes or an array of lane numbers. ``used`` is False if the caller itself
        follows unwritten cells that it reads to their use.

        Reports an access outside the allocations and continues, as the hardware would; raises a fault for an
        access outside the 128 x 512 cells.
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
        elif used and not written[where].all():
            row, column = np.argwhere(~written[where])[0]
            lane, column = int(numbers[row]), int(first + column)
            origins = self.storage.origins
            if origins is not None and origins[lane, column]:
                how = f"used by {actor.description()}"
                machine.origins.used(int(origins[lane, column]), how, actor.location)
                return
            message = self.unwritten(lane, column)
            machine.report(Finding(RULES["uninitialized-read"], message, actor.location, actor.description()))

    def unwritten(self, lane: int, column: int) -> str:
        """Return the message about a read of a cell that nothing wrote."""
        return f"read of tensor memory lane {lane}, column {column}{self._where()}: never written"

    def _announce(self, kind: AccessKind, lanes: Any, first: int, columns: int, actor: Actor) -> None:
        """Send observers an access to ``columns`` columns, from column ``first``, in each of ``lanes``."""
        starts = _CELL * (COLUMNS * np.asarray(lanes, np.int64) + first)
        footprint = Footprint(starts, _CELL * columns)
        self.cta.machine.stream.access(
            Access(
                kind,
                self.storage.space,
                self.storage,
                footprint,
                actor,
                None,
                Proxy.TENSOR,
                MemoryOrder.WEAK,
                Scope.NONE,
            )
        )

    def _where(self) -> str:
        """Return text that names this CTA for messages, or "" if its kernel does not use CTA pairs."""
        return f" of CTA {self.cta.coordinates}" if len(self.group) == 2 else ""
