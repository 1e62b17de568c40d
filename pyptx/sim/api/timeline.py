"""The observer that makes a timeline of a run: what each warp, engine, barrier and stage of a ring does.

Owns :class:`TimelineRecorder`.  Most machines have no time: the axis of the timeline is the number of events
that the recorder has seen, in the order in which the schedule let them happen. A timed machine gives a
:class:`Times`: then the axis is time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field
from typing import Any, Protocol

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...core.tuples import NamedTuple
from ...ir import RingBarriers, RingSide
from ...timeline import Cause, Event, EventKind, Timeline, Track, TrackKind
from ...timeline.schema import FILLED, FILLING, Lines
from ..engine.causes import cause_of_operation, cause_of_wait
from ..engine.events import AsyncOperation, Engine, Step
from ..engine.stream import Fence, Life, LifeKind, Observer, Sync, SyncKind, ThreadWait
from ..engine.waits import BarrierPhase
from ..machine.deadlock import blocked
from ..machine.machine import Machine
from ..memory.access import Access, AccessKind, StateSpace
from ..memory.mbarrier import MBarrier

__all__ = ["DEFAULT_EVENTS", "Initialized", "TimelineRecorder", "Times", "initialized"]

#: Number of events that a timeline keeps, unless the caller says otherwise.
DEFAULT_EVENTS = 200_000

_ENGINES = {
    Engine.TMA: "TMA, bulk copies",
    Engine.MMA: "tensor core",
    Engine.LD: "tensor memory loads",
    Engine.ST: "tensor memory stores, st.async",
    Engine.CP: "cp.async, tcgen05.cp",
}
#: The events that count for a phase of an mbarrier.
_COUNTS = frozenset(
    {
        SyncKind.MBARRIER_ARRIVE,
        SyncKind.MBARRIER_EXPECT_TX,
        SyncKind.MBARRIER_COMPLETE_TX,
        SyncKind.MBARRIER_NO_COMPLETE,
    }
)
#: Accesses to these are not shown: parameters and constants, and registers that were spilled.
_HIDDEN = frozenset({StateSpace.PARAM, StateSpace.CONST, StateSpace.LOCAL})

#: Decimal places of a time in ns.
_PLACES = 3
#: Least number of steps by which the axis goes on after the last event, if waits never end.
_TAIL = 8

_Cta = tuple[int, int]


@dataclass(slots=True)
class _Barrier:
    """An mbarrier: its label, its track, its stage, and the phase that is being counted."""

    label: str
    cta: _Cta
    track: int
    stage: int
    ring: RingBarriers | None
    phase: Event | None = None
    #: The event that counted last, and what it stands for.
    last: tuple[int, Cause] = (-1, Cause.NONE)
    #: The event that completed the newest phase, and what it stands for.
    completed: tuple[int, Cause] = (-1, Cause.NONE)


@dataclass(slots=True)
class _Operation:
    """An operation in flight: its event, and the number of steps that have not happened."""

    operation: AsyncOperation
    index: int
    event: Event
    missing: int


@dataclass(slots=True)
class _Stage:
    """A stage of a ring: the span of its present state, and the event that the state belongs to."""

    track: int
    number: int
    event: Event | None = None


@dataclass
class _Tracks:
    """The tracks, in the order in which they are first used within their kind and CTA."""

    found: list[Track] = field(default_factory=list)
    known: dict[Hashable, int] = field(default_factory=dict)
    #: For each CTA its name, and the number of its multiprocessor.
    groups: dict[_Cta, tuple[str, int]] = field(default_factory=dict)
    #: True once no more events are kept: no track is made any more.
    closed: bool = False

    def of(self, kind: TrackKind, cta: _Cta, name: str, key: Hashable = None) -> int:
        """Return the index of a track, which is made if it is new; -1 if no track is made any more."""
        key = kind, cta, name if key is None else key
        index = self.known.get(key)
        if index is None and not self.closed:
            index = self.known[key] = len(self.found)
            group, sm = self.groups.get(cta, (f"CTA {cta[1]}", -1))
            self.found.append(Track(kind, name, group, cta[1], sm))
        return -1 if index is None else index


class Initialized(NamedTuple):
    """An mbarrier that an access initializes: its key in later events, and how figures and pages call it.

    ``number`` is its index in the buffer that holds it, or -1; ``ring`` the ring that it belongs to.
    """

    key: Hashable
    offset: int
    label: str
    number: int
    ring: RingBarriers | None


def initialized(access: Access) -> Iterator[Initialized]:
    """Yield the mbarriers that an access of kind ``INIT`` initializes."""
    actor: Any = access.actor
    cta, segment = actor.warp.cta, access.segment
    for offset in access.footprint.starts.tolist():
        key = (cta.grid.number, cta.cluster.number, segment.base + offset)
        part = None if segment.parts is None else segment.parts.at(offset)
        number = -1 if part is None else (offset - part.start) // 8
        label = f"mbarrier {offset:#x}"
        if part is not None:
            label = f"{part.name}[{number}]" if part.end - part.start > 8 else part.name
        yield Initialized(key, offset, label, number, None if part is None else part.ring)


class Times(Protocol):
    """The times of a machine that has them, in ns."""

    def now(self) -> float:
        """Return when the event happens that the machine sends."""

    def block_began(self) -> float:
        """Return when the running warp began its block of code; while a wait ends, when its warp goes on."""


class TimelineRecorder(Observer):
    """Records a timeline of the run that it observes; at most ``limit`` events.

    Accesses, arrivals and fences of one warp at one line become one span, as long as the warp does nothing
    else in between. With ``times``, the spans of one block of code divide its time evenly.
    """

    def __init__(self, machine: Machine, limit: int = DEFAULT_EVENTS, times: Times | None = None) -> None:
        self._machine = machine
        self._limit = limit
        self._times = times
        #: The place of the present event on the axis: its number, or its time.
        self._order: float = 0
        #: For each warp with times, when its block began, and the spans in it.
        self._blocks: dict[tuple[_Cta, int], tuple[float, list[Event]]] = {}
        self._events: list[Event] = []
        self._dropped = 0
        self._tracks = _Tracks()
        self._lines = Lines()
        #: The span of what each warp does now, and its index: by CTA and warp.
        self._doing: dict[tuple[_Cta, int], tuple[int, Event]] = {}
        self._operations: dict[int, _Operation] = {}
        self._step_operation: dict[int, _Operation] = {}
        self._barriers: dict[Hashable, _Barrier] = {}
        self._stages: dict[tuple[_Cta, int, int], _Stage] = {}
        self._waits: dict[int, tuple[ThreadWait, Event]] = {}
        #: Waits that have timed out, by CTA, warp and lanes; the lanes may wait again for the same phase.
        self._timed_out: dict[tuple[_Cta, int, int], Event] = {}

    def _tick(self) -> None:
        """Go on to the next event of the machine."""
        if self._times is None:
            self._order += 1
        else:
            self._order = self._times.now()

    # --- events: threads --------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        if access.kind is AccessKind.INIT:
            self._begin_barriers(access)
        if access.threads is None or access.kind is AccessKind.PROBE or access.space in _HIDDEN:
            return
        actor: Any = access.actor
        if isinstance(actor, AsyncOperation):
            return  # cp.async: its engine's track shows the operation
        self._tick()
        name = actor.op.name if actor.op is not None else access.kind.value
        self._do(actor.cta_key, access.threads, name, actor.location)

    def fence(self, fence: Fence) -> None:
        self._tick()
        self._do(fence.cta, fence.threads, fence.name, fence.location)

    def sync(self, sync: Sync) -> None:
        self._tick()
        if len(sync.threads):
            self._do(sync.cta, sync.threads, sync.kind.value, sync.location)
        if sync.kind in _COUNTS:
            operation = self._step_operation.pop(sync.steps[0], None) if sync.steps else None
            barrier = self._barriers.get(sync.object)
            if barrier is not None:
                self._count(barrier, sync, operation)

    def _do(self, cta: _Cta, threads: Any, name: str, location: SourceLocation | None) -> None:
        """Show that warps execute an instruction: lengthen their spans, or begin new ones."""
        if not len(threads):
            return
        first, last = int(threads[0]) >> 5, int(threads[-1]) >> 5
        warps = (first,) if first == last else sorted({int(thread) >> 5 for thread in threads})
        line = self._lines.add(location)
        began = self._order - 1 if self._times is None else self._times.block_began()
        if self._order <= began:
            return  # the end of a wait, which is an event of its own
        for warp in warps:
            doing = self._doing.get((cta, warp))
            if doing is not None and doing[1].line == line and doing[1].name == name:
                event = doing[1]
                event.end = self._order
            else:
                event = Event(self._warp(cta, warp), EventKind.SPAN, began, self._order, name, line=line)
                self._doing[cta, warp] = self._keep(event), event
            if self._times is not None:
                self._divide((cta, warp), event, began)

    def _divide(self, warp: tuple[_Cta, int], event: Event, began: float) -> None:
        """Give each span of the block that a warp began at ``began`` an even part of the block's time."""
        known = self._blocks.get(warp)
        if known is None or known[0] != began:
            known = self._blocks[warp] = began, []
        spans = known[1]
        if not spans or spans[-1] is not event:
            spans.append(event)
        part = max(0.0, self._order - began) / len(spans)
        for number, each in enumerate(spans):
            # The first one may go on from an earlier block.
            each.begin = min(each.begin, began) if number == 0 else began + number * part
            each.end = began + (number + 1) * part

    def _warp(self, cta: _Cta, warp: int) -> int:
        return self._tracks.of(TrackKind.WARP, cta, f"warp {warp}", warp)

    # --- events: waits ----------------------------------------------------------------------------

    def waits(self, wait: ThreadWait) -> None:
        self._tick()
        event = self._waiting(wait)
        before = self._timed_out.pop((wait.cta, wait.warp, wait.mask), None)
        if before is not None and _same_wait(before, event):
            # The wait had only timed out.
            before.open, before.cause = True, event.cause
            event = before
        else:
            self._keep(event)
        self._waits[id(wait)] = wait, event
        self._doing.pop((wait.cta, wait.warp), None)

    def held(
        self,
        cta: _Cta,
        warp: int,
        name: str,
        location: SourceLocation | None,
        cause: Cause,
        begin: float,
        end: float,
    ) -> None:
        """Show that a warp could not go on from ``begin`` to ``end``, in ns, at no wait of its own."""
        event = Event(self._warp(cta, warp), EventKind.WAIT, begin, end, name, cause)
        event.line = self._lines.add(location)
        self._keep(event)
        self._doing.pop((cta, warp), None)

    def _waiting(self, wait: ThreadWait) -> Event:
        """Return the event of a wait that has begun."""
        track, now = self._warp(wait.cta, wait.warp), self._order
        event = Event(track, EventKind.WAIT, now, now, wait.name, open=True)
        event.line = self._lines.add(wait.location)
        event.cause = cause_of_wait(wait.wait.awaited)
        lanes = wait.mask.bit_count()
        event.detail = "" if lanes == 32 else f"{lanes} lane{'' if lanes == 1 else 's'}"
        if isinstance(wait.wait, BarrierPhase):
            barrier = wait.wait.barrier
            known = self._barriers.get(barrier.key)
            event.barrier, event.phase = barrier.name, barrier.phase
            if known is not None:
                event.barrier, event.stage = known.label, known.stage
            event.cause = self._missing(barrier)
        return event

    def resumes(self, wait: ThreadWait) -> None:
        self._tick()
        _, event = self._waits.pop(id(wait))
        self._close(event)
        if not isinstance(wait.wait, BarrierPhase):
            return
        barrier = self._barriers.get(wait.wait.barrier.key)
        if wait.wait.barrier.phase == event.phase:
            self._timed_out[wait.cta, wait.warp, wait.mask] = event
        elif barrier is not None:
            event.by, event.cause = barrier.completed

    def _missing(self, barrier: MBarrier) -> Cause:
        """Return what the present phase of an mbarrier lacks."""
        if barrier.tx:
            return Cause.BYTES
        for signal_of in barrier.signals:
            known = self._step_operation.get(signal_of)
            if known is not None:
                return cause_of_operation(known.operation)
        known_barrier = self._barriers.get(barrier.key)
        before = known_barrier.completed[1] if known_barrier is not None else Cause.NONE
        return Cause.WARPS if before is Cause.NONE else before

    # --- events: engines --------------------------------------------------------------------------

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        self._tick()
        threads = operation.issuing_threads()
        self._do(operation.cta_key, threads, operation.name, operation.location)
        known = self._operations.get(id(operation))
        if known is None:
            track = self._tracks.of(TrackKind.ENGINE, operation.cta_key, _ENGINES[operation.engine])
            now = self._order
            event = Event(track, EventKind.SPAN, now, now, operation.name, open=True)
            event.line = self._lines.add(operation.location)
            event.detail = f"issued by warp {operation.issuer.warp}"
            known = _Operation(operation, self._keep(event), event, 0)
            self._operations[id(operation)] = known
        nbytes = max((step.nbytes or 0 for step in steps), default=0)
        if nbytes and "bytes" not in known.event.detail:
            known.event.detail += f", {nbytes} bytes"
        for step in steps:
            known.missing += 1
            self._step_operation[step.serial] = known
            if step.signal is not None:
                barrier = self._barriers.get(step.signal.barrier.key)
                if barrier is not None:
                    known.event.barrier, known.event.stage = barrier.label, barrier.stage

    def happens(self, step: Step) -> None:
        self._tick()
        known = self._step_operation.get(step.serial)
        if known is None:
            return
        known.missing -= 1
        known.event.end = max(known.event.begin, self._order)
        if step.signal is None:
            del self._step_operation[step.serial]
        if not known.missing:
            known.event.open = False
            del self._operations[id(known.operation)]

    # --- events: barriers -------------------------------------------------------------------------

    def _begin_barriers(self, access: Access) -> None:
        actor: Any = access.actor
        cta = actor.warp.cta
        for each in initialized(access):
            track = self._tracks.of(TrackKind.BARRIER, cta.key, each.label, each.offset)
            stage = each.number if each.ring else -1
            self._barriers[each.key] = _Barrier(each.label, cta.key, track, stage, each.ring)

    def _count(self, barrier: _Barrier, sync: Sync, operation: _Operation | None) -> None:
        """Show that arrivals or bytes, of threads or of an operation, count for the phase of a barrier."""
        now = self._order
        if barrier.phase is None:
            event = Event(barrier.track, EventKind.SPAN, now, now, f"phase {sync.phase}", open=True)
            event.barrier, event.phase, event.stage = barrier.label, sync.phase, barrier.stage
            barrier.phase = event
            self._keep(event)
            if barrier.ring is not None and barrier.ring.side is RingSide.FULL:
                self._state(barrier, FILLING, sync.phase)
        index, cause, who = -1, Cause.WARPS, ""
        if operation is not None:
            index, cause = operation.index, cause_of_operation(operation.operation)
            who = f"by {operation.operation.name}"
        elif len(sync.threads):
            warp = int(sync.threads[0]) >> 5
            index, who = self._doing.get((sync.cta, warp), (-1, None))[0], f"by warp {warp}"
            if sync.cta != barrier.cta:
                cause = Cause.CLUSTER
        barrier.last = index, cause
        if sync.cta != barrier.cta:
            who += f" of {self._tracks.groups[sync.cta][0]}"
        instant = Event(barrier.track, EventKind.INSTANT, now, now, sync.kind.value, cause)
        instant.barrier, instant.phase, instant.stage = barrier.label, sync.phase, barrier.stage
        instant.line, instant.detail = self._lines.add(sync.location), f"{sync.amount} {who}"
        self._keep(instant)

    def completes(self, barrier: MBarrier) -> None:
        known = self._barriers.get(barrier.key)
        if known is None or known.phase is None:
            return
        known.completed = known.last
        event, known.phase = known.phase, None
        self._close(event)
        event.cause, event.by = known.last[1], known.last[0]
        if known.ring is not None:
            full = known.ring.side is RingSide.FULL
            self._state(known, FILLED if full else "", barrier.phase - 1)

    def _state(self, barrier: _Barrier, state: str, phase: int) -> None:
        """Show the state of the stage to which a barrier of a ring belongs; "" if the stage is empty."""
        assert barrier.ring is not None
        key = barrier.cta, barrier.ring.ring, barrier.stage
        stage = self._stages.get(key)
        if stage is None:
            name = f"{barrier.ring.name} stage {barrier.stage}"
            track = self._tracks.of(TrackKind.STAGE, barrier.cta, name, (barrier.ring.ring, barrier.stage))
            stage = self._stages[key] = _Stage(track, barrier.stage)
        if stage.event is not None:
            self._close(stage.event)
            stage.event = None
        if state:
            event = Event(stage.track, EventKind.SPAN, self._order, self._order, state, open=True)
            event.phase, event.stage, event.barrier = phase, stage.number, barrier.label
            stage.event = event
            self._keep(event)

    # --- events: life -----------------------------------------------------------------------------

    def begin(self, life: Life) -> None:
        if life.kind is LifeKind.CTA:
            cta: Any = life.key
            before = f"launch {cta[0]}, " if len(self._machine.grids) > 1 else ""
            live = self._machine.residency.live.get(cta)
            self._tracks.groups[cta] = before + life.name, -1 if live is None else live.multiprocessor.number

    def end(self, life: Life) -> None:
        """End what is open in a CTA that ends, and forget its barriers."""
        if life.kind is not LifeKind.CTA:
            return
        cta: Any = life.key
        ended: list[Event | None] = []
        for doing in [key for key in self._doing if key[0] == cta]:
            del self._doing[doing]
        for stage in [key for key in self._stages if key[0] == cta]:
            ended.append(self._stages.pop(stage).event)
        for key in [key for key, barrier in self._barriers.items() if barrier.cta == cta]:
            ended.append(self._barriers.pop(key).phase)
        for waited in [key for key in self._timed_out if key[0] == cta]:
            del self._timed_out[waited]
        for event in ended:
            if event is not None:
                self._close(event)

    def _close(self, event: Event) -> None:
        """End an event now. With times, events of different warps do not come in the order of their times."""
        event.end, event.open = max(event.begin, self._order), False

    # --- the end ----------------------------------------------------------------------------------

    def _keep(self, event: Event) -> int:
        """Keep an event, and return its index; -1 if there is no room for it."""
        if len(self._events) >= self._limit:
            self._dropped += 1
            return -1
        self._events.append(event)
        self._tracks.closed = len(self._events) == self._limit
        return len(self._events) - 1

    def timeline(self, title: str, notes: Sequence[str]) -> Timeline:
        """Return the timeline, after the run has ended. What has not ended stays open."""
        self._tick()
        told = {id(wait.wait): event for wait, event in self._waits.values()}
        for each in blocked(self._machine):
            warp = each.split.warp
            event = told.get(id(each.wait)) if each.wait is not None else None
            if event is None:
                doing = self._doing.pop((warp.cta.key, warp.index), None)
                begin = doing[1].end if doing is not None else 0
                event = Event(
                    self._warp(warp.cta.key, warp.index), EventKind.WAIT, begin, begin, "", open=True
                )
                event.cause = Cause.LOOP if each.loops else Cause.LANES
                event.line = self._lines.add(each.location)
                self._keep(event)
            elif each.wait is not None and isinstance(each.wait, BarrierPhase):
                event.cause = self._missing(each.wait.barrier)
            event.detail = each.text
            event.name = event.name or each.text
        if self._times is not None:
            self._order = max([self._order, *(event.end for event in self._events)])
        elif self._waits or any(event.open and event.kind is EventKind.WAIT for event in self._events):
            # Without a tail, waits that begin at the very end and never end would be too short to be seen.
            self._order += max(_TAIL, int(self._order) // 8)
        for event in self._events:
            if event.open:
                event.end = self._order
            if self._times is not None:
                # Events that follow each other must not overlap by the last bits of their times.
                event.begin, event.end = round(event.begin, _PLACES), round(event.end, _PLACES)
        tracks, events = self._sorted()
        hangs, lines = self._machine.stuck, self._lines.found
        unit = "order" if self._times is None else "ns"
        return Timeline(title, unit, tracks, events, lines, self._dropped, list(notes), hangs=hangs)

    def _sorted(self) -> tuple[list[Track], list[Event]]:
        """Return the tracks, those of one CTA together and by kind, and the events with their new numbers."""
        kinds = list(TrackKind)
        keys = {index: key for key, index in self._tracks.known.items()}
        ctas = {index: key[1] for index, key in keys.items()}  # type: ignore[index]

        def place(index: int) -> tuple[Any, ...]:
            track = self._tracks.found[index]
            part: Any = keys[index][2]  # type: ignore[index]
            number = part if isinstance(part, tuple) else (part,)
            return ctas[index], kinds.index(track.kind), _numbers(number)

        order = sorted(range(len(self._tracks.found)), key=place)
        new = {old: position for position, old in enumerate(order)}
        for event in self._events:
            event.track = new[event.track]
        return [self._tracks.found[index] for index in order], self._events


def _same_wait(before: Event, event: Event) -> bool:
    """Return True if two waits of the same lanes are for the same phase, at the same line."""
    return (before.barrier, before.phase, before.line) == (event.barrier, event.phase, event.line)


def _numbers(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key that sorts numbers as numbers, and texts after them."""
    return tuple((0, part, "") if isinstance(part, int) else (1, 0, str(part)) for part in parts)
