"""The kit on a GPU: the ring's protocol and the tile orders give what the simulator gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import kit
from tests.kit.test_ring import BOX, sums
from tests.kit.test_tile_order import tiles_of

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


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
