"""Counters of a launch: the positions that are not simulated take numbers, too, and flags stay unknown."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import Tile, Workspace, kernel, ptx, u32
from pyptx.entry import Kernel

CTAS, TURNS = 132, 3


def counting(operation: str, words: int = 1, *, flag: bool = False) -> Kernel:
    """Build a kernel whose CTAs take three numbers each, or read a flag that decides whether they do."""

    @kernel(
        out_specs=(Tile(CTAS, TURNS, u32),),
        workspaces=(Workspace(4 * words, u32, zeroed=True),),
        grid=CTAS,
        block=32,
        arch="sm_90a",
    )
    def take(Taken, Counter):
        with ptx.if_(ptx.special.tid.x() == 0):
            if flag:
                with ptx.if_(ptx.load(u32, Counter.at(0), space="global") == 1):
                    ptx.ret()
            for turn in range(TURNS):
                given = 1 << 30 if operation == "inc" else 1
                number = ptx.atom(operation, Counter.at(0), given, kind=u32, space="global")
                with ptx.if_(number < CTAS * TURNS):
                    ptx.store(Taken.at(ptx.special.ctaid.x(), turn), number, space="global")

    return take


@pytest.mark.full
@pytest.mark.parametrize("operation", ["add", "inc"])
def test_each_turn_goes_on_by_the_number_of_positions(operation: str) -> None:
    taken = np.full((CTAS, TURNS), 7, np.uint32)
    found = counting(operation).predict(gpu="h200", clock=1900.0, out=taken)
    assert str(found.verdict) == "clean"
    assert taken[0].tolist() == [0, CTAS, 2 * CTAS]


@pytest.mark.parametrize(
    ("words", "flag", "operation"), [(2, False, "add"), (1, True, "add"), (1, False, "max")]
)
def test_what_other_clusters_decide_stays_unknown(words: int, flag: bool, operation: str) -> None:
    found = counting(operation, words, flag=flag).predict(gpu="h200", clock=1900.0)
    assert [each.rule.name for each in found.findings] == ["needs-data"]
