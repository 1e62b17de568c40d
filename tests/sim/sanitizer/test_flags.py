"""Flags in shared memory are initialized by order, not by time: each read of one comes after its first value."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out_param) .reqntid 64
{{
.reg .pred p, q; .reg .b32 tid, x; .shared .b32 flag[32];
mov.u32 tid, %tid.x; setp.eq.u32 p, tid, 0; setp.eq.u32 q, tid, 32;
{body}
ret;
}}
"""
_MESSAGE = """
@p bra RAISE;
@!q bra END;
POLL: ld.acquire.cta.shared.u32 x, [flag]; setp.eq.u32 q, x, 0; @q bra POLL;
bra END;
RAISE: st.release.cta.shared.u32 [flag], 1;
END:
"""
_COUNT = "atom.relaxed.cta.shared.add.u32 x, [flag], 1;"


def _rules(body: str) -> list[str]:
    report = sim.load(_TEXT.format(body=body)).launch(grid=1, block=64, args=[np.zeros(4, np.uint32)])
    return [finding.rule.name for finding in report.findings]


@pytest.mark.parametrize("order", ["", ".volatile", ".relaxed.cta"])
@pytest.mark.parametrize("use", [_MESSAGE, _COUNT])
def test_a_flag_that_a_barrier_initializes(order: str, use: str) -> None:
    begin = f"@p st{order}.shared.u32 [flag], 0;"
    assert _rules(f"{begin} bar.sync 0; {use}") == []
    found = _rules(f"{begin} {use}")
    assert "uninitialized-read" in found or "data-race" in found


def test_a_thread_knows_its_own_initialization() -> None:
    own = ".reg .b32 at; mov.u32 at, flag; mad.lo.u32 at, tid, 4, at; setp.lt.u32 p, tid, 32;"
    count = "@p atom.relaxed.cta.shared.add.u32 x, [at], 1;"
    assert _rules(f"{own} @p st.relaxed.cta.shared.u32 [at], 0; {count}") == []


def test_lanes_do_not_know_the_initialization_of_another_lane() -> None:
    begin = "setp.eq.u32 q, tid, 1; @p st.relaxed.cta.shared.u32 [flag], 0;"
    count = "@q atom.relaxed.cta.shared.add.u32 x, [flag], 1;"
    assert _rules(f"{begin} bar.warp.sync -1; {count}") == []
    assert _rules(f"{begin} {count}") == ["uninitialized-read"]
