"""Conversions: every variant of the table through the wrappers, spellings, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError
from pyptx.core.types import TYPES, b16, b32, bf16, e4m3, f16, f32, pred, s32, u8, u16, u32, u64
from pyptx.dsl import ptx, reg
from pyptx.dsl.units import convert
from pyptx.isa import Match
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached
from tests.dsl.units.spelled import Bench, assemble_variants, making, variants_of

_TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100a", "sm_120a", "sm_107a")
_FLAGS = {"ftz", "sat", "satfinite", "relu", "pzo"}


def _arguments(bench: Bench, match: Match) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for word in match.spelling[:-2]:
        if word in _FLAGS:
            given[word] = True
        elif word.startswith("scaled"):
            given["scale"] = bench.byte if "n1" in word else bench.one(b16)
        else:
            given["rounding"] = word
    return given


def _call(bench: Bench, match: Match) -> None:
    to, of = (TYPES[word] for word in match.spelling[-2:])
    given = _arguments(bench, match)
    if match.form.id == "cvt.f8x4.rs":
        del given["rounding"], given["satfinite"]
        convert.cvt_x4(bench.several(f32, 4), to, bench.one(b32), **given)
    elif of is f32 and to.lanes == 2:
        rbits = bench.one(b32) if given["rounding"] == "rs" else None
        convert.cvt_x2(*bench.several(f32, 2), to, rbits=rbits, **given)
    else:
        narrow = match.form.id == "cvt.bfloat_from_byte"
        source = bench.byte.view(of) if narrow else bench.one(of)
        made = convert.cvt(source, to, **given)
        assert made.type is to


@pytest.mark.full
def test_every_conversion_assembles(ptxas: Tool) -> None:
    plain = variants_of("cvt", lambda match: "pack" not in match.spelling)
    assert assemble_variants(plain, _call, ptxas, _TARGETS) == []


def _calls() -> list[Call]:
    spaces = ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry")
    functions = {"cvta": convert.cvta, "cvta_to": convert.cvta_to, "isspacep": convert.isspacep}
    calls = [
        making(f"ptx.{name}", lambda f=function, s=space: f(ptx.special.clock64(), s))
        for name, function in functions.items()
        for space in spaces
    ]

    def packed(to: str, below: bool) -> None:
        low, high = reg.scalar(s32, init=1), reg.scalar(s32, init=2)
        ptx.cvt_pack(low, high, to, below=high.view(b32) if below else None)

    calls += [making("ptx.cvt_pack", lambda t=to: packed(t, False)) for to in ("u16", "s16")]
    calls += [
        making("ptx.cvt_pack", lambda t=to: packed(t, True)) for to in ("u8", "s8", "u4", "s4", "u2", "s2")
    ]
    return calls


def test_addresses_and_packed_integers_assemble(ptxas: Tool) -> None:
    reached = assemble_calls(_calls(), ptxas)
    assert not unreached(reached, "cvta")
    assert not unreached(reached, "isspacep")
    assert not unreached(reached, "cvt", lambda words: "pack" in words)
    conversions = {"ptx.cvt", "ptx.cvt_x2", "ptx.cvt_x4"}
    assert reached.wrappers | conversions == public_functions(convert, "ptx")


def test_spellings_and_results(ptxas: Tool) -> None:
    def body() -> None:
        x, y = reg.scalar(f32, init=1.0), reg.scalar(f32, init=2.0)
        n = reg.scalar(u32, init=3)
        keep = reg.scalar(pred, init=True)
        rbits = reg.scalar(b32, init=0)
        h = ptx.cvt(x, f16, rounding="rn")
        wide = ptx.cvt(h, f32)
        whole = ptx.cvt(x, s32, rounding="rzi", ftz=True)
        clamped = ptx.cvt(n, u8, sat=True)
        address = ptx.cvt(n, u64)
        ptx.cvt(y, f16, rounding="rz", out=h, pred=keep)
        pair = ptx.cvt_x2(x, y, TYPES["bf16x2"])
        narrow = ptx.cvt_x2(x, 1.0, TYPES["e4m3x2"], satfinite=True, relu=True)
        back = ptx.cvt(narrow, TYPES["f16x2"], rounding="rn")
        tiny = ptx.cvt_x2(x, y, TYPES["e2m1x2"], satfinite=True)
        four = ptx.cvt_x4([x, y, x, y], TYPES["e5m2x4"], rbits)
        byte = ptx.cvt(ptx.cvt(x, bf16, rounding="rn"), u8, rounding="rni")
        ints = ptx.cvt_pack(whole, 7, "u8", below=n)
        generic = ptx.cvta(address, "shared")
        inside = ptx.isspacep(generic, "global")
        made = (h, wide, whole, clamped, address, pair, narrow, back, tiny, four, byte, ints, generic, inside)
        assert [str(r.type) for r in made] == [
            "f16", "f32", "s32", "u8", "u64", "bf16x2", "e4m3x2", "f16x2", "e2m1x2", "e5m2x4", "u8", "u32", "u64",
            "pred",
        ]  # fmt: skip

    assert [line for line in body_of(body) if not line.startswith("mov")] == [
        "cvt.rn.f16.f32 %h, %x;",
        "cvt.f32.f16 %wide, %h;",
        "cvt.rzi.ftz.s32.f32 %whole, %x;",
        "cvt.sat.u8.u32 %clamped, %n;",
        "cvt.u64.u32 %address, %n;",
        "@%keep cvt.rz.f16.f32 %h, %y;",
        "cvt.rn.bf16x2.f32 %pair, %y, %x;",
        "cvt.rn.satfinite.relu.e4m3x2.f32 %narrow, 0f3F800000, %x;",
        "cvt.rn.f16x2.e4m3x2 %back, %narrow;",
        "cvt.rn.satfinite.e2m1x2.f32 %tiny, %y, %x;",
        "cvt.rs.satfinite.e5m2x4.f32 %four, {%y, %x, %y, %x}, %rbits;",
        "cvt.rn.bf16.f32 %t, %x;",
        "cvt.rni.u8.bf16 %byte, %t;",
        "cvt.pack.sat.u8.s32.b32 %ints, 7, %whole, %n;",
        "cvta.shared.u64 %generic, %address;",
        "isspacep.global %inside, %generic;",
    ]
    assert ".reg .b8 %tiny, %byte;" in text_of(body)
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_conversions_refuse() -> None:
    def check() -> None:
        x, bits, p = reg.scalar(f32), reg.scalar(b32), reg.scalar(pred)
        half, narrow = reg.scalar(u16), reg.scalar(u32)
        with rejected(InstructionError, "cvt.f16.f32", ".rn"):
            ptx.cvt(x, f16)  # rejected
        with rejected(InstructionError, ".rnn", ".rn"):
            ptx.cvt(x, f16, rounding="rnn")  # rejected
        with rejected(InstructionError, ".sat", "u16", "u32"):
            ptx.cvt(half, u32, sat=True)  # rejected
        with rejected(OperandError, "3", "register"):
            ptx.cvt(3, f32)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, ".b32", "x.view(u32)"):
            ptx.cvt(bits, f32)  # rejected
        with rejected(OperandError, "%p", "predicate", "selp"):
            ptx.cvt(p, u32)  # rejected
        with rejected(OperandError, "'f16'", "type"):
            ptx.cvt(x, "f16")  # type: ignore[arg-type]  # rejected
        with rejected(InstructionError, "e4m3"):
            ptx.cvt(x, e4m3, rounding="rn")  # rejected
        with rejected(OperandError, "scale is", "16-bit"):
            ptx.cvt(x, f16, rounding="rn", scale=bits)  # rejected
        with rejected(OperandError, "2 values", "4"):
            ptx.cvt_x4([x, x], TYPES["e4m3x4"], bits)  # rejected
        with rejected(OperandError, "rbits", "%narrow", ".u32"):
            ptx.cvt_x4([x] * 4, TYPES["e4m3x4"], narrow)  # rejected
        with rejected(OperandError, "to of", "is 'u32'", "'u16'"):
            ptx.cvt_pack(1, 2, "u32")  # rejected
        with rejected(OperandError, "%x", ".s32"):
            ptx.cvt_pack(x, 2, "u16")  # rejected
        with rejected(OperandError, "%narrow", ".u64"):
            ptx.cvta(narrow, "shared")  # rejected
        with rejected(OperandError, "space of", "is 'tensor'", "'global'"):
            ptx.cvta_to(x, "tensor")  # rejected
        with rejected(OperandError, "given of ptx.isspacep is 5: expected a register"):
            ptx.isspacep(5, "global")  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def test_only_where_it_exists() -> None:
    def check() -> None:
        x = reg.scalar(f32)
        with rejected(TargetError, "sm_90"):
            ptx.cvt_x2(x, x, TYPES["e2m1x2"], satfinite=True)  # rejected

    in_kernel(check, arch="sm_90")
