"""``ptx.cp.async_.bulk``: copies by the TMA engine.

PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-tensor`.

Every function records exactly one instruction.  In ``tensor_1d`` to ``tensor_5d`` the argument that is a
tensor map (``A.tma_desc()``) gives the direction: as ``src`` the copy loads into shared memory and signals an
mbarrier, as ``dst`` it stores and completes through a bulk group.

Watch out: ``coord`` is in PTX order, innermost dimension first; shapes and boxes are in numpy order,
innermost last.  A ``(BM, BK)`` box of a row-major ``[M, K]`` tensor is loaded at ``coord=(k, m)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.errors import OperandError
from .emit import Predicate, emit
from .operands import Addr, addr
from .params import TensorMapReg
from .registers import Reg
from .smem import Buffer
from .types import as_whole

__all__ = ["commit_group", "tensor_1d", "tensor_2d", "tensor_3d", "tensor_4d", "tensor_5d", "wait_group"]

Shared = Reg | Addr | Buffer
Coordinate = Reg | int

_SEE = "data-movement-and-conversion-instructions-cp-async-bulk-tensor"


def _coordinates(rank: int, coord: Sequence[Coordinate] | Coordinate) -> tuple[Coordinate, ...]:
    given = (coord,) if isinstance(coord, (Reg, int)) else tuple(coord)
    if len(given) != rank:
        raise OperandError(
            f"tensor_{rank}d takes {rank} coordinates, got {len(given)}",
            hint="coordinates count elements, innermost dimension first",
            see=_SEE,
        )
    for value in given:
        if not isinstance(value, Reg) and as_whole(value) is None:
            raise OperandError(f"a coordinate is a number or an s32 register, not {value!r}", see=_SEE)
    return given


def _check_map(rank: int, tensor: TensorMapReg, shared: Shared) -> None:
    """The map against the instruction and, where it is known, against the buffer."""
    spec = tensor.tile.spec
    assert spec.tma_box is not None  # tma_desc() refused tiles without
    if len(spec.dims) != rank:
        raise OperandError(
            f"tensor_{rank}d with the map of {tensor.tile.name}, which has {len(spec.dims)} dimensions",
            hint=f"use tensor_{len(spec.dims)}d",
            see=_SEE,
        )
    if not isinstance(shared, Buffer):
        return
    box = math.prod(spec.tma_box) * spec.dtype.nbytes
    if box > shared.nbytes:
        raise OperandError(
            f"the box {spec.tma_box} of {tensor.tile.name} is {box} bytes, "
            f"the buffer {shared.name!r} has {shared.nbytes}",
            see=_SEE,
        )
    if shared.swizzle != spec.layout.swizzle:
        raise OperandError(
            f"the map of {tensor.tile.name} swizzles {spec.layout.swizzle!r}, "
            f"the buffer {shared.name!r} is allocated for {shared.swizzle!r}",
            hint=f"smem.alloc(..., swizzle={spec.layout.swizzle!r})",
            see="tensor-swizzling-modes",
        )


def _mask(multicast: Reg | int) -> Reg | int:
    if isinstance(multicast, Reg):
        return multicast
    if as_whole(multicast) is None or not 1 <= multicast <= 0xFFFF:
        raise OperandError(f"multicast is {multicast!r}: expected a mask of CTA ranks, 1..0xffff", see=_SEE)
    return multicast


def _tensor(
    rank: int,
    dst: Shared | TensorMapReg,
    src: Shared | TensorMapReg,
    coord: Sequence[Coordinate] | Coordinate,
    mbar: Shared | None,
    multicast: Reg | int | None,
    cta_group: int | None,
    cache_hint: Reg | None,
    space: str,
    pred: Predicate,
) -> None:
    coordinates = _coordinates(rank, coord)
    hint = None if cache_hint is None else "L2::cache_hint"
    extra: list[Any] = [] if cache_hint is None else [cache_hint]
    if isinstance(src, TensorMapReg) == isinstance(dst, TensorMapReg):
        which = "both dst and src are" if isinstance(src, TensorMapReg) else "neither dst nor src is"
        raise OperandError(
            f"{which} a tensor map: exactly one must be",
            hint="src=A.tma_desc() loads into shared memory, dst=D.tma_desc() stores from it",
            see=_SEE,
        )
    if isinstance(dst, TensorMapReg):
        for name, value in (("mbar", mbar), ("multicast", multicast), ("cta_group", cta_group)):
            if value is not None:
                raise OperandError(
                    f"a tensor store takes no {name}",
                    hint="it completes through commit_group() and wait_group(n)" if name == "mbar" else "",
                    see=_SEE,
                )
        _check_map(rank, dst, src)
        words: tuple[str | None, ...] = ("global", "shared::cta", "bulk_group", hint)
        emit(
            "cp",
            ("async", "bulk", "tensor", f"{rank}d", *words),
            addr(dst, coord=coordinates),
            addr(src),
            *extra,
            pred=pred,
        )
        return
    if mbar is None:
        raise OperandError(
            "a tensor load needs mbar=, the mbarrier that counts its bytes",
            hint="expect them with ptx.mbarrier.arrive_expect_tx(mbar, nbytes)",
            see=_SEE,
        )
    if cta_group not in (None, 1, 2):
        raise OperandError(f"cta_group is {cta_group!r}: expected 1 or 2", see=_SEE)
    if space not in ("cta", "cluster"):
        raise OperandError(f"space is {space!r}: expected 'cta' or 'cluster'", see=_SEE)
    assert isinstance(src, TensorMapReg)
    _check_map(rank, src, dst)
    if multicast is not None:
        extra.insert(0, _mask(multicast))
    emit(
        "cp",
        (
            *("async", "bulk", "tensor", f"{rank}d", f"shared::{space}", "global"),
            "mbarrier::complete_tx::bytes",
            None if multicast is None else "multicast::cluster",
            None if cta_group is None else f"cta_group::{cta_group}",
            hint,
        ),
        addr(dst),
        addr(src, coord=coordinates),
        addr(mbar),
        *extra,
        pred=pred,
    )


def tensor_1d(
    *,
    dst: Shared | TensorMapReg,
    src: Shared | TensorMapReg,
    coord: Sequence[Coordinate] | Coordinate,
    mbar: Shared | None = None,
    multicast: Reg | int | None = None,
    cta_group: int | None = None,
    cache_hint: Reg | None = None,
    space: str = "cluster",
    pred: Predicate = None,
) -> None:
    """Copy a box of a 1-D tensor. See :func:`tensor_2d`."""
    _tensor(1, dst, src, coord, mbar, multicast, cta_group, cache_hint, space, pred)


def tensor_2d(
    *,
    dst: Shared | TensorMapReg,
    src: Shared | TensorMapReg,
    coord: Sequence[Coordinate],
    mbar: Shared | None = None,
    multicast: Reg | int | None = None,
    cta_group: int | None = None,
    cache_hint: Reg | None = None,
    space: str = "cluster",
    pred: Predicate = None,
) -> None:
    """Copy the box at ``coord`` of a 2-D tensor. Records one ``cp.async.bulk.tensor.2d``.

    Args:
        dst, src: one is a tensor map (``A.tma_desc()``), the other a place in shared memory, aligned to
            128 bytes.
        coord: first element of the box, **innermost dimension first**: ``(k, m)`` for ``[M, K]``; numbers or
            s32 registers. May lie outside the tensor: loads fill, stores drop.
        mbar: for loads, the mbarrier on which the box's bytes are counted (the whole box, also if clipped).
        multicast: for loads, mask of the cluster's CTAs that receive the box at the same offset.
        cta_group: for loads, 1 or 2: whose mbarrier of a CTA pair is signalled.
        cache_hint: b64 register with an L2 cache policy.
        space: state space of a load's destination: ``"cluster"``, which includes this CTA, or ``"cta"``
            (PTX 8.6).
        pred: guard.

    Raises:
        OperandError: no tensor map or two, a wrong number of coordinates, a map of another rank, a buffer
            that is too small or swizzled otherwise, a load without ``mbar``, a store with one.
    """
    _tensor(2, dst, src, coord, mbar, multicast, cta_group, cache_hint, space, pred)


def tensor_3d(
    *,
    dst: Shared | TensorMapReg,
    src: Shared | TensorMapReg,
    coord: Sequence[Coordinate],
    mbar: Shared | None = None,
    multicast: Reg | int | None = None,
    cta_group: int | None = None,
    cache_hint: Reg | None = None,
    space: str = "cluster",
    pred: Predicate = None,
) -> None:
    """Copy a box of a 3-D tensor. See :func:`tensor_2d`."""
    _tensor(3, dst, src, coord, mbar, multicast, cta_group, cache_hint, space, pred)


def tensor_4d(
    *,
    dst: Shared | TensorMapReg,
    src: Shared | TensorMapReg,
    coord: Sequence[Coordinate],
    mbar: Shared | None = None,
    multicast: Reg | int | None = None,
    cta_group: int | None = None,
    cache_hint: Reg | None = None,
    space: str = "cluster",
    pred: Predicate = None,
) -> None:
    """Copy a box of a 4-D tensor. See :func:`tensor_2d`."""
    _tensor(4, dst, src, coord, mbar, multicast, cta_group, cache_hint, space, pred)


def tensor_5d(
    *,
    dst: Shared | TensorMapReg,
    src: Shared | TensorMapReg,
    coord: Sequence[Coordinate],
    mbar: Shared | None = None,
    multicast: Reg | int | None = None,
    cta_group: int | None = None,
    cache_hint: Reg | None = None,
    space: str = "cluster",
    pred: Predicate = None,
) -> None:
    """Copy a box of a 5-D tensor. See :func:`tensor_2d`."""
    _tensor(5, dst, src, coord, mbar, multicast, cta_group, cache_hint, space, pred)


def commit_group(*, pred: Predicate = None) -> None:
    """Put the thread's uncommitted bulk copies into a group. Records one ``cp.async.bulk.commit_group``.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-commit-group`.
    """
    emit("cp", ("async", "bulk", "commit_group"), pred=pred)


def wait_group(n: int, read: bool = False, *, pred: Predicate = None) -> None:
    """Wait until at most ``n`` of this thread's bulk groups are pending.

    Records one ``cp.async.bulk.wait_group``.

    Args:
        n: a number from 0; 0 waits for all.
        read: wait only until the sources have been read, so that their memory may be overwritten.
        pred: guard.

    Raises:
        OperandError: a negative number, or no number.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-wait-group`.
    """
    number = as_whole(n)
    if number is None or number < 0:
        raise OperandError(
            f"wait_group({n!r}): expected a number of groups from 0",
            see="data-movement-and-conversion-instructions-cp-async-bulk-wait-group",
        )
    emit("cp", ("async", "bulk", "wait_group", "read" if read else None), number, pred=pred)
