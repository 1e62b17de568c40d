"""Makes declarations of variables: an ``ir.Variable`` with initial values, from an author's arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.errors import OperandError
from ..core.source import SourceLocation
from ..core.types import ScalarType
from ..ir import (
    Attribute,
    Immediate,
    Initial,
    InitialList,
    MaskedSymbol,
    Setting,
    Symbol,
    SymbolAddress,
    Variable,
)
from .symbols import Sym, check_name
from .types import as_number, as_whole, encode_number, the_type

__all__ = ["constant", "initial_value", "make_variable"]

_SPACES = frozenset({"const", "global", "local", "param", "shared", "tex"})
_LINKAGE = ("", "visible", "weak", "common")
_VECTORS = (1, 2, 4, 8)
_INITIAL = (Immediate, Symbol, SymbolAddress, MaskedSymbol, Setting, InitialList)


def make_variable(
    space: str,
    kind: ScalarType,
    name: str | None,
    *,
    shape: Sequence[int],
    align: int | None,
    vector: int,
    external: bool,
    linkage: str,
    attributes: Sequence[Attribute],
    init: Any,
    source: SourceLocation | None,
) -> Variable:
    """Make the declaration that an author described. Raises :class:`OperandError` for a wrong argument."""
    if name is None:
        raise OperandError(
            "a variable needs a name", hint='assign it to a Python variable, or pass name="..."'
        )
    check_name(name)
    the_type(kind)
    if str(space).partition("[")[0] not in _SPACES:
        raise OperandError(
            f"{name}: {space!r} is not a space of variables: expected {', '.join(sorted(_SPACES))}",
            see="state-spaces",
        )
    extents = tuple(-1 if (n := as_whole(given)) is None else n for given in shape)
    if any(extent < 0 for extent in extents) or 0 in extents[1:]:
        raise OperandError(
            f"{name}: shape is {shape!r}: expected positive integers; the first may be 0 (unsized)",
            see="array-declarations",
        )
    if align is not None and ((whole := as_whole(align)) is None or whole < 1 or whole & (whole - 1)):
        raise OperandError(f"{name}: align is {align!r}: expected a power of two", see="alignment")
    if vector not in _VECTORS:
        raise OperandError(f"{name}: a vector has 2, 4 or 8 elements, not {vector!r}", see="vectors")
    if linkage not in _LINKAGE:
        raise OperandError(
            f"{name}: linkage is {linkage!r}: expected visible, weak, common or nothing; "
            "external=True for .extern",
            see="linking-directives",
        )
    initial = None if init is None else initial_value(init, kind, name)
    if extents and extents[0] == 0 and isinstance(initial, InitialList):
        extents = (len(initial.elements), *extents[1:])
    return Variable(
        name,
        space,
        kind,
        math.prod(extents) if extents else None,
        align,
        external,
        source,
        extents if len(extents) > 1 else (),
        vector,
        linkage,
        tuple(attributes),
        initial,
    )


def constant(number: int | float, kind: ScalarType) -> Immediate:
    """Convert ``number`` to a constant of ``kind``. Raises :class:`OperandError` if it does not fit."""
    return Immediate(encode_number(number, kind), 32 if kind.name == "f32" else 64)


def initial_value(value: Any, kind: ScalarType, name: str) -> Initial | InitialList:
    """Convert a number, a symbol, an IR node, or a nested sequence of them to an initial value of ``kind``.

    Raises :class:`OperandError` for anything else, and for a number that does not fit.
    """
    if isinstance(value, _INITIAL):
        return value
    if isinstance(value, Sym):
        return value.operand
    if isinstance(value, str | bytes):
        raise OperandError(
            f"{name}: {value!r} is not an initial value", hint='give a list of bytes: list(b"...")'
        )
    number = as_number(value)
    if number is not None:
        return constant(number, kind)
    try:
        elements = list(value)
    except TypeError:
        raise OperandError(
            f"{name}: {value!r} is not an initial value: expected a number, a symbol, or a list of them",
            see="initializers",
        ) from None
    return InitialList(tuple(initial_value(element, kind, name) for element in elements))
