"""Kernels in Gluon for Hopper: barriers, copies and products by hand, roles of warps, clusters."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma


@gluon.constexpr_function
def _sums(n, cga=()):
    """Layout of the accumulators of one warpgroup."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, n, 16], cga_layout=cga)


@gluon.jit
def ring_product(a, b, d, depth, STAGES: gl.constexpr):
    """One product in flight while the copies of the next stages run."""
    BM: gl.constexpr = a.block_shape[0]
    BN: gl.constexpr = b.block_shape[0]
    BK: gl.constexpr = a.block_shape[1]
    left = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    right = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    steps = depth // BK
    for i in gl.static_range(STAGES - 1):
        mbarrier.expect(full.index(i), a.block_type.nbytes + b.block_type.nbytes, pred=i < steps)
        tma.async_load(a, [row, i * BK], full.index(i), left.index(i), pred=i < steps)
        tma.async_load(b, [column, i * BK], full.index(i), right.index(i), pred=i < steps)
    total = hopper.warpgroup_mma_init(gl.zeros((BM, BN), gl.float32, _sums(BN)))
    for i in range(steps):
        stage = i % STAGES
        mbarrier.wait(full.index(stage), i // STAGES & 1)
        total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=[total])
        total = hopper.warpgroup_mma(
            left.index(stage), right.index(stage).permute((1, 0)), total, is_async=True
        )
        ahead = i + STAGES - 1
        slot = ahead % STAGES
        more = ahead < steps
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes, pred=more)
        tma.async_load(a, [row, ahead * BK], full.index(slot), left.index(slot), pred=more)
        tma.async_load(b, [column, ahead * BK], full.index(slot), right.index(slot), pred=more)
    total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=[total])
    result = gl.allocate_shared_memory(d.dtype, d.block_shape, d.layout)
    result.store(total.to(d.dtype))
    hopper.fence_async_shared()
    tma.async_store(d, [row, column], result)
    tma.store_wait(0)


