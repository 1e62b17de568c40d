"""What products of wgmma take from the code of threads, by arithmetic, and L1's lines."""

from __future__ import annotations

import pytest

from pyptx.sim.clock.beside import Beside
from pyptx.timing.constants import gpu

H200 = gpu("h200")


def test_what_pipes_take_beside_products() -> None:
    beside = Beside.of(H200)
    assert beside is not None
    pipes = {"mufu": 256.0, "fma": 64.0}
    assert beside.stretched(0.0, 400.0, 112.0, pipes, pipes) == (400.0, pipes, 0.0)
    left = {name: 1 - H200.value(f"wgmma.{name}_share") / 2 for name in pipes}
    cycles, found, disturbed = beside.stretched(0.5, 400.0, 112.0, pipes, {"mufu": 256.0})
    # 32 of the instructions are for MUFU, 64 are multiply-adds, and a warp alone loses time to the 16 others.
    alone = 16 * H200.value("wgmma.alone_clk") / 2
    assert cycles == pytest.approx(400 + 256 / left["mufu"] - 256 + alone)
    # All but the exponentials take some of the time of MUFU.
    assert found["mufu"] == pytest.approx(256 / left["mufu"] + 80 * H200.value("wgmma.others_clk") / 2)
    assert found["fma"] == pytest.approx(64 / left["fma"])
    assert disturbed == 0
    # A warp alone waits for something else where its exponentials do not follow each other at once.
    assert beside.stretched(0.5, 400.0, 112.0, pipes, {})[:2] == (pytest.approx(400 + alone), found)
    cycles, _, _ = beside.stretched(0.5, 400.0, 112.0, pipes, {"mufu": 16.0})
    assert cycles == pytest.approx(400 + 16 / left["mufu"] - 16 + alone)
    # Multiply-adds in a row lose nothing, and take nothing from MUFU.
    cycles, found, _ = beside.stretched(0.5, 400.0, 112.0, pipes, {"fma": 48.0})
    assert cycles == pytest.approx(400 + alone)
    assert found["fma"] == pytest.approx(48 + 16 / left["fma"])
    assert found["mufu"] == pytest.approx(256 / left["mufu"] + 32 * H200.value("wgmma.others_clk") / 2)
    _, _, disturbed = beside.stretched(1.0, 40.0, 30.0, {"alu": 20.0}, {})
    assert disturbed == pytest.approx(30 * H200.value("wgmma.others_clk"))


def test_products_in_tensor_memory_take_nothing_from_threads() -> None:
    assert Beside.of(gpu("b200")) is None
