"""Finds moved instructions: lines deleted at one place and inserted at another, equal up to renaming."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from ...core.records import dataclass
from .align import Aligned
from .canonical import Code, Line, Name
from .labels import Places

__all__ = ["Move", "find_moves"]

#: The largest number of candidates of B that are tried for a line of A; a common line may have many.
_CHOICES = 64


@dataclass(frozen=True)
class Move:
    """A move of ``count`` lines: line ``a`` of A and the next ones are at line ``b`` of B."""

    a: int
    b: int
    count: int

    def pairs(self) -> Iterator[tuple[int, int]]:
        return ((self.a + k, self.b + k) for k in range(self.count))


def find_moves(a: Code, b: Code, pairs: Aligned, names: dict[Name, Name]) -> list[Move]:
    """Find runs of unpaired lines of A that match unpaired lines of B; prefer the longest run.

    Two lines match if their keys are equal and their registers correspond, as far as the registers are known.
    """
    back = {y: x for x, y in names.items()}
    taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
    places = Places(a, b, pairs)
    lonely = defaultdict(list)
    for line in b.lines:
        if line.index not in taken_b:
            lonely[line.key].append(line.index)

    def fits(one: Line, other: Line) -> bool:
        return one.key == other.key and all(
            names.get(x, y) == y and back.get(y, x) == x for x, y in zip(one.names, other.names, strict=True)
        )

    def known(one: Line) -> int:
        return sum(name in names for name in one.names)

    def length(i: int, j: int) -> int:
        count = 0
        while (
            i + count < len(a.lines)
            and j + count < len(b.lines)
            and i + count not in taken_a
            and j + count not in taken_b
            and fits(a.lines[i + count], b.lines[j + count])
        ):
            count += 1
        return count

    found = []
    for line in a.lines:
        i = line.index
        if i in taken_a:
            continue
        open_places = (j for j in lonely.get(line.key, ()) if j not in taken_b)
        choices = [j for j in islice(open_places, _CHOICES) if fits(line, b.lines[j])]
        if not choices or (line.names and not known(line) and len(choices) > 1):
            continue
        j = max(choices, key=lambda j: (places.agree(line, b.lines[j]), length(i, j)))
        move = Move(i, j, length(i, j))
        found.append(move)
        taken_a.update(range(i, i + move.count))
        taken_b.update(range(j, j + move.count))
    return found
