"""``ptx.cp``: the way to ``ptx.cp.async_.bulk``."""

from __future__ import annotations

from . import bulk

__all__ = ["async_"]


class _Async:
    """``ptx.cp.async_``."""

    bulk = bulk


#: ``ptx.cp.async_``; ``async`` is a Python keyword.
async_ = _Async()
