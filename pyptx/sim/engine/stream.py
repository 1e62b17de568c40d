"""The stream of events that a machine sends to its observers.

Owns :class:`Observer`, the base class of all listeners (a sanitizer, a clock, a timeline, a recorder), the
records that observers get, and :class:`EventStream`, which hands each event to every observer. A machine
without observers makes no records: every place that sends an event checks ``if stream.active`` first.

Events come in the order in which the simulator executes them, under the schedule of the run. The records also
contain what holds for every schedule: the order edges of an operation's steps are those that the ISA gives at
the moment of issue, whether or not the earlier steps have happened by then.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...core.source import SourceLocation
from ..memory.access import Access, MemoryOrder, Scope, StateSpace

if TYPE_CHECKING:
    from ..memory.mbarrier import MBarrier
    from .events import AsyncOperation, Step
    from .waits import Wait

__all__ = [
    "NO_THREADS",
    "EventStream",
    "Fence",
    "FenceKind",
    "GroupKind",
    "Life",
    "LifeKind",
    "Observer",
    "Sync",
    "SyncKind",
    "ThreadWait",
]

#: Numbers of threads in their CTA.
Threads = NDArray[np.int64]
#: The value for an event of an engine: it has no threads.
NO_THREADS: Threads = np.zeros(0, np.int64)


class SyncKind(enum.Enum):
    """The kind of a synchronization event. ``*_WAIT`` is sent when the wait ends, not when it begins.

    The kinds of tensor memory and of registers are sent when an instruction asks, not when it gets what it
    asks for. Their object is the CTA's.
    """

    MBARRIER_ARRIVE = "mbarrier.arrive"
    MBARRIER_EXPECT_TX = "mbarrier.expect_tx"
    MBARRIER_COMPLETE_TX = "mbarrier.complete_tx"
    MBARRIER_WAIT = "mbarrier.wait"
    BAR_ARRIVE = "bar.arrive"
    BAR_WAIT = "bar.wait"
    WARP_ARRIVE = "bar.warp.arrive"
    WARP_WAIT = "bar.warp.wait"
    CLUSTER_ARRIVE = "barrier.cluster.arrive"
    CLUSTER_WAIT = "barrier.cluster.wait"
    GROUP_COMMIT = "commit_group"
    GROUP_WAIT = "wait_group"
    LAUNCH_DEPENDENTS = "griddepcontrol.launch_dependents"
    GRID_WAIT = "griddepcontrol.wait"
    REGISTERS_USED = "use of loaded registers"
    MBARRIER_INCREMENT = "one more pending arrival of an mbarrier"
    MBARRIER_NO_COMPLETE = "arrival that must not complete the phase"
    TENSOR_ALLOCATE = "tcgen05.alloc"
    TENSOR_FREE = "tcgen05.dealloc"
    REGISTERS_TAKE = "setmaxnreg.inc"
    REGISTERS_RELEASE = "setmaxnreg.dec"
    LANES_MATCH = "match.sync"

    __hash__ = object.__hash__


class GroupKind(enum.Enum):
    """The kind of the operations in a group. It is part of ``Sync.object`` for a commit and a wait of groups.

    A wait for ``BULK_READ`` covers only the reads of the sources. Loads and stores of tcgen05 have no groups:
    a wait for them covers all earlier ones of the thread. ``TCGEN05_COMMIT`` marks the operations that a
    ``tcgen05.commit`` of the thread covers; threads wait for its signal on an mbarrier.
    """

    CP_ASYNC = "cp.async"
    BULK = "cp.async.bulk"
    BULK_READ = "cp.async.bulk.read"
    WGMMA = "wgmma"
    TCGEN05_LD = "tcgen05.ld"
    TCGEN05_ST = "tcgen05.st"
    TCGEN05_COMMIT = "tcgen05.commit"

    __hash__ = object.__hash__


@dataclass(eq=False, slots=True)
class Sync:
    """One thread, warp or engine takes part in a synchronization.

    Attributes:
        kind: what the thread, warp or engine does.
        object: the barrier, group or launch, as a key that is equal for all events of one object.
        phase: number of the object's phase, round or generation, from 0.
        cta: the CTA whose threads take part, as (launch, number in the grid).
        threads: the threads' numbers in the CTA; empty for an engine.
        semantics: the memory order, such as release.
        scope: the threads to which the order applies.
        amount: number of arrivals, of bytes, or of the newest groups that a wait leaves out.
        steps: serial number of the step by which an engine signals.
        location: the line of the instruction.
    """

    kind: SyncKind
    object: Hashable
    phase: int
    cta: tuple[int, int]
    threads: Threads
    semantics: MemoryOrder = MemoryOrder.RELAXED
    scope: Scope = Scope.CTA
    amount: int = 0
    steps: tuple[int, ...] = ()
    location: SourceLocation | None = None


class FenceKind(enum.Enum):
    """What a fence orders."""

    MEMORY = "memory accesses"
    MBARRIER_INIT = "initializations of mbarriers"
    ASYNC_PROXY = "generic and async proxy"
    ALIAS_PROXY = "accesses through aliased addresses"
    TENSORMAP_RELEASE = "writes of tensor maps"
    TENSORMAP_ACQUIRE = "uses of a tensor map"
    WGMMA = "registers of wgmma"
    TCGEN05_BEFORE = "tcgen05 operations before a synchronization"
    TCGEN05_AFTER = "tcgen05 operations after a synchronization"

    __hash__ = object.__hash__


@dataclass(eq=False, slots=True)
class Fence:
    """The event that threads execute a fence.

    Attributes:
        name: the instruction as written, without operands: ``fence.proxy.async.shared::cta``.
        kind: what the fence orders.
        form: id of the fence's form in the instruction table.
        modifiers: chosen value of each modifier, by the modifier's name in the table.
        cta: as in :class:`Sync`.
        threads: as in :class:`Sync`.
        semantics, scope: memory order of the fence, and the threads to which it applies.
        spaces: for a proxy fence, the state spaces of the accesses that it orders; for a memory fence, the
            space to which ``.sync_restrict`` restricts it, empty for all.
        own_memory: True if it orders only accesses to shared memory of the CTA that executes it.
        footprint: for a fence of the tensor-map proxy, address and size of the bytes that it names.
        location: the line of the instruction.
    """

    name: str
    kind: FenceKind
    form: str
    modifiers: dict[str, str]
    cta: tuple[int, int]
    threads: Threads
    semantics: MemoryOrder = MemoryOrder.ACQ_REL
    scope: Scope = Scope.CTA
    spaces: tuple[StateSpace, ...] = ()
    own_memory: bool = False
    footprint: tuple[int, int] | None = None
    location: SourceLocation | None = None


class LifeKind(enum.Enum):
    """The kind of a :class:`Life`. Segments are in global memory; shared memory lives as long as its CTA."""

    GRID = "grid"
    CTA = "cta"
    SEGMENT = "segment"
    TENSOR_MEMORY = "tensor memory"


@dataclass(frozen=True, slots=True)
class Life:
    """The event that a launch, a CTA or an allocation begins or ends.

    Attributes:
        kind: the kind of what begins or ends.
        key: the launch's number; (launch, CTA number); the segment's base address; for tensor memory
            (multiprocessor, first column).
        size: threads of a CTA, CTAs of a grid, bytes of a segment, columns of tensor memory.
        name: a name for messages.
        cta: the CTA that begins or ends, or that allocates tensor memory.
    """

    kind: LifeKind
    key: Hashable
    size: int
    name: str = ""
    cta: tuple[int, int] | None = None


@dataclass(eq=False, slots=True)
class ThreadWait:
    """Lanes of a warp wait. The same object is sent when the wait begins and when it ends.

    Attributes:
        cta: the CTA, as (launch, number in the grid).
        warp: the warp's number in the CTA.
        mask: the lanes, lane 0 in bit 0.
        name: the instruction that waits.
        wait: what the lanes wait for.
        location: the line of the instruction.
    """

    cta: tuple[int, int]
    warp: int
    mask: int
    name: str
    wait: Wait
    location: SourceLocation | None


class Observer:
    """Base class of listeners. Override the methods of the events of interest.

    An observer must not change the machine.
    """

    def access(self, access: Access) -> None:
        """Threads or an engine access memory. Sent before the bytes change."""

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        """A thread has issued an operation.

        Each step has its ``serial`` and its ``edges``: the serial numbers of the steps that the ISA orders
        before it.
        """

    def happens(self, step: Step) -> None:
        """A step of an operation happens. Sent before its accesses."""

    def sync(self, sync: Sync) -> None:
        """A thread, warp or engine takes part in a synchronization."""

    def fence(self, fence: Fence) -> None:
        """Threads execute a fence."""

    def begin(self, life: Life) -> None:
        """A launch, a CTA or an allocation begins."""

    def end(self, life: Life) -> None:
        """A launch, a CTA or an allocation has ended."""

    def waits(self, wait: ThreadWait) -> None:
        """Lanes of a warp begin to wait."""

    def resumes(self, wait: ThreadWait) -> None:
        """Lanes of a warp no longer wait: what they wait for is there, or the instruction timed out."""

    def completes(self, barrier: MBarrier) -> None:
        """A phase of an mbarrier has completed; ``barrier.phase`` is the next one."""


class EventStream(Observer):
    """Hands every event to each of its observers, in the order in which they were added."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        #: True if there are observers. Every place that sends an event tests this first.
        self.active = False
        #: The observers that get the events of waits and of completed phases, which few observers need. The
        #: places that send these events test this list first.
        self.waiting: list[Observer] = []

    def add(self, observer: Observer) -> None:
        """Send all further events to ``observer``."""
        self._observers.append(observer)
        self.active = True
        kind = type(observer)
        asked = (kind.waits, kind.resumes, kind.completes)
        if asked != (Observer.waits, Observer.resumes, Observer.completes):
            self.waiting.append(observer)

    def access(self, access: Access) -> None:
        for observer in self._observers:
            observer.access(access)

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        for observer in self._observers:
            observer.issue(operation, steps)

    def happens(self, step: Step) -> None:
        for observer in self._observers:
            observer.happens(step)

    def sync(self, sync: Sync) -> None:
        for observer in self._observers:
            observer.sync(sync)

    def fence(self, fence: Fence) -> None:
        for observer in self._observers:
            observer.fence(fence)

    def begin(self, life: Life) -> None:
        for observer in self._observers:
            observer.begin(life)

    def end(self, life: Life) -> None:
        for observer in self._observers:
            observer.end(life)

    def waits(self, wait: ThreadWait) -> None:
        for observer in self.waiting:
            observer.waits(wait)

    def resumes(self, wait: ThreadWait) -> None:
        for observer in self.waiting:
            observer.resumes(wait)

    def completes(self, barrier: MBarrier) -> None:
        for observer in self.waiting:
            observer.completes(barrier)
