"""The ladder of the Hopper GEMM: each step is right for every schedule, and has what its page says."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pyptx import SpecError
from pyptx.toolchain import Tool

from .loading import EXAMPLES, load_example

STEPS = {
    1: ("naive", {}, (32, 16, 40)),
    2: ("mma_sync", {}, (128, 256, 128)),
    3: ("wgmma", {}, (128, 256, 192)),
    4: ("stages", {}, (256, 128, 448)),
    5: ("roles", {}, (256, 256, 448)),
    6: ("persistent", {"sms": 2}, (384, 512, 192)),
    7: ("tma_store", {"sms": 2}, (384, 512, 192)),
    8: ("cluster", {"clusters": 1}, (256, 512, 192)),
}
#: What each step has and the one before has not.
NEW = {
    2: ("cp.async.cg", "ldmatrix", "mma.sync.aligned.m16n8k16"),
    3: ("cp.async.bulk.tensor.2d", "wgmma.mma_async.sync.aligned.m64n128k16"),
    5: ("setmaxnreg.inc", "wgmma.mma_async.sync.aligned.m64n256k16"),
    7: ("stmatrix", "cp.async.bulk.tensor.2d.global.shared::cta", "fence.proxy.async"),
    8: ("multicast::cluster", "barrier.cluster.arrive"),
}
NUMBERS = pytest.mark.parametrize("step", STEPS)


def _load(step: int) -> Any:
    return load_example(f"hopper/ladder/step{step}_{STEPS[step][0]}.py")


def _build(step: int, *shape: int, **options: Any) -> Any:
    return getattr(_load(step), f"build_{STEPS[step][0]}")(*shape, **options)


def _harness() -> Any:
    _load(1)
    return sys.modules["gemm_harness"]


@pytest.mark.sample(1)
@NUMBERS
def test_right(step: int) -> None:
    """Stages that wrap around, several tiles of a CTA; from every schedule."""
    _, options, shape = STEPS[step]
    report, error = _harness().simulated(_build(step, *shape, **options), shape, {}, "random", 3)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert error <= 1


@pytest.mark.one_in(4)
@pytest.mark.full
@NUMBERS
def test_the_smallest_size(step: int) -> None:
    """One tile, one round."""
    tile = {1: (16, 16, 1), 2: (128, 128, 64), 3: (128, 128, 64), 4: (128, 128, 64)}
    shape = tile.get(step, (256 if step == 8 else 128, 256, 64))
    report, error = _harness().simulated(_build(step, *shape), shape, {})
    assert report.verdict == "clean" and error <= 1, str(report)


@pytest.mark.full
@NUMBERS
def test_what_is_new(step: int, ptxas: Tool) -> None:
    kernel = _build(step, 4096, 4096, 4096)
    text = kernel.ptx()
    for instruction in NEW.get(step, ()):
        assert instruction in text, instruction
        assert instruction not in _build(step - 1, 4096, 4096, 4096).ptx(), instruction
    assembly = kernel.assemble()
    assert not (assembly.spills or assembly.warnings or assembly.notes), assembly
    assert text.count("\n") == _build(step, 1024, 2048, 16384).ptx().count("\n")


@pytest.mark.full
@NUMBERS
def test_sizes_that_are_refused(step: int) -> None:
    with pytest.raises(SpecError, match="N = 100 is not a positive multiple of"):
        _build(step, 4096, 100, 4096)


@pytest.mark.gpu
@NUMBERS
def test_on_a_gpu(step: int) -> None:
    """Every element equals the simulator's."""
    import torch

    harness = _harness()
    _, options, shape = STEPS[step]
    kernel = _build(step, *shape, **options)
    a, b = harness.make_inputs(*shape, seed=step)
    there = harness.words_of(torch, kernel(harness.to_gpu(torch, a), harness.to_gpu(torch, b)))
    assert (there == kernel(a, b).view(there.dtype)).all()


def test_each_step_has_a_file() -> None:
    files = sorted(path.stem for path in (EXAMPLES / "hopper" / "ladder").glob("step*.py"))
    assert files == [f"step{number}_{name}" for number, (name, *_) in STEPS.items()]
