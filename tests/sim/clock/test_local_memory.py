"""Registers that ptxas keeps in local memory: what they cost, and where warps stand for them."""

from __future__ import annotations

import pytest

import pyptx
from pyptx import sim
from pyptx.sim import LoadedModule
from pyptx.timeline import Cause
from pyptx.timing.constants import gpu
from pyptx.timing.opcodes import Pipes
from pyptx.toolchain import disassemble
from pyptx.toolchain.schedule.costs import statement_costs
from pyptx.toolchain.schedule.statements import code_of, statement_cubin

pytestmark = pytest.mark.usefixtures("ptxas")

#: Numbers that a thread keeps over the rounds of a loop.
KEPT = 96


def kernel(registers: int, depot: int = 0) -> LoadedModule:
    """Return a kernel of threads that may have so many registers, with bytes of local variables."""
    loads = "\n".join(f"ld.global.f32 %f{n}, [%rd2+{4096 * n}];" for n in range(KEPT))
    rounds = "\n".join(f"fma.rn.f32 %f100, %f100, %f{n}, %f{n};" for n in range(KEPT))
    local = (
        f".local .align 4 .b8 depot[{depot}];\nmul.wide.u32 %rd4, %r2, 4;\nmov.u64 %rd3, depot;\n"
        "add.u64 %rd4, %rd3, %rd4;\nst.local.f32 [%rd4], %f0;\nld.local.f32 %f100, [%rd3];\n"
    )
    return sim.load(
        f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry f(.param .u64 out, .param .u32 rounds)
.maxnreg {registers}
{{
.reg .pred %p<2>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
.reg .f32 %f<128>;
ld.param.u64 %rd1, [out];
ld.param.u32 %r1, [rounds];
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd2, %rd1, %rd2;
{loads}
mov.f32 %f100, 0f3F800000;
{local if depot else ""}
LOOP:
.pragma "nounroll";
{rounds}
sub.u32 %r1, %r1, 1;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra LOOP;
st.global.f32 [%rd2], %f100;
ret;
}}
"""
    )


def predicted(registers: int, rounds: int, *, shared: int = 0) -> pyptx.Prediction:
    """Return the prediction of a CTA of 5 warps with so much shared memory."""
    return pyptx.predict(
        kernel(registers),
        grid=1,
        block=160,
        dynamic_smem=shared,
        args=[sim.unknown((1024 * KEPT,), "f32"), rounds],
        gpu="h200",
        clock=1700.0,
        l2="warm",
    )


def a_round(registers: int, *, shared: int = 0) -> float:
    """Return the cycles of a round of the loop."""
    found = [predicted(registers, rounds, shared=shared).cycles for rounds in (2, 6)]
    return (found[1] - found[0]) / 4


@pytest.mark.parametrize(("depot", "most"), [(0, 0), (512, 20)])
def test_spills_of_the_machine_code_are_found(depot: int, most: int) -> None:
    module = kernel(32, depot).module
    cubin = statement_cubin(module, "sm_90a", "f")
    found = [
        each
        for cost in statement_costs(code_of(cubin), module, Pipes(gpu("h200"))).values()
        for each in cost.spills
    ]
    # nvdisasm says which accesses spill. Those of statements that access local variables are not told apart.
    lines = [line for line in disassemble(cubin).splitlines() if "SpillRefill" in line]
    for stores, opcode in ((True, "STL"), (False, "LDL")):
        number = sum(each.stores is stores for each in found)
        assert 40 < number <= sum(opcode in line for line in lines) <= number + most
    assert all(each.every == 1 for each in found)


@pytest.mark.full
def test_warps_stand_for_spills_that_l1_does_not_hold() -> None:
    beside = 224 << 10  # of 256 KiB
    assert not any(each.cause is Cause.SPILLS for each in predicted(128, 6).stalls)
    assert a_round(64, shared=beside) > a_round(64) + 200
    held, lost = (
        sum(each.cycles for each in predicted(64, 6, shared=shared).stalls if each.cause is Cause.SPILLS)
        for shared in (0, beside)
    )
    assert lost > held + 5 * 4 * 250
