"""clusterlaunchcontrol: persistent kernels that take over clusters which have not started, and their mistakes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pyptx import Tile, b32, b64, b128, kernel, ptx, reg, sim, smem, u32, u64

pytestmark = pytest.mark.one_in(2)

SCHEDULES = [("eager", 0), ("late", 0), ("starve:tma", 0), *(("random", seed) for seed in range(5))]
every_schedule = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
#: So little that a few CTAs run at once: the others wait, and can be canceled.
LITTLE = 24_000

#: Thread 0 asks, all read the answer. Every tile is counted in ``out[0]`` by each of its threads, and
#: ``out[1]`` has the CTA that worked on it. {ask} and {read} can be made wrong.
PERSISTENT = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry persistent(.param .u64 counts, .param .u64 owners)
{{
    .shared .align 16 .b8 answer[32];
    .shared .align 8 .b64 bar;
    .reg .pred %lead, %first, %more, %done;
    .reg .b32 %tile, %mine, %thread, %parity, %one, %index, %threads, %rank, %size, %y, %z, %grid;
    .reg .b64 %counts, %owners, %at, %words<2>;
    .reg .b128 %response;
    ld.param.u64 %counts, [counts];
    ld.param.u64 %owners, [owners];
    mov.u32 %thread, %tid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %size, %cluster_nctarank;
    mov.u32 %mine, %ctaid.x;
    mov.u32 %grid, %nctaid.x;
    mov.u32 %y, %ctaid.y;
    mad.lo.u32 %mine, %y, %grid, %mine;
    mov.u32 %tile, %mine;
    mov.u32 %parity, 0;
    mov.u32 %one, 1;
    setp.eq.u32 %lead, %thread, 0;
    setp.eq.and.u32 %first, %rank, 0, %lead;
    @%lead mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
TILE:
    @%lead mbarrier.arrive.expect_tx.relaxed.cluster.shared::cta.b64 _, [bar], 16;
    {ask}
    mad.lo.u32 %index, %tile, %threads, %thread;
    mad.wide.u32 %at, %index, 4, %counts;
    red.global.add.u32 [%at], %one;
    mad.wide.u32 %at, %index, 4, %owners;
    st.global.u32 [%at], %mine;
WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %done, [bar], %parity;
    @!%done bra WAIT;
    {read}
    xor.b32 %parity, %parity, 1;
    {close}
    @%more bra TILE;
    ret;
}}
"""
TRY = "clusterlaunchcontrol.try_cancel.async{space}.mbarrier::complete_tx::bytes{multicast}.b128 [answer], [bar];"
ALONE = "@%lead " + TRY.format(space=".shared::cta", multicast="")
TOGETHER = "@%first " + TRY.format(space=".shared::cta", multicast=".multicast::cluster::all")
QUERY = "clusterlaunchcontrol.query_cancel"
READ = f"""
    ld.shared.b128 %response, [answer];
    {QUERY}.is_canceled.pred.b128 %more, %response;
    @%more {QUERY}.get_first_ctaid.v4.b32.b128 {{%tile, %y, _, _}}, %response;
    @%more mad.lo.u32 %tile, %y, %grid, %tile;
    @%more add.u32 %tile, %tile, %rank;
"""
#: Everybody in the cluster has read the answer before it is asked for again.
CLOSE = """
    fence.proxy.async.shared::cta;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""


loaded = cache(sim.load)


def run(
    source: str, tiles: int = 24, *, block: int = 64, cluster: int = 1, rows: int = 1, **options: object
) -> tuple[sim.Report, np.ndarray, np.ndarray]:
    counts, owners = (np.zeros((tiles, block), np.uint32) for _ in range(2))
    options.setdefault("memory", LITTLE)
    options.setdefault("max_steps", 200_000)
    report = loaded(source).launch(
        "persistent",
        grid=(tiles // rows, rows),
        block=block,
        cluster=cluster,
        args=[counts, owners],
        **options,
    )
    return report, counts, owners[:, 0]


def source(ask: str = ALONE, read: str = READ, close: str = CLOSE) -> str:
    return PERSISTENT.format(ask=ask, read=read, close=close)


@pytest.mark.one_in(4)
@every_schedule
@pytest.mark.parametrize(("cluster", "ask"), [(1, ALONE), (1, TOGETHER), (2, TOGETHER), (4, TOGETHER)])
def test_every_tile_is_done_once(cluster: int, ask: str, schedule: str, seed: int) -> None:
    report, counts, owners = run(source(ask), cluster=cluster, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (counts == 1).all()
    # The CTAs that worked on others' tiles did their own, and who was canceled did none.
    started = np.unique(owners)
    assert (owners[started] == started).all()
    assert len(started) < len(owners), "nothing was canceled"
    # Ranks stay: a CTA takes over the tile of its own rank.
    assert (owners % cluster == np.arange(len(owners)) % cluster).all()


@every_schedule
def test_coordinates_one_by_one(schedule: str, seed: int) -> None:
    """``get_first_ctaid::x`` and its like, through generic addresses."""
    ask = f"""
    .reg .b64 %a, %b;
    cvta.shared.u64 %a, answer;
    cvta.shared.u64 %b, bar;
    @%lead {TRY.format(space="", multicast="").replace("[answer], [bar]", "[%a], [%b]")}
    """
    read = f"""
    ld.shared.v2.b64 {{%words0, %words1}}, [answer];
    mov.b128 %response, {{%words0, %words1}};
    {QUERY}.is_canceled.pred.b128 %more, %response;
    @%more {QUERY}.get_first_ctaid::x.b32.b128 %tile, %response;
    @%more {QUERY}.get_first_ctaid::y.b32.b128 %y, %response;
    @%more {QUERY}.get_first_ctaid::z.b32.b128 %z, %response;
    @%more mad.lo.u32 %tile, %y, %grid, %tile;
    @%more add.u32 %tile, %tile, %z;
    """
    report, counts, owners = run(source(ask, read), rows=3, block=32, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (counts == 1).all() and len(np.unique(owners)) < len(owners)


def test_late_one_cluster_does_it_all_and_eager_as_many_as_fit() -> None:
    for schedule, memory, started in (("late", 1 << 30, 1), ("eager", 1 << 30, 24)):
        report, counts, owners = run(source(), schedule=schedule, memory=memory)
        assert report.verdict == "clean" and (counts == 1).all()
        assert len(np.unique(owners)) == started


# --- in Python ------------------------------------------------------------------------------------


@kernel(out_specs=(Tile(40, u32),), grid=(40,), block=(32,), arch="sm_100a")
def counting(out):
    lane = ptx.special.tid.x()
    answer, arrived = smem.alloc(1, b128), smem.alloc(1, b64)
    with ptx.if_(lane == 0):
        ptx.mbarrier.init(arrived, 1)
    ptx.bar.sync(0)
    tile = reg.scalar(u32, init=ptx.special.ctaid.x())
    parity = reg.scalar(b32, init=0)
    with ptx.loop() as tiles:
        with ptx.if_(lane == 0):
            ptx.mbarrier.arrive_expect_tx(arrived, 16)
            ptx.clusterlaunchcontrol.try_cancel(answer, arrived)
            place = reg.scalar(u64)
            ptx.inst.mad.wide.u32(place, tile, 4, out.ptr)
            ptx.store(place, tile + 1, space="global")
        ptx.mbarrier.wait(arrived, parity)
        parity ^= 1
        response = smem.load(b128, answer)
        ptx.fence.proxy_async("shared::cta")
        ptx.bar.sync(0)
        tiles.break_(pred=~ptx.clusterlaunchcontrol.is_canceled(response))
        tile.set(ptx.clusterlaunchcontrol.first_ctaid_x(response))


@every_schedule
def test_a_persistent_kernel_of_the_dsl(schedule: str, seed: int) -> None:
    out = np.zeros(40, np.uint32)
    report = loaded(counting.ptx()).launch(
        grid=40, block=32, args=[out], schedule=schedule, seed=seed, memory=LITTLE
    )
    assert report.verdict == "clean", report
    assert (out == np.arange(40) + 1).all()


# --- mistakes -------------------------------------------------------------------------------------


def worst(text: str, **options: object) -> dict[str, str]:
    """Findings of all schedules: the first message of each rule."""
    found: dict[str, str] = {}
    for schedule, seed in SCHEDULES:
        report, counts, _ = run(text, schedule=schedule, seed=seed, **options)
        for finding in report.findings:
            found.setdefault(finding.rule.name, finding.message)
        if not report.findings and (counts != 1).any():
            found.setdefault("values", "")
    return found


def test_an_answer_that_is_asked_for_again_before_all_have_read_it() -> None:
    """Without the barrier, and so without an order of the reads before the next answer."""
    assert worst(source(close=""), tiles=12)


def test_an_answer_that_is_decoded_wrong() -> None:
    """A refusal taken for a grant: its coordinates are those of no CTA."""
    blind = READ.replace(f"{QUERY}.is_canceled.pred.b128 %more, %response", "setp.eq.u32 %more, 0, 0")
    found = worst(source(read=blind), tiles=6)
    assert "its result is undefined" in found["launch-control-answer"]
    assert "out-of-bounds" in found


@pytest.mark.full
def test_a_request_after_a_refusal() -> None:
    """All threads have seen that nothing is left, and the last word is another request."""
    again = f"""
    @%more bra AGAIN;
    @%lead mbarrier.arrive.expect_tx.relaxed.cluster.shared::cta.b64 _, [bar], 16;
    {ALONE}
