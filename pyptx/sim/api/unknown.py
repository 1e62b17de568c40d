"""Arrays of which only the type and the shape are known, for predictions of time.

Owns :class:`UnknownArray`, :func:`unknown`, which makes one, and :func:`arrays_in`, which finds all arrays
of a launch's arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.arrays import describe, dtype_of, is_array
from ...core.errors import SpecError
from ...core.types import ScalarType
from ...layout.tensor_map import TensorMap

__all__ = ["UnknownArray", "arrays_in", "refuse_unknown", "unknown", "unknown_addresses"]


class UnknownArray(np.ndarray):
    """An array whose contents are not known. So are those of its views, and of what is computed from it.

    Its addresses are reserved, but its memory holds nothing before something is stored there.
    """


def unknown(shape: int | Sequence[int], dtype: Any) -> UnknownArray:
    """Return an array of which only the type and the shape are known, as an argument of a prediction.

    It takes no memory, whatever its size. A prediction ends as ``incomplete`` if its contents decide where
    threads go.

    Args:
        shape: extents, outermost first.
        dtype: a PTX type, its name (``"bf16"``), or a numpy or torch dtype.

    Raises:
        SpecError: an extent is no positive integer, or arrays have no such type.
    """
    try:
        extents = tuple(map(operator.index, shape if isinstance(shape, Sequence) else (shape,)))
    except TypeError:
        extents = ()
    if not extents or min(extents) < 1:
        raise SpecError(f"shape is {shape!r}: expected one or more positive integers, outermost first")
    kind: ScalarType = dtype_of(dtype)
    if kind.dtype is None:
        raise SpecError(
            f"dtype is {dtype!r}: arrays have no elements of type .{kind}",
            hint="give the type that the bytes have in memory, such as 'u8'",
        )
    return np.zeros(extents, kind.dtype).view(UnknownArray)


def arrays_in(args: Iterable[Any]) -> Iterator[Any]:
    """Yield the arrays among the arguments of a launch: in lists, structs and tensor maps as well."""
    for value in args:
        if isinstance(value, TensorMap):
            if value.array is not None:
                yield value.array
        elif isinstance(value, Mapping):
            yield from arrays_in(value.values())
        elif isinstance(value, (list, tuple)):
            yield from arrays_in(value)
        elif is_array(value):
            yield value


def unknown_addresses(args: Iterable[Any]) -> frozenset[int]:
    """Return the addresses, on the host, of the arrays among the arguments whose contents are not known."""
    return frozenset(describe(each).pointer for each in arrays_in(args) if isinstance(each, UnknownArray))


def refuse_unknown(args: Iterable[Any]) -> None:
    """Raise :class:`SpecError` if the contents of an array among the arguments are not known."""
    for each in arrays_in(args):
        if isinstance(each, UnknownArray):
            raise SpecError(
                f"the contents of the array {each.shape} {describe(each).type} are not known: a run needs "
                "them, a prediction of its time does not",
                hint="give an array with contents; np.empty and its position in uninitialized= for one that "
                "the kernel fills",
            )
