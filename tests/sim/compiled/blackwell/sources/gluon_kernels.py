"""Kernels in Gluon for Blackwell: tensor memory, scales copied there, pairs of CTAs, launch control, roles of warps."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.blackwell import clc, mbarrier, tma

_ROW = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


@gluon.jit
def _barriers(count: gl.constexpr, arrivals: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


@gluon.jit
def _load_tiles(left, right, x, y, full, empty, tiles, across, K, STAGES: gl.constexpr):
    BM: gl.constexpr = left.block_type.shape[0]
    BN: gl.constexpr = right.block_type.shape[0]
    BK: gl.constexpr = left.block_type.shape[1]
    at = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for k in range(0, K, BK):
            stage = at % STAGES
            mbarrier.wait(empty.index(stage), (at // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(stage), left.block_type.nbytes + right.block_type.nbytes)
            tma.async_load(left, [tile // across * BM, k], full.index(stage), x.index(stage))
            tma.async_load(right, [tile % across * BN, k], full.index(stage), y.index(stage))
            at += 1


@gluon.jit
def _multiply_tiles(
    x, y, sums, full, empty, filled, drained, tiles, K, BK: gl.constexpr, STAGES: gl.constexpr
):
    at = 0
    done = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        into = done % 2
        mbarrier.wait(drained.index(into), (done // 2 & 1) ^ 1)
        use = False
        for _ in range(0, K, BK):
            stage = at % STAGES
            mbarrier.wait(full.index(stage), at // STAGES & 1)
            blackwell.tcgen05_mma(
                x.index(stage), y.index(stage).permute((1, 0)), sums.index(into), use_acc=use
            )
            blackwell.tcgen05_commit(empty.index(stage))
            use = True
            at += 1
        blackwell.tcgen05_commit(filled.index(into))
        done += 1  # noqa: SIM113 - no enumerate there


@gluon.jit
def _store_tiles(result, room, sums, filled, drained, tiles, across):
    BM: gl.constexpr = result.block_type.shape[0]
    BN: gl.constexpr = result.block_type.shape[1]
    done = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        out = done % 2
        mbarrier.wait(filled.index(out), done // 2 & 1)
        value = sums.index(out).load()
        mbarrier.arrive(drained.index(out), count=1)
        tma.store_wait(0)
        room.store(value.to(result.dtype))
        blackwell.fence_async_shared()
        tma.async_store(result, [tile // across * BM, tile % across * BN], room)
        done += 1  # noqa: SIM113 - no enumerate there
    tma.store_wait(0)


@gluon.jit
def roles(a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """C = A times B^T by programs that stay: a warp copies, a warp multiplies, four store; two accumulators."""
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.float16)
    left = tma.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK], layout)
    right = tma.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK], layout)
    result = tma.make_tensor_descriptor(
        c, [M, N], [N, 1], [BM, BN], gl.NVMMASharedLayout.get_default_for([BM, BN], gl.float16)
    )
    x = gl.allocate_shared_memory(gl.float16, [STAGES, BM, BK], layout)
    y = gl.allocate_shared_memory(gl.float16, [STAGES, BN, BK], layout)
    room = gl.allocate_shared_memory(gl.float16, [BM, BN], result.layout)
    full, empty = _barriers(STAGES, 1), _barriers(STAGES, 1)
    filled, drained = _barriers(2, 1), _barriers(2, 1)
    memory: gl.constexpr = blackwell.TensorMemoryLayout([BM, BN], col_stride=1)
    sums = blackwell.allocate_tensor_memory(gl.float32, [2, BM, BN], memory)
    across = gl.cdiv(N, BN)
    tiles = gl.cdiv(M, BM) * across
    gl.warp_specialize(
        [
            (_store_tiles, (result, room, sums, filled, drained, tiles, across)),
            (_load_tiles, (left, right, x, y, full, empty, tiles, across, K, STAGES)),
            (_multiply_tiles, (x, y, sums, full, empty, filled, drained, tiles, K, BK, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def scaled(a, b, a_scale, b_scale, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """C = (A with scales) times (B with scales)^T, e4m3; scales go from shared to tensor memory by copies."""
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.float8e4nv)
    left = tma.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK], layout)
    right = tma.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK], layout)
    x = gl.allocate_shared_memory(gl.float8e4nv, [BM, BK], layout)
    y = gl.allocate_shared_memory(gl.float8e4nv, [BN, BK], layout)
    # 512 bytes for four scales of 128 rows: [row % 32][row // 32][scale].
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    one: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.arange(0, BM * (BK // 32), layout=one)
    u = gl.allocate_shared_memory(gl.uint8, [BM * (BK // 32)], flat)
    v = gl.allocate_shared_memory(gl.uint8, [BM * (BK // 32)], flat)
    loaded, done = _barriers(1, 1).index(0), _barriers(1, 1).index(0)
    held: gl.constexpr = blackwell.TensorMemoryScalesLayout()
    left_scale = blackwell.allocate_tensor_memory(gl.uint8, [BM, BK // 32], held)
    right_scale = blackwell.allocate_tensor_memory(gl.uint8, [BN, BK // 32], held)
    total = blackwell.allocate_tensor_memory(
        gl.float32, [BM, BN], blackwell.TensorMemoryLayout([BM, BN], col_stride=1)
    )
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(loaded, left.block_type.nbytes + right.block_type.nbytes)
        tma.async_load(left, [0, k], loaded, x)
        tma.async_load(right, [0, k], loaded, y)
        u.store(gl.load(a_scale + k // 32 * BM + at))
        v.store(gl.load(b_scale + k // 32 * BN + at))
        blackwell.fence_async_shared()
        mbarrier.wait(loaded, phase)
        us = u.reshape((1, BK // 128, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((BM, BK // 32))
        vs = v.reshape((1, BK // 128, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((BN, BK // 32))
        blackwell.tcgen05_copy(us, left_scale)
        blackwell.tcgen05_copy(vs, right_scale)
        blackwell.tcgen05_mma_scaled(
            x, y.permute((1, 0)), total, left_scale, right_scale, "e4m3", "e4m3", use_acc=k != 0
        )
        blackwell.tcgen05_commit(done)
        mbarrier.wait(done, phase)
        phase ^= 1
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    rows = gl.arange(0, BM, layout=gl.SliceLayout(1, tile))
    columns = gl.arange(0, BN, layout=gl.SliceLayout(0, tile))
    gl.store(c + rows[:, None] * BN + columns[None, :], gl.convert_layout(total.load(), tile))


@gluon.jit
def pair(a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """C = A times B^T by two CTAs: each has half of the rows of A and of B, and one instruction multiplies both."""
    rows_of: gl.constexpr = [[1, 0]]
    across: gl.constexpr = [[0, 1]]
    layout_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.bfloat16, cga_layout=rows_of)
    layout_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BK, BN], gl.bfloat16, cga_layout=across)
    left = tma.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK], layout_a)
    right = tma.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN], layout_b)
    x = gl.allocate_shared_memory(gl.bfloat16, [BM, BK], layout_a)
    y = gl.allocate_shared_memory(gl.bfloat16, [BK, BN], layout_b)
    loaded = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    memory: gl.constexpr = blackwell.TensorMemoryLayout(
        [BM // 2, BN], col_stride=1, cga_layout=rows_of, two_ctas=True
    )
    total = blackwell.allocate_tensor_memory(gl.float32, [BM, BN], memory)
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(loaded, left.nbytes_per_cta + right.nbytes_per_cta)
        tma.async_load(left, [gl.program_id(0) * BM, k], loaded, x)
        tma.async_load(right, [k, gl.program_id(1) * BN], loaded, y)
        mbarrier.wait(loaded, phase, deps=[x, y])
        blackwell.tcgen05_mma(x, y, total, use_acc=k != 0, mbarriers=[done])
        mbarrier.wait(done, phase, deps=[x, y])
        phase ^= 1
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0], cga_layout=rows_of)
    rows = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, tile))
    columns = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, tile))
    gl.store(c + rows[:, None] * N + columns[None, :], gl.convert_layout(total.load(), tile))


@gluon.jit
def launch_control(x, y, n, BLOCK: gl.constexpr):
    """y = 2 x + tile, by programs that take the place of those that have not started."""
    bar = mbarrier.allocate_mbarrier()
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    mbarrier.init(bar, count=1)
    phase = 0
    tile = gl.program_id(0)
    more = gl.to_tensor(True)
    while more:
        clc.try_cancel(answer, bar)
        mbarrier.expect(bar, 16)
        at = tile * BLOCK + gl.arange(0, BLOCK, layout=_ROW)
        gl.store(y + at, gl.load(x + at, mask=at < n, other=0.0) * 2 + tile, mask=at < n)
        mbarrier.wait(bar, phase)
        said = clc.load_result(answer)
        more = said.is_canceled()
        tile = said.program_id(0)
        phase ^= 1


@gluon.jit
def packed(x, y, out, n, BLOCK: gl.constexpr):
    """Two floats to an instruction."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    u, v = gl.load(x + at), gl.load(y + at)
    gl.store(out + at, blackwell.fma2(u, v, blackwell.add2(u, blackwell.mul2(v, v))))
