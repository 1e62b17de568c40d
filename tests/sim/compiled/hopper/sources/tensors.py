"""Kernels in Triton that use Hopper's engines: tensor descriptors of both kinds, products of warpgroups, clusters."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(a, b, d, depth, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIAL: tl.constexpr):
    """Descriptors that the host makes. With SPECIAL one warpgroup loads and another multiplies."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, depth, BK, warp_specialize=SPECIAL):
        total = tl.dot(a.load([row, k]), b.load([column, k]).T, total)
    d.store([row, column], total.to(d.dtype))


@triton.jit
def persistent_product(
    a, b, d, m, n, depth, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr
):
    """Descriptors made on the device; every program has several tiles, written in two halves."""
    left = tl.make_tensor_descriptor(a, [m, depth], [depth, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [depth, n], [n, 1], [BK, BN])
    result = tl.make_tensor_descriptor(d, [m, n], [n, 1], [BM, BN // 2])
    across = tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BM) * across, PROGRAMS, flatten=True):
        row, column = tile // across * BM, tile % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, depth, BK):
            total = tl.dot(left.load([row, k]), right.load([k, column]), total)
        low, high = tl.split(tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1)))
        result.store([row, column], low.to(d.dtype.element_ty))
        result.store([row, column + BN // 2], high.to(d.dtype.element_ty))


@triton.jit
def eights(a, b, d, depth, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Products of eights whose sums are added up in f32 after every 64 of K."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, depth, BK):
        total = tl.dot(a.load([row, k]), b.load([column, k]).T, total, max_num_imprecise_acc=64)
    d.store([row, column], total.to(tl.float16))


@triton.jit
def bytes_and_bias(a, b, bias, d, depth, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.int32)
    for k in range(0, depth, BK):
        total = tl.dot(a.load([row, k]), b.load([column, k]).T, total)
    total += tl.load(bias + column + tl.arange(0, BN))[None, :]
    d.store([row, column], tl.maximum(total, 0))


@triton.jit
def attention(q, k, v, out, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(0) * BM
    query = q.load([start, 0])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    result = tl.zeros([BM, D], tl.float32)
    for at in range(0, n, BN):
        scores = tl.dot(query, k.load([at, 0]).T) * scale
        higher = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        keep = tl.exp2(most - higher)
        total = total * keep + tl.sum(weights, 1)
        result = tl.dot(weights.to(tl.float16), v.load([at, 0]), result * keep[:, None])
        most = higher
    out.store([start, 0], (result / total[:, None]).to(tl.float16))


@triton.jit
def groups(rows, a, b, d, depth, count, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Products of several sizes: a descriptor for each group, made when its turn comes."""
    start = 0
    for group in range(count):
        here = tl.load(rows + group)
        left = tl.make_tensor_descriptor(a + start * depth, [here, depth], [depth, 1], [BM, BK])
        right = tl.make_tensor_descriptor(b + group * BN * depth, [BN, depth], [depth, 1], [BN, BK])
        result = tl.make_tensor_descriptor(d + start * BN, [here, BN], [BN, 1], [BM, BN])
        for row in range(tl.program_id(0) * BM, here, tl.num_programs(0) * BM):
            total = tl.zeros((BM, BN), tl.float32)
            for k in range(0, depth, BK):
                total = tl.dot(left.load([row, k]), right.load([0, k]).T, total)
            result.store([row, 0], total.to(d.dtype.element_ty))
        start += here


@triton.jit
def reductions(x, least, most, sums, bits, B: tl.constexpr):
    """Tiles that the engine joins to what is in memory."""
    at = tl.program_id(0) * B
    value = x.load([at, 0])
    least.atomic_min([0, 0], value)
    most.atomic_max([0, 0], value)
    sums.atomic_add([0, 0], value)
    bits.atomic_xor([0, 0], value)


@triton.jit
def softmax(x, out, width, BLOCK: tl.constexpr):
    """A row over the CTAs of a cluster (num_ctas)."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * width + at, mask=at < width, other=-float("inf"))
    weights = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * width + at, weights / tl.sum(weights, 0), mask=at < width)
