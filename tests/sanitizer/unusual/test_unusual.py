"""The unusual kernels are right, and the sanitizer reports no error on them: in the simulator and on a GPU."""

from __future__ import annotations

import math
import pickle

import pytest

from pyptx.toolchain import Tool, check_text
from tests.conformance.case import ARCH
from tests.conformance.gpu import Pool, Refused

from .running import run_unusual
from .unusuals import UNUSUAL

pytestmark = pytest.mark.full

NAMES = list(UNUSUAL)
#: Litmus tests: it is their point that a load gets what the schedule gives. In other schedules nothing may be loaded.
LITMUS = {
    "store buffering by relaxed operations",
    "store buffering with fence.sc",
    "load buffering by relaxed operations",
    "two loads of a word that another thread counts up",
    "independent reads of independent writes with fence.sc",
}
#: What an H200 runs.
ON_GPU = [name for name, kernel in UNUSUAL.items() if kernel.target == ARCH]


def _check(name: str, schedule: str) -> None:
    kernel = UNUSUAL[name]
    result = run_unusual(kernel, schedule)
    assert not result.errors, result.errors[0]
    assert result.ended, result.findings[0]
    assert result.right, result.outputs
    found = {finding.rule.name for finding in result.reviews}
    if name in LITMUS and schedule != "eager":
        found.add("ordered-by-chance")
    chance = {"ordered-by-chance"} if name in LITMUS else set()
    assert found == {*kernel.reviews, *chance}, result.findings


@pytest.mark.one_in(2)
@pytest.mark.sample(len(NAMES))
@pytest.mark.parametrize("name", NAMES)
def test_no_error_under_eager(name: str) -> None:
    _check(name, "eager")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schedule", ["late", "random:0", "random:1", "random:2"])
@pytest.mark.parametrize("name", NAMES)
def test_no_error_under_other_schedules(name: str, schedule: str) -> None:
    _check(name, schedule)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NAMES)
def test_assembles(name: str, ptxas: Tool) -> None:
    kernel = UNUSUAL[name]
    report = check_text(kernel.text, ptxas=ptxas)
    assert not report.errors, report.errors[0]


@pytest.mark.parametrize("name", NAMES)
def test_its_reason_names_the_manual(name: str) -> None:
    assert "#" in UNUSUAL[name].why


@pytest.mark.parametrize("name", ON_GPU)
def test_a_gpu_can_have_it(name: str) -> None:
    """Workers of the pool get it by pickle, and drivers of CUDA 13.0 take its version."""
    kernel = pickle.loads(pickle.dumps(UNUSUAL[name]))
    assert kernel.module.version <= (9, 0)
    assert kernel.text == UNUSUAL[name].text
    assert math.prod(kernel.cluster) <= 8


@pytest.mark.gpu
def test_right_on_silicon() -> None:
    """Each kernel three times: what the simulator computes under every schedule, the GPU computes."""
    kernels = [UNUSUAL[name] for name in ON_GPU for _ in range(3)]
    wrong = []
    with Pool(2) as pool:
        for kernel, found in zip(kernels, pool.run(kernels), strict=True):
            if isinstance(found, Refused):
                wrong.append(f"{kernel.name}: {found.reason}")
            elif not kernel.check(found):
                wrong.append(f"{kernel.name}: {[array.ravel()[:8].tolist() for array in found]}")
    assert not wrong, "\n".join(wrong)
