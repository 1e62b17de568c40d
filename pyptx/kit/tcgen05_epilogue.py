"""Epilogues: an accumulator's way from tensor memory to global memory.

Both take the rows of one warp: 32 lanes of tensor memory, each thread its own row (`32x32b`).  The
accumulator is f32; the output is f32, or bf16 or f16, rounded to nearest even.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import ScalarType, b32, bf16, f16, f32
from ..dsl import Buffer, Reg, RegArray, TensorMapReg, ptx, reg
from ..layout import swizzle_mask

__all__ = ["direct", "through_shared"]

#: Repetitions of tcgen05.ld.32x32b: columns that one instruction loads.
_CHUNKS = (1, 2, 4, 8, 16, 32, 64, 128)
_OUTPUTS = (f32, bf16, f16)


def check_output(dtype: ScalarType) -> None:
    """Refuse a type that no epilogue writes. Records nothing. Raises :class:`SpecError`."""
    if dtype not in _OUTPUTS:
        raise SpecError(f"an epilogue writes {', '.join(map(str, _OUTPUTS))}, not {dtype!r}")


def pack(packed: Reg, low: Reg, high: Reg, dtype: ScalarType) -> None:
    """Round two f32 to a 16-bit type, as one 32-bit word. Records one ``cvt.rn``."""
    convert = ptx.inst.cvt.rn.bf16x2.f32 if dtype is bf16 else ptx.inst.cvt.rn.f16x2.f32
    convert(packed, high, low)  # the first source is the upper half


def _check(columns: int, chunk: int, dtype: ScalarType) -> None:
    check_output(dtype)
    if chunk not in _CHUNKS or chunk * dtype.nbytes % 16:
        least = 16 // dtype.nbytes
        raise SpecError(
            f"chunk is {chunk!r} columns of {dtype}: expected a power of two, {least}..128",
            hint="a thread stores whole pieces of 16 bytes",
        )
    if columns < chunk or columns % chunk:
        raise SpecError(f"{columns} columns are no multiple of the chunk, {chunk}")


def _loaded(tmem: Reg, column: int, chunk: int, dtype: ScalarType) -> RegArray:
    """``chunk`` columns of this thread's row as 32-bit words of the output, loaded and converted."""
    words = reg.array(b32, chunk)
    ptx.tcgen05.ld(words, ptx.addr(tmem, column), shape="32x32b", count=chunk)
    ptx.tcgen05.wait_ld()
    if dtype is f32:
        return words
    packed = reg.array(b32, chunk // 2)
    for i in range(chunk // 2):
        pack(packed[i], words[2 * i].view(f32), words[2 * i + 1].view(f32), dtype)
    return packed


def _pieces(words: RegArray) -> list[RegArray]:
    """16 bytes each."""
    return [words[i : i + 4] for i in range(0, len(words), 4)]


def direct(tmem: Reg, row: Reg, columns: int, *, dtype: ScalarType = f32, chunk: int = 128) -> None:
    """Store a row of the accumulator straight from registers: 16 bytes a thread and instruction.

    Every thread of the warp writes its own row, so a warp's store touches 32 rows: simple, right for few
    columns, and four to eight times the transactions of :func:`through_shared`.

    Records for each chunk one ``tcgen05.ld``, one ``tcgen05.wait::ld``, ``chunk / 2`` ``cvt`` for a 16-bit
    output, and ``chunk * dtype.nbytes / 16`` ``st.global.v4.b32``.

    Args:
        tmem: tensor-memory address of the warp's first lane and the first column, equal in the warp.
        row: global address of this thread's row, u64, a multiple of 16.
        columns: how many, a multiple of ``chunk``.
        dtype: f32, bf16 or f16.
        chunk: columns that one ``tcgen05.ld`` loads: as many registers of each thread.

    Raises:
        SpecError: another type, or numbers that do not fit.
    """
    _check(columns, chunk, dtype)
    for column in range(0, columns, chunk):
        words = _loaded(tmem, column, chunk, dtype)
        for i, piece in enumerate(_pieces(words)):
            ptx.inst.st.global_.v4.b32(ptx.addr(row, column * dtype.nbytes + 16 * i), piece)


def through_shared(
    tmem: Reg,
    staging: Buffer,
    target: TensorMapReg,
    coord: tuple[Reg | int, Reg | int],
    columns: int,
    *,
    first: Reg | int = 0,
) -> None:
    """Store 32 rows of the accumulator through shared memory and the TMA engine, one warp on its own.

    Each thread writes its row of a chunk into ``staging``, swizzled so that the warp's lanes hit different
    banks; one elected lane then stores the box.  With two stages, the next chunk is loaded while the engine
    still reads the last one.

    Records ``elect.sync``; for each stage up to eight instructions for this warp's rows and the thread's
    address; for each chunk ``tcgen05.ld``, ``tcgen05.wait::ld``, the ``cvt`` of a 16-bit output, an ``xor``
    for each 16 bytes but the first (none without a swizzle), an ``st.shared.v4.b32`` for each,
    ``fence.proxy.async``, ``bar.warp.sync``, and a guarded block with the copy and its ``commit_group``;
    before a chunk that reuses a stage, and at the end, a guarded ``wait_group.read`` and ``bar.warp.sync``.

    Args:
        tmem: tensor-memory address of the warp's first lane and the first column, equal in the warp.
        staging: shared memory of shape ``(rows, chunk)`` with the swizzle of the map, of which this warp
            takes 32 rows for itself; the chunk is a row of 16 to 128 bytes; stages optional.
        target: the output's tensor map, ``D.tma_desc()``, with a box of ``(32, chunk)``.
        coord: element where the rows begin, innermost first: ``(column, row)``.
        columns: how many, a multiple of the chunk.
        first: the first of this warp's rows of ``staging``, a multiple of 32: ``warp * 32``.

    Raises:
        SpecError: a staging buffer of another shape, or numbers that do not fit.
        OperandError: a map whose box or swizzle is not the buffer's.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-tensor`.
    """
    dtype = staging.dtype
    chunk = staging.shape[-1]
    if len(staging.shape) != 2 or staging.shape[0] % 32:
        raise SpecError(
            f"the staging buffer {staging.name!r} has shape {staging.shape}: expected (rows, chunk), "
            "32 rows for each warp",
            hint="smem.alloc((32 * warps, chunk), dtype, swizzle=..., stages=2)",
        )
    _check(columns, chunk, dtype)
    depth = staging.stages or 1
    leader = ptx.warp.elect()
    used = range(min(depth, columns // chunk))
    stages = [(staging[i] if staging.stages else staging).rows(first, 32) for i in used]
    places = [_thread_row(stage) for stage in stages]
    first_column, first_row = coord

    def settle(pending: int) -> None:
        """At most ``pending`` copies still read their stage, and every lane knows."""
        with ptx.if_(leader):
            ptx.cp.async_.bulk.wait_group(pending, read=True)
        ptx.warp.sync()

    for number, column in enumerate(range(0, columns, chunk)):
        if number >= depth:
            settle(depth - 1)
        place = places[number % depth]
        words = _loaded(tmem, column, chunk, dtype)
        for i, piece in enumerate(_pieces(words)):
            if staging.swizzle == "none":
                ptx.inst.st.shared.v4.b32(ptx.addr(place, 16 * i), piece)
            else:
                ptx.inst.st.shared.v4.b32(ptx.addr(place ^ (16 * i) if i else place), piece)
        ptx.fence.proxy_async("shared::cta")
        ptx.warp.sync()
        with ptx.if_(leader):
            ptx.cp.async_.bulk.tensor_2d(
                dst=target, src=stages[number % depth], coord=(first_column + column, first_row)
            )
            ptx.cp.async_.bulk.commit_group()
    settle(0)


def _thread_row(tile: Buffer) -> Reg:
    """Address of the first 16 bytes of this lane's row, the swizzle applied: 3 instructions, 6 with one."""
    lane = ptx.special.laneid()
    row_bytes = tile.nbytes // 32
    place = lane * row_bytes + tile.addr
    mask = swizzle_mask(tile.swizzle)
    if not mask:
        return place
    return place ^ (((place >> 7) & mask) << 4)
