"""``ptx.mbarrier``: every variant assembles, the spelling is exact, and what is illegal is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import OperandError, TargetError, TraceError
from pyptx.core.types import b8, b64, f32, pred, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import mbarrier
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import asked, body_of, in_kernel, rejected, text_of
from tests.dsl.units.places import ALL_TARGETS, NONE, byte, calls, place
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

ARRIVE_ORDERS = (NONE, *((sem, scope) for sem in ("release", "relaxed") for scope in ("cta", "cluster")))
WAIT_ORDERS = (NONE, *((sem, scope) for sem in ("acquire", "relaxed") for scope in ("cta", "cluster")))
TX_ORDERS = (NONE, ("relaxed", "cta"), ("relaxed", "cluster"))
OWN = ("cta", "shared", None)


def _arrivals() -> list[Call]:
    found: list[Call] = []
    for name, number in (
        ("arrive", (None, 3)),
        ("arrive_drop", (None, 3)),
        ("arrive_expect_tx", (128,)),
        ("arrive_drop_expect_tx", (128,)),
    ):
        wrapper: Any = getattr(ptx.mbarrier, name)

        def own(wrapper: Any, n: Any, order: Any, space: Any, kept: bool) -> None:
            token = reg.scalar(b64) if kept else None
            wrapper(place(space), n, sem=order[0], scope=order[1], space=space, state=token)

        def remote(wrapper: Any, n: Any, order: Any, mask: Any) -> None:
            bar = place("cluster")
            wrapper(bar, n, sem=order[0], scope=order[1], space="cluster", multicast=mask)

        label = f"mbarrier.{name}"
        found += calls(label, own, (wrapper,), number, ARRIVE_ORDERS, OWN, (False, True))
        found += calls(label, remote, (wrapper,), number, ARRIVE_ORDERS, (None, 5))
    return found


def _others() -> list[Call]:
    found: list[Call] = []
    for name in ("arrive_no_complete", "arrive_drop_no_complete"):
        wrapper: Any = getattr(ptx.mbarrier, name)

        def no_complete(wrapper: Any, order: Any, space: Any) -> None:
            wrapper(place(space), 2, state=reg.scalar(b64), sem=order[0], scope=order[1], space=space)

        found += calls(f"mbarrier.{name}", no_complete, (wrapper,), (NONE, ("release", "cta")), OWN)
    for name in ("expect_tx", "complete_tx"):
        wrapper = getattr(ptx.mbarrier, name)

        def count(wrapper: Any, order: Any, space: Any) -> None:
            wrapper(place(space), reg.scalar(u32), sem=order[0], scope=order[1], space=space)

        def cast(wrapper: Any, order: Any) -> None:
            bar, mask = place("cluster"), reg.scalar(u32)
            wrapper(bar, 16, sem=order[0], scope=order[1], space="cluster", multicast=mask)

        found += calls(f"mbarrier.{name}", count, (wrapper,), TX_ORDERS, (*OWN, "cluster"))
        found += calls(f"mbarrier.{name}", cast, (wrapper,), TX_ORDERS)
    found += calls(
        "mbarrier.init",
        lambda s, layout: ptx.mbarrier.init(place(s), 1, space=s, layout=layout),
        OWN,
        (None, "v0", "v1"),
    )
    found += calls(
        "mbarrier.check_layout",
        lambda s, layout: ptx.mbarrier.check_layout(place(s), layout, space=s),
        OWN,
        ("v0", "v1"),
    )
    found += calls("mbarrier.inval", lambda s: ptx.mbarrier.inval(place(s), space=s), OWN)
    found += calls(
        "mbarrier.pending_count",
        lambda layout: ptx.mbarrier.pending_count(reg.scalar(b64), layout=layout),
        (None, "v0"),
    )
    return found


def _waits() -> list[Call]:
    def by_parity(wrapper: Any, order: Any, space: Any, phase: Any, kind: Any, hint: Any) -> None:
        some = {} if hint is None else {"suspend_hint": hint}
        wrapper(place(space), phase, sem=order[0], scope=order[1], space=space, phase_type=kind, **some)

    def by_state(wrapper: Any, order: Any, space: Any, kind: Any, hint: Any) -> None:
        some = {} if hint is None else {"suspend_hint": hint}
        state = reg.scalar(b64)
        wrapper(place(space), state=state, sem=order[0], scope=order[1], space=space, phase_type=kind, **some)

    def reporting(wrapper: Any, order: Any, space: Any, parity: bool, valued: bool) -> None:
        which: Any = {"phase": 1} if parity else {"state": reg.scalar(u64)}
        report, given = reg.scalar(pred), byte() if valued else None
        wrapper(
            place(space),
            **which,
            sem=order[0],
            scope=order[1],
            space=space,
            report=report,
            report_value=given,
        )

    found: list[Call] = []
    for name, hints in (("try_wait", (None, 100)), ("test_wait", (None,))):
        wrapper = (getattr(ptx.mbarrier, name),)
        label = f"mbarrier.{name}"
        kinds = (None, "primary", "conditional")
        found += calls(label, by_parity, wrapper, WAIT_ORDERS, OWN, (0,), kinds, hints)
        found += calls(label, by_state, wrapper, WAIT_ORDERS, OWN, kinds[:2], hints)
        found += calls(label, reporting, wrapper, WAIT_ORDERS, OWN, (False, True), (False, True))
    found += calls(
        "mbarrier.wait",
        lambda order, s: ptx.mbarrier.wait(place(s), 0, 20, sem=order[0], scope=order[1], space=s),
        WAIT_ORDERS,
        OWN,
    )
    found += calls("mbarrier.wait", lambda: ptx.mbarrier.wait(place("cta"), state=reg.scalar(b64)))
    return found


@pytest.mark.full
def test_every_variant_is_reached_and_assembles(ptxas: Tool) -> None:
    reached = assemble_calls([*_arrivals(), *_others(), *_waits()], ptxas, ALL_TARGETS)
    assert reached.wrappers == public_functions(mbarrier, "mbarrier")
    assert unreached(reached, "mbarrier") == []


def test_spelling(ptxas: Tool) -> None:
    def body() -> None:
        bar = smem.alloc(1, b64)
        a = bar.addr
        n = reg.scalar(u32, init=1)
        p = reg.scalar(pred, init=True)
        token = reg.scalar(b64)
        ptx.mbarrier.init(bar, 1)
        ptx.mbarrier.init(a, n, pred=p)
        ptx.mbarrier.arrive(bar)
        ptx.mbarrier.arrive(ptx.addr(a), 3, state=token)
        ptx.mbarrier.arrive(ptx.cluster.map(bar, 1), sem="release", scope="cluster", space="cluster")
        ptx.mbarrier.arrive_drop(bar, 2)
        ptx.mbarrier.arrive_no_complete(bar, 1, state=token)
        ptx.mbarrier.arrive_expect_tx(bar, 49152, pred=~p)
        ptx.mbarrier.expect_tx(bar, n)
        ready = ptx.mbarrier.try_wait(bar, 0)
        again = ptx.mbarrier.try_wait(bar, n, 100, sem="acquire", scope="cta")
        held = ptx.mbarrier.try_wait(bar, state=token)
        tested = ptx.mbarrier.test_wait(bar, True)
        lacking = ptx.mbarrier.pending_count(token)
        assert {ready.type, again.type, held.type, tested.type} == {pred}
        assert lacking.type is u32
        ptx.mbarrier.inval(bar)

    assert body_of(body)[3:] == [
        "mbarrier.init.shared::cta.b64 [%smem_base], 1;",
        "@%p mbarrier.init.shared::cta.b64 [%smem_base], %n;",
        "mbarrier.arrive.shared::cta.b64 _, [%smem_base];",
        "mbarrier.arrive.shared::cta.b64 %token, [%smem_base], 3;",
        "mapa.shared::cluster.u32 %mapped, %smem_base, 1;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%mapped];",
        "mbarrier.arrive_drop.shared::cta.b64 _, [%smem_base], 2;",
        "mbarrier.arrive.noComplete.shared::cta.b64 %token, [%smem_base], 1;",
        "@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem_base], 49152;",
        "mbarrier.expect_tx.shared::cta.b64 [%smem_base], %n;",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%smem_base], 0;",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %again, [%smem_base], %n, 100;",
        "mbarrier.try_wait.shared::cta.b64 %held, [%smem_base], %token;",
        "mbarrier.test_wait.parity.shared::cta.b64 %tested, [%smem_base], 1;",
        "mbarrier.pending_count.b64 %lacking, %token;",
        "mbarrier.inval.shared::cta.b64 [%smem_base];",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_the_spin_wait_is_two_instructions() -> None:
    def body() -> None:
        bar = reg.scalar(u32)
        phase = reg.scalar(u32)
        ptx.mbarrier.wait(bar, phase)
        ptx.mbarrier.wait(bar, 1, 20, sem="acquire", scope="cluster")

    assert body_of(body) == [
        "wait:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%bar], %phase;",
        "@!%ready bra wait;",
        "wait_1:",
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %ready_1, [%bar], 1, 20;",
        "@!%ready_1 bra wait_1;",
    ]


def test_refuses_numbers_out_of_range() -> None:
    def check() -> None:
        bar: Any = reg.scalar(u32)
        token = reg.scalar(b64)
        counting: tuple[Any, ...] = (ptx.mbarrier.init, ptx.mbarrier.arrive, ptx.mbarrier.arrive_drop)
        for count in (0, 1 << 20, -1, 1.5, "1"):
            for function in counting:
                with rejected(OperandError, *asked(count, repr(count), "1..1048575")):
                    function(bar, count)  # rejected
            with rejected(OperandError, *asked(count, repr(count), "1..1048575")):
                ptx.mbarrier.arrive_no_complete(bar, count, state=token)  # type: ignore[arg-type]  # rejected
        for function in (
            ptx.mbarrier.arrive_expect_tx,
            ptx.mbarrier.arrive_drop_expect_tx,
            ptx.mbarrier.expect_tx,
            ptx.mbarrier.complete_tx,
        ):
            for nbytes in (-1, 1 << 20):
                with rejected(OperandError, str(nbytes), "0..1048575"):
                    function(bar, nbytes)  # rejected
        with rejected(OperandError, "phase is 2", "0..1", "phase & 1"):
            ptx.mbarrier.try_wait(bar, 2)  # rejected
        with rejected(OperandError, "phase is 2"):
            ptx.mbarrier.wait(bar, 2)  # rejected
        with rejected(OperandError, "suspend_hint is -1", "0..4294967295"):
            ptx.mbarrier.wait(bar, 0, -1)  # rejected
        with rejected(OperandError, "multicast is 0", "1..0xffffffff"):
            ptx.mbarrier.arrive(bar, space="cluster", multicast=0)  # rejected

    in_kernel(check, arch="sm_107a")


def test_refuses_operands_of_other_kinds() -> None:
    def check() -> None:
        bar: Any = reg.scalar(u32)
        f, token, report = reg.scalar(f32), reg.scalar(b64), reg.scalar(b8)
        base = smem.base()
        with rejected(OperandError, "%f", "f32"):
            ptx.mbarrier.wait(bar, f)  # rejected
        with rejected(OperandError, "%f", "f32"):
            ptx.mbarrier.init(f, 1)  # rejected
        with rejected(OperandError, "%f", "f32"):
            ptx.mbarrier.arrive(bar, state=f)  # rejected
        with rejected(OperandError, "state of ptx.mbarrier.arrive is 7: expected a register or None"):
            ptx.mbarrier.arrive(bar, state=7)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "state of ptx.mbarrier.try_wait is 7: expected a register or None"):
            ptx.mbarrier.try_wait(bar, state=7)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "state of ptx.mbarrier.arrive_no_complete is None: expected a register"):
            ptx.mbarrier.arrive_no_complete(bar, 1, state=None)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "neither is given", "state=token"):
            ptx.mbarrier.try_wait(bar)  # rejected
        with rejected(OperandError, "both are given"):
            ptx.mbarrier.test_wait(bar, 0, state=token)  # rejected
        with rejected(OperandError, "report_value", "report="):
            ptx.mbarrier.test_wait(bar, 0, report_value=report)  # rejected
        with rejected(OperandError, "no state", "cluster"):
            ptx.mbarrier.arrive(bar, state=token, space="cluster")  # rejected
        with rejected(TraceError, "smem_base", "must not be written"):
            ptx.mbarrier.arrive(bar, state=base)  # rejected
        odd = smem.alloc(16, b8).at(4)
        with rejected(OperandError, "offset 4", "multiple of 8"):
            ptx.mbarrier.init(odd, 1)  # rejected

    in_kernel(check)


def test_refuses_words_that_do_not_exist() -> None:
    def check() -> None:
        bar, token = reg.scalar(u32), reg.scalar(b64)
        with rejected(OperandError, "'gpu'", "'cta'", "'cluster'", "'cta'"):
            ptx.mbarrier.arrive(bar, space="gpu")  # rejected
        with rejected(OperandError, "'cluster'", "'cta'"):
            ptx.mbarrier.try_wait(bar, 0, space="cluster")  # rejected
        with rejected(OperandError, "sem is 'release'", "scope is None"):
            ptx.mbarrier.arrive(bar, sem="release")  # rejected
        with rejected(OperandError, "'relaxed'", "'release'"):
            ptx.mbarrier.arrive_no_complete(bar, 1, state=token, sem="relaxed", scope="cta")  # rejected
        with rejected(OperandError, "multicast is 3", "expected space 'cluster'"):
            ptx.mbarrier.arrive(bar, multicast=3)  # rejected
        with rejected(OperandError, "layout of", "is 'v2'", "'v0'"):
            ptx.mbarrier.init(bar, 1, layout="v2")  # rejected
        with rejected(OperandError, "phase_type is 'last'", "'primary', 'conditional'"):
            ptx.mbarrier.test_wait(bar, 0, phase_type="last")  # rejected
        with rejected(OperandError, "layout is 'v1'", "'v0'"):
            ptx.mbarrier.pending_count(token, layout="v1")  # rejected
        with rejected(OperandError, "sem of", "is 'acquire'", "'release'"):
            ptx.mbarrier.arrive(bar, sem="acquire", scope="cta")  # rejected
        with rejected(OperandError, "sem of", "is 'release'", "'acquire'"):
            ptx.mbarrier.wait(bar, 0, sem="release", scope="cta")  # rejected
        with rejected(OperandError, "sem of", "is 'release'", "'relaxed'"):
            ptx.mbarrier.expect_tx(bar, 16, sem="release", scope="cta")  # rejected
        with rejected(OperandError, "scope of", "is 'gpu'", "'cta'"):
            ptx.mbarrier.arrive(bar, sem="release", scope="gpu")  # rejected
        with rejected(OperandError, "%bar", "64"):
            ptx.mbarrier.arrive(bar, space=None)  # rejected

    in_kernel(check)


def test_only_where_it_exists() -> None:
    def check() -> None:
        bar = reg.scalar(u32)
        with rejected(TargetError, "sm_90"):
            ptx.mbarrier.try_wait(bar, 0)  # rejected
        with rejected(TargetError, "sm_90"):
            ptx.mbarrier.arrive_expect_tx(bar, 16)  # rejected

    in_kernel(check, arch="sm_80")


def test_answers_go_into_a_given_register(ptxas: Tool) -> None:
    def body() -> None:
        bar = reg.scalar(u32, init=0)
        p, done, told = reg.scalar(pred, init=True), reg.scalar(pred), reg.scalar(pred)
        token, n = reg.scalar(b64, init=0), reg.scalar(u32)
        assert ptx.mbarrier.try_wait(bar, 0, out=done, pred=p) is done
        ptx.mbarrier.test_wait(bar, state=token, out=done, pred=~p)
        ptx.mbarrier.try_wait(bar, 0, report=told, out=done)
        ptx.mbarrier.check_layout(bar, "v1", out=done)
        ptx.mbarrier.pending_count(token, out=n, pred=p)

    assert body_of(body)[3:] == [
        "@%p mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;",
        "@!%p mbarrier.test_wait.shared::cta.b64 %done, [%bar], %token;",
        "mbarrier.try_wait.parity.phase_type::primary.shared::cta.b64 %done|%told, [%bar], 0;",
        "mbarrier.check_layout.layout::v1.shared::cta.b64 %done, [%bar];",
        "@%p mbarrier.pending_count.b64 %n, %token;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok

    def check() -> None:
        bar, n, done = reg.scalar(u32), reg.scalar(u32), reg.scalar(pred)
        with rejected(OperandError, "%n", "u32"):
            ptx.mbarrier.try_wait(bar, 0, out=n)  # rejected
        with rejected(OperandError, "out of ptx.mbarrier.try_wait is 1: expected a register or None"):
            ptx.mbarrier.try_wait(bar, 0, out=1)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "out of ptx.mbarrier.try_wait is 1: expected a register or None"):
            ptx.mbarrier.try_wait(bar, 0, report=done, out=1)  # type: ignore[arg-type]  # rejected

    in_kernel(check)
