"""A pause of Python's garbage collector while pyptx makes objects that stay.

Owns :func:`uncollected`.  An import and a recording make many thousand objects, almost all of which live on.
The collector runs whenever some hundred are new, and finds nothing to free: 6 ms of the 110 that the import
and the first recording took.  A large import even starts a collection of all objects of the process: where
torch is loaded, importing ``cuda.bindings.driver`` took 120 to 170 ms of processor time, and 40 to 60 so.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn the collector of reference cycles off inside a ``with`` block, if it is on.

    The pause holds for all threads.  Where a block contains another one, or two threads have one at the same
    time, the pause ends with the block that began it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
