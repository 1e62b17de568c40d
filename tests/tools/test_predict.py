"""``pyptx predict`` and ``pyptx compare``: figures, JSON, launches of texts, ranking, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from examples.blackwell.gemm_tiles import build_gemm_tiles
from pyptx import SpecError, predict, sim
from pyptx.timeline import Timeline
from pyptx.tools.cli import cli, main
from tests.examples.loading import EXAMPLES
from tests.sim.clock.test_counters import counting
from tests.sim.compiled.sources import TEXTS

TILES = str(EXAMPLES / "blackwell/gemm_tiles.py")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.full
def test_figures_of_a_prediction() -> None:
    target = f"{TILES}:build_gemm_tiles", "256", "256", "1024", "--clock", "1300"
    shown = run("predict", *target)
    assert shown.exit_code == 0 and "1300 MHz" in shown.stdout and "bound by" in shown.stdout
    figures = json.loads(run("predict", *target, "--json").stdout)
    assert figures["mhz"] == 1300 and figures["verdict"] == "clean"
    assert figures["low"] < figures["microseconds"] < figures["high"]
    assert figures["microseconds"] * 1300 == figures["cycles"]


@pytest.mark.full
def test_json_has_the_waits_of_each_group_of_warps() -> None:
    target = f"{TILES}:build_gemm_tiles", "256", "256", "1024", "--clock", "1300"
    figures = json.loads(run("predict", *target, "--json", "--what-if", "bound", "--what-if", "link").stdout)
    places = [(place["rank"], place["warp"]) for group in figures["warps"] for place in group["warps"]]
    assert sorted(places) == [(rank, warp) for rank in (0, 1) for warp in range(6)]
    stalls = [stall for group in figures["warps"] for stall in group["stalls"]]
    full = next(stall for stall in stalls if stall["barrier"] == "full")
    assert full["cause"] == "bytes of copies" and full["role"] == "consumer"
    assert "gemm_tiles.py:" in full["line"] and full["ended_by"]["instruction"].startswith("cp.async.bulk")
    assert set(figures["without"]) == {figures["bound"], "link"}
    assert all(each["microseconds"] <= figures["microseconds"] for each in figures["without"].values())


@pytest.mark.full
def test_what_removing_a_unit_would_give_and_a_timeline(tmp_path: Path) -> None:
    target = f"{TILES}:build_gemm_tiles", "256", "256", "512", "--clock", "1300"
    page, data = tmp_path / "run.html", tmp_path / "run.json"
    shown = run("predict", *target, "--what-if", "launch", "--timeline", str(page))
    assert shown.exit_code == 0 and "<html" in page.read_text("utf-8")
    (line,) = (line for line in shown.stdout.splitlines() if line.startswith("  launch: "))
    assert "less), then bound by" in line
    assert run("predict", *target, "--timeline", str(data)).exit_code == 0
    assert Timeline.read(data).unit == "ns"
    assert isinstance(run("predict", *target, "--timeline", str(data)).exception, Exception)  # it exists
    assert run("predict", *target, "--what-if", "power").exit_code == 2


@pytest.mark.full
def test_kernels_are_ranked() -> None:
    slow, fast = (f"{TILES}:build_gemm_tiles,256,256,{k}" for k in (2048, 256))
    shown = run("compare", slow, fast, "--clock", "1300").stdout.splitlines()
    assert [line[:2] for line in shown] == ["1.", "2."]
    assert shown[0].endswith(fast) and shown[1].endswith(slow)
    assert "not distinguishable" not in shown[1]
    twice = run("compare", fast, fast, "--clock", "1300").stdout.splitlines()
    assert "not distinguishable from the one before" in twice[1]


@pytest.mark.full
def test_json_of_a_ranking_says_which_intervals_overlap() -> None:
    slow, fast = (f"{TILES}:build_gemm_tiles,256,256,{k}" for k in (2048, 256))
    rows = json.loads(run("compare", slow, fast, fast, "--clock", "1300", "--json").stdout)
    assert [row["target"] for row in rows] == [fast, fast, slow]
    assert [row["overlaps"] for row in rows] == [[fast], [fast], []]


@pytest.mark.full
def test_kernels_without_a_prediction_rank_last(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(
        "from pyptx import Tile, f32, kernel, ptx, u32\n"
        "def build(count):\n"
        "    @kernel(in_specs=(Tile(32, u32),), out_specs=(Tile(32, f32),), block=32, arch='sm_100a')\n"
        "    def fill(A, B):\n"
        "        lane = ptx.special.laneid()\n"
        "        if count < 0:\n"
        "            with ptx.if_(ptx.load(u32, A.at(lane)) > 3):\n"
        "                ptx.store(B.at(lane), 1.0, f32)\n"
        "        with ptx.for_(0, abs(count)):\n"
        "            ptx.store(B.at(lane), 1.0, f32)\n"
        "    return fill\n"
    )
    shown = run("compare", f"{file}:build,-1", f"{file}:build,9")
    first, second = shown.stdout.splitlines()
    assert shown.exit_code == 1
    assert first.startswith("1. ") and first.endswith("build,9")
    assert second.startswith("2. no prediction, incomplete") and second.endswith("build,-1")


@pytest.mark.full
def test_no_prediction() -> None:
    target = f"{EXAMPLES / 'hopper/attention.py'}:build_attention", "1", "1", "512", "128"
    shown = run("predict", *target, "--gpu", "h200", "--clock", "1700", "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["verdict"] == "incomplete"


def test_wrong_clocks_and_gpus() -> None:
    target = f"{TILES}:build_gemm_tiles", "256", "256", "256"
    assert run("predict", *target, "--clock", "fast").exit_code == 2
    assert isinstance(run("predict", *target, "--gpu", "h200").exception, Exception)


def test_an_error_that_no_line_of_the_user_led_to_names_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sys.argv", ["pyptx", "predict", f"{TILES}:build_gemm_tiles", "256", "256", "256", "--gpu", "b9"]
    )
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "no constants of a GPU 'b9'" in said and "at:" not in said


SAXPY = str(TEXTS / "sm_90a/exchanges.ptx"), "--entry", "saxpy"
LAUNCH = "--grid", "256", "--block", "256", "--clock", "1700"
ARGS = "--arg", "2.5", "--arg", "unknown:f32[65536]", "--arg", "y=empty:f32[65536]", "--arg", "65536"


@pytest.mark.full
def test_a_launch_of_a_text() -> None:
    shown = run("predict", *SAXPY, *LAUNCH, *ARGS, "--what-if", "bound")
    assert shown.exit_code == 0 and shown.stdout.startswith("saxpy on NVIDIA H200 SXM at 1700 MHz")
    assert "exchanges.ptx:" in shown.stdout and "without a limit of:" in shown.stdout
    figures = json.loads(run("predict", *SAXPY, *LAUNCH, *ARGS, "--json").stdout)
    count = 65536
    expected = predict(
        (TEXTS / "sm_90a/exchanges.ptx").read_text(),
        "saxpy",
        grid=256,
        block=256,
        args=[2.5, sim.unknown(count, "f32"), sim.unknown(count, "f32"), count],
        clock=1700.0,
    )
    assert figures["verdict"] == "clean" and figures["cycles"] == expected.cycles


@pytest.mark.full
def test_tensor_maps_and_a_counter_of_a_text(tmp_path: Path) -> None:
    tiles = tmp_path / "tiles.ptx"
    text = build_gemm_tiles(256, 256, 256).ptx()
    tiles.write_text(text)
    maps = [f"map:{name},box={box},swizzle=128B" for name, box in (("a", "128x64"), ("b", "128x64"))]
    maps.append("map:d,box=128x32,swizzle=64B")
    arrays = ["a=unknown:f16[256,256]", "b=unknown:f16[256,256]", "d=unknown:f16[256,256]"]
    given = [word for each in maps for word in ("--arg", each)]
    given += [word for each in arrays for word in ("--array", each)]
    launch = "--grid", "2", "--cluster", "2", "--clock", "1300", "--smem"
    smem = str(build_gemm_tiles(256, 256, 256).specialize().launch.dynamic_smem)
    figures = json.loads(run("predict", str(tiles), *launch, smem, *given, "--json").stdout)
    target = f"{TILES}:build_gemm_tiles", "256", "256", "256", "--clock", "1300"
    assert figures["cycles"] == json.loads(run("predict", *target, "--json").stdout)["cycles"]

    counter = tmp_path / "counter.ptx"
    counter.write_text(counting("add").ptx())
    launch = "--grid", "132", "--clock", "1700", "--arg", "empty:u32[132,3]", "--arg", "queue=zeros:u32[1]"
    figures = json.loads(run("predict", str(counter), *launch, "--zeroed", "queue", "--json").stdout)
    assert figures["cycles"] == counting("add").predict(clock=1700.0).cycles


@pytest.mark.full
def test_a_timeline_of_a_text_from_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    text = (TEXTS / "sm_90a/exchanges.ptx").read_text()
    arguments = "predict", "-", *SAXPY[1:], *LAUNCH, *ARGS, "--timeline", str(file)
    shown = CliRunner().invoke(cli, arguments, input=text)
    assert shown.exit_code == 0, shown.output
    assert Timeline.read(file).unit == "ns"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((f"{TILES}:build_gemm_tiles", "--grid", "4"), "whose kernels have a launch: leave --grid out"),
        ((f"{TILES}:build_gemm_tiles", "--smem", "0"), "whose kernels have a launch: leave --smem out"),
        ((f"{TILES}:build_gemm_tiles", "--arg", "7"), "whose kernels have a launch: leave --arg out"),
        ((*SAXPY, *LAUNCH, *ARGS, "--dim", "N=3"), "has no dims and constants: leave --dim N=3 out"),
        ((SAXPY[0], "N=3"), "has no dims and constants: leave N=3 out"),
        (("none.ptx", *LAUNCH), "cannot read none.ptx: No such file or directory"),
        ((SAXPY[0], "--entry", "taxpy", *LAUNCH, *ARGS), "no entry 'taxpy'"),
        (
            (*SAXPY, "--grid", "4", *ARGS),
            "the launch of saxpy is not complete: give, for example, --block 128",
        ),
        ((*SAXPY, *LAUNCH, *ARGS[:4]), "2 arguments given, saxpy has 4 parameters"),
        ((*SAXPY, *LAUNCH, *ARGS, "--zeroed", "z"), "--zeroed z: no array has this name; the arrays are: "),
        ((*SAXPY, *LAUNCH, *ARGS[:2], "--arg", "unknown:f32"), "expected a type and a shape after unknown:"),
        ((*SAXPY, *LAUNCH[:4], *ARGS, "--clock", "fast"), "--clock 'fast': expected burst, sustained or a"),
    ],
)
def test_a_command_line_that_does_not_fit_the_file(arguments: tuple[str, ...], said: str) -> None:
    shown = run("predict", *arguments)
    assert shown.exit_code == 2
    assert said in " ".join(shown.output.split())


def test_bytes_of_a_struct_must_be_known(tmp_path: Path) -> None:
    file = tmp_path / "struct.ptx"
    file.write_text(
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .align 8 .b8 pair[24]) { ret; }\n"
    )
    launch = "predict", str(file), "--grid", "1", "--block", "32", "--arg"
    shown = run(*launch, "unknown:u8[24]")
    assert shown.exit_code == 2 and "takes 24 bytes by value, got bytes that are not known" in shown.output
    assert run(*launch, "zeros:u8[24]").exit_code == 0


def test_a_text_for_another_gpu() -> None:
    error = run("predict", *SAXPY, *LAUNCH, *ARGS, "--gpu", "b200").exception
    assert isinstance(error, SpecError)
    assert error.message == "the kernel is for sm_90a, but the NVIDIA B200 is sm_100a"
