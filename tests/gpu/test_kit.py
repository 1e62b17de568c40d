"""The kit on a GPU: the ring's protocol and the tile orders give what the simulator gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import f16, kit
from tests.kit import attention
from tests.kit.test_ring import BOX, sums
from tests.kit.test_row_reductions import OPERATIONS, rows_of_fragments, rows_of_threads
from tests.kit.test_tile_loader import copies_of
from tests.kit.test_tile_order import tiles_of

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("tiles", "stages", "rounds"), [(1, 1, 1), (64, 1, 1), (2, 4, 1), (257, 4, 3)])
def test_the_ring(tiles: int, stages: int, rounds: int, torch: Any) -> None:
    x = np.random.default_rng(tiles).integers(-8, 8, tiles * BOX).astype(np.float32)
    out = sums(tiles, stages, rounds)(torch.from_numpy(x).cuda())
    assert np.array_equal(out.cpu().numpy(), rounds * x.reshape(tiles, BOX).sum(0))


@pytest.mark.parametrize("name", ["row_major", "snake", "grouped", "boustrophedon", "hilbert"])
def test_tile_orders(name: str, torch: Any) -> None:
    kernel = tiles_of(lambda tile: getattr(kit.tile_order, name)(tile, 24, 40), 24 * 40)
    out = torch.empty((24 * 40, 2), dtype=torch.uint32, device="cuda")
    kernel(out=out)
    assert np.array_equal(out.cpu().numpy(), kernel())


@pytest.mark.parametrize("padding", list(kit.Padding), ids=lambda padding: padding.value)
@pytest.mark.parametrize(("columns", "height"), [(72, 32), (70, 32), (71, 32), (70, 128), (71, 128)])
def test_tiles_by_cp_async(columns: int, height: int, padding: kit.Padding, torch: Any) -> None:
    a = np.random.default_rng(columns).standard_normal((150, columns)).astype(np.float16)
    dump = copies_of(columns, f16, (height, 64), "128B", along=1, count=2, stages=2, padding=padding)
    row = 150 - height // 2
    (expected,) = dump.simulate(a, row, 0).outputs
    out = torch.zeros(expected.shape, dtype=torch.int16, device="cuda")
    dump(torch.from_numpy(a).cuda(), row, 0, out=out)
    found = out.cpu().numpy().view(np.uint16)
    if padding is kit.Padding.UNDETERMINED:
        # Only what lies inside of the matrix is determined; what the padding leaves differs from zeros there.
        zeros = copies_of(columns, f16, (height, 64), "128B", along=1, count=2, stages=2)
        (inside,) = zeros.simulate(a, row, 0).outputs
        chosen = inside.view(np.uint16) != 0
        assert np.array_equal(found[chosen], inside.view(np.uint16)[chosen])
    else:
        assert np.array_equal(found, expected.view(np.uint16))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_are_reduced(operation: str, torch: Any) -> None:
    x = np.random.default_rng(3).standard_normal((64, 40)).astype(np.float32)
    for built, rows in (
        (rows_of_threads(operation, 40, 4), 32),
        (rows_of_fragments(operation, 40, True), 64),
    ):
        (expected,) = built.simulate(x[:rows]).outputs
        assert np.array_equal(built(torch.from_numpy(x[:rows]).cuda()).cpu().numpy(), expected)


@pytest.mark.parametrize("softmax", [False, True])
def test_an_accumulator_as_operand_a(softmax: bool, torch: Any) -> None:
    arrays = attention.inputs(64, softmax)
    tensors = [torch.from_numpy(each.astype(np.float32)).to(torch.bfloat16).cuda() for each in arrays]
    found = attention.on_hopper(softmax)(*tensors)
    assert attention.wrong(arrays, found.cpu().numpy(), softmax) <= 1
