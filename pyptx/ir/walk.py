"""Walks an operand: finds its registers, symbols and constants, and replaces its registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from .nodes import (
    Address,
    Arguments,
    BranchTarget,
    Element,
    Immediate,
    Indexed,
    Minus,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
)

__all__ = ["Leaf", "leaves", "map_registers", "registers_of"]

#: An operand without parts.
Leaf: TypeAlias = Register | Special | Immediate | Symbol | BranchTarget | Sink

_LEAVES = (Register, Special, Immediate, Symbol, BranchTarget, Sink)
_Operand = TypeVar("_Operand", bound=Operand)


def leaves(operand: Operand) -> list[Leaf]:
    """Return the innermost parts of ``operand``, such as registers, in the order of the text."""
    if isinstance(operand, _LEAVES):
        return [operand]
    found: list[Leaf] = []
    for part in _parts(operand):
        if isinstance(part, _LEAVES):
            found.append(part)
        else:
            found += leaves(part)
    return found


def _parts(operand: Operand) -> tuple[Operand, ...]:
    if isinstance(operand, Vector | Arguments):
        return operand.elements
    if isinstance(operand, Address):
        inner = () if operand.coordinates is None else (operand.coordinates,)
        return (operand.base, *operand.extra, *inner)
    if isinstance(operand, Pair):
        return (operand.first, operand.second)
    if isinstance(operand, Negated | Element | Sum):
        return (operand.register,)
    if isinstance(operand, Indexed):
        return (Symbol(operand.name), operand.index)
    assert isinstance(operand, Minus), operand
    return (operand.operand,)


def registers_of(operand: Operand) -> list[Register]:
    """Return the registers in ``operand``, in the order of the text."""
    if isinstance(operand, Register):
        return [operand]
    return [leaf for leaf in leaves(operand) if isinstance(leaf, Register)]


def map_registers(operand: _Operand, change: Callable[[Register], Register]) -> _Operand:
    """Return ``operand`` with each of its registers replaced by the result of ``change``."""

    def new(given: Any) -> Any:
        if isinstance(given, Register):
            return change(given)
        if isinstance(given, Vector | Arguments):
            return type(given)(tuple(map(new, given.elements)))
        if isinstance(given, Address):
            inner = None if given.coordinates is None else new(given.coordinates)
            return replace(given, base=new(given.base), extra=tuple(map(new, given.extra)), coordinates=inner)
        if isinstance(given, Pair):
            return Pair(new(given.first), new(given.second))
        if isinstance(given, Negated | Element | Sum):
            return replace(given, register=change(given.register))
        if isinstance(given, Minus):
            return Minus(new(given.operand))
        if isinstance(given, Indexed):
            return replace(given, index=new(given.index))
        return given

    changed: _Operand = new(operand)
    return changed
