"""Epilogues for Hopper, which store an accumulator of ``wgmma`` from registers to global memory.

A warp holds 16 of its warpgroup's 64 rows; each group of four threads holds one row and the row 8 below::

    rows of the warp           columns 0 1   2 3   4 5   6 7   8 9  ...
          0                    lane    0     1     2     3     0
          1                            4     5     6     7     4
         ...                          ...
          7                           28    29    30    31    28
          8 .. 15              as 0 .. 7, in the next two registers

The accumulator is f32; the output is f32, or bf16 or f16, rounded to nearest even.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import SpecError
from ..core.types import ScalarType, b32, f32, s32, u32, u64
from ..dsl import Buffer, Reg, TensorMapReg, ptx, reg
from ..dsl.units.fragments import Fragment
from .outputs import check_output, pack, settle
from .staging import ROWS, check_staging

if TYPE_CHECKING:
    from .addend import Addend

__all__ = [
    "ROWS",
    "Apply",
    "Packed",
    "check_accumulator",
    "direct",
    "settle",
    "through_shared",
]

#: What an author may record on each four elements of a thread: their registers, row and column.
Apply = Callable[[Fragment, Reg, Reg], None]

_THREADS = 128


def check_accumulator(acc: Fragment) -> None:
    """Raise :class:`SpecError` unless this is a whole f32 accumulator of ``wgmma``. Records nothing."""
    if acc.operand != "d" or acc.dtype != "f32" or acc.layout.thread_count != _THREADS or not acc.whole:
        raise SpecError(
            f"the accumulator is {acc!r}: expected a whole f32 accumulator of wgmma",
            hint="make it with ptx.wgmma.accumulator(n=...)",
        )


def _pair(acc: Fragment, i: int, dtype: ScalarType) -> Reg:
    """Round elements ``i`` and ``i + 1``, neighbors in a row, and pack them. Records one ``cvt``."""
    packed = reg.scalar(b32)
    pack(packed, acc[i], acc[i + 1], dtype)
    return packed


def direct(
    acc: Fragment | Packed,
    place: Reg,
    row_bytes: int,
    *,
    dtype: ScalarType = f32,
    rows: Reg | None = None,
    columns: Reg | int | None = None,
) -> None:
    """Store the accumulator directly from registers, two neighboring elements per thread and instruction.

    Four threads of a warp write 32 bytes of a row in f32. In a 16-bit type they write 16 bytes, which is half
    of what a memory transaction moves.

    Records the fragment's origin (8 instructions), two ``mad.wide.u32`` and an ``add.u64``, and for each two
    elements a ``st.global`` and, for a 16-bit type, a ``cvt``.  With ``rows`` and ``columns`` it records two
    ``setp`` more, and one for each two elements.

    Args:
        acc: the accumulator, 64 rows of the warpgroup, or what :class:`Packed` took of one.
        place: global address of the accumulator's first row and column in D, u64.
        row_bytes: bytes from one row of D to the next.
        dtype: output type: f32, bf16 or f16.
        rows: number of rows to store, counted from the first one: a register (0 or less as s32 stores none).
        columns: number of columns to store, an even number, likewise.

    Raises:
        SpecError: the type is another one, or ``acc`` is not a whole f32 accumulator.
    """
    check_output(dtype)
    packed = acc if isinstance(acc, Packed) else None
    if isinstance(acc, Packed):
        if acc.dtype is not dtype:
            raise SpecError(
                f"numbers packed in {acc.dtype!r} for an output of {dtype!r}: expected the same type"
            )
        acc = acc.like
    check_accumulator(acc)
    origin = acc.origin()
    known = None if rows is None else [origin.row.view(s32) < (rows.view(s32) - below) for below in (0, 8)]
    left = None if columns is None else (columns - origin.column).view(s32)
    upper = reg.scalar(u64)
    ptx.inst.mad.wide.u32(upper, origin.row, row_bytes, place)
    ptx.inst.mad.wide.u32(upper, origin.column, dtype.nbytes, upper)
    lower = upper + 8 * row_bytes
    for i in range(0, acc.elements, 2):
        target = ptx.addr(lower if acc.row(i) else upper, acc.column(i) * dtype.nbytes)
        pred = None if known is None else known[1 if acc.row(i) else 0]
        if left is not None:
            pred = ptx.setp("gt", left, acc.column(i), combine=None if pred is None else ("and", pred))
        if dtype is f32:
            ptx.inst.st.global_.v2.f32(target, acc[i : i + 2], pred=pred)
        else:
            word = _pair(acc, i, dtype) if packed is None else packed.words[i // 2]
            ptx.inst.st.global_.b32(target, word, pred=pred)


class Packed:
    """An accumulator that is rounded to a 16-bit type, in half as many registers. Records nothing.

    It frees the accumulator before D is stored: a warpgroup takes it, starts the first products of its next
    tile, and stores while the tensor core works::

        packed = kit.wgmma_epilogue.Packed(256, bf16)
        packed.take(acc)
        ...                                         # wgmma into acc again
        kit.wgmma_epilogue.through_shared(packed, staging, D.tma_desc(), coord, warp=warp, leader=leader)

    Args:
        columns: columns of the accumulator.
        dtype: bf16 or f16.

    Raises:
        SpecError: another type, or columns that are no multiple of 16.
    """

    def __init__(self, columns: int, dtype: ScalarType) -> None:
        check_output(dtype)
        if dtype.nbytes != 2 or columns < 1 or columns % 16:
            raise SpecError(f"{columns} columns of {dtype!r}: expected a multiple of 16 in bf16 or f16")
        self.columns, self.dtype = columns, dtype
        self.words = reg.array(b32, columns // 4, name="packed")
        #: An accumulator whose elements lie as these do; its registers are not used.
        self.like = ptx.wgmma.accumulator(n=columns, name="unused")

    def take(self, acc: Fragment) -> None:
        """Round the accumulator into these registers. Records a ``cvt`` for each two elements.

        An accumulator of fewer columns leaves the last registers as they are.

        Raises:
            SpecError: ``acc`` is not a whole f32 accumulator of at most as many columns.
        """
        check_accumulator(acc)
        if acc.layout.columns > self.columns:
            raise SpecError(f"{acc!r} has {acc.layout.columns} columns: expected {self.columns} at most")
        for i, word in enumerate(self.words[: acc.layout.columns // 4]):
            pack(word, acc[2 * i], acc[2 * i + 1], self.dtype)

    def stage(self, places: Sequence[Reg], offset: int, column: int) -> None:
        """Write a box to shared memory: 16 columns to each place. Records a ``stmatrix`` for each.

        Args:
            places: the addresses of this lane, as :func:`through_shared` computes them.
            offset: bytes from there to the stage.
            column: the box's first column, a multiple of 8.
        """
        for i, place in enumerate(places):
            first = column // 4 + 4 * i
            ptx.stmatrix(ptx.addr(place, offset), self.words[first : first + 4])


def through_shared(
    acc: Fragment | Packed,
    staging: Buffer,
    target: TensorMapReg,
    coord: tuple[Reg | int, ...],
    *,
    warp: Reg | int,
    leader: Reg,
    beyond: Callable[[Any], tuple[Reg | int, ...]] | None = None,
    apply: Apply | None = None,
    addend: Addend | None = None,
    cache_hint: Reg | None = None,
    fewer: tuple[Reg, int] | None = None,
) -> None:
    """Store the accumulator through swizzled shared memory and the TMA engine, independently in each warp.

    A warp writes one span of its 16 rows (128, 64 or 32 bytes of columns, the swizzle's width) into a stage
    of ``staging``, with ``stmatrix`` for 16-bit types and pairs of elements for f32; then its leader stores
    the box by TMA.  Before the warp writes a stage again, the leader waits until the engine has read the
    stage.  So a persistent kernel can begin its next product while the last boxes are still being stored.

    Records 17 instructions for the addresses of warp and lane, and one ``mad.lo.u32`` for each stage. Records
    for each box the two of :func:`settle`, the stores (for 32 bytes of columns two ``st.shared.v2``, or for a
    16-bit type four ``cvt`` and one ``stmatrix``), ``fence.proxy.async``, ``bar.warp.sync``, and a guarded
    block with an ``add``, the copy and its ``commit_group``.

    Records with ``fewer`` the last box twice, under its predicate and without it, and for fewer columns
    ``cp.async.bulk.wait_group``, which waits until the boxes before have been written.

    Watch out: after the call, the engine still reads the last boxes. Call ``settle(leader)`` before the CTA
    ends.

    Args:
        acc: the accumulator, 64 rows of the warpgroup, or what :class:`Packed` took of one.
        staging: shared memory with stages and a swizzle: rows of the swizzle's width, :data:`ROWS` for each
            warp.
        target: the output's tensor map, ``D.tma_desc()``, with a box of :data:`ROWS` such rows.
        coord: output element where the accumulator's 64 rows begin, innermost first: ``(column, row)``, or
            ``(column, row, matrix)`` of an array of matrices.
        warp: this warp's number among the warps that share ``staging``, as an int, or in a register with the
            same value in all lanes. The number of a warpgroup's first warp is a multiple of four.
        leader: predicate that is true in one lane of the warp (``ptx.warp.elect()``), the same at each call.
        beyond: for a map of more than two dimensions: a function of a box's first row, ``row`` of ``coord``
            plus 16 for each warp, that returns the box's coordinates behind the column. Called once.
        apply: records on each four elements of a thread before they are rounded: gets their f32 registers,
            which it changes in place, and registers with the row and the column of the first in the output.
            The second is in the next column; the others are 8 rows below.
        addend: adds multiples of another matrix before ``apply``; it uses the same ``staging``.
        cache_hint: L2 policy of the stores.
        fewer: None, or a predicate and the columns that ``acc`` has if it is true, a multiple of 8 and fewer
            than a box less: the last box then ends at the last of them, and overlaps with the one before.
            For what :class:`Packed` took.

    Raises:
        SpecError: the staging buffer has another shape, its stages do not divide the number of boxes, the
            type is another one, ``fewer`` columns are no such number, or ``acc`` is not a whole f32
            accumulator.
        OperandError: the map's box or swizzle differs from the buffer's.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-tensor`.
    """
    dtype = staging.dtype
    check_output(dtype)
    span = check_staging(staging)
    if isinstance(acc, Packed):
        if acc.dtype is not dtype or apply is not None or addend is not None:
            raise SpecError(
                f"numbers packed in {acc.dtype!r} for {staging!r}: expected the same type, and neither apply "
                "nor addend, which change the accumulator before it is packed"
            )
        columns = acc.columns
    else:
        check_accumulator(acc)
        columns = acc.layout.columns
    chunk = span // dtype.nbytes
    if columns % chunk:
        raise SpecError(
            f"the accumulator has {columns} columns: expected a multiple of {chunk}, {span} bytes of {dtype}"
        )
    if fewer is not None and (
        not isinstance(acc, Packed)
        or fewer[1] % 8
        or not max(chunk, columns - chunk + 1) <= fewer[1] < columns
    ):
        raise SpecError(
            f"fewer columns are {fewer[1]} of {acc!r}: expected packed numbers, and a multiple of 8 from "
            f"{max(chunk, columns - chunk + 1)} on and below {columns}"
        )
    depth = staging.stages
    assert depth is not None
    if columns // chunk % depth:
        raise SpecError(
            f"{columns // chunk} boxes are not a multiple of {depth} stages: the next call would write a "
            "stage that the engine still reads",
            hint=f"{columns} columns of {dtype} are {columns // chunk} boxes; use a number of stages that "
            "divides them",
        )
    rows = warp * ROWS
    boxes = [staging[i].rows(rows, ROWS) for i in range(depth)]
    places = _places(boxes[0], span)
    first_column, first_row, *matrix = coord
    first_row = (warp & 3) * ROWS + first_row
    outer = (first_row, *matrix) if beyond is None else beyond(first_row)
    bulk = ptx.cp.async_.bulk
    store = (bulk.tensor_2d, bulk.tensor_3d, bulk.tensor_4d, bulk.tensor_5d)[len(outer) - 1]
    if apply is not None:
        lane = ptx.special.laneid()
        own_row, own_column = (lane >> 2) + first_row, (lane & 3) * 2 + first_column
    for number, column in enumerate(range(0, columns, chunk)):
        stage = number % depth
        if addend is None:
            settle(leader, depth - 1)
        else:
            addend.wait(number)
        # The distance between stages, and between the halves of a box, is a multiple of the swizzle's period.
        offset = stage * staging.stage_bytes
        at: Reg | None = None
        if not isinstance(acc, Packed):
            for i, place in enumerate(places):
                part = acc[column // 2 : (column + chunk) // 2]
                each = 32 // dtype.nbytes // 2  # this lane's elements in 32 bytes of both rows
                values = part[each * i : each * (i + 1)]
                if addend is not None:
                    addend.add(values, ptx.addr(place, offset), 8 * span)
                if apply is not None:
                    for j in range(0, each, 4):
                        apply(values[j : j + 4], own_row, own_column + (column + 2 * (each * i + j)))
                if dtype is f32:
                    ptx.inst.st.shared.v2.f32(ptx.addr(place, offset), values[:2])
                    ptx.inst.st.shared.v2.f32(ptx.addr(place, offset + 8 * span), values[2:])
                else:
                    words = [_pair(values, j, dtype) for j in range(0, 8, 2)]
                    ptx.stmatrix(ptx.addr(place, offset), words)
        elif fewer is None or column + chunk < columns:
            acc.stage(places, offset, column)
        else:
            at = reg.scalar(u32)
            with ptx.if_(fewer[0]):
                acc.stage(places, offset, fewer[1] - chunk)
                ptx.inst.mov.u32(at, first_column + (fewer[1] - chunk))
                # This box may overlap with the one before.
                ptx.cp.async_.bulk.wait_group(0, pred=leader)
            with ptx.else_():
                acc.stage(places, offset, column)
                ptx.inst.mov.u32(at, first_column + column)
        ptx.fence.proxy_async("shared::cta")
        ptx.warp.sync()
        with ptx.if_(leader):
            store(
                dst=target,
                src=boxes[stage],
                coord=(first_column + column if at is None else at, *outer),
                cache_hint=cache_hint,
            )
            ptx.cp.async_.bulk.commit_group()
            if addend is not None:
                addend.refill(number, columns // chunk)
    if addend is not None:
        addend.advance(columns // chunk)


def _places(box: Buffer, span: int) -> list[Reg]:
    """Compute the swizzled addresses at which this lane writes, for each 32 bytes of the box's rows.

    Records 13 instructions for 128 bytes.  f32: 32 bytes are eight columns, of which the lane writes two in
    row ``lane / 4`` and two 8 rows below.  16-bit types: 32 bytes are 16 columns, four matrices of
    ``stmatrix``: rows 0..7 and 8..15 of eight columns, then of the next eight; the lane gives the address of
    row ``lane % 16``, piece ``lane / 16``.
    """
    lane = ptx.special.laneid()
    if box.dtype is f32:
        row, byte = lane >> 2, (lane & 3) * 8
    else:
        row, byte = lane & 15, (lane >> 4) * 16
    plain = row * span + byte + box.addr
    # The swizzle puts a piece of 16 bytes at its number XOR the number of its line of 128 bytes.
    place = plain ^ ((plain >> 3) & (span - 16))
    return [place, *(place ^ step for step in range(32, span, 32))]
