"""A few rows times a weight matrix, through a ring of bulk copies: ``D[M, N] = X[M, K] @ W[N, K].T``.

M is 1 to 16.  ``gemv.py`` has as many bytes in flight as ptxas gives it registers.  Here they are in shared
memory: one lane copies W into a ring of some 200 KiB on each SM (``cp.async.bulk``, an mbarrier for each
stage), whatever registers the warps have that multiply.  CTAs are persistent; the next unit's copies run
while a unit ends::

    unit      8 rows of W, all of K, in chunks        W  +-- chunk 0 --+-- chunk 1 --+--    --+ 8 rows
    stage     a chunk of 8 rows, 8 copies                +-------------+-------------+-- .. --+

    last warp, one lane    for each unit and chunk: wait empty -> expect bytes on full -> 8 copies
    the other warps        load X -> wait full -> ld.shared W -> free the stage -> mma
                           at the end of a unit: sums to shared memory -> barrier -> add, store

The warps divide a chunk; each has ``unroll`` pieces of 64 bytes of each row.  Lanes and ``mma`` are those of
``gemv.py``: lane 4g + t takes 16 bytes of row g, two steps of K, the same bytes in W and X.

* A row of a stage is 64 bytes longer than a chunk, so that the 8 lanes that read at a time, of two rows, meet
  no bank twice.
* X comes from L1, and is on its way before the wait for the stage, so that the wait hides it.  At the
  beginning all CTAs together prefetch it into L2: else the first unit waits for memory once a chunk.
* A warp frees a stage when its words are in registers, before it multiplies: behind ``fence.proxy.async``,
  since the copy engine overwrites what the warp has read.
* Rows behind the last one of W copy the last row; their sums are not stored.  The last chunk may be shorter:
  pieces behind it are zeros, in W and in X.
* Two units write their sums to different places, so that one barrier a unit is enough: who writes a place
  again has passed the barrier of the unit between, as have all that read it.

Order of sums: a warp's pieces in order of K, the first steps of all in one f32 accumulator, the second ones
in another; then both are added, and the warps' sums in order of the warps.  Equal inputs give equal bits.

``python examples/hopper/gemv_ring.py`` assembles and simulates it anywhere, and measures it on a Hopper GPU.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from pyptx import SpecError, Tile, b32, bf16, e4m3, e5m2, f16, f32, kernel, kit, ptx, reg, s32, smem, u32, u64

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from gemm_options import SHARED, SMS
from gemv import MOST, PIECE, ROWS, VECTOR, build_gemv, make_inputs, program, simulated
from gemv_rows import build_gemv_rows

__all__ = ["build_few_rows", "build_gemv_ring", "make_inputs", "simulated"]

LINE = 128  # bytes that a prefetch brings
PAD = 64  # bytes between the rows of a stage
STEPS = (0, 2)  # words of a lane's 16 bytes with which the two steps of K begin


#: Bytes of a row from which on the ring was faster on an H200, and its sizes there.
LONG, LONG_SIZES = 16 * 1024, {"warps": 8, "unroll": 8}
#: Most bytes of a row that a CTA of ``gemv_rows.py`` was measured to be fastest for.
LONGEST = 36 * 1024


def build_few_rows(M, N, K, *, dtype=bf16, out_type=None, **options):
    """Build the fastest of this kernel, ``gemv.py``'s and ``gemv_rows.py``'s, by M and the length of a row.

    Arguments of all of them; that of ``gemv_rows.py`` is for one row in 16-bit types, without options.
    """
    kinds = {"dtype": dtype, "out_type": out_type}
    if M == 1 and dtype in (bf16, f16) and K * dtype.nbytes <= LONGEST and not options:
        return build_gemv_rows(N, K, **kinds)
    if K * dtype.nbytes < LONG:
        return build_gemv(M, N, K, **kinds, **options)
    return build_gemv_ring(M, N, K, **kinds, **LONG_SIZES, **options)


def build_gemv_ring(
    M,
    N,
    K,
    *,
    dtype=bf16,
    out_type=None,
    warps=8,
    unroll=4,
    stages=None,
    resident=1,
    evict_first=True,
    sms=SMS,
):
    """Build the kernel; call it with X[M, K] and W[N, K].

    Args:
        M: 1 to 16.
        N: any number.
        K: elements of a row, a multiple of 16 bytes.
        dtype: type of X and W: bf16, f16, e4m3 or e5m2.
        out_type: type of D: f32, bf16 or f16; default: that of X, bf16 for 8-bit types.
        warps: warps of a CTA that multiply; they divide a chunk.
        unroll: pieces of 64 bytes of a row that a warp has of a chunk, so that a copy has ``64 * warps *
            unroll`` bytes.
        stages: depth of the ring, at least 2; default: what fits, at most 64.
        resident: CTAs that share an SM.
        evict_first: W is read once, so let it leave L2 first.
        sms: number of SMs to use.

    Raises:
        SpecError: an option out of range, or a ring that does not fit.
    """
    out_type = out_type or (dtype if dtype.nbytes == 2 else bf16)
    for name, value, choices in (
        ("dtype", dtype, (bf16, f16, e4m3, e5m2)),
        ("out_type", out_type, (f32, bf16, f16)),
        ("M", M, range(1, MOST + 1)),
        ("warps", warps, (1, 2, 4, 8, 16)),
        ("unroll", unroll, (1, 2, 4, 8)),
        ("resident", resident, (1, 2, 3, 4)),
    ):
        if value not in choices:
            raise SpecError(f"{name} = {value!r}: expected one of {', '.join(map(str, choices))}")
    each = VECTOR // dtype.nbytes
    if type(N) is not int or N < 1 or type(K) is not int or K < 1 or K % each:
        raise SpecError(f"N = {N}, K = {K}: expected positive numbers, and K a multiple of {each}, 16 bytes")
    if type(sms) is not int or sms < 1:
        raise SpecError(f"sms = {sms!r}: expected a positive whole number")
    row_bytes = K * dtype.nbytes
    chunk = warps * unroll * PIECE
    whole = row_bytes // chunk * chunk  # bytes of K in whole chunks
    rest = row_bytes - whole
    halves = -(-M // 8)  # rows of X that a lane loads
    pitch = chunk + PAD if chunk % (2 * PAD) == 0 else chunk
    stage_bytes = ROWS * pitch
    sum_words = warps * 8 * halves * ROWS
    room = (SHARED + 1024) // resident - 1024 - 2048 - 2 * 4 * sum_words  # 2 KiB: barriers, alignment
    stages = min(64, room // stage_bytes) if stages is None else stages
    if type(stages) is not int or stages < 2 or stages * stage_bytes > room:
        raise SpecError(
            f"{stages} stages of {stage_bytes} bytes: expected at least 2, and at most {room} bytes",
            hint="fewer warps or pieces, or fewer CTAs on an SM",
        )
    # Registers come for four warps at a time.
    registers = min(255, 65536 // (resident * 128 * -(-(warps + 1) // 4)) // 8 * 8)
    needed = 4 * unroll * (1 + halves) + 16
    if resident * (32 * warps + 32) > 2048 or needed > registers:
        raise SpecError(
            f"{resident} CTAs of {warps + 1} warps on an SM: expected at most 64 warps; a thread needs "
            f"{needed} registers and has {registers}",
            hint="fewer warps or pieces, or fewer CTAs on an SM",
        )
    units = -(-N // ROWS)
    ctas = min(units, sms * resident)
    shape = "m16n8k16" if dtype.nbytes == 2 else "m16n8k32"
    threads = 32 * warps

    @kernel(
        in_specs=(Tile(M, K, dtype), Tile(N, K, dtype)),
        out_specs=(Tile(M, N, out_type),),
        grid=(ctas,),
        block=(threads + 32,),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=resident,
    )
    def gemv_ring(X, W, D):
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        cta = ptx.special.ctaid.x()
        stage = smem.alloc(stage_bytes, align=128, stages=stages, name="weights")
        sums = smem.alloc(2 * sum_words, f32, name="sums")
        ring = kit.Ring(stages, consumers=warps)
        with kit.single_thread(warp, 0):
            ring.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        # --- producer: one lane of the last warp -----------------------------------------------
        with kit.single_thread(warp, warps):
            producer = ring.producer()
            hints = {"cache_hint": ptx.cache.policy("evict_first")} if evict_first else {}

            def copy(rows, k, nbytes):
                """Copy bytes ``k`` and on of 8 rows into the next stage."""
                slot = producer.acquire()
                ptx.mbarrier.arrive_expect_tx(slot.full, ROWS * nbytes)
                place = reg.scalar(u32)
                ptx.inst.mad.lo.u32(place, slot.index, stage_bytes, stage.addr)
                for i, row in enumerate(rows):
                    source = row + k if isinstance(k, int) else reg.scalar(u64)
                    if not isinstance(k, int):
                        ptx.inst.mad.wide.u32(source, k, 1, row)
                    ptx.cp.async_.bulk.load(ptx.addr(place, i * pitch), source, nbytes, slot.full, **hints)
                producer.advance()

            with ptx.for_(cta, units, ctas) as unit:
                rows = [W.at(ptx.min(unit * ROWS + i, N - 1), 0).base for i in range(ROWS)]
                if whole:
                    with ptx.for_(0, whole, chunk) as k:
                        copy(rows, k, chunk)
                if rest:
                    copy(rows, whole, rest)

        # --- consumers -------------------------------------------------------------------------
        with kit.thread_group(warp, 0, threads):
            thread = ptx.special.tid.x()
            lane = ptx.special.laneid()
            group, within = lane >> 2, lane & 3
            leader = ptx.warp.elect()
            consumer = ring.consumer()
            mine = warp * (unroll * PIECE) + within * VECTOR  # this lane's first byte in a chunk
            of_stage = group * pitch + mine + stage.addr
            offset = reg.scalar(u64)
            ptx.inst.mul.wide.u32(offset, mine, 1)
            at_x = [X.at(ptx.min(group + 8 * half, M - 1), 0).base + offset for half in range(halves)]
            has_row = [group + 8 * half < M for half in range(halves)]
            with ptx.for_(cta * threads + thread, -(-M * row_bytes // LINE), ctas * threads) as line:
                at = reg.scalar(u64)
                ptx.inst.mad.wide.u32(at, line, LINE, X.ptr)
                ptx.cache.prefetch(at)
            zero = reg.scalar(b32, init=0)
            accs = [ptx.mma.fragment("d", shape, f32) for _ in STEPS]
            # Registers of a stage: for each piece a vector of W and one of each row of X.
            pieces = [[reg.array(b32, 4) for _ in range(1 + halves)] for _ in range(unroll)]
            for _, *vectors in pieces:
                for word in (word for vector in vectors for word in vector):
                    word.set(0)  # a row of X that does not exist

            def multiply(k, left=None):
                """Add the products of a stage, bytes ``k`` and on; ``left``: bytes from mine to K's end."""
                inside = [None if left is None else left > i * PIECE for i in range(unroll)]
                for i, (weights, *vectors) in enumerate(pieces):
                    if left is not None:
                        for word in (word for vector in (weights, *vectors) for word in vector):
                            word.set(0)
                    for source, row, vector in zip(at_x, has_row, vectors, strict=True):
                        place = source
                        if isinstance(k, int):
                            place = source + k if k else source
                        else:
                            place = reg.scalar(u64)
                            ptx.inst.mad.wide.u32(place, k, 1, source)
                        pred = row if inside[i] is None else row & inside[i]
                        at = ptx.addr(place, i * PIECE)
                        ptx.load(b32, at, space="global", vector=4, nc=True, out=vector, pred=pred)
                slot = consumer.acquire()
                place = reg.scalar(u32)
                ptx.inst.mad.lo.u32(place, slot.index, stage_bytes, of_stage)
                for i, (weights, *_) in enumerate(pieces):
                    at = ptx.addr(place, i * PIECE)
                    ptx.load(b32, at, space="shared", vector=4, out=weights, pred=inside[i])
                ptx.fence.proxy_async("shared::cta")  # the copy engine overwrites what was read
                ptx.warp.sync()
                consumer.release(pred=leader)
                for weights, x, *below in pieces:
                    y = below[0] if below else [zero] * 4
                    for acc, step in zip(accs, STEPS, strict=True):
                        a = [x[step], y[step], x[step + 1], y[step + 1]]
                        ptx.mma(acc, a, weights[step : step + 2], acc, shape=shape, atype=dtype, btype=dtype)

            @contextlib.contextmanager
            def each_sum(thread):
                """Open a block for each sum that this thread stores."""
                if threads >= M * ROWS:
                    with ptx.if_(thread < M * ROWS):
                        yield thread
                else:
                    with ptx.for_(thread, M * ROWS, threads) as number:
                        yield number

            half = reg.scalar(u32, init=0)  # the number of the place for sums, in words
            with ptx.for_(cta, units, ctas) as unit:
                for acc in accs:
                    for value in acc:
                        value.set(0.0)
                if whole:
                    with ptx.for_(0, whole, chunk) as k:
                        multiply(k)
                if rest:
                    multiply(whole, left=rest - mine.view(s32))

                # --- the warps' sums, as [warp][row of X][row of W]
                origin = accs[0].origin()
                for i, (value, second) in enumerate(zip(*accs, strict=True)):
                    if accs[0].row(i) < 8 * halves:
                        ptx.inst.add.f32(value, value, second)
                        row = (warp * (8 * halves) + origin.row + accs[0].row(i)) * ROWS
                        smem.store(sums.at(half + row + origin.column + accs[0].column(i)), value)
                ptx.bar.sync(1, threads)
                with each_sum(thread) as number:
                    m, n = number >> (ROWS.bit_length() - 1), unit * ROWS + (number & (ROWS - 1))
                    total = smem.load(f32, sums.at(half + number))
                    for other in range(1, warps):
                        total += smem.load(f32, sums.at(half + number + other * (8 * halves * ROWS)))
                    place, there = D.at(m, n), n < N
                    if out_type is f32:
                        ptx.inst.st.global_.f32(place, total, pred=there)
                    else:
                        ptx.inst.st.global_.b16(place, ptx.cvt(total, out_type, rounding="rn"), pred=there)
                half.set(sum_words - half)
        ptx.ret()

    return gemv_ring


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def main():
    program(
        build_gemv_ring,
        [
            ((1, 40, 1032), {"warps": 2, "sms": 2}),
            ((13, 70, 1304), {"warps": 4, "unroll": 2, "stages": 2, "dtype": f16, "sms": 3}),
            ((3, 17, 2064), {"dtype": e4m3, "unroll": 1, "resident": 2}),
        ],
    )


if __name__ == "__main__":
    main()
