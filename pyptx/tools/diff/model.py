"""The result of comparing two PTX modules A and B: :class:`Comparison` and the differences in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...ir import Module, Param, Statement, Variable
from ...ir.mangling import demangle
from .summary import Summary

__all__ = ["KINDS", "Comparison", "Difference", "FunctionDiff", "Locate", "Place", "Row", "readable_name"]

#: Kinds of differences, and what each means.
KINDS = {
    "header": "version, target or address size",
    "function": "a function or a prototype that only one side has",
    "renamed": "a function or a variable that other modules can see has another name",
    "linkage": "linkage or attributes of a function",
    "directive": "a performance directive or a pragma",
    "parameter": "a parameter or a result",
    "variable": "a variable that only one side has, or whose size, type, alignment or initial value differs",
    "module": "another directive of the module",
    "inserted": "an instruction that only B has",
    "deleted": "an instruction that only A has",
    "moved": "unchanged instructions at another place",
    "opcode": "another instruction on the same operands",
    "modifier": "other modifiers",
    "guard": "another guard",
    "operand": "another operand, or a register that is not the corresponding one",
    "immediate": "another constant",
    "offset": "another offset of an address",
    "special": "another special register",
    "branch": "a branch to another place, or a label at another place",
    "register": "a register of another width, or a register that is two registers on the other side",
}


def readable_name(function: str) -> str:
    """Return a function's name for reports: demangled, without the ``void`` that every kernel returns."""
    return demangle(function).removeprefix("void ")


@dataclass(frozen=True)
class Place:
    """One instruction or declaration of A or of B, with the line that it comes from.

    Attributes:
        text: the instruction or the declaration, as PTX.
        line: 1-based line of the PTX text; None if it is not known.
        source: the Python line that emitted it, if this side is a pyptx kernel.
        index: index among the function's instructions; None for a declaration.
    """

    text: str
    line: int | None = None
    source: SourceLocation | None = None
    index: int | None = None

    def __str__(self) -> str:
        where = self.source.short if self.source is not None else f"line {self.line}" if self.line else ""
        return f"{where}: {self.text}" if where else self.text


#: Returns the place of a node of a side; the second argument is its index if it is an instruction.
Locate = Callable[["Statement | Param | Variable", "int | None"], Place]


@dataclass(frozen=True)
class Difference:
    """One difference between A and B.

    Attributes:
        kind: one of :data:`KINDS`.
        message: text that describes the difference, such as ``modifier .rn -> .rz``.
        function: name of the function in A (in B if A has no such function); empty for the module. A C++ name
            is mangled here, and demangled in ``str()``.
        a, b: the place on each side; None if that side has no counterpart.
        count: number of instructions or places that the difference covers, such as the lines of a move.
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


#: A row of the side-by-side view: the index of a line of each side, or None.
Row = tuple[int | None, int | None]


@dataclass(frozen=True)
class FunctionDiff:
    """The comparison of one function of A with the corresponding function of B.

    Attributes:
        a, b: the function's names in A and in B.
        rows: the lines of both functions, side by side.
        first, second: the PTX text and origin of each line, of A and of B.
        labels: for A and for B, index of the line after a label -> the label, if a line refers to it.
        differences: the differences, in the order of A's lines.
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
    """The result of comparing two PTX modules, A and B. True in a condition if there is a difference.

    Attributes:
        a, b: names of the two sides in reports.
        modules: the IR of A and of B.
        differences: all differences: first those outside of functions, then those of each function.
        functions: one :class:`FunctionDiff` for each function of A that has a counterpart in B.
        summary: counts of both sides; also registers, spills and machine code if the caller asked for them.
    """

    a: str
    b: str
    modules: tuple[Module, Module] = field(repr=False)
    differences: tuple[Difference, ...]
    functions: tuple[FunctionDiff, ...] = field(repr=False)
    summary: Summary = field(repr=False)

    @property
    def equal(self) -> bool:
        """True if A and B do not differ."""
        return not self.differences

    @property
    def same_code(self) -> bool:
        """True if A and B differ at most in the header (PTX version, target, address size)."""
        return all(d.kind == "header" for d in self.differences)

    @property
    def counts(self) -> dict[str, int]:
        """The number of differences of each kind (a key of :data:`KINDS`), the most frequent kind first."""
        return dict(Counter(d.kind for d in self.differences).most_common())

    def __bool__(self) -> bool:
        """Return True if A and B differ."""
        return not self.equal
