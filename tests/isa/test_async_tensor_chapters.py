"""The chapters of wgmma and tcgen05 against spellings of real kernels, and against mistakes that are easy to make.

Versions and targets are the manual's, where it has them.
"""

from __future__ import annotations

import pytest

from pyptx.core.errors import PyptxError
from pyptx.isa import bind_instruction
from tests.isa.spellings import check_spelling, instruction, registers


@pytest.mark.parametrize(
    ("line", "form", "since", "on", "not_on"),
    [
        # CUTLASS, DeepGEMM and ThunderKittens on Hopper.
        (
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
            f"{registers('f', 64)}, %rd0, %rd1, %p0, 1, 1, 0, 0;",
            "wgmma.mma_async.f16.ss",
            (8, 0),
            "sm_90a",
            "sm_90 sm_100a",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n256k16.f16.f16.f16 "
            f"{registers('r', 64)}, {registers('r', 4, 100)}, %rd1, %p0, 1, 1, 1;",
            "wgmma.mma_async.f16.rs",
            (8, 0),
            "sm_90a",
            "sm_120a",
        ),
        (
            f"wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {registers('f', 32)}, %rd0, %rd1, 1, 1, 1;",
            "wgmma.mma_async.fp8.ss",
            (8, 0),
            "sm_90a",
            "sm_90",
        ),
        (
            f"wgmma.mma_async.sync.aligned.m64n96k32.satfinite.s32.s8.u8 {registers('r', 48)}, %rd0, %rd1, %p0;",
            "wgmma.mma_async.int.ss",
            (8, 4),
            "sm_90a",
            "sm_90",
        ),
        (
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 "
            f"{registers('f', 4)}, %rd0, %rd1, %r0, 0, %p0, 1, 1, 0, 1;",
            "wgmma.mma_async.sp.f16.ss",
            (8, 2),
            "sm_90a",
            "sm_90",
        ),
        # CUTLASS, DeepGEMM and FlashInfer on Blackwell.
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, {%r2, %r3, %r4, %r5}, %p0;",
            "tcgen05.mma.ss",
            (8, 6),
            "sm_100a sm_100f sm_103a sm_110f",
            "sm_100 sm_120a",
        ),
        (
            f"tcgen05.mma.cta_group::2.kind::tf32 [%r0], %rd0, %rd1, %r1, {registers('r', 8, 2)}, %p0, 4;",
            "tcgen05.mma.ss",
            (8, 6),
            "sm_100a sm_103a",
            "sm_110a",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::i8 [%r0], [%r1], %rd1, %r2, %p0;",
            "tcgen05.mma.ts",
            (8, 6),
            "sm_100a sm_110a",
            "sm_100f sm_103a",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 "
            "[%r0], %rd0, %rd1, %r1, [%r2], [%r3], %p0;",
            "tcgen05.mma.block_scale.ss",
            (8, 8),
            "sm_100f sm_103a sm_110f",
            "sm_120a",
        ),
        (
            "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.scale_vec::1X "
            "[%r0], %rd0, %rd1, %r1, [%r2], [%r3], %p0;",
            "tcgen05.mma.block_scale.ss",
            (8, 6),
            "sm_100a",
            "sm_100f sm_120a",
        ),
        (
            "tcgen05.mma.sp.cta_group::1.kind::mxf4.block_scale [%r0], %rd0, %rd1, [%r4], %r1, [%r2], [%r3], %p0;",
            "tcgen05.mma.sp.block_scale.ss",
            (8, 6),
            "sm_100a sm_103a sm_107a sm_110a",
            "sm_100f sm_107f",
        ),
        (
            "tcgen05.mma.ws.sp.cta_group::1.kind::tf32.collector::b1::fill [%r0], [%r1], %rd1, [%r4], %r2, %p0, %rd2;",
            "tcgen05.mma.ws.sp.ts",
            (8, 6),
            "sm_100f sm_110a",
            "sm_90a",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b.collector::b::use "
            "[%r0], %rd0, %rd1, [%r4], %r1, %p0;",
            "tcgen05.mma.lut.ss",
            (9, 4),
            "sm_107a sm_107f",
            "sm_100a sm_103f sm_110a",
        ),
        (
            "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r0], %rd0;",
            "tcgen05.cp",
            (8, 6),
            "sm_100f sm_110f",
            "sm_100",
        ),
        (
            "tcgen05.cp.cta_group::2.64x128b.warpx2::02_13.b8x16.b6x16_p32 [%r0], %rd0;",
            "tcgen05.cp",
            (8, 6),
            "sm_100a",
            "sm_120f",
        ),
        (
            "tcgen05.shift.cta_group::1.down [%r0];",
            "tcgen05.shift",
            (8, 6),
            "sm_100a sm_107a",
            "sm_100f sm_107f",
        ),
        (
            f"tcgen05.ld.sync.aligned.16x32bx2.x8.b32 {registers('r', 8)}, [%r9], 64;",
            "tcgen05.ld.16x32bx2",
            (8, 6),
            "sm_100f sm_110f",
            "sm_90a",
        ),
        (
            f"tcgen05.ld.red.sync.aligned.32x32b.x4.max.abs.NaN.f32 {registers('r', 4)}, %r5, [%r9];",
            "tcgen05.ld.red.32x32b",
            (8, 8),
            "sm_103f sm_107f sm_110f",
            "sm_100a sm_100f",
        ),
        (
            f"tcgen05.ld.red.spcompress.sync.aligned.32x32b.x64.max.sp::2:4.abs.f32.b2 "
            f"{registers('r', 2, 100)}, {registers('r', 32)}, %r90, [%r91];",
            "tcgen05.ld.red.spcompress",
            (9, 4),
            "sm_107a",
            "sm_107f sm_110a",
        ),
        (
            f"tcgen05.st.sync.aligned.16x256b.x2.unpack::16b.b32 [%r9], {registers('r', 8)};",
            "tcgen05.st.16x256b",
            (8, 6),
            "sm_100f",
            "sm_100",
        ),
        (
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r0], %h0;",
            "tcgen05.commit",
            (8, 6),
            "sm_100f",
            "sm_120a",
        ),
        (
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster::32b.b64 [%r0], %r1;",
            "tcgen05.commit",
            (9, 4),
            "sm_107f",
            "sm_100a",
        ),
        (
            "tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 96;",
            "tcgen05.alloc.exclusive",
            (9, 4),
            "sm_100f sm_110f",
            "sm_120a",
        ),
    ],
)
def test_spellings_of_kernels(line: str, form: str, since: tuple[int, int], on: str, not_on: str) -> None:
    check_spelling(line, form, since, on, not_on)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {registers('f', 6)}, %rd0, %rd1, 1, 1, 1, 0, 0;", "m64n12k16"),
        (f"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {registers('r', 20)}, %rd0, %rd1, 1;", "m64n40k32"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {registers('r', 2)}, %rd0, %rd1, 1, 1, 1, 0, 0;", ".f16.bf16.bf16 is given; expected one of"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers('f', 4)}, %rd0, %rd1, 1, 0, 1, 0, 0;", "immediate 0 is not one of -1, 1"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers('f', 8)}, %rd0, %rd1, 1, 1, 1, 0, 0;", "expected a vector of 4 elements, got 8"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers('f', 4)}, {registers('r', 4)}, %rd1, 1, 1, 1, 0, 0;", "8 operands given, expected 7"),
        ("tcgen05.mma.cta_group::1.kind::f16.ashift [%r0], %rd0, %rd1, %r1, %p0;", "a-tmem"),
        ("tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::fill [%r0], [%r1], %rd1, %r2, %p0;", ".ashift and .collector::a::fill exclude each other"),
        ("tcgen05.mma.cta_group::1.kind::f8f6f4 [%r0], %rd0, %rd1, %r1, %p0, 2;", "kind::f8f6f4 and scale-input-d exclude each other"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, %p0, 16;", "immediate 16 is not one of 0..15"),
        ("tcgen05.mma.cta_group::2.kind::f16 [%r0], %rd0, %rd1, %r1, {%r2, %r3, %r4, %r5}, %p0;", "expected a vector of 8 elements, got 4"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, {0, 0, 0, 0}, %p0;", "is a constant; expected at least one register"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%u0], %rd0, %rd1, %r1, %p0;", "%u0 is .u32"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r0], %fd0, %rd1, %r1, %p0;", "%fd0 (f64): its type does not fit"),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [%r0], %rd0, %rd1, %r1, [%r2], [%r3], %p0;", "has no default block size"),
        ("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block16 [%r0], %rd0, %rd1, %r1, [%r2], [%r3], %p0;", "expected one of .scale_vec::2X, .block32"),
        ("tcgen05.mma.cta_group::1.kind::i8.collector::b::fill [%r0], %rd0, %rd1, %r1, %p0;", ".kind::i8 and .collector_b exclude each other"),
        ("tcgen05.mma.ws.cta_group::2.kind::f16 [%r0], %rd0, %rd1, %r1, %p0;", "cta_group::2"),
        ("tcgen05.cp.cta_group::1.64x128b [%r0], %rd0;", ".64x128b requires .warpx2::02_13 or .warpx2::01_23"),
        ("tcgen05.cp.cta_group::1.128x256b.warpx4 [%r0], %rd0;", ".warpx4 is not allowed with .128x256b"),
        (f"tcgen05.ld.sync.aligned.16x128b.x128.b32 {registers('r', 128)}, [%r130];", ".x128"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.max.abs.u32 {%r0, %r1}, %r2, [%r3];", ".abs requires .f32"),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster::32b.b64 [%rd0], %h0;", "expected register of type .u32"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 96;", "immediate 96 is not one of 32, 64, 128, 256, 512"),
    ],
)  # fmt: skip
def test_mistakes_are_named(line: str, named: str) -> None:
    with pytest.raises(PyptxError) as raised:
        bind_instruction(instruction(line))
    assert named in raised.value.message
