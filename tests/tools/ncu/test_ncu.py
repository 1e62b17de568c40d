"""``pyptx ncu`` and ``ncu_run`` with a program that stands for ncu; the real one is in ``test_ncu_gpu.py``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pyptx
from pyptx import LaunchError, SpecError, ToolNotFoundError
from pyptx.tools.cli import cli
from pyptx.tools.ncu.report import NcuReport, join, read_details, read_source
from tests.tools.ncu import target

HERE = Path(__file__).parent


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called ncu, first on PATH."""
    path = tmp_path / "bin" / "ncu"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "fake_ncu.py"}" "$@"\n')
    path.chmod(0o755)
    for name in ("PYPTX_NCU", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return path


def test_a_function_under_ncu(ncu: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It runs in a new process, where another ``ncu_run`` does nothing; the report has figures and lines."""
    written = tmp_path / "written"
    keep = tmp_path / "kept"
    found = pyptx.ncu_run(target.main, str(written), bench=False, kernel_regex="gemm|add", keep=keep)
    assert written.read_text() == "bench=False, name=pyptx_ncu, inside=None"
    assert found is not None and found.path == tmp_path / "kept.ncu-rep"
    words = json.loads(found.path.read_text())
    assert words[words.index("--kernel-name") + 1] == "regex:gemm|add"
    assert words[words.index("--launch-count") + 1] == "20" and "SourceCounters" in words
    gemm, add = found.kernels
    assert (gemm.name, gemm.grid, gemm.block) == ("gemm", "(132, 1, 1)", "(384, 1, 1)")
    assert gemm.metrics["Duration"] == (181.54, "us") and gemm.metrics["Elapsed Cycles"] == (
        310000.0,
        "cycle",
    )
    assert [(line.line, line.share) for line in gemm.lines] == [(3, 0.5), (12, 0.375), (14, 0.125)]
    assert add.lines == [] and found.note == ""
    assert capfd.readouterr().out.splitlines()[:6] == [
        "gemm  grid (132, 1, 1), block (384, 1, 1)",
        "  time 181.54 us, compute 87.25%, registers 168",
        "  by Warp Stall Sampling (All Samples):",
        "   50.0%  helpers.py:3: wait(slot)",
        "   37.5%  gemm.py:12: ptx.wgmma.mma_async(acc, a, b, atype=bf16, scale_d=1)",
        "   12.5%  gemm.py:14: slot = consumer.acquire()",
    ]
    assert "PYPTX_INSIDE_NCU" not in os.environ


@pytest.mark.full
def test_the_command(ncu: Path, tmp_path: Path) -> None:
    written = tmp_path / "written"
    words = ["ncu", "--kernel", "gemm", "--section", "SpeedOfLight", "--unlocked", str(HERE / "target.py")]
    done = CliRunner().invoke(cli, [*words, str(written), "--kernel", "own", "-x"], catch_exceptions=False)
    assert done.exit_code == 0 and "time 181.54 us" in done.output
    assert written.read_text() == "arguments=['--kernel', 'own', '-x']"


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("denied", "may not read .* counters .ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0"),
        ("none", "the program launched no kernel whose name matches 'k'"),
        ("failed", "ended with status 1 and measured nothing.*application returned an error code"),
        ("broken", "could not print the page details of .*the file is broken"),
    ],
)
def test_why_nothing_was_measured(
    ncu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, said: str
) -> None:
    monkeypatch.setenv("FAKE_NCU", mode)
    with pytest.raises(LaunchError, match=f"(?s){said}"):
        pyptx.ncu_run(target.main, str(tmp_path / "written"), kernel_regex="k")


def test_without_ncu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pyptx.tools.ncu.program.shutil.which", lambda *_, **__: None)
    monkeypatch.delenv("PYPTX_NCU", raising=False)
    with pytest.raises(ToolNotFoundError, match=r"no ncu \(Nsight Compute\) was found(?s:.*)CUDA toolkit"):
        pyptx.ncu_run(target.main, str(tmp_path))
    monkeypatch.setenv("PYPTX_NCU", "/nowhere/ncu")
    with pytest.raises(ToolNotFoundError, match="PYPTX_NCU names '/nowhere/ncu': no such executable"):
        pyptx.ncu_run(target.main, str(tmp_path))


def test_what_cannot_be_called_in_a_new_process() -> None:
    def inner() -> None: ...

    for function in (inner, lambda: None, print):
        with pytest.raises(SpecError, match="a function at the top level of a file"):
            pyptx.ncu_run(function)
    with pytest.raises(SpecError, match="the arguments of main are passed as JSON"):
        pyptx.ncu_run(target.main, object())


def test_pages_of_other_forms() -> None:
    """Without samples, lines are weighed by instructions; unknown rows are passed over."""
    page = '"Line No","Source","Instructions Executed"\n"7","a","30"\n"","b","9"\n"8","c","10"\nx\n'
    (kernel,) = read_source(page)
    assert kernel.weighed_by == "Instructions Executed"
    assert [(str(line), line.weight) for line in kernel.lines] == [
        (" 75.0%  line 7: a", 30.0),
        (" 25.0%  line 8: c", 10.0),
    ]
    assert read_source("") == [] and read_details("==PROF== x\n") == []


def _report(**metrics: Any) -> str:
    rows = "".join(f'"0","k","{name}","{unit}","{value}"\n' for name, (value, unit) in metrics.items())
    return '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n' + rows


def test_values_that_are_no_numbers() -> None:
    (kernel,) = read_details(_report(Duration=("n/a", ""), Other=("1,024", "B")))
    assert kernel.metrics == {"Duration": ("n/a", ""), "Other": (1024.0, "B")}
    assert str(kernel).splitlines()[1] == "  time n/a"


def _page(*parts: tuple[str, str]) -> str:
    head = '"Line No","Source","# Samples"\n"1","x","5"\n'
    return "".join(f'"File Path","{file}"\n"Function Name","{name}"\n{head}' for file, name in parts)


def test_launches_in_the_page_of_sources() -> None:
    """Two launches of one kernel with two files, then another kernel."""
    found = read_source(_page(("a.py", "k"), ("b.py", "k"), ("a.py", "k"), ("b.py", "k"), ("a.py", "other")))
    assert [(kernel.name, len(kernel.lines)) for kernel in found] == [("k", 2), ("k", 2), ("other", 1)]


def test_pages_that_do_not_show_the_same_launches() -> None:
    """Lines of another launch are worse than none."""
    kernels = read_details(_report(Duration=("1", "us")))
    for parts in ([("a.py", "k"), ("a.py", "k")], [("a.py", "other")]):
        note = join(kernels, read_source(_page(*parts)))
        assert "no Python lines" in note and kernels[0].lines == []
        assert str(NcuReport(tuple(kernels), None, note)).endswith(note)
    assert join(kernels, read_source(_page(("a.py", "k")))) == "" and len(kernels[0].lines) == 1
