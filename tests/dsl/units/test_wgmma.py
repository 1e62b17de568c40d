"""``ptx.wgmma``: every variant through ptxas, fragments, descriptors, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, SpecError, TargetError, UnsupportedError
from pyptx.core.types import b32, b64, bf16, f16, f16x2, f32, pred, s32, u8, u32, u64
from pyptx.dsl import Scalar, current, ptx, reg, smem
from pyptx.dsl.units import wgmma
from pyptx.dsl.units.fragments import Fragment
from pyptx.ir import Immediate, Instruction
from pyptx.layout import OperandTile, WgmmaDescriptor, wgmma_fragment
from pyptx.toolchain import Tool
from tests.dsl.helpers import body_of, in_kernel, recorded, rejected
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

#: Types of D, A and B that multiply.
PRODUCTS = [
    *((total, "f16", "f16") for total in ("f16", "f32")),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    *itertools.product(("f16", "f32"), ("e4m3", "e5m2"), ("e4m3", "e5m2")),
    *itertools.product(("s32",), ("s8", "u8"), ("s8", "u8")),
    ("s32", "b1", "b1"),
]


def product(n: int, types: tuple[str, str, str], sparse: bool, in_registers: bool, **options: Any) -> Call:
    """One mma_async, with the operands that it needs."""
    total, atype, btype = types

    def body() -> None:
        acc = ptx.wgmma.accumulator(64, n, total)
        desc = reg.scalar(u64)
        a = ptx.wgmma.fragment(atype, sparse=sparse) if in_registers else desc
        metadata = reg.scalar(b32) if sparse else None
        ptx.wgmma.mma_async(acc, a, desc, atype=atype, btype=btype, metadata=metadata, **options)

    return Call("wgmma.mma_async", body, group=n)


def columns(total: str) -> list[int]:
    return [n for n in range(8, 257, 8) if total != "s32" or n <= 24 or n % 16 == 0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("types", PRODUCTS, ids=".".join)
def test_every_shape_of_every_product(types: tuple[str, str, str], ptxas: Tool) -> None:
    total, atype, _ = types
    calls = [
        product(n, types, sparse, in_registers, satfinite=clamp)
        for n in columns(total)
        for sparse, in_registers, clamp in itertools.product((False, True), repeat=3)
        if not (sparse and atype == "b1") and not (clamp and atype not in ("s8", "u8"))
    ]
    reached = assemble_calls(calls, ptxas, ("sm_90a",))
    # Every variant with these types, and no other.
    assert unreached(reached, "wgmma", lambda words: words[-3:] == types or (words[-5:-2] == types)) == []
    assert len(reached.variants) == len(calls) + 1  # and the ret of each kernel


def test_the_options_of_every_operand(ptxas: Tool) -> None:
    calls = [
        Call("wgmma.fence", ptx.wgmma.fence),
        Call("wgmma.commit_group", ptx.wgmma.commit_group),
        *(Call("wgmma.wait_group", lambda n=n: ptx.wgmma.wait_group(n)) for n in (0, 1, 7, (1 << 32) - 1)),  # type: ignore[misc]
        *(
            product(16, types, sparse, in_registers, scale_a=a, scale_b=b, trans_a=turn_a, trans_b=turn_b, scale_d=d)
            for types in (("f32", "f16", "f16"), ("f32", "bf16", "bf16"))
            for sparse, in_registers, turn_a, turn_b, d in itertools.product((False, True), repeat=5)
            for a, b in itertools.product((-1, 1), repeat=2)
            if not (in_registers and turn_a)
        ),
        *(
            product(8, types, True, in_registers, selector=selector)
            for types in (("f32", "f16", "f16"), ("f32", "tf32", "tf32"))
            for in_registers, selector in itertools.product((False, True), (0, 1))
        ),
    ]  # fmt: skip
    reached = assemble_calls(calls, ptxas)
    assert set(reached.targets) == {("sm_90a",)}

    def declared() -> None:
        tile = smem.alloc((64, 64), bf16, swizzle="128B")
        ptx.wgmma.accumulator()
        ptx.wgmma.fragment(bf16)
        ptx.wgmma.advance(ptx.wgmma.descriptor(tile), 32)

    recorded(declared, arch="sm_100a")  # what makes no wgmma instruction is for every target
    named = reached.wrappers | {
        f"wgmma.{name}" for name in ("accumulator", "advance", "descriptor", "fragment")
    }
    assert named == public_functions(wgmma, "wgmma")


def test_spelling() -> None:
    def body() -> None:
        acc = ptx.wgmma.accumulator(n=8)
        half = ptx.wgmma.accumulator(n=8, dtype=f16)
        whole = ptx.wgmma.accumulator(n=8, dtype=s32)
        a, b = reg.scalar(u64), reg.scalar(b64)
        p, e = reg.scalar(pred), reg.scalar(b32)
        ptx.wgmma.fence()
        ptx.wgmma.mma_async(acc, a, b, atype=bf16, scale_d=False)
        ptx.wgmma.mma_async(acc, a, b, btype="bf16", scale_d=p, scale_b=-1, trans_b=True, pred=~p)
        x = ptx.wgmma.fragment(f16)
        ptx.wgmma.mma_async(half, x, b, scale_d=~p)
        ptx.wgmma.mma_async(whole, a, b, atype=u8, btype="s8", satfinite=True)
        ptx.wgmma.mma_async(acc, a, b, atype=bf16, metadata=e, selector=1)
        ptx.wgmma.mma_async([*acc], [*x], b, atype=f16, trans_b=True)
        ptx.wgmma.mma_async([*half], a, b, atype="e4m3", dtype=f16)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(1)

    d, h, w = ("{%acc0, %acc1, %acc2, %acc3}", "{%half0, %half1}", "{%whole0, %whole1, %whole2, %whole3}")
    x = "{%x0, %x1, %x2, %x3}"
    assert body_of(body, arch="sm_90a") == [
        "wgmma.fence.sync.aligned;",
        f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {d}, %a, %b, 0, 1, 1, 0, 0;",
        f"@!%p wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {d}, %a, %b, %p, 1, -1, 0, 1;",
        f"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {h}, {x}, %b, !%p, 1, 1, 0;",
        f"wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.u8.s8 {w}, %a, %b, 1;",
        f"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {d}, %a, %b, %e, 1, 1, 1, 1, 0, 0;",
        f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d}, {x}, %b, 1, 1, 1, 1;",
        f"wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3 {h}, %a, %b, 1, 1, 1;",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 1;",
    ]


def test_an_accumulator_knows_its_elements() -> None:
    def body() -> None:
        acc = ptx.wgmma.accumulator(64, 32, f32)
        half = ptx.wgmma.accumulator(64, 32, f16)
        assert (len(acc), acc.elements, len(half), half.elements, half.type) == (16, 16, 8, 16, f16x2)
        assert [r.name for r in acc] == [f"acc{i}" for i in range(16)]
        layout = wgmma_fragment("d", "f32", 32)
        for thread, i in itertools.product((0, 1, 5, 31, 32, 77, 127), range(16)):
            for found in (acc, half):
                assert (found.row(i, thread), found.column(i, thread)) == layout.place(i, thread)[:2]
                position = found.coordinates(i)
                assert (position.row(thread), position.column(thread)) == layout.place(i, thread)[:2]
        assert acc.register(5) == (acc[5], 0)
        register, part = half.register(5)
        assert (register is half[2], part) == (True, 1)
        piece = acc[4:12]
        assert isinstance(piece, Fragment) and not piece.whole and len(piece) == 8
        assert [piece.column(i) for i in range(4)] == [acc.column(i) for i in range(4, 8)] == [8, 9, 8, 9]
        assert piece[2:4].row(0) == 8 and piece[::4][1] is acc[8]
        assert half[1:].row(0) == 8 and half[1:].elements == 14
        assert "8 of 16 x f32" in repr(piece)
        with rejected(OperandError, "element 8", "0..7"):
            piece.row(8)  # rejected

    in_kernel(body, arch="sm_90a")


def test_the_origin_of_a_thread_is_recorded() -> None:
    def body() -> None:
        acc = ptx.wgmma.accumulator(64, 8)
        here = acc.origin()
        there = acc[2:].origin(here.row)
        assert here.matrix is None and there.row.type is u32

    assert body_of(body, arch="sm_90a") == [
        "mov.u32 %thread, %tid.x;",
        "shr.u32 %row, %thread, 2;",
        "and.b32 %row, %row, 7;",
        "shr.u32 %digit, %thread, 5;",
        "and.b32 %digit, %digit, 3;",
        "mad.lo.u32 %row, %digit, 16, %row;",
        "and.b32 %digit_1, %thread, 3;",
        "shl.b32 %column, %digit_1, 1;",
        "shr.u32 %row_1, %row, 2;",
        "and.b32 %row_1, %row_1, 7;",
        "shr.u32 %digit_2, %row, 5;",
        "and.b32 %digit_2, %digit_2, 3;",
        "mad.lo.u32 %row_1, %digit_2, 16, %row_1;",
        "and.b32 %digit_3, %row, 3;",
        "shl.b32 %column_1, %digit_3, 1;",
    ]


def _constant(body: Any, **options: Any) -> int:
    """The constant that a descriptor's last instruction puts in."""
    trace: list[Instruction] = []

    def kernel() -> None:
        body()
        trace.extend(s for s in current().statements if isinstance(s, Instruction))

    recorded(kernel, arch="sm_90a", **options)
    last = trace[-1].operands[2]
    assert trace[-1].opcode == "or" and isinstance(last, Immediate) and isinstance(last.value, int)
    return last.value


