# ruff: noqa: B018, F811, SIM117
"""Branches, loops, labels and their scopes, and the rule about rebinding in loops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import contextmanager

import pytest

from pyptx.core.errors import OperandError, TraceError
from pyptx.core.types import b32, f32, pred, s32, u16, u32, u64
from pyptx.dsl import Reg, ptx, reg
from pyptx.toolchain import Tool, check_text

from .helpers import body_of, in_kernel, recorded, rejected, says, text_of

pytestmark = pytest.mark.smoke

# --- if and else ----------------------------------------------------------------------------------


def test_if_is_one_branch() -> None:
    def body() -> None:
        p, x = reg.scalar(pred), reg.scalar(u32)
        with ptx.if_(p):
            x += 1
        with ptx.if_(~p):
            x += 2

    assert body_of(body) == [
        "@!%p bra endif;",
        "add.u32 %x, %x, 1;",
        "endif:",
        "@%p bra endif_1;",
        "add.u32 %x, %x, 2;",
        "endif_1:",
    ]


def test_else_adds_one_branch() -> None:
    def body() -> None:
        p, x = reg.scalar(pred), reg.scalar(u32)
        with ptx.if_(p):
            x += 1
        with ptx.else_():
            x += 2

    assert body_of(body) == [
        "@!%p bra otherwise;",
        "add.u32 %x, %x, 1;",
        "bra endif;",
        "otherwise:",
        "add.u32 %x, %x, 2;",
        "endif:",
    ]


def test_uniform_branches() -> None:
    def body() -> None:
        p, x = reg.scalar(pred), reg.scalar(u32)
        with ptx.if_(p):
            x += 1
        with ptx.else_(uni=True):
            ptx.bra("away", uni=True)
        with ptx.loop(uni=True) as loop:
            loop.continue_(pred=p, uni=True)
            loop.break_(uni=True)
        ptx.label("away")

    branches = [line for line in body_of(body) if "bra" in line]
    assert branches == [
        "@!%p bra otherwise;",
        "bra.uni endif;",
        "bra.uni away;",
        "@%p bra.uni loop;",
        "bra.uni endloop;",
        "bra.uni loop;",
    ]


def test_do_while_branches_back_once() -> None:
    def body() -> None:
        x = reg.scalar(u32)
        with ptx.do_while(lambda: x < 8):
            x += 1
        with ptx.do_while(lambda: ~(x < 16), uni=True) as loop:
            loop.continue_(pred=x == 3)
            x += 2
            loop.break_(pred=x == 4)

    assert [line.replace(".u32", "") for line in body_of(body)] == [
        "loop:",
        "add %x, %x, 1;",
        "setp.lt %p, %x, 8;",
        "@%p bra loop;",
        "endloop:",
        "loop_1:",
        "setp.eq %p_1, %x, 3;",
        "@%p_1 bra next;",
        "add %x, %x, 2;",
        "setp.eq %p_2, %x, 4;",
        "@%p_2 bra endloop_1;",
        "next:",
        "setp.lt %p_3, %x, 16;",
        "@!%p_3 bra.uni loop_1;",
        "endloop_1:",
    ]


def test_do_while_takes_a_function() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        with ptx.do_while(p):  # type: ignore[arg-type]
            pass

    with pytest.raises(OperandError, match=r"do_while takes a function.*%p"):
        body_of(body)


def test_nested_ifs() -> None:
    def body() -> None:
        p, q, x = reg.scalar(pred), reg.scalar(pred), reg.scalar(u32)
        with ptx.if_(p):
            with ptx.if_(q):
                x += 1
            with ptx.else_():
                x += 2
        with ptx.else_():
            x += 3

    lines = body_of(body)
    assert lines[0] == "@!%p bra otherwise_1;"
    assert lines[-3:] == ["otherwise_1:", "add.u32 %x, %x, 3;", "endif_1:"]


def test_else_follows_if_directly() -> None:
    def check() -> None:
        p, x = reg.scalar(pred), reg.scalar(u32)
        with rejected(TraceError, "else_ without if_"):
            with ptx.else_():  # rejected
                pass
        with ptx.if_(p):
            x += 1
        x += 2
        with rejected(TraceError, "else_ without if_", "between"):
            with ptx.else_():  # rejected
                pass
        with ptx.if_(p):
            x += 1
        with ptx.else_():
            x += 2
        with rejected(TraceError, "else_ without if_"):
            with ptx.else_():  # rejected
                pass

    in_kernel(check)


@pytest.mark.parametrize(
    ("value", "what"), [(True, "plain `if`"), (1, "plain `if`"), (None, "None"), ("p", "'p'")]
)
def test_if_takes_a_predicate(value: object, what: str) -> None:
    def check() -> None:
        x = reg.scalar(u32)
        with rejected(OperandError, what):
            ptx.if_(value)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "%x", "x != 0"):
            ptx.if_(x)  # rejected

    in_kernel(check)


def test_a_block_is_entered_once() -> None:
    def check() -> None:
        block = ptx.if_(reg.scalar(pred))
        with block:
            pass
        with rejected(TraceError, "entered before"):
            with block:  # rejected
                pass
        loop = ptx.loop()
        with loop:
            with rejected(TraceError, "entered before"):
                with loop:  # rejected
                    pass

    in_kernel(check)


# --- loops ----------------------------------------------------------------------------------------


def test_loop_break_continue() -> None:
    def body() -> None:
        p, x = reg.scalar(pred), reg.scalar(u32)
        with ptx.loop() as again:
            x += 1
            again.break_(pred=p)
            again.continue_(pred=~p)
            again.break_()

    assert body_of(body) == [
        "loop:",
        "add.u32 %x, %x, 1;",
        "@%p bra endloop;",
        "@!%p bra loop;",
        "bra endloop;",
        "bra loop;",
        "endloop:",
    ]


def test_inner_loops_leave_outer_ones() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        with ptx.loop() as outer, ptx.loop() as inner:
            outer.break_(p)
            inner.continue_(p)

    assert body_of(body) == [
        "loop:",
        "loop_1:",
        "@%p bra endloop_1;",
        "@%p bra loop_1;",
        "bra loop_1;",
        "endloop:",
        "bra loop;",
        "endloop_1:",
    ]


def test_for_is_tested_at_the_top() -> None:
    def body() -> None:
        n, x = reg.scalar(u32), reg.scalar(u32)
        with ptx.for_(2, n, 3) as i:
            x += i

    assert body_of(body) == [
        "mov.u32 %i, 2;",
        "loop:",
        "setp.ge.u32 %done, %i, %n;",
        "@%done bra endloop;",
        "add.u32 %x, %x, %i;",
        "add.u32 %i, %i, 3;",
        "bra loop;",
        "endloop:",
    ]


def test_for_continues_at_the_step_and_counts_down() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        rows = ptx.for_(7, -1, -2, type=s32)
        with rows:
            rows.continue_(p)
            rows.break_(p)

    assert body_of(body) == [
        "mov.s32 %i, 7;",
        "loop:",
        "setp.le.s32 %done, %i, -1;",
        "@%done bra endloop;",
        "@%p bra next;",
        "@%p bra endloop;",
        "next:",
        "add.s32 %i, %i, -2;",
        "bra loop;",
        "endloop:",
    ]


@pytest.mark.parametrize("kind", [u16, u32, u64, s32], ids=str)
def test_for_has_the_type_of_its_bounds(kind: object, ptxas: Tool) -> None:
    def body() -> None:
        start, stop, step = (reg.scalar(kind, init=n) for n in (0, 9, 2))  # type: ignore[arg-type]
        with ptx.for_(start, stop, step) as i:
            assert i.type is kind
        with ptx.for_(0, stop) as i:
            assert i.type is kind
        with ptx.for_(0, 3, type=kind) as i:  # type: ignore[arg-type]
            assert i.type is kind
        with ptx.for_(0, 3) as i:
            assert i.type is u32

    assert check_text(text_of(body), ptxas=ptxas).ok


def test_for_refuses() -> None:
    def check() -> None:
        n, s, f, b, w = reg.scalar(u32), reg.scalar(s32), reg.scalar(f32), reg.scalar(b32), reg.scalar(u64)
        with rejected(OperandError, "%s", ".s32", ".u32"):
            ptx.for_(n, s)  # rejected
        with rejected(OperandError, "%w", ".u64", ".u32"):
            ptx.for_(0, n, w)  # rejected
        with rejected(OperandError, ".f32"):
            ptx.for_(f, 3)  # rejected
        with rejected(OperandError, ".b32", "view"):
            ptx.for_(b, 3)  # rejected
        with rejected(OperandError, "-1", "0..4294967295"):
            ptx.for_(-1, 3)  # rejected
        with rejected(OperandError, "step", "0"):
            ptx.for_(0, 3, 0)  # rejected
        with rejected(OperandError, "1.5"):
            ptx.for_(0, 1.5)  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def test_while_records_its_condition_at_the_head() -> None:
    def body() -> None:
        x, n = reg.scalar(u32), reg.scalar(u32)
        with ptx.while_(lambda: x < n) as again:
            x += 1
            again.continue_(x == 3)

    assert body_of(body) == [
        "loop:",
        "setp.lt.u32 %p, %x, %n;",
        "@!%p bra endloop;",
        "add.u32 %x, %x, 1;",
        "setp.eq.u32 %p_1, %x, 3;",
        "@%p_1 bra loop;",
        "bra loop;",
        "endloop:",
    ]


def test_while_refuses() -> None:
    def check() -> None:
        x = reg.scalar(u32)
        with rejected(OperandError, "lambda"):
            ptx.while_(x < 3 if False else True)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "plain `if`"):
            with ptx.while_(lambda: True):  # type: ignore[arg-type,return-value]  # rejected
                pass
        with rejected(OperandError, ".u32"):
            with ptx.while_(lambda: x + 1):  # rejected
                pass

    in_kernel(check)


def test_break_outside_its_loop() -> None:
    def check() -> None:
        with ptx.loop() as again:
            again.break_()
        with rejected(TraceError, "break_ was called outside its loop"):
            again.break_()  # rejected
        with rejected(TraceError, "continue_ was called outside its loop"):
            again.continue_()  # rejected
        with rejected(TraceError, "break_ was called outside its loop"):
            ptx.loop().break_()  # rejected

    in_kernel(check)


def test_everything_assembles(ptxas: Tool) -> None:
    def body() -> None:
        x, n = reg.scalar(u32, init=0), ptx.special.tid.x()
        with ptx.loop() as again:
            with ptx.for_(0, n) as i:
                with ptx.if_(i == 3):
                    again.break_()
                with ptx.else_():
                    x += i
            with ptx.while_(lambda: x > 7):
                x -= 1
                ptx.exit(pred=x == 2)
        ptx.ret(pred=x == 0)
        with ptx.if_(x == 1):
            ptx.inst.st.shared.u32(ptx.addr(x), x)

    assert check_text(text_of(body), ptxas=ptxas).ok


def test_a_ret_is_added_where_the_body_has_none() -> None:
    def ends_with(end: Callable[[], None]) -> list[str]:
        return [str(s) for s in recorded(lambda: end()).module.functions[0].body]

    assert ends_with(lambda: None) == ["ret;"]
    assert ends_with(lambda: ptx.ret()) == ["ret;"]
    assert ends_with(lambda: ptx.exit()) == ["exit;"]
    assert ends_with(lambda: ptx.ret(pred=reg.scalar(pred))) == ["@%r ret;", "ret;"]


def test_a_kernel_returns_nothing() -> None:
    with pytest.raises(TraceError, match="returned int"):
        recorded(lambda: 3)


# --- labels ---------------------------------------------------------------------------------------


def spin(p: Reg) -> None:
    """A helper with text labels, to be called more than once."""
    ptx.label("again")
    ptx.bra("done", pred=p)
    ptx.bra("again")
    ptx.label("done")


def test_two_calls_of_a_helper_do_not_collide() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        spin(p)
        spin(p)
        ptx.label("again")
        ptx.bra("again")

    assert body_of(body) == [
        *("again:", "@%p bra done;", "bra again;", "done:"),
        *("again_1:", "@%p bra done_1;", "bra again_1;", "done_1:"),
        *("again_2:", "bra again_2;"),
    ]


def test_scopes_separate_labels() -> None:
    def body() -> None:
        for _ in range(2):
            with ptx.scope():
                ptx.label("wait")
                ptx.bra("wait")
                ptx.bra("out")
        ptx.label("out")
        ptx.bra("out")

    assert body_of(body) == [
        *("wait:", "bra wait;", "bra out;"),
        *("wait_1:", "bra wait_1;", "bra out;"),
        *("out:", "bra out;"),
    ]


def test_the_innermost_definition_wins() -> None:
    def helper() -> None:
        ptx.bra("there")
        with ptx.scope():
            ptx.bra("there")
            ptx.label("there")
        ptx.bra("there")

    def body() -> None:
        helper()
        ptx.label("there")

    assert body_of(body) == ["bra there_1;", "bra there;", "there:", "bra there_1;", "there_1:"]


def test_a_helper_sees_its_callers_scopes_but_not_the_reverse() -> None:
    def jumps() -> None:
        ptx.bra("target")

    def places() -> None:
        ptx.label("hidden")

    def body() -> None:
        with ptx.scope():
            jumps()
            ptx.label("target")
        places()

    assert body_of(body) == ["bra target;", "target:", "hidden:"]

    def bad() -> None:
        places()
        ptx.bra("hidden")  # rejected

    with pytest.raises(TraceError) as caught:
        recorded(bad)
    says(caught.value, ["undefined label 'hidden'"])


def test_recursion_and_lambdas_are_calls() -> None:
    def nest(depth: int) -> None:
        ptx.label("level")
        if depth:
            nest(depth - 1)
        ptx.bra("level")

    assert body_of(lambda: nest(2)) == [
        *("level:", "level_1:", "level_2:"),
        *("bra level_2;", "bra level_1;", "bra level;"),
    ]


def test_comprehensions_are_no_calls() -> None:
    """Python 3.12 runs them in the function's frame, earlier versions do not: the labels are the same."""

    def body() -> None:
        [ptx.label(f"l{i}") for i in range(2)]
        ptx.bra("l1")

    assert body_of(body) == ["l0:", "l1:", "bra l1;"]


