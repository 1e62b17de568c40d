"""Kernels in Triton whose tiles come and go by tensor maps that the host made: roles of warps, scales, pairs of CTAs."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([column, k]).T, total)
    c.store([row, column], total.to(c.dtype))


@triton.jit
def attention(
    q, k, v, out, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, SPECIAL: tl.constexpr
):
    row = tl.program_id(0) * BM
    query = q.load([row, 0])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    result = tl.zeros([BM, D], tl.float32)
    for start in tl.range(0, n, BN, warp_specialize=SPECIAL):
        scores = tl.dot(query, k.load([start, 0]).T) * scale
        higher = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        keep = tl.exp2(most - higher)
        total = total * keep + tl.sum(weights, 1)
        result = tl.dot(weights.to(tl.float16), v.load([start, 0]), result * keep[:, None])
        most = higher
    out.store([row, 0], (result / total[:, None]).to(out.dtype))


@triton.jit
def fours(a, a_scale, b, b_scale, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two elements of four bits in each byte, a scale for 32 of them, with the tensor core's order of scales."""
    total = tl.zeros((BM, BN), tl.float32)
    at = tl.arange(0, BM * BK // 32)
    for k in range(0, K, BK):
        left = (
            tl.load(a_scale + k // 32 * BM + at)
            .reshape(BK // 128, 32, 4, 4)
            .trans(2, 1, 0, 3)
            .reshape(BM, BK // 32)
        )
        right = (
            tl.load(b_scale + k // 32 * BN + at)
            .reshape(BK // 128, 32, 4, 4)
            .trans(2, 1, 0, 3)
            .reshape(BN, BK // 32)
        )
        total = tl.dot_scaled(a.load([0, k // 2]), left, "e2m1", b.load([0, k // 2]).T, right, "e2m1", total)
    c.store([0, 0], total)
