"""What the CTAs of a wave load while they go through their tiles, if one of them shows how.

CTAs that share bytes need not ask for them with their first loads: those of a causal mask begin at other keys
of the same head. One CTA shows its sweeps, boxes of one shape one behind the other; a probe of all CTAs shows
where each of them begins.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import pairwise

from ..engine.work import Copy

__all__ = ["sweeps_of"]

#: The most loads that are yielded.
_MOST = 1 << 17
#: Fewest places at which CTAs that share bytes begin a sweep.
_FEWEST = 2

#: Coordinates of a box, and the array and the shape of boxes.
_Place = tuple[int, ...]
_Kind = tuple[int, Hashable]


def sweeps_of(first: Iterable[tuple[Hashable, Copy]], own: Iterable[Copy]) -> Iterator[Copy]:
    """Yield the boxes of tensor maps that each CTA loads if it goes on like the one that is known.

    From its first box of each shape and array on it makes the longest sweep that the known CTA makes there,
    as far as this lies behind the beginning of the array. Where all CTAs begin at the same place of such a
    sweep, as those of a GEMM do along K, their first boxes show already what they share: none is yielded.

    Args:
        first: the first loads of all CTAs, each with its CTA.
        own: the loads of one CTA, in their order.
    """
    begins: dict[tuple[Hashable, _Kind], tuple[Copy, _Place]] = {}
    for cta, copy in first:
        box = _box(copy)
        if box is not None:
            begins.setdefault((cta, box[0]), (copy, box[1]))
    places: dict[_Kind, list[_Place]] = {}
    for copy in own:
        box = _box(copy)
        if box is not None:
            places.setdefault(box[0], []).append(box[1])
    sweeps = {kind: _longest(some) for kind, some in places.items()}
    along: dict[_Kind, set[_Place]] = {}
    for (_, kind), (_, place) in begins.items():
        if kind in sweeps:
            along.setdefault(kind, set()).add(tuple(map(int.__mul__, place, map(bool, sweeps[kind][0]))))
    for (_, kind), (copy, place) in begins.items():
        if len(along.get(kind, ())) < _FEWEST:
            continue
        address, shape = kind
        stride, steps = sweeps[kind]
        for _ in range(min(steps, _MOST // len(begins))):
            if min(place) < 0:
                break
            source = address, (shape, place)
            yield Copy(copy.nbytes, copy.rows, source, copy.targets, copy.loads, copy.lines)
            place = tuple(map(int.__add__, place, stride))


def _longest(places: list[_Place]) -> tuple[_Place, int]:
    """Return the stride of the longest sweep, and of how many boxes it is."""
    still = (0,) * len(places[0])
    best, stride, steps = (still, 1), still, 1
    for before, place in pairwise(places):
        moved = tuple(map(int.__sub__, place, before))
        steps = steps + 1 if moved == stride else 2
        stride = moved
        if steps > best[1] and any(moved):
            best = moved, steps
    return best


def _box(copy: Copy) -> tuple[_Kind, _Place] | None:
    """Return the array and the shape of the box that a copy loads, and its coordinates."""
    match copy.source:
        case (int(address), (box, tuple(coordinates))):
            return (address, box), coordinates
    return None
