"""Prints reports: the summary, then each function's differences side by side; as text, color or JSON."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.records import dataclass
from ...core.source import SourceLocation
from .model import Comparison, Difference, FunctionDiff, Place, Row, readable_name
from .summary import Counts, MachineCode

__all__ = ["as_json", "print_report", "report"]

#: The pieces of a report's line: text, and a style, which is used on a terminal but not in a pipe.
Piece = tuple[str, str]
Styled = list[Piece]

_GONE, _NEW, _CHANGED, _MOVED, _DIM = "red", "green", "yellow", "cyan", "dim"
_MARKS = {"deleted": ("-", _GONE), "inserted": ("+", _NEW), "moved": ("=", _MOVED)}
#: The largest number of rows of an instruction mix in the summary, and of differences outside of functions.
_MIX_ROWS = 12
_OUTSIDE_ROWS = 12
#: A message that occurs this often is also shown at the top of the report; and the largest number of these.
_OFTEN, _OFTEN_ROWS = 4, 8
_MIN_WIDTH, _MAX_WIDTH = 60, 200


@dataclass(frozen=True)
class _View:
    width: int
    context: int
    limit: int | None


def report(diff: Comparison, *, width: int = 110, context: int = 2, limit: int | None = 200) -> str:
    """Return the report as plain text.

    Args:
        diff: the comparison.
        width: number of columns.
        context: number of unchanged lines around each hunk.
        limit: largest number of differences shown for each function; None shows all.
    """
    lines = _lines(diff, _View(max(_MIN_WIDTH, min(width, _MAX_WIDTH)), context, limit))
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def print_report(diff: Comparison, *, context: int, limit: int | None, width: int | None = None) -> None:
    """Print the report: in color and as wide as the terminal, or as plain text in a pipe."""
    if not sys.stdout.isatty():
        print(report(diff, width=width or 110, context=context, limit=limit))
        return
    from rich.console import Console
    from rich.text import Text

    columns = width or shutil.get_terminal_size().columns
    console = Console(width=columns, soft_wrap=True, highlight=False)
    view = _View(max(_MIN_WIDTH, min(columns, _MAX_WIDTH)), context, limit)
    for line in _lines(diff, view):
        console.print(Text.assemble(*line), soft_wrap=True)


def _lines(diff: Comparison, view: _View) -> Iterator[Styled]:
    yield from _head(diff)
    yield from _summary(diff)
    outside = [d for d in diff.differences if d.a is None or d.a.index is None]
    outside = [d for d in outside if d.b is None or d.b.index is None]
    if outside:
        yield []
        shown = outside if view.limit is None else outside[:_OUTSIDE_ROWS]
        for difference in shown:
            yield [("* ", _CHANGED), (_cut(str(difference), view.width - 2), "")]
        if len(shown) < len(outside):
            yield [(f"... {len(outside) - len(shown)} more of the module (--all shows them)", _DIM)]
    for function in diff.functions:
        if any(d not in outside for d in function.differences):
            yield []
            yield from _function(diff, function, view)


# --- summary ----------------------------------------------------------------------------------


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _head(diff: Comparison) -> Iterator[Styled]:
    for side, name in (("A", diff.a), ("B", diff.b)):
        if name != side:
            yield [(f"{side}  ", "bold"), (name, "")]
    if diff.equal:
        yield [("equal", "bold green")]
        return
    kinds = ", ".join(f"{n} {kind}" for kind, n in diff.counts.items())
    yield [(_plural(len(diff.differences), "difference"), "bold"), (f": {kinds}", "")]
    often = Counter(d.message for d in diff.differences).most_common(_OFTEN_ROWS)
    for message, count in often:
        if count >= _OFTEN:
            yield [(f"{count:6} times  ", _DIM), (message, "")]


def _summary(diff: Comparison) -> Iterator[Styled]:
    a, b = diff.summary.a, diff.summary.b
    rows = _count_rows(a, b)
    machines = diff.summary.machines
    missing: list[str] = []
    if machines is not None:
        rows += _resource_rows(diff, *machines)
        rows += _sass_rows(*machines)
        for side, machine in zip("AB", machines, strict=True):
            first, *more = machine.missing.splitlines() or [""]
            missing += [f"{side}: {first}", *(f"   {line}" for line in more)] if first else []
    label_width = max(len(label) for label, _, _ in rows) + 2
    value_width = max(8, *(len(x) + 2 for row in rows for x in row[1:]))
    yield []
    yield [(f"{'':<{label_width}}{'A':>{value_width}}{'B':>{value_width}}", "bold")]
    for label, x, y in rows:
        style = "" if x == y else _CHANGED
        yield [(f"{label:<{label_width}}{x:>{value_width}}{y:>{value_width}}", style)]
    known = [same for f in diff.functions if (same := diff.summary.same_code(f.a, f.b)) is not None]
    if known:
        yield [(f"machine code: the same in {sum(known)} of {_plural(len(known), 'function')}", "")]
    for line in missing:
        yield [(line, _DIM)]


_Counted = tuple[str, str, str]


def _count_rows(a: Counts, b: Counts) -> list[_Counted]:
    rows = [
        ("instructions", str(a.instructions), str(b.instructions)),
        ("barriers", str(a.barriers), str(b.barriers)),
        ("TMA copies", str(a.copies), str(b.copies)),
        ("MMAs", str(a.mma), str(b.mma)),
    ]
    return rows + _mix_rows(a.categories, b.categories, same=True)


def _mix_rows(a: dict[str, int], b: dict[str, int], *, same: bool) -> list[_Counted]:
    """Return table rows for the opcodes or categories whose counts differ most between A and B.

    ``same`` adds those whose counts agree. The most frequent come first; the last row sums up all others.
    """
    names = [n for n in dict.fromkeys([*a, *b]) if same or a.get(n, 0) != b.get(n, 0)]
    names.sort(key=lambda n: (-abs(a.get(n, 0) - b.get(n, 0)), -a.get(n, 0), n))
    shown = sorted(names[:_MIX_ROWS], key=lambda n: (-max(a.get(n, 0), b.get(n, 0)), n))
    rows = [(f"  {n}", str(a.get(n, 0)), str(b.get(n, 0))) for n in shown]
    others = [n for n in (*a, *(n for n in b if n not in a)) if n not in shown]
    if others:
        left, right = (str(sum(side.get(n, 0) for n in others)) for side in (a, b))
        rows.append((f"  {_plural(len(others), 'other')}", left, right))
    return rows


def _resource_rows(diff: Comparison, a: MachineCode, b: MachineCode) -> list[_Counted]:
    first = {r.function: r for r in a.resources}
    second = {r.function: r for r in b.resources}
    pairs = [(f.a, f.b) for f in diff.functions if f.a in first or f.b in second]
    rows = []
    for name, other in pairs:
        x, y = first.get(name), second.get(other)
        for what, unit in (("registers", ""), ("spills", ", bytes"), ("shared", " memory, bytes")):
            values = ["?" if r is None else str(getattr(r, what)) for r in (x, y)]
            if len(pairs) == 1:
                rows.append((f"{what}{unit}", *values))
            elif values[0] != values[1]:
                rows.append((f"{what}{unit}: {_cut(readable_name(name), 40)}", *values))
    if len(pairs) > 1 and not rows:
        rows.append((f"registers and spills of {len(pairs)} functions", "equal", "equal"))
    return [(label, x, y) for label, x, y in rows]


def _sass_rows(a: MachineCode, b: MachineCode) -> list[_Counted]:
    if a.sass is None and b.sass is None:
        return []
    x, y = ("?" if sass is None else str(sum(sass.values())) for sass in (a.sass, b.sass))
    rows = [("SASS instructions", x, y)]
    if a.sass is None or b.sass is None or a.sass == b.sass:
        return rows
    return rows + _mix_rows(a.sass, b.sass, same=False)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


# --- side by side -----------------------------------------------------------------------------


def _function(diff: Comparison, function: FunctionDiff, view: _View) -> Iterator[Styled]:
    renamed = "" if function.a == function.b else f" | {readable_name(function.b)}"
    inside = [d for d in function.differences if _is_inside(d)]
    same = "; the machine code is the same" if diff.summary.same_code(function.a, function.b) else ""
    yield [
        (f"{readable_name(function.a)}{renamed}", "bold"),
        (f"  {_plural(len(inside), 'difference')}{same}", _DIM),
    ]
    columns = _Columns(function, view.width)
    for side, file in zip("AB", columns.files, strict=True):
        if file:
            yield [(f"{side} recorded by {_relative(file)}", _DIM)]
    marks = _Marks(inside)
    shown = 0
    for hunk in _hunks(function.rows, marks, view.context):
        if view.limit is not None and shown >= view.limit:
            yield [(f"... {len(inside) - shown} more differences in this function (--all shows them)", _DIM)]
            return
        yield [("", "")]
        columns.start()
        for row in hunk:
            yield from columns.lines(row, *marks.style(row))
            for difference in marks.at(row):
                shown += 1
                if difference.kind not in ("inserted", "deleted"):
                    yield [("      ^ ", _DIM), (_note(difference), _CHANGED)]


def _is_inside(difference: Difference) -> bool:
    return any(p is not None and p.index is not None for p in (difference.a, difference.b))


def _note(difference: Difference) -> str:
    if difference.kind != "moved":
        return difference.message
    assert difference.a is not None and difference.b is not None
    lines = f"{difference.count} instructions " if difference.count > 1 else ""
    return f"{lines}moved: A {_where(difference.a)} -> B {_where(difference.b)}"


def _where(place: Place) -> str:
    if place.source is not None:
        return place.source.short
    return f"line {place.line}" if place.line is not None else f"instruction {place.index}"


class _Marks:
    """The differences of a function, looked up by the row of the side-by-side view that shows them."""

    def __init__(self, differences: Iterable[Difference]) -> None:
        self.first: dict[int, list[Difference]] = defaultdict(list)
        self.second: dict[int, list[Difference]] = defaultdict(list)
        self.moved_first: set[int] = set()
        self.moved_second: set[int] = set()
        for difference in differences:
            a = difference.a.index if difference.a is not None else None
            b = difference.b.index if difference.b is not None else None
            if a is not None:
                self.first[a].append(difference)
            elif b is not None:
                self.second[b].append(difference)
            if difference.kind == "moved" and a is not None and b is not None:
                self.moved_first.update(range(a, a + difference.count))
                self.moved_second.update(range(b, b + difference.count))

    def at(self, row: Row) -> list[Difference]:
        """Return the differences to print below a row: those of its A line, or else of its B line."""
        found = self.first.get(row[0], []) if row[0] is not None else []
        return found + (self.second.get(row[1], []) if row[1] is not None else [])

    def touches(self, row: Row) -> bool:
        return bool(self.at(row)) or None in row

    def style(self, row: Row) -> tuple[str, str]:
        """Return the sign to print between the two columns of a row, and the row's color."""
        a, b = row
        if a in self.moved_first or b in self.moved_second:
            return _MARKS["moved"]
        if b is None:
            return _MARKS["deleted"]
        if a is None:
            return _MARKS["inserted"]
        return ("~", _CHANGED) if self.at(row) else (" ", "")


