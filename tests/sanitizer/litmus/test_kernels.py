"""The kernels of the litmus tests assemble, and their outcomes in the simulator are among those that PTX allows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pyptx.toolchain import Tool, check_text

from .families import FAMILIES, members
from .kernels import Layout, kernel_of, tally
from .model import allowed
from .program import Fence, Litmus, Load, Store
from .running import layout_for, simulate

pytestmark = pytest.mark.full

#: Three tests of each family, evenly spaced.
SOME = [test for family in FAMILIES for test in members(family)[:: len(members(family)) // 3 + 1]]
MESSAGE = Litmus("MP", ((Store("x", 1), Store("y", 1)), (Load("y"), Load("x"))), (0, 1))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_assemble(family: str, ptxas: Tool) -> None:
    for test in members(family)[:: len(members(family)) // 8 + 1]:
        report = check_text(kernel_of(test), ptxas=ptxas)
        assert not report.errors, (test.name, report.errors[0])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schedule", ["eager", "random"])
@pytest.mark.parametrize("test", SOME, ids=[test.name for test in SOME])
def test_the_simulator_stays_within_the_model(test: Litmus, schedule: str) -> None:
    found = simulate(test, schedule, seed=3)
    assert found.total() == 128
    assert set(found) <= allowed(test)


def test_an_outcome_that_the_model_forbids_would_be_seen() -> None:
    """The kernel without its fences shows what the test with fences forbids."""
    fence = Fence("sc")
    fenced = Litmus("SB", ((Store("x", 1), fence, Load("y")), (Store("y", 1), fence, Load("x"))), (0, 1))
    layout = Layout(fenced, 1, 1, 0)
    memory, out = np.zeros((2, 128), np.uint32), np.zeros((2, 128), np.uint32)
    out[0, :100] = 1
    found = tally(layout, memory, out)
    assert found == Counter({(1, 0): 100, (0, 0): 28})
    assert set(found) - allowed(fenced) == {(0, 0)}


def test_last_values_are_read_at_each_instance_of_its_own_place() -> None:
    """One thread stores the number of the location: every instance ends with it, at scattered places."""
    test = Litmus("W", ((Store("x", 1), Store("y", 2)), (Load("x"),)), (0, 1), ("x", "y"))
    found = simulate(test, rounds=3)
    assert {outcome[1:] for outcome in found} == {(1, 2)}
    assert found.total() == 3 * 128


@pytest.mark.one_in(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_launch_has_the_instances_that_were_asked_for(family: str) -> None:
    for test in members(family)[:: len(members(family)) // 4]:
        layout = layout_for(test, 1_000_000)
        assert 1_000_000 <= layout.instances < 1_200_000
        assert layout.places >= layout.instances
        # All CTAs run at once on 132 multiprocessors, 2,048 threads each.
        assert layout.grid * layout.block <= 132 * 2048
        assert layout.block <= 1024


@pytest.mark.gpu
def test_a_gpu_stays_within_the_model() -> None:
    """A few tests of each family; ``python -m tests.sanitizer.litmus run`` has them all."""
    from pyptx.runtime.driver import device_context

    from .running import Gpu

    wrong = []
    with device_context(0):
        gpu = Gpu()
        for number, test in enumerate(SOME):
            found = gpu.run(test, 250_000, 4 * number)
            wrong += [(test.name, outcome, n) for outcome, n in found.items() if outcome not in allowed(test)]
    assert not wrong
