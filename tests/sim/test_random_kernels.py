"""Random kernels under every kind of schedule, against a machine that runs one instruction of one thread at a time.

The kernels are those of :mod:`tests.sim.kernels.random_kernels`; what they store comes from :mod:`tests.sim.reference.machine`.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.sim import LoadedModule
from tests.sim.kernels.random_exchanges import SUMS
from tests.sim.kernels.random_kernels import STRIDE, Text, author
from tests.sim.reference.machine import Machine

Block = tuple[int, int, int]

#: Seeds of kernels of a middling size, by the block that they run in.
ALONE: dict[Block, list[int]] = {
    (1, 1, 1): [0, 23, 31],
    (31, 1, 1): [103, 105, 107],
    (32, 1, 1): [201, 204, 206],
    (33, 1, 1): [311, 316, 323],
    (64, 1, 1): [413, 415],
    (96, 1, 1): [501, 512],
    (100, 1, 1): [602, 613],
    (128, 1, 1): [707, 731],
    (7, 5, 3): [806, 807],
}
TALKING: dict[Block, list[int]] = {
    (1, 1, 1): [0, 1],
    (31, 1, 1): [103, 105],
    (32, 1, 1): [204, 206],
    (33, 1, 1): [317, 331],
    (64, 1, 1): [413, 417],
    (96, 1, 1): [516, 526],
    (100, 1, 1): [602],
}
ALONE_CASES = [(block, seed) for block, seeds in ALONE.items() for seed in seeds]
TALKING_CASES = [(block, seed) for block, seeds in TALKING.items() for seed in seeds]


def _stores(text: Text) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((text.threads, STRIDE), np.uint8), np.zeros(SUMS, np.uint32)


def _check(text: Text, schedules: list[tuple[str, int]]) -> None:
    module: LoadedModule = sim.load(text.ptx)
    expected, sums = _stores(text)
    Machine(module.module, "kernel", [expected, sums], block=text.block, grid=text.grid).run(limit=50_000)
    assert expected.any()
    for schedule, seed in schedules:
        out, found = _stores(text)
        report = module.launch(
            grid=text.grid, block=text.block, args=[out, found], schedule=schedule, seed=seed, timeout=60.0
        )
        assert report.verdict == "clean", report
        for thread in np.flatnonzero((out != expected).any(1)):
            assert out[thread].tolist() == expected[thread].tolist(), f"{schedule} {seed}: thread {thread}"
        assert found.tolist() == sums.tolist(), f"{schedule} {seed}: sums"


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("block", "seed"), ALONE_CASES)
def test_threads_that_know_nothing_of_each_other(block: Block, seed: int) -> None:
    _check(author(seed, block=block), [("eager", 0), ("random", seed)])


@pytest.mark.full
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("block", "seed"), TALKING_CASES)
def test_threads_that_talk(block: Block, seed: int) -> None:
    schedules = [("eager", 0), ("late", 0), ("random", seed), ("random", seed + 1), ("starve:tma", 0)]
    _check(author(seed, talk=True, block=block), schedules)
