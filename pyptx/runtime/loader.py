"""Loads PTX text as a kernel on a GPU.

Owns modules on the GPU, and the facts about a kernel that a safe launch needs.
"""

from __future__ import annotations

import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..core.collection import uncollected
from ..core.errors import LaunchError, SharedMemoryError
from ..core.logs import logger
from ..core.records import dataclass
from ..ir import PrintedModule
from .driver import DeviceInfo, call, describe_status, device_context, device_info, driver, relaxed_capture
from .jit import TextTooNewError, is_refusal, load_text

if TYPE_CHECKING:
    from ..toolchain.cache import CachedCubin

__all__ = ["DEFAULT_SHARED_BYTES", "LoadedKernel", "dropped", "load", "taken"]

_log = logger("loading")

#: Bytes of dynamic shared memory that a launch may have without opt-in.
DEFAULT_SHARED_BYTES = 48 * 1024


#: The GPU, the module and ``captured`` of each kernel that was loaded and that nothing refers to any more.
dropped: deque[tuple[int, Any, bytearray]] = deque()
#: Modules of such kernels that stay loaded; beyond this number, loading unloads those that no graph can need.
_MOST_DROPPED = 64


@dataclass(frozen=True, eq=False)
class LoadedKernel:
    """A kernel that is loaded on one GPU. :func:`.unloading.unload_unused` unloads it when it is not used.

    Attributes:
        entry: name of the kernel.
        device_index: number of the GPU.
        function: the kernel's ``CUfunction``.
        module: the ``CUmodule`` that contains ``function``.
        dynamic_smem: largest dynamic shared memory of a launch, in bytes.
        static_smem: static shared memory in bytes.
        registers: registers per thread.
        local_bytes: local memory per thread in bytes: spills and arrays.
        max_threads: largest number of threads in a CTA.
        parameter_bytes: size of each parameter in bytes.
        info_log: the JIT's log of notes and resources.
        captured: one byte, 1 once a launch was captured: a graph may need the module.
    """

    entry: str
    device_index: int
    function: Any
    module: Any
    dynamic_smem: int
    static_smem: int
    registers: int
    local_bytes: int
    max_threads: int
    parameter_bytes: tuple[int, ...]
    info_log: str
    captured: bytearray = field(default_factory=lambda: bytearray(1), repr=False)

    def note_capture(self, stream: int) -> None:
        """Note if a launch on the stream with this handle was captured; call it behind each launch."""
        if stream and not self.captured[0]:  # the default stream cannot be captured
            module = driver()
            status, capturing = module.cuStreamIsCapturing(stream)
            none = module.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
            self.captured[0] = int(status) != 0 or capturing != none


def load(
    printed: PrintedModule | str,
    entry: str,
    *,
    dynamic_smem: int,
    device_index: int,
    plain: Callable[[], str] | None = None,
) -> LoadedKernel:
    """Load PTX on GPU ``device_index`` from the disk cache, or compile it, and look up the kernel ``entry``.

    A stream of this thread may be captured meanwhile: loading is no part of the graph. If the modules of many
    kernels are not used any more, those that no graph can need are unloaded.

    Args:
        printed: one PTX module, as text or with its table of lines.
        entry: name of an ``.entry`` in the module.
        dynamic_smem: the largest dynamic shared memory, in bytes, that a launch will need.
        device_index: number of the GPU; the kernel is loaded in its primary context, which torch uses too.
        plain: returns the text without lines, by which shipped caches are searched; the text itself if None.

    Raises:
        AssembleError: the JIT or ptxas refused the text. The message has its log and, for text for another
            architecture or with a ``.version`` that is too new, the reason.
        SharedMemoryError: static plus dynamic shared memory exceed what a CTA can have.
        LaunchError: there is no driver, no such device or no such entry.
    """
    device = device_info(device_index)
    text = printed if isinstance(printed, str) else printed.text
    begin = time.perf_counter()
    with uncollected(), device_context(device_index), relaxed_capture():
        _unload_surplus(device_index)
        module, function, log = _module(printed, plain or (lambda: text), entry, device)
        try:
            kernel = _kernel(entry, device, module, function, dynamic_smem, log)
        except BaseException:
            driver().cuModuleUnload(module)
            raise
    taken = 1e3 * (time.perf_counter() - begin)
    _log.info("loaded %s on GPU %d in %.1f ms: %d registers", entry, device_index, taken, kernel.registers)
    return kernel


