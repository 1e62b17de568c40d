"""Asynchronous operations of engines, and the steps (events) of which they consist.

An operation of an engine (a TMA copy, an MMA, a commit, a tensor-memory load) consists of a few steps
(:class:`Step`): it reads the sources, writes the target, and signals. A step may happen once all steps have
happened that the ISA orders before it. The schedule chooses *when* the step happens.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ...core.source import SourceLocation
from ..memory.access import AccessKind, MemoryOrder, Scope
from ..memory.mbarrier import Signal
from ..memory.segments import Fault, Segment
from .accounts import Issuer
from .stream import NO_THREADS, EventStream, GroupKind, Sync, SyncKind
from .work import Work

__all__ = ["AsyncOperation", "Engine", "Engines", "Step", "StepKind", "nothing"]


class Engine(enum.Enum):
    """The asynchronous engines. The values are the names that reports and ``starve:`` schedules use.

    ``TMA``: bulk and tensor copies, the responses of ``clusterlaunchcontrol``. ``MMA``: the tensor core, with
    ``tcgen05.shift`` and ``tcgen05.commit``. ``LD``, ``ST``: loads and stores of tensor memory; ``ST`` has
    ``st.async`` and ``red.async`` as well. ``CP``: ``cp.async`` and ``tcgen05.cp``.
    """

    TMA = "tma"
    MMA = "mma"
    LD = "ld"
    ST = "st"
    CP = "cp"

    #: Members are singletons, so hashing by identity is correct, and faster than hashing the name.
    __hash__ = object.__hash__

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.value


class AsyncOperation:
    """One asynchronous operation: its engine, the threads that issued it, and the line.

    Implements :class:`~.memory.Actor`.
    """

    __slots__ = (
        "_threads",
        "engine",
        "group",
        "issuer",
        "lanes",
        "location",
        "moves_for",
        "name",
        "observed",
        "reduction",
        "takes_padding",
        "unwritten",
        "work",
    )

    def __init__(
        self,
        name: str,
        engine: Engine,
        issuer: Issuer,
        lanes: Sequence[int] | NDArray[np.intp],
        location: SourceLocation | None,
        *,
        takes_padding: bool = False,
        group: GroupKind | None = None,
    ) -> None:
        #: The kind of groups by which threads wait for the operation; None if it only signals mbarriers.
        self.group = group
        #: For a copy of several threads: the threads whose bytes are accessed now, one for each piece.
        self.moves_for: NDArray[np.int64] | None = None
        #: What an observer keeps about the operation.
        self.observed: Any = None
        #: For a reduction: its operation, such as ``add``, and the name of its type.
        self.reduction: tuple[str, str] | None = None
        #: What the operation asks of the hardware, if the instruction states it.
        self.work: Work | None = None
        #: True if the operation copies bytes unchanged, so that unwritten padding may be among them.
        self.takes_padding = takes_padding
        #: The first unwritten byte that the operation has read: its segment and offset, the size of the read,
        #: and flags of the bytes that were written.
        self.unwritten: tuple[Segment, int, int, NDArray[np.uint8]] | None = None
        self.name, self.engine, self.issuer, self.lanes, self.location = name, engine, issuer, lanes, location
        self._threads = ""

    @property
    def threads(self) -> str:
        """The names of the threads that issued the operation, for messages."""
        if not self._threads:
            self._threads = self.issuer.thread_names(self.lanes)
        return self._threads

    @property
    def cta_key(self) -> tuple[int, int]:
        """The CTA that issued the operation."""
        return self.issuer.cta_key

    def issuing_threads(self) -> NDArray[np.int64]:
        """Return the numbers, in their CTA, of the threads that issued the operation."""
        return np.asarray(self.lanes, np.int64) + 32 * self.issuer.warp

    def thread_numbers(self) -> NDArray[np.int64] | None:
        """Return the threads for which a copy of several threads acts now; None for other engines."""
        return self.moves_for

    def description(self, lane: int | None = None) -> str:
        del lane
        return f"{self.engine} engine, for {self.name} issued by {self.threads}"

    def follows_unwritten(self, segment: Segment, position: int, size: int, known: NDArray[np.uint8]) -> bool:
        """Store the read if the operation copies bytes unchanged; else it needs written bytes."""
        if self.takes_padding and self.unwritten is None:
            self.unwritten = segment, position, size, known
        return self.takes_padding

    def local(self, address: Any, size: int, kind: AccessKind) -> tuple[Segment, Any]:
        """Raise a fault: engines cannot access a thread's local memory."""
        del size
        raise Fault(
            Finding(
                RULES["out-of-bounds"],
                f"{kind.value} at local address {address!r}: engines do not reach local memory",
                self.location,
                self.description(),
            )
        )


class StepKind(enum.Enum):
    """The action of a step.

    ``READ_SHARED``: a bulk copy reads the shared memory of the CTA that issued it. ``READ_A``: an MMA reads
    A, and B, from shared memory. ``READ`` reads other sources. ``WRITE`` writes the target. ``SHIFT`` moves
    rows of tensor memory. ``CANCEL`` takes a cluster that has not started. ``SIGNAL`` only signals.
    """

    READ = "read"
    READ_SHARED = "read shared memory"
    READ_A = "read A"
    WRITE = "write"
    SHIFT = "shift"
    CANCEL = "cancel"
    SIGNAL = "signal"

    __hash__ = object.__hash__


