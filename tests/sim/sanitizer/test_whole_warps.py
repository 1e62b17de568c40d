"""The sanitizer: accesses that all lanes of a warp make as one, such as the address that tcgen05.alloc writes."""

from __future__ import annotations

import pytest

from tests.sim.build import Kernel

ALLOCATE = """
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [room], 32
ld.shared.u32 r, [room]
tcgen05.dealloc.cta_group::1.sync.aligned.b32 r, 32
"""
#: After that, lane 0 knows what the others do not know.
APART = """
@p mbarrier.init.shared.b64 [room+8], 1
@p mbarrier.arrive.shared.b64 _, [room+8]
setp.ne.u32 q, t, 0
WAIT:
@p mbarrier.try_wait.parity.shared.b64 q, [room+8], 0
@p and.pred q, q, q
@!q bra WAIT
"""


def kernel(body: str) -> Kernel:
    return Kernel(
        f".reg pred p q\n.reg u32 t r\n.shared b8 room[64] 16\nmov.u32 t, %tid.x\nsetp.eq.u32 p, t, 0\n{body}\nret"
    )


@pytest.mark.parametrize("before", ["", ALLOCATE, APART, "@p st.shared.u32 [room+4], 1"])
def test_the_warp_that_allocates_reads_the_address(before: str) -> None:
    """The write is in the program order of each lane: no barrier is needed, and the slot may be used again."""
    kernel(before + ALLOCATE).clean()


def test_another_warp_needs_a_barrier() -> None:
    """The write is ordered with the accesses of the warp alone."""
    text = """
    setp.ge.u32 p, t, 32
    @p bra OTHER
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [room], 32 // writes
    {barrier}
    ld.shared.u32 r, [room]
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 r, 32
    bra END
    OTHER:
    {barrier}
    ld.shared.u32 r, [room] // reads
    END:
    """
    kernel(text.format(barrier="bar.sync 0")).clean(block=64)
    racing = kernel(text.format(barrier=""))
    (found,) = [each for each in racing.run(block=64).findings if each.rule.name == "data-race"]
    assert found.location is not None and found.location.line == racing.line("reads")
    assert found.other[0][1] is not None and found.other[0][1].line == racing.line("writes")
