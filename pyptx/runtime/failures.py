"""Errors of the driver that a kernel caused: which kernel it was.

Owns the lines that first called the kernels of this process, and the error that a failed call of the driver
becomes.  A kernel runs after its call has returned, so its failure is the status of a later call.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ..core.errors import KernelFailedError, LaunchError
from ..core.source import SourceLocation, author_location
from .debug_options import DEBUG
from .driver import explain_failures
from .recent import recent

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["KERNEL_FAILED", "failed", "note_ready"]

#: Statuses that a kernel causes while it runs; all later calls of the driver return them too.
KERNEL_FAILED = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719})
#: Number of kernels that one error lists.
_LISTED = 8


#: The launches that are ready, the oldest first, with the author's line that called each first.
_ready: weakref.WeakKeyDictionary[Plan, SourceLocation] = weakref.WeakKeyDictionary()


def note_ready(plan: Plan) -> None:
    """Remember a launch that was made ready, with the author's line."""
    _ready[plan] = author_location()


def _launched() -> list[str]:
    """Return the kernels of the last launches of pyptx, the newest first, each once."""
    known: dict[int, tuple[Plan, SourceLocation]] = {}
    for plan, line in _ready.items():
        known.setdefault(int(plan.kernel.function), (plan, line))
    functions = recent()
    listed = []
    for function in dict.fromkeys(functions):
        if function in known:
            plan, line = known[function]
            times = functions.count(function)
            often = f"{times} of the last {len(functions)} launches" if times > 1 else "once"
            listed.append(f"{plan.kernel.entry} ({often}), first called at {line}")
    return listed[:_LISTED]


def failed(status: int, call: str, text: str, kernel: str = "") -> LaunchError | None:
    """Return the error for a failed call of the driver; None if no kernel caused it.

    Args:
        status: the call's status.
        call: the call, for messages.
        text: the status with its explanation.
        kernel: describes the launch that caused the status, if it is known.
    """
    if status not in KERNEL_FAILED:
        return None
    from .wait_reports import expired_waits

    waits = expired_waits(text)
    if waits is not None:
        return waits
    gone = "This process cannot use the GPU any more"
    if kernel:
        return KernelFailedError(
            f"{kernel} failed while it ran: {text}",
            hint=f"run it in the simulator or under compute-sanitizer, which name the line. {gone}",
        )
    listed = _launched()
    return KernelFailedError(
        f"{call} failed: {text}: a kernel failed that was launched earlier"
        + ("; pyptx has launched, the newest first:" if listed else ""),
        details=listed,
        hint=f"errors of kernels are asynchronous: with {DEBUG}=sync in the environment, the call of the "
        f"kernel that fails raises the error. {gone}",
    )


explain_failures(failed)
