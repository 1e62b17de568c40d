"""Executes the ``mbarrier`` instructions.

Lanes of a warp that operate on one mbarrier with one count form one transaction, as on an H200: the phase
cannot complete within the transaction: if fewer arrivals are pending, an H200 ends the kernel, although the
ISA would count the rest in the next phase. All these lanes get the state from before the instruction. With
``.noComplete``, each lane gets its own state, as if the lanes arrived in order, and the lower half of the
state has the mask of the transaction. (On an H200 the lower half of other states is the register's old value;
here it is zero.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.findings import RULES, Finding
from ...core.remedies import Remedy
from ..code.semantic import Op, executes
from ..engine.stream import SyncKind
from ..engine.waits import BarrierPhase
from ..memory.access import AccessKind, MemoryOrder, Proxy, Scope
from ..memory.mbarrier import MAX_COUNT, MBarrier, parity_of, pending_of
from ..memory.segments import Segment
from ..threads.events import announce_sync
from ..threads.warp import Split, mask_of_lanes

_GENERIC, _CTA = Proxy.GENERIC, Scope.CTA
_RELAXED, _ACQUIRE, _RELEASE = MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE
_PROBE = AccessKind.PROBE
#: What mends a kernel that asks for a phase once, and does not look at the answer.
_WAIT_IN_A_LOOP = Remedy(
    RULES["unused-wait"].remedy,
    "ptx.mbarrier.wait(mbar, parity)",
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [mbar], parity; @!p bra WAIT;",
)


def _changed(s: Split) -> None:
    """Record that memory has changed, so that a thread that spins in a loop is run again.

    Waits and tests of an mbarrier do not call this function, since they change nothing.
    """
    s.warp.cta.machine.memory.version += 1


def _place(s: Split, op: Op, kind: AccessKind, address: int) -> tuple[Segment, int]:
    cta = s.warp.cta
    segment, offset = cta.machine.memory.access(
        kind, op.space, address, 8, s, cta.cluster_memory, _GENERIC, op.order or _RELAXED, op.scope or _CTA
    )
    return segment, int(offset)


def live_barrier(s: Split, op: Op, address: int) -> MBarrier:
    """Return the live mbarrier at ``address`` in the instruction's space; raise a fault if there is none."""
    machine = s.warp.cta.machine
    segment, offset = _place(s, op, _PROBE, address)
    barrier = segment.barriers.get(int(offset))
    if barrier is None:
        raise machine.fault(
            "mbarrier-misuse", f"{op.name}: no mbarrier was initialized at shared address {address:#x}", s
        )
    return barrier


def own_barrier(s: Split, op: Op, address: int) -> MBarrier:
    """Return the live mbarrier at ``address``; raise a fault unless it lies in the thread's own CTA."""
    barrier = live_barrier(s, op, address)
    _own(s, op, barrier.address)
    return barrier


def _own(s: Split, op: Op, address: int) -> None:
    if not s.warp.cta.owns(address):
        raise s.warp.cta.machine.fault(
            "mbarrier-misuse",
            f"{op.name} of an mbarrier in the CTA of rank {address >> 24}: "
            "only an mbarrier of the thread's own CTA is allowed",
            s,
        )


def _name(op: Op) -> str:
    """Return the text of the address operand, such as ``full+8``, as a name for the mbarrier."""
    return str(op.binding.operands["addr"]).strip("[]").lstrip("%")


@executes("mbarrier.init", "mbarrier.init.layout", per="lane")
def init(s: Split, op: Op, lane: int, address: int, count: int) -> None:
    segment, offset = _place(s, op, AccessKind.INIT, address)
    if not 1 <= count <= MAX_COUNT:
        raise s.warp.cta.machine.fault(
            "mbarrier-misuse", f"mbarrier.init with count {count}; expected 1..{MAX_COUNT}", s
        )
    _own(s, op, segment.base + offset)
    old = segment.barriers.get(offset)
    if old is not None:
        s.warp.cta.machine.report(
            Finding(
                RULES["mbarrier-reinit"],
                f"mbarrier.init over the live {old.describe()}",
                op.location,
                s.description(),
                (("initialized", old.location),),
            )
        )
    barrier = MBarrier(
        segment.base + offset,
        count,
        _name(op) if segment.parts is None else segment.parts.describe(offset),
        op.location,
        int(op.chosen.get("layout", "layout::v0") == "layout::v1"),
        key=(s.warp.cta.grid.number, s.warp.cta.cluster.number, segment.base + offset),
        completed_by=s.warp.cta.machine.phase_completed,
    )
    segment.place_barrier(offset, barrier)
    segment.mark(offset, 8)
    _changed(s)


