"""Kernels of the examples and compiled ones claim every schedule; those that compete say with what."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from tests.examples.loading import load_example
from tests.mutants.kernels import subject

pytestmark = pytest.mark.full

#: Kernels of which a part competes, and with what.
COMPETING = {
    "look-back-scan": "atom.global.add.u32: the order of accesses to the same bytes",
}
CLAIMING = (
    "blackwell-gemm",
    "blackwell-gemm-2sm",
    "hopper-gemm",
    "hopper-gemm-tma",
    "rmsnorm",
    "rmsnorm-ring",
    "tma-copy",
    "tma-store",
    "tcgen05-stage",
    "tcgen05-chain",
    "block-sums",
    "cp-async",
    "named-barriers",
    "message",
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CLAIMING)
def test_claims_every_schedule(name: str) -> None:
    kernel = subject(name)
    report, _ = kernel.launch(sim.load(kernel.module))
    assert report.holds == "every schedule", report


@pytest.mark.parametrize("name", COMPETING)
def test_says_what_competes(name: str) -> None:
    kernel = subject(name)
    report, _ = kernel.launch(sim.load(kernel.module))
    assert report.holds == "this schedule"
    assert any(COMPETING[name] in each.what for each in report.competing), report


def test_gemm_whose_ctas_may_share_a_multiprocessor_claims() -> None:
    """The columns of its accumulators are open then, and it uses them only to access tensor memory."""
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")
    shape = (256, 256, 128)
    a, b = gemm.make_inputs(*shape)
    report = gemm.build_gemm(*shape, stages=2).simulate(a, b, out=np.zeros(shape[:2], np.float32))
    assert report.holds == "every schedule", report


_SUITE = load_example("blackwell/tcgen05_suite.py")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", list(_SUITE.LESSON)[::3])
def test_probes_of_the_suite_claim(name: str) -> None:
    case = next(iter(_SUITE.LESSON[name].cases()))
    _, _, report = _SUITE.simulated(case, "eager")
    assert report.holds == "every schedule", report
