"""Lines of the author's code: of files, of ``python -c``, of standard input and of text that is executed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_KERNEL = """\
from pyptx import kernel, ptx, reg, u64
@kernel(block=32, arch="sm_90a")
def wild():
    place = reg.scalar(u64, init=16)
    ptx.inst.st.global_.u32(ptx.addr(place), 1)
print(wild.simulate())
"""


def said(arguments: list[str], given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_text_of_a_command_has_lines() -> None:
    out = said(["-c", _KERNEL])
    assert "<string>:5: ptx.inst.st.global_.u32(ptx.addr(place), 1)" in out


def test_standard_input_has_numbers() -> None:
    out = said(["-"], _KERNEL)
    assert "<stdin>:5" in out and "ptx.inst.st" not in out


def test_executed_text_shows_no_line_of_the_command() -> None:
    command = f"text = {_KERNEL!r}\nexec(text.replace('wild', 'other'), {{'__name__': 'x'}})\n#\n#\n# no line of it\n"
    out = said(["-c", command])
    assert "<string>:5" in out
    if sys.version_info < (3, 13):  # later versions know one text under this name
        assert "no line of it" not in out
