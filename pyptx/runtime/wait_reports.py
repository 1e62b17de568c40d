"""Loads kernels with bounded waits, and reads what their waits have reported.

Owns the memory of the host to which such kernels report.  A trap makes the context of the process unusable,
but this memory stays readable.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable

from ..core.errors import WaitTimeoutError
from ..ir import Module, print_module
from .bounded_waits import BUFFER, BUFFER_BYTES, BoundedWaits, bound_waits
from .driver import call, device_context, driver, relaxed_capture
from .loader import LoadedKernel, load

__all__ = ["WaitReports", "expired_waits", "load_bounded"]

#: Number of waits that one error lists.
_LISTED = 12


class WaitReports:
    """The waits of one loaded kernel, and the memory to which they report.

    Args:
        entry: name of the kernel.
        waits: the rewritten module.
        read: returns the bytes of the memory.
    """

    def __init__(self, entry: str, waits: BoundedWaits, read: Callable[[], bytes]) -> None:
        self.entry, self.waits, self._read = entry, waits, read
        #: True if an error has told about the reports.
        self.told = False

    def error(self, call: str = "") -> WaitTimeoutError | None:
        """Return the error that says which waits took too long; None if none did.

        Args:
            call: the call of the driver that failed, for the message.
        """
        found = self.waits.read(self._read())
        if not found:
            return None
        self.told = True
        found.sort(key=lambda each: each.nanoseconds, reverse=True)
        late = sum(each.nanoseconds >= 1e9 * self.waits.seconds for each in found)
        details = [str(each) for each in found[:_LISTED]]
        if len(found) > _LISTED:
            details.append(f"and {len(found) - _LISTED} more")
        first = found[0].site.location
        return WaitTimeoutError(
            f"{self.entry}: {_count(late)} took longer than {self.waits.seconds:g} s, so the "
            f"kernel trapped{f' ({call})' if call else ''}",
            details=details,
            hint="compare who arrives at these barriers, with how many arrivals and bytes; run the kernel in "
            "the simulator, which names what is missing. This process cannot use the GPU any more",
            location=first,
        )


def _count(waits: int) -> str:
    return "1 wait of a warp" if waits == 1 else f"{waits} waits of warps"


#: The kernels that were loaded with bounded waits, in the order of loading.
_loaded: list[WaitReports] = []


def load_bounded(
    module: Module, entry: str, *, dynamic_smem: int, device_index: int, seconds: float
) -> LoadedKernel:
    """Load a kernel as :func:`.loader.load` does, with every wait for an mbarrier bounded to ``seconds``."""
    waits = bound_waits(module, seconds)
    printed = print_module(waits.module, lines=True)
    kernel = load(printed, entry, dynamic_smem=dynamic_smem, device_index=device_index)
    if waits.sites:
        _loaded.append(WaitReports(entry, waits, _connect(kernel)))
        if len(_loaded) == 1:
            atexit.register(_tell_rest)
    return kernel


def _connect(kernel: LoadedKernel) -> Callable[[], bytes]:
    """Let a kernel report to new memory of the host; return the function that reads this memory."""
    module = driver()
    with device_context(kernel.device_index), relaxed_capture():
        flags = module.CU_MEMHOSTALLOC_PORTABLE | module.CU_MEMHOSTALLOC_DEVICEMAP
        host = int(call("cuMemHostAlloc", BUFFER_BYTES, flags))
        ctypes.memset(host, 0, BUFFER_BYTES)
        device = call("cuMemHostGetDevicePointer", host, 0)
        variable, _ = call("cuModuleGetGlobal", kernel.module, BUFFER.encode())
        call("cuMemcpyHtoD", variable, int(device).to_bytes(8, "little"), 8)
    return lambda: ctypes.string_at(host, BUFFER_BYTES)


def expired_waits(call: str = "") -> WaitTimeoutError | None:
    """Return the error about waits that took too long, of any kernel of this process; None if none did."""
    for reports in _loaded:
        error = reports.error(call)
        if error is not None:
            return error
    return None


def _tell_rest() -> None:
    """At the end of the process, print reports that no error has told: another library saw the failure."""
    for reports in _loaded:
        error = None if reports.told else reports.error()
        if error is not None:
            print(f"pyptx: {error}", file=sys.stderr)
