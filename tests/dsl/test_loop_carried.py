"""Registers that a loop would carry, rebound in its body: refused wherever the author keeps them."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import TraceError
from pyptx.core.types import f32, u32
from pyptx.dsl import Reg, ptx, reg
from tests.counting import calls_in

from .helpers import body_of, recorded, says


@dataclass
class Sums:
    x: Any


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Reg) -> None:
        self.x = x

    def add(self, i: Reg) -> None:
        self.x = self.x + i  # rejected


class Namespace:
    x: Any


STATE: dict[str, Any] = {}


def _through_a_global(i: Reg) -> None:
    STATE["x"] = STATE["x"] + i  # rejected


def refused(body: Callable[[], None], path: str) -> None:
    with pytest.raises(TraceError) as caught:
        recorded(body)
    called = f"'{path}' was" if path.isidentifier() else f"{path} was"
    says(caught.value, [called, "the next pass would read the old register", f"{path}.set(...)"])


def start() -> Reg:
    return reg.scalar(u32, init=0)


def test_in_a_list() -> None:
    def body() -> None:
        acc = [start(), start()]
        with ptx.for_(0, 4) as i:
            for h in range(2):
                acc[h] = acc[h] + i  # rejected

    refused(body, "acc[0]")


def test_in_a_dict() -> None:
    def body() -> None:
        acc = {"sum": start()}
        with ptx.for_(0, 4) as i:
            acc["sum"] = acc["sum"] + i  # rejected

    refused(body, "acc['sum']")


@pytest.mark.parametrize(
    "make", [Sums, Slotted, lambda x: SimpleNamespace(x=x)], ids=["dict", "slots", "namespace"]
)
def test_in_an_attribute(make: Callable[[Reg], Any]) -> None:
    def body() -> None:
        s = make(start())
        with ptx.for_(0, 4) as i:
            s.x = s.x + i  # rejected

    refused(body, "s.x")


def test_in_nested_containers() -> None:
    def body() -> None:
        state = {"tiles": [Sums(np.array([None, start()], dtype=object))]}
        with ptx.loop() as again:
            held = state["tiles"][0].x
            held[1] = held[1] + 1  # rejected
            again.break_(held[1] == 4)

    refused(body, "state['tiles'][0].x[1]")


def test_in_a_deque_and_a_tuple() -> None:
    def body() -> None:
        pair = (1, deque([start(), start()]))
        with ptx.for_(0, 4) as i:
            first = pair[1].popleft()
            pair[1].append(first + i)  # rejected

    with pytest.raises(TraceError, match="pair\\[1\\]\\[0\\] was defined"):
        recorded(body)


def test_a_container_that_is_replaced() -> None:
    def body() -> None:
        acc = [start(), start()]
        with ptx.for_(0, 4) as i:
            acc = [a + i for a in acc]  # rejected

    refused(body, "acc[0]")


def test_a_container_with_two_names() -> None:
    def body() -> None:
        first = acc = [start()]
        with ptx.for_(0, 4) as i:
            acc = [acc[0] + i]  # rejected
        assert first

    refused(body, "acc[0]")


def test_in_a_closure() -> None:
    def made() -> Callable[[Reg], None]:
        total = start()

        def add(i: Reg) -> None:
            nonlocal total
            total = total + i  # rejected

        return add

    def body() -> None:
        add = made()
        with ptx.for_(0, 4) as i:
            add(i)

    refused(body, "add.total")


def test_in_a_class_a_method_and_a_partial() -> None:
    def in_a_class() -> None:
        Namespace.x = start()
        with ptx.for_(0, 4) as i:
            Namespace.x = Namespace.x + i  # rejected

    def in_a_method() -> None:
        add = Slotted(start()).add
        with ptx.for_(0, 4) as i:
            add(i)

    def in_a_partial() -> None:
        def add(to: list[Reg], i: Reg) -> None:
            to[0] = to[0] + i  # rejected

        step = functools.partial(add, [start()])
        with ptx.for_(0, 4) as i:
            step(i)

    refused(in_a_class, "Namespace.x")
    refused(in_a_method, "add.__self__.x")
    refused(in_a_partial, "step.args[0][0]")


def test_in_a_global_that_a_helper_names() -> None:
    def body() -> None:
        STATE["x"] = start()
        with ptx.for_(0, 4) as i:
            _through_a_global(i)

    with pytest.raises(TraceError, match=r"STATE\['x'\] was defined"):
        recorded(body)
    STATE.clear()


def test_in_the_function_that_called() -> None:
    """A loop that a generator of the author's opens, and one in a helper that changes a variable outside."""

    @contextlib.contextmanager
    def counted(n: int) -> Iterator[Reg]:
        with ptx.for_(0, n) as i:
            yield i

    def generator() -> None:
        total = start()
        with counted(4) as i:
            total = total + i  # rejected

    def helper() -> None:
        total = start()

        def run() -> None:
            nonlocal total
            with ptx.for_(0, 4) as i:
                total = total + i  # rejected

        run()
        ptx.inst.mov.u32(reg.scalar(u32), total)

    refused(generator, "total")
    refused(helper, "total")


