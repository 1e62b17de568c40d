"""Pairs the registers of A and B by a one-to-one map that agrees with as many operands as possible.

Registers that correspond at most places count as renamed. A place that does not fit the map is a difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .canonical import Line, Name

__all__ = ["Votes", "bijection", "count_votes"]

#: (name in A, name in B) -> total weight of the places where these names correspond.
Votes = dict[tuple[Name, Name], float]

#: Weights of a definition and of a use. A definition weighs more, because it determines the register's value.
_WRITE, _READ = 1.5, 1.0
_ROUNDS = 4


def count_votes(pairs: Iterable[tuple[Line, Line]], signature: Iterable[tuple[Name, Name]] = ()) -> Votes:
    """Return, for each pair of names, how strongly the paired lines suggest that they correspond.

    Lines that differ in more than names count half. ``signature`` has the pairs of registers that are
    parameters; these count as definitions.
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
    """True if two operands have the same kind, such as two addresses with different offsets."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return bool(one[:1] == other[:1])
    return one == other


def bijection(votes: Votes) -> dict[Name, Name]:
    """Return a one-to-one map of names with a large total weight.

    It takes the heaviest pairs first, and then exchanges pairs to improve the map. The result is the best map
    if few names compete for a partner.
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
    """Exchange pairs of the map as long as an exchange increases its total weight."""
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
            # The names that lose their partners may have another free partner.
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
    """Return the free partner in B of name ``name`` with the largest weight, or None.

    ``freed`` counts as free.
    """
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
    """Return the free name of A with the largest weight for B's ``name``, or None.

    The result is not ``taken``; ``freed`` counts as free.
    """
    if name == taken:
        return None
    free = [a for a in sources[name] if (a not in there or a == freed) and (a != freed or taken is None)]
    return max(free, key=lambda a: votes[a, name], default=None)
