"""The rows of ``hopper.py`` on fp8 with scales of blocks: one product, groups and masked slabs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from _deepgemm import BLOCK, CONTIGUOUS, MASKED, NORMAL, Problem, deepgemm
from _examples import load_example
from _rows import Composed, Row

from pyptx import e4m3

__all__ = ["BLOCKS", "blocks_row"]

#: Options for many rows: tiles and clusters, products ahead of promotions, the second warpgroup half a period
#: later, a deeper ring.
MANY: tuple[dict[str, Any], ...] = (
    {"tile": (256, 128), "cluster": (1, 2)},
    {"tile": (256, 128), "cluster": (1, 2), "stagger": True},
    {"tile": (256, 128), "cluster": (1, 2), "stages": 4, "staging": 1},
    {"tile": (256, 128), "cluster": (1, 2), "stages": 4, "staging": 1, "stagger": True},
    {"tile": (256, 96), "cluster": (1, 2), "ahead": True},
    {"tile": (128, 128), "cluster": (1, 1), "ahead": True},
    {"tile": (128, 128), "cluster": (2, 1), "ahead": True},
    {"tile": (256, 128), "cluster": (1, 1)},
    {"tile": (256, 128), "cluster": (2, 1)},
    {"tile": (192, 128), "cluster": (1, 2)},
    {"tile": (128, 192), "cluster": (2, 1)},
    {"tile": (128, 192), "cluster": (2, 1), "stagger": True},
    {"tile": (128, 128), "cluster": (2, 1)},
    {"tile": (128, 128), "cluster": (1, 1)},
)
#: Options for up to 128 rows: tiles for all SMs, products ahead of promotions, depths of the ring, parts of
#: K, two CTAs on an SM, clusters.
FEW: tuple[dict[str, Any], ...] = (
    {"tile": (64, 64), "cluster": (1, 1)},
    {"tile": (64, 64), "cluster": (1, 1), "ahead": True},
    {"tile": (64, 112), "cluster": (1, 1), "ahead": True},
    {"tile": (64, 128), "cluster": (1, 1), "ahead": True},
    {"tile": (64, 64), "cluster": (1, 1), "stages": 8},
    {"tile": (64, 64), "cluster": (1, 1), "ahead": True, "hints": {}},
    {"tile": (64, 64), "cluster": (2, 1)},
    {"tile": (64, 64), "split": 2, "resident": 2},
    {"tile": (128, 64), "split": 2},
    {"tile": (64, 128), "split": 2},
    {"tile": (128, 32), "cluster": (1, 1)},
    {"tile": (64, 32), "resident": 2},
    {"tile": (64, 112), "cluster": (1, 1)},
    {"tile": (128, 64), "cluster": (1, 4)},
    {"tile": (128, 48), "cluster": (1, 4)},
)
GROUPS: tuple[dict[str, Any], ...] = (
    {"tile": (192, 128), "cluster": (1, 1)},
    {"tile": (192, 128), "cluster": (1, 2)},
    {"tile": (128, 192), "cluster": (1, 1)},
    {"tile": (128, 192), "cluster": (1, 1), "stagger": True},
    {"tile": (128, 192), "cluster": (1, 2)},
    {"tile": (128, 192), "cluster": (1, 2), "stagger": True},
    {"tile": (128, 192), "cluster": (2, 1)},
    {"tile": (128, 128), "cluster": (1, 2)},
    {"tile": (128, 128), "cluster": (1, 1), "ahead": True},
    {"tile": (128, 128), "cluster": (1, 2), "ahead": True},
    {"tile": (256, 128), "cluster": (1, 2)},
)
FEW_OF_EACH: tuple[dict[str, Any], ...] = (
    {"tile": (64, 128), "cluster": (1, 1), "ahead": True},
    {"tile": (64, 128), "cluster": (1, 1)},
    {"tile": (64, 128), "cluster": (1, 2)},
    {"tile": (64, 64), "cluster": (1, 2)},
    {"tile": (64, 192), "cluster": (1, 2)},
    {"tile": (128, 64), "cluster": (1, 2)},
    {"tile": (128, 128), "cluster": (1, 2)},
)
LARGEST = 448.0  # of e4m3


def quantized(torch: Any, x: Any, rows: int) -> tuple[Any, Any]:
    """Return ``x[..., R, K]`` as e4m3, and the f32 scales ``[..., R / rows, K / 128]`` of its blocks."""
    *front, R, K = x.shape
    blocks = x.view(*front, R // rows, rows, K // BLOCK, BLOCK)
    scales = blocks.abs().amax(dim=(-3, -1), keepdim=True).float() / LARGEST
    narrow = (blocks / scales).to(torch.float8_e4m3fn).view(x.shape)
    return narrow, scales[..., 0, :, 0]


def widened(x: Any, scales: Any, rows: int) -> Any:
    """Return the f32 numbers that :func:`quantized` stands for."""
    return x.float() * scales.repeat_interleave(rows, -2).repeat_interleave(BLOCK, -1)


def _build(problem: Problem, **options: Any) -> Any:
    if problem.kind == "normal":
        build = load_example("hopper/gemm_blockwise.py").build_gemm_blockwise
        return build(problem.M, problem.N, problem.K, **options)
    return load_example("hopper/grouped_gemm.py").build_grouped_gemm(
        problem.groups,
        problem.N,
        problem.K,
        M=problem.M,
        layout=problem.kind,
        a_type=e4m3,
        scales_major="M",
        **options,
    )


def _ours(problem: Problem, **options: Any) -> Any:
    """Return our kernel as a function of what :func:`_inputs` makes."""
    kernel = _build(problem, **options)
    if problem.kind == "normal":
        return kernel
    return Composed(
        lambda a, b, scales_a, scales_b, sizes, _: problem.defined(kernel(a, b, scales_a, scales_b, sizes)),
        [(kernel, {})],
    )


def _options(problem: Problem) -> tuple[dict[str, Any], ...]:
    """Return options to compare; of groups of few rows the first ones are those that the row uses."""
    if problem.kind == "normal":
        return FEW if problem.M <= BLOCK else MANY
    return FEW_OF_EACH if problem.kind == "masked" and problem.expected <= 64 else GROUPS


def _chosen(problem: Problem) -> Any:
    return _ours(problem, **(FEW_OF_EACH[0] if _options(problem) is FEW_OF_EACH else {}))


def _candidates(problem: Problem) -> dict[str, Any]:
    return {
        " ".join(
            str(value) if name in ("tile", "cluster") else f"{name}={value}" for name, value in given.items()
        ): (_ours(problem, **given))
        for given in _options(problem)
    }


def _rivals(problem: Problem, torch: Any) -> dict[str, Callable[..., Any]]:
    """Return DeepGEMM and torch, each if it is there; torch has one product only."""
    found = deepgemm(torch, problem)
    if problem.kind != "normal":

        def grouped(function: Callable[..., Any]) -> Callable[..., Any]:
            # The library wants each row's group instead of where the groups end.
            return lambda a, b, scales_a, scales_b, sizes, layout: problem.defined(
                function(a, b, scales_a, scales_b, layout)
            )

        return {name: grouped(function) for name, function in found.items()}

    def library(a: Any, b: Any, scales_a: Any, scales_b: Any) -> Any:
        return torch._scaled_mm(a, b.T, scale_a=scales_a.T, scale_b=scales_b.T, out_dtype=torch.bfloat16)

    try:
        library(*_zeros(problem, torch))
    except RuntimeError:  # this torch, or its cuBLAS, does not take scales of blocks
        return found
    return {"torch._scaled_mm": library} | found


def _zeros(problem: Problem, torch: Any) -> tuple[Any, ...]:
    """Return operands of one product and their scales, all zero."""
    M, N, blocks = problem.M, problem.N, problem.K // BLOCK
    narrow = (torch.zeros(rows, problem.K, device="cuda").to(torch.float8_e4m3fn) for rows in (M, N))
    return *narrow, *(torch.zeros(shape, device="cuda") for shape in ((blocks, M), (N // BLOCK, blocks)))


def _inputs(problem: Problem, torch: Any, copy: int) -> tuple[Any, ...]:
    """Return A, B and their scales; if grouped our sizes and DeepGEMM's as well."""
    torch.manual_seed(copy)
    slabs = (problem.groups,) if problem.kind == "masked" else ()
    grouped = () if problem.kind == "normal" else (problem.groups,)
    a, scales_a = quantized(torch, torch.randn(*slabs, problem.M, problem.K, device="cuda"), 1)
    b, scales_b = quantized(torch, torch.randn(*grouped, problem.N, problem.K, device="cuda"), BLOCK)
    given = a, b, scales_a.transpose(-1, -2).contiguous(), scales_b.contiguous()
    if problem.kind == "normal":
        return given
    sizes = torch.tensor(problem.sizes, dtype=torch.int32, device="cuda")
    if problem.kind == "masked":
        return *given, sizes, sizes
    groups = torch.arange(problem.groups, dtype=torch.int32, device="cuda")
    return *given, sizes.cumsum(0).to(torch.int32), groups.repeat_interleave(sizes.long())


