"""Loads of an unrolled loop: ptxas issues those of later rounds in earlier ones, or one for several rounds."""

from __future__ import annotations

import pytest

import pyptx
from pyptx import sim
from pyptx.ir import parse_module
from pyptx.timing.access_order import Ahead
from pyptx.timing.constants import gpu
from pyptx.toolchain.schedule.ahead import loads_ahead
from pyptx.toolchain.schedule.costs import StatementCost

H200 = gpu("h200")
#: Rounds that ptxas unrolls whole.
ROUNDS = 8


def cycles(rounds: int, apart: int) -> float:
    """Return what a warp takes that sums words of shared memory, ``apart`` bytes from round to round."""
    text = (
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry f(.param .u64 p) {\n"
        ".reg .b64 %a; .reg .f32 %f<4>; .reg .b32 %t; .reg .b32 %s; .reg .b32 %i; .reg .pred %q;\n"
        ".shared .align 128 .b8 buffer[16384];\n"
        "ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a; mov.u32 %t, %tid.x; mov.u32 %s, buffer;\n"
        "mad.lo.u32 %s, %t, 64, %s; mov.f32 %f0, 0f00000000; mov.b32 %i, 0;\n"
        "loop: ld.shared.f32 %f1, [%s]; fma.rn.f32 %f0, %f0, %f0, %f1;\n"
        f"add.u32 %s, %s, {apart}; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {rounds}; @%q bra loop;\n"
        "st.global.f32 [%a], %f0;\nret;\n}\n"
    )
    array = sim.unknown((1,), "f32")
    found = pyptx.predict(sim.load(text), grid=1, block=32, args=[array], gpu="h200", clock=1700.0)
    assert str(found.verdict) == "clean" and found.schedule == "ptxas"
    return found.cycles


@pytest.mark.parametrize("apart", [4, 256])
def test_the_latency_passes_once_for_all_rounds(apart: int) -> None:
    assert cycles(ROUNDS, apart) - cycles(1, apart) < 2 * H200.value("lds.latency_clk") + 8 * ROUNDS


def ahead_of(loads: list[int], uses: list[int], copies: int, width: int = 4) -> dict[int, Ahead]:
    """Return what is ahead of a load, statement 2, and its use in a loop of which ptxas made copies."""
    module = parse_module(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.entry f() {\n.reg .f32 %f<3>; .reg .b32 %s;\n"
        "ld.shared.f32 %f1, [%s];\nadd.f32 %f0, %f0, %f1;\nret;\n}\n"
    )
    (function,) = module.functions
    load, use = (n for n, each in enumerate(function.body) if getattr(each, "opcode", "") in ("ld", "add"))
    code = {
        load: StatementCost(copies=copies, positions={7: loads}, accessed=width),
        use: StatementCost(copies=copies, positions={7: uses}),
    }
    return {number - load: each for number, each in loads_ahead(function, code).items()}


@pytest.mark.parametrize(
    ("loads", "uses", "rounds"),
    [
        ([0, 1, 2, 3], [4, 5, 6, 7], (0, 1, 2, 3)),  # all of them in front of the first use
        ([0, 1, 3, 5], [2, 4, 6, 7], (0, 1, 1, 1)),  # one round ahead
        ([0, 1, 4, 5], [2, 3, 6, 7], (0, 1, 0, 1)),  # in pairs
    ],
)
def test_a_load_is_issued_in_the_round_whose_use_follows_it(
    loads: list[int], uses: list[int], rounds: tuple[int, ...]
) -> None:
    assert ahead_of(loads, uses, 4) == {0: Ahead(rounds, 1.0, 4)}


def test_a_load_in_front_of_each_use_is_not_ahead() -> None:
    assert ahead_of([0, 2, 4, 6], [1, 3, 5, 7], 4) == {}


def test_one_wide_load_serves_several_rounds() -> None:
    assert ahead_of([0, 3], [1, 2, 4, 5], 4, 8) == {0: Ahead((0, 1, 0, 1), 0.5, 8)}
