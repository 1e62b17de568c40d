"""Compiles the sources to the texts that are kept: ``python -m tests.sim.compiled.compile``.

Needs nvcc 13.0 (a newer one writes a PTX version that a driver of CUDA 13.0 refuses) and Triton. What a text needs
beside it, the dynamic shared memory that Triton asks for, goes into ``texts/texts.json`` with the compilers' versions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .sources import CAPABILITIES, CUDA, DEBUG, NEW, TEXTS, TRITON, Triton

#: The PTX version that Triton's compiler is asked for.
_TRITON_PTX = 87


def compile_cuda(nvcc: str, source: Path, arch: str, options: list[str], to: Path) -> None:
    # A debug build names the folder: the same for everyone who compiles.
    folder = Path(tempfile.gettempdir(), "pyptx-sources")
    folder.mkdir(exist_ok=True)
    for file in (source, *source.parent.glob("*.cuh")):
        shutil.copy(file, folder)
    command = [nvcc, "-ptx", "-std=c++17", "-w", f"-arch={arch}", *options, source.name, "-o", "out.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    shutil.move(folder / "out.ptx", to)


def compile_triton(module: Any, case: Triton, arch: str, to: Path) -> Any:
    """Write the text of a kernel of ``module`` and give what the compiler says of it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction

    def stop_at_text(*given: Any) -> Any:
        if not given:
            return "text only", "text only"
        given[1]["cubin"] = lambda text, metadata: b""
        return None

    triton.knobs.runtime.add_stages_inspection_hook = stop_at_text
    function = getattr(module, case.function)
    names = [n for n in function.arg_names if n not in case.constants]
    signature = dict(zip(names, case.types.split(), strict=True))
    signature.update(dict.fromkeys(case.constants, "constexpr"))
    source = GluonASTSource if isinstance(function, GluonJITFunction) else ASTSource
    compiled = triton.compile(
        source(function, signature, dict(case.constants)),
        target=GPUTarget("cuda", int(arch.strip("sm_a")), 32),
        options={**case.options, "ptx_version": _TRITON_PTX},
    )
    to.write_text(compiled.asm["ptx"])
    return compiled.metadata


def compilers() -> tuple[str, dict[str, str]]:
    """The path of nvcc, and the versions; has Triton compile the same way for everyone."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise SystemExit("needs nvcc")
    os.environ.update(TRITON_DISABLE_LINE_INFO="1", TRITON_DEFAULT_FP_FUSION="1", TRITON_ALWAYS_COMPILE="1")
    import triton

    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"V([\d.]+)", said)
    assert release is not None
    return nvcc, {"nvcc": release[1], "triton": triton.__version__}


def main() -> None:
    nvcc, versions = compilers()
    from tests.ir.corpus import triton_kernels

    shared = {}
    for arch in CAPABILITIES:
        folder = TEXTS / arch
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for source in CUDA:
            compile_cuda(nvcc, source, arch, [], folder / f"{source.stem}.ptx")
            if source.stem in DEBUG:
                compile_cuda(nvcc, source, arch, ["-G"], folder / f"{source.stem}.debug.ptx")
        for name in TRITON:
            if name not in NEW or arch == "sm_90a":
                text = f"triton.{name}"
                said = compile_triton(triton_kernels, TRITON[name], arch, folder / f"{text}.ptx")
                shared[f"{arch}/{text}"] = int(said.shared)
    about = {"compilers": versions, "dynamic_smem": shared}
    (TEXTS / "texts.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
