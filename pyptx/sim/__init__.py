"""The machine: runs an :class:`~pyptx.ir.Module` lane by lane, with truly asynchronous engines.

Start at :mod:`.api` (:func:`load`, launches, streams), then :mod:`.machine` (the run loop and the schedules),
:mod:`.threads` (warps, divergence and reconvergence of lanes, the state of a run), :mod:`.code` (functions
and their translation), :mod:`.semantics` (the instructions), :mod:`.engine` (asynchronous operations) and
:mod:`.memory` (the one way for every access).  ``docs/architecture.md`` lists all packages.
"""

from ..core.waivers import Waiver
from .api.assertion import assert_clean
from .api.launch import LoadedModule, load
from .api.recorder import Recorder, read_recording
from .api.report import Report
from .api.stream import Stream
from .api.unknown import UnknownArray, unknown
from .debugger.stepper import Debugger
from .debugger.stop import Stop
from .engine.stream import Observer

__all__ = [
    "Debugger",
    "LoadedModule",
    "Observer",
    "Recorder",
    "Report",
    "Stop",
    "Stream",
    "UnknownArray",
    "Waiver",
    "assert_clean",
    "load",
    "read_recording",
    "unknown",
]
