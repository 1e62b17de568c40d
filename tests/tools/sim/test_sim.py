"""``pyptx sim``: arguments, TOML, what is printed and written, exit status, mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result

from pyptx.core.errors import SpecError
from pyptx.core.types import TYPES
from pyptx.tools.cli import cli
from pyptx.tools.sim.arguments import (
    FileArray,
    FilledArray,
    NamedArgument,
    Number,
    SameArray,
    TensorMapOf,
    parse_given,
    parse_named,
)
from pyptx.tools.sim.bind import bind
from pyptx.tools.sim.config import read_config
from pyptx.tools.sim.target import KernelParameter
from tests.sanitizer.claims.launch_misses import ONE_REQUEST

ROOT = Path(__file__).parents[3]
HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
SAXPY = (
    HEADER
    + """\
.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 a) {
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<5>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [a];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r4, %r2, %r3, %r4;
    setp.ge.u32 %p, %r4, %r1;
    @%p bra $done;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    ld.global.f32 %f3, [%rd5];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd5], %f4;
$done:
    ret;
}
"""
)
#: Stores its numbers as they are, by their bits.
NUMBERS = (
    HEADER
    + """\
.visible .entry numbers(.param .b32 f, .param .b16 h, .param .s32 s, .param .f32 g, .param .u64 out) {
    .reg .b32 %r<4>; .reg .b16 %h; .reg .b64 %rd;
    ld.param.u64 %rd, [out];
    ld.param.b32 %r1, [f]; st.global.b32 [%rd], %r1;
    ld.param.b16 %h, [h]; st.global.b16 [%rd+4], %h;
    ld.param.b32 %r2, [s]; st.global.b32 [%rd+8], %r2;
    ld.param.b32 %r3, [g]; st.global.b32 [%rd+12], %r3;
    ret;
}
"""
)
HELLO = (
    HEADER
    + """\
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[] = {104, 105, 10, 0};
.visible .entry hello() {
    .reg .b32 %r; .reg .b64 %rd<3>;
    mov.u64 %rd1, text;
    cvta.global.u64 %rd1, %rd1;
    mov.u64 %rd2, 0;
    { .param .b64 p0; .param .b64 p1; .param .b32 q;
    st.param.b64 [p0], %rd1; st.param.b64 [p1], %rd2;
    call.uni (q), vprintf, (p0, p1);
    ld.param.b32 %r, [q]; }
    ret;
}
.visible .entry other() { ret; }
"""
)
SPIN = (
    HEADER + ".visible .entry spin() {\n .reg .b32 %r;\n mov.u32 %r, 0;\nL: add.u32 %r, %r, 1;\n bra L;\n}\n"
)


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["sim", *arguments], input=text)


def options(*args: str) -> list[str]:
    return [word for arg in args for word in ("--arg", arg)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files are named relative to a folder of the test."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("saxpy", SAXPY), ("numbers", NUMBERS), ("hello", HELLO), ("spin", SPIN)):
        (tmp_path / f"{name}.ptx").write_text(text)
    return tmp_path


LAUNCH = ("saxpy.ptx", "--grid", "2", "--block", "64")


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("7", Number(7)),
        ("-0x10", Number(-16, None, True)),
        ("u32:7", Number(7, TYPES["u32"])),
        ("bf16:1.5", Number(1.5, TYPES["bf16"])),
        ("f32:0x3f800000", Number(0x3F800000, TYPES["f32"], True)),
        ("a.npy", FileArray(Path("a.npy"))),
        ("d/a.npy:b.npy", FileArray(Path("d/a.npy"), None, Path("b.npy"))),
        ("bf16:a.npy:b.bin", FileArray(Path("a.npy"), TYPES["bf16"], Path("b.bin"))),
        ("zeros:f32[128,256]", FilledArray("zeros", TYPES["f32"], (128, 256))),
        ("full:s8[3]=-2", FilledArray("full", TYPES["s8"], (3,), Number(-2))),
        ("random:u32[2x3]", FilledArray("random", TYPES["u32"], (2, 3))),
        ("random:f16[4]:-1..2.5@9", FilledArray("random", TYPES["f16"], (4,), seed=9, bounds=(-1.0, 2.5))),
        ("x", SameArray("x")),
        (
            "map:A,box=64x32,swizzle=128B,strides=256x2",
            TensorMapOf("A", {"box": (64, 32), "swizzle": "128B", "strides": (256, 2)}),
        ),
    ],
)
def test_words(text: str, given: object) -> None:
    assert parse_given(text) == given
    assert parse_named(f"name={text}") == NamedArgument("name", given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a.txt", "is not an argument: expected a number"),
        ("u32:seven", "neither a number nor"),
        ("zeros:f32", "a type and a shape after zeros:, such as zeros:f32[128,256]"),
        ("zeros:f32[2]=1", "the argument must end after the shape"),
        ("zeros:f99[2]", "'f99' is not an element type"),
        ("zeros:f16x2[2]", "'f16x2' is not an element type"),
        ("full:f32[2]", "full: needs a value after the shape"),
        ("random:f32[2]@x", "the argument must end after the shape"),
        ("map:A", "needs its box"),
        ("map:A,box", "expected NAME=VALUE after the array's name"),
        ("map:A,box=64y2", "expected integers, outermost first"),
        ("map:A,box=64,swizle=128B", "no option 'swizle'; its options are box, shape"),
        ("map:3,box=64", "the name of an array"),
    ],
)
def test_wrong_words(text: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_given(text)
    assert says in caught.value.message


def test_fills() -> None:
    def made(text: str, index: int = 1) -> np.ndarray:
        given = parse_given(text)
        assert isinstance(given, FilledArray)
        return given.make(index)

    assert made("arange:u16[2,3]").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert made("arange:u16[2,3]").dtype == np.uint16
    assert made("full:bf16[2]=1.5").tolist() == [1.5, 1.5]
    assert made("full:f32[2]=0xff800000").tolist() == [-np.inf, -np.inf]
    assert made("zeros:e4m3[4]").dtype == ml_dtypes.float8_e4m3fn
    drawn = made("random:s32[1000]:-2..2")
    assert sorted(set(drawn.tolist())) == [-2, -1, 0, 1, 2]
    assert (made("random:f32[8]@5", 1) == made("random:f32[8]@5", 2)).all()
    assert (made("random:f32[8]", 1) != made("random:f32[8]", 2)).any(), "two arguments would be equal"
    with pytest.raises(SpecError, match="cannot be made"):
        made("full:u8[2]=300")


# --- running --------------------------------------------------------------------------------------


def test_run_and_write(folder: Path) -> None:
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    np.save("x.npy", x)
    np.save("y.npy", y)
    result = run(*LAUNCH, *options("x.npy", "y.npy:z.npy", "u32:90", "2.5"))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "saxpy under eager: clean"
    assert "warp-instructions in" in lines[1] and lines[1].endswith("per second)")
    assert "x  f32[100]  unchanged" in lines and "y  f32[100]  -> z.npy" in lines
    expected = np.where(np.arange(100) < 90, 2.5 * x + y, y)
    assert (np.load("z.npy") == expected).all()
    assert (np.load("y.npy") == y).all()


def test_nothing_is_overwritten_silently(folder: Path) -> None:
    Path("old.npy").write_bytes(b"precious")
    words = (*LAUNCH, *options("zeros:f32[9]", "full:f32[9]=2", "9", "1"), "--out", "y=old.npy")
    refused = run(*words)
    assert refused.exit_code == 3
    assert refused.output == "Error: old.npy exists: give --overwrite to replace it\n"
    assert Path("old.npy").read_bytes() == b"precious"
    assert run(*words, "--overwrite").exit_code == 0
    assert np.load("old.npy").tolist() == [2.0] * 9
    same = run(*words[:-2], "--out", "y=a.npy", "--out", "x=./a.npy")
    assert same.exit_code == 3 and "would both be written to" in same.output
    assert not Path("a.npy").exists()
    elsewhere = run(*words[:-2], "--out", "y=no/a.npy")
    assert elsewhere.exit_code == 3 and "the folder does not exist" in elsewhere.output


def test_one_buffer_twice() -> None:
    """y = a * y + y, and no other array."""
    result = run(*LAUNCH, *options("y", "y=arange:f32[100]", "100", "2"), "--json")
    assert result.exit_code == 0, result.output
    (array,) = json.loads(result.stdout)["arrays"]
    assert array["name"] == "y" and array["changed"]
    assert array["first"] == [3.0 * n for n in range(16)]


def test_arguments_by_name() -> None:
    result = run(*LAUNCH, *options("a=2", "n=4", "arange:f32[4]", "y=zeros:f32[4]"), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["arrays"][1]["first"] == [0, 2, 4, 6]


def test_numbers_by_their_bits() -> None:
    words = options("f32:1.5", "bf16:-2", "-3", "0x7f800000", "out=zeros:u32[4]")
    result = run("numbers.ptx", "--grid", "1", "--block", "1", *words, "--json")
    assert result.exit_code == 0, result.output
    (out,) = json.loads(result.stdout)["arrays"]
    assert out["first"] == [0x3FC00000, 0xC000, 0xFFFFFFFD, 0x7F800000]


def test_output_says_for_which_schedules_it_holds() -> None:
    result = run(*LAUNCH, *options("arange:f32[100]", "zeros:f32[100]", "100", "1"))
    assert result.exit_code == 0 and "holds: every schedule" in result.output


def test_json_of_a_finding() -> None:
    result = run(*LAUNCH, *options("zeros:f32[100]", "zeros:f32[90]", "100", "1"), "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["verdict"] == "error" and found["entry"] == "saxpy" and found["schedule"] == "eager"
    (finding,) = found["findings"]
    assert finding["rule"] == "out-of-bounds" and finding["severity"] == "error"
    line = SAXPY.splitlines().index("    ld.global.f32 %f3, [%rd5];") + 1
    assert (finding["file"], finding["line"]) == ("saxpy.ptx", line)
    assert finding["text"] == "ld.global.f32 %f3, [%rd5];"
    assert {"thread", "remedy", "see", "other", "message"} <= finding.keys()
    assert found["holds"] == "this schedule" and found["competing"][0]["what"] == "finding out-of-bounds"
    assert found["competing"][0]["line"] == line and not found["assumptions"]
    assert finding["edit"] is None and finding["why"] == finding["remedy_dsl"] == finding["remedy_ptx"] == ""


RACE = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry race(.param .u64 out)
{
    .reg .b32 %t, %at, %y;
    .reg .b64 %ptr;
    .shared .align 4 .b32 tile[64];
    mov.u32 %t, %tid.x;
    mov.u32 %at, tile;
    mad.lo.u32 %at, %t, 4, %at;
    st.shared.u32 [%at], %t;
    xor.b32 %at, %at, 128;
    ld.shared.u32 %y, [%at];
    ld.param.u64 %ptr, [out];
    mad.wide.u32 %ptr, %t, 4, %ptr;
    st.global.u32 [%ptr], %y;
    ret;
}
"""


