"""Converts Python values to operands: registers, numbers, vectors, addresses, pairs, the sink.

Owns the conversion of the values that a user may pass as an operand to IR nodes.  The instruction table
checks whether an operand fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ..core.errors import OperandError
from ..core.types import pred
from ..ir import (
    Address,
    Arguments,
    Element,
    Guard,
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
from .labels import Label, label_name
from .register_arrays import RegArray
from .registers import NotPred, Reg, owned
from .symbols import Sym
from .trace import Trace
from .types import as_number, as_whole
from .valueless import Valueless

__all__ = [
    "Addr",
    "Addressable",
    "PairOf",
    "SpecialName",
    "addr",
    "address",
    "branch_target",
    "elements",
    "guard",
    "operand",
    "pair",
    "sink",
]

#: An element of a vector or of the list of a call.
Part: TypeAlias = Register | Immediate | Sink | Symbol | Special | Element | Vector
#: Nodes of the IR that an author may pass as they are; in a vector, only those of :data:`_PARTS`.
_PARTS = (Immediate, Special, Symbol, Element, Vector, Register)
_NODES = (*_PARTS, Address, Arguments, Indexed, Minus, Negated, Pair, Sum)

#: The bit bucket ``_``: a destination that discards the value.
sink = Sink()


@runtime_checkable
class Addressable(Protocol):
    """An object with an address of its own, such as a shared-memory buffer."""

    def address_parts(self) -> tuple[Reg, int]:
        """Return the base register and the constant byte offset."""
        ...


class Addr:
    """``[base+offset]``, or with tensor coordinates; made by :func:`addr`."""

    __slots__ = ("base", "coordinates", "extra", "offset", "suffix", "zero")

    def __init__(
        self,
        base: Reg | Sym | Immediate,
        offset: int,
        coordinates: tuple[Any, ...] | None,
        extra: tuple[Any, ...] = (),
        suffix: str = "",
        zero: bool = False,
    ) -> None:
        self.base = base
        self.offset = offset
        self.coordinates = coordinates
        self.extra = extra
        self.suffix = suffix
        self.zero = zero

    def __repr__(self) -> str:
        coordinates = "" if self.coordinates is None else f", {list(self.coordinates)}"
        return f"[{self.base}{self.offset:+d}{coordinates}]"


class PairOf:
    """``d|p``; made by :func:`pair`."""

    __slots__ = ("first", "second")

    def __init__(self, first: Reg | Sink | Sequence[Any] | None, second: Reg | Sink | None) -> None:
        self.first = first
        self.second = second


class SpecialName(Valueless):
    """A special register by its name without ``%``, such as ``ptx.special.tid.x``. Calling it reads it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return "%" + self.name

    def remedy(self) -> tuple[str, str]:
        return "the name of a special register", f"call it to read it: ptx.special.{self.name}()"


def addr(
    base: Reg | Addr | Addressable | Sym | Immediate,
    offset: int = 0,
    *,
    coord: Sequence[Any] | None = None,
    extra: Sequence[Any] = (),
    suffix: str = "",
    zero: bool = False,
) -> Addr:
    """Make the address operand ``[base + offset]``. Records nothing.

    Args:
        base: a 32- or 64-bit integer register, a shared-memory buffer, a symbol, another address, or
            ``ir.Immediate(n)`` for an absolute address.
        offset: constant number of bytes, a signed 32-bit number. For a variable offset, add the register to
            the base.
        coord: tensor coordinates, innermost first: numbers or s32 registers.
        extra: operands between base and coordinates: a sampler, or the one coordinate of ``[texture, x]``.
        suffix: the qualifier after the bracket, ``"unified"``.
        zero: write ``+0`` in the text if the offset is 0.

    Raises:
        OperandError: a base that is not an address, or an offset that is not a signed 32-bit number.

    PTX ISA: `#addresses-as-operands`.
    """
    number = as_whole(offset)
    if number is None or not -(1 << 31) <= number < 1 << 31:
        raise OperandError(
            f"the offset of an address is a constant, a signed 32-bit number of bytes, not {offset!r}",
            hint="add a register to the base instead: ptx.addr(base + offset)",
            see="addresses-as-operands",
        )
    coordinates = None if coord is None else tuple(coord)
    more = (tuple(extra), suffix, zero)
    if isinstance(base, Addr):
        more = (tuple(extra) or base.extra, suffix or base.suffix, zero or base.zero)
        coordinates = coordinates if coord is not None else base.coordinates
        return Addr(base.base, base.offset + number, coordinates, *more)
    if isinstance(base, Reg):
        return Addr(base, number, coordinates, *more)
    if isinstance(base, Sym):
        return Addr(Sym(base.name), base.offset + number, coordinates, *more)
    if isinstance(base, Addressable):
        register, inner = base.address_parts()
        return Addr(register, inner + number, coordinates, *more)
    if isinstance(base, Immediate):
        return Addr(base, number, coordinates, *more)
    raise OperandError(
        f"{type(base).__name__} {base!r} is not an address: expected a register or a shared-memory buffer",
        hint=base.remedy()[1] if isinstance(base, Valueless) else "",
        see="addresses-as-operands",
    )


