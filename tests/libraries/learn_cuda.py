"""Kernels of learn-cuda (github.com/gau-nernst/learn-cuda), by its own host functions.

The source is a checkout. It needs nvcc and g++. Matrix products with tcgen05 for sm_100a and with ``mma`` for
sm_80, attention with ``mma``, sums and softmax run.
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

# The host functions use one macro of PyTorch, for errors; they register themselves in parts that do not run.
_TORCH = """
#pragma once
#include <cstdlib>
#define TORCH_CHECK(condition, message) do { if (!(condition)) abort(); } while (0)
"""


class _Case(NamedTuple):
    """One call of a host function.

    Attributes:
        file: the source file.
        call: the expression that calls the host function.
        arch: the virtual architecture's number.
        problem: makes the inputs, the shape and type of the output, and the expected output.
        numbers: the extents in the order of the call's ``n[i]``.
        tolerance: how far an element may be from the expected one.
        added: whether the kernel adds to the output, which then begins as zeros.
    """

    file: str
    call: str
    arch: str
    problem: Callable[[np.random.Generator, tuple[int, ...]], tuple[list[Any], Any]]
    numbers: tuple[int, ...]
    tolerance: float = 0.0
    added: bool = False


def _product(rng: np.random.Generator, numbers: tuple[int, ...]) -> tuple[list[Any], Any]:
    m, n, k = numbers
    a, b = (rng.integers(-3, 4, size).astype(ml_dtypes.bfloat16) for size in ((m, k), (n, k)))
    return [a, b], (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)


def _attention(rng: np.random.Generator, numbers: tuple[int, ...]) -> tuple[list[Any], Any]:
    batches, queries, keys, width = numbers
    q, k, v = (
        rng.standard_normal((batches, rows, width)).astype(ml_dtypes.bfloat16)
        for rows in (queries, keys, keys)
    )
    scores = np.einsum("bqd,bkd->bqk", *(x.astype(np.float64) for x in (q, k))) / np.sqrt(width)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    found = np.einsum("bqk,bkd->bqd", shares / shares.sum(-1, keepdims=True), v.astype(np.float64))
    return [q, k, v], found.astype(ml_dtypes.bfloat16)


def _sum(rng: np.random.Generator, numbers: tuple[int, ...]) -> tuple[list[Any], Any]:
    given = rng.integers(-9, 10, numbers[:2]).astype(np.float32)
    return [given], given.sum(1)


def _softmax(rng: np.random.Generator, numbers: tuple[int, ...]) -> tuple[list[Any], Any]:
    given = rng.standard_normal(numbers).astype(np.float32)
    shares = np.exp(given.astype(np.float64) - given.max(1, keepdims=True))
    return [given], (shares / shares.sum(1, keepdims=True)).astype(np.float32)


def _cases() -> Iterator[tuple[str, _Case]]:
    """The calls by name; the last pointer before a workspace is the output."""
    ordinary = "p[0], p[1], p[2], n[0], n[1], n[2]"
    # Two of the host functions make B's tensor map with A's rows: they take square products only.
    blackwell = partial(_Case, arch="100a", problem=_product, numbers=(512, 512, 768))
    for name in ("v1a", "v1b", "v2a", "v2b", "v3", "v4", "v5", "v6", "v7a", "v7b", "v7c"):
        file = f"02e_matmul_sm100/matmul_{name[:2]}.cu"
        yield f"sm100_matmul_{name}", blackwell(file, f"matmul_{name}({ordinary})")
    # Fewer CTAs than tiles, so that each computes several.
    persistent = "matmul_v7_launch<256, 2, 2, false, false>"
    call = f"{persistent}({ordinary}, nullptr, 0)"
    yield (
        "sm100_matmul_v7_persistent",
        blackwell("02e_matmul_sm100/matmul_v7.cu", call, numbers=(512, 512, 192)),
    )
    weird = "matmul_tmem_launch<64, 128, 64>"
    yield "sm100_matmul_tmem", blackwell("02e_matmul_sm100/_matmul_tmem.cu", f"{weird}({ordinary})")
    for name in ("v1", "v2", "v3", "v4", "v5", "v6", "v6b"):
        file = f"02b_matmul_sm80/matmul_{'v1' if name in ('v2', 'v3', 'v4') else name[:2]}.cu"
        yield (
            f"sm80_matmul_{name}",
            _Case(file, f"matmul_{name}({ordinary})", "80", _product, (128, 256, 192)),
        )
    for number in range(1, 6):
        file, call = (
            f"07_attention/attention_v{number}.cu",
            f"attention_v{number}(p[0], p[1], p[2], p[3], n[0], n[1], n[2], n[3])",
        )
        yield f"attention_v{number}", _Case(file, call, "80", _attention, (2, 128, 192, 128), 0.02)
    for name in ("v1", "v2", "v3", "v4a", "v4b", "v4c", "v5", "v6"):
        tile = "" if name in ("v1", "v2") else ", 512"
        call = f"sum_{name}(p[0], p[1], n[0], n[1]{tile}, 64)"
        yield f"sum_{name}", _Case("03_sum/sum.cu", call, "80", _sum, (64, 1024), added=name != "v1")
    for name in ("naive", "naive_split", "online", "online_split"):
        call = f"softmax_{name}(p[0], p[1], p[2], n[0], n[1])"
        yield f"softmax_{name}", _Case("04_softmax/softmax.cu", call, "80", _softmax, (8, 4096), 1e-6)


def kernels(source: Path | None) -> Iterator[Kernel]:
    assert source is not None
    for name, case in _cases():
        yield Kernel(name, partial(_run, source, name, case))


def _run(source: Path, name: str, case: _Case, schedule: str, seed: int) -> list[Launch]:
    file = source / case.file
    headers = kept_folder(_TORCH)
    for header in ("torch/library.h", "ATen/ATen.h"):
        (headers / header).parent.mkdir(exist_ok=True)
        (headers / header).write_text(_TORCH)
    flags = ["-std=c++17", "-O3", "--expt-relaxed-constexpr", f"-I{headers}", f"-I{file.parent}"]
    # What registers a function with PyTorch comes last in a file.
    text = (
        "#include <algorithm>\n#include <tuple>\n#include <cuda_bf16.h>\n"
        + file.read_text().partition("\nat::Tensor")[0]
    )
    built = expression_program(name, text, case.call, case.arch, flags, sorted(file.parent.glob("*.[ch]*")))
    device = Device((10, 0), 148, schedule, seed)
    inputs, expected = case.problem(np.random.default_rng(seed), case.numbers)
    out = device.put(np.zeros_like(expected)) if case.added else device.empty(expected.shape, expected.dtype)
    workspace = device.empty(2 * expected.shape[0], np.float32)
    device.run(built, (*map(device.put, inputs), out, workspace), case.numbers)
    off = np.abs(out.astype(np.float64) - expected.astype(np.float64)).max()
    if not off <= case.tolerance:
        raise WrongResult(f"an element is {off:g} off", device.launches)
    return device.launches
