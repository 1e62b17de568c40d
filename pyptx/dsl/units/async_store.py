"""``ptx.st_async``, ``ptx.red_async``, ``ptx.st_bulk``: stores and reductions that complete later.

``st_async`` and ``red_async`` write the shared memory of a CTA of the cluster, and signal the bytes on an
mbarrier in the same CTA.  The ``_release`` functions write global memory with release order and signal no
mbarrier.  Every function records exactly one instruction.

PTX ISA: `#data-movement-and-conversion-instructions-st-async`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import OperandError
from ...core.types import TYPES, ScalarType
from ..choices import CtaSpace, GpuScope, ReductionOperation
from ..emit import Predicate, emit
from ..operands import Addr, addr
from ..records import records
from ..register_arrays import RegArray
from ..registers import Reg
from ..types import as_whole, encode_number, memory_type
from .places import Shared, barrier, check_place
from .qualifiers import global_space, one_of, shared_space, type_modifier

__all__ = [
    "red_async",
    "red_async_release",
    "st_async",
    "st_async_release",
    "st_bulk",
    "typed_value",
]

Value = Reg | RegArray | Sequence[Reg] | int | float

_ST = "data-movement-and-conversion-instructions-st-async"
_RED = "parallel-synchronization-and-communication-instructions-red-async"
_COMPLETE = "mbarrier::complete_tx::bytes"
_REMOTE = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64", "b128")
#: Types of 8 to 64 bits.
STORED = (*(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)), "f32", "f64")
_REDUCED = ("b32", "u32", "s32", "u64")
_ADDED = ("u32", "s32", "u64", "s64")
#: Largest fill: the largest multiple of 8 below 2**20.
_MAX_FILL = (1 << 20) - 8


def typed_value(
    value: Value, dtype: ScalarType | str | None, allowed: Sequence[str], *, see: str
) -> tuple[str | None, str, Any]:
    """Return the modifier of a vector (``v2`` ...), the type and the operand of a value that is stored.

    Without ``dtype``, the type is the register's type in memory; a number needs ``dtype``.
    """
    if isinstance(value, (Reg, RegArray)) or not isinstance(value, Sequence):
        given: Any = value
    else:
        given = list(value)
        if not given:
            raise OperandError("the value is []: expected a register, or a list of registers", see=see)
    first = given if isinstance(given, Reg) or not isinstance(given, (RegArray, list)) else given[0]
    if dtype is None:
        if not isinstance(first, Reg):
            raise OperandError(f"the type of {value!r} is not known", hint="pass dtype=", see=see)
        dtype = memory_type(first.type)
    type_name = type_modifier(dtype, allowed, see=see)
    if isinstance(given, (RegArray, list)):
        return f"v{len(given)}", type_name, given
    if not isinstance(given, Reg):
        given = encode_number(given, TYPES[type_name])
    return None, type_name, given


def _scope(scope: str, mmio: bool, *, see: str) -> str | None:
    one_of("scope", scope, ("sys",) if mmio else ("gpu", "sys"), see=see)
    return "mmio" if mmio else None


@records("st.async", "st.async.b128")
def st_async(
    dst: Shared,
    value: Value,
    mbar: Shared,
    dtype: ScalarType | str | None = None,
    *,
    weak: bool = False,
    space: str | None = "cluster",
    pred: Predicate = None,
) -> None:
    """Store to the shared memory of a CTA of the cluster; the bytes are counted on ``mbar`` of that CTA.

    Records one ``st.async``.

    Args:
        dst, mbar: shared memory of the same CTA, from ``ptx.cluster.map``.
        value: a register, a vector of 2 or 4 registers (16 bytes at most), or a number.
        dtype: b32, b64, u32, u64, s32, s64, f32, f64 or b128; default: the register's type.
        weak: write the memory order explicitly.
        space: ``"cluster"``, or None for generic addresses.
        pred: guard.

    Raises:
        OperandError: a type that the instruction does not have, or a number without a type.

    PTX ISA: `#data-movement-and-conversion-instructions-st-async`.
    """
    vector, type_name, given = typed_value(value, dtype, _REMOTE, see=_ST)
    where = shared_space(space, ("cluster", None), see=_ST)
    modifiers = ("async", "weak" if weak else None, where, _COMPLETE, vector, type_name)
    emit("st", modifiers, addr(dst), given, barrier(mbar), pred=pred)


@records("st.async.release")
def st_async_release(
    dst: Reg | Addr,
    value: Reg | int | float,
    dtype: ScalarType | str | None = None,
    *,
    scope: GpuScope = "gpu",
    mmio: bool = False,
    space: str | None = "global",
    pred: Predicate = None,
) -> None:
    """Store to global memory asynchronously, with release order. Records one ``st.async.release``.

    Args:
        dst: global address.
        value: a register or a number.
        dtype: an 8- to 64-bit type; default: the register's type. For 8 bits use ``reg.declare(b8, ...)``.
        scope: ``"gpu"`` or ``"sys"``.
        mmio: exactly one access, as memory-mapped input and output needs; at scope sys.
        space: ``"global"``, or None for a generic address.
        pred: guard.

    Raises:
        OperandError: another scope or type, or a number without a type.

    PTX ISA: `#data-movement-and-conversion-instructions-st-async`.
    """
    _, type_name, given = typed_value(value, dtype, STORED, see=_ST)
    mode, space = _scope(scope, mmio, see=_ST), global_space(space, see=_ST)
    modifiers = ("async", mode, "release", scope, space, type_name)
    emit("st", modifiers, addr(dst), given, pred=pred)


@records("red.async")
def red_async(
    dst: Shared,
    value: Reg | int,
    mbar: Shared,
    op: ReductionOperation,
    dtype: ScalarType | str | None = None,
    *,
    space: str | None = "cluster",
    pred: Predicate = None,
) -> None:
    """Combine a value with the shared memory of a CTA of the cluster; ``mbar`` of that CTA counts the bytes.

    Records one ``red.async``, relaxed at scope cluster.

    Args:
        dst, mbar: shared memory of the same CTA, from ``ptx.cluster.map``.
        value: a register or a number.
        op: ``"add"``, ``"min"``, ``"max"``, ``"inc"``, ``"dec"``, ``"and"``, ``"or"`` or ``"xor"``.
        dtype: u32, s32, u64 (add), or b32 for bits; default: the register's type.
        space: ``"cluster"``, or None for generic addresses.
        pred: guard.

    Raises:
        OperandError: an operation or a type that does not exist, or a number without a type.
        InstructionError: an operation that the type does not have.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-red-async`.
    """
    _, type_name, given = typed_value(value, dtype, _REDUCED, see=_RED)
    where = shared_space(space, ("cluster", None), see=_RED)
    modifiers = ("async", "relaxed", "cluster", where, _COMPLETE, op, type_name)
    emit("red", modifiers, addr(dst), given, barrier(mbar), pred=pred)


@records("red.async.release")
def red_async_release(
    dst: Reg | Addr,
    value: Reg | int,
    dtype: ScalarType | str | None = None,
    *,
    scope: GpuScope = "gpu",
    mmio: bool = False,
    space: str | None = "global",
    pred: Predicate = None,
) -> None:
    """Add a value to global memory asynchronously, with release order. Records one ``red.async.release``.

    ``dtype`` is u32, s32, u64 or s64; the other arguments and errors are those of :func:`st_async_release`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-red-async`.
    """
    _, type_name, given = typed_value(value, dtype, _ADDED, see=_RED)
    mode = _scope(scope, mmio, see=_RED)
    modifiers = ("async", mode, "release", scope, global_space(space, see=_RED), "add", type_name)
    emit("red", modifiers, addr(dst), given, pred=pred)


@records("st.bulk", "st.bulk.u32")
def st_bulk(
    dst: Shared,
    size: Reg | int,
    *,
    weak: bool = False,
    space: CtaSpace | None = "cta",
    pred: Predicate = None,
) -> None:
    """Fill ``size`` bytes of this CTA's shared memory with zeroes. Records one ``st.bulk``.

    Args:
        dst: address in shared memory, aligned to 8 bytes.
        size: bytes, a multiple of 8 in 0..1,048,568: a number, a u64 register, or a u32 register (PTX 9.0).
        weak: write the memory order explicitly.
        space: ``"cta"``, or None for a generic address.
        pred: guard.

    Raises:
        OperandError: a size that is not a multiple of 8 or is out of range, or a buffer that is misaligned
            or too small.

    PTX ISA: `#data-movement-and-conversion-instructions-st-bulk`.
    """
    see = "data-movement-and-conversion-instructions-st-bulk"
    number: Reg | int | None = size if isinstance(size, Reg) else as_whole(size)
    if number is None or (isinstance(number, int) and (not 0 <= number <= _MAX_FILL or number % 8)):
        raise OperandError(
            f"size is {size!r}: expected a multiple of 8 bytes, 0..{_MAX_FILL}, or a register", see=see
        )
    check_place("the destination", dst, number if isinstance(number, int) else None, 8, see=see)
    modifiers = ("bulk", "weak" if weak else None, shared_space(space, ("cta", None), see=see))
    emit("st", modifiers, addr(dst), number, 0, pred=pred)