@executes("mbarrier.check_layout", per="lane")
def check_layout(s: Split, op: Op, lane: int, address: int) -> bool:
    return live_barrier(s, op, address).layout == int(op.chosen["layout"] == "layout::v1")


@executes("mbarrier.inval", per="lane")
def inval(s: Split, op: Op, lane: int, address: int) -> None:
    own_barrier(s, op, address)
    segment, offset = _place(s, op, AccessKind.INVAL, address)
    segment.remove_barrier(offset)


# --- arrivals -----------------------------------------------------------------------------------

#: One transaction: the mbarrier's address, the operand that its lanes share, their positions in the call.
_Transaction = tuple[int, int, list[int]]


def _transactions(lanes: Any, address: Any, operand: Any) -> list[_Transaction]:
    """Group the executing lanes by warp, mbarrier and operand: each group is one transaction.

    The groups are in the order of their first lanes.
    """
    if np.ndim(operand) == 0 and len(lanes) <= 32 and (address == address[0]).all():
        return [(int(address[0]), int(operand), list(range(len(lanes))))]
    found: dict[tuple[int, int, int], list[int]] = {}
    operands = np.broadcast_to(operand, address.shape)
    for position, key in enumerate(
        zip((lanes >> 5).tolist(), address.tolist(), operands.tolist(), strict=True)
    ):
        found.setdefault(key, []).append(position)
    return [(where, value, positions) for (_, where, value), positions in found.items()]


#: Traits of the forms that drop their arrivals: later phases no longer expect them.
_DROPS = "arrive_drop"


