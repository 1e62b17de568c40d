"""``ptx.mma`` and ``ptx.wmma``: every variant through ptxas, fragments, spelling, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pyptx import Tile, kernel
from pyptx.core.errors import InstructionError, OperandError, SpecError, TargetError
from pyptx.core.types import (
    ScalarType,
    b32,
    b64,
    bf16,
    bf16x2,
    e4m3,
    f16,
    f16x2,
    f32,
    f64,
    s32,
    tf32,
    u32,
    u64,
)
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import wmma
from pyptx.dsl.units.fragments import Fragment
from pyptx.isa import forms_of
from pyptx.layout import mma_fragment, mma_metadata
from pyptx.layout.fragments import DENSE_SHAPES, SPARSE_SHAPES
from pyptx.toolchain import Tool
from pyptx.tools.wrappers import wrappers_of
from tests.dsl.helpers import body_of, in_kernel, rejected
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

FP8 = ("e4m3", "e5m2")
NARROW = (*FP8, "e3m2", "e2m3", "e2m1")
INTEGERS = (("s8", "u8"), ("s4", "u4"))


def product(
    shape: str, dtype: str, atype: str, btype: str, ctype: str, *, sparse: bool = False, scaled: bool = False,
    layouts: tuple[str | None, str | None] = (None, None), plain: bool = False, **options: Any,
) -> Call:  # fmt: skip
    """One mma with the operands that it needs, as fragments or as plain registers."""

    def body() -> None:
        a = ptx.mma.fragment("a", shape, atype, sparse=sparse, layout=layouts[0])
        b = ptx.mma.fragment("b", shape, btype, sparse=sparse, layout=layouts[1])
        d = ptx.mma.fragment("d", shape, dtype, sparse=sparse)
        c = ptx.mma.fragment("c", shape, ctype, sparse=sparse)
        given: dict[str, Any] = dict(options)
        if sparse:
            given["metadata"] = reg.scalar(b32)
        if scaled:
            given |= {"scale_a": reg.scalar(b32), "scale_b": reg.scalar(b32)}
        if plain:
            given |= {"dtype": dtype, "atype": atype, "btype": btype, "ctype": ctype}
            ptx.mma([*d], [*a], [*b], [*c], shape, alayout=layouts[0], blayout=layouts[1], **given)
        else:
            ptx.mma(d, a, b, c, **given)

    return Call("mma", body)


def pairs(types: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    return itertools.product(types, types)


def dense() -> Iterator[Call]:
    for layouts in itertools.product(("row", "col"), repeat=2):
        for d, c, plain in (("f16", "f16", False), ("f32", "f16", False), ("f32", "f32", True)):
            yield product("m8n8k4", d, "f16", "f16", c, layouts=layouts, plain=plain)
    for shape, total in itertools.product(("m16n8k8", "m16n8k16"), ("f16", "f32")):
        yield product(shape, total, "f16", "f16", total)
    for dtype in ("bf16", "tf32"):
        for shape in DENSE_SHAPES[dtype]:
            yield product(shape, "f32", dtype, dtype, "f32", plain=True)
    for shape in DENSE_SHAPES["f64"]:
        for rounding in (None, "rn", "rz", "rm", "rp"):
            yield product(shape, "f64", "f64", "f64", "f64", rounding=rounding)
    for shape, total, (a, b) in itertools.product(DENSE_SHAPES["e4m3"], ("f16", "f32"), pairs(FP8)):
        yield product(shape, total, a, b, total)
    for total, (a, b), kind in itertools.product(("f16", "f32"), pairs(NARROW), ("f8f6f4", None)):
        if kind is not None or {a, b} - {*FP8}:
            yield product("m16n8k32", total, a, b, total, kind=kind)
    for types in INTEGERS:
        for shape, (a, b), clamp in itertools.product(DENSE_SHAPES[types[0]], pairs(types), (False, True)):
            yield product(shape, "s32", a, b, "s32", satfinite=clamp)
    for shape, operation in itertools.product(DENSE_SHAPES["b1"], ("xor", "and")):
        yield product(shape, "s32", "b1", "b1", "s32", bit_op=operation)


def sparse() -> Iterator[Call]:
    def each(shape: str, total: str, a: str, b: str, **options: Any) -> Iterator[Call]:
        for selector in range(4 // mma_metadata(shape, a).suppliers):
            yield product(shape, total, a, b, total, sparse=True, selector=selector, **options)

    for ordered in (False, True):
        for shape, total in itertools.product(SPARSE_SHAPES["f16"], ("f16", "f32")):
            yield from each(shape, total, "f16", "f16", ordered=ordered)
        for dtype in ("bf16", "tf32"):
            for shape in SPARSE_SHAPES[dtype]:
                yield from each(shape, "f32", dtype, dtype, ordered=ordered, plain=ordered)
        for a, b in pairs(FP8):
            yield from each("m16n8k64", "f32", a, b, ordered=ordered)
        for types in INTEGERS:
            for shape, (a, b), clamp in itertools.product(
                SPARSE_SHAPES[types[0]], pairs(types), (False, True)
            ):
                yield from each(shape, "s32", a, b, ordered=ordered, satfinite=clamp)
    for a, b in pairs(FP8):
        yield from each("m16n8k64", "f16", a, b)
    for total, (a, b), kind in itertools.product(("f16", "f32"), pairs(NARROW), ("f8f6f4", None)):
        if kind is not None or {a, b} - {*FP8}:
            yield from each("m16n8k64", total, a, b, kind=kind)


def block_scaled() -> Iterator[Call]:
    for with_zeroes in (False, True):
        small, large = ("m16n8k64", "m16n8k128") if with_zeroes else ("m16n8k32", "m16n8k64")
        common: dict[str, Any] = {"sparse": with_zeroes, "scaled": True}
        for (a, b), count in itertools.product(pairs(NARROW), (None, 1)):
            yield product(small, "f32", a, b, "f32", scale_vec=count, **common)
        for byte, thread_a, thread_b in itertools.product(range(4), range(2), range(4)):
            selects = {"select_a": (byte, thread_a), "select_b": (3 - byte, thread_b)}
            yield product(small, "f32", "e4m3", "e5m2", "f32", kind="mxf8f6f4", **selects, **common)
        for count in (None, 2):
            yield product(large, "f32", "e2m1", "e2m1", "f32", scale_vec=count, select_a=(2, 1), **common)
        yield product(large, "f32", "e2m1", "e2m1", "f32", scale_vec=2, kind="mxf4nvf4", **common)
        for stype in (None, "ue4m3", "ue8m0"):
            yield product(large, "f32", "e2m1", "e2m1", "f32", scale_vec=4, stype=stype, **common)


@pytest.mark.full
def test_every_variant_of_mma(ptxas: Tool) -> None:
    calls = [*dense(), *sparse(), *block_scaled()]
    reached = assemble_calls(calls, ptxas)
    assert unreached(reached, "mma") == []
    assert reached.wrappers == {"mma"}


def test_what_a_fragment_is() -> None:
    def body() -> None:
        registers = {
            ("a", "m16n8k16", f16): (f16x2, 4), ("b", "m16n8k16", bf16): (bf16x2, 2), ("a", "m16n8k8", tf32): (tf32, 4),
            ("a", "m16n8k16", f64): (f64, 8), ("b", "m16n8k32", e4m3): (b32, 2), ("a", "m16n8k64", "s4"): (b32, 4),
            ("b", "m8n8k128", "b1"): (b32, 1), ("d", "m16n8k16", f16): (f16x2, 2), ("c", "m16n8k16", f32): (f32, 4),
            ("d", "m8n8k16", s32): (s32, 2), ("d", "m8n8k4", f64): (f64, 2), ("d", "m8n8k4", f32): (f32, 8),
        }  # fmt: skip
        for (operand, shape, dtype), (kind, count) in registers.items():
            frag = ptx.mma.fragment(operand, shape, dtype)
            assert isinstance(frag, Fragment) and (frag.type, len(frag)) == (kind, count)
            name = dtype.name if isinstance(dtype, ScalarType) else dtype
            layout = mma_fragment(operand, shape, name)
            assert frag.elements == layout.elements
            for lane, i in itertools.product((0, 3, 17, 31), range(0, layout.elements, 5)):
                assert (frag.row(i, lane), frag.column(i, lane)) == layout.place(i, lane)[:2]
        assert ptx.mma.fragment("a", "m16n8k32", "s8", sparse=True, name="kept")[1].name == "kept1"
        assert len(ptx.mma.fragment("b", "m16n8k32", f16, sparse=True)) == 4

    in_kernel(body)


def test_origins() -> None:
    def body() -> None:
        lane = reg.scalar(u32)
        ptx.mma.fragment("d", "m16n8k16", f32).origin(lane)
        quarter = ptx.mma.fragment("a", "m8n8k4", f16, layout="col").origin(lane)
        assert quarter.matrix is not None
        ptx.mma.fragment("b", "m16n8k16", f16).origin()

    assert body_of(body) == [
        "shr.u32 %row, %lane, 2;",
        "and.b32 %row, %row, 7;",
        "and.b32 %digit, %lane, 3;",
        "shl.b32 %column, %digit, 1;",
        "shr.u32 %digit_1, %lane, 4;",
        "and.b32 %digit_1, %digit_1, 1;",
        "shl.b32 %row_1, %digit_1, 2;",
        "and.b32 %column_1, %lane, 3;",
        "shr.u32 %matrix, %lane, 2;",
        "and.b32 %matrix, %matrix, 3;",
        "mov.u32 %thread, %laneid;",
        "and.b32 %digit_2, %thread, 3;",
        "shl.b32 %row_2, %digit_2, 1;",
        "shr.u32 %column_2, %thread, 2;",
        "and.b32 %column_2, %column_2, 7;",
    ]


@pytest.mark.parametrize(
    "declare",
    [
        lambda: ptx.mma.fragment("d", "m16n8k16", f32),
        lambda: ptx.mma.fragment("a", "m16n8k64", "u4"),
        lambda: ptx.mma.fragment("d", "m8n8k4", f32),
        lambda: ptx.mma.fragment("b", "m8n8k4", f16, layout="row"),
        lambda: ptx.wgmma.accumulator(64, 32),
        lambda: ptx.wgmma.fragment("s8"),
    ],
    ids=["d", "a", "quarters", "quarters of b", "wgmma d", "wgmma a"],
)
def test_every_thread_computes_its_own_origin(declare: Callable[[], Fragment]) -> None:
    """Run in the simulator, by two warpgroups."""
    found: list[Fragment] = []

    @kernel(out_specs=(Tile(3, 256, u32),), grid=(1,), block=(256,), arch="sm_90a")
    def origins(D: Any) -> None:
        fragment = declare()
        found.append(fragment)
        origin = fragment.origin()
        target = reg.scalar(u64)
        ptx.inst.mad.wide.u32(target, ptx.special.tid.x(), 4, D.ptr)
        for number, register in enumerate(origin):
            if register is not None:
                ptx.inst["st.global.u32"](ptx.addr(target, number * 1024), register)

    out = np.zeros((3, 256), np.uint32)
    report = origins.simulate(out=out)
    assert report.verdict == "clean", str(report)
    layout = found[0].layout
    for thread in range(256):
        assert tuple(out[:, thread]) == layout.place(0, thread % layout.thread_count)


def test_the_reference_names_the_wrappers() -> None:
    for opcode, names in (
        ("mma", {"ptx.mma"}),
        ("ldmatrix", {"ptx.ldmatrix"}),
        ("stmatrix", {"ptx.stmatrix"}),
    ):
        assert {name for form in forms_of(opcode) for name in wrappers_of(form.id)} == names
        assert all(wrappers_of(form.id) for form in forms_of(opcode))


def test_spelling() -> None:
    def body() -> None:
        a, b = ptx.mma.fragment("a", "m16n8k16", f16), ptx.mma.fragment("b", "m16n8k16", f16)
        d, h = ptx.mma.fragment("d", "m16n8k16", f32), ptx.mma.fragment("d", "m16n8k16", f16)
        e, x = reg.scalar(b32), reg.array(b32, 4)
        ptx.mma(d, a, b)
        ptx.mma(h, a, b, h, pred=e != 0)
        ptx.mma([*d], x, x[:2], shape="m16n8k16", atype=bf16)
        ptx.mma([*h], x, x[:2], shape="m16n8k32", atype="e5m2", btype="e4m3", dtype=f16)
        ptx.mma(reg.array(s32, 4, name="i"), x[:2], x[2], shape="m16n8k16", atype="s8", satfinite=True)
        ptx.mma(reg.array(s32, 2, name="j"), e, e, shape="m8n8k128", btype="b1", bit_op="and")
        y = ptx.mma.fragment("a", "m8n8k4", f16, layout="col")
        z = ptx.mma.fragment("b", "m8n8k4", f16)
        w = ptx.mma.fragment("d", "m8n8k4", f32)
        ptx.mma(w, y, z)

    d, h, x = "{%d0, %d1, %d2, %d3}", "{%h0, %h1}", "{%x0, %x1, %x2, %x3}"
    a, b = "{%a0, %a1, %a2, %a3}", "{%b0, %b1}"
    w = "{%w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7}"
    assert body_of(body, arch="sm_90a") == [
        f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {a}, {b}, {d};",
        "setp.ne.b32 %p, %e, 0;",
        f"@%p mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {h}, {a}, {b}, {h};",
        f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d}, {x}, {{%x0, %x1}}, {d};",
        f"mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e4m3.f16 {h}, {x}, {{%x0, %x1}}, {h};",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32 {%i0, %i1, %i2, %i3}, {%x0, %x1}, {%x2}, {%i0, %i1, %i2, %i3};",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%j0, %j1}, {%e}, {%e}, {%j0, %j1};",
        f"mma.sync.aligned.m8n8k4.col.col.f32.f16.f16.f32 {w}, {{%y0, %y1}}, {{%z0, %z1}}, {w};",
    ]


def test_spelling_of_sparse_and_scaled_products() -> None:
    def body() -> None:
        a = ptx.mma.fragment("a", "m16n8k32", f16, sparse=True)
        b = ptx.mma.fragment("b", "m16n8k32", f16, sparse=True)
        d = ptx.mma.fragment("d", "m16n8k32", f32, sparse=True)
        e, p, q = reg.scalar(b32), reg.scalar(b32), reg.scalar(b32)
        ptx.mma(d, a, b, metadata=e, selector=1)
        ptx.mma(d, a, b, metadata=e, ordered=False)
        x, y = ptx.mma.fragment("a", "m16n8k64", "e2m1"), ptx.mma.fragment("b", "m16n8k64", "e2m1")
        ptx.mma([*d], x, y, scale_a=p, scale_b=q, scale_vec=4, select_b=(0, 3))
        ptx.mma(
            [*d],
            [*x],
            [*y],
            shape="m16n8k32",
            atype="e2m1",
            btype="e4m3",
            scale_a=p,
            scale_b=q,
            select_a=(3, 1),
        )
        ptx.mma([*d], [*x], [*y], shape="m16n8k32", atype="e3m2")

    d, a, b = "{%d0, %d1, %d2, %d3}", "{%a0, %a1, %a2, %a3}", "{%b0, %b1, %b2, %b3}"
    x, y = "{%x0, %x1, %x2, %x3}", "{%y0, %y1}"
    assert body_of(body, arch="sm_120a") == [
        f"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d}, {a}, {b}, {d}, %e, 1;",
        f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d}, {a}, {b}, {d}, %e, 0;",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
        f"{d}, {x}, {y}, {d}, %p, {{0, 0}}, %q, {{0, 3}};",
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e4m3.f32.ue8m0 "
        f"{d}, {x}, {y}, {d}, %p, {{3, 1}}, %q, {{0, 0}};",
        f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e3m2.f32 {d}, {x}, {y}, {d};",
    ]


def test_mma_refuses() -> None:
    def body() -> None:
        a, b = ptx.mma.fragment("a", "m16n8k16", f16), ptx.mma.fragment("b", "m16n8k16", f16)
        d, e = ptx.mma.fragment("d", "m16n8k16", f32), reg.scalar(b32)
        other, kept = (
            ptx.mma.fragment("b", "m16n8k8", f16),
            ptx.mma.fragment("a", "m16n8k16", f16, sparse=True),
        )
        x = ptx.mma.fragment("a", "m8n8k4", f16, layout="col")
        y, z = ptx.mma.fragment("b", "m8n8k4", f16), ptx.mma.fragment("d", "m8n8k4", f32)
        n = reg.array(b32, 4)
        with rejected(OperandError, "operand b", "fragment of operand a", "expected one of b"):
            ptx.mma(d, a, a)  # rejected
        with rejected(OperandError, "operand a", "2 of 4", "all 4 registers"):
            ptx.mma(d, a[:2], b)  # rejected
        with rejected(OperandError, "'m16n8k8'", "'m16n8k16'", "operand b"):
            ptx.mma(d, a, other)  # rejected
        with rejected(OperandError, "'m16n8k16'", "'m16n8k8'"):
            ptx.mma(d, a, b, shape="m16n8k8")  # rejected
        with rejected(OperandError, "'f16'", "'bf16'", "operand a"):
            ptx.mma(d, a, b, atype=bf16)  # rejected
        with rejected(OperandError, "operand a", "a dense fragment"):
            ptx.mma(d, kept, b)  # rejected
        with rejected(OperandError, "operand a", "a sparse fragment"):
            ptx.mma(d, a, b, metadata=e)  # rejected
        with rejected(OperandError, "operand a", "by rows"):
            ptx.mma(z, x, y, alayout="row")  # rejected
        with rejected(SpecError, "m16n8k16 f16", "'col'-major", "'row'"):
            ptx.mma(d, a, b, alayout="col")  # rejected
        with rejected(OperandError, "the shape is not known"):
            ptx.mma(n, n, n[:2], atype=bf16)  # rejected
        with rejected(OperandError, "the types of A and B"):
            ptx.mma(n, n, n[:2], shape="m16n8k16")  # rejected
        with rejected(OperandError, "operand b has 3 registers", "expected 2", "bf16"):
            ptx.mma(n, n, n[:3], shape="m16n8k16", atype=bf16)  # rejected
        with rejected(SpecError, "'m16n8k64' for bf16", "m16n8k8, m16n8k16"):
            ptx.mma(n, n, n[:3], shape="m16n8k64", atype=bf16)  # rejected
        with rejected(InstructionError, "f64", "nearest legal"):
            ptx.mma(n, a, b, dtype=f64)  # rejected
        with rejected(InstructionError, "bf16"):
            ptx.mma(n, n, n[:2], shape="m16n8k16", atype=bf16, btype=f16)  # rejected
        with rejected(OperandError, "bit_op of", "is 'or'", "'xor'"):
            ptx.mma(n[:2], n[0], n[1], shape="m8n8k128", atype="b1", bit_op="or")  # rejected
        with rejected(InstructionError, "satfinite"):
            ptx.mma(d, a, b, satfinite=True)  # rejected
        with rejected(OperandError, "selector is 4", "0, 1, 2, 3"):
            ptx.mma(n, n[:2], n[:2], shape="m16n8k16", atype=bf16, metadata=e, selector=4)  # rejected
        with rejected(OperandError, "metadata of ptx.mma is 7: expected a register or None"):
            ptx.mma(n, n[:2], n[:2], shape="m16n8k16", atype=bf16, metadata=7)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "selector is 1", "without metadata"):
            ptx.mma(d, a, b, selector=1)  # rejected
        with rejected(OperandError, "ordered is True", "without metadata"):
            ptx.mma(d, a, b, ordered=True)  # rejected
        with rejected(InstructionError, "xor"):
            ptx.mma(d, a, b, bit_op="xor")  # rejected
        with rejected(OperandError, "select_a is (0, 1)", "without scales"):
            ptx.mma(d, a, b, select_a=(0, 1))  # rejected
        with rejected(OperandError, "kind without scales is 'mxf4'", "'f8f6f4'"):
            ptx.mma(d, a, b, kind="mxf4")  # rejected
        with rejected(TargetError, "sm_90a", "sm_120"):
            ptx.mma(n, n, n[:2], shape="m16n8k32", atype="e2m1")  # rejected
        with rejected(SpecError, "operand 'e'"):
            ptx.mma.fragment("e", "m16n8k16", f16)  # rejected
        with rejected(SpecError, "'u16'", "expected f16"):
            ptx.mma.fragment("a", "m16n8k16", "u16")  # rejected

    in_kernel(body, arch="sm_90a")


def test_scales_are_refused() -> None:
    def body() -> None:
        n, p = reg.array(b32, 4), reg.scalar(b32)
        packed: dict[str, Any] = {"shape": "m16n8k64", "atype": "e2m1", "scale_a": p, "scale_b": p}
        bytes_: dict[str, Any] = {"shape": "m16n8k32", "atype": "e4m3", "scale_a": p, "scale_b": p}
        with rejected(OperandError, "scale_a is", "scale_b is None", "both or neither"):
            ptx.mma(n, n, n[:2], shape="m16n8k32", atype="e4m3", scale_a=p)  # rejected
        with rejected(OperandError, "scale_vec is 2", "stype is None", "without scales"):
            ptx.mma(n, n, n[:2], shape="m16n8k32", atype="e4m3", scale_vec=2)  # rejected
        with rejected(OperandError, "kind with scales is 'f8f6f4'", "'mxf8f6f4', 'mxf4', 'mxf4nvf4'"):
            ptx.mma(n, n, n[:2], kind="f8f6f4", **bytes_)  # rejected
        with rejected(OperandError, "scale_vec of kind mxf8f6f4 is 2", "1"):
            ptx.mma(n, n, n[:2], scale_vec=2, **bytes_)  # rejected
        with rejected(OperandError, "mxf4nvf4", "scale_vec=2 or 4"):
            ptx.mma(n, n, n[:2], kind="mxf4nvf4", **packed)  # rejected
        with rejected(OperandError, "select_a is (0, 2)", "0..1"):
            ptx.mma(n, n, n[:2], select_a=(0, 2), **bytes_)  # rejected
        with rejected(OperandError, "select_b is (4, 0)", "byte 0..3", "0..3"):
            ptx.mma(n, n, n[:2], select_b=(4, 0), **bytes_)  # rejected
        with rejected(OperandError, "1", "0, 2"):
            ptx.mma(n, n, n[:2], select_a=(1, 0), **packed)  # rejected
        with rejected(InstructionError, "ue4m3"):
            ptx.mma(n, n, n[:2], stype="ue4m3", **bytes_)  # rejected

    in_kernel(body, arch="sm_120a")


# --- wmma -------------------------------------------------------------------------------------------

LARGE = ("m16n16k16", "m8n32k16", "m32n8k16")
OPERANDS = {
    "f16": LARGE, "bf16": LARGE, "s8": LARGE, "u8": LARGE, "tf32": ("m16n16k8",), "f64": ("m8n8k4",),
    "s4": ("m8n8k32",), "u4": ("m8n8k32",), "b1": ("m8n8k128",),
}  # fmt: skip
SUMS = {
    "f16": LARGE, "f32": (*LARGE, "m16n16k8"), "f64": ("m8n8k4",), "s32": (*LARGE, "m8n8k32", "m8n8k128"),
}  # fmt: skip
#: Space and stride of a load.
PLACES = (("shared", None), ("global", 64), ("cta", "register"), (None, None))


def place(space: str | None) -> Any:
    return reg.scalar(u32 if space in ("shared", "cta") else b64)


def wmma_loads() -> Iterator[Call]:
    def one(operand: str, shape: str, dtype: str, layout: str, space: str | None, stride: Any) -> Call:
        def body() -> None:
            step = reg.scalar(u32) if stride == "register" else stride
            function = {"a": ptx.wmma.load_a, "b": ptx.wmma.load_b, "c": ptx.wmma.load_c}[operand]
            registers = function(place(space), shape, dtype, layout, stride=step, space=space)
            if operand == "c":
                ptx.wmma.store_d(place(space), registers, shape, dtype, layout, stride=step, space=space)

        return Call(f"wmma.load_{operand}", body)

    for operand, types in (("a", OPERANDS), ("b", OPERANDS), ("c", SUMS)):
        for dtype, shapes in types.items():
            for shape, layout, (space, stride) in itertools.product(shapes, ("row", "col"), PLACES):
                fixed = {"a": "row", "b": "col"}.get(operand) if dtype in ("s4", "u4", "b1") else None
                if fixed in (None, layout):
                    yield one(operand, shape, dtype, layout, space, stride)


def wmma_products() -> Iterator[Call]:
    def one(shape: str, atype: str, total: str, addend: str, **options: Any) -> Call:
        def body() -> None:
            memory = place("shared")
            small = atype in ("s4", "u4", "b1")
            a = ptx.wmma.load_a(memory, shape, atype, "row" if small else "col")
            b = ptx.wmma.load_b(memory, shape, atype)
            c = ptx.wmma.load_c(memory, shape, addend)
            d = ptx.wmma.mma(a, b, c, shape, atype, dtype=total, ctype=addend, **options)
            ptx.wmma.mma(a, b, c, shape, atype, dtype=total, ctype=addend, out=d, **options)

        return Call("wmma.mma", body)

    orders = [{"alayout": a, "blayout": b} for a, b in itertools.product(("row", "col"), repeat=2)]
    for shape, order in itertools.product(LARGE, orders):
        for total, addend in itertools.product(("f16", "f32"), repeat=2):
            yield one(shape, "f16", total, addend, **order)
        for atype, clamp in itertools.product(("s8", "u8"), (False, True)):
            yield one(shape, atype, "s32", "s32", satfinite=clamp, **order)
        yield one(shape, "bf16", "f32", "f32", **order)
    for order in orders:
        yield one("m16n16k8", "tf32", "f32", "f32", **order)
        for rounding in (None, "rn", "rz", "rm", "rp"):
            yield one("m8n8k4", "f64", "f64", "f64", rounding=rounding, **order)
    for atype, clamp in itertools.product(("s4", "u4"), (False, True)):
        yield one("m8n8k32", atype, "s32", "s32", satfinite=clamp)
    for operation in ("xor", "and"):
        yield one("m8n8k128", "b1", "s32", "s32", bit_op=operation)


@pytest.mark.full
def test_every_variant_of_wmma(ptxas: Tool) -> None:
    reached = assemble_calls([*wmma_loads(), *wmma_products()], ptxas, ("sm_75", "sm_80", "sm_90a"))
    assert unreached(reached, "wmma") == []
    assert reached.wrappers | {"wmma.store_d"} == public_functions(wmma, "wmma")


def test_wmma_spelling() -> None:
    def body() -> None:
        tile, step = smem.alloc((16, 16), f16, align=32), reg.scalar(u32)
        a = ptx.wmma.load_a(tile, "m16n16k16", "s8", stride=16)
        b = ptx.wmma.load_b(tile, "m16n16k16", "u8", stride=step, space="cta")
        c = ptx.wmma.load_c(tile, "m16n16k16", s32, "col")
        d = ptx.wmma.mma(a, a, c, "m16n16k16", "s8")
        ptx.wmma.store_d(tile, d, "m16n16k16", s32)
        assert (len(a), len(b), a.type, c.type) == (2, 2, s32, s32)

    c = ", ".join(f"%c{i}" for i in range(8))
    d = c.replace("c", "d")
    assert body_of(body)[1:] == [
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.s8 {%a0, %a1}, [%smem_base], 16;",
        "wmma.load.b.sync.aligned.col.m16n16k16.shared::cta.u8 {%b0, %b1}, [%smem_base], %step;",
        f"wmma.load.c.sync.aligned.col.m16n16k16.shared.s32 {{{c}}}, [%smem_base];",
        f"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {{{d}}}, {{%a0, %a1}}, {{%a0, %a1}}, {{{c}}};",
        f"wmma.store.d.sync.aligned.row.m16n16k16.shared.s32 [%smem_base], {{{d}}};",
    ]


def test_wmma_refuses() -> None:
    def body() -> None:
        tile = smem.alloc((16, 16), f16, align=32)
        c = ptx.wmma.load_c(tile, "m16n16k16", f32)
        with rejected(OperandError, "dtype is 'f32'", "'f16'"):
            ptx.wmma.load_a(tile, "m16n16k16", f32)  # rejected
        with rejected(OperandError, "shape with tf32 is 'm16n16k16'", "'m16n16k8'"):
            ptx.wmma.load_b(tile, "m16n16k16", tf32)  # rejected
        with rejected(OperandError, "layout of", "is 'down'", "'row'"):
            ptx.wmma.load_c(tile, "m16n16k16", f32, "down")  # rejected
        with rejected(OperandError, "space is 'local'", "'global'"):
            ptx.wmma.load_c(tile, "m16n16k16", f32, space="local")  # rejected
        with rejected(OperandError, "stride is -1", "0..4294967295"):
            ptx.wmma.load_c(tile, "m16n16k16", f32, stride=-1)  # rejected
        with rejected(InstructionError):
            ptx.wmma.load_a(tile, "m8n8k32", "s4", "col")  # rejected
        with rejected(OperandError, "8", "4"):
            ptx.wmma.store_d(tile, c[:4], "m16n16k16", f32)  # rejected
        with rejected(OperandError, "bit_op of", "is 'or'"):
            ptx.wmma.mma(c, c, c, "m8n8k128", "b1", bit_op="or")  # rejected
        with rejected(InstructionError, "and"):
            ptx.wmma.mma(c, c, c, "m16n16k16", f16, bit_op="and")  # rejected
        with rejected(InstructionError, "rn"):
            ptx.wmma.mma(c, c, c, "m16n16k16", f16, rounding="rn")  # rejected
        with rejected(OperandError, "alayout of", "is 'up'"):
            ptx.wmma.mma(c, c, c, "m16n16k16", f16, alayout="up")  # rejected

    in_kernel(body)
