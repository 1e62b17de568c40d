"""The schema of a timeline: tracks, events and source lines, and their JSON form.

Owns the records that every producer fills and every writer reads.  ``docs/timeline.md`` describes the JSON
form, which :func:`to_object` and :func:`from_object` convert: the events lie in columns, texts are indices
into one list.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.source import SourceLocation

__all__ = [
    "FILLED",
    "FILLING",
    "FORMAT",
    "Cause",
    "Event",
    "EventKind",
    "Line",
    "Lines",
    "Track",
    "TrackKind",
    "from_object",
    "to_object",
]

#: Name and version of the JSON form.
FORMAT, VERSION = "pyptx-timeline", 1

#: Names of the spans of a stage of a ring.
FILLING, FILLED = "being filled", "filled, being read"


class TrackKind(enum.Enum):
    """What a track shows."""

    WARP = "warp"
    ENGINE = "engine"
    BARRIER = "barrier"
    STAGE = "stage"


class EventKind(enum.Enum):
    """What an event is. An ``INSTANT`` has no length; a ``WAIT`` is a span in which a warp does not run."""

    SPAN = "span"
    WAIT = "wait"
    INSTANT = "instant"


class Cause(enum.Enum):
    """What a wait waits for, or what a phase was completed by. ``NONE`` for other events."""

    NONE = ""
    BYTES = "bytes of copies"
    MMA = "tensor core"
    WARPS = "arrivals of other warps"
    BARRIER = "barrier of the CTA"
    CLUSTER = "other CTAs of the cluster"
    COPIES = "groups of copies"
    TENSOR_MEMORY = "tensor memory"
    MEMORY = "loads into registers"
    ISSUE = "issue slots and pipes"
    CODE = "instructions that are not in the cache"
    SHARED = "banks of shared memory"
    SPILLS = "registers in local memory"
    LANES = "other lanes of the warp"
    REGISTERS = "registers of the CTA's pool"
    LAUNCH = "another launch"
    LOOP = "a value that a loop polls"
    OTHER = "something else"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the page: a warp, an engine, a barrier or a stage of a ring.

    Attributes:
        kind: what the track shows.
        name: the track's name in its group, such as ``warp 3`` or ``full[2]``.
        group: the CTA, as text for people; the page draws the tracks of one group together.
        cta: number of the CTA in its grid, or -1.
        sm: number of the multiprocessor, or -1 if unknown.
    """

    kind: TrackKind
    name: str
    group: str
    cta: int = -1
    sm: int = -1


@dataclass(frozen=True, slots=True)
class Line:
    """A source line. ``caller`` is the index of the line that called its function, or -1."""

    file: str
    line: int
    function: str = ""
    caller: int = -1


@dataclass(slots=True)
class Event:
    """One event of a track.

    Attributes:
        track: index of the track.
        kind: span, wait or instant.
        begin, end: in the timeline's unit; equal for an instant.
        name: the instruction, or the name of the mark.
        cause: for a wait what it waits for, for a phase of a barrier what completed it.
        barrier: name of the barrier, or empty.
        phase: number of the barrier's phase from 0, or -1.
        stage: number of the stage of a ring, or -1.
        line: index of the source line, or -1.
        detail: what else is known, as text for people.
        by: index of the event that ended the wait, or -1.
        open: True if the event had not ended when the run ended; ``end`` is then the end of the run.
    """

    track: int
    kind: EventKind
    begin: float
    end: float
    name: str
    cause: Cause = Cause.NONE
    barrier: str = ""
    phase: int = -1
    stage: int = -1
    line: int = -1
    detail: str = ""
    by: int = -1
    open: bool = False


class Lines:
    """The lines of a timeline, each once; :meth:`add` returns the index of a location and its callers."""

    def __init__(self) -> None:
        self.found: list[Line] = []
        self._known: dict[SourceLocation, int] = {}

    def add(self, location: SourceLocation | None) -> int:
        """Return the index of a location, which is added with its callers if it is new; -1 for None."""
        if location is None:
            return -1
        known = self._known.get(location)
        if known is None:
            caller = self.add(location.caller)
            known = self._known[location] = len(self.found)
            self.found.append(Line(location.file, location.line, location.function, caller))
        return known


