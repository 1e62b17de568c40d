"""Python values as operands: registers, numbers, vectors, addresses, pairs, the sink.

Owns what an author may write where an instruction has an operand, and its translation to IR nodes.
Whether the operand fits is for the instruction table to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..core.errors import OperandError
from ..core.types import pred
from ..ir import (
    Address,
    Guard,
    Immediate,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Vector,
)
from .labels import Label, label_name
from .registers import NotPred, Reg, RegArray, owned
from .trace import Trace
from .types import as_number, as_whole

__all__ = [
    "Addr",
    "Addressable",
    "PairOf",
    "SpecialName",
    "addr",
    "address",
    "branch_target",
    "guard",
    "operand",
    "pair",
    "sink",
]

#: The bit bucket ``_``, for a destination whose value is not wanted.
sink = Sink()


@runtime_checkable
class Addressable(Protocol):
    """What has an address of its own: a shared-memory buffer."""

    def address_parts(self) -> tuple[Reg, int]:
        """Base register and constant byte offset."""
        ...


class Addr:
    """``[base+offset]``, or with tensor coordinates; made by :func:`addr`."""

    __slots__ = ("base", "coordinates", "offset")

    def __init__(self, base: Reg, offset: int, coordinates: tuple[Any, ...] | None) -> None:
        self.base = base
        self.offset = offset
        self.coordinates = coordinates

    def __repr__(self) -> str:
        coordinates = "" if self.coordinates is None else f", {list(self.coordinates)}"
        return f"[{self.base}{self.offset:+d}{coordinates}]"


class PairOf:
    """``d|p``; made by :func:`pair`."""

    __slots__ = ("first", "second")

    def __init__(self, first: Reg | Sink | None, second: Reg | Sink | None) -> None:
        self.first = first
        self.second = second


class SpecialName:
    """A special register, by its name without ``%``. ``ptx.special.tid.x`` is one; calling it reads it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return "%" + self.name


def addr(base: Reg | Addr | Addressable, offset: int = 0, *, coord: Sequence[Any] | None = None) -> Addr:
    """The address operand ``[base + offset]``. Records nothing.

    Args:
        base: a 32- or 64-bit integer register, a shared-memory buffer, or another address.
        offset: constant bytes, a signed 32-bit number; add a register to the base instead.
        coord: tensor coordinates, innermost first: numbers or s32 registers.

    Raises:
        OperandError: a base that is no address, or an offset that is no such number.

    PTX ISA: `#addresses-as-operands`.
    """
    number = as_whole(offset)
    if number is None or not -(1 << 31) <= number < 1 << 31:
        raise OperandError(
            f"the offset of an address is a constant, a signed 32-bit number of bytes, not {offset!r}",
            hint="add a register to the base: ptx.addr(base + offset)",
            see="addresses-as-operands",
        )
    coordinates = None if coord is None else tuple(coord)
    if isinstance(base, Addr):
        return Addr(base.base, base.offset + number, coordinates if coord is not None else base.coordinates)
    if isinstance(base, Reg):
        return Addr(base, number, coordinates)
    if isinstance(base, Addressable):
        register, inner = base.address_parts()
        return Addr(register, inner + number, coordinates)
    raise OperandError(
        f"{type(base).__name__} {base!r} is not an address: expected a register or a shared-memory buffer",
        see="addresses-as-operands",
    )


def pair(first: Reg | Sink | None, second: Reg | Sink | None) -> PairOf:
    """Two destinations of one operand, ``d|p``; ``ptx.sink`` or None for ``_``. Records nothing."""
    for part in (first, second):
        if part is not None and not isinstance(part, (Reg, Sink)):
            raise OperandError(f"a pair holds registers or ptx.sink, not {part!r}")
    return PairOf(first, second)


def address(value: Any, trace: Trace) -> Address:
    """``value``, something with an address, as an address operand."""
    found = value if type(value) is Addr else addr(value)
    base = owned(found.base, trace).operand
    if found.coordinates is None:
        return Address(base, found.offset)
    elements = tuple(_element(c, trace) for c in found.coordinates)
    return Address(base, found.offset, Vector(elements))


def _element(value: Any, trace: Trace) -> Register | Immediate | Sink | Special:
    if isinstance(value, Reg):
        return owned(value, trace).operand
    if value is None or isinstance(value, Sink):
        return sink
    number = as_number(value)
    if number is not None:
        return Immediate(number)
    if isinstance(value, SpecialName):
        return Special(value.name)
    raise OperandError(
        f"{type(value).__name__} {value!r} cannot stand in a vector: expected registers or numbers"
    )


def operand(value: Any, trace: Trace) -> Operand:
    """Any value that an author may pass to an instruction, as an IR operand.

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
        return Vector(tuple([owned(r, trace).operand for r in value.registers]))
    if isinstance(value, (list, tuple)):
        return Vector(tuple([_element(v, trace) for v in value]))
    if isinstance(value, NotPred):
        return Negated(owned(value.register, trace).operand)
    if isinstance(value, PairOf):
        return Pair(_part(value.first, trace), _part(value.second, trace))
    if isinstance(value, (str, Label)):
        raise OperandError(
            f"{value!r} is not an operand: only a branch takes a label",
            hint="write special registers as ptx.special.tid.x() and text with ptx.raw",
        )
    if isinstance(value, Addressable):
        return address(value, trace)
    return _element(value, trace)


def _part(value: Reg | Sink | None, trace: Trace) -> Register | Sink:
    return owned(value, trace).operand if isinstance(value, Reg) else sink


def branch_target(value: object) -> Label | str:
    """A label or the name of one. Raises :class:`TraceError` for anything else."""
    return value if isinstance(value, Label) else label_name(value)


def guard(value: Reg | NotPred | None, trace: Trace) -> Guard | None:
    """``pred=`` as a guard: ``@p`` or ``@!p``.

    Raises :class:`OperandError` for what is not a predicate.
    """
    if value is None:
        return None
    negated = isinstance(value, NotPred)
    register = _predicate(value.register if isinstance(value, NotPred) else value)
    if register.type is not pred:
        raise OperandError(
            f"a guard is a predicate, and {register} is .{register.type}",
            hint="compare it: x != 0",
            see="predicated-execution",
        )
    return Guard(owned(register, trace).operand, negated)


def _predicate(value: object) -> Reg:
    if isinstance(value, Reg):
        return value
    known = as_number(value) is not None
    raise OperandError(
        f"{value!r} is not a predicate register",
        hint="what Python knows already, Python decides: use a plain `if`"
        if known
        else "a guard is a register of type pred, such as x < y, or ~p",
        see="predicated-execution",
    )
