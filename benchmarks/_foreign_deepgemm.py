"""Products of DeepGEMM (deepseek-ai/DeepGEMM): what they are compiled from, and how they are launched.

The library compiles a kernel for each problem; ``_deepgemm.py`` follows its choice of tile, cluster and
stages. Both factors are stored with K last; those of fp8 have scales of 1x128 of A and 128x128 of B.
"""

from __future__ import annotations

from typing import Any

from _deepgemm import BLOCK, SMS, Problem, choose
from _foreign import array
from _foreign_cuda import Source, ceil, line, scalar

__all__ = ["SOURCES", "checks", "launches"]

_ROOT = "DeepGEMM/deep_gemm/include"
_FLAGS = ("-std=c++20", "-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda")
#: Threads beside those that multiply, and bytes of the swizzle of A and of B.
LOADERS, SWIZZLE = 128, 128

PROBLEMS = (
    Problem("normal", 4096, 2048, 7168, element="bf16"),
    Problem("normal", 2048, 6144, 4096, element="bf16"),
    Problem("normal", 2048, 7168, 4096),
    Problem("normal", 8192, 4096, 2048),
)
#: Small problems, each with the problem whose choice it is launched with, for the simulator.
SMALL = (
    (Problem("normal", 512, 512, 384, element="bf16"), PROBLEMS[0]),
    (Problem("normal", 512, 448, 384), PROBLEMS[2]),
    (Problem("normal", 512, 512, 384), PROBLEMS[3]),
)


def _text(problem: Problem) -> str:
    return f"deepgemm_{problem.element}_{problem.M}x{problem.N}x{problem.K}"


def _source(problem: Problem, like: Problem | None = None) -> Source:
    """Return what instantiates the kernel as the library does: N and K are constants."""
    choice = choose(like or problem)
    name = "fp8_gemm_1d2d" if problem.scaled else "bf16_gemm"
    depth = 128 if problem.scaled else 64
    shared = (
        f"0, {problem.N}, {problem.K}, 1, {choice.tile[0]}, {choice.tile[1]}, {depth}, "
        f"{SWIZZLE}, {SWIZZLE}, {choice.swizzle}, {choice.stages}, {LOADERS}, {choice.math_threads}, "
        f"{max(choice.cluster)}, {'true' if choice.cluster[1] > 1 else 'false'}, {SMS}, GemmType::Normal"
    )
    major = "cute::UMMA::Major::K"
    last = "cutlass::bfloat16_t, epilogue::transform::EpilogueIdentity"
    if problem.scaled:
        arguments = f"{major}, {shared}, {last}"
    else:
        arguments = f"{major}, {major}, {shared}, false, cutlass::bfloat16_t"
    end = f"using namespace deep_gemm;\nauto *kernel = &sm90_{name}_impl<{arguments}>;"
    includes = (_ROOT, "cutlass/include")
    return Source(f"{_ROOT}/deep_gemm/impls/sm90_{name}.cuh", _FLAGS, end=end, includes=includes)


#: By the name of the text.
SOURCES = {
    **{_text(problem): _source(problem) for problem in PROBLEMS},
    **{_text(problem): _source(problem, like) for problem, like in SMALL},
}


def _map(name: str, rows: int, columns: int, swizzle: int) -> dict[str, Any]:
    return {
        "map": name,
        "box": [rows, columns],
        "swizzle": f"{swizzle}B" if swizzle > 16 else "none",
        "l2_promotion": "256B",
    }


def product(problem: Problem, like: Problem | None = None) -> dict[str, Any]:
    """Return how the library launches a product, or would with its choice for another problem."""
    M, N, K = problem.M, problem.N, problem.K
    choice, type = choose(like or problem), problem.element
    rows, columns = choice.tile
    inner = SWIZZLE // (1 if problem.scaled else 2)
    arrays = {"a": array(type, M, K), "b": array(type, N, K)}
    scales: dict[str, Any] = {"values": ["uniform", 0.5, 1.5]}
    if problem.scaled:
        arrays |= {
            "sfa": array("f32", ceil(K, BLOCK), M, **scales),
            "sfb": array("f32", ceil(N, BLOCK), ceil(K, BLOCK), **scales),
        }
    arrays["d"] = array("bf16", M, N, role="out")
    stored = choice.swizzle // 2 if choice.swizzle > 16 else columns
    maps = [
        _map("a", rows, inner, SWIZZLE),
        _map("b", columns, inner, SWIZZLE),
        _map("d", rows, stored, choice.swizzle),
    ]
    sizes = [scalar(0, "u64"), M, N, K]
    return line(
        f"DeepGEMM {type} {M}x{N}x{K}",
        _text(problem),
        "fp8_gemm_1d2d_impl" if problem.scaled else "bf16_gemm_impl",
        (SMS,),
        (LOADERS + choice.math_threads,),
        arrays,
        ["sfb", *sizes, *maps, _map("sfa", 1, rows, 0)] if problem.scaled else [*sizes, *maps],
        "product with scales of blocks" if problem.scaled else "product of transposed",
        (0.02, 0.02 * K**0.5),
        choice.shared,
        cluster=[max(choice.cluster), 1, 1],
        flops=2.0 * M * N * K,
        bits=8 if problem.scaled else 16,
    )


def launches() -> list[dict[str, Any]]:
    """Return the launches that are predicted."""
    return [product(problem) for problem in PROBLEMS]


def checks() -> list[dict[str, Any]]:
    """Return small launches of the same kernels, for the simulator."""
    return [product(problem, like) for problem, like in SMALL]
