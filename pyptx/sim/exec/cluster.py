"""Cluster barriers, addresses in other CTAs' shared memory, and questions about generic addresses.

A cluster is one CTA here, of rank 0.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..memory import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Memory
from ..semantics import Op, executes
from ..waits import Condition
from ..warp import Split

if TYPE_CHECKING:
    from ..cta import CTA

Array = NDArray[Any]

#: Where the rank of a CTA begins in a shared address; the bits below are the offset.
_RANK_BIT = 24
#: State spaces are windows of 4 GiB: the upper half of a generic address tells them apart.
_UPPER = 32
_SPACES = {
    "local": LOCAL_WINDOW,
    "const": CONST_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}


# --- barrier ------------------------------------------------------------------------------------


class _Barrier:
    """The barrier of a cluster of one CTA: who has arrived, and how often all have.

    ``owed`` holds the phase that each thread has arrived for and not waited for, or -1.
    """

    def __init__(self, cta: CTA) -> None:
        # Weakly: the table below keeps barriers, not CTAs.
        self.cta = weakref.ref(cta)
        self.phase = 0
        self.arrived = np.zeros(32 * len(cta.warps), np.bool_)
        self.owed = np.full(32 * len(cta.warps), -1, np.int64)

    def missing(self) -> int:
        """Threads that live and have not arrived in this phase."""
        cta = self.cta()
        assert cta is not None
        live = np.array([warp.live for warp in cta.warps], np.uint32)
        threads = np.unpackbits(live.view(np.uint8), bitorder="little").view(np.bool_)
        return int(np.count_nonzero(threads & ~self.arrived))

    def advance(self, memory: Memory) -> None:
        """Begin the next phase if nobody is missing."""
        if self.arrived.any() and not self.missing():
            self.arrived[:] = False
            self.phase += 1
            memory.version += 1


_BARRIERS: WeakKeyDictionary[CTA, _Barrier] = WeakKeyDictionary()


def _barrier(s: Split) -> _Barrier:
    found = _BARRIERS.get(s.warp.cta)
    if found is None:
        found = _BARRIERS[s.warp.cta] = _Barrier(s.warp.cta)
    return found


def _misused(s: Split, op: Op, lanes: Array, wrong: Array, what: str) -> None:
    if wrong.any():
        lane = int(np.argmax(wrong))
        raise s.warp.cta.machine.fault(
            "divergent-collective", f"{op.name}: lane {int(lanes[lane])} {what}", s
        )


@executes("barrier.cluster.arrive", per="warp")
def arrive(s: Split, op: Op, lanes: Array) -> None:
    barrier = _barrier(s)
    threads = lanes + 32 * s.warp.index
    _misused(s, op, lanes, barrier.owed[threads] >= 0, "arrives again without having waited")
    barrier.arrived[threads] = True
    barrier.owed[threads] = barrier.phase
    barrier.advance(s.warp.cta.machine.memory)


@executes("barrier.cluster.wait", per="warp", yields=True)
def wait(s: Split, op: Op, lanes: Array) -> Condition | None:
    barrier = _barrier(s)
    threads = lanes + 32 * s.warp.index
    phases = barrier.owed[threads]
    _misused(s, op, lanes, phases < 0, "waits without having arrived")
    barrier.owed[threads] = -1
    newest = int(phases.max())
    memory = s.warp.cta.machine.memory

    def complete() -> bool:
        # A thread that ends counts as arrived.
        barrier.advance(memory)
        return barrier.phase > newest

    if complete():
        return None
    return Condition(complete, lambda: f"waits at {op.name}: {barrier.missing()} threads have not arrived")


# --- addresses ----------------------------------------------------------------------------------


@executes("mapa", scalar=f"({{a}} & ~{0xFF << _RANK_BIT:#x}) | (({{b}} & 0xff) << {_RANK_BIT})")
def mapa(op: Op, a: Array, b: Any) -> Any:
    """The rank goes into its bits of the address; the window of a generic address stays."""
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
        # The window of the parameters lies within global memory, those of constants and local memory do not.
        return ~shared & (upper != LOCAL_WINDOW >> _UPPER) & (upper != CONST_WINDOW >> _UPPER)
    return upper == _SPACES[space] >> _UPPER
