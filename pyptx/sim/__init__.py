"""The machine: runs an :class:`~pyptx.ir.Module` lane by lane, with truly asynchronous engines.

Start at :mod:`.launch` (:func:`load`) and :mod:`.stream` (several launches), then :mod:`.machine` (the run
loop), :mod:`.code` (functions and their translation), :mod:`.threads` (warps, and how lanes part and meet),
:mod:`.semantics` and ``exec/`` (what instructions do), :mod:`.numbers` (arithmetic), :mod:`.events` and
:mod:`.schedule` (asynchrony), :mod:`.memory` (the seam for every access).
"""

from .api.launch import LoadedModule, load
from .api.report import Report
from .api.stream import Stream

__all__ = ["LoadedModule", "Report", "Stream", "load"]
