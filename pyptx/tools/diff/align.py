"""Aligns the lines of two functions: pairs each line of A with the corresponding line of B, in order.

It first finds anchors (patience diff): lines that occur exactly once on each side. Lines count as equal by
their keys and by the instructions that compute their operands; the most specific comparison comes first. The
regions between anchors are short. Each region gets the alignment with the fewest differences, given the pairs
of registers that the anchors imply.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from .canonical import Code, Interner, Line, Name, colors
from .labels import Places
from .names import bijection, count_votes

__all__ = ["Aligned", "align", "by_ends", "straight"]

#: Pairs of indices (A, B), both ascending.
Aligned = list[tuple[int, int]]
#: A part of both sides: start and end in A, start and end in B.
Region = tuple[int, int, int, int]

#: Distances (in instructions) up to which the definitions of operands are compared, the most specific first.
_DEPTHS = (6, 3, 1)
#: The largest number of cells of a table of costs. A region that needs more is cut into parts first.
_CELLS = 40_000
#: Two lines that cost more are not paired: one counts as deleted, the other as inserted.
_MOST = 2.0
_IMPOSSIBLE = 1e9
#: Cost of a pair of registers if neither has a partner yet.
_UNKNOWN = 0.05


def align(a: Code, b: Code, intern: Interner) -> Aligned:
    """Return the pairs of lines that correspond."""
    depth = max(_DEPTHS)
    first, second = colors(a, depth, intern), colors(b, depth, intern)
    regions: list[Region] = [(0, len(a.lines), 0, len(b.lines))]
    pairs: Aligned = []
    crossing = _unique(first[depth], second[depth], regions[0])
    for distance in (*_DEPTHS, 0):
        rest: list[Region] = []
        for region in regions:
            # There is no more specific comparison than distance 0; the exact method handles small regions.
            if distance == 0 and _cells(region) <= _CELLS:
                rest.append(region)
            else:
                _anchors(first[distance], second[distance], region, pairs, rest)
        regions = rest
    finished: list[Region] = []
    for region in regions:
        _cut(a.lines, b.lines, region, pairs, finished)
    chosen = {i for i, _ in pairs}
    known = _known(a, b, pairs, [(i, j) for i, j in crossing if i not in chosen])
    for region in sorted(finished, key=_cells):
        pairs += _exact(a.lines, b.lines, region, known)
    return sorted(pairs)


def straight(a: Code, b: Code) -> list[Aligned]:
    """Pair line n of A with line n of B, if both have as many lines and few keys differ; else return []."""
    if len(a.lines) != len(b.lines):
        return []
    different = sum(one.key != other.key for one, other in zip(a.lines, b.lines, strict=True))
    return [[(i, i) for i in range(len(a.lines))]] if different <= 2 else []


def by_ends(a: Code, b: Code) -> list[Aligned]:
    """Pair the common beginning and the common end of the two functions, comparing names too.

    Returns two alignments: one with the longest common beginning, one with the longest common end. Together
    they find the place of a single insertion among equal lines. Returns nothing if many lines lie between.
    """
    n, m = len(a.lines), len(b.lines)
    head = _common(a.lines, b.lines, range(min(n, m)), 0)
    tail = _common(a.lines, b.lines, range(-1, -min(n, m) - 1, -1), 0)
    found = []
    for before, behind in ((head, min(tail, min(n, m) - head)), (min(head, min(n, m) - tail), tail)):
        region = (before, n - behind, before, m - behind)
        if _cells(region) > _CELLS:
            continue
        pairs = [(i, i) for i in range(before)]
        pairs += [(n - k, m - k) for k in range(behind, 0, -1)]
        pairs += _exact(a.lines, b.lines, region, _known(a, b, pairs))
        found.append(sorted(pairs))
    return found


def _common(a: Sequence[Line], b: Sequence[Line], places: Iterable[int], count: int) -> int:
    """Return how many pairs of lines at ``places``, from the first on, are equal after renaming.

    The renaming of registers and labels must be the same for all these pairs.
    """
    known = _Names({})
    for place in places:
        one, other = a[place], b[place]
        if one.key != other.key or not all(map(known.agree, one.names, other.names)):
            break
        for pair in zip(one.names, other.names, strict=True):
            known.add(*pair)
        if not all(map(known.agree, one.names, other.names)):
            break
        count += 1
    return count


def _cells(region: Region) -> int:
    return (region[1] - region[0]) * (region[3] - region[2])


# --- anchors ----------------------------------------------------------------------------------


def _anchors(
    first: Sequence[int], second: Sequence[int], region: Region, pairs: Aligned, rest: list[Region]
) -> None:
    """Pair lines whose keys are unique on both sides, then do the same between these pairs.

    Regions without a unique key are appended to ``rest``.
    """
    stack = [region]
    while stack:
        low, high, left, right = stack.pop()
        if low == high or left == right:
            continue
        chain = _ascending(_unique(first, second, (low, high, left, right)))
        if not chain:
            rest.append((low, high, left, right))
            continue
        pairs += chain
        before = (low - 1, left - 1)
        for i, j in (*chain, (high, right)):
            stack.append((before[0] + 1, i, before[1] + 1, j))
            before = (i, j)


def _unique(first: Sequence[int], second: Sequence[int], region: Region) -> Aligned:
    """Return the pairs of positions whose key occurs exactly once on each side, in A's order."""
    low, high, left, right = region
    here, there = Counter(first[low:high]), Counter(second[left:right])
    places = {second[j]: j for j in range(left, right) if there[second[j]] == 1}
    return [(i, places[first[i]]) for i in range(low, high) if here[first[i]] == 1 and first[i] in places]


