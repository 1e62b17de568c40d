"""Kernels of ThunderKittens (github.com/HazyResearch/ThunderKittens) for Hopper and for B200.

The source is a checkout; it needs nvcc and g++. Matrix products of the B200 run with the library's own
configurations, attention (heads of 64) with its host functions for PyTorch, against a stand-in for tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tests.libraries.host.compile import expression_program, kept_folder
from tests.libraries.host.device import Device
from tests.libraries.launches import Kernel, Launch, WrongResult

# As much of PyTorch as the host functions of attention use.
_TORCH = """
#pragma once
#include <cuda_runtime.h>
#include <cstdlib>
#include <vector>
#define TORCH_CHECK(condition, ...) do { if (!(condition)) abort(); } while (0)
#define CHECK_INPUT(tensor)
#define PYBIND11_MODULE(name, m) template <class Module> void name##_register(Module &m)
namespace c10 { struct BFloat16 { short bits; }; }
namespace at {
enum ScalarType { kBFloat16 = 2, kFloat = 4 };
struct Options {
    ScalarType type = kBFloat16;
    Options dtype(ScalarType other) const { return {other}; }
};
struct Tensor {
    void *start;
    std::vector<long> shape;
    Options kind = {};
    long size(int axis) const { return shape[axis]; }
    Options options() const { return kind; }
    template <class T> T *data_ptr() const { return static_cast<T *>(start); }
};
inline Tensor empty(std::vector<long> shape, Options kind) {
    size_t bytes = kind.type;
    for (long extent : shape)
        bytes *= extent;
    Tensor made{nullptr, shape, kind};
    cudaMalloc(&made.start, bytes);
    return made;
}
inline Tensor zeros(std::vector<long> shape, Options kind) {
    Tensor made = empty(shape, kind);
    size_t bytes = kind.type;
    for (long extent : shape)
        bytes *= extent;
    cudaMemset(made.start, 0, bytes);
    return made;
}
namespace cuda {
struct Stream { cudaStream_t stream() const { return nullptr; } };
inline Stream getCurrentCUDAStream() { return {}; }
}
}
"""
_TORCH_HEADERS = ("pyutils/torchutils.cuh", "ATen/cuda/CUDAContext.h", "ATen/Functions.h")


class _Case(NamedTuple):
    """One call.

    Attributes:
        file: the source file, under ``kernels``.
        call: the expression: inputs and then outputs are ``p[i]``, the extents ``n[i]``.
        hopper: whether it is for sm_90a; else for sm_100a.
        problem: makes the inputs and the expected outputs from the extents.
        numbers: the extents.
        tolerance: the largest difference, relative to the largest expected value.
        flags: further options of the compiler.
    """

    file: str
    call: str
    hopper: bool
    problem: Callable[[np.random.Generator, tuple[int, ...]], tuple[list[Any], list[Any]]]
    numbers: tuple[int, ...]
    tolerance: float = 0.0
    flags: tuple[str, ...] = ()


def _product(
    rng: np.random.Generator,
    numbers: tuple[int, ...],
    given: Any = ml_dtypes.bfloat16,
    transposed: bool = True,
) -> tuple[list[Any], list[Any]]:
    """A times B, or its transpose, of small integers: the result is exact."""
    m, n, k = numbers if len(numbers) == 3 else numbers * 3
    a, b = (rng.integers(-3, 4, size).astype(given) for size in ((m, k), (n, k) if transposed else (k, n)))
    wide = b.astype(np.float32)
    return [a, b], [(a.astype(np.float32) @ (wide.T if transposed else wide)).astype(ml_dtypes.bfloat16)]


def _attention(
    rng: np.random.Generator, numbers: tuple[int, ...], causal: bool, backward: bool = False
) -> tuple[list[Any], list[Any]]:
    """Attention; ``backward``: the gradients of Q, K and V, from the output, its logarithms and its gradient."""
    batches, heads, rows, width = numbers
    shape = (batches, heads, rows, width)
    q, k, v, og = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in range(4))
    wide_q, wide_k, wide_v, wide_og = (x.astype(np.float64) for x in (q, k, v, og))
    scores = wide_q @ wide_k.swapaxes(-1, -2) / np.sqrt(width)
    if causal:
        scores = np.where(np.tril(np.ones((rows, rows), bool)), scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    powers = np.exp(scores - largest)
    sums = powers.sum(-1, keepdims=True)
    shares = powers / sums
    o = (shares @ wide_v).astype(ml_dtypes.bfloat16)
    if not backward:
        return [q, k, v], [o]
    # The kernel keeps the negative logarithm of the sums, times the square root of the width.
    logs = (-(np.log(sums) + largest) * np.sqrt(width)).astype(np.float32)
    into = wide_og @ wide_v.swapaxes(-1, -2)
    inner = shares * (into - (wide_og * o.astype(np.float64)).sum(-1, keepdims=True)) / np.sqrt(width)
    gradients = [inner @ wide_k, inner.swapaxes(-1, -2) @ wide_q, shares.swapaxes(-1, -2) @ wide_og]
    return [q, k, v, o, logs, og], [g.astype(np.float32) for g in gradients]


_LAUNCH = """[&] {
    using C = CONFIG;
    using G = globals<C>;
    size_t M = n[0], N = n[1], K = n[2];
    G g{typename G::a_gl{p[0], nullptr, nullptr, M, K}, typename G::b_gl{p[1], nullptr, nullptr, N, K},
        typename G::d_gl{p[2], nullptr, nullptr, M, N}};
    LaunchConfig<true, true> config(g.grid(), g.block(), g.dynamic_shared_memory(), 0, C::CLUSTER_SIZE);
    cudaLaunchKernelEx(config, kernel<C>, g);
}()"""
_TENSOR = "at::Tensor{p[INDEX].value, {n[0], n[1], n[2], n[3]}}"


def _tensors(count: int) -> str:
    return ", ".join(_TENSOR.replace("INDEX", str(i)) for i in range(count))


def _attention_cases() -> Iterator[tuple[str, _Case]]:
    case = partial(_Case, "attention/mha_h100/mha_h100.cu", hopper=True, flags=("-DTORCH_COMPILE",))
    for name, causal in (("h100_attention_64", False), ("h100_attention_64_causal", True)):
        forward = f"""[&] {{
    auto made = attention_forward({_tensors(3)}, {str(causal).lower()});
    cudaMemcpy(p[3], made[0].start, n[0] * n[1] * n[2] * n[3] * 2, cudaMemcpyDefault);
}}()"""
        problem = partial(_attention, causal=causal)
        yield name, case(call=forward, problem=problem, numbers=(1, 2, 384, 64), tolerance=0.01)
    logs = "at::Tensor{p[4].value, {n[0], n[1], n[2], 1}, {at::kFloat}}"
    backward = f"""[&] {{
    auto made = attention_backward({_tensors(4)}, {logs}, {_TENSOR.replace("INDEX", "5")}, false);
    for (int i = 0; i < 3; i++)
        cudaMemcpy(p[6 + i], made[i].start, n[0] * n[1] * n[2] * n[3] * 4, cudaMemcpyDefault);
}}()"""
    problem = partial(_attention, causal=False, backward=True)
    yield (
        "h100_attention_64_backward",
        case(call=backward, problem=problem, numbers=(1, 1, 256, 64), tolerance=0.02),
    )


def _cases() -> Iterator[tuple[str, _Case]]:
    for name, config, numbers in (
        ("small", "config<256, 64, 128, 4, true, 5, 2>", (512, 256, 896)),
        ("large", "config<256, 256, 64, 4, false, 4, 8>", (512, 512, 448)),
    ):
        call = _LAUNCH.replace("CONFIG", config)
        yield f"b200_bf16_{name}", _Case("gemm/bf16_b200/bf16_b200_gemm.cu", call, False, _product, numbers)
    call = _LAUNCH.replace("CONFIG", "config<256, 64, 256, 4, true, 5, 2>")
    problem = partial(_product, given=ml_dtypes.float8_e4m3fn)
    yield "b200_fp8_small", _Case("gemm/fp8_b200/fp8_b200_gemm.cu", call, False, problem, (512, 256, 1792))
    call, problem = "matmul(p[0], p[1], p[2], n[0])", partial(_product, transposed=False)
    yield "b200_level_9", _Case("gemm/educational_b200/level_09.cu", call, False, problem, (512,))
    yield from _attention_cases()


def kernels(source: Path | None) -> Iterator[Kernel]:
    assert source is not None
    for name, case in _cases():
        yield Kernel(name, partial(_run, source, name, case))


def _run(source: Path, name: str, case: _Case, schedule: str, seed: int) -> list[Launch]:
    file = source / "kernels" / case.file
    headers = kept_folder(_TORCH)
    for header in _TORCH_HEADERS:
        (headers / header).parent.mkdir(parents=True, exist_ok=True)
        (headers / header).write_text(_TORCH)
    flags = [
        "-std=c++20",
        "-O3",
        "--use_fast_math",
        "--expt-extended-lambda",
        "--expt-relaxed-constexpr",
        "-DNDEBUG",
    ]
    flags += [f"-I{path}" for path in (headers, source / "include", source / "prototype", file.parent)]
    flags += ["-DKITTENS_HOPPER" if case.hopper else "-DKITTENS_BLACKWELL", *case.flags]
    text = f'#define main library_main\n#include "{file.name}"\n#undef main\n'
    arch = "90a" if case.hopper else "100a"
    built = expression_program(name, text, case.call, arch, flags, [file])
    device = Device((9, 0) if case.hopper else (10, 0), 132 if case.hopper else 148, schedule, seed)
    inputs, expected = case.problem(np.random.default_rng(seed), case.numbers)
    outputs = [device.empty(one.shape, one.dtype) for one in expected]
    device.run(built, (*map(device.put, inputs), *outputs), case.numbers)
    for found, one in zip(outputs, expected, strict=True):
        off = (
            np.abs(found.astype(np.float64) - one.astype(np.float64)).max()
            / np.abs(one.astype(np.float64)).max()
        )
        if not off <= case.tolerance:
            raise WrongResult(f"an element is {off:g} of the largest one off", device.launches)
    return device.launches
