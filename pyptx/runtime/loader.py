"""Loads PTX text as a kernel on a GPU.

Owns the call of the driver's JIT, with its logs, and the facts about a kernel that a safe launch needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..core.errors import AssembleError, LaunchError, SharedMemoryError
from ..ir import PrintedModule
from ..toolchain import read_report, rejection
from .driver import DeviceInfo, call, describe_status, device_context, device_info, driver

__all__ = ["DEFAULT_SHARED_BYTES", "LoadedKernel", "load"]

#: Bytes of dynamic shared memory that a launch may have without opt-in.
DEFAULT_SHARED_BYTES = 48 * 1024

_LOG_BYTES = 1 << 16
_INVALID_PTX, _UNSUPPORTED_VERSION = 218, 222
_REFUSALS = (209, _INVALID_PTX, 220, 221, _UNSUPPORTED_VERSION)  # the JIT's statuses for a refused text


@dataclass(frozen=True, slots=True, eq=False)
class LoadedKernel:
    """A kernel that is loaded on one GPU, until the process ends.

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


def _text_of(log: bytearray) -> str:
    return bytes(log).split(b"\0", 1)[0].decode(errors="replace").strip()


def _directive(ptx_text: str, name: str) -> str:
    found = re.search(rf"^\s*\.{name}\s+([\w.]+)", ptx_text, re.MULTILINE)
    return found.group(1) if found else "?"


def _explain(status: int, ptx_text: str, device: DeviceInfo) -> str:
    """Return a hint for an error message: the usual reason why the JIT returns ``status`` on this GPU."""
    target, version = _directive(ptx_text, "target"), _directive(ptx_text, "version")
    driver_version = "{}.{}".format(*device.driver_version)
    if status == _UNSUPPORTED_VERSION:
        return (
            f"the text has .version {version}, which is newer than this driver (CUDA {driver_version}) "
            "supports: write an older .version or update the driver"
        )
    if status == _INVALID_PTX and target.rstrip("af") != device.arch:
        return (
            f"the text has .target {target}, but GPU {device.index} ({device.name}) is {device.arch}, and a "
            "target ending in 'a' runs only on that architecture: write the text for this GPU, or run it on "
            "the simulator"
        )
    return "call kernel.assemble(): ptxas may explain the refusal in more detail"


def _refusal(
    status: Any, printed: PrintedModule | str, entry: str, device: DeviceInfo, log: str
) -> AssembleError:
    text = printed if isinstance(printed, str) else printed.text
    hint = _explain(int(status), text, device)
    report = read_report(log)
    if report.errors:
        # The JIT names lines of the text, as ptxas does; the error shows the author's lines.
        who = f"the driver's JIT, loading {entry!r} ({describe_status(status)}),"
        return rejection(report, printed, who=who, hint=hint)
    said = log or "(the JIT left no log)"
    return AssembleError(
        f"the driver refused to load {entry!r}: {describe_status(status)}\n{said}", hint=hint
    )


def load(printed: PrintedModule | str, entry: str, *, dynamic_smem: int, device_index: int) -> LoadedKernel:
    """Compile PTX for GPU ``device_index`` with the driver's JIT, and look up the kernel ``entry``.

    Args:
        printed: one PTX module, as text or with its table of lines.
        entry: name of an ``.entry`` in the module.
        dynamic_smem: the largest dynamic shared memory, in bytes, that a launch will need.
        device_index: number of the GPU; the kernel is loaded in its primary context, which torch uses too.

    Raises:
        AssembleError: the JIT refused the text. The message has its log, the driver's status and, for
            status 218 (text for another architecture) and 222 (``.version`` too new), the reason.
        SharedMemoryError: static plus dynamic shared memory exceed what a CTA can have.
        LaunchError: there is no driver, no such device or no such entry.
    """
    module = driver()
    device = device_info(device_index)
    option = module.CUjit_option
    info_log, error_log = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
    options = {
        option.CU_JIT_INFO_LOG_BUFFER: info_log,
        option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
        option.CU_JIT_ERROR_LOG_BUFFER: error_log,
        option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
        option.CU_JIT_LOG_VERBOSE: 1,
        option.CU_JIT_GENERATE_LINE_INFO: 1,  # for compute-sanitizer and ncu; does not change the code
    }
    ptx_text = printed if isinstance(printed, str) else printed.text
    image = ptx_text.encode() + b"\0"
    with device_context(device_index):
        status, loaded = module.cuModuleLoadDataEx(image, len(options), list(options), list(options.values()))
        if int(status) in _REFUSALS:
            raise _refusal(status, printed, entry, device, _text_of(error_log))
        if int(status) != 0:
            raise LaunchError(f"cuModuleLoadDataEx of {entry!r} failed: {describe_status(status)}")
        status, function = module.cuModuleGetFunction(loaded, entry.encode())
        if int(status) in _REFUSALS:  # with lazy loading, the JIT may not have run before
            raise _refusal(status, printed, entry, device, _text_of(error_log))
        if int(status) != 0:
            entries = re.findall(r"\.entry\s+([\w$%]+)", ptx_text)
            raise LaunchError(
                f"cuModuleGetFunction({entry!r}) failed: {describe_status(status)}; the text has the entries "
                f"{', '.join(entries) or '(none)'}"
            )
        attribute = module.CUfunction_attribute

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
        return LoadedKernel(
            entry=entry,
            device_index=device_index,
            function=function,
            module=loaded,
            dynamic_smem=dynamic_smem,
            static_smem=static_smem,
            registers=number("NUM_REGS"),
            local_bytes=number("LOCAL_SIZE_BYTES"),
            max_threads=number("MAX_THREADS_PER_BLOCK"),
            parameter_bytes=_parameter_bytes(module, function),
            info_log=_text_of(info_log),
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
