"""Kernels in Triton: what its compiler makes of loads, reductions, matrix products, pipelines and descriptors."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, out, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + column, mask=column < width, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + column, weights / tl.sum(weights, axis=0), mask=column < width)


@triton.jit
def layer_norm(x, weight, bias, out, width, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * width + column, mask=column < width, other=0.0)
    mean = tl.sum(total) / width
    spread = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * width + column, mask=column < width, other=0.0)
        spread += tl.where(column < width, (value - mean) * (value - mean), 0.0)
    scale = tl.rsqrt(tl.sum(spread) / width + epsilon)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < width
        value = (tl.load(x + row * width + column, mask=inside) - mean) * scale
        value = value * tl.load(weight + column, mask=inside) + tl.load(bias + column, mask=inside)
        tl.store(out + row * width + column, value, mask=inside)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (k + depth)[None, :], mask=(k + depth)[None, :] < K, other=0.0)
        right = tl.load(
            b + (k + depth)[:, None] * N + columns[None, :], mask=(k + depth)[:, None] < K, other=0.0
        )
        total = tl.dot(left, right, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def matmul_integer(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, depth = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.int32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
        right = tl.load(b + columns[None, :] * K + (k + depth)[:, None])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * BN + columns[None, :], total)


@triton.jit
def matmul_descriptor(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIAL: tl.constexpr
):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    result = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIAL):
        total = tl.dot(left.load([row, k]), right.load([column, k]).T, total)
    result.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def matmul_persistent(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr
):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    result = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, PROGRAMS, flatten=True):
        row, column = tile // across * BM, tile % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(left.load([row, k]), right.load([k, column]), total)
        result.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def scaled_matmul(a, a_scale, b, b_scale, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, depth, groups = (
        tl.arange(0, BM),
        tl.arange(0, BN),
        tl.arange(0, BK),
        tl.arange(0, BK // 32),
    )
    left = tl.load(a + rows[:, None] * BK + depth[None, :])
    right = tl.load(b + depth[:, None] * BN + columns[None, :])
    left_scale = tl.load(a_scale + rows[:, None] * (BK // 32) + groups[None, :])
    right_scale = tl.load(b_scale + columns[:, None] * (BK // 32) + groups[None, :])
    total = tl.dot_scaled(left, left_scale, "e4m3", right, right_scale, "e4m3")
    tl.store(c + rows[:, None] * BN + columns[None, :], total)


@triton.jit
def attention(
    q, k, v, out, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr
):
    rows, width = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + width[None, :])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    result = tl.zeros([BM, D], tl.float32)
    end = (tl.program_id(0) + 1) * BM if CAUSAL else n
    for start in range(0, end, BN):
        columns = start + tl.arange(0, BN)
        keys = tl.load(k + columns[None, :] * D + width[:, None])
        scores = tl.dot(query, keys) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        keep = tl.exp2(most - higher)
        total = total * keep + tl.sum(weights, 1)
        values = tl.load(v + columns[:, None] * D + width[None, :])
        result = tl.dot(weights.to(values.dtype), values, result * keep[:, None])
        most = higher
    tl.store(out + rows[:, None] * D + width[None, :], (result / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def _combine(a, b):
    return a * 0.5 + b


@triton.jit
def scans(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(
        out + at,
        tl.cumsum(value, 0) + tl.associative_scan(value, 0, _combine, reverse=True) + tl.cumprod(value, 0),
    )


@triton.jit
def sorts(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.sort(tl.load(x + at))
    tl.store(out + at, tl.flip(value))


@triton.jit
def winners(x, out, index, BLOCK: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    best, at = tl.max(value, 0, return_indices=True)
    tl.store(out + tl.program_id(0), best + tl.min(value, 0))
    tl.store(index + tl.program_id(0), at + tl.argmin(value, 0))


@triton.jit
def histogram(x, out, BLOCK: tl.constexpr, BINS: tl.constexpr):
    bins = tl.histogram(tl.load(x + tl.arange(0, BLOCK)), BINS)
    tl.atomic_add(out + tl.arange(0, BINS), bins)


@triton.jit
def atomics(x, f, lock, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    old = tl.atomic_max(x + at, at, mask=at < 77, sem="acq_rel", scope="gpu")
    tl.atomic_add(f + at, old.to(tl.float32), sem="relaxed", scope="sys")
    tl.atomic_xchg(x + at, old)
    tl.atomic_and(x + at, 3)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(f, tl.load(f, volatile=True) + tl.load(f + 1, cache_modifier=".cg") + 1)
    tl.atomic_xchg(lock, 0)


@triton.jit
def conversions(x, half, bfloat, fp8, fp8e5, wide, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(half + at, value.to(tl.float16, fp_downcast_rounding="rtz"))
    tl.store(bfloat + at, value.to(tl.bfloat16))
    tl.store(fp8 + at, value.to(tl.float8e4nv))
    tl.store(fp8e5 + at, value.to(tl.float8e5))
    tl.store(wide + at, value.to(tl.float64) + value.to(tl.int64) + value.to(tl.int8) + value.to(tl.uint16))


@triton.jit
def mathematics(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    v = tl.sin(v) + tl.cos(v) + tl.log2(v) + tl.erf(v) + tl.sqrt_rn(v) + tl.fma(v, v, 1.0) + tl.div_rn(v, 3.0)
    v += tl.floor(v) + tl.ceil(v) + tl.abs(v) + tl.clamp(v, -1.0, 1.0) + tl.sigmoid(v)
    tl.store(
        out + at, v + libdevice.tanh(v) + libdevice.pow(v, 1.5) + libdevice.asinh(v) + libdevice.nearbyint(v)
    )


@triton.jit
def mathematics_double(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(out + at, libdevice.exp(v) + libdevice.lgamma(v) + libdevice.cbrt(v) + tl.sqrt(v) / v)


@triton.jit
def integers(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    v = v // n + v % 7 - (v >> 3) + (v << 2) ^ ~v | v & 255
    v += tl.umulhi(v.to(tl.uint32), 12345).to(tl.int32) + tl.cdiv(v, n) + libdevice.popc(v) + libdevice.clz(v)
    tl.store(out + at, v)


@triton.jit
def random_numbers(out, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.randn(seed, at) + tl.rand(seed, at + 1) + tl.randint(seed, at).to(tl.float32))


@triton.jit
def transpose(x, out, M, N, B: tl.constexpr):
    rows, columns = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    value = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(out + columns[:, None] * M + rows[None, :], tl.trans(value))


@triton.jit
def shapes(x, out, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    low, high = tl.split(tl.reshape(value, (B // 2, 2)))
    joined = tl.interleave(low + 1, high * 2)
    grid = tl.permute(tl.reshape(joined, (4, B // 16, 4)), (2, 0, 1))
    tl.store(out + tl.arange(0, B // 4), tl.sum(tl.reshape(grid, (4, B // 4)), 0))


@triton.jit
def gathers(x, index, out, B: tl.constexpr):
    rows, columns = tl.arange(0, B), tl.arange(0, 32)
    at = rows[:, None] * 32 + columns[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), 1))


@triton.jit
def embedding(index, table, out, WIDTH: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    column = tl.arange(0, WIDTH)
    tl.store(
        out + tl.program_id(0) * WIDTH + column,
        tl.load(table + row * WIDTH + column, eviction_policy="evict_last"),
    )


@triton.jit
def cross_entropy(logits, targets, loss, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(targets + row)
    most, total = -float("inf"), 0.0
    for start in tl.range(0, width, BLOCK, num_stages=3):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(logits + row * width + column, mask=column < width, other=-float("inf"))
        higher = tl.maximum(most, tl.max(value, 0))
        total = total * tl.exp(most - higher) + tl.sum(tl.exp(value - higher), 0)
        most = higher
    tl.store(loss + row, tl.log(total) + most - tl.load(logits + row * width + target))


@triton.jit
def debugging(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.device_print("value", value, n)
    tl.device_assert(value < n, "too large")
    tl.debug_barrier()
    tl.store(x + at, value)


@triton.jit
def assembly(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise(
        "{ .reg .b32 t; prmt.b32 t, $1, $1, 0x0123; add.u32 $0, t, 1; }", "=r,r", [tl.load(x + at)],
        dtype=tl.int32, is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(out + at, value)


@triton.jit(noinline=True)
def _kept(x, y):
    return x * y + 1


@triton.jit
def calls(x, out):
    tl.store(out, _kept(tl.load(x), _kept(tl.load(out), 3.0)))


@triton.jit
def control(x, out, n, flag):
    total = 0
    i = 0
    while i < n:
        value = tl.load(x + i)
        if value > 0:
            total += value
        elif flag:
            total -= 1
        else:
            total = total * 2
        i += 1
    if flag and n > 5:
        return
    tl.store(out, total)


@triton.jit
def tensor_copy(x, out, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [B, B])
    at = tl.program_id(0) * B
    target.store([at, 0], source.load([at, 0]))
    target.atomic_add([at, 0], source.load([at, B]))


@triton.jit
def grouped(sizes, pointers, out, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(count):
        base = tl.load(pointers + i).to(tl.pointer_type(tl.float16))
        tl.atomic_add(out + at, tl.load(base + at, mask=at < tl.load(sizes + i), other=0.0).to(tl.float32))