@pytest.mark.parametrize(
    ("shape", "dtype", "swizzle", "major", "leading", "stride"),
    [
        ((64, 64), bf16, "128B", "K", 16, 1024),
        ((128, 32), bf16, "64B", "K", 16, 512),
        ((64, 8), f32, "32B", "K", 16, 256),
        ((64, 128), u8, "128B", "K", 16, 1024),
        ((2, 64, 8), bf16, "none", "K", 1024, 128),
        ((64, 64), bf16, "128B", "MN", 8192, 1024),
        ((3, 16, 32), f16, "64B", "MN", 1024, 512),
        ((16, 8), f16, "none", "MN", 128, 256),
    ],
)
def test_a_buffer_implies_its_descriptor(
    shape: tuple[int, ...], dtype: Any, swizzle: str, major: str, leading: int, stride: int
) -> None:
    def body() -> None:
        tile = smem.alloc(shape, dtype, swizzle=swizzle)
        desc = ptx.wgmma.descriptor(tile, major=major)
        assert (desc.type, desc.name) == (b64, "desc")

    assert WgmmaDescriptor.decode(_constant(body)) == WgmmaDescriptor(0, leading, stride, swizzle)


def test_a_descriptor_is_four_instructions() -> None:
    def body(p: Any) -> None:
        tile = smem.alloc((8, 64), bf16, swizzle="128B", stages=4)
        first = ptx.wgmma.descriptor(tile[0])
        second = ptx.wgmma.descriptor(p.view(b32), swizzle="64B")
        third = ptx.wgmma.descriptor(tile[p])
        assert first.name == "first" and second.name == "second" and third.name == "third"

    assert body_of(body, Scalar(u32), arch="sm_90a")[2:] == [
        "shr.u32 %address, %smem_base, 4;",
        "and.b32 %address, %address, 16383;",
        "cvt.u64.u32 %wide, %address;",
        f"or.b64 %first, %wide, {1 << 62 | 64 << 32 | 1 << 16};",
        "shr.u32 %address_1, %p, 4;",
        "and.b32 %address_1, %address_1, 16383;",
        "cvt.u64.u32 %wide_1, %address_1;",
        f"or.b64 %second, %wide_1, {1 << 63 | 32 << 32 | 1 << 16};",
        "mad.lo.u32 %tile_stage, %p, 1024, %smem_base;",
        "shr.u32 %address_2, %tile_stage, 4;",
        "and.b32 %address_2, %address_2, 16383;",
        "cvt.u64.u32 %wide_2, %address_2;",
        f"or.b64 %third, %wide_2, {1 << 62 | 64 << 32 | 1 << 16};",
    ]


