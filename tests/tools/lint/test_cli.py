"""``pyptx lint``: exit status, text, JSON, launches, waivers, wrong command lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyptx.tools.cli import cli

from .test_lint import OFFSET, PATHS
from .test_rules import kernel

EXAMPLES = Path(__file__).parents[3] / "examples"
VECTOR_ADD = str(EXAMPLES / "hopper/vector_add.py")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["lint", *arguments])


@pytest.fixture
def wraps(tmp_path: Path) -> str:
    file = tmp_path / "wraps.ptx"
    offset = "ld.param.u32 %r2, [n];\nmad.lo.s32 %r3, %r1, %r2, %r0;\nmul.wide.s32 %d1, %r3, 4;"
    file.write_text(kernel(OFFSET.format(offset)))
    return str(file)


def test_exit_status(wraps: str) -> None:
    result = run(wraps, "--no-ptxas")
    assert result.exit_code == 0 and result.stdout.startswith(f"lint of {wraps}: clean")
    assert "not checked: not-executed (no run was given)" in result.stdout
    result = run(wraps, "--no-ptxas", "--grid", "65536", "--param", "n=1..65536")
    assert result.exit_code == 1 and "review: [offset-wraps] mad.lo.s32 %r3, %r1, %r2, %r0;" in result.stdout
    assert f"at:     {wraps}:10: mad.lo.s32" in result.stdout and "n from 1 to 65536" in result.stdout
    assert run(wraps, "--no-ptxas", "--grid", "65536", "--param", "n=1..1024").exit_code == 0


def test_json_has_stable_keys(wraps: str) -> None:
    found = json.loads(run(wraps, "--no-ptxas", "--json", "--grid", "65536", "--param", "n=0..65536").stdout)
    assert list(found) == ["file", "name", "verdict", "findings", "waived", "skipped"]
    (row,) = found["findings"]
    assert (row["rule"], row["severity"], row["line"]) == ("offset-wraps", "review", 10)
    assert row["why"].startswith("assumed: ") and row["remedy_ptx"].startswith("mad.wide.s32")
    assert found["skipped"]["register-spill"] == "without ptxas" and found["verdict"] == "review"


def test_a_waiver(wraps: str) -> None:
    options = (wraps, "--no-ptxas", "--grid", "65536", "--param", "n=0..65536", "--waive")
    result = run(*options, "offset-wraps@wraps.ptx:10=n is small")
    assert result.exit_code == 0 and "1 x [offset-wraps] at wraps.ptx:10: n is small" in result.stdout
    result = run(*options, "offset-wraps@wraps.ptx:7=n is small")
    assert result.exit_code == 1 and "[unused-waiver]" in result.stdout
    assert run(*options, "no-such-rule@wraps.ptx:10=why").exit_code == 2


def test_launches_of_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "paths.ptx"
    file.write_text(kernel(PATHS, ".reqntid 1"))
    config = tmp_path / "launch.toml"
    launch = '[launch]\ngrid = 1\nblock = 1\n[args]\nA = "zeros:u32[1]"\nn = 3\n'
    config.write_text(launch)
    result = run(str(file), "--no-ptxas", "--config", str(config))
    assert result.exit_code == 1 and f"{file}:12: mov.u32 %r1, 2;" in result.stdout, result.output
    config.write_text(launch + '[[then]]\ngrid = 1\nblock = 1\nargs = { A = "A", n = 7 }\n')
    result = run(str(file), "--no-ptxas", "--config", str(config))
    assert result.exit_code == 0 and "not checked: not-executed" not in result.stdout, result.output


def test_a_kernel_with_a_run() -> None:
    copy = str(EXAMPLES / "hopper/tma_copy.py")
    result = run(copy, "M=128", "N=128", "--no-ptxas", "--run")
    assert result.exit_code == 0 and "not-executed" not in result.stdout, result.output
    result = run(VECTOR_ADD, "N=8589934592", "--no-ptxas")
    assert result.exit_code == 1 and "vector_add.py:26: i = ptx.special" in result.stdout


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["nowhere.ptx"], "cannot read nowhere.ptx"),
        ([VECTOR_ADD, "N=128", "--grid", "3"], "defines its launch itself"),
        ([VECTOR_ADD, "--no-ptxas"], "N"),
        (["{}", "--param", "n=1"], "expected NAME=LEAST..MOST"),
        (["{}", "--param", "m=1..2"], "no parameter 'm'"),
        (["{}", "--grid", "x"], "expected 4, 4,2 or 4,2,1"),
        (["{}", "N=3"], "only kernels of Python files take"),
        (["{}", "--waive", "x"], "expected RULE@FILE:LINE=REASON"),
    ],
)
@pytest.mark.sample(8)
def test_wrong_command_lines(arguments: list[str], said: str, wraps: str) -> None:
    result = run(*(argument.format(wraps) for argument in arguments))
    assert result.exit_code == 2 and said in result.output


def test_not_ptx(tmp_path: Path) -> None:
    file = tmp_path / "not.ptx"
    file.write_text("nothing")
    result = run(str(file))
    assert result.exit_code == 2 and f"{file}:1" in result.output