def test_json_of_a_remedy() -> None:
    result = run("-", "--grid", "1", "--block", "64", "--arg", "zeros:u32[64]", "--json", text=RACE)
    assert result.exit_code == 1, result.output
    (finding,) = json.loads(result.stdout)["findings"]
    load = RACE.splitlines().index("    ld.shared.u32 %y, [%at];") + 1
    assert finding["rule"] == "data-race" and finding["line"] == load
    assert finding["other"][0]["line"] == load - 2
    assert finding["remedy_dsl"] == "ptx.bar.sync(0)" and finding["remedy_ptx"] == "bar.sync 0;"
    assert finding["edit"] == {
        "ptx": "bar.sync 0;",
        "place": "before",
        "file": "<stdin>",
        "line": load,
        "replaces": None,
        "from": None,
    }


def test_standard_input_and_source_lines() -> None:
    """The finding shows the line of a text that is no file."""
    words = options("zeros:f32[100]", "empty:f32[100]", "100", "1")
    result = run("-", *LAUNCH[1:], *words, text=SAXPY)
    assert result.exit_code == 1, result.output
    assert "[uninitialized-read]" in result.output
    assert "<stdin>:20: ld.global.f32 %f3, [%rd5];" in result.output


def test_empty_and_shared_counts_as_never_written() -> None:
    result = run(*LAUNCH, *options("y", "y=empty:f32[100]", "100", "1"))
    assert result.exit_code == 1 and "[uninitialized-read]" in result.output


