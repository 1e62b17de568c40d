"""How many bytes of the outputs each store is the first to store.

Boxes may overlap, such as those of a tile whose columns are no multiple of a box's. Bytes that are stored
twice say nothing about how much of the outputs is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from ..engine.work import Copy

__all__ = ["first_stored"]

#: The most cells into which a box is cut: boxes that lie anywhere are taken to lie apart.
_CELLS = 256

_Place = tuple[int, ...]
#: The array and the shape of boxes.
_Kind = tuple[int, _Place]


def first_stored(stores: Sequence[Copy]) -> list[int]:
    """Return the bytes of each store that no store before it has stored, as far as boxes tell."""
    boxes = [_box(copy) for copy in stores]
    places: dict[_Kind, list[_Place]] = {}
    for box in boxes:
        if box is not None:
            places.setdefault(box[0], []).append(box[1])
    # Boxes of one shape are apart by multiples of a cell's size.
    cells = {kind: tuple(map(math.gcd, kind[1], *some)) for kind, some in places.items()}
    covered: dict[_Kind, set[_Place]] = {}
    found = []
    for copy, box in zip(stores, boxes, strict=True):
        if box is None:
            found.append(copy.nbytes)
            continue
        kind, place = box
        counts = [length // step for length, step in zip(kind[1], cells[kind], strict=True)]
        if math.prod(counts) > _CELLS:
            found.append(copy.nbytes)
            continue
        first = [start // step for start, step in zip(place, cells[kind], strict=True)]
        own = set(product(*(range(at, at + count) for at, count in zip(first, counts, strict=True))))
        before = covered.setdefault(kind, set())
        found.append(copy.nbytes * len(own - before) // len(own))
        before |= own
    return found


def _box(copy: Copy) -> tuple[_Kind, _Place] | None:
    """Return the array and the shape of the box that a copy stores, and its coordinates."""
    match copy.source:
        case (int(address), (tuple(shape), tuple(place))) if len(shape) == len(place):
            return (address, shape), place
    return None
