"""Claims of kernels with cluster launch control, which are run with every assignment of their clusters."""

from __future__ import annotations

import math
import re
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from pyptx import Kernel, Tile, kernel, kit, ptx, sim, u32
from pyptx.core.errors import SpecError
from pyptx.ir import print_module

from .launch_misses import ONE_REQUEST
from .preempting import preempting
from .stealing import DEFECTS, Stealing, defective, every_assignment, random_stealing
from .trace import Trace
from .truth import first_untrue_assignment, untrue_assignment

#: Threads store their numbers; no cluster is canceled.
PLAIN = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry plain(.param .u64 out)
{
    .reg .b32 %thread;
    .reg .b64 %out, %at;
    ld.param.u64 %out, [out];
    mov.u32 %thread, %tid.x;
    mad.wide.u32 %at, %thread, 4, %out;
    st.global.u32 [%at], %thread;
    ret;
}
"""
#: Defects that give no other result in the simulator, or end every run: the claim is refused by what competes alone.
REFUSED = {"refusal", "blind", "by hand", "after refusal", "early", "count", "fake", "ticket"}


@pytest.mark.one_in(3)
@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(12))
def test_right_kernels_claim(seed: int) -> None:
    one = random_stealing(seed)
    report, out = one.launch(
        launch_control="every", schedule=("eager", "late", "random")[seed % 3], seed=seed
    )
    assert report.holds == "every schedule" and report.verdict == "clean", report
    assert one.right(out)
    assert report.assignments is not None and report.assignments.complete
    assert report.assignments.ran == {2: 3, 3: 13}[one.clusters]


@pytest.mark.full
def test_a_right_kernel_with_four_clusters_claims() -> None:
    report, _ = Stealing(4, 2, 2, 1).launch(launch_control="every")
    assert report.holds == "every schedule" and report.assignments is not None
    assert report.assignments.ran == 73


@pytest.mark.one_in(12)
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "one", [each for each in defective() if each.clusters == 3], ids=lambda one: one.name
)
def test_an_assignment_shows_the_defect(one: Stealing) -> None:
    report, _ = one.launch(launch_control="every")
    assert report.holds == "this schedule" and report.competing, report
    assert one.defect in DEFECTS
    plain, _ = one.launch()
    assert plain.holds == "this schedule"
    if one.defect in REFUSED:
        return
    # Most defects are invisible if no cluster is canceled; the finding names the assignment that shows it.
    shown = [each for each in report.findings if each.schedules[0] != "eager, launch control 0/1/2"]
    assert shown, report
    text = shown[0].schedules[0].removeprefix("eager, launch control ")
    again, out = one.launch(launch_control=text)
    assert again.schedule == shown[0].schedules[0]
    _, left = one.launch(launch_control="0/1/2")
    assert again.findings or (out != left).any(), again


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(4))
def test_claims_are_true(seed: int) -> None:
    """Random schedules with random assignments: each thread does and reads the same as under eager."""
    assert random_stealing(seed).launch(launch_control="every")[0].holds == "every schedule"
    assert not first_untrue_assignment(seed, range(8))


def test_the_comparison_can_fail() -> None:
    """Results that depend on the assignment are seen, and what a schedule changes."""
    right, wrong = Stealing(3, 1, 1, 1), Stealing(3, 1, 1, 1, "canceled")
    assert not untrue_assignment(right, "0,1/2", 0)
    assert "other outputs" in untrue_assignment(wrong, "0,1/2", 0)
    assert any(untrue_assignment(Stealing(3, 2, 1, 1, "reuse"), "0,1,2", seed) for seed in range(20))


@pytest.mark.parametrize("seed", range(4))
def test_what_the_schedule_cancels_gives_the_same(seed: int) -> None:
    """Without an assignment, clusters start when the schedule lets them: so it decides which are canceled."""
    one = random_stealing(seed)
    canceled = set()
    for schedule in range(6):
        owners = _Owners()
        report, out = one.launch(schedule="random", seed=schedule, sanitize=False, observers=[owners])
        assert report.verdict == "clean" and one.right(out), report
        canceled.add(tuple(sorted(owners.ctas)))
    assert len(canceled) > 1


class _Owners(sim.Observer):
    """The CTAs that started."""

    def __init__(self) -> None:
        self.ctas: set[int] = set()

    def begin(self, life) -> None:  # type: ignore[no-untyped-def]
        if isinstance(life.key, tuple) and len(life.key) == 2:
            self.ctas.add(life.key[1])


# --- kernels of the kit ---------------------------------------------------------------------------


def stealing(tiles: int, answers: int, cluster: int, *, ahead: int = 1, wrong: str = "") -> Kernel:
    """Clusters in which two warps of each CTA store their part of the tile."""

    @kernel(
        out_specs=(Tile(4, tiles * cluster, u32),),
        grid=tiles * cluster,
        block=96,
        cluster=cluster,
        arch="sm_100a",
    )
    def steal(out):  # type: ignore[no-untyped-def]
        warp = ptx.special.tid.x() >> 5
        rank = ptx.cluster.rank()
        own = ptx.special.clusterid.x()
        readers = 2 * cluster - (wrong == "reader")
        work = kit.LaunchControlTiles(
            first=own, readers=readers, answers=answers, ahead=ahead, cluster=cluster
        )
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            work.init()
            ptx.fence.mbarrier_init()
        ptx.cluster.sync()
        with ptx.if_(warp == 0), ptx.if_(rank == 0), ptx.if_(ptx.warp.elect()):
            work.schedule()
        with ptx.if_(warp == 1), ptx.if_(ptx.warp.elect()), work.loop() as tile:
            ptx.store(out.at(0, tile * cluster + rank), tile + 1, space="global")
        with ptx.if_(warp == 2):
            leader = ptx.warp.elect()
            with work.loop(leader) as tile:
                ptx.store(out.at(1, tile * cluster + rank), tile * 3, space="global", pred=leader)
                if wrong == "owner":
                    ptx.store(out.at(2, tile * cluster + rank), own, space="global", pred=leader)
        ptx.cluster.sync()

    return steal


def stolen(
    tiles: int, answers: int, cluster: int, *, wrong: str = "", ahead: int = 1, **how: object
) -> sim.Report:
    out = np.zeros((4, tiles * cluster), np.uint32)
    how = {"launch_control": "every", "max_steps": 50_000} | how
    return stealing(tiles, answers, cluster, ahead=ahead, wrong=wrong).simulate(out=out, **how)


def number(clusters: int, ahead: int) -> int:
    """Number of assignments with ``ahead`` requests in flight: those behind a refusal may get clusters."""
    found = 0
    for assignment in every_assignment(clusters):
        ways = 1
        for one in assignment.lists:
            behind = range(1, min(len(one), ahead))
            ways *= 1 + sum(math.comb(ahead - 1, granted) for granted in behind)
        found += ways
    return found


@pytest.mark.one_in(4)
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("tiles", "answers", "cluster", "ahead"),
    [(1, 1, 2, 1), (2, 3, 2, 1), (3, 1, 2, 1), (3, 2, 2, 2), (3, 2, 1, 2), (2, 3, 1, 3), (3, 3, 1, 3)],
)
def test_kernels_of_the_kit_claim(tiles: int, answers: int, cluster: int, ahead: int) -> None:
    report = stolen(tiles, answers, cluster, ahead=ahead, sanitize="strict")
    assert report.holds == "every schedule" and report.verdict == "clean", report
    assert report.outputs[0][0].tolist() == [n // cluster + 1 for n in range(tiles * cluster)]
    assert report.assignments is not None and report.assignments.ran == number(tiles, ahead)


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_a_reader_that_does_not_wait_for_the_scheduler(schedule: str) -> None:
    """With requests in flight, it may observe a refusal before the last request: what that gets is undefined."""
    module = stealing(2, 2, 1, ahead=2).module()
    waits = re.findall(r"\[%full_\d+\+32\], %phase_\d", text := print_module(module).text)
    assert len(waits) == 2
    for wait in waits:
        out = np.zeros((4, 2), np.uint32)
        early = text.replace(wait, wait.replace("+32", ""))
        report = sim.load(early).launch(
            grid=2, block=96, args=[out], launch_control="every", schedule=schedule, max_steps=50_000
        )
        assert report.holds == "this schedule", report
        assert any("observed" in each.what for each in report.competing), report


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
def test_claims_of_the_kit_are_true(seed: int) -> None:
    one = stealing(3, 2, 2, ahead=1 + seed % 2)
    texts = ["0,-,1/2", "2,0,-,1"] if seed % 2 else [str(each) for each in every_assignment(3)]
    assignment = Random(seed).choice(texts)
    traces, outs = [], []
    for schedule, sanitize in (("eager", True), ("random", False), ("random", False)):
        traces.append(Trace())
        outs.append(np.zeros((4, 6), np.uint32))
        with preempting():
            one.simulate(
                out=outs[-1],
                schedule=schedule,
                seed=seed + len(outs),
                sanitize=sanitize,
                observers=[traces[-1]],
                launch_control=assignment,
            ).check()
    assert all((out == outs[0]).all() for out in outs)
    assert not any(traces[0].difference(trace) for trace in traces)


@pytest.mark.parametrize("wrong", ["owner", "reader"])
def test_wrong_kernels_of_the_kit_do_not(wrong: str) -> None:
    report = stolen(3, 1, 2, wrong=wrong)
    assert report.holds == "this schedule" and report.competing, report
    if wrong == "owner":
        assert any("results depend on the assignment" in each.what for each in report.competing)


# --- what is refused, and what is impossible ------------------------------------------------------


def once(clusters: int = 3, **how: object) -> tuple[sim.Report, np.ndarray]:
    out = np.zeros(clusters, np.uint32)
    text = ONE_REQUEST.format(who=0, end="")
    return sim.load(text).launch(grid=clusters, block=1, args=[out], **how), out


def test_assignments_that_no_schedule_has() -> None:
    """Each cluster requests one other: there are no lists of three."""
    report, out = once(launch_control="every")
    assert report.holds == "every schedule" and report.verdict == "clean", report
    assert report.assignments is not None
    assert (report.assignments.ran, report.assignments.failed) == (7, 0)
    assert "launch control: 7 assignments of 3 clusters, complete" in str(report)
    assert out.tolist() == [0, 1, 2]
    with pytest.raises(SpecError, match="its clusters request fewer others"):
        once(launch_control="2,1,0")


def test_a_plain_run_says_how_to_ask() -> None:
    report, _ = once()
    assert report.holds == "this schedule" and report.assignments is None
    (each,) = report.competing
    assert 'launch_control="every"' in each.what
    report, _ = once(launch_control="0,2/1")
    assert report.holds == "this schedule" and report.schedule == "eager, launch control 0,2/1"


def test_too_many() -> None:
    report, _ = once(6, launch_control="every")
    assert report.holds == "this schedule" and report.verdict == "clean"
    assert any(
        "6 clusters have 4,051 assignments, and max_runs is 1,000" in each.what for each in report.competing
    )
    report, _ = once(3, launch_control="every", max_runs=12)
    assert any("have 13 assignments, and max_runs is 12" in each.what for each in report.competing)
    report = stolen(2, 2, 1, ahead=2, max_runs=4)
    assert report.verdict == "incomplete" and report.holds == "this schedule"
    assert "4 assignments of 2 clusters, bound reached (max_runs=4)" in str(report)
    report, _ = once(200, launch_control="every")
    assert any("200 clusters have more than 1e+15 assignments" in each.what for each in report.competing)


def test_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=iter(range(0, 1000, 10)).__next__)
    monkeypatch.setattr("pyptx.sim.api.assignments.time", clock)
    report, _ = once(4, launch_control="every", timeout=35)
    assert report.verdict == "incomplete" and report.holds == "this schedule", report
    assert report.assignments is not None and (report.assignments.ran, report.assignments.complete) == (
        4,
        False,
    )
    assert "stopped at timeout=35 s, after 4 assignments: others did not run" in str(report)
    assert any("after 4 assignments" in each.what for each in report.competing)


def test_streams() -> None:
    """One launch of a stream may cancel clusters, unless launches overlap."""
    loaded, first = sim.load(ONE_REQUEST.format(who=0, end="")), sim.load(PLAIN)

    def stream(*, twice: bool = False, dependent: bool = False) -> list[sim.Report]:
        made = sim.Stream()
        made.launch(first, grid=1, block=32, args=[np.zeros(32, np.uint32)])
        made.launch(loaded, grid=3, block=1, args=[np.zeros(3, np.uint32)], dependent=dependent)
        if twice:
            made.launch(loaded, grid=2, block=1, args=[np.zeros(3, np.uint32)])
        return made.run(launch_control="every")

    reports = stream()
    assert [each.holds for each in reports] == ["every schedule"] * 2, reports[-1]
    for report in stream(twice=True):
        assert report.holds == "this schedule"
        assert any("several launches of the stream" in each.what for each in report.competing)
    for report in stream(dependent=True):
        assert report.holds == "this schedule"
        assert any("programmatic dependent launch" in each.what for each in report.competing)


def test_a_flag_of_another_cluster_is_refused() -> None:
    """Though each assignment is fine if all clusters fit: a cluster may be canceled by one that waits for it."""
    text = ONE_REQUEST.format(
        who=0,
        end="""setp.eq.u32 %other, %tile, 0;
    add.u64 %at, %out, 64;
    @%other st.release.gpu.global.u32 [%at], 1;
