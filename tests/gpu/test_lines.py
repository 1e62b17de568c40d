"""Python lines in the tools of a GPU: compute-sanitizer, ncu, and the driver's refusals.

What they name is a wrong address in ``examples/hopper/wrong_address.py``, in a helper function.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyptx import Tile, kernel, ptx, u32
from pyptx.core.errors import AssembleError
from pyptx.dsl import TileParam

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples/hopper/wrong_address.py"


def line_of(text: str) -> int:
    (number,) = (n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if text in line)
    return number


STORE = "ptx.inst.st.global_.f32(ptx.addr(array.ptr + offset), value)"
CALL = "store(D, offset, a + a)"


def under(tool: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the program under one of NVIDIA's tools."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"needs {tool}")
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [path, *options, sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": search},
    )


def test_compute_sanitizer_names_the_line_and_the_call() -> None:
    done = under("compute-sanitizer", "--tool", "memcheck", "--report-api-errors", "no")
    said = done.stdout + done.stderr
    if "Device not supported" in said:
        pytest.skip("compute-sanitizer does not work on this device")
    assert "Invalid __global__ write of size 4 bytes" in said, said
    assert re.search(rf"at store\+0x\w+ in {PROGRAM.name}:{line_of(STORE)}\n", said), said
    assert re.search(rf"Device Frame: double\+0x\w+ in {PROGRAM.name}:{line_of(CALL)}\n", said), said


def test_ncu_shows_the_lines() -> None:
    options = ("--section", "SourceCounters", "--import-source", "yes", "--page", "source", "--csv")
    done = under("ncu", "--clock-control", "none", *options, "--print-source", "cuda,sass")
    if "Failed to initialize" in done.stdout or "ERR_NVGPUCTRPERM" in done.stdout:
        pytest.skip(f"ncu does not work on this device: {done.stdout.splitlines()[-1]}")
    found: dict[str, list[str]] = {}
    line = ""
    for row in csv.reader(done.stdout.splitlines()):
        if len(row) >= 4 and row[0].isdigit():
            line = row[1].strip()
        elif len(row) >= 4 and not row[0] and line:
            found.setdefault(line, []).append(row[3])
    assert any("STG" in code for code in found.get(STORE, ())), done.stdout


def refused(address: Any) -> None:
    ptx.raw("st.global.u23 [%D_ptr], 1;")  # refused


def test_the_driver_names_the_line_and_the_call() -> None:
    torch = pytest.importorskip("torch")

    @kernel(out_specs=(Tile(32, u32),), grid=1, block=32, arch="sm_90a")
    def bad(D: TileParam) -> None:
        ptx.inst.st.global_.u32(ptx.addr(D.ptr), 1)
        refused(D.ptr)  # called

    with pytest.raises(AssembleError) as caught:
        bad(out=torch.zeros(32, dtype=torch.uint32, device="cuda"))
    assert "the driver's JIT" in str(caught.value)
    places = caught.value.location.chain
    assert [place.text.rpartition("# ")[2] for place in places] == ["refused", "called"]
    row = next(n for n, text in enumerate(bad.ptx().splitlines(), 1) if "u23" in text)
    assert f"PTX line {row}: st.global.u23" in str(caught.value)
