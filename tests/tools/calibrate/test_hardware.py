"""A calibration through the driver, of a driver that none is: the timed machine runs its kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from pyptx.core.errors import NoDriverError, SpecError
from pyptx.runtime import driver as owner
from pyptx.timing.constants import Gpu, gpu, read
from pyptx.tools.calibrate import hardware
from pyptx.tools.calibrate.calibration import calibrate
from pyptx.tools.calibrate.families.chip import TOLD
from pyptx.tools.calibrate.hardware import GpuDevice
from pyptx.tools.calibrate.kernels import empty, spin
from pyptx.tools.cli import cli
from tests.runtime.fake_driver import installed

from .recording_device import RecordingDevice
from .test_kernels import kernels_of
from .test_round_trips import AROUND
from .timed_driver import TimedDriver

H200 = gpu("h200")
CHANGED = {
    **{"mbarrier.wake_clk": 150.0, "bar.sync_clk": 30.0},
    **{"launch.ns": 2200.0, "launch.event_ns": 4000.0, "cta.turnaround_ns": 1400.0},
    **{"sm.count": 144.0, "gpc.sizes": (18.0,) * 8, "sm.clock_max_mhz": 1800.0},
}
FAMILIES = ("chip", "synchronization", "launches")


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    monkeypatch.setenv("PYPTX_CACHE", "0")
    monkeypatch.setattr(GpuDevice, "rounds", RecordingDevice.rounds)
    monkeypatch.setattr(GpuDevice, "repeats", RecordingDevice.repeats)
    monkeypatch.setattr(hardware, "_HELD", 2000)
    found = H200.with_values(CHANGED)
    with installed(monkeypatch):
        monkeypatch.setattr(GpuDevice, "timer_ns", RecordingDevice.timer_ns)
        kernels = {name: each for family in FAMILIES for name, each in kernels_of(found, family).items()}
        made = [empty("sm_90a", GpuDevice.rounds), spin("sm_90a", 1, hardware._HELD)]
        kernels.update({each.options.entry: each for each in made})
        driver = TimedDriver(found, kernels)
        monkeypatch.setattr(owner, "_initialized", lambda: driver)
        yield found


@pytest.mark.full
def test_a_calibration_through_the_driver(changed: Gpu) -> None:
    device = GpuDevice()
    assert (device.title, device.target, device.driver) == ("Fake GPU", "sm_90a", "CUDA driver 13.0")
    assert set(device.facts()) == set(TOLD)
    found = calibrate(device, H200, name="fake", date="2026-01-01", only=FAMILIES)
    assert not found.failed
    for name in ("sm.count", "launch.ns", "launch.event_ns", "cta.turnaround_ns"):
        assert found.gpu.value(name) == pytest.approx(CHANGED[name], rel=0.03)
    assert found.gpu.value("mbarrier.wake_clk") == pytest.approx(CHANGED["mbarrier.wake_clk"], abs=AROUND)
    assert found.gpu.value("bar.sync_clk") == pytest.approx(CHANGED["bar.sync_clk"], abs=2)
    sizes = found.gpu.series("gpc.sizes")
    assert sum(sizes) == 144 and sum(int(size) // 16 for size in sizes) == 8
    device.close()


def test_a_gpu_of_another_architecture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with installed(monkeypatch) as fake:
        fake.cuDeviceGetAttribute = lambda attribute, device: (owner.driver().CUresult.CUDA_SUCCESS, 8)
        with pytest.raises(SpecError, match="sm_88: pyptx calibrate measures"):
            GpuDevice()


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    def missing() -> None:
        raise NoDriverError("no CUDA driver on this machine")

    monkeypatch.setattr(owner, "_initialized", missing)
    out = tmp_path / "gpu.json"
    result = CliRunner().invoke(cli, ["calibrate", "--gpu-file", str(out)])
    assert result.exit_code == 1 and isinstance(result.exception, NoDriverError)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.full
def test_the_command_writes_a_file_that_predictions_take(tmp_path) -> None:
    out = tmp_path / "mine.json"
    arguments = ["calibrate", "--gpu-file", str(out), "--predicted", "h200", "--only", "synchronization"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "not measured this time" in result.output and "no microbenchmark measures" in result.output
    found = read(out)
    assert found.name == "mine" and found.target == "sm_90a"
    assert found.constant("mbarrier.wake_clk").source.startswith("measured by pyptx calibrate")
    assert found.constant("tma.issue_clk") == H200.constant("tma.issue_clk")
    assert not out.with_name("mine.json.partial").exists()
