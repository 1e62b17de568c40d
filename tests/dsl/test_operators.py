# ruff: noqa: B015, B018
"""Operators: what each records, for every type, and that ptxas takes it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError, TraceError
from pyptx.core.types import (
    TYPES,
    ScalarType,
    b8,
    b16,
    b32,
    b64,
    bf16,
    f16,
    f32,
    f64,
    pred,
    s16,
    s32,
    s64,
    u16,
    u32,
    u64,
)
from pyptx.dsl import ptx, reg
from pyptx.dsl.registers import Reg
from pyptx.toolchain import Tool, check_text

from .helpers import body_of, in_kernel, recorded, rejected, text_of

pytestmark = pytest.mark.smoke

Operation = Callable[[Any, Any], Any]

ARITHMETIC: dict[str, Operation] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "rem": operator.mod,
}
BITWISE: dict[str, Operation] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
SHIFTS: dict[str, Operation] = {"shl": operator.lshift, "shr": operator.rshift}
COMPARISONS: dict[str, Operation] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
IN_PLACE: dict[str, Operation] = {
    "add": operator.iadd,
    "sub": operator.isub,
    "mul": operator.imul,
    "div": operator.itruediv,
    "floordiv": operator.ifloordiv,
    "rem": operator.imod,
    "and": operator.iand,
    "or": operator.ior,
    "xor": operator.ixor,
    "shl": operator.ilshift,
    "shr": operator.irshift,
}
TYPED = [u16, u32, u64, s16, s32, s64]
BITS = [b16, b32, b64]
FLOATS = [f32, f64]


def spelled(name: str, kind: ScalarType) -> str | None:
    """The instruction that the operator should record, or None where it has no meaning for the type."""
    bits = f"b{kind.bits}"
    if name in BITWISE:
        return f"{name}.pred" if kind is pred else None if kind in FLOATS else f"{name}.{bits}"
    if kind is pred:
        return None
    if name == "shl":
        return None if kind in FLOATS else f"shl.{bits}"
    if name == "shr":
        return None if kind in FLOATS else f"shr.{kind}"
    if name in COMPARISONS:
        if kind in BITS and name not in ("eq", "ne"):
            return None
        return f"setp.{'neu' if kind in FLOATS and name == 'ne' else name}.{kind}"
    if kind in FLOATS:
        return None if name in ("floordiv", "rem") else f"{name}.rn.{kind}"
    if kind in BITS:
        as_unsigned = f"u{kind.bits}"
        return {"add": f"add.{as_unsigned}", "sub": f"sub.{as_unsigned}", "mul": f"mul.lo.{as_unsigned}"}.get(
            name
        )
    return {"mul": f"mul.lo.{kind}", "floordiv": f"div.{kind}"}.get(name, f"{name}.{kind}")


ALL = {**ARITHMETIC, **BITWISE, **SHIFTS, **COMPARISONS}
EVERY = [*TYPED, *BITS, *FLOATS, pred]
LEGAL = [(name, kind) for name in ALL for kind in EVERY if spelled(name, kind) is not None]


def _operands(kind: ScalarType, name: str) -> tuple[Reg, Reg]:
    x = reg.scalar(kind, name="x")
    return x, reg.scalar(u32 if name in SHIFTS else kind, name="y")


@pytest.mark.parametrize(("name", "kind"), LEGAL, ids=str)
def test_one_instruction_into_a_new_register(name: str, kind: ScalarType) -> None:
    results: list[Reg] = []

    def body() -> None:
        x, y = _operands(kind, name)
        results.append(ALL[name](x, y))

    assert body_of(body) == [f"{spelled(name, kind)} %{results[0].name}, %x, %y;"]
    assert results[0].type is (pred if name in COMPARISONS else kind)


@pytest.mark.parametrize(("name", "kind"), LEGAL, ids=str)
def test_numbers_on_either_side(name: str, kind: ScalarType) -> None:
    """A number takes the register's type; comparisons turn round, other operators keep the order."""
    turned = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
    number = 1 if kind is pred else 3

    def body() -> None:
        x, y = _operands(kind, name)
        ALL[name](x, number)
        ALL[name](number, y)

    first, second = body_of(body)
    shown = {"f32": "0f40400000", "f64": "0d4008000000000000"}.get(kind.name, str(number))
    assert first.startswith(spelled(name, kind) or "?") and first.endswith(f", %x, {shown};")
    if name in COMPARISONS:
        assert second.startswith(spelled(turned.get(name, name), kind) or "?")
        assert second.endswith(f", %y, {shown};")
    elif name in SHIFTS:
        # The number takes the amount's type.
        assert second.startswith(name) and second.endswith(f", {number}, %y;")
    else:
        assert second.endswith(f", {shown}, %y;")


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, k in LEGAL if n in IN_PLACE], ids=str)
def test_in_place_writes_the_register(name: str, kind: ScalarType) -> None:
    def body() -> None:
        x, y = _operands(kind, name)
        assert IN_PLACE[name](x, y) is x

    assert body_of(body) == [f"{spelled(name, kind)} %x, %x, %y;"]


