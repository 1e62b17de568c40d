"""Cycles of the banks of shared memory, and local memory."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx import sim
from pyptx.sim.clock.banks import bank_cycles
from pyptx.sim.memory.access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace

LANES = np.arange(32)


def cycles(starts: np.ndarray, size: int, kind: AccessKind = AccessKind.READ) -> int:
    footprint, lanes = Footprint(starts, size), np.arange(len(starts))
    actor = segment = None
    order, scope = MemoryOrder.WEAK, Scope.NONE
    return bank_cycles(
        Access(kind, StateSpace.SHARED, segment, footprint, actor, lanes, Proxy.GENERIC, order, scope)  # type: ignore[arg-type]
    )


def test_each_matrix_passes_the_banks_alone() -> None:
    # Four matrices of rows 128 bytes apart, two of them in the next 16 bytes: eight rows meet in each.
    rows = LANES % 16 * 128 + LANES // 16 * 16
    assert cycles(rows, 16) == 32
    assert cycles(rows ^ (LANES % 8 * 16), 16) == 4


def test_phases_of_loads_pass_together_where_lanes_want_the_same_in_pairs() -> None:
    # As ncu counts in SGEMMs: two rows for half a warp each, eight rows of four lanes, four pieces in turn.
    assert cycles(LANES // 16 * 512, 16) == 2
    assert cycles(LANES // 4 * 32, 16) == 2
    assert cycles(LANES % 4 * 16, 16) == 4
    assert cycles(LANES % 16 * 32, 16) == 8
    assert cycles(0 * LANES, 8) == 1
    assert cycles(0 * LANES, 16, AccessKind.WRITE) == 4


FRAGMENTS = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry fragments(.param .u64 out)
{
.shared .align 128 .b8 tile[8192];
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [out];
mov.u32 %r8, tile;
LOADS
st.global.u32 [%rd1], %r0;
ret;
}
"""


def shared_cycles(loads: int, columns: int) -> float:
    """Return for how many cycles loads of A of f16, with so many halves from row to row, take the banks."""
    load = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}"
    text = FRAGMENTS.replace("LOADS", f"{load}, [%r8], {columns};\n" * loads)
    array = np.zeros(1, np.uint32)
    found = pyptx.predict(sim.load(text), grid=1, block=32, args=[array], gpu="h200", clock=1980.0)
    return found.busy["shared memory"] * found.cycles


@pytest.mark.parametrize(
    ("columns", "each"), [(72, 4), pytest.param(80, 8, marks=pytest.mark.full), (64, 32)]
)
def test_fragments_pass_the_banks_by_matrices(columns: int, each: int) -> None:
    # Eight rows of 16 bytes: 36 words apart in all banks once, 40 apart twice, 32 apart all in four banks.
    more = shared_cycles(9, columns) - shared_cycles(1, columns)
    assert more == pytest.approx(8 * each, rel=0.01)


LOCAL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry local(.param .u64 out, .param .u32 rounds)
{
.local .align 16 .b8 depot[512];
.reg .pred %p<2>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
.reg .f32 %f<4>;
ld.param.u64 %rd1, [out];
ld.param.u32 %r1, [rounds];
mov.u32 %r2, %tid.x;
mov.u32 %r3, 0;
mov.f32 %f1, 0f3F800000;
LOOP:
add.u32 %r4, %r3, %r2;
and.b32 %r4, %r4, 127;
mul.wide.u32 %rd2, %r3, 4;
and.b64 %rd2, %rd2, 508;
mov.u64 %rd3, depot;
add.u64 %rd4, %rd3, %rd2;
st.local.f32 [%rd4], %f1;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r1;
@%p1 bra LOOP;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd4, %rd3, %rd2;
ld.local.f32 %f2, [%rd4];
add.u64 %rd5, %rd1, %rd2;
st.global.f32 [%rd5], %f2;
ret;
}
"""


@pytest.mark.usefixtures("ptxas")
def test_local_variables_pass_l1() -> None:
    found = [
        pyptx.predict(
            sim.load(LOCAL),
            grid=1,
            block=128,
            args=[sim.unknown((128,), "f32"), rounds],
            gpu="h200",
            clock=1700.0,
        )
        for rounds in (128, 384)
    ]
    # Each warp stores four sectors in a round, of which L1 passes one in a cycle.
    assert found[1].cycles - found[0].cycles > 256 * 4 * 4