POLL:
    ld.acquire.gpu.global.u32 %rank, [%at];
    setp.eq.u32 %more, %rank, 0;
    @%more bra POLL;""",
    )
    out = np.zeros(32, np.uint32)
    report = sim.load(text).launch(grid=3, block=1, args=[out], launch_control="every", max_steps=50_000)
    assert report.holds == "this schedule"
    assert any("CTAs wait for CTAs of other clusters" in each.what for each in report.competing), report


@pytest.mark.parametrize("whose", ["own", "tile"])
def test_printed_lines(whose: str) -> None:
    """The lines of a run may come in any order; which lines there are must not depend on the assignment."""

    @kernel(out_specs=(Tile(3, u32),), grid=3, block=64, arch="sm_100a")
    def tell(out):  # type: ignore[no-untyped-def]
        warp = ptx.special.tid.x() >> 5
        own = ptx.special.ctaid.x()
        tiles = kit.LaunchControlTiles(first=own, readers=1)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            tiles.init()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            tiles.schedule()
        with ptx.if_(warp == 1), ptx.if_(ptx.warp.elect()), tiles.loop() as tile:
            ptx.store(out.at(tile), tile + 1, space="global")
            ptx.printf("%u\n", own if whose == "own" else tile)

    if whose == "tile":
        sim.assert_clean(tell, launch_control="every", holds=True)
        return
    report = tell.simulate(launch_control="every")
    assert report.holds == "this schedule"
    assert [each.what for each in report.competing] == [
        "launch control: 0/1/2 and 0,1/2 print different lines"
    ]


def test_an_assignment_with_a_wrong_result() -> None:
    one = Stealing(2, 1, 1, 1, "own")
    _, wanted = one.launch()
    report, _ = one.launch(launch_control="every", reference={1: wanted})
    assert report.verdict == "error" and report.holds == "this schedule"
    wrong = next(each for each in report.findings if each.rule.name == "wrong-result")
    assert wrong.schedules == ("eager, launch control 1,0",)
    assert report.assignments is not None and report.assignments.failing == "1,0"
    assert "3 assignments of 2 clusters, complete; 1 failed, the first is 1,0 (cluster 1 cancels 0)" in str(
        report
    )
    again, _ = one.launch(launch_control="1,0", reference={1: wanted})
    assert again.verdict == "error"


def test_the_memory_is_that_of_the_first_assignment() -> None:
    one = Stealing(3, 1, 1, 1, "own")
    _, out = one.launch(launch_control="every")
    assert one.right(out)


def test_without_the_sanitizer_there_is_no_claim() -> None:
    report, _ = Stealing(3, 1, 1, 1, "own").launch(launch_control="every", sanitize=False)
    assert report.holds == "" and report.verdict == "review", report
    assert report.findings[0].rule.name == "schedule-dependent"


def test_a_kernel_that_cancels_nothing_runs_once() -> None:
    out = np.zeros(32, np.uint32)
    report = sim.load(PLAIN).launch(grid=1, block=32, args=[out], launch_control="every")
    assert report.holds == "every schedule" and report.assignments is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"launch_control": 3}, "launch_control is 3"),
        ({"launch_control": "all"}, "expected 'every'"),
        ({"launch_control": "0/1"}, "an assignment of 2 clusters: the launch has 3"),
        ({"launch_control": "every", "schedule": "all"}, "schedule is 'all'"),
        ({"launch_control": "0/1/2", "schedule": "all"}, "schedule is 'all'"),
        ({"launch_control": "every", "schedule": "sampled"}, "schedule is 'sampled'"),
        ({"launch_control": "every", "timeline": True}, "they show one run"),
        ({"launch_control": "every", "debug": ["continue"]}, "they show one run"),
    ],
)
def test_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        once(**options)


def test_an_assignment_of_a_kernel_that_cancels_nothing() -> None:
    with pytest.raises(SpecError, match="expected one launch that cancels clusters, and 0 of the stream do"):
        sim.load(PLAIN).launch(grid=1, block=32, args=[np.zeros(32, np.uint32)], launch_control="0")
