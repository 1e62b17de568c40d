"""Marks in a kernel: off they leave no trace in the text, on they tell each warp's order; overflow is counted."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import SpecError, Tile, TraceError, f32, kernel, kit, ptx
from pyptx.entry import Kernel
from pyptx.timeline import EventKind
from pyptx.toolchain import Tool
from tests.examples.loading import load_example

CTAS, WARPS, ROUNDS = 2, 2, 5


def marked(trace: kit.Trace, *, finish: bool = True, arch: str = "sm_90a") -> Kernel:
    @kernel(
        in_specs=(*trace.specs, Tile(128, f32)),
        out_specs=(Tile(128, f32),),
        grid=(CTAS,),
        block=(32 * WARPS,),
        arch=arch,
    )
    @trace.traced
    def scale(X, Y):  # type: ignore[no-untyped-def]
        at = ptx.special.ctaid.x() * 64 + ptx.special.tid.x()
        with trace.span("outer"), trace.span("outer"):
            with trace.span("load", stage=3):
                value = ptx.load(f32, X.at(at), space="global")
            with ptx.for_(0, ROUNDS) as i:
                trace.mark("round", value=i)
        with ptx.if_(ptx.warp.elect()):
            trace.mark("elected")
        ptx.store(Y.at(at), value * 2.0, space="global")
        if finish:
            trace.finish()

    return scale


X = np.arange(128, dtype=np.float32)


def test_a_trace_that_is_off_records_nothing() -> None:
    off = kit.Trace.off()
    text = marked(off).ptx()
    assert "clock" not in text and "trace" not in text and off.buffers() == ()

    @kernel(in_specs=(Tile(128, f32),), out_specs=(Tile(128, f32),), grid=(CTAS,), block=(64,), arch="sm_90a")
    def scale(X, Y):  # type: ignore[no-untyped-def]
        at = ptx.special.ctaid.x() * 64 + ptx.special.tid.x()
        value = ptx.load(f32, X.at(at), space="global")
        with ptx.for_(0, ROUNDS) as i:
            pass
        with ptx.if_(ptx.warp.elect()):
            pass
        ptx.store(Y.at(at), value * 2.0, space="global")
        del i

    assert scale.ptx() == text
    assert marked(kit.Trace(CTAS, WARPS)).ptx() != text


def test_the_marks_of_each_warp_come_back_in_order() -> None:
    trace = kit.Trace(CTAS, WARPS, events=16)
    buffers = trace.buffers()
    report = marked(trace).simulate(*buffers, X)
    assert report.verdict == "clean" and np.array_equal(report.outputs[0], 2 * X)
    found = trace.timeline(buffers, simulated=True)
    assert (found.unit, found.dropped, list(found.notes)) == ("order", 0, [])
    assert [(track.cta, track.name) for track in found.tracks] == [
        (cta, f"warp {warp}") for cta in range(CTAS) for warp in range(WARPS)
    ]
    for number in range(CTAS * WARPS):
        events = [event for event in found.events if event.track == number]
        assert [event.name for event in events] == ["outer", "outer", "load", *["round"] * ROUNDS, "elected"]
        outer, inner, load, *rounds, elected = events
        assert outer.begin < inner.begin < load.begin < load.end < rounds[0].begin
        assert rounds[-1].begin < inner.end < outer.end
        assert outer.end < elected.begin and load.stage == 3 and not outer.open
        assert [event.detail for event in rounds] == [f"value {i}" for i in range(ROUNDS)]
        assert [event.kind for event in (load, elected)] == [EventKind.SPAN, EventKind.INSTANT]
        line = found.lines[load.line]
        assert line.function == "scale" and line.file.endswith("test_trace.py")


def test_records_that_were_overwritten_are_counted() -> None:
    trace = kit.Trace(CTAS, WARPS, events=4)
    buffers = trace.buffers()
    marked(trace).simulate(*buffers, X).check()
    found = trace.timeline(buffers, simulated=True)
    # Twelve records of each warp: two for each span, one for each round, one for the elected lane.
    assert found.dropped == CTAS * WARPS * (12 - 4)
    first = [event for event in found.events if event.track == 0]
    assert [event.name for event in first] == ["round", "outer", "outer", "elected"]
    for event in first[1:3]:
        assert event.detail.endswith("(its beginning was overwritten)") and event.begin == first[0].begin


def test_warps_that_never_finish_and_warps_that_never_start_are_named() -> None:
    trace = kit.Trace(CTAS + 1, WARPS, events=16)
    buffers = trace.buffers()
    marked(trace, finish=False).simulate(*buffers, X).check()
    notes = trace.timeline(buffers, simulated=True).notes
    assert [note.partition(" warps")[0] for note in notes] == ["2 of 6", "4 of 4"]
    # Without the second pair of clocks, the clocks of different multiprocessors cannot be aligned.
    assert trace.timeline(buffers).unit == "cycles"


def test_clocks_of_different_multiprocessors_are_aligned() -> None:
    """Two multiprocessors whose clocks differ by far, at 2 cycles for a nanosecond, see one moment.

    The warp of the second one starts 3,000 ns later.
    """
    trace = kit.Trace(2, 1, events=4)
    scratch = trace.buffers()
    marked_once = _one_mark(trace)
    marked_once.simulate(*scratch).check()
    words = scratch[0]
    for cta, (sm, clock, late) in enumerate(((7, 1 << 41, 0), (9, 5_000, 3_000))):
        header, record = words[cta, :16], words[cta, 16:20]
        header[1] = sm
        timer = (1 << 60) + late
        header[4:12].view(np.uint64)[:] = clock, timer, clock + 20_000, timer + 10_000
        moment = clock + 2 * (8_000 - late)
        record[0], record[1] = moment & 0xFFFFFFFF, moment >> 32 & 0xFFFF | record[1] & 0xFFFF0000
    found = trace.timeline(scratch)
    assert found.unit == "ns" and [track.sm for track in found.tracks] == [7, 9]
    assert abs(found.events[0].begin - found.events[1].begin) <= 0.1
    words[1, 16] += 2_000  # a thousand nanoseconds later
    later = trace.timeline(scratch)
    assert abs(later.events[1].begin - later.events[0].begin - 1_000) <= 0.1


def _one_mark(trace: kit.Trace) -> Kernel:
    @kernel(in_specs=trace.specs, grid=(2,), block=(32,), arch="sm_90a")
    @trace.traced
    def once():  # type: ignore[no-untyped-def]
        trace.mark("here")
        trace.finish()

    return once


def test_blocks_and_grids_of_several_dimensions() -> None:
    trace = kit.Trace(ctas=6, warps=3, events=2)

    @kernel(in_specs=trace.specs, grid=(2, 3), block=(16, 2, 3), arch="sm_90a")
    @trace.traced
    def where():  # type: ignore[no-untyped-def]
        trace.mark("z", value=ptx.special.tid.z())
        trace.mark("cta", value=ptx.special.ctaid.y() * 10 + ptx.special.ctaid.x())
        trace.finish()

    buffers = trace.buffers()
    where.simulate(*buffers).check()
    found = trace.timeline(buffers, simulated=True)
    details = [event.detail for event in found.events]
    for number, track in enumerate(found.tracks):
        cta, warp = divmod(number, 3)
        assert (track.cta, track.name) == (cta, f"warp {warp}")
        value = cta // 2 * 10 + cta % 2
        assert details[2 * number : 2 * number + 2] == [f"value {warp}", f"value {value}"]


def test_what_a_trace_refuses() -> None:
    with pytest.raises(SpecError, match="power of two"):
        kit.Trace(1, 1, events=100)
    with pytest.raises(SpecError, match="warps is 33"):
        kit.Trace(1, 33)
    trace = kit.Trace(1, 1)
    with pytest.raises(SpecError, match="expected one .* array"):
        trace.timeline((np.zeros((3, 3), np.uint32),))
    with pytest.raises(SpecError, match="the trace is off"):
        kit.Trace.off().timeline(())

    @kernel(in_specs=trace.specs, block=(32,), arch="sm_90a")
    def unbound(buffer):  # type: ignore[no-untyped-def]
        trace.mark("here")

    with pytest.raises(TraceError, match="put @trace.traced below @kernel"):
        unbound.ptx()

    @kernel(in_specs=trace.specs, block=(32,), arch="sm_90a")
    @trace.traced
    def both():  # type: ignore[no-untyped-def]
        trace.mark("here", stage=1, value=2)

    with pytest.raises(SpecError, match="a stage and a value"):
        both.ptx()


@pytest.mark.full
def test_the_hopper_gemm_has_the_same_text_with_its_trace_off_and_right_results_with_it_on() -> None:
    example = load_example("hopper/gemm_highperf_hopper.py")
    size = (256, 256, 192)
    assert "clock64" not in example.build_gemm(*size).ptx()
    trace = kit.Trace(ctas=2, warps=12, events=64)
    gemm = example.build_gemm(*size, clusters=1, trace=trace)
    a, b = example.make_inputs(*size)
    buffers = trace.buffers()
    report = gemm.simulate(*buffers, a, b)
    assert report.verdict == "clean" and example.worst_error(a, b, report.outputs[0]) <= 1
    found = trace.timeline(buffers, simulated=True)
    waits = [event for event in found.events if event.name == "wait full"]
    # Three stages for each of the eight consumer warps of each CTA.
    assert len(waits) == 3 * 8 * 2 and {event.stage for event in waits} == {0, 1, 2}
    assert found.dropped == 0 and not found.notes


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_marks_assemble(arch: str, ptxas: Tool) -> None:
    trace = kit.Trace(CTAS, WARPS)
    assembly = marked(trace, arch=arch).assemble()
    assert not assembly.warnings and assembly.spills == 0
    # Each mark reads the clock once: three spans of two marks, two instants, and the two pairs of the header.
    assert marked(trace, arch=arch).ptx().count("%clock64;") == 6 + 2 + 2


@pytest.mark.gpu
def test_marks_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    trace = kit.Trace(CTAS, WARPS, events=16)
    buffers = trace.buffers("cuda")
    y = marked(trace)(*buffers, torch.arange(128, dtype=torch.float32, device="cuda"))
    torch.cuda.synchronize()
    assert np.array_equal(y.cpu().numpy(), 2 * X)
    found = trace.timeline(buffers)
    assert found.dropped == 0 and not found.notes and found.unit in ("ns", "cycles")
    for number in range(CTAS * WARPS):
        names = [event.name for event in found.events if event.track == number]
        assert names == ["outer", "outer", "load", *["round"] * ROUNDS, "elected"]
    assert all(event.begin <= event.end for event in found.events)
    assert all(track.sm >= 0 for track in found.tracks)
