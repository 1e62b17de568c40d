"""``pyptx diff``: sides, exit status, what is printed, JSON, ptxas and nvdisasm, --run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pyptx.core.errors import SpecError
from pyptx.toolchain import Tool
from pyptx.tools.cli import cli
from pyptx.tools.diff import diff
from pyptx.tools.diff.outputs import EXACT, Tolerance, compare_array
from pyptx.tools.diff.run import parse_argument, parse_arguments

SCALE = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 x, .param .u32 n, .param .f32 a) {
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [a];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra $done;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    mul.rn.f32 %f3, %f2, %f1;
    st.global.f32 [%rd4], %f3;
$done:
    ret;
}
"""
ROOT = Path(__file__).parents[3]
GEMM = f"{ROOT}/examples/blackwell/gemm_highperf_blackwell.py:build_gemm 512 512 512"
LAUNCH = (
    "--run",
    "--grid",
    "2",
    "--block",
    "128",
    "--arg",
    "f32[200]",
    "--arg",
    "u32=200",
    "--arg",
    "f32=1.7",
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["diff", *arguments])


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """The kernel, the same in other words, and one that rounds otherwise."""
    texts = (
        SCALE,
        SCALE.replace("%r5", "%index").replace("%r<6>", "%r<5>, %index"),
        SCALE.replace(".rn.", ".rz."),
    )
    for name, text in zip("abc", texts, strict=True):
        (tmp_path / f"{name}.ptx").write_text(text)
    return tuple(str(tmp_path / f"{name}.ptx") for name in "abc")  # type: ignore[return-value]


def test_equal(files: tuple[str, str, str]) -> None:
    result = run(files[0], files[1], "--no-sass")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[:3] == [f"A  {files[0]}", f"B  {files[1]}", "equal"]
    assert "SASS" not in result.output


def test_different(files: tuple[str, str, str]) -> None:
    result = run(files[0], files[2], "--no-sass", "--context", "1", "--width", "100")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert "1 difference: 1 modifier" in lines
    start = lines.index("scale  1 difference")
    left = "19 mul.rn.f32 %f3, %f2, %f1;"
    assert [line.split() for line in lines[start + 2 : start + 6]] == [
        ["18", "ld.global.f32", "%f2,", "[%rd4];", "18", "ld.global.f32", "%f2,", "[%rd4];"],
        [*left.split(), "~", *left.replace("rn", "rz").split()],
        ["^", "modifier", ".rn", "->", ".rz"],
        ["20", "st.global.f32", "[%rd4],", "%f3;", "20", "st.global.f32", "[%rd4],", "%f3;"],
    ]
    assert all(len(line) <= 100 for line in lines[2:])


@pytest.mark.full
def test_machine_code(files: tuple[str, str, str], ptxas: Tool, nvdisasm: Tool) -> None:
    same = run(files[0], files[1])
    assert "machine code: the same in 1 of 1 function" in same.output
    other = run(files[0], files[2])
    assert "machine code: the same in 0 of 1 function" in other.output
    row = next(line for line in other.output.splitlines() if line.startswith("SASS instructions"))
    assert row.split()[2] == row.split()[3] and int(row.split()[2]) > 10


def test_absent_tools_are_said(files: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_PTXAS", "/nowhere/ptxas")
    result = run(files[0], files[1])
    assert result.exit_code == 0
    assert "A: " in result.output and "/nowhere/ptxas" in result.output


@pytest.mark.full
def test_a_side_that_ptxas_refuses(tmp_path: Path, files: tuple[str, str, str], ptxas: Tool) -> None:
    refused = tmp_path / "refused.ptx"
    refused.write_text(SCALE.replace("mov.u32 %r3", "mov.u16 %r3").replace("ld.global.f32", "ld.global.f64"))
    result = run(files[0], str(refused))
    row = next(line for line in result.output.splitlines() if line.startswith("SASS instructions"))
    assert int(row.split()[2]) > 10 and row.split()[3] == "?"
    assert "  BRA" not in result.output
    lines = result.output.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("B: ptxas "))
    assert lines[first].endswith("refused the PTX text: 2 errors")
    assert lines[first + 1] == "   line 10: Arguments mismatch for instruction 'mov'"
    assert json.loads(run(files[0], str(refused), "--json").stdout)["summary"]["b"]["sass"] is None


