"""The order of a thread's tensor-core operations.

PTX ISA `#tcgen05-memory-consistency-model-pipelined-instructions`_ lists the pairs of instructions of one
thread that execute in order: mma and mma of one accumulator and shape, cp and mma, shift and mma, shift and
cp.4x256b, mma and shift. Operations of two threads are ordered if ``tcgen05.fence`` stands on both sides of a
synchronization.

This module orders two more pairs. A cp writes after an earlier mma: the list lacks this pair, but CUTLASS's
block-scaled main loops copy the next stage's scales over scales that earlier MMAs may still read, without a
wait in between. And an mma writes D after the thread's earlier mma has written its D, for any accumulators:
FlashAttention lets S of the next block overwrite P, which the previous product reads, again without a wait,
and Triton's documentation says that MMAs execute in order. It is not known whether an mma reads the values
that an earlier mma writes to another accumulator.

A thread's commits also arrive in order: NVIDIA's kernels for CTA pairs wait only for the last commit before
their CTAs end, and Triton's documentation of ``tcgen05_commit`` says so.

The simulator does not check that threads synchronized between two fences: a fence::after_thread_sync orders
later operations after everything that any earlier fence::before_thread_sync of the CTA has released.

.. _#tcgen05-memory-consistency-model-pipelined-instructions:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-memory-consistency-model-pipelined-instructions
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ...core.source import SourceLocation
from ..engine.events import AsyncOperation, Step, StepKind
from ..memory.mbarrier import SignalOrigin

__all__ = ["Commit", "Issued"]


class Issued:
    """The operations after which the next tensor-core operations of one thread are ordered.

    These are its own operations in flight, and operations of other threads that fences ordered before it.
    """

    __slots__ = (
        "_all",
        "_unseen",
        "commits",
        "copies",
        "last",
        "products",
        "reads",
        "seen",
        "shifts",
        "signals",
        "uncommitted",
    )

    def __init__(self, *, all_steps: bool = False) -> None:
        #: Whether to keep steps that have happened: observers then see the ISA's order in every schedule.
        self._all = all_steps
        #: Last writes of D, by accumulator and shape.
        self.products: dict[Hashable, list[Step]] = {}
        #: Last write of any D by the thread itself.
        self.last: Step | None = None
        self.copies: list[Step] = []
        self.shifts: list[Step] = []
        #: Steps that the thread itself issued and that its next commit covers.
        self.uncommitted: list[Step] = []
        #: Those of their reads of A that a restricted commit covers.
        self.reads: list[Step] = []
        #: Signals of the thread's last commit.
        self.signals: list[Step] = []
        #: Number of the thread's commits, and of those up to the last one that a thread has seen arrive.
        self.commits = self.seen = 0
        #: For each line, the thread's last operation there and the number of its commits before it.
        self._unseen: dict[SourceLocation | None, tuple[AsyncOperation, int]] = {}

    def _kept(self, steps: Iterable[Step]) -> list[Step]:
        return list(steps) if self._all else [step for step in steps if not step.done]

    def tracked(self) -> list[Step]:
        """Return the steps that must happen before the thread's next commit signals."""
        self.reads = self._kept(self.reads)
        self.uncommitted = self._kept(self.uncommitted)
        return self.uncommitted + self._kept(self.signals)

    def reading(self) -> list[Step]:
        """Return the reads of A: a commit with ``.sync_restrict::shared::read::mma::a`` waits for them."""
        self.reads = self._kept(self.reads)
        return list(self.reads)

    def commit(self, signals: list[Step]) -> None:
        """Order the thread's next commit after ``signals``, and so after all steps before them."""
        self.signals = signals
        self.commits += 1
        if self._all:
            self.uncommitted, self.reads = [], []

    def unseen(self) -> list[AsyncOperation]:
        """Return the thread's operations whose completion no thread has seen, one for each line.

        A thread sees it by the phase to which a later commit of this thread brings an arrival.
        """
        return [operation for operation, before in self._unseen.values() if before >= self.seen]

    def _issue(self, step: Step) -> None:
        """Record that the thread itself issues an operation, by its last step."""
        self.uncommitted.append(step)
        # Now, since a step forgets what it is ordered after once that has happened.
        self.reads += [
            read for read in step.after if read.operation is step.operation and read.kind is StepKind.READ_A
        ]
        self._unseen[step.operation.location] = (step.operation, self.commits)

    def before_product(self, accumulator: Hashable) -> tuple[list[Step], list[Step], tuple[Step, ...]]:
        """Return the steps before an mma's read of its operands, and the steps before its write of D.

        The third part is a step that only this module orders before the write, not the ISA.
        """
        if self.copies:
            self.copies = self._kept(self.copies)
        if self.shifts:
            self.shifts = self._kept(self.shifts)
        earlier = self.products.get(accumulator, [])
        assumed: tuple[Step, ...] = ()
        if self.last is not None and self.last not in earlier and (self._all or not self.last.done):
            assumed = (self.last,)
        return self.copies + self.shifts, earlier, assumed

    def product(self, accumulator: Hashable, write: Step) -> None:
        """Record the write of D by an mma that is issued now."""
        self.products[accumulator] = [write]
        self.last = write
        self._issue(write)

    def before_copy(self, refresh: bool) -> tuple[list[Step], tuple[Step, ...]]:
        """Return the steps that must happen before the write of a cp. ``refresh``: the cp is a cp.4x256b.

        The second part are mma, which only this module orders before the write, not the ISA.
        """
        return (self._kept(self.shifts) if refresh else []), tuple(self._all_products())

    def copy(self, write: Step) -> None:
        """Record the write of a cp that is issued now."""
        self.copies.append(write)
        self._issue(write)

    def before_shift(self) -> list[Step]:
        """Return the steps that must happen before a shift."""
        return self._all_products()

    def shift(self, step: Step) -> None:
        """Record a shift that is issued now."""
        self.shifts.append(step)
        self._issue(step)

    def _all_products(self) -> list[Step]:
        return self._kept(step for steps in self.products.values() for step in steps)

    def in_flight(self) -> bool:
        """True if an operation in flight must happen before the thread's next operations."""
        return bool(self._all_products() or self._kept(self.copies) or self._kept(self.shifts))

    def learn(self, other: Issued) -> None:
        """Order the thread's next operations also after everything that comes before those of ``other``."""
        for accumulator, steps in other.products.items():
            flying = self._kept(steps)
            if flying:
                mine = self.products.setdefault(accumulator, [])
                mine[:] = self._kept(mine)
                mine += [step for step in flying if step not in mine]
        self.copies += [step for step in self._kept(other.copies) if step not in self.copies]
        self.shifts += [step for step in self._kept(other.shifts) if step not in self.shifts]


class Commit(SignalOrigin):
    """The commit number ``number`` of a thread; its commits arrive in order."""

    def __init__(self, issued: Issued, number: int) -> None:
        super().__init__()
        self.issued, self.number = issued, number

    def see(self) -> None:
        self.issued.seen = max(self.issued.seen, self.number)

    @property
    def seen(self) -> bool:
        return self.issued.seen > self.number