def test_what_the_kernel_prints_comes_first() -> None:
    result = run("hello.ptx", "--entry", "hello", "--grid", "1", "--block", "2")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("hi\nhi\nhello under eager: clean\n")
    as_json = run("hello.ptx", "--entry", "hello", "--grid", "1", "--block", "2", "--json")
    assert json.loads(as_json.stdout)["printed"] == "hi\nhi\n"


@pytest.mark.full
def test_limits_and_progress() -> None:
    words = ("spin.ptx", "--grid", "1", "--block", "1")
    result = run(*words, "--max-steps", "1000")
    assert result.exit_code == 2
    assert "spin under eager: incomplete" in result.output and "max_steps=1000" in result.output
    timed = run(*words, "--timeout", "1.5", "--progress")
    assert timed.exit_code == 2
    assert timed.stderr.splitlines()[0].startswith("1 s: 0/1 CTAs, ")
    assert not run(*words, "--timeout", "1.5").stderr, "standard error is no terminal here"


def test_schedule_and_seed() -> None:
    words = (*LAUNCH, *options("zeros:f32[9]", "zeros:f32[9]", "9", "1"), "--schedule", "random")
    assert run(*words, "--seed", "7").output.startswith("saxpy under random (seed 7): clean")


#: A copy that is read before it is waited for: what is read depends on the schedule.
IMPATIENT = """
.visible .entry impatient(.param .u64 given, .param .u64 out) {
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    .shared .align 16 .b8 tile[64];
    ld.param.u64 %rd1, [given];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, tile;
    cp.async.ca.shared.global [%r1], [%rd1], 16;
    ld.shared.u32 %r2, [%r1];
    st.global.u32 [%rd2], %r2;
    cp.async.wait_all;
    ret;
}
"""


def test_all_schedules() -> None:
    launch = ("-", "--grid", "1", "--block", "1", *options("arange:u32[4]", "out=zeros:u32[1]"))
    late = run(*launch, "--schedule", "late", text=HEADER + IMPATIENT)
    assert late.exit_code == 1
    launch = (*launch, "--no-sanitize")  # the sanitizer sees the race under every schedule
    every = run(*launch, "--schedule", "sampled", "--seeds", "1", "--seed", "4", text=HEADER + IMPATIENT)
    assert every.exit_code == 1
    lines = every.output.splitlines()
    assert lines[0] == "impatient under 4 schedules: error"
    assert [" ".join(line.split()) for line in lines[2:5]] == ["eager clean", "late error", "starve:cp error"]
    assert lines[5].startswith("  random (seed 4)  ")
    assert "  under:  late, starve:cp" in every.output
    found = json.loads(
        run(*launch, "--schedule", "sampled", "--seeds", "0", "--json", text=HEADER + IMPATIENT).stdout
    )
    assert found["verdict"] == "error"
    assert [(one["schedule"], one["verdict"]) for one in found["runs"]] == [
        ("eager", "clean"),
        ("late", "error"),
        ("starve:cp", "error"),
    ]
    assert found["findings"][0]["schedules"] == ["late", "starve:cp"]
    assert run(*launch, "--seeds", "-1").exit_code == 3