def test_scopes_in_context_managers_and_nested_scopes() -> None:
    def body() -> None:
        with ptx.scope():
            ptx.label("a")
            with ptx.scope():
                ptx.label("a")
                ptx.bra("a")
            ptx.bra("a")

    assert body_of(body) == ["a:", "a_1:", "bra a_1;", "bra a;"]

    @contextmanager
    def framed():  # type: ignore[no-untyped-def]
        ptx.label("begin")
        yield
        ptx.bra("begin")

    def uses() -> None:
        with framed():
            ptx.label("begin")
        ptx.bra("begin")

    assert body_of(uses) == ["begin:", "begin_1:", "bra begin;", "bra begin_1;"]


def test_labels_avoid_parameters_and_variables() -> None:
    from pyptx.dsl import Scalar, smem

    def body(out: Reg) -> None:
        smem.alloc(16, name="x").addr
        ptx.label("out")
        ptx.label("smem")
        ptx.label("k")
        ptx.bra("out")

    assert "out_1:" in body_of(body, Scalar(u32)) and "smem_1:" in body_of(body, Scalar(u32))
    assert "k_1:" in body_of(body, Scalar(u32))


def test_label_errors() -> None:
    def check() -> None:
        ptx.label("here")
        with rejected(TraceError, "'here'", "already defined", "ptx.scope"):
            ptx.label("here")  # rejected
        with rejected(TraceError, "'a b'"):
            ptx.label("a b")  # rejected
        with rejected(TraceError, "'_'"):
            ptx.label("_")  # rejected
        once = ptx.new_label("once")
        ptx.label(once)
        with rejected(TraceError, "'once'", "already defined"):
            ptx.label(once)  # rejected
        scope = ptx.scope()
        with scope:
            pass
        with rejected(TraceError, "entered before"):
            with scope:  # rejected
                pass

    in_kernel(check)


