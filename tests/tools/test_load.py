"""What commands take besides kernels: programs, and functions that build either."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyptx.ir import parse_module
from pyptx.toolchain import Tool
from pyptx.tools.cli import cli

PROGRAM = """
from pyptx import Program, ptx, reg, u32, u64


def build(step=1):
    program = Program("sm_90a")

    @program.entry()
    def count(out: u64):
        place, value = reg.scalar(u64), reg.scalar(u32)
        ptx.inst.ld.param.u64(place, ptx.addr(out))
        ptx.inst.ld.u32(value, ptx.addr(place))
        ptx.inst.add.u32(value, value, step)
        ptx.inst.st.u32(ptx.addr(place), value)
        ptx.ret()

    return program


program = build()
number = 7
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counts.py"
    path.write_text(PROGRAM)
    return path


def _run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    return done.exit_code, done.output


def test_emit_prints_a_program(file: Path) -> None:
    for words in ((file,), (f"{file}:program",), (f"{file}:build",), (f"{file}:build", "step=1")):
        status, text = _run("emit", *words)
        assert status == 0, text
        assert [f.name for f in parse_module(text).functions] == ["count"]
    assert "add.u32 %value, %value, 3;" in _run("emit", f"{file}:build", "3")[1]
    assert "counts.py" in _run("emit", file, "--lines")[1]
    assert "// " in _run("emit", file, "--annotate")[1]


def test_a_program_is_assembled(file: Path, ptxas: Tool, nvdisasm: Tool) -> None:
    status, text = _run("check", file)
    assert status == 0, text
    assert "registers" in text
    assert "IADD" in _run("emit", file, "--sass")[1]


def test_programs_are_compared(file: Path) -> None:
    assert _run("diff", "--no-sass", file, f"{file}:build")[0] == 0
    status, text = _run("diff", "--no-sass", file, f"{file}:build step=2")
    assert status == 1
    assert "1" in text and "2" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("program", "step=2"), "takes no values"),
        (("number",), "is a int: expected a kernel, a program or a function"),
        (("nothing",), "has no 'nothing'"),
        (("build", "1", "2"), "build(1, 2)"),
    ],
)
def test_what_is_refused(file: Path, words: tuple[str, ...], said: str) -> None:
    status, text = _run("emit", f"{file}:{words[0]}", *words[1:])
    assert status == 2
    assert said in text


TUNED = """
import pyptx
from pyptx import kernel, ptx


@pyptx.autotune("stages", [1, 2])
def build(N, *, stages):
    @kernel(block=32 * stages, arch="sm_90a", name=f"k{N}_{stages}")
    def k():
        ptx.ret()

    return k


@pyptx.autotune("extra", [1, 2])
@kernel(block=32, arch="sm_90a")
def plain(*, extra):
    for _ in range(extra):
        ptx.bar.sync(0)
    ptx.ret()
"""


def test_what_is_tuned_takes_all_constants(tmp_path: Path) -> None:
    file = tmp_path / "tuned.py"
    file.write_text(TUNED)
    status, text = _run("emit", f"{file}:build", "7", "stages=2")
    assert status == 0 and ".reqntid 64" in text and "k7_2" in text
    status, text = _run("emit", file, "extra=3")
    assert status == 0 and text.count("bar.sync") == 3
