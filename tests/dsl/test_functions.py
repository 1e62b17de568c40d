"""Device functions of the author: what a call records, what the module holds, what is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import Program, Scalar, Tile, ir, kernel, ptx, reg, smem
from pyptx.core.errors import InstructionError, OperandError, SpecError, TargetError, TraceError
from pyptx.core.types import (
    ScalarType,
    b16,
    b32,
    b64,
    b128,
    bf16,
    bf16x2,
    e4m3,
    f16,
    f16x2,
    f32,
    f64,
    pred,
    s8,
    s32,
    tf32,
    u8,
    u16,
    u32,
    u64,
)
from pyptx.isa import check_module
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import in_kernel, recorded, rejected, says
from tests.dsl.units.reach import TARGETS

pytestmark = pytest.mark.smoke

#: A type of each width and kind that may travel, with the space it travels in.
PASSED = {
    **dict.fromkeys((b32, u32, s32, f32, f16x2, bf16x2, tf32, b64, u64, f64), "reg"),
    **dict.fromkeys((u8, s8, e4m3, u16, b16, f16, bf16), "param"),
}


def functions_of(body: Callable[..., object], *specs: Any, **options: Any) -> dict[str, ir.Function]:
    """The functions of the module that ``body`` records; the module has no faults and reads back equal."""
    module = recorded(body, *specs, **options).module
    assert check_module(module) == []
    assert ir.parse_module(ir.print_module(module).text) == module
    return {function.name: function for function in module.functions}


def header(function: ir.Function) -> tuple[list[str], list[str]]:
    return [str(p) for p in function.returns], [str(p) for p in function.params]


def lines(function: ir.Function) -> list[str]:
    return [str(statement) for statement in function.body]


# --- what is recorded ---------------------------------------------------------------------------------


@ptx.func
def dot(x: f32, y: f32) -> f32:  # type: ignore[valid-type]
    return x * y  # type: ignore[operator]


def test_one_call_and_one_function() -> None:
    def body() -> None:
        a = reg.scalar(f32, init=2.0)
        b = dot(a, a)
        c = dot(b, 0.5)
        dot(a, b, out=c, pred=a < b, uniform=True)

    functions = functions_of(body)
    assert list(functions) == ["dot", "k"]
    assert header(functions["dot"]) == ([".reg .f32 %t"], [".reg .f32 %x", ".reg .f32 %y"])
    assert lines(functions["dot"]) == ["mul.rn.f32 %t, %x, %y;", "ret;"]
    assert (functions["dot"].kind, functions["dot"].linkage) == ("func", "")
    assert lines(functions["k"]) == [
        "mov.f32 %a, 0f40000000;",
        "call (%b), dot, (%a, %a);",
        "call (%c), dot, (%b, 0f3F000000);",
        "setp.lt.f32 %p, %a, %b;",
        "@%p call.uni (%c), dot, (%a, %b);",
        "ret;",
    ]


def test_types_from_the_decorator_names_and_no_results() -> None:
    @ptx.func(params=(u64, f32), returns=(), name="put one")
    def put(p: Any, v: Any) -> None:
        ptx.inst.st.global_.f32(ptx.addr(p), v)

    @ptx.func
    def nothing() -> None:
        pass

    def body() -> None:
        p = reg.scalar(u64)
        assert put(p, 1) is None
        nothing(uniform=True)

    functions = functions_of(body)
    assert list(functions) == ["put_one", "nothing", "k"]
    assert lines(functions["k"])[:2] == ["call put_one, (%p, 0f3F800000);", "call.uni nothing;"]
    assert lines(functions["nothing"]) == ["ret;"]


def test_results_that_are_not_registers_of_the_body() -> None:
    @ptx.func(returns=u32)
    def same(n: u32) -> Any:  # type: ignore[valid-type]
        return n

    @ptx.func(returns=f32)
    def number() -> Any:
        return 1

    @ptx.func
    def viewed(n: u32) -> Any:  # type: ignore[valid-type]
        doubled = n + n  # type: ignore[operator]
        return doubled.view(f32)

    def body() -> None:
        n = same(3)
        x = number()
        y = viewed(n)
        y += x

    functions = functions_of(body)
    assert header(functions["same"]) == ([".reg .u32 %result"], [".reg .u32 %n"])
    assert lines(functions["same"]) == ["mov.u32 %result, %n;", "ret;"]
    assert lines(functions["number"]) == ["mov.f32 %result, 0f3F800000;", "ret;"]
    assert header(functions["viewed"]) == ([".reg .b32 %doubled"], [".reg .u32 %n"])
    assert functions["k"].registers == (
        ir.Register("n", u32),
        ir.Register("x", f32),
        ir.Register("y", f32),
    )


def test_several_results_travel_in_one_array() -> None:
    @ptx.func(params=(u16, u64, f32), returns=(u16, u64, f32))
    def three(h: Any, w: Any, x: Any) -> Any:
        return h, w, x

    def body() -> None:
        p = reg.scalar(pred)
        h, w, x = three(1, 2, 3.0)
        both = three(h, w, x)
        three(*both, out=(h, w, x), pred=~p)

    functions = functions_of(body)
    assert header(functions["three"]) == (
        [".param .align 8 .b8 three_results[24]"],
        [".param .b16 h", ".reg .u64 %w", ".reg .f32 %x"],
    )
    assert lines(functions["three"]) == [
        "ld.param.b16 %h, [h];",
        "st.param.b16 [three_results], %h;",
        "st.param.b64 [three_results+8], %w;",
        "st.param.b32 [three_results+16], %x;",
        "ret;",
    ]
    assert lines(functions["k"]) == [
        "{",
        ".param .align 8 .b8 three_results[24]",
        "call (three_results), three, (1, 2, 0f40400000);",
        "ld.param.b16 %h, [three_results];",
        "ld.param.b64 %w, [three_results+8];",
        "ld.param.b32 %x, [three_results+16];",
        "}",
        "{",
        ".param .align 8 .b8 three_results_1[24]",
        "call (three_results_1), three, (%h, %w, %x);",
        "ld.param.b16 %both0, [three_results_1];",
        "ld.param.b64 %both1, [three_results_1+8];",
        "ld.param.b32 %both2, [three_results_1+16];",
        "}",
        "{",
        ".param .align 8 .b8 three_results_2[24]",
        "@!%p call (three_results_2), three, (%both0, %both1, %both2);",
        "@!%p ld.param.b16 %h, [three_results_2];",
        "@!%p ld.param.b64 %w, [three_results_2+8];",
        "@!%p ld.param.b32 %x, [three_results_2+16];",
        "}",
        "ret;",
    ]


def test_functions_call_functions_and_stand_before_their_callers() -> None:
    @ptx.func
    def outer(x: f32) -> f32:  # type: ignore[valid-type]
        return dot(x, dot(x, x))

    def body() -> None:
        outer(1.0)
        dot(1.0, 2.0)

    functions = functions_of(body)
    assert list(functions) == ["dot", "outer", "k"]
    assert [f.opcode for f in functions["outer"].instructions()] == ["call", "call", "ret"]


def test_constants_make_a_function_each() -> None:
    @ptx.func
    def scaled(x: f32, times: f32 = 3, *, by: float = 2.0) -> f32:  # type: ignore[valid-type]
        return dot(x * by, times)  # type: ignore[operator]

    def body() -> None:
        x = scaled(1.0)
        scaled(x, by=4.0)
        scaled(x, times=2.0, by=2.0)

    functions = functions_of(body)
    assert list(functions) == ["dot", "scaled", "scaled_1", "k"]
    assert lines(functions["k"]) == [
        "call (%x), scaled, (0f3F800000, 0f40400000);",
        "call (%scaled), scaled_1, (%x, 0f40400000);",
        "call (%scaled_1), scaled, (%x, 0f40000000);",
        "ret;",
    ]


def test_names_differ_from_those_of_the_kernel() -> None:
    @ptx.func(returns=u32, name="n")
    def one(x: u16) -> Any:  # type: ignore[valid-type]
        ptx.label("x")
        return 1

    @ptx.func(returns=u32, name="n")
    def two() -> Any:
        return one(2)

    def body(n: Any) -> None:
        ptx.variable("local", u32, "n_2")
        ptx.label("n_1")
        n += two()
        dot(1.0, 1.0)
        with rejected(TraceError, "variable of k", "n_2"):
            one(3)  # rejected

    functions = functions_of(body, Scalar(u32))
    assert list(functions) == ["n_2", "n_1", "dot", "k"]
    assert lines(functions["n_2"])[0] == "x_1:"
    assert lines(functions["k"])[:3] == ["ld.param.u32 %n, [n];", "n_1_1:", "call (%n_1), n_1;"]


def test_a_function_is_recorded_anew_in_each_module_and_for_each_target() -> None:
    targets = []

    @ptx.func
    def device() -> None:
        targets.append(ptx)
        ptx.inst["fence.proxy.async"]()

    def twice() -> None:
        device()
        device()

    for arch in ("sm_90a", "sm_100a"):
        assert list(functions_of(twice, arch=arch)) == ["device", "k"]
    assert len(targets) == 2
    with pytest.raises(TargetError, match="sm_80"):
        functions_of(twice, arch="sm_80")


# --- recursion ------------------------------------------------------------------------------------------


@ptx.func
def factorial(n: u32) -> u32:  # type: ignore[valid-type]
    r = reg.scalar(u32, init=1)
    ptx.ret(pred=n == 0)
    ptx.inst.mul.lo.u32(r, n, factorial(n - 1))  # type: ignore[operator]
    return r


@ptx.func
def even(n: u32) -> u32:  # type: ignore[valid-type]
    r = reg.scalar(u32, init=1)
    ptx.ret(pred=n == 0)
    odd(n - 1, out=r)  # type: ignore[operator]
    return r


@ptx.func
def odd(n: u32) -> u32:  # type: ignore[valid-type]
    r = reg.scalar(u32, init=0)
    ptx.ret(pred=n == 0)
    even(n - 1, out=r)  # type: ignore[operator]
    return r


def test_recursion(ptxas: Tool) -> None:
    def body() -> None:
        factorial(5)
        even(6)

    module = recorded(body).module
    assert [(f.name, f.prototype) for f in module.functions] == [
        ("factorial", False),
        ("even", True),
        ("odd", False),
        ("even", False),
        ("k", False),
    ]
    assert module.functions[1].returns == module.functions[3].returns
    assert check_module(module) == []
    assert ir.parse_module(ir.print_module(module).text) == module
    for arch in TARGETS:
        text = ir.print_module(recorded(body, arch=arch).module).text
        report = check_text(text, ptxas=ptxas)
        assert report.ok, report
        assert not [m for m in report.messages if "ABI" in m.text], report


# --- every type, every target -----------------------------------------------------------------------------


@pytest.mark.parametrize("arch", TARGETS)
def test_every_type_travels_on_every_target(arch: str, ptxas: Tool) -> None:
    def identity(kind: ScalarType) -> Any:
        @ptx.func(params=(kind,), returns=kind, name=f"identity_{kind}")
        def function(x: Any) -> Any:
            return x

        return function

    def recursive(kind: ScalarType) -> Any:
        # A call that cannot be inlined has to follow the ABI.
        @ptx.func(params=(u32, kind, kind), returns=(kind, u32, kind), name=f"recursive_{kind}")
        def function(n: Any, x: Any, y: Any) -> Any:
            with ptx.if_(n != 0):
                function(n - 1, y, x, out=(x, n, y))
            return x, n, y

        return function

    def body(out: Any) -> None:
        for number, kind in enumerate(PASSED):
            with ptx.scope():
                x = reg.scalar(kind)
                size = ptx.inst[f"ld.global.b{max(kind.bits, 8)}"]
                size(x, ptx.addr(out.ptr, 16 * number))
                y = identity(kind)(x)
                y, _, z = recursive(kind)(3, x, y)
                store = ptx.inst[f"st.global.b{max(kind.bits, 8)}"]
                store(ptx.addr(out.ptr, 16 * number), y)
                store(ptx.addr(out.ptr, 512 + 16 * number), z)

    module = recorded(body, Tile(1024, u8), arch=arch).module
    assert check_module(module) == []
    for kind in PASSED:
        function = module.by_name[f"identity_{kind}"]
        assert function.params[0].space == function.returns[0].space == PASSED[kind]
    report = check_text(ir.print_module(module).text, ptxas=ptxas)
    assert report.ok, report
    assert not [m for m in report.messages if "ABI" in m.text], report


def test_numbers_of_parameters_and_results(ptxas: Tool) -> None:
    def function(params: int, results: int) -> Any:
        @ptx.func(params=(u32,), returns=(u32,) * results, name=f"f_{params}_{results}")
        def one(*, n: int) -> Any:
            raise AssertionError(n)

        return one

    with pytest.raises(SpecError, match="1 types in params= for 0 parameters"):
        function(1, 1)

    @ptx.func(params=(u32,) * 40, returns=(u32,) * 30)
    def many(
        a0: Any, a1: Any, a2: Any, a3: Any, a4: Any, a5: Any, a6: Any, a7: Any, a8: Any, a9: Any,
        b0: Any, b1: Any, b2: Any, b3: Any, b4: Any, b5: Any, b6: Any, b7: Any, b8: Any, b9: Any,
        c0: Any, c1: Any, c2: Any, c3: Any, c4: Any, c5: Any, c6: Any, c7: Any, c8: Any, c9: Any,
        d0: Any, d1: Any, d2: Any, d3: Any, d4: Any, d5: Any, d6: Any, d7: Any, d8: Any, d9: Any,
    ) -> Any:  # fmt: skip
        values = [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9]
        return [x + y for x, y in zip(values, reversed(values), strict=True)] + [
            c0,
            c1,
            c2,
            c3,
            c4,
            d5,
            d6,
            d7,
            d8,
            d9,
        ]

    def body(out: Any) -> None:
        x = reg.array(u32, 40)
        for register, total in zip(x, many(*x), strict=False):
            ptx.inst.st.global_.u32(ptx.addr(out.ptr), register)
            ptx.inst.st.global_.u32(ptx.addr(out.ptr), total)

    text = ir.print_module(recorded(body, Tile(1, u32)).module).text
    assert check_text(text, ptxas=ptxas).ok


# --- in kernels and programs --------------------------------------------------------------------------------


def test_in_a_kernel_and_lines(ptxas: Tool) -> None:
    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=1, block=32, arch="sm_90a")
    def squares(x: Any, y: Any) -> None:
        i = ptx.special.tid.x()
        offset = reg.scalar(u64)
        ptx.inst.mul.wide.u32(offset, i, 4)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(x.ptr + offset))
        squared = dot(value, value)  # the call
        ptx.inst.st.global_.f32(ptx.addr(y.ptr + offset), squared)

    module = squares.module(N=32)
    assert [f.name for f in module.functions] == ["dot", "squares"]
    assert check_module(module) == []
    text = squares.ptx(N=32)
    assert check_text(text, ptxas=ptxas).ok
    inside = module.functions[0].body[0].source  # type: ignore[union-attr]
    assert inside is not None and inside.text.startswith("return x * y") and inside.caller is None
    assert check_text(squares.ptx(N=32, lines=True), ptxas=ptxas).ok
    call = next(i for i in module.functions[1].instructions() if i.opcode == "call")
    assert call.source is not None and call.source.text.endswith("# the call")


def test_in_a_program() -> None:
    program = Program("sm_90a")

    @program.func(params=(ir.Param("x", f32, space="reg"),), returns=(ir.Param("r", f32, space="reg"),))
    def twice(r: Any, x: Any) -> None:
        dot(x, 2, out=r)
        ptx.ret()

    @program.entry()
    def k() -> None:
        dot(1.0, 2.0)
        ptx.ret()

    module = program.module()
    assert [f.name for f in module.functions] == ["dot", "twice", "k"]
    assert lines(module.by_name["twice"]) == ["call (%r), dot, (%x, 0f40000000);", "ret;"]


def test_control_flow_and_labels_are_the_functions_own() -> None:
    @ptx.func
    def total(n: u32) -> u32:  # type: ignore[valid-type]
        s = reg.scalar(u32, init=0)
        with ptx.for_(0, n) as i:  # type: ignore[arg-type]
            s += i
            ptx.bra("out", pred=s > 100)
        ptx.label("out")
        return s

    def body() -> None:
        ptx.label("out")
        total(7)

    functions = functions_of(body)
    assert "out:" in lines(functions["total"]) and lines(functions["k"])[0] == "out:"

    @ptx.func
    def leaves() -> None:
        ptx.bra("out")  # rejected

    def outside() -> None:
        ptx.label("out")
        leaves()

    with pytest.raises(TraceError) as caught:
        recorded(outside)
    says(caught.value, ["'out'"])


def test_directives() -> None:
    @ptx.func(noreturn=True)
    def stop() -> None:
        ptx.inst.trap()

    functions = functions_of(lambda: stop())
    assert functions["stop"].directives == (ir.Directive("noreturn"),)
    assert lines(functions["stop"]) == ["trap;"]
    with pytest.raises(OperandError, match="noinline= is neither an option nor a directive"):

        @ptx.func(noinline=True)
        def kept() -> None:
            pass


# --- refusals ----------------------------------------------------------------------------------------------


def test_refused_calls_record_nothing() -> None:
    @ptx.func(params=(u32, f32), returns=(u32, f32))
    def two(n: Any, x: Any, *, flag: Any = False) -> Any:
        return n, x

    def check() -> None:
        n, x, h, p = reg.scalar(u32), reg.scalar(f32), reg.scalar(f16), reg.scalar(pred)
        bits = reg.scalar(b32)
        with rejected(OperandError, "argument x", ".u32", ".f32", "view"):
            two(n, n)  # rejected
        with rejected(OperandError, "argument x", ".f16", ".f32", "cvt"):
            two(bits, h)  # rejected
        with rejected(OperandError, "argument x", ".b32", ".f32"):
            two(n, bits)  # rejected
        with rejected(OperandError, "argument n", ".pred", ".u32"):
            two(p, x)  # rejected
        with rejected(OperandError, "argument n", "a predicate", ".u32"):
            two(~p, x)  # rejected
        with rejected(OperandError, "1.5", ".u32"):
            two(1.5, x)  # rejected
        with rejected(OperandError, "-2147483649"):
            two(-2147483649, x)  # rejected
        buffer = smem.alloc(16)
        with rejected(OperandError, "argument n", "Buffer", "buffer.addr"):
            two(buffer, x)  # rejected
        with rejected(OperandError, "missing a required argument: 'x'"):
            two(n)  # rejected
        with rejected(OperandError, "'z'"):
            two(n, x, z=1)  # rejected
        with rejected(OperandError, "hashable"):
            two(n, x, flag=[])  # rejected
        with rejected(OperandError, "guard", "out="):
            two(n, x, pred=p)  # rejected
        with rejected(OperandError, "1 registers", "2 results"):
            two(n, x, out=n)  # rejected
        with rejected(OperandError, "result 2", ".u32", ".f32"):
            two(n, x, out=(n, n))  # rejected
        with rejected(OperandError, "result 1", "3"):
            two(n, x, out=(3, x))  # rejected
        shared = smem.base()
        with rejected(TraceError, "shared"):
            two(n, x, out=(shared, x))  # rejected
        with rejected(OperandError, "predicate", ".u32"):
            two(n, x, pred=n)  # rejected

    in_kernel(check)


def test_bodies_are_refused_at_their_line_and_leave_nothing() -> None:
    @ptx.func
    def wrong(x: f32) -> None:  # type: ignore[valid-type]
        dot(x, x)
        ptx.inst.nothing()  # rejected

    @ptx.func(returns=())
    def open_loop(x: f32) -> None:  # type: ignore[valid-type]
        ptx.loop().__enter__()  # rejected

    @ptx.func(returns=())
    def allocates() -> None:
        smem.alloc(16)  # rejected

    @ptx.func
    def early(x: u32) -> tuple[u32, u32]:  # type: ignore[valid-type]
        ptx.ret(pred=x == 0)  # rejected
        return x, x

    @ptx.func(returns=u32)
    def moved(x: u32) -> Any:  # type: ignore[valid-type]
        ptx.ret()  # rejected
        return x

    @ptx.func
    def endless(x: u32) -> Any:  # type: ignore[valid-type]
        return endless(x)  # rejected

    def check() -> None:
        outside = reg.scalar(u32)

        @ptx.func
        def closes_over() -> None:
            ptx.inst.add.u32(outside, outside, 1)  # rejected

        for error, call, words in (
            (InstructionError, lambda: wrong(1.0), ["nothing"]),
            (TraceError, lambda: open_loop(1.0), ["never ended"]),
            (TraceError, lambda: allocates(), ["allocates", "argument"]),
            (TraceError, lambda: early(1), ["early", "before its results"]),
            (TraceError, lambda: moved(1), ["moved", "before its results"]),
            (TraceError, lambda: endless(1), ["endless", "returns="]),
            (
                TraceError,
                lambda: closes_over(),
                ["outside", "belongs to a recording", "pass it as an argument"],
            ),
        ):
            with rejected(error, *words):
                call()

    in_kernel(check)


def result_of(returns: Any, make: Callable[[], Any]) -> Any:
    @ptx.func(returns=returns)
    def function() -> Any:
        return make()

    return function


def calling(function: Any) -> Callable[[], None]:
    def body() -> None:
        function()

    return body


def test_results_are_checked() -> None:
    cases: list[tuple[Any, Callable[[], Any], list[str]]] = [
        (u32, lambda: None, ["0 results returned, 1 declared (u32)"]),
        ((), lambda: reg.scalar(u32), ["1 result returned, 0 declared (none)"]),
        (u32, lambda: reg.scalar(f32), [".f32", ".u32 is declared"]),
        (None, lambda: 3, ["result 1 is int 3", "-> u32"]),
        (None, lambda: "text", ["result 1 is str 'text'"]),
        (None, lambda: reg.scalar(pred), [".pred value"]),
        (None, lambda: (reg.scalar(u32), ~reg.scalar(pred)), [".pred value"]),
    ]
    for returns, make, words in cases:
        with pytest.raises(SpecError) as caught:
            recorded(calling(result_of(returns, make)))
        for text in words:
            assert text in str(caught.value)
        assert caught.value.location is not None and caught.value.location.text == "def function() -> Any:"
    with pytest.raises(OperandError, match=r"1.5.*u32|u32.*1.5"):
        recorded(calling(result_of(u32, lambda: 1.5)))


def test_specifications_are_checked() -> None:
    def untyped(x) -> None:  # type: ignore[no-untyped-def]
        pass

    def unknown(x: f99) -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    def variadic(*x: f32) -> None:  # type: ignore[valid-type]
        pass

    def reserved(pred: u32) -> None:  # type: ignore[valid-type]
        pass

    def logical(p: pred) -> None:  # type: ignore[valid-type]
        pass

    def wide() -> b128:  # type: ignore[valid-type]
        return reg.scalar(b128)

    def odd_result(x: f32) -> nothing:  # type: ignore[name-defined, valid-type]  # noqa: F821
        pass

    for body, text in (
        (untyped, "parameter x has no type"),
        (unknown, "type 'f99', expected a PTX type"),
        (variadic, r"\*x cannot be a parameter"),
        (reserved, "cannot be called pred"),
        (logical, r"a \.pred value"),
        (wide, r"a \.b128 value"),
        (odd_result, "returns is 'nothing': expected a PTX type"),
    ):
        with pytest.raises(SpecError, match=text) as caught:
            ptx.func(body)
        assert caught.value.location is not None
        assert caught.value.location.line == body.__code__.co_firstlineno
    with pytest.raises(SpecError, match="2 types in params= for 1 parameters"):
        ptx.func(params=(f32, f32))(untyped)
    with pytest.raises(TraceError, match="no kernel is being recorded"):
        dot(1.0, 2.0)


def test_the_layout_of_results_is_that_of_a_structure() -> None:
    sizes = {u8: 2, u16: 2, u32: 4, u64: 8}  # eight bits travel in a 16-bit register
    for kinds in itertools.product(sizes, repeat=3):
        functions = functions_of(calling(result_of(kinds, lambda: (1, 2, 3))))
        (results,) = functions["function"].returns
        end, offsets = 0, []
        for kind in kinds:
            end = -(-end // sizes[kind]) * sizes[kind]
            offsets.append(end)
            end += sizes[kind]
        align = max(sizes[kind] for kind in kinds)
        assert (results.count, results.align) == (-(-end // align) * align, align)
        stores = [i.operands[0] for i in functions["function"].instructions() if i.opcode == "st"]
        assert [s.offset for s in stores if isinstance(s, ir.Address)] == offsets


# --- on the GPU ----------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_results_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")

    @ptx.func(params=(u32, u16, u64, f16), returns=(u16, u64, f16, u32))
    def rotate(n: Any, h: Any, w: Any, x: Any) -> Any:
        # Not the last thing that the function does, so that it stays a true call.
        depth = reg.scalar(u32, init=n)
        with ptx.if_(n != 0):
            rotate(n - 1, h, w, x, out=(h, w, x, depth))
            ptx.inst.add.u16(h, h, 3)
            ptx.inst.add.f16(x, x, x)
            w += 1 << 40
        depth += 1
        return h, w, x, depth

    @ptx.func(params=(u32, f16), returns=f16)
    def doubled(n: Any, x: Any) -> Any:
        with ptx.if_(n != 0):
            doubled(n - 1, x, out=x)
            ptx.inst.add.f16(x, x, x)
        return x

    @kernel(in_specs=(Tile(32, u32),), out_specs=(Tile(32, 8, u32),), grid=1, block=32, arch="sm_90a")
    def k(counts: Any, out: Any) -> None:
        lane = ptx.special.tid.x()
        offset = reg.scalar(u64)
        ptx.inst.mul.wide.u32(offset, lane, 4)
        n = reg.scalar(u32)
        ptx.inst.ld.global_.u32(n, ptx.addr(counts.ptr + offset))
        row = out.ptr + offset * 8
        h, w, x, depth = rotate(n, 5, 7, 1.0)
        y = doubled(n, 0.5)
        product = dot(2.0, 0.25)
        dot(product, 8.0, out=product, pred=(n & 1) == 0)
        narrow = reg.array(u32, 3)
        for wide, value in zip(narrow, (h, x, y), strict=True):
            ptx.inst.cvt.u32.u16(wide, value.view(u16))
        ptx.inst.st.global_.v4.u32(ptx.addr(row), [narrow[0], narrow[1], narrow[2], depth])
        ptx.inst.st.global_.u64(ptx.addr(row, 16), w)
        ptx.inst.st.global_.u32(ptx.addr(row, 24), factorial(n))
        ptx.inst.st.global_.f32(ptx.addr(row, 28), product)

    assert check_module(k.module()) == []
    counts = torch.arange(32, device="cuda", dtype=torch.int32) % 8
    rows = k(counts.view(torch.uint32)).cpu().numpy()
    for lane in range(32):
        n = lane % 8
        h, x, y, depth, low, high, product, scaled = (int(v) for v in rows[lane])
        assert (h, depth) == (5 + 3 * n, n + 1)
        assert (x, y) == (np.float16(2.0**n).view(np.uint16), np.float16(2.0 ** (n - 1)).view(np.uint16))
        assert low + (high << 32) == 7 + n * (1 << 40)
        assert product == math.factorial(n)
        assert np.uint32(scaled).view(np.float32) == (4.0 if n % 2 == 0 else 0.5)