def test_a_register_of_a_loop_before() -> None:
    """It has a value, since its loop runs a pass; a name that is only made anew is free."""

    def body() -> None:
        with ptx.loop() as first:
            total = start()
            first.break_(total == 1)
        with ptx.for_(0, 4) as i:
            total = total + i  # rejected

    refused(body, "total")

    def scratch() -> None:
        for _ in range(2):
            with ptx.loop() as each:
                value = start() + 1
                each.break_(value == 1)

    recorded(scratch)


def test_what_may_change() -> None:
    def body() -> None:
        acc, cache, log = [start(), start()], {"a": start()}, [start()]
        scratch = [start()]
        state = Sums(acc[0].view(u32))
        with ptx.for_(0, 4) as i:
            acc[0] += i  # in place
            acc[1].set(acc[1] + i)
            cache["b"] = acc[0] + 1  # a new key
            log.append(cache["b"])
            scratch[0] = cache["b"] * 2  # the old one is not read in the loop
            ptx.inst.st.global_.u32(ptx.addr(reg.scalar(u32)), scratch[0]) if False else None
            state.x = acc[0].view(u32)
            acc = list(acc)  # the same registers

    assert body_of(body)


def test_cycles_end() -> None:
    def body() -> None:
        ring: list[Any] = [start()]
        ring.append(ring)
        node = SimpleNamespace(x=start())
        node.next = SimpleNamespace(x=start(), next=node)
        with ptx.for_(0, 4) as i:
            node.next.x = node.next.x + i  # rejected

    refused(body, "node.next.x")


@pytest.mark.full
def test_large_data_costs_little() -> None:
    """What a loop looks at is bounded, and lists of numbers are passed over by the types in them."""

    def body() -> None:
        table = list(range(1_000_000))
        tree: list[Any] = []
        for _ in range(200_000):
            tree = [tree, start] if len(tree) < 2 else [tree]
        with ptx.for_(0, 4):
            pass
        assert table and tree

    # The list and the tree have more than a million members, and the body itself calls len() 200,000 times.
    assert calls_in(lambda: recorded(body)) < 4_000_000


def test_arrays_keep_their_registers() -> None:
    def body() -> None:
        acc = [reg.array(f32, 4, init=0.0)]
        with ptx.for_(0, 4):
            acc[0] = reg.array(f32, 4)
            acc[0][1] += 1.0
        ptx.inst.mov.f32(reg.scalar(f32), 0)

    recorded(body)  # nothing reads the first array

    def carried() -> None:
        acc = [reg.array(f32, 4, init=0.0)]
        with ptx.for_(0, 4):
            new = reg.array(f32, 4)  # rejected
            ptx.inst.mov.f32(new[2], acc[0][2])
            acc[0] = new

    refused(carried, "acc[0]")