def pair(first: Reg | Sink | Sequence[Any] | None, second: Reg | Sink | None) -> PairOf:
    """Make an operand of two destinations, ``d|p``; ``ptx.sink`` or None stands for ``_``. Records nothing.

    The first destination may be a vector, ``{a, b, c, d}|p``.
    """
    for part in (first, second):
        vector = part is first and isinstance(part, (RegArray, list, tuple))
        if part is not None and not vector and not isinstance(part, (Reg, Sink)):
            raise OperandError(f"ptx.pair takes registers, ptx.sink or None, not {part!r}")
    return PairOf(first, second)


def address(value: Any, trace: Trace) -> Address:
    """Convert ``value``, an object with an address, to an address operand."""
    found = value if type(value) is Addr else addr(value)
    base: Register | Symbol | Immediate
    if isinstance(found.base, Reg):
        base = owned(found.base, trace).operand
    else:
        base = found.base.operand if isinstance(found.base, Sym) else found.base
    extra: Any = elements(found.extra, trace)  # the table checks which elements are allowed
    coordinates = None if found.coordinates is None else Vector(elements(found.coordinates, trace))
    return Address(base, found.offset, coordinates, extra, found.suffix, found.zero and not found.offset)


def elements(values: Sequence[Any], trace: Trace) -> tuple[Part, ...]:
    """Convert ``values`` to the elements of a vector or of the list of a call."""
    return tuple([_element(value, trace) for value in values])


def _element(value: Any, trace: Trace) -> Part:
    if isinstance(value, Reg):
        return owned(value, trace).operand
    if isinstance(value, Sym):
        return value.operand
    if isinstance(value, _PARTS):
        return value
    if isinstance(value, (RegArray, list, tuple)):
        return Vector(elements(value, trace))
    if value is None or isinstance(value, Sink):
        return sink
    number = as_number(value)
    if number is not None:
        return Immediate(number)
    if isinstance(value, SpecialName):
        return Special(value.name)
    raise OperandError(
        f"{type(value).__name__} {value!r} cannot be an operand: expected a register or a number"
    )


def operand(value: Any, trace: Trace) -> Operand:
    """Convert a value that an author passes to an instruction to an IR operand.

    Raises:
        OperandError: a value of a kind that no instruction takes.
        TraceError: a register of another recording.
    """
    if isinstance(value, Reg):
        return owned(value, trace).operand
    kind = type(value)
    if kind is int:
        return Immediate(value)
    if kind is Addr:
        return address(value, trace)
    if isinstance(value, RegArray):
        return Vector(elements(value.registers, trace))
    if isinstance(value, (list, tuple)):
        return Vector(elements(value, trace))
    if isinstance(value, _NODES):
        return value
    if isinstance(value, Sym):
        return value.operand
    if isinstance(value, NotPred):
        return Negated(owned(value.register, trace).operand)
    if isinstance(value, PairOf):
        first, second = value.first, _part(value.second, trace)
        if isinstance(first, Sequence):
            return Pair(Vector(elements(first, trace)), second)
        return Pair(_part(first, trace), second)
    if isinstance(value, (str, Label)):
        raise OperandError(
            f"{value!r} is not an operand: only a branch takes a label",
            hint="write a special register as ptx.special.tid.x(), and PTX text with ptx.raw",
        )
    if isinstance(value, Addressable):
        return address(value, trace)
    return _element(value, trace)


def _part(value: Reg | Sink | None, trace: Trace) -> Register | Sink:
    return owned(value, trace).operand if isinstance(value, Reg) else sink


def branch_target(value: object) -> Label | str:
    """Return ``value`` if it is a label or a label's name; raise :class:`TraceError` for anything else."""
    return value if isinstance(value, Label) else label_name(value)


def guard(value: Reg | NotPred | None, trace: Trace) -> Guard | None:
    """Convert the argument ``pred=`` to a guard: ``@p`` or ``@!p``.

    Raises :class:`OperandError` for a value that is not a predicate.
    """
    if value is None:
        return None
    negated = isinstance(value, NotPred)
    register = _predicate(value.register if isinstance(value, NotPred) else value)
    if register.type is not pred:
        raise OperandError(
            f"a guard must be a predicate, and {register} is .{register.type}",
            hint="make a predicate by comparing: x != 0",
            see="predicated-execution",
        )
    found = owned(register, trace).operand
    trace.check_read((found.name,))
    return Guard(found, negated)


def _predicate(value: object) -> Reg:
    if isinstance(value, Reg):
        return value
    known = as_number(value) is not None
    raise OperandError(
        f"{value!r} is not a predicate register",
        hint="Python knows this value while the kernel is recorded: use a plain `if`"
        if known
        else "a guard is a register of type pred, such as x < y, or ~p",
        see="predicated-execution",
    )
