"""Products in Triton with many tiles: which layouts and instructions its compiler chooses for them.

A library for ``collect run``, of the kernels of :mod:`tests.libraries.triton_random`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from tests.libraries._triton_driver import kernel
from tests.libraries.launches import Kernel
from tests.libraries.triton_random import _described, _product

__all__ = ["kernels"]

_NAMES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}


@gluon.jit
def _pair(a, b, c, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """A times B^T by two CTAs, each with half of the rows of A and of B, in the layouts that the compiler prefers."""
    rows_of: gl.constexpr = [[1, 0]]
    layout_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.bfloat16, cga_layout=rows_of)
    layout_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BN, BK], gl.bfloat16, cga_layout=rows_of)
    left = tma.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK], layout_a)
    right = tma.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK], layout_b)
    x = gl.allocate_shared_memory(gl.bfloat16, [BM, BK], layout_a)
    y = gl.allocate_shared_memory(gl.bfloat16, [BN, BK], layout_b)
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
        tma.async_load(right, [gl.program_id(1) * BN, k], loaded, y)
        mbarrier.wait(loaded, phase, deps=[x, y])
        blackwell.tcgen05_mma(x, y.permute((1, 0)), total, use_acc=k != 0, mbarriers=[done])
        mbarrier.wait(done, phase, deps=[x, y])
        phase ^= 1
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0], cga_layout=rows_of)
    rows = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, tile))
    columns = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, tile))
    gl.store(c + rows[:, None] * N + columns[None, :], gl.convert_layout(total.load(), tile))


def _by_a_pair(bn: int, bk: int) -> None:
    m, n, k = 256, 2 * bn, 3 * bk
    a, b = torch.randn(m, k).to(torch.bfloat16), torch.randn(n, k).to(torch.bfloat16)
    c = torch.zeros((m, n), dtype=torch.float32)
    _pair[(m // 256, n // bn)](a, b, c, m, n, k, BM=256, BN=bn, BK=bk, num_warps=4, num_ctas=2)
    _near(c, a, b.T)


def _near(found: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(found.double(), a.double() @ b.double(), atol=6e-2, rtol=6e-2)


def _by_tma(dtype: torch.dtype, out: torch.dtype, bm: int, bn: int, bk: int) -> None:
    m, n, k = 2 * bm, 2 * bn, 3 * bk
    a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    c = torch.zeros((m, n), dtype=out)
    _described[(2,)](a, b, c, m, n, k, BM=bm, BN=bn, BK=bk, STAGES=2, ROLES=False, num_warps=4)
    _near(c, a, b.T)


def _by_pointers(dtype: torch.dtype, bm: int, bn: int, bk: int, turned: bool, stages: int) -> None:
    m, n, k = bm + 16, bn + 16, 3 * bk
    a = torch.randn(m, k).to(dtype)
    b = torch.randn(k, n).to(dtype) if turned else torch.randn(n, k).to(dtype).T
    c = torch.zeros((m, n), dtype=torch.float32)
    grid = (triton.cdiv(m, bm), triton.cdiv(n, bn))
    _product[grid](
        a, b, c, m, n, k, *a.stride(), *b.stride(), BM=bm, BN=bn, BK=bk, ACC=tl.float32, RELU=False,
        STAGES=stages, ROLES=False, num_warps=4, num_ctas=1,
    )  # fmt: skip
    _near(c, a, b)


def kernels(source: Path | None) -> Iterator[Kernel]:
    """Yield products by tensor copies and by pointers."""
    for bk, bn, dtype in itertools.product((32, 64, 16), (64, 128, 256), (torch.float16, torch.bfloat16)):
        for out in (dtype, torch.float32):
            name = f"by TMA {_NAMES[dtype]} to {_NAMES[out]} 128x{bn}x{bk}"
            yield kernel(name, 100, partial(_by_tma, dtype, out, 128, bn, bk))
    for bn, bk in itertools.product((64, 128, 256), (32, 64)):
        yield kernel(f"by a pair bf16 256x{bn}x{bk}", 100, partial(_by_a_pair, bn, bk))
    for bk, bn, dtype, turned in itertools.product(
        (32, 64), (64, 128, 256), (torch.float16, torch.float32), (False, True)
    ):
        name = f"by pointers {_NAMES[dtype]} 128x{bn}x{bk}{' row-major' if turned else ''}"
        yield kernel(name, 100, partial(_by_pointers, dtype, 128, bn, bk, turned, 3))
