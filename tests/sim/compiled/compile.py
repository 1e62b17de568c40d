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

from .sources import CAPABILITIES, CUDA, DEBUG, NEW, TEXTS, TRITON

#: The PTX version that Triton's compiler is asked for.
_TRITON_PTX = 87


def compile_cuda(nvcc: str, source: Path, arch: str, options: list[str], to: Path) -> None:
    # A debug build names the folder: the same for everyone who compiles.
    folder = Path(tempfile.gettempdir(), "pyptx-sources")
    folder.mkdir(exist_ok=True)
    shutil.copy(source, folder)
    command = [nvcc, "-ptx", "-std=c++17", "-w", f"-arch={arch}", *options, source.name, "-o", "out.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    shutil.move(folder / "out.ptx", to)


def compile_triton(name: str, arch: str, to: Path) -> int:
    """Write the text and give its bytes of dynamic shared memory."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tests.ir.corpus import triton_kernels

    def stop_at_text(*given: Any) -> Any:
        if not given:
            return "text only", "text only"
        given[1]["cubin"] = lambda text, metadata: b""
        return None

    triton.knobs.runtime.add_stages_inspection_hook = stop_at_text
    case = TRITON[name]
    function = getattr(triton_kernels, case.function)
    names = [n for n in function.arg_names if n not in case.constants]
    signature = dict(zip(names, case.types.split(), strict=True))
    signature.update(dict.fromkeys(case.constants, "constexpr"))
    compiled = triton.compile(
        ASTSource(function, signature, dict(case.constants)),
        target=GPUTarget("cuda", CAPABILITIES[arch], 32),
        options={**case.options, "ptx_version": _TRITON_PTX},
    )
    to.write_text(compiled.asm["ptx"])
    return int(compiled.metadata.shared)


def main() -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise SystemExit("needs nvcc")
    os.environ.update(TRITON_DISABLE_LINE_INFO="1", TRITON_DEFAULT_FP_FUSION="1", TRITON_ALWAYS_COMPILE="1")
    import triton

    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"V([\d.]+)", said)
    assert release is not None
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
                shared[f"{arch}/{text}"] = compile_triton(name, arch, folder / f"{text}.ptx")
    about = {"compilers": {"nvcc": release[1], "triton": triton.__version__}, "dynamic_smem": shared}
    (TEXTS / "texts.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
