"""``ptx.tcgen05``: how each instruction is spelled, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, SpecError, TargetError
from pyptx.core.types import b16, b32, b64, f32, pred, u16, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.layout import InstructionDescriptor, ZeroColumnMask
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import asked, body_of, in_kernel, rejected, text_of

F16 = InstructionDescriptor("f16", 128, 256, "bf16", "bf16", "f32")
MXF4 = InstructionDescriptor("mxf4", 128, 256, "e2m1", "e2m1", "f32", scale_type="ue8m0")


def lines_of(body: Any, **options: Any) -> list[str]:
    return [line for line in body_of(body, **options) if "tcgen05" in line]


def test_a_kernel(ptxas: Tool) -> None:
    def body() -> None:
        slot = smem.alloc(1, b32)
        bar = smem.alloc(1, b64)
        p = reg.scalar(pred, init=True)
        ptx.tcgen05.alloc(slot, 512)
        base = smem.load(b32, slot)
        a, b, idesc = reg.scalar(b64, init=0), reg.scalar(b64, init=0), reg.scalar(b32, init=0)
        lanes = reg.array(b32, 4, init=0)
        ptx.tcgen05.mma(base, a, b, idesc, pred_operand=False)
        ptx.tcgen05.mma(base, a, b, idesc, kind="tf32", pred_operand=p, pred=p)
        ptx.tcgen05.mma(base, a, b, 0x08400490, "f16", ~p)
        ptx.tcgen05.mma(base, a, b, F16, disable_output_lane=lanes, scale_input_d=3)
        ptx.tcgen05.commit(bar)
        ptx.tcgen05.commit(bar, "cluster", multicast=reg.scalar(b16, init=3, name="mask"), pred=p)
        ptx.tcgen05.commit(reg.scalar(u64, init=0), space=None)
        out = reg.array(b32, 16)
        ptx.tcgen05.ld(out, base)
        ptx.tcgen05.ld([out[i] for i in range(4)], base + 4, shape="16x256b", count=1, dtype=b32, pack=True)
        ptx.tcgen05.ld(out[0], ptx.addr(base), "32x32b", 1)
        ptx.tcgen05.ld(out, base, "16x32bx2", half_split=32)
        ptx.tcgen05.wait_ld()
        ptx.tcgen05.st(base, out, count=16, unpack=True)
        ptx.tcgen05.st(base, out[:2], "16x32bx2", half_split=0)
        ptx.tcgen05.wait_st()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.tcgen05.fence_after_thread_sync()
        ptx.tcgen05.cp(base, a, "128x256b")
        ptx.tcgen05.cp(base, a, "32x128b")
        ptx.tcgen05.cp(base, a, "64x128b", "warpx2::01_23", decompress="b6x16_p32", pred=~p)
        ptx.tcgen05.shift(base)
        ptx.tcgen05.dealloc(base, 512)
        ptx.tcgen05.relinquish_alloc_permit()

    vector = ", ".join(f"%out{i}" for i in range(16))
    assert lines_of(body) == [
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem_base], 512;",
        "tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %b, %idesc, 0;",
        "@%p tcgen05.mma.cta_group::1.kind::tf32 [%base], %a, %b, %idesc, %p;",
        "tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %b, 138413200, !%p;",
        "tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %b, 138413200, "
        "{%lanes0, %lanes1, %lanes2, %lanes3}, 1, 3;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%smem_base+16];",
        "@%p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
        "[%smem_base+16], %mask;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%r];",
        f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{vector}}}, [%base];",
        "tcgen05.ld.sync.aligned.16x256b.x1.pack::16b.b32 {%out0, %out1, %out2, %out3}, [%t];",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%out0}, [%base];",
        f"tcgen05.ld.sync.aligned.16x32bx2.x16.b32 {{{vector}}}, [%base], 32;",
        "tcgen05.wait::ld.sync.aligned;",
        f"tcgen05.st.sync.aligned.32x32b.x16.unpack::16b.b32 [%base], {{{vector}}};",
        "tcgen05.st.sync.aligned.16x32bx2.x2.b32 [%base], 0, {%out0, %out1};",
        "tcgen05.wait::st.sync.aligned;",
        "tcgen05.fence::before_thread_sync;",
        "tcgen05.fence::after_thread_sync;",
        "tcgen05.cp.cta_group::1.128x256b [%base], %a;",
        "tcgen05.cp.cta_group::1.32x128b.warpx4 [%base], %a;",
        "@!%p tcgen05.cp.cta_group::1.64x128b.warpx2::01_23.b8x16.b6x16_p32 [%base], %a;",
        "tcgen05.shift.cta_group::1.down [%base];",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 512;",
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_a_pair_of_ctas(ptxas: Tool) -> None:
    def body() -> None:
        x, d = reg.scalar(b32, init=0), reg.scalar(b64, init=0)
        ptx.tcgen05.alloc(x, 32, cta_group=2)
        ptx.tcgen05.mma(x, d, d, x, cta_group=2, disable_output_lane=[x] * 8)
        ptx.tcgen05.commit(x, multicast=reg.scalar(u16, init=3), cta_group=2)
        ptx.tcgen05.cp(x, d, "4x256b", cta_group=2)
        ptx.tcgen05.shift(x, cta_group=2)
        ptx.tcgen05.dealloc(x, x, cta_group=2)
        ptx.tcgen05.relinquish_alloc_permit(cta_group=2)

    lines = lines_of(body)
    assert len(lines) == 7 and all("cta_group::2" in line for line in lines)
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_every_multiplication(ptxas: Tool) -> None:
    def body() -> None:
        d, s, m = (reg.scalar(b32, init=0, name=name) for name in ("d", "scales", "meta"))
        a, b, idesc = reg.scalar(b64, init=0), reg.scalar(b64, init=0), reg.scalar(b32, init=0)
        ptx.tcgen05.mma(d, ptx.addr(s), b, idesc, ashift=True, collector_a="lastuse")
        ptx.tcgen05.mma(d, a, b, MXF4, "mxf4", scale_a=s, scale_b=ptx.addr(s, 4))
        ptx.tcgen05.mma(d, a, b, idesc, "mxf4nvf4", scale_a=s, scale_b=s, scale_vec="4X", collector_a="fill")
        ptx.tcgen05.mma_sp(d, a, b, m, idesc, "mxf8f6f4", False, scale_a=s, scale_b=s, scale_vec="block32")
        ptx.tcgen05.mma_sp(d, a, b, ptx.addr(m), idesc, scale_input_d=15)
        ptx.tcgen05.mma_ws(d, a, b, idesc, "i8", collector="use", buffer=2)
        ptx.tcgen05.mma_ws(d, a, b, idesc, zero_column_mask=ZeroColumnMask(used=4, skipped=3))
        ptx.tcgen05.mma_ws_sp(d, ptx.addr(s), b, m, idesc, "tf32", zero_column_mask=a)

    assert lines_of(body) == [
        "tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::lastuse [%d], [%scales], %b, %idesc, 1;",
        f"tcgen05.mma.cta_group::1.kind::mxf4.block_scale [%d], %a, %b, {MXF4.encode()}, "
        "[%scales], [%scales+4], 1;",
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X.collector::a::fill "
        "[%d], %a, %b, %idesc, [%scales], [%scales], 1;",
        "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%d], %a, %b, [%meta], %idesc, "
        "[%scales], [%scales], 0;",
        "tcgen05.mma.sp.cta_group::1.kind::f16 [%d], %a, %b, [%meta], %idesc, 1, 15;",
        "tcgen05.mma.ws.cta_group::1.kind::i8.collector::b2::use [%d], %a, %b, %idesc, 1;",
        f"tcgen05.mma.ws.cta_group::1.kind::f16 [%d], %a, %b, %idesc, 1, {1 << 39 | 2 << 40 | 3 << 48};",
        "tcgen05.mma.ws.sp.cta_group::1.kind::tf32 [%d], [%scales], %b, [%meta], %idesc, 1, %a;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_reductions(ptxas: Tool) -> None:
    def body() -> None:
        x, v = reg.scalar(b32, init=0), reg.array(b32, 4)
        r = reg.scalar(f32)
        ptx.tcgen05.ld_red(v, r, x, "max", abs=True, nan=True)
        ptx.tcgen05.ld_red(v, reg.scalar(u32, name="n"), x, "min", "16x32bx2", dtype=u32, half_split=8)

    assert lines_of(body, arch="sm_103a") == [
        "tcgen05.ld.red.sync.aligned.32x32b.x4.max.abs.NaN.f32 {%v0, %v1, %v2, %v3}, %r, [%x];",
        "tcgen05.ld.red.sync.aligned.16x32bx2.x4.min.u32 {%v0, %v1, %v2, %v3}, %n, [%x], 8;",
    ]
    assert check_text(text_of(body, arch="sm_103a"), ptxas=ptxas).ok


def test_compressed_loads(ptxas: Tool) -> None:
    def body() -> None:
        x, m, v = reg.scalar(b32, init=0), reg.array(b32, 2), reg.array(b32, 32)
        ptx.tcgen05.ld_spcompress(m, v, x, "max")
        ptx.tcgen05.ld_red_spcompress(m[0], v[:2], reg.scalar(f32, name="r"), x, "min", abs=True, nan=True)

    plain, reduced = lines_of(body, arch="sm_107a")
    assert plain.startswith("tcgen05.ld.spcompress.sync.aligned.32x32b.x64.max.sp::2:4.f32.b2 {%m0, %m1}, {")
    assert reduced == (
        "tcgen05.ld.red.spcompress.sync.aligned.32x32b.x4.min.sp::2:4.abs.NaN.f32.b2 "
        "{%m0}, {%v0, %v1}, %r, [%x];"
    )
    assert check_text(text_of(body, arch="sm_107a"), ptxas=ptxas).ok


def test_allocation_refuses() -> None:
    def check() -> None:
        x = reg.scalar(b32)
        for columns in (0, 16, 96, 1024, "512"):
            with rejected(OperandError, *asked(columns, repr(columns), "power of two, 32..512")):
                ptx.tcgen05.alloc(x, columns)  # type: ignore[arg-type]  # rejected
            with rejected(OperandError, *asked(columns, repr(columns), "power of two")):
                ptx.tcgen05.dealloc(x, columns)  # type: ignore[arg-type]  # rejected
        for columns in (0, 33, 608):
            with rejected(OperandError, repr(columns), "a multiple of 32, 32..576"):
                ptx.tcgen05.alloc(x, columns, exclusive=True)  # rejected
        with rejected(OperandError, "cta_group is 3", "one of 1, 2"):
            ptx.tcgen05.relinquish_alloc_permit(cta_group=3)  # rejected
        with rejected(OperandError, "cta_group is True", "one of 1, 2"):
            ptx.tcgen05.alloc(x, 32, cta_group=True)  # rejected
        with rejected(OperandError, "'cluster'", "'cta'"):
            ptx.tcgen05.alloc(x, 32, space="cluster")  # rejected

    in_kernel(check)


def test_multiplication_refuses() -> None:
    def check() -> None:
        x, d = reg.scalar(b32), reg.scalar(b64)
        p = reg.scalar(pred)
        mma, scales = ptx.tcgen05.mma, {"scale_a": x, "scale_b": x}
        with rejected(
            OperandError, "pred_operand of ptx.tcgen05.mma is 2: expected True or False or a register or ~p"
        ):
            mma(x, d, d, x, pred_operand=2)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "desc_a is %x, a .b32", ".u64", "ptx.addr(a)"):
            mma(x, x, d, x)  # rejected
        with rejected(OperandError, "desc_a of ptx.tcgen05.mma is 0: expected a register or ptx.addr(...)"):
            mma(x, 0, d, x)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "%x", "u64"):
            mma(x, d, x, x)  # rejected
        with rejected(InstructionError, "kind::f17", "kind::f16"):
            mma(x, d, d, x, kind="f17")  # rejected
        with rejected(OperandError, "scale_input_d is 16", "0..15"):
            mma(x, d, d, x, scale_input_d=16)  # rejected
        with rejected(OperandError, "scale-input-d", "kind::f8f6f4"):
            mma(x, d, d, x, kind="f8f6f4", scale_input_d=1)  # rejected
        with rejected(OperandError, "vector of 4", "got 8"):
            mma(x, d, d, x, disable_output_lane=[x] * 8, pred_operand=~p)  # rejected
        with rejected(OperandError, "scale_a is %x", "scale_b is None", "both"):
            mma(x, d, d, x, "mxf4", scale_a=x)  # rejected
        with rejected(OperandError, "'mxf4'", "expected scale_a and scale_b"):
            mma(x, d, d, x, "mxf4")  # rejected
        with rejected(OperandError, "scale_a is %x", "'f16'", "'mxf8f6f4' or 'mxf4' or 'mxf4nvf4'"):
            mma(x, d, d, x, **scales)  # rejected
        with rejected(OperandError, "scale_vec is 1X", "'tf32'"):
            mma(x, d, d, x, "tf32", scale_vec="1X")  # rejected
        with rejected(OperandError, "scale_vec is '4X'", "'mxf4'", "None, '2X', 'block32'"):
            mma(x, d, d, x, "mxf4", scale_vec="4X", **scales)  # rejected
        with rejected(OperandError, "scale_vec is None", "'mxf4nvf4'", "'block16', 'block32'"):
            mma(x, d, d, x, "mxf4nvf4", **scales)  # rejected
        with rejected(OperandError, "scale_input_d is 1", "'mxf8f6f4'"):
            mma(x, d, d, x, "mxf8f6f4", scale_input_d=1, **scales)  # rejected
        with rejected(OperandError, "disable_output_lane", "'mxf8f6f4'"):
            mma(x, d, d, x, "mxf8f6f4", disable_output_lane=[x] * 4, **scales)  # rejected
        with rejected(OperandError, "ashift is True", "'mxf4'"):
            mma(x, ptx.addr(x), d, x, "mxf4", ashift=True, **scales)  # rejected
        with rejected(OperandError, "ashift is True", "%d", "ptx.addr(a)"):
            mma(x, d, d, x, ashift=True)  # rejected
        with rejected(OperandError, "ashift is True", "collector_a is 'fill'", "'lastuse'"):
            mma(x, ptx.addr(x), d, x, ashift=True, collector_a="fill")  # rejected
        with rejected(OperandError, "collector_a is 'keep'", "'lastuse'"):
            mma(x, d, d, x, collector_a="keep")  # rejected
        with rejected(OperandError, "lut is %x", "'f16'", "'f8f6f4' or 'mxf8f6f4'"):
            mma(x, d, d, x, lut=x)  # rejected
        with rejected(TargetError, "collector::b::fill", "sm_100a"):
            mma(x, d, d, x, collector_b="fill")  # rejected
        with rejected(
            OperandError, "metadata of ptx.tcgen05.mma_sp is 5: expected a register or ptx.addr(...)"
        ):
            ptx.tcgen05.mma_sp(x, d, d, 5, x)  # type: ignore[arg-type]  # rejected
        with rejected(
            OperandError, "metadata of ptx.tcgen05.mma_ws_sp is None: expected a register or ptx.addr(...)"
        ):
            ptx.tcgen05.mma_ws_sp(x, d, d, None, x)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "kind is 'mxf4'", "'f16', 'tf32', 'f8f6f4', 'i8', 'ti16'"):
            ptx.tcgen05.mma_ws(x, d, d, x, "mxf4")  # rejected
        with rejected(OperandError, "buffer is 4", "0, 1, 2, 3"):
            ptx.tcgen05.mma_ws(x, d, d, x, collector="fill", buffer=4)  # rejected
        with rejected(OperandError, "buffer is 1", "collector is None", "'fill'"):
            ptx.tcgen05.mma_ws(x, d, d, x, buffer=1)  # rejected
        with rejected(
            OperandError, "zero_column_mask of ptx.tcgen05.mma_ws is 'all': expected a register or an in"
        ):
            ptx.tcgen05.mma_ws(x, d, d, x, zero_column_mask="all")  # type: ignore[arg-type]  # rejected
        with rejected(SpecError, "bits 36-38 and 62-63"):
            ptx.tcgen05.mma_ws(x, d, d, x, zero_column_mask=1 << 62)  # rejected
        with rejected(OperandError, "collector is 'a::fill'", "'fill'"):
            ptx.tcgen05.mma_ws(x, d, d, x, collector="a::fill")  # rejected

    in_kernel(check)


def test_a_known_instruction_descriptor_is_held_against_the_call() -> None:
    def check() -> None:
        x, d = reg.scalar(b32), reg.scalar(b64)
        word = F16.encode()
        scales = {"scale_a": x, "scale_b": x}
        with rejected(OperandError, "kind = 'f16'", "kind = 'tf32'"):
            ptx.tcgen05.mma(x, d, d, F16, "tf32")  # rejected
        with rejected(OperandError, "cta_group = 1", "cta_group = 2"):
            ptx.tcgen05.mma(x, d, d, F16, cta_group=2)  # rejected
        with rejected(OperandError, "a_in_tensor_memory = False", "a_in_tensor_memory = True"):
            ptx.tcgen05.mma(x, ptx.addr(x), d, F16)  # rejected
        with rejected(OperandError, "sparse = False", "sparse = True"):
            ptx.tcgen05.mma_sp(x, d, d, x, F16)  # rejected
        with rejected(OperandError, "ws = False", "ws = True"):
            ptx.tcgen05.mma_ws(x, d, d, F16)  # rejected
        with rejected(SpecError, "code 1 is not a type of A for kind::tf32", "2 tf32"):
            ptx.tcgen05.mma(x, d, d, word, "tf32")  # rejected
        with rejected(SpecError, "M x N = 64 x 8", "cta_group::2", "M 128 or 256"):
            ptx.tcgen05.mma(x, d, d, 1 << 4 | 1 << 17 | 4 << 24, cta_group=2)  # rejected
        with rejected(OperandError, "sparse = False", "sparse = True"):
            ptx.tcgen05.mma_sp(x, d, d, x, word)  # rejected
        with rejected(OperandError, "sparse = True", "sparse = False"):
            ptx.tcgen05.mma(x, d, d, word | 1 << 2)  # rejected
        with rejected(SpecError, "M x N = 128 x 24", ".ws", "N 64 or 128 or 256"):
            ptx.tcgen05.mma_ws(x, d, d, 1 << 4 | 3 << 17 | 8 << 24)  # rejected
        with rejected(OperandError, "ashift is True", "M = 64", "M = 128 or 256"):
            ptx.tcgen05.mma(x, ptx.addr(x), d, 1 << 4 | 1 << 17 | 4 << 24, ashift=True)  # rejected
        small = InstructionDescriptor("f16", 32, 64, "f16", "f16", "f32", max_shift=8, ws=True)
        with rejected(OperandError, "by 16", "max_shift = 8"):
            ptx.tcgen05.mma_ws(x, d, d, small, zero_column_mask=ZeroColumnMask(shift=16))  # rejected
        with rejected(SpecError, "shift = 17 with M = 32", "0..16"):
            ptx.tcgen05.mma_ws(x, d, d, small, zero_column_mask=17 << 56)  # rejected
        with rejected(SpecError, "scale_a_id = 2", "expected 0"):
            nvf4 = 1 << 7 | 1 << 10 | 32 << 17 | 1 << 27 | 2 << 29
            ptx.tcgen05.mma(x, d, d, nvf4, "mxf4nvf4", scale_vec="4X", **scales)  # rejected

    in_kernel(check)


def test_newer_targets_read_their_own_bits() -> None:
    """sm_107 gives reserved bits of the word a meaning: a number is taken as it is."""

    def body() -> None:
        x, d = reg.scalar(b32, init=0), reg.scalar(b64, init=0)
        ptx.tcgen05.mma(x, d, d, 0x08400490 | 1 << 29)

    assert str(0x08400490 | 1 << 29) in lines_of(body, arch="sm_107a")[0]

    def check() -> None:
        x, d = reg.scalar(b32), reg.scalar(b64)
        with rejected(SpecError, "reserved", "29"):
            ptx.tcgen05.mma(x, d, d, 0x08400490 | 1 << 29)  # rejected

    in_kernel(check)


def test_loads_and_stores_refuse() -> None:
    def check() -> None:
        x, y, d, f = reg.scalar(b32), reg.scalar(b32), reg.scalar(b64), reg.scalar(f32)
        three = reg.array(b32, 3)
        with rejected(OperandError, "vector of 128", "got 2"):
            ptx.tcgen05.ld([x, y], x, count=128)  # rejected
        with rejected(InstructionError, "32x64b", "32x32b"):
            ptx.tcgen05.ld([x], x, shape="32x64b")  # rejected
        with rejected(InstructionError, ".x3"):
            ptx.tcgen05.ld(three, x)  # rejected
        with rejected(OperandError, "'f32'", "view(f32)"):
            ptx.tcgen05.ld([x], x, dtype="f32")  # rejected
        with rejected(OperandError, "%d", "address in tensor memory", ".b32"):
            ptx.tcgen05.ld([x], d)  # rejected
        with rejected(OperandError, "%f"):
            ptx.tcgen05.st(f, [x])  # rejected
        with rejected(OperandError, "%y is a destination twice"):
            ptx.tcgen05.ld([y, y], x)  # rejected
        with rejected(OperandError, "half_split is None", "'16x32bx2'"):
            ptx.tcgen05.ld([y], x, "16x32bx2")  # rejected
        with rejected(OperandError, "half_split is 4", "'32x32b'"):
            ptx.tcgen05.st(x, [y], half_split=4)  # rejected
        for split in (-1, 512, x, 1.5):
            with rejected(OperandError, *asked(split, repr(split), "0..511")):
                ptx.tcgen05.st(x, [y], "16x32bx2", half_split=split)  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def test_reductions_refuse() -> None:
    def check() -> None:
        x, r, v = reg.scalar(b32), reg.scalar(f32), reg.array(b32, 4)
        with rejected(OperandError, "op of", "is 'sum'", "'min'"):
            ptx.tcgen05.ld_red(v, r, x, "sum")  # rejected
        with rejected(OperandError, "shape is '16x64b'", "'32x32b', '16x32bx2'"):
            ptx.tcgen05.ld_red(v, r, x, "min", "16x64b")  # rejected
        with rejected(OperandError, "dtype is 'b32'", "'f32', 'u32', 's32'"):
            ptx.tcgen05.ld_red(v, r, x, "min", dtype=b32)  # rejected
        with rejected(OperandError, "abs is True", "'u32'", "'f32' only"):
            ptx.tcgen05.ld_red(v, r, x, "min", dtype=u32, abs=True)  # rejected
        with rejected(OperandError, "%v1 is a destination twice"):
            ptx.tcgen05.ld_red(v, v[1], x, "min")  # rejected
        with rejected(TargetError, "sm_103a"):
            ptx.tcgen05.ld_spcompress(v[0], v[1:3], x, "max")  # rejected
        with rejected(OperandError, "op of", "is 'add'", "'min'"):
            ptx.tcgen05.ld_spcompress(v[0], v[1:3], x, "add")  # rejected

    in_kernel(check, arch="sm_103a")


def test_movement_and_ordering_refuse() -> None:
    def check() -> None:
        x, d = reg.scalar(b32), reg.scalar(b64)
        with rejected(OperandError, "64-bit", "%x", 'space="cluster"'):
            ptx.tcgen05.commit(x, space=None)  # rejected
        with rejected(OperandError, "'cta'", "'cluster', None"):
            ptx.tcgen05.commit(x, space="cta")  # rejected
        with rejected(OperandError, "multicast of ptx.tcgen05.commit is 3: expected a register or None"):
            ptx.tcgen05.commit(x, multicast=3)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "multicast_bits is 8", "16, 32"):
            ptx.tcgen05.commit(x, multicast=x, multicast_bits=8)  # rejected
        with rejected(OperandError, "sync_restrict is 'a'", "'shared::read::mma::a'"):
            ptx.tcgen05.commit(x, sync_restrict="a")  # rejected
        with rejected(OperandError, "shape of", "is '64x256b'", "'128x256b'"):
            ptx.tcgen05.cp(x, d, "64x256b")  # rejected
        with rejected(OperandError, "multicast is None", "'64x128b'", "'warpx2::02_13' or 'warpx2::01_23'"):
            ptx.tcgen05.cp(x, d, "64x128b")  # rejected
        with rejected(OperandError, "multicast is 'warpx4'", "'128x256b'", "None"):
            ptx.tcgen05.cp(x, d, "128x256b", "warpx4")  # rejected
        with rejected(OperandError, "decompress of", "is 'b8x16'", "'b6x16_p32'"):
            ptx.tcgen05.cp(x, d, "128x256b", decompress="b8x16")  # rejected
        with rejected(OperandError, "cta_group is 0", "1, 2"):
            ptx.tcgen05.shift(x, cta_group=0)  # rejected

    in_kernel(check)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
def test_only_where_it_exists(arch: str) -> None:
    def check() -> None:
        with rejected(TargetError, arch):
            ptx.tcgen05.fence_after_thread_sync()  # rejected

    in_kernel(check, arch=arch)


def test_addresses(ptxas: Tool) -> None:
    def body() -> None:
        base, warp, n = reg.scalar(b32, init=0), reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        assert ptx.tcgen05.address(base) is base
        row = ptx.tcgen05.address(base, lane=96, column=17)
        ptx.tcgen05.address(row, column=1)
        far = ptx.tcgen05.address(base, warp, n)
        near = ptx.tcgen05.address(base, warp, 8)
        assert row.type is far.type is near.type is b32

    assert body_of(body)[3:] == [
        f"add.u32 %row, %base, {96 << 16 | 17};",
        "add.u32 %taddr, %row, 1;",
        "mad.lo.u32 %far, %warp, 65536, %base;",
        "add.u32 %far_1, %far, %n;",
        "mad.lo.u32 %near, %warp, 65536, %base;",
        "add.u32 %near_1, %near, 8;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_addresses_refuse() -> None:
    def check() -> None:
        x, d = reg.scalar(b32), reg.scalar(b64)
        with rejected(OperandError, "base is %d, a .b64", "32-bit"):
            ptx.tcgen05.address(d)  # rejected
        with rejected(OperandError, "base of ptx.tcgen05.address is 7: expected a register"):
            ptx.tcgen05.address(7)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "lane is 128", "0..127"):
            ptx.tcgen05.address(x, 128)  # rejected
        with rejected(OperandError, "column is 512", "0..511"):
            ptx.tcgen05.address(x, 0, 512)  # rejected
        with rejected(OperandError, "%d"):
            ptx.tcgen05.address(x, x, d)  # rejected

    in_kernel(check)
