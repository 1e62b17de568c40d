"""The worker's side of a measurement on a GPU: arrays, launches in graphs, events, comparison of outputs.

Owns :class:`CudaBackend`, which uses the driver alone, through :mod:`pyptx.runtime`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import LaunchError
from ...core.records import dataclass
from ...core.types import TYPES, ScalarType
from ...ir import Launch
from ...layout import TensorMap
from ...runtime.driver import call, device_context, device_info, driver
from ...runtime.launch import PackedArguments, launch, pack
from ...runtime.loader import LoadedKernel, load
from ...runtime.tensor_maps import encode
from .outputs import group_of

__all__ = ["CudaBackend"]

#: Numbers that are drawn at random; larger arrays repeat them.
_DRAWN = 1 << 22
#: Bounds on the number of sets of arrays that launches take in turns: they fill the L2 cache twice.
_MIN_SETS, _MAX_SETS = 2, 8
#: Bytes of an output that are compared, in this many pieces.
_COMPARED, _PIECES = 1 << 25, 16


@dataclass(eq=False)
class _Loaded:
    """A candidate on the GPU: its kernel, launch, the parameters for each set of arrays, and its graphs."""

    kernel: LoadedKernel
    launch: Launch
    packed: list[PackedArguments]
    outputs: list[tuple[int, ScalarType, int]]
    graphs: dict[int, Any]


class CudaBackend:
    """A GPU, used through the driver in its primary context, which is current from :meth:`open` on."""

    def __init__(self) -> None:
        self._device = 0
        self._folder = Path()
        self._stream: Any = None
        self._events: tuple[Any, Any] = (None, None)
        self._l2 = 0
        self._loaded: dict[int, _Loaded] = {}
        #: Addresses of arrays, for each set, by what they hold.
        self._arrays: dict[Any, list[int]] = {}

    def open(self, device: int, folder: str) -> dict[str, Any]:
        self.close()
        info = device_info(device)
        module = driver()
        self._device, self._folder = device, Path(folder)
        with device_context(device):
            context = call("cuCtxGetCurrent")
        call("cuCtxSetCurrent", context)
        attribute = module.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
        self._l2 = call("cuDeviceGetAttribute", attribute, call("cuDeviceGet", device))
        self._stream = call("cuStreamCreate", int(module.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self._events = (call("cuEventCreate", 0), call("cuEventCreate", 0))
        return {
            "gpu": info.name,
            "driver": ".".join(map(str, info.driver_version)),
            "multiprocessors": info.sm_count,
        }

    def close(self) -> dict[str, Any]:
        for candidate in self._loaded.values():
            for graph in candidate.graphs.values():
                call("cuGraphExecDestroy", graph)
        for pointers in self._arrays.values():
            for pointer in pointers:
                call("cuMemFree", pointer)
        self._loaded.clear()
        self._arrays.clear()
        return {}

    def alive(self) -> bool:
        try:
            call("cuCtxSynchronize")
        except LaunchError:
            return False
        return True

    # --- arrays -----------------------------------------------------------------------------------

    def load(self, number: int, kernel: dict[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = kernel["launch"]
        extents = {name: tuple(given[name]) for name in ("grid", "block", "cluster")}
        configured = Launch(**{**given, **extents})
        loaded = load(
            Path(kernel["text"]).read_text(encoding="utf-8"),
            kernel["entry"],
            dynamic_smem=configured.dynamic_smem,
            device_index=self._device,
        )
        arrays = kernel["arrays"]
        nbytes = sum(self._nbytes(array) for array in arrays if array is not None)
        sets = min(max(math.ceil(2 * self._l2 / max(nbytes, 1)), _MIN_SETS), _MAX_SETS)
        held = [
            [] if array is None else self._array(place, array, sets) for place, array in enumerate(arrays)
        ]
        sets = min((len(pointers) for pointers in held if pointers), default=sets)
        packed = [
            pack([self._argument(parameter, arrays, held, turn) for parameter in kernel["parameters"]])
            for turn in range(sets)
        ]
        outputs = [
            (held[place][0], TYPES[array["type"]], self._nbytes(array))
            for place, array in enumerate(arrays)
            if array is not None and array["role"] == "out"
        ]
        self._loaded[number] = _Loaded(loaded, configured, packed, outputs, {})
        return {}

    @staticmethod
    def _nbytes(array: dict[str, Any]) -> int:
        count: int = math.prod(array["shape"])
        return count * TYPES[array["type"]].nbytes

    def _argument(
        self, parameter: dict[str, Any], arrays: list[Any], held: list[list[int]], turn: int
    ) -> Any:
        if parameter["kind"] == "scalar":
            return parameter["value"], TYPES[parameter["type"]]
        place = parameter["array"]
        pointer = held[place][turn]
        if parameter["kind"] == "pointer":
            return pointer
        described = TensorMap.tiled(
            0,
            shape=parameter["shape"],
            strides=parameter["strides"],
            dtype=parameter["type"],
            box=parameter["box"],
            swizzle=parameter["swizzle"],
            l2_promotion=parameter["promotion"],
        )
        return encode(described, pointer, self._device)

    def _array(self, place: int, array: dict[str, Any], sets: int) -> list[int]:
        """Return the addresses of an array in each set; candidates share them.

        There are fewer sets if the GPU has no memory for more.
        """
        key = (place, array["role"], array["type"], tuple(array["shape"]))
        found = self._arrays.setdefault(key, [])
        nbytes = self._nbytes(array)
        while len(found) < sets:
            try:
                pointer = int(call("cuMemAlloc", max(nbytes, 1)))
            except LaunchError:
                if not found:
                    raise
                break
            if found and array["role"] == "in":
                call("cuMemcpyDtoD", pointer, found[0], nbytes)
            elif array["role"] == "in":
                self._fill(pointer, nbytes, place, array)
            elif array["role"] == "workspace":  # a kernel leaves a zeroed one as it was
                call("cuMemsetD8", pointer, 0, nbytes)
                call("cuCtxSynchronize")
            found.append(pointer)
        return found[:sets]

    def _fill(self, pointer: int, nbytes: int, place: int, array: dict[str, Any]) -> None:
        """Write an input: the caller's contents, or random numbers of the standard normal distribution."""
        if array["contents"] is not None:
            raw = np.fromfile(array["contents"], np.uint8)
        else:
            count = min(math.prod(array["shape"]), _DRAWN)
            drawn = np.random.default_rng(place).standard_normal(count, np.float32)
            raw = drawn.astype(np.dtype(TYPES[array["type"]].dtype)).view(np.uint8)
        written = min(raw.nbytes, nbytes)
        if written:
            call("cuMemcpyHtoD", pointer, raw.ctypes.data, written)
        while 0 < written < nbytes:  # repeat what was drawn
            more = min(written, nbytes - written)
            call("cuMemcpyDtoD", pointer + written, pointer, more)
            written += more

    # --- launches ---------------------------------------------------------------------------------

    def first(self, number: int) -> dict[str, Any]:
        candidate = self._loaded[number]
        for pointer, _, nbytes in candidate.outputs:
            call("cuMemsetD8", pointer, 0xFF, nbytes)
        call("cuCtxSynchronize")
        us = self._timed(lambda: self._enqueue(candidate, 0))
        found = [
            np.concatenate([self._read(pointer + start, size) for start, size in _pieces(nbytes, type)]).view(
                np.uint8 if type.dtype is None else type.dtype
            )
            for pointer, type, nbytes in candidate.outputs
        ]
        return {"us": us, "group": group_of(found, self._folder)}

    @staticmethod
    def _read(pointer: int, nbytes: int) -> Any:
        raw = np.empty(nbytes, np.uint8)
        call("cuMemcpyDtoH", raw.ctypes.data, pointer, nbytes)
        return raw

    def time(self, number: int, launches: int) -> dict[str, Any]:
        candidate = self._loaded[number]
        graph = candidate.graphs.get(launches)
        if graph is None:
            graph = candidate.graphs[launches] = self._capture(candidate, launches)
            call("cuGraphLaunch", graph, self._stream)  # the first launch of a graph uploads it
        us = self._timed(lambda: call("cuGraphLaunch", graph, self._stream))
        return {"us": us / launches}

    def _enqueue(self, candidate: _Loaded, turn: int) -> None:
        launch(candidate.kernel, candidate.launch, candidate.packed[turn], int(self._stream))

    def _capture(self, candidate: _Loaded, launches: int) -> Any:
        """Return a graph of launches that take the sets of arrays in turns."""
        module = driver()
        mode = module.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        call("cuStreamBeginCapture", self._stream, mode)
        for turn in range(launches):
            self._enqueue(candidate, turn % len(candidate.packed))
        captured = call("cuStreamEndCapture", self._stream)
        graph = call("cuGraphInstantiate", captured, 0)
        call("cuGraphDestroy", captured)
        return graph

    def _timed(self, enqueue: Any) -> float:
        """Return the microseconds between events around what ``enqueue`` starts."""
        start, end = self._events
        call("cuEventRecord", start, self._stream)
        enqueue()
        call("cuEventRecord", end, self._stream)
        call("cuEventSynchronize", end)
        return float(call("cuEventElapsedTime", start, end)) * 1e3


def _pieces(nbytes: int, type: ScalarType) -> list[tuple[int, int]]:
    """Return the offsets and sizes of the pieces of an output that are compared, all of a small one."""
    if nbytes <= _COMPARED:
        return [(0, nbytes)]
    size = _COMPARED // _PIECES
    step = (nbytes - size) // (_PIECES - 1) // type.nbytes * type.nbytes
    return [(step * piece, size) for piece in range(_PIECES)]
