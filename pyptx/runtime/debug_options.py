"""What the environment asks of the runtime for debugging: ``PYPTX_DEBUG`` and ``PYPTX_NVTX``.

Owns :class:`DebugOptions`.  The variables are read when a kernel is loaded and when its first launch is
packed; later launches of the same kernel keep what was read.
"""

from __future__ import annotations

import math
import os

from ..core.errors import SpecError
from ..core.records import dataclass

__all__ = ["DEBUG", "NVTX", "DebugOptions", "debug_options"]

#: Environment variable with options that are separated by commas: ``waits``, ``waits=SECONDS``, ``sync``.
DEBUG = "PYPTX_DEBUG"
#: Environment variable that puts a range of NVTX around each launch.
NVTX = "PYPTX_NVTX"
#: Seconds that a wait may take if ``waits`` has no number.
_SECONDS = 10.0


@dataclass(frozen=True)
class DebugOptions:
    """What to do for debugging.

    Attributes:
        waits: seconds that a wait for an mbarrier may take; None for any time.
        sync: wait for the end of each launch, so that its error is raised by its own call.
        nvtx: put a range of NVTX around each launch.
    """

    waits: float | None = None
    sync: bool = False
    nvtx: bool = False


def debug_options() -> DebugOptions:
    """Read the environment.

    Raises:
        SpecError: ``PYPTX_DEBUG`` has an unknown option, or a number of seconds that is not positive.
    """
    waits: float | None = None
    sync = False
    given = os.environ.get(DEBUG, "")
    for word in filter(None, (part.strip() for part in given.split(","))):
        name, equals, value = word.partition("=")
        if name == "waits":
            waits = _seconds(value, given) if equals else _SECONDS
        elif word == "sync":
            sync = True
        else:
            raise SpecError(
                f"{DEBUG} is {given!r}: unknown option {word!r}",
                hint="write waits, waits=SECONDS, sync, or several of them with commas",
            )
    return DebugOptions(waits, sync, os.environ.get(NVTX, "") not in ("", "0"))


def _seconds(value: str, given: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 1e6:
        raise SpecError(
            f"{DEBUG} is {given!r}: expected a positive number of seconds after waits=, got {value!r}"
        )
    return seconds
