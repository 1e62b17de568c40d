"""Scales of blocks in stages: what a stage records, which columns get which scale, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx import SpecError, kit, ptx, reg, u32
from tests.dsl.helpers import body_of, recorded


@pytest.mark.parametrize(("columns", "scales", "chosen"), [(128, 1, 0), (192, 2, 1), (96, 2, 2)])
def test_what_a_stage_records(columns: int, scales: int, chosen: int) -> None:
    staged = kit.StagedScales((128, columns))

    def body(a: Any, b: Any) -> None:
        staged.stages(2)
        ring = kit.Ring(2)
        mine = staged.reader(first=0, blocks=2)
        acc = ptx.wgmma.accumulator(n=columns)
        totals = [ptx.wgmma.accumulator(n=columns) for _ in range(2)]
        zero = reg.scalar(u32, init=0)
        mine.begin(totals, row=zero, column=zero)
        ptx.inst.mov.u32(zero, 17)  # a mark
        mine.read(ring.slot(zero), zero)
        for block, total in enumerate(totals):
            mine.add(acc, total, block)

    lines = body_of(body, staged.a_spec(4, 256), staged.b_spec(4, 4), arch="sm_90a")
    mark = next(i for i, line in enumerate(lines) if line.endswith(", 17;"))
    words = [line.split()[1 if line.startswith("@") else 0] for line in lines[mark + 1 :]]
    # Two rows of each of two accumulators; for two rows of each a choice for each piece that may be in either block.
    assert words.count("ld.shared.f32") == 4 + scales
    assert sum(word.startswith("mul.") and word.endswith("f32") for word in words) == 4 * scales
    assert words.count("selp.f32") == 4 * chosen and words.count("fma.rn.f32") == columns
    assert words.count("fence.proxy.async.shared::cta;") == 1


@pytest.mark.parametrize("blocks", [1, 2])
def test_interleaved_factors_are_kept_until_the_next_stage(blocks: int) -> None:
    staged = kit.StagedScales((64 * blocks, 128))

    def body(a: Any, b: Any) -> None:
        staged.stages(2)
        ring = kit.Ring(2)
        mine = staged.reader(first=0, blocks=blocks, interleave=True)
        acc = ptx.wgmma.accumulator(n=128)
        totals = [ptx.wgmma.accumulator(n=128) for _ in range(blocks)]
        zero = reg.scalar(u32, init=0)
        mine.begin(totals, row=zero, column=zero)
        for _ in range(2):
            mine.read(ring.slot(zero), zero)
            for block, total in enumerate(totals):
                mine.add(acc, total, block)
        mine.keep()
        mine.keep()

    lines = body_of(body, staged.a_spec(4, 256), staged.b_spec(4, 4), arch="sm_90a")
    words = [line.split()[0] for line in lines]
    store = f"st.shared.v{2 * blocks}.f32"
    assert words.count(store) == 2 and words.count("fma.rn.f32") == 2 * 64 * blocks
    # The first stage's factors are stored behind the second stage's fence, the others at the end.
    first, last = (i for i, word in enumerate(words) if word == store)
    assert sum(word.startswith("fence.proxy.async") for word in words[:first]) == 2
    assert last == len(words) - 1


def test_refused_interleaving() -> None:
    def body(a: Any, b: Any) -> None:
        wide = kit.StagedScales((128, 192))
        wide.stages(2)
        with pytest.raises(SpecError, match="interleave with 192 columns"):
            wide.reader(first=0, blocks=1, interleave=True)

    narrow = kit.StagedScales((64, 64))
    recorded(body, narrow.a_spec(4, 256), narrow.b_spec(4, 4), arch="sm_90a")


def test_a_stage_announces_what_it_loads() -> None:
    """A's scales, those of three more rows if the tile begins at any row, and B's of four blocks of K."""
    assert kit.StagedScales((256, 128)).nbytes == 4 * (256 + 4)
    assert kit.StagedScales((128, 192)).nbytes == 4 * (128 + 2 * 4)
    unaligned = kit.StagedScales((128, 128), aligned=False)
    assert unaligned.nbytes == 4 * (128 + 4 + 4)
    # Both destinations are aligned to 128 bytes.
    assert unaligned.stage_bytes == 128 * 5 + 128


@pytest.mark.parametrize(
    ("tile", "options", "words"),
    [
        ((96, 128), {}, "96 rows"),
        ((256, 128), {"aligned": False}, "256 rows"),
        ((128, 176), {}, "three blocks"),
    ],
)
def test_refused_tiles(tile: tuple[int, int], options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        kit.StagedScales(tile, **options)


def test_refused_arrays() -> None:
    staged = kit.StagedScales((128, 128), b_batch=True)
    with pytest.raises(SpecError, match="202 numbers"):
        staged.a_spec(4, 202)
    with pytest.raises(SpecError, match="batch is None"):
        staged.b_spec(4, 4)

    def body(a: Any, b: Any) -> None:
        staged.stages(2)
        zero = reg.scalar(u32, init=0)
        with pytest.raises(SpecError, match="batch is None"):
            staged.load(kit.Ring(2).slot(zero), a, b, row=zero, column=zero, k=zero)

    recorded(body, staged.a_spec(4, 256), staged.b_spec(4, 4, 2), arch="sm_90a")
