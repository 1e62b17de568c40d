"""Gradients of weights: sums over the rows of a stream, in two passes with a fixed order.

Owns the order of these sums.  In the first pass each team of a persistent kernel adds up its own rows, in
registers, and stores one row of partial sums.  In the second a CTA adds 32 columns of these rows, one column
in each lane; its warps share the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import SpecError
from ..core.types import f32, u32, u64
from ..dsl import Reg, RegArray, TileParam, ptx, reg, smem
from .row_plan import RowPlan
from .row_stream import RowStream
from .row_values import OUTPUTS, check_elements, from_f32, store_words

__all__ = ["COLUMNS", "column_registers", "column_sums", "column_tuning", "store_column_parts"]

#: Columns of a CTA.
COLUMNS = 32
#: Rows whose loads a thread has in flight.
_AT_ONCE = 4
#: Columns for whose sums, elements and weights a CTA has registers: 8 registers of 65,536 for each.
_MOST_COLUMNS = 8192
_MOST_CLUSTER = 8


def column_tuning(width: int, ctas: int = 132) -> dict[str, Any]:
    """Return options of ``RowPlan.make`` for a first pass over rows of ``width`` elements. Records nothing.

    A thread has 16 columns at most, a CTA 8192 (4096 if the width is no multiple of 8: each element takes a
    register then). Wider rows are shared by a cluster. ``ctas`` CTAs are persistent.
    """
    cluster = 1
    most = _MOST_COLUMNS if width % 8 == 0 else _MOST_COLUMNS // 2
    while cluster < _MOST_CLUSTER and width > cluster * most:
        cluster *= 2
    threads = min(_MOST_COLUMNS // 16, 32 * -(-width // (32 * 16 * cluster)))
    return {"threads": threads, "teams": 1, "cluster": cluster, "ctas": max(1, ctas // cluster), "held": 4}


def column_registers(plan: RowPlan) -> list[RegArray]:
    """Return f32 registers for sums of a thread's columns, an array for each step. Records ``mov``.

    Raises:
        SpecError: the plan is not persistent, takes rows from a queue (the order of the sums is then that of
            the run), loops over pieces, or has more columns than the registers of a CTA are enough for.
    """
    if plan.queue:
        raise SpecError("sums of columns of rows from a queue: their order would differ from run to run")
    columns = plan.steps * plan.vector
    if not plan.persistent or plan.looped or columns * plan.threads * plan.teams > _MOST_COLUMNS:
        raise SpecError(
            f"{plan.teams} teams of {plan.threads} threads with {columns} columns each: a CTA has registers "
            f"for the sums of {_MOST_COLUMNS} columns",
            hint="pass ctas=, and a cluster= or fewer teams",
        )
    return [reg.array(f32, plan.vector, init=0.0, name="sum") for _ in range(plan.steps)]


def column_sums(matrix: TileParam, out: TileParam, *, warps: int = 8) -> None:
    """Record a kernel's body: ``out[n]`` is the sum of column n of an f32 matrix.

    Call it in a kernel of ``32 * warps`` threads and a CTA for each 32 columns. Warp w adds rows w, w +
    warps, ... in order; the sums of the warps are added in order. Records a loop over the rows, with four
    rows in a pass.

    Args:
        matrix: f32 of two dims, in global memory; the second one is a number.
        out: vector of the columns, whose type the sums are rounded to: f32, f16, bf16.
        warps: number of warps of the CTA.

    Raises:
        SpecError: another type, or a number of warps that no CTA has.
    """
    check_elements(matrix.dtype, (f32,), "the type of the matrix")
    check_elements(out.dtype, OUTPUTS[:3], "the type of the sums")
    if type(warps) is not int or not 1 <= warps <= 32:
        raise SpecError(f"warps is {warps!r}: expected 1 to 32")
    rows, columns = matrix.extent(0), matrix.extent(1)
    if not isinstance(columns, int):
        raise SpecError("the columns are a named dim: expected a number")
    tid = ptx.special.tid.x()
    warp, lane = tid >> 5, tid & 31
    column = reg.scalar(u32)
    ptx.inst.mad.lo.u32(column, ptx.special.ctaid.x(), COLUMNS, lane)
    inside = column < columns
    total = reg.scalar(f32, init=0.0)
    with ptx.for_(warp, rows, warps * _AT_ONCE) as first:
        terms = reg.array(f32, _AT_ONCE, init=0.0)
        for i, term in enumerate(terms):
            row = first + i * warps if i else first
            there = inside if i == 0 else inside & (row < rows)
            ptx.load(f32, matrix.at(row, column), space="global", nc=True, out=term, pred=there)
        for term in terms:
            total += term
    _combine(total, warp, lane, warps)
    first_warp = inside & (warp == 0)
    words = from_f32([total], out.dtype)
    store_words(out.at(column), words, nbytes=out.dtype.nbytes, inside=first_warp)


def _combine(total: Reg, warp: Reg, lane: Reg, warps: int) -> None:
    """Add the sums of the warps, in order, in every thread of warp 0."""
    if warps == 1:
        return
    parts = smem.alloc((warps, COLUMNS), f32, name="column_parts")
    smem.store(parts.at(warp, lane), total)
    ptx.bar.sync(0)
    with ptx.if_(warp == 0):
        for other in range(1, warps):
            total += smem.load(f32, parts.at(other, lane))


def store_column_parts(
    stream: RowStream, sums: Sequence[RegArray], parts: TileParam, *, first: int = 0
) -> None:
    """Store what a team has added up for its columns, in its row of ``parts``.

    Call it behind the loop over the rows. Records two or three instructions and a store for each 16 bytes.

    Args:
        stream: the rows; its plan is persistent and does not loop over the pieces.
        sums: for each step of the plan the f32 sums of the thread's columns.
        parts: f32 matrix with a row for each team of the grid, and at least the columns of a row.
        first: column of ``parts`` where the row begins.

    Raises:
        SpecError: other types or sizes.
    """
    plan, team = stream.plan, stream.team
    columns = parts.extent(1)
    if parts.dtype is not f32 or not isinstance(columns, int) or first + plan.width > columns:
        raise SpecError(f"{parts!r}: expected f32, and {first + plan.width} columns at least, as a number")
    if len(sums) != plan.steps or any(len(some) != plan.vector for some in sums):
        raise SpecError(f"expected {plan.steps} arrays of {plan.vector} sums, one for each step")
    row, place = reg.scalar(u32), reg.scalar(u64)
    ptx.inst.mad.lo.u32(row, stream.first, plan.teams, team.number)
    ptx.inst.mad.wide.u32(place, row, 4 * columns, stream.column_address(parts))
    size = 4 * plan.vector
    for step, some in enumerate(sums):
        at = ptx.addr(place, 4 * first + step * plan.threads * size)
        store_words(at, from_f32(list(some), f32), nbytes=size, inside=stream.guards[step])
