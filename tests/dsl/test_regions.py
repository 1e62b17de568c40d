"""Registers made in a block and read behind it: they have a value on every path, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyptx import Program
from pyptx.core.errors import TraceError
from pyptx.core.types import f32, pred, u32
from pyptx.dsl import Reg, Tile, ptx, reg

from .helpers import in_kernel, recorded, rejected, says


def start() -> Reg:
    return reg.scalar(u32, init=0)


def use(value: Any) -> None:
    ptx.inst.mov.u32(reg.scalar(u32), value)


def refused(body: Callable[[], None], *fragments: str) -> None:
    with pytest.raises(TraceError) as caught:
        recorded(body)
    says(caught.value, ["is read here, and may have no value", *fragments])


def test_a_local_rebound_in_an_if() -> None:
    def body() -> None:
        x, p = start(), reg.scalar(pred)
        with ptx.if_(p):
            x = x + 1
        use(x * 2)  # rejected

    refused(body, "%x", "inside the if_", "reg.scalar(u32, init=...)")


def test_other_places_where_a_register_is_kept() -> None:
    def body() -> None:
        acc, p = {"x": [start()]}, reg.scalar(pred)
        with ptx.if_(p):
            acc["x"][0] = acc["x"][0] + 1
        ptx.inst.mov.u32(reg.scalar(u32), acc["x"][0])  # rejected

    refused(body)


def test_a_refusal_records_nothing() -> None:
    def check() -> None:
        x, p = start(), reg.scalar(pred)
        with ptx.if_(p):
            y = x + 1
        with rejected(TraceError, "may have no value"):
            x += y  # rejected
        x += 1

    in_kernel(check)


def test_in_the_other_branch() -> None:
    def body() -> None:
        x, p = start(), reg.scalar(pred)
        with ptx.if_(p):
            x = x + 1
        with ptx.else_():
            x = x + 2  # rejected

    refused(body)


def test_made_anew_in_both_branches() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            x = start()
        with ptx.else_():
            x = start()
        ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    refused(body, "inside the else_")


def test_declared_in_a_branch_and_written_in_both() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            x = reg.scalar(u32)
            ptx.inst.mov.u32(x, 1)
        with ptx.else_():
            ptx.inst.mov.u32(x, 2)
        use(x)

    recorded(body)


def test_written_again_behind_the_block() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            x = start() + 1
        ptx.inst.mov.u32(x, 2)
        use(x)

    recorded(body)


def test_guards_and_conditions_read() -> None:
    def guarded() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            q = start() == 1
        ptx.inst.mov.u32(reg.scalar(u32), 1, pred=q)  # rejected

    def condition() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            q = start() == 1
        with ptx.if_(~q):  # rejected
            pass

    def address() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            a = start() + 16
        ptx.inst.st.shared.v2.u32(ptx.addr(a, 4), [1, 2])  # rejected

    for body in (guarded, condition, address):
        refused(body)


def test_the_same_condition_again() -> None:
    def body() -> None:
        p, q = reg.scalar(pred), reg.scalar(pred)
        with ptx.if_(p), ptx.if_(~q):
            x = start() + 1
        with ptx.if_(~q), ptx.if_(p):
            use(x)
            with ptx.loop():
                use(x)

    recorded(body)

    def half() -> None:
        p, q = reg.scalar(pred), reg.scalar(pred)
        with ptx.if_(p), ptx.if_(~q):
            x = start() + 1
        with ptx.if_(p):
            ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    def written() -> None:
        p, n = reg.scalar(pred), start()
        with ptx.if_(p):
            x = start() + 1
        ptx.inst.setp.eq.u32(p, n, 1)
        with ptx.if_(p):
            ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    def opposite() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            x = start() + 1
        with ptx.if_(~p):
            ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    for wrong in (half, written, opposite):
        refused(wrong)


def test_loops_that_may_run_no_pass() -> None:
    def counted() -> None:
        n = start()
        with ptx.for_(0, n) as i:
            x = i + 1
        ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    def tested() -> None:
        n = start()
        with ptx.while_(lambda: n < 4):
            x = n + 1
        ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    refused(counted, "which may run no pass")
    refused(tested, "which may run no pass")


def test_what_a_loop_makes_for_certain() -> None:
    def body() -> None:
        n = start()
        with ptx.loop() as again:
            x = n + 1
            again.break_(x == 4)
        use(x)
        with ptx.do_while(lambda: y < 4):
            y = n + 1
        use(y)
        with ptx.for_(0, 4) as i:
            z = i + 1
        use(z)
        use(i)
        with ptx.for_(0, n) as j:
            pass
        use(j)
        with ptx.block():
            w = n + 1
        use(w)

    recorded(body)


def test_what_comes_behind_a_break() -> None:
    def loop() -> None:
        n = start()
        with ptx.loop() as again:
            again.break_(n == 4)
            x = n + 1
        ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    def continued() -> None:
        n = start()
        with ptx.do_while(lambda: n < 4) as again:
            again.continue_(n == 2)
            x = n + 1
        ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    def nested() -> None:
        n, p = start(), reg.scalar(pred)
        with ptx.loop() as again:
            with ptx.if_(p):
                x = n + 1
            again.break_(n == 4)
        ptx.inst.mov.u32(reg.scalar(u32), x)  # rejected

    for body in (loop, continued, nested):
        refused(body)


def test_a_device_function_returns_what_has_a_value() -> None:
    @ptx.func(params=(u32,), returns=u32)
    def half(n: Any) -> Any:
        with ptx.if_(n == 1):
            n = n + 1
        return n

    with pytest.raises(TraceError, match="may have no value"):
        recorded(lambda: use(half(start())))


def test_memory_is_not_a_register() -> None:
    def body(out: Any) -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            base = out.ptr  # the prologue makes it
        ptx.inst.st.global_.f32(ptx.addr(base), 1.0)

    recorded(body, Tile(4, f32))


def test_a_program_records_what_it_is_given() -> None:
    program = Program("sm_90a")

    @program.entry()
    def kernel() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            x = start() + 1
        use(x)

    assert "mov.u32" in program.ptx()