@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n in ALL for k in EVERY if spelled(n, k) is None], ids=str
)
def test_what_a_type_has_not_is_refused(name: str, kind: ScalarType) -> None:
    def check() -> None:
        x, y = _operands(kind, name)
        operation = ALL[name]
        with rejected(OperandError, f".{kind}", "hint:" if name not in SHIFTS else ""):
            operation(x, y)  # rejected

    in_kernel(check)


def test_every_combination_assembles(ptxas: Tool) -> None:
    def body() -> None:
        for name, kind in LEGAL:
            x, y = _operands(kind, name)
            for value in (x, y):
                value.set(1)
            ALL[name](x, y)
            ALL[name](x, 1)
            ALL[name](1, y)
            if name in IN_PLACE:
                IN_PLACE[name](x, y)
        for kind in (*TYPED, *BITS, *FLOATS):
            value = reg.scalar(kind, init=1)
            minus = -value
            copy = reg.scalar(kind, init=minus)
            if kind not in FLOATS:
                copy = ~copy
        p, q = reg.scalar(pred, init=True), reg.scalar(pred, init=False)
        q.set(~p)
        (~p) & q, p | ~q, (~p) ^ ~q

    report = check_text(text_of(body), ptxas=ptxas)
    assert report.ok, [str(m) for m in report.messages][:5]


def test_unary() -> None:
    def body() -> None:
        x = reg.scalar(u32)
        a = -x  # noqa: F841
        b = ~x  # noqa: F841
        y = reg.scalar(f64)
        c = -y  # noqa: F841
        assert +x is x

    assert body_of(body) == ["neg.s32 %a, %x;", "not.b32 %b, %x;", "neg.f64 %c, %y;"]


def test_untyped_bits_meet_integers_of_their_width() -> None:
    def body() -> None:
        base, row, low = reg.scalar(b32), reg.scalar(u32), reg.scalar(s32)
        a = base + row
        b = low * base
        assert (a.type, b.type) == (u32, s32)
        assert (base & row).type is u32
        assert (base < row).type is pred
        base += row
        assert base.type is b32

    assert body_of(body)[:2] == ["add.u32 %a, %base, %row;", "mul.lo.s32 %b, %low, %base;"]


@pytest.mark.parametrize(
    ("a", "b", "remedy"),
    [
        (u32, s32, "view"),
        (u32, f32, "view"),
        (u32, u64, "cvt"),
        (b32, f32, "view"),
        (b32, u64, "cvt"),
        (u32, pred, "cvt"),
    ],
    ids=str,
)
@pytest.mark.parametrize("operation", [operator.add, operator.lt, operator.and_, operator.iadd])
def test_mixed_types(a: ScalarType, b: ScalarType, remedy: str, operation: Operation) -> None:
    def check() -> None:
        x, y = reg.scalar(a), reg.scalar(b)
        with rejected(OperandError, f".{a}", f".{b}", remedy):
            operation(x, y)  # rejected

    in_kernel(check)


