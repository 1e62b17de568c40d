"""Loads that last, bursts and freshly loaded modules, through a driver whose launches take the time of a test."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.entry import Kernel
from pyptx.runtime import driver as owner
from pyptx.runtime.loader import dropped
from pyptx.timing.constants import gpu
from pyptx.tools.calibrate import board, hardware
from pyptx.tools.calibrate.families.loads import multiplied, tensored
from pyptx.tools.calibrate.hardware import GpuDevice
from pyptx.tools.calibrate.kernels import empty
from tests.runtime.fake_driver import installed

from .busy_driver import BusyDriver, Clock, nvml

#: Sections of a launch of a load that lasts, and of a burst.
SECTIONS, BURST = 100, 50
ROUNDS = 3


def busy(sections: int) -> Kernel:
    return multiplied("sm_90a", 132, 128, 2, "zeros", 4, sections)


def fed(sections: int) -> Kernel:
    return tensored("sm_90a", 2, 64, 16, sections)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[BusyDriver]:
    monkeypatch.setenv("PYPTX_CACHE", "0")
    monkeypatch.setattr(hardware, "_SECTIONS", SECTIONS)
    monkeypatch.setattr(hardware, "_BURST", BURST)
    monkeypatch.setattr(hardware, "_NORMAL", 1 << 12)
    # A launch of the load takes 0.5 ms.
    monkeypatch.setattr(hardware, "_LASTING", 0.5)
    monkeypatch.setattr(hardware, "_READ", 0.2)
    monkeypatch.setattr(GpuDevice, "rounds", ROUNDS)
    clock = Clock()
    monkeypatch.setattr(hardware, "time", clock)
    monkeypatch.setattr(board, "time", clock)
    # Modules of other tests' drivers.
    gc.collect()
    dropped.clear()
    with installed(monkeypatch):
        kernels = [build(count) for build in (busy, fed) for count in (SECTIONS, BURST)]
        kernels.append(empty("sm_90a", ROUNDS))
        made = BusyDriver(gpu("h200"), {each.options.entry: each for each in kernels}, clock)
        monkeypatch.setattr(owner, "_initialized", lambda: made)
        monkeypatch.setitem(sys.modules, "pynvml", nvml(made))
        yield made


def test_power_and_clock_of_a_load_that_lasts(driver: BusyDriver) -> None:
    device = GpuDevice()
    assert device.power_limit() == 700.0
    found = device.sustained(busy, "zeros")
    assert found.mhz == pytest.approx(driver.mhz) and found.cycles == pytest.approx(7500)
    # With the gap that comes behind each launch.
    assert found.ns == pytest.approx(driver.section + driver.gap / SECTIONS, rel=1e-3)
    # Nearly all of the time: the gaps take 0.2% of it.
    assert found.watts == pytest.approx(driver.watts, rel=0.005)


def test_what_comes_first_does_not_count(driver: BusyDriver) -> None:
    """The clock falls while the load lasts: its second half counts."""
    run, fast = driver._run, 100

    def falling(name: str, values: list[int]) -> None:
        driver.mhz = 1980.0 if len(driver.started) < fast else 1500.0
        run(name, values)

    driver._run = falling  # type: ignore[method-assign]
    assert GpuDevice().sustained(busy, "zeros").mhz == pytest.approx(1500)
    assert len(driver.started) > 2 * fast


def test_a_load_that_ends_before_its_power_is_read(driver: BusyDriver) -> None:
    """The first launch, by which their number is chosen, was slower than the others."""
    run = driver._run

    def faster(name: str, values: list[int]) -> None:
        driver.section = 5000.0 if not driver.started else 3000.0
        run(name, values)

    driver._run = faster  # type: ignore[method-assign]
    with pytest.raises(SpecError, match="ended before its power was read"):
        GpuDevice().sustained(busy, "zeros")


def test_a_counter_that_stands_still(driver: BusyDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "joules", lambda: 5.0)
    with pytest.raises(SpecError, match="stands still"):
        GpuDevice().sustained(busy, "zeros")


def test_loads_without_a_meter(driver: BusyDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    device = GpuDevice()
    for ask in (device.power_limit, lambda: device.sustained(busy, "zeros")):
        with pytest.raises(SpecError, match="power cannot be read"):
            ask()


def test_a_clock_that_was_not_written(driver: BusyDriver) -> None:
    driver.mhz = 0.0
    with pytest.raises(SpecError, match="readings of clocks are 0"):
        GpuDevice().sustained(busy, "zeros")


def test_a_burst_begins_behind_idle_time(driver: BusyDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep, rests = driver.time.sleep, list[tuple[float, int]]()

    def rest(seconds: float) -> None:
        rests.append((seconds, len(driver.loaded)))
        sleep(seconds)

    monkeypatch.setattr(driver.time, "sleep", rest)
    found = GpuDevice().burst(busy, "zeros")
    assert found.clocks[0] == found.ns[0] == 0 and len(found.ns) == BURST + 1
    assert found.ns[-1] == pytest.approx(BURST * driver.section)
    assert found.clocks[-1] == pytest.approx(BURST * driver.section * driver.mhz / 1000)
    assert rests == [(hardware._REST, 1)], "the kernel is loaded before"
    (began,) = driver.started
    assert began >= 1000 + hardware._REST


@pytest.mark.parametrize("ask", ["sustained", "burst"])
def test_inputs_hold_the_numbers_that_a_load_asks_for(driver: BusyDriver, ask: str) -> None:
    device = GpuDevice()
    getattr(device, ask)(fed, "normal")
    bits = np.frombuffer(driver.inputs, np.uint16).astype(np.uint32) << 16
    numbers = bits.view(np.float32)
    assert len(numbers) == 4 * 128 * 64
    assert numbers.mean() == pytest.approx(0, abs=0.05) and numbers.std() == pytest.approx(1, abs=0.05)
    assert np.array_equal(numbers[: 1 << 12], numbers[-(1 << 12) :]), "all of the array"
    getattr(device, ask)(fed, "zeros")
    assert not any(driver.inputs)


def test_code_that_no_cache_holds_is_loaded_anew_and_unloaded(driver: BusyDriver) -> None:
    def write(name: str, values: list[int]) -> None:
        (ctypes.c_uint64 * ROUNDS).from_address(values[-1])[:] = [7] * ROUNDS
        running.append(set(driver.loaded))

    running: list[set[int]] = []
    driver._run = write  # type: ignore[method-assign]
    device, kernel = GpuDevice(), empty("sm_90a", ROUNDS)
    device.run(kernel)
    (kept,) = driver.loaded
    for count in range(1, 4):
        assert (device.run(kernel, cold_code=True).output == 7).all()
        assert set(driver.loaded) == {kept} and len(driver.unloaded) == count
    device.run(kernel)
    fresh = [modules - {kept} for modules in running]
    assert [len(each) for each in fresh] == [0, 1, 1, 1, 0]
    assert len(set.union(*fresh)) == 3, "each time another module"
