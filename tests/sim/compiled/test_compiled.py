"""Kernels compiled from our CUDA and Triton sources compute what an H200 computed, and no finding is left."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.sim.api.report import Report
from tests.sim.compiled import recorded
from tests.sim.compiled.cases import CASES, run_of
from tests.sim.compiled.check import differences, found_rules, simulated
from tests.sim.compiled.inputs import ints
from tests.sim.compiled.launches import fingerprint


def check(name: str, schedule: str = "eager") -> Report:
    """The report of a launch that leaves no finding and gives what was recorded."""
    run, undefined = run_of(name), CASES[name][1].undefined
    assert recorded.about()["fingerprints"][name] == fingerprint(run), (
        "the recording is of another text or input"
    )
    report, found = simulated(run, schedule)
    assert found_rules(report, name) == ({"undefined-register"} if undefined else set()), str(report)
    for index, (output, words) in enumerate(
        zip(run.outputs, recorded.outputs(name, len(found)), strict=True)
    ):
        wrong = differences(found[index], words, output.bound)
        assert not wrong, f"output {index}: {len(wrong)} of {words.size} differ: {'; '.join(wrong[:4])}"
    return report


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", [name for name, (_, case) in CASES.items() if not case.fails])
def test_compiled(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", [name for name, (_, case) in CASES.items() if case.prints])
def test_what_is_printed(name: str) -> None:
    assert check(name).printed == recorded.about()["printed"][name]


@pytest.mark.parametrize("name", [name for name, (_, case) in CASES.items() if case.fails])
def test_a_failing_assertion(name: str) -> None:
    _, case = CASES[name]
    assert case.fails in recorded.about()["failed"][name]
    report, _ = simulated(run_of(name))
    assert report.verdict == "error"
    assert "printing.cu:24: void fails(const int *, int *)" in report.findings[0].message
    assert "`in[t] < 50 && t >= 0` failed" in report.findings[0].message


#: Kernels whose warps, blocks or copies overtake each other.
_CONCURRENT = [
    "scans.chained_scan",
    "exchanges.producer_consumers",
    "groups.barrier_object",
    "gemms.pipelined_gemm",
    "atomics.swap_loops",
    "triton.matmul_half",
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("short", _CONCURRENT)
def test_as_late_as_possible(short: str) -> None:
    check(f"sm_90a/{short}", "late")


_OPTIMIZED = [
    name for name, (arch, case) in CASES.items() if arch == "sm_90a" and not case.text.endswith(".debug")
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", [name for name in _OPTIMIZED if not CASES[name][1].fails])
def test_in_random_order(name: str) -> None:
    check(name, "random")


@pytest.mark.full
def test_more_blocks_than_run_at_once() -> None:
    blocks, threads = 300, 1024  # 264 of them on the 132 multiprocessors of an H200
    count = blocks * threads
    x = ints("many blocks", count, dtype=np.float32)
    y = np.arange(count, dtype=np.float32)
    run = run_of("sm_90a/exchanges.saxpy")
    report = sim.load(run.text).launch(run.entry, grid=blocks, block=threads, args=[2.5, x, y, count])
    assert not found_rules(report), str(report)
    assert np.array_equal(y, 2.5 * x + np.arange(count))
