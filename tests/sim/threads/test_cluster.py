"""Clusters of several CTAs: where they are, each other's shared memory, barriers across them, and their end."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import SpecError
from tests.sim.build import Kernel

SCHEDULES = [("eager", 0), ("late", 0), *(("random", seed) for seed in range(4))]


def text(body: str, declarations: str = "", *, directives: str = "") -> str:
    """An entry ``k(out)`` with a shared ``buffer`` of 256 bytes; ``%out`` points at the thread's 16 bytes."""
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {directives}
{{
    .shared .align 16 .b8 buffer[256];
    .reg .b32 %thread, %rank, %peer, %mine, %theirs, %cta, %a, %b, %c, %d;
    .reg .b64 %out, %offset, %state;
    .reg .pred %p;
    {declarations}
    ld.param.u64 %out, [out];
    mov.u32 %thread, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %a, %ntid.x;
    mad.lo.u32 %a, %cta, %a, %thread;
    mul.wide.u32 %offset, %a, 16;
    add.u64 %out, %out, %offset;
    mov.u32 %rank, %cluster_ctarank;
    xor.b32 %peer, %rank, 1;
    mov.u32 %mine, buffer;
    mapa.shared::cluster.u32 %theirs, %mine, %peer;
    {body}
    ret;
}}
"""


def run(source: str, *, grid: int = 8, block: int = 64, cluster: int = 2, **options: object) -> tuple:
    out = np.zeros((grid, block, 4), np.uint32)
    options.setdefault("max_steps", 1_000_000)
    report = sim.load(source).launch("k", grid=grid, block=block, cluster=cluster, args=[out], **options)
    return report, out


#: Every thread leaves a word and reads the one that its peer in the other CTA left.
EXCHANGE = """
    shl.b32 %b, %thread, 2;
    add.u32 %mine, %mine, %b;
    add.u32 %theirs, %theirs, %b;
    mad.lo.u32 %c, %cta, 1000, %thread;
    st.shared.u32 [%mine], %c;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    ld.shared::cluster.u32 %d, [%theirs];
    st.global.u32 [%out], %d;
"""
LEAVE_TOGETHER = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_ctas_of_a_cluster_read_each_others_shared_memory(schedule: str, seed: int) -> None:
    report, out = run(text(EXCHANGE + LEAVE_TOGETHER), schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    ctas = np.arange(8)[:, None]
    assert (out[:, :, 0] == (ctas ^ 1) * 1000 + np.arange(64)).all()


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_cta_that_leaves_while_its_peer_reads_is_found(schedule: str, seed: int) -> None:
    report, _ = run(text(EXCHANGE), schedule=schedule, seed=seed, sanitize=False)
    found = report.findings[0]
    assert (report.verdict, found.rule.name) == ("error", "cluster-lifetime")
    assert "has exited, and its shared memory with it" in found.message


def test_without_the_barrier_between_them_the_words_are_not_there_yet() -> None:
    racing = EXCHANGE.replace("barrier.cluster.arrive.release.aligned;", "").replace(
        "barrier.cluster.wait.acquire.aligned;", ""
    )
    report, _ = run(text(racing + LEAVE_TOGETHER), schedule="eager")
    assert "uninitialized-read" in {f.rule.name for f in report.findings}


def test_addresses_carry_the_rank() -> None:
    body = """
    mov.u64 %offset, buffer;
    cvta.shared.u64 %offset, %offset;
    mapa.u64 %state, %offset, %peer;
    getctarank.u64 %a, %state;
    getctarank.shared::cluster.u32 %b, %mine;
    st.global.v4.u32 [%out], {%mine, %theirs, %a, %b};
    """
    report, out = run(text(body), cluster=4, block=32)
    assert report.verdict == "clean", report
    for cta in range(8):
        rank = cta % 4
        assert out[cta, 0].tolist() == [rank << 24 | 0x400, (rank ^ 1) << 24 | 0x400, rank ^ 1, rank]


def test_an_array_of_shared_variables_in_a_function_is_the_ctas_own() -> None:
    source = text(
        """
    call.uni (%a), leave, (%thread);
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    call.uni (%b), leave, (%thread);
    st.global.v2.u32 [%out], {%a, %b};
    """
    ).replace(
        ".visible .entry",
        """.shared .align 4 .b32 box[64];
