"""A load of what nothing wrote: an error where the value is used, for review where a branch comes first.

Compilers load early, before the branch that needs the value: then it is the value that is undefined, not the access.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry early(.param .u64 out)
{{
    .reg .pred p, q; .reg .b32 lane, value, other; .reg .b64 to;
    .shared .align 4 .b8 slot[256];
    ld.param.u64 to, [out]; mov.u32 lane, %tid.x; mov.u32 other, 3;
    setp.gt.u32 p, lane, 200;
    {body}
done:
    st.global.u32 [to], other;
    ret;
}}
"""
LOAD = "ld.shared.b32 value, [slot];"
CASES = {
    "not used": (LOAD, "uninitialized-read"),
    "used behind the branch": (f"{LOAD} @!p bra done; add.u32 other, value, 1;", "undefined-load"),
    "used at once": (f"{LOAD} add.u32 other, value, 1;", "uninitialized-read"),
    "arithmetic before the branch": (f"{LOAD} add.u32 value, value, 1; @!p bra done;", "undefined-load"),
    "arithmetic before a branch back": (
        f"again: {LOAD} add.u32 other, value, 1; add.u32 lane, lane, 1; setp.lt.u32 q, lane, 4; @q bra again;",
        "uninitialized-read",
    ),
    "stored before the branch": (f"{LOAD} st.global.u32 [to], value; @!p bra done;", "uninitialized-read"),
    "what follows from it decides": (
        f"{LOAD} add.u32 value, value, 1; setp.ne.u32 q, value, 0; @q bra done; mov.u32 other, 1;",
        "uninitialized-read",
    ),
    "decides the branch": (
        f"{LOAD} setp.ne.u32 q, value, 0; @q bra done; mov.u32 other, 1;",
        "uninitialized-read",
    ),
    "used as a guard's operand": (f"{LOAD} @p add.u32 other, value, 1;", "uninitialized-read"),
    "an atomic": ("atom.shared.add.u32 value, [slot], 1;", "uninitialized-read"),
}


@pytest.mark.parametrize("threads", [1, 32, 96])
@pytest.mark.parametrize("case", CASES)
def test_where_the_value_is_used(case: str, threads: int) -> None:
    body, rule = CASES[case]
    out = np.zeros(1, np.uint32)
    report = sim.load(TEXT.format(body=body)).launch(grid=1, block=threads, args=[out])
    assert [finding.rule.name for finding in report.findings] == [rule], str(report)
    assert report.verdict == ("review" if rule == "undefined-load" else "error")
    assert "was never written" in str(report)
