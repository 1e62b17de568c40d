"""Clusters of one CTA: the barrier, ranks in addresses, the windows of generic addresses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.build import Kernel

# --- barrier ----------------------------------------------------------------------------------------

EXCHANGE = """
.reg u32 t n x y
.reg u64 s o
.reg pred p
.shared b8 room[512] 16
mov.u32 t, %tid.x
mov.u64 s, room
mad.wide.u32 s, t, 4, s
mov.u32 x, t
mov.u32 n, 0
ROUND:
st.shared.u32 [s], x
barrier.cluster.arrive.release
barrier.cluster.wait.acquire
add.u32 y, t, 37
rem.u32 y, y, 96
mov.u64 o, room
mad.wide.u32 o, y, 4, o
ld.shared.u32 y, [o]
mad.lo.u32 x, y, 5, x
fence.acq_rel.cluster
barrier.cluster.arrive.relaxed.aligned
barrier.cluster.wait.aligned
add.u32 n, n, 1
setp.lt.u32 p, n, 3
@p bra ROUND
mad.wide.u32 o, t, 4, out
st.global.u32 [o], x
"""


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_threads_exchange_values_around_a_barrier(schedule: str) -> None:
    out = np.zeros(96, np.uint32)
    Kernel(EXCHANGE, "out:u64").clean(out, block=96, schedule=schedule, seed=3)
    values = np.arange(96, dtype=np.uint64)
    for _ in range(3):
        values = (values[(np.arange(96) + 37) % 96] * 5 + values) % (1 << 32)
    np.testing.assert_array_equal(out, values)


def test_a_thread_that_ends_is_not_waited_for() -> None:
    text = """
        .reg u32 t x
        .reg u64 o
        .reg pred p
        .shared b8 room[512] 16
        mov.u32 t, %tid.x
        setp.ge.u32 p, t, 40
        @p exit
        mov.u64 o, room
        mad.wide.u32 o, t, 4, o
        st.shared.u32 [o], t
        barrier.cluster.arrive
        barrier.cluster.wait
        sub.u32 x, 39, t
        mov.u64 o, room
        mad.wide.u32 o, x, 4, o
        ld.shared.u32 x, [o]
        mad.wide.u32 o, t, 4, out
        st.global.u32 [o], x
    """
    out = np.full(64, 99, np.uint32)
    Kernel(text, "out:u64").clean(out, block=64)
    assert out.tolist() == [*range(39, -1, -1), *[99] * 24]


def test_a_thread_that_never_arrives() -> None:
    text = """
        .reg u32 t
        .reg pred p
        mov.u32 t, %tid.x
        setp.eq.u32 p, t, 33
        @p bra APART
        barrier.cluster.arrive
        barrier.cluster.wait
        bra END
        APART:
        bar.sync 1, 64
        END:
    """
    report = Kernel(text, "").run(block=64)
    (found,) = report.findings
    assert found.rule.name == "deadlock"
    assert "barrier.cluster.wait: 1 threads have not arrived" in str(report)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("barrier.cluster.wait", "lane 0 waits without having arrived"),
        ("barrier.cluster.arrive\nbarrier.cluster.arrive", "lane 0 arrives again without having waited"),
    ],
)
def test_arrivals_and_waits_alternate(text: str, message: str) -> None:
    (found,) = Kernel(text, "").run(block=32).findings
    assert found.rule.name == "divergent-collective"
    assert message in found.message


# --- addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 32])
def test_ranks_in_addresses(block: int) -> None:
    text = """
        .reg u32 a b r
        .reg u64 c d e
        .shared b8 room[512] 16
        mov.u32 a, room
        mov.u64 c, room
        cvta.shared.u64 d, c
        mapa.shared::cluster.u32 b, a, 3
        sub.u32 a, b, a
        st.global.u32 [out], a
        getctarank.shared::cluster.u32 r, b
        st.global.u32 [out+4], r
        mov.u32 r, 2
        mapa.u64 e, d, r
        getctarank.u64 r, e
        st.global.u32 [out+8], r
        sub.u64 e, e, d
        st.global.u32 [out+12], e
        mapa.shared::cluster.u64 e, c, 1
        mapa.shared::cluster.u64 e, e, 0
        getctarank.shared::cluster.u64 r, e
        st.global.u32 [out+16], r
        st.shared.u32 [room], 77
        bar.sync 0
        ld.shared::cluster.u32 r, [e]
        st.global.u32 [out+20], r
    """
    out = np.ones(6, np.uint32)
    Kernel(text, "out:u64").clean(out, block=block)
    assert out.tolist() == [3 << 24, 3, 2, 2 << 24, 0, 77]


@pytest.mark.parametrize("block", [1, 32])
def test_windows(block: int) -> None:
    """Addresses of shared memory, of a parameter and of an array, each asked about each space."""
    spaces = ["shared", "shared::cta", "shared::cluster", "global", "local", "const", "param", "param::entry"]
    text = """
        .reg u64 a0..a3
        .reg u32 x
        .reg pred p
        .shared b8 room[16] 16
        mov.u64 a0, room
        cvta.shared::cluster.u64 a0, a0
        mov.u64 a1, &out
        cvta.param.u64 a1, a1
        mov.u64 a2, out
        mov.u32 x, 1
        mapa.u64 a3, a0, x
    """
    for row in range(4):
        for column, space in enumerate(spaces):
            text += f"isspacep.{space} p, a{row}\nselp.u32 x, 1, 0, p\n"
            text += f"st.global.u32 [out+{4 * (row * len(spaces) + column)}], x\n"
    out = np.full((4, len(spaces)), 9, np.uint32)
    Kernel(text, "out:u64").clean(out, block=block)
    # The parameters' window lies within global memory; another CTA's shared memory is the cluster's, not the CTA's.
    assert out.tolist() == [
        [1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 1, 1],
        [0, 0, 0, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize(
    "space", ["shared", "shared::cta", "shared::cluster", "param", "param::entry", "const", "local"]
)
@pytest.mark.parametrize("block", [1, 32])
def test_an_address_there_and_back(space: str, block: int) -> None:
    text = f"""
        .reg u64 a b c
        mov.u64 a, 1040
        cvta.{space}.u64 b, a
        cvta.to.{space}.u64 c, b
        st.global.u64 [out], b
        st.global.u64 [out+8], c
    """
    out = np.zeros(2, np.uint64)
    Kernel(text, "out:u64").clean(out, block=block)
    assert out[1] == 1040
    # A window begins at a multiple of 4 GiB.
    assert out[0] > 1 << 32 and out[0] % (1 << 32) == 1040
