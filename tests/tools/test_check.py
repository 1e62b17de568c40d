"""``pyptx check``: faults with their lines, exit status, JSON, PTX files and kernels of Python files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyptx.toolchain import Tool
from pyptx.tools.cli import cli

RIGHT = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x) {
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    add.u32 %r2, %r1, 1;
    ret;
}
"""
WRONG = RIGHT.replace("add.u32", "add.u23").replace("mov.u32 %r1, %tid.x", "bra nowhere")
EXAMPLE = str(Path(__file__).parents[2] / "examples/blackwell/gemm_highperf_blackwell.py")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", *arguments])


@pytest.fixture
def right(tmp_path: Path) -> str:
    file = tmp_path / "right.ptx"
    file.write_text(RIGHT)
    return str(file)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    file = tmp_path / "wrong.ptx"
    file.write_text(WRONG)
    return str(file)


def test_a_right_file(right: str) -> None:
    result = run(right)
    assert result.exit_code == 0
    assert result.stdout == "" and "no faults in 3 instructions (PTX 8.0, sm_90)" in result.stderr


def test_every_fault_has_its_line(wrong: str) -> None:
    result = run(wrong)
    assert result.exit_code == 1 and "2 faults" in result.stderr
    first, second = [line for line in result.stdout.splitlines() if line.startswith(wrong)]
    assert first.startswith(f"{wrong}:6: nowhere: no such")
    assert second.startswith(f"{wrong}:7: add.u23: unknown modifier .u23")
    assert "nearest legal spelling: add.u" in result.stdout


def test_json(wrong: str, right: str) -> None:
    rows = json.loads(run("--json", wrong).stdout)
    assert [(row["line"], row["error"]) for row in rows] == [(6, "OperandError"), (7, "InstructionError")]
    assert json.loads(run("--json", right).stdout) == []


def test_not_ptx(tmp_path: Path) -> None:
    file = tmp_path / "not.ptx"
    file.write_text(RIGHT.replace("ret;\n}", "ret"))
    result = run(str(file))
    assert result.exit_code == 1 and f"{file}:8: line 8" in result.stdout and "expected" in result.stdout


def test_ptxas_is_asked_last(right: str, wrong: str, ptxas: Tool) -> None:
    assert "registers, 0 bytes spilled" in run("--assemble", right).stderr
    assert "registers" not in run("--assemble", wrong).stderr


def test_a_recorded_kernel() -> None:
    result = run(f"{EXAMPLE}:build_gemm", "256", "256", "128")
    assert result.exit_code == 0, result.output
    assert "no faults in" in result.stderr and "sm_100a" in result.stderr


def test_a_kernel_that_cannot_be_recorded(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text(
        "from pyptx import kernel, ptx, reg, u32\n\n\n"
        "@kernel(grid=1, block=32, arch='sm_90a')\n"
        "def bad():\n"
        "    ptx.inst.mov.u23(reg.scalar(u32), 1)\n"
    )
    result = run(f"{file}:bad")
    assert result.exit_code == 1 and f"{file}:6: mov.u23: unknown modifier" in result.stdout


@pytest.mark.parametrize("arguments", [("nowhere.ptx",), ("nowhere.py",)])
def test_no_such_file(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_values_are_for_kernels(right: str) -> None:
    result = run(right, "M=4")
    assert result.exit_code == 2 and "PTX text" in result.output
