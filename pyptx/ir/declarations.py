"""Reads declarations: types and layouts, variables with initializers, parameters, directives."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.records import dataclass
from ..core.types import TYPES, ScalarType
from .constants import DEPTH, constant, integer, is_constant, starts_constant
from .data import Attribute, Initial, InitialList, MaskedSymbol, Pointer, Pragma, Setting, SymbolAddress
from .lexer import Cursor
from .nodes import OPAQUE_TYPES, Directive, Param, Symbol, Variable

__all__ = [
    "SPACES",
    "DeclaredType",
    "read_attributes",
    "read_bank",
    "read_directive",
    "read_layout",
    "read_params",
    "read_pragma",
    "read_range",
    "read_variables",
]

#: State spaces of variables; registers are read separately.
SPACES = frozenset({".const", ".global", ".local", ".param", ".shared", ".tex"})
_TYPES: dict[str, ScalarType] = {f".{t.name}": t for t in (*TYPES.values(), *OPAQUE_TYPES.values())}
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
#: Largest number of names in a range of variables or labels. More of them must be a mistake in the text.
_MOST_VARIABLES = 1 << 16
_POINTER_SPACES = frozenset({".const", ".global", ".local", ".shared", ".param"})


@dataclass(slots=True)
class DeclaredType:
    """The part of a declaration between the state space and the name: alignment, vector length and type."""

    type: ScalarType
    align: int | None = None
    vector: int = 1
    attributes: tuple[Attribute, ...] = ()
    pointer: Pointer | None = None


def read_attributes(cursor: Cursor) -> tuple[Attribute, ...]:
    """Read zero or more ``.attribute(.managed, .unified(1, 2))``."""
    found: list[Attribute] = []
    while cursor.accept(".attribute"):
        cursor.expect("(")
        while True:
            name = cursor.take()
            if name[0] != ".":
                cursor.fail("an attribute such as .managed", cursor.at - 1)
            values: tuple[int, ...] = ()
            if cursor.accept("("):
                values = _integers(cursor)
                cursor.expect(")")
            found.append(Attribute(name[1:], values))
            if not cursor.accept(","):
                break
        cursor.expect(")")
    return tuple(found)


def _integers(cursor: Cursor) -> tuple[int, ...]:
    values = [integer(cursor)]
    while cursor.accept(","):
        values.append(integer(cursor))
    return tuple(values)


def read_layout(cursor: Cursor) -> DeclaredType:
    """Read alignment, vector length and type, which stand in any order before the name."""
    layout: DeclaredType | None = None
    align: int | None = None
    vector = 1
    attributes: tuple[Attribute, ...] = ()
    pointer: Pointer | None = None
    while True:
        text = cursor.text
        if text in _TYPES:
            if layout is not None:
                cursor.fail("only one type in a declaration")
            layout = DeclaredType(_TYPES[cursor.take()])
        elif text in _VECTORS:
            vector = _VECTORS[cursor.take()]
        elif text == ".align":
            cursor.at += 1
            align = _alignment(cursor)
        elif text == ".attribute":
            attributes += read_attributes(cursor)
        elif text == ".ptr":
            cursor.at += 1
            space = cursor.take()[1:] if cursor.text in _POINTER_SPACES else ""
            pointer = Pointer(space, _alignment(cursor) if cursor.accept(".align") else None)
        else:
            if layout is None:
                cursor.fail("a type such as .b32")
            layout.align, layout.vector = align, vector
            layout.attributes, layout.pointer = attributes, pointer
            return layout


def _alignment(cursor: Cursor) -> int:
    start = cursor.at
    align = integer(cursor, "an alignment in bytes")
    if align <= 0 or align & (align - 1):
        cursor.fail("an alignment that is a power of two", start)
    return align


def read_bank(cursor: Cursor) -> str:
    """Read ``[2]`` after ``.const`` in old texts, and return the state space's name, ``const[2]``."""
    cursor.expect("[")
    bank = integer(cursor, "a constant bank")
    cursor.expect("]")
    return f"const[{bank}]"


def read_range(cursor: Cursor, what: str, most: int = _MOST_VARIABLES) -> tuple[str, int | None]:
    """Read ``name``, or ``name<3>`` for ``name0`` to ``name2``; return the name, and the number or None."""
    name = cursor.name(what)
    if not cursor.accept("<"):
        return name, None
    start = cursor.at
    count = integer(cursor, "a number of names", sum_of_terms=False)
    if not 0 < count <= most:
        cursor.fail(f"a number of names, 1 to {most:,}", start)
    cursor.expect(">")
    return name, count


def _extents(cursor: Cursor) -> tuple[int, ...]:
    """Read the extents ``[2][3]``; an empty pair of brackets gives 0."""
    shape: list[int] = []
    while cursor.accept("["):
        start = cursor.at
        extent = 0 if cursor.text == "]" else integer(cursor, "an array's extent or ']'")
        if extent < 0:
            cursor.fail("an extent that is not negative", start)
        shape.append(extent)
        cursor.expect("]")
    return tuple(shape)


