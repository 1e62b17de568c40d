"""FlashAttention 3 (for sm_90a) and 4 (for sm_100a) in CuTe DSL: ``flash_attn.cute``.

Source: a checkout of github.com/Dao-AILab/flash-attention, and beside it, in a folder called ``quack``, one of
github.com/Dao-AILab/quack, whose helpers it uses. To be installed: what :mod:`tests.libraries.cute_dsl` names.
Results are compared with torch on the CPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from tests.libraries.cute.process import kernel
from tests.libraries.launches import Kernel

__all__ = ["kernels"]


class _Case(NamedTuple):
    """One call: extents, and the options of the function."""

    queries: int
    keys: int
    heads: int = 2
    key_heads: int = 2
    width: int = 64
    causal: bool = False
    window: tuple[int | None, int | None] = (None, None)
    splits: int = 1
    backward: bool = False

    def __str__(self) -> str:
        given = (
            f"{name}={value}"
            for name, value in self._asdict().items()
            if value != _Case(0, 0)._asdict()[name]
        )
        return " ".join(given)


_CASES = (
    _Case(128, 256),
    _Case(200, 200, causal=True),
    _Case(128, 128, heads=4, key_heads=1, width=128),
    _Case(256, 256, heads=1, key_heads=1, width=128, window=(64, 0)),
    _Case(128, 128, heads=1, key_heads=1, backward=True),
    _Case(128, 256, heads=1, key_heads=1, causal=True, backward=True),
)
_SPLIT = _Case(64, 512, heads=1, key_heads=1, splits=2)


def kernels(source: Path | None) -> Iterator[Kernel]:
    """Yield each case for each architecture; only sm_100a splits the keys."""
    if source is None:
        raise ValueError("flash_attention needs --source: a checkout of Dao-AILab/flash-attention")
    for arch in ("sm_90a", "sm_100a"):
        for case in (*_CASES, _SPLIT) if arch == "sm_100a" else _CASES:
            yield kernel(f"{arch} {case}", arch, partial(_main, source.resolve(), case))


def _main(source: Path, case: _Case) -> None:
    os.environ["QUACK_CACHE_ENABLED"] = "0"  # a compiled file has none of the changes to the DSL
    sys.path[:0] = [str(source), str(source.parent / "quack")]
    from flash_attn.cute.interface import flash_attn_func

    torch.manual_seed(0)
    shapes = (case.queries, case.heads), (case.keys, case.key_heads), (case.keys, case.key_heads)
    q, k, v = (
        torch.randn(1, length, heads, case.width).to(torch.bfloat16).requires_grad_(case.backward)
        for length, heads in shapes
    )
    found = flash_attn_func(q, k, v, causal=case.causal, window_size=case.window, num_splits=case.splits)
    out = found[0] if isinstance(found, tuple) else found
    expected, inputs = _reference(q, k, v, case)
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)
    if case.backward:
        gradient = torch.randn_like(out)
        out.backward(gradient)
        expected.backward(gradient.float())
        for tensor, reference in zip((q, k, v), inputs, strict=True):
            torch.testing.assert_close(tensor.grad.float(), reference.grad, atol=4e-2, rtol=4e-2)


def _reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, case: _Case
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Attention in float32, and the float32 inputs that it was computed from."""
    inputs = tuple(x.detach().float().requires_grad_(case.backward) for x in (q, k, v))
    repeated = case.heads // case.key_heads
    query, key, value = inputs[0], *(x.repeat_interleave(repeated, dim=2) for x in inputs[1:])
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * case.width**-0.5
    distance = torch.arange(case.keys) - torch.arange(case.queries)[:, None] - (case.keys - case.queries)
    left, right = case.window
    if case.causal or right is not None:
        scores = scores.masked_fill(distance > (0 if case.causal else right), float("-inf"))
    if left is not None:
        scores = scores.masked_fill(distance < -left, float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value), inputs
