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


def _run(body: str, threads: int = 64) -> Report:
    text = _HEAD.replace("reqntid 64", f"reqntid {threads}") + body + "ret;\n}\n"
    return sim.load(text).launch(grid=1, block=threads, args=[np.zeros(32, np.uint32)])


def _rules(body: str, threads: int = 64) -> list[str]:
    return [finding.rule.name for finding in _run(body, threads).findings]


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


def test_warps_whose_lanes_know_different_things_may_store_one_value() -> None:
    # Triton does so where several warps hold the same part of a row, and some lanes load no element.
    loads = """
    .reg .b32 at; .reg .b64 own; and.b32 at, tid, 31; mad.wide.u32 own, at, 4, out;
    setp.lt.u32 q, at, 16; @q ld.global.b32 at, [own];
    """
    assert _rules(loads + "st.shared.b32 [tile], 5;", 128) == []
    assert "data-race" in _rules(loads + "shr.u32 at, tid, 5; st.shared.b32 [tile], at;", 128)


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


#: Each thread copies two words to one place, one after the other.
_TWICE = """
.reg .b32 at; .reg .b64 from; mov.u32 at, tile; setp.ge.u32 q, tid, 1; @q bra END;
st.global.b32 [out], {first}; st.global.b32 [out+4], {second};
mov.u64 from, out;
LOOP: cp.async.ca.shared.global [at], [from], 4;
add.u32 tid, tid, 1; add.u64 from, from, 4; setp.lt.u32 q, tid, 2; @q bra LOOP;
END: cp.async.wait_all;
"""


def test_copies_of_cp_async_of_different_words_race() -> None:
    assert _rules(_TWICE.format(first=7, second=8)) == ["data-race"]


def test_copies_of_cp_async_that_change_nothing_are_for_review() -> None:
    assert _rules(_TWICE.format(first=7, second=7)) == ["store-collision"]
