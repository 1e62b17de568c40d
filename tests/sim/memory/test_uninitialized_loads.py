"""A load of what nothing wrote: an error where the value is used, and for review where no instruction uses it.

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
    "not used": (LOAD, "undefined-load"),
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
    "used where a guard is false": (f"{LOAD} @p add.u32 other, value, 1;", "undefined-load"),
    "used where a guard is true": (f"{LOAD} @!p add.u32 other, value, 1;", "uninitialized-read"),
    "selp may drop it": (f"{LOAD} selp.b32 other, value, 7, p;", "undefined-load"),
    "selp and another use": (
        f"{LOAD} selp.b32 other, value, 7, p; add.u32 other, other, value;",
        "uninitialized-read",
    ),
    "an element of a vector": (
        "st.shared.u32 [slot], 5; ld.shared.v2.b32 {other, value}, [slot];",
        "padding-read",
    ),
    "all of a vector": (
        "ld.shared.v2.b32 {other, value}, [slot]; add.u32 other, other, value;",
        "uninitialized-read",
    ),
    "half an element of a vector": (
        "st.shared.u16 [slot], 5; ld.shared.v2.b32 {other, value}, [slot]; add.u32 other, other, value;",
        "uninitialized-read",
    ),
    "half a scalar that is copied": (
        "st.shared.u16 [slot], 5; ld.shared.b32 other, [slot];",
        "undefined-load",
    ),
    "half a scalar": (
        "st.shared.u16 [slot], 5; ld.shared.b32 other, [slot]; add.u32 other, other, 1;",
        "uninitialized-read",
    ),
    "an atomic": ("atom.shared.add.u32 value, [slot], 1;", "uninitialized-read"),
}


@pytest.mark.parametrize("threads", [1, 32, 96])
@pytest.mark.parametrize("case", CASES)
def test_where_the_value_is_used(case: str, threads: int) -> None:
    body, rule = CASES[case]
    out = np.zeros(1, np.uint32)
    # All threads write and read one word: races, which are not the point here.
    report = sim.load(TEXT.format(body=body)).launch(grid=1, block=threads, args=[out], sanitize=False)
    assert [finding.rule.name for finding in report.findings] == [rule], str(report)
    assert report.verdict == ("error" if rule == "uninitialized-read" else "review")
    assert "was never written" in str(report)


@pytest.mark.parametrize("load", ["ld.global.u32", "ldu.global.u32", "ld.global.nc.u32"])
def test_every_ordinary_load_may_come_early(load: str) -> None:
    text = f"""
    .version 8.0
    .target sm_90a
    .address_size 64
    .visible .entry early(.param .u64 data)
    {{
        .reg .pred p; .reg .b32 lane, value; .reg .b64 to;
        ld.param.u64 to, [data]; mov.u32 lane, %tid.x; setp.gt.u32 p, lane, 200;
        {load} value, [to];
        @!p bra done;
        st.global.u32 [to], value;
    done:
        ret;
    }}
    """
    data = np.zeros(1, np.uint32)
    report = sim.load(text).launch(grid=1, block=32, args=[data], uninitialized=[0])
    assert [finding.rule.name for finding in report.findings] == ["undefined-load"], str(report)
