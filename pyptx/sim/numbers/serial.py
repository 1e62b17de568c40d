"""Products of matrices in one host thread, the caller's.

The matrices of one instruction are so small that waking a second thread costs more time than it saves. On
busy cores the cost is far higher: 20 s instead of 1 s for the MMAs of 1024^3.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["serial"]

#: The limit holds for the process: the first run sets it, and the last run to end removes it.
_lock = threading.Lock()
_running = 0
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    """Return the process's controller, made once: it searches the loaded libraries, numpy's among them."""
    return ThreadpoolController()


@contextmanager
def serial() -> Iterator[None]:
    """Limit numpy's linear algebra library to one thread while the context is open in any thread."""
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