def test_functions_have_their_names_in_cpp() -> None:
    text = SCALE.replace("scale(", "_Z5scaleILi2EEvPfj(")
    found = diff(text, text.replace(".rn.", ".rz."))
    assert "\nscale<(int)2>(float*, unsigned int)  1 difference\n" in str(found)
    (only,) = found.differences
    assert only.function == "_Z5scaleILi2EEvPfj"
    assert str(only).startswith("scale<(int)2>(float*, unsigned int): line ")


def test_no_answer(files: tuple[str, str, str], tmp_path: Path) -> None:
    junk = tmp_path / "junk.ptx"
    junk.write_text("no PTX")
    kernels = tmp_path / "broken.py"
    kernels.write_text("raise RuntimeError('not today')\n")
    for wrong, said in (
        (str(tmp_path / "absent.ptx"), "absent.ptx"),
        (str(junk), "expected .version"),
        (f"{files[0]} 3", "is PTX text: only kernels of Python files take NAME=VALUE"),
        (f"{kernels}:k", "not today"),
        ("", "expected a PTX file or FILE.py:NAME"),
    ):
        result = run(files[0], wrong)
        assert result.exit_code == 2, result.output
        assert said in result.output


def test_kernels_with_words(tmp_path: Path) -> None:
    text = tmp_path / "gemm.ptx"
    assert CliRunner().invoke(cli, ["emit", *GEMM.split(), "-o", str(text)]).exit_code == 0
    assert run(GEMM, str(text), "--no-sass").exit_code == 0
    result = run(GEMM, f"{GEMM} stages=3", "--no-sass")
    assert result.exit_code == 1
    recorder = next(line for line in result.output.splitlines() if line.startswith("A recorded by "))
    assert recorder.endswith("examples/blackwell/gemm_highperf_blackwell.py")
    assert "# " in result.output and "mbarrier.init" in result.output


def test_long_reports_are_cut(tmp_path: Path) -> None:
    body = "".join(f"    st.global.u32 [%rd1+{4 * n}], %r1;\n    add.u32 %r1, %r1, 1;\n" for n in range(300))
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n"
        f".reg .b64 %rd1; .reg .b32 %r1;\n{body}    ret;\n}}\n"
    )
    for name, content in (("a", text), ("b", text.replace("add.u32", "sub.u32"))):
        (tmp_path / name).write_text(content)
    short = run(str(tmp_path / "a"), str(tmp_path / "b"), "--no-sass", "--context", "0")
    assert "more differences in this function (--all shows them)" in short.output
    full = run(str(tmp_path / "a"), str(tmp_path / "b"), "--no-sass", "--context", "0", "--all")
    assert full.output.count("^ instruction add.u32 -> sub.u32") == 300 and "--all" not in full.output


def test_header(tmp_path: Path, files: tuple[str, str, str]) -> None:
    newer = tmp_path / "newer.ptx"
    newer.write_text(SCALE.replace("8.0", "8.6"))
    result = run(files[0], str(newer), "--no-sass")
    assert result.exit_code == 1 and "* .version 8.0 -> 8.6" in result.output
    assert run(files[0], str(newer), "--no-sass", "--ignore-header").exit_code == 0


# --- JSON -------------------------------------------------------------------------------------


