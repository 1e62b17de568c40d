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
.global .align 4 .b32 g[4] = {{11, 22, 33, 44}};
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .pred %p<2>; .reg .v2 .b32 %v;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    mov.b32 %v.x, 0;
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
    out = np.array([2, 5], np.uint32)
    report = module.launch("k", grid=1, block=1, args=[out])
    return report, int(out[0])


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("ld.global.u32 {%r4}, [%rd1]; add.u32 %r4, %r4, 3;", 5),
        ("mov.pred %p1, -1; selp.u32 %r4, 1, 2, %p1;", 1),
        ("st.global.u32 [%rd1], {%r1}; ld.global.u32 %r4, [%rd1];", 0),
        ("add.u32 %r4, %r1+4, 5;", 9),
        ("mov.b32 %v.x, 7; mov.b32 %r4, %v.x;", 7),
        ("ld.global.u32 %r4, g[1];", 22),
        ("ld.global.v2.b32 %v, [%rd1]; sub.u32 %r4, %v.y, %v.x;", 3),
        ("mov.b32 %v.y, 7; st.global.v2.b32 [%rd1], %v; ld.global.b32 %r4, [%rd1+4];", 7),
        ("mov.u64 %rd2, g[3]; ld.global.u32 %r4, [%rd2];", 44),
    ],
)
def test_executed(body: str, result: int, ptxas: Tool) -> None:
    report, word = run(body, ptxas)
    assert report.verdict == Verdict.CLEAN and word == result
