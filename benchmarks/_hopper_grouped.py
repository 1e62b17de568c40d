"""Grouped and blockwise products of ``hopper.py``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from _examples import load_example
from _rows import Row

__all__ = ["GROUPED"]

#: Rows of the groups, N, K and the target: equal groups, and ragged ones with the same sum.
PROBLEMS = {
    "equal": ((1024,) * 8, 4096, 4096, 1.03),
    "ragged": ((137, 2303, 12, 1024, 511, 1800, 1, 2404), 4096, 4096, 1.10),
}


def _build(counts: tuple[int, ...], N: int, K: int, **options: Any) -> Any:
    return load_example("hopper/grouped_gemm.py").build_grouped_gemm(
        len(counts), N, K, M=sum(counts), **options
    )


def _candidates(counts: tuple[int, ...], N: int, K: int) -> dict[str, Any]:
    return {
        f"{tile} {cluster}{' deferred' * deferred}": _build(
            counts, N, K, tile=tile, cluster=cluster, deferred=deferred
        )
        for tile in ((128, 256), (256, 128), (128, 128), (64, 256))
        for cluster in ((1, 1), (1, 2), (2, 1))
        for deferred in (False, True)
    }


def _library(torch: Any) -> dict[str, Callable[..., Any]]:
    return {"torch._grouped_mm": lambda a, b, ends: torch._grouped_mm(a, b.transpose(1, 2), offs=ends)}


def _reference(a: Any, b: Any, ends: Any) -> Any:
    import torch

    bounds = itertools.pairwise([0, *ends.tolist()])
    parts = [a[low:high].float() @ b[i].float().T for i, (low, high) in enumerate(bounds)]
    return torch.cat(parts)


def _rows() -> Iterator[Row]:
    for name, (counts, N, K, target) in PROBLEMS.items():

        def inputs(
            torch: Any, copy: int, counts: tuple[int, ...] = counts, N: int = N, K: int = K
        ) -> tuple[Any, Any, Any]:
            torch.manual_seed(copy)
            a = torch.randn(sum(counts), K, device="cuda", dtype=torch.bfloat16)
            b = torch.randn(len(counts), N, K, device="cuda", dtype=torch.bfloat16)
            ends = torch.tensor(counts, device="cuda").cumsum(0).to(torch.int32)
            return a, b, ends

        yield Row(
            name=f"grouped {name}, {len(counts)} groups, {sum(counts)}x{N}x{K}",
            group="grouped",
            ours=partial(_build, counts, N, K),
            candidates=partial(_candidates, counts, N, K),
            rivals=_library,
            inputs=inputs,
            reference=_reference,
            rtol=2.0**-7,
            atol=1e-5 * K,
            flops=2.0 * sum(counts) * N * K,
            target=target,
        )


GROUPED = list(_rows())
