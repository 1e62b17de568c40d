"""Plans store what a launch needs where the driver reads it: a driver of this file's own, in host memory."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as bindings

from pyptx.core.errors import GridSizeError, LaunchError, SpecError
from pyptx.core.types import f32, s16
from pyptx.dsl import Scalar
from pyptx.entry.arguments import check_scalar
from pyptx.ir import Launch
from pyptx.runtime import launch as runtime_launch
from pyptx.runtime import plan as runtime_plan
from pyptx.runtime.driver import DeviceInfo
from pyptx.runtime.plan import Address, Constant, MapImage, Number, Parameter, Plan

IMAGE = bytes(range(128))
PARAMETERS: list[Parameter] = [
    MapImage(IMAGE),
    Address(),
    Number(s16, lambda value: check_scalar("n", Scalar(s16), value)),
    Number(f32, lambda value: check_scalar("x", Scalar(f32), value)),
    Constant((7).to_bytes(8, "little")),
]
LAUNCH = Launch((2, 3, 4), (32, 1, 1))
KERNEL: Any = SimpleNamespace(
    entry="k", device_index=0, function=0xF0, parameter_bytes=(128, 8, 2, 4, 4), dynamic_smem=0, static_smem=0,
    max_threads=1024, registers=32, note_capture=lambda stream: None,
)  # fmt: skip


class Driver:
    """Keeps grid, stream and 128 bytes of each parameter of the launches; returns ``statuses`` one by one."""

    CUresult, CUlaunchConfig = bindings.CUresult, bindings.CUlaunchConfig

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.launched: list[tuple[tuple[int, int, int], int, list[bytes]]] = []

    def cuLaunchKernelEx(self, config: Any, function: Any, parameters: int, extra: int) -> tuple[Any]:
        assert function == 0xF0 and extra == 0
        status = bindings.CUresult(self.statuses.pop(0) if self.statuses else 0)
        if int(status) == 0:
            pointers = (ctypes.c_void_p * len(PARAMETERS)).from_address(parameters)
            assert all((pointer or 0) % 64 == 0 for pointer in pointers)
            memory = [ctypes.string_at(pointer or 0, 128) for pointer in pointers]
            grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
            self.launched.append((grid, int(config.hStream), memory))
        return (status,)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *arguments: Any) -> tuple[int, int]:
        return (0, 1)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver()
    for module in (runtime_plan, runtime_launch):
        monkeypatch.setattr(module, "driver", lambda: driver)
        monkeypatch.setattr(module, "device_context", lambda index: nullcontext())
    h200 = DeviceInfo(0, "NVIDIA H200", (9, 0), 132, 232448, (13, 0))
    monkeypatch.setattr(runtime_launch, "device_info", lambda index: h200)
    return driver


def words(memory: list[bytes]) -> list[int]:
    sizes = (8, 8, 2, 4, 4)
    return [int.from_bytes(raw[:size], "little") for raw, size in zip(memory, sizes, strict=True)]


def test_a_launch_stores_what_differs(made: Driver) -> None:
    plan = Plan(KERNEL, LAUNCH, PARAMETERS)
    plan([0x1000, 0x2000, -2, 1.5], 5)
    plan([0x3000, 0x4000, 3, 2.0], 6)
    (grid, stream, first), (_, other, second) = made.launched
    assert (grid, stream, other) == ((2, 3, 4), 5, 6)
    assert words(first) == [0x1000, 0x2000, 0xFFFE, 0x3FC00000, 7]
    assert words(second) == [0x3000, 0x4000, 3, 0x40000000, 7]
    assert first[0][8:] == second[0][8:] == IMAGE[8:]
    for wrong in ([0, 0, 1 << 15, 1.0], [0, 0, 1.5, 1.0], [0, 0, 1, "x"]):
        with pytest.raises(SpecError):
            plan(wrong, 5)
    assert len(made.launched) == 2


def test_another_size_is_another_launch_of_the_same_kernel(made: Driver) -> None:
    plan = Plan(KERNEL, LAUNCH, PARAMETERS)
    plan([0x1000, 0x2000, 1, 1.0], 5)
    image = bytes(reversed(IMAGE))
    changed = [MapImage(image), *PARAMETERS[1:4], Constant((9).to_bytes(8, "little"))]
    other = plan.resized(replace(LAUNCH, grid=(9, 1, 1)), changed)
    other([0x5000, 0x6000, 2, 1.0], 5)
    plan([0x1000, 0x2000, 1, 1.0], 5)
    grids, memory = [each[0] for each in made.launched], [each[2] for each in made.launched]
    assert grids == [(2, 3, 4), (9, 1, 1), (2, 3, 4)] and other.kernel is plan.kernel
    assert [words(each)[4] for each in memory] == [7, 9, 7]
    assert memory[1][0][8:] == image[8:] and memory[2][0][8:] == IMAGE[8:]


def test_a_frame_repeats(made: Driver) -> None:
    plan = Plan(KERNEL, LAUNCH, PARAMETERS)
    frame = plan.frame([0x1000, 0x2000, 1, 1.0], 8)
    for _ in range(3):
        plan.start(frame)
    assert [each[1] for each in made.launched] == [8, 8, 8]


def test_statuses(made: Driver) -> None:
    plan = Plan(KERNEL, LAUNCH, PARAMETERS)
    made.statuses = [201]  # another context was current: the launch is made again in the kernel's own
    plan([0x1000, 0x2000, 1, 1.0], 5)
    assert len(made.launched) == 1
    made.statuses = [1]
    with pytest.raises(LaunchError, match="cuLaunchKernelEx of 'k' with grid"):
        plan([0x1000, 0x2000, 1, 1.0], 5)


def test_parameters_that_do_not_fit(made: Driver) -> None:
    with pytest.raises(SpecError, match="takes 5 parameters"):
        Plan(KERNEL, LAUNCH, PARAMETERS[:4])
    with pytest.raises(SpecError, match="takes 5 parameters"):
        Plan(KERNEL, LAUNCH, [*PARAMETERS[:4], Address()])


def test_a_cooperative_grid_that_is_too_large(made: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_launch, "_attributes", lambda launch: [])
    plan = Plan(KERNEL, replace(LAUNCH, grid=(200, 1, 1), cooperative=True), PARAMETERS)
    made.statuses = [720]
    with pytest.raises(GridSizeError, match="its 200 CTAs.*at most 132 can"):
        plan([0x1000, 0x2000, 1, 1.0], 5)
