"""``pyptx emit``: text, annotations, machine code, files and exit statuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyptx.toolchain import Tool
from pyptx.tools.cli import cli
from tests.examples.loading import EXAMPLES, load_example

VECTOR_ADD = str(EXAMPLES / "hopper/vector_add.py")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["emit", *arguments])


def added() -> str:
    return str(load_example("hopper/vector_add.py").vector_add.ptx(N=256))


def test_the_plain_text_is_that_of_the_kernel() -> None:
    for target in (VECTOR_ADD, f"{VECTOR_ADD}:vector_add"):
        result = run(target, "N=256")
        assert result.exit_code == 0 and result.stdout == added() and result.stderr == ""


def test_annotate() -> None:
    text = run(VECTOR_ADD, "N=256", "--annotate").stdout
    assert re.search(r"// vector_add.py:\d+: inside = i < n\n    setp\.lt\.u32", text)
    plain = [row for row in text.splitlines() if not row.lstrip().startswith("//")]
    assert plain == added().splitlines()


def test_lines() -> None:
    text = run(VECTOR_ADD, "N=256", "--lines").stdout
    assert re.search(r"^    \.loc 1 \d+ 0 setp\.lt\.u32", text, re.MULTILINE)
    assert f'.file 1 "{VECTOR_ADD}"' in text


def test_both() -> None:
    text = run(VECTOR_ADD, "N=256", "--lines", "--annotate").stdout
    assert re.search(r"// vector_add.py:\d+: inside = i < n\n    \.loc 1 \d+ 0 setp\.lt\.u32", text)


@pytest.mark.full
@pytest.mark.parametrize("option", ["--annotate", "--lines"])
def test_sass(option: str, ptxas: Tool, nvdisasm: Tool) -> None:
    plain, lined = (run(VECTOR_ADD, "N=256", "--sass", *more).stdout for more in ((), (option,)))
    assert "FADD" in plain and "vector_add.py" not in plain and ".visible" not in plain
    assert re.search(r"// vector_add.py:\d+: ptx.inst.ld.global_.f32\(a, .*\n +/\*", lined)


def test_control_codes_stand_in_front_of_machine_instructions(ptxas: Tool, nvdisasm: Tool) -> None:
    listed = run(VECTOR_ADD, "N=256", "--sass", "--control", "--annotate").stdout
    assert re.search(r"/\*[0-9a-f]{4}\*/  B[-0-5]{6}:R[-0-5]:W[-0-5]:[-Y]:S\d\d  FADD ", listed)
    assert "// vector_add.py:" in listed
    refused = run(VECTOR_ADD, "N=256", "--control")
    assert refused.exit_code == 2 and "give --sass as well" in refused.stderr


def test_assemble_says_the_resources(ptxas: Tool) -> None:
    result = run(VECTOR_ADD, "N=256", "--assemble")
    assert result.stdout == added()
    assert re.search(r"^vector_add: \d+ registers, 0 bytes spilled, 0 bytes static shared", result.stderr)


def test_a_file(tmp_path: Path) -> None:
    out = tmp_path / "k.ptx"
    result = run(VECTOR_ADD, "N=256", "-o", str(out))
    assert result.exit_code == 0 and result.stdout == "" and out.read_text() == added()


def test_a_source_with_letters_beyond_ascii(tmp_path: Path, ptxas: Tool) -> None:
    source = tmp_path / "größe.py"
    source.write_text(
        "from pyptx import kernel, ptx\n\n\n@kernel(grid=1, block=32, arch='sm_90a')\n"
        "def k():\n    ptx.ret()  # größe\n",
        encoding="utf-8",
    )
    out = tmp_path / "k.ptx"
    assert run(f"{source}:k", "--annotate", "--lines", "-o", str(out), "--assemble").exit_code == 0
    text = out.read_text(encoding="utf-8")
    assert "größe.py:6: ptx.ret()  # größe" in text and "gr??e.py" in text
    assert CliRunner().invoke(cli, ["check", "--assemble", str(out)]).exit_code == 0


@pytest.mark.parametrize(
    "arguments, status",
    [
        ((VECTOR_ADD, "N=0"), 1),
        ((VECTOR_ADD,), 1),
        ((VECTOR_ADD, "256"), 2),
        ((f"{VECTOR_ADD}:nothing",), 2),
        (("nowhere.py",), 2),
        ((VECTOR_ADD, "--unknown"), 2),
    ],
)
def test_exit_statuses(
    arguments: tuple[str, ...],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from pyptx.tools.cli import main

    monkeypatch.setattr("sys.argv", ["pyptx", "emit", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == status
    captured = capsys.readouterr()
    assert captured.out == "" and "Error" in captured.err
