"""A 64-bit register that holds the address of shared memory counts with its lower half.

The shared state space has 32-bit addresses; a wider register is truncated (PTX ISA #addresses-as-operands).
Kernels give generic addresses where ``.shared`` is written, and get what lies at the lower half.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim

MODULE = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 out)
{
    .reg .b32 %value, %at, %thread;
    .reg .b64 %generic, %out, %far;
    .shared .align 128 .b8 room[256];
    ld.param.u64 %out, [out];
    mov.u32 %thread, %tid.x;
    mov.u32 %at, room;
    mad.lo.u32 %at, %thread, 4, %at;
    cvt.u64.u32 %generic, %at;
    cvta.shared.u64 %generic, %generic;
    BODY
    mad.wide.u32 %out, %thread, 4, %out;
    st.global.u32 [%out], %value;
    ret;
}
"""

#: What writes ``100 + thread`` with generic addresses in place of shared ones, and reads it with true ones.
BODIES = {
    "store": "add.u32 %value, %thread, 100; st.shared.u32 [%generic+128], %value; ld.shared.u32 %value, [%at+128];",
    "load": "add.u32 %value, %thread, 100; st.shared.u32 [%at], %value; ld.shared::cta.u32 %value, [%generic];",
    "atomic": "st.shared.u32 [%at], %thread; atom.shared.add.u32 %value, [%generic], 100; "
    "ld.shared.u32 %value, [%at];",
    "carry": "add.u32 %value, %thread, 100; st.shared.u32 [%at+4], %value; add.s64 %far, %generic, -1; "
    "ld.shared.u32 %value, [%far+5];",
}


@pytest.mark.parametrize("block", [1, 32])
@pytest.mark.parametrize("name", BODIES)
def test_the_lower_half_of_a_generic_address(name: str, block: int) -> None:
    out = np.zeros(block, np.uint32)
    report = sim.load(MODULE.replace("BODY", BODIES[name])).launch(grid=1, block=block, args=[out])
    assert report.verdict == "clean", report.findings
    assert out.tolist() == [100 + thread for thread in range(block)]


def test_where_columns_are_allocated_to() -> None:
    body = """
    mov.u32 %value, 7;
    st.shared.u32 [%at], %value;
    shfl.sync.idx.b32 %value, %at, 0, 31, -1;
    cvt.u64.u32 %far, %value;
    cvta.shared.u64 %far, %far;
    bar.sync 0;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%far], 32;
    bar.sync 0;
    ld.shared.u32 %value, [room];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %value, 32;
    """
    out = np.full(32, 1, np.uint32)
    report = sim.load(MODULE.replace("BODY", body)).launch(grid=1, block=32, args=[out])
    assert report.verdict == "clean", report.findings
    assert (out != 7).all() and len(set(out.tolist())) == 1
