"""What a comparison gives: :class:`Comparison`, its differences and where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ...core.source import SourceLocation
from ...ir import Module, Param, Statement, Variable
from ...ir.mangling import demangle
from .summary import Summary

__all__ = ["KINDS", "Comparison", "Difference", "FunctionDiff", "Locate", "Place", "Row", "readable_name"]

#: Kinds of differences, and what each says.
KINDS = {
    "header": "version, target or address size",
    "function": "a function or a prototype that only one side has",
    "renamed": "a function or a variable that others can see has another name",
    "linkage": "linkage or attributes of a function",
    "directive": "a performance directive or a pragma",
    "parameter": "a parameter or a result",
    "variable": "a variable: one side only, or its size, type, alignment, initial value",
    "module": "another directive of the module",
    "inserted": "an instruction that only B has",
    "deleted": "an instruction that only A has",
    "moved": "instructions that stand elsewhere, unchanged",
    "opcode": "another instruction on the same operands",
    "modifier": "other modifiers",
    "guard": "another guard",
    "operand": "another operand, or a register that is not the one it should be",
    "immediate": "another constant",
    "offset": "another offset of an address",
    "special": "another special register",
    "branch": "a branch to somewhere else, or a label that stands elsewhere",
    "register": "a register of another width, or one that is two on the other side",
}


def readable_name(function: str) -> str:
    """A function as reports name it: in C++, without the ``void`` that every kernel returns."""
    return demangle(function).removeprefix("void ")


@dataclass(frozen=True)
class Place:
    """A line of one side.

    Attributes:
        text: the instruction, or the declaration, as PTX.
        line: 1-based line of the PTX text.
        source: the Python line that recorded it, if a kernel did.
        index: place among the function's instructions; None for what is none.
    """

    text: str
    line: int | None = None
    source: SourceLocation | None = None
    index: int | None = None

    def __str__(self) -> str:
        where = self.source.short if self.source is not None else f"line {self.line}" if self.line else ""
        return f"{where}: {self.text}" if where else self.text


#: The place of a thing of a side, and its index if it is one of the instructions.
Locate = Callable[["Statement | Param | Variable", "int | None"], Place]


@dataclass(frozen=True)
class Difference:
    """One thing that differs.

    Attributes:
        kind: one of :data:`KINDS`.
        message: what, in words: ``modifier .rn -> .rz``.
        function: the function that it is in, by A's name (B's if A has none); empty for the module. A C++
            name is mangled here, and read in ``str()``.
        a, b: where, on either side; None where that side has nothing there.
        count: instructions or places that it covers: those of a moved run, say.
    """

    kind: str
    message: str
    function: str = ""
    a: Place | None = None
    b: Place | None = None
    count: int = 1

    def __str__(self) -> str:
        place = self.a or self.b
        where = f"{readable_name(self.function)}: " if self.function else ""
        if place is None:
            return f"{where}{self.message}"
        side = "" if self.a is not None else "B "
        line = f"{side}{place.source.short}: " if place.source else f"{side}line {place.line}: "
        return f"{where}{line if place.source or place.line else ''}{self.message}"


#: A row of the side-by-side view: indices of the lines, None where a side has none.
Row = tuple[int | None, int | None]


@dataclass(frozen=True)
class FunctionDiff:
    """Two functions that stand for each other.

    Attributes:
        a, b: their names.
        rows: the lines of both, side by side.
        first, second: the places of the lines of A and of B.
        labels: of A and of B, the labels that something refers to, by the line that they stand before.
        differences: what differs, in the order of A's lines.
    """

    a: str
    b: str
    rows: tuple[Row, ...] = field(repr=False)
    first: tuple[Place, ...] = field(repr=False)
    second: tuple[Place, ...] = field(repr=False)
    labels: tuple[dict[int, str], dict[int, str]] = field(repr=False)
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Comparison:
    """What a comparison of two modules found.

    Attributes:
        a, b: what was compared, in words.
        modules: their IR.
        differences: all of them: of the modules, then function by function.
        functions: the functions that stand for each other.
        summary: counts of both sides; registers, spills and machine code where they were asked for.
    """

    a: str
    b: str
    modules: tuple[Module, Module] = field(repr=False)
    differences: tuple[Difference, ...]
    functions: tuple[FunctionDiff, ...] = field(repr=False)
    summary: Summary = field(repr=False)

    @property
    def equal(self) -> bool:
        """Whether nothing that counts differs."""
        return not self.differences

    @property
    def same_code(self) -> bool:
        """Whether at most the header differs: PTX version, target, address size."""
        return all(d.kind == "header" for d in self.differences)

    @property
    def counts(self) -> dict[str, int]:
        """Differences by kind, most frequent first."""
        return dict(Counter(d.kind for d in self.differences).most_common())

    def __bool__(self) -> bool:
        """Whether there is a difference."""
        return not self.equal
