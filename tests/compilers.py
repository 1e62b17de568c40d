"""Fixtures: compilers of CUDA and Triton sources. Their absence fails in CI and skips elsewhere."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .ir.corpus.cases import CASES


def _missing(what: str) -> None:
    """Fail in CI, skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {what}")
    pytest.skip(f"needs {what}")


@pytest.fixture(scope="session")
def nvcc() -> str:
    wheels = Path(sysconfig.get_paths()["purelib"], "nvidia")
    homes = [
        *sorted(wheels.glob("cu[0-9]*")),
        *(Path(os.environ[v]) for v in ("CUDA_HOME",) if v in os.environ),
    ]
    path = os.pathsep.join([*(str(home / "bin") for home in homes), os.environ.get("PATH", "")])
    found = shutil.which("nvcc", path=path)
    if found is None or shutil.which("g++") is None:
        _missing("nvcc (wheels nvidia-cuda-nvcc and nvidia-cuda-cccl) and g++")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def compile_cuda(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """A function of a source file, an architecture and options that gives PTX."""

    @functools.cache
    def compile_source(source: Path, arch: str, *options: str) -> str:
        out = tmp_path_factory.mktemp("cuda") / f"{source.stem}.ptx"
        command = [nvcc, "-ptx", "-std=c++17", f"-arch={arch}", "-w", *options, str(source), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return out.read_text()

    return compile_source


@pytest.fixture(scope="module")
def compile_triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, int], str]]:
    """A function that compiles a case for a compute capability to PTX; no GPU is needed."""
    if importlib.util.find_spec("triton") is None:
        if sys.version_info < (3, 11):
            pytest.skip("Triton has no wheel for this Python")
        _missing("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from triton.experimental.gluon._runtime import GluonASTSource

        def stop_at_text(*given: Any) -> Any:
            if not given:
                return "text only", "text only"
            given[1]["cubin"] = lambda text, metadata: b""
            return None

        patch.setattr(triton.knobs.runtime, "add_stages_inspection_hook", stop_at_text)

        def compile_case(name: str, capability: int) -> str:
            case = CASES[name]
            function = getattr(importlib.import_module(f"tests.ir.corpus.{case.module}"), case.function)
            names = [n for n in function.arg_names if n not in case.constants]
            signature = dict(zip(names, case.types.split(), strict=True))
            signature.update(dict.fromkeys(case.constants, "constexpr"))
            kind = GluonASTSource if case.module.startswith("gluon") else ASTSource
            source = kind(function, signature, dict(case.constants))
            target = GPUTarget("cuda", capability, 32)
            return str(triton.compile(source, target=target, options=case.options).asm["ptx"])

        yield compile_case
