"""A wait for a phase that its thread knows to be over: an error only where a late look would wait forever."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim

_TEXT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry two(.param .u64 out, .param .u64 data)
{{
    .reg .pred p, q; .reg .b32 thread, lane; .reg .b64 to; .reg .b64 from;
    .shared .align 8 .b64 bar; .shared .align 8 .b64 go; .shared .align 16 .b8 tile[128];
    ld.param.u64 to, [out]; ld.param.u64 from, [data]; mov.u32 thread, %tid.x; and.b32 lane, thread, 31;
    setp.ne.u32 p, thread, 0; @p bra READY;
    mbarrier.init.shared::cta.b64 [bar], {count};
    mbarrier.init.shared::cta.b64 [go], 1;
READY:
    bar.sync 0;
    setp.ne.u32 p, lane, 0; @p bra END;
    setp.eq.u32 p, thread, 0; @p bra OTHER;
    {first}
FIRST:
    mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0; @!q bra FIRST;
    {before}
SECOND:
    mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0; @!q bra SECOND;
    {behind}
    st.global.u32 [to], 1;
    bra END;
OTHER:
GO:
    mbarrier.try_wait.parity.shared::cta.b64 q, [go], 0; @!q bra GO;
    {later}
END:
    ret;
}}
"""
_SECOND_WAIT = 22  # its line
_ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [bar];"
_TELL = "mbarrier.arrive.shared::cta.b64 _, [go];"
#: The next phase ends when 128 bytes have come, under ``late`` as late as possible.
_COPY = (
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128; "
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [from], 128, [bar];"
)


def _run(*, before: str = "", behind: str = "", later: str = _ARRIVE, count: int = 1) -> sim.Report:
    text = _TEXT.format(before=before, behind=behind, later=later, count=count, first=count * _ARRIVE)
    out = np.zeros(1, np.uint32)
    data = np.zeros(128, np.uint8)
    report = sim.load(text).launch(grid=1, block=64, args=[out, data], schedule="late")
    assert out[0] == 1
    return report


def test_a_wait_that_never_ends_if_it_looks_late() -> None:
    """The thread starts the copy of the next phase, and then waits for the phase before once more."""
    findings = {each.rule.name: each for each in _run(before=_COPY, behind=_TELL, later="").findings}
    assert set(findings) == {"deadlock", "exit-in-flight"}  # no other wait is for the copy
    finding = findings["deadlock"]
    assert "phase 0 has ended" in finding.message
    assert finding.location is not None and finding.location.line == _SECOND_WAIT
    assert "parity 1" in str(finding.remedy)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"behind": _TELL}, id="the next phase begins behind the wait"),
        pytest.param({"before": _TELL, "later": 2 * _ARRIVE}, id="a late wait ends with the phase after"),
        pytest.param({"before": _TELL, "later": ""}, id="no other phase"),
        pytest.param({"before": _TELL, "count": 2}, id="the next phase does not end"),
    ],
)
def test_waits_that_end_under_every_schedule(how: dict[str, str]) -> None:
    report = _run(**how)  # type: ignore[arg-type]
    assert report.verdict != "error", str(report)
