"""Kernels in Gluon, Triton's language with layouts: barriers, bulk copies, the tensor cores of each architecture."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell, hopper
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

#: Of one row of elements, four for each thread.
_ROW = gl.constexpr(gl.BlockedLayout([4], [32], [4], [0]))
_TILE = gl.constexpr(gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]))


@gluon.jit
def copy(x, out, n, BLOCK: gl.constexpr):
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=_ROW)
    gl.store(out + at, gl.load(x + at, mask=at < n, other=0.0), mask=at < n)


@gluon.jit
def through_shared(x, out, B: gl.constexpr):
    rows = gl.arange(0, B, layout=gl.SliceLayout(1, _TILE))
    columns = gl.arange(0, B, layout=gl.SliceLayout(0, _TILE))
    at = rows[:, None] * B + columns[None, :]
    shared: gl.constexpr = gl.SwizzledSharedLayout(4, 2, 8, order=[1, 0])
    room = gl.allocate_shared_memory(gl.float16, [B, B], shared)
    room.store(gl.load(x + at))
    gl.store(out + at, room.permute((1, 0)).load(_TILE) + room.load(_TILE))


@gluon.jit
def staged(x, out, B: gl.constexpr, STAGES: gl.constexpr):
    rows = gl.arange(0, B, layout=gl.SliceLayout(1, _TILE))
    columns = gl.arange(0, B, layout=gl.SliceLayout(0, _TILE))
    at = rows[:, None] * B + columns[None, :]
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, B, B], shared)
    for i in gl.static_range(STAGES):
        async_copy.async_load(ring.index(i), x + at + i * B * B)
        async_copy.commit_group()
    for i in range(STAGES):
        async_copy.wait_group(0)
        gl.store(out + at + i * B * B, ring.index(i).load(_TILE))


@gluon.jit
def tensor_core(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    result: gl.constexpr = gl.NVMMADistributedLayout(
        version=[2, 0], warps_per_cta=[2, 2], instr_shape=[16, 8]
    )
    left: gl.constexpr = gl.DotOperandLayout(0, result, k_width=2)
    right: gl.constexpr = gl.DotOperandLayout(1, result, k_width=2)
    m, k = gl.arange(0, M, layout=gl.SliceLayout(1, _TILE)), gl.arange(0, K, layout=gl.SliceLayout(0, _TILE))
    k2, n = gl.arange(0, K, layout=gl.SliceLayout(1, _TILE)), gl.arange(0, N, layout=gl.SliceLayout(0, _TILE))
    x = gl.convert_layout(gl.load(a + m[:, None] * K + k[None, :]), left)
    y = gl.convert_layout(gl.load(b + k2[:, None] * N + n[None, :]), right)
    total = mma_v2(x, y, gl.full([M, N], 0.0, gl.float32, result))
    gl.store(c + m[:, None] * N + n[None, :], gl.convert_layout(total, _TILE))


@gluon.jit
def reduce_rows(x, out, M: gl.constexpr, N: gl.constexpr):
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, _TILE))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, _TILE))
    value = gl.load(x + rows[:, None] * N + columns[None, :])
    gl.store(out + rows, gl.sum(value, 1) + gl.max(value, 1))


@gluon.jit
def bulk_copy(x, out, M, N, B: gl.constexpr):
    layout: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    source = tma.make_tensor_descriptor(x, [M, N], [N, 1], [B, B], layout)
    target = tma.make_tensor_descriptor(out, [M, N], [N, 1], [B, B], layout)
    room = gl.allocate_shared_memory(gl.float16, [B, B], layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, B * B * 2)
    tma.async_load(source, [gl.program_id(0) * B, 0], bar, room)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    value = room.load(_TILE)
    room.store(value * 2)
    hopper.fence_async_shared()
    tma.async_store(target, [gl.program_id(0) * B, 0], room)
    tma.async_atomic_add(target, [0, B], room)
    tma.store_wait(0)


@gluon.jit
def warpgroup(a, b, c, K, M: gl.constexpr, N: gl.constexpr, BK: gl.constexpr):
    layout: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    result: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, N, 16]
    )
    left = tma.make_tensor_descriptor(a, [M, K], [K, 1], [M, BK], layout)
    right = tma.make_tensor_descriptor(b, [N, K], [K, 1], [N, BK], layout)
    x = gl.allocate_shared_memory(gl.float16, [M, BK], layout)
    y = gl.allocate_shared_memory(gl.float16, [N, BK], layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    total = gl.full([M, N], 0.0, gl.float32, result)
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(bar, (M + N) * BK * 2)
        tma.async_load(left, [0, k], bar, x)
        tma.async_load(right, [0, k], bar, y)
        mbarrier.wait(bar, phase)
        phase ^= 1
        total = hopper.warpgroup_mma(x, y.permute((1, 0)), total)
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, _TILE))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, _TILE))
    gl.store(c + rows[:, None] * N + columns[None, :], gl.convert_layout(total, _TILE))


@gluon.jit
def tensor_memory(a, b, c, K, M: gl.constexpr, N: gl.constexpr, BK: gl.constexpr):
    layout: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    left = tma.make_tensor_descriptor(a, [M, K], [K, 1], [M, BK], layout)
    right = tma.make_tensor_descriptor(b, [N, K], [K, 1], [N, BK], layout)
    x = gl.allocate_shared_memory(gl.float16, [M, BK], layout)
    y = gl.allocate_shared_memory(gl.float16, [N, BK], layout)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    memory: gl.constexpr = blackwell.TensorMemoryLayout([M, N], col_stride=1)
    total = blackwell.allocate_tensor_memory(gl.float32, [M, N], memory)
    use = False
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(loaded, (M + N) * BK * 2)
        tma.async_load(left, [0, k], loaded, x)
        tma.async_load(right, [0, k], loaded, y)
        mbarrier.wait(loaded, phase)
        blackwell.tcgen05_mma(x, y.permute((1, 0)), total, use_acc=use)
        blackwell.tcgen05_commit(done)
        mbarrier.wait(done, phase)
        use = True
        phase ^= 1
    value = gl.convert_layout(total.load(), _TILE)
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, _TILE))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, _TILE))
    gl.store(c + rows[:, None] * N + columns[None, :], value)


@gluon.jit
def _consumer(room, full, empty, out, n, B: gl.constexpr):
    at = gl.arange(0, B, layout=_ROW)
    for i in range(n):
        mbarrier.wait(full, i & 1)
        gl.store(out + i * B + at, room.load(_ROW))
        mbarrier.arrive(empty, count=1)


@gluon.jit
def _producer(room, full, empty, x, n, B: gl.constexpr):
    one: gl.constexpr = gl.BlockedLayout([4], [32], [1], [0])
    at = gl.arange(0, B, layout=one)
    for i in range(n):
        mbarrier.wait(empty, (i & 1) ^ 1)
        room.store(gl.load(x + i * B + at))
        mbarrier.arrive(full, count=1)


@gluon.jit
def specialized(x, out, n, B: gl.constexpr):
    room = gl.allocate_shared_memory(gl.float32, [B], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    gl.warp_specialize(
        [(_consumer, (room, full, empty, out, n, B)), (_producer, (room, full, empty, x, n, B))], [1], [24]
    )