def test_shift_amounts_are_32_bit() -> None:
    def check() -> None:
        x, n = reg.scalar(u64), reg.scalar(u64)
        with rejected(OperandError, "32-bit integer", ".u64", "cvt.u32.u64"):
            x << n  # rejected
        with rejected(OperandError, "-1"):
            x >> -1  # rejected
        with rejected(OperandError, "1.5"):
            x <<= 1.5  # rejected

    in_kernel(check)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (u32, 1 << 32),
        (u32, -(1 << 31) - 1),
        (s32, 1 << 32),
        (u16, 1 << 16),
        (u64, 1 << 64),
        (u32, 1.5),
        (b32, 0.0),
        (f32, 1e39),
    ],
    ids=str,
)
def test_numbers_that_do_not_fit(kind: ScalarType, value: float) -> None:
    def check() -> None:
        x = reg.scalar(kind)
        with rejected(OperandError, repr(value), f".{kind}"):
            x + value  # rejected
        with rejected(OperandError, repr(value), f".{kind}"):
            x.set(value)  # rejected
        with rejected(OperandError, repr(value), f".{kind}"):
            reg.scalar(kind, init=value)  # rejected

    in_kernel(check)


def test_a_comparison_needs_a_number_of_the_type() -> None:
    """A mask may be negative, a bound of an unsigned value may not: it would be 4294967295."""

    def check() -> None:
        x = reg.scalar(u32)
        masked = x & -1024
        assert masked.type is u32
        with rejected(OperandError, "-1", "0..4294967295"):
            x > -1  # rejected
        y = reg.scalar(s32)
        with rejected(OperandError, "4294967295", "-2147483648..2147483647"):
            y < 0xFFFFFFFF  # rejected

    in_kernel(check)


@pytest.mark.parametrize("value", ["1", None, [1], b"x", object()])
def test_what_is_no_number(value: object) -> None:
    def check() -> None:
        x = reg.scalar(u32)
        for operation in (operator.add, operator.lt, operator.eq, operator.lshift, operator.iand):
            with rejected(OperandError, "%x"):
                operation(x, value)  # rejected
        with rejected(OperandError, "value of a register.set is", "a number"):
            x.set(value)  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def test_numpy_numbers() -> None:
    def body() -> None:
        x, y = reg.scalar(u32), reg.scalar(f32)
        a = np.int64(3) + x  # noqa: F841
        b = x * np.uint8(4)  # noqa: F841
        c = np.float32(0.5) * y  # noqa: F841

    assert body_of(body) == ["add.u32 %a, 3, %x;", "mul.lo.u32 %b, %x, 4;", "mul.rn.f32 %c, 0f3F000000, %y;"]


@pytest.mark.parametrize("kind", [b8, TYPES["u8"], TYPES["e4m3"], TYPES["b128"]], ids=str)
def test_widths_that_ptx_does_not_compute_on(kind: ScalarType) -> None:
    def check() -> None:
        x = reg.scalar(kind)
        with rejected(OperandError, f".{kind}"):
            x + x  # rejected

    in_kernel(check)


#: Floats of 16 bits and packs: the lowest target that adds them, and that negates them.
SMALL_FLOATS = {
    "f16": ("sm_75", "sm_75"),
    "f16x2": ("sm_75", "sm_75"),
    "bf16": ("sm_90", "sm_80"),
    "bf16x2": ("sm_90", "sm_80"),
    "f32x2": ("sm_100a", None),
}


@pytest.mark.parametrize("kind", [TYPES[name] for name in SMALL_FLOATS], ids=str)
def test_small_floats_and_packs(kind: ScalarType, ptxas: Tool) -> None:
    add_on, negate_on = SMALL_FLOATS[kind.name]

    def arithmetic() -> None:
        x, y = (reg.scalar(kind, name=name) for name in "xy")
        a = x + y
        b = x - y
        c = x * y
        x += y
        x -= y
        x *= y
        assert a.type is b.type is c.type is kind

    lines = [
        f"{op}.rn.{kind} %{d}, %x, %y;" for op, d in zip(("add", "sub", "mul") * 2, "abcxxx", strict=True)
    ]
    assert body_of(arithmetic) == lines
    assert check_text(text_of(arithmetic, arch=add_on), ptxas=ptxas).ok
    if add_on != "sm_75":
        below = {"sm_90": "sm_80", "sm_100a": "sm_90"}[add_on]
        with pytest.raises(TargetError, match=below):
            recorded(arithmetic, arch=below)

    def negation() -> None:
        x = reg.scalar(kind, name="x")
        minus = -x
        assert minus.type is kind

    if negate_on is not None:
        assert body_of(negation) == [f"neg.{kind} %minus, %x;"]
        assert check_text(text_of(negation, arch=negate_on), ptxas=ptxas).ok


