"""Graphs and energy as ``pyptx.bench`` uses them, with modules that stand for torch and for NVML's Python package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pyptx.core.errors import LaunchError
from pyptx.tools.bench import TorchDevice
from pyptx.tools.bench.readings import energy_counter, reader


class FakeTorch(ModuleType):
    """Torch with one GPU, as far as a measurement needs it; ``log`` has what was done."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.log: list[str] = []
        self.capturing = False
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            current_device=lambda: 0,
            get_device_properties=lambda _: SimpleNamespace(name="Fake", L2_cache_size=1 << 20, uuid="7"),
            synchronize=lambda *_: self.log.append("wait"),
            CUDAGraph=lambda: SimpleNamespace(replay=lambda: self.log.append("replay")),
            graph=self._graph,
        )

    def zeros(self, *shape: int, device: str) -> Any:
        assert not self.capturing
        return SimpleNamespace(zero_=lambda: self.log.append("zero"))

    @contextmanager
    def _graph(self, graph: Any) -> Iterator[None]:
        self.capturing = True
        self.log.append("capture")
        try:
            yield
        finally:
            self.capturing = False


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    found = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", found)
    return found


def test_a_captured_function_runs_once_before(torch: FakeTorch) -> None:
    graph = TorchDevice().graph(lambda: torch.log.append("run"))
    assert graph is not None
    assert torch.log == ["run", "wait", "capture", "run", "replay"]
    graph()
    assert torch.log[-1] == "replay" and torch.log.count("run") == 2


@pytest.mark.parametrize("error", [RuntimeError("no"), LaunchError("no")])
def test_a_function_that_cannot_be_captured(torch: FakeTorch, error: Exception) -> None:
    def run() -> None:
        if torch.capturing:
            raise error

    assert TorchDevice().graph(run) is None
    # A capture that succeeds puts torch's random generators right.
    assert torch.log == ["wait", "capture", "wait", "capture", "zero"]


def test_an_error_of_the_function_itself_is_not_hidden(torch: FakeTorch) -> None:
    def run() -> None:
        raise LaunchError("the kernel is wrong")

    with pytest.raises(LaunchError, match="the kernel is wrong"):
        TorchDevice().graph(run)


class NVMLError(Exception):
    pass


def _nvml(energy: Callable[[], float]) -> ModuleType:
    def handle(uuid: str) -> str:
        if uuid != "GPU-7":
            raise NVMLError
        return uuid

    found = ModuleType("pynvml")
    vars(found).update(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetTotalEnergyConsumption=lambda _: energy(),
        nvmlDeviceGetClockInfo=lambda _, which: {1: 1980, 2: 3201}[which],
        nvmlDeviceGetPowerUsage=lambda _: 412_300,
        nvmlDeviceGetTemperature=lambda *_: 45,
    )
    return found


def test_energy_and_clocks_of_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML counts millijoules and milliwatts."""
    values = iter([1000, 2500, 4000])
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(lambda: next(values)))
    counter = energy_counter("GPU-7")
    assert counter is not None and (counter(), counter()) == (2.5, 4.0)
    read = reader("GPU-7")
    assert read is not None and (found := read()) is not None
    assert (found.sm_mhz, found.watts) == (1980, 412.3)


def test_a_gpu_without_an_energy_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> float:
        raise NVMLError

    monkeypatch.setitem(sys.modules, "pynvml", _nvml(refuse))
    assert energy_counter("GPU-7") is None and energy_counter("GPU-8") is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert energy_counter("GPU-7") is None
