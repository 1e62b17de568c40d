"""Without a driver every entry says so; statuses become errors that name the call."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import DevicePermissionError, DriverVersionError, LaunchError, NoDriverError
from pyptx.layout import TensorMap
from pyptx.runtime import driver, jit, loader, tensor_maps

bindings = pytest.importorskip("cuda.bindings.driver")


def has_driver() -> bool:
    try:
        bindings.cuInit(0)
    except RuntimeError:
        return False
    return True


without_driver = pytest.mark.skipif(has_driver(), reason="this machine has a CUDA driver")


@without_driver
def test_no_driver_is_said_by_every_entry() -> None:
    tensor_map = TensorMap.tiled(np.zeros((8, 64), np.float16), box=(8, 64))
    for attempt in (
        driver.driver,
        driver.device_count,
        lambda: driver.device_info(0),
        lambda: loader.load(".version 8.0", "k", dynamic_smem=0, device_index=0),
        lambda: tensor_maps.encode(tensor_map, 0),
    ):
        with pytest.raises(LaunchError, match=r"no CUDA driver(?s:.*)simulator"):
            attempt()


def test_missing_bindings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    driver._initialized.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(LaunchError, match=r"cuda-bindings(?s:.*)pip install"):
        driver.driver()
    driver._initialized.cache_clear()


def test_check_unpacks_success() -> None:
    ok = bindings.CUresult.CUDA_SUCCESS
    assert driver.check((ok,), "f") is None
    assert driver.check((ok, 7), "f") == 7
    assert driver.check((ok, 7, 8), "f") == (7, 8)


def test_check_names_call_and_status() -> None:
    with pytest.raises(LaunchError, match=r"cuFoo\(3\) failed: CUDA_ERROR_INVALID_VALUE \(1\)"):
        driver.check((bindings.CUresult.CUDA_ERROR_INVALID_VALUE, None), "cuFoo(3)")
    with pytest.raises(LaunchError, match=r"CUDA_ERROR_LAUNCH_FAILED \(719\)(?s:.*)asynchronous"):
        driver.check((bindings.CUresult.CUDA_ERROR_LAUNCH_FAILED,), "cuStreamSynchronize")


def refusal(code: int, text: str, log: str = "") -> str:
    h200 = driver.DeviceInfo(0, "NVIDIA H200", (9, 0), 132, 232448, (13, 0))
    return str(jit._refusal(bindings.CUresult(code), text, "gemm", h200, log))


def test_refused_texts_are_explained() -> None:
    text = ".version 9.4\n.target sm_100a\nno.such %r1;\n"
    said = refusal(218, text, "ptxas application ptx input, line 3; error : no such instruction")
    assert "'gemm' (CUDA_ERROR_INVALID_PTX (218)" in said
    assert "no such instruction" in said and "PTX line 3: no.such %r1;" in said
    assert ".target sm_100a, but GPU 0 (NVIDIA H200) is sm_90" in said
    said = refusal(222, text)
    assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)" in said and "no log" in said
    assert ".version 9.4, which is newer than this driver (CUDA 13.0)" in said
    assert "kernel.assemble()" in refusal(218, ".version 8.0\n.target sm_90a\n", "syntax error")


class FakeDriver:
    """A driver that encodes only where a context is current, as the real one does."""

    def __init__(self) -> None:
        self.contexts: list[int] = []
        self.encoded: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return lambda value: value

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tuple[int, str]:
        self.encoded.append(arguments[2])
        return (0, "map") if self.contexts else (201, "")


def test_a_context_is_current_while_the_driver_encodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this is the first thing that a process asks of the driver."""
    fake = FakeDriver()

    def call(name: str, *arguments: Any) -> Any:
        if name == "cuCtxPushCurrent":
            fake.contexts.append(arguments[0])
        elif name == "cuCtxPopCurrent":
            fake.contexts.pop()
        return {"cuDevicePrimaryCtxRetain": 77, "cuCtxGetCurrent": 0}.get(name, arguments and arguments[0])

    monkeypatch.setattr(tensor_maps, "driver", lambda: fake)
    monkeypatch.setattr(driver, "call", call)
    monkeypatch.setattr(driver, "_primary_context", lambda index: 70 + index)
    tensor_map = TensorMap.tiled(np.zeros((8, 64), np.float16), box=(8, 64))
    assert tensor_maps.encode(tensor_map, 0x7000, 1) == "map"
    assert fake.encoded == [0x7000] and not fake.contexts


@pytest.mark.parametrize(
    ("status", "denied", "error", "words"),
    [
        (100, False, NoDriverError, "check nvidia-smi"),
        (100, True, DevicePermissionError, r"may not open .*nvidia0"),
        (304, True, DevicePermissionError, "join the group"),
        (804, False, DriverVersionError, "remove the package cuda-compat"),
        (803, False, DriverVersionError, "restart the machine"),
    ],
)
def test_a_driver_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, status: int, denied: bool, error: type[LaunchError], words: str
) -> None:
    monkeypatch.setattr(bindings, "cuInit", lambda flags: (bindings.CUresult(status),))
    monkeypatch.setattr(driver, "_may_open", lambda path: not denied)
    monkeypatch.setattr(driver.Path, "glob", lambda self, pattern: [driver.Path("/dev/nvidia0")])
    with pytest.raises(error, match=words):
        driver._initialized.__wrapped__()


def test_no_driver_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(flags: int) -> None:
        raise RuntimeError("libcuda.so.1 not found")

    monkeypatch.setattr(bindings, "cuInit", missing)
    with pytest.raises(
        NoDriverError, match=r"no CUDA driver on this machine: libcuda.so.1(?s:.*)install the NVIDIA"
    ):
        driver._initialized.__wrapped__()
    monkeypatch.setattr(driver, "driver", lambda: bindings)
    monkeypatch.setattr(bindings, "cuDeviceGetCount", lambda: missing(0))
    with pytest.raises(DriverVersionError, match="cuDeviceGetCount is not available"):
        driver.call("cuDeviceGetCount")
