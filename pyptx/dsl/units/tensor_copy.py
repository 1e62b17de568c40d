"""Copies of tensor boxes by the TMA engine: ``tensor_1d`` to ``tensor_5d`` of ``ptx.cp.async_.bulk``.

PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-tensor`.

The tensor map determines the direction.  If ``src`` is the map, the copy loads into shared memory and signals
an mbarrier.  If ``dst`` is the map, the copy stores (or combines, with ``op=``) and completes through a bulk
group.  A tensor map is the map of a parameter (``A.tma_desc()``) or any 64-bit address of a map, such as a
copy that ``ptx.tensormap`` has changed; a place in shared memory has a 32-bit address.

Watch out: ``coord`` is in PTX order, innermost dimension first; shapes and boxes are in numpy order,
innermost last.  A ``(BM, BK)`` box of a row-major ``[M, K]`` tensor is loaded at ``coord=(k, m)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.errors import OperandError
from ...layout.swizzle import COPY_SWIZZLES
from ..choices import CopyOperation, Validity
from ..emit import Predicate, checked, emit
from ..operands import Addr, addr
from ..params import TensorMapReg
from ..records import records
from ..register_arrays import RegArray
from ..registers import Reg
from ..smem import Buffer
from ..types import as_whole
from .places import Shared, barrier, check_place, is_wide
from .qualifiers import hinted, multicast_modifier, one_of, report_modifier, shared_space

__all__ = [
    "TensorCopy",
    "apply_priority_tensor",
    "prefetch_tensor",
    "tensor_1d",
    "tensor_2d",
    "tensor_3d",
    "tensor_4d",
    "tensor_5d",
]

Coordinate = Reg | int
Map = TensorMapReg | Reg | Addr

_SEE = "data-movement-and-conversion-instructions-cp-async-bulk-tensor"
#: Alignment in bytes of the shared memory of every tensor copy, for any swizzle.
_ALIGNMENT = 128
_LOADS = ("tile", "tile::gather4", "im2col", "im2col::w", "im2col::w::128")
_STORES = ("tile", "tile::scatter4", "im2col_no_offs", "im2col_no_offs::w")
_REDUCTIONS = ("tile", "im2col_no_offs", "im2col_no_offs::w")
#: Modes that name four rows of a matrix: a column and four row numbers.
_FOUR_ROWS = ("tile::gather4", "tile::scatter4")


# --- what every tensor copy checks ----------------------------------------------------------------


def _coordinates(
    rank: int, coord: Sequence[Coordinate] | Coordinate, mode: str | None
) -> tuple[Coordinate, ...]:
    given = (coord,) if isinstance(coord, (Reg, int)) else tuple(coord)
    expected = 5 if mode in _FOUR_ROWS else rank
    if len(given) != expected:
        rows = " for a column and four rows" if mode in _FOUR_ROWS else ""
        raise OperandError(
            f"tensor_{rank}d takes {expected} coordinates{rows}, got {len(given)}: {coord!r}",
            hint="coordinates count elements, innermost dimension first",
            see=_SEE,
        )
    for value in given:
        if isinstance(value, Reg):
            continue
        number = as_whole(value)
        if number is None:
            raise OperandError(f"a coordinate is a number or an s32 register, not {value!r}", see=_SEE)
        if not -(1 << 31) <= number < 1 << 31:
            raise OperandError(
                f"a coordinate is {value}: expected a signed 32-bit number, {-(1 << 31)}..{(1 << 31) - 1}",
                see=_SEE,
            )
    return given


def _mode(mode: str | None, rank: int, allowed: Sequence[str]) -> str | None:
    """Check the access mode against the rank, and return it as a modifier; None stays None."""
    if mode is None:
        return None
    one_of("mode", mode, allowed, see=_SEE)
    if mode in _FOUR_ROWS and rank != 2:
        raise OperandError(f"mode is {mode!r} with {rank} dimensions: expected tensor_2d", see=_SEE)
    if mode.startswith("im2col") and rank < 3:
        raise OperandError(f"mode is {mode!r} with {rank} dimensions: expected 3, 4 or 5", see=_SEE)
    return mode


def _offsets(
    offsets: Sequence[Reg | int] | RegArray | None, mode: str | None, rank: int
) -> tuple[list[Any], ...]:
    """Return the extra operand of an im2col mode: offsets into the filter, or halo and offset along W."""
    expected = 0
    if mode is not None and mode in ("im2col", "im2col::w", "im2col::w::128"):
        expected = rank - 2 if mode == "im2col" else 2
    given = () if offsets is None else tuple(offsets)
    if len(given) != expected:
        raise OperandError(
            f"{len(given)} offsets: expected {expected} with mode={mode!r} and {rank} dimensions",
            hint="im2col takes one offset per spatial dimension, W first; im2col::w takes halo and offset",
            see=_SEE,
        )
    if not expected:
        return ()
    return ([checked("an offset", value, 0, 0xFFFF, see=_SEE) for value in given],)


def _check_map(rank: int, tensor: Map, shared: Shared | None, mode: str | None) -> None:
    """Raise an error if the tensor map does not fit the instruction or the shared-memory buffer."""
    if shared is not None:
        check_place("the shared-memory side", shared, None, _ALIGNMENT, see=_SEE)
    if not isinstance(tensor, TensorMapReg):
        return
    name, spec = tensor.tile.name, tensor.tile.spec
    assert spec.tma_box is not None  # tma_desc() refused tiles without
    if len(spec.tma_box) != rank:
        raise OperandError(
            f"tensor_{rank}d with the map of {name}, which has {len(spec.tma_box)} dimensions",
            hint=f"use tensor_{len(spec.tma_box)}d",
            see=_SEE,
        )
    if mode is not None and mode.startswith("im2col"):
        raise OperandError(
            f"mode is {mode!r}, and the map of {name} is a map of tiles",
            hint="pass the 64-bit address of an im2col map",
            see=_SEE,
        )
    count = 1
    if mode in _FOUR_ROWS:
        count = 4
        if spec.tma_box[0] != 1:
            raise OperandError(
                f"mode is {mode!r}, and the box of {name} is {spec.tma_box}: expected one row, (1, n)",
                hint="each of the four rows is one box",
                see=_SEE,
            )
    if not isinstance(shared, Buffer):
        return
    row = spec.tma_box[-1] * spec.dtype.nbytes
    # Measured on an H200: rows that are shorter than the swizzle's span begin one span apart.
    pitch = max(row, COPY_SWIZZLES[spec.layout.swizzle])
    box = count * math.prod(spec.tma_box[:-1]) * pitch
    if shared.shape and box > shared.nbytes:
        what = f"the box {spec.tma_box}" if count == 1 else f"{count} boxes {spec.tma_box}"
        raise OperandError(
            f"{what} of {name} is {box} bytes, but the buffer {shared.name!r} has {shared.nbytes}",
            hint=f"rows of {row} bytes begin {pitch} bytes apart with swizzle {spec.layout.swizzle}"
            if pitch > row
            else "",
            see=_SEE,
        )
    if shared.swizzle != spec.layout.swizzle:
        raise OperandError(
            f"the tensor map of {name} has the swizzle {spec.layout.swizzle!r}, "
            f"but the buffer {shared.name!r} has {shared.swizzle!r}",
            hint=f"allocate it with smem.alloc(..., swizzle={spec.layout.swizzle!r})",
            see="tensor-swizzling-modes",
        )


def _is_load(dst: Shared | Map, src: Shared | Map) -> bool:
    """Return True if ``src`` is the tensor map, False if ``dst`` is; raise unless exactly one of them is."""
    for is_map in (lambda place: isinstance(place, TensorMapReg), is_wide):
        if is_map(src) != is_map(dst):
            return bool(is_map(src))
    which = "both dst and src are" if is_wide(src) else "neither dst nor src is"
    raise OperandError(
        f"{which} a tensor map, but exactly one of them must be; dst is {dst!r}, src is {src!r}",
        hint="src=A.tma_desc() loads into shared memory, dst=D.tma_desc() stores from it",
        see=_SEE,
    )


# --- loads, stores, reductions --------------------------------------------------------------------


class TensorCopy:
    """``tensor_1d`` to ``tensor_5d``: calling one copies a box of a tensor of that rank."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.__name__ = f"tensor_{rank}d"
        self.__doc__ = f"""Copy the box at ``coord`` of a {rank}-D tensor, see :class:`TensorCopy`.

        Records one ``cp.async.bulk.tensor.{rank}d``; with ``op=``, one ``cp.reduce.async.bulk.tensor``.
        """

    def __repr__(self) -> str:
        return f"<ptx.cp.async_.bulk.{self.__name__}>"

    def __call__(
        self,
        *,
        dst: Shared | Map,
        src: Shared | Map,
        coord: Sequence[Coordinate] | Coordinate,
        mbar: Shared | None = None,
        op: CopyOperation | None = None,
        mode: str | None = None,
        offsets: Sequence[Reg | int] | RegArray | None = None,
        multicast: Reg | int | None = None,
        multicast_bits: int | None = None,
        cta_group: int | None = None,
        cache_hint: Reg | None = None,
        report: Validity | None = None,
        space: str | None = None,
        pred: Predicate = None,
    ) -> None:
        """Copy the box at ``coord``. Records one ``cp.async.bulk.tensor`` or ``cp.reduce.async.bulk.tensor``.

        Args:
            dst, src: one is a tensor map (``A.tma_desc()``, or the 64-bit address of a map), the other a
                place in shared memory, aligned to 128 bytes.
            coord: first element of the box, **innermost dimension first**: ``(k, m)`` for ``[M, K]``; numbers
                or s32 registers. The box may lie outside the tensor: loads fill such elements, stores drop
                them.
            mbar: for loads, the mbarrier that counts the box's bytes (of the whole box, even if it is
                clipped).
            op: for stores, combine with memory instead: ``"add"``, ``"min"``, ``"max"``, ``"inc"``,
                ``"dec"``, ``"and"``, ``"or"``, ``"xor"``.
            mode: None and ``"tile"`` copy boxes. Loads have ``"im2col"``, ``"im2col::w"``,
                ``"im2col::w::128"`` (3-D to 5-D) and ``"tile::gather4"`` (2-D: ``coord`` is a column and
                four rows); stores have ``"im2col_no_offs"`` and ``"tile::scatter4"``.
            offsets: for im2col loads, one offset for each spatial dimension, W first; for ``im2col::w`` halo
                and offset along W. Numbers of 16 bits or 16-bit registers.
            multicast: for loads, mask of the cluster's CTAs that receive the box at the same offset.
            multicast_bits: 16 or 32 writes the width of the mask explicitly (PTX 9.4).
            cta_group: for loads, 1 or 2: with 2, the mbarrier may be in either CTA of the pair.
            cache_hint: b64 register with an L2 cache policy.
            report: for loads, what to report on the mbarrier: ``"disabled"``, ``"validity::per_16bytes::8"``
                ... (PTX 9.4).
            space: state space of a load's destination: ``"cluster"``, which includes this CTA and is the
                default, or ``"cta"`` (PTX 8.6).
            pred: guard.

        Raises:
            OperandError: no tensor map or two, a wrong number of coordinates or offsets, a map of another
                rank, a buffer that is misaligned, too small or has another swizzle, a load without ``mbar``,
                a store with ``mbar``.

        PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-tensor`.
        """
        rank = self.rank
        hint, policy = hinted(cache_hint)
        if not _is_load(dst, src):
            options = {
                "mbar": mbar,
                "multicast": multicast,
                "multicast_bits": multicast_bits,
                "cta_group": cta_group,
                "offsets": offsets,
                "report": report,
                "space": space,
            }
            for name, value in options.items():
                if value is not None:
                    raise OperandError(
                        f"a tensor store takes no {name}",
                        hint="it completes through commit_group() and wait_group(n)"
                        if name == "mbar"
                        else "",
                        see=_SEE,
                    )
            load_mode = _mode(mode, rank, _STORES if op is None else _REDUCTIONS)
            coordinates = _coordinates(rank, coord, mode)
            _check_map(rank, dst, src, mode)  # type: ignore[arg-type]
            modifiers: tuple[str | None, ...] = (
                *(None if op is None else "reduce", "async", "bulk", "tensor", f"{rank}d"),
                *("global", "shared::cta", op, load_mode, "bulk_group", hint),
            )
            emit("cp", modifiers, addr(dst, coord=coordinates), addr(src), *policy, pred=pred)
            return
        if op is not None:
            raise OperandError(
                f"op is {op!r}, but only stores to global memory reduce: expected a tensor map as dst",
                see=_SEE,
            )
        if mbar is None:
            raise OperandError(
                "a tensor load needs mbar=, the mbarrier that counts its bytes",
                hint="expect the bytes with ptx.mbarrier.arrive_expect_tx(mbar, nbytes)",
                see=_SEE,
            )
        if cta_group is not None:
            one_of("cta_group", cta_group, (1, 2), see=_SEE)
        where = shared_space("cluster" if space is None else space, ("cluster", "cta"), see=_SEE)
        load_mode = _mode(mode, rank, _LOADS)
        coordinates = _coordinates(rank, coord, mode)
        _check_map(rank, src, dst, mode)  # type: ignore[arg-type]
        cast, mask = multicast_modifier(multicast, multicast_bits, see=_SEE)
        modifiers = (
            *("async", "bulk", "tensor", f"{rank}d", where, "global", load_mode),
            *("mbarrier::complete_tx::bytes", report_modifier(report), cast),
            None if cta_group is None else f"cta_group::{cta_group}",
            hint,
        )
        places = (addr(dst), addr(src, coord=coordinates), barrier(mbar))
        emit("cp", modifiers, *places, *_offsets(offsets, mode, rank), *mask, *policy, pred=pred)