@pytest.mark.parametrize("kind", [f16, bf16], ids=str)
def test_small_floats_compare(kind: ScalarType, ptxas: Tool) -> None:
    def body() -> None:
        x, y = (reg.scalar(kind, name=name) for name in "xy")
        for operation in COMPARISONS.values():
            assert operation(x, y).type is pred

    words = ("lt", "le", "gt", "ge", "eq", "neu")
    assert [line.split()[0] for line in body_of(body)] == [f"setp.{word}.{kind}" for word in words]
    assert check_text(text_of(body, arch="sm_90"), ptxas=ptxas).ok


def test_packs_of_integers(ptxas: Tool) -> None:
    kind = TYPES["s16x2"]

    def body() -> None:
        x, y = (reg.scalar(kind, name=name) for name in "xy")
        total = x + y
        bits = x ^ y
        inverted = ~x
        assert total.type is bits.type is inverted.type is kind

    assert body_of(body) == ["add.s16x2 %total, %x, %y;", "xor.b32 %bits, %x, %y;", "not.b32 %inverted, %x;"]
    assert check_text(text_of(body, arch="sm_90"), ptxas=ptxas).ok

    def check() -> None:
        x = reg.scalar(kind)
        with rejected(InstructionError, "s16x2"):
            -x  # rejected
        with rejected(InstructionError, "sub.s16x2"):
            x - x  # rejected
        with rejected(OperandError, "shifts integers", ".s16x2"):
            x << 1  # rejected
        with rejected(InstructionError, "s16x2"):
            x < x  # rejected

    in_kernel(check)


def test_small_floats_refuse() -> None:
    def check() -> None:
        h, other = reg.scalar(f16), reg.scalar(bf16)
        pack, wide, narrow = reg.scalar(TYPES["f16x2"]), reg.scalar(TYPES["f32x2"]), reg.scalar(TYPES["tf32"])
        with rejected(OperandError, ".f16", "divide", "f32"):
            h / h  # rejected
        with rejected(OperandError, "1.0", ".f16", "reg.scalar(f16, init=1.0)"):
            h + 1.0  # rejected
        with rejected(OperandError, "2", ".f16x2", "ptx.pack"):
            2 * pack  # rejected
        with rejected(OperandError, ".f16", ".bf16", "view"):
            h + other  # rejected
        with rejected(OperandError, ".f16x2", "two results", "ptx.setp_pair"):
            pack < pack  # rejected
        with rejected(OperandError, ".f32x2", "ptx.unpack"):
            wide == wide  # rejected
        with rejected(OperandError, ".f32x2", "negate", "ptx.unpack"):
            -wide  # rejected
        with rejected(OperandError, ".tf32", "compute", "ptx.cvt"):
            narrow * narrow  # rejected
        with rejected(OperandError, ".tf32", "negate"):
            -narrow  # rejected
        with rejected(OperandError, ".f16", "`%`"):
            h % h  # rejected

    in_kernel(check)


def test_predicates() -> None:
    def body() -> None:
        p, q = reg.scalar(pred), reg.scalar(pred)
        both = p & q  # noqa: F841
        neither = ~p & ~q  # noqa: F841
        assert ~~p is p
        p |= q
        p.set(~q)
        p.set(False)

    assert body_of(body) == [
        "and.pred %both, %p, %q;",
        "not.pred %not_p, %p;",
        "not.pred %not_q, %q;",
        "and.pred %neither, %not_p, %not_q;",
        "or.pred %p, %p, %q;",
        "not.pred %p, %q;",
        "mov.pred %p, 0;",
    ]


def test_a_rejected_negated_predicate_leaves_no_not_behind() -> None:
    def check() -> None:
        p, x = reg.scalar(pred), reg.scalar(u32)
        with rejected(OperandError, ".u32", ".pred"):
            ~p & x  # rejected
        with rejected(OperandError, "predicates have no `==`"):
            (~p) == p  # rejected

    in_kernel(check)


def test_shared_registers_are_not_written() -> None:
    from pyptx.dsl import smem

    def check() -> None:
        base = smem.base()
        with rejected(TraceError, "%smem_base", "copy it"):
            base += 4  # rejected
        with rejected(TraceError, "%smem_base", "copy it"):
            smem.base().set(0)  # rejected
        with rejected(TraceError, "%smem_base", "copy it"):
            ptx.inst.add.u32(base, base, 4)  # rejected

    recorded(check, smem=16)
