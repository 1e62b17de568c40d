"""What two runs left in their arrays: compared bit for bit, or within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import SpecError
from ...core.types import from_dtype

__all__ = ["EXACT", "ArrayMismatch", "NamedArray", "Tolerance", "check_comparable", "compare_array"]

#: An array and the name of its parameter.
NamedArray = tuple[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Tolerance:
    """How far elements of floating types may be apart: ``|a - b| <= atol + rtol * |b|``.

    NaNs are equal then, infinities of one sign too.  Without a tolerance, and for integers, bits are
    compared: NaNs by their payload, zeros by their sign.  Raises SpecError for what is not finite.
    """

    rtol: float = 0.0
    atol: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not 0 <= value < float("inf"):
                raise SpecError(f"{name} is {value}: expected a finite number of at least 0")

    @property
    def exact(self) -> bool:
        """Whether bits are compared."""
        return not self.rtol and not self.atol

    def __str__(self) -> str:
        return f"rtol {self.rtol:g} and atol {self.atol:g}"


#: Bit for bit.
EXACT = Tolerance()


@dataclass(frozen=True)
class ArrayMismatch:
    """An array that differs.

    Attributes:
        name: of the array, on side A.
        elements, of: how many elements differ, and how many there are.
        index: of the first that differs, on side A.
        a, b: its values.
        largest: the largest distance of two finite elements, of a floating type; None for others.
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
    """Whether the arrays of both sides can be the same inputs: as many, each of one type and size.

    Returns what is worth knowing: where shapes differ, elements are compared in their order in memory.

    Raises:
        SpecError: arrays that do not fit each other.
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
            notes.append(f"{both}: the shapes differ, {x.shape} and {y.shape}; elements compared in order")
    return tuple(notes)


def compare_array(
    name: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tolerance: Tolerance
) -> ArrayMismatch | None:
    """Arrays of one type and size, element by element in their order in memory; None if nothing differs."""
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