class Step:
    """One event of an operation: its action, the steps that it is ordered after, and its signal.

    Attributes:
        serial: number of the step in order of issue, or -1 before.
        nbytes: number of bytes that the step moves, if the operation states it.
    """

    __slots__ = (
        "action",
        "after",
        "assumed",
        "done",
        "edges",
        "kind",
        "nbytes",
        "observed",
        "operation",
        "ordered",
        "part_of",
        "position",
        "serial",
        "signal",
    )

    def __init__(
        self,
        operation: AsyncOperation,
        kind: StepKind,
        action: Callable[[], None],
        after: list[Step],
        signal: Signal | None = None,
        *,
        nbytes: int | None = None,
        assumed: tuple[Step, ...] = (),
    ) -> None:
        self.operation, self.kind, self.action, self.signal = operation, kind, action, signal
        #: Those of the earlier steps that only this machine orders before the step, not the ISA.
        self.assumed = assumed
        #: What an observer keeps about the step.
        self.observed: Any = None
        self.nbytes = nbytes
        self.done: bool = False
        after = [*after, *assumed]
        self.after = [step for step in after if not step.done]
        #: Until the step is issued: all steps that it is ordered after, including those that have happened.
        self.ordered = after
        #: For observers: serial numbers of the steps that this step is ordered after.
        self.edges: tuple[int, ...] = ()
        #: For observers: serial number of the step that this one was split off from, or -1.
        self.part_of = -1
        self.serial = -1
        self.position = -1

    @property
    def ready(self) -> bool:
        """True if every step that this one is ordered after has happened."""
        if self.after:
            self.after = [step for step in self.after if not step.done]
        return not self.after

    def closure(self) -> list[Step]:
        """Return this step and all steps that must happen before it, in an order in which they can happen."""
        ordered: list[Step] = []
        seen: set[int] = set()
        stack: list[tuple[Step, bool]] = [(self, False)]
        while stack:
            step, expanded = stack.pop()
            if expanded:
                ordered.append(step)
            elif not step.done and id(step) not in seen:
                seen.add(id(step))
                stack.append((step, True))
                stack.extend((earlier, False) for earlier in step.after)
        return ordered


def nothing() -> None:
    """Do nothing: the action of a step that only signals."""


def _signaled(step: Step, signal: Signal) -> Sync:
    """Return the event for a signal, with which an engine brings arrivals or completed bytes to an mbarrier.

    The signal is a release at cluster scope.
    """
    kind, amount = SyncKind.MBARRIER_ARRIVE, signal.arrivals
    if signal.nbytes:
        kind, amount = SyncKind.MBARRIER_COMPLETE_TX, signal.nbytes
    barrier, operation = signal.barrier, step.operation
    return Sync(
        kind,
        barrier.key,
        barrier.phase,
        operation.cta_key,
        NO_THREADS,
        MemoryOrder.RELEASE,
        Scope.CLUSTER,
        amount,
        (step.serial,),
        operation.location,
    )


class Engines:
    """All steps of asynchronous operations that have been issued and have not happened yet."""

    def __init__(
        self, acts: Callable[[AsyncOperation], None], on_change: Callable[[], None], stream: EventStream
    ) -> None:
        self._stream = stream
        self.pending: dict[int, Step] = {}
        #: The pending steps in any order, for a random choice. ``position`` of a step is its index here.
        self.pool: list[Step] = []
        self.executed = 0
        #: The engines that have been used.
        self.used: set[Engine] = set()
        self._serial = 0
        self._acts, self._on_change = acts, on_change

    def issue(self, steps: list[Step]) -> None:
        if steps:
            self.used.add(steps[0].operation.engine)
        for step in steps:
            step.serial = self._serial
            self._serial += 1
            self.pending[step.serial] = step
            step.position = len(self.pool)
            self.pool.append(step)
            if step.signal is not None:
                step.signal.barrier.signals[step.serial] = step.signal
        if self._stream.active:
            self._tell(steps)
        for step in steps:
            step.ordered, step.assumed = [], ()

    def _tell(self, steps: list[Step]) -> None:
        """Announce each operation of ``steps`` to the observers once, together with its steps."""
        operations: dict[int, list[Step]] = {}
        for step in steps:
            step.edges = tuple(earlier.serial for earlier in step.ordered if earlier.serial >= 0)
            operations.setdefault(id(step.operation), []).append(step)
        for each in operations.values():
            self._stream.issue(each[0].operation, each)

    def execute(self, step: Step) -> None:
        """Let one step happen. All steps that are ordered before it must have happened."""
        assert step.ready and not step.done, step.kind
        step.done = True
        self._acts(step.operation)
        del self.pending[step.serial]
        last = self.pool.pop()
        if last is not step:
            self.pool[step.position] = last
            last.position = step.position
        if self._stream.active:
            self._stream.happens(step)
        step.action()
        signal = step.signal
        if signal is not None:
            barrier = signal.barrier
            del barrier.signals[step.serial]
            if self._stream.active:
                self._stream.sync(_signaled(step, signal))
            operation = step.operation
            barrier.count(signal, operation, (operation.location, operation.issuer, int(operation.lanes[0])))
        self.executed += 1
        self._on_change()

    def force(self, step: Step) -> None:
        """Let all steps happen that are ordered before ``step``, and then ``step``."""
        for earlier in step.closure():
            self.execute(earlier)
