"""nanosleep, pmevent, griddepcontrol, setmaxnreg, clusterlaunchcontrol, brkpt; stacks in local memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ...ir import Symbol
from ..code.semantic import Op, executes
from ..copies import Range
from ..engine.events import Engine, Step, StepKind, nothing
from ..engine.stream import SyncKind
from ..engine.waits import Awaited, Condition
from ..memory.access import StateSpace
from ..memory.address_space import SHARED_WINDOW
from ..memory.mbarrier import Signal
from ..threads.events import announce_sync
from ..threads.register_budget import RegisterBudget, RegisterWait
from ..threads.warp import Split
from .mbarrier import live_barrier

Array = NDArray[Any]


@executes("nanosleep", fidelity="ordering", per="warp", team=True)
def nanosleep(s: Split, op: Op, lanes: Any, duration: Any) -> None:
    """Advance the clock by the duration. The schedule decides which threads run in the meantime."""
    s.warp.cta.machine.sleep(int(np.max(duration)))


@executes("pmevent", "pmevent.mask", fidelity="ordering", per="warp", team=True)
def pmevent(s: Split, op: Op, lanes: Any, event: Any) -> None:
    """Do nothing: the simulator has no performance monitor that counts the events."""


@executes("griddepcontrol", fidelity="ordering", per="warp", yields=True)
def griddepcontrol(s: Split, op: Op, lanes: Any) -> Condition | None:
    """Allow dependent launches to start, for this CTA; or wait until the previous launch is complete.

    One thread of a CTA is enough to allow it. A launch that does not depend on the previous one starts after
    the previous one is complete, so it never waits here.
    """
    grid = s.warp.cta.grid
    if op.chosen["action"] == "launch_dependents":
        announce_sync(s, SyncKind.LAUNCH_DEPENDENTS, grid.number, lanes=lanes)
        grid.let_go(s.warp.cta)
        if grid.lets_go and grid.machine.residency.admit():
            # The new CTAs run first: this wait lets the other threads run once, and then ends.
            asked = iter([False])
            return Condition(
                lambda: next(asked, True),
                lambda: f"lets the new CTAs run at {op.name}",
                awaited=Awaited.LAUNCH,
                ends_elsewhere=True,
            )
        return None
    before = grid.before
    if before is None:
        return None
    frozen = np.array(lanes)

    def leave() -> None:
        s.op = op
        announce_sync(s, SyncKind.GRID_WAIT, before.number, lanes=frozen)

    if before.complete:
        leave()
        return None
    return Condition(
        lambda: before.complete,
        lambda: f"waits at {op.name} for the end of launch {before.number}",
        leave,
        awaited=Awaited.LAUNCH,
        ends_elsewhere=True,
    )


@executes("setmaxnreg", fidelity="ordering", per="warp", yields=True, collective="warp")
def setmaxnreg(s: Split, op: Op, lanes: Any, count: Any) -> RegisterWait | None:
    """Release registers of the warp to the CTA's pool, or take registers from the pool once it has enough."""
    cta = s.warp.cta
    budget, wanted = cta.unit(RegisterBudget), int(np.ravel(count)[0])
    takes = op.chosen["action"] == "inc"
    kind = SyncKind.REGISTERS_TAKE if takes else SyncKind.REGISTERS_RELEASE
    announce_sync(s, kind, cta.key, lanes=lanes, amount=wanted)
    wrong, needed = budget.change(s.warp.index, op.chosen["action"], wanted, op.location)
    if wrong:
        cta.machine.report(Finding(RULES["setmaxnreg"], wrong, op.location, s.description()))
    return RegisterWait(budget, wanted, needed) if needed else None


# --- clusterlaunchcontrol ---------------------------------------------------------------------------

#: Bytes of the answer of ``try_cancel``.
_ANSWER = 16
#: Bit of the answer's second 64 bits that is set if a launch was canceled. The first 64 bits hold x (32
#: bits), y (16) and z (16); in a refusal they are coordinates of no CTA. Source: the code that ptxas
#: generates to decode an answer.
_CANCELED = 1
_NOWHERE = (1 << 64) - 1
_RANK_BIT = 24


@executes("clusterlaunchcontrol.try_cancel", per="lane", takes_launches=True)
def try_cancel(s: Split, op: Op, lane: int, address: int, mbar: int) -> None:
    """Cancel the launch of the next cluster; then write the answer and complete its bytes.

    With a multicast, each CTA gets the answer.
    """
    cta = s.warp.cta
    machine, grid = cta.machine, cta.grid
    given = {"addr": address, "mbar": mbar}
    address, mbar = (_shared(op, name, where) for name, where in given.items())
    for name, where in (("addr", address), ("mbar", mbar)):
        if not cta.owns(where):
            raise machine.fault(
                "launch-control",
                f"{op.name}: {name} {given[name]:#x} is not an address in the CTA's own shared memory",
                s,
            )
    if address % _ANSWER:
        raise machine.fault("misaligned", f"{op.name} at {address:#x}; expected a multiple of {_ANSWER}", s)
    if cta.refused:
        machine.report(
            Finding(
                RULES["launch-control"],
                f"{op.name} after an earlier response told this CTA that no cluster is left to cancel",
                op.location,
                s.description(),
            )
        )
    operation = machine.operation(s, Engine.TMA)
    held: list[NDArray[np.uint8]] = []
    request = grid.request(cta.cluster.number)
    steps = [Step(operation, StepKind.CANCEL, lambda: held.append(_answer(grid.steal(request))), [])]
    for rank in range(grid.cluster_size) if "multicast" in op.chosen else (cta.rank,):
        there = (rank - cta.rank) << _RANK_BIT
        target = Range(StateSpace.SHARED, address + there, _ANSWER)
        signal = Signal(live_barrier(s, op, mbar + there), nbytes=_ANSWER)

        def write(target: Range = target) -> None:
            target.write(cta, held[0], operation)

        step = Step(operation, StepKind.WRITE, write, steps[:1])
        steps += [step, Step(operation, StepKind.SIGNAL, nothing, [step], signal)]
    machine.issue(cta, steps)


