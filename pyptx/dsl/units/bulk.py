"""``ptx.cp.async_.bulk``: copies by the TMA engine, of plain memory and of tensors.

PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk`.

Every function records exactly one instruction.  ``size`` counts bytes, a multiple of 16; addresses are
multiples of 16.  A copy into shared memory signals its bytes on an mbarrier; a copy into global memory
completes through a bulk group: :func:`commit_group`, then :func:`wait_group`.  :mod:`.tensor_copy` has the
copies of tensors (``tensor_1d`` to ``tensor_5d``, ``prefetch_tensor``).

``sem`` writes the memory order explicitly (PTX 9.3): ``"weak"``, which is the default, or ``"relaxed"`` with
a ``scope``, which copies with strong accesses of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import OperandError
from ...core.types import ScalarType
from ..choices import ClusterScope, CopyOperation, CopyOrder, ReducingCopyOrder, Scope, Validity
from ..emit import Predicate, checked, emit
from ..operands import Addr, addr
from ..records import records
from ..registers import Reg
from .places import Shared, barrier, check_place
from .qualifiers import (
    group_count,
    hinted,
    multicast_modifier,
    order,
    report_modifier,
    shared_space,
    type_modifier,
)
from .tensor_copy import (
    apply_priority_tensor,
    prefetch_tensor,
    tensor_1d,
    tensor_2d,
    tensor_3d,
    tensor_4d,
    tensor_5d,
)

__all__ = [
    "apply_priority",
    "apply_priority_tensor",
    "commit_group",
    "load",
    "prefetch",
    "prefetch_tensor",
    "reduce",
    "reduce_cluster",
    "store",
    "store_cluster",
    "tensor_1d",
    "tensor_2d",
    "tensor_3d",
    "tensor_4d",
    "tensor_5d",
    "wait_group",
]

Global = Reg | Addr

#: Largest number of bytes of one copy: the largest multiple of 16 below 2**20.
MAX_BYTES = (1 << 20) - 16

_SEE = "data-movement-and-conversion-instructions-cp-async-bulk"
_COMPLETE = "mbarrier::complete_tx::bytes"
#: Memory orders of copies.
COPY_ORDERS = ("weak", "relaxed")
_CLUSTER_TYPES = ("b32", "u32", "s32", "u64")
GLOBAL_TYPES = ("f16", "bf16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64")


def transfer(size: Reg | int, shared: Shared, what: str, *, see: str) -> Any:
    """Return the size of a copy: a u32 register, or a multiple of 16 that fits the buffer ``shared``."""
    number = checked("size", size, 16, MAX_BYTES, see=see, hint="bytes, a multiple of 16")
    if isinstance(number, int) and number % 16:
        raise OperandError(f"size is {size!r}: expected a multiple of 16 bytes, 16..{MAX_BYTES}", see=see)
    check_place(what, shared, number if isinstance(number, int) else None, 16, see=see)
    return number


def strong(sem: str | None) -> str | None:
    """Return the modifier ``b128`` if ``sem`` is ``"relaxed"`` (strong accesses of 16 bytes), else None."""
    return "b128" if sem == "relaxed" else None


# --- copies ---------------------------------------------------------------------------------------


@records(
    "cp.async.bulk.load",
    "cp.async.bulk.load.weak",
    "cp.async.bulk.load.relaxed",
    "cp.async.bulk.load.ignore_oob",
    "cp.async.bulk.load.relaxed.ignore_oob",
    "cp.async.bulk.load.wide_multicast",
    "cp.async.bulk.load.report",
)
def load(
    dst: Shared,
    src: Global,
    size: Reg | int,
    mbar: Shared,
    *,
    multicast: Reg | int | None = None,
    multicast_bits: int | None = None,
    ignore_bytes: tuple[Reg | int, Reg | int] | None = None,
    cache_hint: Reg | None = None,
    sem: CopyOrder | None = None,
    scope: Scope | None = None,
    report: Validity | None = None,
    space: str = "cluster",
    pred: Predicate = None,
) -> None:
    """Copy ``size`` bytes from global to shared memory; ``mbar`` counts the bytes.

    Records one ``cp.async.bulk.shared::cluster.global`` (``shared::cta`` with ``space="cta"``).

    Args:
        dst: address in shared memory, aligned to 16 bytes.
        src: global address, a multiple of 16.
        size: bytes, a multiple of 16: a number or a u32 register.
        mbar: the mbarrier that counts the bytes.
        multicast: mask of the cluster's CTAs that receive the bytes at the same offset. Each CTA's own
            barrier, at the offset of ``mbar``, is signaled.
        multicast_bits: 16 or 32 writes the width of the mask explicitly (PTX 9.4).
        ignore_bytes: number of bytes at the left and at the right end, 0..15 each, that may lie outside the
            allocation of ``src``; with ``space="cta"`` (PTX 9.2).
        cache_hint: b64 register with an L2 cache policy.
        sem, scope: ``"weak"``, or ``"relaxed"`` with ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``.
        report: what to report on the mbarrier: ``"disabled"``, ``"validity::per_16bytes::8"`` ... (PTX 9.4).
        space: state space of ``dst``: ``"cluster"``, which includes this CTA, or ``"cta"`` (PTX 8.6).
        pred: guard.

    Raises:
        OperandError: a size that is not a multiple of 16 or is out of range, a buffer that is misaligned or
            too small, a mask without a set bit, a scope without ``"relaxed"``.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk`.
    """
    number = transfer(size, dst, "the destination", see=_SEE)
    target = shared_space(space, ("cluster", "cta"), see=_SEE)
    given, at = order(sem, scope, COPY_ORDERS, see=_SEE)
    hint, policy = hinted(cache_hint)
    cast, mask = multicast_modifier(multicast, multicast_bits, see=_SEE)
    ignored: list[Any] = []
    if ignore_bytes is not None:
        if target != "shared::cta":
            raise OperandError(
                f"ignore_bytes is {ignore_bytes!r} with space {space!r}: expected space 'cta'", see=_SEE
            )
        left, right = ignore_bytes
        ignored = [
            checked("ignore_bytes on the left", left, 0, 15, see=_SEE),
            checked("ignore_bytes on the right", right, 0, 15, see=_SEE),
        ]
    modifiers = (
        *("async", "bulk", given, at, target, "global", _COMPLETE, report_modifier(report), cast, hint),
        "ignore_oob" if ignored else None,
        strong(sem),
    )
    emit("cp", modifiers, addr(dst), addr(src), number, *ignored, barrier(mbar), *mask, *policy, pred=pred)


@records("cp.async.bulk.store", "cp.async.bulk.store.sem")
def store(
    dst: Global,
    src: Shared,
    size: Reg | int,
    *,
    byte_mask: Reg | int | None = None,
    cache_hint: Reg | None = None,
    sem: CopyOrder | None = None,
    scope: Scope | None = None,
    pred: Predicate = None,
) -> None:
    """Copy ``size`` bytes from shared to global memory; completes through a bulk group.

    Records one ``cp.async.bulk.global.shared::cta``.

    Args:
        dst: global address, a multiple of 16.
        src: address in this CTA's shared memory, aligned to 16 bytes.
        size: bytes, a multiple of 16: a number or a u32 register.
        byte_mask: mask of the bytes of each 16 that are written, a number or a 16-bit register (PTX 8.6,
            sm_100).
        cache_hint: b64 register with an L2 cache policy.
        sem, scope: as for :func:`load`.
        pred: guard.

    Raises:
        OperandError: as for :func:`load`.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk`.
    """
    number = transfer(size, src, "the source", see=_SEE)
    given, at = order(sem, scope, COPY_ORDERS, see=_SEE)
    hint, policy = hinted(cache_hint)
    masked, mask = byte_mask_modifier(byte_mask, see=_SEE)
    modifiers = ("async", "bulk", given, at, "global", "shared::cta", "bulk_group", hint, masked, strong(sem))
    emit("cp", modifiers, addr(dst), addr(src), number, *policy, *mask, pred=pred)


@records("cp.async.bulk.cluster", "cp.async.bulk.cluster.sem")
def store_cluster(
    dst: Shared,
    src: Shared,
    size: Reg | int,
    mbar: Shared,
    *,
    sem: CopyOrder | None = None,
    scope: ClusterScope | None = None,
    pred: Predicate = None,
) -> None:
    """Copy ``size`` bytes from this CTA's shared memory to another CTA's; ``mbar`` there counts the bytes.

    Records one ``cp.async.bulk.shared::cluster.shared::cta``.

    Args:
        dst, mbar: shared memory of the same CTA of the cluster, from ``ptx.cluster.map``.
        src: address in this CTA's shared memory, aligned to 16 bytes.
        size: bytes, a multiple of 16: a number or a u32 register.
        sem, scope: ``"weak"``, or ``"relaxed"`` with ``"cta"`` or ``"cluster"``.
        pred: guard.

    Raises:
        OperandError: as for :func:`load`.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk`.
    """
    number = transfer(size, src, "the source", see=_SEE)
    transfer(size, dst, "the destination", see=_SEE)
    given, at = order(sem, scope, COPY_ORDERS, ("cta", "cluster"), see=_SEE)
    modifiers = ("async", "bulk", given, at, "shared::cluster", "shared::cta", _COMPLETE, strong(sem))
    emit("cp", modifiers, addr(dst), addr(src), number, barrier(mbar), pred=pred)


def byte_mask_modifier(byte_mask: Reg | int | None, *, see: str) -> tuple[str | None, tuple[Any, ...]]:
    """Return the modifier and the operand of a byte mask; None and no operand without a mask."""
    if byte_mask is None:
        return None, ()
    return "cp_mask", (checked("byte_mask", byte_mask, 0, 0xFFFF, see=see),)


# --- reductions -----------------------------------------------------------------------------------


def reduction(
    op: str, dtype: ScalarType | str, types: Sequence[str], noftz: bool, *, see: str
) -> tuple[str | None, ...]:
    """Return the modifiers of a bulk reduction: the operation, ``noftz`` or None, the type."""
    name = type_modifier(dtype, types, see=see)
    if noftz and not (op == "add" and name in ("f16", "bf16", "f32")):
        raise OperandError(
            f"noftz=True with {op!r} of {name}: only 'add' of f16, bf16 or f32 takes it", see=see
        )
    # 16-bit floats have no other addition.
    keeps = noftz or (op == "add" and name in ("f16", "bf16"))
    return op, "noftz" if keeps else None, name


@records(
    "cp.reduce.async.bulk.global",
    "cp.reduce.async.bulk.global.noftz",
    "cp.reduce.async.bulk.global.noftz.f32",
    "cp.reduce.async.bulk.global.relaxed",
    "cp.reduce.async.bulk.global.noftz.relaxed",
)
def reduce(
    dst: Global,
    src: Shared,
    size: Reg | int,
    op: CopyOperation,
    dtype: ScalarType | str,
    *,
    noftz: bool = False,
    cache_hint: Reg | None = None,
    sem: ReducingCopyOrder | None = None,
    scope: Scope | None = None,
    pred: Predicate = None,
) -> None:
    """Combine ``size`` bytes of shared memory with global memory, element by element.

    Records one ``cp.reduce.async.bulk.global.shared::cta``; completes through a bulk group.

    Args:
        dst: global address, a multiple of 16.
        src: address in this CTA's shared memory, aligned to 16 bytes.
        size: bytes, a multiple of 16: a number or a u32 register.
        op: ``"add"``, ``"min"``, ``"max"``, ``"inc"``, ``"dec"``, ``"and"``, ``"or"`` or ``"xor"``.
        dtype: element type: u32, s32, u64, s64, f16, bf16, f32, f64, or b32 and b64 for bits.
        noftz: keep subnormal numbers. f16 and bf16 always keep them; f32 has the option since PTX 9.4.
        cache_hint: b64 register with an L2 cache policy.
        sem, scope: ``"relaxed"`` and ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"`` (PTX 9.3), or neither.
        pred: guard.

    Raises:
        OperandError: as for :func:`load`, or an operation or type that does not exist.
        InstructionError: an operation that the type does not have.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-reduce-async-bulk`.
    """
    see = "data-movement-and-conversion-instructions-cp-reduce-async-bulk"
    number = transfer(size, src, "the source", see=see)
    given, at = order(sem, scope, ("relaxed",), see=see)
    hint, policy = hinted(cache_hint)
    operation = reduction(op, dtype, GLOBAL_TYPES, noftz, see=see)
    modifiers = (
        *("reduce", "async", "bulk", given, at, "global", "shared::cta", "bulk_group", hint),
        *operation,
    )
    emit("cp", modifiers, addr(dst), addr(src), number, *policy, pred=pred)


@records("cp.reduce.async.bulk.cluster", "cp.reduce.async.bulk.cluster.relaxed")
def reduce_cluster(
    dst: Shared,
    src: Shared,
    size: Reg | int,
    mbar: Shared,
    op: CopyOperation,
    dtype: ScalarType | str,
    *,
    sem: ReducingCopyOrder | None = None,
    scope: ClusterScope | None = None,
    pred: Predicate = None,
) -> None:
    """Combine ``size`` bytes of this CTA's shared memory with another CTA's; ``mbar`` there counts them.

    Records one ``cp.reduce.async.bulk.shared::cluster.shared::cta``.

    Args:
        dst, mbar: shared memory of the same CTA of the cluster, from ``ptx.cluster.map``.
        src: address in this CTA's shared memory, aligned to 16 bytes.
        size: bytes, a multiple of 16: a number or a u32 register.
        op: as for :func:`reduce`.
        dtype: u32, s32, u64 (add), or b32 for bits.
        sem, scope: ``"relaxed"`` and ``"cta"`` or ``"cluster"`` (PTX 9.3), or neither.
        pred: guard.

    Raises:
        OperandError, InstructionError: as for :func:`reduce`.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-reduce-async-bulk`.
    """
    see = "data-movement-and-conversion-instructions-cp-reduce-async-bulk"
    number = transfer(size, src, "the source", see=see)
    transfer(size, dst, "the destination", see=see)
    given, at = order(sem, scope, ("relaxed",), ("cta", "cluster"), see=see)
    operation = reduction(op, dtype, _CLUSTER_TYPES, False, see=see)
    spaces = ("shared::cluster", "shared::cta")
    modifiers = ("reduce", "async", "bulk", given, at, *spaces, _COMPLETE, *operation)
    emit("cp", modifiers, addr(dst), addr(src), number, barrier(mbar), pred=pred)


# --- caches ---------------------------------------------------------------------------------------


@records("cp.async.bulk.prefetch", "cp.async.bulk.prefetch.evict_last")
def prefetch(
    src: Global,
    size: Reg | int,
    *,
    cache_hint: Reg | None = None,
    evict_last: bool = False,
    pred: Predicate = None,
) -> None:
    """Prefetch ``size`` bytes of global memory into L2. Records one ``cp.async.bulk.prefetch``.

    Args:
        src: global address, a multiple of 16.
        size: bytes, a multiple of 16: a number or a u32 register.
        cache_hint: b64 register with an L2 cache policy.
        evict_last: instead of a policy: L2 evicts these bytes last (PTX 9.4).
        pred: guard.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-prefetch`.
    """
    see = f"{_SEE}-prefetch"
    number = transfer(size, src, "the source", see=see)
    if evict_last and cache_hint is not None:
        raise OperandError("evict_last and cache_hint are both given: expected at most one of them", see=see)
    hint, policy = ("L2::evict_last", ()) if evict_last else hinted(cache_hint)
    emit("cp", ("async", "bulk", "prefetch", "L2", "global", hint), addr(src), number, *policy, pred=pred)


@records("applypriority.async.bulk")
def apply_priority(src: Global, size: Reg | int, *, pred: Predicate = None) -> None:
    """Give ``size`` bytes of global memory the normal L2 eviction priority; completes through a bulk group.

    Records one ``applypriority.async.bulk`` (PTX 9.4).

    PTX ISA: `#data-movement-and-conversion-instructions-applypriority-async-bulk`.
    """
    see = "data-movement-and-conversion-instructions-applypriority-async-bulk"
    number = transfer(size, src, "the source", see=see)
    modifiers = ("async", "bulk", "global", "bulk_group", "L2::evict_normal")
    emit("applypriority", modifiers, addr(src), number, pred=pred)


# --- groups ---------------------------------------------------------------------------------------


@records("cp.async.bulk.commit_group")
def commit_group(*, pred: Predicate = None) -> None:
    """Commit the thread's uncommitted bulk copies as one group. Records one ``cp.async.bulk.commit_group``.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-commit-group`.
    """
    emit("cp", ("async", "bulk", "commit_group"), pred=pred)


@records("cp.async.bulk.wait_group")
def wait_group(n: int, read: bool = False, *, pred: Predicate = None) -> None:
    """Wait until at most ``n`` of this thread's bulk groups are pending.

    Records one ``cp.async.bulk.wait_group``.

    Args:
        n: number of groups that may stay pending; 0 waits for all.
        read: wait only until the sources have been read, so that their memory may be overwritten.
        pred: guard.

    Raises:
        OperandError: ``n`` is negative or not an integer.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-wait-group`.
    """
    number = group_count(n, see=f"{_SEE}-wait-group")
    emit("cp", ("async", "bulk", "wait_group", "read" if read else None), number, pred=pred)
