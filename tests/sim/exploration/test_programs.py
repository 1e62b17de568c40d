"""The outcomes of an exploration are those of an interpreter that tries every order, no more and no fewer."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.sim.api.exploration import LONG_PASSES

from .programs import CELLS, REGISTERS, Program, random_barriers, random_program

#: Store buffering, whose outcome 0 0 no interleaving has; a message; two locks taken in opposite order.
NAMED = {
    "store buffering": Program(
        ((("st", 0, 1, 0), ("ld", 1, 0, 0)), (("st", 1, 1, 0), ("ld", 0, 0, 0))),
    ),
    "message": Program(((("st", 0, 2, 0), ("st", 1, 1, 0)), (("poll", 1, 1, 0), ("ld", 0, 1, 0)))),
    "two locks": Program(
        (
            (("lock", 0, 0, 0), ("lock", 1, 0, 0), ("st", 1, 0, 0), ("st", 0, 0, 0)),
            (("lock", 1, 0, 0), ("lock", 0, 0, 0), ("st", 0, 0, 0), ("st", 1, 0, 0)),
        )
    ),
    "a value that is there for a moment": Program(
        ((("st", 0, 1, 0), ("st", 0, 2, 0)), (("poll", 0, 1, 0), ("st", 1, 1, 0))),
    ),
    "three that count": Program(
        (
            (("red", 0, 1, 0),),
            (("red", 0, 1, 0), ("poll", 0, 2, 0)),
            (("poll", 0, 1, 0), ("red", 0, 1, 0), ("ld", 0, 1, 0)),
        )
    ),
    "a parity that fits two phases": Program(
        ((("wait", 0, 1, 0), ("wait", 0, 1, 0)), (("st", 0, 1, 0), ("arrive", 0, 0, 0), ("test", 0, 0, 0))),
        (1,),
    ),
    "a wait that two phases lap": Program(
        ((("arrive", 0, 0, 0), ("arrive", 0, 0, 0), ("st", 0, 1, 0)), (("wait", 0, 0, 0), ("ld", 0, 0, 0))),
        (1,),
    ),
    "bytes that nothing announces": Program(
        ((("arrive", 0, 0, 0), ("ld", 1, 1, 0)), (("complete", 0, 8, 0), ("arrive", 0, 0, 0))), (1,)
    ),
}


def check(program: Program) -> None:
    wanted = program.outcomes()
    kernel, count = program.kernel(), len(program.threads)
    size = CELLS + REGISTERS * count
    extents = {"grid": 1, "block": 32 * count} if program.counts else {"grid": count, "block": 1}
    report = kernel.run(np.zeros(size, np.uint32), schedule="all", max_runs=5000, **extents)
    found = report.exploration
    assert found is not None and (found.complete or found.bound == LONG_PASSES), program
    # A thread whose phase two others lap would hang; the simulator lets it go on, and says so.
    lapped = any(finding.rule.name == "lapped-wait" for finding in report.findings)
    fails = found.failed > 0 or lapped
    assert fails == wanted.hangs if found.complete else fails <= wanted.hangs, program
    ends = set()
    for name in found.outcomes:
        words = np.zeros(size, np.uint32)
        assert kernel.run(words, schedule=name, **extents).verdict in ("clean", "review")
        ends.add(tuple(words.tolist()))
    assert len(ends) == len(found.outcomes)
    if not found.complete:
        assert ends <= wanted.ends, program
    else:
        assert ends >= wanted.ends if lapped else ends == wanted.ends, program


@pytest.mark.parametrize("name", NAMED)
def test_named_programs(name: str) -> None:
    check(NAMED[name])


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 20):
        check(random_program(seed))


@pytest.mark.full
@pytest.mark.parametrize("first", range(20, 60, 20))
def test_random_programs_with_mbarriers(first: int) -> None:
    for seed in range(first, first + 20):
        check(random_barriers(seed))