# --- JSON -----------------------------------------------------------------------------------------

_Enum = TypeVar("_Enum", bound=enum.Enum)
_KINDS, _CAUSES = tuple(EventKind), tuple(Cause)
#: The columns of numbers, in the order of the fields of :class:`Event`.
_NUMBERS = ("track", "begin", "end", "phase", "stage", "line", "by")
#: The columns of indices into the list of texts.
_TEXTS = ("name", "barrier", "detail")


def to_object(
    head: Mapping[str, Any], tracks: Sequence[Track], lines: Sequence[Line], events: Sequence[Event]
) -> dict[str, Any]:
    """Return the JSON form of a timeline. ``head`` has its other fields, such as title and unit."""
    texts: dict[str, int] = {"": 0}
    columns: dict[str, list[Any]] = {name: [getattr(each, name) for each in events] for name in _NUMBERS}
    for name in _TEXTS:
        columns[name] = [texts.setdefault(getattr(each, name), len(texts)) for each in events]
    kinds = {kind: number for number, kind in enumerate(_KINDS)}
    causes = {cause: number for number, cause in enumerate(_CAUSES)}
    columns["kind"] = [kinds[each.kind] for each in events]
    columns["cause"] = [causes[each.cause] for each in events]
    columns["open"] = [int(each.open) for each in events]
    return {
        "format": FORMAT,
        "version": VERSION,
        **head,
        "kinds": [kind.value for kind in _KINDS],
        "causes": [cause.value for cause in _CAUSES],
        "tracks": [[t.kind.value, t.name, t.group, t.cta, t.sm] for t in tracks],
        "lines": [[each.file, each.line, each.function, each.caller] for each in lines],
        "texts": list(texts),
        "events": columns,
    }


def from_object(value: Any) -> tuple[dict[str, Any], list[Track], list[Line], list[Event]]:
    """Return head, tracks, lines and events of a timeline's JSON form.

    Raises:
        SpecError: the value is not the JSON form of a timeline, or of another version.
    """
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise SpecError(f"this is not a timeline: expected a JSON object with format = {FORMAT!r}")
    if value.get("version") != VERSION:
        raise SpecError(
            f"the timeline has version {value.get('version')!r}: this pyptx reads version {VERSION}",
            hint="write it again with this version of pyptx",
        )
    try:
        kinds = [EventKind(text) for text in value["kinds"]]
        causes = [Cause(text) for text in value["causes"]]
        tracks = [Track(TrackKind(kind), *rest) for kind, *rest in value["tracks"]]
        lines = [Line(*each) for each in value["lines"]]
        events = _events(value["events"], kinds, causes, value["texts"])
        for each in events:
            _check(each, len(tracks), len(lines), len(events))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise SpecError(f"the timeline is damaged: {error!r}") from None
    own = {"format", "version", "kinds", "causes", "tracks", "lines", "texts", "events"}
    return {key: each for key, each in value.items() if key not in own}, tracks, lines, events


def _events(
    columns: Mapping[str, Sequence[Any]],
    kinds: Sequence[EventKind],
    causes: Sequence[Cause],
    texts: Sequence[str],
) -> list[Event]:
    read: dict[str, Callable[[Any], Any]] = dict.fromkeys(_TEXTS, texts.__getitem__)
    read |= {"kind": kinds.__getitem__, "cause": causes.__getitem__, "open": bool}
    names = (*_NUMBERS, *_TEXTS, "kind", "cause", "open")
    given = [map(read[name], columns[name]) if name in read else columns[name] for name in names]
    return [Event(**dict(zip(names, row, strict=True))) for row in zip(*given, strict=True)]


def _check(event: Event, tracks: int, lines: int, events: int) -> None:
    """Raise :class:`ValueError` if an event refers to what does not exist, or ends before it begins."""
    if not (0 <= event.track < tracks and -1 <= event.line < lines and -1 <= event.by < events):
        raise ValueError(f"{event.name} refers to a track, line or event that does not exist")
    if not event.begin <= event.end:
        raise ValueError(f"{event.name} ends at {event.end}, before it begins at {event.begin}")
