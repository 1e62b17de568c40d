"""Figures of runs: copies, data flow, mbarriers and stages are those that the simulated kernel had."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from pyptx import Layout, OperandError, SpecError, Tile, f32, kernel, kit, layout, ptx, smem, viz
from pyptx.sim.api.report import Report
from pyptx.timeline import EventKind, TrackKind
from tests.viz.reading import cells, groups, lines, texts

N, CHUNK, STAGES = 256, 32, 3


@kernel(
    in_specs=(Tile(N, f32, Layout.TMA_NONE, tma_box=(CHUNK,)),),
    out_specs=(Tile(N, f32),),
    block=(64,),
    arch="sm_90a",
)
def ringed(X, Y):  # type: ignore[no-untyped-def]
    tid = ptx.special.tid.x()
    ring = kit.Ring(STAGES, consumers=32)
    chunk = smem.alloc(CHUNK, f32, align=128, stages=STAGES)
    with ptx.if_(tid == 0):
        ring.init()
    ptx.bar.sync(0)
    with ptx.if_(tid < 32), ptx.if_(ptx.warp.elect()):
        producer = ring.producer()
        with ptx.for_(0, N, CHUNK) as at:
            slot = producer.acquire()
            ptx.mbarrier.arrive_expect_tx(slot.full, chunk.nbytes)
            ptx.cp.async_.bulk.tensor_1d(dst=chunk[slot.index], src=X.tma_desc(), coord=at, mbar=slot.full)
            producer.advance()
        producer.drain()
    with ptx.else_():
        lane = tid & 31
        consumer = ring.consumer()
        with ptx.for_(0, N, CHUNK) as at:
            slot = consumer.acquire()
            value = smem.load(f32, chunk[slot.index].at(lane))
            ptx.fence.proxy_async("shared::cta")
            consumer.release()
            ptx.inst.st.global_.f32(Y.at(at + lane), value + value)


@kernel(in_specs=(Tile(32, 32, f32),), out_specs=(Tile(32, 32, f32),), block=(64,), arch="sm_90a")
def loaded(X, Y):  # type: ignore[no-untyped-def]
    """Each of 64 threads copies four times 16 bytes of a tile of 32 rows of 128 bytes, swizzled by hand."""
    tid = ptx.special.tid.x()
    tile = smem.alloc((32, 32), f32, swizzle="128B")
    kit.TileLoader(X, tile, (0, 0), along=1, thread=tid, threads=64, ragged=(False, False)).copy()
    ptx.cp.async_.wait_all()
    ptx.bar.sync(0)
    with ptx.if_(tid < 32):
        ptx.inst.st.global_.f32(Y.at(0, tid), smem.load(f32, tile.addr + 4 * tid))


@cache
def run(name: str) -> tuple[viz.RunEvents, Report]:
    events = viz.RunEvents()
    made = ringed if name == "ringed" else loaded
    x = np.arange(N, dtype=np.float32) if name == "ringed" else np.zeros((32, 32), np.float32)
    report = made.simulate(x, observers=[events], timeline=True, schedule="late")
    return events, report


def test_copies_of_threads_lie_where_the_swizzle_says() -> None:
    events, _ = run("loaded")
    found = cells(viz.copies([events], lines=32), address=...)
    assert len(found) == 32 * 8
    for each in found:
        # Copy c of thread t is 16-byte chunk 64 * c + t of the tile, eight in a row.
        chunk = int(layout.swizzle(each.number("address"), "128B")) // 16
        assert (each.number("thread"), each.number("copy")) == (chunk % 64, chunk // 64)
        assert each.text == f"t{chunk % 64} #{chunk // 64}"
    assert "256 copies by 64 threads" in texts(viz.copies([events], lines=32))


def test_copies_beside_each_other() -> None:
    figure = viz.copies([run("loaded")[0], run("ringed")[0]], ["cp.async", "TMA"], lines=4)
    panels = groups(figure, "panel")
    tma = [each for each in cells(panels["1"], address=...) if each.data["copy"]]
    # Three stages of 128 bytes behind the ring's barriers, each filled by one copy first.
    assert {(each.number("address") // 128, each.number("copy")) for each in tma} == {(1, 0), (2, 1), (3, 2)}
    assert {each.number("thread") for each in tma} == {0}
    assert "3 copies by 1 thread" in texts(figure)


def test_data_flow() -> None:
    figure = viz.data_flow([run("loaded")[0], run("ringed")[0]], ["by threads", "by TMA"])
    found = [
        (each["source"], each["target"], int(each["count"]), int(each["bytes"]), int(each["threads"]))
        for each in lines(figure, "source")
    ]
    assert found == [
        ("global memory", "shared memory", 256, 4096, 64),
        ("shared memory", "registers", 32, 128, 32),
        ("registers", "global memory", 32, 128, 32),
        ("global memory", "shared memory", N // CHUNK, 4 * N, 1),
        ("shared memory", "registers", N, 4 * N, 32),
        ("registers", "global memory", N, 4 * N, 32),
    ]


def test_arrows_lead_from_place_to_place() -> None:
    figure = viz.data_flow([run("loaded")[0]])
    where = {each.data["memory"]: each.x + each.width / 2 for each in cells(figure, memory=...)}
    assert list(where) == ["global memory", "shared memory", "tensor memory", "registers"]
    drawn = lines(figure, "source")
    assert len(drawn) == 3
    for each in drawn:
        assert where[each["source"]] != where[each["target"]]


def test_mbarrier() -> None:
    events, _ = run("ringed")
    states: dict[int, dict[str, int]] = {}
    for each in cells(viz.mbarrier(events, "full[0]"), state=...):
        states.setdefault(each.number("state"), {})[each.data["row"]] = each.number("value")
        assert each.text == each.data["value"]
    # Chunks 0, 3 and 6 of eight go to stage 0: three phases. A phase completes when nothing is pending.
    assert states[0] == {"phase": 0, "parity": 0, "pending": 1, "tx": 0}
    assert states[max(states)] == {"phase": 3, "parity": 1, "pending": 1, "tx": 0}
    for before, after in pairwise(states.values()):
        assert after["parity"] == after["phase"] % 2
        if after["phase"] != before["phase"]:
            assert (before["pending"], before["tx"]) == (0, 0) and after["phase"] == before["phase"] + 1
    assert max(each["tx"] for each in states.values()) == 4 * CHUNK
    empty = cells(viz.mbarrier(events, "empty[0]"), state=0, row="pending")
    assert [each.number("value") for each in empty] == [32]


def test_pipeline() -> None:
    _, report = run("ringed")
    timeline = report.timeline
    assert timeline is not None
    figure = viz.pipeline(timeline)
    stages = [n for n, track in enumerate(timeline.tracks) if track.kind is TrackKind.STAGE]
    assert len(stages) == STAGES
    for number in stages:
        spans = [e for e in timeline.events if e.track == number and e.kind is EventKind.SPAN]
        drawn = cells(figure, track=timeline.tracks[number].name)
        assert [(each.data["name"], each.number("phase"), float(each.data["begin"])) for each in drawn] == [
            (span.name, span.phase, span.begin) for span in spans
        ]
        # One after the other in one row, and in the order of the run.
        assert len({each.y for each in drawn}) == 1
        for before, after in pairwise(drawn):
            assert before.x + before.width <= after.x + 0.01
    every = sorted(cells(figure, begin=...), key=lambda each: float(each.data["begin"]))
    assert [each.x for each in every] == sorted(each.x for each in every)
    waits = [each for each in every if each.data["track"].startswith("warp")]
    assert {each.data["track"] for each in waits} == {"warp 0", "warp 1"}


def test_errors_have_the_line_of_the_call() -> None:
    events, report = run("ringed")
    assert report.timeline is not None
    bare = run("loaded")[1].timeline
    assert bare is not None
    for call, error in (
        (lambda: viz.copies([]), SpecError),
        (lambda: viz.copies([viz.RunEvents()]), SpecError),
        (lambda: viz.copies([events], ["a", "b"]), SpecError),
        (lambda: viz.copies([events], start=64), SpecError),
        (lambda: viz.copies([events], start=1 << 16), SpecError),
        (lambda: viz.copies(events), OperandError),
        (lambda: viz.data_flow([]), SpecError),
        (lambda: viz.mbarrier(events, "full"), SpecError),
        (lambda: viz.mbarrier(events, "full[0]", 1), SpecError),
        (lambda: viz.mbarrier(viz.RunEvents(), "full[0]"), SpecError),
        (lambda: viz.pipeline(bare), SpecError),
        (lambda: viz.pipeline(report.timeline, "CTA 9"), SpecError),
        (lambda: viz.pipeline(None), OperandError),
    ):
        with pytest.raises(error) as caught:
            call()
        location = caught.value.location  # type: ignore[attr-defined]
        assert location is not None and location.file == __file__, caught.value
