"""The matrix products of fast.cu (github.com/pranjalssh/fast.cu), for sm_90a, by its own host functions.

The source is a checkout. It needs nvcc and g++. ``matmul_2`` to ``matmul_12`` run, each with the smallest product
that its schedule of tiles takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np

from tests.libraries.host.compile import expression_program
from tests.libraries.host.device import Device
from tests.libraries.launches import Kernel, Launch, WrongResult

#: M, N and K of each product. From the sixth on, 16 x 8 tiles of 128 x 256 are the unit of the schedule.
_SHAPES = {
    **dict.fromkeys((2, 3), (256, 256, 192)),
    **dict.fromkeys((4, 5), (256, 512, 448)),
    **dict.fromkeys(range(6, 13), (2048, 2048, 256)),
}

# The headers of the kernels expect what the project's main file has before them.
_SOURCE = """
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <string>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
typedef __nv_bfloat16 bf16;
#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
#define cudaCheck(result) assert((result) == cudaSuccess)
#include "matmul_NUMBER.cuh"
"""


def kernels(source: Path | None) -> Iterator[Kernel]:
    assert source is not None
    for number in _SHAPES:
        yield Kernel(f"matmul_{number}", partial(_run, source / "examples" / "matmul", number))


def _run(folder: Path, number: int, schedule: str, seed: int) -> list[Launch]:
    text = _SOURCE.replace("NUMBER", str(number))
    times = "" if number == 2 else ", p[3]"
    call = f"runKernel{number}(n[0], n[1], n[2], p[0], p[1], p[2]{times})"
    flags = ["-std=c++17", "-O3", "--expt-relaxed-constexpr", "--use_fast_math", f"-I{folder}"]
    header = folder / f"matmul_{number}.cuh"
    built = expression_program(header.stem, text, call, "90a", flags, [header])
    m, n, k = _SHAPES[number]
    rng = np.random.default_rng(seed)
    device = Device((9, 0), 132, schedule, seed)
    a, b = (device.put(rng.integers(-3, 4, size).astype(ml_dtypes.bfloat16)) for size in ((m, k), (n, k)))
    # The product lies in column-major order.
    c = device.empty((n, m), ml_dtypes.bfloat16)
    device.run(built, (a, b, c, None), (m, n, k))
    expected = (b.astype(np.float32) @ a.astype(np.float32).T).astype(ml_dtypes.bfloat16)
    if not np.array_equal(c, expected):
        raise WrongResult("the product differs from numpy's", device.launches)
    return device.launches
