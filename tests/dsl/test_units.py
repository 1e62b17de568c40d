"""The typed wrappers: what each records, that ptxas takes it, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, SpecError, TargetError
from pyptx.core.types import b16, b32, b64, bf16, f32, pred, s32, u16, u32, u64
from pyptx.dsl import Layout, Tile, TileParam, ptx, reg, smem
from pyptx.toolchain import Tool, check_text

from .helpers import body_of, in_kernel, recorded, rejected, text_of


def _map(rank: int, swizzle: Layout = Layout.TMA_NONE) -> Tile:
    return Tile(*(64,) * rank, bf16, swizzle, tma_box=(*(1,) * (rank - 1), 64))


# --- mbarrier -------------------------------------------------------------------------------------


def test_mbarrier(ptxas: Tool) -> None:
    def body() -> None:
        bar = smem.alloc(1, b64)
        a = bar.addr
        n = reg.scalar(u32, init=1)
        p = reg.scalar(pred, init=True)
        ptx.mbarrier.init(bar, 1)
        ptx.mbarrier.init(a, n, pred=p)
        ptx.mbarrier.arrive(bar)
        ptx.mbarrier.arrive(ptx.addr(a), 3)
        ptx.mbarrier.arrive(bar, sem="release", scope="cluster", space="cluster")
        ptx.mbarrier.arrive_expect_tx(bar, 49152, pred=~p)
        ptx.mbarrier.expect_tx(bar, n)
        ready = ptx.mbarrier.try_wait(bar, 0)
        again = ptx.mbarrier.try_wait(bar, n, 100, sem="acquire", scope="cta")
        tested = ptx.mbarrier.test_wait(bar, True)
        assert {ready.type, again.type, tested.type} == {pred}
        ptx.mbarrier.inval(bar)

    assert body_of(body)[3:] == [
        "mbarrier.init.shared::cta.b64 [%smem_base], 1;",
        "@%p mbarrier.init.shared::cta.b64 [%smem_base], %n;",
        "mbarrier.arrive.shared::cta.b64 _, [%smem_base];",
        "mbarrier.arrive.shared::cta.b64 _, [%smem_base], 3;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%smem_base];",
        "@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem_base], 49152;",
        "mbarrier.expect_tx.shared::cta.b64 [%smem_base], %n;",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%smem_base], 0;",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %again, [%smem_base], %n, 100;",
        "mbarrier.test_wait.parity.shared::cta.b64 %tested, [%smem_base], 1;",
        "mbarrier.inval.shared::cta.b64 [%smem_base];",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_the_spin_wait_is_two_instructions() -> None:
    def body() -> None:
        bar = reg.scalar(u32)
        phase = reg.scalar(u32)
        ptx.mbarrier.wait(bar, phase)
        ptx.mbarrier.wait(bar, 1)

    assert body_of(body) == [
        "wait:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%bar], %phase;",
        "@!%ready bra wait;",
        "wait_1:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready_1, [%bar], 1;",
        "@!%ready_1 bra wait_1;",
    ]


def test_mbarrier_refuses() -> None:
    def check() -> None:
        bar, f = reg.scalar(u32), reg.scalar(f32)
        for count in (0, 1 << 20, -1, 1.5, "1"):
            with rejected(OperandError, repr(count), "1..1048575"):
                ptx.mbarrier.init(bar, count)  # type: ignore[arg-type]  # rejected
            with rejected(OperandError, repr(count), "1..1048575"):
                ptx.mbarrier.arrive(bar, count)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "1048576", "0..1048575"):
            ptx.mbarrier.arrive_expect_tx(bar, 1 << 20)  # rejected
        with rejected(OperandError, "phase is 2", "0..1", "phase & 1"):
            ptx.mbarrier.try_wait(bar, 2)  # rejected
        with rejected(OperandError, "phase is 2"):
            ptx.mbarrier.wait(bar, 2)  # rejected
        with rejected(OperandError, "%f", "f32"):
            ptx.mbarrier.wait(bar, f)  # rejected
        with rejected(OperandError, "%f", "f32"):
            ptx.mbarrier.init(f, 1)  # rejected
        with rejected(OperandError, "'gpu'"):
            ptx.mbarrier.arrive(bar, space="gpu")  # rejected
        with rejected(InstructionError, "acquire"):
            ptx.mbarrier.arrive(bar, sem="acquire", scope="cta")  # rejected

    in_kernel(check)


# --- bulk tensor copies ---------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_the_map_gives_the_direction(rank: int, ptxas: Tool) -> None:
    def body(A: TileParam) -> None:
        s, x = reg.scalar(u32, init=0), reg.scalar(s32, init=0)
        copy = getattr(ptx.cp.async_.bulk, f"tensor_{rank}d")
        copy(dst=s, src=A.tma_desc(), coord=(x, *(0,) * (rank - 1)), mbar=s)
        copy(dst=A.tma_desc(), src=s, coord=(x, *(0,) * (rank - 1)))

    coordinates = ", ".join(["%x", *["0"] * (rank - 1)])
    assert body_of(body, _map(rank))[4:] == [
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%s], [%A_map, {{{coordinates}}}], [%s];",
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%A_map, {{{coordinates}}}], [%s];",
    ]
    assert check_text(text_of(body, _map(rank)), ptxas=ptxas).ok


def test_options_of_tensor_copies(ptxas: Tool) -> None:
    def body(A: TileParam) -> None:
        s, mask, policy = reg.scalar(u32, init=0), reg.scalar(b16, init=3), reg.scalar(b64, init=0)
        p = reg.scalar(pred, init=True)
        load: Any = ptx.cp.async_.bulk.tensor_1d
        load(dst=s, src=A.tma_desc(), coord=0, mbar=s, multicast=3, cta_group=2, cache_hint=policy, pred=p)
        load(dst=s, src=A.tma_desc(), coord=[s], mbar=s, multicast=mask)
        load(dst=s, src=A.tma_desc(), coord=0, mbar=s, space="cta", cta_group=1)
        load(dst=A.tma_desc(), src=s, coord=0, cache_hint=policy)
        ptx.cp.async_.bulk.commit_group()
        ptx.cp.async_.bulk.wait_group(0)
        ptx.cp.async_.bulk.wait_group(1, read=True)

    complete = "mbarrier::complete_tx::bytes"
    assert body_of(body, _map(1))[6:] == [
        f"@%p cp.async.bulk.tensor.1d.shared::cluster.global.{complete}.multicast::cluster.cta_group::2"
        ".L2::cache_hint [%s], [%A_map, {0}], [%s], 3, %policy;",
        f"cp.async.bulk.tensor.1d.shared::cluster.global.{complete}.multicast::cluster"
        " [%s], [%A_map, {%s}], [%s], %mask;",
        f"cp.async.bulk.tensor.1d.shared::cta.global.{complete}.cta_group::1 [%s], [%A_map, {{0}}], [%s];",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.L2::cache_hint [%A_map, {0}], [%s], %policy;",
        "cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group 0;",
        "cp.async.bulk.wait_group.read 1;",
    ]
    assert check_text(text_of(body, _map(1)), ptxas=ptxas).ok


def test_tensor_copies_refuse() -> None:
    def body(A: TileParam) -> None:
        s, f = reg.scalar(u32), reg.scalar(f32)
        a = A.tma_desc()
        bulk: Any = ptx.cp.async_.bulk
        with rejected(OperandError, "both dst and src"):
            bulk.tensor_2d(dst=a, src=a, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "neither dst nor src", "tma_desc()"):
            bulk.tensor_2d(dst=s, src=s, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "2 coordinates, got 3", "innermost"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0, 0), mbar=s)  # rejected
        with rejected(OperandError, "tensor_3d", "A", "2 dimensions", "tensor_2d"):
            bulk.tensor_3d(dst=s, src=a, coord=(0, 0, 0), mbar=s)  # rejected
        with rejected(OperandError, "needs mbar=", "arrive_expect_tx"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0))  # rejected
        with rejected(OperandError, "takes no mbar", "commit_group"):
            bulk.tensor_2d(dst=a, src=s, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "takes no multicast"):
            bulk.tensor_2d(dst=a, src=s, coord=(0, 0), multicast=1)  # rejected
        with rejected(OperandError, "multicast is 65536"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, multicast=1 << 16)  # rejected
        with rejected(OperandError, "cta_group is 3"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, cta_group=3)  # rejected
        with rejected(OperandError, "'global'"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, space="global")  # rejected
        with rejected(OperandError, "%f", "f32"):
            bulk.tensor_2d(dst=s, src=a, coord=(f, 0), mbar=s)  # rejected
        with rejected(OperandError, "'x'"):
            bulk.tensor_2d(dst=s, src=a, coord=("x", 0), mbar=s)  # rejected
        with rejected(InstructionError, "multicast", "shared::cluster"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, multicast=1, space="cta")  # rejected
        small, other = smem.alloc(64), smem.alloc((8, 64), bf16, swizzle="32B")
        with rejected(OperandError, "1024 bytes", "'small'", "64"):
            bulk.tensor_2d(dst=small, src=a, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "'128B'", "'32B'", "swizzle='128B'"):
            bulk.tensor_2d(dst=other, src=a, coord=(0, 0), mbar=s)  # rejected
        for n in (-1, 1.5, "0"):
            with rejected(OperandError, repr(n)):
                bulk.wait_group(n)  # rejected

    recorded(body, Tile(64, 64, bf16, Layout.TMA_128B, tma_box=(8, 64)))


# --- fences, barriers, warps ----------------------------------------------------------------------


def test_fences(ptxas: Tool) -> None:
    def body() -> None:
        ptx.fence.proxy_async()
        ptx.fence.proxy_async("shared::cta")
        ptx.fence.proxy_async("global", pred=reg.scalar(pred, init=True))
        ptx.fence.mbarrier_init()
        for scope in ("cta", "cluster", "gpu", "sys"):
            ptx.fence.acq_rel(scope)
            ptx.fence.sc(scope)
            ptx.fence.acquire(scope)
            ptx.fence.release(scope)

    lines = body_of(body)
    assert lines[:2] == ["fence.proxy.async;", "fence.proxy.async.shared::cta;"]
    assert lines[3:9] == [
        "@%r fence.proxy.async.global;",
        "fence.mbarrier_init.release.cluster;",
        "fence.acq_rel.cta;",
        "fence.sc.cta;",
        "fence.acquire.cta;",
        "fence.release.cta;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok

    def check() -> None:
        with rejected(InstructionError, ".shared", "shared::cta"):
            ptx.fence.proxy_async("shared")  # rejected
        with rejected(InstructionError, "block"):
            ptx.fence.acq_rel("block")  # rejected

    in_kernel(check)


def test_bar(ptxas: Tool) -> None:
    def body() -> None:
        n = reg.scalar(u32, init=1)
        ptx.bar.sync()
        ptx.bar.sync(3, 64)
        ptx.bar.sync(n, n)

    assert body_of(body)[1:] == ["bar.sync 0;", "bar.sync 3, 64;", "bar.sync %n, %n;"]
    assert check_text(text_of(body), ptxas=ptxas).ok

    def check() -> None:
        with rejected(OperandError, "16", "0..15"):
            ptx.bar.sync(16)  # rejected
        with rejected(OperandError, "33", "multiple of 32"):
            ptx.bar.sync(0, 33)  # rejected
        with rejected(OperandError, "2048", "32..1024"):
            ptx.bar.sync(0, 2048)  # rejected

    in_kernel(check)


def test_warp(ptxas: Tool) -> None:
    def body() -> None:
        leader = ptx.warp.elect()
        x = reg.scalar(f32, init=1.0)
        lane = ptx.special.laneid()
        a = ptx.warp.shfl_idx(x, lane)
        ptx.warp.shfl_bfly(a, 16)
        ptx.warp.shfl_down(a, 1, mask=0xFFFF)
        ptx.warp.shfl_up(lane, 1)
        assert (leader.type, a.type) == (pred, f32)

    lines = body_of(body)
    assert lines[0] == "elect.sync _|%leader, 4294967295;"
    assert lines[3:] == [
        "shfl.sync.idx.b32 %a, %x, %lane, 31, 4294967295;",
        "shfl.sync.bfly.b32 %t, %a, 16, 31, 4294967295;",
        "shfl.sync.down.b32 %t_1, %a, 1, 31, 65535;",
        "shfl.sync.up.b32 %t_2, %lane, 1, 0, 4294967295;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok

    def check() -> None:
        wide, narrow = reg.scalar(u64), reg.scalar(u32)
        with rejected(OperandError, "32-bit", "u64"):
            ptx.warp.shfl_idx(wide, 0)  # rejected
        with rejected(OperandError, "32-bit", "5"):
            ptx.warp.shfl_idx(5, 0)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "mask is 0"):
            ptx.warp.elect(0)  # rejected
        with rejected(OperandError, "lane is 32"):
            ptx.warp.shfl_bfly(narrow, 32)  # rejected

    in_kernel(check)


# --- tcgen05 --------------------------------------------------------------------------------------


def test_tcgen05(ptxas: Tool) -> None:
    def body() -> None:
        slot = smem.alloc(1, b32)
        bar = smem.alloc(1, b64)
        p = reg.scalar(pred, init=True)
        ptx.tcgen05.alloc(slot, 512)
        base = smem.load(b32, slot)
        a, b, idesc = reg.scalar(b64, init=0), reg.scalar(b64, init=0), reg.scalar(b32, init=0)
        lanes = reg.array(b32, 4, init=0)
        ptx.tcgen05.mma(base, a, b, idesc, pred_operand=False)
        ptx.tcgen05.mma(base, a, b, 0x08400490, kind="tf32", pred_operand=p, pred=p)
        ptx.tcgen05.mma(base, a, b, idesc, "f16", ~p)
        ptx.tcgen05.mma(base, a, b, idesc, disable_output_lane=lanes, scale_input_d=3)
        ptx.tcgen05.commit(bar)
        ptx.tcgen05.commit(bar, "cluster", multicast=reg.scalar(b16, init=3, name="mask"), pred=p)
        ptx.tcgen05.commit(reg.scalar(u64, init=0), space=None)
        out = reg.array(b32, 16)
        ptx.tcgen05.ld(out, base)
        ptx.tcgen05.ld([out[i] for i in range(4)], base + 4, shape="16x256b", count=1, dtype=b32, pack=True)
        ptx.tcgen05.ld(out[0], ptx.addr(base), "32x32b", 1)
        ptx.tcgen05.wait_ld()
        ptx.tcgen05.st(base, out, count=16, unpack=True)
        ptx.tcgen05.wait_st()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.tcgen05.fence_after_thread_sync()
        ptx.tcgen05.dealloc(base, 512)
        ptx.tcgen05.relinquish_alloc_permit()

    lines = [line for line in body_of(body) if "tcgen05" in line or "not.pred" in line]
    vector = ", ".join(f"%out{i}" for i in range(16))
    assert lines == [
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem_base], 512;",
        "tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %b, %idesc, 0;",
        "@%p tcgen05.mma.cta_group::1.kind::tf32 [%base], %a, %b, 138413200, %p;",
        "not.pred %not_p, %p;",
        "tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %b, %idesc, %not_p;",
        "tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %b, %idesc, "
        "{%lanes0, %lanes1, %lanes2, %lanes3}, 1, 3;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%smem_base+16];",
        "@%p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
        "[%smem_base+16], %mask;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%r];",
        f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{vector}}}, [%base];",
        "tcgen05.ld.sync.aligned.16x256b.x1.pack::16b.b32 {%out0, %out1, %out2, %out3}, [%t];",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%out0}, [%base];",
        "tcgen05.wait::ld.sync.aligned;",
        f"tcgen05.st.sync.aligned.32x32b.x16.unpack::16b.b32 [%base], {{{vector}}};",
        "tcgen05.wait::st.sync.aligned;",
        "tcgen05.fence::before_thread_sync;",
        "tcgen05.fence::after_thread_sync;",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 512;",
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_tcgen05_for_a_pair_of_ctas(ptxas: Tool) -> None:
    def body() -> None:
        x, d = reg.scalar(b32, init=0), reg.scalar(b64, init=0)
        ptx.tcgen05.alloc(x, 32, cta_group=2)
        ptx.tcgen05.mma(x, d, d, x, cta_group=2, disable_output_lane=[x] * 8)
        ptx.tcgen05.commit(x, multicast=reg.scalar(u16, init=3), cta_group=2)
        ptx.tcgen05.dealloc(x, x, cta_group=2)
        ptx.tcgen05.relinquish_alloc_permit(cta_group=2)

    assert all("cta_group::2" in line for line in body_of(body) if "tcgen05" in line)
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_tcgen05_refuses() -> None:
    def check() -> None:
        x, d, f = reg.scalar(b32), reg.scalar(b64), reg.scalar(f32)
        p = reg.scalar(pred)
        for columns in (0, 16, 96, 1024, "512"):
            with rejected(OperandError, repr(columns), "power of two, 32..512"):
                ptx.tcgen05.alloc(x, columns)  # type: ignore[arg-type]  # rejected
            with rejected(OperandError, repr(columns), "power of two"):
                ptx.tcgen05.dealloc(x, columns)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "cta_group is 3", "1 or 2"):
            ptx.tcgen05.relinquish_alloc_permit(cta_group=3)  # rejected
        with rejected(OperandError, "pred_operand is 2"):
            ptx.tcgen05.mma(x, d, d, x, pred_operand=2)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "%x", "u64"):
            ptx.tcgen05.mma(x, x, d, x)  # rejected
        with rejected(InstructionError, "kind::f17", "kind::f16"):
            ptx.tcgen05.mma(x, d, d, x, kind="f17")  # rejected
        with rejected(OperandError, "16", "0..15"):
            ptx.tcgen05.mma(x, d, d, x, scale_input_d=16)  # rejected
        with rejected(OperandError, "scale-input-d", "kind::f8f6f4"):
            ptx.tcgen05.mma(x, d, d, x, kind="f8f6f4", scale_input_d=1)  # rejected
        with rejected(OperandError, "vector of 4", "8 given"):
            ptx.tcgen05.mma(x, d, d, x, disable_output_lane=[x] * 8, pred_operand=~p)  # rejected
        with rejected(OperandError, "64-bit", "%x", 'space="cluster"'):
            ptx.tcgen05.commit(x, space=None)  # rejected
        with rejected(OperandError, "'cta'"):
            ptx.tcgen05.commit(x, space="cta")  # rejected
        with rejected(OperandError, "immediate 3", "register of type .u16"):
            ptx.tcgen05.commit(x, multicast=3)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "vector of 128", "2 given"):
            ptx.tcgen05.ld([x, x], x, count=128)  # rejected
        with rejected(InstructionError, "32x64b", "32x32b"):
            ptx.tcgen05.ld([x], x, shape="32x64b")  # rejected
        with rejected(InstructionError, ".x3"):
            ptx.tcgen05.ld([x, x, x], x)  # rejected
        with rejected(OperandError, "'f32'", "view(f32)"):
            ptx.tcgen05.ld([x], x, dtype="f32")  # rejected
        with rejected(OperandError, "%d", "tensor-memory address", ".b32"):
            ptx.tcgen05.ld([x], d)  # rejected
        with rejected(OperandError, "%f"):
            ptx.tcgen05.st(f, [x])  # rejected

    in_kernel(check)


def test_tcgen05_only_where_it_exists() -> None:
    def check() -> None:
        with rejected(TargetError, "sm_90a"):
            ptx.tcgen05.fence_after_thread_sync()  # rejected

    in_kernel(check, arch="sm_90a")


def test_instruction_descriptors() -> None:
    make = ptx.tcgen05.make_instr_desc_f16bf16_f32
    assert make() == make(m=128, n=256, ab_dtype=bf16) == 0x08400490
    assert make(m=256, n=256, ab_dtype="f16") == 0x10400010
    assert make(n=128, cta_group=2) == 0x08200490
    with pytest.raises(SpecError, match="96"):
        make(m=96)
    with pytest.raises(SpecError, match="f32"):
        make(ab_dtype=f32)


def test_a_masked_descriptor_is_four_instructions(ptxas: Tool) -> None:
    def body() -> None:
        a = reg.scalar(u32, init=1024)
        desc = ptx.tcgen05.masked_descriptor(a, const_bits=0x4000404000010000)
        assert desc.type is b64
        tile = smem.alloc((8, 64), bf16, swizzle="128B")
        ptx.inst.add.s64(ptx.tcgen05.masked_descriptor(tile), desc, 2)

    assert body_of(body)[2:6] == [
        "shr.u32 %address, %a, 4;",
        "and.b32 %address, %address, 16383;",
        "cvt.u64.u32 %wide, %address;",
        f"or.b64 %desc, %wide, {0x4000404000010000};",
    ]
    assert len(body_of(body)) == 11
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_masked_descriptors_refuse() -> None:
    def check() -> None:
        a, wide = reg.scalar(u32), reg.scalar(u64)
        for bits in (1, 1 << 64, -1, 0.5):
            with rejected(OperandError, repr(bits), "64 bits"):
                ptx.tcgen05.masked_descriptor(a, const_bits=bits)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "u64", "32-bit"):
            ptx.tcgen05.masked_descriptor(wide)  # rejected
        with rejected(OperandError, "4096", "32-bit"):
            ptx.tcgen05.masked_descriptor(4096)  # type: ignore[arg-type]  # rejected

    in_kernel(check)
