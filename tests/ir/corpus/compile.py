"""Compiles the corpus to the texts that are kept: ``python -m tests.ir.corpus.compile``.

Needs nvcc, g++ and Triton (``pip install -e ".[full]"``).  The sources are compiled from copies in one folder, so that
line tables and debug information name the same paths wherever this runs.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .cases import CASES, Case
from .sources import ARCHITECTURES, BUILDS, CUDA, LESS, LESS_OPTIMIZED
from .texts import write

#: Where copies of the sources are compiled.
PLACE = Path(tempfile.gettempdir(), "pyptx-corpus")


def compile_cuda(nvcc: str, source: str, arch: str, options: tuple[str, ...]) -> str:
    """The PTX of the CUDA source of this name."""
    PLACE.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name(f"{source}.cu"), PLACE)
    command = [nvcc, "-ptx", "-std=c++17", f"-arch={arch}", "-w", *options, f"{source}.cu", "-o", "out.ptx"]
    done = subprocess.run(command, cwd=PLACE, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return (PLACE / "out.ptx").read_text()


def stop_at_text(*given: Any) -> Any:
    """Triton's hook for stages: none behind the text."""
    if not given:
        return "text only", "text only"
    given[1]["cubin"] = lambda text, metadata: b""
    return None


def compile_triton(module: ModuleType, case: Case, capability: int) -> str:
    """The PTX of a kernel in Triton or Gluon, which ``module`` defines; no GPU is needed."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    function = getattr(module, case.function)
    names = [n for n in function.arg_names if n not in case.constants]
    signature = dict(zip(names, case.types.split(), strict=True))
    signature.update(dict.fromkeys(case.constants, "constexpr"))
    kind = GluonASTSource if case.module.startswith("gluon") else ASTSource
    source = kind(function, signature, dict(case.constants))
    target = GPUTarget("cuda", capability, 32)
    return str(triton.compile(source, target=target, options=case.options).asm["ptx"])


def neutral(text: str) -> str:
    """The text without the folder in which compilers are installed: in paths, and in messages of assertions."""
    text = re.sub(r'(?m)^(\s*\.file\s+\d+\s+")[^"]*/site-packages/', r"\1/site-packages/", text)
    folder = str(Path(sysconfig.get_paths()["purelib"]).parent).encode()
    between = r",\s*"
    return re.sub(between.join(map(str, folder)), ", ".join(["47"] * len(folder)), text)


def copied_modules() -> Callable[[str], ModuleType]:
    """Imports a module of kernels from its copy."""
    PLACE.mkdir(exist_ok=True)
    for file in Path(__file__).parent.glob("*_kernels.py"):
        shutil.copy(file, PLACE)
    sys.path.insert(0, str(PLACE))
    return importlib.import_module


def main() -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise SystemExit("needs nvcc")
    os.environ.update(TRITON_DEFAULT_FP_FUSION="1", TRITON_ALWAYS_COMPILE="1")
    import triton

    triton.knobs.runtime.add_stages_inspection_hook = stop_at_text
    modules = copied_modules()
    for capability, arch in ARCHITECTURES.items():
        wanted = [(str(source), str(build)) for source, build, on in (p.values for p in CUDA) if on == arch]
        cuda = {
            f"{source}-{build}": compile_cuda(nvcc, source, arch, (BUILDS[build][0],))
            for source, build in wanted
        }
        if arch == "sm_80":
            cuda |= {f"{source}-less": compile_cuda(nvcc, source, arch, LESS) for source in LESS_OPTIMIZED}
        write(arch, "cuda", {name: neutral(text) for name, text in cuda.items()})
        cases = {name: case for name, case in CASES.items() if capability in case.on}
        triton = {
            name: compile_triton(modules(case.module), case, capability) for name, case in cases.items()
        }
        write(arch, "triton", {name: neutral(text) for name, text in triton.items()})


if __name__ == "__main__":
    main()