def _shared(op: Op, operand: str, address: int) -> int:
    """Return the shared address that an operand means.

    For a generic address of another state space, the result is in no CTA's memory. Without .shared::cta the
    operand is a generic address, unless it is a variable's name: ptxas takes a name as the address in the
    variable's own state space.
    """
    named = isinstance(getattr(op.binding.operands[operand], "base", None), Symbol)
    return address if named or "space" in op.chosen else address - SHARED_WINDOW


def _answer(first: tuple[int, int, int] | None) -> NDArray[np.uint8]:
    """Return the 16 bytes that ``try_cancel`` writes: the first CTA of the canceled cluster, or a refusal.

    ``first`` has the coordinates of this CTA; None is a refusal.
    """
    if first is None:
        words = [_NOWHERE, 0]
    else:
        x, y, z = first
        words = [x | y << 32 | z << 48, _CANCELED]
    return np.array(words, "<u8").view(np.uint8)


def _granted(response: Array) -> Array:
    return (response["hi"] & np.uint64(_CANCELED)).astype(np.bool_)


@executes("clusterlaunchcontrol.query_cancel.is_canceled", per="warp", team=True, decodes_answer=True)
def is_canceled(s: Split, op: Op, lanes: Array, response: Array) -> Array:
    granted = _granted(response)
    if not granted.all():
        s.warp.cta.refused = True
    return granted


@executes("clusterlaunchcontrol.query_cancel.v4", per="warp", team=True, decodes_answer=True)
def first_ctaid(s: Split, op: Op, lanes: Array, response: Array) -> Array:
    """Return x, y, z of the canceled cluster's first CTA, and zero as the fourth element."""
    granted = _granted(response)
    if not granted.all():
        s.acting = lanes[~granted]
        s.warp.cta.machine.report(
            Finding(
                RULES["launch-control-answer"],
                f"{op.name} reads a response that refuses the request, so its result is undefined; "
                "test is_canceled first",
                op.location,
                s.description(),
            )
        )
        s.acting = lanes
    place = response["lo"]
    x, yz = place.astype(np.uint32), (place >> np.uint64(32)).astype(np.uint32)
    return np.stack([x, yz & np.uint32(0xFFFF), yz >> np.uint32(16), np.zeros_like(x)])


@executes("clusterlaunchcontrol.query_cancel", per="warp", team=True, decodes_answer=True)
def first_ctaid_along(s: Split, op: Op, lanes: Array, response: Array) -> Array:
    axis = "xyz".index(op.chosen["dimension"][-1])
    along: Array = first_ctaid(s, op, lanes, response)[axis]
    return along


# --- the debugger ---------------------------------------------------------------------------------


@executes("brkpt", per="warp")
def brkpt(s: Split, op: Op, lanes: Any) -> None:
    raise s.warp.cta.machine.fault("trap", "brkpt ends the kernel: no debugger is attached", s)


# --- the stack in local memory --------------------------------------------------------------------

#: The alignment of ``alloca``, in bytes, if the instruction names none.
_STACK_ALIGNMENT = 8


@executes("stacksave", per="warp")
def stacksave(s: Split, op: Op, lanes: Any) -> Any:
    return s.warp.stack[lanes]


@executes("stackrestore", per="warp")
def stackrestore(s: Split, op: Op, lanes: Any, pointer: Any) -> None:
    s.warp.stack[lanes] = pointer


@executes("alloca", per="warp")
def alloca(s: Split, op: Op, lanes: Any, size: Any, alignment: Any = None) -> Any:
    """Allocate local memory.

    The stack grows upward here; a program sees this only if it compares pointers.
    """
    align = np.int64(_STACK_ALIGNMENT if alignment is None else alignment)
    start = -(-s.warp.stack[lanes] // align) * align
    # A size beyond any thread's local memory must not wrap around.
    end = start + np.minimum(np.broadcast_to(size, start.shape).astype(np.uint64), np.uint64(1 << 40)).astype(
        np.int64
    )
    memory = s.warp.cta.local_memory
    memory.ensure(s, int(end.max()))
    for lane, first, last in zip(lanes.tolist(), start.tolist(), end.tolist(), strict=True):
        memory.discard(s, lane, first, last - first)
    s.warp.stack[lanes] = end
    return start
