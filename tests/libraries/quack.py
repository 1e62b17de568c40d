"""Kernels of quack: normalizations, softmax, cross entropy, top-k, rotary embeddings and GEMMs.

Source: a checkout of github.com/Dao-AILab/quack. To be installed: what :mod:`tests.libraries.cute_dsl` names.
Results are compared with torch on the CPU. The GEMMs with an activation are not here: they need version 4.7.0 of
the DSL.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from tests.libraries.cute.process import kernel
from tests.libraries.launches import Kernel

__all__ = ["kernels"]


def kernels(source: Path | None) -> Iterator[Kernel]:
    """Yield one kernel for each function and architecture."""
    if source is None:
        raise ValueError("quack needs --source: a checkout of Dao-AILab/quack")
    for arch in ("sm_90a", "sm_100a"):
        for run in (_rmsnorm, _rmsnorm_backward, _layernorm, _softmax, _cross_entropy, _topk, _rotary):
            yield kernel(f"{run.__name__[1:]} {arch}", arch, partial(_main, source.resolve(), run))
        for run in (_gemm, _gemm_batched, _gemm_add, _gemm_symmetric):
            yield kernel(f"{run.__name__[1:]} {arch}", arch, partial(_main, source.resolve(), run))


def _main(source: Path, run: Callable[[], None]) -> None:
    os.environ["QUACK_CACHE_ENABLED"] = "0"  # a compiled file has none of the changes to the DSL
    sys.path.insert(0, str(source))
    torch.manual_seed(0)
    run()


def _random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float32).to(dtype)


def _close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-2) -> None:
    torch.testing.assert_close(found.float(), expected.float(), atol=tolerance, rtol=tolerance)


def _rmsnorm() -> None:
    from quack.rmsnorm import rmsnorm_fwd

    x, weight, residual = _random(24, 1024), _random(1024, dtype=torch.float32), _random(24, 1024)
    out, total, rstd = rmsnorm_fwd(x, weight, residual=residual, store_rstd=True)
    sum_ = x.float() + residual.float()
    expected = torch.rsqrt(sum_.square().mean(-1) + 1e-6)
    _close(total, sum_)
    _close(rstd, expected, 1e-4)
    _close(out, sum_ * expected[:, None] * weight)


def _rmsnorm_backward() -> None:
    from quack.rmsnorm import rmsnorm_bwd

    x, weight, dout = _random(24, 1024), _random(1024, dtype=torch.float32), _random(24, 1024)
    rstd = torch.rsqrt(x.float().square().mean(-1) + 1e-6)
    dx, dweight = rmsnorm_bwd(x, weight, dout, rstd)[:2]
    normal = x.float() * rstd[:, None]
    scaled = dout.float() * weight
    _close(dx, (scaled - normal * (normal * scaled).mean(-1, keepdim=True)) * rstd[:, None])
    _close(dweight, (dout.float() * normal).sum(0))


def _layernorm() -> None:
    from quack.rmsnorm import layernorm_fwd

    x, weight = _random(16, 2048), _random(2048, dtype=torch.float32)
    _close(layernorm_fwd(x, weight), torch.nn.functional.layer_norm(x.float(), (2048,), weight, eps=1e-6))


def _softmax() -> None:
    from quack.softmax import softmax_bwd, softmax_fwd

    x, dy = _random(16, 2048, dtype=torch.float32), _random(16, 2048, dtype=torch.float32)
    y = softmax_fwd(x)
    _close(y, torch.softmax(x, -1), 1e-5)
    _close(softmax_bwd(dy, y), y * (dy - (y * dy).sum(-1, keepdim=True)), 1e-5)


def _cross_entropy() -> None:
    from quack.cross_entropy import cross_entropy_bwd, cross_entropy_fwd

    x, dloss = _random(16, 2048, dtype=torch.float32), _random(16, dtype=torch.float32)
    target = torch.randint(0, 2048, (16,))
    loss, lse = cross_entropy_fwd(x, target, return_lse=True)
    _close(loss, torch.nn.functional.cross_entropy(x, target, reduction="none"), 1e-4)
    _close(lse, torch.logsumexp(x, -1), 1e-4)
    expected = (torch.softmax(x, -1) - torch.nn.functional.one_hot(target, 2048)) * dloss[:, None]
    _close(cross_entropy_bwd(x, target, dloss, lse), expected, 1e-5)


def _topk() -> None:
    from quack.topk import topk_fwd

    x = torch.randperm(16 * 256).view(16, 256).float()
    values, indices = topk_fwd(x, 16)
    expected = x.topk(16, dim=-1)
    _close(values, expected.values, 0)
    assert torch.equal(indices.long(), expected.indices)


def _rotary() -> None:
    from quack.rotary import apply_rotary

    x, angle = _random(1, 32, 2, 64, dtype=torch.float32), _random(32, 32, dtype=torch.float32)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    first, second = x[..., :32], x[..., 32:]
    expected = torch.cat((first * cos - second * sin, first * sin + second * cos), -1)
    _close(apply_rotary(x, angle.cos(), angle.sin()), expected, 1e-5)


def _operands(*batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A and B, of which the function takes the transpose, so that both are K-major."""
    return _random(*batch, 256, 128) / 8, _random(*batch, 192, 128) / 8


def _gemm() -> None:
    from quack.gemm_interface import gemm

    a, b = _operands()
    _close(gemm(a, b.mT, tuned=False), a.float() @ b.float().mT)


def _gemm_batched() -> None:
    from quack.gemm_interface import gemm

    a, b = _operands(2)
    _close(gemm(a, b.mT, tuned=False, dynamic_scheduler=True), a.float() @ b.float().mT)


def _gemm_add() -> None:
    from quack.gemm_interface import gemm_add

    a, b = _operands()
    c = _random(256, 192)
    _close(gemm_add(a, b.mT, c, tuned=False), a.float() @ b.float().mT + c.float())


def _gemm_symmetric() -> None:
    from quack.gemm_interface import gemm_symmetric

    a = _random(1, 256, 128) / 8
    _close(gemm_symmetric(a, a.mT), a.float() @ a.float().mT)
