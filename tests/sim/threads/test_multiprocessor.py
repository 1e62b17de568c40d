"""Where CTAs lie, how many share a multiprocessor, and the tensor memory that they then share."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from pyptx import sim

pytestmark = pytest.mark.one_in(2)

loaded = cache(sim.load)

SCHEDULES = [("eager", 0), ("late", 0), *(("random", seed) for seed in range(3))]
every_schedule = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

#: Each CTA writes %smid, %nsmid, its rank and its cluster, once all CTAs of the grid that lives are there.
WHERE = """
.version 9.0
.target {target}
.address_size 64
.visible .entry where(.param .u64 out, .param .u64 counter, .param .u32 together) {directives}
{{
    .shared .align 16 .b8 room[{shared}];
    .reg .pred %p, %first;
    .reg .b32 %a, %b, %c, %d, %t, %together, %n;
    .reg .b64 %out, %counter;
    ld.param.u64 %out, [out];
    ld.param.u64 %counter, [counter];
    ld.param.u32 %together, [together];
    mov.u32 %t, %tid.x;
    setp.ne.u32 %p, %t, 0;
    @%p bra END;
    mov.u32 %t, %ctaid.x;
    mad.wide.u32 %out, %t, 16, %out;
    mov.u32 %a, %smid;
    mov.u32 %b, %nsmid;
    mov.u32 %c, %cluster_ctarank;
    mov.u32 %d, %clusterid.x;
    st.global.v4.u32 [%out], {{%a, %b, %c, %d}};
    red.global.add.u32 [%counter], 1;
ALL:
    ld.relaxed.gpu.global.u32 %n, [%counter];
    setp.lt.u32 %p, %n, %together;
    @%p bra ALL;
END:
    ret;
}}
"""


def where(
    grid: int,
    *,
    block: int = 32,
    cluster: int = 1,
    shared: int = 16,
    target: str = "sm_90a",
    directives: str = "",
    together: int | None = None,
    **options: object,
) -> tuple[sim.Report, np.ndarray]:
    """The report, and for each CTA: multiprocessor, how many there are, rank, cluster."""
    out, counter = np.zeros((grid, 4), np.uint32), np.zeros(1, np.uint32)
    text = WHERE.format(target=target, shared=shared, directives=directives)
    options.setdefault("max_steps", 100_000)
    report = loaded(text).launch(
        grid=grid,
        block=block,
        cluster=cluster,
        args=[out, counter, grid if together is None else together],
        **options,
    )
    return report, out


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize(
    ("what", "per_multiprocessor"),
    [
        ({"block": 768}, 2),
        ({"block": 96, "shared": 40_000}, 5),
        ({"block": 256, "directives": ".maxnreg 128"}, 2),
        ({"block": 256, "directives": ".maxntid 256 .minnctapersm 3 .maxnreg 128"}, 3),
    ],
)
def test_ctas_spread_and_then_share(what: dict, per_multiprocessor: int) -> None:
    """1,536 threads, 228 KiB of which the system takes one for each CTA, 65,536 registers, 20 processors."""
    target, processors = "sm_110a", 20
    report, out = where(processors * per_multiprocessor, target=target, **what)
    assert report.verdict == "clean", report
    assert (out[:, 1] == processors).all()
    for first in range(0, len(out), processors):
        assert sorted(out[first : first + processors, 0]) == list(range(processors))
    # One more does not start before another ends, and here none does.
    report, _ = where(processors * per_multiprocessor + 1, target=target, **what)
    assert report.findings[0].rule.name == "deadlock"
    assert f"1 CTAs have not started: {processors * per_multiprocessor} run at once" in str(report)


@pytest.mark.full
@pytest.mark.parametrize("cluster", [2, 3, 4, 16])
def test_clusters_lie_within_a_group_in_pairs(cluster: int) -> None:
    clusters = {2: 66, 3: 40, 4: 33, 16: 8}[cluster]
    report, out = where(cluster * clusters, cluster=cluster, block=32, shared=200_000 // 5)
    assert report.verdict == "clean", report
    for number in range(clusters):
        mine = out[out[:, 3] == number]
        places = mine[np.argsort(mine[:, 2]), 0].astype(int)
        assert len(places) == cluster and len(set(places)) == cluster
        for even in range(0, cluster - 1, 2):
            assert places[even] % 2 == 0 and places[even + 1] == places[even] + 1
        # Groups of 132 multiprocessors have 16 or 18.
        assert max(places) - min(places) < 18


def test_a_cluster_needs_its_group() -> None:
    """One CTA on each: of 20 multiprocessors in one group a cluster of 16 takes 16, and no second one fits."""
    report, _ = where(16, cluster=16, shared=200_000, target="sm_110a")
    assert report.verdict == "clean", report
    report, _ = where(32, cluster=16, shared=200_000, target="sm_110a")
    assert "16 CTAs have not started: 16 run at once" in str(report)


def test_the_hosts_memory_bounds_how_many_run() -> None:
    """Each takes some 30 KB of it here, once for its bytes and once for which were written."""
    report, _ = where(20, shared=30_000 // 2, memory=100_000)
    assert report.findings[0].rule.name == "deadlock"
    assert "17 CTAs have not started: 3 run at once" in str(report)
    # The same grid is right where CTAs do not wait for each other.
    report, out = where(20, shared=30_000 // 2, memory=100_000, together=1)
    assert report.verdict == "clean" and (out[:, 1] == 132).all()


@pytest.mark.full
def test_the_same_schedule_places_the_same() -> None:
    seen = [
        where(60, schedule="random", seed=5, block=768, together=1, target="sm_110a")[1] for _ in range(2)
    ]
    np.testing.assert_array_equal(*seen)


# --- tensor memory --------------------------------------------------------------------------------

#: A warp allocates, fills the columns with its CTA's number, reads them back, and frees them. {more} comes
#: while it holds the first allocation.
TENSOR = """
.version 9.0
.target sm_110a
.address_size 64
.visible .entry fill(.param .u64 out, .param .u64 counter)
{{
    .shared .align 4 .b32 slot;
    .reg .pred %p;
    .reg .b32 %tm, %mine, %v, %t, %at, %lane, %n, %other;
    .reg .b64 %out, %counter;
    ld.param.u64 %out, [out];
    ld.param.u64 %counter, [counter];
    mov.u32 %mine, %ctaid.x;
    mov.u32 %lane, %laneid;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};
    ld.shared.u32 %tm, [slot];
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%tm], {{%mine}};
    tcgen05.wait::st.sync.aligned;
    {more}
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v}}, [%tm];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, {columns};
    mad.lo.u32 %at, %mine, 32, %lane;
    mad.wide.u32 %out, %at, 4, %out;
    st.global.u32 [%out], %v;
    ret;
}}
"""
#: Until all CTAs have come this far.
MEET = """
    setp.eq.u32 %p, %lane, 0;
    @%p red.global.add.u32 [%counter], 1;