LAST:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %done, [bar], %parity;
    @!%done bra LAST;
AGAIN:
    """
    for schedule, seed in SCHEDULES:
        report, counts, _ = run(source(close=CLOSE + again), schedule=schedule, seed=seed)
        assert [finding.rule.name for finding in report.findings] == ["launch-control"], report
        assert "no cluster is left to cancel" in report.findings[0].message
        assert (counts == 1).all()


def test_two_requests_in_flight_may_both_be_refused() -> None:
    """A pipeline of requests: nobody has seen the first refusal when the second one is asked for."""
    two = TRY.format(space=".shared::cta", multicast="")
    ask = f"""
    @%lead mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;
    @%lead {two}
    @%lead {two.replace("[answer]", "[answer+16]")}
    """
    once = READ.replace(f"@%more {QUERY}", "// ").split("//")[0] + "setp.ne.u32 %more, 0, 0;"
    for schedule, seed in SCHEDULES:
        report, _, _ = run(source(ask, once), 1, schedule=schedule, seed=seed)
        assert report.verdict == "clean", report


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_a_cta_that_ends_with_a_request_on_its_way(schedule: str) -> None:
    text = source(read="setp.ne.u32 %more, 0, 0;")
    text = text[: text.index("WAIT:")] + text[text.index("@!%done bra WAIT;") + len("@!%done bra WAIT;") :]
    report, _, _ = run(text, 4, schedule=schedule)
    found = report.findings[0]
    assert found.rule.name == "exit-in-flight"
    assert "clusterlaunchcontrol.try_cancel" in found.message and "had written" in found.message


def test_answers_lie_in_the_ctas_own_shared_memory() -> None:
    elsewhere = """
    mov.u32 %index, answer;
    mapa.shared::cluster.u32 %index, %index, 1;
    @%first """ + TRY.format(space=".shared::cta", multicast="").replace("[answer]", "[%index]")
    report, _, _ = run(source(elsewhere), cluster=2)
    assert report.findings[0].rule.name == "launch-control"
    report, _, _ = run(source(ALONE.replace("[answer]", "[answer+8]")))
    assert report.findings[0].rule.name == "misaligned"


@every_schedule
def test_a_cta_may_end_while_the_others_answers_are_on_their_way(schedule: str, seed: int) -> None:
    """Each waits for its own answer of the multicast alone, and the one that asked may be the first to go."""
    alone = """
    fence.proxy.async.shared::cta;
    @!%more ret;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    """
    report, counts, _ = run(source(TOGETHER, close=alone), cluster=4, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (counts == 1).all()


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_a_cta_that_ends_before_its_own_answer_is_there(schedule: str) -> None:
    """The second of a pair does not wait for the answer that the first one has asked for."""
    leave = CLOSE + "setp.ne.u32 %more, %rank, 0; @%more ret;\nWAIT:"
    text = source(TOGETHER, close="").replace("WAIT:", leave)
    report, _, _ = run(text, cluster=2, schedule=schedule)
    # Other findings may come first.
    found = [each for each in report.findings if each.rule.name == "exit-in-flight"]
    assert found, report
    message = found[0].message
    assert message.startswith(("CTA (1, 0, 0) ended", "CTA (3, 0, 0) ended"))
    assert "no wait ensured that clusterlaunchcontrol.try_cancel" in message