def test_a_branch_to_nowhere() -> None:
    def named() -> None:
        ptx.label("other")
        ptx.bra("nowhere")  # rejected

    with pytest.raises(TraceError) as caught:
        recorded(named)
    says(caught.value, ["undefined label 'nowhere'", "other"])

    def made() -> None:
        label = ptx.new_label("later")
        ptx.bra(label)  # rejected

    with pytest.raises(TraceError) as caught:
        recorded(made)
    says(caught.value, ["'later'", "never placed"])


# --- rebinding in a loop --------------------------------------------------------------------------


def test_rebinding_a_variable_from_before_the_loop() -> None:
    def body() -> None:
        phase = reg.scalar(u32, init=0)
        with ptx.loop() as again:
            phase = phase ^ 1  # rejected
            again.break_(phase == 1)

    with pytest.raises(TraceError) as caught:
        recorded(body)
    first = body.__code__.co_firstlineno
    says(
        caught.value,
        ["'phase'", f"line {first + 1} ", f"line {first + 3} ", "phase += ...", "phase.set(...)"],
    )


@pytest.mark.parametrize("make", [lambda: ptx.for_(0, 4), lambda: ptx.while_(lambda: reg.scalar(pred))])
def test_every_kind_of_loop_watches(make: Callable[[], ptx.loop]) -> None:
    def body() -> None:
        total = reg.scalar(u32, init=0)
        with make():
            total = total + 1  # rejected

    with pytest.raises(TraceError) as caught:
        recorded(body)
    says(caught.value, ["'total'"])


