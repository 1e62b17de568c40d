"""Stores of several threads to one place: what is a race, and what compilers do on purpose."""

from __future__ import annotations

import numpy as np

from pyptx import sim
from pyptx.sim import Report

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out_param) .reqntid 64
{
.reg .pred p, q; .reg .b32 tid; .reg .b64 out;
.shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar;
ld.param.u64 out, [out_param]; mov.u32 tid, %tid.x; setp.eq.u32 p, tid, 0;
"""


def _run(body: str) -> Report:
    return sim.load(_HEAD + body + "ret;\n}\n").launch(grid=1, block=64, args=[np.zeros(32, np.uint32)])


def _rules(body: str) -> list[str]:
    return [finding.rule.name for finding in _run(body).findings]


#: Lane 0 of warp 0 alone learns what warp 1 did.
_LEARNS = """
@p mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
setp.eq.u32 q, tid, 32; @q mbarrier.arrive.shared::cta.b64 _, [bar];
@!p bra STORE;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0; @!q bra WAIT;
STORE:
"""


def test_lanes_that_know_different_things_may_store_one_value() -> None:
    assert _rules(_LEARNS + "setp.lt.u32 q, tid, 32; @q st.shared.b32 [tile], 5;") == []


def test_lanes_that_know_different_things_and_store_different_values_collide() -> None:
    assert "store-collision" in _rules(_LEARNS + "setp.lt.u32 q, tid, 32; @q st.shared.b32 [tile], tid;")


def _copies(value: str) -> str:
    """Threads 0 and 32 fill a tile each, with one value or with two, and copy it to the same place."""
    return f"""
.reg .b32 at, half, one; and.b32 half, tid, 32; mov.u32 one, 7; mov.u32 at, tile; add.u32 at, at, half;
and.b32 tid, tid, 31; setp.eq.u32 p, tid, 0; {value}
@p st.shared.v4.b32 [at], {{one, one, one, one}};
fence.proxy.async.shared::cta;
@p cp.async.bulk.global.shared::cta.bulk_group [out], [at], 16;
@p cp.async.bulk.commit_group;
@p cp.async.bulk.wait_group 0;
"""


def test_copies_of_equal_bytes_are_for_review() -> None:
    assert _rules(_copies("")) == ["store-collision"]


def test_copies_of_different_bytes_race() -> None:
    assert _rules(_copies("add.u32 one, one, half;")) == ["data-race"]


def test_warps_of_one_store_that_leave_the_first_value_race() -> None:
    # Warp 0 stores 7, warp 1 the zero that was there before.
    body = "setp.lt.u32 q, tid, 32; and.b32 tid, tid, 31; .reg .b64 at; mad.wide.u32 at, tid, 4, out;"
    assert _rules(body + "selp.b32 tid, 7, 0, q; st.global.b32 [at], tid;") == ["data-race"]
    assert _rules(body + "st.global.b32 [at], tid;") == []
