"""Launches a loaded kernel.

Owns the packing of parameters into host memory and the call of ``cuLaunchKernelEx``.  The call comes after
all checks: the driver reads parameters through raw pointers, so with one parameter too few it would read
past their end.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.errors import ClusterSizeError, GridSizeError, ResourceError, SpecError, StreamError
from ..core.types import ScalarType
from ..ir import Launch
from .driver import check, device_context, device_info, driver
from .loader import LoadedKernel

__all__ = [
    "TOO_LARGE",
    "PackedArguments",
    "allow_cluster",
    "check_fit",
    "check_residency",
    "configuration",
    "current_stream",
    "describe_launch",
    "launch",
    "pack",
    "scalar_bytes",
    "stream_handle",
]

#: Statuses of a launch that may be too large to be resident: out of resources, cooperative launch too large,
#: invalid cluster size, and the invalid value that some drivers return in their place.
TOO_LARGE = (1, 701, 720, 912)
_TENSOR_MAP_BYTES = 128
_ALIGNMENT = 64  # of a tensor map; no other parameter needs more


class PackedArguments:
    """Kernel parameters in host memory in the driver's format; one object may serve many launches.

    Attributes:
        address: address of the array of parameter pointers (``void**``).
        sizes: bytes of each parameter.
    """

    __slots__ = ("_memory", "_pointers", "address", "sizes")

    def __init__(self, values: Sequence[bytes]) -> None:
        self.sizes = tuple(len(value) for value in values)
        offsets = []
        end = 0
        for value in values:
            # Each parameter is aligned to its size, a tensor map to 64 bytes.
            alignment = min(len(value), _ALIGNMENT)
            end = -(-end // alignment) * alignment
            offsets.append(end)
            end += len(value)
        self._memory = ctypes.create_string_buffer(end + _ALIGNMENT)
        base = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        for offset, value in zip(offsets, values, strict=True):
            ctypes.memmove(base + offset, value, len(value))
        self._pointers = (ctypes.c_void_p * max(1, len(values)))(*(base + offset for offset in offsets))
        self.address = ctypes.addressof(self._pointers)


def scalar_bytes(value: Any, type: ScalarType, where: str) -> bytes:
    """Return a number as the bytes of a type. Raises SpecError, which names ``where``, if it does not fit."""
    if (type.kind in "usb" and type.bits <= 64) or type.lanes > 1:
        try:
            number = operator.index(value)
        except TypeError:
            raise SpecError(f"{where}: {value!r} is not an integer, which type {type} requires") from None
        low = 0 if type.kind == "u" else -(1 << (type.bits - 1))
        high = (1 << (type.bits - (type.kind == "s"))) - 1
        if not low <= number <= high:
            raise SpecError(f"{where}: {number} does not fit {type}; expected {low}..{high}")
        return (number & ((1 << type.bits) - 1)).to_bytes(type.nbytes, "little")
    if type.kind == "f" and type.dtype is not None:
        try:
            number_f = float(value)
        except (TypeError, ValueError):
            raise SpecError(f"{where}: {value!r} is not a number, which type {type} requires") from None
        with np.errstate(over="ignore"):
            stored = np.array(number_f).astype(type.dtype)
        if math.isfinite(number_f) and not np.isfinite(stored.astype(np.float64)):
            raise SpecError(f"{where}: {number_f} does not fit {type}")
        return stored.tobytes()
    raise SpecError(f"{where}: type {type} cannot be a kernel parameter")


def _argument_bytes(argument: Any, index: int) -> bytes:
    where = f"kernel argument {index}"
    if isinstance(argument, tuple) and len(argument) == 2 and isinstance(argument[1], ScalarType):
        return scalar_bytes(argument[0], argument[1], where)
    if isinstance(argument, (int, np.integer)) and not isinstance(argument, bool):
        pointer = int(argument)
        if not 0 <= pointer < 1 << 64:
            raise SpecError(f"{where}: {pointer:#x} is not a device address: expected 0 to 2**64 - 1")
        return pointer.to_bytes(8, "little")
    if hasattr(argument, "opaque") and hasattr(argument, "getPtr"):  # CUtensorMap
        return ctypes.string_at(argument.getPtr(), _TENSOR_MAP_BYTES)
    raise SpecError(
        f"{where}: expected a device address (int), a pair (value, type) or a CUtensorMap, "
        f"got {argument!r} of type {type(argument).__name__}"
    )


def pack(args: Sequence[Any]) -> PackedArguments:
    """Pack arguments, given in the order of the kernel's parameters. An argument is one of

    - ``int``: a device address, 8 bytes;
    - ``(value, ScalarType)``: a scalar of that type;
    - ``CUtensorMap``: the map by value, 128 bytes.

    Raises:
        SpecError: an argument is something else, or its type cannot hold its value.
    """
    return PackedArguments([_argument_bytes(argument, index) for index, argument in enumerate(args)])


def current_stream(device_index: int) -> int:
    """Return the handle of torch's current stream on a GPU; 0 if torch does not use CUDA yet."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    handle: int = torch._C._cuda_getCurrentRawStream(device_index)
    return handle


