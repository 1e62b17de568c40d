"""Stalls: how waits are divided, merged and grouped, and what a run notes of its waits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pyptx import Layout, Tile, b64, f32, kernel, ptx, smem
from pyptx.core.source import SourceLocation
from pyptx.entry.prediction import Prediction
from pyptx.sim.clock.stalls import LATENCY, NOT_ISSUED, Passage, Place, Stall, _parts, grouped, merged
from pyptx.timeline import Cause
from pyptx.timing.constants import Gpu, gpu

H200 = gpu("h200")
NBYTES = 4096


@pytest.mark.parametrize(
    ("passage", "expected"),
    [
        (Passage(0, 30, "link"), {"link": 20, LATENCY: 10}),
        (Passage(0, 5, "link"), {LATENCY: 30}),
        (Passage(15, 30, "link"), {NOT_ISSUED: 5, "link": 15, LATENCY: 10}),
        (Passage(15, 60, "HBM"), {NOT_ISSUED: 5, "HBM": 25}),
        (Passage(50, 60, "HBM"), {NOT_ISSUED: 30}),
    ],
)
def test_a_wait_is_divided_by_where_the_operation_was(passage: Passage, expected: dict[str, float]) -> None:
    assert dict(_parts(passage, 10, 40)) == expected


def stall(warp: int, line: int, cycles: float, lived: float = 100.0, **within: float) -> Stall:
    location = SourceLocation("k.py", line)
    ended = ("arrive", SourceLocation("k.py", line + int(cycles)))
    what = "wait", location, Cause.WARPS, "full", "consumer", ended, (Place(0, warp),)
    return Stall(*what, 1, cycles, lived, within)


def test_waits_of_warps_at_one_line_are_one() -> None:
    one, other = merged([stall(0, 7, 10, link=4), stall(1, 9, 25), stall(3, 7, 30, link=5, HBM=1)])
    assert (one.cycles, one.count, one.lived, one.share) == (40, 2, 200, 0.2)
    assert one.warps == (Place(0, 0), Place(0, 3)) and one.within == {"link": 9, "HBM": 1}
    assert one.ended_by[1] == SourceLocation("k.py", 37)  # of the longer wait
    assert other.cycles == 25


def test_warps_that_wait_alike_are_a_group() -> None:
    lives = {Place(0, 0): 100.0, Place(0, 1): 300.0, Place(0, 2): 100.0}
    stalls = [stall(0, 7, 50), stall(0, 9, 2), stall(1, 7, 150, lived=300.0), stall(2, 9, 60)]
    first, second = grouped(stalls, lives)
    assert first.warps == (Place(0, 0), Place(0, 1)) and second.warps == (Place(0, 2),)
    assert first.lived == 400 and [each.cycles for each in first.stalls] == [200, 2]
    assert first.running == pytest.approx(1 - 202 / 400)
    assert second.running == pytest.approx(0.4)


@kernel(
    in_specs=(Tile(NBYTES // 4, f32, Layout.TMA_NONE, tma_box=(256,)),),
    out_specs=(Tile(64, f32),),
    block=(64,),
    arch="sm_90a",
)
def load(X, Y):
    """Warp 0 loads four boxes and waits for them; warp 1 waits for warp 0 at a barrier."""
    tid = ptx.special.tid.x()
    room = smem.alloc(NBYTES // 4, f32, align=128)
    arrived = smem.alloc(1, b64)
    with ptx.if_(tid == 0):
        ptx.mbarrier.init(arrived, 1)
        ptx.fence.proxy_async()
        ptx.mbarrier.arrive_expect_tx(arrived, NBYTES)
        with ptx.for_(0, NBYTES // 4, 256) as at:
            ptx.cp.async_.bulk.tensor_1d(dst=room.at(at), src=X.tma_desc(), coord=at, mbar=arrived)
        ptx.mbarrier.wait(arrived, 0)
    ptx.bar.sync(1)
    ptx.store(Y.at(tid), 1.0, f32)


def predicted(on: Gpu) -> Prediction:
    found = load.predict((NBYTES // 4,), gpu=on, clock=1700.0)
    assert str(found.verdict) == "clean"
    return found


@pytest.mark.full
def test_a_wait_for_bytes_names_the_buffer_and_the_unit() -> None:
    found = predicted(H200.with_values({"tma.sm_bytes_per_clk": 1.0}))
    wait = next(each for each in found.stalls if each.barrier == "arrived")
    assert wait.cause is Cause.BYTES and wait.count == 1 and wait.warps == (Place(0, 0),)
    assert wait.ended_by[0].startswith("cp.async.bulk.tensor.1d")
    assert sum(wait.within.values()) == pytest.approx(wait.cycles)
    # A byte a cycle passes the link; the wait begins while the first of four boxes is on it.
    assert 0.75 * NBYTES < wait.within["link"] <= NBYTES
    # The load's own latency is from its issue to the end of the wait.
    lines = NBYTES // 4 // 128  # of a box
    latency = H200.value("tma.latency_hbm_ns") + math.log2(lines) * H200.value("hbm.spread_ns")
    # The first box also waits for the map, which is asked for before the wait begins.
    map_ns = H200.value("tma.prefetch_map_ns")
    assert latency * 1.7 <= wait.within[LATENCY] <= (latency + map_ns) * 1.7


def test_a_wait_at_a_barrier_of_the_cta_names_it() -> None:
    found = predicted(H200)
    other = next(each for each in found.stalls if each.warps == (Place(0, 1),) and each.barrier)
    assert other.cause is Cause.BARRIER and other.barrier == "barrier 1"
    first = next(each for each in found.stalls if each.barrier == "arrived")
    # Warp 1 waits at least as long as warp 0, for which it waits.
    assert other.cycles > first.cycles and 0.5 < other.share < 1


def test_waiting_and_running_are_the_life_of_a_warp() -> None:
    for group in predicted(H200).warps:
        assert 0 <= group.running < 1
        assert sum(each.share for each in group.stalls) + group.running == pytest.approx(1)


def test_lines_and_barriers_add_up() -> None:
    found = predicted(H200)
    assert sum(found.lines.values()) == pytest.approx(sum(each.cycles for each in found.stalls))
    assert list(found.lines.values()) == sorted(found.lines.values(), reverse=True)
    assert set(found.barriers) == {"arrived", "barrier 1"}
    # Warp 0 comes to the barrier last, and does not wait there.
    (own,) = (each for each in found.stalls if each.barrier == "barrier 1")
    assert own.warps == (Place(0, 1),) and found.barriers["barrier 1"] == own.cycles


@pytest.mark.full
def test_a_group_of_one_warp_has_its_role() -> None:
    from examples.blackwell.gemm_tiles import build_gemm_tiles

    found = build_gemm_tiles(256, 256, 1024).predict(gpu="b200", clock=1300.0)
    roles = {(each.barrier, each.role, each.cause) for each in found.stalls if each.barrier}
    assert {
        ("full", "consumer", Cause.BYTES),
        ("empty", "producer", Cause.MMA),
        ("acc_full", "consumer", Cause.MMA),
        ("cluster barrier", "", Cause.CLUSTER),
    } <= roles


def test_a_timeline_has_the_waits_of_the_run() -> None:
    found = predicted(H200)
    timeline = found.timeline()
    assert timeline.unit == "ns" and "predicted" in timeline.title
    (wait,) = (
        event
        for event in timeline.events
        if event.barrier.startswith("arrived") and event.cause is Cause.BYTES and event.kind.value == "wait"
    )
    (own,) = (each for each in found.stalls if each.barrier == "arrived")
    assert wait.end - wait.begin == pytest.approx(own.cycles / 1.7, abs=0.001)  # as it is rounded
    assert max(event.end for event in timeline.events) <= found.timing.nanoseconds + 0.001  # as it is rounded
    assert min(event.begin for event in timeline.events) >= H200.value("launch.ns") * (1 - 1e-9)
    held = sum(
        e.end - e.begin for e in timeline.events if e.cause in (Cause.MEMORY, Cause.ISSUE, Cause.SHARED)
    )
    noted = sum(e.cycles for e in found.stalls if e.cause in (Cause.MEMORY, Cause.ISSUE, Cause.SHARED))
    assert held == pytest.approx(noted / 1.7, abs=2e-3)  # times in a timeline are whole ps


def test_spans_of_one_warp_do_not_overlap() -> None:
    timeline = predicted(H200).timeline()
    for track, its in enumerate(timeline.tracks):
        if its.kind.value == "warp":
            spans = sorted((e.begin, e.end) for e in timeline.events if e.track == track)
            assert len(spans) > 1
            ends = np.array([end for _, end in spans[:-1]])
            begins = np.array([begin for begin, _ in spans[1:]])
            assert (begins >= ends - 1e-6).all()
