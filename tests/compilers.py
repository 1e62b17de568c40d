"""Fixtures: compilers of CUDA and Triton sources. Their absence fails in CI and skips elsewhere."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ir.corpus import compile
from tests.ir.corpus.cases import CASES


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
def compile_cuda(nvcc: str) -> Callable[..., str]:
    """A function of a source of the corpus, an architecture and options that gives PTX."""

    def compile_source(source: str, arch: str, *options: str) -> str:
        return compile.compile_cuda(nvcc, source, arch, options)

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

        patch.setattr(triton.knobs.runtime, "add_stages_inspection_hook", compile.stop_at_text)

        def compile_case(name: str, capability: int) -> str:
            module = importlib.import_module(f"tests.ir.corpus.{CASES[name].module}")
            return compile.compile_triton(module, CASES[name], capability)

        yield compile_case
