"""Compares two functions: finds the differences between the functions from their corresponding lines."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

from ...core.records import dataclass
from ...ir import Function, Register
from .align import Aligned, align, by_ends, straight
from .canonical import Code, Interner, Line, Name
from .declarations import declaration, declared, pair_parameters, variable_differences
from .labels import Places
from .model import Difference, FunctionDiff, Locate, Row
from .moves import Move, find_moves
from .names import bijection, count_votes

__all__ = ["compare_functions"]


def compare_functions(a: Code, b: Code, intern: Interner, first: Locate, second: Locate) -> FunctionDiff:
    """Return the differences between two functions. Differences of the declarations come first."""
    best = min(_candidates(a, b, intern), key=lambda c: len(c.found))
    places = tuple(first(line.statement, line.index) for line in a.lines)
    other_places = tuple(second(line.statement, line.index) for line in b.lines)
    name = a.function.name
    differences = [
        *declared(a.function, b.function, first, second),
        *variable_differences(best.variables(), a.variables, b.variables, name, first, second),
        *(
            Difference(
                f.kind,
                f.message,
                name,
                places[f.a] if f.a is not None else None,
                other_places[f.b] if f.b is not None else None,
                f.count,
            )
            for f in best.found
        ),
    ]
    return FunctionDiff(
        name, b.function.name, best.rows(), places, other_places, (_labels(a), _labels(b)), tuple(differences)
    )


def _labels(code: Code) -> dict[int, str]:
    """Return the labels that some line refers to, as a map from the index of the line after the label."""
    used = {label for line in code.lines for label in line.targets}
    found: dict[int, str] = {}
    for label, place in code.labels.items():
        if label in used:
            found[place] = f"{found[place]} {label}:" if place in found else f"{label}:"
    return found


def _candidates(a: Code, b: Code, intern: Interner) -> Iterator[_Comparison]:
    """Yield possible pairings of the lines of A and B, those that are fast to compute first.

    Stops after a pairing with at most one difference.
    """
    ways: tuple[Callable[[], list[Aligned]], ...] = (
        lambda: straight(a, b),
        lambda: by_ends(a, b),
        lambda: [align(a, b, intern)],
    )
    for way in ways:
        found = [_Comparison(a, b, pairs) for pairs in way()]
        yield from found
        if any(len(comparison.found) <= 1 for comparison in found):
            return


@dataclass(frozen=True)
class _Found:
    """A difference, with the indices of its lines."""

    kind: str
    message: str
    a: int | None
    b: int | None
    count: int = 1


@dataclass
class _Comparison:
    """One pairing of the lines of two functions, and the differences under this pairing."""

    a: Code
    b: Code
    pairs: Aligned
    moves: list[Move] = field(default_factory=list)
    names: dict[Name, Name] = field(default_factory=dict)
    found: list[_Found] = field(default_factory=list)

    def __post_init__(self) -> None:
        signature = _signature(self.a.function, self.b.function)
        self.names = bijection(count_votes(self._lines(self.pairs), signature))
        self.moves = find_moves(self.a, self.b, self.pairs, self.names)
        moved = [(i, j) for move in self.moves for i, j in move.pairs()]
        if moved:
            self.names = bijection(count_votes(self._lines([*self.pairs, *moved]), signature))
        self.found = sorted(self._differences(moved), key=self._order)
        self.found += [
            _Found("parameter", f"parameter {x} is {self.names.get(x)} in the body, not {y}", None, None)
            for x, y in signature
            if self.names.get(x) != y
        ]

    def _lines(self, pairs: Aligned) -> list[tuple[Line, Line]]:
        return [(self.a.lines[i], self.b.lines[j]) for i, j in pairs]

    def _order(self, found: _Found) -> tuple[float, float]:
        """Return the sort key of a difference, which is its place in A.

        A line that only B has sorts to the place in A where it would be.
        """
        if found.a is not None:
            return (found.a, 0.0 if found.b is None else found.b)
        assert found.b is not None
        return (self._before(found.b), found.b)

    def _before(self, j: int) -> float:
        """Return the place in A of line ``j`` of B, between two indices of lines: 3.5 is after line 3."""
        place = bisect_left(self.pairs, j, key=lambda pair: pair[1])
        return self.pairs[place - 1][0] + 0.5 if place else -0.5

    def rows(self) -> tuple[Row, ...]:
        """Return the lines of both sides, side by side."""
        rows: list[Row] = []
        i = j = 0
        for one, other in [*self.pairs, (len(self.a.lines), len(self.b.lines))]:
            rows += [(k, None) for k in range(i, one)]
            rows += [(None, k) for k in range(j, other)]
            rows.append((one, other))
            i, j = one + 1, other + 1
        return tuple(rows[:-1])

    # --- the differences ----------------------------------------------------------------------

    def _differences(self, moved: Aligned) -> Iterable[_Found]:
        a, b = self.a.lines, self.b.lines
        paired = sorted([*self.pairs, *moved])
        in_a, in_b = {i for i, _ in paired}, {j for _, j in paired}
        for line in a:
            if line.index not in in_a:
                yield _Found("deleted", f"deleted: {line.text}", line.index, None)
        for line in b:
            if line.index not in in_b:
                yield _Found("inserted", f"inserted: {line.text}", None, line.index)
        for move in self.moves:
            yield self._moved(move)
        branches: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        misplaced: dict[tuple[Name, Name], list[_Misplaced]] = defaultdict(list)
        for i, j in paired:
            yield from self._pair(a[i], b[j], misplaced)
            for x, y in zip(a[i].targets, b[j].targets, strict=False):
                branches[x, y].append((i, j))
        yield from self._names(misplaced)
        yield from _branches(self.a, self.b, Places(self.a, self.b, self.pairs, moved), branches)
        yield from self._widths()

    def _moved(self, move: Move) -> _Found:
        first = self.a.lines[move.a]
        if move.count == 1:
            return _Found("moved", f"moved: {first.text}", move.a, move.b)
        what = f"moved: {move.count} instructions, from {first.text}"
        return _Found("moved", what, move.a, move.b, move.count)

    def _pair(
        self, a: Line, b: Line, misplaced: dict[tuple[Name, Name], list[_Misplaced]]
    ) -> Iterable[_Found]:
        if a.key == b.key and all(self._same(x, y) for x, y in zip(a.names, b.names, strict=True)):
            return
        if a.opcode != b.opcode:
            yield _Found("opcode", f"instruction {a.head} -> {b.head}", a.index, b.index)
        elif a.modifiers != b.modifiers:
            yield _Found("modifier", _modifiers(a, b), a.index, b.index)
        if a.guard != b.guard or (a.guard and not self._same(a.names[0], b.names[0])):
            yield _Found("guard", f"guard {_guard(a)} -> {_guard(b)}", a.index, b.index)
        if len(a.forms) != len(b.forms):
            yield _Found("operand", f"operands {_operands(a)} -> {_operands(b)}", a.index, b.index)
            return
        for number in range(len(a.forms)):
            if a.forms[number] != b.forms[number]:
                kind, what = _operand(a, b, number)
                yield _Found(kind, what, a.index, b.index)
                continue
            (start, end), (from_, to) = a.spans[number], b.spans[number]
            for x, y in zip(range(start, end), range(from_, to), strict=True):
                if not self._same(a.names[x], b.names[y]):
                    place = _Misplaced(a, b, number, a.writes[x])
                    misplaced[a.names[x], b.names[y]].append(place)

    def _same(self, a: Name, b: Name) -> bool:
        return self.names.get(a) == b

    def _names(self, misplaced: dict[tuple[Name, Name], list[_Misplaced]]) -> Iterable[_Found]:
        """Yield the differences where B uses another register than the one that corresponds to A's register.

        Yields one for each instruction. If B also writes the unexpected register there, it is a second
        register for one live range: the difference is reported once, at the first write.
        """
        for (x, y), places in misplaced.items():
            lines = {place.a.index: place for place in reversed(places)}
            expected = self.names.get(x)
            first = lines[min(lines)]
            if len(lines) > 1 and any(place.written for place in places):
                told = f"register {x} is {expected} elsewhere, and {y} in {len(lines)} instructions"
                yield _Found("register", told, first.a.index, first.b.index, len(lines))
                continue
            for _, place in sorted(lines.items()):
                wanted = f" (expected {expected})" if expected is not None and expected != x else ""
                told = f"operand {place.number + 1}: {x} -> {y}{wanted}"
                yield _Found("operand", told, place.a.index, place.b.index)

    def _widths(self) -> Iterable[_Found]:
        """Yield corresponding registers of different widths, each at the first line that uses it."""
        first = {str(r): r for r in _registers(self.a.function)}
        second = {str(r): r for r in _registers(self.b.function)}
        wrong = {
            x: y
            for x, y in self.names.items()
            if x in first and y in second and _width(first[x]) != _width(second[y])
        }
        if not wrong:
            return
        for i, j in self.pairs:
            for x in self.a.lines[i].names:
                if x in wrong:
                    y = wrong.pop(x)
                    told = f"register {x} .{first[x].type.name} -> {y} .{second[y].type.name}"
                    yield _Found("register", told, i, j)

    def variables(self) -> dict[Name, Name]:
        """Pair the own variables of both functions.

        Variables that no line uses are paired by their declarations.
        """
        found = {x: y for x, y in self.names.items() if x in self.a.variables and y in self.b.variables}
        taken = set(found.values())
        left = [v for name, v in self.b.variables.items() if name not in taken]
        for name, variable in self.a.variables.items():
            if name not in found:
                same = next((v for v in left if declaration(v) == declaration(variable)), None)
                same = same or next((v for v in left if v.space == variable.space), None)
                if same is not None:
                    found[name] = same.name
                    left.remove(same)
        return found


def _signature(a: Function, b: Function) -> list[tuple[Name, Name]]:
    """Return the pairs of registers that are parameters or results of the two functions, by position."""
    pairs = [*pair_parameters(a.params, b.params), *pair_parameters(a.returns, b.returns)]
    return [
        (f"%{x.name}", f"%{y.name}")
        for x, y in pairs
        if x is not None and y is not None and x.space == y.space == "reg"
    ]


@dataclass(frozen=True)
class _Misplaced:
    """A place where module B uses another register than the pairing of registers with module A predicts.

    Holds both lines, the number of the operand, and whether the line writes the register.
    """

    a: Line
    b: Line
    number: int
    written: bool


def _registers(function: Function) -> Iterable[Register]:
    yield from function.registers
    for param in (*function.params, *function.returns):
        if param.space == "reg":
            yield Register(param.name, param.type, param.vector)


def _width(register: Register) -> tuple[int, bool, int]:
    return register.type.bits, register.type.name == "pred", register.vector


# --- words ------------------------------------------------------------------------------------


def _dots(words: Sequence[str]) -> str:
    return "".join(f".{word}" for word in words) or "none"


def _modifiers(a: Line, b: Line) -> str:
    changes = [
        f"{_dots(a.modifiers[i:j])} -> {_dots(b.modifiers[k:m])}"
        for tag, i, j, k, m in difflib.SequenceMatcher(None, a.modifiers, b.modifiers, False).get_opcodes()
        if tag != "equal"
    ]
    return f"modifier {', '.join(changes)}"


def _guard(line: Line) -> str:
    return f"{line.guard}{line.names[0]}" if line.guard else "none"


def _operands(line: Line) -> str:
    return ", ".join(map(str, getattr(line.statement, "operands", ()))) or "none"


def _operand(a: Line, b: Line, number: int) -> tuple[str, str]:
    """Return kind and message of a difference between two operands, apart from names of registers."""
    if a.opcode[0] == "." or a.opcode == "raw":
        return ("directive" if a.opcode == ".pragma" else "operand"), f"{a.text} -> {b.text}"
    one, other = a.forms[number], b.forms[number]
    x, y = (getattr(line.statement, "operands", ())[number] for line in (a, b))
    kind = "operand"
    if isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]:
        if one[0] == "Immediate":
            kind = "immediate"
        elif one[0] == "Special":
            kind = "special"
        elif _without_offset(one) == _without_offset(other):
            kind = "offset"
    return kind, f"{kind if kind != 'special' else 'special register'} {x} -> {y}"


def _without_offset(form: tuple[object, ...]) -> object:
    if form[0] == "address":
        base = form[1]
        inner = base[:2] if isinstance(base, tuple) and base[0] == "at" else base
        return (inner, *form[3:])
    return form[:2] if form[0] in ("at", "sum") else form


# --- labels -----------------------------------------------------------------------------------


def _branches(
    a: Code, b: Code, places: Places, seen: dict[tuple[str, str], list[tuple[int, int]]]
) -> Iterable[_Found]:
    """Yield the branches to labels that do not correspond.

    ``seen`` maps a pair of labels to the pairs of lines that refer to them. If no other line refers to either
    label, the label has moved, and this is reported as one difference.
    """
    uses_a, uses_b = (Counter(t for line in code.lines for t in line.targets) for code in (a, b))
    for (x, y), uses in seen.items():
        if places.same(x, y):
            continue
        told = f"{_describe(a, x)} -> {_describe(b, y)}"
        if uses_a[x] == uses_b[y] == len(uses) > 1:
            yield _Found("branch", f"label {told}", *uses[0], len(uses))
            continue
        for at in uses:
            yield _Found("branch", f"branch to {told}", *at)


def _describe(code: Code, label: str) -> str:
    place = code.labels.get(label)
    if place is None:
        return f"{label} (not in the function)"
    if place == len(code.lines):
        return f"{label} (the end)"
    return f"{label} (before {code.lines[place].text})"