def stream_handle(stream: Any, device_index: int) -> int:
    """Return the driver's handle of ``stream``.

    Args:
        stream: an integer handle, a stream of torch, of cuda.core or of CuPy, a ``CUstream``, or None. None
            means torch's current stream on the device if torch is imported and has initialized CUDA,
            otherwise the default stream.
        device_index: the GPU of the launch, whose current stream in torch None means.

    Raises:
        StreamError: ``stream`` is something else, or a stream of another GPU.
    """
    if stream is None:
        return current_stream(device_index)
    handle = _handle(stream)
    if handle is None:
        raise StreamError(
            "stream: expected None, an integer handle, or a stream of torch, cuda.core or CuPy, got "
            f"{stream!r} of type {type(stream).__name__}"
        )
    device = getattr(stream, "device", None)
    index = getattr(device, "index", getattr(device, "device_id", None))
    if isinstance(index, int) and index != device_index:
        raise StreamError(
            f"stream: {stream!r} is a stream of GPU {index}, but the arrays are on GPU {device_index}",
            hint="pass a stream of the GPU that has the arrays",
        )
    return handle


def _handle(stream: Any) -> int | None:
    """Return the driver's handle of a stream; None if ``stream`` is none."""
    if isinstance(stream, int):
        return None if isinstance(stream, bool) else stream
    found = getattr(stream, "cuda_stream", None)  # torch
    if found is None and hasattr(stream, "__cuda_stream__"):  # the protocol of cuda.core: (version, handle)
        found = stream.__cuda_stream__()
        found = found[1] if isinstance(found, tuple) and len(found) == 2 and found[0] == 0 else None
    if found is None:
        found = getattr(stream, "ptr", None)  # CuPy
    bindings = sys.modules.get("cuda.bindings.driver")
    if found is None and bindings is not None and isinstance(stream, bindings.CUstream):
        found = stream
    try:
        return None if found is None or isinstance(found, bool) else int(found)
    except (TypeError, ValueError):
        return None


#: Cached, so that each launch configuration is checked once.
_check_extents = lru_cache(maxsize=1024)(Launch.check)


def check_fit(kernel: LoadedKernel, launch: Launch, sizes: tuple[int, ...]) -> None:
    """Raise SpecError if parameters of these sizes, or the configuration, do not fit the kernel."""
    _check_extents(launch)
    if sizes != kernel.parameter_bytes:
        raise SpecError(
            f"{kernel.entry!r} takes {len(kernel.parameter_bytes)} parameters of {kernel.parameter_bytes} "
            f"bytes, got {len(sizes)} of {sizes} bytes"
        )
    if launch.dynamic_smem > kernel.dynamic_smem:
        raise SpecError(
            f"{kernel.entry!r} was loaded for {kernel.dynamic_smem} bytes of dynamic shared memory, but "
            f"the launch needs {launch.dynamic_smem}",
            hint=f"load it with dynamic_smem={launch.dynamic_smem}",
        )
    threads = math.prod(launch.block)
    if threads > kernel.max_threads:
        raise ResourceError(
            f"block {launch.block} has {threads} threads, but {kernel.entry!r} with {kernel.registers} "
            f"registers allows at most {kernel.max_threads}",
            hint="check .maxntid or .reqntid, or use fewer registers",
        )


