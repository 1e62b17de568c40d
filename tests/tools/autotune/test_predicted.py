"""Tunings without a GPU: candidates rank by predictions, within a budget, and the others behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import SpecError, Tile, f32, kernel, ptx, u32
from pyptx.tools.autotune import predicted, tuning

N = 1 << 12
X = np.zeros(N, np.float32)


def build_copies(times, *, arch="sm_90a"):
    """Build a kernel that stores every element ``times`` times, one after the other, with a barrier between."""

    @kernel(in_specs=(Tile(N, f32),), out_specs=(Tile(N, f32),), grid=N // 256, block=256, arch=arch)
    def copies(A, B):
        i = ptx.special.ctaid.x() * 256 + ptx.special.tid.x()
        with ptx.for_(0, times):
            ptx.store(B.at(i), ptx.load(f32, A.at(i)), f32)
            ptx.bar.sync(0)

    return copies


@pytest.fixture(autouse=True)
def unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_warned", set())


def ranks(found: Any) -> dict[int, str]:
    """Return the fate of each candidate by its number of copies."""
    return {int(row["configuration"].split("=")[1]): row["reason"] for row in found.rows()}


@pytest.mark.full
def test_the_fastest_prediction_is_chosen_and_its_interval_is_said() -> None:
    tuned = pyptx.autotune("times", [20, 2, 80])(build_copies)()
    with pytest.warns(pyptx.PyptxWarning) as seen:
        found = tuned.tune(X)
    assert found.configuration == {"times": 2} and found.predicted and not found.measured
    assert found.where == "NVIDIA H200 SXM" and "ranked by predictions" in repr(found)
    expected = {times: build_copies(times).predict((N,), gpu="h200") for times in (20, 2, 80)}
    for row in found.rows():
        times = int(row["configuration"].split("=")[1])
        low, high = expected[times].interval
        assert row["us"] is None
        assert row["predicted"]["us"] == pytest.approx(expected[times].microseconds)
        assert (row["predicted"]["low"], row["predicted"]["high"]) == pytest.approx((low, high))
    assert ranks(found)[20].startswith("rank 2: predicted ") and ranks(found)[80].startswith("rank 3: ")
    assert "not distinguishable" not in ranks(found)[80]
    (warning,) = seen
    said = str(warning.message)
    assert f"{expected[2].microseconds:.2f} us" in said and "a prediction for the NVIDIA H200" in said
    assert "s of 60" in said


@pytest.mark.full
def test_intervals_that_overlap_are_not_told_apart() -> None:
    with pytest.warns(pyptx.PyptxWarning, match="not distinguishable from it: 1 of 2 others"):
        found = pyptx.autotune("times", [2, 3, 80])(build_copies)().tune(X)
    assert [times for times, why in ranks(found).items() if "not distinguishable from the best" in why] == [3]


@pytest.mark.full
def test_candidates_beyond_the_budget_rank_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(predicted.time, "monotonic", lambda: now[0])
    one = predicted._predicted

    def slow(*arguments: Any) -> Any:
        found = one(*arguments)
        now[0] += 4.0
        return found

    monkeypatch.setattr(predicted, "_predicted", slow)
    monkeypatch.setattr(tuning, "rank", lambda ready: ready)
    with pytest.warns(pyptx.PyptxWarning, match="s of 7, and 1 candidates have none"):
        found = pyptx.autotune("times", [60, 2, 1], budget=7)(build_copies)().tune(X)
    assert found.configuration == {"times": 2}
    assert ranks(found)[1] == "rank 3: not predicted: the 7 s for predictions were over"


def test_no_time_for_predictions_ranks_by_resources() -> None:
    with pytest.warns(pyptx.PyptxWarning, match="by registers, spills and occupancy|there is no ptxas"):
        found = pyptx.autotune("times", [60, 2], budget=0)(build_copies)().tune(X)
    assert not found.predicted and found.where == "sm_90a"
    assert all(row["predicted"] is None for row in found.rows())
    with pytest.raises(SpecError, match="budget is -1"):
        pyptx.autotune("times", [2], budget=-1)


@pytest.mark.full
def test_contents_that_decide_where_threads_go_are_those_of_the_call() -> None:
    @pyptx.autotune("block", [32, 64])
    @kernel(
        in_specs=(Tile("N", f32), Tile(1, u32)),
        out_specs=(Tile("N", f32),),
        grid=lambda N, block: N // block,
        block=lambda block: block,
        arch="sm_90a",
    )
    def choose(A, Count, B, *, block):
        i = ptx.special.ctaid.x() * block + ptx.special.tid.x()
        with ptx.if_(ptx.load(f32, A.at(i)) > 0.0), ptx.for_(0, ptx.load(u32, Count.at(0))):
            ptx.store(A.at(i), 7.0, f32)
        ptx.store(B.at(i), 1.0, f32)

    given, count = np.ones(256, np.float32), np.full(1, 3, np.uint32)
    with pytest.warns(pyptx.PyptxWarning, match="by a prediction"):
        found = choose.tune(given, count)
    assert found.predicted and (given == 1).all()  # predictions write copies
