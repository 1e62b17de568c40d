"""Arithmetic, functions, selection and carry chains: every type and option, spellings, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError, TraceError
from pyptx.core.types import (
    TYPES,
    ScalarType,
    b32,
    b64,
    bf16,
    f16,
    f16x2,
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
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import extended, math, select
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.reach import Call, Reached, assemble_calls, public_functions, unreached
from tests.dsl.units.spelled import making

ROUNDINGS = ("rn", "rz", "rm", "rp")
BOOLS = (False, True)
INTEGERS = (u16, u32, u64, s16, s32, s64)
HALVES = (f16, f16x2)
BFLOATS = (bf16, TYPES["bf16x2"])
PACKS16 = (TYPES["u16x2"], TYPES["s16x2"])
F32X2 = TYPES["f32x2"]

Options = dict[str, Any]


def _options(**choices: tuple[Any, ...]) -> Iterator[Options]:
    """Every combination of the values given for each option."""
    for values in product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def _call(name: str, kinds: tuple[ScalarType, ...], options: Options | None = None) -> Call:
    """A call with a new register of each type."""
    function: Callable[..., Any] = getattr(ptx, name)
    return making(f"ptx.{name}", lambda: function(*map(reg.scalar, kinds), **(options or {})))


def _calls(
    name: str, kinds: tuple[ScalarType, ...], count: int, **choices: tuple[Any, ...]
) -> Iterator[Call]:
    for kind in kinds:
        for options in _options(**choices):
            yield _call(name, (kind,) * count, options)


def _sums() -> Iterator[Call]:
    for name in ("add", "sub"):
        yield from _calls(name, (f32,), 2, rounding=ROUNDINGS, ftz=BOOLS, sat=BOOLS)
        yield from _calls(name, (f64,), 2, rounding=ROUNDINGS)
        yield from _calls(name, (F32X2,), 2, rounding=ROUNDINGS, ftz=BOOLS)
        yield from _calls(name, HALVES, 2, ftz=BOOLS, sat=BOOLS)
        yield from _calls(name, BFLOATS, 2)
        yield from _calls(name, (*INTEGERS, b32, b64), 2)
        yield _call(name, (s32, s32), {"sat": True})
        for half, options in product((f16, bf16), _options(rounding=ROUNDINGS, sat=BOOLS)):
            yield _call(name, (half, f32), options)
    yield from _calls("add", PACKS16, 2)


def _products() -> Iterator[Call]:
    yield from _calls("mul", (f32,), 2, rounding=ROUNDINGS, ftz=BOOLS, sat=BOOLS)
    yield from _calls("mul", (f64,), 2, rounding=ROUNDINGS)
    yield from _calls("mul", (F32X2,), 2, rounding=ROUNDINGS, ftz=BOOLS)
    yield from _calls("mul", HALVES, 2, ftz=BOOLS, sat=BOOLS)
    yield from _calls("mul", BFLOATS, 2)
    yield from _calls("mul", INTEGERS, 2, half=("lo", "hi"))
    yield from _calls("mul", (u16, u32, s16, s32), 2, half=("wide",))
    yield from _calls("mad", INTEGERS, 3, half=("lo", "hi"))
    yield _call("mad", (s32, s32, s32), {"half": "hi", "sat": True})
    for kind, wide in ((u16, u32), (u32, u64), (s16, s32), (s32, s64)):
        yield _call("mad", (kind, kind, wide), {"half": "wide"})
    yield from _calls("fma", (f32,), 3, rounding=ROUNDINGS, ftz=BOOLS, sat=BOOLS)
    yield from _calls("fma", (f64,), 3, rounding=ROUNDINGS)
    yield from _calls("fma", (F32X2,), 3, rounding=ROUNDINGS, ftz=BOOLS)
    for ftz, oob, sat, relu in product(BOOLS, repeat=4):
        if not (ftz and oob) and not (sat and relu):
            yield from _calls("fma", HALVES, 3, ftz=(ftz,), oob=(oob,), sat=(sat,), relu=(relu,))
    yield from _calls("fma", BFLOATS, 3, oob=BOOLS, relu=BOOLS)
    for half, options in product((f16, bf16), _options(rounding=ROUNDINGS, sat=BOOLS)):
        yield _call("fma", (half, half, f32), options)
    yield from _calls("div", (f32,), 2, rounding=(*ROUNDINGS, "approx", "full"), ftz=BOOLS)
    yield from _calls("div", (f64,), 2, rounding=ROUNDINGS)
    yield from _calls("div", INTEGERS, 2)
    yield from _calls("sad", INTEGERS, 3)
    for a, b in product((u32, s32), repeat=2):
        c = s32 if s32 in (a, b) else u32
        yield _call("dp4a", (a, b, c))
        for half in ("lo", "hi"):
            yield _call("dp2a", (a, b, c), {"half": half})


def _extremes() -> Iterator[Call]:
    for name in ("min", "max"):
        yield from _calls(name, (*INTEGERS, *PACKS16, f64), 2)
        yield from _calls(name, (s32, TYPES["s16x2"]), 2, relu=(True,))
        yield from _calls(name, (f32, *HALVES), 2, ftz=BOOLS, nan=BOOLS)
        yield from _calls(name, (f32, *HALVES), 2, ftz=BOOLS, nan=BOOLS, magnitude=(True,), xorsign=(True,))
        yield from _calls(name, BFLOATS, 2, nan=BOOLS)
        yield from _calls(name, BFLOATS, 2, nan=BOOLS, magnitude=(True,), xorsign=(True,))
        yield from _calls(name, (f32,), 3, ftz=BOOLS, nan=BOOLS, magnitude=BOOLS)
    for name in ("abs", "neg"):
        yield from _calls(name, (f32, *HALVES), 1, ftz=BOOLS)
        yield from _calls(name, (f64, *BFLOATS, s16, s32, s64), 1)
    yield from _calls("copysign", (f32, f64), 2)
    tests = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    yield from _calls("testp", (f32, f64), 1, test=tests)


def _functions() -> Iterator[Call]:
    for name in ("rcp", "sqrt"):
        yield from _calls(name, (f32,), 1, rounding=(*ROUNDINGS, "approx"), ftz=BOOLS)
        yield from _calls(name, (f64,), 1, rounding=ROUNDINGS)
    yield _call("rcp", (f64,), {"rounding": "approx", "ftz": True})
    yield from _calls("rsqrt", (f32, f64), 1, ftz=BOOLS)
    for name in ("sin", "cos", "lg2", "ex2"):
        yield from _calls(name, (f32,), 1, ftz=BOOLS)
    yield from _calls("ex2", HALVES, 1)
    yield from _calls("ex2", BFLOATS, 1, ftz=(True,))
    yield from _calls("tanh", (f32, *HALVES, *BFLOATS), 1)


def _integer_packs() -> Iterator[Call]:
    """Bytes, and saturation, of sm_120."""
    bytes_ = (TYPES["u8x4"], TYPES["s8x4"])
    yield from _calls("add", (u32, *PACKS16), 2, sat=(True,))
    for name in ("add", "sub"):
        yield from _calls(name, bytes_, 2, sat=BOOLS)
    for name in ("min", "max"):
        yield from _calls(name, bytes_, 2)
        yield _call(name, (bytes_[1],) * 2, {"relu": True})
    yield _call("neg", bytes_[1:])


def _reason(variant: str) -> str:
    """Why no function of this unit records a variant; empty if there is no reason."""
    opcode, *words = variant.split(".")
    types = [word for word in words if word in TYPES]
    if "cc" in words:
        return "a function of its own: ptx.add_cc ..."
    if opcode == "mad" and types[0] in ("f32", "f64"):
        return "the same as fma"
    if any(word in ("e4m3x4", "e5m2x4") for word in types) or (len(types) > 1 and "f32x2" in types):
        return "packs of several types, of one or two targets: ptx.inst"
    if opcode in ("add", "sub", "mul") and TYPES[types[0]].is_float and not {*ROUNDINGS} & {*words}:
        return "ptxas may fuse an unmarked multiply and add"
    return ""


@pytest.fixture(scope="module")
def reached(ptxas: Tool) -> Reached:
    return assemble_calls([*_sums(), *_products(), *_extremes(), *_functions(), *_integer_packs()], ptxas)


@pytest.mark.full
def test_nothing_public_is_left_out(reached: Reached) -> None:
    assert reached.wrappers == public_functions(math, "ptx")


OPCODES = (
    *(
        "add",
        "sub",
        "mul",
        "mad",
        "fma",
        "div",
        "sad",
        "dp4a",
        "dp2a",
        "min",
        "max",
        "abs",
        "neg",
        "copysign",
    ),
    *("testp", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"),
)


@pytest.mark.full
@pytest.mark.parametrize("opcode", OPCODES)
def test_every_variant_is_reached(opcode: str, reached: Reached) -> None:
    assert [variant for variant in unreached(reached, opcode) if not _reason(variant)] == []


def test_spellings_and_results(ptxas: Tool) -> None:
    def body() -> None:
        x, y = reg.scalar(f32, init=1.0), reg.scalar(f32, init=2.0)
        n, h = reg.scalar(u32, init=3), reg.scalar(f16, init=1.0)
        keep = reg.scalar(pred, init=True)
        a = ptx.add(x, 1, rounding="rz", ftz=True)
        b = ptx.fma(x, y, a)
        ptx.fma(x, y, b, out=b, pred=keep)
        c = ptx.mul(n, 5, half="wide")
        d = ptx.mad(n, n, c, half="wide")
        e = ptx.add(h, x)
        least = ptx.min(x, y, a, nan=True, magnitude=True)
        other = ptx.max(x, -1.0, xorsign=True, magnitude=True, ftz=True)
        signed = ptx.copysign(x, y)
        odd = ptx.testp(x, "subnormal")
        root = ptx.sqrt(x, rounding="approx")
        power = ptx.ex2(x, ftz=True)
        quotient = ptx.div(x, y, rounding="full")
        dot = ptx.dp4a(n, n.view(s32), 0)
        made = (a, b, c, d, e, least, other, signed, odd, root, power, quotient, dot)
        assert [r.type for r in made] == [f32, f32, u64, u64, *[f32] * 4, pred, *[f32] * 3, s32]

    assert body_of(body)[5:] == [
        "add.rz.ftz.f32 %a, %x, 0f3F800000;",
        "fma.rn.f32 %b, %x, %y, %a;",
        "@%keep fma.rn.f32 %b, %x, %y, %b;",
        "mul.wide.u32 %c, %n, 5;",
        "mad.wide.u32 %d, %n, %n, %c;",
        "add.rn.f32.f16 %e, %h, %x;",
        "min.NaN.abs.f32 %least, %x, %y, %a;",
        "max.ftz.xorsign.abs.f32 %other, %x, 0fBF800000;",
        "copysign.f32 %signed, %y, %x;",
        "testp.subnormal.f32 %odd, %x;",
        "sqrt.approx.f32 %root, %x;",
        "ex2.approx.ftz.f32 %power, %x;",
        "div.full.f32 %quotient, %x, %y;",
        "dp4a.u32.s32 %dot, %n, %n, 0;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_arithmetic_refuses() -> None:
    def check() -> None:
        x, n, h, bits = reg.scalar(f32), reg.scalar(u32), reg.scalar(f16), reg.scalar(b32)
        wide, double, base = reg.scalar(u64), reg.scalar(f64), smem.base()
        with rejected(OperandError, "1, 2", "register"):
            ptx.add(1, 2)  # rejected
        with rejected(OperandError, ".f32", ".u32", "do not mix"):
            ptx.add(x, n)  # rejected
        with rejected(OperandError, "b of ptx.add is 'a'", "a number"):
            ptx.add(x, "a")  # type: ignore[arg-type]  # rejected
        with rejected(InstructionError, ".up", ".rp"):
            ptx.add(x, x, rounding="up")  # rejected
        with rejected(InstructionError, ".rn", "u32"):
            ptx.add(n, n, rounding="rn")  # rejected
        with rejected(OperandError, "1.5", ".f16", "reg.scalar"):
            ptx.fma(h, h, 1.5)  # rejected
        with rejected(OperandError, "1.5", ".u32"):
            ptx.min(n, 1.5)  # rejected
        with rejected(OperandError, "half is 'high'", "'hi'"):
            ptx.mul(n, n, half="high")  # rejected
        with rejected(OperandError, "half is 'lo'", ".f32"):
            ptx.mul(x, x, half="lo")  # rejected
        with rejected(OperandError, "half='wide'", ".u64"):
            ptx.mul(wide, wide, half="wide")  # rejected
        with rejected(OperandError, ".f32", "ptx.fma"):
            ptx.mad(x, x, x)  # rejected
        with rejected(InstructionError, ".u32", ".s32"):
            ptx.abs(n)  # rejected
        with rejected(OperandError, "a of ptx.neg is 3: expected a register"):
            ptx.neg(3)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "test of", "is 'zero'", "'subnormal'"):
            ptx.testp(x, "zero")  # rejected
        with rejected(InstructionError, "sin.approx.f64", ".f32"):
            ptx.sin(double)  # rejected
        with rejected(OperandError, "half of", "is 'mid'", "'lo'"):
            ptx.dp2a(n, n, 0, half="mid")  # rejected
        with rejected(OperandError, "out of ptx.add is 5: expected a register or None"):
            ptx.add(n, n, out=5)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "%x", ".u32"):
            ptx.add(n, n, out=x)  # rejected
        with rejected(TraceError, "%smem_base", "copy it"):
            ptx.add(n, n, out=base)  # rejected
        with rejected(OperandError, "guard", "%n"):
            ptx.add(n, n, pred=n)  # rejected
        with rejected(InstructionError, "min.relu.u32"):
            ptx.min(n, n, relu=True)  # rejected
        with rejected(OperandError, "ptx.min", ".b32", "x.view(s32)"):
            ptx.min(bits, bits)  # rejected
        with rejected(OperandError, "ptx.div", ".b32", "x.view(u32)"):
            ptx.div(bits, 3)  # rejected
        with rejected(OperandError, "ptx.mul", ".b32"):
            ptx.mul(bits, bits, half="hi")  # rejected
        with rejected(OperandError, "ptx.sad", ".b32"):
            ptx.sad(bits, bits, 0)  # rejected

    in_kernel(check, smem=16)


def test_only_where_it_exists() -> None:
    def check() -> None:
        x, y = reg.scalar(F32X2), reg.scalar(bf16)
        with rejected(TargetError, "sm_80"):
            ptx.fma(x, x, x)  # rejected
        with rejected(TargetError, "sm_80"):
            ptx.add(y, y)  # rejected

    in_kernel(check, arch="sm_80")


# --- selection and comparison ---------------------------------------------------------------------

COMPARED = {
    "lt": (*INTEGERS, f32, f64, f16, bf16),
    "eq": (*INTEGERS, b32, b64, f32, f64, f16, bf16),
    "nan": (f32, f64, f16, bf16),
}


def _comparisons() -> Iterator[Call]:
    for comparison, kinds in COMPARED.items():
        for kind, ftz in product(kinds, BOOLS):
            if ftz and kind not in (f32, f16):
                continue
            for how in (None, "and", "or", "xor"):

                def options(how: str | None = how, ftz: bool = ftz) -> Options:
                    p = reg.scalar(pred)
                    return {"ftz": ftz, "combine": how and (how, ~p if how == "or" else p)}

                def compare(
                    name: str, c: str = comparison, k: ScalarType = kind, o: Callable[[], Options] = options
                ) -> None:
                    getattr(ptx, name)(c, reg.scalar(k), reg.scalar(k), **o())

                yield making("ptx.setp", lambda f=compare: f("setp"))
                if kind not in (f16, bf16):
                    yield making("ptx.setp_pair", lambda f=compare: f("setp_pair"))
                for to in (u32, s32) if kind in (f16, bf16) else (u32, s32, f32, f16, bf16):
                    if not (ftz and to is bf16):
                        yield making(
                            "ptx.set_",
                            lambda c=comparison, k=kind, t=to, o=options: ptx.set_(
                                c, reg.scalar(k), reg.scalar(k), t, **o()
                            ),
                        )
    for kind in (f16x2, TYPES["bf16x2"]):
        yield making("ptx.setp_pair", lambda k=kind: ptx.setp_pair("neu", reg.scalar(k), reg.scalar(k)))
        yield making("ptx.set_", lambda k=kind: ptx.set_("gt", reg.scalar(k), reg.scalar(k), k))
    for kind in (*INTEGERS, b32, b64, f32, f64, f16, bf16, f16x2, F32X2):
        yield making("ptx.selp", lambda k=kind: ptx.selp(reg.scalar(k), reg.scalar(k), reg.scalar(pred)))
        for by, ftz in ((s32, False), (f32, False), (f32, True)):
            yield making(
                "ptx.slct",
                lambda k=kind, b=by, z=ftz: ptx.slct(reg.scalar(k), reg.scalar(k), reg.scalar(b), ftz=z),
            )


@pytest.mark.full
def test_selection_and_comparison_assemble(ptxas: Tool) -> None:
    reached = assemble_calls(_comparisons(), ptxas)
    assert reached.wrappers == public_functions(select, "ptx")
    assert unreached(reached, "selp", lambda words: words[-1] not in ("b16", "b32", "b64")) == []
    assert unreached(reached, "slct", lambda words: words[-2] not in ("b16", "b32", "b64")) == []


def test_selection_and_comparison_spellings(ptxas: Tool) -> None:
    def body() -> None:
        x, y = reg.scalar(f32, init=1.0), reg.scalar(f32, init=2.0)
        h = reg.scalar(f16, init=1.0)
        both = ptx.pack(h, h)
        p = x < y
        one = ptx.selp(x, 0.0, p)
        other = ptx.selp(x, y, ~p)
        half = ptx.selp(h, h, p)
        chosen = ptx.slct(1, reg.scalar(u64, init=2), x)
        q = ptx.setp("geu", x, 0.0, combine=("and", ~p), ftz=True)
        low, high = ptx.setp_pair("lt", both, both)
        flag = ptx.set_("lt", x, y, f32)
        assert [r.type for r in (one, other, half, chosen, q, low, high, flag)] == [
            f32, f32, f16, u64, pred, pred, pred, f32,
        ]  # fmt: skip

    assert [line for line in body_of(body)[4:] if not line.startswith("mov")] == [
        "setp.lt.f32 %p, %x, %y;",
        "selp.f32 %one, %x, 0f00000000, %p;",
        "selp.f32 %other, %y, %x, %p;",
        "selp.b16 %half, %h, %h, %p;",
        "slct.u64.f32 %chosen, 1, %r, %x;",
        "setp.geu.and.ftz.f32 %q, %x, 0f00000000, !%p;",
        "setp.lt.f16x2 %low|%high, %both, %both;",
        "set.lt.f32.f32 %flag, %x, %y;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_selection_and_comparison_refuse() -> None:
    def check() -> None:
        x, n, p = reg.scalar(f32), reg.scalar(u32), reg.scalar(pred)
        with rejected(OperandError, "condition", "predicate"):
            ptx.selp(x, x, n)  # rejected
        with rejected(OperandError, "1, 0", "register"):
            ptx.selp(1, 0, p)  # rejected
        with rejected(InstructionError, "slct.f32.u32", ".s32"):
            ptx.slct(x, x, n)  # rejected
        with rejected(OperandError, "comparison of ptx.setp is 'ltt'", "did you mean 'lt"):
            ptx.setp("ltt", x, x)  # rejected
        with rejected(InstructionError, ".ltu", ".u32"):
            ptx.setp("ltu", n, n)  # rejected
        with rejected(OperandError, "combine is 'nand'", "'xor'"):
            ptx.setp("lt", x, x, combine=("nand", p))  # rejected
        with rejected(OperandError, ".f32", ".u32", "do not mix"):
            ptx.setp_pair("lt", x, n)  # rejected
        with rejected(InstructionError, ".f64"):
            ptx.set_("lt", x, x, f64)  # rejected

    in_kernel(check)


# --- carries --------------------------------------------------------------------------------------


def _carries() -> Iterator[Call]:
    kinds = (u32, s32, u64, s64)
    for name in ("add_cc", "sub_cc"):
        yield from _calls(name, (*kinds, b32), 2)
    for name in ("addc", "subc"):
        yield from _calls(name, kinds, 2, cc=BOOLS)
    yield from _calls("mad_cc", kinds, 3, half=("lo", "hi"))
    yield from _calls("madc", kinds, 3, half=("lo", "hi"), cc=BOOLS)
    for name, function in (("add_wide", ptx.add_wide), ("sub_wide", ptx.sub_wide)):
        for count in (2, 4):
            yield making(
                f"ptx.{name}",
                lambda f=function, n=count: f(reg.array(u32, n), reg.array(u32, n)),
            )


def test_carries_assemble(ptxas: Tool) -> None:
    reached = assemble_calls(_carries(), ptxas)
    assert reached.wrappers == public_functions(extended, "ptx")
    for opcode in ("addc", "subc", "madc"):
        assert unreached(reached, opcode) == []
    for opcode in ("add", "sub", "mad"):
        assert unreached(reached, opcode, lambda words: "cc" in words) == []


def test_wide_integers() -> None:
    def body() -> None:
        a, b = reg.array(u32, 3), reg.array(u32, 3)
        total = ptx.add_wide(a, b)
        ptx.sub_wide(total, b)

    lines = body_of(body)
    assert [line.partition(" ")[0] for line in lines] == [
        *("add.cc.u32", "addc.cc.u32", "addc.u32", "sub.cc.u32", "subc.cc.u32", "subc.u32")
    ]
    assert lines[1] == "addc.cc.u32 %total_1, %a1, %b1;"

    def check() -> None:
        a, b = reg.array(u32, 3), reg.array(u32, 2)
        with rejected(OperandError, "3 and 2", "the same number"):
            ptx.add_wide(a, b)  # rejected
        with rejected(OperandError, "1 and 1", "at least 2"):
            ptx.sub_wide(a[:1], b[:1])  # rejected
        with rejected(OperandError, "half of", "is 'wide'", "'lo'"):
            ptx.madc(a[0], a[1], a[2], half="wide")  # rejected

    in_kernel(check)
