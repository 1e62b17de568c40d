"""Calibrations: values and intervals, partial results, what is refused, and the file that comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import LaunchError, SpecError
from pyptx.timing.constants import gpu, read, write
from pyptx.tools.calibrate.bench import MHZ, Bench, Value
from pyptx.tools.calibrate.calibration import Calibration, calibrate, families_of
from pyptx.tools.calibrate.families.chip import gpc_sizes
from pyptx.tools.calibrate.families.synchronization import repeated
from pyptx.tools.calibrate.predicted import PredictedDevice

from .recording_device import RecordingDevice

H200 = gpu("h200")


def run(device: Any, **options: Any) -> Calibration:
    return calibrate(device, options.pop("base", H200), name="mine", date="2026-01-01", **options)


class FailingDevice(RecordingDevice):
    """Fails at kernels whose name begins so."""

    def __init__(self, prefix: str) -> None:
        super().__init__(H200)
        self.prefix = prefix

    def run(self, kernel: Any, inputs: Any = (), **how: bool) -> Any:
        if kernel.options.entry.startswith(self.prefix):
            raise LaunchError("the launch failed")
        return super().run(kernel, inputs, **how)


def test_an_interval_holds_four_of_five_repetitions() -> None:
    found = Value.of(np.arange(101.0))
    assert (found.low, found.value, found.high) == (10.0, 50.0, 90.0)
    assert Value.of(3.0) == Value(3.0, 3.0, 3.0)


def test_the_first_round_is_not_counted_and_readings_of_0_are_an_error() -> None:
    class Some(RecordingDevice):
        rows = (9, 4, 6)

        def run(self, kernel: Any, inputs: Any = (), **how: bool) -> Any:
            found = super().run(kernel, inputs, **how)
            found.output[...] = np.array(self.rows, np.uint64)[:, None]
            return found

    device = Some(H200)
    bench = Bench(device, {})
    kernel = repeated("bar_sync", "sm_90a", 3, 32, 1, 4)
    assert bench.cycles(kernel).tolist() == [4, 6]
    device.rows = (9, 4, 0)
    with pytest.raises(SpecError, match="1 readings are 0"):
        bench.cycles(kernel)


def test_one_microbenchmark_beside_those_of_the_chip() -> None:
    device = RecordingDevice(H200)
    found = run(device, only=["barrier of a cluster"])
    assert {name.split("_")[0] for name in device.kernels} <= {"spin", "sync", "cluster", "clusters", "empty"}
    assert "bar.cluster_clk" in found.measured and "bar.sync_clk" not in found.measured
    with pytest.raises(SpecError, match="no family 'barrier'"):
        run(device, only=["barrier"])


def test_an_interrupted_calibration_goes_on(tmp_path: Path) -> None:
    partial = tmp_path / "gpu.json.partial"
    names = ["barrier of a CTA", "own phase of an mbarrier", "mbarrier.test_clk"]
    first = run(FailingDevice("own_phase"), only=names, partial=partial)
    (why,) = first.failed.values()
    assert why.startswith("the launch failed") and "mbarrier.visible_clk" in first.kept
    assert first.gpu.constant("mbarrier.visible_clk") == H200.constant("mbarrier.visible_clk")
    again = FailingDevice("nothing")
    second = run(again, only=names, partial=partial)
    assert not second.failed and {name.split("_")[0] for name in again.kernels} == {"own"}
    assert set(second.measured) == {*first.measured, "mbarrier.visible_clk"}
    assert all(second.measured[name] == value for name, value in first.measured.items())


def test_a_microbenchmark_that_broke_the_device_comes_last(tmp_path: Path) -> None:
    class Breaking(FailingDevice):
        def usable(self) -> bool:
            return False

    partial = tmp_path / "gpu.json.partial"
    first = run(Breaking("sync_cluster"), only=["synchronization"], partial=partial)
    assert "run the command again" in first.failed["the calibration"] and "bar.sync_clk" in first.measured
    assert "mbarrier.visible_clk" in first.kept, "nothing ran after the error"
    second = run(Breaking("sync_cluster"), only=["synchronization"], partial=partial)
    assert {"mbarrier.visible_clk", "fence.gpu_clk"} <= set(second.measured)
    assert list(second.failed)[-2:] == ["barrier of a cluster", "the calibration"]


def test_a_partial_result_of_another_device_is_not_read(tmp_path: Path) -> None:
    partial = tmp_path / "gpu.json.partial"
    run(RecordingDevice(H200), only=["chip"], partial=partial)
    other = RecordingDevice(H200)
    other.title = "another"
    run(other, only=["chip"], partial=partial)
    assert other.kernels
    partial.write_text("{", "utf-8")
    with pytest.raises(SpecError, match="no partial result"):
        run(other, only=["chip"], partial=partial)


def test_a_value_that_no_constant_can_be_is_not_kept(tmp_path: Path) -> None:
    class Backward(RecordingDevice):
        """Longer launches take less time: all differences are negative."""

        def run(self, kernel: Any, inputs: Any = (), **how: bool) -> Any:
            found = super().run(kernel, inputs, **how)
            found.output[...] = 10**9 - self._number
            return found

    partial = tmp_path / "gpu.json.partial"
    name = "mbarrier.visible_clk"
    found = run(Backward(H200), only=["synchronization"], partial=partial)
    assert "found -" in found.failed[name]
    assert found.gpu.constant(name) == H200.constant(name)
    assert run(RecordingDevice(H200), only=["synchronization"], partial=partial).measured[name]


def test_refusals() -> None:
    with pytest.raises(SpecError, match="no family 'tensors' for sm_90a"):
        run(RecordingDevice(H200), only=["tensors"])
    with pytest.raises(SpecError, match="no family 'tensor_memory'"):
        run(RecordingDevice(H200), only=["tensor_memory"])
    with pytest.raises(SpecError, match="constants of sm_100a, and nothing is sm_90a"):
        run(RecordingDevice(H200), base=gpu("b200"))


@pytest.mark.parametrize("name", ["h200", "b200"])
def test_every_family_makes_a_valid_file(name: str, tmp_path: Path) -> None:
    base = gpu(name)
    found = run(RecordingDevice(base), base=base)
    measurable = {
        each
        for benchmarks in families_of(base.target).values()
        for benchmark in benchmarks
        for each in benchmark.constants
    }
    # Made-up readings give some values that no constant can be, and rates that another limit hides.
    limited = {"l2.bytes_per_ns", "hbm.write_bytes_per_ns", "hbm.mixed_bytes_per_ns"}
    # Loads of long spans take no longer than those of short ones, and its bursts never slow down.
    limited |= {"tlb.reach_bytes", "tlb.miss_ns"}
    limited |= {"power.governor_ns", "power.burst_limit_w"}
    known = {*found.measured, *found.failed}
    assert measurable - {MHZ} - limited <= known <= measurable
    assert all("which no constant can be" in why for why in found.failed.values())
    for each, constant in found.gpu.constants.items():
        if each in found.measured:
            assert constant.source.startswith("measured by pyptx calibrate 0") and constant.confidence == "B"
        else:
            assert constant == base.constants[each]
    write(found.gpu, tmp_path / "mine.json")
    assert read(tmp_path / "mine.json").constants == found.gpu.constants
    assert json.loads((tmp_path / "mine.json").read_text())["gpu"] == "mine"


@pytest.mark.full
def test_sizes_of_gpcs() -> None:
    sizes = (18.0, 18.0, 16.0, 16.0, 16.0, 16.0, 16.0, 16.0)
    fitting = {size: sum(int(each) // size for each in sizes) for size in range(1, 17)}
    assert gpc_sizes(fitting) == sizes
    assert gpc_sizes(fitting, base=sizes[::-1]) == sizes[::-1]
    assert gpc_sizes({1: 132, 16: 9}) is None, "no GPCs of at most 24 SMs fit so many"


def test_a_kernel_that_the_machine_cannot_run_is_an_error() -> None:
    device = PredictedDevice(gpu("b200"))
    with pytest.raises(SpecError, match="sm_90a, but the NVIDIA B200"):
        device.run(repeated("bar_sync", "sm_90a", 3, 32, 1, 4))
