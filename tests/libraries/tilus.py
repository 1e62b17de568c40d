"""The tutorial's matrix products of Tilus (github.com/NVIDIA/tilus), V0 to V6, as its compiler makes them for sm_100a.

The source is a checkout; it needs nvcc, g++ and torch, and of PyPI apache-tvm-ffi, filelock, pandas, tabulate and tqdm.
Tilus makes CUDA C++ of a kernel without a GPU. That text is compiled and launched by its own host function, against
stand-ins for the few names of TVM's runtime. The schedules are of the space that the tutorial tunes over.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from pyptx.tools.load import load_module
from tests.libraries.host.compile import expression_program, kept_folder
from tests.libraries.host.device import Device
from tests.libraries.launches import Kernel, Launch, WrongResult

__all__ = ["kernels"]

_RUNTIME = """
#include <cstdint>
#include <cassert>
#include <iostream>
#include <cuda_runtime.h>
#define DLL
#define TVM_FFI_THROW(kind) std::cerr
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function)
struct TilusContext;
inline void *get_cuda_stream() { return nullptr; }
"""

#: M, N and K: several tiles in each direction, and tiles that are not full.
_SHAPE = (500, 512, 320)

#: Some schedules of each version's space.
_TILES = ({"block_m": 128, "block_n": 64}, {"block_m": 128, "block_n": 128}, {"block_m": 128, "block_n": 256})
_SLICES = ({"block_k": 16}, {"block_k": 32}, {"block_k": 64})
_PIPELINE = {"stages": 3, "e_block_n": 16}


def _schedules() -> Iterator[tuple[int, dict[str, int]]]:
    for tile in _TILES:
        for slices in _SLICES:
            yield 0, tile | slices
            yield 1, tile | slices | {"e_block_n": 32 if tile["block_n"] == 256 else 16}
            yield 2, tile | slices | _PIPELINE
            yield 3, tile | slices | _PIPELINE
            yield 4, tile | slices | _PIPELINE | {"swizzle_size": 4}
    yield 1, _TILES[2] | _SLICES[2] | {"e_block_n": 64}
    later = {"tma_stages": 3, "mma_stages": 2, "swizzle_size": 4}
    for tile in _TILES[1:]:
        for slices in _SLICES[1:]:
            yield 5, tile | slices | later | {"e_block_n": 16}
    for width in (16, 32):
        tile = {"block_m": 256, "block_n": 256, "block_k": 64, "e_block_n": width}
        yield 6, tile | later | {"tma_stages": 5}


def kernels(source: Path | None) -> Iterator[Kernel]:
    """Yield each version with each schedule."""
    assert source is not None
    for number, schedule in _schedules():
        chosen = " ".join(f"{name}={value}" for name, value in schedule.items())
        yield Kernel(f"v{number} {chosen}", partial(_run, source.resolve(), number, schedule))


def _text(source: Path, number: int, schedule: Mapping[str, int], constants: Mapping[str, int]) -> str:
    """Let Tilus make CUDA C++ of one version."""
    folder = str(source / "python")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    version = importlib.metadata.version

    def known(name: str) -> str:
        return "0.2.0" if name == "tilus" else version(name)

    with mock.patch.object(importlib.metadata, "version", known):
        tilus = import_module("tilus")
        scripts = import_module("tilus.lang.instantiated_script")
    drivers, target = import_module("tilus.drivers"), import_module("tilus.target")
    target.set_current_target(target.nvgpu_sm100a)
    module = load_module(source / f"examples/blackwell_matmul/matmul_v{number}.py")
    made = kept_folder(__doc__ or "", str(source), str(number), *(f"{k}{v}" for k, v in schedule.items()))
    tilus.option.cache_dir(str(made / "cache"))
    script = getattr(module, f"BlackwellMatmulV{number}")
    params = scripts.CallParameters(script)
    aligned = {params.param_names[index]: 4 for index in params.tuning_params}
    program: Any = scripts.JitInstance._instantiate_schedule((script, params, schedule, constants, aligned))
    if isinstance(program, str):
        raise RuntimeError(program)
    drivers.verify(program)
    program = drivers.optimize_program(program, options=drivers.BuildOptions(), cache_dir=made)
    low = drivers.optimize_ir_module(drivers.generate_ir_module(program), made)
    drivers.codegen(low, src_out_path=str(made / "source.cu"), target="cuda")
    return (made / "source.cu").read_text()


def _run(source: Path, number: int, schedule: Mapping[str, int], order: str, seed: int) -> list[Launch]:
    m, n, k = _SHAPE
    text = _text(source, number, schedule, {"n_size": n, "k_size": k})
    headers = kept_folder(_RUNTIME)
    for header in ("tvm/ffi/function.h", "tilus/tvm/ffi/extra_type_traits.h", "tilus/runtime.h"):
        (headers / header).parent.mkdir(parents=True, exist_ok=True)
        (headers / header).write_text("#pragma once\n" + (_RUNTIME if header == "tilus/runtime.h" else ""))
    call = "tilus_launch(int(n[0]), p[0], p[1], p[2])"
    flags = ["-std=c++17", "-O3", "-ftz=true", "-prec-div=false", f"-I{headers}"]
    built = expression_program(f"tilus_v{number}", text, call, "100a", flags)
    device = Device((10, 0), 148, order, seed)
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-3, 4, size).astype(np.float16) for size in ((m, k), (n, k)))
    out = device.empty((m, n), np.float16)
    device.run(built, (device.put(a), device.put(b), out), (m,))
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    if not np.array_equal(out, expected):
        raise WrongResult(f"{int((out != expected).sum())} elements differ", device.launches)
    return device.launches
