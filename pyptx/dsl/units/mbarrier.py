"""``ptx.mbarrier``: barriers in shared memory.

PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier`.

Every function records exactly one instruction, except :func:`wait`.  ``mbar`` is the address of the barrier's
8 bytes: a u32 register, ``ptx.addr(...)`` or a shared-memory buffer.  ``phase`` is the parity of a phase, 0
or 1, a number or a register; ``state`` is a b64 register that :func:`arrive` wrote.

``space`` is the state space of the barrier: ``"cta"`` is this CTA, ``"cluster"`` any CTA of the cluster
(``ptx.cluster.map`` computes the address), ``"shared"`` the older spelling of ``"cta"``, None a generic
64-bit address. ``sem`` and ``scope`` are given together; without them, an arrival has release order and a
wait has acquire order, at scope cta.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import OperandError
from ...core.types import pred as predicate
from ...core.types import u32
from ...ir import Guard
from ..call_sites import here
from ..choices import (
    AnySharedSpace,
    ArriveOrder,
    BarrierLayout,
    ClusterScope,
    SharedSpace,
    TransactionOrder,
    WaitOrder,
)
from ..control import uniform
from ..emit import Predicate, checked, emit
from ..labels import Label
from ..records import records
from ..registers import Reg
from ..trace import current
from .answers import answer
from .places import Shared, barrier
from .qualifiers import cta_mask, destination, one_of, order, shared_space

__all__ = [
    "MAX_COUNT",
    "arrive",
    "arrive_drop",
    "arrive_drop_expect_tx",
    "arrive_drop_no_complete",
    "arrive_expect_tx",
    "arrive_no_complete",
    "check_layout",
    "complete_tx",
    "expect_tx",
    "init",
    "inval",
    "pending_count",
    "test_wait",
    "try_wait",
    "wait",
]

Phase = Reg | int

#: Largest number of arrivals of a phase, and of pending bytes: 2**20 - 1.
MAX_COUNT = (1 << 20) - 1

_SEE = "parallel-synchronization-and-communication-instructions-mbarrier"
_CONTENTS = f"{_SEE}-contents"
_WAIT = f"{_SEE}-test-wait-try-wait"
_OWN = ("cta", "shared", None)
_ANY = ("cta", "cluster", "shared", None)
_SCOPES = ("cta", "cluster")


def _count(count: Reg | int) -> Any:
    return checked("count", count, 1, MAX_COUNT, see=_CONTENTS)


def _bytes(nbytes: Reg | int) -> Any:
    return checked("nbytes", nbytes, 0, MAX_COUNT, see=_CONTENTS)


# --- the object -----------------------------------------------------------------------------------


def _layout(layout: str) -> str:
    return f"layout::{layout}"


@records("mbarrier.init", "mbarrier.init.layout")
def init(
    mbar: Shared,
    count: Reg | int,
    *,
    space: SharedSpace | None = "cta",
    layout: BarrierLayout | None = None,
    pred: Predicate = None,
) -> None:
    """Initialize an mbarrier that completes a phase after ``count`` arrivals. Records one ``mbarrier.init``.

    Watch out: other threads may use the mbarrier only after a barrier; threads of another CTA of the cluster
    only after ``ptx.fence.mbarrier_init()`` and a cluster barrier.

    Args:
        mbar: 8 bytes of this CTA's shared memory.
        count: arrivals of a phase, 1..2**20-1.
        space: ``"cta"``, ``"shared"`` or None.
        layout: ``"v0"``, or ``"v1"`` for a barrier that takes reports of copies (PTX 9.3); None is v0.
        pred: guard.

    Raises:
        OperandError: a count outside 1..2**20-1, or a buffer that is not aligned to 8 bytes.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-init`.
    """
    which = None if layout is None else _layout(layout)
    modifiers = ("init", which, shared_space(space, _OWN, see=_SEE), "b64")
    emit("mbarrier", modifiers, barrier(mbar), _count(count), pred=pred)


@records("mbarrier.check_layout")
def check_layout(
    mbar: Shared,
    layout: BarrierLayout,
    *,
    space: SharedSpace | None = "cta",
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Return a new predicate: true if the mbarrier has this layout, ``"v0"`` or ``"v1"``.

    Records one ``mbarrier.check_layout`` (PTX 9.3).

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-check-layout`.
    """
    modifiers = ("check_layout", _layout(layout), shared_space(space, _OWN, see=_SEE), "b64")
    return answer(predicate, "mbarrier", modifiers, barrier(mbar), hint="p", out=out, pred=pred)


@records("mbarrier.inval")
def inval(mbar: Shared, *, space: SharedSpace | None = "cta", pred: Predicate = None) -> None:
    """Invalidate an mbarrier, so that its memory may be reused. Records one ``mbarrier.inval``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-inval`.
    """
    emit("mbarrier", ("inval", shared_space(space, _OWN, see=_SEE), "b64"), barrier(mbar), pred=pred)


# --- arrivals -------------------------------------------------------------------------------------


def _multicast(multicast: Reg | int | None, space: str | None) -> tuple[str | None, tuple[Reg | int, ...]]:
    """Return the modifier and the operand for a mask of CTAs; without a mask, None and no operand."""
    if multicast is None:
        return None, ()
    if space != "shared::cluster":
        raise OperandError(
            f"multicast is {multicast!r} with space {space!r}: expected space 'cluster'",
            see=f"{_SEE}-arrive",
        )
    return "multicast::cluster::32b", (cta_mask(multicast, 32, see=f"{_SEE}-arrive"),)


def _arrive(
    verb: str,
    operation: str | None,
    mbar: Shared,
    number: Reg | int | None,
    state: Reg | None,
    sem: str | None,
    scope: str | None,
    space: str | None,
    multicast: Reg | int | None,
    pred: Predicate,
) -> None:
    state_space = shared_space(space, _ANY, see=f"{_SEE}-arrive")
    if state_space == "shared::cluster" and state is not None:
        raise OperandError(
            'state= is given with space="cluster": an arrival on another CTA\'s barrier returns no state',
            hint="leave state= out, or arrive on this CTA's own barrier",
            see=f"{_SEE}-arrive",
        )
    cast, mask = _multicast(multicast, state_space)
    given = () if number is None else (number,)
    modifiers = (
        verb,
        operation,
        *order(sem, scope, ("release", "relaxed"), _SCOPES, see=f"{_SEE}-arrive"),
        state_space,
        cast,
        "b64",
    )
    emit("mbarrier", modifiers, destination("state", state), barrier(mbar), *given, *mask, pred=pred)


@records("mbarrier.arrive", "mbarrier.arrive.remote", "mbarrier.arrive.multicast")
def arrive(
    mbar: Shared,
    count: Reg | int | None = None,
    *,
    state: Reg | None = None,
    sem: ArriveOrder | None = None,
    scope: ClusterScope | None = None,
    space: AnySharedSpace | None = "cta",
    multicast: Reg | int | None = None,
    pred: Predicate = None,
) -> None:
    """Arrive ``count`` times (default: once). Records one ``mbarrier.arrive``.

    Args:
        mbar: the barrier; with ``space="cluster"`` it may belong to another CTA.
        count: arrivals, 1..2**20-1.
        state: a b64 register that receives the phase's state, for waits by state; None discards the state.
        sem, scope: order and scope, given together: ``"release"``/``"relaxed"``, ``"cta"``/``"cluster"``.
        space: ``"cta"``, ``"cluster"``, ``"shared"`` or None.
        multicast: with ``space="cluster"``, mask of CTAs: the arrival is made on the barrier at this offset
            in each. A number or a u32 register (PTX 9.4).
        pred: guard.

    Raises:
        OperandError: a count out of range, ``state`` with a remote barrier, ``sem`` without ``scope``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-arrive`.
    """
    number = None if count is None else _count(count)
    _arrive("arrive", None, mbar, number, state, sem, scope, space, multicast, pred)


@records("mbarrier.arrive_drop", "mbarrier.arrive_drop.remote", "mbarrier.arrive_drop.multicast")
def arrive_drop(
    mbar: Shared,
    count: Reg | int | None = None,
    *,
    state: Reg | None = None,
    sem: ArriveOrder | None = None,
    scope: ClusterScope | None = None,
    space: AnySharedSpace | None = "cta",
    multicast: Reg | int | None = None,
    pred: Predicate = None,
) -> None:
    """Arrive ``count`` times (default: once), and lower the expected arrivals of later phases by ``count``.

    Records one ``mbarrier.arrive_drop``.  Arguments and errors are those of :func:`arrive`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop`.
    """
    number = None if count is None else _count(count)
    _arrive("arrive_drop", None, mbar, number, state, sem, scope, space, multicast, pred)


@records(
    "mbarrier.arrive.expect_tx", "mbarrier.arrive.expect_tx.remote", "mbarrier.arrive.expect_tx.multicast"
)
def arrive_expect_tx(
    mbar: Shared,
    nbytes: Reg | int,
    *,
    state: Reg | None = None,
    sem: ArriveOrder | None = None,
    scope: ClusterScope | None = None,
    space: AnySharedSpace | None = "cta",
    multicast: Reg | int | None = None,
    pred: Predicate = None,
) -> None:
    """Expect ``nbytes`` of asynchronous copies in this phase, then arrive once.

    Records one ``mbarrier.arrive.expect_tx``.  A tensor copy counts its whole box, even if it is clipped.
    The arguments are those of :func:`arrive`.

    Raises:
        OperandError: bytes outside 0..2**20-1, and as for :func:`arrive`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-arrive`.
    """
    _arrive("arrive", "expect_tx", mbar, _bytes(nbytes), state, sem, scope, space, multicast, pred)


@records(
    "mbarrier.arrive_drop.expect_tx",
    "mbarrier.arrive_drop.expect_tx.remote",
    "mbarrier.arrive_drop.expect_tx.multicast",
)
def arrive_drop_expect_tx(
    mbar: Shared,
    nbytes: Reg | int,
    *,
    state: Reg | None = None,
    sem: ArriveOrder | None = None,
    scope: ClusterScope | None = None,
    space: AnySharedSpace | None = "cta",
    multicast: Reg | int | None = None,
    pred: Predicate = None,
) -> None:
    """Expect ``nbytes`` in this phase, arrive once, and lower the expected arrivals of later phases by one.

    Records one ``mbarrier.arrive_drop.expect_tx``.  Arguments and errors are those of
    :func:`arrive_expect_tx`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop`.
    """
    _arrive("arrive_drop", "expect_tx", mbar, _bytes(nbytes), state, sem, scope, space, multicast, pred)


def _no_complete(
    verb: str,
    mbar: Shared,
    count: Reg | int,
    state: Reg,
    sem: str | None,
    scope: str | None,
    space: str | None,
    pred: Predicate,
) -> None:
    see = f"{_SEE}-{verb.replace('_', '-')}"
    modifiers = (
        *(verb, "noComplete", *order(sem, scope, ("release",), ("cta",), see=see)),
        *(shared_space(space, _OWN, see=see), "b64"),
    )
    written = destination("state", state)
    if written is None:
        raise OperandError("state is None: this instruction needs a b64 register for the state", see=see)
    emit("mbarrier", modifiers, written, barrier(mbar), _count(count), pred=pred)


@records("mbarrier.arrive.noComplete")
def arrive_no_complete(
    mbar: Shared,
    count: Reg | int,
    *,
    state: Reg,
    sem: ArriveOrder | None = None,
    scope: ClusterScope | None = None,
    space: SharedSpace | None = "cta",
    pred: Predicate = None,
) -> None:
    """Arrive ``count`` times without completing the phase. Records one ``mbarrier.arrive.noComplete``.

    Watch out: if this arrival completes the phase, the behavior is undefined.

    Args:
        mbar: the barrier, in this CTA.
        count: arrivals, 1..2**20-1.
        state: a b64 register that receives the phase's state.
        sem, scope: ``"release"`` and ``"cta"``, or neither.
        space: ``"cta"``, ``"shared"`` or None.
        pred: guard.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-arrive`.
    """
    _no_complete("arrive", mbar, count, state, sem, scope, space, pred)


@records("mbarrier.arrive_drop.noComplete")
def arrive_drop_no_complete(
    mbar: Shared,
    count: Reg | int,
    *,
    state: Reg,
    sem: ArriveOrder | None = None,
    scope: ClusterScope | None = None,
    space: SharedSpace | None = "cta",
    pred: Predicate = None,
) -> None:
    """Arrive as :func:`arrive_no_complete`, and lower the expected arrivals of later phases by ``count``.

    Records one ``mbarrier.arrive_drop.noComplete``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop`.
    """
    _no_complete("arrive_drop", mbar, count, state, sem, scope, space, pred)


# --- bytes ----------------------------------------------------------------------------------------


def _tx(
    operation: str,
    mbar: Shared,
    nbytes: Reg | int,
    sem: str | None,
    scope: str | None,
    space: str | None,
    multicast: Reg | int | None,
    pred: Predicate,
) -> None:
    see = f"{_SEE}-{operation.replace('_', '-')}-operation"
    state_space = shared_space(space, _ANY, see=see)
    cast, mask = _multicast(multicast, state_space)
    modifiers = (operation, *order(sem, scope, ("relaxed",), _SCOPES, see=see), state_space, cast, "b64")
    emit("mbarrier", modifiers, barrier(mbar), _bytes(nbytes), *mask, pred=pred)


@records("mbarrier.expect_tx", "mbarrier.expect_tx.multicast")
def expect_tx(
    mbar: Shared,
    nbytes: Reg | int,
    *,
    sem: TransactionOrder | None = None,
    scope: ClusterScope | None = None,
    space: AnySharedSpace | None = "cta",
    multicast: Reg | int | None = None,
    pred: Predicate = None,
) -> None:
    """Expect ``nbytes`` more in the current phase, without arriving. Records one ``mbarrier.expect_tx``.

    ``sem`` is ``"relaxed"``; the other arguments are those of :func:`arrive`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-expect-tx-operation`.
    """
    _tx("expect_tx", mbar, nbytes, sem, scope, space, multicast, pred)


@records("mbarrier.complete_tx", "mbarrier.complete_tx.multicast")
def complete_tx(
    mbar: Shared,
    nbytes: Reg | int,
    *,
    sem: TransactionOrder | None = None,
    scope: ClusterScope | None = None,
    space: AnySharedSpace | None = "cta",
    multicast: Reg | int | None = None,
    pred: Predicate = None,
) -> None:
    """Count ``nbytes`` as completed, as a copy would. Records one ``mbarrier.complete_tx``.

    The arguments are those of :func:`expect_tx`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-complete-tx-operation`.
    """
    _tx("complete_tx", mbar, nbytes, sem, scope, space, multicast, pred)


# --- waiting --------------------------------------------------------------------------------------


def _wait(
    verb: str,
    mbar: Shared,
    phase: Phase | None,
    state: Reg | None,
    suspend_hint: Reg | int | None,
    sem: str | None,
    scope: str | None,
    space: str | None,
    phase_type: str | None,
    report: Reg | None,
    report_value: Reg | None,
    out: Reg | None,
    pred: Predicate,
) -> Reg:
    if (phase is None) == (state is None):
        given = "neither is" if phase is None else "both are"
        raise OperandError(
            f"{verb} takes a phase's parity or the state of an arrival, {given} given",
            hint=f"write ptx.mbarrier.{verb}(bar, parity), or state=token",
            see=_WAIT,
        )
    if phase is not None:
        which = checked("phase", phase, 0, 1, see=_WAIT, hint="the parity of a phase: phase & 1")
    elif isinstance(state, Reg):
        which = state
    else:
        raise OperandError(f"state is {state!r}: expected a b64 register that an arrival wrote", see=_WAIT)
    if report_value is not None and report is None:
        raise OperandError(
            "report_value is given without report=, the predicate that is true if a report exists", see=_WAIT
        )
    if phase_type is None and report is not None:
        phase_type = "primary"
    if phase_type is not None:
        one_of("phase_type", phase_type, ("primary", "conditional"), see=_WAIT)
    extra = () if suspend_hint is None else (checked("suspend_hint", suspend_hint, 0, 0xFFFFFFFF, see=_WAIT),)
    value = destination("report_value", report_value)
    modifiers = (
        verb,
        "parity" if phase is not None else None,
        None if phase_type is None else f"phase_type::{phase_type}",
        *order(sem, scope, ("acquire", "relaxed"), _SCOPES, see=_WAIT),
        shared_space(space, _OWN, see=_WAIT),
        "b64",
    )
    return answer(
        predicate,
        "mbarrier",
        modifiers,
        *(() if value is None else (value,)),
        barrier(mbar),
        which,
        *extra,
        hint="ready",
        second=destination("report", report),
        out=out,
        pred=pred,
    )


@records(
    "mbarrier.try_wait.parity",
    "mbarrier.try_wait",
    "mbarrier.try_wait.primary",
    "mbarrier.try_wait.report",
    "mbarrier.try_wait.parity.primary",
    "mbarrier.try_wait.parity.report",
    "mbarrier.try_wait.parity.conditional",
)
def try_wait(
    mbar: Shared,
    phase: Phase | None = None,
    suspend_hint: Reg | int | None = None,
    *,
    state: Reg | None = None,
    sem: WaitOrder | None = None,
    scope: ClusterScope | None = None,
    space: SharedSpace | None = "cta",
    phase_type: str | None = None,
    report: Reg | None = None,
    report_value: Reg | None = None,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Return a new predicate: true if the phase has completed.

    The thread may wait for a while first. The instruction may return false at any time.

    Records one ``mbarrier.try_wait.parity``, or ``mbarrier.try_wait`` with ``state=``.

    Args:
        mbar: the barrier, in this CTA's shared memory.
        phase: parity of the phase, 0 or 1. On a new barrier, the phase of parity 1 counts as completed, the
            phase of parity 0 does not.
        suspend_hint: time in nanoseconds that the thread may wait.
        state: instead of a parity, the state that an arrival of this phase returned.
        sem, scope: order and scope, given together: ``"acquire"``/``"relaxed"``, ``"cta"``/``"cluster"``.
        space: ``"cta"``, ``"shared"`` or None.
        phase_type: ``"primary"``, or with a parity ``"conditional"`` (PTX 9.3).
        report: predicate register that becomes true if a copy made a report, for barriers of layout v1 (PTX
            9.3, ``phase_type="primary"``).
        report_value: b8 register (``reg.declare(b8, ...)``) that receives the report.
        out: predicate to write instead of a new one.
        pred: guard.

    Raises:
        OperandError: a parity other than 0 and 1; both or neither of ``phase`` and ``state``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait`.
    """
    return _wait(
        "try_wait",
        mbar,
        phase,
        state,
        suspend_hint,
        sem,
        scope,
        space,
        phase_type,
        report,
        report_value,
        out,
        pred,
    )


@records(
    "mbarrier.test_wait.parity",
    "mbarrier.test_wait",
    "mbarrier.test_wait.primary",
    "mbarrier.test_wait.report",
    "mbarrier.test_wait.parity.primary",
    "mbarrier.test_wait.parity.report",
    "mbarrier.test_wait.parity.conditional",
)
def test_wait(
    mbar: Shared,
    phase: Phase | None = None,
    *,
    state: Reg | None = None,
    sem: WaitOrder | None = None,
    scope: ClusterScope | None = None,
    space: SharedSpace | None = "cta",
    phase_type: str | None = None,
    report: Reg | None = None,
    report_value: Reg | None = None,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Test the phase as :func:`try_wait` does, but never wait.

    Records one ``mbarrier.test_wait.parity``, or ``mbarrier.test_wait`` with ``state=``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait`.
    """
    return _wait(
        "test_wait",
        mbar,
        phase,
        state,
        None,
        sem,
        scope,
        space,
        phase_type,
        report,
        report_value,
        out,
        pred,
    )


