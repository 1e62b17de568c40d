"""Cluster barriers, addresses in other CTAs' shared memory, and tests of a generic address's state space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Op, executes
from ..engine.stream import SyncKind
from ..engine.waits import Awaited, Condition
from ..memory.access import MemoryOrder, Scope
from ..memory.address_space import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from ..threads.events import announce_sync
from ..threads.warp import Split

Array = NDArray[Any]

#: The lowest bit of a CTA's rank in a shared address; the bits below it are the offset.
_RANK_BIT = 24
#: A state space is a window of 4 GiB of the generic addresses; an address's upper 32 bits name the window.
_UPPER = 32
_SPACES = {
    "local": LOCAL_WINDOW,
    "const": CONST_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}


# --- barrier ------------------------------------------------------------------------------------


def _threads(s: Split, lanes: Array) -> Array:
    """Return the numbers in the cluster of the threads of ``lanes``."""
    cta = s.warp.cta
    return np.asarray(lanes + 32 * (s.warp.index + cta.rank * len(cta.warps)))


def _misused(s: Split, op: Op, lanes: Array, wrong: Array, what: str) -> None:
    if wrong.any():
        lane = int(np.argmax(wrong))
        raise s.warp.cta.machine.fault(
            "divergent-collective", f"{op.name}: lane {int(lanes[lane])} {what}", s
        )


@executes("barrier.cluster.arrive", per="warp")
def arrive(s: Split, op: Op, lanes: Array) -> None:
    barrier = s.warp.cta.cluster.barrier
    threads = _threads(s, lanes)
    _misused(s, op, lanes, barrier.owed[threads] >= 0, "arrives again without having waited")
    how = (op.order or MemoryOrder.RELEASE, Scope.CLUSTER)
    announce_sync(s, SyncKind.CLUSTER_ARRIVE, barrier.key, barrier.phase, lanes, order=how)
    barrier.arrived[threads] = True
    barrier.owed[threads] = barrier.phase
    barrier.advance()


@executes("barrier.cluster.wait", per="warp", yields=True)
def wait(s: Split, op: Op, lanes: Array) -> Condition | None:
    barrier = s.warp.cta.cluster.barrier
    threads = _threads(s, lanes)
    phases = barrier.owed[threads]
    _misused(s, op, lanes, phases < 0, "waits without having arrived")
    barrier.owed[threads] = -1
    newest = int(phases.max())

    def complete() -> bool:
        # A thread that has ended counts as arrived.
        barrier.advance()
        return barrier.phase > newest

    def leave() -> None:
        s.op = op
        for phase in np.unique(phases).tolist():
            its = lanes[phases == phase]
            how = (op.order or MemoryOrder.ACQUIRE, Scope.CLUSTER)
            announce_sync(s, SyncKind.CLUSTER_WAIT, barrier.key, phase, its, order=how)

    if complete():
        leave()
        return None
    return Condition(
        complete,
        lambda: f"waits at {op.name}: {barrier.missing()} threads have not arrived",
        leave,
        awaited=Awaited.CLUSTER_BARRIER,
        label="cluster barrier",
    )


# --- addresses ----------------------------------------------------------------------------------


@executes("mapa", scalar=f"({{a}} & ~{0xFF << _RANK_BIT:#x}) | (({{b}} & 0xff) << {_RANK_BIT})")
def mapa(op: Op, a: Array, b: Any) -> Any:
    """Replace the rank in an address by ``b``. The window of a generic address stays the same."""
    word = a.dtype.type
    return (a & ~word(0xFF << _RANK_BIT)) | ((np.asarray(b).astype(word) & word(0xFF)) << word(_RANK_BIT))


@executes("getctarank", scalar=f"({{a}} >> {_RANK_BIT}) & 0xff")
def getctarank(op: Op, a: Array) -> Any:
    return ((a >> a.dtype.type(_RANK_BIT)) & a.dtype.type(0xFF)).astype(np.uint32)


@executes("isspacep", per="warp", team=True)
def isspacep(s: Split, op: Op, lanes: Array, a: Array) -> Any:
    space = op.chosen["space"]
    upper = a >> np.uint64(_UPPER)
    shared = upper == SHARED_WINDOW >> _UPPER
    if space == "shared::cluster":
        return shared
    if space in ("shared", "shared::cta"):
        rank = (a & np.uint64(0xFFFFFFFF)) >> np.uint64(_RANK_BIT)
        return shared & (rank == s.warp.cta.rank)
    if space == "global":
        # The window of parameters is part of global memory; the windows of constants and local memory are
        # not.
        return ~shared & (upper != LOCAL_WINDOW >> _UPPER) & (upper != CONST_WINDOW >> _UPPER)
    return upper == _SPACES[space] >> _UPPER
