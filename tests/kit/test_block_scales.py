"""Scales of blocks: what is recorded beside the products, and which scales are refused."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx import SpecError, Tile, bf16, f32, kit, ptx, reg, u32
from tests.dsl.helpers import body_of, recorded


@pytest.mark.parametrize("a_major", ["M", "K"])
def test_what_a_turn_records(a_major: Any) -> None:
    def body(a: Any, b: Any) -> None:
        scales = kit.BlockScales(a, b, blocks=2, a_major=a_major)
        accs, totals = ([ptx.wgmma.accumulator(n=16) for _ in range(2)] for _ in range(2))
        zero = reg.scalar(u32, init=0)
        scales.begin(totals, row=zero, column=zero, last=63)
        ptx.inst.mov.u32(zero, 17)  # a mark
        scales.turn(more=zero < 1)
        for block, (acc, total) in enumerate(zip(accs, totals, strict=True)):
            scales.add(acc, total, block)

    lines = body_of(body, Tile(4, 4, f32), Tile(4, 4, f32), arch="sm_90a")
    mark = next(i for i, line in enumerate(lines) if line.endswith(", 17;"))
    turn = [line.split()[1 if line.startswith("@") else 0] for line in lines[mark + 1 :]]
    # Two rows of each of two accumulators, and one scale of B.
    assert turn.count("ld.global.nc.f32") == 5 and turn.count("mov.f32") == 5
    assert sum(word.startswith("mul.") for word in turn) == 4 and turn.count("fma.rn.f32") == 2 * 8


@pytest.mark.parametrize(
    ("a", "options", "words"),
    [
        (Tile(4, 4, bf16), {}, "the scales of A are"),
        (Tile(16, f32), {}, "two or three dims"),
        (Tile(4, 4, f32), {"a_major": "N"}, "a_major is 'N'"),
    ],
)
def test_refusals(a: Tile, options: dict[str, Any], words: str) -> None:
    def body(given: Any, b: Any) -> None:
        with pytest.raises(SpecError, match=words):
            kit.BlockScales(given, b, blocks=1, **options)

    recorded(body, a, Tile(4, 4, f32), arch="sm_90a")
