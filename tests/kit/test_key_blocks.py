"""Blocks of keys under masks: against a mask of all elements, as numbers, in registers, and in a fragment."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pyptx import SpecError, Tile, f32, kernel, kit, ptx, reg, s32, u32
from tests.dsl.helpers import in_kernel

SIDES = [(None, None), (None, 0), (0, 0), (5, None), (7, 3), (-2, 4), (40, 0), (3, -2)]


def visible(place: int, count: int, keys: int, left: int | None, right: int | None) -> np.ndarray:
    at = place + np.arange(count)[:, None]
    key = np.arange(keys)[None]
    low = -math.inf if left is None else -left
    high = math.inf if right is None else right
    return (key - at >= low) & (key - at <= high)


@pytest.mark.sample(8)
@pytest.mark.parametrize(("left", "right"), SIDES)
def test_blocks_as_numbers(left: int | None, right: int | None) -> None:
    for block in (3, 4, 16):
        blocks = kit.KeyBlocks(block, left, right)
        for place in (-9, -3, 0, 1, 7, 20):
            for count in (1, 4, 6):
                for keys in (1, 5, 16, 21):
                    found = blocks.of(place, count, keys)
                    sees = visible(place, count, keys, left, right)
                    used = [n for n in range(-(-keys // block)) if sees[:, n * block : (n + 1) * block].any()]
                    assert found.first < found.end <= -(-keys // block)
                    assert set(used) <= set(range(found.first, found.end))
                    if used and (left is None or right is None or left + right >= 0):
                        assert (found.first, found.end) == (used[0], used[-1] + 1)
                    for n in range(max(found.first, found.whole_first), min(found.end, found.whole_end)):
                        assert (n + 1) * block <= keys and sees[:, n * block : (n + 1) * block].all()
                    whole = [
                        n
                        for n in used
                        if (n + 1) * block <= keys and sees[:, n * block : (n + 1) * block].all()
                    ]
                    assert set(whole) <= set(range(found.whole_first, found.whole_end))


@pytest.mark.parametrize(("left", "right"), [(None, 0), (7, 3)])
@pytest.mark.parametrize("block", [16, 48])
def test_blocks_and_masks_in_registers(block: int, left: int | None, right: int | None) -> None:
    rows, most = 64, 96
    blocks = kit.KeyBlocks(block, left, right)

    @kernel(
        in_specs=(Tile(2, s32),),
        out_specs=(Tile(4, s32), Tile(rows, most, f32)),
        block=128,
        arch="sm_90a",
    )
    def masked(numbers, bounds, scores):  # type: ignore[no-untyped-def]
        place, keys = reg.array(s32, 2)
        ptx.inst.ld.global_.s32(place, numbers.at(0))
        ptx.inst.ld.global_.s32(keys, numbers.at(1))
        found = blocks.of(place, rows, keys)
        for i, bound in enumerate((found.first, found.end, found.whole_first, found.whole_end)):
            ptx.inst.st.global_.s32(bounds.at(i), bound, pred=ptx.special.tid.x() == 0)
        s = ptx.wgmma.accumulator(n=block)
        origin = s.origin()
        places = tuple(origin.row.view(s32) + (place + 8 * below) for below in range(2))
        with ptx.for_(0, most, block, type=s32) as key:
            for value in s:
                ptx.inst.mov.f32(value, 1.0)
            blocks.mask(s, places, key, keys, origin.column.view(s32))
            column = origin.column + key.view(u32)
            for i, value in enumerate(s):
                ptx.inst.st.global_.f32(scores.at(origin.row + s.row(i), column + s.column(i)), value)

    for place, keys in ((0, 96), (-20, 70), (50, 61)):
        report = masked.simulate(np.array([place, keys], np.int32), sanitize="strict")
        assert report.verdict == "clean", str(report)
        bounds, scores = report.outputs
        expected = blocks.of(place, rows, keys)
        assert list(bounds) == [expected.first, expected.end, expected.whole_first, expected.whole_end]
        sees = np.zeros((rows, most), bool)
        sees[:, :keys] = visible(place, rows, keys, left, right)
        assert np.array_equal(scores, np.where(sees, 1, -np.inf))


def test_a_block_has_keys() -> None:
    with pytest.raises(SpecError, match="block is 0"):
        kit.KeyBlocks(0)


def test_the_accumulator_has_the_block_s_columns() -> None:
    def body() -> None:
        zero = reg.scalar(s32, init=0)
        with pytest.raises(SpecError, match="64 columns: expected 32"):
            kit.KeyBlocks(32).mask(ptx.wgmma.accumulator(n=64), (zero, zero), zero, 5, zero)

    in_kernel(body, arch="sm_90a")
