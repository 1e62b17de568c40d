"""Compares the arrays of two runs, bit for bit or within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import SpecError
from ...core.records import dataclass
from ...core.types import from_dtype

__all__ = ["EXACT", "ArrayMismatch", "NamedArray", "Tolerance", "check_comparable", "compare_array"]

#: An array and the name of its parameter.
NamedArray = tuple[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Tolerance:
    """The tolerance for elements of floating types: ``|a - b| <= atol + rtol * |b|``.

    With a tolerance, NaNs are equal, and infinities of the same sign too.  Without a tolerance, and for
    integers, bits are compared, including the payload of NaNs and the sign of zeros.  Raises SpecError for a
    number that is negative or not finite.
    """

    rtol: float = 0.0
    atol: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not 0 <= value < float("inf"):
                raise SpecError(f"{name} is {value}: expected a finite number of at least 0")

    @property
    def exact(self) -> bool:
        """True if elements are compared bit for bit, since no tolerance is given."""
        return not self.rtol and not self.atol

    def __str__(self) -> str:
        return f"rtol {self.rtol:g} and atol {self.atol:g}"


#: The comparison bit for bit.
EXACT = Tolerance()


@dataclass(frozen=True)
class ArrayMismatch:
    """The difference between the two runs' values of one array.

    Attributes:
        name: name of the array on side A.
        elements, of: number of elements that differ, and number of all elements.
        index: index of the first element that differs, on side A.
        a, b: the values of that element.
        largest: the largest distance of two finite elements for a floating type; None for other types.
    """

    name: str
    elements: int
    of: int
    index: tuple[int, ...]
    a: str
    b: str
    largest: float | None = None

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]"
        far = f"; largest difference {self.largest:.3g}" if self.largest is not None else ""
        return (
            f"{self.name}: {self.elements} of {self.of} elements, first {where}: {self.a} and {self.b}{far}"
        )


def check_comparable(a: Sequence[NamedArray], b: Sequence[NamedArray]) -> tuple[str, ...]:
    """Check that both sides have equally many arrays, each pair of one type and number of elements.

    Returns notes on pairs with different shapes, whose elements are compared in their order in memory.

    Raises:
        SpecError: the arrays of the two sides do not match.
    """
    if len(a) != len(b):
        raise SpecError(f"A has {len(a)} arrays and B {len(b)}: their outputs cannot be compared")
    notes = []
    for (name, x), (other, y) in zip(a, b, strict=True):
        both = name if name == other else f"{name} of A and {other} of B"
        if x.dtype != y.dtype or x.size != y.size:
            raise SpecError(
                f"{both}: {x.size} elements of {x.dtype} in A, {y.size} of {y.dtype} in B: "
                "the two runs would not have the same inputs",
                hint="give both sides arrays of one type and one number of elements",
            )
        if x.shape != y.shape:
            notes.append(
                f"{both}: the shapes differ, {x.shape} and {y.shape}; elements are compared in memory order"
            )
    return tuple(notes)


def compare_array(
    name: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tolerance: Tolerance
) -> ArrayMismatch | None:
    """Compare two arrays of one type and size by their elements in memory order; None if they are equal."""
    x, y = a.reshape(-1), b.reshape(-1)
    kind = from_dtype(a.dtype)
    floating = kind is not None and kind.is_float
    bits = f"V{a.dtype.itemsize}"
    differs = np.ascontiguousarray(x).view(bits) != np.ascontiguousarray(y).view(bits)
    largest = None
    if floating and differs.any():
        with np.errstate(all="ignore"):
            wide, other = x.astype(np.float64), y.astype(np.float64)
            distance = np.abs(wide - other)
        finite = distance[np.isfinite(distance)]
        largest = float(finite.max()) if finite.size else None
        if not tolerance.exact:
            differs = ~np.isclose(wide, other, tolerance.rtol, tolerance.atol, equal_nan=True)
    places = np.flatnonzero(differs)
    if not len(places):
        return None
    first = int(places[0])
    index = tuple(int(n) for n in np.unravel_index(first, a.shape))
    return ArrayMismatch(name, len(places), a.size, index, str(x[first]), str(y[first]), largest)