#: Forms of the table: for any tensor; for matrices only; for tensors of pixels, with 3 or more dimensions.
_FORMS_OF_BOXES = (
    "cp.async.bulk.tensor.load",
    "cp.async.bulk.tensor.load.report",
    "cp.async.bulk.tensor.load.wide_multicast",
    "cp.async.bulk.tensor.store",
    "cp.reduce.async.bulk.tensor",
)
_FORMS_OF_ROWS = (
    "cp.async.bulk.tensor.load.gather4",
    "cp.async.bulk.tensor.load.gather4.report",
    "cp.async.bulk.tensor.load.gather4.wide_multicast",
    "cp.async.bulk.tensor.store.scatter4",
)
_FORMS_OF_PIXELS = (
    "cp.async.bulk.tensor.load.im2col",
    "cp.async.bulk.tensor.load.im2col.report",
    "cp.async.bulk.tensor.load.im2col.wide_multicast",
    "cp.async.bulk.tensor.load.im2col_w",
    "cp.async.bulk.tensor.load.im2col_w.report",
    "cp.async.bulk.tensor.load.im2col_w.wide_multicast",
    "cp.async.bulk.tensor.store.im2col",
    "cp.async.bulk.tensor.store.im2col_no_offs_w",
    "cp.reduce.async.bulk.tensor.im2col_no_offs_w",
)

