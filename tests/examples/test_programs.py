"""Every example runs as a program, from a fresh process, and prints what it should.

Programs that a page runs without arguments are run by ``tests/docs/test_pages.py``, with what they print.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx.toolchain import Tool

from .loading import EXAMPLES

_PAGES = "".join(page.read_text() for page in EXAMPLES.parent.glob("docs/*.md"))
#: Programs that print a table and run no kernel.
_TABLES = {"blockwise_choice", "gemm_choice"}
PROGRAMS = [
    program
    for program in sorted(EXAMPLES.glob("*/*.py"))
    if f"\n$ python {program.relative_to(EXAMPLES.parent)}\n" not in _PAGES
    and '\nif __name__ == "__main__":\n' in program.read_text()
]
#: The programs, and what they are made of.
SOURCES = sorted(EXAMPLES.glob("**/*.py"))


@pytest.mark.one_in(8)
@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_runs(program: Path, ptxas: Tool) -> None:
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    if program.stem in _TABLES:
        assert re.search(r"\d+\.\d us .*tile", done.stdout), done.stdout
    else:
        assert "right" in done.stdout and "WRONG" not in done.stdout


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_imports_nothing_of_pyptx_but_its_face(source: Path) -> None:
    for line in source.read_text().splitlines():
        if line.startswith(("import pyptx", "from pyptx")):
            assert line == "import pyptx" or line.startswith("from pyptx import")
