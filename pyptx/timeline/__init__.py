"""Timelines: which warp, engine and barrier did what and when, in a run of the simulator or on a GPU.

One schema (:mod:`.schema`) serves the simulator (``simulate(..., timeline=True)``) and the marks of a kernel
that ran (:class:`pyptx.kit.Trace`).  :class:`Timeline` writes it as a page, as trace events, and as JSON.
"""

from .schema import FORMAT, Cause, Event, EventKind, Line, Track, TrackKind
from .timeline import Timeline

__all__ = ["FORMAT", "Cause", "Event", "EventKind", "Line", "Timeline", "Track", "TrackKind"]
