"""The waits of parked splits.

A wait knows whether it is over, which steps in flight could end it, how to finish the instruction that caused
it, and how to describe itself in a deadlock report.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ...core.source import SourceLocation
from ..memory.mbarrier import MBarrier
from ..memory.phase_watch import PhaseWatch
from .events import Engines, Step

__all__ = ["Awaited", "BarrierPhase", "Condition", "StepsDone", "Wait", "WaitCause"]


class Awaited(enum.Enum):
    """What a thread waits for, for observers. The values are for messages."""

    PHASE = "a phase of an mbarrier"
    CTA_BARRIER = "a barrier of the CTA"
    CLUSTER_BARRIER = "a barrier of the cluster"
    LANES = "other lanes of the warp"
    COPIES = "copies of the thread"
    PRODUCTS = "products of the tensor core"
    TENSOR_MEMORY = "tensor memory: loads, stores, columns, the peer CTA"
    REGISTERS = "registers of the CTA's pool"
    LAUNCH = "another launch, or CTAs that start"


class WaitCause(enum.IntEnum):
    """Why a wait never ends. The order is that of likelihood: the likeliest cause of a deadlock is first."""

    #: Announced bytes that no operation in flight brings, or bytes that no expect_tx announced.
    BYTES = 0
    #: Registers of the CTA's pool.
    REGISTERS = 1
    #: Lanes of the warp that are elsewhere.
    LANES = 2
    #: Arrivals at an mbarrier.
    ARRIVALS = 3
    #: A changed value among those that a loop reads.
    LOOP = 4
    #: Other threads, free resources, or operations in flight.
    OTHERS = 5


class Wait:
    """Base class of the waits."""

    @property
    def cause(self) -> WaitCause:
        """The kind of event that is missing for the wait to end."""
        return WaitCause.OTHERS

    #: True if an action outside of the waiting thread's cluster may end the wait.
    ends_elsewhere = False
    #: Name of what the threads wait at, such as ``barrier 1``; empty if it has none.
    label = ""

    @property
    def awaited(self) -> Awaited:
        """What the threads wait for."""
        raise NotImplementedError

    def over(self) -> bool:
        raise NotImplementedError

    def unblocking(self) -> list[Step] | None:
        """Return the smallest set of steps in flight that would end this wait, newest first.

        Returns None if no steps in flight can end it.
        """
        return None

    def finish(self) -> None:
        """Complete the instruction. Called once, when the split continues."""

    def describe(self) -> str:
        raise NotImplementedError

    def notes(self) -> tuple[tuple[str, SourceLocation | None], ...]:
        """Return notes for a deadlock report about other lines that concern this wait, each with its line."""
        return ()

    def subscribe(self, wake: Callable[[], None]) -> bool:
        """Arrange that ``wake`` is called when the wait is over.

        Returns False if this is not possible, and the machine must poll the wait.
        """
        del wake
        return False

    def steps_left(self) -> list[Step] | None:
        """Return the steps whose end ends the wait; None if it waits for something else, too."""
        return None

    @property
    def can_time_out(self) -> bool:
        """True if the instruction may time out and answer "not yet"."""
        return False

    def time_out(self) -> None:
        """Complete the instruction with "not yet"."""
        raise NotImplementedError


class BarrierPhase(Wait):
    """Waits for the phase of an ``mbarrier.try_wait`` to complete."""

    __slots__ = ("answer", "barrier", "engines", "parity", "watch")

    def __init__(
        self,
        barrier: MBarrier,
        parity: int,
        answer: Callable[[bool], None],
        engines: Engines,
        watch: PhaseWatch | None = None,
    ) -> None:
        self.barrier, self.parity, self.answer, self.engines = barrier, parity, answer, engines
        #: Record of the phases that the waiting lanes have seen; None if the schedule starves no threads.
        self.watch = watch

    @property
    def awaited(self) -> Awaited:
        return Awaited.PHASE

    def over(self) -> bool:
        return self.barrier.completed(self.parity)

    def subscribe(self, wake: Callable[[], None]) -> bool:
        self.barrier.waiters.append(wake)
        return True

    def unblocking(self) -> list[Step] | None:
        barrier = self.barrier
        arrivals, nbytes = barrier.pending, barrier.tx
        if arrivals == 0 and nbytes == 0:
            return []
        chosen: list[Step] = []
        for serial, signal in reversed(barrier.signals.items()):
            useful = (signal.arrivals and arrivals) or (signal.nbytes and nbytes > 0)
            if not useful:
                continue
            chosen.append(self.engines.pending[serial])
            arrivals -= signal.arrivals
            nbytes -= signal.nbytes
            if arrivals == 0 and nbytes == 0:
                return chosen
        return None

    def finish(self) -> None:
        if self.watch is not None and self.over():
            self.watch.complete(self.barrier.phase)
        elif self.watch is not None:
            self.watch.lapped(self.barrier.phase)
        self.answer(True)

    @property
    def can_time_out(self) -> bool:
        return True

    def time_out(self) -> None:
        self.answer(False)

    @property
    def may_be_lapped(self) -> bool:
        """True if the lanes may wait for an earlier phase of the same parity, which is complete."""
        return self.watch is not None and self.watch.may_be_lapped(self.barrier.phase)

    @property
    def cause(self) -> WaitCause:
        tx = self.barrier.tx
        stuck = tx < 0 or (tx > 0 and not self.barrier.signals)
        return WaitCause.BYTES if stuck else WaitCause.ARRIVALS

    def describe(self) -> str:
        text = f"waits for parity {self.parity} of {self.barrier.describe()}"
        if self.barrier.tx < 0:
            text += f": {-self.barrier.tx} bytes arrived that no expect_tx announced"
        if self.barrier.tx > 0 and not self.barrier.signals:
            text += f": {self.barrier.tx} announced bytes never arrive"
        return text

    def notes(self) -> tuple[tuple[str, SourceLocation | None], ...]:
        return ((f"mbarrier {self.barrier.name} was initialized", self.barrier.location),)


class StepsDone(Wait):
    """Waits until given steps have happened: ``tcgen05.wait``, ``cp.async.bulk.wait_group``."""

    __slots__ = ("_awaited", "action", "steps", "what")

    def __init__(
        self, what: str, steps: list[Step], action: Callable[[], Any] | None = None, *, awaited: Awaited
    ) -> None:
        self.what, self.steps, self.action, self._awaited = what, steps, action, awaited

    @property
    def awaited(self) -> Awaited:
        return self._awaited

    def over(self) -> bool:
        return all(step.done for step in self.steps)

    def steps_left(self) -> list[Step]:
        return [step for step in self.steps if not step.done]

    def unblocking(self) -> list[Step] | None:
        return self.steps_left()[::-1]

    def finish(self) -> None:
        if self.action is not None:
            self.action()

    def describe(self) -> str:
        missing = sum(not step.done for step in self.steps)
        return f"waits for {self.what}: {missing} operation(s) in flight"


class Condition(Wait):
    """Waits until a condition of the machine holds: a CTA barrier, free tensor memory."""

    __slots__ = ("_awaited", "condition", "ends_elsewhere", "label", "on_finish", "text", "warps")

    def __init__(
        self,
        condition: Callable[[], bool],
        text: Callable[[], str],
        on_finish: Callable[[], None] | None = None,
        *,
        awaited: Awaited,
        ends_elsewhere: bool = False,
        label: str = "",
        warps: Callable[[], int] | None = None,
    ) -> None:
        self.label = label
        #: How many warps take part, if it is a barrier of a CTA.
        self.warps = warps
        self.condition, self.text, self.on_finish = condition, text, on_finish
        self.ends_elsewhere = ends_elsewhere
        self._awaited = awaited

    @property
    def awaited(self) -> Awaited:
        return self._awaited

    def over(self) -> bool:
        return self.condition()

    def finish(self) -> None:
        if self.on_finish is not None:
            self.on_finish()

    def describe(self) -> str:
        return self.text()
