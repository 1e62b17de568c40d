"""Runs litmus tests: in the simulator, and a million times on a GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyptx import sim
from pyptx.core.types import u32
from pyptx.ir import Launch
from pyptx.sim import Report

from .kernels import Layout, kernel_of, single, tally
from .program import Litmus

if TYPE_CHECKING:
    from pyptx.runtime.loader import LoadedKernel

__all__ = ["Gpu", "explore", "layout_for", "simulate", "simulate_many", "simulate_one"]

Words = NDArray[np.uint32]

#: CTAs of the teams on a GPU: few enough that all run at once.
_TEAM_CTAS = 192
_NOISE_CTAS = 64
#: How the launches of one test differ: whether the locations are in the L1 cache before, and the mask of the delays.
_MANNERS = ((False, 63), (True, 63), (False, 1023), (True, 0))


def simulate(
    test: Litmus, schedule: str = "eager", seed: int = 0, rounds: int = 1
) -> Counter[tuple[int, ...]]:
    """The outcomes of a few instances in the simulator."""
    layout = Layout(test, teams=1, rounds=rounds, noise=1)
    arrays = [np.zeros(words, np.uint32) for words in layout.words]
    report = sim.load(kernel_of(test)).launch(
        grid=layout.grid,
        block=layout.block,
        args=[*arrays, *layout.numbers(seed, jitter=15, noise=5)],
        schedule=schedule,
        seed=seed,
        sanitize=False,
    )
    assert report.verdict != "incomplete", report
    return tally(layout, arrays[0], arrays[1])


def simulate_one(test: Litmus, schedule: str = "eager", seed: int = 0) -> tuple[tuple[int, ...], set[str]]:
    """The outcome of one instance in the simulator, and the rules of the findings."""
    return next(simulate_many(test, schedule, [seed]))


def simulate_many(
    test: Litmus, schedule: str, seeds: Iterable[int]
) -> Iterator[tuple[tuple[int, ...], set[str]]]:
    """The same for several seeds."""
    loaded = sim.load(single(test))
    for seed in seeds:
        memory, out = _arrays_of(test)
        report = loaded.launch(**_extents(test), args=[memory, out], schedule=schedule, seed=seed)
        yield _outcome(test, memory, out), {finding.rule.name for finding in report.findings}


def explore(test: Litmus) -> tuple[set[tuple[int, ...]], Report]:
    """All outcomes of one instance under ``schedule="all"``, and the report."""
    loaded = sim.load(single(test))
    memory, out = _arrays_of(test)
    report = loaded.launch(**_extents(test), args=[memory, out], schedule="all", max_runs=100_000)
    assert report.exploration is not None
    found = set()
    for name in report.exploration.outcomes:
        memory, out = _arrays_of(test)
        loaded.launch(**_extents(test), args=[memory, out], schedule=name)
        found.add(_outcome(test, memory, out))
    return found, report


def _arrays_of(test: Litmus) -> tuple[Words, Words]:
    """The locations and the registers of one instance."""
    return np.zeros((len(test.locations), 4), np.uint32), np.zeros((test.registers + 1, 4), np.uint32)


def _extents(test: Litmus) -> dict[str, int]:
    return {"grid": max(test.ctas) + 1, "block": 32 * max(test.ctas.count(cta) for cta in test.ctas)}


def _outcome(test: Litmus, memory: Words, out: Words) -> tuple[int, ...]:
    finals = [int(memory[test.locations.index(location), 0]) for location in test.finals]
    return (*map(int, out[: test.registers, 0]), *finals)


def layout_for(test: Litmus, instances: int) -> Layout:
    """A launch of at least so many instances, with all CTAs of the teams on the GPU at once."""
    teams = _TEAM_CTAS // (max(test.ctas) + 1) // max(1, len(test.threads) // 2)
    one = Layout(test, teams, 1, _NOISE_CTAS)
    return Layout(test, teams, -(-instances // one.instances), _NOISE_CTAS)


class Gpu:
    """Buffers on the first GPU that serve all tests. Use it inside :func:`pyptx.runtime.driver.device_context`."""

    def __init__(self) -> None:
        self._room: list[tuple[Any, int]] = []

    def _buffers(self, words: tuple[int, ...]) -> list[Any]:
        """Device arrays of at least so many words, filled with zeros."""
        from pyptx.runtime import driver

        for n, count in enumerate(words):
            if n == len(self._room):
                self._room.append((driver.call("cuMemAlloc", 4 * count), count))
            if self._room[n][1] < count:
                driver.call("cuMemFree", self._room[n][0])
                self._room[n] = (driver.call("cuMemAlloc", 4 * count), count)
            driver.call("cuMemsetD32", self._room[n][0], 0, count)
        return [pointer for pointer, _ in self._room]

    def run(self, test: Litmus, instances: int, seed: int) -> Counter[tuple[int, ...]]:
        """The outcomes of at least ``instances`` instances, from a launch for each of :data:`_MANNERS`."""
        from pyptx.runtime.loader import load
        from pyptx.runtime.unloading import unload_unused

        layout = layout_for(test, -(-instances // len(_MANNERS)))
        loaded = load(kernel_of(test), "litmus", dynamic_smem=0, device_index=0)
        counts: Counter[tuple[int, ...]] = Counter()
        for number, (warm, jitter) in enumerate(_MANNERS):
            numbers = layout.numbers(seed + number, jitter=jitter, warm=warm, noise=1000)
            counts += self._launch(layout, loaded, numbers)
        del loaded
        unload_unused()
        return counts

    def _launch(
        self, layout: Layout, loaded: LoadedKernel, numbers: tuple[int, ...]
    ) -> Counter[tuple[int, ...]]:
        from pyptx.runtime import driver
        from pyptx.runtime.launch import launch, pack

        buffers = self._buffers(layout.words)
        arguments = pack([*map(int, buffers), *((number, u32) for number in numbers)])
        launch(loaded, Launch((layout.grid, 1, 1), (layout.block, 1, 1), (1, 1, 1), 0), arguments, stream=0)
        driver.call("cuCtxSynchronize")
        found = []
        for pointer, words in zip(buffers[:2], layout.words[:2], strict=True):
            found.append(np.zeros(words, np.uint32))
            driver.call("cuMemcpyDtoH", found[-1].ctypes.data, pointer, 4 * words)
        return tally(layout, found[0], found[1])
