"""``ptx.pack`` and ``ptx.unpack``: combine several values in one register, and split a register into values.

Each function records exactly one instruction.  Arithmetic on packs is written as for all types: ``x + y``,
``ptx.fma(x, y, z)``.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import OperandError
from ...core.types import TYPES, ScalarType
from ...ir import Vector
from ..call_sites import here
from ..emit import Predicate
from ..operands import guard
from ..records import records
from ..register_arrays import RegArray
from ..registers import Number, Reg, new_register, owned
from ..trace import current
from ..types import bits_of, the_type
from .values import meet, typed, value

__all__ = ["pack", "unpack"]

_MOV = "data-movement-and-conversion-instructions-mov"
#: Element types that have a pack type of two.
_PAIRS = frozenset({"f16", "bf16", "f32", "u16", "s16"})


@records(
    "mov.pack.b16",
    "mov.pack.b32",
    "mov.pack.b32.v4",
    "mov.pack.b64",
    "mov.pack.b64.v4",
    "mov.pack.b128",
    "mov.pack.b128.v4",
)
def pack(
    *parts: Reg | Number, to: ScalarType | None = None, out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Combine two or four values in one register, the first one lowest. Records one ``mov``.

    Args:
        parts: registers of one type, or numbers (not of 16-bit floats): 2 of 8, 16, 32 or 64 bits, or 4 of 8,
            16 or 32 bits. Parts of 8 bits are 8-bit registers, as :func:`unpack` makes them.
        to: type of the result; default: the pack of two f16, bf16, f32, u16 or s16, otherwise bits.
        out: register to write; default: a new one, named after the variable that takes the result.
        pred: guard.

    Raises:
        OperandError: a wrong number of parts, types that do not mix, or a ``to`` of another width.

    PTX ISA: `#data-movement-and-conversion-instructions-mov`.
    """
    trace = current()
    kind = meet("pack", *parts)
    bits = kind.bits * len(parts)
    if len(parts) not in (2, 4) or bits > 128:
        raise OperandError(
            f"{len(parts)} parts of .{kind} make {bits} bits: expected 2 or 4 parts, at most 128 bits",
            see=_MOV,
        )
    if to is None:
        paired = len(parts) == 2 and kind.name in _PAIRS
        to = TYPES[f"{kind}x2" if paired else f"b{bits}"]
    elif the_type(to).bits != bits:
        raise OperandError(f"{len(parts)} parts of .{kind} make {bits} bits, not a .{to}", see=_MOV)
    elements: list[Any] = [typed(part, kind, trace) for part in parts]
    return value(to, "mov", (f"b{bits}",), (Vector(tuple(elements)),), out=out, pred=pred)


@records(
    "mov.unpack.b16",
    "mov.unpack.b32",
    "mov.unpack.b32.v4",
    "mov.unpack.b64",
    "mov.unpack.b64.v4",
    "mov.unpack.b128",
    "mov.unpack.b128.v4",
)
def unpack(given: Reg, kind: ScalarType | None = None, *, pred: Predicate = None) -> RegArray:
    """Split a register into its parts, lowest first, each in a new register. Records one ``mov``.

    Args:
        given: register of 16 to 128 bits.
        kind: type of the parts, a half or a quarter as wide; default: the element of a pack (f16 of f16x2).
            Parts of 8 bits are 8-bit registers, which loads, stores, conversions and :func:`pack` accept.
        pred: guard.

    Raises:
        OperandError: a register of another width.

    PTX ISA: `#data-movement-and-conversion-instructions-mov`.
    """
    trace = current()
    condition = guard(pred, trace)
    if not isinstance(given, Reg):
        raise OperandError(f"{given!r} cannot be unpacked: expected a register", see=_MOV)
    if kind is None:
        if given.type.lanes != 2 or given.type.name[:-2] not in _PAIRS:
            raise OperandError(
                f"the type of the parts of {given} (.{given.type}) is not known",
                hint="pass the type: ptx.unpack(x, u16)",
                see=_MOV,
            )
        kind = TYPES[given.type.name[:-2]]
    count, rest = divmod(given.type.bits, the_type(kind).bits)
    if rest or count not in (2, 4):
        raise OperandError(
            f"{given} has {given.type.bits} bits, so it does not consist of 2 or 4 parts of type .{kind}",
            see=_MOV,
        )
    source = owned(given, trace).operand
    site, line = here()
    stem = site.name or "part"
    names = site.names if len(site.names) == count else [f"{stem}{n}" for n in range(count)]
    storage = TYPES["b8"] if kind.bits == 8 else None
    with trace.atomic():
        parts = [new_register(trace, kind, name, line, storage) for name in names]
        vector = Vector(tuple(part.operand for part in parts))
        trace.record("mov", (bits_of(given.type).name,), (vector, source), condition, line)
    return RegArray(parts, kind, stem)