def reference(problem: Problem, a: Any, b: Any, scales_a: Any, scales_b: Any, *sizes: Any) -> Any:
    """Return the product of the numbers that the operands stand for, in f32; of masked slabs a list."""
    scales_a = scales_a.transpose(-1, -2)
    if problem.kind == "normal":
        return widened(a, scales_a, 1) @ widened(b, scales_b, BLOCK).T
    counts = problem.sizes
    if problem.kind == "masked":
        parts = [(x[:count], scales[:count]) for x, scales, count in zip(a, scales_a, counts, strict=True)]
    else:
        parts = list(zip(a.split(counts), scales_a.split(counts), strict=True))
    products = [
        widened(x, scales, 1) @ widened(weights, of_weights, BLOCK).T
        for (x, scales), weights, of_weights in zip(parts, b, scales_b, strict=True)
    ]
    if problem.kind == "masked":
        return products
    import torch

    return torch.cat(products)


def blocks_row(problem: Problem) -> Row:
    """Return the row of a product of e4m3 with scales of blocks."""
    sizes = f"{problem.M}x{problem.N}x{problem.K}"
    names = {
        "normal": f"fp8 blocks {sizes}",
        "contiguous": f"fp8 blocks, {problem.groups} groups, {sizes}",
        "masked": f"fp8 blocks, {problem.groups} masked of {problem.expected}, {sizes}",
    }
    rows = sum(problem.sizes) if problem.kind == "masked" else problem.M
    return Row(
        name=names[problem.kind],
        group="fp8-blocks" if problem.kind == "normal" else "grouped-fp8",
        ours=partial(_chosen, problem),
        candidates=partial(_candidates, problem),
        rivals=partial(_rivals, problem),
        inputs=partial(_inputs, problem),
        reference=partial(reference, problem),
        rtol=2.0**-7,
        atol=2.0**-9 * problem.K**0.5,
        flops=2.0 * rows * problem.N * problem.K,
        target=1.0,
    )


def _rows() -> Iterator[Row]:
    yield from map(blocks_row, NORMAL + CONTIGUOUS + MASKED)


BLOCKS = list(_rows())
