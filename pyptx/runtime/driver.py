"""The CUDA driver: finds it, calls it and reports its errors.

Owns the lazy import and initialization of ``cuda.bindings.driver``, the translation of a ``CUresult`` into
:class:`~pyptx.core.errors.LaunchError`, device facts, the current context, and the error of a
process that was forked after the driver was initialized.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..core.collection import uncollected
from ..core.errors import DevicePermissionError, DriverVersionError, LaunchError, NoDriverError
from ..core.records import dataclass

__all__ = [
    "DeviceInfo",
    "call",
    "check",
    "describe_status",
    "device_context",
    "device_count",
    "device_info",
    "driver",
    "explain_failures",
    "relaxed_capture",
]

_SIMULATE = "pass numpy arrays or CPU tensors to run on the simulator"

_SPAWN = 'start the process with multiprocessing.get_context("spawn"), or use the GPU only after the fork'

_NO_DEVICE, _OPERATING_SYSTEM = 100, 304
#: Statuses that cuInit returns where the driver cannot be used, and their errors.
_STATUSES = {
    _NO_DEVICE: NoDriverError,
    36: DriverVersionError,
    803: DriverVersionError,
    804: DriverVersionError,
}

_UPDATE = "update the NVIDIA driver"

_HINTS = {
    1: "compare the arguments with the limits of the device",
    2: "free device memory, or use a smaller problem",
    3: f"if this process was forked after CUDA was initialized, it cannot use the GPU: {_SPAWN}",
    36: _UPDATE,
    803: f"{_UPDATE}, or restart the machine after an update",
    804: f"{_UPDATE}, or remove the package cuda-compat",
    100: f"check nvidia-smi and CUDA_VISIBLE_DEVICES, or {_SIMULATE}",
    701: "registers x threads or shared memory exceed what an SM has; use fewer threads or less memory",
    700: "a kernel launched earlier failed (errors are asynchronous): run it on the simulator or under "
    "compute-sanitizer; this process cannot use the GPU any more",
    716: "a kernel launched earlier accessed a misaligned address: run it on the simulator",
    719: "a kernel launched earlier failed (errors are asynchronous): run it on the simulator; this process "
    "cannot use the GPU any more",
}


def describe_status(status: Any) -> str:
    """Return text such as ``CUDA_ERROR_INVALID_VALUE (1): invalid argument`` for a ``CUresult``."""
    from cuda.bindings import driver as module

    text = f"{status.name} ({int(status)})"
    try:
        found, explanation = module.cuGetErrorString(status)
    except RuntimeError:  # there is no driver
        return text
    if int(found) == 0 and explanation:
        text += f": {explanation.decode(errors='replace')}"
    return text


_Explain = Callable[[int, str, str], LaunchError | None]
_explain_failure: _Explain | None = None


def explain_failures(function: _Explain) -> None:
    """Let ``function`` make the errors for statuses that a running kernel caused.

    It gets the status, the call that returned it, and the text of :func:`describe_status`, and returns None
    for other statuses.
    """
    global _explain_failure
    _explain_failure = function


def check(result: tuple[Any, ...], call: str) -> Any:
    """Return the values that follow the status of a driver call: None, one value, or a tuple of several.

    Args:
        result: the tuple that a function of ``cuda.bindings.driver`` returned: a ``CUresult``, then its
            values.
        call: the name of the function for messages, with arguments if they help.

    Raises:
        LaunchError: the status is not success; the message has the status, its explanation and the call.
    """
    status, *values = result
    if int(status) != 0:
        text = describe_status(status)
        failed = None if _explain_failure is None else _explain_failure(int(status), call, text)
        raise failed or LaunchError(f"{call} failed: {text}", hint=_HINTS.get(int(status), ""))
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


#: The process that initialized the driver.
_owner: int | None = None


def driver() -> Any:
    """Return the module ``cuda.bindings.driver``, with the driver initialized.

    Raises:
        LaunchError: cuda-bindings is not installed, there is no driver or no device, or this process was
            forked from one that had initialized the driver.
    """
    if _owner is not None and _owner != os.getpid():
        raise LaunchError(
            f"process {os.getpid()} was forked from process {_owner}, which had initialized CUDA: "
            "the driver does not work in it",
            hint=_SPAWN,
        )
    return _initialized()


@lru_cache(maxsize=1)
def _initialized() -> Any:
    """Return the module, with the driver initialized in this process."""
    global _owner
    try:
        with uncollected():
            from cuda.bindings import driver as module
    except ImportError as error:
        raise NoDriverError(
            f"a launch on a GPU needs the package cuda-bindings: {error}",
            hint=f"pip install cuda-bindings, or {_SIMULATE}",
        ) from error
    try:
        # Without a driver the first call raises; it does not return a CUresult.
        result = module.cuInit(0)
    except RuntimeError as error:
        raise NoDriverError(
            f"no CUDA driver on this machine: {error}",
            hint=f"install the NVIDIA driver (libcuda.so.1), or {_SIMULATE}",
        ) from error
    status = int(result[0])
    denied: list[str] = []
    if status in (_NO_DEVICE, _OPERATING_SYSTEM):
        denied = [str(path) for path in sorted(Path("/dev").glob("nvidia*")) if not _may_open(path)]
    if denied:
        raise DevicePermissionError(
            f"cuInit(0) failed: {describe_status(result[0])}; this user may not open {', '.join(denied)}",
            hint="join the group that owns the files, or start the container with the GPU (--gpus all)",
        )
    if status in _STATUSES:
        raise _STATUSES[status](f"cuInit(0) failed: {describe_status(result[0])}", hint=_HINTS[status])
    check(result, "cuInit(0)")
    _owner = os.getpid()
    return module


def _may_open(path: Path) -> bool:
    """True if the user may open a device file; directories do not count."""
    return path.is_dir() or os.access(path, os.R_OK | os.W_OK)


def call(name: str, *arguments: Any) -> Any:
    """Call the driver's function ``name``, :func:`check` its status, and return its values.

    Raises:
        LaunchError: there is no driver, the driver lacks the function, or the call failed.
    """
    module = driver()
    try:
        result = getattr(module, name)(*arguments)
    except RuntimeError as error:
        raise DriverVersionError(
            f"{name} is not available: {error}", hint="update the NVIDIA driver or cuda-bindings"
        ) from error
    return check(result, name)


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One GPU.

    Attributes:
        index: number of the GPU among the visible ones, from 0.
        name: the name that the driver gives.
        compute_capability: (major, minor).
        sm_count: number of streaming multiprocessors.
        max_shared_memory: largest shared memory of one CTA in bytes (static plus dynamic, after opt-in).
        driver_version: newest CUDA version that the driver supports, (major, minor).
    """

    index: int
    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    max_shared_memory: int
    driver_version: tuple[int, int]

    @property
    def arch(self) -> str:
        """The architecture's name: ``sm_90`` for compute capability (9, 0)."""
        return "sm_{}{}".format(*self.compute_capability)