#: Copy a box of a 1-D tensor.
tensor_1d = records(*_FORMS_OF_BOXES)(TensorCopy(1))
#: Copy a box of a 2-D tensor.
tensor_2d = records(*_FORMS_OF_BOXES, *_FORMS_OF_ROWS)(TensorCopy(2))
#: Copy a box of a 3-D tensor.
tensor_3d = records(*_FORMS_OF_BOXES, *_FORMS_OF_PIXELS)(TensorCopy(3))
#: Copy a box of a 4-D tensor.
tensor_4d = records(*_FORMS_OF_BOXES, *_FORMS_OF_PIXELS)(TensorCopy(4))
#: Copy a box of a 5-D tensor.
tensor_5d = records(*_FORMS_OF_BOXES, *_FORMS_OF_PIXELS)(TensorCopy(5))


# --- caches ---------------------------------------------------------------------------------------


def _touch(
    src: Map, coord: Sequence[Coordinate] | Coordinate, mode: str | None, offsets: Any
) -> tuple[int, str | None, Addr, tuple[list[Any], ...]]:
    """Return the rank, mode, address and offsets for a prefetch of a box or a change of its L2 priority."""
    count = 1 if isinstance(coord, (Reg, int)) else len(coord)
    rank = 2 if mode in _FOUR_ROWS else count
    if not 1 <= rank <= 5:
        raise OperandError(f"{count} coordinates: expected 1 to 5, innermost dimension first", see=_SEE)
    if not is_wide(src):
        raise OperandError(f"src is {src!r}: expected a tensor map, such as A.tma_desc()", see=_SEE)
    load_mode = _mode(mode, rank, _LOADS)
    coordinates = _coordinates(rank, coord, mode)
    _check_map(rank, src, None, mode)
    return rank, load_mode, addr(src, coord=coordinates), _offsets(offsets, mode, rank)


