"""Loads that ptxas puts in front of instructions that precede them in PTX: their latencies overlap."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx import sim
from pyptx.timing.constants import gpu

H200 = gpu("h200")
#: Loads of a warp, and floats from one to the next.
LOADS, APART = 6, 4096
#: Cycles of one more load, of its store and the code around it, at most.
MORE = 60


def cycles(loads: int, between: str) -> float:
    """Return what a warp takes that stores each of its loads to shared memory before the next load."""
    steps = "\n".join(
        f"ld.global.f32 %f{n}, [%a0+{4 * APART * n}];\n"
        f"mov.b32 %r{n}, %f{n};\nst.shared.u32 [%t+{128 * n}], %r{n};\n{between}"
        for n in range(loads)
    )
    text = (
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry f(.param .u64 p) {\n"
        ".reg .b64 %a<3>; .reg .f32 %f<20>; .reg .b32 %r<20>; .reg .b32 %t; .reg .b64 %b;\n"
        ".shared .align 128 .b8 buffer[4096];\n"
        "ld.param.u64 %b, [p]; cvta.to.global.u64 %b, %b; mov.u32 %t, %tid.x; shl.b32 %t, %t, 2;\n"
        "cvt.u64.u32 %a1, %t; add.s64 %a0, %b, %a1; mov.u32 %r19, buffer; add.u32 %t, %t, %r19;\n"
        f"{steps}\nbar.sync 0;\nld.shared.f32 %f19, [%t]; st.global.f32 [%a0], %f19;\nret;\n}}\n"
    )
    array = sim.unknown((LOADS * APART,), "f32")
    found = pyptx.predict(sim.load(text), grid=1, block=32, args=[array], gpu="h200", clock=1700.0)
    assert str(found.verdict) == "clean" and found.schedule == "ptxas"
    return found.cycles


def test_loads_that_ptxas_moves_to_the_front_wait_together() -> None:
    latency = H200.value("ldg.latency_hbm_clk")
    one, all_of_them = cycles(1, ""), cycles(LOADS, "")
    assert one < all_of_them < one + MORE * (LOADS - 1) < one + latency


def test_a_load_behind_a_branch_that_became_predicates_waits_with_the_one_before() -> None:
    def cycles_of(second: bool) -> float:
        body = "ld.global.u32 %r2, [%a0]; add.u32 %r1, %r1, %r2;\n"
        if second:
            body += (
                "add.u32 %r3, %r4, 64; setp.ge.u32 %p1, %r3, %r0; @%p1 bra over;\n"
                f"ld.global.u32 %r2, [%a0+{4 * APART}]; add.u32 %r1, %r1, %r2;\nover:\n"
            )
        text = (
            ".version 8.7\n.target sm_90a\n.address_size 64\n"
            ".visible .entry f(.param .u64 p, .param .u32 n) {\n"
            ".reg .b64 %a<3>; .reg .b32 %r<9>; .reg .pred %p<3>;\n"
            "ld.param.u64 %a1, [p]; cvta.to.global.u64 %a1, %a1; ld.param.u32 %r0, [n]; mov.u32 %r1, 0;\n"
            "mov.u32 %r4, %tid.x; mul.wide.u32 %a2, %r4, 4; add.s64 %a0, %a1, %a2;\n"
            f'again: .pragma "nounroll";\n{body}'
            f"add.s64 %a0, %a0, {8 * APART}; add.u32 %r4, %r4, 128; setp.lt.u32 %p0, %r4, %r0;\n"
            "@%p0 bra again;\nst.global.u32 [%a1], %r1;\nret;\n}\n"
        )
        array = sim.unknown((20 * APART,), "u32")
        args = [array, np.uint32(1024)]
        found = pyptx.predict(sim.load(text), grid=1, block=32, args=args, gpu="h200", clock=1700.0)
        assert str(found.verdict) == "clean" and found.schedule == "ptxas"
        return found.cycles

    one, two = cycles_of(second=False), cycles_of(second=True)
    assert one < two < one + 8 * MORE < one + 8 * H200.value("ldg.latency_hbm_clk")


@pytest.mark.full
def test_loads_wait_one_by_one_where_ptxas_leaves_them() -> None:
    latency = H200.value("ldg.latency_hbm_clk")
    one, all_of_them = cycles(1, "bar.sync 0;"), cycles(LOADS, "bar.sync 0;")
    assert all_of_them - one == pytest.approx((LOADS - 1) * latency, rel=0.2)
