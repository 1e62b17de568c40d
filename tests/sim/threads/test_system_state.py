"""What the system sets up for a launch: the workspace of a cooperative grid, its part of shared memory, sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.build import Kernel

#: Every CTA adds 1 to a word of the grid's workspace and waits until all have.
GRID_BARRIER = """
.reg u32 t low high n all
.reg u64 work o c
.reg pred p
mov.u32 t, %tid.x
mov.b32 high, %envreg1
mov.b32 low, %envreg2
mov.b64 work, {low, high}
mov.u32 all, %nctaid.x
setp.ne.u32 p, t, 0
@p bra MEET
atom.global.add.release.gpu.u32 n, [work+4], 1
WAIT:
ld.global.acquire.gpu.u32 n, [work+4]
setp.lt.u32 p, n, all
@p bra WAIT
MEET:
bar.sync 0
ld.global.relaxed.gpu.u32 n, [work+4]
mov.u32 low, %ctaid.x
mad.lo.u32 low, low, 64, t
mad.wide.u32 o, low, 4, out
st.global.u32 [o], n
ret
"""


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_the_grid_synchronizes_through_its_workspace(schedule: str) -> None:
    out = np.zeros(9 * 64, np.uint32)
    kernel = Kernel(
        GRID_BARRIER.replace("atom.global.add.release.gpu", "atom.add.release.gpu.global"), "out:u64"
    )
    kernel.clean(out, grid=9, block=64, schedule=schedule)
    assert (out == 9).all()


@pytest.mark.full
def test_a_grid_that_does_not_run_at_once_has_no_workspace() -> None:
    out = np.full(2, 7, np.uint32)
    text = """
    .reg u32 a b
    mov.b32 a, %envreg1
    mov.b32 b, %envreg2
    st.relaxed.gpu.global.v2.u32 [out], {a, b}
    ret
    """
    Kernel(text, "out:u64").clean(out, grid=300, block=1024, timeout=60)
    assert not out.any()


def test_the_systems_part_of_shared_memory() -> None:
    """As an H200 has it: 0x400 bytes from address 0 on; other kernels may not touch them."""
    out = np.full(6, 7, np.uint32)
    text = """
    .shared b8 own[33] 1
    .reg u32 a b c d
    mov.b32 a, %reserved_smem_offset_begin
    mov.b32 b, %reserved_smem_offset_end
    mov.b32 c, %reserved_smem_offset_cap
    st.global.v2.u32 [out], {b, c}
    mov.u32 b, %aggr_smem_size
    mov.u32 c, %total_smem_size
    st.global.v2.u32 [out+8], {b, c}
    ld.shared.u32 b, [a]
    st.shared.u32 [a+4], 5
    ld.shared.u32 c, [a+4]
    st.global.v2.u32 [out+16], {b, c}
    ret
    """
    Kernel(text, "out:u64").clean(out, block=1, smem=100)
    assert out.tolist() == [0x120, 0x400, 0x485, 0x100, 0, 5]
    plain = Kernel(".reg u32 a\nmov.u32 a, 4\nld.shared.u32 a, [a]\nret").run(block=1)
    assert plain.findings[0].rule.name == "out-of-bounds"
