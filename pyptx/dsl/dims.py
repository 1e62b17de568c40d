"""Values of named dims, which remember what was read.

A kernel whose recording never reads a dim has the same text for every value of the dim.  :class:`Dims` and
the shapes made of it tell the caller of :func:`~pyptx.dsl.recording.record` which dims were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

__all__ = ["Dims", "Shape"]


class Dims(Mapping[str, int]):
    """Values of named dims.

    Attributes:
        read: names of the dims whose values were read.
    """

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = dict(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> int:
        value = self._values[name]
        self.read.add(name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Shape(Sequence[int]):
    """The shape of a parameter: a sequence of numbers, equal to the tuple of them.

    Its length reads no dim, an index reads one, everything else reads all.
    """

    __slots__ = ("_dims", "_values")

    def __init__(self, dims: Sequence[int | str], values: Mapping[str, int]) -> None:
        self._dims = tuple(dims)
        self._values = values

    def _extent(self, dim: int | str) -> int:
        return dim if isinstance(dim, int) else self._values[dim]

    def _all(self) -> tuple[int, ...]:
        return tuple(map(self._extent, self._dims))

    def __len__(self) -> int:
        return len(self._dims)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...

    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        if isinstance(index, slice):
            return tuple(map(self._extent, self._dims[index]))
        return self._extent(self._dims[index])

    def __iter__(self) -> Iterator[int]:
        return map(self._extent, self._dims)

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, Shape) else other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __add__(self, other: Sequence[int]) -> tuple[int, ...]:
        return (*self._all(), *other)

    def __radd__(self, other: Sequence[int]) -> tuple[int, ...]:
        return (*other, *self._all())

    def __repr__(self) -> str:
        return repr(self._all())
