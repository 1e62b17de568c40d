"""The warp-level matrix chapters against spellings of real kernels, and against mistakes that are easy to make.

Versions and targets are the manual's, where it has them.
"""

from __future__ import annotations

import pytest

from pyptx.core.errors import PyptxError
from pyptx.isa import bind_instruction, check_target, target
from tests.isa.spellings import check_spelling, instruction


@pytest.mark.parametrize(
    ("line", "form", "since", "on", "not_on"),
    [
        # FlashInfer, CUTLASS, cuda::ptx: operands of the next mma from shared memory.
        (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r4];",
            "ldmatrix",
            (6, 5),
            "sm_75 sm_90 sm_120",
            "",
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%r4+512];",
            "ldmatrix",
            (6, 5),
            "sm_75 sm_90",
            "",
        ),
        (
            "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r0, %r1, %r2, %r3}, [%r4];",
            "ldmatrix.m16n16",
            (8, 6),
            "sm_100a sm_110f sm_121a",
            "sm_90a sm_100 sm_120",
        ),
        (
            "ldmatrix.sync.aligned.m8n16.x1.shared::cta.s8.s4 {%r0}, [%r4];",
            "ldmatrix.m8n16.extend",
            (9, 4),
            "sm_90a sm_103f sm_120f",
            "sm_90 sm_120",
        ),
        (
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r0], {%r1, %r2, %r3, %r4};",
            "stmatrix",
            (7, 8),
            "sm_90 sm_120",
            "sm_89",
        ),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;", "movmatrix", (7, 8), "sm_75 sm_120", ""),
        # CUTLASS mma_sm70.h, mma_sm75.h, mma_sm80.h and what Triton writes.
        (
            "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, "
            "{%r0, %r1}, {%r2, %r3}, {%r4, %r5, %r6, %r7};",
            "mma.f16.m8n8k4",
            (6, 4),
            "sm_75 sm_90",
            "",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4}, {%r5, %r6};",
            "mma.f16",
            (6, 5),
            "sm_75 sm_90",
            "",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, "
            "{%r4, %r5}, {%f0, %f1, %f2, %f3};",
            "mma.f16",
            (7, 0),
            "sm_80 sm_120",
            "sm_75",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, "
            "{%r4, %r5}, {%f4, %f5, %f6, %f7};",
            "mma.alternate",
            (7, 0),
            "sm_80 sm_120",
            "sm_75",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, "
            "{%r4, %r5}, {%f4, %f5, %f6, %f7};",
            "mma.alternate",
            (7, 0),
            "sm_80",
            "sm_75",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, "
            "{%r8, %r9}, {%r0, %r1, %r2, %r3};",
            "mma.i8",
            (7, 0),
            "sm_80 sm_120",
            "sm_75",
        ),
        (
            "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%r0, %r1, %r2, %r3}, "
            "{%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
            "mma.b1",
            (7, 1),
            "sm_80",
            "sm_75",
        ),
        (
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd0, %fd1}, {%fd2}, {%fd3}, {%fd0, %fd1};",
            "mma.f64.m8n8k4",
            (7, 0),
            "sm_80 sm_90",
            "sm_75",
        ),
        # CUTLASS mma_sm89.h, mma_sm90.h, mma_sm120.hpp (its modifiers in the manual's order).
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, "
            "{%r4, %r5}, {%f0, %f1, %f2, %f3};",
            "mma.f8",
            (8, 4),
            "sm_89 sm_90 sm_120",
            "sm_80",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%fd0, %fd1, %fd2, %fd3}, "
            "{%fd4, %fd5, %fd6, %fd7, %fd8, %fd9, %fd10, %fd11}, {%fd12, %fd13, %fd14, %fd15}, "
            "{%fd0, %fd1, %fd2, %fd3};",
            "mma.f64",
            (7, 8),
            "sm_90 sm_120",
            "sm_89",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32 {%f0, %f1, %f2, %f3}, "
            "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};",
            "mma.f8f6f4",
            (8, 7),
            "sm_120a sm_121f",
            "sm_120 sm_100a",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0 "
            "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}, "
            "%r6, {3, 1}, %r7, {2, 3};",
            "mma.mxf8f6f4",
            (8, 7),
            "sm_120a sm_121f",
            "sm_120 sm_100a",
        ),
        (
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0 "
            "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}, "
            "%r6, {%h0, %h1}, %r7, {%h2, %h3};",
            "mma.nvf4",
            (9, 1),
            "sm_120a sm_121f",
            "sm_120",
        ),
        # CUTLASS mma_sparse_sm80.h, TensorRT-LLM.
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, "
            "{%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%f0, %f1, %f2, %f3}, %r8, 0x1;",
            "mma.sp.f16.m16n8k32",
            (8, 5),
            "sm_80 sm_120",
            "sm_75",
        ),
        (
            "mma.sp.sync.aligned.m16n8k64.row.col.satfinite.s32.u8.s8.s32 {%r0, %r1, %r2, %r3}, "
            "{%r4, %r5, %r6, %r7}, {%r8, %r9, %r10, %r11}, {%r0, %r1, %r2, %r3}, %r12, 0;",
            "mma.sp.integer.all",
            (7, 1),
            "sm_80",
            "sm_75",
        ),
        # What nvcc makes of mma.h.
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, "
            "[%rd0], %u0;",
            "wmma.load.a",
            (6, 3),
            "sm_75 sm_90",
            "",
        ),
        (
            "wmma.load.b.sync.aligned.col.m8n32k16.shared::cta.bf16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, "
            "[%rd0], 24;",
            "wmma.load.b",
            (7, 8),
            "sm_80",
            "sm_75",
        ),
        (
            "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, "
            "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15}, "
            "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};",
            "wmma.mma.f16",
            (6, 3),
            "sm_75 sm_120",
            "",
        ),
        (
            "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r0, %r1}, {%r2}, {%r3}, {%r0, %r1};",
            "wmma.mma.b1",
            (6, 3),
            "sm_75",
            "",
        ),
        (
            "wmma.store.d.sync.aligned.row.m16n16k8.f32 [%rd0], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};",
            "wmma.store.d",
            (7, 0),
            "sm_80",
            "sm_75",
        ),
    ],
)
def test_spellings_of_kernels(line: str, form: str, since: tuple[int, int], on: str, not_on: str) -> None:
    check_spelling(line, form, since, on, not_on)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        # CUTLASS mma_sm75.h, mma_sm80.h and copy_sm90.hpp put the count first, the state space before .trans
        # and .satfinite last.
        (
            "ldmatrix.sync.aligned.x4.m8n8.shared.trans.b16 {%r0, %r1, %r2, %r3}, [%r4];",
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        ),
        (
            "stmatrix.sync.aligned.x2.m8n8.shared.b16 [%r0], {%r1, %r2};",
            "stmatrix.sync.aligned.m8n8.x2.shared.b16",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32.satfinite {%r0, %r1, %r2, %r3}, "
            "{%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
            "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32",
        ),
        (
            "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
            "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}, "
            "%r6, {%h0, %h1}, %r7, {%h2, %h3};",
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        ),
    ],
)
def test_other_orders(line: str, name: str) -> None:
    assert bind_instruction(instruction(line)).match.name == name


