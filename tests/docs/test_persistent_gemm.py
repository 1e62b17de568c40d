"""The page of the persistent GEMM: its arithmetic follows from the tiles and the rates that it names, its loops are those
that ptxas makes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyptx.toolchain import Tool
from tests.examples.loading import load_example, load_module

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/persistent_gemm.md").read_text()
BUILDERS = ("build_gemm", "build_gemm_2sm", "build_gemm_persistent")


def test_waves_and_traffic() -> None:
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")
    rows = re.findall(
        r"^\| (build_\w+) \| (\d+) \| (\d+)x256 \| (\d+) \| ([\d.]+) \| ([\d.]+)% \| ([\d.]+) \| (\d+) \| (\d+) \|",
        PAGE,
        re.MULTILINE,
    )
    assert [row[0] for row in rows] == [*BUILDERS, *BUILDERS]
    stages = {"build_gemm": 4, "build_gemm_2sm": gemm.STAGES_2SM, "build_gemm_persistent": 6}
    for name, *numbers in rows:
        size, tm, tiles, rounds, most, loaded, rate, in_flight = map(float, numbers)
        ctas = tm / gemm.BM
        groups = gemm.SMS // ctas
        assert ctas == (1 if name == "build_gemm" else 2)
        assert tiles == size / tm * size / gemm.BN
        assert rounds == pytest.approx(tiles / groups, abs=0.005)
        assert most == pytest.approx(100 * tiles / groups / -(-tiles // groups), abs=0.05)
        stage = 2 * gemm.BK * (tm + gemm.BN)  # bytes of a stage of all its CTAs
        assert loaded == pytest.approx(tiles * size / gemm.BK * stage / 1e9, abs=0.005)
        # A product of N = 256 takes 128 clocks and 16 of K.
        assert rate == stage / ctas / (gemm.BK / gemm.MMA_K * 128)
        assert in_flight == stages[name] * stage / ctas / 1024


def test_the_epilogue_by_arithmetic() -> None:
    accumulator = 128 * 256 * 4
    parts = [accumulator / 230, accumulator / 128, accumulator / 128]
    shown = re.findall(
        r"^\| (?:tensor memory to|registers to|TMA reads)[^|]* \| (\d+) \|", PAGE, re.MULTILINE
    )
    assert list(map(int, shown)) == [round(clocks) for clocks in parts]
    total = round(sum(parts))
    assert f"| sum, if nothing overlaps | {total} |" in PAGE
    loops = re.findall(r"^\| (\d+) \| (\d+) \| (longer|hidden)", PAGE, re.MULTILINE)
    assert len(loops) == 5
    for k, clocks, verdict in loops:
        assert int(clocks) == 8 * int(k)
        assert verdict == ("hidden" if int(clocks) > total else "longer")
    assert f"The sum is passed at K = {-(-total // 8)}." in PAGE
    traces = [round(us * 1930 / 100) * 100 for us in (2.3, 3.2)]
    assert "| {} to {} |".format(*traces) in PAGE
    written = 74 * 2 * accumulator
    clocks = written / 6.7e12 * 1.93e9
    assert f"{written / 1e6:.1f} MB" in PAGE and f"{round(clocks, -1):.0f} clocks at 6.7 TB/s" in PAGE
    assert f"K = {-(-clocks // 8):.0f} an f32" in PAGE and f"K = {-(-clocks // 16):.0f}." in PAGE


@pytest.mark.parametrize("tiles", [256, 222])
def test_tiles_ahead(tiles: int) -> None:
    control = load_module(ROOT / "benchmarks/launch_control.py")
    alike = [control.Place()] * 74
    assert control.static(tiles, alike) == control.launch_control(tiles, alike, 1, 1, 0) == -(-tiles // 74)
    # The next tile is requested when one begins: only an answer that takes longer than a tile delays it.
    assert control.launch_control(tiles, alike[:1], 1, 1, 0.25) == tiles
    assert control.launch_control(tiles, alike[:1], 1, 1, 2) == 1 + 2 * (tiles - 1)
    for row in control.rows(tiles, 74, 0.05):
        assert f"\n| {' | '.join(row)} |\n" in PAGE, row


@pytest.mark.full
def test_main_loops(ptxas: Tool, nvdisasm: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal with the version of ptxas that the figures are of, close to them with others, and always below CUDA's."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    loops = load_module(ROOT / "benchmarks/main_loops.py")
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")
    rows = re.findall(
        r"^\| (build_\w+) \| ([\d.]+) \| ([\d.]+) \| learn-cuda v\d \| ([\d.]+) \| ([\d.]+) \|",
        PAGE,
        re.MULTILINE,
    )
    assert [row[0] for row in rows] == list(BUILDERS)
    slack = 0 if ptxas.version[:2] == (13, 5) else 8
    for name, *numbers in rows:
        copies, products, other_copies, other_products = map(float, numbers)
        (lines,) = loops.functions(getattr(gemm, name)(4096, 4096, 4096).sass()).values()
        for what, shown, other in (("copies", copies, other_copies), ("products", products, other_products)):
            wanted = {kind: number for kind, number in loops.LOOPS[name][what].items() if number}
            loop = loops.loop_of(lines, wanted)
            assert loop is not None and abs(loop.total - shown) <= slack and loop.total < other
    (single,) = re.findall(
        r"\*\*build_gemm_persistent\(ctas=1\)\*\*, ring of 4 \| ([\d.]+) \| ([\d.]+) \|", PAGE
    )
    one_width = re.search(
        r"([\d.]+) instead of ([\d.]+) for the products of a pair, ([\d.]+) instead of ([\d.]+) for a", PAGE
    )
    assert one_width is not None
    assert one_width[2] == rows[-1][2] and one_width[4] == single[1]
    pair = rows[-1][1], one_width[1]
    for name, figures, options in (
        ("build_gemm_persistent_1sm", single, {"ctas": 1}),
        ("build_gemm_persistent_1sm", (single[0], one_width[3]), {"ctas": 1, "narrow": False}),
        ("build_gemm_persistent", pair, {"narrow": False}),
        ("build_gemm_clc", pair, {"schedule": "clc"}),
    ):
        (lines,) = loops.functions(gemm.build_gemm_persistent(4096, 4096, 4096, **options).sass()).values()
        for what, shown in zip(("copies", "products"), figures, strict=True):
            wanted = {kind: number for kind, number in loops.LOOPS[name][what].items() if number}
            loop = loops.loop_of(lines, wanted)
            assert loop is not None and abs(loop.total - float(shown)) <= slack
