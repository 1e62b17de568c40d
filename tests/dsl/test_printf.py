"""``ptx.printf``: what it records, what it prints in the simulator, and which formats it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyptx import Kernel, OperandError, Program, Tile, Verdict, ir, kernel, ptx, reg, sim, toolchain
from pyptx.core.types import b32, b64, bf16, f16, f16x2, f32, f64, s8, s16, s32, s64, u8, u16, u32, u64
from pyptx.isa.checking import check_module
from tests.dsl.helpers import recorded


def printing(body: Callable[[Any], None], threads: int = 1) -> Kernel:
    @kernel(out_specs=(Tile(1, u32),), block=threads, arch="sm_90a")
    def prints(out):  # type: ignore[no-untyped-def]
        body(out)
        ptx.inst.st.global_.u32(ptx.addr(out.ptr), 0)

    return prints


def printed(body: Callable[[Any], None], threads: int = 1) -> str:
    report = printing(body, threads).simulate()
    assert report.verdict in (Verdict.CLEAN, Verdict.REVIEW) or threads > 1, report
    return report.printed


def test_lanes_in_order() -> None:
    def body(out: Any) -> None:
        tid = ptx.special.tid.x()
        ptx.printf("x = %d, y = %f\n", tid, ptx.cvt(tid, f32, rounding="rn") * 0.5)

    assert (
        printed(body, 4)
        == "x = 0, y = 0.000000\nx = 1, y = 0.500000\nx = 2, y = 1.000000\nx = 3, y = 1.500000\n"
    )


#: A type, a value of it, a conversion, and the text.
VALUES = [
    (u8, 200, "%u", "200"),
    (s8, -3, "%d", "-3"),
    (u16, 65535, "%u", "65535"),
    (s16, -2, "%i", "-2"),
    (u32, 7, "%5d|", "    7|"),
    (s32, -7, "%d", "-7"),
    (b32, 0xABC, "%#x", "0xabc"),
    (u64, 1 << 40, "%llu", "1099511627776"),
    (s64, -(1 << 40), "%lld", "-1099511627776"),
    (b64, 0xDEADBEEF0, "%lx", "deadbeef0"),
    (u64, 0x1234, "%p", "0x1234"),
    (u32, 65, "%c", "A"),
    (f32, 0.1, "%.9f", "0.100000001"),
    (f64, 0.1, "%.17g", "0.10000000000000001"),
    (f16, 1.5, "%f", "1.500000"),
    (bf16, -2.5, "%e", "-2.500000e+00"),
]


@pytest.mark.parametrize(("kind", "value", "conversion", "text"), VALUES, ids=lambda v: str(v))
@pytest.mark.sample(3)
def test_values_of_every_type(kind: Any, value: Any, conversion: str, text: str) -> None:
    def body(out: Any) -> None:
        given = reg.scalar(kind, init=value) if kind.bits >= 16 else reg.scalar(kind)
        if kind.bits < 16:
            wide = reg.scalar(s16 if kind.kind == "s" else u16, init=value)
            getattr(getattr(ptx.inst.cvt, kind.name), wide.type.name)(given, wide)
        ptx.printf(f"[{conversion}]", given)

    assert printed(body) == f"[{text}]"


def test_arrays_vectors_strings_predicates_and_numbers() -> None:
    def body(out: Any) -> None:
        row = reg.array(f32, 2)
        for index, register in enumerate(row):
            ptx.inst.mov.f32(register, float(index) + 0.25)
        tid = ptx.special.tid.x()
        ptx.printf(
            "%g %g %s %d %d %d %lld %f %*d%%\n", row, "text: é", tid == 0, ~(tid == 0), -5, 1 << 40, 3, 4, tid
        )

    assert printed(body) == "0.25 1.25 text: é 1 0 -5 1099511627776 3.000000    0%\n"


def test_a_guard_and_a_format_that_repeats() -> None:
    def body(out: Any) -> None:
        tid = ptx.special.tid.x()
        ptx.printf("%d;", tid, pred=tid > 1)
        ptx.printf("%d;", tid + 10, pred=~(tid > 0))

    k = printing(body, 4)
    assert k.simulate().printed == "2;3;10;"
    assert k.ptx().count(".global .align 1 .b8") == 1 and k.ptx().count(".extern .func") == 1


def test_what_is_recorded() -> None:
    def body() -> None:
        value = reg.scalar(f32, init=1.0)
        ptx.printf("%f", value)

    names = [each.name for each in recorded(body).module.functions[-1].instructions()]
    assert names == [
        *(
            "mov.f32",
            "cvt.f64.f32",
            "st.local.f64",
            "mov.u64",
            "cvta.global.u64",
            "mov.u64",
            "cvta.local.u64",
        ),
        *("call", "ret"),
    ]


def test_ptxas_takes_it_and_the_table_too() -> None:
    def body(out: Any) -> None:
        ptx.printf("%d %f %s\n", ptx.special.tid.x(), 2.5, "text")

    module = printing(body).module()
    assert not check_module(module)
    assert toolchain.assemble(ir.print_module(module, lines=True)).report.errors == ()


def test_device_functions_and_programs() -> None:
    @ptx.func
    def say(x: u32) -> None:  # type: ignore[valid-type]
        ptx.printf("said %d\n", x)

    assert printed(lambda out: say(ptx.special.tid.x())) == "said 0\n"
    program = Program("sm_90")

    @program.entry("hello")
    def _() -> None:
        ptx.printf("hello\n")
        ptx.ret()

    assert sim.load(program.module()).launch(grid=2, block=1).printed == "hello\nhello\n"


def test_calls_with_arrays_print(capsys: pytest.CaptureFixture[str]) -> None:
    printing(lambda out: ptx.printf("here\n"))()
    assert capsys.readouterr().out == "here\n"


WRONG = [
    (lambda v: ptx.printf("%d %d", v.u32), "has 2 conversions, got 1 values"),
    (lambda v: ptx.printf("none", v.u32), "has 0 conversions, got 1 values"),
    (lambda v: ptx.printf("%d", v.f32), r"%d \(value 1\) does not take .* of type f32"),
    (lambda v: ptx.printf("%f", v.u32), "does not take .* of type u32"),
    (lambda v: ptx.printf("%d", v.u64), "lld"),
    (lambda v: ptx.printf("%lld", v.u32), "takes 64 bits"),
    (lambda v: ptx.printf("%p", v.u32), "takes 64 bits"),
    (lambda v: ptx.printf("%s", v.u64), "takes a Python string"),
    (lambda v: ptx.printf("%d", "text"), "does not take 'text'"),
    (lambda v: ptx.printf("%d", 1.5), "takes an integer of 32 bits"),
    (lambda v: ptx.printf("%d", 1 << 40), "takes an integer of 32 bits"),
    (lambda v: ptx.printf("%y", v.u32), "'%y' in '%y' is not a conversion"),
    (lambda v: ptx.printf("50%", v.u32), "is not a conversion"),
    (lambda v: ptx.printf("%hf", v.f32), "is not a conversion"),
    (lambda v: ptx.printf("a\0"), "has a zero byte"),
    (lambda v: ptx.printf("%d" * 33, *[1] * 33), "at most 32"),
    (lambda v: ptx.printf("%d", None), "expected a register"),
    (lambda v: ptx.printf("%f", v.halves), "unpack it"),
    (lambda v: ptx.printf(3), "printf"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "said"), WRONG)
@pytest.mark.sample(4)
def test_wrong_formats_are_refused_and_record_nothing(call: Callable[[Any], None], said: str) -> None:
    class Values:
        pass

    def body() -> None:
        values: Any = Values()
        values.u32, values.u64, values.f32 = reg.scalar(u32), reg.scalar(u64), reg.scalar(f32)
        values.halves = reg.scalar(f16x2)
        with pytest.raises(OperandError, match=said) as caught:
            call(values)
        assert caught.value.location is not None and caught.value.location.file == __file__

    module = recorded(body).module
    assert [f.name for f in module.functions if f.prototype] == [] and module.variables == ()
    assert [i.name for i in module.functions[-1].instructions()] == ["ret"]
