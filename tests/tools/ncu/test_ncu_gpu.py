"""``pyptx ncu`` with the real ncu."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyptx.core.errors import ToolNotFoundError
from pyptx.tools.ncu.program import find_ncu

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.gpu
def test_figures_and_lines_of_an_example() -> None:
    try:
        find_ncu()
    except ToolNotFoundError as error:
        pytest.skip(str(error))
    words = ["ncu", "--unlocked", "--kernel", "double", str(ROOT / "examples/hopper/wrong_address.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pyptx", *words], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    said = done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in said:
        pytest.skip("ncu may not read this GPU's counters")
    assert done.returncode == 0, said
    assert "double  grid" in done.stdout and "time " in done.stdout, said
    assert "wrong_address.py:" in done.stdout, said
