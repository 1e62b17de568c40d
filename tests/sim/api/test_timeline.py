"""The timeline of a simulated run: what waits for what, phases, stages of a ring, engines, lines, limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyptx import Layout, SpecError, Tile, b64, f32, kernel, kit, ptx, reg, sim, smem, u32
from pyptx.entry import Kernel
from pyptx.sim.engine.stream import ThreadWait
from pyptx.sim.memory.mbarrier import MBarrier
from pyptx.timeline import Cause, Event, EventKind, Timeline, TrackKind
from tests.examples.loading import load_example

N, CHUNK, STAGES = 256, 32, 2
X = np.arange(N, dtype=np.float32)


def through_ring(*, extra: int = 0, when: int = 4) -> Kernel:
    """Warp 0 fills a ring by TMA, warps 1 and 2 empty it.

    In round ``when``, warp 0 expects ``extra`` bytes too many.
    """

    @kernel(
        in_specs=(Tile(N, f32, Layout.TMA_NONE, tma_box=(CHUNK,)),),
        out_specs=(Tile(N, f32),),
        block=(96,),
        arch="sm_90a",
    )
    def double(X, Y):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        ring = kit.Ring(STAGES, consumers=64, name="chunks")
        chunk = smem.alloc(CHUNK, f32, align=128, stages=STAGES)
        with ptx.if_(tid == 0):
            ring.init()
        ptx.bar.sync(0)
        with ptx.if_(tid < 32):  # noqa: SIM117 -- the else belongs to this one
            with ptx.if_(ptx.warp.elect()):
                producer = ring.producer()
                with ptx.for_(0, N, CHUNK) as at:
                    slot = producer.acquire()
                    nbytes = reg.scalar(u32, init=chunk.nbytes)
                    ptx.inst.add.u32(nbytes, nbytes, extra, pred=at == when * CHUNK)
                    ptx.mbarrier.arrive_expect_tx(slot.full, nbytes)
                    ptx.cp.async_.bulk.tensor_1d(
                        dst=chunk[slot.index], src=X.tma_desc(), coord=at, mbar=slot.full
                    )
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
                with ptx.if_(tid < 64):
                    ptx.inst.st.global_.f32(Y.at(at + lane), value + value)

    return double


def timeline_of(report: sim.Report) -> Timeline:
    assert report.timeline is not None
    return report.timeline


def on(found: Timeline, name: str, cta: int = 0) -> list[Event]:
    """Return the events of a track."""
    number = next(n for n, t in enumerate(found.tracks) if (t.name, t.cta) == (name, cta))
    return [event for event in found.events if event.track == number]


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_waits_phases_and_stages_of_a_ring(schedule: str) -> None:
    report = through_ring().simulate(X, schedule=schedule, timeline=True)
    assert report.verdict == "clean" and np.array_equal(report.outputs[0], 2 * X)
    found = timeline_of(report)
    assert found.unit == "order" and not found.open_waits() and not found.dropped
    rounds = N // CHUNK // STAGES
    for stage in range(STAGES):
        states = on(found, f"chunks stage {stage}")
        assert [event.name for event in states] == ["being filled", "filled, being read"] * rounds
        assert all(a.end <= b.begin for a, b in itertools.pairwise(states))
        for side, cause in (("full", Cause.BYTES), ("empty", Cause.WARPS)):
            spans = [e for e in on(found, f"chunks_{side}[{stage}]") if e.kind is EventKind.SPAN]
            assert [event.phase for event in spans] == list(range(rounds))
            # The stage is filled from the end of a phase of full to the end of the phase of empty.
            filled = [e.begin if side == "full" else e.end for e in states if e.name.startswith("filled")]
            assert [event.end for event in spans] == filled
            assert {event.cause for event in spans} == {cause} and {event.stage for event in spans} == {stage}
    for event in found.events:
        if event.kind is EventKind.WAIT and event.barrier.startswith("chunks_full"):
            assert event.cause is Cause.BYTES and event.end > event.begin and event.stage in range(STAGES)
            ended_by = found.events[event.by]
            assert ended_by.name.startswith("cp.async.bulk.tensor") and ended_by.barrier == event.barrier
    for warp in range(3):
        its = sorted(on(found, f"warp {warp}"), key=lambda event: event.begin)
        assert all(a.end <= b.begin for a, b in itertools.pairwise(its)), "a warp waits, or does something"
    copies = on(found, "TMA, bulk copies")
    assert not any(event.open for event in found.events if event.track == copies[0].track)
    assert len(copies) == N // CHUNK and all("128 bytes" in event.detail for event in copies)
    line = found.lines[copies[0].line]
    assert line.function == "double" and line.file.endswith("test_timeline.py")


@pytest.mark.parametrize("when", [0, 4])
def test_a_deadlock_shows_what_each_warp_waits_for(when: int) -> None:
    report = through_ring(extra=16, when=when).simulate(X, timeline=True)
    assert [finding.rule.name for finding in report.findings] == ["deadlock"]
    found = timeline_of(report)
    assert found.hangs
    waits = {found.tracks[event.track].name: event for event in found.open_waits()}
    assert sorted(waits) == ["warp 0", "warp 1", "warp 2"]
    for warp in ("warp 1", "warp 2"):
        wait = waits[warp]
        assert (wait.barrier, wait.phase, wait.stage, wait.cause) == (
            "chunks_full[0]",
            when // 2,
            0,
            Cause.BYTES,
        )
        assert "16 announced bytes never arrive" in wait.detail
        assert wait.end == max(event.end for event in found.events)
        # The waits are long enough to be seen, although nothing happens after them.
        moments = [event.begin if event.open else event.end for event in found.events]
        assert wait.end - max(moments) > 16
    assert (waits["warp 0"].barrier, waits["warp 0"].cause) == ("chunks_empty[0]", Cause.WARPS)
    assert "deadlock" in found.notes[0]
    # A try_wait may time out: the wait for one phase is one event all the same.
    seen = [(e.track, e.barrier, e.phase) for e in found.events if e.kind is EventKind.WAIT and e.barrier]
    assert len(seen) == len(set(seen))


def test_waits_that_an_error_of_another_thread_cuts_off_do_not_hang() -> None:
    @kernel(out_specs=(Tile(4, u32),), block=(64,), arch="sm_90a")
    def beyond(out):  # type: ignore[no-untyped-def]
        with ptx.if_(ptx.special.tid.x() < 32):
            ptx.bar.sync(0)
        ptx.store(ptx.addr(out.ptr, 4096), 1, u32, space="global")

    report = beyond.simulate(timeline=True)
    assert [finding.rule.name for finding in report.findings] == ["out-of-bounds"]
    found = timeline_of(report)
    assert not found.hangs and "out-of-bounds" in found.notes[0]
    assert [event.cause for event in found.open_waits()] == [Cause.BARRIER]


def test_lanes_that_a_collective_misses_and_a_loop_that_polls_in_vain() -> None:
    @kernel(out_specs=(Tile(4, u32),), block=(64,), arch="sm_90a")
    def stuck(flag):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        with ptx.if_(tid < 8):
            ptx.warp.sync(0xFFFF)
        with ptx.if_(tid == 32):
            seen = reg.scalar(u32, init=1)
            with ptx.while_(lambda: seen != 0):
                ptx.load(u32, flag.ptr, space="global", volatile=True, out=seen)
        with ptx.if_((tid >= 8) & (tid < 16)):
            ptx.bar.sync(1, 64)

    out = np.ones(4, np.uint32)
    found = timeline_of(stuck.simulate(out=out, timeline=True))
    causes = {(found.tracks[e.track].name, e.cause) for e in found.open_waits()}
    assert {("warp 1", Cause.LOOP), ("warp 0", Cause.LANES)} <= causes
    assert ("warp 0", Cause.LOOP) not in causes


def test_an_arrival_from_another_cta() -> None:
    @kernel(grid=(2,), block=(32,), cluster=(2,), arch="sm_90a")
    def signal():  # type: ignore[no-untyped-def]
        barrier, rank = smem.alloc(1, b64, name="signal"), ptx.cluster.rank()
        with ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(barrier, 1)
            ptx.fence.mbarrier_init()
        ptx.cluster.sync()
        with ptx.if_(ptx.warp.elect()):
            with ptx.if_(rank == 0):
                ptx.mbarrier.arrive(ptx.addr(ptx.cluster.map(barrier.addr, 1)), space="cluster")
            with ptx.else_():
                ptx.mbarrier.wait(barrier, 0)
        ptx.cluster.sync()

    found = timeline_of(signal.simulate(timeline=True).check())
    wait = next(e for e in found.events if e.kind is EventKind.WAIT and e.barrier)
    assert (wait.barrier, wait.cause, found.tracks[wait.track].cta) == ("signal", Cause.CLUSTER, 1)
    assert found.tracks[found.events[wait.by].track].cta == 0
    # One line does both: they are two events.
    names = [event.name for event in on(found, "warp 0") if event.kind is EventKind.SPAN]
    assert names.count("barrier.cluster.arrive") == names.count("barrier.cluster.wait") == 2
    arrival = next(e for e in found.events if e.kind is EventKind.INSTANT)
    assert arrival.detail == "1 by warp 0 of CTA (0, 0, 0)"


def test_a_barrier_of_the_cta_and_pairs_of_ctas() -> None:
    example = load_example("blackwell/gemm_highperf_blackwell.py")
    gemm = example.build_gemm_2sm(256, 256, 128, stages=2)
    report = gemm.simulate(*example.make_inputs(256, 256, 128), schedule="late", timeline=True)
    found = timeline_of(report)
    assert report.verdict == "clean"
    causes = {event.cause for event in found.events if event.kind is EventKind.WAIT}
    assert {Cause.CLUSTER, Cause.MMA, Cause.BYTES} <= causes
    for cta in range(2):
        done = [event for event in on(found, "done", cta) if event.kind is EventKind.SPAN]
        assert [(event.phase, event.cause) for event in done] == [(0, Cause.MMA)]
    kinds = [track.kind for track in found.tracks if track.cta == 0]
    assert kinds == sorted(kinds, key=list(TrackKind).index)


def test_the_number_of_events_is_bounded_and_the_rest_is_counted() -> None:
    whole = timeline_of(through_ring().simulate(X, timeline=True))
    part = timeline_of(through_ring().simulate(X, timeline=50))
    assert len(part.events) == 50 and part.dropped == len(whole.events) - 50
    assert all(-1 <= event.by < 50 for event in part.events)
    assert [event.name for event in part.events] == [event.name for event in whole.events[:50]]


def test_what_was_not_kept_makes_no_track() -> None:
    """With room for four events of the first CTA, the others have no tracks, and all their events count."""

    @kernel(out_specs=(Tile(64, u32),), grid=(64,), block=(32,), arch="sm_90a")
    def fill(out):  # type: ignore[no-untyped-def]
        ptx.store(out.at(ptx.special.ctaid.x()), 1, u32, space="global")

    found = timeline_of(fill.simulate(timeline=4))
    assert len(found.events) == 4 and found.dropped == 60
    assert len(found.tracks) == 4 and all(event.track >= 0 for event in found.events)
    # CTAs are on multiprocessors, whose numbers differ where there is room.
    assert len({track.sm for track in found.tracks}) == 4 and -1 not in {track.sm for track in found.tracks}


def test_what_a_cta_leaves_open_ends_with_it() -> None:
    """The CTA of the first launch leaves a phase incomplete; all launches of a stream share one timeline."""

    @kernel(out_specs=(Tile(1, u32),), block=(32,), arch="sm_90a")
    def leave(out):  # type: ignore[no-untyped-def]
        barrier = smem.alloc(1, b64, name="half")
        with ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(barrier, 2)
            ptx.mbarrier.arrive(barrier)
        ptx.store(out.ptr, 1, u32, space="global")

    module, stream, out = sim.load(leave.module()), sim.Stream(), np.zeros(1, np.uint32)
    for _ in range(2):
        stream.launch(module, grid=1, block=32, args=[out])
    first, second = stream.run(timeline=True)
    found = timeline_of(first)
    assert found is second.timeline and found.title == "leave under eager"
    assert list(dict.fromkeys(track.group for track in found.tracks)) == [
        f"launch {number}, CTA (0, 0, 0)" for number in range(2)
    ]
    phases = [event for event in found.events if event.barrier == "half" and event.kind is EventKind.SPAN]
    assert not phases[0].open and phases[0].end <= phases[1].begin


def test_an_observer_gets_waits_and_completed_phases_if_it_asks_for_one_of_them() -> None:
    class Phases(sim.Observer):
        def __init__(self) -> None:
            self.seen: list[tuple[str, int]] = []

        def completes(self, barrier: MBarrier) -> None:
            self.seen.append((barrier.name, barrier.phase))

    class Waits(sim.Observer):
        def __init__(self) -> None:
            self.begun, self.ended = 0, 0

        def waits(self, wait: ThreadWait) -> None:
            self.begun += 1

        def resumes(self, wait: ThreadWait) -> None:
            self.ended += 1

    phases, waits = Phases(), Waits()
    through_ring().simulate(X, observers=[phases, waits]).check()
    assert len(phases.seen) == 2 * N // CHUNK and phases.seen[0] == ("chunks_full, byte 0 of 16", 1)
    assert waits.begun == waits.ended > 0


def test_a_timeline_changes_nothing_and_is_made_only_if_asked_for() -> None:
    double = through_ring()
    plain, drawn = double.simulate(X), double.simulate(X, timeline=True)
    assert plain.timeline is None
    assert (plain.steps, plain.events, plain.holds) == (drawn.steps, drawn.events, drawn.holds)
    with pytest.raises(SpecError, match="a timeline shows one run"):
        double.simulate(X, schedule="all", timeline=True)
    with pytest.raises(SpecError, match="timeline is -1"):
        double.simulate(X, timeline=-1)


def test_each_run_of_sampled_and_a_replayed_interleaving_have_their_timelines() -> None:
    @kernel(out_specs=(Tile(2, u32),), grid=(2,), block=(32,), arch="sm_90a")
    def add(out):  # type: ignore[no-untyped-def]
        with ptx.if_(ptx.warp.elect()):
            ptx.atom("add", out.ptr, 1, u32, space="global", sem="relaxed", scope="gpu")

    out = np.zeros(2, np.uint32)
    report = add.simulate(out=out, schedule="sampled", seeds=1, timeline=True)
    assert [timeline_of(run).title for run in report.runs] == [
        "add under eager",
        "add under late",
        "add under random (seed 0)",
    ]
    explored = add.simulate(out=np.zeros(2, np.uint32), schedule="all").exploration
    assert explored is not None
    replayed = add.simulate(out=np.zeros(2, np.uint32), schedule=explored.outcomes[0], timeline=True)
    names = {event.name for event in timeline_of(replayed).events}
    assert any(name.startswith("atom") for name in names)


def test_cp_async_is_on_its_engine() -> None:
    @kernel(in_specs=(Tile(8, 32, f32),), out_specs=(Tile(32, f32),), block=(64,), arch="sm_90a")
    def copied(X, Y):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        tile = smem.alloc((8, 32), f32, swizzle="128B")
        kit.TileLoader(X, tile, (0, 0), along=1, thread=tid, threads=64, ragged=(False, False)).copy()
        ptx.cp.async_.wait_all()
        ptx.bar.sync(0)
        with ptx.if_(tid < 32):
            ptx.inst.st.global_.f32(Y.at(tid), smem.load(f32, tile.addr + 4 * tid))

    x = np.arange(256, dtype=np.float32).reshape(8, 32)
    report = copied.simulate(x, timeline=True, schedule="late")
    assert report.timeline is not None and (report.outputs[0] == x[0]).all()
    engines = [n for n, track in enumerate(report.timeline.tracks) if track.kind is TrackKind.ENGINE]
    spans = [event for event in report.timeline.events if event.track in engines]
    assert [event.name for event in spans] == ["cp.async.cg.shared::cta.global"]
