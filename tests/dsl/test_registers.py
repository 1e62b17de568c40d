# ruff: noqa: B018
"""Registers as Python values: what they refuse, views, arrays, and whose they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyptx.core.errors import OperandError, TraceError
from pyptx.core.types import TYPES, ScalarType, b32, bf16, f16, f32, f64, pred, s32, u8, u16, u32, u64
from pyptx.dsl import Reg, ptx, reg
from pyptx.toolchain import Tool, check_text

from .helpers import body_of, in_kernel, recorded, rejected, says, text_of

pytestmark = pytest.mark.smoke


def test_no_truth_value() -> None:
    def check() -> None:
        x, p = reg.scalar(u32), reg.scalar(pred)
        with rejected(TraceError, "%x", "ptx.if_"):
            bool(x)  # rejected
        with rejected(TraceError, "%p", "& | ~"):
            p and x  # rejected
        with rejected(TraceError, "%p", "& | ~"):
            not p  # rejected
        with rejected(TraceError, "!", "ptx.if_"):
            bool(~p)  # rejected

    in_kernel(check)


def test_if_on_a_comparison() -> None:
    def check() -> None:
        x = reg.scalar(u32)
        with pytest.raises(TraceError) as caught:
            if x < 3:  # rejected
                pass
        says(caught.value, ["ptx.if_"])

    in_kernel(check)


@pytest.mark.parametrize(
    "use", [int, float, range, list, iter, lambda x: [0, 1][x], lambda x: 1 in [x], lambda x: max(x, 1)]
)
def test_no_python_value(use: Callable[[Reg], object]) -> None:
    def check() -> None:
        x = reg.scalar(u32)
        with pytest.raises(TraceError, match="no truth value|no value|is one value"):
            use(x)

    in_kernel(check)


def test_identity_is_the_hash() -> None:
    def check() -> None:
        x, y = reg.scalar(u32), reg.scalar(u32)
        table = {x: "x", y: "y"}
        assert table[x] == "x" and table[y] == "y"
        assert len({x, y, x}) == 2

    in_kernel(check)


def test_a_register_of_an_ended_recording() -> None:
    kept: list[Reg] = []

    def first() -> None:
        kept.append(reg.scalar(u32))

    def second() -> None:
        old, x = kept[0], reg.scalar(u32)
        with rejected(TraceError, "%r", "kernel k", "has ended"):
            x + old  # rejected
        with rejected(TraceError, "has ended"):
            old.set(1)  # rejected
        with rejected(TraceError, "has ended"):
            old.view(s32)  # rejected
        with rejected(TraceError, "has ended"):
            ptx.inst.mov.u32(x, old)  # rejected
        with rejected(TraceError, "has ended"):
            ptx.inst.ld.shared.u32(x, ptx.addr(old))  # rejected
        with rejected(TraceError, "has ended"):
            ptx.inst.st.shared.v2.u32(ptx.addr(x), [x, old])  # rejected

    recorded(first)
    recorded(second)
    with pytest.raises(TraceError, match="no kernel is being recorded"):
        kept[0] + 1


def test_a_register_of_another_kernel_being_recorded() -> None:
    def outer() -> None:
        mine = reg.scalar(u32)
        test = mine < 3

        def inner() -> None:
            with rejected(TraceError, "%mine", "another one"):
                mine + 1  # rejected
            with rejected(TraceError, "%mine", "another one"):
                ptx.inst.add.u32(mine, mine, 1)  # rejected
            with rejected(TraceError, "%test", "another one"):
                ptx.ret(pred=test)  # rejected

        recorded(inner)
        mine.set(1)

    assert body_of(outer) == ["setp.lt.u32 %test, %mine, 3;", "mov.u32 %mine, 1;"]


@pytest.mark.parametrize(
    "call",
    [lambda: reg.scalar(u32), lambda: reg.array(u32, 2), ptx.inst.ret, ptx.bar.sync, ptx.loop, ptx.ret],
)
def test_outside_a_kernel(call: Callable[[], object]) -> None:
    with pytest.raises(TraceError, match="no kernel is being recorded"):
        call()


def test_view_records_nothing_and_keeps_the_register() -> None:
    def body() -> None:
        x = reg.scalar(u32)
        signed = x.view(s32)
        assert signed.type is s32 and signed.name == "x"
        y = signed >> 3  # noqa: F841

    text = text_of(body)
    assert ".reg .u32 %x;" in text and "shr.s32 %y, %x, 3;" in text


def test_a_view_as_another_kind_declares_bits(ptxas: Tool) -> None:
    def body() -> None:
        word = reg.scalar(u32, init=0x3F800000)
        value = word.view(f32) * 2.0
        back = value.view(b32) & 0x7FFFFFFF
        wide = reg.scalar(f64, init=1.0)
        bits = wide.view(u64) + 1  # noqa: F841
        with ptx.if_(back.view(u32) < 5):
            ptx.inst.st.shared.v2.b32(ptx.addr(word), [value.view(u32), word])

    text = text_of(body)
    assert ".reg .b32 %word, %value, %back;" in text and ".reg .b64 %wide;" in text
    assert check_text(text, ptxas=ptxas).ok


def test_a_view_keeps_the_width() -> None:
    def check() -> None:
        x, p = reg.scalar(u32), reg.scalar(pred)
        with rejected(OperandError, ".u32", "u64", "cvt"):
            x.view(u64)  # rejected
        with rejected(OperandError, ".pred"):
            p.view(b32)  # rejected
        with rejected(OperandError, "'s32'"):
            x.view("s32")  # type: ignore[arg-type]  # rejected

    in_kernel(check)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [t for t in TYPES.values() if t.name != "b128"], ids=str)
def test_every_type_can_be_declared_set_and_copied(kind: ScalarType, ptxas: Tool) -> None:
    def body() -> None:
        x = reg.scalar(kind, init=1)
        y = reg.scalar(kind, init=x)
        y.set(1)

    assert check_text(text_of(body), ptxas=ptxas).ok
    assert len(body_of(body)) == 3


def test_float_formats_take_the_bits_of_their_numbers() -> None:
    def body() -> None:
        h = reg.scalar(f16, init=1.0)  # noqa: F841
        b = reg.scalar(bf16, init=-2.0)  # noqa: F841
        t = reg.scalar(TYPES["tf32"], init=1)  # noqa: F841

    assert body_of(body) == [
        f"mov.b16 %h, {np.float16(1).view(np.uint16)};",
        "mov.b16 %b, 49152;",
        "mov.b32 %t, 1065353216;",
    ]


def test_set_takes_the_type() -> None:
    def check() -> None:
        x, y, z, p = reg.scalar(u32), reg.scalar(f32), reg.scalar(u64), reg.scalar(pred)
        bits = reg.scalar(b32)
        bits.set(y)
        x.set(bits)
        with rejected(OperandError, ".u32", ".f32", "view"):
            x.set(y)  # rejected
        with rejected(OperandError, ".u32", ".u64", "cvt"):
            x.set(z)  # rejected
        with rejected(OperandError, ".u32", ".pred", "selp"):
            x.set(p)  # rejected
        with rejected(OperandError, ".f32", ".b32", "view"):
            y.set(bits)  # rejected
        with rejected(OperandError, ".u32", "predicate"):
            x.set(~p)  # rejected

    in_kernel(check)


def test_scalar_refuses_what_is_no_type() -> None:
    def check() -> None:
        with rejected(OperandError, "kind of reg.scalar is 'u32': expected a PTX type"):
            reg.scalar("u32")  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "float32"):
            reg.array(np.float32, 3)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "count is 0", "1..65536"):
            reg.array(u32, 0)  # rejected
        with rejected(OperandError, "2 initial values for 3"):
            reg.array(u32, 3, init=[1, 2])  # rejected
        with rejected(OperandError, "70000", ".u16"):
            reg.array(u16, 3, init=[1, 2, 70000])  # rejected

    in_kernel(check)


def test_arrays() -> None:
    def body() -> None:
        acc = reg.array(f32, 4, init=0.0)
        assert len(acc) == 4 and acc[-1].name == "acc3" and [r.name for r in acc[1:3]] == ["acc1", "acc2"]
        acc[2] += acc[0]
        for register in acc[:2]:
            register.set(1)
        assert acc[0] in acc and reg.scalar(f32) not in acc
        assert [r.type for r in acc.view(b32)] == [b32] * 4

    assert body_of(body) == [
        *(f"mov.f32 %acc{i}, 0f00000000;" for i in range(4)),
        "add.rn.f32 %acc2, %acc2, %acc0;",
        "mov.f32 %acc0, 0f3F800000;",
        "mov.f32 %acc1, 0f3F800000;",
    ]


def test_array_elements_are_not_replaced() -> None:
    def check() -> None:
        acc = reg.array(f32, 4)
        x = reg.scalar(f32)
        with rejected(TraceError, "acc[1]", ".set"):
            acc[1] = x  # rejected
        with rejected(TraceError, ".set"):
            acc[0:2] = x  # rejected
        i = reg.scalar(u32)
        with rejected(TraceError, "%i", "run time"):
            acc[i]  # type: ignore[call-overload]  # rejected
        with rejected(OperandError, "index 4", "4 registers"):
            acc[4]  # rejected

    in_kernel(check)


def test_arrays_are_vectors() -> None:
    def body() -> None:
        v = reg.array(u32, 4)
        p = reg.scalar(u64)
        ptx.inst.ld.global_.v4.u32(v, ptx.addr(p))
        ptx.inst.st.global_.v2.u32(ptx.addr(p, 8), v[2:])

    assert body_of(body) == [
        "ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%p];",
        "st.global.v2.u32 [%p+8], {%v2, %v3};",
    ]


def test_eight_bit_registers(ptxas: Tool) -> None:
    def body() -> None:
        p = reg.scalar(u64, init=0)
        small = reg.scalar(u8)
        ptx.inst.ld.global_.u8(small, ptx.addr(p))
        wide = reg.scalar(u32)
        ptx.inst.cvt.u32.u8(wide, small)
        ptx.inst.st.global_.u8(ptx.addr(p, 1), small)

    text = text_of(body)
    assert ".reg .b16 %small;" in text
    assert check_text(text, ptxas=ptxas).ok