def test_rebinding_an_array() -> None:
    def body() -> None:
        acc = reg.array(f32, 4)
        with ptx.loop():
            acc = reg.array(f32, 4)  # rejected
            acc[0] += 1

    with pytest.raises(TraceError) as caught:
        recorded(body)
    says(caught.value, ["'acc'"])


def test_rebinding_in_a_helper_is_the_helpers() -> None:
    def helper(n: Reg) -> None:
        with ptx.for_(0, 4):
            n = n + 1  # rejected

    with pytest.raises(TraceError) as caught:
        recorded(lambda: helper(reg.scalar(u32)))
    says(caught.value, ["'n'"])


def test_rebinding_in_a_nested_loop() -> None:
    def body() -> None:
        with ptx.loop() as outer:
            x = reg.scalar(u32)
            with ptx.loop():
                x = x + 1  # rejected
            outer.break_()

    with pytest.raises(TraceError) as caught:
        recorded(body)
    says(caught.value, ["'x'"])


def test_in_place_and_set_are_right() -> None:
    def body() -> None:
        phase, total = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        acc = reg.array(f32, 4, init=0.0)
        signed = total.view(s32)
        with ptx.loop() as again:
            phase ^= 1
            total.set(total + phase)
            acc[0] += 1.0
            signed = total.view(s32)
            scratch = total * 2
            scratch = scratch + 1
            again.break_(scratch == 1)
        assert signed.name == "total"

    recorded(body)


