"""Products of matrices in the calling thread alone.

The matrices of one instruction are so small that waking a second thread costs more than it computes, and far
more where the cores are busy with something else: 20 s, not 1 s, for the MMAs of 1024^3.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["serial"]


@cache
def _controller() -> ThreadpoolController:
    """Made once, by looking through the libraries of the process: numpy's are there."""
    return ThreadpoolController()


def serial() -> AbstractContextManager[Any]:
    """While this is open, numpy's library of linear algebra uses one thread."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit
