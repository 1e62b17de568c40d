"""``ptx.bar`` and ``ptx.barrier``: every variant assembles, spelling, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import OperandError
from pyptx.core.types import pred, u32
from pyptx.dsl import ptx, reg
from pyptx.dsl.units import bar, barrier
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import asked, body_of, in_kernel, rejected, text_of
from tests.dsl.units.places import calls
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

FLAGS = (False, True)


def _calls(name: str, aligned: tuple[Any, ...]) -> list[Call]:
    unit: Any = getattr(ptx, name)

    def options(flags: tuple[bool, ...]) -> dict[str, bool]:
        return dict(zip(("cta", "aligned"), flags, strict=False))

    def sync(some: Any, *flags: bool) -> None:
        unit.sync(*some, **options(flags))

    def arrive(some: Any, *flags: bool) -> None:
        unit.arrive(*some, **options(flags))

    def combine(function: Any, negated: bool, some: Any, *flags: bool) -> None:
        p = reg.scalar(pred)
        function(~p if negated else p, *some, **options(flags))

    found = [
        *calls(f"{name}.sync", sync, ((), (15,), (3, 64)), FLAGS, *aligned),
        *calls(f"{name}.arrive", arrive, ((0, 32), (15, 1024)), FLAGS, *aligned),
    ]
    for kind in ("red_popc", "red_and", "red_or"):
        function = getattr(unit, kind)
        found += calls(f"{name}.{kind}", combine, (function,), FLAGS, ((), (1, 64)), FLAGS, *aligned)
    return found


def test_every_variant_is_reached_and_assembles(ptxas: Tool) -> None:
    whole = [
        *_calls("bar", ()),
        Call("bar.warp_sync", lambda: ptx.bar.warp_sync()),
        Call("bar.warp_sync", lambda: ptx.bar.warp_sync(reg.scalar(u32))),
    ]
    reached = assemble_calls([*whole, *_calls("barrier", (FLAGS,))], ptxas)
    assert reached.wrappers == public_functions(bar, "bar") | public_functions(barrier, "barrier")
    assert unreached(reached, "bar") == []
    assert unreached(reached, "barrier", lambda words: words[0] != "cluster") == []


def test_spelling(ptxas: Tool) -> None:
    def body() -> None:
        n = reg.scalar(u32, init=1)
        p = reg.scalar(pred, init=True)
        ptx.bar.sync()
        ptx.bar.sync(3, 64)
        ptx.bar.sync(n, n, cta=True)
        ptx.bar.arrive(1, 96, pred=p)
        many = ptx.bar.red_popc(p)
        every = ptx.bar.red_and(~p, 2)
        some = ptx.bar.red_or(p, 2, 64)
        assert (many.type, every.type, some.type) == (u32, pred, pred)
        ptx.bar.warp_sync(0xFF)
        ptx.barrier.sync(1)
        ptx.barrier.sync(1, 64, aligned=True)
        ptx.barrier.arrive(1, 64, cta=True)
        total = ptx.barrier.red_popc(p, 1, aligned=True)
        del total

    assert body_of(body)[2:] == [
        "bar.sync 0;",
        "bar.sync 3, 64;",
        "bar.cta.sync %n, %n;",
        "@%p bar.arrive 1, 96;",
        "bar.red.popc.u32 %many, 0, %p;",
        "bar.red.and.pred %every, 2, !%p;",
        "bar.red.or.pred %some, 2, 64, %p;",
        "bar.warp.sync 255;",
        "barrier.sync 1;",
        "barrier.sync.aligned 1, 64;",
        "barrier.cta.arrive 1, 64;",
        "barrier.red.popc.aligned.u32 %total, 1, %p;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


@pytest.mark.parametrize("name", ["bar", "barrier"])
def test_refuses(name: str) -> None:
    def check() -> None:
        unit: Any = getattr(ptx, name)
        p, n = reg.scalar(pred), reg.scalar(u32)
        for id in (16, -1, 1.0):
            with rejected(OperandError, *asked(id, f"id is {id!r}", "0..15")):
                unit.sync(id)  # rejected
            with rejected(OperandError, *asked(id, f"id is {id!r}", "0..15")):
                unit.arrive(id, 32)  # rejected
            with rejected(OperandError, *asked(id, f"id is {id!r}", "0..15")):
                unit.red_or(p, id)  # rejected
        with rejected(OperandError, "threads is 33", "multiple of 32"):
            unit.sync(0, 33)  # rejected
        for threads in (0, 2048):
            with rejected(OperandError, f"threads is {threads}", "32..1024"):
                unit.sync(0, threads)  # rejected
        with rejected(OperandError, "threads of", "is None: expected a register or an integer"):
            unit.arrive(0, None)  # rejected
        with rejected(OperandError, "p of", "is True: expected a register or ~p"):
            unit.red_and(True)  # rejected
        with rejected(OperandError, "%n", "u32", "predicate"):
            unit.red_popc(n)  # rejected

    in_kernel(check)


def test_refuses_masks() -> None:
    def check() -> None:
        for mask in (0, 1 << 32):
            with rejected(OperandError, f"mask is {mask}", "1..4294967295"):
                ptx.bar.warp_sync(mask)  # rejected

    in_kernel(check)


def test_answers_go_into_a_given_register() -> None:
    def body() -> None:
        p, q, n = reg.scalar(pred), reg.scalar(pred), reg.scalar(u32)
        assert ptx.bar.red_popc(p, out=n) is n
        ptx.bar.red_and(p, out=q)
        ptx.barrier.red_or(~p, 1, 64, out=q)

    assert body_of(body) == [
        "bar.red.popc.u32 %n, 0, %p;",
        "bar.red.and.pred %q, 0, %p;",
        "barrier.red.or.pred %q, 1, 64, !%p;",
    ]
