"""Parameters: their specifications, and the prologue that loads what is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import kernel
from pyptx.core.errors import OperandError, SpecError, TraceError
from pyptx.core.types import TYPES, ScalarType, b32, b64, bf16, e4m3, f16, f32, pred, s32, s64, u16, u32, u64
from pyptx.dsl import Layout, Reg, Scalar, Tile, TileParam, ptx, reg, smem
from pyptx.toolchain import Tool, check_text

from .helpers import body_of, recorded, rejected, text_of

DIMS = {"M": 256, "N": 512, "K": 320}
#: An array of 16 x 32 as four slabs of 16 x 8.
_VIEWED = (16, 32, bf16)
_VIEW = {"tma_shape": (4, 16, 8), "tma_strides": (16, 64, 2), "tma_box": (2, 16, 8)}


def test_a_pointer_is_loaded_once_and_using_it_records_nothing() -> None:
    def body(A: TileParam, D: TileParam) -> None:
        x = D.ptr + 4
        y = D.ptr + 8
        assert (x.type, y.type, D.shape, D.dtype) == (u64, u64, (256, 512), f32)

    assert body_of(body, Tile(64, bf16), Tile("M", "N", f32), dims=DIMS) == [
        "ld.param.u64 %D_ptr, [D];",
        "cvta.to.global.u64 %D_ptr, %D_ptr;",
        "add.u64 %x, %D_ptr, 4;",
        "add.u64 %y, %D_ptr, 8;",
    ]
    assert "A_ptr" not in text_of(body, Tile(64, bf16), Tile("M", "N", f32), dims=DIMS)


def test_a_tensor_map_is_a_parameter_by_value(ptxas: Tool) -> None:
    tile = Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(128, 64))

    def body(A: TileParam, B: TileParam) -> None:
        s = reg.scalar(u32, init=0)
        ptx.cp.async_.bulk.tensor_2d(dst=s, src=A.tma_desc(), coord=(0, 0), mbar=s)
        ptx.cp.async_.bulk.tensor_2d(dst=s, src=A.tma_desc(), coord=(64, 0), mbar=s)

    text = text_of(body, tile, tile, dims=DIMS)
    assert ".param .align 64 .b8 A[128],\n    .param .align 64 .b8 B[128]\n" in text
    assert body_of(body, tile, tile, dims=DIMS)[:2] == [
        "mov.b64 %A_map, A;",
        "cvta.param.u64 %A_map, %A_map;",
    ]
    assert text.count("cvta") == 1
    assert check_text(text, ptxas=ptxas).ok


def test_a_tensor_map_and_a_pointer_of_one_tile(ptxas: Tool) -> None:
    tile = Tile("M", "K", bf16, Layout.TMA_NONE, tma_box=(128, 64))

    def body(A: TileParam, A_ptr: Reg) -> None:
        x = A.ptr + 4
        s = reg.scalar(u32, init=0)
        ptx.cp.async_.bulk.tensor_2d(dst=A.tma_desc(), src=s, coord=(A_ptr, 0))
        ptx.inst.st.global_.b32(ptx.addr(x), 0)

    recording = recorded(body, tile, Scalar(u32), dims=DIMS)
    assert [(s.kind, s.index, s.param.name) for s in recording.slots] == [
        ("map", 0, "A"),
        ("pointer", 0, "A_ptr_1"),
        ("scalar", 1, "A_ptr"),
    ]
    lines = body_of(body, tile, Scalar(u32), dims=DIMS)
    assert lines[:5] == [
        "mov.b64 %A_map, A;",
        "cvta.param.u64 %A_map, %A_map;",
        "ld.param.u64 %A_ptr_1, [A_ptr_1];",
        "cvta.to.global.u64 %A_ptr_1, %A_ptr_1;",
        "ld.param.u32 %A_ptr, [A_ptr];",
    ]
    assert check_text(text_of(body, tile, Scalar(u32), dims=DIMS), ptxas=ptxas).ok


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [t for t in TYPES.values() if t is not pred and t.name != "b128"], ids=str)
def test_scalars_are_registers_passed_in_their_own_size(kind: ScalarType, ptxas: Tool) -> None:
    def body(n: Reg, unused: Reg) -> None:
        assert n.type is kind
        copy = reg.scalar(kind, init=n)  # noqa: F841

    recording = recorded(body, Scalar(kind), Scalar(u32))
    assert recording.slots[0].param.nbytes == kind.nbytes
    assert len(body_of(body, Scalar(kind), Scalar(u32))) == 2
    text = text_of(body, Scalar(kind), Scalar(u32))
    assert "unused" in text and "%unused" not in text
    assert check_text(text, ptxas=ptxas).ok


def test_a_scalar_used_by_a_guard_a_vector_or_raw_text_is_loaded() -> None:
    def vector(n: Reg) -> None:
        ptx.inst.st.shared.v2.u32(ptx.addr(reg.scalar(u32)), [n, 1])

    def raw(n: Reg) -> None:
        ptx.raw(f"mov.u32 %x,{n};")

    def address(n: Reg) -> None:
        ptx.inst.st.shared.u32(ptx.addr(n), 1)

    for body in (vector, raw, address):
        assert "ld.param.u32 %n, [n];" in text_of(body, Scalar(u32))


def test_a_scalar_may_be_written() -> None:
    def body(n: Reg) -> None:
        n -= 1

    assert body_of(body, Scalar(u32)) == ["ld.param.u32 %n, [n];", "sub.u32 %n, %n, 1;"]


def test_the_prologue_is_in_parameter_order() -> None:
    def body(A: TileParam, n: Reg, B: TileParam) -> None:
        x = B.ptr + 1
        x += 1
        n += 1
        y = A.ptr + 1
        y += 1

    lines = body_of(body, Tile(8, f32), Scalar(u32), Tile(8, f32))
    assert [line.split()[1] for line in lines if line.startswith("ld.param")] == ["%A_ptr,", "%n,", "%B_ptr,"]


def test_pointers_and_maps_are_shared() -> None:
    def body(A: TileParam) -> None:
        pointer, descriptor = A.ptr, A.tma_desc()
        with rejected(TraceError, "pointer of parameter A", "copy it"):
            pointer += 4  # rejected
        with rejected(TraceError, "tensor map of parameter A"):
            ptx.inst.mov.u64(descriptor, 0)  # rejected
        mine = reg.scalar(u64, init=pointer)
        mine += 4

    recorded(body, Tile(256, 64, bf16, Layout.TMA_128B, tma_box=(128, 64)))


def test_a_map_of_another_shape_is_copied_by_an_instruction_of_its_rank(ptxas: Tool) -> None:
    tile = Tile(*_VIEWED, Layout.TMA_NONE, **_VIEW)

    def body(A: TileParam) -> None:
        assert A.shape == (16, 32)
        slabs = smem.alloc((2, 16, 8), bf16, align=128)
        mbar = smem.alloc(1, b64)
        ptx.cp.async_.bulk.tensor_3d(dst=slabs, src=A.tma_desc(), coord=(0, 0, 2), mbar=mbar)
        with rejected(OperandError, "which has 3 dimensions", "use tensor_3d"):
            ptx.cp.async_.bulk.tensor_2d(dst=slabs, src=A.tma_desc(), coord=(0, 0), mbar=mbar)  # rejected
        small = smem.alloc((1, 16, 8), bf16, align=128)
        with rejected(OperandError, "is 512 bytes, but the buffer"):
            ptx.cp.async_.bulk.tensor_3d(dst=small, src=A.tma_desc(), coord=(0, 0, 0), mbar=mbar)  # rejected

    assert check_text(text_of(body, tile), ptxas=ptxas).ok


def test_a_pointer_tile_has_no_tensor_map() -> None:
    def body(A: TileParam) -> None:
        with rejected(TraceError, "A", "ROW_MAJOR", "tma_box="):
            A.tma_desc()  # rejected

    recorded(body, Tile(8, f32))


@pytest.mark.parametrize(
    ("arguments", "options", "what"),
    [
        ((64, 64), {}, "no dtype"),
        ((), {"dtype": bf16}, "at least one dim"),
        (("M", "K", "bf16"), {}, "no dtype"),
        ((0, f32), {}, "0 is not a dim"),
        ((-4, f32), {}, "-4 is not a dim"),
        ((2.5, 4, f32), {}, "2.5 is not a dim"),
        ((8, pred), {}, ""),
        ((8, object), {}, "object"),
        ((8, f32, Layout.TMA_128B), {}, "needs tma_box="),
        ((8, f32), {"tma_box": (8,)}, "needs a TMA layout"),
        ((8, 8, f32, Layout.TMA_NONE), {"tma_box": (8,)}, "1 axes, the tile has 2"),
        ((8, f32, Layout.TMA_NONE), {"layout": Layout.TMA_NONE}, "twice"),
        ((*_VIEWED, Layout.TMA_NONE), {**_VIEW, "tma_box": (8, 8)}, "tma_shape (4, 16, 8) has 3"),
        ((*_VIEWED, Layout.TMA_NONE), {**_VIEW, "tma_strides": None}, "expected all three"),
        ((*_VIEWED, Layout.TMA_NONE), {**_VIEW, "tma_strides": (16, 64)}, "one number for each axis"),
        (_VIEWED, _VIEW | {"tma_box": None}, "expected all three"),
        (("M", 32, bf16, Layout.TMA_NONE), _VIEW, "the dims M are names"),
        ((*_VIEWED, Layout.TMA_NONE), {**_VIEW, "tma_shape": (5, 16, 8)}, "ends 1040 bytes"),
        ((*_VIEWED, Layout.TMA_NONE), {**_VIEW, "tma_strides": (16, 64, 4)}, "expected 2"),
        ((*_VIEWED, Layout.TMA_NONE), {**_VIEW, "tma_shape": (4, 0, 8)}, "positive extents"),
        ((8, f32, Layout.TMA_NONE), {"tma_box": (8,), "tma_promotion": "32B"}, "'none', '64B', '128B'"),
        ((8, f32), {"tma_promotion": "64B"}, "for a TMA layout"),
    ],
    ids=str,
)
def test_tiles_that_cannot_be(arguments: tuple[Any, ...], options: dict[str, Any], what: str) -> None:
    with pytest.raises(SpecError) as caught:
        Tile(*arguments, **options)
    assert what in str(caught.value)


def test_tiles() -> None:
    tile = Tile("M", 64, dtype="bf16", layout=Layout.TMA_64B, tma_box=[np.int64(8), 32])
    assert (tile.dims, tile.dtype, tile.tma_box, tile.layout.swizzle) == (("M", 64), bf16, (8, 32), "64B")
    assert Tile(8, np.float32).dtype is f32
    assert Tile(8, e4m3).layout is Layout.ROW_MAJOR
    assert repr(Tile("M", f16)) == "Tile('M', f16, Layout.ROW_MAJOR)"
    viewed = repr(Tile(*_VIEWED, Layout.TMA_NONE, **_VIEW))
    assert "tma_shape=(4, 16, 8), tma_strides=(16, 64, 2)" in viewed
    assert "tma_promotion='64B'" in repr(Tile(8, f32, Layout.TMA_NONE, tma_box=(8,), tma_promotion="64B"))
    modes = ["none", "none", "32B", "64B", "128B", "128B_ATOM_32B"]
    assert [layout.swizzle for layout in Layout] == modes


@pytest.mark.parametrize("kind", [pred, TYPES["b128"], object, "nothing"], ids=str)
def test_scalars_that_cannot_be(kind: object) -> None:
    with pytest.raises(SpecError):
        Scalar(kind)


def test_parameters_do_not_take_each_others_names() -> None:
    def body(smem: Reg, größe: Reg) -> None:
        from pyptx.dsl import smem as memory

        smem += größe
        memory.store(memory.base(), smem)

    text = text_of(body, Scalar(u32), Scalar(u32), smem=16)
    assert ".param .u32 smem," in text and "smem_1[16]" in text and "mov.u32 %smem_base, smem_1;" in text


# --- addresses of elements ------------------------------------------------------------------------


def _at(
    *types: Any, numbers: tuple[int, ...] = (), dtype: Any = f32, shape: tuple[int, ...] = (), **options: Any
) -> list[str]:
    """The instructions of ``A.at`` with a register of each type, then numbers, into an ``ld.global``."""
    extents = shape or (1 << 10,) * (len(types) + len(numbers))

    def body(A: Any) -> None:
        registers = [reg.scalar(kind, name=f"i{n}") for n, kind in enumerate(types)]
        ptx.inst.ld.global_.b32(reg.scalar(b32, name="x"), A.at(*registers, *numbers, **options))

    return body_of(body, Tile(*extents, dtype))[2:]


def test_one_instruction_for_each_register() -> None:
    assert _at(u32) == ["mad.wide.u32 %A_at, %i0, 4, %A_ptr;", "ld.global.b32 %x, [%A_at];"]
    assert _at(s32)[0] == "mad.wide.s32 %A_at, %i0, 4, %A_ptr;"
    assert _at(u64)[0] == "mad.lo.u64 %A_at, %i0, 4, %A_ptr;"
    assert _at(s64, dtype=f16)[0] == "mad.lo.s64 %A_at, %i0, 2, %A_ptr;"
    assert _at(u32, s64, numbers=(3,)) == [
        "mad.wide.u32 %A_at, %i0, 4194304, %A_ptr;",
        "mad.lo.s64 %A_at_1, %i1, 4096, %A_at;",
        "ld.global.b32 %x, [%A_at_1+12];",
    ]
    assert _at(numbers=(2, 1)) == ["ld.global.b32 %x, [%A_ptr+8196];"]


def test_strides() -> None:
    assert _at(u32, numbers=(5,), strides=(100, 3)) == [
        "mad.wide.u32 %A_at, %i0, 400, %A_ptr;",
        "ld.global.b32 %x, [%A_at+60];",
    ]
    assert _at(s32, strides=(-1,))[0] == "mad.wide.s32 %A_at, %i0, -4, %A_ptr;"
    assert _at(u32, strides=(-1,))[:2] == ["cvt.u64.u32 %wide, %i0;", "mad.lo.s64 %A_at, %wide, -4, %A_ptr;"]


def test_far_elements_take_one_more() -> None:
    assert _at(s32, strides=(1 << 29,))[:2] == [
        "cvt.s64.s32 %wide, %i0;",
        "mad.lo.s64 %A_at, %wide, 2147483648, %A_ptr;",
    ]
    assert _at(numbers=(4,), strides=(1 << 29,)) == [
        "add.s64 %A_at, %A_ptr, 8589934592;",
        "ld.global.b32 %x, [%A_at];",
    ]


def test_addresses_do_not_wrap() -> None:
    """Offsets from the pointer, beyond 4 GiB and below it, for each type of index."""
    cases = [
        (u32, 3, 1 << 30),
        (u32, 0xFFFFFFFF, 1),
        (u32, 3, -1),
        (u32, 0xFFFFFFFF, -(1 << 20)),
        (s32, -3, 1),
        (s32, -3, 1 << 30),
        (s32, 3, 1 << 28),
        (u64, 5, 1 << 31),
        (s64, -5, 1 << 31),
        (s64, 1 << 33, 3),
    ]

    def body(out: Any) -> None:
        for number, (kind, value, stride) in enumerate(cases):
            index = reg.scalar(kind, init=value)
            place = out.at(index, strides=(stride,)).base
            ptx.inst.st.global_.u64(out.at(number), place - out.ptr)

    offsets = kernel(out_specs=[Tile(len(cases), u64)], arch="sm_90a")(body)()
    assert [int(offset) for offset in offsets.view(np.int64)] == [
        8 * value * stride for _, value, stride in cases
    ]


def test_elements_that_are_not_there() -> None:
    def body(A: Any) -> None:
        i, half, bits, f = reg.scalar(u32), reg.scalar(u16), reg.scalar(b32), reg.scalar(f32)
        with rejected(OperandError, "index 1 of 'A' is 8: expected 0..7"):
            A.at(i, 8)  # rejected
        with rejected(OperandError, "index 0 of 'A' is -1: expected 0..3"):
            A.at(-1, i)  # rejected
        with rejected(OperandError, "1 indices for 'A' of shape (4, 8)"):
            A.at(i)  # rejected
        with rejected(OperandError, "(.u16)", "ptx.cvt(x, u32)"):
            A.at(i, half)  # rejected
        with rejected(OperandError, "(.b32)", "x.view(s32)"):
            A.at(bits, 0)  # rejected
        with rejected(OperandError, "(.f32)"):
            A.at(0, f)  # rejected
        with rejected(OperandError, "strides of 'A' are (1,): expected 2 integers"):
            A.at(i, i, strides=(1,))  # rejected
        with rejected(OperandError, "1.5", "integer"):
            A.at(i, 1.5)  # rejected
        with rejected(OperandError, "strides"):
            A.at(i, i, strides=5)  # rejected

    recorded(body, Tile(4, 8, f32))
