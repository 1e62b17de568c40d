"""The GPU in this machine, used through the driver alone.

Owns :class:`GpuDevice`: memory, launches, events, graphs of launches in a row, loads that last, and what the
driver tells.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.arrays import ArrayInfo, contiguous_strides
from ...core.errors import LaunchError, SpecError
from ...dsl import Tile
from ...entry import Kernel
from ...entry.specialize import Specialization, map_of
from ...runtime.driver import call, device_context, device_info, driver
from ...runtime.launch import PackedArguments, allow_cluster, configuration, launch, pack
from ...runtime.loader import LoadedKernel, load
from ...runtime.tensor_maps import encode
from ...runtime.unloading import unload_unused
from .board import Meter
from .device import Burst, Launched, Load, Sustained
from .kernels import readings, spin

__all__ = ["GpuDevice"]

#: PTX targets by compute capability.
_TARGETS = {(9, 0): "sm_90a", (10, 0): "sm_100a"}
#: How long the GPU is kept busy while the host enqueues launches in a row, in ns.
_HELD = 400_000
#: Constants by attributes of the driver.
_ATTRIBUTES = {
    "sm.count": "MULTIPROCESSOR_COUNT",
    "sm.smem_bytes": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "sm.smem_bytes_per_cta": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "sm.registers": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "sm.ctas": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "l2.capacity_bytes": "L2_CACHE_SIZE",
}
_WARP = 32
#: Sections of a launch of a load that lasts, a few ms; how long it runs, and how much of that is read, in s.
_SECTIONS, _LASTING, _READ = 2000, 2.4, 1.0
#: Launches must go on for so many s after the power has been read, else some of it is of an idle board.
_BEYOND = 0.002
#: Sections of a burst, about 20 ms, and the idle time before it in s.
_BURST, _REST = 4500, 0.5
#: Normally distributed numbers that fill an array, over and over, and where they begin.
_NORMAL, _SEED = 1 << 20, 0


class GpuDevice:
    """A GPU of this machine.

    Args:
        index: its number among the visible GPUs.

    Raises:
        LaunchError: there is no driver, or no such GPU.
        SpecError: no constants are known for GPUs of this architecture.
    """

    rounds, repeats = 16, 15
    #: A step of the timer: 32 ns on an H200; other GPUs may have steps of up to about a microsecond.
    timer_ns = 1024.0
    passes = 16
    memory = 48 << 30
    #: So many pages has the longest chain.
    visits = 1 << 14

    def __init__(self, index: int = 0) -> None:
        info = device_info(index)
        target = _TARGETS.get(info.compute_capability)
        if target is None:
            raise SpecError(
                f"{info.name} is {info.arch}: pyptx calibrate measures GPUs of sm_90 and sm_100",
                hint="there are no constants, and no microbenchmarks, for other architectures",
            )
        self._index = index
        self.title, self.target = info.name, target
        self.driver = "CUDA driver {}.{}".format(*info.driver_version)
        module = driver()
        with device_context(index):
            context = call("cuCtxGetCurrent")
        call("cuCtxSetCurrent", context)
        self._device = call("cuDeviceGet", index)
        self._queue = call("cuStreamCreate", int(module.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self._start, self._end = call("cuEventCreate", 0), call("cuEventCreate", 0)
        #: Memory that grows with the largest request, by its use.
        self._memory: dict[int | str, tuple[int, int]] = {}
        self._kernels: dict[Kernel, LoadedKernel] = {}
        self._graphs: dict[tuple[Kernel, int], Any] = {}
        self._metered: Meter | None = None

    def close(self) -> None:
        """Free the memory, the events and the stream."""
        for graph in self._graphs.values():
            call("cuGraphExecDestroy", graph)
        self._graphs.clear()
        for pointer, _ in self._memory.values():
            call("cuMemFree", pointer)
        self._memory.clear()
        call("cuEventDestroy", self._start)
        call("cuEventDestroy", self._end)
        call("cuStreamDestroy", self._queue)

    def usable(self) -> bool:
        try:
            call("cuCtxSynchronize")
        except LaunchError:
            return False
        return True

    # --- what the driver tells --------------------------------------------------------------------

    def _attribute(self, name: str) -> int:
        attribute = getattr(driver().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        value: int = call("cuDeviceGetAttribute", attribute, self._device)
        return value

    def facts(self) -> Mapping[str, float]:
        found = {name: float(self._attribute(attribute)) for name, attribute in _ATTRIBUTES.items()}
        found["sm.clock_max_mhz"] = self._attribute("CLOCK_RATE") / 1000
        found["sm.warps"] = float(self._attribute("MAX_THREADS_PER_MULTIPROCESSOR") // _WARP)
        found["hbm.capacity_bytes"] = float(call("cuDeviceTotalMem", self._device))
        return found

    # --- memory -----------------------------------------------------------------------------------

    def _allocated(self, use: int | str, nbytes: int) -> int:
        """Return the address of at least so many bytes for a use; contents are kept if it has not grown."""
        pointer, size = self._memory.get(use, (0, 0))
        if size < nbytes:
            if pointer:
                call("cuMemFree", pointer)
                del self._memory[use]
            pointer = int(call("cuMemAlloc", nbytes))
            self._memory[use] = pointer, nbytes
        return pointer

    def _array(self, use: int | str, spec: Tile, shape: tuple[int, ...]) -> ArrayInfo:
        """Return an array of zeros in the GPU's memory."""
        nbytes = math.prod(shape) * spec.dtype.nbytes
        pointer = self._allocated(use, max(1, nbytes))
        call("cuMemsetD8Async", pointer, 0, nbytes, self._queue)
        strides = contiguous_strides(shape, spec.dtype.nbytes)
        return ArrayInfo(spec.dtype, shape, strides, pointer, "cuda", self._index, nbytes, True, None)

    def _normal(self, array: ArrayInfo) -> None:
        """Fill an array with normally distributed bf16 numbers."""
        numbers = np.random.default_rng(_SEED).standard_normal(_NORMAL, np.float32)
        some = (numbers.view(np.uint32) >> 16).astype(np.uint16)  # bf16 is the upper half of f32
        done = min(some.nbytes, array.nbytes)
        call("cuMemcpyHtoD", array.pointer, some.ctypes.data, done)
        while done < array.nbytes:
            more = min(done, array.nbytes - done)
            call("cuMemcpyDtoDAsync", array.pointer + done, array.pointer, more, self._queue)
            done += more
        call("cuStreamSynchronize", self._queue)

    def _flush(self) -> None:
        """Fill L2 with other bytes: the first half of a buffer is copied over the second."""
        size = 2 * self._attribute("L2_CACHE_SIZE")
        pointer = self._allocated("flush", 2 * size)
        call("cuMemcpyDtoDAsync", pointer + size, pointer, size, self._queue)

    # --- launches ---------------------------------------------------------------------------------

    def _loaded(self, kernel: Kernel, *, anew: bool = False) -> tuple[LoadedKernel, Specialization]:
        """Return a kernel's module, which may have run before unless it is loaded ``anew``."""
        special = kernel.specialize()
        loaded = None if anew else self._kernels.get(kernel)
        if loaded is None:
            loaded = load(
                kernel.ptx(),
                special.entry,
                dynamic_smem=special.launch.dynamic_smem,
                device_index=self._index,
            )
            if not anew:
                self._kernels[kernel] = loaded
        return loaded, special

    def _packed(
        self, kernel: Kernel, special: Specialization, arrays: Sequence[ArrayInfo]
    ) -> PackedArguments:
        """Return the parameters of a launch: addresses and tensor maps."""
        found: list[Any] = []
        for slot in special.slots:
            pointer = arrays[slot.index].pointer
            if slot.kind == "map":
                found.append(
                    encode(map_of(kernel.options, slot.index, arrays[slot.index]), pointer, self._index)
                )
            else:
                found.append(pointer)
        return pack(found)

    def run(
        self, kernel: Kernel, inputs: Sequence[Any] = (), *, cold: bool = False, cold_code: bool = False
    ) -> Launched:
        specs = [spec for spec in kernel.options.specs if isinstance(spec, Tile)]
        arrays = [
            self._array(place, spec, spec.shape({}) if place >= len(inputs) else inputs[place])
            for place, spec in enumerate(specs)
        ]
        # No cache has the code of a module that has just been loaded.
        loaded, special = self._loaded(kernel, anew=cold_code)
        packed = self._packed(kernel, special, arrays)
        if cold:
            self._flush()
        call("cuStreamSynchronize", self._queue)
        call("cuEventRecord", self._start, self._queue)
        launch(loaded, special.launch, packed, int(self._queue))
        ns = self._ended()
        if cold_code:
            del loaded  # nothing else has the module
            unload_unused()
        outputs = arrays[len(inputs) :]
        return Launched(self._read(outputs[0]) if outputs else np.zeros(0, np.uint64), ns)

    def _ended(self) -> float:
        """Return the ns since the first event, when all work has ended."""
        call("cuEventRecord", self._end, self._queue)
        call("cuEventSynchronize", self._end)
        return float(call("cuEventElapsedTime", self._start, self._end)) * 1e6

    @staticmethod
    def _read(array: ArrayInfo) -> NDArray[np.uint64]:
        found = np.empty(array.shape, np.uint64)
        call("cuMemcpyDtoH", found.ctypes.data, array.pointer, array.nbytes)
        return found

    def stream(self, kernel: Kernel | None, count: int) -> float:
        graph = None if kernel is None or not count else self._graph(kernel, count)
        busy, special = self._loaded(spin(self.target, 1, _HELD))
        held = self._array("held", readings(1, 2), (1, 2))
        packed = pack([held.pointer])
        call("cuStreamSynchronize", self._queue)
        launch(busy, special.launch, packed, int(self._queue))
        call("cuEventRecord", self._start, self._queue)
        if graph is not None:
            call("cuGraphLaunch", graph, self._queue)
        return self._ended()

    def _graph(self, kernel: Kernel, count: int) -> Any:
        """Return a graph of ``count`` launches of a kernel without arrays, uploaded."""
        found = self._graphs.get((kernel, count))
        if found is None:
            loaded, special = self._loaded(kernel)
            mode = driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            call("cuStreamBeginCapture", self._queue, mode)
            for _ in range(count):
                launch(loaded, special.launch, [], int(self._queue))
            captured = call("cuStreamEndCapture", self._queue)
            found = self._graphs[kernel, count] = call("cuGraphInstantiate", captured, 0)
            call("cuGraphDestroy", captured)
            call("cuGraphLaunch", found, self._queue)  # the first launch of a graph uploads it
        return found

    def fitting(self, kernel: Kernel) -> int:
        loaded, special = self._loaded(kernel)
        allow_cluster(loaded, special.launch)
        config = configuration(special.launch)
        if math.prod(special.launch.cluster) == 1:
            each: int = call(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                loaded.function,
                math.prod(special.launch.block),
                special.launch.dynamic_smem,
            )
            return each * device_info(self._index).sm_count
        found: int = call("cuOccupancyMaxActiveClusters", loaded.function, config)
        return found

    # --- loads ------------------------------------------------------------------------------------

    def _meter(self) -> Meter:
        if self._metered is None:
            found = call("cuDeviceGetUuid", self._device)
            self._metered = Meter(f"GPU-{uuid.UUID(bytes=bytes(found.bytes))}")
        return self._metered

    def power_limit(self) -> float:
        return self._meter().limit

    def sustained(self, load: Load, data: str) -> Sustained:
        meter = self._meter()
        kernel = load(_SECTIONS)
        inputs = self._inputs(kernel, data)
        clocks, timers = self._launched(kernel, inputs)[0].T
        count = math.ceil(_LASTING * 1e9 / (timers[-1] - timers[0]))
        begin = time.monotonic()
        outputs = self._enqueued(kernel, inputs, count)
        time.sleep(max(0.0, begin + _LASTING - _READ - time.monotonic()))
        # The counter's steps are far shorter than what is left behind this.
        watts, read = meter.watts(0.7 * _READ), time.monotonic()
        call("cuStreamSynchronize", self._queue)
        if time.monotonic() - read < _BEYOND:
            raise SpecError(f"{kernel.options.entry} ended before its power was read")
        settled = self._finished(outputs)[count // 2 :].astype(np.int64)
        clocks, timers = settled[:, :, 0], settled[:, :, 1]
        cycles = float((clocks[:, -1] - clocks[:, 0]).mean())
        alone = float((timers[:, -1] - timers[:, 0]).mean())
        # With the gaps between launches, which the power has in it, too.
        ns = float(timers[-1, -1] - timers[0, 0]) / len(settled)
        return Sustained(cycles / alone * 1000, watts, cycles / _SECTIONS, ns / _SECTIONS)

    def burst(self, load: Load, data: str) -> Burst:
        kernel = load(_BURST)
        inputs = self._inputs(kernel, data)
        self._loaded(kernel)
        time.sleep(_REST)
        readings = self._launched(kernel, inputs)[0].astype(np.int64)
        clocks, timers = (readings - readings[0]).astype(np.float64).T
        return Burst(clocks, timers)

    def _inputs(self, kernel: Kernel, data: str) -> list[ArrayInfo]:
        """Return the arrays that a load reads."""
        specs = [spec for spec in kernel.options.specs[: kernel.options.inputs] if isinstance(spec, Tile)]
        arrays = [self._array(place, spec, spec.shape({})) for place, spec in enumerate(specs)]
        if data != "zeros":
            for each in arrays:
                self._normal(each)
        return arrays

    def _enqueued(self, kernel: Kernel, inputs: Sequence[ArrayInfo], count: int) -> ArrayInfo:
        """Enqueue launches in a row, each with an output of its own; return all of these."""
        loaded, special = self._loaded(kernel)
        (spec,) = (spec for spec in kernel.options.specs[kernel.options.inputs :] if isinstance(spec, Tile))
        outputs = self._array("readings", spec, (count, *spec.shape({})))
        each = outputs.nbytes // count
        for number in range(count):
            packed = pack([*(array.pointer for array in inputs), outputs.pointer + number * each])
            launch(loaded, special.launch, packed, int(self._queue))
        return outputs

    def _finished(self, outputs: ArrayInfo) -> NDArray[np.uint64]:
        """Return the outputs of launches that have been enqueued, when all have ended."""
        call("cuStreamSynchronize", self._queue)
        found = self._read(outputs)
        if not found.all():
            raise SpecError(f"{np.count_nonzero(found == 0)} readings of clocks are 0")
        return found

    def _launched(self, kernel: Kernel, inputs: Sequence[ArrayInfo]) -> NDArray[np.uint64]:
        """Return the output of one launch."""
        return self._finished(self._enqueued(kernel, inputs, 1))
