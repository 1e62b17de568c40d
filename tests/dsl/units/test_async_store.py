"""``ptx.st_async``, ``ptx.red_async``, ``ptx.st_bulk`` and ``ptx.multimem``: variants, spelling, refusals."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError
from pyptx.core.types import TYPES, b16, b128, bf16, f16x2, f32, pred, s32, u8, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import async_store, multimem
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import asked, body_of, in_kernel, rejected, text_of
from tests.dsl.units.places import ALL_TARGETS, GLOBAL, RELAXED, SCOPES, WIDE_ORDERS, byte, calls, place
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

FLAGS = (False, True)
INTEGERS = ("b32", "b64", "u32", "u64", "s32", "s64")
STORED = (*(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)), "f32", "f64")
#: Operation and type of red.async.
REDUCED = (
    *product(("and", "or", "xor"), ("b32",)),
    *product(("inc", "dec"), ("u32",)),
    *product(("min", "max"), ("u32", "s32")),
    *product(("add",), ("u32", "s32", "u64")),
)
#: Lengths of vectors of 16 bytes at most, for each float type of multimem.
FLOATS = {
    "f32": (None, 2, 4),
    "f64": (None,),
    "f16": (2, 4, 8),
    "bf16": (2, 4, 8),
    "f16x2": (None, 2, 4),
    "bf16x2": (None, 2, 4),
    "e4m3": (4, 8),
    "e5m2": (4, 8),
    "e4m3x2": (2, 4, 8),
    "e5m2x2": (2, 4, 8),
    "e4m3x4": (None, 2, 4),
    "e5m2x4": (None, 2, 4),
}
SMALL = ("f16", "bf16", "f16x2", "bf16x2")
FP8 = ("e4m3", "e5m2", "e4m3x2", "e5m2x2", "e4m3x4", "e5m2x4")


def given(name: str, count: int | None = None) -> Any:
    """A register, or a vector of them, for a value of the type called ``name``."""
    if name in ("e4m3", "e5m2"):
        return [byte() for _ in range(count or 1)]
    if name in ("b8", "u8", "s8"):
        return byte()
    kind = {
        "e4m3x2": TYPES["b16"],
        "e5m2x2": TYPES["b16"],
        "e4m3x4": TYPES["b32"],
        "e5m2x4": TYPES["b32"],
    }.get(name)
    kind = kind or TYPES[name]
    return reg.scalar(kind) if count is None else [reg.scalar(kind) for _ in range(count)]


# --- into the cluster's shared memory, and global memory ------------------------------------------


def _calls() -> list[Call]:
    def store(kind: Any, weak: bool, space: Any) -> None:
        name, count = kind
        ptx.st_async(place(space), given(name, count), place(space), weak=weak, space=space)

    def store_release(kind: str, scope: Any, space: Any, named: bool) -> None:
        where, mmio = scope
        value = given(kind)
        ptx.st_async_release(place(None), value, kind if named else None, scope=where, mmio=mmio, space=space)

    def reduce(what: Any, space: Any) -> None:
        op, kind = what
        ptx.red_async(place(space), given(kind), place(space), op, space=space)

    def reduce_release(kind: str, scope: Any, space: Any) -> None:
        where, mmio = scope
        ptx.red_async_release(place(None), given(kind), scope=where, mmio=mmio, space=space)

    def fill(size: Any, weak: bool, space: Any) -> None:
        ptx.st_bulk(place(space), reg.scalar(size) if size in (u32, u64) else size, weak=weak, space=space)

    four = [(name, count) for name in ("b32", "u32", "s32", "f32") for count in (None, 2, 4)]
    two = [(name, count) for name in ("b64", "u64", "s64", "f64") for count in (None, 2)]
    scopes = (("gpu", False), ("sys", False), ("sys", True))
    return [
        *calls("st_async", store, (*four, *two, ("b128", None)), FLAGS, ("cluster", None)),
        *calls("st_async_release", store_release, STORED, scopes, ("global", None), FLAGS),
        *calls("red_async", reduce, REDUCED, ("cluster", None)),
        *calls("red_async_release", reduce_release, ("u32", "s32", "u64", "s64"), scopes, ("global", None)),
        *calls("st_bulk", fill, (0, 1_048_568, u32, u64), FLAGS, ("cta", None)),
    ]


@pytest.mark.full
def test_every_variant_is_reached_and_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_calls(), ptxas, ALL_TARGETS)
    assert {f".{name}" for name in reached.wrappers} == public_functions(async_store, "") - {".typed_value"}
    assert unreached(reached, "st", lambda words: words[0] in ("async", "bulk")) == []
    assert unreached(reached, "red", lambda words: words[0] == "async") == []


def test_spelling(ptxas: Tool) -> None:
    def body() -> None:
        a, m, g = reg.scalar(u32, init=0), reg.scalar(u32, init=0), reg.scalar(u64, init=0)
        x, n, h = reg.scalar(f32, init=0), reg.scalar(s32, init=0), reg.scalar(f16x2, init=0)
        p = reg.scalar(pred, init=True)
        v = reg.array(u32, 4, init=0)
        ptx.st_async(a, x, m)
        ptx.st_async(a, v, m, pred=p)
        ptx.st_async(a, [v[0], v[1]], m, "b32")
        ptx.st_async(a, 7, m, "u32")
        ptx.st_async(a, h, m)
        ptx.st_async_release(g, n, scope="sys", mmio=True)
        ptx.red_async(a, n, m, "max")
        ptx.red_async_release(g, 1, "u64")
        ptx.st_bulk(a, 64)

    signal = "mbarrier::complete_tx::bytes"
    assert body_of(body)[11:] == [
        f"st.async.shared::cluster.{signal}.f32 [%a], %x, [%m];",
        f"@%p st.async.shared::cluster.{signal}.v4.u32 [%a], {{%v0, %v1, %v2, %v3}}, [%m];",
        f"st.async.shared::cluster.{signal}.v2.b32 [%a], {{%v0, %v1}}, [%m];",
        f"st.async.shared::cluster.{signal}.u32 [%a], 7, [%m];",
        f"st.async.shared::cluster.{signal}.b32 [%a], %h, [%m];",
        "st.async.mmio.release.sys.global.s32 [%g], %n;",
        f"red.async.relaxed.cluster.shared::cluster.{signal}.max.s32 [%a], %n, [%m];",
        "red.async.release.gpu.global.add.u64 [%g], 1;",
        "st.bulk.shared::cta [%a], 64, 0;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_refuses() -> None:
    def check() -> None:
        store: Any = ptx.st_async
        reduce: Any = ptx.red_async
        a, g, n, h, b = (reg.scalar(kind) for kind in (u32, u64, s32, b16, b128))
        wide, three, several = reg.array(u64, 4), reg.array(u32, 3), reg.array(u32, 2)
        with rejected(OperandError, "type of 7", "dtype="):
            store(a, 7, a)  # rejected
        with rejected(OperandError, "dtype is 'b16'", "'b32', 'b64'"):
            store(a, h, a)  # rejected
        with rejected(InstructionError, "128"):
            store(a, wide, a)  # rejected
        with rejected(InstructionError, "v3"):
            store(a, three, a)  # rejected
        with rejected(OperandError, "4294967296", "u32"):
            store(a, 1 << 32, a, "u32")  # rejected
        with rejected(OperandError, "space is 'cta'", "'cluster', None"):
            store(a, n, a, space="cta")  # rejected
        with rejected(OperandError, "scope of", "is 'cta'", "'gpu'"):
            ptx.st_async_release(g, n, scope="cta")  # rejected
        with rejected(OperandError, "scope is 'gpu'", "'sys'"):
            ptx.red_async_release(g, n, scope="gpu", mmio=True)  # rejected
        with rejected(OperandError, "space is 'shared'", "'global', None"):
            ptx.st_async_release(g, n, space="shared")  # rejected
        with rejected(OperandError, "dtype is 'b128'", "'b8'"):
            ptx.st_async_release(g, b)  # rejected
        with rejected(OperandError, "op of", "is 'mul'", "'add'"):
            reduce(a, n, a, "mul")  # rejected
        with rejected(InstructionError, ".xor", ".s32"):
            reduce(a, n, a, "xor")  # rejected
        with rejected(OperandError, "dtype is 'b16'", "'b32', 'u32'"):
            reduce(a, h, a, "add")  # rejected
        with rejected(OperandError, "several: 2 x u32", "a register or an integer"):
            reduce(a, several, a, "add")  # rejected
        for size in (-8, 4, 1 << 20, 8.0):
            with rejected(OperandError, *asked(size, f"size is {size!r}", "multiple of 8", "0..1048568")):
                ptx.st_bulk(a, size)  # type: ignore[arg-type]  # rejected
        tile = smem.alloc(16)
        odd = tile.at(4)
        smem.base()
        with rejected(OperandError, "offset 4", "multiple of 8"):
            ptx.st_bulk(odd, 8)  # rejected
        with rejected(OperandError, "24 bytes", "'tile'", "has 16"):
            ptx.st_bulk(tile, 24)  # rejected

    in_kernel(check)

    def older() -> None:
        a, n, g = reg.scalar(u32), reg.scalar(s32), reg.scalar(u64)
        with rejected(TargetError, "sm_90a"):
            ptx.st_bulk(a, 8)  # rejected
        with rejected(TargetError, "sm_90a"):
            ptx.st_async_release(g, n)  # rejected

    in_kernel(older, arch="sm_90a")


# --- multimem -------------------------------------------------------------------------------------


def _orders(last: str) -> list[Any]:
    return [(None, None), *((sem, scope) for sem in ("relaxed", last) for scope in SCOPES)]


def _multimem_calls() -> list[Call]:
    unit: Any = ptx.multimem
    spaces = ("global", None)

    def ordered(function: Any, arguments: Any, order: Any, space: Any) -> None:
        function(*arguments(), sem=order[0], scope=order[1], space=space)

    def arguments(name: str, count: Any, *rest: Any) -> Any:
        return lambda: (place(None), given(name, count), *rest, name)

    def loading(name: str, count: Any, op: str) -> Any:
        return lambda: (given(name, count), place(None), op, name)

    def accumulated(what: Any, order: Any, space: Any) -> None:
        name, count, acc = what
        to = given(name, count)
        unit.ld_reduce(to, place(None), "add", name, acc=acc, sem=order[0], scope=order[1], space=space)

    integer_ops = [
        *product(("min", "max"), ("u32", "s32", "u64", "s64")),
        *product(("add",), ("u32", "s32", "u64")),
        *product(("and", "or", "xor"), ("b32", "b64")),
    ]
    shapes = [(name, count) for name, counts in FLOATS.items() for count in counts]
    summed = [
        (op, name, count)
        for name, count in shapes
        for op in (("add",) if name in ("f32", "f64") else ("add", "min", "max"))
    ]
    loads = [loading(name, None, op) for op, name in integer_ops]
    loads += [loading(name, count, op) for op, name, count in summed]
    stores = [arguments(name, None) for name in INTEGERS] + [arguments(name, count) for name, count in shapes]
    reds = [arguments(name, None, op) for op, name in integer_ops]
    reds += [
        arguments(name, count, op)
        for op, name, count in summed
        if name not in FP8 and (op == "add" or count is not None)
    ]
    sums = [(name, count, "f32") for name in SMALL for count in FLOATS[name]]
    sums += [(name, count, "f16") for name in FP8 for count in FLOATS[name]]
    weak = [("weak", None)]

    def copy(order: Any, masked: bool) -> None:
        mask = reg.scalar(b16) if masked else None
        unit.cp_async_bulk(place(None), place("cta"), 16, byte_mask=mask, sem=order[0], scope=order[1])

    def reduce(order: Any, what: Any, noftz: bool) -> None:
        to = place(None)
        unit.cp_reduce_async_bulk(to, place("cta"), 16, *what, noftz=noftz, sem=order[0], scope=order[1])

    return [
        *calls("multimem.ld_reduce", ordered, (unit.ld_reduce,), loads, _orders("acquire") + weak, spaces),
        *calls("multimem.ld_reduce", accumulated, sums, _orders("acquire") + weak, spaces),
        *calls("multimem.st", ordered, (unit.st,), stores, _orders("release") + weak, spaces),
        *calls("multimem.red", ordered, (unit.red,), reds, _orders("release"), spaces),
        *calls(
            "multimem.st_async",
            lambda name, scope, space: unit.st_async(
                place(None), given(name), name, scope=scope, space=space
            ),
            STORED,
            ("gpu", "sys"),
            spaces,
        ),
        *calls(
            "multimem.red_async",
            lambda name, scope, space: unit.red_async(place(None), given(name), scope=scope, space=space),
            ("u32", "s32", "u64"),
            ("gpu", "sys"),
            spaces,
        ),
        *calls("multimem.cp_async_bulk", copy, WIDE_ORDERS, FLAGS),
        *calls("multimem.cp_reduce_async_bulk", reduce, RELAXED, GLOBAL, (False,)),
        *calls("multimem.cp_reduce_async_bulk", reduce, RELAXED, (("add", "f32"),), (True,)),
    ]


@pytest.mark.full
def test_every_variant_of_multimem_is_reached_and_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_multimem_calls(), ptxas, ("sm_90", "sm_100a"))
    assert reached.wrappers == public_functions(multimem, "multimem")
    left = unreached(reached, "multimem")
    assert left == []


def test_spelling_of_multimem(ptxas: Tool) -> None:
    def body() -> None:
        a, n, h = reg.scalar(u64, init=0), reg.scalar(u32, init=0), reg.scalar(f16x2, init=0)
        v = reg.array(f32, 4, init=0.0)
        s = reg.scalar(u32, init=0)
        ptx.multimem.ld_reduce(v, a, "add", sem="relaxed", scope="gpu")
        ptx.multimem.ld_reduce(h, a, "add", acc="f32", sem="weak")
        ptx.multimem.st(a, v, sem="release", scope="sys")
        ptx.multimem.st(a, 7, "u32")
        ptx.multimem.red(a, n, "add")
        ptx.multimem.st_async(a, n)
        ptx.multimem.red_async(a, n)
        ptx.multimem.cp_async_bulk(a, s, 32)
        ptx.multimem.cp_reduce_async_bulk(a, s, 32, "add", bf16)

    assert body_of(body)[8:] == [
        "multimem.ld_reduce.relaxed.gpu.global.add.v4.f32 {%v0, %v1, %v2, %v3}, [%a];",
        "multimem.ld_reduce.weak.global.add.acc::f32.f16x2 %h, [%a];",
        "multimem.st.release.sys.global.v4.f32 [%a], {%v0, %v1, %v2, %v3};",
        "multimem.st.global.u32 [%a], 7;",
        "multimem.red.global.add.u32 [%a], %n;",
        "multimem.st.async.release.gpu.global.u32 [%a], %n;",
        "multimem.red.async.release.gpu.global.add.u32 [%a], %n;",
        "multimem.cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 32;",
        "multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%a], [%s], 32;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_multimem_refuses() -> None:
    def check() -> None:
        unit: Any = ptx.multimem
        a, n, s, small = reg.scalar(u64), reg.scalar(u32), reg.scalar(u32), reg.scalar(u8)
        with rejected(OperandError, "op of", "is 'mul'", "'min'"):
            unit.ld_reduce(n, a, "mul")  # rejected
        with rejected(OperandError, "op of", "is 'inc'", "'min'"):
            unit.red(a, n, "inc")  # rejected
        with rejected(OperandError, "dtype is 'u8'", "'b32', 'b64'"):
            unit.st(a, small)  # rejected
        with rejected(OperandError, "dtype is 'e4m3x4'", "'f16'"):
            unit.red(a, n, "add", "e4m3x4")  # rejected
        with rejected(OperandError, "acc is 'f64'", "'f16', 'f32'"):
            unit.ld_reduce(n, a, "add", "f16x2", acc="f64")  # rejected
        with rejected(OperandError, "sem of", "is 'acquire'", "'weak'"):
            unit.st(a, n, sem="acquire", scope="gpu")  # rejected
        with rejected(OperandError, "sem of", "is 'release'", "'weak'"):
            unit.ld_reduce(n, a, "add", sem="release", scope="gpu")  # rejected
        with rejected(OperandError, "sem of", "is 'weak'", "'relaxed'"):
            unit.red(a, n, "add", sem="weak")  # rejected
        with rejected(OperandError, "sem is 'relaxed'", "scope is None"):
            unit.st(a, n, sem="relaxed")  # rejected
        with rejected(OperandError, "scope of", "is 'block'", "'cta'"):
            unit.st(a, n, sem="relaxed", scope="block")  # rejected
        with rejected(OperandError, "scope of", "is 'cta'", "'gpu'"):
            unit.st_async(a, n, scope="cta")  # rejected
        with rejected(OperandError, "scope of", "is 'cta'", "'gpu'"):
            unit.red_async(a, n, scope="cta")  # rejected
        with rejected(OperandError, "space is 'shared'", "'global', None"):
            unit.st(a, n, space="shared")  # rejected
        with rejected(OperandError, "size is 8", "16..1048560"):
            unit.cp_async_bulk(a, s, 8)  # rejected
        with rejected(OperandError, "op of", "is 'mul'", "'add'"):
            unit.cp_reduce_async_bulk(a, s, 16, "mul", "u32")  # rejected

    in_kernel(check)


@pytest.mark.parametrize("function", ["st_async", "red_async"])
def test_numbers_need_a_type(function: str) -> None:
    def check() -> None:
        a = reg.scalar(u64)
        with rejected(OperandError, "type of 7", "dtype="):
            getattr(ptx.multimem, function)(a, 7)  # rejected

    in_kernel(check)
