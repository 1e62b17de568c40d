"""Kernels compiled for Blackwell from our CUDA, Triton and Gluon sources compute what numpy does, in any order of events.

No Blackwell GPU has run them here: what they must give is computed in double precision, exactly where the inputs allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import TargetError
from tests.sim.compiled.blackwell.cuda_cases import CUDA_CASES
from tests.sim.compiled.blackwell.triton_cases import TRITON_CASES
from tests.sim.compiled.check import found_rules, simulated

CASES = {case.name: case for case in CUDA_CASES + TRITON_CASES}

#: Triton writes an older version over them than their ``.block32`` needs; ptxas refuses them as well.
OLD = frozenset({"triton.eights_scaled.scaled_matmul", "triton.fours_scaled.fours", "gluon.scaled.scaled"})


def _runs() -> Iterator[Any]:
    """Each case as early as may be and, in turns, as late as may be or in random order; the rest is slow."""
    for index, name in enumerate(CASES):
        quick = {"eager:0", "random:1" if index % 2 else "late:0"}
        for schedule in ("eager:0", "late:0", *(f"random:{seed}" for seed in range(1, 11))):
            yield pytest.param(name, schedule, marks=() if schedule in quick else pytest.mark.slow)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "schedule"), list(_runs()))
def test_compiled(name: str, schedule: str) -> None:
    """A launch leaves no finding but for what compilers are known to do, and every output is what it must be."""
    case = CASES[name]
    order, _, seed = schedule.partition(":")
    run = case.run()
    report, found = simulated(run, order, int(seed), module=sim.load(run.text, check=name not in OLD))
    assert found_rules(report, name) == case.review, str(report)
    expected = case.must_give()
    assert len(expected) == len(found)
    for index, (output, must) in enumerate(zip(found, expected, strict=True)):
        good = must.agrees(output)
        assert good.size == output.size
        assert good.all(), f"output {index}: {np.count_nonzero(~good)} of {good.size} differ"


@pytest.mark.parametrize("name", sorted(OLD))
def test_an_older_version_is_refused(name: str) -> None:
    run = CASES[name].run()
    with pytest.raises(
        TargetError, match=r"block32 requires PTX ISA 8\.8, but the module has \.version 8\.7"
    ):
        simulated(run)
