"""Which sectors L1 holds, when they are here, and what L2 has lost of what was asked for."""

from __future__ import annotations

import numpy as np

from pyptx.sim.clock.figures import Figures
from pyptx.sim.clock.l1 import L1
from pyptx.sim.clock.units import Contention, Units
from pyptx.sim.memory.access import StateSpace
from pyptx.sim.memory.segments import Segment
from pyptx.timing.constants import gpu

FIGURES = Figures(gpu("h200"), 1700.0)
#: Sectors of 28 KiB, which shared memory leaves at most.
LEAST = 224 * 4


def array(nbytes: int) -> Segment:
    return Segment("A", StateSpace.GLOBAL, 0, np.empty(nbytes, np.uint8), tracked=False)


def test_l1_has_what_shared_memory_leaves() -> None:
    assert L1(0).capacity == 2048
    assert L1(100 << 10).capacity == 156 * 8
    assert L1((100 << 10) + 1).capacity == 124 * 8
    assert L1(228 << 10).capacity == 28 * 8


def test_l1_keeps_the_lines_that_were_read_last() -> None:
    cache = L1(228 << 10)
    cache.fill(range(LEAST), 10.0)
    assert cache.read([0, 20]) == ([], 10.0)
    cache.fill([LEAST], 20.0)  # takes the place of line 1
    assert cache.read([0, 4]) == ([4], 10.0)


def test_of_a_line_only_sectors_that_were_read_are_there_and_only_when_they_have_come() -> None:
    cache = L1(0)
    cache.fill([4], 300.0)
    cache.fill([5], 700.0)
    assert cache.read([4, 5, 6, 7]) == ([6, 7], 700.0)


def test_few_lines_stay_of_those_that_go_first() -> None:
    cache = L1(0)
    cache.fill([0], 0.0)
    cache.fill(range(4, 4 + 4 * 256), 0.0, passing=True)
    assert cache.read([0, 4]) == ([], 0.0)
    cache.fill([4 + 4 * 256], 0.0, passing=True)
    assert cache.read([0, 4, 8]) == ([8], 0.0)  # line 1 was read last


def test_l2_loses_what_was_asked_for_long_ago() -> None:
    units, cache = Units(FIGURES, Contention(sharers=132)), L1(0)
    own = array(1 << 30)
    assert cache.ask([7, 8], own, units)
    assert not cache.ask([7], own, units)
    units.brought += units.kept / 2
    assert not cache.ask([7], own, units)
    units.brought += 0.6 * units.kept
    assert not cache.ask([7], own, units)
    assert cache.ask([8, 9], own, units)
    assert not cache.ask([8, 9], own, units)


def test_l2_keeps_what_others_ask_for_too() -> None:
    """All of an array that each multiprocessor reads: one of the others has asked for it lately."""
    units, cache = Units(FIGURES, Contention(sharers=132)), L1(0)
    weights = array(64)
    assert cache.ask([0, 1], weights, units)
    units.brought += 100 * units.kept
    assert not cache.ask([0, 1], weights, units)
