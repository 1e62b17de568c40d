"""A driver whose memory is host memory and whose kernels are Python: it runs what a worker asks for.

As a program it is a worker process that uses this driver.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

from tests.runtime.fake_driver import OK, STATUS, FakeDriver

#: Elements of the arrays.
N = 1024


class HostDriver(FakeDriver):
    """Runs kernels that double their input; the name of a kernel says what else it does.

    ``double_5`` takes 5 us of the driver's clock. A kernel with ``hang`` in its name never ends, one with ``trap`` breaks
    the context, and one with ``wrong`` triples.
    """

    def __init__(self) -> None:
        super().__init__()
        self.parameters = (8, 8)
        self.memory: dict[int, Any] = {}
        self.clock = 0.0
        self.captured: list[Any] | None = None
        self.graphs: list[list[Any]] = []
        #: The addresses that each launch got.
        self.launches: list[list[int]] = []
        self.status = OK
        self.room = 1 << 40
        self.names: dict[int, str] = {}

    def cuDeviceGetAttribute(self, attribute: Any, device: int) -> Any:
        return (
            (OK, 16 * N)
            if attribute.name.endswith("L2_CACHE_SIZE")
            else super().cuDeviceGetAttribute(attribute, device)
        )

    def cuCtxSetCurrent(self, context: int) -> Any:
        self.contexts = [context]
        return (OK,)

    def cuCtxSynchronize(self) -> Any:
        return (self.status,)

    def cuStreamCreate(self, flags: int) -> Any:
        assert flags == 1, "it does not wait for the default stream"
        return OK, 77

    def cuEventCreate(self, flags: int) -> Any:
        return OK, [0.0]

    def cuEventRecord(self, event: list[float], stream: int) -> Any:
        event[0] = self.clock
        return (OK,)

    def cuEventSynchronize(self, event: list[float]) -> Any:
        return (self.status,)

    def cuEventElapsedTime(self, start: list[float], end: list[float]) -> Any:
        return OK, (end[0] - start[0]) / 1e3

    def cuMemAlloc(self, nbytes: int) -> Any:
        if nbytes > self.room:
            return STATUS.CUDA_ERROR_OUT_OF_MEMORY, None
        self.room -= nbytes
        buffer = ctypes.create_string_buffer(nbytes + 256)
        address = -(-ctypes.addressof(buffer) // 256) * 256
        self.memory[address] = buffer
        return OK, address

    def cuMemFree(self, address: int) -> Any:
        del self.memory[address]
        return (OK,)

    def cuGraphExecDestroy(self, graph: Any) -> Any:
        self.graphs.remove(graph)
        return (OK,)

    def cuMemcpyHtoD(self, to: int, start: int, nbytes: int) -> Any:
        ctypes.memmove(to, start, nbytes)
        return (OK,)

    cuMemcpyDtoD = cuMemcpyDtoH = cuMemcpyHtoD

    def cuMemsetD8(self, to: int, value: int, nbytes: int) -> Any:
        ctypes.memset(to, value, nbytes)
        return (OK,)

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        status, function = super().cuModuleGetFunction(module, name)
        self.names[function] = name.decode()
        return status, function

    def cuStreamBeginCapture(self, stream: int, mode: Any) -> Any:
        self.captured = []
        return (OK,)

    def cuStreamEndCapture(self, stream: int) -> Any:
        assert self.captured is not None
        captured, self.captured = self.captured, None
        return OK, captured

    def cuGraphInstantiate(self, graph: list[Any], flags: int) -> Any:
        self.graphs.append(list(graph))
        return OK, self.graphs[-1]

    def cuGraphDestroy(self, graph: Any) -> Any:
        return (OK,)

    def cuGraphLaunch(self, graph: list[Any], stream: int) -> Any:
        for name, values in graph:
            self._run(name, values)
        return (OK,)

    def cuLaunchKernelEx(self, config: Any, function: int, parameters: int, extra: int) -> Any:
        assert int(config.hStream) == 77 and (config.blockDimX, config.gridDimX) == (32, 32)
        pointers = (ctypes.c_uint64 * 2).from_address(parameters)
        values = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
        if self.captured is not None:
            self.captured.append((self.names[function], values))
        else:
            self._run(self.names[function], values)
        return (OK,)

    def _run(self, name: str, values: list[int]) -> None:
        if "hang" in name:
            time.sleep(60)
        if "trap" in name:
            self.status = STATUS.CUDA_ERROR_LAUNCH_FAILED
        a, b = ((ctypes.c_float * N).from_address(address) for address in values)
        b[:] = (np.ctypeslib.as_array(a) * (3 if "wrong" in name else 2)).tolist()
        self.launches.append(values)
        self.clock += float(name.split("_")[-1])


def main() -> None:
    from pyptx.runtime import driver
    from pyptx.tools.autotune.on_gpu import CudaBackend
    from pyptx.tools.autotune.worker import serve

    host = HostDriver()
    driver._initialized = lambda: host  # type: ignore[assignment]
    serve(CudaBackend())


if __name__ == "__main__":
    main()
