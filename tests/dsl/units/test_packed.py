"""Packing and unpacking: every width, spellings, refusals; views of packs and of 8-bit registers."""

from __future__ import annotations

import pytest

from pyptx.core.errors import OperandError
from pyptx.core.types import (
    TYPES,
    ScalarType,
    b16,
    b32,
    b64,
    b128,
    bf16,
    bf16x2,
    f16,
    f16x2,
    f32,
    f64,
    pred,
    s16,
    u8,
    u16,
    u32,
    u64,
)
from pyptx.dsl import ptx, reg
from pyptx.dsl.units import packed
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.reach import assemble_calls, public_functions
from tests.dsl.units.spelled import making

#: Type of a part, how many, type of the whole.
SHAPES: list[tuple[ScalarType, int, ScalarType]] = [
    (u8, 2, b16),
    (u8, 4, b32),
    (u16, 2, TYPES["u16x2"]),
    (s16, 2, TYPES["s16x2"]),
    (f16, 2, f16x2),
    (bf16, 2, bf16x2),
    (b16, 2, b32),
    (b16, 4, b64),
    (f16, 4, b64),
    (u32, 2, b64),
    (f32, 2, TYPES["f32x2"]),
    (b32, 4, b128),
    (f32, 4, b128),
    (u64, 2, b128),
    (f64, 2, b128),
]


def _there_and_back(part: ScalarType, count: int, whole: ScalarType) -> None:
    given = reg.scalar(whole, name="given")
    parts = ptx.unpack(given, part)
    again = ptx.pack(*parts)
    assert (len(parts), parts.type, again.type) == (count, part, whole)


@pytest.mark.parametrize(("part", "count", "whole"), SHAPES, ids=str)
def test_there_and_back(part: ScalarType, count: int, whole: ScalarType) -> None:
    vector = ", ".join(f"%parts{n}" for n in range(count))
    assert body_of(lambda: _there_and_back(part, count, whole)) == [
        f"mov.b{whole.bits} {{{vector}}}, %given;",
        f"mov.b{whole.bits} %again, {{{vector}}};",
    ]


def test_every_shape_assembles(ptxas: Tool) -> None:
    calls = [
        making(name, lambda s=shape: _there_and_back(*s))
        for shape in SHAPES
        for name in ("ptx.pack", "ptx.unpack")
    ]
    assert assemble_calls(calls, ptxas).wrappers == public_functions(packed, "ptx")


def test_spellings(ptxas: Tool) -> None:
    def body() -> None:
        x = reg.scalar(f32, init=1.0)
        h = reg.scalar(f16, init=2.0)
        keep = reg.scalar(pred, init=True)
        both = ptx.pack(x, 0.0)
        ones = ptx.pack(h, h)
        word = ptx.pack(ones, ones, to=u64)
        ptx.pack(h, h, out=ones, pred=keep)
        low, high = ptx.unpack(both)
        halves = ptx.unpack(word, u32, pred=keep)
        assert (both.type, ones.type, word.type) == (TYPES["f32x2"], f16x2, u64)
        assert (low.type, high.type, halves.type) == (f32, f32, u32)

    assert [line for line in body_of(body)[3:]] == [
        "mov.b64 %both, {%x, 0f00000000};",
        "mov.b32 %ones, {%h, %h};",
        "mov.b64 %word, {%ones, %ones};",
        "@%keep mov.b32 %ones, {%h, %h};",
        "mov.b64 {%low, %high}, %both;",
        "@%keep mov.b64 {%halves0, %halves1}, %word;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_views_of_packs_and_bytes(ptxas: Tool) -> None:
    """A view is declared so that the instructions of both types take it."""

    def body() -> None:
        n = reg.scalar(u32, init=5)
        h = reg.scalar(f16, init=1.0)
        byte = ptx.unpack(n, u8)[0]
        pairs = n.view(TYPES["u16x2"])
        sums = pairs + pairs  # noqa: F841
        low = h.view(bf16)
        twice = low + low  # noqa: F841
        tiny = byte.view(TYPES["e2m1x2"])
        wide = ptx.cvt(tiny, f16x2, rounding="rn")
        others = wide.view(bf16x2)
        others += others

    text = text_of(body)
    assert ".reg .b32 %n" in text and ".reg .b8 %part0" in text
    assert check_text(text, ptxas=ptxas).ok


def test_packs_refuse() -> None:
    def check() -> None:
        x, h, n, wide = reg.scalar(f32), reg.scalar(f16), reg.scalar(u32), reg.scalar(b128)
        with rejected(OperandError, "3 parts", "2 or 4"):
            ptx.pack(h, h, h)  # rejected
        with rejected(OperandError, "256 bits", "128"):
            ptx.pack(wide, wide)  # rejected
        with rejected(OperandError, ".f32", ".u32", "do not mix"):
            ptx.pack(x, n)  # rejected
        with rejected(OperandError, "1, 2", "register"):
            ptx.pack(1, 2)  # rejected
        with rejected(OperandError, "64 bits", ".u32"):
            ptx.pack(x, x, to=u32)  # rejected
        with rejected(OperandError, "1.5", ".u32"):
            ptx.pack(n, 1.5)  # rejected
        with rejected(OperandError, "1.5", ".f16", "reg.scalar"):
            ptx.pack(h, 1.5)  # rejected
        with rejected(OperandError, "%n", "ptx.unpack(x, u16)"):
            ptx.unpack(n)  # rejected
        with rejected(OperandError, "32 bits", "2 or 4 parts of type .u64"):
            ptx.unpack(n, u64)  # rejected
        with rejected(OperandError, "7", "register"):
            ptx.unpack(7, u16)  # type: ignore[arg-type]  # rejected

    in_kernel(check)