@gluon.jit
def _load_tiles(a, b, left, right, full, empty, tiles, across, steps, STAGES: gl.constexpr):
    i = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for k in range(steps):
            stage = i % STAGES
            mbarrier.wait(empty.index(stage), (i // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(stage), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_load(
                a,
                [tile // across * a.block_shape[0], k * a.block_shape[1]],
                full.index(stage),
                left.index(stage),
            )
            tma.async_load(
                b,
                [k * b.block_shape[0], tile % across * b.block_shape[1]],
                full.index(stage),
                right.index(stage),
            )
            i += 1


@gluon.jit
def _multiply_tiles(
    left,
    right,
    full,
    empty,
    ready,
    taken,
    result,
    tiles,
    steps,
    BM: gl.constexpr,
    BN: gl.constexpr,
    STAGES: gl.constexpr,
):
    i = 0
    turn = 0
    for _tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        total = gl.zeros((BM, BN), gl.float32, _sums(BN))
        for _ in range(steps):
            stage = i % STAGES
            mbarrier.wait(full.index(stage), i // STAGES & 1)
            total = hopper.warpgroup_mma(left.index(stage), right.index(stage), total)
            mbarrier.arrive(empty.index(stage), count=1)
            i += 1
        mbarrier.wait(taken, turn ^ 1)
        result.store(total.to(result.dtype))
        hopper.fence_async_shared()
        mbarrier.arrive(ready, count=1)
        turn ^= 1


@gluon.jit
def _store_tiles(d, ready, taken, result, tiles, across):
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        mbarrier.wait(ready, turn)
        tma.async_store(d, [tile // across * d.block_shape[0], tile % across * d.block_shape[1]], result)
        tma.store_wait(0)
        mbarrier.arrive(taken, count=1)
        turn ^= 1


@gluon.jit
def roles(a, b, d, m, n, depth, STAGES: gl.constexpr):
    """A warp that loads, a warpgroup that multiplies, a warp that stores; every program has several tiles."""
    BM: gl.constexpr = a.block_shape[0]
    BK: gl.constexpr = a.block_shape[1]
    BN: gl.constexpr = b.block_shape[1]
    left = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    right = gl.allocate_shared_memory(b.dtype, [STAGES, BK, BN], b.layout)
    result = gl.allocate_shared_memory(d.dtype, d.block_shape, d.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    taken = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    mbarrier.init(ready, count=1)
    mbarrier.init(taken, count=1)
    across = n // BN
    tiles = m // BM * across
    steps = depth // BK
    gl.warp_specialize(
        [
            (_multiply_tiles, (left, right, full, empty, ready, taken, result, tiles, steps, BM, BN, STAGES)),
            (_load_tiles, (a, b, left, right, full, empty, tiles, across, steps, STAGES)),
            (_store_tiles, (d, ready, taken, result, tiles, across)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def chained(x, y, z, out, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    """(X Y) Z: the first product stays in registers, which are A of the second. Descriptors made on the device."""
    flat: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    first = tma.make_tensor_descriptor(x, [M, K], [K, 1], [M, K], flat)
    second = tma.make_tensor_descriptor(y, [K, N], [N, 1], [K, N], flat)
    third = tma.make_tensor_descriptor(z, [N, N], [N, 1], [N, N], flat)
    a = gl.allocate_shared_memory(gl.bfloat16, [M, K], flat)
    b = gl.allocate_shared_memory(gl.bfloat16, [K, N], flat)
    c = gl.allocate_shared_memory(gl.bfloat16, [N, N], flat)
    bars = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=1)
    mbarrier.init(bars.index(1), count=1)
    mbarrier.expect(bars.index(0), first.block_type.nbytes + second.block_type.nbytes)
    tma.async_load(first, [0, 0], bars.index(0), a)
    tma.async_load(second, [0, 0], bars.index(0), b)
    mbarrier.expect(bars.index(1), third.block_type.nbytes)
    tma.async_load(third, [0, 0], bars.index(1), c)
    mbarrier.wait(bars.index(0), 0)
    total = hopper.warpgroup_mma(a, b, gl.zeros((M, N), gl.float32, _sums(N)))
    between = gl.convert_layout(total.to(gl.bfloat16), gl.DotOperandLayout(0, _sums(N), k_width=2))
    mbarrier.wait(bars.index(1), 0)
    total = hopper.warpgroup_mma(between, c, gl.zeros((M, N), gl.float32, _sums(N)))
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, tile))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, tile))
    gl.store(out + rows[:, None] * N + columns[None, :], gl.convert_layout(total, tile))


@gluon.jit
def patches(
    images, filters, out, height, width, PIXELS: gl.constexpr, CHANNELS: gl.constexpr, FILTERS: gl.constexpr
):
    """Convolution 3 x 3 whose rows of A the engine picks out of the images."""
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    a = gl.allocate_shared_memory(images.dtype, [PIXELS, CHANNELS], images.layout)
    b = gl.allocate_shared_memory(filters.dtype, [FILTERS, CHANNELS], filters.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    start = gl.program_id(0) * PIXELS
    image, y, x = start // (height * width), start // width % height, start % width
    total = gl.zeros((PIXELS, FILTERS), gl.float32, _sums(FILTERS))
    phase = 0
    for tap in range(9):
        i = tap // 3
        j = tap % 3
        mbarrier.expect(bar, images.block_type.nbytes + filters.block_type.nbytes)
        tma.async_load_im2col(images, [image, y - 1, x - 1, 0], [i.to(gl.int16), j.to(gl.int16)], bar, a)
        tma.async_load(filters, [0, tap * CHANNELS], bar, b)
        mbarrier.wait(bar, phase)
        phase ^= 1
        total = hopper.warpgroup_mma(a, b.permute((1, 0)), total)
    mbarrier.invalidate(bar)
    rows = gl.arange(0, PIXELS, layout=gl.SliceLayout(1, tile))
    columns = gl.arange(0, FILTERS, layout=gl.SliceLayout(0, tile))
    gl.store(out + (start + rows)[:, None] * FILTERS + columns[None, :], gl.convert_layout(total, tile))


@gluon.jit
def cluster_product(a, b, d, depth):
    """Two CTAs, one below the other: each has its rows of A, the engine brings B to both at once."""
    cga: gl.constexpr = d.layout.cga_layout
    M: gl.constexpr = a.block_shape[0]
    N: gl.constexpr = b.block_shape[1]
    K: gl.constexpr = a.block_shape[1]
    left = gl.allocate_shared_memory(a.dtype, [2, M, K], a.layout)
    right = gl.allocate_shared_memory(b.dtype, [2, K, N], b.layout)
    full = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
    total = gl.zeros((M, N), gl.float32, _sums(N, cga))
    column = gl.program_id(0) * N
    for i in range(depth // K):
        stage = i % 2
        # Both have read what was in this stage.
        hopper.cluster.barrier()
        mbarrier.expect(full.index(stage), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [0, i * K], full.index(stage), left.index(stage))
        tma.async_load(b, [i * K, column], full.index(stage), right.index(stage), multicast=True)
        mbarrier.wait(full.index(stage), i // 2 & 1)
        total = hopper.warpgroup_mma(left.index(stage), right.index(stage), total)
    result = gl.allocate_shared_memory(d.dtype, [M, N], d.layout)
    result.store(total.to(d.dtype))
    hopper.fence_async_shared()
    tma.async_store(d, [0, column], result)
    tma.store_wait(0)
    hopper.cluster.barrier()
