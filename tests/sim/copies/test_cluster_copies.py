"""Bulk and tensor copies between the CTAs of a cluster: multicast, copies to a peer, pairs."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.layout import TensorMap
from pyptx.sim.api.report import Report
from tests.sim.build import Kernel
from tests.sim.copies.test_bulk_copies import GIVEN, every_schedule
from tests.sim.memory.test_memory import finding

#: CTA 0 copies to both CTAs of a cluster; each waits for its own barrier and shows what it got.
CLUSTER_TEXT = """
.shared b8 room[512] 128
.shared b8 bar[8] 8
.reg u32 t s b rank x y n
.reg u64 v o
.reg u16 mask
.reg pred lead first p q
mov.u32 t, %tid.x
mov.u32 rank, %cluster_ctarank
mov.u32 s, room
mov.u32 b, bar
mov.u16 mask, {mask}
setp.eq.u32 lead, t, 0
setp.eq.and.u32 first, rank, 0, lead
mad.lo.u32 x, t, 8, s
mov.u64 v, 0
st.shared.u64 [x], v
st.shared.u64 [x+256], v
@lead mbarrier.init.shared::cta.b64 [b], 1
fence.proxy.async.shared::cta
@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], {nbytes}
barrier.cluster.arrive.release
barrier.cluster.wait.acquire
{copies}
W:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [b], 0
@!q bra W
ld.shared.u64 v, [x]
mad.wide.u32 o, rank, 256, out
mad.wide.u32 o, t, 8, o
st.global.u64 [o], v
barrier.cluster.arrive.release
barrier.cluster.wait.acquire
"""


@every_schedule
@pytest.mark.parametrize("mask", [1, 2, 3])
def test_multicast(mask: int, schedule: str, seed: int) -> None:
    """Those of the mask get the bytes at the same offset, and the signal on their own barrier."""
    form = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    # Whoever the mask leaves out is served by a copy of its own.
    other = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [more+256], 256, [b]"
    left_out = "\n".join(
        f"setp.eq.and.u32 p, rank, {rank}, lead\n@p {other}" for rank in range(2) if not mask >> rank & 1
    )
    copies = f"@first {form} [s], [more], 256, [b], mask\n{left_out}"
    text = CLUSTER_TEXT.format(mask=mask, nbytes=256, copies=copies)
    out = np.zeros(64, np.uint64)
    Kernel(text, "more:u64 out:u64").clean(GIVEN[:64], out, grid=2, cluster=2, schedule=schedule, seed=seed)
    for rank in range(2):
        expected = GIVEN[:32] if mask >> rank & 1 else GIVEN[32:64]
        np.testing.assert_array_equal(out[32 * rank : 32 * rank + 32], expected)


@every_schedule
def test_copies_to_a_peer(schedule: str, seed: int) -> None:
    """Bulk copies, reductions and stores of threads to the other CTA, with the barrier there."""
    copies = """
    xor.b32 y, rank, 1
    mapa.shared::cluster.u32 y, s, y
    sub.u32 b, b, s
    add.u32 b, b, y
    add.u32 rank, rank, 5
    mul.wide.u32 v, rank, 1000
    st.shared.u64 [x+256], v
    bar.sync 0
    fence.proxy.async.shared::cta
    @lead cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [y], [s+256], 128, [b]
    add.u32 y, y, 128
    @lead cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u64 [y], [s+256], 64, [b]
    mad.lo.u32 y, t, 4, y
    add.u32 y, y, 64
    setp.lt.u32 p, t, 16
    @p st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [y], rank, [b]
    sub.u32 rank, rank, 5
    mov.u32 b, bar
    """
    text = CLUSTER_TEXT.format(mask=0, nbytes=128 + 64 + 16 * 4, copies=copies)
    out = np.zeros(64, np.uint64)
    Kernel(text, "out:u64").clean(out, grid=2, cluster=2, schedule=schedule, seed=seed)
    for rank in range(2):
        sent = 1000 * (1 - rank + 5)
        word = (1 - rank + 5) * (1 + (1 << 32))
        assert out[32 * rank : 32 * rank + 32].tolist() == [sent] * 24 + [word] * 8


def test_a_barrier_elsewhere_is_found() -> None:
    copies = """
    xor.b32 y, rank, 1
    mapa.shared::cluster.u32 y, b, y
    @first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [more], 256, [y]
    """
    text = CLUSTER_TEXT.format(mask=0, nbytes=256, copies=copies)
    report = Kernel(text, "more:u64 out:u64").run(GIVEN[:64], np.zeros(64, np.uint64), grid=2, cluster=2)
    assert "not in the CTA of the destination" in finding(report, "mbarrier-misuse").message


@every_schedule
@pytest.mark.parametrize("group", ["", ".cta_group::1", ".cta_group::2"])
def test_multicast_of_boxes(group: str, schedule: str, seed: int) -> None:
    """CTA 1 copies one box to both CTAs; in a pair its own barrier hears of both."""
    pair = group == ".cta_group::2"
    text = f"""
    .shared b8 room[512] 128
    .shared b8 bar[8] 8
    .reg u32 t s b rank x
    .reg u64 v o
    .reg u16 mask
    .reg pred lead second p q
    mov.u32 t, %tid.x
    mov.u32 rank, %cluster_ctarank
    mov.u32 s, room
    mov.u32 b, bar
    mov.u16 mask, 3
    setp.eq.u32 lead, t, 0
    setp.eq.and.u32 second, rank, 1, lead
    @lead mbarrier.init.shared::cta.b64 [b], 1
    fence.proxy.async.shared::cta
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], {512 if pair else 256}
    barrier.cluster.arrive.release
    barrier.cluster.wait.acquire
    @second cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster{group} [s], [map, {{0, 3}}], [b], mask
    setp.eq.u32 p, rank, {0 if pair else 2}
    @p bra HEARD
    W:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [b], 0
    @!q bra W
    HEARD:
    barrier.cluster.arrive.release
    barrier.cluster.wait.acquire
    mad.lo.u32 x, t, 8, s
    ld.shared.u64 v, [x]
    mad.wide.u32 o, rank, 256, out
    mad.wide.u32 o, t, 8, o
    st.global.u64 [o], v
    """
    matrix = np.arange(1, 9 * 64 + 1, dtype=np.uint16).reshape(9, 64)
    out = np.zeros(64, np.uint64)
    kernel = Kernel(text, "map:map out:u64", target="sm_100a")
    tensor_map = TensorMap.tiled(matrix, box=(2, 64))
    kernel.clean(tensor_map, out, grid=2, cluster=2, schedule=schedule, seed=seed)
    assert out.tobytes() == 2 * matrix[3:5].tobytes()


# --- CTAs that are not there --------------------------------------------------------------------

_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
#: What CTA 0 does to CTA 1: y is its room, x its barrier.
TO_A_PEER = {
    "copy": "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [y], [s], 128, [x]",
    "load": f"{_LOAD} [y], [more], 128, [x]",
    "multicast": f"{_LOAD}.multicast::cluster [s], [more], 128, [b], mask",
    "reduction": "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [y], [s], 128, [x]",
    "st.async": "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [y], t, [x]",
    "red.async": "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [y], t, [x]",
    "arrival": "mbarrier.arrive.shared::cluster.b64 _, [x]",
    "arrival with bytes": "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [x], 128",
    "expect_tx": "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [x], 128",
    "complete_tx": "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [x], 128",
}
_PEER = """
.shared b8 room[512] 128
.shared b8 bar[8] 8
.reg u32 t s b rank x y
.reg u64 v
.reg u16 mask
.reg pred lead first p
mov.u32 t, %tid.x
mov.u32 rank, %cluster_ctarank
mov.u32 s, room
mov.u32 b, bar
mov.u16 mask, {mask}
setp.eq.u32 lead, t, 0
setp.eq.and.u32 first, rank, 0, lead
mov.u64 v, 0
mad.lo.u32 x, t, 16, s
st.shared.u64 [x], v
st.shared.u64 [x+8], v
@lead mbarrier.init.shared::cta.b64 [b], 1
mapa.shared::cluster.u32 y, s, 1
mapa.shared::cluster.u32 x, b, 1
fence.proxy.async.shared::cta
barrier.cluster.arrive.release
barrier.cluster.wait.acquire
{body}
END:
"""
_LEAVE = "setp.eq.u32 p, rank, 1\n@p bra END\nnanosleep.u32 1000\n"


def _peer(body: str, schedule: str = "eager", mask: int = 2) -> Report:
    text = _PEER.format(mask=mask, body=body)
    return Kernel(text, "more:u64").run(GIVEN[:64], grid=2, cluster=2, schedule=schedule)


@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize("what", TO_A_PEER)
def test_a_cta_that_has_exited_is_out_of_reach(what: str, schedule: str) -> None:
    report = _peer(f"{_LEAVE}@first {TO_A_PEER[what]} // bad", schedule)
    assert "the CTA of rank 1 has exited" in finding(report, "cluster-lifetime").message


@pytest.mark.parametrize("what", ["st.async", "copy", "arrival"])
def test_a_rank_that_the_cluster_does_not_have(what: str) -> None:
    body = f"add.u32 y, y, 0x1000000\nadd.u32 x, x, 0x1000000\n@first {TO_A_PEER[what]}"
    assert "the cluster has no CTA of rank 2" in finding(_peer(body), "out-of-bounds").message


def test_a_mask_with_a_cta_that_the_cluster_does_not_have() -> None:
    body = f"@first {TO_A_PEER['multicast']}"
    assert "the cluster has no CTA of rank 3" in finding(_peer(body, mask=0b1001), "out-of-bounds").message


@pytest.mark.parametrize(
    ("operation", "allowed"),
    [
        ("mbarrier.init.b64 [v], 1", False),
        ("mbarrier.inval.b64 [v]", False),
        ("mbarrier.test_wait.parity.b64 p, [v], 1", False),
        ("mbarrier.try_wait.parity.b64 p, [v], 1", False),
        ("cp.async.mbarrier.arrive.noinc.b64 [v]", False),
        ("mbarrier.arrive.release.cluster.b64 _, [v]", True),
        ("mbarrier.arrive.expect_tx.release.cluster.b64 _, [v], 0", True),
    ],
)
def test_what_a_thread_may_do_to_an_object_of_another_cta(operation: str, allowed: bool) -> None:
    """Arrive and count bytes; begin, end and ask are for the own CTA's threads."""
    meet = "barrier.cluster.arrive.release\nbarrier.cluster.wait.acquire"
    report = _peer(f"cvt.u64.u32 v, x\ncvta.shared::cluster.u64 v, v\n@first {operation}\n{meet}")
    if allowed:
        assert report.verdict == "clean", report
    else:
        assert "in the CTA of rank 1" in finding(report, "mbarrier-misuse").message
