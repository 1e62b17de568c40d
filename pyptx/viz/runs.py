"""Figures of runs in the simulator: data flow, copies by thread, the state of an mbarrier, stages over time.

Owns :class:`RunEvents`, the observer that keeps what the figures need.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ..core.errors import SpecError
from ..core.records import dataclass
from ..sim import Observer
from ..sim.api.timeline import initialized
from ..sim.engine.events import AsyncOperation, Step
from ..sim.engine.stream import Sync, SyncKind
from ..sim.memory.access import Access, AccessKind, StateSpace
from ..sim.memory.mbarrier import MBarrier
from ..timeline import Event, EventKind, Timeline, TrackKind
from ..timeline.schema import FILLED, FILLING
from .svg import Canvas, Figure

__all__ = ["RunEvents", "copies", "data_flow", "mbarrier", "pipeline"]

#: The memories of a data flow, from left to right; None is the registers.
_PLACES: tuple[tuple[StateSpace | None, str], ...] = (
    (StateSpace.GLOBAL, "global memory"),
    (StateSpace.SHARED, "shared memory"),
    (StateSpace.TENSOR, "tensor memory"),
    (None, "registers"),
)
_MEMORIES = frozenset(space for space, _ in _PLACES if space is not None)
_COUNTED = {
    SyncKind.MBARRIER_ARRIVE: "arrive",
    SyncKind.MBARRIER_NO_COMPLETE: "arrive",
    SyncKind.MBARRIER_INCREMENT: "one more arrival",
    SyncKind.MBARRIER_EXPECT_TX: "expect_tx",
    SyncKind.MBARRIER_COMPLETE_TX: "complete_tx",
}
_LINE, _CHUNK = 128, 16
_MOST_LINES = 64
_MOST_EVENTS = 200


@dataclass(slots=True)
class _Movement:
    """Accesses of one instruction name that move data between the same two places.

    Attributes:
        source, target: the places; None is the registers.
        name: the instruction.
        count: number of executions by a thread, or of operations of an engine.
        nbytes: bytes that were written to the target, or read from the source if it is not written.
        threads: the threads that issued it, as (CTA, number).
    """

    source: StateSpace | None
    target: StateSpace | None
    name: str
    count: int
    nbytes: int
    threads: set[tuple[Any, int]]


@dataclass(slots=True)
class _Doing:
    """One operation, or one execution of an instruction by threads: what it read and wrote."""

    name: str
    threads: set[tuple[Any, int]]
    read: dict[StateSpace, int]
    written: dict[StateSpace, int]
    #: Number of threads' accesses of each kind; an engine has none.
    by_threads: dict[AccessKind, int]

    @property
    def count(self) -> int:
        """Number of executions by a thread: a thread that copies reads and writes. 1 for an engine."""
        return max(self.by_threads.values()) or 1


@dataclass(slots=True)
class _Piece:
    """Bytes of shared memory that a copy wrote: in which CTA, where, which thread issued it, and when.

    ``issued`` orders the operations of the run.
    """

    cta: Any
    start: int
    size: int
    thread: int
    issued: int


@dataclass(slots=True)
class _Count:
    """One event of an mbarrier: its kind, amount and phase. A completed phase has no kind."""

    kind: SyncKind | None
    amount: int
    phase: int


class RunEvents(Observer):
    """Keeps the events of a simulated run that figures need: ``kernel.simulate(..., observers=[events])``.

    One object observes one run.
    """

    def __init__(self) -> None:
        self._doing: dict[int, _Doing] = {}
        self._kept: list[Any] = []  # actors, so that no id is used twice
        self._pieces: list[_Piece] = []
        #: For each operation, by its id, its number in the order of issue.
        self._issued: dict[int, int] = {}
        self._counts: dict[Hashable, list[_Count]] = {}
        #: Name and expected arrivals of each mbarrier of which a phase has completed, and all names.
        self._names: dict[Hashable, str] = {}
        self._expected: dict[Hashable, int] = {}

    def access(self, access: Access) -> None:
        if access.kind is AccessKind.INIT:
            self._names.update((each.key, each.label) for each in initialized(access))
        if access.space not in _MEMORIES or access.kind not in (AccessKind.READ, AccessKind.WRITE):
            return
        actor: Any = access.actor
        asynchronous = isinstance(actor, AsyncOperation)
        if access.threads is None and not asynchronous:
            return
        if asynchronous:
            cta, name = actor.cta_key, actor.name
            issuing = actor.issuing_threads() if access.threads is None else access.threads
            key = id(actor)
        else:
            cta, name, issuing = (
                actor.cta_key,
                access.kind.value if actor.op is None else actor.op.name,
                access.threads,
            )
            key = -1 - len(self._kept)  # each access of threads is an execution of its own
        threads = [int(thread) for thread in issuing]
        doing = self._doing.get(key)
        if doing is None:
            doing = self._doing[key] = _Doing(name, set(), {}, {}, {AccessKind.READ: 0, AccessKind.WRITE: 0})
            self._kept.append(actor)
        doing.threads |= {(cta, thread) for thread in threads}
        if access.threads is not None:
            doing.by_threads[access.kind] += len(access.footprint.starts)
        moved = doing.written if access.kind is AccessKind.WRITE else doing.read
        moved[access.space] = moved.get(access.space, 0) + access.footprint.nbytes
        if asynchronous and access.space is StateSpace.SHARED and access.kind is AccessKind.WRITE:
            starts = access.footprint.starts.tolist()
            by = threads if access.threads is not None else threads[:1] * len(starts)
            for start, thread in zip(starts, by, strict=True):
                self._pieces.append(_Piece(cta, start, access.footprint.size, thread, self._issued[key]))

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        if id(operation) not in self._issued:
            self._issued[id(operation)] = len(self._issued)
            self._kept.append(operation)

    def sync(self, sync: Sync) -> None:
        if sync.kind in _COUNTED:
            self._counts.setdefault(sync.object, []).append(_Count(sync.kind, sync.amount, sync.phase))

    def completes(self, barrier: MBarrier) -> None:
        self._expected.setdefault(barrier.key, barrier.expected)
        self._counts.setdefault(barrier.key, []).append(_Count(None, barrier.expected, barrier.phase))

    def movements(self) -> list[_Movement]:
        """Return the movements of data, in the order in which the run had the first of each."""
        found: dict[tuple[StateSpace | None, StateSpace | None, str], _Movement] = {}
        for doing in self._doing.values():
            # An operation that reads and writes one memory (the accumulator) counts by what else it reads.
            read: dict[StateSpace | None, int] = {
                space: nbytes for space, nbytes in doing.read.items() if space not in doing.written
            }
            written: dict[StateSpace | None, int] = dict(doing.written.items())
            for source in read or {None: 0}:
                for target in written or {None: 0}:
                    key = source, target, doing.name
                    known = found.get(key)
                    if known is None:
                        known = found[key] = _Movement(source, target, doing.name, 0, 0, set())
                    known.count += doing.count
                    known.nbytes += written[target] if source is None else read[source]
                    known.threads |= doing.threads
        return list(found.values())


def _observed(events: RunEvents) -> RunEvents:
    if not events._doing and not events._counts:
        raise SpecError(
            "the events are empty: no run was observed",
            hint="events = viz.RunEvents(); kernel.simulate(..., observers=[events])",
        )
    return events


def _titles(runs: Sequence[RunEvents], titles: Sequence[str]) -> list[str]:
    names = list(titles) or [""] * len(runs)
    if not runs or len(names) != len(runs):
        raise SpecError(
            f"{len(runs)} runs with {len(titles)} titles: expected runs, and a title for each or none"
        )
    return names


def _many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _size(nbytes: int) -> str:
    return f"{nbytes / 1024:g} KiB" if nbytes % 256 == 0 and nbytes >= 1024 else f"{nbytes} bytes"


def data_flow(runs: Sequence[RunEvents], titles: Sequence[str] = ()) -> Figure:
    """Draw which instructions moved data from which memory to which, in simulated runs.

    A panel for each run has global, shared and tensor memory and the registers from left to right, and an
    arrow for each instruction that moved data between two of them, in the order of the run, with the number
    of its executions by threads (of operations, for an engine) and the bytes that it read.

    Args:
        runs: the observers of the runs.
        titles: a title for each panel.

    Raises:
        SpecError: no run, an observer that saw no run, or another number of titles than runs.
    """
    names = _titles(runs, titles)
    canvas = Canvas("Data flow, from simulated runs")
    for number, (events, title) in enumerate(zip(runs, names, strict=True)):
        with canvas.group(panel=number):
            _flow_panel(canvas, 60 + number * 730, 48, title, _observed(events).movements())
    return canvas.figure()


def _flow_panel(canvas: Canvas, x: float, y: float, title: str, movements: Sequence[_Movement]) -> None:
    step, height = 190, 46
    if title:
        canvas.text(x - 52, y, title, size=13, weight=600)
    top = y + 24
    places = {}
    shown = [each for each in movements if each.source is not each.target]
    for number, (space, name) in enumerate(_PLACES):
        places[space] = at = x + number * step
        canvas.cell(at - 55, top, 110, 26, name, color=number, memory=name)
        canvas.line((at, top + 26), (at, top + 46 + len(shown) * height), dash="3 4")
    for number, each in enumerate(shown):
        line = top + 64 + number * height
        begin, end = places[each.source], places[each.target]
        right = end > begin
        source, target = (dict(_PLACES)[space] for space in (each.source, each.target))
        canvas.line(
            (begin + (4 if right else -4), line),
            (end - (4 if right else -4), line),
            arrow=True,
            source=source,
            target=target,
            name=each.name,
            count=each.count,
            bytes=each.nbytes,
            threads=len(each.threads),
        )
        middle = (begin + end) / 2
        half = _half_width(each.name)
        middle = min(max(middle, x - 52 + half), x + 3 * step + 52 - half)
        canvas.text(middle, line - 11, each.name, size=9.5, anchor="middle", backed=True)
        threads = _many(len(each.threads), "thread", "threads")
        text = f"{each.count} by {threads}, {_size(each.nbytes)}"
        canvas.text(middle, line + 11, text, size=10, anchor="middle", dim=True, backed=True)


def _half_width(name: str) -> float:
    return len(name) * 9.5 * 0.29


def copies(runs: Sequence[RunEvents], titles: Sequence[str] = (), start: int = 0, lines: int = 16) -> Figure:
    """Draw which thread issued the copy that first filled each 16 bytes of shared memory, in simulated runs.

    The copies are ``cp.async`` and copies by TMA.  A cell has the thread's number, and the number of the
    copy among those that the thread issued, from 0.  Cells of one thread have one color.

    Args:
        runs: the observers of the runs; CTA 0 of the first launch is drawn.
        titles: a title for each panel.
        start: offset in shared memory of the first line, a multiple of 128.
        lines: lines of 128 bytes, at most 64.

    Raises:
        SpecError: an observer saw no run, a number is wrong, or no copy wrote to the lines.
    """
    names = _titles(runs, titles)
    if not 1 <= lines <= _MOST_LINES or start < 0 or start % _LINE:
        raise SpecError(
            f"start = {start}, lines = {lines}: expected a multiple of {_LINE}, and 1 to {_MOST_LINES} lines"
        )
    canvas = Canvas("Copies into shared memory, from simulated runs: thread and number of the copy")
    for number, (events, title) in enumerate(zip(runs, names, strict=True)):
        with canvas.group(panel=number):
            _copies_panel(canvas, 60 + number * 540, 44, title, _observed(events), start, lines)
    return canvas.figure()


def _copies_panel(
    canvas: Canvas, x: float, y: float, title: str, events: RunEvents, start: int, lines: int
) -> None:
    width, height = 56, 22
    held: dict[int, _Piece] = {}
    first = min((each.cta for each in events._pieces), default=None)
    for piece in events._pieces:
        if piece.cta == first:
            for address in range(piece.start // _CHUNK * _CHUNK, piece.start + piece.size, _CHUNK):
                held.setdefault(address, piece)
    if not any(start <= address < start + lines * _LINE for address in held):
        raise SpecError(f"no copy wrote to bytes {start} to {start + lines * _LINE - 1} of shared memory")
    own: dict[int, set[int]] = {}
    for piece in events._pieces:
        if piece.cta == first:
            own.setdefault(piece.thread, set()).add(piece.issued)
    number = {(thread, issued): at for thread, its in own.items() for at, issued in enumerate(sorted(its))}
    if title:
        canvas.text(x - 40, y, title, size=13, weight=600)
    y += 20
    shown = []
    for place in range(lines * _LINE // _CHUNK):
        line, column = divmod(place, _LINE // _CHUNK)
        address = start + place * _CHUNK
        if column == 0:
            canvas.text(x - 8, y + (line + 0.5) * height, f"+{address}", size=10, anchor="end", dim=True)
        found = held.get(address)
        if found is not None:
            shown.append(found)
        canvas.cell(
            x + column * width,
            y + line * height,
            width,
            height,
            "" if found is None else f"t{found.thread} #{number[found.thread, found.issued]}",
            color=None if found is None else found.thread,
            size=10,
            address=address,
            thread="" if found is None else found.thread,
            copy="" if found is None else number[found.thread, found.issued],
        )
    threads, copied = {each.thread for each in shown}, {(each.thread, each.issued) for each in shown}
    canvas.text(
        x,
        y + lines * height + 18,
        f"{_many(len(copied), 'copy', 'copies')} by {_many(len(threads), 'thread', 'threads')}",
        weight=600,
    )


def mbarrier(events: RunEvents, name: str, number: int = 0) -> Figure:
    """Draw the state of an mbarrier over the events of a simulated run.

    From event to event: the parity of the phase that is being counted, the pending arrivals, and the bytes
    that are expected but have not arrived.  Below is what each event was.

    Args:
        events: the observer of the run.
        name: the barrier's name, as timelines show it, such as ``full[0]``.
        number: which of several barriers of that name, in the order in which their first phases completed.

    Raises:
        SpecError: the observer saw no run, no phase of such a barrier completed, or it has more than 200
            events.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier`.
    """
    completed = {key: events._names[key] for key in _observed(events)._expected}
    known = [key for key, label in completed.items() if label == name]
    if not 0 <= number < len(known):
        raise SpecError(
            f"there is no mbarrier {name!r} with number {number} of which a phase completed: "
            f"the run has {', '.join(dict.fromkeys(completed.values())) or 'none'}"
        )
    counts = events._counts[known[number]]
    if len(counts) > _MOST_EVENTS:
        raise SpecError(f"{name} has {len(counts)} events: a figure shows at most {_MOST_EVENTS}")
    states = _states(counts, events._expected[known[number]])
    return _mbarrier_figure(name, counts, states)


def _states(counts: Sequence[_Count], expected: int) -> list[tuple[int, int, int]]:
    """Return (phase, pending arrivals, bytes missing) before the first event and after each."""
    phase, pending, tx = 0, expected, 0
    found = [(phase, pending, tx)]
    for each in counts:
        if each.kind is None:
            phase, pending = each.phase, each.amount
        elif each.kind is SyncKind.MBARRIER_EXPECT_TX:
            tx += each.amount
        elif each.kind is SyncKind.MBARRIER_COMPLETE_TX:
            tx -= each.amount
        elif each.kind is SyncKind.MBARRIER_INCREMENT:
            pending += each.amount
        else:
            pending -= each.amount
        found.append((phase, pending, tx))
    return found


def _mbarrier_figure(name: str, counts: Sequence[_Count], states: Sequence[tuple[int, int, int]]) -> Figure:
    canvas = Canvas(f"State of the mbarrier {name} in a simulated run")
    x, y, width, height = 110, 48, 64, 28
    for row, title in enumerate(("phase", "parity", "pending arrivals", "bytes missing")):
        canvas.text(x - 10, y + (row + 0.5) * height, title, anchor="end", size=11)
    for number, (phase, pending, tx) in enumerate(states):
        values = (phase, phase & 1, pending, tx)
        for row, value in enumerate(values):
            colors = (phase, phase & 1, 2 if pending else None, 1 if tx else None)
            canvas.cell(
                x + number * width, y + row * height, width, height, str(value), color=colors[row],
                state=number, row=("phase", "parity", "pending", "tx")[row], value=value,
            )  # fmt: skip
    below = y + 4 * height
    for number, each in enumerate(counts, 1):
        at = x + number * width
        text = "phase completes" if each.kind is None else f"{_COUNTED[each.kind]} {each.amount}"
        canvas.line((at, below), (at, below + 14), bold=each.kind is None)
        canvas.text(
            at, below + 18, text, size=10, anchor="end", up=True, weight=600 if each.kind is None else 400
        )
    canvas.note(
        "Each column is the state after the event at its left edge.",
        "A wait for parity p ends when the parity is not p.",
    )
    return canvas.figure()


def pipeline(timeline: Timeline, group: str = "") -> Figure:
    """Draw the stages of a ring over time, and the waits for them, from the timeline of a simulated run.

    A row for each stage of a :class:`pyptx.kit.Ring` in one CTA: when it is being filled, and when it is
    filled and read; then a row for each warp that waits for stages.  The axis has one step for each
    time at which something begins or ends.  It shows order, not time: the simulator has none.

    Args:
        timeline: ``report.timeline`` of a run with ``timeline=True``.
        group: name of the CTA; by default the first one that has stages.

    Raises:
        SpecError: the timeline has no stages in such a CTA, or more than 200 spans of them.
    """
    staged = list(dict.fromkeys(t.group for t in timeline.tracks if t.kind is TrackKind.STAGE))
    chosen = group or next(iter(staged), "")
    if chosen not in staged:
        raise SpecError(
            f"{timeline.title} has no stages of a ring in {group or 'any CTA'}: "
            f"{', '.join(staged) or 'no CTA'} has some",
            hint="kit.Ring names its stages; give report.timeline of a run with timeline=True",
        )
    drawn: dict[int, list[Event]] = {}
    for kind, wanted in ((TrackKind.STAGE, EventKind.SPAN), (TrackKind.WARP, EventKind.WAIT)):
        for number, track in enumerate(timeline.tracks):
            if track.group == chosen and track.kind is kind:
                its = [
                    each
                    for each in timeline.events
                    if each.track == number and each.kind is wanted and each.stage >= 0
                ]
                if its:
                    drawn[number] = its
    spans = [each for its in drawn.values() for each in its]
    if len(spans) > _MOST_EVENTS:
        raise SpecError(f"{chosen} has {len(spans)} spans: a figure shows at most {_MOST_EVENTS}")
    canvas = Canvas(f"Stages of a ring: {timeline.title}, {chosen}")
    times = sorted({time for each in spans for time in (each.begin, each.end)})
    place = {time: number for number, time in enumerate(times)}
    x, y, height, step = 110, 46, 30, max(22.0, 900 / len(times))
    for row, (number, its) in enumerate(drawn.items()):
        track, top = timeline.tracks[number], y + row * height
        canvas.text(x - 10, top + height / 2, track.name, anchor="end", size=11)
        canvas.line((x, top + height / 2), (x + (len(times) - 1) * step, top + height / 2), dash="2 4")
        for each in its:
            wide = max((place[each.end] - place[each.begin]) * step, 2)
            label, color = _pipeline_label(each, track.kind)
            canvas.cell(
                x + place[each.begin] * step, top + 4, wide, height - 8,
                label if len(label) * 10 * 0.58 < wide else "",
                color=color, size=10, tip=f"{each.name}: {each.barrier}, phase {each.phase}",
                track=track.name, stage=each.stage, phase=each.phase, name=each.name,
                begin=f"{each.begin:g}", end=f"{each.end:g}",
            )  # fmt: skip
    y += len(drawn) * height + 16
    for number, (color, text) in enumerate(((1, FILLING), (0, FILLED), (None, "a wait"))):
        canvas.cell(x + number * 170, y, 16, 12, color=color)
        canvas.text(x + number * 170 + 22, y + 6, text, size=11)
    canvas.note(
        "Numbers are phases: the round in which the stage is used. From left to right is order, not time."
    )
    return canvas.figure()


def _pipeline_label(event: Event, kind: TrackKind) -> tuple[str, int | None]:
    """Return the text and the color of a span."""
    if kind is TrackKind.WARP:
        return event.barrier, None
    return (f"fill {event.phase}", 1) if event.name == FILLING else (f"read {event.phase}", 0)
