"""On a GPU: waits that are bounded, and errors that name the kernel. Each case is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.loading import load_example

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
WAIT = "CTA (1, 0, 0) warp 1 (32 lanes, mask 0xffffffff) waited 0."


def run(case: str, debug: str) -> str:
    """Return what a case prints, standard error included."""
    environment = {**os.environ, "PYPTX_DEBUG": debug, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.failing", case],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_a_hang_becomes_an_error_of_its_call() -> None:
    said = run("hang", "waits=0.5,sync")
    assert "[call] WaitTimeoutError: hanging: 1 wait of a warp took longer than 0.5 s" in said
    assert WAIT in said and "full[1] (shared address 0x" in said and "parity 0 at " in said
    assert "failing.py" in said and "ptx.mbarrier.wait(full[1], 0)" in said


def test_without_sync_the_next_call_says_which_wait() -> None:
    said = run("hang", "waits=0.5")
    assert "[call] no error" in said and "[torch] " in said
    assert "[next] WaitTimeoutError: hanging: 1 wait" in said and WAIT in said


def test_without_another_call_the_end_of_the_process_says_it() -> None:
    said = run("exit", "waits=0.5")
    assert "pyptx: hanging: 1 wait of a warp took longer" in said and WAIT in said


def test_waits_that_end_go_on() -> None:
    assert "[right] True" in run("ends", "waits=5,sync")


def test_sync_names_the_kernel_that_failed() -> None:
    said = run("wild", "sync")
    assert "[call] KernelFailedError: wild with grid (1, 1, 1), block (64, 1, 1) failed while it ran" in said
    assert "failing.py" in said


def test_a_later_call_lists_the_kernels() -> None:
    said = run("wild", "")
    assert "[call] no error" in said
    assert "[next] KernelFailedError: " in said
    assert "wild (once), first called at " in said and "hanging (once), first called at " in said


def test_printf() -> None:
    said = run("print", "")
    lines = sorted(line for line in said.splitlines() if line.startswith("[said]"))
    assert lines == ["[said] 0 0.000000 text 0", "[said] 1 0.500000 text 1099511627776"]


def test_a_gemm_with_bounded_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("PYPTX_DEBUG", "waits=5")
    gemm = load_example("hopper/gemm_highperf_hopper.py").build_gemm(512, 512, 256)
    a = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16)
    found = gemm(a, b)
    assert torch.allclose(found.float(), (a.float() @ b.float().T), rtol=2e-2, atol=2e-1)
