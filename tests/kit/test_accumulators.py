"""Accumulators in tensor memory: what they record and refuse. Kernels that use them: tests/examples."""

from __future__ import annotations

import pytest

from pyptx import SharedMemoryError, SpecError, kit, ptx, reg, smem, u16
from pyptx.dsl import current
from tests.dsl.helpers import body_of, in_kernel


def test_what_one_cta_records() -> None:
    def body() -> None:
        accumulators = kit.Accumulators(2, 128, readers=4)
        accumulators.init()
        accumulators.alloc()
        base = accumulators.base()
        writer = accumulators.writer(base)
        writer.acquire()
        writer.commit()
        reader = accumulators.reader(base)
        acc = reader.acquire()
        assert acc.slot.index is not None
        reader.release(ptx.warp.elect())
        reader.advance()
        accumulators.dealloc(base)

    assert body_of(body) == [
        "mov.u32 %smem_base, smem;",
        "add.u32 %acc_empty, %smem_base, 16;",
        "mbarrier.init.shared::cta.b64 [%smem_base], 1;",
        "mbarrier.init.shared::cta.b64 [%acc_empty], 4;",
        "mbarrier.init.shared::cta.b64 [%smem_base+8], 1;",
        "mbarrier.init.shared::cta.b64 [%acc_empty+8], 4;",
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem_base+32], 256;",
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
        "ld.shared.b32 %t, [%smem_base+32];",
        "mov.u32 %stage, 0;",
        "mov.u32 %phase, 1;",
        "mad.lo.u32 %full, %stage, 8, %smem_base;",
        "wait:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%full+16], %phase;",
        "@!%ready bra wait;",
        "tcgen05.fence::after_thread_sync;",
        "mad.lo.u32 %tmem, %stage, 128, %t;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%full];",
        "add.u32 %stage, %stage, 1;",
        "setp.eq.u32 %wrapped, %stage, 2;",
        "@%wrapped mov.u32 %stage, 0;",
        "@%wrapped xor.b32 %phase, %phase, 1;",
        "mov.u32 %stage_1, 0;",
        "mov.u32 %phase_1, 0;",
        "mad.lo.u32 %full_1, %stage_1, 8, %smem_base;",
        "wait_1:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready_1, [%full_1], %phase_1;",
        "@!%ready_1 bra wait_1;",
        "tcgen05.fence::after_thread_sync;",
        "mad.lo.u32 %tmem_1, %stage_1, 128, %t;",
        "elect.sync _|%elected, 4294967295;",
        "tcgen05.fence::before_thread_sync;",
        "bar.warp.sync 4294967295;",
        "@%elected mbarrier.arrive.shared::cta.b64 _, [%full_1+16];",
        "add.u32 %stage_1, %stage_1, 1;",
        "setp.eq.u32 %wrapped_1, %stage_1, 2;",
        "@%wrapped_1 mov.u32 %stage_1, 0;",
        "@%wrapped_1 xor.b32 %phase_1, %phase_1, 1;",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, 256;",
    ]


def test_a_pair_signals_both_ctas_and_arrives_at_the_even_one() -> None:
    def body() -> None:
        accumulators = kit.Accumulators(2, 256, readers=4, cta_group=2)
        accumulators.init()
        base = accumulators.base()
        writer = accumulators.writer(base)
        writer.acquire()
        writer.commit(reg.scalar(u16, init=3))
        reader = accumulators.reader(base)
        reader.acquire()
        reader.release(ptx.warp.elect())

    lines = body_of(body)
    assert "mbarrier.init.shared::cta.b64 [%acc_empty], 8;" in lines  # four warps of each CTA
    (commit,) = [line for line in lines if "commit" in line]
    assert "cta_group::2" in commit and "multicast::cluster" in commit
    (mask,) = [line for line in lines if line.startswith("and.b32")]
    assert mask.endswith(f"{0xFEFFFFFF};")
    (arrival,) = [line for line in lines if "mbarrier.arrive.shared" in line]
    register = mask.split()[1].rstrip(",")
    assert arrival == f"@%elected mbarrier.arrive.shared::cluster.b64 _, [{register}+16];"


@pytest.mark.parametrize(
    ("count", "columns", "allocated"), [(1, 8, 32), (2, 48, 128), (2, 256, 512), (3, 96, 512)]
)
def test_allocates_a_power_of_two(count: int, columns: int, allocated: int) -> None:
    def check() -> None:
        assert kit.Accumulators(count, columns, readers=4).allocated == allocated

    in_kernel(check)


def test_refusals() -> None:
    def check() -> None:
        for arguments, words in (
            ({"count": 0}, "count is 0"),
            ({"columns": 0}, "columns is 0"),
            ({"readers": 1.5}, "readers is 1.5"),
            ({"cta_group": 3}, "expected 1 or 2"),
            ({"count": 3, "columns": 256}, "768 columns: tensor memory has 512"),
            ({"parts": 3}, "3 parts do not divide 256 columns"),
            ({"parts": 0}, "parts is 0"),
        ):
            with pytest.raises(SpecError, match=words):
                kit.Accumulators(**{"count": 2, "columns": 256, "readers": 4, **arguments})  # type: ignore[arg-type]
        one, pair = kit.Accumulators(1, 64, readers=4), kit.Accumulators(1, 64, readers=4, cta_group=2)
        base = one.base()
        with pytest.raises(SpecError, match="belong to one CTA"):
            one.writer(base).commit(reg.scalar(u16, init=3))
        with pytest.raises(SpecError, match="needs the mask of both"):
            pair.writer(base).commit()
        with pytest.raises(SpecError, match="before acquire"):
            one.writer(base).commit()
        with pytest.raises(SpecError, match="before acquire"):
            one.writer(base).wait_part(1)
        writer = one.writer(base)
        writer.acquire()
        with pytest.raises(SpecError, match="part is 1"):
            writer.wait_part(1)
        with pytest.raises(SpecError, match="before acquire"):
            one.reader(base).release(ptx.warp.elect())

    in_kernel(check)


def test_no_room_for_the_barriers() -> None:
    def check() -> None:
        smem.alloc(232_440)
        with pytest.raises(SharedMemoryError):
            kit.Accumulators(2, 256, readers=4)

    in_kernel(check)


def test_parts_have_an_mbarrier_each() -> None:
    """With 64 columns in two parts: nothing is released after 16 columns, the first part after 32, the other after 64."""
    arrivals: list[int] = []

    def body() -> None:
        accumulators = kit.Accumulators(2, 64, readers=4, parts=2)
        accumulators.init()
        base = accumulators.base()
        writer = accumulators.writer(base)
        writer.acquire()
        writer.wait_part(1)
        writer.drain()
        reader = accumulators.reader(base)
        reader.acquire()
        leader = ptx.warp.elect()
        for columns in (16, 32, 48, 64):
            before = len(current().statements)
            reader.release(leader, columns)
            arrivals.append(len(current().statements) - before)
        reader.acquire()
        reader.release(leader)

    lines = body_of(body)
    assert arrivals == [0, 3, 0, 3]
    assert sum("mbarrier.init" in line for line in lines) == 6
    offsets = [line.split("+")[1].split("]")[0] for line in lines if "mbarrier.arrive" in line]
    assert offsets == ["16", "32"] * 2  # empty of part 0, and of part 1
    waits = [line.split("[")[1].split("]")[0].partition("+")[2] for line in lines if "try_wait" in line]
    assert waits == ["16", "32", "16", "32", "", ""]