def test_all_schedules_of_a_clean_kernel() -> None:
    words = (*LAUNCH, *options("zeros:f32[9]", "y=zeros:f32[9]", "9", "1"))
    result = run(*words, "--schedule", "sampled", "--seeds", "1")
    assert result.exit_code == 0 and result.output.startswith("saxpy under 3 schedules: clean")


def test_every_interleaving(folder: Path) -> None:
    text = (
        HEADER
        + """
.visible .entry last(.param .u64 y)
{
    .reg .b32 %c;
    .reg .b64 %y;
    ld.param.u64 %y, [y];
    mov.u32 %c, %ctaid.x;
    st.relaxed.gpu.global.u32 [%y], %c;
    ret;
}
"""
    )
    launch = ("-", "--grid", "3", "--block", "1", "--arg", "y=zeros:u32[1]", "--schedule")
    result = run(*launch, "all", "--progress", text=text)
    assert result.exit_code == 0, result.output
    assert "explored: 6 interleavings, complete; with weak reads" in result.output
    bounded = run(*launch, "all", "--max-runs", "4", "--resume", "part.json", text=text)
    assert "explored: 4 interleavings, bound reached (max_runs=4)" in bounded.output
    rest = json.loads(run(*launch, "all", "--resume", "part.json", "--json", text=text).stdout)
    assert rest["exploration"]["complete"] and rest["exploration"]["interleavings"] == 6
    (finding,) = rest["findings"]
    values = set()
    for name in finding["schedules"]:
        again = json.loads(run(*launch, name, "--json", text=text).stdout)
        assert again["schedule"] == name and again["exploration"] is None
        values.add(tuple(again["arrays"][0]["first"]))
    assert len(values) == 2


def test_every_assignment(folder: Path) -> None:
    text = ONE_REQUEST.format(who=0, end="")
    launch = ("-", "--grid", "3", "--block", "1", "--arg", "out=zeros:u32[3]")
    result = run(*launch, "--launch-control", "every", text=text)
    assert result.exit_code == 0, result.output
    assert "launch control: 7 assignments of 3 clusters, complete" in result.output
    assert "holds: every schedule" in result.output
    found = json.loads(run(*launch, "--launch-control", "every", "--json", text=text).stdout)
    assert found["holds"] == "every schedule" and found["assignments"]["ran"] == 7
    bounded = run(*launch, "--launch-control", "every", "--max-runs", "12", text=text)
    assert "3 clusters have 13 assignments, and max_runs is 12" in bounded.output
    one = json.loads(run(*launch, "--launch-control", "0,2/1", "--json", text=text).stdout)
    assert one["schedule"] == "eager, launch control 0,2/1" and one["assignments"] is None
    wrong = run(*launch, "--launch-control", "0,2", text=text)
    assert wrong.exit_code == 3 and "expected 'every', or an assignment" in wrong.output
    Path("once.ptx").write_text(text)
    config = 'file = "once.ptx"\n[launch]\ngrid = 3\nblock = 1\nlaunch_control = "every"\n[args]\nout = "zeros:u32[3]"\n'
    Path("launch.toml").write_text(config)
    assert "7 assignments" in run("--config", "launch.toml").output


# --- parameters by value and tensor maps -----------------------------------------------------------

STRUCT = KernelParameter("s", TYPES["b8"], 16, by_value=True)


def test_structs_are_bytes(folder: Path) -> None:
    pairs = np.array([(1, 2.5)], [("n", "<i8"), ("x", "<f8")])
    np.save("s.npy", pairs)
    pairs.tofile("s.bin")
    for word in ("s.npy", "s.bin"):
        bound = bind("k", [STRUCT], [parse_named(word)])
        assert bound.values == [pairs.tobytes()] and not bound.buffers
    assert bind("k", [STRUCT], [parse_named("arange:u32[4]")]).values == [
        b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0",
    ]
    with pytest.raises(SpecError, match="the parameter s takes 16 bytes by value, got 8 bytes"):
        bind("k", [STRUCT], [parse_named("zeros:u8[8]")])
    with pytest.raises(SpecError, match="the parameter s takes 16 bytes by value, got the number 7"):
        bind("k", [STRUCT], [parse_named("7")])


