"""Errors of the driver that a kernel caused: which kernel it was.

Owns the list of the kernels that this process has made ready to launch, and the error that a failed call of
the driver becomes.  A kernel runs after its call has returned, so its failure is the status of a later call.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ..core.errors import KernelFailedError, LaunchError
from ..core.source import SourceLocation, author_location
from .debug_options import DEBUG
from .driver import explain_failures

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
    listed = [
        f"{plan.kernel.entry} with grid {plan.launch.grid}, block {plan.launch.block}, first called at {line}"
        for plan, line in reversed(list(_ready.items()))
    ][:_LISTED]
    return KernelFailedError(
        f"{call} failed: {text}: a kernel failed that was launched earlier"
        + ("; pyptx has made ready in this process, the newest first:" if listed else ""),
        details=listed,
        hint=f"errors of kernels are asynchronous: with {DEBUG}=sync in the environment, the call of the "
        f"kernel that fails raises the error. {gone}",
    )


explain_failures(failed)
