"""A stand-in for ``cuda.bindings.driver`` that loads modules and launches nothing, for tests without a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyptx.runtime import driver as owner

bindings = pytest.importorskip("cuda.bindings.driver")

STATUS = bindings.CUresult
OK = STATUS.CUDA_SUCCESS
option = bindings.CUjit_option


class FakeDriver:
    """GPUs of compute capability 9.0.

    Attributes:
        compiled: the texts that the JIT compiled.
        loaded: images of the modules that are loaded, by module.
        unloaded: modules that were unloaded.
        jit_status: what the JIT answers, and with which error log.
        refused: images that the driver refuses to load.
        capturing: whether loading needs the relaxed capture mode.
        parameters: sizes of the kernel's parameters.
    """

    def __init__(self, devices: int = 2) -> None:
        self.devices = devices
        self.compiled: list[bytes] = []
        self.loaded: dict[int, bytes] = {}
        self.unloaded: list[int] = []
        self.jit_status: tuple[Any, str] = (OK, "")
        self.refused: set[bytes] = set()
        self.capturing = False
        self.parameters = (8, 8, 8)
        self.static_smem = 0
        self.version = 13000
        self.mode = bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        self.contexts = [0]
        self._next = 100

    def __getattr__(self, name: str) -> Any:
        return getattr(bindings, name)

    def cuDeviceGetCount(self) -> Any:
        return OK, self.devices

    def cuDeviceGet(self, index: int) -> Any:
        return OK, index

    def cuDriverGetVersion(self) -> Any:
        return OK, self.version

    def cuDeviceGetName(self, length: int, device: int) -> Any:
        return OK, b"Fake GPU\0"

    def cuDeviceGetAttribute(self, attribute: Any, device: int) -> Any:
        names = {"MAJOR": 9, "MINOR": 0, "MULTIPROCESSOR_COUNT": 132, "OPTIN": 232448}
        return OK, next(value for name, value in names.items() if attribute.name.endswith(name))

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return OK, 1000 + device

    def cuCtxGetCurrent(self) -> Any:
        return OK, self.contexts[-1]

    def cuCtxPushCurrent(self, context: int) -> Any:
        self.contexts.append(context)
        return (OK,)

    def cuCtxPopCurrent(self) -> Any:
        return OK, self.contexts.pop()

    def cuStreamIsCapturing(self, stream: int) -> Any:
        status = bindings.CUstreamCaptureStatus
        return OK, getattr(status, f"CU_STREAM_CAPTURE_STATUS_{'ACTIVE' if self.capturing else 'NONE'}")

    def cuCtxSynchronize(self) -> Any:
        return (OK,)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> Any:
        before, self.mode = self.mode, mode
        return OK, before

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: list[Any], values: list[Any]) -> Any:
        assert image[-1] == 0 and count == len(options) == len(values)
        status, log = self.jit_status
        dict(zip(options, values, strict=True))[option.CU_JIT_ERROR_LOG_BUFFER][: len(log)] = log.encode()
        if status != OK:
            return status, None
        self.compiled.append(image[:-1])
        return self.cuModuleLoadData(image[:-1])

    def cuModuleLoadData(self, image: bytes) -> Any:
        assert self.contexts[-1] >= 1000, "no context is current"
        if self.capturing and self.mode != bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED:
            return STATUS.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, None
        if image in self.refused:
            return STATUS.CUDA_ERROR_INVALID_IMAGE, None
        self._next += 1
        self.loaded[self._next] = image
        return OK, self._next

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        if b".entry " + name not in self.loaded[module]:
            return STATUS.CUDA_ERROR_NOT_FOUND, None
        return OK, module + 10_000

    def cuModuleUnload(self, module: int) -> Any:
        del self.loaded[module]
        self.unloaded.append(module)
        return (OK,)

    def cuFuncGetAttribute(self, attribute: Any, function: int) -> Any:
        names = {"NUM_REGS": 32, "SHARED_SIZE_BYTES": self.static_smem, "LOCAL_SIZE_BYTES": 0}
        return OK, next((value for name, value in names.items() if attribute.name.endswith(name)), 1024)

    def cuFuncSetAttribute(self, function: int, attribute: Any, value: int) -> Any:
        return (OK,)

    def cuFuncGetParamInfo(self, function: int, index: int) -> Any:
        if index >= len(self.parameters):
            return STATUS.CUDA_ERROR_INVALID_VALUE, 0, 0
        return OK, 8 * index, self.parameters[index]


@contextmanager
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Put a fake in the place of the driver."""
    fake = FakeDriver()
    caches = (owner.device_info, owner._primary_context)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(owner, "_initialized", lambda: fake)
    monkeypatch.setattr(owner, "_owner", os.getpid())
    try:
        yield fake
    finally:
        for cache in caches:
            cache.cache_clear()
