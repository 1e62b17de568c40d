"""The same product by mma, wgmma and tcgen05.mma: right under every schedule, and on the GPUs that run it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pyptx import SpecError
from pyptx.toolchain import Tool

from .loading import load_example

generations = load_example("blackwell/ladder/generations.py")
parts = sys.modules["ladder.parts"]
NAMES = ["Ampere", "Hopper", "Blackwell"]
INSTRUCTIONS = {
    "Ampere": ("cp.async.cg.shared::cta.global", "mma.sync.aligned.m16n8k16"),
    "Hopper": ("cp.async.bulk.tensor.2d", "wgmma.mma_async.sync.aligned.m64n64k16"),
    "Blackwell": ("cp.async.bulk.tensor.2d", "tcgen05.mma.cta_group::1"),
}


def _run(name: str, shape: tuple[int, int, int], **options: Any) -> None:
    report, error = parts.simulate(generations.BUILDERS[name](*shape), shape, **options)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert error <= 1


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("name", NAMES)
def test_right(name: str, schedule: str) -> None:
    _run(name, (128, 128, 192), schedule=schedule, seed=2)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_what_it_is_made_of(name: str, ptxas: Tool) -> None:
    kernel = generations.BUILDERS[name](512, 512, 1024)
    assert all(instruction in kernel.ptx() for instruction in INSTRUCTIONS[name])
    assembly = kernel.assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes
    assert kernel.ptx().count("\n") == generations.BUILDERS[name](512, 512, 64).ptx().count("\n")


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_sizes_that_are_refused(name: str) -> None:
    with pytest.raises(SpecError, match="N = 100 is not a positive multiple of its tile, 64"):
        generations.BUILDERS[name](128, 100, 64)


@pytest.mark.parametrize(
    ("capability", "names"),
    [((8, 0), ["Ampere"]), ((9, 0), ["Ampere", "Hopper"]), ((10, 0), ["Ampere", "Blackwell"]), ((7, 5), [])],
)
def test_which_gpu_runs_what(capability: tuple[int, int], names: list[str]) -> None:
    assert [name for name in NAMES if generations.runs_on(name, capability)] == names


@pytest.mark.full
def test_the_launch_with_torch() -> None:
    """What a GPU test does, with tensors of the CPU: the simulator runs the kernel."""
    torch = pytest.importorskip("torch")
    shape = (128, 64, 128)
    assert parts.launch(torch, generations.build_hopper(*shape), shape, "cpu") <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_on_the_gpu(name: str) -> None:
    torch = pytest.importorskip("torch")
    if not generations.runs_on(name, torch.cuda.get_device_capability()):
        pytest.skip(f"this GPU does not run the kernel of {name}")
    for shape in (*generations.SHAPES, (1024, 512, 768)):
        assert parts.launch(torch, generations.BUILDERS[name](*shape), shape) <= 1
