"""The GEMM with everything spelled out: right for every schedule, assembled without spills, its order of tiles, and what
happens if a stage is handed back by an ordinary arrival.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import Kernel, PyptxError, TensorMap, Tile, ir, kernel, kit, ptx, sim, u32
from pyptx.toolchain import Tool

from .loading import load_example

gemm = load_example("blackwell/gemm_spelled_out.py")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((128, 256, 64), {}),  # one tile, one stage
        ((128, 256, 640), {}),  # the ring wraps around
        ((128, 256, 192), {"stages": 1}),
        ((384, 512, 64), {"grid_tile_width": 2}),  # a last group that is lower
    ],
)
def test_right_under_every_schedule(
    shape: tuple[int, int, int], options: dict[str, Any], schedule: str
) -> None:
    report, error = gemm.check(*shape, schedule=schedule, **options)
    assert report.verdict == "clean", str(report)
    assert report.holds == "every schedule" and error <= 1


@pytest.mark.full
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a", "sm_100f"])
def test_assembles_without_spills_or_warnings(arch: str, ptxas: Tool) -> None:
    assembly = gemm.build_gemm(512, 512, 1024, arch=arch).assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


def test_the_same_products_as_the_kernel_of_units() -> None:
    """Both have as many MMAs, copies and waits, in the same forms."""

    def forms(kernel: Kernel) -> set[str]:
        instructions = kernel.module().functions[0].instructions()
        names = {".".join((s.opcode, *s.modifiers)) for s in instructions}
        return {
            name
            for name in names
            if re.match(r"tcgen05\.(mma|alloc|dealloc|commit)|cp\.async|mbarrier", name)
        }

    other = load_example("blackwell/gemm_highperf_blackwell.py").build_gemm(512, 512, 512)
    assert forms(gemm.build_gemm(512, 512, 512)) == forms(other)


@pytest.mark.parametrize(("tiles_m", "tiles_n", "width"), [(8, 5, 2), (7, 3, 4), (3, 4, 8), (5, 1, 1)])
def test_the_order_of_tiles(tiles_m: int, tiles_n: int, width: int) -> None:
    """Groups of ``width`` rows, every other one from right to left: that of ``kit.tile_order.boustrophedon``."""
    count = tiles_m * tiles_n

    @kernel(in_specs=(), out_specs=(Tile(count, 4, u32),), grid=count, block=1)
    def places(D: Any) -> None:
        tile = ptx.special.ctaid.x()
        spelled = gemm.tile_of(tile, tiles_m, tiles_n, width)
        order = kit.tile_order.boustrophedon(tile, tiles_m, tiles_n, width)
        for column, value in enumerate((*spelled, *order)):
            ptx.inst.st.global_.u32(D.at(tile, column), value)

    found = np.zeros((count, 4), np.uint32)
    assert places.simulate(out=found).verdict == "clean"
    expected = []
    for first in range(0, tiles_m, width):
        columns = range(tiles_n) if first // width % 2 == 0 else reversed(range(tiles_n))
        expected += [(row, c) for c in columns for row in range(first, min(first + width, tiles_m))]
    assert list(map(tuple, found[:, :2].tolist())) == expected
    assert (found[:, :2] == found[:, 2:]).all()


def test_a_stage_that_is_handed_back_by_an_arrival() -> None:
    """The arrival says that the MMAs were issued, not that they have read the stage."""
    shape = (128, 256, 640)
    module = gemm.build_gemm(*shape).module()
    function = module.functions[0]
    commits = [s for s in function.instructions() if "commit" in s.modifiers]
    body = tuple(
        ir.Instruction("mbarrier", ("arrive", "shared::cta", "b64"), (ir.Sink(), s.operands[0]))
        if isinstance(s, ir.Instruction) and s in commits[:-1]
        else s
        for s in function.body
    )
    broken = sim.load(replace(module, functions=(replace(function, body=body),)))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, shape[2]), np.float32).astype(ml_dtypes.bfloat16) for n in shape[:2])
    maps = [TensorMap.tiled(x, box=(len(x), 64), swizzle="128B") for x in (a, b)]
    rules: set[str] = set()
    worst = 0.0
    for schedule in ("eager", "late"):
        d = np.zeros(shape[:2], np.float32)
        report = broken.launch(grid=1, block=128, dynamic_smem=200_000, args=[*maps, d], schedule=schedule)
        rules |= {finding.rule.name for finding in report.findings}
        worst = max(worst, abs(d - a.astype(np.float64) @ b.astype(np.float64).T).max())
    assert "data-race" in rules and worst > 1


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((100, 256, 64), {}, ("M = 100", "128", "pad M to 128")),
        ((128, 256, 0), {}, ("K = 0", "pad K to 64")),
        ((128, 256, 64), {"stages": 5}, ("stages = 5", "1 to 4", "49152 bytes")),
        ((128, 256, 64), {"grid_tile_width": 0}, ("grid_tile_width = 0", "positive")),
    ],
)
def test_refusals(arguments: tuple[int, ...], options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(PyptxError) as caught:
        gemm.build_gemm(*arguments, **options)
    assert all(word in str(caught.value) for word in words)