def _hunks(rows: Sequence[Row], marks: _Marks, context: int) -> Iterator[Sequence[Row]]:
    """Yield groups of consecutive rows: each has rows that differ, with ``context`` equal rows around them.

    Groups that touch are merged.
    """
    start = end = -1
    for number, row in enumerate(rows):
        if not marks.touches(row):
            continue
        if start < 0:
            start = max(0, number - context)
        elif number - context > end:
            yield rows[start:end]
            start = number - context
        end = min(len(rows), number + context + 1)
    if start >= 0:
        yield rows[start:end]


class _Columns:
    """Formats a function as two columns: PTX with line numbers, below the Python line that emitted it."""

    def __init__(self, function: FunctionDiff, width: int) -> None:
        self.function = function
        self.width = (width - 3) // 2
        places = (*function.first, *function.second)
        self.gutter = max((len(_number(place)) for place in places), default=0)
        self.python: list[SourceLocation | None] = [None, None]
        #: For each side, the Python file that recorded most of its instructions; empty for PTX text.
        self.files = [_main_file(side) for side in (function.first, function.second)]

    def start(self) -> None:
        """Begin a new group of rows, in which the Python lines are shown again."""
        self.python = [None, None]

    def lines(self, row: Row, sign: str, style: str) -> Iterator[Styled]:
        """Yield the printed lines of one row: labels, the Python lines if they changed, the instructions."""
        function = self.function
        left = function.first[row[0]] if row[0] is not None else None
        right = function.second[row[1]] if row[1] is not None else None
        labels = [
            table.get(i, "") if i is not None else "" for table, i in zip(function.labels, row, strict=True)
        ]
        if any(labels):
            yield self._both(labels)
        told = [self._python(side, place) for side, place in enumerate((left, right))]
        if any(told):
            yield self._both(told)
        cells = [self._cell(place, whole=sign != " ") for place in (left, right)]
        for number in range(max(map(len, cells))):
            (n, text), (m, other) = (c[number] if number < len(c) else ("", "") for c in cells)
            room = self.width - self.gutter - 1
            yield [
                (f"{n:>{self.gutter}} ", _DIM),
                (f"{text:<{room}}", style),
                (f" {sign if not number else ' '} ", style),
                (f"{m:>{self.gutter}} ", _DIM),
                (other, style),
            ]

    def _python(self, side: int, place: Place | None) -> str:
        """Return the Python line that emitted ``place``, or "" if it is unknown or already shown."""
        if place is None or place.source is None or place.source == self.python[side]:
            return ""
        self.python[side] = place.source
        source = place.source
        where = source.line if source.file == self.files[side] else source.short
        return f"# {where}: {source.text}"

    def _both(self, texts: Sequence[str]) -> Styled:
        """Return one printed line that shows one text in each of the two columns."""
        first, second = (_cut(text, self.width) for text in texts)
        return [(f"{first:<{self.width}}   {second}", _DIM)]

    def _cell(self, place: Place | None, *, whole: bool) -> list[tuple[str, str]]:
        """Return ``(line number, PTX text)`` for each printed line of a cell.

        If not ``whole``, the result is one line, cut to the width of the column.
        """
        if place is None:
            return [("", "")]
        room = self.width - self.gutter - 1
        text = place.text
        if len(text) <= room:
            return [(_number(place), text)]
        if not whole:
            return [(_number(place), _cut(text, room))]
        first, *more = textwrap.wrap(text, room, subsequent_indent="    ", break_on_hyphens=False)
        return [(_number(place), first), *(("", line) for line in more)]


