"""Gradients of weights: sums over the rows of a stream, in two passes with a fixed order.

Owns the order of these sums.  In the first pass each team of a persistent kernel adds up its own rows, in
registers, and stores one row of partial sums.  In the second a CTA adds 32 columns of these rows, one column
in each lane; its warps share the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import SpecError
from ..core.types import ScalarType, f32, u32, u64
from ..dsl import Reg, RegArray, TileParam, ptx, reg, smem
from .row_plan import RowPlan
from .row_stream import RowStream
from .row_values import OUTPUTS, check_elements, from_f32, load_words, store_words, to_f32

__all__ = ["COLUMNS", "column_registers", "column_ring", "column_sums", "column_tuning", "store_column_parts"]

#: Columns of a CTA.
COLUMNS = 32
#: Rows whose loads a thread has in flight, at most.
_AT_ONCE = 24
#: Columns for whose sums, elements and weights a CTA has registers: 8 registers of 65,536 for each.
_MOST_COLUMNS = 8192
_MOST_CLUSTER = 8
#: Columns that a thread adds up at a time for a cluster.
_POOLED = 4


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


def column_ring(width: int, inputs: Sequence[ScalarType]) -> dict[str, Any]:
    """Return what an H200 was fastest with for first passes over rows that one CTA has registers for.

    Rows of ``inputs`` wait in a ring of 96 KiB, of 192 KiB in f32. 16-bit rows are stored by the copy engine,
    and two CTAs pool their sums, which halves the parts; in f32 more bytes in flight are worth more. 128
    CTAs have equally many rows of a power of two. For ``RowPlan.make(prefer=)``. Records nothing.
    """
    wide = inputs[0].nbytes == 4
    if not _MOST_COLUMNS // 4 < width <= _MOST_COLUMNS:
        return {}
    size, pieces = sum(dtype.nbytes for dtype in inputs), width * inputs[0].nbytes // 16
    stages = max(2, min(6, (192 if wide else 96) * 1024 // (width * size)))
    threads = 32 * -(-pieces // 64)
    ring = {"design": "ring", "threads": threads, "teams": 1, "stages": stages, "ctas": 128}
    return {**ring, "resident": 1} if wide else {**ring, "store": "bulk", "pool": 2}


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


def column_sums(matrix: TileParam, out: TileParam, *, warps: int = 16) -> None:
    """Record a kernel's body: ``out[n]`` is the sum of column n of an f32 matrix.

    Call it in a kernel of ``32 * warps`` threads and a CTA for each 32 columns. Warp w adds rows w, w +
    warps, ... in order; the sums of the warps are added in order. Records ``griddepcontrol.wait``, for a
    kernel that is launched before the first pass has ended (``dependent=True``), and a loop over the rows,
    with up to 24 loads in flight in each thread.

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
    at_once = min(_AT_ONCE, -(-rows // warps)) if isinstance(rows, int) else _AT_ONCE
    ptx.griddepcontrol.wait()
    with ptx.for_(warp, rows, warps * at_once) as first:
        terms = reg.array(f32, at_once, init=0.0)
        for i, term in enumerate(terms):
            row = first + i * warps if i else first
            there = inside if i == 0 else inside & (row < rows)
            ptx.load(f32, matrix.at(row, column), space="global", out=term, pred=there)
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
    """Store what a team, or with the plan's ``pool`` a cluster, has added up, in its row of ``parts``.

    Call it behind the loop over the rows. Records two or three instructions and a store for each 16 bytes.
    The CTAs of a pool first exchange their sums through shared memory, 4 bytes for each column, and each adds
    up and stores a part of the columns, in the order of the ranks; all their threads call it then, which
    records two barriers of the cluster.

    Args:
        stream: the rows; its plan is persistent and does not loop over the pieces.
        sums: for each step of the plan the f32 sums of the thread's columns.
        parts: f32 matrix with ``plan.part_rows`` rows, and at least the columns of a row.
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
    if plan.pool > 1:
        _store_pooled(stream, sums, parts, first)
        return
    row, place = reg.scalar(u32), reg.scalar(u64)
    ptx.inst.mad.lo.u32(row, stream.first, plan.teams, team.number)
    ptx.inst.mad.wide.u32(place, row, 4 * columns, stream.column_address(parts))
    size = 4 * plan.vector
    for step, some in enumerate(sums):
        at = ptx.addr(place, 4 * first + step * plan.threads * size)
        store_words(at, from_f32(list(some), f32), nbytes=size, inside=stream.guards[step])


def _store_pooled(stream: RowStream, sums: Sequence[RegArray], parts: TileParam, first: int) -> None:
    """Store the sums of a cluster: each CTA adds up and stores its share of the columns."""
    plan, lane = stream.plan, stream.team.lane
    size = 4 * plan.vector
    buffer = smem.alloc(4 * plan.width, align=16, name="column_pool")
    own = lane * size + buffer.addr
    for step, some in enumerate(sums):
        at = ptx.addr(own, step * plan.threads * size)
        store_words(at, from_f32(list(some), f32), nbytes=size, space="shared", inside=stream.guards[step])
    ptx.cluster.sync()
    wide = min(_POOLED, plan.vector)
    groups = plan.width // wide
    share = -(-groups // plan.pool)
    rank = ptx.cluster.rank()
    row, begin = reg.scalar(u64), reg.scalar(u32)
    ptx.inst.mad.wide.u32(row, ptx.special.clusterid.x(), 4 * parts.extent(1), parts.ptr)
    ptx.inst.mul.lo.u32(begin, rank, share)
    end = reg.scalar(u32)
    ptx.inst.min.u32(end, begin + share, groups)
    begin += lane
    for turn in range(-(-share // plan.threads)):
        group = begin + turn * plan.threads if turn else begin
        inside = group < end
        here, place = group * (4 * wide) + buffer.addr, reg.scalar(u64)
        total: list[Reg] = []
        for other in range(plan.pool):
            there = ptx.addr(ptx.cluster.map(here, other))
            words = to_f32(load_words(there, wide, f32, space="shared::cluster", inside=inside), f32)
            total = [a + b for a, b in zip(total, words, strict=True)] if total else words
        ptx.inst.mad.wide.u32(place, group, 4 * wide, row)
        at = ptx.addr(place, 4 * first)
        store_words(at, from_f32(total, f32), nbytes=4 * wide, inside=inside)
    # Until then other CTAs read this one's sums.
    ptx.cluster.sync()
