"""Writes Python text: numbers, indented blocks, lines of declarations, and long calls broken over lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np

from ...core.records import dataclass

__all__ = ["WIDTH", "SourceBlock", "Formula", "common", "nearest", "number", "packed", "wrapped"]

WIDTH = 110
_MASK = re.compile(r"0x([0-9a-f])\1+$|0x[0-9a-f]0+$|0x[0-9a-f]*ffff$")


class Formula(int):
    """A number that depends on a loop's variable; its Python text is ``base + stride * variable``.

    As an int it is ``base``.
    """

    base: int
    stride: int
    variable: str

    def __new__(cls, base: int, stride: int, variable: str) -> Formula:
        made = super().__new__(cls, base)
        made.base, made.stride, made.variable = base, stride, variable
        return made

    def __str__(self) -> str:
        base, stride, variable = self.base, self.stride, self.variable
        if stride == -1:
            return f"{base} - {variable}"
        term = variable if stride == 1 else f"{number(stride)} * {variable}"
        if base == 0:
            return term
        return f"{term} + {number(base)}" if base > 0 else f"{term} - {number(-base)}"


def nearest(value: float, bits: int) -> float:
    """Return the number with the shortest text that rounds to ``value`` in a float of ``bits`` bits."""
    return float(str(np.float32(value))) if bits == 32 else value


def number(value: int | float, *, mask: bool = False) -> str:
    """Return the Python text of a number; an integer that is, or looks like, a bit pattern is hexadecimal."""
    if isinstance(value, Formula):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if value < 1 << 16 and not (mask and value > 9):
        return str(value)
    text = hex(value)
    if value >= 1 << 24 or mask or _MASK.match(text):
        return text
    return str(value)


@dataclass(eq=False)
class SourceBlock:
    """Lines of one indentation, with nested blocks between them.

    ``declared`` has the lines that are printed before the others; the writer adds them last.
    """

    parent: SourceBlock | None = None
    lines: list[str | SourceBlock] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def add(self, line: str) -> None:
        self.lines.append(line)

    def inner(self) -> SourceBlock:
        """Add a nested block at this place, and return it."""
        made = SourceBlock(self)
        self.lines.append(made)
        return made

    def render(self, depth: int) -> Iterable[str]:
        """Yield the indented lines; an empty block becomes ``pass``."""
        indent = "    " * depth
        if not self.declared and all(str(line).startswith("#") for line in self.lines):
            yield from (indent + str(line) for line in self.lines)
            yield indent + "pass"
            return
        for line in (*self.declared, *self.lines):
            if isinstance(line, SourceBlock):
                yield from line.render(depth + 1)
            else:
                yield from wrapped(line, depth)


def common(first: SourceBlock, second: SourceBlock) -> SourceBlock:
    """Return the innermost block that contains both blocks."""
    around = {id(first)}
    while first.parent is not None:
        first = first.parent
        around.add(id(first))
    while id(second) not in around:
        assert second.parent is not None
        second = second.parent
    return second


def packed(items: Sequence[str], room: int) -> list[str]:
    """Join ``items`` by commas into lines of at most ``room`` characters."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 2 <= room:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return lines


def _pieces(text: str) -> list[str]:
    """Split ``text`` at the commas that are outside of parentheses and strings."""
    found: list[str] = []
    depth = 0
    quoted = False
    start = 0
    for at, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def wrapped(line: str, depth: int) -> list[str]:
    """Return the line, broken between the arguments of its outer call if it is too long."""
    indent = "    " * depth
    if len(indent) + len(line) <= WIDTH:
        return [indent + line]
    opened = line.find("(")
    comment = line.startswith(("#", '"'))
    closed = line.rfind(")")
    if opened < 0 or closed < opened or comment:
        return [indent + line]
    head, inside, tail = line[: opened + 1], line[opened + 1 : closed], line[closed:]
    found = [indent + head]
    for piece in _pieces(inside):
        found += _piece(piece, depth + 1)
    return [*found, indent + tail]


def _piece(piece: str, depth: int) -> list[str]:
    indent = "    " * depth
    if len(indent) + len(piece) + 1 <= WIDTH or piece[-1] not in ")]":
        return [f"{indent}{piece},"]
    opened = min(at for at in (piece.find("("), piece.find("[")) if at >= 0)
    pieces = _pieces(piece[opened + 1 : -1])
    calls = any("(" in p for p in pieces)
    inside = pieces if calls else packed(pieces, WIDTH - len(indent) - 5)
    return [
        indent + piece[: opened + 1],
        *(f"{indent}    {row}," for row in inside),
        f"{indent}{piece[-1]},",
    ]
