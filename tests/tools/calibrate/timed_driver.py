"""A driver whose memory is host memory and whose kernels the timed machine runs, by the constants of a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from pyptx import Tile
from pyptx.timing.constants import Gpu
from pyptx.tools.calibrate.predicted import PredictedDevice
from tests.runtime.fake_driver import OK
from tests.tools.autotune.host_driver import HostDriver


class TimedDriver(HostDriver):
    """Runs kernels that take addresses alone.

    Args:
        gpu: the constants.
        kernels: by the name of its entry, each kernel that may be loaded.
    """

    def __init__(self, gpu: Gpu, kernels: dict[str, Any]) -> None:
        super().__init__()
        self._gpu, self._kernels, self._machine = gpu, kernels, PredictedDevice(gpu)
        self._current = ""

    def cuDeviceGetAttribute(self, attribute: Any, device: int) -> Any:
        value = self._gpu.value
        told = {
            "MULTIPROCESSOR_COUNT": value("sm.count"),
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": value("sm.smem_bytes"),
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": value("sm.smem_bytes_per_cta"),
            "MAX_REGISTERS_PER_MULTIPROCESSOR": value("sm.registers"),
            "MAX_BLOCKS_PER_MULTIPROCESSOR": value("sm.ctas"),
            "MAX_THREADS_PER_MULTIPROCESSOR": 32 * value("sm.warps"),
            "L2_CACHE_SIZE": value("l2.capacity_bytes"),
            "CLOCK_RATE": 1000 * value("sm.clock_max_mhz"),
            "COMPUTE_CAPABILITY_MAJOR": 9,
            "COMPUTE_CAPABILITY_MINOR": 0,
        }
        return OK, int(told[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")])

    def cuDeviceTotalMem(self, device: int) -> Any:
        return OK, int(self._gpu.value("hbm.capacity_bytes"))

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        self._current = name.decode()
        return super().cuModuleGetFunction(module, name)

    def cuFuncGetParamInfo(self, function: int, index: int) -> Any:
        self.parameters = (8,) * len(self._kernels[self._current].options.specs)
        return super().cuFuncGetParamInfo(function, index)

    def cuEventRecord(self, event: list[float], stream: int) -> Any:
        self.clock += self._gpu.value("launch.event_ns") / 1e3
        return super().cuEventRecord(event, stream)

    def cuEventDestroy(self, event: Any) -> Any:
        return (OK,)

    cuStreamDestroy = cuStreamSynchronize = cuEventDestroy

    def cuMemsetD8Async(self, to: int, value: int, nbytes: int, stream: int) -> Any:
        return self.cuMemsetD8(to, value, nbytes)

    def cuMemcpyDtoDAsync(self, to: int, start: int, nbytes: int, stream: int) -> Any:
        return self.cuMemcpyDtoD(to, start, nbytes)

    def cuLaunchKernelEx(self, config: Any, function: int, parameters: int, extra: int) -> Any:
        name = self.names[function]
        count = len(self._kernels[name].options.specs)
        pointers = (ctypes.c_uint64 * count).from_address(parameters) if count else ()
        values = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
        if self.captured is not None:
            self.captured.append((name, values))
        else:
            self._run(name, values)
        return (OK,)

    def _run(self, name: str, values: list[int]) -> None:
        kernel = self._kernels[name]
        specs = [spec for spec in kernel.options.specs if isinstance(spec, Tile)]
        inputs = [spec.shape({}) for spec in specs[: kernel.options.inputs]]
        found = self._machine.run(kernel, inputs)
        if len(specs) > len(inputs):
            output = np.ascontiguousarray(found.output)
            ctypes.memmove(values[-1], output.ctypes.data, output.nbytes)
        self.clock += (found.ns - self._gpu.value("launch.event_ns")) / 1e3

    def cuOccupancyMaxActiveClusters(self, function: int, config: Any) -> Any:
        return OK, self._machine.fitting(self._kernels[self.names[function]])

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: int, threads: int, shared: int) -> Any:
        return OK, 1
