"""Launches that are watched: synchronized, in ranges of NVTX, or logged.

Owns :class:`WatchedPlan`, which replaces :class:`~.plan.Plan` while something asks for it.  All other
launches cost what they cost without this module.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any

from ..core.errors import SpecError
from ..core.logs import logger
from ..ir import Launch
from .debug_options import NVTX, DebugOptions, debug_options
from .driver import call, check, describe_status, device_context, driver
from .failures import failed, note_ready
from .loader import LoadedKernel
from .plan import Frame, Parameter, Plan

__all__ = ["WatchedPlan", "make_plan", "watched"]

_log = logger("launch")


def make_plan(kernel: LoadedKernel, launch: Launch, parameters: Sequence[Parameter]) -> Plan:
    """Return the plan of a launch: a watched one if the environment or the level of the log asks for it.

    The arguments and errors are those of :class:`Plan`.
    """
    plan = (WatchedPlan if _watches(debug_options()) else Plan)(kernel, launch, parameters)
    note_ready(plan)
    return plan


def _watches(options: DebugOptions) -> bool:
    return options.sync or options.nvtx or _log.isEnabledFor(logging.DEBUG)


@contextmanager
def watched(kernel: LoadedKernel, launch: Launch, stream: int) -> Iterator[None]:
    """Watch the launch that happens inside the ``with`` block, as the environment asks.

    Raises:
        KernelFailedError: under ``sync``, the kernel failed.
        WaitTimeoutError: under ``sync``, the kernel waited too long for an mbarrier.
    """
    options = debug_options()
    if not _watches(options):
        yield
        return
    described = f"{kernel.entry} with grid {launch.grid}, block {launch.block}"
    _log.debug("launch %s on GPU %d, stream %#x", described, kernel.device_index, stream)
    if options.sync:
        _synchronize(kernel, f"cuStreamSynchronize before the launch of {kernel.entry}", "", stream)
    with _range(options, kernel.entry):
        yield
        if options.sync:
            _synchronize(kernel, "cuStreamSynchronize", described, stream)


def _synchronize(kernel: LoadedKernel, what: str, described: str, stream: int) -> None:
    """Wait for the end of the launches on a stream, unless a graph is captured from it.

    ``what`` is the call for messages; ``described`` the launch that an error means, or empty if an earlier
    kernel, perhaps of another library, is meant.
    """
    module = driver()
    with device_context(kernel.device_index):
        capturing = call("cuStreamIsCapturing", stream)
        if capturing != module.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
            return
        (status,) = module.cuStreamSynchronize(stream)
        if int(status) != 0:
            error = failed(int(status), what, describe_status(status), described)
            if error is not None:
                raise error
            check((status,), what)


# --- NVTX -----------------------------------------------------------------------------------------


@contextmanager
def _range(options: DebugOptions, name: str) -> Iterator[None]:
    """Put a range of NVTX around the ``with`` block, if the options ask for it."""
    if not options.nvtx:
        yield
        return
    push, pop = _markers()
    push(f"pyptx: {name}")
    try:
        yield
    finally:
        pop()


@lru_cache(maxsize=1)
def _markers() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """Return the functions that open and close a range: of the package nvtx, or else of torch.

    Raises:
        SpecError: neither is there.
    """
    try:
        nvtx = import_module("nvtx")
    except ImportError:
        torch = sys.modules.get("torch")
        if torch is None:
            raise SpecError(
                f"{NVTX} is set, but neither the package nvtx is installed nor torch imported",
                hint="pip install nvtx, or unset the variable",
            ) from None
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    return nvtx.push_range, nvtx.pop_range


class WatchedPlan(Plan):
    """A plan whose launches are watched. It has no compiled path."""

    __slots__ = ()

    def start(self, frame: Frame) -> None:
        with watched(self.kernel, self.launch, frame.stream):
            super().start(frame)