@pytest.mark.parametrize(("major", "swizzle"), [("K", "128B"), ("K", "none"), ("MN", "64B")])
def test_a_tile_implies_its_descriptor(major: Any, swizzle: str) -> None:
    tile = OperandTile(64, 128, 16, major, swizzle)

    def body() -> None:
        ptx.wgmma.descriptor(smem.alloc(tile.nbytes, swizzle=swizzle), tile)

    expected = WgmmaDescriptor(0, tile.leading_bytes, tile.stride_bytes, swizzle)
    assert WgmmaDescriptor.decode(_constant(body)) == expected


def test_given_distances_are_used() -> None:
    def body() -> None:
        ptx.wgmma.descriptor(
            reg.scalar(u32), swizzle="128B", major="MN", leading=4096, stride=2048, base_offset=3
        )

    assert _constant(body) == WgmmaDescriptor(0, 4096, 2048, "128B", 3).encode()


def test_descriptor_refuses() -> None:
    def body() -> None:
        wide = smem.alloc((64, 128), bf16, swizzle="128B")
        with rejected(SpecError, "rows of 256 bytes", "'128B'", "rows of 128 bytes"):
            ptx.wgmma.descriptor(wide)  # rejected
        plain = smem.alloc((64, 64), bf16)
        with rejected(SpecError, "rows of 128 bytes", "'none'", "rows of 16 bytes"):
            ptx.wgmma.descriptor(plain)  # rejected
        with rejected(OperandError, "'128B'", "'none'", "expected the same"):
            ptx.wgmma.descriptor(plain, swizzle="128B")  # rejected
        few = smem.alloc((12, 64), bf16, swizzle="128B")
        with rejected(SpecError, "12 rows", "multiple of 8"):
            ptx.wgmma.descriptor(few)  # rejected
        line = smem.alloc(1024)
        with rejected(OperandError, "(1024,)", "leading and stride"):
            ptx.wgmma.descriptor(line)  # rejected
        row = smem.alloc((64, 16), u8)
        with rejected(OperandError, "swizzle is '64B'", "the tile is '128B'"):
            ptx.wgmma.descriptor(reg_narrow, OperandTile(64, 64, 16), swizzle="64B")  # rejected
        with rejected(OperandError, "the buffer is 'none'", "the tile is '128B'"):
            ptx.wgmma.descriptor(plain, OperandTile(64, 64, 16))  # rejected
        with rejected(OperandError, "major is 'MN'", "the tile is 'K'"):
            ptx.wgmma.descriptor(wide, OperandTile(64, 64, 16), major="MN")  # rejected
        with rejected(UnsupportedError, "128B_ATOM_32B"):
            ptx.wgmma.descriptor(reg_narrow, OperandTile(64, 64, 32, "MN", "128B_ATOM_32B"))  # rejected
        with rejected(OperandError, "'row'", "offset", "multiple of 16"):
            ptx.wgmma.descriptor(row.at(0, 8))  # rejected
        address = reg.scalar(u32)
        with rejected(OperandError, "swizzle", "not known"):
            ptx.wgmma.descriptor(address)  # rejected
        with rejected(OperandError, "MN-major", "leading and stride"):
            ptx.wgmma.descriptor(address, swizzle="64B", major="MN")  # rejected
        with rejected(OperandError, "'none'", "leading and stride"):
            ptx.wgmma.descriptor(address, swizzle="none", stride=128)  # rejected
        with rejected(OperandError, "major is 'M'", "'K', 'MN'"):
            ptx.wgmma.descriptor(row, major="M")  # rejected
        with rejected(SpecError, "stride_bytes = 1032", "multiple of 16"):
            ptx.wgmma.descriptor(address, swizzle="128B", stride=1032)  # rejected
        with rejected(SpecError, "base_offset = 8", "0..7"):
            ptx.wgmma.descriptor(address, swizzle="128B", base_offset=8)  # rejected
        with rejected(OperandError, "source is", "32-bit register"):
            ptx.wgmma.descriptor(reg_wide, swizzle="128B")  # rejected

    def kernel() -> None:
        nonlocal reg_wide, reg_narrow
        reg_wide, reg_narrow = reg.scalar(u64), reg.scalar(u32)
        body()

    reg_wide: Any = None
    reg_narrow: Any = None
    in_kernel(kernel, arch="sm_90a")


