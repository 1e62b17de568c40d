"""An mbarrier that one lane invalidates after its warp has met at ``match.sync``, as libcu++ does."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out_param) .reqntid 32
{{
.reg .pred p, q; .reg .b32 tid, mask;
.shared .align 8 .b64 bar; .shared .b32 word;
mov.u32 tid, %tid.x; setp.eq.u32 p, tid, 0;
@p mbarrier.init.shared::cta.b64 [bar], 32;
bar.warp.sync -1;
mbarrier.arrive.shared::cta.b64 _, [bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0; @!q bra WAIT;
{body}
ret;
}}
"""


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        ("match.any.sync.b32 mask, 1, -1; @p mbarrier.inval.shared::cta.b64 [bar];", {"relaxed-handover"}),
        ("match.all.sync.b32 mask, 1, -1; @p mbarrier.inval.shared::cta.b64 [bar];", {"relaxed-handover"}),
        ("vote.sync.ballot.b32 mask, p, -1; @p mbarrier.inval.shared::cta.b64 [bar];", {"data-race"}),
        ("bar.warp.sync -1; @p mbarrier.inval.shared::cta.b64 [bar];", set()),
        ("@!p st.shared.b32 [word], tid; match.any.sync.b32 mask, 1, -1; @p ld.shared.b32 tid, [word];", {"data-race"}),
    ],
    ids=["any", "all", "vote", "barrier", "data"],
)  # fmt: skip
def test_match_orders_execution_alone(body: str, rules: set[str]) -> None:
    report = sim.load(_TEXT.format(body=body)).launch(grid=1, block=32, args=[np.zeros(4, np.uint32)])
    assert {finding.rule.name for finding in report.findings} - {"store-collision"} == rules, str(report)
