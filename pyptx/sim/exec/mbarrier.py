"""mbarrier operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.findings import RULES, Finding
from ..mbarrier import MAX_COUNT, MBarrier
from ..memory import Segment
from ..semantics import Op, executes
from ..waits import BarrierPhase
from ..warp import Split


def _changed(s: Split) -> None:
    """A spinning thread may see the difference. (Asking a barrier changes nothing.)"""
    s.warp.cta.machine.memory.version += 1


def _place(s: Split, op: Op, address: int) -> tuple[Segment, int]:
    cta = s.warp.cta
    sem, scope = op.chosen.get("sem", "relaxed"), op.chosen.get("scope", "cta")
    segment, offset = cta.machine.memory.access(
        "barrier", op.space, address, 8, s, cta.reach, "generic", sem, scope
    )
    return segment, int(offset)


def live_barrier(s: Split, op: Op, address: int) -> MBarrier:
    """The barrier object at ``address``, in the instruction's space. Raises a fault where none is live."""
    machine = s.warp.cta.machine
    segment, offset = machine.memory.access("barrier", op.space, address, 8, s, s.warp.cta.reach)
    barrier = segment.barriers.get(int(offset))
    if barrier is None:
        raise machine.fault(
            "mbarrier-misuse", f"{op.name}: no mbarrier was initialised at shared address {address:#x}", s
        )
    return barrier


def _name(op: Op) -> str:
    """What the kernel's text calls the barrier where it is initialised: ``bar_full+8``."""
    return str(op.binding.operands["addr"]).strip("[]").lstrip("%")


@executes("mbarrier.init", per="lane")
def init(s: Split, op: Op, lane: int, address: int, count: int) -> None:
    segment, offset = _place(s, op, address)
    if not 1 <= count <= MAX_COUNT:
        raise s.warp.cta.machine.fault(
            "mbarrier-misuse", f"mbarrier.init with count {count}; expected 1..{MAX_COUNT}", s
        )
    old = segment.barriers.get(offset)
    if old is not None:
        s.warp.cta.machine.report(
            Finding(
                RULES["mbarrier-reinit"],
                f"mbarrier.init over the live {old.describe()}",
                op.location,
                s.who(),
                (("initialised", old.location),),
            )
        )
    segment.barriers[offset] = MBarrier(segment.base + offset, count, _name(op), op.location)
    segment.mark(offset, 8)
    _changed(s)


@executes("mbarrier.inval", per="lane")
def inval(s: Split, op: Op, lane: int, address: int) -> None:
    live_barrier(s, op, address)
    segment, offset = _place(s, op, address)
    del segment.barriers[offset]


@executes("mbarrier.arrive", "mbarrier.arrive.remote", per="lane")
def arrive(s: Split, op: Op, lane: int, address: int, count: int | None = None) -> int:
    barrier = live_barrier(s, op, address)
    state = _state(barrier)
    _changed(s)
    barrier.arrive(1 if count is None else count, s)
    return state


@executes("mbarrier.arrive.expect_tx", "mbarrier.arrive.expect_tx.remote", per="lane")
def arrive_expect_tx(s: Split, op: Op, lane: int, address: int, tx: int) -> int:
    barrier = live_barrier(s, op, address)
    state = _state(barrier)
    _changed(s)
    barrier.expect(tx, s)
    barrier.arrive(1, s)
    return state


@executes("mbarrier.expect_tx", per="lane")
def expect_tx(s: Split, op: Op, lane: int, address: int, tx: int) -> None:
    _changed(s)
    live_barrier(s, op, address).expect(tx, s)


def _state(barrier: MBarrier) -> int:
    """An opaque state: here the phase before the arrival."""
    return barrier.phase


def _try_wait_lane(
    s: Split, op: Op, lane: int, address: int, parity: int, hint: int | None = None
) -> BarrierPhase | None:
    barrier = live_barrier(s, op, address)
    _check_parity(s, parity)
    if barrier.completed(parity):
        s.put("waitComplete", True)
        return None
    if s.warp.cta.machine.policy.gives_up():
        s.put("waitComplete", False)
        return None
    s.put("waitComplete", False)
    return BarrierPhase(barrier, parity, lambda value: _finish(s, op, value))


def _finish(s: Split, op: Op, value: bool) -> None:
    s.op = op
    s.put("waitComplete", value)


def _check_parity(s: Split, parity: int) -> None:
    if parity not in (0, 1):
        raise s.warp.cta.machine.fault("mbarrier-misuse", f"phase parity {parity}; it is 0 or 1", s)


@executes("mbarrier.try_wait.parity", per="warp", yields=True, lane=_try_wait_lane)
def try_wait(
    s: Split, op: Op, lanes: Any, address: Any, parity: Any, hint: Any = None
) -> BarrierPhase | None:
    parities = np.broadcast_to(parity, np.shape(address))
    questions = sorted({(int(a), int(p)) for a, p in zip(address.tolist(), parities.tolist(), strict=True)})
    answers = {}
    for where, wanted in questions:
        _check_parity(s, wanted)
        answers[where, wanted] = live_barrier(s, op, where).completed(wanted)
    result = np.array(
        [answers[int(a), int(p)] for a, p in zip(address.tolist(), parities.tolist(), strict=True)]
    )
    if result.any() or len(questions) > 1 or s.warp.cta.machine.policy.gives_up():
        s.put("waitComplete", result, lanes)
        return None
    where, wanted = questions[0]
    frozen = np.array(lanes)

    def answer(value: bool) -> None:
        s.op = op
        s.put("waitComplete", value, frozen)

    answer(False)
    return BarrierPhase(live_barrier(s, op, where), wanted, answer)


@executes("mbarrier.test_wait.parity", per="lane")
def test_wait(s: Split, op: Op, lane: int, address: int, parity: int) -> bool:
    _check_parity(s, parity)
    return live_barrier(s, op, address).completed(parity)
