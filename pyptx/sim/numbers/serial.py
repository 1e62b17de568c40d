"""Products of matrices in the calling thread alone.

The matrices of one instruction are so small that waking a second thread costs more than it computes, and far
more where the cores are busy with something else: 20 s, not 1 s, for the MMAs of 1024^3.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["serial"]

#: The limit is the process's: the first run sets it, the last one that still runs lifts it.
_lock = threading.Lock()
_running = 0
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    """Made once, by looking through the libraries of the process: numpy's are there."""
    return ThreadpoolController()


@contextmanager
def serial() -> Iterator[None]:
    """While this is open, in any thread, numpy's library of linear algebra uses one thread."""
    global _running, _limit
    with _lock:
        if not _running:
            _limit = _controller().limit(limits=1, user_api="blas")
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                _limit.restore_original_limits()
                _limit = None
