"""Which parameters a kernel writes through."""

from __future__ import annotations

import pytest

from pyptx.flow.written import written_parameters
from pyptx.ir import parse_module
from tests.entry.torch_kernels import axpy
from tests.examples.loading import load_example


def of(body: str) -> set[str]:
    text = f"""
.version 8.0
.target sm_90a
.address_size 64
.func touch(.reg .u64 %p) {{ ret; }}
.visible .entry k(.param .u64 a, .param .u64 b, .param .align 64 .b8 m[128])
{{
    .reg .u64 %a, %b, %c;
    .reg .u32 %v, %w;
    .reg .pred %q;
    .shared .align 128 .b8 s[1024];
    ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    {body}
    ret;
}}
"""
    return written_parameters(parse_module(text).functions[1])


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("ld.global.u32 %v, [%a]; st.global.u32 [%b], %v;", {"b"}),
        ("cvta.to.global.u64 %c, %a; add.u64 %c, %c, 4; st.global.u32 [%c+8], %v;", {"a"}),
        ("st.global.u64 [%b], %a;", {"b"}),
        ("ld.global.u64 %c, [%a]; add.u64 %c, %b, %c; st.global.u32 [%c], %v;", {"b"}),
        ("L: st.global.u32 [%c], %v; mov.u64 %c, %a; @%q bra L;", {"a"}),
        ("selp.b64 %c, %a, %b, %q; red.global.add.u32 [%c], 1;", {"a", "b"}),
        ("atom.global.add.u32 %v, [%a], 1; st.shared.u32 [s], %v;", {"a"}),
        ("prefetch.global.L2 [%a];", set()),
        ("cp.async.bulk.prefetch.L2.global [%a], 64;", set()),
        ("cp.async.bulk.global.shared::cta.bulk_group [%b], [s], 64;", {"b"}),
        ("cp.async.ca.shared.global [s], [%a], 16;", set()),
        ("mov.b64 %c, m; cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%c, {%v}], [s];", {"m"}),
        ("call touch, (%a);", {"a"}),
    ],
)
def test_written_parameters(body: str, written: set[str]) -> None:
    assert of(body) == written


def test_kernels() -> None:
    assert written_parameters(axpy().module(N=64, K=64).functions[0]) == {"z"}
    copy = load_example("hopper/tma_copy.py").tma_copy
    assert written_parameters(copy.module(M=128, N=256).functions[0]) == {"B"}
