"""The GEMM's rows of ``hopper.py``: squares, what models multiply, 8-bit floats."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from _cublaslt import FastestProduct
from _examples import EXAMPLES, load_example
from _rows import Row

from pyptx import SpecError, e4m3

__all__ = ["GEMMS", "fp8_row", "gemm_row"]

SQUARES = {4096: 1.02, 6144: 1.02, 8192: 1.02, 16384: 1.05}
#: (N, K) of layers, and rows of tokens.
LAYERS = ((6144, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (7168, 18432))
TOKENS = (1, 64, 1024, 8192)
#: How many of the best options by arithmetic are measured, in a burst and sustained.
CANDIDATES = 16
#: Up to so many rows ``gemv.py`` multiplies.
FEW = 16
#: Up to so many rows, one row of tiles of ``gemm.py`` reads the weights once.
BAND = 64
SMS = 132
#: How many designs of such rows are measured: clusters, splits, CTAs on an SM, each with its best tile.
DESIGNS = 6
#: Warps, tiles, pieces in flight and resident CTAs to try for few rows.
FEW_CHOICES = (
    *((warps, 1, unroll, None) for warps in (8, 16, 32) for unroll in (4, 8)),
    (8, 1, 8, 4),
    (16, 1, 8, 2),
)


#: Warps, pieces of a warp in a chunk and resident CTAs of the ring to try for few rows.
RING_CHOICES = ((8, 4, 1), (8, 8, 1), (4, 4, 1), (16, 4, 1), (8, 4, 2), (4, 8, 2))
#: Threads of a row of weights, and CTAs for which an SM has registers, to try for one row.
ROW_CHOICES = ((64, 6), (128, 6), (128, 8), (128, 12), (256, 3), (256, 4), (512, 1), (512, 2))
#: The share of a sum's rate that a product of one row is to reach, whose weights no cache holds.
READ = 0.92
#: Bytes of weights through which such runs rotate.
ROTATED = 4e8


def _gemm() -> Any:
    return load_example("hopper/gemm.py")


def _choice() -> Any:
    return load_example("hopper/gemm_choice.py")


def _few_rows(M: int, N: int, K: int, **options: Any) -> Any:
    return load_example("hopper/gemv.py").build_gemv(M, N, K, **options)


def _ring(M: int, N: int, K: int, **options: Any) -> Any:
    return load_example("hopper/gemv_ring.py").build_gemv_ring(M, N, K, **options)


def _one_row(N: int, K: int, **options: Any) -> Any:
    return load_example("hopper/gemv_rows.py").build_gemv_rows(N, K, **options)


def _chosen(M: int, N: int, K: int, *, sustained: bool = False, **given: Any) -> Any:
    if M <= FEW and not given:
        return load_example("hopper/gemv_ring.py").build_few_rows(M, N, K)
    return _gemm().build_gemm(M, N, K, **given, **_choice().choose(M, N, K, sustained=sustained, **given))


def _candidates(M: int, N: int, K: int, **given: Any) -> dict[str, Any]:
    found = {}
    if M <= FEW and not given:
        for warps, tiles, unroll, resident in FEW_CHOICES:
            choice = {"warps": warps, "tiles": tiles, "unroll": unroll, "resident": resident}
            found[f"few rows, {warps} {tiles} {unroll} {resident}"] = _few_rows(M, N, K, **choice)
        for warps, unroll, resident in RING_CHOICES:
            choice = {"warps": warps, "unroll": unroll, "resident": resident}
            found[f"ring, {warps} {unroll} {resident}"] = _ring(M, N, K, **choice)
        for threads, resident in ROW_CHOICES if M == 1 else ():
            choice = {"threads": threads, "resident": resident, "held": 16}
            found[f"one row, {threads} {resident}"] = _one_row(N, K, **choice)
        return found
    if FEW < M <= BAND and not given:
        return _one_row_of_tiles(M, N, K)
    for sustained in (False, True):
        for choice in _choice().candidates(M, N, K, sustained=sustained, **given)[:CANDIDATES]:
            for hints in (False, True):
                name = _name(choice.options) + " hints" * hints
                # What the model lets through may still not be built.
                with contextlib.suppress(SpecError):
                    found[name] = _gemm().build_gemm(M, N, K, hints=hints, **given, **choice.options)
    return found


def _name(options: dict[str, Any]) -> str:
    """Return the values of options; of those that are numbers the names too."""
    return " ".join(
        f"{name} {value}" if type(value) is int else str(value) for name, value in options.items()
    )


def _one_row_of_tiles(M: int, N: int, K: int) -> dict[str, Any]:
    """Return what may be fastest where memory is the bound, at most 12 kernels.

    Of each cluster, split and number of CTAs on an SM the tile that is best by arithmetic, of those without
    any also the one that has most tiles in one round, of two CTAs that share K two; of the best one, and the
    best that is split, other L2 policies; of the best one fewer stages.
    """
    found: dict[str, Any] = {}
    designs: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for choice in _choice().candidates(M, N, K):
        if choice.options["consumers"] == "cooperative" and "deferred" not in choice.options:
            key = tuple(choice.options.get(name) for name in ("cluster", "split", "resident"))
            designs.setdefault(key, []).append(choice.options)
    chosen = [options[0] for options in designs.values()][:DESIGNS]
    plain = [each for each in designs.get(((1, 1), None, None), []) if -(-N // each["tile"][1]) <= SMS]
    fullest = min(plain, key=lambda each: each["tile"][1], default=chosen[0])
    for each in (fullest, *designs.get((None, 2, None), [])[:2]):
        chosen += [each] if each not in chosen else []
    best = chosen[0]
    parts = next((each for each in chosen if "split" in each), best)
    further = [
        (best, {"hints": False}),
        (best, {"hints": True}),
        (parts, {"hints": True}),
        (best, {"stages": 6}),
    ]
    for options, more in [*((each, {}) for each in chosen), *further]:
        name = " ".join([_name(options), *(f"{what}={value}" for what, value in more.items())])
        if len(found) < 12:
            with contextlib.suppress(SpecError):
                found[name] = _gemm().build_gemm(M, N, K, **options, **more)
    return found


def _normal(torch: Any, copy: int, M: int, N: int, K: int) -> tuple[Any, Any]:
    torch.manual_seed(copy)
    return tuple(torch.randn(rows, K, device="cuda", dtype=torch.bfloat16) for rows in (M, N))


def _zeros(torch: Any, copy: int, M: int, N: int, K: int) -> tuple[Any, Any]:
    """Return zeros but for one number of each, so that an output is not all zero."""
    a, b = (torch.zeros(rows, K, device="cuda", dtype=torch.bfloat16) for rows in (M, N))
    a[0, 0] = b[0, 0] = 1.0
    return a, b


def _product(torch: Any) -> dict[str, Callable[..., Any]]:
    return {
        "cuBLAS": lambda a, b: torch.matmul(a, b.T),
        "cuBLASLt, best of 16": FastestProduct(torch.bfloat16),
    }


def gemm_row(group: str, M: int, N: int, K: int, target: float | None, *, zeros: bool = False) -> Row:
    """Return the row of a product of [M, K] and [N, K] in bf16."""
    return Row(
        name=f"{group} {M}x{N}x{K}",
        group=group,
        ours=partial(_chosen, M, N, K),
        lasting=partial(_chosen, M, N, K, sustained=True),
        candidates=partial(_candidates, M, N, K),
        rivals=_product,
        inputs=partial(_zeros if zeros else _normal, M=M, N=N, K=K),
        reference=lambda a, b: a.float() @ b.float().T,
        rtol=2.0**-7,
        atol=1e-5 * K,
        flops=2.0 * M * N * K,
        target=target,
        data="zeros" if zeros else "normal",
    )


def _read_row(N: int, K: int) -> Row:
    """Return the row of a product of one row whose weights no cache holds: runs before it read others.

    A flush of the cache would leave lines that L2 has to write back during the run.
    """

    def roofs(torch: Any) -> dict[str, Callable[..., Any]]:
        return {"sum of B": lambda a, b: b.view(torch.float32).sum()}

    nbytes = 2 * N * K
    return replace(
        gemm_row("read", 1, N, K, READ),
        flops=None,
        bytes=float(nbytes),
        roofs=roofs,
        options={"flush": False, "copies": max(4, round(ROTATED / nbytes))},
    )


def _fp8(torch: Any) -> dict[str, Callable[..., Any]]:
    one = torch.ones((), device="cuda")
    fast = partial(torch._scaled_mm, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
    return {"torch._scaled_mm": lambda a, b: fast(a, b.T)}


def fp8_row(M: int, N: int, K: int) -> Row:
    """Return the row of a product of [M, K] and [N, K] in e4m3."""

    def inputs(torch: Any, copy: int) -> tuple[Any, Any]:
        return tuple(each.to(torch.float8_e4m3fn) for each in _normal(torch, copy, M, N, K))

    return Row(
        name=f"fp8 {M}x{N}x{K}",
        group="fp8",
        ours=partial(_chosen, M, N, K, a_type=e4m3),
        candidates=partial(_candidates, M, N, K, a_type=e4m3),
        rivals=_fp8,
        inputs=inputs,
        reference=lambda a, b: a.float() @ b.float().T,
        rtol=2.0**-7,
        # wgmma adds 32 products at a time, and cuts each sum at 2**-13 of its largest term: some sqrt(K).
        atol=K / 32 * 2.0**-13 * K**0.5,
        flops=2.0 * M * N * K,
        target=1.05,
    )


def _promoted(M: int, N: int, K: int, **options: Any) -> Any:
    module = load_example("hopper/gemm_blockwise.py")
    return module.build_gemm_blockwise(M, N, K, scales_major=None, **options)


def _promoted_candidates(M: int, N: int, K: int) -> dict[str, Any]:
    found = {}
    for tile, cluster in (
        ((256, 128), (1, 2)),
        ((256, 128), (2, 1)),
        ((128, 192), (2, 1)),
        ((128, 128), (2, 1)),
    ):
        for stagger in (False, True):
            name = f"{tile} {cluster}{' stagger' * stagger}"
            found[name] = _promoted(M, N, K, tile=tile, cluster=cluster, stagger=stagger)
    for cluster in ((1, 2), (2, 1)):
        found[f"(256, 96) {cluster} ahead"] = _promoted(M, N, K, tile=(256, 96), cluster=cluster, ahead=True)
        found[f"(192, 128) {cluster}"] = _promoted(M, N, K, tile=(192, 128), cluster=cluster)
    return found


def _promoted_row(M: int, N: int, K: int) -> Row:
    """Return the row of fp8 whose sums are promoted to f32 every 128 of K, on both sides."""

    def inputs(torch: Any, copy: int) -> tuple[Any, ...]:
        operands = (each.to(torch.float8_e4m3fn) for each in _normal(torch, copy, M, N, K))
        return *operands, *(torch.ones(1, device="cuda") for _ in "AB")

    def rivals(torch: Any) -> dict[str, Callable[..., Any]]:
        slow = partial(torch._scaled_mm, out_dtype=torch.bfloat16, use_fast_accum=False)
        return {"torch._scaled_mm": lambda a, b, x, y: slow(a, b.T, scale_a=x, scale_b=y)}

    return Row(
        name=f"fp8 promoted {M}x{N}x{K}",
        group="fp8",
        ours=partial(_promoted, M, N, K),
        candidates=partial(_promoted_candidates, M, N, K),
        rivals=rivals,
        inputs=inputs,
        reference=lambda a, b, x, y: a.float() @ b.float().T,
        rtol=2.0**-7,
        atol=2.0**-9 * K**0.5,
        flops=2.0 * M * N * K,
        target=1.05,
    )


def _step(path: Path) -> Row:
    """Return the row of a step of the ladder."""
    number, _, name = path.stem.removeprefix("step").partition("_")

    def ours() -> Any:
        return getattr(load_example(f"hopper/ladder/{path.name}"), f"build_{name}")(4096, 4096, 4096)

    row = gemm_row("ladder", 4096, 4096, 4096, None)
    return replace(row, name=f"ladder {number}, {name}", ours=ours, candidates=dict)


def _rows() -> Iterator[Row]:
    yield from map(_step, sorted((EXAMPLES / "hopper" / "ladder").glob("step*.py")))
    for size, target in SQUARES.items():
        yield gemm_row("gemm", size, size, size, target)
    yield gemm_row("gemm-zeros", 8192, 8192, 8192, 1.12, zeros=True)
    for N, K in LAYERS:
        for M in TOKENS:
            yield gemm_row("layers", M, N, K, 0.97)
        yield _read_row(N, K)
    yield fp8_row(8192, 8192, 8192)
    yield _promoted_row(8192, 8192, 8192)


GEMMS = list(_rows())
