"""``schedule="sampled"``: every run from the same memory, and one report of them all."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import Layout, Tile, kernel, ptx, reg, sim, smem
from pyptx.core.errors import SpecError
from pyptx.core.types import b64, f32, u64
from tests.sim.build import Kernel

INCREMENT = Kernel("""
.reg u32 x
ld.global.u32 x, [data]
add.u32 x, x, 1
st.global.u32 [data], x
ret
""", "data:u64")  # fmt: skip

#: Each CTA writes its number: the last one to come wins.
LAST = Kernel("""
.reg u32 c
mov.u32 c, %ctaid.x
st.relaxed.gpu.global.u32 [out+4], c
ret
""", "out:u64")  # fmt: skip

#: A copy that is read before it is waited for.
IMPATIENT = Kernel("""
.reg u32 x
.shared b8 tile[64] 16
cp.async.ca.shared.global [tile], [given], 16
ld.shared.u32 x, [tile]         // too early
st.global.u32 [out], x
cp.async.wait_all
ret
""", "given:u64 out:u64")  # fmt: skip

NAMES = ["eager", "late", "random (seed 0)", "random (seed 1)", "random (seed 2)"]


def test_each_run_begins_with_the_memory_that_was_given() -> None:
    data = np.array([41], np.uint32)
    report = INCREMENT.run(data, block=1, schedule="sampled")
    assert report.verdict == "clean", report
    assert data.tolist() == [42]
    assert [run.schedule for run in report.runs] == NAMES
    assert report.schedule == f"sampled ({', '.join(NAMES)})"
    assert report.steps == sum(run.steps for run in report.runs) == 5 * report.runs[0].steps


def test_module_variables_begin_each_run_with_their_contents_too() -> None:
    module = sim.load("""
.version 8.0
.target sm_80
.address_size 64
.global .u32 total = 5;
.visible .entry count()
{
    .reg .b32 %r1;
    ld.global.u32 %r1, [total];
    add.u32 %r1, %r1, 1;
    st.global.u32 [total], %r1;
    ret;
}
""")
    assert module.launch(grid=1, block=1, schedule="sampled").verdict == "clean"
    assert module.variable("total").view(np.uint32)[0] == 6


def test_seeds_says_which_random_schedules_run() -> None:
    data = np.zeros(1, np.uint32)
    report = INCREMENT.run(data, block=1, schedule="sampled", seed=7, seeds=2)
    assert [run.schedule for run in report.runs] == ["eager", "late", "random (seed 7)", "random (seed 8)"]
    assert len(INCREMENT.run(data, block=1, schedule="sampled", seeds=0).runs) == 2


@pytest.mark.parametrize("seeds", [-1, 1.5, True, "3"])
def test_seeds_that_are_no_number_of_runs_are_refused(seeds: object) -> None:
    with pytest.raises(SpecError, match="seeds is .*: expected an integer of at least 0"):
        INCREMENT.run(np.zeros(1, np.uint32), schedule="sampled", seeds=seeds)


def test_results_that_differ_are_a_finding_with_the_schedules_that_differ() -> None:
    out = np.zeros(4, np.uint32)
    report = LAST.run(out, grid=8, block=1, schedule="sampled", seeds=4)
    assert report.verdict == "review", report
    (finding,) = report.findings
    assert finding.rule.name == "schedule-dependent"
    assert finding.message == ("out: 1 of 4 elements differ from the run under eager, the first at index 1")
    seen = []
    for seed in range(4):
        one = np.zeros(4, np.uint32)
        LAST.run(one, grid=8, block=1, schedule="random", seed=seed)
        if one[1] != out[1]:
            seen.append(f"random (seed {seed})")
    assert seen and finding.schedules == tuple(seen)
    assert out[1] == 7  # as the eager run left it
    assert LAST.run(out, grid=8, block=1, schedule="sampled", sanitize="strict").verdict == "error"


def test_a_finding_names_the_schedules_under_which_it_was_seen() -> None:
    given, out = np.arange(4, dtype=np.uint32), np.zeros(1, np.uint32)
    # The sanitizer sees this race under every schedule; the unwritten word is seen under some.
    report = IMPATIENT.run(given, out, schedule="sampled", block=1, sanitize=False)
    assert report.verdict == "error"
    names = [run.schedule for run in report.runs]
    assert "starve:cp" in names and "starve:tma" not in names
    (early,) = [finding for finding in report.findings if finding.rule.name == "uninitialized-read"]
    wrong = [run.schedule for run in report.runs if run.findings]
    assert early.schedules == tuple(wrong)
    assert "late" in wrong and "eager" not in wrong
    assert f"under:  {', '.join(wrong)}" in str(early)
    # A run that ended early is not compared: its results are not wrong for another reason.
    assert not [finding for finding in report.findings if finding.rule.name == "schedule-dependent"]


def test_the_timeout_is_for_all_runs_together() -> None:
    endless = Kernel("LOOP:\n.reg u32 x\nadd.u32 x, x, 1\nbra LOOP\nret")
    report = endless.run(schedule="sampled", timeout=0.4)
    assert report.verdict == "incomplete"
    (left_out,) = [finding for finding in report.findings if "nothing ran under" in finding.message]
    assert "late, random (seed 0), random (seed 1), random (seed 2)" in left_out.message
    assert [run.schedule for run in report.runs] == ["eager"]


def test_a_stream_has_a_merged_report_for_each_launch() -> None:
    data, out = np.zeros(1, np.uint32), np.zeros(4, np.uint32)
    stream = sim.Stream()
    stream.launch(INCREMENT.module, grid=1, block=1, args=[data])
    stream.launch(LAST.module, grid=8, block=1, args=[out])
    first, second = stream.run(schedule="sampled", seeds=4)
    assert first.verdict == "clean" and len(first.runs) == 6
    assert [finding.rule.name for finding in second.findings] == ["schedule-dependent"]
    assert data[0] == 1


def test_what_cannot_start_is_reported_once() -> None:
    big = sim.load("""
.version 8.0
.target sm_80
.address_size 64
.visible .entry big()
{
    .local .b8 stack[600000];
    ret;
}
""")
    report = big.launch(grid=1, block=1, schedule="sampled")
    (finding,) = report.findings
    assert finding.rule.name == "stack-overflow" and len(finding.schedules) == 5


def test_a_recorded_kernel_runs_under_all_schedules() -> None:
    @kernel(
        in_specs=(Tile(64, f32, Layout.TMA_NONE, tma_box=(64,)),),
        out_specs=(Tile(64, f32),),
        block=(64,),
        arch="sm_90a",
    )
    def copy(X, Y):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        tile = smem.alloc(64, f32, align=128)
        bar = smem.alloc(1, b64)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bar, 1)
            ptx.mbarrier.arrive_expect_tx(bar, tile.nbytes)
            ptx.cp.async_.bulk.tensor_1d(dst=tile, src=X.tma_desc(), coord=(0,), mbar=bar)
        ptx.bar.sync(0)
        ptx.mbarrier.wait(bar, 0)
        place = reg.scalar(u64)
        ptx.inst.mad.wide.u32(place, tid, 4, Y.ptr)
        ptx.inst.st.global_.f32(ptx.addr(place), smem.load(f32, tile.at(tid)))

    x = np.arange(64, dtype=np.float32)
    report = copy.simulate(x, schedule="sampled", seeds=2)
    assert report.verdict == "clean", report
    assert [run.schedule for run in report.runs] == ["eager", "late", "starve:tma", *NAMES[2:4]]
    assert np.array_equal(report.outputs[0], x)