def wait(
    mbar: Shared,
    phase: Phase | None = None,
    suspend_hint: Reg | int | None = None,
    *,
    state: Reg | None = None,
    sem: WaitOrder | None = None,
    scope: ClusterScope | None = None,
    space: SharedSpace | None = "cta",
    uni: bool = False,
) -> None:
    """Spin until the phase has completed.

    Records two instructions and one label: ``mbarrier.try_wait`` and a ``bra`` back to it (``bra.uni`` with
    ``uni``, as compilers emit).
    Arguments and errors are those of :func:`try_wait`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait`.
    """
    trace = current()
    source = here()[1]
    with trace.atomic():
        again = Label("wait", trace)
        trace.place(again, source)
        ready = try_wait(mbar, phase, suspend_hint, state=state, sem=sem, scope=scope, space=space)
        trace.branch(again, Guard(ready.operand, negated=True), source, uniform(uni))


@records("mbarrier.pending_count", "mbarrier.pending_count.layout")
def pending_count(
    state: Reg, *, layout: str | None = None, out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Return the number of arrivals that were pending in ``state``, a new u32 register.

    Records one ``mbarrier.pending_count``.

    Args:
        state: the state that an arrival returned, a b64 register.
        layout: ``"v0"`` writes the barrier's layout explicitly (PTX 9.3).
        out: register to write instead of a new one.
        pred: guard.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-pending-count`.
    """
    see = f"{_SEE}-pending-count"
    which = None if layout is None else f"layout::{one_of('layout', layout, ('v0',), see=see)}"
    return answer(u32, "mbarrier", ("pending_count", which, "b64"), state, hint="pending", out=out, pred=pred)
