"""What unwritten bytes hold decides no result of a kernel that has no error.

Each kernel runs with two contents of an array that counts as never written, and with one of them as an
ordinary array, so that the fast code runs.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from tests.sim.kernels.random_undefined import BLOCK, WORDS, text_of

pytestmark = pytest.mark.full

KERNELS = 25


def results(seed: int, schedule: str) -> tuple[bool, bool]:
    """Whether the kernel has an error, and whether its results depend on the contents."""
    loaded = sim.load(text_of(seed))
    rng = np.random.default_rng(seed)
    contents = [rng.integers(0, 2**32, BLOCK * WORDS, np.uint32) for _ in range(3)]
    contents[1] = ~contents[0]
    found = []
    for data in contents:
        out = np.zeros(BLOCK, np.uint32)
        report = loaded.launch(
            grid=1, block=BLOCK, args=[data.copy(), out], uninitialized=[0], schedule=schedule
        )
        names = {finding.rule.name for finding in report.findings}
        assert names <= {"uninitialized-read", "padding-read", "undefined-load"}, (seed, str(report))
        found.append((report.verdict == "error", out))
    plain = np.zeros(BLOCK, np.uint32)
    report = loaded.launch(grid=1, block=BLOCK, args=[contents[0].copy(), plain], schedule=schedule)
    assert report.verdict == "clean", (seed, str(report))
    np.testing.assert_array_equal(
        plain, found[0][1], err_msg=f"kernel {seed}: the followed run computes differently"
    )
    assert len({error for error, _ in found}) == 1, seed
    differ = any(not np.array_equal(found[0][1], out) for _, out in found[1:])
    return found[0][0], differ


@pytest.mark.one_in(12)
@pytest.mark.sample(1)
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("part", range(8))
def test_contents_of_unwritten_bytes(part: int, schedule: str) -> None:
    outcomes = []
    for seed in range(KERNELS * part, KERNELS * (part + 1)):
        error, differ = results(seed, schedule)
        assert error or not differ, f"kernel {seed} has no error, but its results depend on unwritten bytes"
        outcomes.append((error, differ))
    errors = sum(error for error, _ in outcomes)
    # Both kinds of kernels are there, and few errors are about bits that decide nothing.
    assert 0.4 * KERNELS < errors < 0.99 * KERNELS
    assert sum(differ for _, differ in outcomes) > 0.8 * errors
