"""Compiles the sources to the texts that are kept: ``python -m tests.sim.compiled.blackwell.compile``.

As :mod:`tests.sim.compiled.compile`; ``texts.json`` has the dynamic shared memory and the threads of Triton's texts, and
the bytes of global memory that each of their programs wants for tensor maps.
"""

from __future__ import annotations

import json
import shutil

from ..compile import compile_cuda, compile_triton, compilers
from .texts_of import CORPUS, CUDA, GLUON, TEXTS, TRITON

_ARCH = "sm_100a"


def main() -> None:
    nvcc, versions = compilers()
    from tests.ir.corpus import triton_kernels as corpus

    from .sources import gluon_kernels, triton_kernels

    shutil.rmtree(TEXTS, ignore_errors=True)
    TEXTS.mkdir()
    for source in CUDA:
        compile_cuda(nvcc, source, _ARCH, [], TEXTS / f"{source.stem}.ptx")
    needs = {}
    for prefix, module, cases in (
        ("triton", corpus, CORPUS),
        ("triton", triton_kernels, TRITON),
        ("gluon", gluon_kernels, GLUON),
    ):
        for name, case in cases.items():
            text = f"{prefix}.{name}"
            said = compile_triton(module, case, _ARCH, TEXTS / f"{text}.ptx")
            written = (TEXTS / f"{text}.ptx").read_text()
            threads = int(written.partition(".reqntid ")[2].split()[0])
            needs[text] = {"shared": said.shared, "threads": threads, "scratch": said.global_scratch_size}
    (TEXTS / "texts.json").write_text(json.dumps({"compilers": versions, "needs": needs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
