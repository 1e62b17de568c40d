"""Fewer collections of cyclic garbage during a run that the sanitizer watches, or that keeps time.

Both keep many small objects, which live as long as the run. Python's collector would look at all of them
again and again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["fewer_collections"]

#: New objects after which the collector looks at the young ones. Python's own number is 700 or 2000.
_THRESHOLD = 20_000
_lock = Lock()
#: Runs that want fewer collections now, and the thresholds before the first of them.
_runs = 0
_before = gc.get_threshold()


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Let the collector of this process run less often, until the block ends.

    A collector that is off, or that runs less often already, stays as it is. Several threads may do runs.
    """
    global _runs, _before
    with _lock:
        if not _runs:
            _before = gc.get_threshold()
            if 0 < _before[0] < _THRESHOLD:
                gc.set_threshold(_THRESHOLD, *_before[1:])
        _runs += 1
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if not _runs:
                gc.set_threshold(*_before)
