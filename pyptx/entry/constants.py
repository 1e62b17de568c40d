"""When two compile-time constants are the same one.

Owns :func:`exact`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["exact", "exact_items"]


def exact(value: Any) -> Any:
    """Return a key that two values share only if a recording cannot tell them apart.

    In Python 1, True and 1.0 are equal, and so are 0.0 and -0.0; as constants of a kernel they differ, also
    inside tuples, sets and data classes.  The key of a value that has no hash has none either.
    """
    kind = value.__class__
    if kind is int or kind is str or kind is bool:
        return (kind, value)
    if isinstance(value, (float, complex, np.inexact)):
        return (kind, repr(value))
    if isinstance(value, tuple):
        return (kind, tuple(map(exact, value)))
    if isinstance(value, frozenset):
        return (kind, frozenset(map(exact, value)))
    if is_dataclass(value) and not isinstance(value, type):
        return (kind, value, tuple(exact(getattr(value, field.name)) for field in fields(value)))
    return (kind, value)


def exact_items(items: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """Return the names with the keys of their values."""
    return tuple((name, exact(value)) for name, value in items)