def read_variables(
    cursor: Cursor,
    space: str,
    external: bool,
    linkage: str,
    declare: Callable[[str], str | None],
    attributes: tuple[Attribute, ...] = (),
) -> list[Variable]:
    """Read the part of a declaration after its state space, including the semicolon.

    ``declare`` gets a name from the text and returns the variable's name, or None if the name is in use.
    """
    if space == "const" and cursor.text == "[":
        space = read_bank(cursor)
    layout = read_layout(cursor)
    found: list[Variable] = []
    while True:
        source = cursor.location()
        start = cursor.at
        text, count = read_range(cursor, "a variable's name")
        written = [text]
        if count is not None:  # keep only the names of a range that are used, as ptxas does
            used = set(cursor.texts)
            written = [name for name in (f"{text}{n}" for n in range(count)) if name in used]
        names = [declare(name) for name in written]
        shape = _extents(cursor)
        initial = None
        if cursor.accept("="):
            initial = _initial_list(cursor, 0) if cursor.text == "{" else _initial(cursor)
        if shape and shape[0] == 0 and isinstance(initial, InitialList):
            shape = (len(initial.elements), *shape[1:])
        for name in names:
            if name is None:
                cursor.fail("a name that is not declared yet", start)
            variable = Variable(
                name,
                space,
                layout.type,
                prod(shape) if shape else None,
                layout.align,
                external,
                source,
                shape if len(shape) > 1 else (),
                layout.vector,
                linkage,
                attributes + layout.attributes,
                initial,
            )
            found.append(variable)
        if not cursor.accept(","):
            cursor.expect(";", "',' or ';'")
            return found


def _initial_list(cursor: Cursor, depth: int) -> InitialList:
    if depth > DEPTH:
        cursor.fail(f"at most {DEPTH} nested lists")
    cursor.expect("{")
    elements: list[Initial | InitialList] = []
    while cursor.text != "}":
        elements.append(_initial_list(cursor, depth + 1) if cursor.text == "{" else _initial(cursor))
        if not cursor.accept(","):
            break
    cursor.expect("}", "',' or '}'")
    return InitialList(tuple(elements))


def _initial(cursor: Cursor) -> Initial:
    if is_constant(cursor.text) and cursor.texts[cursor.at + 1] == "(":
        mask = integer(cursor)
        cursor.expect("(")
        symbol = _symbol(cursor)
        cursor.expect(")")
        return MaskedSymbol(mask, symbol)
    if starts_constant(cursor.text):
        return constant(cursor, "an initial value")
    if cursor.texts[cursor.at + 1] == "=":
        name = cursor.name("a field's name")
        cursor.expect("=")
        return Setting(name, integer(cursor) if starts_constant(cursor.text) else cursor.name("a setting"))
    return _symbol(cursor)


def _symbol(cursor: Cursor) -> Symbol | SymbolAddress:
    if cursor.text == "generic" and cursor.texts[cursor.at + 1] == "(":
        cursor.at += 2
        name = cursor.name("a variable's name")
        cursor.expect(")")
        return SymbolAddress(name, read_offset(cursor))
    name = cursor.name("an initial value")
    return Symbol(name, read_offset(cursor))


def read_offset(cursor: Cursor) -> int:
    """Read the offsets ``+4`` and ``-4`` after a name and return their sum; 0 if there is none."""
    total = 0
    while cursor.text in ("+", "-"):
        sign = 1 if cursor.take() == "+" else -1
        total += sign * integer(cursor, "an offset in bytes", sum_of_terms=False)
    return total


def read_params(cursor: Cursor, declare: Callable[[Param, str], Param | None]) -> tuple[Param, ...]:
    """Read ``( .param .b32 a, ... )`` with its parentheses; ``declare`` registers a parameter's name."""
    cursor.expect("(")
    found: list[Param] = []
    while not cursor.accept(")"):
        if found:
            cursor.expect(",", "',' or ')'")
        source = cursor.location()
        space = cursor.take()
        if space not in (".param", ".reg"):
            cursor.fail("a parameter: .param or .reg", cursor.at - 1)
        layout = read_layout(cursor)
        text = cursor.name("a parameter's name")
        shape = _extents(cursor)
        param = Param(
            text,
            layout.type,
            prod(shape) if shape else None,
            layout.align,
            source,
            space[1:],
            shape if len(shape) > 1 else (),
            layout.vector,
            layout.pointer,
        )
        known = declare(param, text)
        if known is None:
            cursor.fail("a name that is not declared yet")
        found.append(known)
    return tuple(found)


def read_directive(cursor: Cursor) -> Directive:
    """Read a directive such as ``.maxntid 128, 1, 1``: a name after a dot, and integers."""
    name = cursor.take()
    values: list[int] = []
    while starts_constant(cursor.text) and cursor.text != "(":
        values.append(integer(cursor))
        if not cursor.accept(","):
            break
        if not starts_constant(cursor.text):
            cursor.fail("an integer")
    return Directive(name[1:], tuple(values))


def read_pragma(cursor: Cursor) -> Pragma:
    """Read ``.pragma`` with its strings and the semicolon."""
    source = cursor.location()
    cursor.expect(".pragma")
    strings = [cursor.string("a quoted pragma")]
    while cursor.accept(","):
        strings.append(cursor.string("a quoted pragma"))
    cursor.expect(";")
    return Pragma(tuple(strings), source)
