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


def test_resources_are_said(right: str, ptxas: Tool) -> None:
    result = run(right)
    assert result.exit_code == 0 and "k: " in result.stderr and "registers, 0 bytes spilled" in result.stderr
    assert "registers" not in run("--no-assemble", right).stderr


def test_every_fault_has_its_line(wrong: str) -> None:
    result = run(wrong)
    assert result.exit_code == 1 and "2 faults" in result.stderr
    first, second = [line for line in result.stdout.splitlines() if line.startswith(wrong)]
    assert first.startswith(
        f"{wrong}:6: no variable, parameter, function or label in scope is called nowhere"
    )
    assert second.startswith(f"{wrong}:7: add.u23: unknown modifier .u23")
    assert "nearest legal spelling: add.u" in result.stdout


def test_json(wrong: str, right: str, ptxas: Tool) -> None:
    found = json.loads(run("--json", wrong).stdout)
    rows = [(row["line"], row["error"]) for row in found["faults"]]
    assert rows == [(6, "OperandError"), (7, "InstructionError")]
    assert found["file"] == wrong and not found["assembled"] and found["resources"] == found["messages"] == []
    found = json.loads(run("--json", right).stdout)
    assert found["faults"] == [] and found["assembled"] and found["ptxas"] == ptxas.version_text
    assert (found["version"], found["target"], found["instructions"], found["raw"]) == ("8.0", "sm_90", 3, 0)
    (resources,) = found["resources"]
    assert resources["function"] == "k" and resources["registers"] > 0 and resources["spill_stores"] == 0


def test_json_of_what_is_no_module(tmp_path: Path) -> None:
    file = tmp_path / "not.ptx"
    file.write_text("nothing")
    found = json.loads(run("--json", str(file)).stdout)
    assert found["target"] is None and found["faults"][0]["error"] == "ParseError"


def test_not_ptx(tmp_path: Path) -> None:
    file = tmp_path / "not.ptx"
    file.write_text(RIGHT.replace("ret;\n}", "ret"))
    result = run(str(file))
    assert result.exit_code == 1 and f"{file}:8: line 8" in result.stdout and "expected" in result.stdout


def test_ptxas_is_asked_last(right: str, wrong: str, ptxas: Tool) -> None:
    assert "registers, 0 bytes spilled" in run("--assemble", right).stderr
    assert "registers" not in run("--assemble", wrong).stderr


def test_what_ptxas_refuses_is_a_fault(tmp_path: Path, ptxas: Tool) -> None:
    """A function that is defined elsewhere: a right module, which ptxas alone cannot finish."""
    file = tmp_path / "extern.ptx"
    text = RIGHT.replace(".visible", ".extern .func elsewhere;\n.visible").replace(
        "ret;", "call elsewhere;\nret;"
    )
    file.write_text(text)
    assert run("--no-assemble", str(file)).exit_code == 0
    result = run(str(file))
    assert result.exit_code == 1 and "1 fault in 4 instructions" in result.stderr
    assert result.stdout.startswith(f"{file}:1: ptxas ") and "Unresolved extern function" in result.stdout
    (fault,) = json.loads(run("--json", str(file)).stdout)["faults"]
    assert (fault["line"], fault["error"], fault["callers"]) == (1, "PtxRejectedError", [])


def test_without_a_ptxas(right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_PTXAS", "/nowhere/ptxas")
    result = run(right)
    assert result.exit_code == 0 and "not assembled" in result.stderr
    assert run("--no-assemble", right).exit_code == 0
    result = run("--assemble", right)
    assert result.exit_code == 2 and "/nowhere/ptxas" in result.stderr


LOSSY = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() {
    setmaxnreg.inc.sync.aligned.u32 64;
    ret;
}
"""


def test_lost_speed_is_seen_and_strict(tmp_path: Path, right: str, ptxas: Tool) -> None:
    file = tmp_path / "lossy.ptx"
    file.write_text(LOSSY)
    result = run(str(file))
    assert result.exit_code == 0 and "(C7508)" in result.stderr
    assert run("--strict", str(file)).exit_code == 1
    assert run("--strict", right).exit_code == 0
    (note,) = json.loads(run("--json", str(file)).stdout)["messages"]
    assert (note["severity"], note["code"], note["source"]) == ("info", "C7508", [])


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


def test_a_fault_in_a_helper_names_the_call(tmp_path: Path, ptxas: Tool) -> None:
    file = tmp_path / "helped.py"
    file.write_text(
        "from pyptx import kernel, ptx, reg, u32\n\n\n"
        "def helper(text):\n"
        "    ptx.raw(text)\n\n\n"
        "@kernel(grid=1, block=32, arch='sm_90a')\n"
        "def bad():\n"
        "    helper('mov.u23 %r, 1;')\n"
    )
    result = run(f"{file}:bad")
    assert result.exit_code == 1 and result.stdout.startswith(f"{file}:5: ptxas"), result.output
    assert f"\n    called from {file}:10: helper('mov.u23 %r, 1;')" in result.stdout
    assert "1 raw statements were not checked" in result.stderr
    (fault,) = json.loads(run("--json", f"{file}:bad").stdout)["faults"]
    assert fault["line"] == 5 and fault["callers"] == [{"file": str(file), "line": 10, "function": "bad"}]