ALL:
    ld.relaxed.gpu.global.u32 %n, [%counter];
    setp.lt.u32 %p, %n, 40;
    @%p bra ALL;
"""


def fill(
    columns: int, more: str = "", *, pairs: bool = False, **options: object
) -> tuple[sim.Report, np.ndarray]:
    """Two CTAs for each of 20 multiprocessors, alone or as one of a pair."""
    out, counter = np.zeros((40, 32), np.uint32), np.zeros(1, np.uint32)
    text = TENSOR.format(columns=columns, more=more)
    if pairs:
        # Either CTA's dealloc may free the columns of both: the accesses of both come before.
        meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        fenced = f"tcgen05.fence::before_thread_sync; {meet} tcgen05.fence::after_thread_sync;"
        text = text.replace("tcgen05.dealloc", f"{fenced} tcgen05.dealloc")
        text = text.replace("cta_group::1", "cta_group::2")
        options["cluster"] = 2
    report = loaded(text).launch(grid=40, block=32, args=[out, counter], max_steps=200_000, **options)
    return report, out


@pytest.mark.one_in(4)
@pytest.mark.full
@every_schedule
@pytest.mark.parametrize("columns", [512, 256, 32])
def test_an_allocation_waits_for_the_other_cta_of_a_multiprocessor(
    columns: int, schedule: str, seed: int
) -> None:
    """Nobody gives the permit to allocate away: who waits goes on when the other frees."""
    report, out = fill(columns, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (out == np.arange(40)[:, None]).all()


@every_schedule
def test_a_pair_waits_for_room_on_both_of_its_multiprocessors(schedule: str, seed: int) -> None:
    report, out = fill(512, pairs=True, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (out == np.arange(40)[:, None]).all()


@pytest.mark.full
@every_schedule
def test_both_hold_a_half_and_see_their_own(schedule: str, seed: int) -> None:
    report, out = fill(256, MEET, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (out == np.arange(40)[:, None]).all()


@every_schedule
def test_both_hold_what_the_other_waits_for(schedule: str, seed: int) -> None:
    more = MEET + (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;\n"
        "ld.shared.u32 %other, [slot];\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %other, 256;\n"
    )
    report, _ = fill(256, more, schedule=schedule, seed=seed)
    found = report.findings[0]
    assert found.rule.name == "deadlock"
    lines = [line for line in found.message.splitlines() if "waits for 256 columns" in line]
    # They spread before they share: CTA i is with CTA i + 20, and the two wait for the same columns.
    pairs = []
    for line in lines:
        assert line.strip().startswith("2 CTAs, ")
        first, second, *holding = (int(number) for number in re.findall(r"\((\d+), 0, 0\)", line))
        assert sorted(holding) == [first, second]
        pairs.append((first, second))
    assert sorted(pairs) == [(i, i + 20) for i in range(20)]


@pytest.mark.full
def test_whole_tensor_memories_and_a_barrier_of_the_grid() -> None:
    """All 40 CTAs are there, 20 of them have all columns, and wait for those that have none."""
    report, _ = fill(512, MEET)
    assert report.findings[0].rule.name == "deadlock"
    assert "waits for 512 columns of tensor memory" in report.findings[0].message
