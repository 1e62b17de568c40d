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

from ..core.errors import SpecError
from ..core.types import ScalarType
from ..ir import Launch
from .driver import check, device_context, driver
from .loader import LoadedKernel

__all__ = [
    "PackedArguments",
    "allow_cluster",
    "check_fit",
    "configuration",
    "current_stream",
    "describe_launch",
    "launch",
    "pack",
    "scalar_bytes",
    "stream_handle",
]

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
        stream: an integer handle, an object with ``cuda_stream`` (torch), or None. None means torch's current
            stream on the device if torch is imported and has initialized CUDA, otherwise the default stream.
        device_index: the GPU whose current stream in torch None means.

    Raises:
        SpecError: ``stream`` is something else.
    """
    if stream is None:
        return current_stream(device_index)
    handle = getattr(stream, "cuda_stream", stream)
    if isinstance(handle, int) and not isinstance(handle, bool):
        return handle
    raise SpecError(
        f"stream: expected None, an integer handle or an object with cuda_stream, got {stream!r} of type "
        f"{type(stream).__name__}"
    )


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
        raise SpecError(
            f"block {launch.block} has {threads} threads, but {kernel.entry!r} with {kernel.registers} "
            f"registers allows at most {kernel.max_threads}",
            hint="check .maxntid or .reqntid, or use fewer registers",
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
    config.numAttrs = 0
    if launch.cluster != (1, 1, 1):
        attribute = module.CUlaunchAttribute()
        attribute.id = module.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = attribute.value.clusterDim
        size.x, size.y, size.z = launch.cluster
        config.attrs = [attribute]
        config.numAttrs = 1
    return config


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
    config.hStream = stream_handle(stream, kernel.device_index)
    with device_context(kernel.device_index):
        allow_cluster(kernel, launch)
        check(
            driver().cuLaunchKernelEx(config, kernel.function, packed.address, 0),
            describe_launch(kernel, launch),
        )
