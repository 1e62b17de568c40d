"""Examples of CUTLASS in C++ (github.com/NVIDIA/cutlass) for sm_90a and sm_100a, by their own main functions.

The source is a checkout; it needs nvcc and g++, and some minutes for each example's first compilation. Each
example initializes its tensors, runs its kernel once and compares the result with CUTLASS's reference: these other
kernels run in the simulator, too, and are left out of the count.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.libraries.host.compile import host_program, kept_folder
from tests.libraries.host.device import Device
from tests.libraries.launches import Kernel, Launch, WrongResult

# CUTLASS fills tensors with random numbers of cuRAND; any numbers will do.
_CURAND = """
#pragma once
struct curandState_t { unsigned long long at; };
__device__ inline void curand_init(unsigned long long seed, unsigned long long sequence, int, curandState_t *state) {
    state->at = seed * 0x9e3779b97f4a7c15ull + sequence * 0xd1342543de82ef95ull;
}
__device__ inline float curand_uniform(curandState_t *state) {
    state->at = state->at * 6364136223846793005ull + 1442695040888963407ull;
    unsigned word = unsigned(state->at >> 33) ^ unsigned(state->at >> 50);
    return ((word & 0xffffff) + 1) * 0x1p-24f;
}
__device__ inline double curand_uniform_double(curandState_t *state) { return curand_uniform(state); }
__device__ inline float curand_normal(curandState_t *state) {
    return 4 * (curand_uniform(state) + curand_uniform(state) + curand_uniform(state) - 1.5f);
}
__device__ inline double curand_normal_double(curandState_t *state) { return curand_normal(state); }
"""

_GEMM = ("--iterations=0", "--alpha=1", "--beta=1")
#: For each example: its file, and the words of its command line.
_EXAMPLES = {
    "48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm": (
        *_GEMM,
        "--m=256",
        "--n=128",
        "--k=128",
    ),
    "70_blackwell_gemm/70_blackwell_fp16_gemm": (*_GEMM, "--m=512", "--n=256", "--k=192"),
}


def kernels(source: Path | None) -> Iterator[Kernel]:
    assert source is not None
    for example, words in _EXAMPLES.items():
        yield Kernel(example.split("/")[1], partial(_run, source, example, words))


def _run(source: Path, example: str, words: tuple[str, ...], schedule: str, seed: int) -> list[Launch]:
    file = source / "examples" / f"{example}.cu"
    headers = kept_folder(_CURAND)
    (headers / "curand_kernel.h").write_text(_CURAND)
    folders = (
        headers,
        source / "include",
        source / "tools" / "util" / "include",
        source / "examples" / "common",
    )
    flags = ["-std=c++17", "-O3", "--expt-relaxed-constexpr", *(f"-I{path}" for path in folders)]
    blackwell = "blackwell" in example
    built = host_program(
        file.stem, file.read_text(), "100a" if blackwell else "90a", [*flags, "-Xlinker", "--wrap=exit"]
    )
    device = Device((10, 0) if blackwell else (9, 0), 16, schedule, seed, unchecked="reference")
    status = device.run_main(built, words)
    if status:
        raise WrongResult(f"the example ended with status {status}", device.launches)
    return device.launches
