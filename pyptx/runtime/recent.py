"""The launches of late, for errors of kernels: a ring of the functions that were launched last.

The compiled launch path keeps the ring, and adds its own launches; where there is none, this module keeps it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

try:
    from ._quick import note_launch, recent_launches
except ImportError:  # no compiled path, or one of an older installation
    _ring: deque[int] = deque(maxlen=32)
    note_launch = _ring.append

    def recent_launches() -> tuple[int, ...]:
        return tuple(reversed(_ring))


__all__ = ["note", "recent"]

#: Adds the handle of a function that was launched. Called in every launch that Python makes.
note: Callable[[int], None] = note_launch


def recent() -> tuple[int, ...]:
    """Return the handles of the functions that were launched last, the newest first."""
    return recent_launches()
