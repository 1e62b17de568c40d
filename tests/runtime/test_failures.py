"""Errors of kernels are attributed; watched launches are synchronized, marked and logged. The driver is a stand-in."""

from __future__ import annotations

import gc
import logging
import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.core.errors import KernelFailedError, LaunchError, SpecError, WaitTimeoutError
from pyptx.ir import Launch
from pyptx.runtime import driver, failures, quick, wait_reports, watching
from pyptx.runtime.bounded_waits import BUFFER_BYTES, bound_waits
from pyptx.runtime.debug_options import DebugOptions, debug_options
from pyptx.runtime.launch import launch
from pyptx.runtime.loader import LoadedKernel
from pyptx.runtime.plan import Plan
from tests.runtime.test_bounded_waits import build, by_wrapper

bindings = pytest.importorskip("cuda.bindings.driver")

STATUS = bindings.CUresult
KERNEL = LoadedKernel("gemm", 0, 1, 2, 0, 0, 32, 0, 1024, (), "")
LAUNCH = Launch((4, 1, 1), (128, 1, 1), (1, 1, 1), 0)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", DebugOptions()),
        ("waits", DebugOptions(waits=10.0)),
        ("sync, waits=0.5", DebugOptions(waits=0.5, sync=True)),
    ],
)
def test_options(text: str, wanted: DebugOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_DEBUG", text)
    monkeypatch.delenv("PYPTX_NVTX", raising=False)
    assert debug_options() == wanted


@pytest.mark.parametrize("text", ["wait", "waits=", "waits=-1", "waits=nan", "waits=soon", "sync=1"])
def test_other_options_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_DEBUG", text)
    with pytest.raises(SpecError, match="PYPTX_DEBUG is"):
        debug_options()


class FakeDriver:
    """Launches and synchronizes with statuses that the test gives."""

    CUresult = STATUS
    CUstreamCaptureStatus = bindings.CUstreamCaptureStatus

    def __init__(self) -> None:
        self.launches = self.fails_after = 0
        self.launched = self.synchronized = STATUS.CUDA_SUCCESS
        self.capturing = bindings.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
        self.synchronizations: list[int] = []

    def cuLaunchKernelEx(self, *arguments: Any) -> tuple[Any]:
        self.launches += 1
        return (self.launched,)

    def cuStreamIsCapturing(self, stream: int) -> tuple[Any, Any]:
        return STATUS.CUDA_SUCCESS, self.capturing

    def cuStreamSynchronize(self, stream: int) -> tuple[Any]:
        self.synchronizations.append(stream)
        self.fails_after -= 1
        return (STATUS.CUDA_SUCCESS if self.fails_after >= 0 else self.synchronized,)

    def cuCtxGetCurrent(self) -> tuple[Any, int]:
        return STATUS.CUDA_SUCCESS, 77

    def CUlaunchConfig(self) -> Any:
        return SimpleNamespace()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    made = FakeDriver()
    for module in ("driver", "launch", "loader", "plan", "watching"):
        monkeypatch.setattr(f"pyptx.runtime.{module}.driver", lambda: made)
    monkeypatch.setattr(driver, "_primary_context", lambda index: 77)
    monkeypatch.setattr(wait_reports, "_loaded", [])
    monkeypatch.delenv("PYPTX_DEBUG", raising=False)
    monkeypatch.delenv("PYPTX_NVTX", raising=False)
    return made


def plan() -> Plan:
    return watching.make_plan(KERNEL, LAUNCH, [])


def test_launches_that_nothing_watches_are_ordinary_plans(fake: FakeDriver) -> None:
    made = plan()
    assert type(made) is Plan
    made([], 0)
    assert fake.launches == 1 and not fake.synchronizations


def test_captured_launches_are_noted(fake: FakeDriver) -> None:
    kernel = replace(KERNEL, captured=bytearray(1))
    made = watching.make_plan(kernel, LAUNCH, [])
    made([], 5)
    assert kernel.captured[0] == 0
    fake.capturing = bindings.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    made([], 5)
    assert kernel.captured[0] == 1
    other = replace(KERNEL, captured=bytearray(1))
    launch(other, LAUNCH, [], 5)
    assert other.captured[0] == 1


def test_sync_names_the_kernel_that_failed(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_DEBUG", "sync")
    made = plan()
    made([], 5)
    assert fake.synchronizations == [5, 5]  # before the launch, and after
    fake.fails_after = 1
    fake.synchronized = STATUS.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(
        KernelFailedError,
        match=r"gemm with grid \(4, 1, 1\), block \(128, 1, 1\) failed while it ran: CUDA_ERROR_ILLEGAL_ADDRESS",
    ):
        made([], 5)
    fake.fails_after = 0  # a kernel that another library launched before
    with pytest.raises(
        KernelFailedError, match="before the launch of gemm failed: CUDA_ERROR_ILLEGAL_ADDRESS"
    ):
        made([], 5)
    fake.synchronized = STATUS.CUDA_ERROR_OUT_OF_MEMORY  # no kernel causes this one
    with pytest.raises(LaunchError, match="of gemm failed: CUDA_ERROR_OUT_OF_MEMORY") as caught:
        made([], 5)
    assert not isinstance(caught.value, KernelFailedError)


def test_watched_launches_have_no_compiled_path(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at first nor with another grid; without the options the compiled path is asked."""
    asked: list[Any] = []
    compiled = SimpleNamespace(MOST_PARAMETERS=9, CONFIG_BYTES=0, Entry=lambda *given: asked.append(given))
    monkeypatch.setattr(quick, "native", lambda: compiled)
    monkeypatch.setattr(quick, "_address", lambda function: 1)
    monkeypatch.setattr(quick, "configuration", lambda launch: SimpleNamespace(getPtr=lambda: 1))
    monkeypatch.setattr(quick.ctypes, "string_at", lambda *given: b"")
    quick.entry(plan(), ())
    assert len(asked) == 1
    monkeypatch.setenv("PYPTX_DEBUG", "sync")
    made = plan()
    other = made.resized(Launch((9, 1, 1), LAUNCH.block, LAUNCH.cluster, 0), [])
    assert quick.entry(made, ()) is None and quick.entry(other, ()) is None and len(asked) == 1
    other([], 3)
    assert fake.synchronizations == [3, 3]


def test_a_stream_that_is_captured_is_not_synchronized(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYPTX_DEBUG", "sync")
    fake.capturing = bindings.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    plan()([], 5)
    assert fake.launches == 1 and not fake.synchronizations


def test_a_later_error_lists_the_last_launches(fake: FakeDriver) -> None:
    """The newest first, each kernel once, with the line that called it first; not those that only are ready."""
    first, second, ready = (
        watching.make_plan(replace(KERNEL, entry=name, function=function), LAUNCH, [])
        for name, function in (("first", 0xA1), ("second", 0xA2), ("ready", 0xA3))
    )
    for _ in range(40):
        second([], 0)
    first([], 0)
    fake.launched = STATUS.CUDA_ERROR_LAUNCH_FAILED
    with pytest.raises(KernelFailedError, match="a kernel failed that was launched earlier") as caught:
        ready([], 0)
    newest, oldest = caught.value.details
    assert newest.startswith("first (once), first called at ") and "test_failures.py:" in newest
    assert oldest.startswith("second (31 of the last 32 launches), first called at ")
    assert "PYPTX_DEBUG=sync" in caught.value.hint
    del second, caught
    gc.collect()
    assert [plan.kernel.entry for plan in failures._ready][-2:] == [
        "first",
        "ready",
    ]  # what is gone is not kept


def test_waits_that_expired_are_the_error(fake: FakeDriver) -> None:
    waits = bound_waits(build(by_wrapper).module(), 2.5)
    memory = bytearray(BUFFER_BYTES)
    reports = wait_reports.WaitReports("waits", waits, lambda: bytes(memory))
    wait_reports._loaded.append(reports)
    made = plan()
    fake.launched = STATUS.CUDA_ERROR_LAUNCH_FAILED
    with pytest.raises(KernelFailedError, match="launched earlier"):  # nothing is reported yet
        made([], 0)
    struct.pack_into("<IIQQQ3III", memory, 0, 1, 0, 0x450, 0, 10_000_000, 3, 1, 0, 1, 1)  # not over, not late
    struct.pack_into("<IIQQQ3III", memory, 128, 1, 0, 0x450, 1, 2_600_000_000, 3, 1, 0, 2, 0xF)
    for record in (0, 128):
        struct.pack_into("<I", memory, record + 64, 0x400)
    with pytest.raises(WaitTimeoutError) as caught:
        made([], 0)
    said = str(caught.value)
    assert "waits: 1 wait of a warp took longer than 2.5 s" in said
    longest, other = caught.value.details
    assert longest.startswith("CTA (3, 1, 0) warp 2 (4 lanes, mask 0x0000000f) waited 2.6 s for full[2]")
    assert other.startswith("CTA (3, 1, 0) warp 1 (1 lane, mask 0x00000001) waited 0.01 s for full[2]")
    assert "parity 1 at " in said and "ptx.mbarrier.wait(bar, 0)" in said
    assert reports.told


def test_what_no_error_told_is_printed_at_the_end(
    fake: FakeDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = bound_waits(build(by_wrapper).module(), 2.5)
    memory = struct.pack("<IIQQQ3III", 1, 0, 0x450, 1, 2_600_000_000, 3, 1, 0, 2, 0xF).ljust(
        BUFFER_BYTES, b"\0"
    )
    reports = wait_reports.WaitReports("waits", waits, lambda: memory)
    wait_reports._loaded.append(reports)
    wait_reports._tell_rest()
    assert "1 wait of a warp took longer than 2.5 s" in capsys.readouterr().err
    wait_reports._tell_rest()
    assert capsys.readouterr().err == ""


def test_launches_are_logged_and_marked(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ranges: list[str] = []
    marks = lambda name: ranges.append(name), lambda: ranges.append("end")
    monkeypatch.setattr(watching, "_markers", lambda: marks)
    monkeypatch.setenv("PYPTX_NVTX", "1")
    with caplog.at_level(logging.DEBUG, "pyptx"):
        plan()([], 5)
    assert ranges == ["pyptx: gemm", "end"] and not fake.synchronizations
    (record,) = [each for each in caplog.records if each.name == "pyptx.launch"]
    assert record.getMessage() == "launch gemm with grid (4, 1, 1), block (128, 1, 1) on GPU 0, stream 0x5"


def test_nvtx_needs_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    watching._markers.cache_clear()
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(SpecError, match="PYPTX_NVTX is set, but neither"):
        watching._markers()
    watching._markers.cache_clear()
