"""The search order for tools, versions, and the error that lists where it looked."""

from __future__ import annotations

import importlib.util
import os
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from pyptx.core.errors import ToolNotFoundError
from pyptx.toolchain import find_nvdisasm, find_ptxas


def fake_tool(path: Path, version: str) -> Path:
    """A program that reports ``version`` and notes each start beside itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho started >>{path}.starts\necho 'release 1.2, V{version}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No wheel, no variables and an empty PATH; returns a folder to put tools in."""
    for name in ("PYPTX_PTXAS", "PYPTX_NVDISASM", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}{os.pathsep}/bin")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return tmp_path


def wheel_at(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    spec = ModuleSpec("nvidia", None, is_package=True)
    spec.submodule_search_locations = [str(root)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)


def test_order(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake_tool(bare / "path/ptxas", "1.0.0").parent))
    assert (find_ptxas().version, find_ptxas().found) == ((1, 0, 0), "PATH")

    monkeypatch.setenv("CUDA_PATH", str(fake_tool(bare / "cuda_path/bin/ptxas", "2.0.0").parents[1]))
    assert (find_ptxas().version, find_ptxas().found) == ((2, 0, 0), "CUDA_PATH")

    monkeypatch.setenv("CUDA_HOME", str(fake_tool(bare / "cuda_home/bin/ptxas", "3.0.0").parents[1]))
    assert (find_ptxas().version, find_ptxas().found) == ((3, 0, 0), "CUDA_HOME")

    fake_tool(bare / "nvidia/cuda_nvcc/bin/ptxas", "4.0.0")
    wheel_at(monkeypatch, bare / "nvidia")
    assert (find_ptxas().version, find_ptxas().found) == ((4, 0, 0), "wheel nvidia-cuda-nvcc")

    fake_tool(bare / "nvidia/cu9/bin/ptxas", "5.0.0")
    fake_tool(bare / "nvidia/cu13/bin/ptxas", "6.0.0")
    assert find_ptxas().version == (6, 0, 0)

    monkeypatch.setenv("PYPTX_PTXAS", str(fake_tool(bare / "mine/ptxas", "7.0.0")))
    assert (find_ptxas().version, find_ptxas().found) == ((7, 0, 0), "PYPTX_PTXAS")

    given = fake_tool(bare / "given/any-name", "8.0.0")
    assert (find_ptxas(given).version, find_ptxas(given).found) == ((8, 0, 0), "explicit path")
    assert find_ptxas(given).path == given and find_ptxas(given).version_text == "8.0.0"


def test_a_folder_counts_as_an_explicit_path(bare: Path) -> None:
    tool = fake_tool(bare / "bin/nvdisasm", "1.2.3")
    assert find_nvdisasm(bare / "bin").path == tool


@pytest.mark.parametrize("by_variable", [True, False])
def test_an_explicit_path_is_never_replaced(
    bare: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    monkeypatch.setenv("PATH", str(fake_tool(bare / "path/ptxas", "1.0.0").parent))
    missing = bare / "missing" / "ptxas"
    if by_variable:
        monkeypatch.setenv("PYPTX_PTXAS", str(missing))
    with pytest.raises(ToolNotFoundError, match="missing/ptxas.*no such executable file"):
        find_ptxas(None if by_variable else missing)


def test_an_explicit_file_that_is_no_ptxas(bare: Path) -> None:
    impostor = bare / "ptxas"
    impostor.write_text("#!/bin/sh\necho hello\n")
    impostor.chmod(0o755)
    with pytest.raises(ToolNotFoundError, match="gave no version"):
        find_ptxas(impostor)


def test_a_find_that_does_not_run_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = bare / "cuda/bin/ptxas"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"\x7fELF not for this machine")
    broken.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(bare / "cuda"))
    with pytest.raises(ToolNotFoundError, match=r"CUDA_HOME: .*does not run"):
        find_ptxas()
    monkeypatch.setenv("PATH", str(fake_tool(bare / "path/ptxas", "1.0.0").parent))
    assert find_ptxas().found == "PATH"


def test_not_found_lists_the_places_and_the_command(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolNotFoundError, match="wheel nvidia-cuda-nvcc: not there"):
        find_ptxas()
    wheel_at(monkeypatch, bare / "nvidia")
    monkeypatch.setenv("CUDA_HOME", str(bare / "cuda"))
    with pytest.raises(ToolNotFoundError) as caught:
        find_ptxas()
    said = str(caught.value)
    for part in (
        "PYPTX_PTXAS: not set",
        f"wheel nvidia-cuda-nvcc: {bare / 'nvidia'}",
        f"CUDA_HOME: {bare / 'cuda' / 'bin'}",
        "CUDA_PATH: not there",
        f"PATH: {bare / 'empty'}",
        "python -m pip install nvidia-cuda-nvcc",
    ):
        assert part in said
    assert caught.value.summary == "no ptxas was found in the places that pyptx searches"
    assert caught.value.details[0] == "PYPTX_PTXAS: not set" and len(caught.value.details) > 4


def test_the_version_is_read_once_per_file(bare: Path) -> None:
    tool = fake_tool(bare / "ptxas", "1.0.0")
    starts = Path(f"{tool}.starts")
    assert find_ptxas(tool).version == find_ptxas(tool).version == (1, 0, 0)
    assert starts.read_text().count("started") == 1
    fake_tool(tool, "1.1.0")
    os.utime(tool, ns=(0, 1))
    assert find_ptxas(tool).version == (1, 1, 0)
    assert starts.read_text().count("started") == 2