def test_names_from_closed_blocks_are_free() -> None:
    """The twin of the rule: sibling blocks use the same scratch names."""

    def body() -> None:
        p = reg.scalar(pred)
        with ptx.if_(p):
            slot = reg.scalar(u32)
            with ptx.for_(0, 4) as i:
                address = slot + i
        with ptx.if_(~p):
            slot = reg.scalar(u32)
            with ptx.for_(0, 4) as i:
                slot = reg.scalar(u32, init=i) if False else slot
                address = slot + i
        with ptx.for_(0, 4) as i:
            slot = reg.scalar(u32)
            address = slot + i
        assert address.name == "address_2"

    recorded(body)


def test_the_loop_variable_may_be_used_again() -> None:
    def body() -> None:
        i = reg.scalar(u32)
        with ptx.for_(0, 4) as i:
            pass
        with ptx.for_(0, 4) as i, ptx.loop():
            i += 1

    recorded(body)


def test_python_values_may_change_in_a_loop() -> None:
    def body() -> None:
        offset, x = 0, reg.scalar(u32)
        with ptx.loop():
            offset = offset + 4
            for step in range(3):
                offset += step
            x += offset

    recorded(body)


def test_an_error_in_a_block_is_not_hidden() -> None:
    def body() -> None:
        x = reg.scalar(u32)
        with ptx.loop(), ptx.if_(x == 1):
            x = x + 1
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        recorded(body)


@pytest.mark.parametrize("value", [0, None, "p"])
def test_rebinding_to_what_is_no_register(value: object) -> None:
    """`phase = 0` in the body changes nothing of what the body has recorded."""

    def body() -> None:
        phase = reg.scalar(u32, init=0)
        with ptx.loop() as again:  # rejected
            again.break_(phase == 1)
            phase = value

    with pytest.raises(TraceError) as caught:
        recorded(body)
    says(caught.value, ["'phase'", repr(value)])


def test_rebinding_a_negated_predicate() -> None:
    def to_negated() -> None:
        p = reg.scalar(pred)
        with ptx.loop():  # rejected
            p = ~p

    def from_negated() -> None:
        q = reg.scalar(pred)
        p = ~q
        with ptx.loop():
            p = q  # noqa: F841

    for body in (to_negated, from_negated):
        with pytest.raises(TraceError, match="'p'"):
            recorded(body)

    def same() -> None:
        q = reg.scalar(pred)
        p = ~q
        with ptx.loop():
            p = ~q
            ptx.ret(pred=p)

    recorded(same)


@pytest.mark.parametrize("block", ["loop", "for_", "if_", "else_"])
def test_an_exception_swallowed_outside_a_block_spoils_the_recording(block: str) -> None:
    def body() -> None:
        p = reg.scalar(pred)
        makers = {
            "loop": ptx.loop,
            "for_": lambda: ptx.for_(0, 3),
            "if_": lambda: ptx.if_(p),
            "else_": ptx.else_,
        }
        if block == "else_":
            with ptx.if_(p):
                ptx.bar.sync(0)
        with contextlib.suppress(RuntimeError), makers[block]():
            raise RuntimeError

    with pytest.raises(TraceError, match="half recorded"):
        text_of(body)
