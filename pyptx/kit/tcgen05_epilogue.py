"""Epilogues for Blackwell, which store an accumulator from tensor memory to global memory.

Each call handles the rows of one warp: 32 lanes of tensor memory, one row per thread (`32x32b`).  The
accumulator is f32; the output is f32, or bf16 or f16, rounded to nearest even.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import ScalarType, b32, bf16, f16, f32
from ..dsl import Buffer, Reg, RegArray, TensorMapReg, ptx, reg
from ..layout import swizzle_mask

__all__ = ["direct", "through_shared"]

#: Repetition counts of tcgen05.ld.32x32b, which are the columns that one instruction loads.
_CHUNKS = (1, 2, 4, 8, 16, 32, 64, 128)
_OUTPUTS = (f32, bf16, f16)


def check_output(dtype: ScalarType) -> None:
    """Raise :class:`SpecError` if epilogues cannot write the type. Records nothing."""
    if dtype not in _OUTPUTS:
        raise SpecError(f"an epilogue can write {', '.join(map(str, _OUTPUTS))}, not {dtype!r}")


def pack(packed: Reg, low: Reg, high: Reg, dtype: ScalarType) -> None:
    """Round two f32 values to a 16-bit type and pack them into 32 bits. Records one ``cvt.rn``."""
    convert = ptx.inst.cvt.rn.bf16x2.f32 if dtype is bf16 else ptx.inst.cvt.rn.f16x2.f32
    convert(packed, high, low)  # the first source is the upper half


def _check(columns: int, chunk: int, dtype: ScalarType) -> None:
    check_output(dtype)
    if chunk not in _CHUNKS or chunk * dtype.nbytes % 16:
        least = 16 // dtype.nbytes
        raise SpecError(
            f"chunk is {chunk!r} columns of {dtype}: expected a power of two, {least}..128",
            hint="a thread stores 16 bytes at a time",
        )
    if columns < chunk or columns % chunk:
        raise SpecError(f"columns is {columns}: expected a multiple of the chunk, {chunk}")


def _loaded(tmem: Reg, column: int, chunk: int, dtype: ScalarType) -> RegArray:
    """Load ``chunk`` columns of this thread's row and return them as 32-bit registers of the output type."""
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
    """Split the registers ``words`` into groups of four, which hold 16 bytes each."""
    return [words[i : i + 4] for i in range(0, len(words), 4)]


def direct(tmem: Reg, row: Reg, columns: int, *, dtype: ScalarType = f32, chunk: int = 128) -> None:
    """Store a row of the accumulator directly from registers, 16 bytes per thread and instruction.

    Every thread of the warp writes its own row, so each store of a warp touches 32 rows.  This is simple and
    suits few columns, but needs four to eight times as many transactions as :func:`through_shared`.

    Records for each chunk one ``tcgen05.ld``, one ``tcgen05.wait::ld``, ``chunk / 2`` ``cvt`` for a 16-bit
    output, and ``chunk * dtype.nbytes / 16`` ``st.global.v4.b32``.

    Args:
        tmem: tensor-memory address of the warp's first lane and the first column, the same in all lanes.
        row: global address of this thread's row, u64, a multiple of 16.
        columns: number of columns, a multiple of ``chunk``.
        dtype: output type: f32, bf16 or f16.
        chunk: columns that one ``tcgen05.ld`` loads, and so the registers that it writes in each thread.

    Raises:
        SpecError: the type is another one, or ``columns`` and ``chunk`` do not fit.
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
    """Store 32 rows of the accumulator through shared memory and the TMA engine, independently in each warp.

    Each thread writes its row of a chunk into ``staging`` with a swizzle, so that the lanes of the warp
    access different banks. Then one elected lane stores the box by TMA.  With two stages, the warp loads the
    next chunk while the engine still reads the previous one.

    Records ``elect.sync``. Records for each stage up to eight instructions for this warp's rows and the
    thread's address. Records for each chunk ``tcgen05.ld``, ``tcgen05.wait::ld``, the ``cvt`` of a 16-bit
    output, an ``xor`` for each 16 bytes but the first (none without a swizzle), an ``st.shared.v4.b32`` for
    each, ``fence.proxy.async``, ``bar.warp.sync``, and a guarded block with the copy and its
    ``commit_group``. Before a chunk that reuses a stage, and at the end, records a guarded
    ``wait_group.read`` and ``bar.warp.sync``.

    Args:
        tmem: tensor-memory address of the warp's first lane and the first column, the same in all lanes.
        staging: shared memory of shape ``(rows, chunk)`` with the map's swizzle, with or without stages. This
            warp uses 32 of the rows. A row of a chunk has 16 to 128 bytes.
        target: the output's tensor map, ``D.tma_desc()``, with a box of ``(32, chunk)``.
        coord: output element where the rows begin, innermost first: ``(column, row)``.
        columns: number of columns, a multiple of the chunk.
        first: index in ``staging`` of this warp's first row, a multiple of 32: ``warp * 32``.

    Raises:
        SpecError: the staging buffer has another shape, or ``columns`` does not fit.
        OperandError: the map's box or swizzle differs from the buffer's.

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
        """Make all lanes wait until at most ``pending`` copies still read their stage."""
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
    """Compute the address of the first 16 bytes of this lane's row: 3 instructions, 6 with a swizzle."""
    lane = ptx.special.laneid()
    row_bytes = tile.nbytes // 32
    place = lane * row_bytes + tile.addr
    mask = swizzle_mask(tile.swizzle)
    if not mask:
        return place
    return place ^ (((place >> 7) & mask) << 4)