def check_residency(kernel: LoadedKernel, launch: Launch) -> None:
    """Raise an error if a cluster, or the grid of a cooperative launch, cannot be resident at the same time.

    The kernel's context must be current.

    Raises:
        ClusterSizeError: no cluster fits; the message has the largest size that does.
        GridSizeError: the grid of a cooperative launch is too large; the message has the number that fits.
    """
    module = driver()
    config, size = configuration(launch), math.prod(launch.cluster)
    needs = f"with {launch.dynamic_smem + kernel.static_smem} bytes of shared memory and {kernel.registers} "
    needs += f"registers x {math.prod(launch.block)} threads each"
    if size > 1:
        status, resident = module.cuOccupancyMaxActiveClusters(kernel.function, config)
        if int(status) == 0 and resident == 0:
            status, most = module.cuOccupancyMaxPotentialClusterSize(kernel.function, config)
            fits = f"at most {most} can" if int(status) == 0 else "fewer may fit"
            raise ClusterSizeError(
                f"{kernel.entry!r}: the {size} CTAs of a cluster {launch.cluster}, {needs}, cannot be "
                f"resident at the same time: {fits}",
                hint="use a smaller cluster, fewer stages or smaller tiles",
            )
        resident *= size
    else:
        status, resident = module.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            kernel.function, math.prod(launch.block), launch.dynamic_smem
        )
        resident *= device_info(kernel.device_index).sm_count
    ctas = math.prod(launch.grid)
    if launch.cooperative and int(status) == 0 and ctas > resident:
        raise GridSizeError(
            f"{kernel.entry!r} is launched cooperatively: its {ctas} CTAs, {needs}, must be resident at the "
            f"same time, but at most {resident} can",
            hint=f"use a grid of at most {resident} CTAs, each of which loops over tiles",
        )


def describe_launch(kernel: LoadedKernel, launch: Launch) -> str:
    """The driver's call for messages, with the resources that it asks for."""
    return (
        f"cuLaunchKernelEx of {kernel.entry!r} with grid {launch.grid}, block {launch.block}, "
        f"cluster {launch.cluster}, {launch.dynamic_smem} bytes of dynamic shared memory, "
        f"{kernel.registers} registers per thread"
    )


def configuration(launch: Launch) -> Any:
    """Return the driver's ``CUlaunchConfig`` of a launch, on the default stream."""
    module = driver()
    config = module.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
    config.sharedMemBytes = launch.dynamic_smem
    config.hStream = 0
    attributes = _attributes(launch)
    config.numAttrs = len(attributes)
    if attributes:
        config.attrs = attributes
    return config


def _attributes(launch: Launch) -> list[Any]:
    """Return the driver's ``CUlaunchAttribute`` s of a launch."""
    module = driver()
    found: list[Any] = []

    def attribute(name: str) -> Any:
        """Add an attribute; return its value, of which the caller sets a field."""
        made = module.CUlaunchAttribute()
        made.id = getattr(module.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        found.append(made)
        return made.value

    if launch.cluster != (1, 1, 1):
        size = attribute("CLUSTER_DIMENSION").clusterDim
        size.x, size.y, size.z = launch.cluster
    if launch.cooperative:
        attribute("COOPERATIVE").cooperative = 1
    if launch.dependent:
        attribute("PROGRAMMATIC_STREAM_SERIALIZATION").programmaticStreamSerializationAllowed = 1
    if launch.priority is not None:
        attribute("PRIORITY").priority = launch.priority
    if launch.carveout is not None:
        attribute("PREFERRED_SHARED_MEMORY_CARVEOUT").sharedMemCarveout = launch.carveout
    return found


def allow_cluster(kernel: LoadedKernel, launch: Launch) -> None:
    """Allow clusters of more than 8 CTAs, if the launch has them. The kernel's context must be current."""
    if math.prod(launch.cluster) > 8:
        module = driver()
        allowed = module.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        check(module.cuFuncSetAttribute(kernel.function, allowed, 1), "cuFuncSetAttribute")


def launch(
    kernel: LoadedKernel, launch: Launch, args: Sequence[Any] | PackedArguments, stream: Any = None
) -> None:
    """Enqueue one launch of ``kernel``, without waiting for it to finish.

    Args:
        kernel: the result of :func:`pyptx.runtime.loader.load`.
        launch: grid, block, cluster and dynamic shared memory.
        args: the arguments that :func:`pack` takes, or its result, which skips the packing.
        stream: a stream that :func:`stream_handle` takes.

    Raises:
        SpecError: the arguments do not fit the kernel's parameters, or extents are outside the limits.
        LaunchError: the driver refused the launch, or an earlier kernel failed.
    """
    packed = args if isinstance(args, PackedArguments) else pack(args)
    check_fit(kernel, launch, packed.sizes)
    config = configuration(launch)
    handle = stream_handle(stream, kernel.device_index)
    config.hStream = handle
    with device_context(kernel.device_index):
        allow_cluster(kernel, launch)
        result = driver().cuLaunchKernelEx(config, kernel.function, packed.address, 0)
        if int(result[0]) in TOO_LARGE:
            check_residency(kernel, launch)
        check(result, describe_launch(kernel, launch))
    kernel.note_capture(handle)