@pytest.mark.full
def test_json(files: tuple[str, str, str], ptxas: Tool, nvdisasm: Tool) -> None:
    result = run(files[0], files[2], "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["equal"] is False and found["counts"] == {"modifier": 1}
    (only,) = found["differences"]
    assert only == {
        "kind": "modifier",
        "message": "modifier .rn -> .rz",
        "function": "scale",
        "count": 1,
        "a": {"text": "mul.rn.f32 %f3, %f2, %f1;", "line": 19, "index": 13, "python": None},
        "b": {"text": "mul.rz.f32 %f3, %f2, %f1;", "line": 19, "index": 13, "python": None},
    }
    assert found["functions"] == [{"a": "scale", "b": "scale", "differences": 1}]
    side = found["summary"]["a"]
    assert side["instructions"] == 16 and side["resources"][0]["registers"] > 0 and side["sass"]["FMUL"] == 1
    assert json.loads(run(files[0], files[1], "--json", "--no-sass").stdout)["equal"] is True


# --- --run ------------------------------------------------------------------------------------


def test_run_finds_other_bits(files: tuple[str, str, str]) -> None:
    result = run(files[0], files[2], "--no-sass", *LAUNCH)
    assert result.exit_code == 1
    *_, verdicts, mismatch = result.output.splitlines()
    assert verdicts == "run: A clean, B clean"
    assert mismatch.startswith("  argument 1: ") and " of 200 elements, first [" in mismatch
    same = run(files[0], files[1], "--no-sass", *LAUNCH)
    assert same.exit_code == 0 and same.output.endswith("run: A clean, B clean\n  1 array, the same bits\n")


TILE = """
from pyptx import Tile, f32, kernel, ptx, reg, u64


@kernel(in_specs=(Tile(2, 1000, f32),), grid=(20,), block=(100,), arch="sm_90a")
def scale(X):
    offset, value = reg.scalar(u64), reg.scalar(f32)
    ptx.inst.mul.wide.u32(offset, ptx.special.ctaid.x() * 100 + ptx.special.tid.x(), 4)
    place = reg.scalar(u64)
    ptx.inst.add.u64(place, X.ptr, offset)
    ptx.inst.ld.global_.f32(value, ptx.addr(place))
    ptx.inst.mul.rn.f32(value, value, FACTOR)
    ptx.inst.st.global_.f32(ptx.addr(place), value)
    ptx.ret()
"""


def test_run_compares_elements_where_only_shapes_differ(tmp_path: Path, files: tuple[str, str, str]) -> None:
    kernel = tmp_path / "tile.py"
    kernel.write_text(TILE.replace("FACTOR", "1.5"))
    launch = ["--run", "--grid", "16", "--block", "128", "--no-sass"]
    launch += [word for argument in ("f32[2000]", "u32=2000", "f32=1.5") for word in ("--arg", argument)]
    result = run(files[0], str(kernel), *launch)
    note = "argument 1 of A and X of B: the shapes differ, (2000,) and (2, 1000); elements are compared in memory order"
    assert result.output.endswith(f"run: A clean, B clean\n  {note}\n  1 array, the same bits\n")
    kernel.write_text(TILE.replace("FACTOR", "1.25"))
    other = run(str(kernel), files[0], *launch)
    assert "X: 2000 of 2000 elements, first [0, 0]: " in other.output
    refused = run(files[0], str(kernel), *(word.replace("2000]", "1000]") for word in launch))
    assert refused.exit_code == 2
    assert "1000 elements of float32 in A, 2000 of float32 in B" in refused.output


@pytest.mark.full
def test_run_within_a_tolerance(tmp_path: Path, files: tuple[str, str, str]) -> None:
    """The same multiplication, rounded to nearest and toward zero: an ulp apart where they differ."""
    exact = run(files[0], files[2], "--no-sass", *LAUNCH)
    assert "; largest difference " in exact.output
    near = run(files[0], files[2], "--no-sass", *LAUNCH, "--rtol", "2e-7")
    assert near.output.endswith("run: A clean, B clean\n  1 array, the same within rtol 2e-07 and atol 0\n")
    small = run(files[0], files[2], "--no-sass", *LAUNCH, "--rtol", "1e-9", "--json")
    found = json.loads(small.stdout)["run"]
    assert not found["equal"] and found["rtol"] == 1e-9 and 0 < found["mismatches"][0]["largest"] < 1e-6
    for wrong in ("-1", "nan", "inf"):
        refused = run(files[0], files[2], *LAUNCH, "--atol", wrong)
        assert refused.exit_code == 2 and "expected a finite number of at least 0" in refused.output


def test_arrays_within_a_tolerance() -> None:
    a = np.array([1.0, np.nan, np.inf, -0.0, 2.0], np.float32)
    b = np.array([1.0, -np.nan, np.inf, 0.0, 2.5], np.float32)
    loose = compare_array("x", a, b, Tolerance(rtol=1e-6))
    assert loose is not None and (loose.elements, loose.index, loose.largest) == (1, (4,), 0.5)
    exact = compare_array("x", a, b, EXACT)
    assert exact is not None and exact.elements == 3
    assert compare_array("x", a, b, Tolerance(atol=0.5)) is None
    # Bits of integers count whatever the tolerance is.
    ints = compare_array("n", np.arange(4), np.arange(4) + 1, Tolerance(atol=10))
    assert ints is not None and (ints.elements, ints.largest) == (4, None)


@pytest.mark.full
def test_run_of_recorded_kernels() -> None:
    vector_add = f"{ROOT}/examples/hopper/vector_add.py:vector_add N=1000"
    refused = run(vector_add, vector_add, "--run", "--no-sass")
    assert refused.exit_code == 2 and "give --arg n=VALUE" in refused.output
    result = run(vector_add, vector_add, "--run", "--no-sass", "--json", "--arg", "n=1000")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["run"] == {
        "verdicts": ["clean", "clean"],
        "equal": True,
        "arrays": 3,
        "mismatches": [],
        "notes": [],
        "rtol": 0.0,
        "atol": 0.0,
    }


def test_a_run_that_does_not_end_is_not_equal(tmp_path: Path, files: tuple[str, str, str]) -> None:
    """An access out of bounds on one side: the verdict says so, and nothing is compared."""
    wrong = tmp_path / "wrong.ptx"
    wrong.write_text(SCALE.replace("[%rd4], %f3", "[%rd4+4096], %f3"))
    result = run(files[0], str(wrong), "--no-sass", *LAUNCH)
    assert result.exit_code == 1
    assert "run: A clean, B error" in result.output
    assert "outputs are not compared: a run did not end" in result.output


@pytest.mark.full
def test_run_needs_a_launch(files: tuple[str, str, str]) -> None:
    result = run(files[0], files[1], "--no-sass", "--run")
    assert result.exit_code == 2
    assert "run: not possible: " in result.output and "--arg 'f32[1024]'" in result.output
    assert run(files[0], files[1], "--no-sass", *LAUNCH[:-2]).exit_code == 2
    assert run(files[0], files[1], "--run", "--grid", "two").exit_code == 2


def test_arguments() -> None:
    array = parse_argument("bf16[64, 128]")
    assert (array.type.name, array.shape) == ("bf16", (64, 128))
    assert parse_argument("u32=0x10").value == 16 and parse_argument("f32=-1.5").value == -1.5
    bounded = parse_argument("s32[64]:-3..63")
    assert bounded.bounds == (-3, 63)
    assert parse_arguments(["n=-3", "scale=2.5", "u32=7"])[1] == {"n": -3, "scale": 2.5}
    for wrong in ("f32", "f99[3]", "u32=x", "f32[]", "pred[4]", "f32[4]:1"):
        with pytest.raises(SpecError, match="argument|value"):
            parse_argument(wrong)


# --- terminals --------------------------------------------------------------------------------


def test_colors_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from pyptx.tools.diff import show

    found = diff(SCALE, SCALE.replace(".rn.", ".rz."))
    show.print_report(found, context=1, limit=None)
    plain = capsys.readouterr().out
    assert "\033[" not in plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    show.print_report(found, context=1, limit=None, width=110)
    colored = capsys.readouterr().out
    assert "\033[" in colored and "mul.rz.f32" in colored
