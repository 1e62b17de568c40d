"""Nodes for the parts of a module that are not code: initializers, attributes, pragmas, debug data.

At run time this module does not import :mod:`.nodes`, which imports it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from ..core.records import dataclass
from ..core.source import SourceLocation

if TYPE_CHECKING:
    from .nodes import Immediate, Symbol

__all__ = [
    "Alias",
    "Attribute",
    "LabelDifference",
    "Dwarf",
    "File",
    "Initial",
    "InitialList",
    "Loc",
    "MaskedSymbol",
    "ModuleDirective",
    "Pointer",
    "Pragma",
    "Section",
    "SectionData",
    "SectionLabel",
    "Setting",
    "SymbolAddress",
]

# --- initializers -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SymbolAddress:
    """``generic(name)+offset``: the generic address of a variable as an initial value."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return f"generic({self.name})+{self.offset}" if self.offset else f"generic({self.name})"


@dataclass(frozen=True, slots=True)
class MaskedSymbol:
    """``0xff00(name)``: an initial value made of those bytes of an address that ``mask`` selects."""

    mask: int
    symbol: Symbol | SymbolAddress

    def __str__(self) -> str:
        return f"{self.mask:#x}({self.symbol})"


@dataclass(frozen=True, slots=True)
class Setting:
    """``filter_mode = nearest``: one field in the initializer of a texture or sampler."""

    name: str
    value: str | int

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


Initial: TypeAlias = "Immediate | Symbol | SymbolAddress | MaskedSymbol | Setting"


@dataclass(frozen=True, slots=True)
class InitialList:
    """``{a, b, {c, d}}``: a list of initial values; elements that it does not give are zero."""

    elements: tuple[Initial | InitialList, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.elements)) + "}"


# --- parts of declarations --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attribute:
    """``.attribute(.managed)`` or ``.attribute(.unified(19, 95))``; ``name`` is without the dot."""

    name: str
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        values = f"({', '.join(map(str, self.values))})" if self.values else ""
        return f".attribute(.{self.name}{values})"


@dataclass(frozen=True, slots=True)
class Pointer:
    """``.ptr .global .align 16`` of a kernel parameter; without a state space the pointer is generic."""

    space: str = ""
    align: int | None = None

    def __str__(self) -> str:
        space = f" .{self.space}" if self.space else ""
        return f".ptr{space}" + (f" .align {self.align}" if self.align is not None else "")


@dataclass(frozen=True, slots=True)
class Pragma:
    """``.pragma "nounroll";`` in a module, in a function's header or among its statements."""

    strings: tuple[str, ...]
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return ".pragma " + ", ".join(f'"{s}"' for s in self.strings) + ";"


# --- debug data -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loc:
    """``.loc file line column``: the source line of the statements after it.

    For an inlined function, ``function`` is the label of its name in ``.debug_str`` (``offset`` is added to
    the label), and ``inlined_at`` is the file, line and column of the call.
    """

    file: int
    line: int
    column: int
    function: str = ""
    offset: int = 0
    inlined_at: tuple[int, int, int] | None = None
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        text = f".loc {self.file} {self.line} {self.column}"
        if self.function:
            text += f", function_name {self.function}" + (f"+{self.offset}" if self.offset else "")
        if self.inlined_at is not None:
            text += ", inlined_at {} {} {}".format(*self.inlined_at)
        return text


@dataclass(frozen=True, slots=True)
class File:
    """``.file index "name"``; ``stamp`` has the time stamp and the size, if the text gives them."""

    index: int
    name: str
    stamp: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f'.file {self.index} "{self.name}"' + "".join(f", {n}" for n in self.stamp)


@dataclass(frozen=True, slots=True)
class Alias:
    """``.alias name, target;``: ``name`` is a second name of the function ``target``."""

    name: str
    target: str

    def __str__(self) -> str:
        return f".alias {self.name}, {self.target};"


@dataclass(frozen=True, slots=True)
class Dwarf:
    """``@@DWARF .byte 1, 2``: debug data before PTX 2.0; ``text`` is the rest of the line."""

    text: str

    def __str__(self) -> str:
        return f"@@DWARF {self.text}"


@dataclass(frozen=True, slots=True)
class LabelDifference:
    """``a-b``: the distance between two labels."""

    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first}-{self.second}"


@dataclass(frozen=True, slots=True)
class SectionData:
    """``.b8 1, 2, 3``: a line of data; a symbol in it names a label or a section (``.debug_abbrev``)."""

    type: str
    values: tuple[int | Symbol | LabelDifference, ...]

    def __str__(self) -> str:
        return f".{self.type} {', '.join(map(str, self.values))}"


@dataclass(frozen=True, slots=True)
class SectionLabel:
    """A label among a section's data."""

    name: str

    def __str__(self) -> str:
        return f"{self.name}:"


@dataclass(frozen=True, slots=True)
class Section:
    """``.section .debug_info { ... }``; ``name`` is without the dot."""

    name: str
    items: tuple[SectionData | SectionLabel, ...]

    def __str__(self) -> str:
        return "\n".join([f".section .{self.name}", "{", *map(str, self.items), "}"])


ModuleDirective: TypeAlias = Pragma | File | Alias | Section | Dwarf