def test_mma_async_refuses() -> None:
    def body() -> None:
        acc, total = ptx.wgmma.accumulator(n=16), ptx.wgmma.accumulator(n=16, dtype=s32)
        a, x = reg.scalar(u64), ptx.wgmma.fragment(bf16)
        f, e = reg.scalar(f32), reg.scalar(b32)
        other = ptx.mma.fragment("d", "m16n8k16", f32)
        with rejected(OperandError, "types of A and B"):
            ptx.wgmma.mma_async(acc, a, a)  # rejected
        with rejected(OperandError, "4 of 8 x f32", "whole accumulator"):
            ptx.wgmma.mma_async(acc[:4], a, a, atype=bf16)  # rejected
        with rejected(OperandError, "m16n8k16", "accumulator"):
            ptx.wgmma.mma_async(other, a, a, atype=bf16)  # rejected
        with rejected(OperandError, "n is 32", "m64n16"):
            ptx.wgmma.mma_async(acc, a, a, atype=bf16, n=32)  # rejected
        with rejected(OperandError, "7 registers", "expected 8", "n = 16"):
            ptx.wgmma.mma_async([*acc][:7], a, a, n=16, atype=bf16)  # rejected
        with rejected(SpecError, "N = 14", "multiple of 8"):
            ptx.wgmma.mma_async([*acc][:7], a, a, atype=bf16)  # rejected
        with rejected(
            OperandError, "d of ptx.wgmma.mma_async is the register %f (.f32): expected a Fragment or a reg"
        ):
            ptx.wgmma.mma_async(f, a, a, atype=bf16)  # rejected
        with rejected(OperandError, "atype is 'f16'", "in bf16"):
            ptx.wgmma.mma_async(acc, x, a, atype=f16)  # rejected
        with rejected(OperandError, "3 of 4", "whole fragment"):
            ptx.wgmma.mma_async(acc, x[1:], a)  # rejected
        with rejected(OperandError, "sparse=True"):
            ptx.wgmma.mma_async(acc, x, a, metadata=e)  # rejected
        with rejected(OperandError, "2 registers", "expected 4"):
            ptx.wgmma.mma_async(acc, [*x][:2], a, atype=bf16)  # rejected
        with rejected(SpecError, "'f32'", "expected f16, bf16"):
            ptx.wgmma.mma_async(acc, a, a, atype=f32)  # rejected
        with rejected(InstructionError, "bf16"):
            ptx.wgmma.mma_async(acc, a, a, atype=bf16, btype=f16)  # rejected
        with rejected(OperandError, "scale_a is -1", "s8", "floats"):
            ptx.wgmma.mma_async(total, a, a, atype="s8", scale_a=-1)  # rejected
        with rejected(OperandError, "scale_b is 2", "1, -1"):
            ptx.wgmma.mma_async(acc, a, a, atype=bf16, scale_b=2)  # rejected
        with rejected(OperandError, "trans_a is True", "registers"):
            ptx.wgmma.mma_async(acc, x, a, trans_a=True)  # rejected
        with rejected(OperandError, "trans_b is True", "e4m3"):
            ptx.wgmma.mma_async(acc, a, a, atype="e4m3", trans_b=True)  # rejected
        with rejected(
            OperandError, "scale_d of ptx.wgmma.mma_async is 2: expected True or False or a register or ~p"
        ):
            ptx.wgmma.mma_async(acc, a, a, atype=bf16, scale_d=2)  # rejected
        with rejected(OperandError, "selector is 2", "0, 1"):
            ptx.wgmma.mma_async(acc, a, a, atype=bf16, metadata=e, selector=2)  # rejected
        with rejected(OperandError, "selector is 1", "0"):
            ptx.wgmma.mma_async(acc, a, a, atype="e4m3", metadata=e, selector=1)  # rejected
        with rejected(OperandError, "selector is 0", "without metadata"):
            ptx.wgmma.mma_async(acc, a, a, atype=bf16, selector=0)  # rejected
        with rejected(OperandError, "metadata of ptx.wgmma.mma_async is 0: expected a register or None"):
            ptx.wgmma.mma_async(acc, a, a, atype=bf16, metadata=0)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "wait_group(-1)", "0..4294967295"):
            ptx.wgmma.wait_group(-1)  # rejected
        with rejected(OperandError, "m is 128", "expected 64"):
            ptx.wgmma.accumulator(m=128)  # rejected
        with rejected(SpecError, "N = 12"):
            ptx.wgmma.accumulator(n=12)  # rejected
        with rejected(SpecError, "'f64'"):
            ptx.wgmma.fragment("f64")  # rejected
        with rejected(OperandError, "thread is"):
            acc.origin(f)  # rejected

    in_kernel(body, arch="sm_90a")


def test_other_targets_lack_it() -> None:
    def body() -> None:
        with rejected(TargetError, "sm_100a", "sm_90a"):
            ptx.wgmma.fence()  # rejected

    in_kernel(body, arch="sm_100a")