def _kernel(
    entry: str, device: DeviceInfo, module: Any, function: Any, dynamic_smem: int, log: str
) -> LoadedKernel:
    """Return the facts about a loaded kernel, and allow its dynamic shared memory."""
    attribute = driver().CUfunction_attribute

    def number(name: str) -> int:
        value: int = call("cuFuncGetAttribute", getattr(attribute, f"CU_FUNC_ATTRIBUTE_{name}"), function)
        return value

    static_smem = number("SHARED_SIZE_BYTES")
    if static_smem + dynamic_smem > device.max_shared_memory:
        raise SharedMemoryError(
            f"{entry!r} needs {static_smem} bytes of static and {dynamic_smem} of dynamic shared "
            f"memory; a CTA on {device.name} has at most {device.max_shared_memory}",
            hint="use fewer pipeline stages or smaller tiles",
        )
    if dynamic_smem > DEFAULT_SHARED_BYTES:
        call(
            "cuFuncSetAttribute",
            function,
            attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            dynamic_smem,
        )
    kernel = LoadedKernel(
        entry=entry,
        device_index=device.index,
        function=function,
        module=module,
        dynamic_smem=dynamic_smem,
        static_smem=static_smem,
        registers=number("NUM_REGS"),
        local_bytes=number("LOCAL_SIZE_BYTES"),
        max_threads=number("MAX_THREADS_PER_BLOCK"),
        parameter_bytes=_parameter_bytes(driver(), function),
        info_log=log,
    )
    weakref.finalize(kernel, dropped.append, (device.index, module, kernel.captured)).atexit = False
    return kernel


def _unload_surplus(device_index: int) -> None:
    """Unload modules that nothing uses, if there are many; the driver waits for launches in flight."""
    unused = [each for each in tuple(dropped) if each[0] == device_index and not each[2][0]]
    if len(unused) > _MOST_DROPPED:
        for module in taken(unused):
            driver().cuModuleUnload(module)  # after an error of a kernel, the load fails with it


def taken(entries: Iterable[tuple[int, Any, bytearray]]) -> Iterator[Any]:
    """Take entries out of :data:`dropped`, and yield the module of each that no other thread has taken."""
    for entry in entries:
        try:
            dropped.remove(entry)
        except ValueError:  # another thread unloads it
            continue
        yield entry[1]


def _module(
    printed: PrintedModule | str, plain: Callable[[], str], entry: str, device: DeviceInfo
) -> tuple[Any, Any, str]:
    """Return a module with its kernel ``entry``, and what the compiler said."""
    from .machine_code import cubins, made_cubin

    for candidate in cubins(printed, plain, entry, device):
        status, found = _load(candidate.cubin, entry)
        if found is not None:
            return found
        if not is_refusal(status):
            raise _failure("cuModuleLoadData", status, printed, entry)
        candidate.discard()
    try:
        module, (status, function), log = load_text(printed, entry, device)
    except TextTooNewError as refused:
        made = made_cubin(printed, device)
        if made is None:
            raise
        status, found = _load(made, entry)
        if found is None:
            raise refused
        return found
    if int(status) != 0:
        driver().cuModuleUnload(module)
        raise _failure("cuModuleGetFunction", status, printed, entry)
    return module, function, log


def _load(cubin: CachedCubin, entry: str) -> tuple[Any, tuple[Any, Any, str] | None]:
    """Return the driver's status and, if it loads the cubin, what :func:`_module` returns."""
    status, module = driver().cuModuleLoadData(cubin.image)
    if int(status) != 0:
        return status, None
    status, function = driver().cuModuleGetFunction(module, entry.encode())
    if int(status) != 0:
        driver().cuModuleUnload(module)
        return status, None
    return status, (module, function, cubin.log)


def _failure(step: str, status: Any, printed: PrintedModule | str, entry: str) -> LaunchError:
    text = printed if isinstance(printed, str) else printed.text
    entries = ", ".join(re.findall(r"\.entry\s+([\w$%]+)", text)) or "(none)"
    return LaunchError(
        f"{step} of {entry!r} failed: {describe_status(status)}; the text has the entries {entries}"
    )


def _parameter_bytes(module: Any, function: Any) -> tuple[int, ...]:
    sizes: list[int] = []
    while True:
        try:
            status, _offset, size = module.cuFuncGetParamInfo(function, len(sizes))
        except RuntimeError as error:
            raise LaunchError(
                f"cuFuncGetParamInfo is not available: {error}", hint="the driver must support CUDA 12.4"
            ) from error
        if int(status) != 0:  # one past the last parameter
            return tuple(sizes)
        sizes.append(int(size))
