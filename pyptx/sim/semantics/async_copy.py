"""cp.async: asynchronous copies that a thread issues, their groups, and their arrival on an mbarrier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Op, executes
from ..copies.cp_async import ThreadCopies
from ..engine.events import Engine
from ..engine.stream import GroupKind, SyncKind
from ..engine.waits import Awaited, StepsDone
from ..engine.work import ThreadCopy
from ..memory.mbarrier import MAX_COUNT
from ..threads.events import announce_sync
from ..threads.warp import Split
from .mbarrier import own_barrier

Array = NDArray[Any]
_PAST_L1 = ("cp.async.cg", "cp.async.cg.ignore_src")


def _threads(s: Split, lanes: Array) -> Array:
    """Return the numbers in the CTA of these lanes, which count from the first of the executing warps."""
    return lanes + 32 * s.warp.index


def _issue(s: Split, op: Op, lanes: Array, dst: Array, src: Array, size: Any, taken: Any) -> None:
    cta = s.warp.cta
    operation = cta.machine.operation(s, Engine.CP, takes_padding=True, group=GroupKind.CP_ASYNC)
    operation.work = ThreadCopy(keeps=op.binding.form_id not in _PAST_L1)
    cta.unit(ThreadCopies).issue(
        operation,
        size.item(),
        _threads(s, lanes),
        dst.copy(),
        src.copy(),
        None if taken is None else np.broadcast_to(taken, len(lanes)),
    )


@executes("cp.async", "cp.async.cg", per="warp", team=True)
def copy(
    s: Split, op: Op, lanes: Array, dst: Array, src: Array, size: Any, taken: Any = None, policy: Any = None
) -> None:
    # A src-size above the copy's size is undefined: the simulator reads at most the copy's size.
    _issue(s, op, lanes, dst, src, size, None if taken is None else np.minimum(taken, size))


@executes("cp.async.ignore_src", "cp.async.cg.ignore_src", per="warp", team=True)
def copy_unless(
    s: Split, op: Op, lanes: Array, dst: Array, src: Array, size: Any, ignored: Any, policy: Any = None
) -> None:
    _issue(s, op, lanes, dst, src, size, np.where(ignored, 0, size))


@executes("cp.async.commit_group", per="warp", team=True)
def commit_group(s: Split, op: Op, lanes: Array) -> None:
    announce_sync(s, SyncKind.GROUP_COMMIT, GroupKind.CP_ASYNC, lanes=lanes)
    s.warp.cta.unit(ThreadCopies).commit(_threads(s, lanes))


def _wait(s: Split, op: Op, lanes: Array, keep: int) -> StepsDone | None:
    steps = s.warp.cta.unit(ThreadCopies).to_wait_for(_threads(s, lanes), keep)
    frozen = lanes.copy()

    def leave() -> None:
        s.op = op
        announce_sync(s, SyncKind.GROUP_WAIT, GroupKind.CP_ASYNC, lanes=frozen, amount=keep)

    if not steps:
        leave()
        return None
    return StepsDone("cp.async copies", steps, leave, awaited=Awaited.COPIES)


@executes("cp.async.wait_group", per="warp", yields=True)
def wait_group(s: Split, op: Op, lanes: Array, n: Any) -> StepsDone | None:
    return _wait(s, op, lanes, n.item())


@executes("cp.async.wait_all", per="warp", yields=True)
def wait_all(s: Split, op: Op, lanes: Array) -> StepsDone | None:
    """Commit the open group, then wait for all groups."""
    announce_sync(s, SyncKind.GROUP_COMMIT, GroupKind.CP_ASYNC, lanes=lanes)
    s.warp.cta.unit(ThreadCopies).commit(_threads(s, lanes))
    return _wait(s, op, lanes, 0)


@executes("cp.async.mbarrier.arrive", per="warp")
def arrive(s: Split, op: Op, lanes: Array, address: Array) -> None:
    """Arrive when the thread's copies are complete.

    Without ``.noinc``, first add one to the pending count.
    """
    cta = s.warp.cta
    threads = _threads(s, lanes)
    for one in np.unique(address).tolist():
        barrier = own_barrier(s, op, one)
        members = threads[address == one]
        if "noinc" not in op.chosen:
            if barrier.pending + len(members) > MAX_COUNT:
                raise cta.machine.fault(
                    "mbarrier-misuse",
                    f"{op.name}: the mbarrier would have more than {MAX_COUNT} pending arrivals",
                    s,
                )
            announce_sync(s, SyncKind.MBARRIER_INCREMENT, barrier.key, barrier.phase, lanes[address == one])
            barrier.pending += len(members)
            cta.machine.memory.version += 1
        cta.unit(ThreadCopies).arrive(cta.machine.operation(s, Engine.CP), members, barrier)
