"""Operands that only texts have: braces around one register, vector registers, sums, array elements."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.findings import Verdict
from pyptx.ir import parse_module
from pyptx.isa import check_module
from pyptx.toolchain import Tool, check_text


def text_of(body: str) -> str:
    return f""".version 8.8
.target sm_90a
.address_size 64
.global .align 4 .b32 g[4];
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .pred %p<2>; .reg .v2 .b32 %v;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    {body}
    st.global.u32 [%rd1], %r4;
    ret;
}}
"""


def run(body: str, ptxas: Tool) -> tuple[sim.Report, int]:
    """What the simulator makes of what ptxas and the check of modules take, and the word that it stores."""
    text = text_of(body)
    assert check_text(text, ptxas=ptxas).ok
    assert check_module(parse_module(text)) == []
    module = sim.load(text)
    out = np.full(1, 2, np.uint32)
    report = module.launch("k", grid=1, block=1, args=[out])
    return report, int(out[0])


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("ld.global.u32 {%r4}, [%rd1]; add.u32 %r4, %r4, 3;", 5),
        ("mov.pred %p1, -1; selp.u32 %r4, 1, 2, %p1;", 1),
        ("st.global.u32 [%rd1], {%r1}; ld.global.u32 %r4, [%rd1];", 0),
    ],
)
def test_executed(body: str, result: int, ptxas: Tool) -> None:
    report, word = run(body, ptxas)
    assert report.verdict == Verdict.CLEAN and word == result


@pytest.mark.parametrize(
    "body",
    [
        "add.u32 %r4, %r1+4, 5;",
        "mov.b32 %v.x, 7; mov.b32 %r4, %v.x;",
        "ld.global.u32 %r4, g[1];",
        "ld.global.v2.b32 %v, [%rd1]; mov.b32 %r4, %v.y;",
    ],
)
def test_not_executed_is_never_clean(body: str, ptxas: Tool) -> None:
    report, _ = run(body, ptxas)
    assert report.verdict == Verdict.INCOMPLETE
    assert "vector register, a sum or an array's element" in report.findings[0].message
