"""What code costs in a prediction: latencies and pipes of the GPU's constants, with and without ptxas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from examples.blackwell.gemm_tiles import build_gemm_tiles
from pyptx import AssembleError, Tile, ToolNotFoundError, f32, kernel, ptx, reg
from pyptx.entry.prediction import Prediction
from pyptx.timing.constants import gpu
from pyptx.toolchain import Tool
from pyptx.toolchain.schedule import statements

H200 = gpu("h200")
ROUNDS = 64
SCHEDULES = pytest.mark.parametrize("schedule", ["ptxas", "default"], indirect=True)


@pytest.fixture
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Say whose schedule a prediction follows; that of ptxas is hidden for ``default``."""
    if request.param == "default":
        monkeypatch.setattr(statements, "find_ptxas", Mock(side_effect=ToolNotFoundError("no ptxas")))
    else:
        request.getfixturevalue("nvdisasm")
    return str(request.param)


def per_round(threads: int, body: Callable[[Any], object], **options: Any) -> tuple[float, Prediction]:
    """Return the cycles of a round in which each thread of a CTA does ``body``, and the prediction."""

    def build(rounds: int) -> Any:
        @kernel(
            in_specs=(Tile(threads, f32),),
            out_specs=(Tile(threads, f32),),
            grid=1,
            block=threads,
            arch="sm_90a",
        )
        def repeated(A, D):
            thread = ptx.special.tid.x()
            x = reg.scalar(f32)
            ptx.inst.ld.global_.f32(x, A.at(thread))
            with ptx.for_(0, rounds):
                body(x)
            ptx.inst.st.global_.f32(D.at(thread), x)

        return repeated

    short, long = (build(rounds).predict(gpu=H200, clock=1700.0) for rounds in (ROUNDS, 2 * ROUNDS))
    return (long.cycles - short.cycles) / ROUNDS, long


def fused(x: Any) -> None:
    for _ in range(20):
        ptx.inst.fma.rn.f32(x, x, x, x)


def exponentials(x: Any) -> None:
    parts = [reg.scalar(f32) for _ in range(16)]
    for number, part in enumerate(parts):
        ptx.inst.add.rn.f32(part, x, float(number))
        ptx.inst.ex2.approx.ftz.f32(part, part)
    for part in parts:
        ptx.inst.add.rn.f32(x, x, part)


@SCHEDULES
def test_a_chain_takes_the_latency_of_its_parts(schedule: str) -> None:
    cycles, found = per_round(32, fused)
    assert found.schedule == schedule
    # The loop's own counter, comparison and branch are beside the chain or behind it.
    assert 20 * H200.value("fma.latency_clk") - 1 <= cycles <= 20 * H200.value("fma.latency_clk") + 25


@SCHEDULES
def test_the_slowest_pipe_bounds_many_warps(schedule: str) -> None:
    # Each of four sub-partitions has four warps, whose 16 exponentials take 32 lanes each.
    cycles, found = per_round(512, exponentials)
    assert found.schedule == schedule
    assert cycles == pytest.approx(4 * 16 * 32 / (H200.value("mufu.lanes_per_clk") / 4), rel=0.05)
    assert found.busy["mufu"] > 0.75
    assert found.bound == "mufu"


@pytest.mark.parametrize("error", [ToolNotFoundError, AssembleError])
def test_a_prediction_says_why_it_does_not_follow_ptxas(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "find_ptxas", Mock(side_effect=error("ptxas is not to be had")))
    _, found = per_round(32, fused)
    assert (found.schedule, found.schedule_reason) == ("default", "ptxas is not to be had")
    assert "ptxas is not to be had" in str(found)


@pytest.mark.full
def test_a_prediction_by_ptxas_says_nothing_of_it(nvdisasm: Tool) -> None:
    _, found = per_round(32, fused)
    assert (found.schedule, found.schedule_reason) == ("ptxas", "")
    assert "schedule" not in str(found)


@pytest.mark.full
def test_a_kernel_is_assembled_once(nvdisasm: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    gemm = build_gemm_tiles(256, 256, 256)
    first = gemm.predict(gpu="b200", clock=1300.0)
    monkeypatch.setattr(statements, "find_ptxas", Mock(side_effect=AssertionError))
    assert gemm.predict(gpu="b200", clock=1300.0).cycles == first.cycles
