"""The machine: runs an :class:`~pyptx.ir.Module` lane by lane, with truly asynchronous engines.

Start at :mod:`.api` (:func:`load`, launches, streams), then :mod:`.machine` (the run loop and the schedules),
:mod:`.threads` (warps, how lanes part and meet, and what a run holds), :mod:`.code` (functions and their
translation), :mod:`.semantics` (what instructions do), :mod:`.engine` (asynchronous operations) and
:mod:`.memory` (the seam for every access).  ``docs/architecture.md`` lists all rooms.
"""

from .api.launch import LoadedModule, load
from .api.recorder import Recorder, read_recording
from .api.report import Report
from .api.stream import Stream
from .engine.stream import Observer

__all__ = ["LoadedModule", "Observer", "Recorder", "Report", "Stream", "load", "read_recording"]