.func (.reg .b32 %at) leave (.reg .b32 %which)
{
    .reg .b32 %place;
    mov.u32 %at, box;
    shl.b32 %place, %which, 2;
    add.u32 %place, %place, %at;
    st.shared.u32 [%place], %which;
    ret;
}
.visible .entry""",
    )
    report, out = run(source)
    assert report.verdict == "clean", report
    assert (out[:, :, 0] == out[:, :, 1]).all()
    assert (out[:, 0, 0] >> 24).tolist() == [0, 1] * 4


def test_where_a_cta_is() -> None:
    names = "cluster_ctaid.x cluster_ctaid.y cluster_nctaid.x cluster_nctaid.y clusterid.x clusterid.y"
    names += " nclusterid.x nclusterid.y cluster_ctarank cluster_nctarank ctaid.x ctaid.y"
    lines = [".reg u32 x y n a", ".reg u64 o", "mov.u32 x, %ctaid.x", "mov.u32 y, %ctaid.y"]
    lines += ["mad.lo.u32 n, y, 6, x", f"mad.wide.u32 o, n, {4 * len(names.split())}, out"]
    for position, name in enumerate(names.split()):
        lines += [f"mov.u32 a, %{name}", f"st.global.u32 [o+{4 * position}], a"]
    out = np.zeros((4, 6, len(names.split())), np.uint32)
    Kernel("\n".join([*lines, "ret"]), "out:u64", target="sm_90a").clean(
        out, grid=(6, 4), block=1, cluster=(3, 2)
    )
    for y in range(4):
        for x in range(6):
            rank = x % 3 + 3 * (y % 2)
            assert out[y, x].tolist() == [x % 3, y % 2, 3, 2, x // 3, y // 2, 2, 2, rank, 6, x, y]


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_arrivals_at_a_barrier_in_another_cta(schedule: str, seed: int) -> None:
    """Every thread of both CTAs arrives at the even CTA's barrier, whose threads wait and count."""
    body = """
    setp.ne.u32 %p, %thread, 0;
    @%p bra READY;
    mbarrier.init.shared.b64 [%mine], 128;
    st.shared.u32 [%mine+8], 0;
READY:
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    and.b32 %a, %rank, 0xfffffffe;
    mapa.shared::cluster.u32 %b, %mine, %a;
    atom.shared::cluster.add.u32 %c, [%b+8], 1;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%b];
    setp.ne.u32 %p, %rank, 0;
    @%p bra DONE;
WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p, [%mine], 0;
    @!%p bra WAIT;
    ld.shared.u32 %d, [%mine+8];
    st.global.u32 [%out], %d;
DONE:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    """
    report, out = run(text(body), schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (out[::2, :, 0] == 128).all() and not out[1::2, :, 0].any()


def test_a_cluster_barrier_waits_for_every_cta() -> None:
    body = """
    setp.ne.u32 %p, %rank, 1;
    @%p bra COME;
    @!%p bra STAY;
STAY:
    bar.sync 1, 64;
    bar.sync 2, 128;
COME:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    """
    report, _ = run(text(body), grid=2)
    assert report.findings[0].rule.name in ("deadlock", "barrier-misuse")


def test_threads_that_end_count_as_arrived() -> None:
    report, out = run(
        text(
            """
    setp.eq.u32 %p, %rank, 1;
    @%p exit;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    st.global.u32 [%out], 7;
    """
        )
    )
    assert report.verdict == "clean", report
    assert (out[::2, :, 0] == 7).all() and not out[1::2].any()


@pytest.mark.full
def test_more_clusters_than_run_at_once() -> None:
    body = EXCHANGE + LEAVE_TOGETHER
    report, out = run(text(body), grid=1200, block=64, cluster=8, memory=1 << 18)
    assert report.verdict == "clean", report
    assert (out[:, :, 0] == (np.arange(1200)[:, None] ^ 1) * 1000 + np.arange(64)).all()


def test_a_kernel_built_for_a_cluster_is_launched_with_it() -> None:
    source = text(
        "mov.u32 %a, %cluster_nctarank; st.global.u32 [%out], %a;", directives=".reqnctapercluster 2"
    )
    report, out = run(source, cluster=1)
    assert report.verdict == "clean" and (out[:, :, 0] == 2).all()
    with pytest.raises(SpecError, match="reqnctapercluster"):
        run(source, cluster=4)


@pytest.mark.parametrize(
    ("grid", "cluster", "message"),
    [(6, 4, "whole clusters"), (64, 32, "at most 16"), (2, 3, "whole clusters")],
)
def test_launches_that_no_gpu_takes(grid: int, cluster: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run(text(""), grid=grid, cluster=cluster)
