"""Compiles the sources to the texts that are kept: ``python -m tests.sim.compiled.hopper.compile``.

Needs what :mod:`tests.sim.compiled.compile` needs. ``texts/texts.json`` has what a launch of a Triton text needs beside it:
threads, dynamic shared memory, CTAs of a cluster, bytes of scratch memory for each, boxes and swizzles of tensor maps.
"""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from types import ModuleType
from typing import Any

from ..compile import compile_cuda, compile_triton, compilers
from .kernels import CUDA, GLUON, TRITON
from .launches import TEXTS

_ARCH = "sm_90a"


def _describe(module: ModuleType, prefix: str, kernels: dict[str, Any]) -> dict[str, Any]:
    about = {}
    for name, kernel in kernels.items():
        text = f"{prefix}.{name}"
        said = compile_triton(module, kernel, _ARCH, TEXTS / f"{text}.ptx")
        about[text] = {
            "threads": 32 * said.num_warps,
            "dynamic_smem": said.shared,
            "cluster": said.num_ctas,
            "scratch": said.global_scratch_size,
            "maps": [(meta["block_size"], meta["swizzle"]) for meta in said.tensordesc_meta or ()],
        }
    return about


def main() -> None:
    nvcc, versions = compilers()
    shutil.rmtree(TEXTS, ignore_errors=True)
    TEXTS.mkdir()
    for source in CUDA:
        compile_cuda(nvcc, source, _ARCH, [], TEXTS / f"{source.stem}.ptx")
    sources = __package__ + ".sources"
    launches = _describe(import_module(f"{sources}.tensors"), "triton", TRITON)
    launches |= _describe(import_module(f"{sources}.warpgroups"), "gluon", GLUON)
    about = {"compilers": versions, "launches": launches}
    (TEXTS / "texts.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
