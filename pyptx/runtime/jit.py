"""The driver's JIT: PTX text to a cubin, with the JIT's messages at Python lines.

Owns the calls of the driver's linker, which is the JIT's only interface that returns the machine code.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

from ..core.errors import AssembleError, LaunchError
from ..ir import PrintedModule
from ..toolchain import read_report, rejection
from .driver import DeviceInfo, describe_status, driver

__all__ = ["LINE_INFO", "TextTooNewError", "is_refusal", "link"]

#: The option that adds lines for compute-sanitizer and ncu; it does not change the machine code.
LINE_INFO = "lineinfo"

_LOG_BYTES = 1 << 16
_INVALID_PTX, _UNSUPPORTED_VERSION = 218, 222
#: The JIT's statuses for a text or an image that this driver or this GPU cannot take.
_REFUSALS = (200, 209, _INVALID_PTX, 220, 221, _UNSUPPORTED_VERSION)


class TextTooNewError(AssembleError):
    """The text's ``.version`` is newer than the driver supports; ptxas may know it."""


def is_refusal(status: Any) -> bool:
    """True if the driver refuses the text or the image itself, rather than the call."""
    return int(status) in _REFUSALS


def link(printed: PrintedModule | str, entry: str, device: DeviceInfo) -> tuple[bytes, str]:
    """Compile PTX with the driver's JIT for the GPU whose context is current.

    Args:
        printed: one PTX module, as text or with its table of lines.
        entry: name of the kernel, for messages.
        device: the GPU, for messages.

    Returns:
        The cubin, and the JIT's log of notes and resources.

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
        option.CU_JIT_GENERATE_LINE_INFO: 1,
    }
    text = (printed if isinstance(printed, str) else printed.text).encode() + b"\0"
    status, state = module.cuLinkCreate(len(options), list(options), list(options.values()))
    if int(status) != 0:
        raise LaunchError(f"cuLinkCreate for {entry!r} failed: {describe_status(status)}")
    try:
        kind = module.CUjitInputType.CU_JIT_INPUT_PTX
        (status,) = module.cuLinkAddData(state, kind, text, len(text), entry.encode(), 0, [], [])
        if int(status) == 0:
            status, address, size = module.cuLinkComplete(state)
        if is_refusal(status):
            raise _refusal(status, printed, entry, device, _text_of(error_log))
        if int(status) != 0:
            raise LaunchError(f"the driver's JIT failed for {entry!r}: {describe_status(status)}")
        # The image belongs to the linker.
        return ctypes.string_at(int(address), int(size)), _text_of(info_log)
    finally:
        module.cuLinkDestroy(state)


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
