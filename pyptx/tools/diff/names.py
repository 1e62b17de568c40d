"""Which register of one side is which of the other: the bijection that explains most places.

A register that stands for another one at most places does so by renaming; what the bijection does not
explain is a difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .canonical import Line, Name

__all__ = ["Votes", "bijection", "count_votes"]

#: (name in A, name in B) -> weight of the places where one stands for the other.
Votes = dict[tuple[Name, Name], float]

#: A definition says more than a use: what a register is, is what was written to it.
_WRITE, _READ = 1.5, 1.0
_ROUNDS = 4


def count_votes(pairs: Iterable[tuple[Line, Line]], signature: Iterable[tuple[Name, Name]] = ()) -> Votes:
    """The votes of lines that stand for each other; those that differ by more than names count half.

    ``signature`` has registers that are parameters: they are written before the first line.
    """
    votes: Votes = defaultdict(float)
    for names in signature:
        votes[names] += _WRITE
    for a, b in pairs:
        if a.key == b.key:
            for one, other, written in zip(a.names, b.names, a.writes, strict=True):
                votes[one, other] += _WRITE if written else _READ
            continue
        if a.guard and b.guard:
            votes[a.names[0], b.names[0]] += _READ / 2
        for (start, end), (from_, to), form, other_form in zip(
            a.spans, b.spans, a.forms, b.forms, strict=False
        ):
            if end - start == to - from_ and _alike(form, other_form):
                for i, j in zip(range(start, end), range(from_, to), strict=True):
                    votes[a.names[i], b.names[j]] += (_WRITE if a.writes[i] else _READ) / 2
    return votes


def _alike(one: object, other: object) -> bool:
    """Operands of one kind: two addresses with another offset, say."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return bool(one[:1] == other[:1])
    return one == other


def bijection(votes: Votes) -> dict[Name, Name]:
    """A one-to-one map of names with as much weight as can be had cheaply.

    Heaviest first, then improved by exchanges, which is exact where few names compete.
    """
    there: dict[Name, Name] = {}
    back: dict[Name, Name] = {}
    for a, b in sorted(votes, key=votes.__getitem__, reverse=True):
        if a not in there and b not in back:
            there[a], back[b] = b, a
    rest = [edge for edge in votes if there.get(edge[0]) != edge[1]]
    if rest:
        _improve(votes, rest, there, back)
    return there


def _improve(
    votes: Votes, rest: list[tuple[Name, Name]], there: dict[Name, Name], back: dict[Name, Name]
) -> None:
    """Exchange pairs while that adds weight."""
    partners: dict[Name, list[Name]] = defaultdict(list)
    sources: dict[Name, list[Name]] = defaultdict(list)
    for a, b in votes:
        partners[a].append(b)
        sources[b].append(a)
    for _ in range(_ROUNDS):
        improved = False
        for a, b in rest:
            if there.get(a) == b:
                continue
            old_b, old_a = there.get(a), back.get(b)
            gain = votes[a, b]
            if old_b is not None:
                gain -= votes[a, old_b]
            if old_a is not None:
                gain -= votes[old_a, b]
            # Those that lose their partner may find another that is free.
            new_b = _best(votes, old_a, partners, back, old_b) if old_a is not None else None
            new_a = _best_source(votes, old_b, sources, there, old_a, new_b) if old_b is not None else None
            if new_b is not None and old_a is not None:
                gain += votes[old_a, new_b]
            if new_a is not None and old_b is not None:
                gain += votes[new_a, old_b]
            if gain <= 1e-9:
                continue
            improved = True
            if old_a is not None:
                del there[old_a]
            if old_b is not None:
                del back[old_b]
            there[a], back[b] = b, a
            if new_b is not None and old_a is not None:
                there[old_a], back[new_b] = new_b, old_a
            if new_a is not None and old_b is not None:
                there[new_a], back[old_b] = old_b, new_a
        if not improved:
            return


def _best(
    votes: Votes,
    name: Name,
    partners: dict[Name, list[Name]],
    back: dict[Name, Name],
    freed: Name | None,
) -> Name | None:
    """The heaviest free partner of ``name``; ``freed`` counts as free."""
    free = [b for b in partners[name] if b not in back or b == freed]
    return max(free, key=lambda b: votes[name, b], default=None)


def _best_source(
    votes: Votes,
    name: Name,
    sources: dict[Name, list[Name]],
    there: dict[Name, Name],
    freed: Name | None,
    taken: Name | None,
) -> Name | None:
    """The heaviest free source of ``name``, unless ``taken`` is that name already."""
    if name == taken:
        return None
    free = [a for a in sources[name] if (a not in there or a == freed) and (a != freed or taken is None)]
    return max(free, key=lambda a: votes[a, name], default=None)