_D, _A, _B, _C = "{%f0, %f1, %f2, %f3}", "{%r0, %r1, %r2, %r3}", "{%r4, %r5}", "{%f4, %f5, %f6, %f7}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%r4];",
            "expected a vector of 4 elements, got 2",
        ),
        ("ldmatrix.sync.aligned.m8n8.x8.shared.b16 {%r0, %r1}, [%r4];", r"unknown modifier \.x8"),
        ("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r0, %r1}, [%r4];", r"missing modifier \.trans"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], %r1;", "expected vector of 1 x"),
        # A and B exchanged.
        (
            f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_D}, {_B}, {_A}, {_C};",
            r"operand 2 \(a\) .*expected a vector of 4 elements, got 2",
        ),
        (
            f"mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {_D}, {_A}, {_B}, {_C};",
            r"\.m16n8k16\.tf32 is given; expected one of \.m16n8k16\.bf16",
        ),
        (
            f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.tf32.f32 {_D}, {_A}, {_B}, {_C};",
            r"\.m16n8k16\.bf16\.tf32 is given; expected one of .*\.m16n8k16\.bf16\.bf16",
        ),
        # Types and layouts are told apart by their order.
        (
            f"mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {_D}, {_A}, {_B}, {_C};",
            r"nearest legal spelling: mma\.sync\.aligned\.m8n8k4\.col\.row\.",
        ),
        (
            f"mma.sync.aligned.m16n8k16.row.col.f16.f16.f32.f32 {_D}, {_A}, {_B}, {_C};",
            "modifiers are in the wrong order",
        ),
        (
            f"mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {_D}, {_A}, {_B}, {_C};",
            r"missing modifier \.col",
        ),
        (
            f"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32 {_B}, {_A}, {_B}, {_C};",
            r"\.f16\.f32 is given; expected one of \.f16\.f16",
        ),
        (
            f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_A}, {_A}, {_B}, {{%u0, %u1, %u2, %u3}};",
            "element 0, register %u0 .u32.: its type does not fit",
        ),
        (
            f"mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
            f"{_D}, {_A}, {_B}, {_C}, %r6, {{0, 0}}, %r7, {{0, 0}};",
            r"\.kind::mxf4nvf4 requires \.scale_vec::2X",
        ),
        (
            f"mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
            f"{_D}, {_A}, {_B}, {_C}, %r6, {{1, 0}}, %r7, {{0, 0}};",
            "byte of select-a is 1; expected one of 0, 2",
        ),
        (
            f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e2m3.f32.ue8m0 "
            f"{_D}, {_A}, {_B}, {_C}, %r6, {{3, 2}}, %r7, {{0, 0}};",
            "thread of select-a is 2; expected one of 0, 1",
        ),
        (
            f"mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
            f"{_D}, {_A}, {_B}, {_C}, %r6, {{0, 0}}, %r7, {{2, 0}};",
            "byte of select-b is 2; expected one of 0",
        ),
        (
            f"mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {_D}, {_A}, {_A}, {_C}, %r8, 2;",
            r"immediate 2 is not one of 0\.\.1",
        ),
        (
            f"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_D}, {_B}, {_B}, {_C}, %r8, %r9;",
            r"operand 6 \(selector\) .*a register is not allowed",
        ),
        (
            "wmma.load.a.sync.aligned.col.m8n8k32.shared.s4 {%r0}, [%rd0];",
            r"nearest legal spelling: wmma\.load\.b\.sync\.aligned\.col\.m8n8k32\.shared\.s4",
        ),
        (
            "wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd0], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, 0f00000000};",
            "an immediate is not allowed",
        ),
        (
            "wmma.load.c.sync.aligned.row.m8n8k32.f32 {%f0, %f1}, [%rd0];",
            r"\.m8n8k32\.f32 is given; expected one of \.m8n8k32\.s32",
        ),
        (
            "wmma.load.a.sync.aligned.row.m8n32k16.shared.s8 {%r0, %r1}, [%rd0];",
            "expected a vector of 1 elements, got 2",
        ),
    ],
)
def test_mistakes(line: str, reason: str) -> None:
    with pytest.raises(PyptxError, match=reason):
        bind_instruction(instruction(line))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_D}, {_A}, {_B}, {_C};", "sm_75"),
        (
            f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e3m2.f32 {_D}, {_A}, {_B}, {_C};",
            "sm_100a",
        ),
    ],
)
def test_targets_that_lack_one(line: str, name: str) -> None:
    binding = bind_instruction(instruction(line))
    with pytest.raises(PyptxError, match=f"does not exist on {name}"):
        check_target(binding, target(name))
