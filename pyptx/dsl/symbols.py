"""Symbols: variables, parameters and functions by name, as operands and as the base of addresses.

Also owns rare operands: a part of a register, a negated source, a source plus a constant, a float constant by
its bits.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, NoReturn

from ..core.errors import OperandError, TraceError
from ..core.types import ScalarType
from ..ir import Element, Immediate, Indexed, Minus, Register, Sum, Symbol
from .call_sites import here
from .registers import Reg, owned
from .trace import current
from .types import as_whole, the_type

__all__ = ["Sym", "VectorReg", "check_name", "declare", "minus", "part", "pattern", "plus", "symbol"]

_NAME = partial(re.compile, r"(?:[A-Za-z][\w$]*|[_$%][\w$]+)\Z", re.ASCII)
_REGISTER = partial(re.compile, r"[\w$]+\Z", re.ASCII)
_PARTS = frozenset("xyzwrgba")
_LENGTHS = (1, 2, 4, 8)


def check_name(name: object) -> str:
    """Return ``name`` if PTX allows it for a variable or a function; else raise :class:`TraceError`."""
    if not isinstance(name, str) or not _NAME().match(name):
        raise TraceError(
            f"{name!r} cannot name a variable, a parameter or a function",
            hint="use letters, digits, _ and $; begin with a letter, or with _, $ or % and another character",
            see="identifiers",
        )
    return name


def _fits(offset: int) -> bool:
    return -(1 << 63) <= offset < 1 << 63


class Sym:
    """The name of a variable, a parameter or a function, with a constant byte offset.

    As an operand it stands for the address of the variable, or of the function's entry.  ``s + 4`` is another
    symbol; ``s[3]``, ``s[r]`` and ``s[ptx.plus(r, 1)]`` are elements of an array; ``ptx.addr(s, 8)`` is the
    address ``[s+8]``.
    """

    __slots__ = ("name", "offset")
    __hash__ = object.__hash__

    def __init__(self, name: str, offset: int = 0) -> None:
        self.name = name
        self.offset = offset

    @property
    def operand(self) -> Symbol:
        return Symbol(self.name, self.offset)

    def __str__(self) -> str:
        return str(self.operand)

    def __repr__(self) -> str:
        return f"<symbol {self}>"

    def __add__(self, offset: int) -> Sym:
        number = as_whole(offset)
        if number is None or not _fits(self.offset + number):
            raise OperandError(
                f"{self} + {offset!r}: a symbol takes a constant number of bytes, 64 bits at most",
                hint="move the address into a register first, and add to the register",
                see="addresses-as-operands",
            )
        return Sym(self.name, self.offset + number)

    def __sub__(self, offset: int) -> Sym:
        number = as_whole(offset)
        return self + (offset if number is None else -number)

    def __iter__(self) -> NoReturn:
        raise OperandError(
            f"{self} names one variable and cannot be iterated over",
            hint="index it with numbers: s[0], s[1]",
            see="arrays-as-operands",
        )

    def __getitem__(self, index: int | Reg | Sum) -> Indexed:
        if isinstance(index, Reg):
            return Indexed(self.name, owned(index, current()).operand)
        if isinstance(index, Sum):
            return Indexed(self.name, index)
        number = as_whole(index)
        if number is None or self.offset:
            raise OperandError(
                f"{self}[{index!r}]: an array's name is indexed with a number, a register or ptx.plus(r, 1)",
                see="arrays-as-operands",
            )
        return Indexed(self.name, Immediate(number))


def symbol(name: str, offset: int = 0) -> Sym:
    """Return the symbol of a variable, parameter or function that is declared elsewhere. Records nothing.

    Raises :class:`TraceError` for a name that PTX does not allow.  PTX ISA: `#variables-as-operands`.
    """
    return Sym(check_name(name)) + offset


# --- registers as declared --------------------------------------------------------------------------


class VectorReg(Reg):
    """A vector register, ``.reg .v4 .f32 %v``. It is one operand; ``v.x`` to ``v.w`` are its elements."""

    __slots__ = ()

    def _element(self, selector: str) -> Element:
        return Element(owned(self, current()).operand, selector)

    @property
    def x(self) -> Element:
        return self._element("x")

    @property
    def y(self) -> Element:
        return self._element("y")

    @property
    def z(self) -> Element:
        return self._element("z")

    @property
    def w(self) -> Element:
        return self._element("w")


def declare(kind: ScalarType, name: Any, *, vector: int = 1) -> Reg:
    """Declare a register of exactly this type and name. Records nothing.

    ``reg.scalar`` declares a type that can hold the values (``.b16`` for u8 and bf16) and finds a free name;
    ``reg.declare`` serves to reproduce a given PTX text.

    Args:
        kind: type in the declaration.
        name: name in the text, without ``%``.
        vector: 2, 4 or 8 for a vector register, whose elements are ``v.x`` to ``v.w``.

    Raises:
        OperandError: ``kind`` is not a type, or ``vector`` is not a length of vectors.
        TraceError: a name that PTX does not allow, or that another register has.

    PTX ISA: `#register-state-space`.
    """
    trace = current()
    kind = the_type(kind)
    if vector not in _LENGTHS:
        raise OperandError(f"a vector register has 2, 4 or 8 elements, not {vector!r}", see="vectors")
    if not isinstance(name, str) or not _REGISTER().match(name):
        raise TraceError(
            f"{name!r} cannot name a register",
            hint="use letters, digits, _ and $, without the %",
            see="identifiers",
        )
    register = trace.declare_as(name, kind, vector)
    made = VectorReg if vector > 1 else Reg
    return made(trace, register, kind, trace.region, here()[1])


# --- rare operands ----------------------------------------------------------------------------------


def _register(value: Reg, what: str) -> Register:
    if not isinstance(value, Reg):
        raise OperandError(f"{what} takes a register, not {value!r}")
    return owned(value, current()).operand


def part(register: Reg, selector: str) -> Element:
    """Select part of a register: ``"x"`` of a vector register, ``"b0"`` or ``"h1"`` in video instructions.

    Records nothing.  PTX ISA: `#scalar-video-instructions`.
    """
    return Element(_register(register, "a part"), selector)


def minus(source: Reg | Element) -> Minus:
    """Write ``-%r``, a negated source of ``vmad``. Records nothing.

    PTX ISA: `#scalar-video-instructions-vmad`.
    """
    return Minus(source if isinstance(source, Element) else _register(source, "a negated source"))


def plus(register: Reg, offset: int) -> Sum:
    """Write ``%r+4``, a register plus a constant as a source outside of an address. Records nothing.

    In contrast, ``r + 4`` records an ``add``.
    """
    number = as_whole(offset)
    if number is None or not _fits(number):
        raise OperandError(f"ptx.plus adds a constant of 64 bits at most to a register, not {offset!r}")
    return Sum(_register(register, "a sum"), number)


def pattern(bits: int, kind: ScalarType) -> Immediate:
    """Make an f32 or f64 constant from its bits: ``ptx.pattern(0x7FC00001, f32)`` is ``0f7FC00001``.

    Records nothing.  Raises :class:`OperandError` for another type, or for more bits than the type has.

    PTX ISA: `#floating-point-constants`.
    """
    kind, number = the_type(kind), as_whole(bits)
    if kind.name not in ("f32", "f64") or number is None or not 0 <= number < 1 << kind.bits:
        raise OperandError(
            f"ptx.pattern({bits!r}, {kind}): expected f32 or f64, and no more bits than the type has",
            see="floating-point-constants",
        )
    return Immediate.from_pattern(number, kind.bits)