def _arrives(
    kind: str, *, team: bool = True, lane: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function for ``mbarrier.arrive`` and ``mbarrier.arrive_drop``.

    ``kind`` is the rest of the two form identifiers, such as ``.expect_tx``.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        executes(f"mbarrier.arrive{kind}", per="warp", team=team, lane=lane, varies="state")(function)
        executes(
            f"mbarrier.arrive_drop{kind}", per="warp", team=team, lane=lane, varies="state", traits=_DROPS
        )(function)
        return function

    return register


def _order(op: Op, default: MemoryOrder) -> tuple[MemoryOrder, Scope]:
    """Return the memory order and scope of an instruction.

    ``default`` is the order of an instruction that names none; its scope is then the CTA.
    """
    return op.order or default, op.scope or _CTA


def _announce(s: Split, op: Op, kind: SyncKind, barrier: MBarrier, amount: int, default: MemoryOrder) -> None:
    """Send observers a synchronization event: the executing lanes operate on the mbarrier ``barrier``.

    ``amount`` is the number of arrivals or of bytes. ``default`` is the memory order of an instruction
    without a ``.sem`` modifier.
    """
    if s.warp.cta.machine.stream.active:
        announce_sync(s, kind, barrier.key, barrier.phase, amount=amount, order=_order(op, default))


def _expect(s: Split, op: Op, barrier: MBarrier, nbytes: int) -> None:
    """Let the mbarrier expect ``nbytes`` more bytes, for all acting lanes together."""
    _announce(s, op, SyncKind.MBARRIER_EXPECT_TX, barrier, nbytes, _RELAXED)
    barrier.expect(nbytes, s)


def _arrive_lane(s: Split, op: Op, lane: int, address: int, count: int | None = None) -> int:
    barrier = live_barrier(s, op, address)
    state = barrier.state()
    barrier.note_state(state)
    _take(s, op, barrier, 1 if count is None else count)
    return state


def _arrive_expect_tx_lane(s: Split, op: Op, lane: int, address: int, tx: int) -> int:
    barrier = live_barrier(s, op, address)
    state = barrier.state()
    barrier.note_state(state)
    _expect(s, op, barrier, tx)
    _take(s, op, barrier, 1)
    return state


def _take(s: Split, op: Op, barrier: MBarrier, count: int, lanes: int = 1) -> None:
    """Count ``count`` arrivals on the mbarrier, which ``lanes`` executing lanes make together.

    For ``arrive_drop``, later phases also expect ``count`` arrivals fewer.
    """
    _changed(s)
    _announce(s, op, SyncKind.MBARRIER_ARRIVE, barrier, count, _RELEASE)
    if op.traits is _DROPS:
        barrier.drop(count, s)
    if "noComplete" in op.chosen:
        _announce(s, op, SyncKind.MBARRIER_NO_COMPLETE, barrier, count, _RELEASE)
        barrier.arrive_incomplete(count, s, lanes=lanes)
    else:
        barrier.arrive(count, s, lanes=lanes)


@_arrives("", lane=_arrive_lane)
@_arrives(".remote", lane=_arrive_lane)
def arrive(s: Split, op: Op, lanes: Any, address: Any, count: Any = None) -> Any:
    return _arrive(s, op, lanes, address, 1 if count is None else count, with_bytes=False)


@_arrives(".expect_tx", lane=_arrive_expect_tx_lane)
@_arrives(".expect_tx.remote", lane=_arrive_expect_tx_lane)
def arrive_expect_tx(s: Split, op: Op, lanes: Any, address: Any, tx: Any) -> Any:
    return _arrive(s, op, lanes, address, tx, with_bytes=True)


def _arrive(s: Split, op: Op, lanes: Any, address: Any, operand: Any, *, with_bytes: bool) -> Any:
    """Execute an arrival of ``lanes``, and return the state from before it for each lane.

    ``operand`` is the number of arrivals of a lane. If ``with_bytes``, it is instead the number of bytes that
    the lane adds to the expected bytes, before it arrives once.
    """
    states = np.empty(len(lanes), np.uint64)
    before: dict[tuple[int, int], int] = {}
    for where, value, positions in _transactions(lanes, address, operand):
        barrier = live_barrier(s, op, where)
        warp = int(lanes[positions[0]]) >> 5
        state = before.setdefault((warp, where), barrier.state())
        states[positions] = state
        barrier.note_state(state)
        s.acting = lanes[positions]
        if with_bytes:
            _expect(s, op, barrier, value * len(positions))
        together = len(positions)
        _take(s, op, barrier, together if with_bytes else value * together, together)
    return states


@_arrives(".noComplete")
def arrive_no_complete(s: Split, op: Op, lanes: Any, address: Any, count: Any) -> Any:
    states = np.empty(len(lanes), np.uint64)
    for where, value, positions in _transactions(lanes, address, count):
        barrier = live_barrier(s, op, where)
        s.acting = lanes[positions]
        mask = sum(1 << (int(lanes[position]) & 31) for position in positions)
        given = [barrier.state(value * earlier) | mask for earlier in range(len(positions))]
        states[positions] = given
        for state in given:
            barrier.note_state(state)
        _take(s, op, barrier, value * len(positions), len(positions))
    return states


@_arrives(".multicast", team=False)
def arrive_multicast(s: Split, op: Op, lanes: Any, address: Any, count: Any, ctas: Any) -> None:
    for chosen, where in _each_cta(address, ctas):
        arrive(s, op, lanes[chosen], where, count if np.ndim(count) == 0 else count[chosen])


@_arrives(".expect_tx.multicast", team=False)
def arrive_expect_tx_multicast(s: Split, op: Op, lanes: Any, address: Any, tx: Any, ctas: Any) -> None:
    for chosen, where in _each_cta(address, ctas):
        arrive_expect_tx(s, op, lanes[chosen], where, tx if np.ndim(tx) == 0 else tx[chosen])


def _each_cta(address: Any, ctas: Any) -> Iterator[tuple[Any, Any]]:
    """Yield ``(lanes, addresses)`` for each CTA that is a target of some lane's multicast mask.

    ``lanes`` are the positions of the lanes whose mask contains the CTA, ``addresses`` their mbarriers in
    that CTA.
    """
    masks = np.broadcast_to(ctas, address.shape)
    for rank in range(32):
        chosen = np.flatnonzero(masks >> np.uint32(rank) & np.uint32(1))
        if len(chosen):
            yield chosen, address[chosen] & 0xFFFFFF | rank << 24


@executes("mbarrier.pending_count", "mbarrier.pending_count.layout")
def pending_count(state: Any) -> Any:
    return pending_of(state)


# --- transactions -------------------------------------------------------------------------------


@executes("mbarrier.expect_tx", per="lane")
def expect_tx(s: Split, op: Op, lane: int, address: int, tx: int) -> None:
    _changed(s)
    _expect(s, op, live_barrier(s, op, address), tx)


@executes("mbarrier.complete_tx", per="lane")
def complete_tx(s: Split, op: Op, lane: int, address: int, tx: int) -> None:
    _changed(s)
    barrier = live_barrier(s, op, address)
    _announce(s, op, SyncKind.MBARRIER_COMPLETE_TX, barrier, tx, _RELAXED)
    barrier.complete(tx, s)


@executes("mbarrier.expect_tx.multicast", per="warp")
def expect_tx_multicast(s: Split, op: Op, lanes: Any, address: Any, tx: Any, ctas: Any) -> None:
    _transact_everywhere(s, op, lanes, address, tx, ctas, expect_tx)


@executes("mbarrier.complete_tx.multicast", per="warp")
def complete_tx_multicast(s: Split, op: Op, lanes: Any, address: Any, tx: Any, ctas: Any) -> None:
    _transact_everywhere(s, op, lanes, address, tx, ctas, complete_tx)


def _transact_everywhere(
    s: Split, op: Op, lanes: Any, address: Any, tx: Any, ctas: Any, transact: Callable[..., None]
) -> None:
    amounts = np.broadcast_to(tx, address.shape)
    for chosen, where in _each_cta(address, ctas):
        for lane, one, amount in zip(
            lanes[chosen].tolist(), where.tolist(), amounts[chosen].tolist(), strict=True
        ):
            transact(s, op, lane, one, amount)


# --- waits --------------------------------------------------------------------------------------


def _parity(op: Op, phase: int) -> int:
    """Return the parity of the phase for which a wait or test asks: ``phase`` is a parity or a state.

    The parity is the lowest bit of a parity operand, or the top bit of a state. An H200 ignores the other
    bits of a parity operand, and compilers pass -1 for an odd phase.
    """
    return phase & 1 if "parity" in op.chosen else parity_of(phase)


def _ask_one(s: Split, op: Op, barrier: MBarrier, parity: int, mask: int) -> bool:
    """Return True if the phase for which the lanes of ``mask`` wait is complete.

    If the schedule starves threads, the barrier may complete several phases between two tests of a thread.
    This is reported, and the test finds the thread's phase complete.
    """
    complete = barrier.completed(parity)
    if complete and not op.cache["unused"]:
        barrier.see()
    machine = s.warp.cta.machine
    if not machine.policy.starves_threads:
        return complete
    s.op = op
    watch = barrier.watch(s.warp.issuer, mask)
    if complete:
        watch.complete(barrier.phase)
        return True
    if not watch.lapped(barrier.phase):
        machine.policy.unanswered(barrier.key, barrier.phase)
        return False
    machine.report(barrier.lapped(s))
    return True


def _asked(s: Split, op: Op, address: int, phase: int) -> MBarrier:
    """Return the mbarrier at ``address``, for which lanes test or wait.

    Reports a finding if no arrival returned the state in ``phase``, or if no instruction reads the answer of
    the wait.
    """
    barrier = own_barrier(s, op, address)
    if "parity" not in op.chosen and not barrier.gave(phase):
        s.warp.cta.machine.report(
            Finding(
                RULES["mbarrier-state"],
                f"{op.name} with the state {phase:#x}, which no arrival returned in this phase "
                f"or the one before: {barrier.describe()}",
                op.location,
                s.description(),
                (("initialized", barrier.location),),
            )
        )
    if "unused" not in op.cache:
        op.cache["unused"] = not s.frame.code.reads_results(op)
        if op.cache["unused"]:
            s.warp.cta.machine.report(
                Finding(
                    RULES["unused-wait"],
                    f"{op.name}: no instruction reads the predicate that it returns",
                    op.location,
                    s.description(),
                    remedy=_WAIT_IN_A_LOOP,
                )
            )
    return barrier


def _answer(s: Split, op: Op, value: Any, lanes: Any = None) -> None:
    """Write the answer of a wait or test to its destination registers.

    The simulator never reports the validity of a copy, so the report registers get false and 0.
    """
    s.op = op
    s.put("waitComplete", value, lanes)
    if op.pair:
        s.put("waitComplete|", False, lanes)
        s.put("reportValue", 0, lanes)


def _acquire(s: Split, op: Op, barrier: MBarrier, lanes: Any = None) -> None:
    """Send observers the end of a wait: ``lanes`` have seen the phase before the current one complete.

    If no instruction reads the answer, the lanes have not seen it.
    """
    if s.warp.cta.machine.stream.active and not op.cache["unused"]:
        order = _order(op, _ACQUIRE)
        announce_sync(s, SyncKind.MBARRIER_WAIT, barrier.key, barrier.phase - 1, lanes, order=order)


def _wait_for(s: Split, op: Op, barrier: MBarrier, parity: int, lanes: Any = None) -> BarrierPhase:
    """Return a wait that ends when the phase of ``parity`` is complete, and then writes the answer.

    ``lanes`` get the answer (None: all lanes of the split).
    """

    def answer(value: bool) -> None:
        _answer(s, op, value, lanes)
        if value:
            if not op.cache["unused"]:
                barrier.see()
            _acquire(s, op, barrier, s.lanes if lanes is None else lanes)

    machine = s.warp.cta.machine
    watch = None
    if machine.policy.starves_threads:
        watch = barrier.watch(s.warp.issuer, s.mask if lanes is None else mask_of_lanes(lanes))
    return BarrierPhase(barrier, parity, answer, machine.engines, watch)


def _try_wait_lane(
    s: Split, op: Op, lane: int, address: int, phase: int, hint: int | None = None
) -> BarrierPhase | None:
    barrier = _asked(s, op, address, phase)
    parity = _parity(op, phase)
    complete = _ask_one(s, op, barrier, parity, 1 << lane)
    _answer(s, op, complete)
    if complete:
        _acquire(s, op, barrier)
    if complete or s.warp.cta.machine.policy.gives_up():
        return None
    return _wait_for(s, op, barrier, parity)


#: Forms of a wait by what follows its name, without and with a report.
_PLAIN = ("", ".primary", ".parity", ".parity.primary", ".parity.conditional")
_REPORTING = (".report", ".parity.report")


@executes(
    *(f"mbarrier.try_wait{kind}" for kind in (*_PLAIN, *_REPORTING)),
    per="warp",
    yields=True,
    varies="answer",
    lane=_try_wait_lane,
)
def try_wait(s: Split, op: Op, lanes: Any, address: Any, phase: Any, hint: Any = None) -> BarrierPhase | None:
    """Test the phase once; if it is not complete, let the lanes wait for it.

    The conditional phase completes together with the primary one, since no operation makes reports here.
    """
    questions, result = _ask(s, op, lanes, address, phase)
    _answer(s, op, result, lanes)
    if result.any() or len(questions) > 1 or s.warp.cta.machine.policy.gives_up():
        return None
    ((where, parity),) = questions
    return _wait_for(s, op, live_barrier(s, op, where), parity, np.array(lanes))


def _ask(s: Split, op: Op, lanes: Any, address: Any, phase: Any) -> tuple[dict[tuple[int, int], bool], Any]:
    """Test each distinct (address, parity) once.

    Returns the answer for each of these pairs, and the answer for each lane.
    """
    phases = np.broadcast_to(phase, np.shape(address)).tolist()
    asked = [(one, _parity(op, number)) for one, number in zip(address.tolist(), phases, strict=True)]
    for question in dict.fromkeys(zip(address.tolist(), phases, strict=True)):
        _asked(s, op, *question)
    mask = mask_of_lanes(lanes) if s.warp.cta.machine.policy.starves_threads else 0
    answers = {}
    for question in dict.fromkeys(asked):
        barrier = live_barrier(s, op, question[0])
        answers[question] = _ask_one(s, op, barrier, question[1], mask)
        if answers[question] and s.warp.cta.machine.stream.active:
            _acquire(s, op, barrier, [one for one, its in zip(lanes, asked, strict=True) if its == question])
    return answers, np.array([answers[question] for question in asked])


def _test_wait_lane(s: Split, op: Op, lane: int, address: int, phase: int) -> bool:
    barrier = _asked(s, op, address, phase)
    complete = _ask_one(s, op, barrier, _parity(op, phase), 1 << lane)
    if complete:
        _acquire(s, op, barrier)
    return complete


@executes(
    *(f"mbarrier.test_wait{kind}" for kind in _PLAIN), per="warp", varies="answer", lane=_test_wait_lane
)
def test_wait(s: Split, op: Op, lanes: Any, address: Any, phase: Any) -> Any:
    return _ask(s, op, lanes, address, phase)[1]


@executes(*(f"mbarrier.test_wait{kind}" for kind in _REPORTING), per="warp", varies="answer", deferred=True)
def test_wait_report(s: Split, op: Op, lanes: Any, address: Any, phase: Any) -> None:
    _answer(s, op, test_wait(s, op, lanes, address, phase), lanes)
