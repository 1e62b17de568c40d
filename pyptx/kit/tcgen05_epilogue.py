"""Epilogues for Blackwell, which store an accumulator from tensor memory to global memory.

Each call handles the rows of one warp: 32 lanes of tensor memory, one row per thread (`32x32b`).  The
accumulator is f32; the output is f32, bf16 or f16 (rounded to nearest even), or e4m3 or e5m2 (rounded, and
clamped to the largest number).  An accumulator of s32 is stored as it is.

With :func:`direct` and :func:`through_shared` each warp stores its rows by itself.  With
:class:`WarpgroupStore` the four warps fill a box together, and one thread stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from ..core.errors import SpecError
from ..core.types import ScalarType, b16, b32, bf16, f32, u32
from ..dsl import Buffer, Reg, RegArray, TensorMapReg, ptx, reg
from ..dsl.operands import Addr
from ..layout import LANES, SWIZZLE_PERIOD, swizzle_mask
from .outputs import ALL, check_output, rounded, settle

__all__ = ["WarpgroupStore", "direct", "settle", "through_shared"]

#: Records instructions on a chunk of the accumulator; gets its registers and the chunk's first column.
Apply = Callable[[RegArray, int], None]
#: Records what follows a load: gets the number of columns that the warp has loaded so far.
Loaded = Callable[[int], None]

#: Repetition counts of tcgen05.ld.32x32b, which are the columns that one instruction loads.
_CHUNKS = (1, 2, 4, 8, 16, 32, 64, 128)
#: The most bytes that one store instruction moves.
_VECTOR = 16


def _check_chunk(chunk: int, dtype: ScalarType) -> None:
    check_output(dtype, ALL)
    if chunk not in _CHUNKS or chunk * dtype.nbytes % _VECTOR:
        least = _VECTOR // dtype.nbytes
        raise SpecError(
            f"chunk is {chunk!r} columns of {dtype}: expected a power of two, {least}..128",
            hint="a thread stores 16 bytes at a time",
        )


def _chunks(columns: int, largest: int) -> Iterator[tuple[int, int]]:
    """Split the columns into chunks that tcgen05.ld has: first column and number of columns of each."""
    column = 0
    while column < columns:
        count = min(largest, 1 << ((columns - column).bit_length() - 1))
        yield column, count
        column += count


def _loaded(tmem: Reg, column: int, count: int, read: Loaded | None, reached: Reg | None = None) -> RegArray:
    """Load ``count`` columns of this thread's row, under a condition if one is given.

    ``read`` records what follows the load; it does not depend on the condition.
    """
    words = reg.array(b32, count)
    with _where(reached):
        ptx.tcgen05.ld(words, ptx.addr(tmem, column), shape="32x32b", count=count)
        ptx.tcgen05.wait_ld()
    if read is not None:
        read(column + count)
    return words


def _where(condition: Reg | None) -> AbstractContextManager[object]:
    """Return a block under a condition, or none."""
    return nullcontext() if condition is None else ptx.if_(condition)


def direct(
    tmem: Reg,
    row: Reg,
    columns: int,
    *,
    dtype: ScalarType = f32,
    chunk: int = 128,
    align: int = _VECTOR,
    inside: Reg | None = None,
    limit: Reg | None = None,
    least: int | None = None,
    apply: Apply | None = None,
    read: Loaded | None = None,
) -> None:
    """Store a row of the accumulator directly from registers, ``align`` bytes per thread and instruction.

    Every thread of the warp writes its own row, so each store of a warp touches 32 rows.  This is simple and
    suits few columns, but needs four to eight times as many transactions as :func:`through_shared`.  Unlike
    TMA it takes rows of any length and alignment.

    Records for each chunk one ``tcgen05.ld``, one ``tcgen05.wait::ld``, the ``cvt`` of the output type (see
    :func:`.outputs.rounded`), and ``chunk * dtype.nbytes / align`` ``st.global``.  With ``limit``, records a
    ``setp`` before each of them, which with ``inside`` includes it; with ``least``, one more for each chunk
    behind it, and blocks around its load and what follows ``read``.

    Args:
        tmem: tensor-memory address of the warp's first lane and the first column, the same in all lanes.
        row: global address of this thread's row, u64, a multiple of ``align``.
        columns: number of columns, a multiple of those that ``align`` bytes hold.
        dtype: output type: f32, bf16, f16, e4m3, e5m2, or s32 for an accumulator of kind i8.
        chunk: most columns that one ``tcgen05.ld`` loads, and so the registers that it writes in each thread.
        align: bytes that one store moves: 16, 8, 4, or 2 for 16-bit types: what divides the address of every
            row.
        inside: predicate that is true if this thread's row is to be stored.
        limit: number of columns to store, counted from the first one, in an s32 register; 0 or less stores
            none. It must be a multiple of those that ``align`` bytes hold.
        least: a chunk that begins there or behind it is loaded only if ``limit`` reaches it: a condition for
            the whole warp. By default all columns are loaded.
        apply: records on each chunk's f32 registers before they are rounded: gets the registers, which it
            changes in place, and the chunk's first column.
        read: records what follows each load; gets the number of columns that the warp has loaded so far.

    Raises:
        SpecError: the type is another one, or ``columns``, ``chunk`` and ``align`` do not fit.
    """
    check_output(dtype, ALL)
    if chunk not in _CHUNKS:
        raise SpecError(f"chunk is {chunk!r}: expected a power of two, 1..128")
    if align not in (2, 4, 8, _VECTOR) or align < dtype.nbytes or (align == 2 and dtype.nbytes != 2):
        raise SpecError(
            f"align is {align!r} for {dtype}: expected 4, 8 or 16 bytes, or 2 for a type of 16 bits"
        )
    each = align // dtype.nbytes
    if columns < 1 or columns % each:
        raise SpecError(f"columns is {columns}: expected a multiple of {each}, {align} bytes of {dtype}")
    if chunk < each:
        raise SpecError(f"chunk is {chunk}: one store of {align} bytes takes {each} columns")
    for column, count in _chunks(columns, chunk):
        reached = None if limit is None or least is None or column < least else limit > column
        words = _loaded(tmem, column, count, read, reached)
        with _where(reached):
            if apply is not None:
                apply(words.view(f32), column)
            parts = _singles(words, dtype) if align == 2 else rounded(words, dtype)
            step = 1 if align == 2 else align // 4
            for i in range(0, len(parts), step):
                first = column + i // step * each
                pred = inside
                if limit is not None:
                    pred = ptx.setp("gt", limit, first, combine=None if inside is None else ("and", inside))
                _store(ptx.addr(row, first * dtype.nbytes), parts[i : i + step], align, pred)


def _singles(words: RegArray, dtype: ScalarType) -> RegArray:
    """Round each value to a 16-bit register of its own. Records one ``cvt.rn`` for each."""
    convert = ptx.inst.cvt.rn.bf16.f32 if dtype is bf16 else ptx.inst.cvt.rn.f16.f32
    singles = reg.array(b16, len(words))
    for single, value in zip(singles, words.view(f32), strict=True):
        convert(single, value)
    return singles


def _store(place: Addr, words: RegArray, nbytes: int, pred: Reg | None) -> None:
    if nbytes == _VECTOR:
        ptx.inst.st.global_.v4.b32(place, words, pred=pred)
    elif nbytes == 8:
        ptx.inst.st.global_.v2.b32(place, words, pred=pred)
    elif nbytes == 4:
        ptx.inst.st.global_.b32(place, words[0], pred=pred)
    else:
        ptx.inst.st.global_.b16(place, words[0], pred=pred)


def through_shared(
    tmem: Reg,
    staging: Buffer,
    target: TensorMapReg,
    coord: tuple[Reg | int, ...],
    columns: int,
    *,
    first: Reg | int = 0,
    leader: Reg | None = None,
    limit: Reg | None = None,
    least: int = 0,
    apply: Apply | None = None,
    read: Loaded | None = None,
    drain: bool = True,
) -> None:
    """Store 32 rows of the accumulator through shared memory and the TMA engine, independently in each warp.

    Each thread writes its row of a chunk into ``staging`` with a swizzle, so that the lanes of the warp
    access different banks. Then one elected lane stores the box by TMA.  With two stages, the warp loads the
    next chunk while the engine still reads the previous one.

    Records ``elect.sync``, unless ``leader`` is given. Records for each stage up to eight instructions for
    this warp's rows and the thread's address. Records for each chunk ``tcgen05.ld``, ``tcgen05.wait::ld``,
    the ``cvt`` of the output type (see :func:`.outputs.rounded`), an ``xor`` for each 16 bytes but the first
    (none without a swizzle), an ``st.shared.v4.b32`` for each, ``fence.proxy.async``, ``bar.warp.sync``, and
    a guarded block with the copy and its ``commit_group``. Before a chunk that reuses a stage, records
    :func:`settle`; with ``drain``, also at the end, and without it before every chunk, since the previous
    call may have left boxes.  With ``limit``, a chunk has a ``setp``, a block around its load, and one around
    what follows ``read`` but the ``commit_group``.

    Watch out: without ``drain`` the engine still reads the last boxes after the call. Call
    ``settle(leader)`` before the CTA ends.

    Args:
        tmem: tensor-memory address of the warp's first lane and the first column, the same in all lanes.
        staging: shared memory of shape ``(rows, chunk)`` with the map's swizzle, with or without stages. This
            warp uses 32 of the rows. A row of a chunk has 16 to 128 bytes.
        target: the output's tensor map, ``D.tma_desc()``, with a box of ``(32, chunk)``, and one of 1 for
            each further dimension in front.
        coord: output element where the rows begin, innermost first: ``(column, row)``, then the coordinates
            of the further dimensions.
        columns: number of columns, a multiple of the chunk.
        first: index in ``staging`` of this warp's first row, a multiple of 32: ``warp * 32``.
        leader: predicate that is true in one lane of the warp, the same at each call.
        limit: number of columns to store, counted from the first one, in an s32 register that is the same in
            all lanes. A chunk that begins there or behind it is neither loaded nor stored; the others are
            stored whole. ``read`` counts them all the same.
        least: columns that ``limit`` never leaves out: chunks that begin in them need no condition.
        apply: records on each chunk's f32 registers before they are rounded: gets the registers, which it
            changes in place, and the chunk's first column.
        read: records what follows each load; gets the number of columns that the warp has loaded so far. For
            ``AccumulatorReader.release``.
        drain: wait at the end until the engine has read all boxes. A persistent kernel leaves the wait to
            the next tile.

    Raises:
        SpecError: the staging buffer has another shape, ``columns`` does not fit, or without ``drain`` the
            stages do not divide the number of chunks.
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
    _check_chunk(chunk, dtype)
    if columns < chunk or columns % chunk:
        raise SpecError(f"columns is {columns}: expected a multiple of the chunk, {chunk}")
    depth = staging.stages or 1
    if not drain and columns // chunk % depth:
        raise SpecError(
            f"{columns // chunk} chunks are not a multiple of {depth} stages: without drain the next call "
            "would write a stage that the engine still reads",
            hint=f"{columns} columns of {dtype} are {columns // chunk} chunks; use a number of stages that "
            "divides them",
        )
    if leader is None:
        leader = ptx.warp.elect()
    used = range(min(depth, columns // chunk))
    stages = [(staging[i] if staging.stages else staging).rows(first, 32) for i in used]
    places = [_thread_row(stage) for stage in stages]
    store = _STORES.get(len(coord))
    if store is None:
        raise SpecError(f"coord is {coord!r}: expected 2 to 5 coordinates, innermost first")
    first_column, *others = coord
    for number, column in enumerate(range(0, columns, chunk)):
        inside = None if limit is None or column < least else limit > column
        words = _loaded(tmem, column, chunk, read, inside)
        with _where(inside):
            if apply is not None:
                apply(words.view(f32), column)
            results = rounded(words, dtype)
            if number >= depth or not drain:
                settle(leader, depth - 1)
            place = places[number % depth]
            _fill_row(place, results, staging.swizzle)
            ptx.fence.proxy_async("shared::cta")
            ptx.warp.sync()
            with ptx.if_(leader):
                store(dst=target, src=stages[number % depth], coord=(first_column + column, *others))
                if inside is None:
                    ptx.cp.async_.bulk.commit_group()
        if inside is not None:
            # A group without a copy, too: settle counts one for each chunk.
            ptx.cp.async_.bulk.commit_group(pred=leader)
    if drain:
        settle(leader)


class WarpgroupStore:
    """Stores of a warpgroup: its four warps fill a stage of the staging buffer, and one thread stores it.

    The 128 lanes of tensor memory are the rows of a stage.  A tile is stored by chunks of as many columns as
    a stage has; the stages are a ring over all tiles, so the engine reads one while the warps fill others.
    Two barriers of the warpgroup stand between the chunks: after the first a stage is full, after the second
    the next one is free.  ::

        store = kit.tcgen05_epilogue.WarpgroupStore(staging, D.tma_desc(), warp)
        with tiles.loop() as tile:
            acc = reader.acquire()
            store(acc.tmem, [(n_base, m_base)], 256, read=...)
            reader.advance()
        store.settle()

    There are fewer and larger copies than those of :func:`through_shared`, and each warp waits for the
    slowest.

    The constructor records the stage's number, ``elect.sync``, ``setp``, and the thread's place in stage 0:
    up to 10 instructions.  The whole warpgroup must record all calls.

    Args:
        staging: stages of shared memory of shape ``(128, chunk)`` with the map's swizzle. A row of a chunk
            has 16 to 128 bytes.
        target: the output's tensor map, ``D.tma_desc()``. The boxes of a chunk have ``128 / boxes`` rows and
            ``chunk`` columns.
        warp: number of this warp; the warpgroup is warps 0 to 3, of which warp 0 issues the copies.
        barrier: number of the barrier that the warpgroup uses, 1 to 15.

    Raises:
        SpecError: the staging buffer has another shape or no stages.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-tensor`.
    """

    def __init__(self, staging: Buffer, target: TensorMapReg, warp: Reg, *, barrier: int = 1) -> None:
        if len(staging.shape) != 2 or staging.shape[0] != LANES or staging.stages is None:
            raise SpecError(
                f"the staging buffer is {staging!r}: expected stages of ({LANES}, chunk)",
                hint=f"smem.alloc(({LANES}, chunk), dtype, swizzle=..., stages=2)",
            )
        _check_chunk(staging.shape[1], staging.dtype)
        if staging.swizzle != "none" and staging.stage_bytes % SWIZZLE_PERIOD[staging.swizzle]:
            raise SpecError(
                f"a stage has {staging.stage_bytes} bytes: expected whole patterns of its swizzle"
            )
        self._staging = staging
        self._target = target
        self._barrier = barrier
        # Two predicates: ptxas knows that elect.sync's is true in one lane, and puts no loop around a copy.
        self._issues = warp == 0
        self._leader = ptx.warp.elect()
        self._row = _thread_row(staging[0].rows(warp * 32, 32))
        self._stage = reg.scalar(u32, init=0)

    def __call__(
        self,
        tmem: Reg,
        boxes: Sequence[tuple[Reg | int, Reg | int]],
        columns: int,
        *,
        read: Loaded | None = None,
    ) -> None:
        """Store ``columns`` columns of all lanes.

        Records for each chunk ``tcgen05.ld``, ``tcgen05.wait::ld``, the ``cvt`` of the output type (see
        :func:`.outputs.rounded`), a ``mad.lo.u32``, an ``xor`` for each 16 bytes but the first (none without
        a swizzle), an ``st.shared.v4.b32`` for each, ``fence.proxy.async``, two ``bar.sync``, and the step to
        the next stage: ``add``, ``setp``, ``mov``.  Between the barriers are two nested blocks with a
        ``mad.lo.u32`` and the copy of each box (and an ``add`` for its column), ``commit_group`` and
        ``wait_group.read``.

        Args:
            tmem: tensor-memory address of the warp's first lane and the first column.
            boxes: output elements where the boxes begin, ``(column, row)``. They share the lanes equally:
                with two, the second has lanes 64 to 127.
            columns: number of columns, a multiple of the chunk.
            read: records what follows each load; gets the number of columns that the warp has loaded so far.

        Raises:
            SpecError: ``columns`` does not fit, or the boxes do not share the lanes equally.
        """
        staging = self._staging
        chunk = staging.shape[1]
        if columns < chunk or columns % chunk:
            raise SpecError(f"columns is {columns}: expected a multiple of the chunk, {chunk}")
        if not boxes or LANES % len(boxes):
            raise SpecError(f"{len(boxes)} boxes: expected a number that divides the {LANES} lanes")
        rows = LANES // len(boxes)
        stages = staging.stages
        assert stages is not None
        for first in range(0, columns, chunk):
            words = rounded(_loaded(tmem, first, chunk, read), staging.dtype)
            place = reg.scalar(u32)
            ptx.inst.mad.lo.u32(place, self._stage, staging.stage_bytes, self._row)
            _fill_row(place, words, staging.swizzle)
            ptx.fence.proxy_async("shared::cta")
            ptx.bar.sync(self._barrier, LANES)
            with ptx.if_(self._issues), ptx.if_(self._leader):
                stage = staging[self._stage]
                for number, (column, row) in enumerate(boxes):
                    ptx.cp.async_.bulk.tensor_2d(
                        dst=self._target,
                        src=stage.rows(number * rows, rows),
                        coord=(column + first if first else column, row),
                    )
                ptx.cp.async_.bulk.commit_group()
                ptx.cp.async_.bulk.wait_group(stages - 1, read=True)
            ptx.bar.sync(self._barrier, LANES)
            if stages > 1:
                self._stage += 1
                ptx.inst.mov.u32(self._stage, 0, pred=self._stage == stages)

    def settle(self) -> None:
        """Let the thread that issued the copies wait until the engine has read all boxes.

        Records a guarded block with ``wait_group.read``.
        """
        with ptx.if_(self._issues):
            ptx.cp.async_.bulk.wait_group(0, read=True, pred=self._leader)


_STORES = {
    2: ptx.cp.async_.bulk.tensor_2d,
    3: ptx.cp.async_.bulk.tensor_3d,
    4: ptx.cp.async_.bulk.tensor_4d,
    5: ptx.cp.async_.bulk.tensor_5d,
}


def _fill_row(place: Reg, words: RegArray, swizzle: str) -> None:
    """Write a row of a chunk, 16 bytes at a time, from where the swizzle puts the first of them."""
    for i in range(0, len(words), 4):
        target_byte = ptx.addr(place, 4 * i)
        if i and swizzle != "none":
            target_byte = ptx.addr(place ^ (4 * i))
        ptx.inst.st.shared.v4.b32(target_byte, words[i : i + 4])


def _thread_row(tile: Buffer) -> Reg:
    """Compute the address of the first 16 bytes of this lane's row: 3 instructions, 6 with a swizzle."""
    lane = ptx.special.laneid()
    row_bytes = tile.nbytes // 32
    place = lane * row_bytes + tile.addr
    mask = swizzle_mask(tile.swizzle)
    if not mask:
        return place
    return place ^ (((place >> 7) & mask) << 4)
