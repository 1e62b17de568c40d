"""Grouped products of ``hopper.py``, in bf16."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from _deepgemm import BF16, Problem, deepgemm
from _examples import load_example
from _rows import Composed, Row

__all__ = ["GROUPED"]

#: Rows of the groups, N, K and the target: equal groups, and ragged ones with the same sum.
PROBLEMS = {
    "equal": ((1024,) * 8, 4096, 4096, 1.03),
    "ragged": ((137, 2303, 12, 1024, 511, 1800, 1, 2404), 4096, 4096, 1.10),
}
#: The fastest options on an H200.
WHOLE = {"deferred": True}
ANY = {"tile": (64, 256), "deferred": True}  # masked groups: smaller tiles waste fewer rows
CHOSEN = {"equal": WHOLE | {"narrow": 208}, "ragged": WHOLE | {"narrow": 216}}


def _build(counts: tuple[int, ...], N: int, K: int, **options: Any) -> Any:
    return load_example("hopper/grouped_gemm.py").build_grouped_gemm(
        len(counts), N, K, M=sum(counts), **options
    )


def _masked(problem: Problem, **options: Any) -> Composed:
    """Return the kernel of masked slabs as a function that returns the rows that the groups have."""
    build = load_example("hopper/grouped_gemm.py").build_grouped_gemm
    kernel = build(problem.groups, problem.N, problem.K, M=problem.M, layout="masked", **options)
    return Composed(partial(_defined, problem, kernel), [(kernel, {})])


def _candidates(build: Callable[..., Any]) -> dict[str, Any]:
    return {
        f"{tile} {cluster}{' deferred' * deferred}": build(tile=tile, cluster=cluster, deferred=deferred)
        for tile in ((128, 256), (256, 128), (128, 128), (64, 256))
        for cluster in ((1, 1), (1, 2), (2, 1))
        for deferred in (False, True)
    }


def _library(counts: tuple[int, ...], N: int, K: int, torch: Any) -> dict[str, Callable[..., Any]]:
    found = {"torch._grouped_mm": lambda a, b, ends: torch._grouped_mm(a, b.transpose(1, 2), offs=ends)}
    problem = Problem("contiguous", sum(counts), N, K, len(counts), element="bf16")
    if problem in BF16 and not any(size % 128 for size in counts):
        # It takes each row's group instead of where the groups end, and groups of whole tiles only.
        groups = torch.arange(len(counts), dtype=torch.int32, device="cuda")
        layout = groups.repeat_interleave(torch.tensor(counts, device="cuda"))
        for name, function in deepgemm(torch, problem).items():
            found[name] = partial(_by_row, function, layout)
    return found


def _by_row(function: Callable[..., Any], layout: Any, a: Any, b: Any, ends: Any) -> Any:
    return function(a, b, layout)


def _masked_library(problem: Problem, torch: Any) -> dict[str, Callable[..., Any]]:
    found = deepgemm(torch, problem)
    return {name: partial(_defined, problem, function) for name, function in found.items()}


def _defined(problem: Problem, function: Callable[..., Any], *given: Any) -> Any:
    return problem.defined(function(*given))


def _reference(a: Any, b: Any, ends: Any) -> Any:
    import torch

    bounds = itertools.pairwise([0, *ends.tolist()])
    parts = [a[low:high].float() @ b[i].float().T for i, (low, high) in enumerate(bounds)]
    return torch.cat(parts)


def _masked_row(problem: Problem) -> Row:
    def inputs(torch: Any, copy: int) -> tuple[Any, Any, Any]:
        torch.manual_seed(copy)
        shapes = (problem.groups, problem.M, problem.K), (problem.groups, problem.N, problem.K)
        a, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
        return a, b, torch.tensor(problem.sizes, dtype=torch.int32, device="cuda")

    def reference(a: Any, b: Any, sizes: Any) -> list[Any]:
        return [
            x[:size].float() @ weights.float().T
            for x, weights, size in zip(a, b, sizes.tolist(), strict=True)
        ]

    M, N, K = problem.M, problem.N, problem.K
    return Row(
        name=f"grouped masked, {problem.groups} of {problem.expected}, {M}x{N}x{K}",
        group="grouped",
        ours=partial(_masked, problem, **ANY),
        candidates=partial(_candidates, partial(_masked, problem)),
        rivals=partial(_masked_library, problem),
        inputs=inputs,
        reference=reference,
        rtol=2.0**-7,
        atol=1e-5 * K,
        flops=2.0 * sum(problem.sizes) * N * K,
        target=1.0,
    )


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
            ours=partial(_build, counts, N, K, **CHOSEN[name]),
            candidates=partial(_candidates, partial(_build, counts, N, K)),
            rivals=partial(_library, counts, N, K),
            inputs=inputs,
            reference=_reference,
            rtol=2.0**-7,
            atol=1e-5 * K,
            flops=2.0 * sum(counts) * N * K,
            target=target,
        )
    yield from (_masked_row(problem) for problem in BF16 if problem.kind == "masked")


GROUPED = list(_rows())