def _ascending(pairs: Aligned) -> Aligned:
    """Return the longest part of ``pairs`` whose lines are in order in B, too; they are in A's order."""
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for number, (_, j) in enumerate(pairs):
        place = bisect_left(tails, j)
        previous.append(ends[place - 1] if place else -1)
        if place == len(tails):
            tails.append(j)
            ends.append(number)
        else:
            tails[place], ends[place] = j, number
    chain: Aligned = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(pairs[at])
        at = previous[at]
    return chain[::-1]


#: Number of lines before and after a line that are compared to distinguish it from equal lines.
_WINDOW = 4


def _cut(
    a: Sequence[Line], b: Sequence[Line], region: Region, pairs: Aligned, finished: list[Region]
) -> None:
    """Split a region that is too large for the exact method, at the rarest line that both sides have."""
    stack = [region]
    while stack:
        low, high, left, right = stack.pop()
        if _cells((low, high, left, right)) <= _CELLS:
            finished.append((low, high, left, right))
            continue
        here = Counter(line.key for line in a[low:high])
        there = Counter(line.key for line in b[left:right])
        shared = [key for key in here if key in there]
        if not shared:
            continue  # no common line: all lines of A are deleted, all of B inserted
        rarest = min(shared, key=lambda key: here[key] * there[key])
        ones = [i for i in range(low, high) if a[i].key == rarest]
        others = [j for j in range(left, right) if b[j].key == rarest]
        # For very common lines, a sample is enough.
        ones, others = ones[:: len(ones) // 32 + 1], others[:: len(others) // 32 + 1]
        slope = (right - left) / (high - low)
        i, j = max(
            ((i, j) for i in ones for j in others),
            key=lambda at: (
                _surroundings(a, b, *at),
                -abs((at[0] - low) * slope - (at[1] - left)),
            ),
        )
        pairs.append((i, j))
        stack += [(low, i, left, j), (i + 1, high, j + 1, right)]


def _surroundings(a: Sequence[Line], b: Sequence[Line], i: int, j: int) -> int:
    """Return the number of lines near ``a[i]`` and ``b[j]`` whose keys agree, position by position."""
    return sum(
        0 <= i + k < len(a) and 0 <= j + k < len(b) and a[i + k].key == b[j + k].key
        for k in range(-_WINDOW, _WINDOW + 1)
    )


# --- what lies between ------------------------------------------------------------------------


#: The cost of two lines apart from names, and the pairs of names that must correspond.
_Pairing = tuple[float, tuple[tuple[int, int], ...]]


def _known(a: Code, b: Code, pairs: Aligned, moved: Sequence[tuple[int, int]] = ()) -> _Names:
    """Return the names and labels that correspond because their lines are in ``pairs`` or ``moved``."""
    names = bijection(count_votes((a.lines[i], b.lines[j]) for i, j in (*pairs, *moved)))
    return _Names(names, Places(a, b, sorted(pairs), moved))


class _Names:
    """The names of A and B that are known to correspond, in both directions, and the places of labels."""

    def __init__(self, there: dict[Name, Name], places: Places | None = None) -> None:
        self.places = places
        self.there = there
        self.back = {b: a for a, b in there.items()}
        #: Keys of two lines -> their pairing. It is cached since many lines have the same key.
        self.pairings: dict[tuple[int, int], _Pairing | None] = {}

    def agree(self, a: Name, b: Name) -> bool:
        """Return True if name ``a`` of A may correspond to name ``b`` of B."""
        return self.there.get(a, b) == b and self.back.get(b, a) == a

    def cost(self, a: Name, b: Name) -> float:
        there, back = self.there.get(a), self.back.get(b)
        if there is None and back is None:
            return _UNKNOWN
        return 0.0 if there == b else 1.0

    def add(self, a: Name, b: Name) -> None:
        if a not in self.there and b not in self.back:
            self.there[a], self.back[b] = b, a


def _cost(a: Line, b: Line, known: _Names) -> float:
    """Return the cost of pairing two lines: how much they differ, given the names already paired."""
    keys = a.key, b.key
    if keys not in known.pairings:
        known.pairings[keys] = _pairing(a, b)
    pairing = known.pairings[keys]
    if pairing is None:
        return _IMPOSSIBLE
    cost, places = pairing
    for i, j in places:
        cost += known.cost(a.names[i], b.names[j])
    if a.targets and b.targets and known.places is not None:
        cost += not known.places.agree(a, b)
    return cost if a.key == b.key or cost <= _MOST else _IMPOSSIBLE


def _pairing(a: Line, b: Line) -> _Pairing | None:
    """Return the cost of pairing two lines, apart from names, and the names that would correspond.

    Returns None if the cost is too high for a pair.
    """
    if a.key == b.key:
        return 0.0, tuple((i, i) for i in range(len(a.names)))
    if len(a.forms) != len(b.forms):
        return (_MOST, ()) if a.head == b.head and a.opcode[0] != "." else None
    cost = 0.0
    places = [(0, 0)] if a.guard and b.guard else []
    if a.head != b.head:
        if a.opcode != b.opcode and not a.forms:
            return None
        cost += 1.0 if a.opcode == b.opcode else 1.2
    cost += a.guard != b.guard
    for form, other, (start, end), (from_, to) in zip(a.forms, b.forms, a.spans, b.spans, strict=True):
        if form != other:
            cost += 1.0
        else:
            places += zip(range(start, end), range(from_, to), strict=True)
    return (cost, tuple(places)) if cost <= _MOST else None


def _exact(a: Sequence[Line], b: Sequence[Line], region: Region, known: _Names) -> Aligned:
    """Return the cheapest alignment of a small region, and add the names that it pairs to ``known``."""
    low, high, left, right = region
    pairs: Aligned = []
    # Pair the equal lines at the beginning and at the end without a table.
    while low < high and left < right and a[low].key == b[left].key and not _cost(a[low], b[left], known):
        pairs.append((low, left))
        low, left = low + 1, left + 1
    while low < high and left < right:
        one, other = a[high - 1], b[right - 1]
        if one.key != other.key or _cost(one, other, known):
            break
        pairs.append((high - 1, right - 1))
        high, right = high - 1, right - 1
    if low < high and left < right:
        pairs += _table(a[low:high], b[left:right], low, left, known)
    for i, j in sorted(pairs):
        if a[i].key == b[j].key:
            for one_name, other_name in zip(a[i].names, b[j].names, strict=True):
                known.add(one_name, other_name)
    return pairs


def _table(a: Sequence[Line], b: Sequence[Line], low: int, left: int, known: _Names) -> Aligned:
    """Find the alignment of least cost by dynamic programming; a deletion or an insertion costs 1."""
    n, m = len(a), len(b)
    rows: list[list[float]] = [[float(j) for j in range(m + 1)]]
    costs: list[list[float]] = []
    for i, one in enumerate(a):
        above = rows[-1]
        row = [float(i + 1)]
        cost_row = []
        last = row[0]
        for j, other in enumerate(b):
            cost = _cost(one, other, known)
            cost_row.append(cost)
            last = min(above[j] + cost, above[j + 1] + 1.0, last + 1.0)
            row.append(last)
        rows.append(row)
        costs.append(cost_row)
    pairs: Aligned = []
    i, j = n, m
    while i and j:
        if rows[i][j] == rows[i - 1][j - 1] + costs[i - 1][j - 1]:
            i, j = i - 1, j - 1
            pairs.append((low + i, left + j))
        elif rows[i][j] == rows[i - 1][j] + 1.0:
            i -= 1
        else:
            j -= 1
    return pairs
