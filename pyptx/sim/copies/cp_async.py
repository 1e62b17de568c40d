"""cp.async: copies that threads issue from global to shared memory, and their groups.

Owns :class:`ThreadCopies`, the copies in flight of one CTA. The copies that the lanes of a warp issue
together are one operation of two steps, *read global* and *write shared*. If only some of the lanes later
wait for their copies (or arrive on an mbarrier for them), the operation is split, so that the copies of the
other lanes may stay in flight.

Source: PTX ISA, `#data-movement-and-conversion-instructions-cp-async`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ..engine.events import AsyncOperation, Step, StepKind, nothing
from ..memory.access import AccessKind, StateSpace
from ..memory.mbarrier import MBarrier, Signal
from ..memory.segments import Segment, word_dtype
from ..threads.units import CtaUnit
from .copied import Copied

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["ThreadCopies"]

Array = NDArray[Any]


class _Copy:
    """The copies of one instruction: ``size`` bytes for each thread, ``taken`` of them from the source."""

    def __init__(
        self,
        owner: ThreadCopies,
        operation: AsyncOperation,
        size: int,
        threads: Array,
        group: Array,
        dst: Array,
        src: Array,
        taken: Array | None,
    ) -> None:
        self.owner, self.operation, self.size = owner, operation, size
        #: Numbers of the threads in the CTA, and the group of each thread that the copy belongs to.
        self.threads, self.group = threads, group
        #: ``taken`` is None if all bytes come from the source.
        self.dst, self.src, self.taken = dst, src, taken
        #: The bytes read, one item of ``size`` bytes for each thread, once the first step has happened.
        self.copied: Copied | None = None
        nbytes = size * len(threads)
        self.read = Step(operation, StepKind.READ, self._read, [], nbytes=nbytes)
        self.write = Step(operation, StepKind.WRITE, self._write, [self.read], nbytes=nbytes)
        #: Arrivals on mbarriers that are ordered after this copy.
        self.followers: list[Step] = []

    @property
    def done(self) -> bool:
        return self.write.done

    def split(self, keep: Array) -> _Copy:
        """Keep only the copies of the threads that ``keep`` marks; return the rest as a new operation."""
        rest = ~keep
        other = _Copy(
            self.owner,
            self.operation,
            self.size,
            self.threads[rest],
            self.group[rest],
            self.dst[rest],
            self.src[rest],
            None if self.taken is None else self.taken[rest],
        )
        other.read.part_of, other.write.part_of = self.read.serial, self.write.serial
        if self.copied is not None:
            other.copied = self.copied.take(rest)
            other.read.done = True
            self.copied = self.copied.take(keep)
        self.threads, self.group = self.threads[keep], self.group[keep]
        self.dst, self.src = self.dst[keep], self.src[keep]
        self.taken = None if self.taken is None else self.taken[keep]
        other.followers = list(self.followers)
        for step in self.followers:
            step.after.append(other.write)
        return other

    # --- what happens ---------------------------------------------------------------------------

    def _read(self) -> None:
        self.copied = Copied(self.owner.cta.machine, self.operation, self._items)

    def _items(self) -> Array:
        size = self.size
        items = np.zeros(len(self.threads), word_dtype(size))
        if self.taken is None:
            for which, segment, offsets in self._access(
                AccessKind.READ, StateSpace.GLOBAL, self.src, size, self.threads
            ):
                items[which] = segment.words(size)[offsets // size]
            return items
        data = items.view(np.uint8).reshape(-1, size)
        for taken in np.unique(self.taken).tolist():
            rows = np.flatnonzero(self.taken == taken)
            # If no byte is taken, the address is not accessed.
            for which, segment, offsets in (
                self._access(AccessKind.READ, StateSpace.GLOBAL, self.src[rows], taken, self.threads[rows])
                if taken
                else ()
            ):
                data[rows[which], :taken] = segment.data[offsets[:, None] + np.arange(taken)]
        return items

    def _write(self) -> None:
        assert self.copied is not None
        self.copied.write(self._put)

    def _put(self, items: Array) -> None:
        for which, segment, offsets in self._access(
            AccessKind.WRITE, StateSpace.SHARED, self.dst, self.size, self.threads
        ):
            segment.words(self.size)[offsets // self.size] = items[which]

    def _access(
        self, kind: AccessKind, space: StateSpace, address: Array, size: int, threads: Array
    ) -> list[tuple[Any, Segment, Array]]:
        """Access ``size`` bytes at each address, in all allocations that contain such an address.

        The required alignment is the copy's size, even if fewer bytes are read.
        """
        cta = self.owner.cta
        self.operation.moves_for = threads
        found = cta.machine.memory.access_each(
            kind, space, address, size, self.operation, cta.cluster_memory, align=self.size
        )
        self.operation.moves_for = None
        return found


class ThreadCopies(CtaUnit):
    """The copies in flight of one CTA, and how many groups each thread has committed."""

    exit_order = 1

    def __init__(self, cta: CTA) -> None:
        super().__init__(cta)
        self._committed = np.zeros(cta.threads + 31, np.int64)
        self._in_flight: list[_Copy] = []
        #: True to keep copies that have happened: observers see the ISA's order under every schedule.
        self._all = cta.machine.stream.active
        #: For each thread: the group of its last copy, the first group that it has not waited for, and the
        #: number of the operation of its last copy.
        self._last = np.full_like(self._committed, -1)
        self._waited = np.zeros_like(self._committed)
        self._by = np.zeros_like(self._committed)
        self._operations: dict[Any, tuple[int, AsyncOperation]] = {}

    def _pending(self) -> list[_Copy]:
        self._in_flight = [copy for copy in self._in_flight if self._all or not copy.done]
        return self._in_flight

    def issue(
        self,
        operation: AsyncOperation,
        size: int,
        threads: Array,
        dst: Array,
        src: Array,
        taken: Array | None,
    ) -> None:
        """Start the copies of one instruction, and add each to the open group of its thread."""
        group = self._committed[threads]
        copy = _Copy(self, operation, size, threads, group, dst, src, taken)
        self._last[threads] = group
        # An earlier arrival covers only the earlier copies of the open group, not this one.
        self._waited[threads] = np.minimum(self._waited[threads], group)
        where = (operation.name, operation.location)
        number, _ = self._operations.setdefault(where, (len(self._operations), operation))
        self._by[threads] = number
        self._pending().append(copy)
        self.cta.machine.issue(self.cta, [copy.read, copy.write])

    def commit(self, threads: Array) -> None:
        """Close the open group of each thread: later copies of the thread belong to its next group."""
        self._committed[threads] += 1

    def to_wait_for(self, threads: Array, keep: int) -> list[Step]:
        """Return the steps that must happen until at most ``keep`` groups of each thread are in flight.

        The thread's open group may stay in flight, too.
        """
        limit = np.zeros_like(self._committed)
        limit[threads] = self._committed[threads] - keep
        np.maximum(self._waited, limit, out=self._waited)
        return [copy.write for copy in self._select(limit) if not copy.done]

    def arrive(self, operation: AsyncOperation, threads: Array, barrier: MBarrier) -> None:
        """Arrive once for each thread, after everything that the thread has issued so far is written."""
        limit = np.zeros_like(self._committed)
        limit[threads] = self._committed[threads] + 1
        np.maximum(self._waited, limit, out=self._waited)
        copies = self._select(limit)
        signal = Signal(barrier, arrivals=len(threads))
        step = Step(operation, StepKind.SIGNAL, nothing, [copy.write for copy in copies], signal)
        for copy in copies:
            copy.followers.append(step)
        self.cta.machine.issue(self.cta, [step])

    def at_exit(self) -> None:
        """Report threads that ended although neither a wait nor an mbarrier covers their last copies."""
        left = np.flatnonzero(self._last >= self._waited)
        for number, operation in self._operations.values():
            threads = left[self._by[left] == number]
            if len(threads):
                self.cta.machine.report(
                    Finding(
                        RULES["copy-never-waited"],
                        f"CTA {self.cta.coordinates} ended, and {len(threads)} of its threads had not waited "
                        f"for their last {operation.name}",
                        operation.location,
                        operation.description(),
                    )
                )

    def _select(self, limit: Array) -> list[_Copy]:
        """Return the copies in flight whose group number is below ``limit`` of their thread.

        If only some threads of a copy are below their limits, the copy is split.
        """
        chosen = []
        for copy in list(self._pending()):
            meant = copy.group < limit[copy.threads]
            if not meant.any():
                continue
            if not meant.all() and not copy.done:
                rest = copy.split(meant)
                self._in_flight.append(rest)
                self.cta.machine.issue(self.cta, [step for step in (rest.read, rest.write) if not step.done])
            chosen.append(copy)
        return chosen
