"""Builders of ``ptx.tcgen05``: the words they make, what they record, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import OperandError, SpecError, TargetError, TraceError
from pyptx.core.types import TYPES, b32, b64, bf16, f32, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.layout import InstructionDescriptor, OperandTile, Tcgen05SmemDescriptor, ZeroColumnMask
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import asked, body_of, in_kernel, rejected, text_of

build = ptx.tcgen05.instruction_descriptor


# --- instruction descriptors ----------------------------------------------------------------------


def test_kind_f16() -> None:
    make = ptx.tcgen05.make_instr_desc_f16bf16_f32
    assert make() == make(m=128, n=256, ab_dtype=bf16) == build(m=128, n=256, a_type=bf16) == 0x08400490
    assert make(m=256, n=256, ab_dtype="f16") == build(m=256, n=256, a_type="f16") == 0x10400010
    assert make(n=128, cta_group=2) == 0x08200490
    with pytest.raises(SpecError, match="96"):
        make(m=96)
    with pytest.raises(SpecError, match="f32"):
        make(ab_dtype=f32)


KINDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("f16", {"a_type": "f16", "d_type": "f16"}, {"a_type": "f16", "b_type": "f16", "d_type": "f16"}),
    ("tf32", {"a_major": "MN"}, {"a_type": "tf32", "b_type": "tf32", "d_type": "f32", "a_major": "MN"}),
    ("f8f6f4", {"a_type": TYPES["e4m3"], "b_type": "e2m1"}, {"a_type": "e4m3", "b_type": "e2m1", "d_type": "f32"}),
    ("i8", {"a_type": "s8", "saturate": True}, {"a_type": "s8", "b_type": "s8", "d_type": "s32", "saturate": True}),
    ("ti16", {"negate_b": True}, {"a_type": "s1z4m11", "b_type": "s1z4m11", "d_type": "s32", "negate_b": True}),
    ("mxf8f6f4", {"a_type": "e5m2", "scale_a_id": 3},
     {"a_type": "e5m2", "b_type": "e5m2", "d_type": "f32", "scale_type": "ue8m0", "scale_a_id": 3}),
    ("mxf4", {"scale_b_id": 2, "k": 64},
     {"a_type": "e2m1", "b_type": "e2m1", "d_type": "f32", "scale_type": "ue8m0", "scale_b_id": 2}),
    ("mxf4nvf4", {"scale_type": "ue4m3", "k": 96},
     {"a_type": "e2m1", "b_type": "e2m1", "d_type": "f32", "scale_type": "ue4m3", "wide_k": True}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "says"), KINDS)
def test_every_kind_with_its_defaults(kind: str, given: dict[str, Any], says: dict[str, Any]) -> None:
    word = build(m=128, n=128, kind=kind, **given)
    assert InstructionDescriptor.decode(word, kind) == InstructionDescriptor(kind, 128, 128, **says)


def test_what_belongs_to_the_instruction() -> None:
    assert build(m=32, n=64, a_type="f16", ws=True, max_shift=16) == 2 << 30 | 2 << 24 | 8 << 17 | 1 << 4
    sparse = build(m=128, n=32, kind="tf32", sparse=True, sparsity_selector=3, k=16, cta_group=2)
    assert sparse & 7 == 7
    assert build(m=256, n=32, a_type="f16", a_in_tensor_memory=True) == 16 << 24 | 4 << 17 | 1 << 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "f16"}, "a_type is not given and kind::f16 has several types: expected one of f16, bf16"),
        ({"kind": "mxf4nvf4"}, "scale_type is not given .*ue4m3, ue8m0"),
        ({"kind": "f64"}, "no kind::f64"),
        ({"kind": "tf32", "k": 16}, "k = 16 does not exist for kind::tf32, dense; expected 8"),
        ({"kind": "mxf4", "k": 128}, "k = 128 .*expected 64 or 96"),
        ({"kind": "tf32", "k": 96}, r"wide_k \(K = 96\) with kind::tf32"),
        ({"kind": "tf32", "sparse": True, "k": 8}, "k = 8 .*sparse; expected 16"),
        ({"kind": "mxf4", "block": 16}, "block = 16 .*expected 32"),
    ],
)
def test_instruction_descriptors_refuse(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build(m=128, n=64, **arguments)


def test_scale_ids_are_inserted(ptxas: Tool) -> None:
    def body() -> None:
        idesc, which = reg.scalar(b32, init=0), reg.scalar(u32, init=0)
        both = ptx.tcgen05.with_scale_ids(idesc, a=which, b=2)
        one = ptx.tcgen05.with_scale_ids(0x08400000, b=which)
        assert both.type is one.type is b32

    assert body_of(body)[2:] == [
        "bfi.b32 %both, %which, %idesc, 29, 2;",
        "bfi.b32 %both_1, 2, %both, 4, 2;",
        f"bfi.b32 %one, %which, {0x08400000}, 4, 2;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


@pytest.mark.parametrize(("a", "b"), [(0, 0), (3, 1), (2, 2)])
def test_scale_ids_lie_where_the_descriptor_has_them(a: int, b: int) -> None:
    plain = build(m=128, n=64, kind="mxf8f6f4", a_type="e4m3")
    inserted = build(m=128, n=64, kind="mxf8f6f4", a_type="e4m3", scale_a_id=a, scale_b_id=b)
    assert inserted == plain | a << 29 | b << 4  # the positions of bfi above


def test_scale_ids_refuse() -> None:
    def check() -> None:
        x, d = reg.scalar(b32), reg.scalar(b64)
        with rejected(OperandError, "a is None and b is None", "at least one"):
            ptx.tcgen05.with_scale_ids(x)  # rejected
        with rejected(OperandError, "4", "0..3"):
            ptx.tcgen05.with_scale_ids(x, a=4)  # rejected
        with rejected(OperandError, "idesc is", "%d", "32-bit"):
            ptx.tcgen05.with_scale_ids(d, a=1)  # rejected
        with rejected(OperandError, "4294967296", "32-bit"):
            ptx.tcgen05.with_scale_ids(1 << 32, a=1)  # rejected
        with rejected(OperandError, "%d"):
            ptx.tcgen05.with_scale_ids(x, a=1, b=d)  # rejected

    in_kernel(check)


# --- shared memory --------------------------------------------------------------------------------


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
            with rejected(OperandError, *asked(bits, repr(bits), "64 bits")):
                ptx.tcgen05.masked_descriptor(a, const_bits=bits)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "u64", "32-bit"):
            ptx.tcgen05.masked_descriptor(wide)  # rejected
        with rejected(
            OperandError, "smem_addr of ptx.tcgen05.masked_descriptor is 4096: expected a register or a sha"
        ):
            ptx.tcgen05.masked_descriptor(4096)  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def constant_of(lines: list[str]) -> int:
    """The constant bits that a recorded descriptor is ORed with."""
    (line,) = (line for line in lines if line.startswith("or.b64"))
    return int(line.rstrip(";").rpartition(" ")[2])


@pytest.mark.parametrize(
    ("shape", "kind", "major", "swizzle", "leading", "stride"),
    [
        ((128, 64), "bf16", "K", "128B", 16, 1024),
        ((128, 128), "bf16", "K", "128B", 16, 1024),  # two boxes side by side
        ((256, 32), "bf16", "K", "64B", 16, 512),
        ((64, 32), "e4m3", "K", "32B", 16, 256),
        ((128, 64), "bf16", "K", "none", 2048, 128),
        ((64, 128), "bf16", "MN", "128B", 8192, 1024),
        ((32, 64), "e4m3", "MN", "64B", 2048, 512),
        ((64, 32), "f16", "MN", "none", 128, 1024),
    ],
)
def test_offsets_follow_from_the_buffer(
    shape: tuple[int, int], kind: str, major: Any, swizzle: str, leading: int, stride: int, ptxas: Tool
) -> None:
    def body() -> None:
        tile = smem.alloc(shape, TYPES[kind], swizzle=swizzle, align=128)
        desc = ptx.tcgen05.smem_descriptor(tile, major=major)
        assert desc.type is b64 and desc.name == "desc"

    assert Tcgen05SmemDescriptor.decode(constant_of(body_of(body))) == Tcgen05SmemDescriptor(
        0, leading, stride, swizzle
    )
    assert len(body_of(body)) == 1 + 4  # the base of shared memory, and the descriptor
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_offsets_from_a_tile_or_given() -> None:
    def of(**options: Any) -> Tcgen05SmemDescriptor:
        def body() -> None:
            tile = options.pop("tile", None)
            ptx.tcgen05.smem_descriptor(reg.scalar(u32, init=0), tile, **options)

        lines = body_of(body)
        assert len(lines) == 1 + 4
        return Tcgen05SmemDescriptor.decode(constant_of(lines))

    assert of(tile=OperandTile(128, 64, 16)) == Tcgen05SmemDescriptor(0, 16, 1024, "128B")
    tf32 = OperandTile(64, 16, 32, "MN", "128B_ATOM_32B")
    assert of(tile=tf32) == Tcgen05SmemDescriptor(0, 2048, 512, "128B_ATOM_32B")
    assert of(tile=tf32, leading=4096) == Tcgen05SmemDescriptor(0, 4096, 512, "128B_ATOM_32B")
    assert of(stride=1024) == Tcgen05SmemDescriptor(0, 16, 1024, "128B")
    assert of(stride=512, swizzle="64B", base_offset=3) == Tcgen05SmemDescriptor(0, 16, 512, "64B", 3)
    assert of(swizzle="none", leading=128, stride=256) == Tcgen05SmemDescriptor(0, 128, 256, "none")


def test_parts_of_buffers(ptxas: Tool) -> None:
    def body() -> None:
        ring = smem.alloc((128, 64), bf16, swizzle="128B", stages=3)
        index = reg.scalar(u32, init=1)
        first = ptx.tcgen05.smem_descriptor(ring[2])
        second = ptx.tcgen05.smem_descriptor(ring[index])
        rows = ptx.tcgen05.smem_descriptor(ring[0].rows(64, 64))
        assert {first.type, second.type, rows.type} == {b64}

    assert sum(line.startswith("or.b64") for line in body_of(body)) == 3
    assert {line.rpartition(" ")[2] for line in body_of(body) if line.startswith("or.b64")} == {
        f"{0x4000404000010000};"
    }
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_an_absolute_leading_address(ptxas: Tool) -> None:
    def body() -> None:
        a, b = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        ptx.tcgen05.smem_descriptor(a, stride=1024, leading_address=b)

    word = Tcgen05SmemDescriptor(0, 0, 1024, "128B", 0, 1).encode()
    assert body_of(body, arch="sm_103a")[2:] == [
        "shr.u32 %address, %a, 4;",
        "and.b32 %address, %address, 16383;",
        "cvt.u64.u32 %wide, %address;",
        f"or.b64 %relative, %wide, {word};",
        "shr.u32 %leading, %b, 4;",
        "cvt.u64.u32 %wide_1, %leading;",
        "bfi.b64 %desc, %wide_1, %relative, 16, 14;",
    ]
    assert check_text(text_of(body, arch="sm_103a"), ptxas=ptxas).ok


def test_smem_descriptors_refuse() -> None:
    def check() -> None:
        a, wide = reg.scalar(u32), reg.scalar(u64)
        ring = smem.alloc((128, 64), bf16, swizzle="128B", stages=2)
        flat = smem.alloc(1024, bf16)
        make, tile = ptx.tcgen05.smem_descriptor, OperandTile(128, 64, 16)
        with rejected(OperandError, "leading is 16 and stride is None", "OperandTile"):
            make(a)  # rejected
        with rejected(OperandError, "leading is None and stride is 128", "OperandTile"):
            make(a, swizzle="none", stride=128)  # rejected
        with rejected(OperandError, "major is 'MN'", "'K'", "'128B'"):
            make(a, tile, major="MN")  # rejected
        with rejected(OperandError, "swizzle is '64B'", "'128B'"):
            make(ring[0], swizzle="64B")  # rejected
        with rejected(OperandError, "'ring'", "in 2 stages", "choose a stage"):
            make(ring)  # rejected
        with rejected(OperandError, "'flat'", "(1024,)", "two axes"):
            make(flat)  # rejected
        with rejected(SpecError, "rows = 4", "multiple of 8"):
            make(ring[0].rows(0, 4))  # rejected
        with rejected(SpecError, "stride_bytes = 1000", "multiple of 16"):
            make(a, stride=1000)  # rejected
        with rejected(SpecError, "stride_bytes = 262144", "262128"):
            make(a, stride=1 << 18)  # rejected
        with rejected(SpecError, "base_offset = 8", "0..7"):
            make(a, stride=1024, base_offset=8)  # rejected
        with rejected(SpecError, "'96B'", "128B_ATOM_32B"):
            make(a, stride=1024, swizzle="96B")  # rejected
        with rejected(OperandError, "base_offset is 1", "expected 0"):
            make(ring[1], base_offset=1)  # rejected
        with rejected(TargetError, "sm_103a", "sm_100a"):
            make(a, stride=1024, leading_address=a)  # rejected
        with rejected(OperandError, "source is", "u64", "32-bit"):
            make(wide, tile)  # rejected
        with rejected(
            OperandError, "source of ptx.tcgen05.smem_descriptor is 64: expected a register or a sha"
        ):
            make(64, tile)  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def test_buffers_off_a_boundary() -> None:
    def check() -> None:
        smem.alloc(4, TYPES["b8"], align=1)
        low = smem.alloc((8, 64), bf16, align=4)
        high = smem.alloc((8, 64), bf16, align=128)
        assert low.known_offset == 4 and high.known_offset == 1152
        with rejected(OperandError, "begins at byte 4", "'128B'", "multiple of 128"):
            ptx.tcgen05.smem_descriptor(low, swizzle="128B")  # rejected
        with rejected(OperandError, "begins at byte 4", "'none'", "multiple of 16"):
            ptx.tcgen05.smem_descriptor(low)  # rejected
        with rejected(OperandError, "base_offset is 0", "byte 1152", "expected 1"):
            ptx.tcgen05.smem_descriptor(high, swizzle="128B", base_offset=0)  # rejected

    in_kernel(check)

    def body() -> None:
        smem.alloc(1040, TYPES["b8"])
        high = smem.alloc((8, 64), bf16, align=128)
        ptx.tcgen05.smem_descriptor(high, swizzle="128B")

    assert Tcgen05SmemDescriptor.decode(constant_of(body_of(body))) == Tcgen05SmemDescriptor(
        0, 16, 1024, "128B", 1
    )


def test_advance(ptxas: Tool) -> None:
    def body() -> None:
        desc = reg.scalar(b64, init=0)
        tile = OperandTile(128, 128, 16)
        nearer = ptx.tcgen05.advance(desc, tile.k_offset(16))
        ptx.tcgen05.advance(nearer, tile.k_offset(64))
        ptx.tcgen05.advance(desc, -32)

    assert body_of(body)[1:] == [
        "add.u64 %nearer, %desc, 2;",
        "add.u64 %desc_1, %nearer, 1024;",
        f"add.u64 %desc_2, %desc, {(1 << 64) - 2};",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_advance_refuses() -> None:
    def check() -> None:
        x, d = reg.scalar(b32), reg.scalar(b64)
        for nbytes in (8, 1 << 18, -(1 << 18), 0.5, x):
            with rejected(
                OperandError, *asked(nbytes, repr(nbytes), "multiple of 16 between -2**18 and 2**18")
            ):
                ptx.tcgen05.advance(d, nbytes)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "desc is %x, a .b32", "64-bit"):
            ptx.tcgen05.advance(x, 32)  # rejected

    in_kernel(check)


def test_zero_column_masks() -> None:
    word = ptx.tcgen05.zero_column_mask(
        used=4, skipped=3, start=(0, 1, 2, 1), skip_first=(True, True, False, False)
    )
    assert ZeroColumnMask.decode(word) == ZeroColumnMask(4, 3, (0, 1, 2, 1), (True, True, False, False))
    with pytest.raises(SpecError, match=r"used = 257 is outside 1\.\.256"):
        ptx.tcgen05.zero_column_mask(used=257)


def test_numbers_need_no_recording() -> None:
    """Builders of numbers work outside a kernel; those of registers say that they do not."""
    assert build(m=128, n=64, kind="tf32") and ptx.tcgen05.zero_column_mask()
    with pytest.raises(TraceError):
        ptx.tcgen05.wait_ld()
