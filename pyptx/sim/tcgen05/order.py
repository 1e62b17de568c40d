"""What of a thread's tensor-core operations happens after what.

PTX ISA `#tcgen05-memory-consistency-model-pipelined-instructions`_ has the pairs that execute in the order of
their instructions: mma and mma of one accumulator and shape, cp and mma, shift and mma, shift and
cp.4x256b, mma and shift.  All of one thread; between threads, where ``tcgen05.fence`` on both sides of a
synchronization orders them.

Two pairs more are kept here.  A cp writes after an mma: the list lacks it, but CUTLASS's block-scaled main
loops copy the next stage's scales over those that the MMAs before may still read, with nothing in between.
And an mma writes D after the thread's earlier one has written its own, whatever accumulators these are:
FlashAttention lets S of the next block overwrite P, which the product before reads, with nothing in between
either, and Triton's documentation says that they execute in order.  When an mma reads what an earlier one
writes as another accumulator is still open.

A thread's commits arrive in their order, too: NVIDIA's kernels for pairs wait for the last one alone before
their CTAs end, and Triton's documentation of ``tcgen05_commit`` says so.

That the synchronization between two fences was one is not checked: a fence::after_thread_sync takes what any
fence::before_thread_sync of the CTA has released until then.

.. _#tcgen05-memory-consistency-model-pipelined-instructions:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-memory-consistency-model-pipelined-instructions
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ..engine.events import Step, StepKind

__all__ = ["Issued"]


class Issued:
    """Operations in flight that a thread is ordered behind: its own, and those that it learned of."""

    __slots__ = ("_all", "copies", "last", "products", "shifts", "signals", "uncommitted")

    def __init__(self, *, all_steps: bool = False) -> None:
        #: Keep steps that have happened: observers see the order of the ISA, whatever the schedule.
        self._all = all_steps
        #: Last writes of D, by accumulator and shape.
        self.products: dict[Hashable, list[Step]] = {}
        #: Last write of any D by the thread itself.
        self.last: Step | None = None
        self.copies: list[Step] = []
        self.shifts: list[Step] = []
        #: What the thread itself issued: its next commit covers it.
        self.uncommitted: list[Step] = []
        #: Signals of the thread's last commit.
        self.signals: list[Step] = []

    def _kept(self, steps: Iterable[Step]) -> list[Step]:
        return list(steps) if self._all else [step for step in steps if not step.done]

    def tracked(self) -> list[Step]:
        """What a commit waits for."""
        self.uncommitted = self._kept(self.uncommitted)
        return self.uncommitted + self._kept(self.signals)

    def reading(self) -> list[Step]:
        """What a commit waits for with ``.sync_restrict::shared::read::mma::a``: that A was read."""
        self.uncommitted = self._kept(self.uncommitted)
        return [
            read
            for step in self.uncommitted
            for read in step.after
            if read.operation is step.operation and read.kind is StepKind.READ_A
        ]

    def commit(self, signals: list[Step]) -> None:
        """The thread's next commit follows ``signals``, and so everything that these follow."""
        self.signals = signals
        if self._all:
            self.uncommitted = []

    def before_product(self, accumulator: Hashable) -> tuple[list[Step], list[Step]]:
        """What an mma reads its operands after, and what it writes D after."""
        if self.copies:
            self.copies = self._kept(self.copies)
        if self.shifts:
            self.shifts = self._kept(self.shifts)
        earlier = self.products.get(accumulator, [])
        if self.last is not None and (self._all or not self.last.done):
            earlier = [*earlier, self.last]
        return self.copies + self.shifts, earlier

    def product(self, accumulator: Hashable, write: Step) -> None:
        self.products[accumulator] = [write]
        self.last = write
        self.uncommitted.append(write)

    def before_copy(self, refresh: bool) -> list[Step]:
        """What a cp writes after; ``refresh``: it is a cp.4x256b."""
        return self._all_products() + (self._kept(self.shifts) if refresh else [])

    def copy(self, write: Step) -> None:
        self.copies.append(write)
        self.uncommitted.append(write)

    def before_shift(self) -> list[Step]:
        return self._all_products()

    def shift(self, step: Step) -> None:
        self.shifts.append(step)
        self.uncommitted.append(step)

    def _all_products(self) -> list[Step]:
        return self._kept(step for steps in self.products.values() for step in steps)

    def in_flight(self) -> bool:
        """Whether anything is left to be ordered behind."""
        return bool(self._all_products() or self._kept(self.copies) or self._kept(self.shifts))

    def learn(self, other: Issued) -> None:
        """Be ordered behind what ``other`` is ordered behind."""
        for accumulator, steps in other.products.items():
            flying = self._kept(steps)
            if flying:
                mine = self.products.setdefault(accumulator, [])
                mine[:] = self._kept(mine)
                mine += [step for step in flying if step not in mine]
        self.copies += [step for step in self._kept(other.copies) if step not in self.copies]
        self.shifts += [step for step in self._kept(other.shifts) if step not in self.shifts]