def device_count() -> int:
    """Return the number of visible GPUs. Raises LaunchError when there is no driver or no device."""
    count: int = call("cuDeviceGetCount")
    return count


@lru_cache(maxsize=64)
def device_info(index: int) -> DeviceInfo:
    """Return facts about GPU ``index``. Raises LaunchError when there is no driver or no such device."""
    module = driver()
    count = device_count()
    if not 0 <= index < count:
        raise LaunchError(f"there is no GPU {index}: the driver sees {count}, numbered from 0")
    device = call("cuDeviceGet", index)
    attribute = module.CUdevice_attribute

    def number(name: str) -> int:
        value: int = call("cuDeviceGetAttribute", getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device)
        return value

    version: int = call("cuDriverGetVersion")
    name: bytes = call("cuDeviceGetName", 256, device)
    return DeviceInfo(
        index=index,
        name=name.split(b"\0", 1)[0].decode(errors="replace"),
        compute_capability=(number("COMPUTE_CAPABILITY_MAJOR"), number("COMPUTE_CAPABILITY_MINOR")),
        sm_count=number("MULTIPROCESSOR_COUNT"),
        max_shared_memory=number("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        driver_version=(version // 1000, version % 1000 // 10),
    )


@contextmanager
def relaxed_capture() -> Iterator[None]:
    """Let this thread load modules inside a ``with`` block, also while a stream is captured.

    Loading belongs to the functions that a capture in global or thread-local mode forbids; they end it.
    """
    mode = driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = call("cuThreadExchangeStreamCaptureMode", mode)
    try:
        yield
    finally:
        call("cuThreadExchangeStreamCaptureMode", before)


@lru_cache(maxsize=64)
def _primary_context(device_index: int) -> Any:
    # Retained once and never released: torch uses the same context, and it must outlive every kernel.
    device_info(device_index)
    return call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", device_index))


@contextmanager
def device_context(device_index: int) -> Iterator[None]:
    """Make GPU ``device_index``'s primary context, which torch also uses, current inside a ``with`` block.

    Afterwards the previous context is current again, so torch's current device does not change.

    Raises:
        LaunchError: there is no driver or no such device.
    """
    context = _primary_context(device_index)
    if int(call("cuCtxGetCurrent")) == int(context):
        yield
        return
    call("cuCtxPushCurrent", context)
    try:
        yield
    finally:
        call("cuCtxPopCurrent")
