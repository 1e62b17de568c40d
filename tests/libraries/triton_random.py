"""Products and reductions in Triton with types, shapes, warps and stages drawn at random, for sm_90 and sm_100.

Needs no source; verified with triton 3.9.0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from tests.libraries._triton_driver import kernel
from tests.libraries.launches import Kernel

__all__ = ["kernels"]

_PRODUCTS = 24
_REDUCTIONS = 20

#: Type of the operands, and how far a product of depth 100 may be from the one in float64.
_TYPES = {
    torch.float16: 1e-2,
    torch.bfloat16: 6e-2,
    torch.float32: 3e-2,
    torch.float8_e5m2: 1e-2,
    torch.int8: 0.0,
}


@triton.jit
def _product(
    a, b, c, M, N, K, am, ak, bk, bn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr,
    RELU: tl.constexpr, STAGES: tl.constexpr, ROLES: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), ACC)
    for k in tl.range(0, K, BK, num_stages=STAGES, warp_specialize=ROLES):
        inside = k + depth < K
        left = tl.load(
            a + rows[:, None] * am + (k + depth)[None, :] * ak,
            mask=(rows[:, None] < M) & inside[None, :],
            other=0.0,
        )
        right = tl.load(
            b + (k + depth)[:, None] * bk + columns[None, :] * bn,
            mask=inside[:, None] & (columns[None, :] < N),
            other=0.0,
        )
        total = tl.dot(left, right, total, out_dtype=ACC)
    if RELU:
        total = tl.maximum(total, 0)
    tl.store(
        c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N)
    )


@triton.jit
def _described(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, ROLES: tl.constexpr,
):  # fmt: skip
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    result = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    down = tl.cdiv(M, BM)
    for tile in tl.range(tl.program_id(0), down * tl.cdiv(N, BN), tl.num_programs(0), warp_specialize=ROLES):
        row = (tile % down) * BM
        column = (tile // down) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, K, BK, num_stages=STAGES):
            total = tl.dot(left.load([row, k]), right.load([column, k]).T, total)
        result.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def _reduction(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr, AXIS: tl.constexpr, KIND: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    values = tl.load(x + rows[:, None] * N + columns[None, :], mask=inside, other=0)
    if KIND == "cumsum":
        tl.store(y + rows[:, None] * N + columns[None, :], tl.cumsum(values, AXIS), mask=inside)
    else:
        if KIND == "sum":
            found = tl.sum(values, AXIS)
        elif KIND == "max":
            found = tl.max(tl.where(inside, values, -1000), AXIS)
        elif KIND == "xor":
            found = tl.xor_sum(values, AXIS)
        else:
            found = tl.argmax(tl.where(inside, values, -1000), AXIS)
        if AXIS == 0:
            tl.store(y + columns, found, mask=columns < N)
        else:
            tl.store(y + rows, found, mask=rows < M)


def _values(draw: random.Random, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Return a tensor, or the transposed view of one."""
    flipped = draw.random() < 0.5
    shape = shape[::-1] if flipped else shape
    if dtype.is_floating_point:
        made = torch.randn(shape).clamp(-2, 2).to(dtype)
    else:
        made = torch.randint(-9, 9, shape).to(dtype)
    return made.T if flipped else made


def _multiply(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    dtype = draw.choice(list(_TYPES))
    least = 32 if dtype.itemsize == 1 else 16
    m, n, k = (draw.randrange(20, 200) for _ in range(3))
    block = {
        "BM": draw.choice([32, 64, 128]),
        "BN": draw.choice([32, 64, 128]),
        "BK": draw.choice([least, 64]),
    }
    a, b = _values(draw, dtype, m, k), _values(draw, dtype, k, n)
    whole = dtype is torch.int8
    c = torch.zeros((m, n), dtype=torch.int32 if whole else torch.float32)
    grid = (triton.cdiv(m, block["BM"]), triton.cdiv(n, block["BN"]))
    relu = draw.random() < 0.3
    _product[grid](
        a, b, c, m, n, k, *a.stride(), *b.stride(), **block, ACC=tl.int32 if whole else tl.float32, RELU=relu,
        STAGES=draw.choice([1, 2, 3, 4]), ROLES=False, num_warps=draw.choice([2, 4, 8]),
        num_ctas=1,
    )  # fmt: skip
    expected = a.double() @ b.double()
    expected = expected.relu() if relu else expected
    torch.testing.assert_close(c.double(), expected, atol=_TYPES[dtype], rtol=_TYPES[dtype])


def _multiply_tiles(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    dtype = draw.choice([torch.float16, torch.bfloat16, torch.float8_e5m2])
    m, n, k = (16 * draw.randrange(2, 20) for _ in range(3))
    a, b = torch.randn(m, k).clamp(-2, 2).to(dtype), torch.randn(n, k).clamp(-2, 2).to(dtype)
    c = torch.zeros((m, n), dtype=torch.float16)
    block = {"BM": draw.choice([64, 128]), "BN": draw.choice([64, 128]), "BK": draw.choice([32, 64, 128])}
    _described[(draw.choice([2, 5]),)](
        a, b, c, m, n, k, **block, STAGES=draw.choice([2, 3]), ROLES=draw.random() < 0.6, num_warps=4
    )
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, atol=2e-2, rtol=1e-2)


def _reduce(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    kind = draw.choice(["sum", "max", "xor", "argmax", "cumsum"])
    dtype = torch.int32 if kind == "xor" else draw.choice([torch.float32, torch.int32, torch.float16])
    bm, bn, axis = draw.choice([1, 4, 32, 64]), draw.choice([16, 64, 256]), draw.choice([0, 1])
    m, n = draw.randrange(bm // 2 + 1, bm + 1), draw.randrange(bn // 2 + 1, bn + 1)
    x = torch.randint(-99, 99, (m, n)).to(dtype)
    if kind == "argmax":
        x = torch.randperm(m * n).reshape(m, n).to(torch.float32)
    y = torch.zeros((m, n) if kind == "cumsum" else (n if axis == 0 else m), dtype=x.dtype)
    if kind == "argmax":
        y = y.to(torch.int32)
    _reduction[(1,)](x, y, m, n, BM=bm, BN=bn, AXIS=axis, KIND=kind, num_warps=draw.choice([1, 2, 4, 8]))
    expected = _expected(x, kind, axis)
    torch.testing.assert_close(y.double(), expected.double(), atol=0, rtol=1e-3)


def _expected(x: torch.Tensor, kind: str, axis: int) -> Any:
    if kind == "xor":
        found = torch.zeros_like(x.select(axis, 0))
        for each in x.unbind(axis):
            found = found ^ each
        return found
    if kind == "max":
        return x.amax(axis)
    return getattr(x.double(), kind)(axis)


def kernels(source: Path | None) -> Iterator[Kernel]:
    """The configurations, the same for each target."""
    for arch in (90, 100):
        for seed in range(_PRODUCTS):
            yield kernel(f"product {seed}", arch, partial(_multiply, seed))
            yield kernel(f"product of tiles {seed}", arch, partial(_multiply_tiles, seed))
        for seed in range(_REDUCTIONS):
            yield kernel(f"reduction {seed}", arch, partial(_reduce, seed))
