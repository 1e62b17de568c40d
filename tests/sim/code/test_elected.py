"""Copies and products that hardware may carry out twice: which places are found, and which are not."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim

HEAD = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 flags, .param .u64 out)
{
    .reg .pred p, q, f;
    .reg .b32 lane, at, there, bar;
    .reg .b64 flag, to;
    .reg .f32 one;
    .shared .align 128 .b8 staged[128];
    .shared .align 8 .b64 ready;
    ld.param.u64 flag, [flags];
    ld.param.u64 to, [out];
    cvta.to.global.u64 flag, flag;
    cvta.to.global.u64 to, to;
    mov.u32 lane, %laneid;
    mov.u32 at, staged;
    mov.u32 bar, ready;
    mad.lo.u32 at, lane, 4, at;
    mov.f32 one, 0f3F800000;
    st.shared.f32 [at], one;
    setp.eq.u32 f, lane, 0;
    @f mbarrier.init.shared.b64 [bar], 1;
    @f mbarrier.arrive.shared.b64 _, [bar];
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    elect.sync _|p, 0xffffffff;
"""
TAIL = """
    @p cp.async.bulk.commit_group;
    @p cp.async.bulk.wait_group 0;
    ret;
}
"""
ADD = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [to], [staged], 128;"
POLL = "W: ld.acquire.gpu.global.u32 there, [flag]; setp.lt.u32 q, there, 1; @q bra W;"
ONE_LANE = f"@!p bra S; {POLL} S:"
BARRIER = "W: mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0; @!q bra W;"
COUNT = "mov.u32 there, 0; W: add.u32 there, there, 1; setp.lt.u32 q, there, 3; @q bra W;"

TWICE = {
    "a guarded addition": f"{ONE_LANE} @p {ADD}",
    "an addition in a branch": f"{ONE_LANE} @!p bra T; {ADD} T:",
    "a wait at an mbarrier": f"@!p bra S; {BARRIER} S: @p {ADD}",
    "other code between": f"{ONE_LANE} st.shared.f32 [at], one; fence.proxy.async.shared::cta; @p {ADD}",
    "a polling loop of compare-and-swap": "@!p bra S; W: atom.global.cas.b32 there, [flag], 1, 1; "
    f"setp.ne.u32 q, there, 1; @q bra W; S: @p {ADD}",
}
ONCE = {
    "the warp is brought together": f"{ONE_LANE} bar.warp.sync 0xffffffff; @p {ADD}",
    "a barrier of the CTA": f"{ONE_LANE} bar.sync 0; @p {ADD}",
    "elected anew": f"{ONE_LANE} elect.sync _|p, 0xffffffff; @p {ADD}",
    "all lanes wait": f"{POLL} @p {ADD}",
    "the addition in the branch of the loop": f"@!p bra S; {POLL} {ADD} S:",
    "a loop that only counts": f"@!p bra S; {COUNT} S: @p {ADD}",
    "one load": f"@!p bra S; ld.acquire.gpu.global.u32 there, [flag]; S: @p {ADD}",
    "another lane's predicate": f"{ONE_LANE} @f {ADD}",
}


def rules(body: str) -> set[str]:
    out = np.zeros(32, np.float32)
    report = sim.load(HEAD + body + TAIL).launch(
        grid=1, block=32, args=[np.ones(1, np.uint32), out], sanitize=True
    )
    assert (out == 1).all()
    return {finding.rule.name for finding in report.findings}


@pytest.mark.parametrize("body", TWICE.values(), ids=TWICE)
@pytest.mark.sample(2)
def test_it_may_be_carried_out_twice(body: str) -> None:
    assert "elected-twice" in rules(body)


@pytest.mark.parametrize("body", ONCE.values(), ids=ONCE)
@pytest.mark.sample(3)
def test_it_is_carried_out_once(body: str) -> None:
    assert "elected-twice" not in rules(body)


def test_what_does_not_run_is_not_reported() -> None:
    never = f"setp.ne.u32 q, lane, lane; @!q bra T; {ONE_LANE} @p {ADD} bar.warp.sync 0xffffffff; T: @p {ADD}"
    assert "elected-twice" not in rules(never)