def _relative(file: str) -> str:
    """Return the path of ``file`` relative to the working directory, if the file lies below it."""
    here = Path.cwd()
    return str(Path(file).relative_to(here)) if Path(file).is_relative_to(here) else file


def _main_file(places: Sequence[Place]) -> str:
    files = Counter(place.source.file for place in places if place.source is not None)
    return files.most_common(1)[0][0] if files else ""


def _number(place: Place) -> str:
    return str(place.line if place.line is not None else place.index)


# --- JSON -------------------------------------------------------------------------------------


def as_json(diff: Comparison) -> dict[str, Any]:
    """Return the report as a dict that JSON can hold; docs/diff.md has the schema."""
    summary: dict[str, Any] = {"a": _counts(diff.summary.a), "b": _counts(diff.summary.b)}
    if diff.summary.machines is not None:
        for side, machine in zip("ab", diff.summary.machines, strict=True):
            summary[side] |= _machine(machine)
    return {
        "equal": diff.equal,
        "a": diff.a,
        "b": diff.b,
        "counts": diff.counts,
        "differences": [_difference(d) for d in diff.differences],
        "functions": [{"a": f.a, "b": f.b, "differences": len(f.differences)} for f in diff.functions],
        "summary": summary,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "message": difference.message,
        "function": difference.function,
        "count": difference.count,
        "a": _place(difference.a),
        "b": _place(difference.b),
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    source = place.source
    return {
        "text": place.text,
        "line": place.line,
        "index": place.index,
        "python": None if source is None else {"file": source.file, "line": source.line},
    }


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "instructions": counts.instructions,
        "barriers": counts.barriers,
        "tma": counts.copies,
        "mma": counts.mma,
        "categories": counts.categories,
    }


def _machine(machine: MachineCode) -> dict[str, Any]:
    return {
        "resources": [
            {
                "function": r.function,
                "registers": r.registers,
                "spills": r.spills,
                "shared": r.shared,
                "barriers": r.barriers,
            }
            for r in machine.resources
        ],
        "sass": machine.sass,
        "missing": machine.missing,
    }
