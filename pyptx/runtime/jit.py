"""The driver's JIT: PTX text to a loaded module, with the JIT's messages at Python lines.

The JIT gives no cubin to keep: the driver's linker does, but compiles for linking, with other code (measured
on an H200 with a GEMM: 154 registers of a thread in place of 168).  The driver has a cache of its own.
"""

from __future__ import annotations

import re
from typing import Any

from ..core.errors import AssembleError, LaunchError
from ..ir import PrintedModule
from .driver import DeviceInfo, describe_status, driver

__all__ = ["TextTooNewError", "is_refusal", "load_text"]

_LOG_BYTES = 1 << 16
_INVALID_PTX, _UNSUPPORTED_VERSION = 218, 222
#: The JIT's statuses for a text or an image that this driver or this GPU cannot take.
_REFUSALS = (200, 209, _INVALID_PTX, 220, 221, _UNSUPPORTED_VERSION, 300)


class TextTooNewError(AssembleError):
    """The text's ``.version`` is newer than the driver supports; ptxas may know it."""


def is_refusal(status: Any) -> bool:
    """True if the driver refuses the text or the image itself, rather than the call."""
    return int(status) in _REFUSALS


def load_text(printed: PrintedModule | str, entry: str, device: DeviceInfo) -> tuple[Any, Any, str]:
    """Compile PTX with the driver's JIT and load it on the GPU whose context is current.

    Args:
        printed: one PTX module, as text or with its table of lines.
        entry: name of the kernel.
        device: the GPU, for messages.

    Returns:
        The module, the result of ``cuModuleGetFunction``, and the JIT's log of notes and resources.

    Raises:
        TextTooNewError: the text's ``.version`` is newer than the driver.
        AssembleError: the JIT refused the text. The message has its log, the driver's status and, for
            status 218 (text for another architecture), the reason.
        LaunchError: another failure of the driver.
    """
    module = driver()
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
    image = (printed if isinstance(printed, str) else printed.text).encode() + b"\0"
    status, loaded = module.cuModuleLoadDataEx(image, len(options), list(options), list(options.values()))
    if is_refusal(status):
        raise _refusal(status, printed, entry, device, _text_of(error_log))
    if int(status) != 0:
        raise LaunchError(f"cuModuleLoadDataEx of {entry!r} failed: {describe_status(status)}")
    found = module.cuModuleGetFunction(loaded, entry.encode())
    if is_refusal(found[0]):  # with lazy loading, the JIT may not have run before
        module.cuModuleUnload(loaded)
        raise _refusal(found[0], printed, entry, device, _text_of(error_log))
    return loaded, found, _text_of(info_log)


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
            "supports: install a ptxas that knows it (pip install nvidia-cuda-nvcc), write an older .version "
            "or update the driver"
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
    from ..toolchain import read_report, rejection

    text = printed if isinstance(printed, str) else printed.text
    hint = _explain(int(status), text, device)
    report = read_report(log)
    too_new = int(status) == _UNSUPPORTED_VERSION
    if report.errors and not too_new:
        # The JIT names lines of the text, as ptxas does; the error shows the author's lines.
        who = f"the driver's JIT, loading {entry!r} ({describe_status(status)}),"
        return rejection(report, printed, who=who, hint=hint)
    said = log or "(the JIT left no log)"
    kind = TextTooNewError if too_new else AssembleError
    return kind(f"the driver refused to load {entry!r}: {describe_status(status)}\n{said}", hint=hint)