def test_structs_reach_the_kernel() -> None:
    """The second number of a struct of two, and the array that stands behind it."""
    text = (
        HEADER
        + """\
.visible .entry second(.param .align 8 .b8 s[16], .param .u64 out) {
    .reg .b64 %rd<3>;
    ld.param.b64 %rd1, [s+8];
    ld.param.u64 %rd2, [out];
    st.global.b64 [%rd2], %rd1;
    ret;
}
"""
    )
    result = run(
        "-", "--grid", "1", "--block", "1", *options("arange:u64[2]", "zeros:u64[1]"), "--json", text=text
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["arrays"][0]["first"] == [1]


@pytest.fixture
def copy(folder: Path) -> str:
    """The TMA copy of the examples as PTX text, of 64 x 64 boxes."""
    target = f"{ROOT}/examples/hopper/tma_copy.py"
    done = CliRunner().invoke(cli, ["emit", target, "M=100", "N=72", "-o", "copy.ptx"])
    assert done.exit_code == 0, done.output
    return "copy.ptx"


MAPS = options("map:A,box=64x64,swizzle=128B", "map:B,box=64x64,swizzle=128B")


def test_tensor_maps(copy: str) -> None:
    """Arrays that only maps see; bfloat16, which numpy writes as plain bytes, through files."""
    made = run(
        copy, "--grid", "2,2", *MAPS, "--array", "A=random:bf16[100,72]@3", "--array", "B=empty:bf16[100,72]",
        "--out", "A=a.npy", "--out", "B=b.npy",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    drawn = np.random.default_rng(3).standard_normal((100, 72)).astype(ml_dtypes.bfloat16)
    assert np.load("a.npy").tobytes() == drawn.tobytes()
    assert np.load("b.npy").tobytes() == drawn.tobytes()
    again = run(
        copy, "--grid", "2x2", *MAPS, "--array", "A=bf16:a.npy", "--array", "B=zeros:bf16[100,72]",
        "--out", "B=c.npy",
    )  # fmt: skip
    assert again.exit_code == 0, again.output
    assert np.load("c.npy").tobytes() == drawn.tobytes()
    untyped = run(copy, "--grid", "2,2", *MAPS, "--array", "A=a.npy", "--array", "B=zeros:bf16[100,72]")
    assert untyped.exit_code == 3
    assert "name the type, such as bf16:a.npy" in untyped.output


def test_wrong_tensor_maps(copy: str) -> None:
    words = (copy, "--grid", "2,2", "--array", "A=zeros:bf16[100,72]")
    assert "no array is called 'B'; the arrays are: A" in run(*words, *MAPS).output
    wide = run(*words, *options("map:A,box=64x128,swizzle=128B", "map:A,box=64x64,swizzle=128B"))
    assert wide.exit_code == 3 and "the tensor map for A: " in wide.output
    number = run(*LAUNCH, *options("map:y,box=4", "y=zeros:f32[9]", "9", "1"))
    assert number.exit_code == 3 and "got a tensor map, which is 128 bytes by value" in number.output


# --- kernels of Python files ----------------------------------------------------------------------


def test_a_kernel_of_a_python_file() -> None:
    """It says its launch; arrays that are not given are random inputs and empty outputs."""
    target = f"{ROOT}/examples/hopper/vector_add.py:vector_add"
    result = run(
        target, "N=1000", *options("n=1000"), "--out", "A=a.npy", "--out", "B=b.npy", "--out", "C=c.npy"
    )
    assert result.exit_code == 0, result.output
    a, b, c = (np.load(f"{name}.npy") for name in "abc")
    assert a.std() > 0.5 and (c == a + b).all()
    given = run(target, "N=1000", *options("A=ones.npy", "n=1000"))
    assert given.exit_code == 3 and given.output == "Error: no such file: ones.npy\n"
    grid = run(target, "N=1000", *options("n=1000"), "--grid", "1")
    assert grid.exit_code == 3 and "vector_add defines its grid itself: leave --grid out" in grid.output


def test_a_python_file_that_fails(folder: Path) -> None:
    Path("broken.py").write_text("1 / 0\n")
    result = run("broken.py")
    assert result.exit_code == 3
    assert result.output == "Error: broken.py cannot be loaded: ZeroDivisionError: division by zero\n"


# --- TOML -----------------------------------------------------------------------------------------

TOML = """\
file = "../saxpy.ptx"

[launch]
grid = 2
block = [64]
schedule = "late"

[args.x]
fill = "arange"
type = "f32"
shape = 100

[args.y]
file = "y.npy"
out = "z.npy"

[args.n]
value = 100
type = "u32"

[args.a]
value = "0x40000000"
"""


@pytest.fixture
def config(folder: Path) -> str:
    """A launch in a folder of its own: paths are relative to the file."""
    (folder / "launch").mkdir()
    np.save(folder / "launch/y.npy", np.ones(100, np.float32))
    (folder / "launch/saxpy.toml").write_text(TOML)
    return "launch/saxpy.toml"


def test_a_launch_in_toml(config: str, folder: Path) -> None:
    result = run("--config", config)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("saxpy under late: clean")
    assert (np.load(folder / "launch/z.npy") == 2 * np.arange(100) + 1).all()


STEPS = HEADER + "".join(
    f"""
.visible .entry {name}(.param .u64 given, .param .u64 out) {{
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [given];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd1, %r1, 4, %rd1;
    mad.wide.u32 %rd2, %r1, 4, %rd2;
    {control}
    ld.global.u32 %r2, [%rd1];
    {work};
    st.global.u32 [%rd2], %r2;
    ret;
}}
"""
    for name, control, work in (
        ("first", "griddepcontrol.launch_dependents;", "add.u32 %r2, %r2, 5"),
        ("second", "griddepcontrol.wait;", "mul.lo.u32 %r2, %r2, 3"),
        ("hasty", "", "mul.lo.u32 %r2, %r2, 3"),
        ("wrong", "trap;", "mov.u32 %r2, 0"),
    )
)
CHAIN = """
file = "steps.ptx"
[launch]
entry = "first"
grid = 1
block = 64
[args]
given = "arange:u32[64]"
middle = "zeros:u32[64]"
[[then]]
entry = "{entry}"
dependent = {dependent}
grid = 1
block = 64
args = {{ given = "middle", last = "zeros:u32[64]" }}
"""


def test_strict_needs_the_sanitizer() -> None:
    launch = ("-", "--grid", "1", "--block", "1", *options("arange:u32[4]", "out=zeros:u32[1]"))
    result = run(*launch, "--strict", "--no-sanitize", text=HEADER + IMPATIENT)
    assert result.exit_code == 3 and "--strict and --no-sanitize exclude each other" in result.output


def test_several_launches_of_a_stream(folder: Path) -> None:
    """A dependent one that does not wait reads what was there before: zeros."""
    Path("steps.ptx").write_text(STEPS)
    for entry, dependent, factor in (("second", "true", 3), ("hasty", "false", 3), ("hasty", "true", 0)):
        Path("chain.toml").write_text(CHAIN.format(entry=entry, dependent=dependent))
        # The launch that does not wait races with the one before.
        racy = ("--no-sanitize",) if not factor else ()
        outs = ("--out", "last=last.npy", "--out", "middle=m.npy", "--overwrite")
        result = run("--config", "chain.toml", *outs, *racy)
        assert result.exit_code == 0, result.output
        lines = result.output.splitlines()
        assert lines[0] == "first under eager: clean" and f"{entry} under eager: clean" in lines
        assert (np.load("m.npy") == np.arange(64) + 5).all()
        assert (np.load("last.npy") == factor * (np.arange(64) + 5)).all()
    Path("chain.toml").write_text(CHAIN.format(entry="wrong", dependent="false"))
    result = run("--config", "chain.toml", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and found["verdict"] == "clean"
    assert [then["entry"] for then in found["then"]] == ["wrong"]
    assert found["then"][0]["findings"][0]["rule"] == "trap"
    assert [array["name"] for array in found["arrays"]] == ["given", "middle", "last"]


def test_options_replace_what_the_file_says(config: str) -> None:
    result = run(
        "--config", config, "--schedule", "eager", "--arg", "a=0", "--arg", "y=zeros:f32[100]", "--json"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["schedule"] == "eager"
    assert found["arrays"][1]["first"] == [0.0] * 16 and found["arrays"][1]["file"] is None
    positional = run("--config", config, "--arg", "7")
    assert positional.exit_code == 3 and "the file names the arguments (x, y, n, a)" in positional.output


def test_every_kind_of_table(folder: Path) -> None:
    Path("all.toml").write_text(
        'words = ["N=4", 3]\n[args]\nn = 7\nx = "bf16:a.npy"\n'
        '[args.same]\narray = "x"\n[args.map]\nmap = "A"\nbox = [64, 32]\nswizzle = "64B"\n'
        '[arrays.A]\nfill = "random"\ntype = "bf16"\nshape = [64, 64]\nseed = 0\nbounds = [-1, 1]\nout = "A.npy"\n'
    )
    found = read_config(Path("all.toml"))
    assert found.words == ("N=4", "3")
    assert found.args == [
        NamedArgument("n", Number(7)),
        NamedArgument("x", FileArray(Path("a.npy"), TYPES["bf16"])),
        NamedArgument("same", SameArray("x")),
        NamedArgument("map", TensorMapOf("A", {"box": (64, 32), "swizzle": "64B"})),
    ]
    (array,) = found.arrays
    assert array.given == FilledArray(
        "random", TYPES["bf16"], (64, 64), seed=0, bounds=(-1.0, 1.0), out=Path("A.npy")
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("file = 3", "file is 3: expected a string"),
        ("fiel = 'x'", "unknown key 'fiel'; the keys are: file, words, launch"),
        ("[launch]\ngird = 3", "[launch]: unknown key 'gird'"),
        ("[launch]\ngrid = 'x'", "[launch]: grid is 'x': expected an integer or a list"),
        ("[launch]\nsmem = true", "[launch]: smem is True: expected an integer"),
        ("[args.x]\ntype = 'u32'", "[args.x]: expected one of the keys file, fill, array, map and value"),
        ("[args.x]\nfill = 'ones'\ntype = 'f32'\nshape = 4", "fill is 'ones'; expected one of zeros, full"),
        ("[args.x]\nfill = 'zeros'\ntype = 'f32'\nshape = [-4]", "expected integers of at least 0"),
        ("[args.x]\nfill = 'zeros'\nshape = 4", "[args.x]: type is missing"),
        ("[args.x]\nfill = 'random'\ntype = 'f32'\nshape = 4\nbounds = [1]", "bounds is [1]"),
        (
            "[args.x]\nfile = 'a.npy'\nshape = 4",
            "[args.x]: unknown key 'shape'; the keys are: file, type, out",
        ),
        ("[args.x]\nmap = 'A'\nswizzle = '64B'", "[args.x]: a tensor map needs its box"),
        ("[args]\nx = 'a.txt'", "[args.x]: 'a.txt' is not an argument"),
        ("[args]\nx = true", "[args.x] is True: expected a number, a string or a table"),
        ("[args", "is not TOML"),
        ("[[then]]\nschedule = 'late'", "[[then]]: unknown key 'schedule'"),
        ("[[then]]\ndependent = 1", "[[then]]: dependent is 1: expected true or false"),
        ("[[then]]\n[then.args]\nx = 'a.txt'", "[[then]] [then.args.x]: 'a.txt' is not an argument"),
    ],
)
def test_wrong_toml(text: str, says: str, folder: Path) -> None:
    Path("wrong.toml").write_text(text)
    result = run("--config", "wrong.toml")
    assert result.exit_code == 3
    assert says in result.output and result.output.count("\n") == 1, result.output


# --- mistakes -------------------------------------------------------------------------------------

SOME = options("zeros:f32[9]", "zeros:f32[9]", "9", "1")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no FILE was given"),
        (("none.ptx",), "cannot read none.ptx: No such file or directory"),
        (("hello.ptx",), "which entry is meant? The module has: hello, other (give --entry)"),
        (("hello.ptx", "--entry", "helo"), "no entry 'helo'; the module has: hello, other"),
        (("saxpy.ptx", "--block", "64"), "the launch of saxpy is not complete: give, for example, --grid 4,2"),
        (("saxpy.ptx",), "give, for example, --grid 4,2 --block 128"),
        (("saxpy.ptx", "--grid", "two"), "--grid two: expected 4, 4,2 or 4,2,1"),
        (("saxpy.ptx", "N=3"), "saxpy.ptx is PTX text: only kernels of Python files take NAME=VALUE"),
        ((*LAUNCH,), "saxpy has 4 parameters: x (.u64), y (.u64), n (.u32), a (.f32); give one --arg"),
        ((*LAUNCH, *SOME, "--arg", "1"), "5 arguments given, saxpy has 4 parameters"),
        ((*LAUNCH, *options("x=1", "x=2", "3", "4")), "two arguments for the parameter x"),
        ((*LAUNCH, *options("zeros:f32[9]", "x", "1.5", "1")), "the parameter n takes a number of type .u32, got 1.5"),
        ((*LAUNCH, *options("zeros:f32[9]", "x", "u64:1", "1")), "type .u32, got a number of type .u64"),
        ((*LAUNCH, *options("zeros:f32[9]", "x", "1", "u32:1")), "type .f32, got a number of type .u32"),
        ((*LAUNCH, *options("zeros:f32[9]", "x", "5000000000", "1")), "the parameter n takes a number of type .u32, and 5000000000"),
        ((*LAUNCH, *options("zeros:f32[9]", "x", "zeros:f32[9]", "1")), "type .u32, got an array"),
        ((*LAUNCH, *options("z=1", "zz", "1", "1")), "no array is called 'zz'; the arrays are: none"),
        ((*LAUNCH, *options("junk.npy", "1", "1", "1")), "cannot read junk.npy"),
        ((*LAUNCH, *options("bf16:f.npy", "1", "1", "1")), "f.npy holds float32, not bf16"),
        ((*LAUNCH, *SOME, "--out", "q=q.npy"), "no array is called 'q'; the arrays are: x, y"),
        ((*LAUNCH, *SOME, "--out", "q.npy"), "expected NAME=FILE"),
        ((*LAUNCH, *SOME, "--out", "y=q.txt"), "expected a file name that ends with .npy or .bin"),
        ((*LAUNCH, *SOME, "--array", "zeros:f32[9]"), "expected NAME=VALUE"),
        ((*LAUNCH, *SOME, "--array", "q=3"), "--array q: expected an array"),
        ((*LAUNCH, *SOME, "--array", "x=zeros:f32[9]"), "two arrays are called x"),
        ((*LAUNCH, *SOME, "--schedule", "lazy"), "unknown schedule 'lazy'"),
        ((*LAUNCH, *SOME, "--schedule", "starve:store"), "starve:st, starve:cp"),
        ((*LAUNCH, *SOME, "--timeout", "-1"), "'--timeout'"),
        ((*LAUNCH, *SOME, "--max-steps", "0"), "'--max-steps'"),
        (("saxpy.ptx", "--grid", "0", "--block", "1", *SOME), "positive integers"),
        (("saxpy.ptx", "--grid", "1", "--block", "2000", *SOME), "block (2000, 1, 1) is outside 1..(1024, 1024, 64)"),
        ((*LAUNCH, *SOME, "--config", "none.toml"), "cannot read none.toml"),
        (("--wrong",), "No such option"),
    ],
)  # fmt: skip
def test_mistakes(words: tuple[str, ...], says: str, folder: Path) -> None:
    """Each is one clear line with status 3, and nothing runs."""
    Path("junk.npy").write_bytes(b"junk")
    np.save("f.npy", np.zeros(3, np.float32))
    result = run(*words)
    assert result.exit_code == 3, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert says in line
    assert "warp-instructions" not in result.output


def test_a_text_that_is_not_ptx(folder: Path) -> None:
    Path("bad.ptx").write_text(".version 8.0\nnonsense\n")
    result = run("bad.ptx", "--grid", "1", "--block", "1")
    assert result.exit_code == 3
    assert result.output.startswith("Error: bad.ptx:2: line 2, column 1: read 'nonsense'")


def test_names_of_cpp() -> None:
    """As much of the name without its mangling is enough as no other kernel has."""
    one, two = "_Z5scalePf", "_Z5scalePd"
    body = "() { ret; }\n"
    text = f"{HEADER}.visible .entry {one}{body}.visible .entry _Z3sumPf{body}"
    launch = ("--grid", "1", "--block", "1")
    assert run("-", "--entry", "scale", *launch, text=text).output.startswith(f"{one} under eager: clean")
    for wanted in ("scale(float*)", "void scale( float * )"):
        assert run("-", "--entry", wanted, *launch, text=text).output.startswith(f"{one} under eager: clean")
    unknown = run("-", "--entry", "scal", *launch, text=text)
    assert f"the module has: {one} (scale(float*)), _Z3sumPf (sum(float*))" in unknown.output
    text += f".visible .entry {two}{body}"
    several = run("-", "--entry", "scale", *launch, text=text)
    assert several.exit_code == 3
    assert (
        f"several entries are called 'scale': {one} (scale(float*)), {two} (scale(double*))" in several.output
    )


def test_memory_limits_what_runs_at_once() -> None:
    words = (*LAUNCH, *options("zeros:f32[9]", "x", "9", "1"), "--memory", "4096")
    assert run(*words).exit_code == 0, run(*words).output


def test_the_block_of_reqntid() -> None:
    text = SAXPY.replace(".param .f32 a) {", ".param .f32 a) .reqntid 64 {")
    result = run("-", "--grid", "2", *options("zeros:f32[100]", "x", "100", "1"), text=text)
    assert result.exit_code == 0, result.output


def test_the_files_of_the_page(folder: Path) -> None:
    """What docs/sim.md shows is read, and every key in it means something."""
    block, chain = re.findall(
        r"^```toml\n(.*?)^```", (ROOT / "docs/sim.md").read_text(), re.MULTILINE | re.DOTALL
    )
    Path("page.toml").write_text(block)
    found = read_config(Path("page.toml"))
    (waiver,) = found.settings.pop("waivers")
    assert (waiver.rule, waiver.file, waiver.line) == ("proxy-fence-open", "attention.ptx", 88)
    assert found.settings == {"entry": "attention", "grid": (4, 2), "block": (128,), "smem": 65536}
    assert [named.name for named in found.args] == ["q", "out", "k", "scale", "again"]
    assert found.args[0].given == FileArray(Path("q.npy"), TYPES["bf16"])
    assert found.args[3].given == Number(0.125, TYPES["f32"])
    assert found.args[4].given == SameArray("q")
    assert [named.name for named in found.arrays] == ["keys"]
    Path("chain.toml").write_text(chain)
    (then,) = read_config(Path("chain.toml")).then
    assert then.settings == {"entry": "second", "dependent": True, "grid": (4,), "block": (64,)}
    assert then.file is None and then.args[0] == NamedArgument("given", SameArray("middle"))


def test_waive_on_the_command_line() -> None:
    line = RACE.splitlines().index("    ld.shared.u32 %y, [%at];") + 1
    launch = ("-", "--grid", "1", "--block", "64", "--arg", "zeros:u32[64]")
    result = run(*launch, "--waive", f"data-race@<stdin>:{line}=a test", text=RACE)
    assert result.exit_code == 0 and "waived: 1 finding" in result.output, result.output
    result = run(*launch, "--waive", f"data-race@<stdin>:{line}=a test", "--json", text=RACE)
    found = json.loads(result.stdout)
    assert found["findings"] == [] and found["verdict"] == "clean"
    assert found["waived"][0]["reason"] == "a test" and found["waived"][0]["rule"] == "data-race"
    result = run(*launch, "--waive", "data-race", text=RACE)
    assert result.exit_code == 3 and "RULE@FILE:LINE=REASON" in result.output


def test_waivers_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "race.ptx").write_text(RACE)
    line = RACE.splitlines().index("    ld.shared.u32 %y, [%at];") + 1
    waiver = f'[[waivers]]\nrule = "data-race"\nfile = "race.ptx"\nline = {line}\n'
    launch = 'file = "race.ptx"\n[launch]\ngrid = 1\nblock = 64\n[args]\nout = "zeros:u32[64]"\n'
    (tmp_path / "launch.toml").write_text(f'{launch}{waiver}reason = "a test"\n')
    result = run("--config", str(tmp_path / "launch.toml"))
    assert result.exit_code == 0 and "1 x [data-race] at race.ptx:" in result.output, result.output
    (tmp_path / "launch.toml").write_text(launch + waiver)
    result = run("--config", str(tmp_path / "launch.toml"))
    assert result.exit_code == 3 and "needs rule, file, line and reason" in result.output


def test_the_stepper_at_the_prompt(tmp_path: Path) -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, 21;
    add.u32 %r2, %r1, %r1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
    file = tmp_path / "twice.ptx"
    file.write_text(text)
    done = run(
        *(str(file), "--grid", "1", "--block", "1", "--arg", "empty:u32[1]", "--debug"),
        text="until 11\nregisters r2\ncontinue\n",
    )
    assert done.exit_code == 0, done.output
    assert (
        "(sim) until 11\nuntil 11: CTA (0, 0, 0) warp 0, lane 0" in done.output
        and "r2 b32 = 0x2a" in done.output
    )
    assert "twice under eager: clean" in done.output
