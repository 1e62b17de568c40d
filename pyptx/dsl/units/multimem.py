"""``ptx.multimem``: memory of several GPUs through one multicast address.

A read combines all replicas, a write goes to all of them.  ``sem`` is ``"weak"``, or ``"relaxed"``,
``"acquire"`` (reads), ``"release"`` (writes) together with a ``scope``: ``"cta"``, ``"cluster"``, ``"gpu"``
or ``"sys"``.  Every function records exactly one instruction.

PTX ISA: `#data-movement-and-conversion-instructions-multimem`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.types import ScalarType
from ..choices import (
    CopyOperation,
    CopyOrder,
    GpuScope,
    MultimemLoadOrder,
    MultimemOperation,
    MultimemStoreOrder,
    ReducingCopyOrder,
    ReductionOrder,
    Scope,
)
from ..emit import Predicate, emit
from ..operands import Addr, addr
from ..records import records
from ..register_arrays import RegArray
from ..registers import Reg, writable
from .async_store import STORED, Value, typed_value
from .bulk import COPY_ORDERS, GLOBAL_TYPES, byte_mask_modifier, reduction, strong, transfer
from .places import Shared
from .qualifiers import global_space, one_of, order

__all__ = ["cp_async_bulk", "cp_reduce_async_bulk", "ld_reduce", "red", "red_async", "st", "st_async"]

Global = Reg | Addr

_SEE = "data-movement-and-conversion-instructions-multimem"
_INTEGERS = ("b32", "b64", "u32", "u64", "s32", "s64")
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
_FP8 = ("e4m3", "e4m3x2", "e4m3x4", "e5m2", "e5m2x2", "e5m2x4")


def _value(
    value: Value, dtype: ScalarType | str | None, allowed: Sequence[str]
) -> tuple[str | None, str, Any]:
    """Return the vector modifier, type modifier and operand of a value; packed floats keep their type."""
    if dtype is None:
        first = value if isinstance(value, (Reg, int, float)) else next(iter(value), None)
        if isinstance(first, Reg) and first.type.name in allowed:
            dtype = first.type
    return typed_value(value, dtype, allowed, see=_SEE)


@records(
    "multimem.ld_reduce",
    "multimem.ld_reduce.float",
    "multimem.ld_reduce.fp8",
    "multimem.ld_reduce.fp8x2",
    "multimem.ld_reduce.fp8x4",
)
def ld_reduce(
    dst: Reg | RegArray | Sequence[Reg],
    src: Global,
    op: MultimemOperation,
    dtype: ScalarType | str | None = None,
    *,
    acc: str | None = None,
    sem: MultimemLoadOrder | None = None,
    scope: Scope | None = None,
    space: str | None = "global",
    pred: Predicate = None,
) -> None:
    """Load from all replicas and combine the values. Records one ``multimem.ld_reduce``.

    Args:
        dst: a register, or a vector of 2, 4 or 8 registers (16 bytes at most).
        src: multicast address.
        op: ``"add"``, ``"min"``, ``"max"``; for integers also ``"and"``, ``"or"``, ``"xor"``.
        dtype: type of an element: 32- and 64-bit integers, f16, bf16, f16x2, bf16x2, f32, f64, e4m3, e5m2
            and their packs (e4m3x2, e4m3x4 ...); default: the register's type. e4m3 and e5m2 need registers
            of ``reg.declare(b8, ...)``, packs of two b16 registers, packs of four b32 registers.
        acc: precision of the sum: ``"f32"`` for 16-bit floats, ``"f16"`` for 8-bit ones.
        sem, scope: order and scope.
        space: ``"global"``, or None for a generic address.
        pred: guard.

    Raises:
        OperandError: an operation, type, order or scope that does not exist.
        InstructionError: a combination that does not exist.

    PTX ISA: `#data-movement-and-conversion-instructions-multimem`.
    """
    vector, type_name, given = _value(dst, dtype, (*_INTEGERS, *_FLOATS, *_FP8))
    for register in (given,) if isinstance(given, Reg) else given:
        writable(register)
    if acc is not None:
        one_of("acc", acc, ("f16", "f32"), see=_SEE)
    modifiers = (
        *(
            "ld_reduce",
            *order(sem, scope, ("weak", "relaxed", "acquire"), see=_SEE),
            global_space(space, see=_SEE),
            op,
        ),
        *(None if acc is None else f"acc::{acc}", vector, type_name),
    )
    emit("multimem", modifiers, given, addr(src), pred=pred)


@records("multimem.st", "multimem.st.float", "multimem.st.fp8", "multimem.st.fp8x2", "multimem.st.fp8x4")
def st(
    dst: Global,
    value: Value,
    dtype: ScalarType | str | None = None,
    *,
    sem: MultimemStoreOrder | None = None,
    scope: Scope | None = None,
    space: str | None = "global",
    pred: Predicate = None,
) -> None:
    """Store to all replicas. Records one ``multimem.st``.

    Args:
        dst: multicast address.
        value: a register, a vector of 2, 4 or 8 floats (16 bytes at most), or an integer.
        dtype: as for :func:`ld_reduce`.
        sem, scope: order and scope.
        space: ``"global"``, or None for a generic address.
        pred: guard.

    Raises:
        OperandError, InstructionError: as for :func:`ld_reduce`.

    PTX ISA: `#data-movement-and-conversion-instructions-multimem`.
    """
    vector, type_name, given = _value(value, dtype, (*_INTEGERS, *_FLOATS, *_FP8))
    modifiers = (
        "st",
        *order(sem, scope, ("weak", "relaxed", "release"), see=_SEE),
        global_space(space, see=_SEE),
        vector,
        type_name,
    )
    emit("multimem", modifiers, addr(dst), given, pred=pred)


@records("multimem.red", "multimem.red.float")
def red(
    dst: Global,
    value: Value,
    op: MultimemOperation,
    dtype: ScalarType | str | None = None,
    *,
    sem: ReductionOrder | None = None,
    scope: Scope | None = None,
    space: str | None = "global",
    pred: Predicate = None,
) -> None:
    """Combine a value with all replicas. Records one ``multimem.red``.

    ``op`` as for :func:`ld_reduce`, without 8-bit floats; the other arguments and errors are those of
    :func:`st`.

    PTX ISA: `#data-movement-and-conversion-instructions-multimem`.
    """
    vector, type_name, given = _value(value, dtype, (*_INTEGERS, *_FLOATS))
    modifiers = (
        "red",
        *order(sem, scope, ("relaxed", "release"), see=_SEE),
        global_space(space, see=_SEE),
        op,
        vector,
        type_name,
    )
    emit("multimem", modifiers, addr(dst), given, pred=pred)


@records("multimem.st.async")
def st_async(
    dst: Global,
    value: Reg | int | float,
    dtype: ScalarType | str | None = None,
    *,
    scope: GpuScope = "gpu",
    space: str | None = "global",
    pred: Predicate = None,
) -> None:
    """Store to all replicas asynchronously, with release order. Records one ``multimem.st.async`` (PTX 9.3).

    Args:
        dst: multicast address.
        value: a register or a number.
        dtype: an 8- to 64-bit type; default: the register's type. For 8 bits use ``reg.declare(b8, ...)``.
        scope: ``"gpu"`` or ``"sys"``.
        space: ``"global"``, or None for a generic address.
        pred: guard.

    PTX ISA: `#data-movement-and-conversion-instructions-multimem-st-async`.
    """
    _, type_name, given = typed_value(value, dtype, STORED, see=_SEE)
    emit(
        "multimem",
        ("st", "async", "release", scope, global_space(space, see=_SEE), type_name),
        addr(dst),
        given,
        pred=pred,
    )


@records("multimem.red.async")
def red_async(
    dst: Global,
    value: Reg | int,
    dtype: ScalarType | str | None = None,
    *,
    scope: GpuScope = "gpu",
    space: str | None = "global",
    pred: Predicate = None,
) -> None:
    """Add a value to all replicas asynchronously, with release order.

    Records one ``multimem.red.async`` (PTX 9.3).  ``dtype`` is u32, s32 or u64; the other arguments are those
    of :func:`st_async`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-multimem-red-async`.
    """
    _, type_name, given = typed_value(value, dtype, ("u32", "s32", "u64"), see=_SEE)
    modifiers = ("red", "async", "release", scope, global_space(space, see=_SEE), "add", type_name)
    emit("multimem", modifiers, addr(dst), given, pred=pred)


@records("multimem.cp.async.bulk", "multimem.cp.async.bulk.relaxed")
def cp_async_bulk(
    dst: Global,
    src: Shared,
    size: Reg | int,
    *,
    byte_mask: Reg | int | None = None,
    sem: CopyOrder | None = None,
    scope: Scope | None = None,
    pred: Predicate = None,
) -> None:
    """Copy ``size`` bytes of shared memory to all replicas; completes through a bulk group.

    Records one ``multimem.cp.async.bulk``.  Arguments and errors are those of ``ptx.cp.async_.bulk.store``.

    PTX ISA: `#data-movement-and-conversion-instructions-multimem-cp-async-bulk`.
    """
    see = "data-movement-and-conversion-instructions-multimem-cp-async-bulk"
    number = transfer(size, src, "the source", see=see)
    given, at = order(sem, scope, COPY_ORDERS, see=see)
    masked, mask = byte_mask_modifier(byte_mask, see=see)
    modifiers = ("cp", "async", "bulk", given, at, "global", "shared::cta", "bulk_group", masked, strong(sem))
    emit("multimem", modifiers, addr(dst), addr(src), number, *mask, pred=pred)


@records(
    "multimem.cp.reduce.async.bulk",
    "multimem.cp.reduce.async.bulk.noftz",
    "multimem.cp.reduce.async.bulk.relaxed",
    "multimem.cp.reduce.async.bulk.noftz.relaxed",
)
def cp_reduce_async_bulk(
    dst: Global,
    src: Shared,
    size: Reg | int,
    op: CopyOperation,
    dtype: ScalarType | str,
    *,
    noftz: bool = False,
    sem: ReducingCopyOrder | None = None,
    scope: Scope | None = None,
    pred: Predicate = None,
) -> None:
    """Combine ``size`` bytes of shared memory with all replicas; completes through a bulk group.

    Records one ``multimem.cp.reduce.async.bulk``.  Arguments and errors are those of
    ``ptx.cp.async_.bulk.reduce``.

    PTX ISA: `#data-movement-and-conversion-instructions-multimem-cp-reduce-async-bulk`.
    """
    see = "data-movement-and-conversion-instructions-multimem-cp-reduce-async-bulk"
    number = transfer(size, src, "the source", see=see)
    given, at = order(sem, scope, ("relaxed",), see=see)
    operation = reduction(op, dtype, GLOBAL_TYPES, noftz, see=see)
    spaces = ("global", "shared::cta")
    modifiers = ("cp", "reduce", "async", "bulk", given, at, *spaces, "bulk_group", *operation)
    emit("multimem", modifiers, addr(dst), addr(src), number, pred=pred)