@records(
    "cp.async.bulk.prefetch.tensor",
    "cp.async.bulk.prefetch.tensor.im2col",
    "cp.async.bulk.prefetch.tensor.im2col_w",
    "cp.async.bulk.prefetch.tensor.gather4",
    "cp.async.bulk.prefetch.tensor.evict_last",
    "cp.async.bulk.prefetch.tensor.im2col.evict_last",
    "cp.async.bulk.prefetch.tensor.im2col_w.evict_last",
    "cp.async.bulk.prefetch.tensor.gather4.evict_last",
)
def prefetch_tensor(
    src: Map,
    coord: Sequence[Coordinate] | Coordinate,
    *,
    mode: str | None = None,
    offsets: Sequence[Reg | int] | RegArray | None = None,
    cache_hint: Reg | None = None,
    evict_last: bool = False,
    pred: Predicate = None,
) -> None:
    """Prefetch the box at ``coord`` of a tensor into L2. Records one ``cp.async.bulk.prefetch.tensor``.

    Args:
        src: a tensor map, or the 64-bit address of a map.
        coord: first element of the box, **innermost dimension first**: one coordinate for each dimension.
        mode, offsets: as for loads of :class:`TensorCopy`.
        cache_hint: b64 register with an L2 cache policy.
        evict_last: instead of a policy: L2 evicts the box last (PTX 9.4).
        pred: guard.

    Raises:
        OperandError: as for :class:`TensorCopy`.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor`.
    """
    if evict_last and cache_hint is not None:
        raise OperandError("evict_last and cache_hint are both given: expected at most one of them", see=_SEE)
    rank, load_mode, place, info = _touch(src, coord, mode, offsets)
    hint, policy = ("L2::evict_last", ()) if evict_last else hinted(cache_hint)
    modifiers = ("async", "bulk", "prefetch", "tensor", f"{rank}d", "L2", "global", load_mode, hint)
    emit("cp", modifiers, place, *info, *policy, pred=pred)


@records(
    "applypriority.async.bulk.tensor",
    "applypriority.async.bulk.tensor.im2col",
    "applypriority.async.bulk.tensor.im2col_w",
    "applypriority.async.bulk.tensor.gather4",
)
def apply_priority_tensor(
    src: Map,
    coord: Sequence[Coordinate] | Coordinate,
    *,
    mode: str | None = None,
    offsets: Sequence[Reg | int] | RegArray | None = None,
    pred: Predicate = None,
) -> None:
    """Give a box of a tensor the normal L2 eviction priority; completes through a bulk group.

    Records one ``applypriority.async.bulk.tensor`` (PTX 9.4).  The arguments are those of
    :func:`prefetch_tensor`.

    PTX ISA: `#data-movement-and-conversion-instructions-applypriority-async-bulk-tensor`.
    """
    rank, load_mode, place, info = _touch(src, coord, mode, offsets)
    modifiers = ("async", "bulk", "tensor", f"{rank}d", "global", "bulk_group", load_mode, "L2::evict_normal")
    emit("applypriority", modifiers, place, *info, pred=pred)
