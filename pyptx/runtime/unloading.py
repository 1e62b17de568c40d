"""Unloads all modules of kernels that no longer exist.

A module stays when its kernel dies: a CUDA graph that captured a launch of the kernel may still need it, and
the driver's manual does not say that a graph keeps its modules.  :mod:`.loader` unloads modules that no
capture has seen, when there are many; the others go when the program says that their graphs are gone.
"""

from __future__ import annotations

from ..core.errors import LaunchError
from .driver import call, device_context, driver
from .launch import current_stream
from .loader import dropped, taken

__all__ = ["unload_unused"]


def unload_unused() -> int:
    """Unload the machine code of kernels that no longer exist, on all GPUs, and return how many there were.

    A kernel exists as long as the program refers to it, to one of its specializations or to a prepared
    launch. A kernel keeps the recordings of its latest sizes and constants alone. The driver waits for
    launches in flight.

    Watch out: CUDA graphs that captured a launch of such a kernel must not be replayed afterwards.

    Raises:
        LaunchError: torch's current stream is being captured, or an earlier kernel failed.
    """
    count = 0
    for device_index in sorted({device for device, *_ in tuple(dropped)}):
        with device_context(device_index):
            capturing = call("cuStreamIsCapturing", current_stream(device_index))
            if int(capturing) != int(driver().CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE):
                raise LaunchError(
                    f"unload_unused: the current stream of GPU {device_index} is being captured",
                    hint="call it before the capture or after its end",
                )
            for module in taken([entry for entry in tuple(dropped) if entry[0] == device_index]):
                call("cuModuleUnload", module)
                count += 1
    return count
