"""The GEMM ladder of fast.cu (github.com/pranjalssh/fast.cu): its PTX, and how its kernels are launched.

Grids, blocks, shared memory and tensor maps are those of each ``runKernelN``. Its C is stored by columns: row
n of our array has column n of the product. Only its first kernel takes B and C by rows.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _foreign import array
from rivals.build import toolkit

__all__ = ["FOLDER", "KERNELS", "compiled", "launch"]

#: Its folder among the sources.
FOLDER = "fast.cu"
KERNELS = range(1, 13)
#: The flags of the project's Makefile that matter for the device's code.
FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-w", "--expt-relaxed-constexpr", "--expt-extended-lambda")
FLAGS += ("--use_fast_math", "-arch=sm_90a", "-ptx")
#: What ``matmul.cu`` has before it includes its kernels; of the host's code only the types matter here.
HEAD = """\
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cassert>
#include <cstdio>
#include <string>
#include <vector>
typedef __nv_bfloat16 bf16;
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define cudaCheck(err) (err)
#include "examples/matmul/matmul_{number}.cuh"
"""
#: Rows and columns of a tile, threads of a block, and stages of the ring: BM, BN, NUM_THREADS, QSIZE.
TILES = {
    1: (128, 128, 128, 0),
    2: (64, 64, 128, 0),
    3: (128, 128, 128, 1),
    4: (128, 128, 256, 5),
    **dict.fromkeys(range(5, 13), (128, 256, 384, 3)),
}
_BK = 64
#: From this kernel on a fixed number of CTAs loops over tiles; the CTAs; the numbers of a list of tiles.
_PERSISTENT, _CTAS, _LIST = 6, 128, 128


def compiled(sources: Path, cuda: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the PTX of each kernel; one that does not compile is left out, and said."""
    folder = toolkit(cuda)
    for number in KERNELS:
        with tempfile.TemporaryDirectory() as scratch:
            source, out = Path(scratch, "kernel.cu"), Path(scratch, "kernel.ptx")
            source.write_text(HEAD.replace("{number}", str(number)), encoding="utf-8")
            command = [str(folder / "bin" / "nvcc"), *FLAGS, f"-I{folder / 'include' / 'cccl'}"]
            command += [f"-I{sources / FOLDER}", "-o", str(out), str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{FOLDER} matmul_{number} does not compile:\n{done.stderr[-2000:]}")
                continue
            yield f"fastcu_{number}", out.read_text(encoding="utf-8")


def launch(number: int, M: int, N: int, K: int) -> dict[str, Any]:
    """Return how ``runKernelN`` launches a kernel for a product of M x N x K."""
    rows, columns, threads, stages = TILES[number]
    by_rows = number == 1
    arrays = {
        "A": array("bf16", M, K),
        "B": array("bf16", *((K, N) if by_rows else (N, K))),
        "C": array("bf16", *((M, N) if by_rows else (N, M)), role="out"),
    }
    sizes: list[dict[str, Any]] = [{"number": size, "type": "s32"} for size in (M, N, K)]
    tiles, ring = -(-M // rows) * -(-N // columns), stages * (rows + columns) * _BK * 2
    grid, smem = [_CTAS if number >= _PERSISTENT else tiles, 1, 1], ring
    pointer = {"pointer": True} if number < 6 else {}
    maps = [_map(number, "A", M, K, rows) | pointer, _map(number, "B", N, K, columns) | pointer]
    if number == 1:
        grid = [-(-N // columns), -(-M // rows), 1]
        args = [*sizes, *({"array": name} for name in "ABC")]
    elif number < 10:
        args = [*sizes, {"array": "C"}, *maps]
        if number == 3:  # without the array for its own timing, which the debugging variant fills
            args.append({"number": 0, "type": "u64"})
    else:
        padded = number == 12  # each of two consumers stores its rows, with eight elements between columns
        width, blocks = (72, 1) if padded else (64, rows // 64)
        args = [*sizes, _map(number, "C", N, M, columns, width, blocks, "none"), *maps]
        smem += columns * (rows + 16 * padded) * 2 + 2 * 8 * stages
        if number > 10:
            arrays["space"] = {"type": "s32", "shape": [_CTAS, _LIST], "role": "in"}
            arrays["space"]["data"] = hilbert(-(-M // (2 * rows)), -(-N // columns))
            args.append({"array": "space"})
            smem += 4 * _LIST
        smem = -(-smem // 128) * 128
    return {
        "name": f"fast.cu matmul_{number} {M}x{N}x{K}",
        "text": f"fastcu_{number}",
        # Of the third kernel there is a variant that times itself.
        "entry": {1: "sgemmWarptiling", 3: "ELb0E"}.get(number, "matmulKernel"),
        "grid": grid,
        "block": [threads, 1, 1],
        "cluster": [2 if number >= 8 else 1, 1, 1],
        "smem": smem,
        "arrays": arrays,
        "args": args,
        "reference": "product" if by_rows else "product by columns",
        "rtol": 0.02,
        "atol": 0.02 * K**0.5,
        "flops": 2.0 * M * N * K,
        "bits": 16,
    }


def _map(
    number: int,
    name: str,
    height: int,
    width: int,
    box: int,
    inner: int = 64,
    blocks: int = 1,
    swizzle: str = "128B",
) -> dict[str, Any]:
    """Return the map of ``create_tensor_map``, outermost axis first, as :class:`pyptx.TensorMap` takes it."""
    if number < 7:
        return {"map": name, "box": [box, _BK], "swizzle": swizzle}
    # Blocks of 64 columns are an axis of their own; the seventh kernel has two further axes of one element.
    more = [1, 1] if number == 7 else []
    return {
        "map": name,
        "shape": [*more, width // 64, height, 64],
        "strides": [*(0 for _ in more), 128, 2 * width, 2],
        "box": [*more, blocks, box, inner],
        "swizzle": swizzle,
    }


def hilbert(rows: int, columns: int, clusters: int = 64) -> list[int]:
    """Return what ``createHilbert`` writes: the tiles of each cluster along a Hilbert curve, then -1."""
    side = 1 << (max(rows, columns) - 1).bit_length()
    lists: list[list[int]] = [[] for _ in range(clusters)]
    found = 0
    for distance in range(side * side):
        row, column = _place(side, distance)
        if row < rows and column < columns:
            lists[found % clusters].append(row << 16 | column)
            found += 1
    lists += [[] for _ in range(_CTAS - clusters)]
    return [tile for some in lists for tile in [*some, *[-1] * (_LIST - len(some))]]


def _place(side: int, distance: int) -> tuple[int, int]:
    """Return the point of a Hilbert curve at a distance from its start."""
    x = y = 0
    size = 1
    while size < side:
        right = 1 & distance // 2
        up = 1 & (distance ^ right)
        if not up:
            if right:
                x, y = size - 1 - x, size - 1 - y
            x, y = y, x
        x, y = x + size * right, y + size * up
        distance //= 4
        size *= 2
    return x, y
