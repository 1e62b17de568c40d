"""cuTile's matmul without tensor memory: ``C[M, N] = A[M, K] @ B[K, N]``, row-major, C in the type of A.

It runs on GPUs whose tensor cores work on registers: ``sm_80`` to ``sm_90``, and ``sm_120`` (RTX 50).  One
CTA computes one ``tm x tn`` tile of C; CTAs take tiles in the order of ``swizzle_2d``::

              N                                                    f16, bf16        f32
        +-----------+                        tile tm x tn x tk     128 x 256 x 64   32 x 32 x 32
      K |  B  |tn|  |                        warps                 2 x 4            2 x 2
        +-----------+                        product of a warp     64 x 64          16 x 16
        +-----------+     +-----+--+--+      instruction           mma m16n8k16     mma m16n8k8 (tf32)
    M   |  A        |     |  C  |  |  |      a stage of A and B    16 + 32 KB       4 + 4 KB
        |tm         |     |     +--+  |      stages                2                2
        +-----------+     +-----------+

All threads copy slices of K with ``cp.async`` to shared memory, swizzled by hand, one slice ahead of the
products.  A warp reads A by ``ldmatrix``.  B has rows of K: ``ldmatrix.trans`` turns 16-bit elements;
32-bit elements are read one by one.  The tile of C passes through shared memory, so that a warp stores
whole rows.

The rules that make it correct:

* One barrier in each slice does two things: this slice's copies, which every thread has waited for, are
  visible to all, and every warp has read the slice before, whose stage the next copies overwrite.
* Past the end of A and B a tile holds zeros (``padding``): they add nothing to the sums.  C is stored up to
  M and N only.
* A row of A or B may begin anywhere: copies have 16, 8 or 4 bytes or single elements, as K and N allow.

Rounding: f16 and bf16 products are exact, and sums are in f32.  f32 inputs are rounded to tf32, 10 bits of
mantissa, to nearest with ties away from zero (``cvt.rna``), which costs a relative error of 2**-11 each.

Run it: ``python examples/blackwell/cutile/matmul_mma_sync.py``.  It assembles the kernels for sm_80 and
sm_120 and verifies them in the simulator; ``benchmarks/cutile_matmul.py`` measures them beside torch.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import cutile_harness as harness

from pyptx import (
    SpecError,
    Tile,
    b16,
    b32,
    bf16,
    bf16x2,
    f16,
    f16x2,
    f32,
    kernel,
    kit,
    layout,
    ptx,
    reg,
    s32,
    smem,
    tf32,
    u32,
    u64,
)

#: By the bytes of an element: the tile of C and the slice of K, and how many warps share it.
TILES = {2: (128, 256, 64), 4: (32, 32, 32)}
WARPS = {2: (2, 4), 4: (2, 2)}
GROUP_SIZE_M = 8  # rows of tiles in a band of swizzle_2d
#: Relative error of an f32 input that is rounded to tf32, to nearest.
TF32_ROUNDING = 2.0**-11
SPAN = 128  # bytes of the swizzle: a slice of a row of A; a row of B has several
STEP = 32  # bytes of K of one mma
TARGETS = ("sm_80", "sm_120")


def check(tile, warps, stages, dtype, K, padding):
    """Raise an error for a tiling that the kernel cannot compute."""
    tm, tn, tk = tile
    rows, columns = warps
    if dtype not in (f16, bf16, f32):
        raise SpecError(f"dtype is {dtype!r}: expected f16, bf16 or f32")
    if tk * dtype.nbytes != SPAN:
        raise SpecError(f"tk = {tk} elements of {dtype}: expected {SPAN // dtype.nbytes}, {SPAN} bytes")
    if tm % (16 * rows):
        raise SpecError(f"tm = {tm} for {rows} warps: expected a multiple of {16 * rows}")
    if tn % columns or tn // columns * dtype.nbytes not in (32, 64, 128) or tn * dtype.nbytes % SPAN:
        raise SpecError(
            f"tn = {tn} for {columns} warps: expected rows of 32, 64 or 128 bytes for each warp, "
            f"and a multiple of {SPAN} in all"
        )
    if stages < 2 or stages * tk < tm:
        raise SpecError(
            f"stages = {stages}: expected 2 or more, and {-(-tm // tk)}, since C passes through B's"
        )
    if padding is kit.Padding.UNDETERMINED and K % tk:
        raise SpecError(
            f"K = {K} is no multiple of tk = {tk}, so every sum of C has terms past the end of A and B: "
            "expected a padding that adds nothing",
            hint="padding=kit.Padding.ZERO",
        )


def build_matmul(
    N,
    K,
    dtype=f16,
    *,
    tile=None,
    warps=None,
    stages=2,
    group_size_m=GROUP_SIZE_M,
    padding=kit.Padding.ZERO,
    arch="sm_80",
):
    """Build the kernel for one N, K and type; call it with A[M, K] and B[K, N].

    Args:
        N, K: columns of C, and length of the sums; any positive numbers. M is a run-time size.
        dtype: type of A, B and C: f16, bf16 or f32.
        tile: (tm, tn, tk); default: cuTile's, 128 x 256 x 64, and 32 x 32 x 32 for f32.
        warps: how many warps share the tile's rows and columns; default: 2 x 4, and 2 x 2 for f32.
        stages: slices of K in shared memory; 2 fit into the 99 KB of sm_120.
        group_size_m: rows of tiles in a band of ``swizzle_2d``.
        padding: what lies past the end of A and B, a ``kit.Padding``.
        arch: sm_80 or a later target.
    """
    size = dtype.nbytes
    tm, tn, tk = tile = tile or TILES.get(size, TILES[4])
    rows, columns = warps = warps or WARPS.get(size, WARPS[4])
    check(tile, warps, stages, dtype, K, padding)
    threads = 32 * rows * columns
    wm, wn = tm // rows, tn // columns  # a warp's part of the tile

    @kernel(
        in_specs=(Tile("M", K, dtype), Tile(K, N, dtype)),
        out_specs=(Tile("M", N, dtype),),
        grid=lambda M: kit.tile_order.cdiv(M, tm) * kit.tile_order.cdiv(N, tn),
        block=threads,
        arch=arch,
        extern_smem=True,
    )
    def matmul(A, B, C):
        tid = ptx.special.tid.x()
        warp = kit.warp_index()
        lane = tid & 31
        M = C.extent(0)
        bidx, bidy = kit.tile_order.swizzle_2d(M, N, tm, tn, group_size_m)
        m_base, n_base = bidx * tm, bidy * tn
        warp_row, warp_column = (warp // columns) * wm, (warp % columns) * wn

        s_a = smem.alloc((tm, tk), dtype, swizzle="128B", stages=stages)
        s_b = smem.alloc((tk, tn), dtype, swizzle="128B", stages=stages)
        k_tail = K % tk != 0
        group = {"thread": tid, "threads": threads, "padding": padding}
        load_a = kit.TileLoader(A, s_a, (m_base, 0), along=1, ragged=(True, k_tail), **group)
        load_b = kit.TileLoader(B, s_b, (0, n_base), along=0, ragged=(k_tail, N % tn != 0), **group)

        # --- main loop: slices are loaded stages - 1 ahead -------------------------------------
        a_rows = rows_of_a(s_a[0].addr + warp_row * SPAN, lane)
        b_byte = warp_column * size
        panel = s_b[0].addr + (b_byte // SPAN) * (tk * SPAN)
        b_rows = rows_of_b(panel, b_byte % SPAN, lane, size)
        acc = [[reg.array(f32, 4, init=0.0, name="acc") for _ in range(wn // 8)] for _ in range(wm // 16)]
        read, fill = reg.scalar(u32, init=0), reg.scalar(u32, init=0)

        def load():
            load_a.copy(fill)
            load_b.copy(fill)
            following(fill, stages)

        ahead = min(stages - 1, kit.tile_order.cdiv(K, tk))
        with ptx.for_(0, ahead):
            load()
            ptx.cp.async_.commit_group()
        for _ in range(ahead, stages - 1):
            ptx.cp.async_.commit_group()  # empty, so that the same number may be pending
        with ptx.for_(0, K, tk) as k:
            ptx.cp.async_.wait_group(stages - 2)
            ptx.bar.sync(0)
            with ptx.if_(k + (stages - 1) * tk < K):
                load()
            ptx.cp.async_.commit_group()
            multiply(acc, a_rows + read * s_a.stage_bytes, b_rows + read * s_b.stage_bytes, dtype)
            following(read, stages)

        # --- epilogue ------------------------------------------------------------------------
        ptx.bar.sync(0)  # every warp has read the last slice: the stages of B are free
        staging = s_b[0].addr + warp * (wm * wn * size)
        corner = m_base + warp_row, n_base + warp_column
        store(acc, staging, C, corner, lane, N % tn != 0)
        ptx.ret()

    return matmul


def following(stage, stages):
    """Step to the next stage, and from the last one to the first."""
    stage += 1
    ptx.inst.mov.u32(stage, 0, pred=stage == stages)


def rows_of_a(tile, lane):
    """Return the address that this lane gives to ldmatrix: the first 16 rows of the warp, the first mma.

    Lanes 0 to 15 give the rows' first 16 bytes, lanes 16 to 31 the next 16 bytes; both swizzled.
    """
    row = lane & 15
    return tile + row * SPAN + (((lane >> 4) ^ (lane & 7)) << 4)


def rows_of_b(panel, first_byte, lane, size):
    """Return the address at which this lane reads B for the first mma: of a row, or of a single element."""
    chunk = (first_byte >> 4) + (lane >> 4)
    if size == 2:
        return panel + (lane & 15) * SPAN + ((chunk ^ (lane & 7)) << 4)
    row = lane & 3
    return panel + row * SPAN + ((chunk ^ row) << 4) + (((lane >> 2) & 3) << 2)


def multiply(acc, a_rows, b_rows, dtype):
    """Record the products of a slice: four steps of 32 bytes along K."""
    for step in range(SPAN // STEP):
        at = a_rows ^ (STEP * step) if step else a_rows
        a = [reg.array(b32, 4, name="a") for _ in acc]
        for i, part in enumerate(a):
            ptx.ldmatrix(part, ptx.addr(at, 16 * SPAN * i))
        if dtype is f32:
            a = [to_tf32(part) for part in a]
            b = elements_of_b(b_rows, 8 * SPAN * step, len(acc[0]))
        else:
            b = turned_b(b_rows, 16 * SPAN * step, len(acc[0]))
        for i, part in enumerate(a):
            for j, other in enumerate(b):
                if dtype is f32:
                    ptx.mma(acc[i][j], part, other, shape="m16n8k8", atype=tf32)
                else:
                    ptx.mma(acc[i][j], part, other, shape="m16n8k16", atype=dtype)


def turned_b(b_rows, offset, blocks):
    """Record the loads of B's fragments, 16-bit elements: 16 rows of K and 16 columns at a time."""
    found = []
    for pair in range(blocks // 2):
        four = reg.array(b32, 4, name="b")
        place = b_rows ^ (STEP * pair) if pair else b_rows
        ptx.ldmatrix(four, ptx.addr(place, offset), trans=True)
        found += [four[:2], four[2:]]
    return found


def elements_of_b(b_rows, offset, blocks):
    """Record the loads of B's fragments, f32 as tf32: two elements of each lane, four rows of K apart."""
    found = []
    for block in range(blocks):
        two = reg.array(b32, 2, name="b")
        for half, element in enumerate(two):
            # Four rows further: 512 bytes, and bit 2 of the row flips bit 2 of the swizzled chunk.
            flip = STEP * block ^ (4 * SPAN + 64) * half
            place = b_rows ^ flip if flip else b_rows
            ptx.inst.ld.shared.b32(element, ptx.addr(place, offset))
        found.append(to_tf32(two))
    return found


def to_tf32(words):
    """Round f32 to tf32, to nearest, ties away from zero."""
    return [ptx.cvt(word.view(f32), tf32, rounding="rna") for word in words]


def store(acc, staging, C, corner, lane, ragged):
    """Record the epilogue of a warp: its sums, in the type of C, through shared memory to whole rows of C.

    ``staging`` is the warp's memory, rows of 32, 64 or 128 bytes that are swizzled so that lanes that write
    or read together use different banks. A store has as many bytes as the pitch of C allows.
    """
    dtype, N = C.dtype, C.shape[1]
    packed = {f16: f16x2, bf16: bf16x2}.get(dtype)
    size = dtype.nbytes
    height, row_bytes = 16 * len(acc), 8 * len(acc[0]) * size
    mode = f"{row_bytes}B"
    period = layout.SWIZZLE_PERIOD[mode]

    def swizzled(offset):
        return offset ^ (((offset >> 7) & (row_bytes // 16 - 1)) << 4)

    first = staging + swizzled((lane >> 2) * row_bytes + (lane & 3) * (2 * size))
    for j in range(len(acc[0])):
        place = first ^ (8 * size * j) if j else first
        for i, line in enumerate(acc):
            for half in range(2):  # rows lane / 4 and lane / 4 + 8
                low, high = line[j][2 * half], line[j][2 * half + 1]
                pair = [low, high] if packed is None else ptx.cvt_x2(low, high, packed)
                ptx.store(ptx.addr(place, (16 * i + 8 * half) * row_bytes), pair, space="shared")
    ptx.warp.sync()

    width = next((n for n in (16, 8, 4) if N * size % n == 0), size)
    offset = lane * width
    row, byte = offset // row_bytes, offset % row_bytes
    m_left = (C.extent(0) - (corner[0] + row)).view(s32)
    n_left = (N - corner[1]).view(s32) - (byte // size).view(s32)
    target = reg.scalar(u64)
    ptx.inst.mad.wide.u32(target, corner[0] + row, N * size, C.ptr)
    ptx.inst.mad.wide.u32(target, corner[1], size, target)
    ptx.inst.mad.wide.u32(target, byte, 1, target)
    source = staging + swizzled(offset)
    for further in range(0, height * row_bytes, 32 * width):
        upper, flip = divmod(layout.swizzle(further, mode), period)
        below, right = divmod(further, row_bytes)
        inside = m_left > below
        if ragged:
            inside = inside & (n_left > right // size)
        words = reg.array(b16 if width == 2 else b32, max(1, width // 4), name="c")
        value = words if len(words) > 1 else words[0]
        place = ptx.addr(source ^ flip if flip else source, upper * period)
        if len(words) > 1:
            getattr(ptx.inst.ld.shared, f"v{len(words)}").b32(words, place)
        else:
            getattr(ptx.inst.ld.shared, words[0].type.name)(words[0], place)
        ptx.store(ptx.addr(target, below * N * size + right), value, space="global", pred=inside)


# --- the host's side ------------------------------------------------------------------------------------


@functools.cache
def kernel_for(N, K, dtype, arch):
    """Return the kernel for one N, K and type; M is a run-time size."""
    return build_matmul(N, K, dtype, arch=arch)


def cutile_matmul(A, B):
    """Multiply two CUDA tensors of torch, A[M, K] @ B[K, N], in their type: float16, bfloat16 or float32."""
    import torch

    dtypes = {torch.float16: f16, torch.bfloat16: bf16, torch.float32: f32}
    if A.dtype not in dtypes or B.dtype is not A.dtype:
        raise SpecError(f"A is {A.dtype} and B is {B.dtype}: expected both float16, bfloat16 or float32")
    arch = "sm_120" if torch.cuda.get_device_capability(A.device)[0] == 12 else "sm_80"
    (_, K), (_, N) = A.shape, B.shape
    return kernel_for(N, K, dtypes[A.dtype], arch)(A, B)


# --- the figure: what neighboring CTAs read ---------------------------------------------------------------


def tiles_in_order(order, count):
    """Return the tiles that the CTAs 0 .. count - 1 compute: runs ``order(bid)`` in the simulator."""

    @kernel(out_specs=(Tile(count, 2, u32),), grid=count, arch="sm_80")
    def tiles(out):
        bid = ptx.special.ctaid.x()
        row, column = order(bid)
        ptx.inst.st.global_.v2.b32(out.at(bid, 0), [row, column])

    return [(int(row), int(column)) for row, column in tiles()]


def blocks_read(tiles, k_tiles):
    """Return how many different blocks of A and of B these tiles need, with ``k_tiles`` blocks along K."""
    return k_tiles * len({row for row, _ in tiles}), k_tiles * len({column for _, column in tiles})


def figure():
    """Print the blocks that CTAs with neighboring numbers read, in linear and in swizzled order."""
    print(f"{'C in tiles':>10}  {'K':>4}  {'CTAs':>5}  {'linear A + B':>16}  {'swizzled A + B':>16}  fewer")
    cases = [(4, 4, 4, 4, 2), *((n // 128, n // 256, n // 64, 84, GROUP_SIZE_M) for n in (1024, 4096, 16384))]
    for tiles_m, tiles_n, k_tiles, ctas, group in cases:
        ctas = min(ctas, tiles_m * tiles_n)

        def swizzled(bid, extents=(tiles_m, tiles_n), group=group):
            return kit.tile_order.swizzle_2d_from_bid(*extents, 1, 1, group, bid)

        def linear(bid, extents=(tiles_m, tiles_n)):
            return kit.tile_order.row_major(bid, *extents)

        counts = [blocks_read(tiles_in_order(order, ctas), k_tiles) for order in (linear, swizzled)]
        first, second = (f"{a} + {b} = {a + b}" for a, b in counts)
        fewer = 1 - sum(counts[1]) / sum(counts[0])
        print(
            f"{f'{tiles_m} x {tiles_n}':>10}  {k_tiles:>4}  {ctas:>5}  {first:>16}  {second:>16}  {fewer:.0%}"
        )


# --- the program: verify anywhere --------------------------------------------------------------------

#: Sizes for the simulator: one tile; ragged in every dimension, with copies of 16, 8, 4 and 2 bytes.
SHAPES = {
    f16: [(128, 256, 64), (130, 264, 136), (100, 36, 68), (129, 34, 70), (60, 33, 35)],
    bf16: [(129, 264, 72)],
    f32: [(32, 32, 32), (70, 36, 68), (33, 34, 70), (40, 65, 37)],
}


def main():
    good = harness.verify(build_matmul, SHAPES, TARGETS, TF32_ROUNDING)
    print("\nBlocks that the first CTAs read; 84 CTAs run at a time on an RTX 5080:")
    figure()
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
