"""``ptx.mbarrier``: barriers in shared memory.

PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier`.

Every function records exactly one instruction, except :func:`wait`.  ``mbar`` is the barrier's 8 bytes: a
u32 register, ``ptx.addr(...)`` or a shared-memory buffer.  A phase is the parity 0 or 1, a number or a
register.
"""

from __future__ import annotations

from typing import Any

from ..core.errors import OperandError
from ..core.types import TYPES
from ..ir import Guard
from .emit import Predicate, checked, emit
from .labels import Label
from .operands import Addr, addr, address, operand
from .operators import result
from .registers import Reg
from .sites import here
from .smem import Buffer
from .trace import current

__all__ = [
    "MAX_COUNT",
    "arrive",
    "arrive_expect_tx",
    "expect_tx",
    "init",
    "inval",
    "test_wait",
    "try_wait",
    "wait",
]

Mbarrier = Reg | Addr | Buffer
Phase = Reg | int

#: Most arrivals of a phase, and most bytes that may be pending: 2**20 - 1.
MAX_COUNT = (1 << 20) - 1

_SEE = "parallel-synchronization-and-communication-instructions-mbarrier"
_CONTENTS = f"{_SEE}-contents"


def _space(space: str) -> str:
    if space not in ("cta", "cluster"):
        raise OperandError(f"space is {space!r}: expected 'cta' or 'cluster'", see=_SEE)
    return f"shared::{space}"


def init(mbar: Mbarrier, count: Reg | int, *, pred: Predicate = None) -> None:
    """Make an mbarrier that completes a phase after ``count`` arrivals. Records one ``mbarrier.init``.

    Watch out: other threads may use it only after a barrier, another cluster's CTA only after
    ``ptx.fence.mbarrier_init()`` and a cluster barrier.

    Raises:
        OperandError: a count outside 1..2**20-1.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-init`.
    """
    number = checked("count", count, 1, MAX_COUNT, see=_CONTENTS)
    emit("mbarrier", ("init", "shared::cta", "b64"), addr(mbar), number, pred=pred)


def inval(mbar: Mbarrier, *, pred: Predicate = None) -> None:
    """End an mbarrier's life, so that its memory may serve other things. Records one ``mbarrier.inval``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-inval`.
    """
    emit("mbarrier", ("inval", "shared::cta", "b64"), addr(mbar), pred=pred)


def arrive(
    mbar: Mbarrier,
    count: Reg | int | None = None,
    *,
    sem: str | None = None,
    scope: str | None = None,
    space: str = "cta",
    pred: Predicate = None,
) -> None:
    """Arrive ``count`` times (once). Records one ``mbarrier.arrive`` that returns no state.

    Args:
        mbar: the barrier; with ``space="cluster"`` it may be another CTA's.
        count: arrivals, 1..2**20-1.
        sem, scope: order and scope, given together: ``"release"``/``"relaxed"``, ``"cta"``/``"cluster"``.
        space: ``"cta"`` or ``"cluster"``.
        pred: guard.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-arrive`.
    """
    operands: list[Any] = [None, addr(mbar)]
    if count is not None:
        operands.append(checked("count", count, 1, MAX_COUNT, see=_CONTENTS))
    emit("mbarrier", ("arrive", sem, scope, _space(space), "b64"), *operands, pred=pred)


def arrive_expect_tx(
    mbar: Mbarrier,
    nbytes: Reg | int,
    *,
    sem: str | None = None,
    scope: str | None = None,
    space: str = "cta",
    pred: Predicate = None,
) -> None:
    """Expect ``nbytes`` of asynchronous copies in this phase, then arrive once.

    Records one ``mbarrier.arrive.expect_tx``.  A tensor copy counts its whole box, also where it is clipped.
    Arguments as for :func:`arrive`.

    Raises:
        OperandError: bytes outside 0..2**20-1.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-arrive`.
    """
    number = checked("nbytes", nbytes, 0, MAX_COUNT, see=_CONTENTS)
    modifiers = ("arrive", "expect_tx", sem, scope, _space(space), "b64")
    emit("mbarrier", modifiers, None, addr(mbar), number, pred=pred)


def expect_tx(mbar: Mbarrier, nbytes: Reg | int, *, space: str = "cta", pred: Predicate = None) -> None:
    """Expect ``nbytes`` more in the current phase, without arriving. Records one ``mbarrier.expect_tx``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-expect-tx-operation`.
    """
    number = checked("nbytes", nbytes, 0, MAX_COUNT, see=_CONTENTS)
    emit("mbarrier", ("expect_tx", _space(space), "b64"), addr(mbar), number, pred=pred)


def _parity(phase: Phase) -> Any:
    return checked(
        "phase", phase, 0, 1, see=f"{_SEE}-test-wait-try-wait", hint="the parity of a phase: phase & 1"
    )


def _wait(modifiers: tuple[str | None, ...], mbar: Mbarrier, *operands: Any) -> Reg:
    trace = current()
    values = tuple(operand(value, trace) for value in operands)
    words = tuple(word for word in modifiers if word is not None)
    return result(trace, TYPES["pred"], "mbarrier", words, (address(mbar, trace), *values), "ready")


def try_wait(
    mbar: Mbarrier,
    phase: Phase,
    suspend_hint: Reg | int | None = None,
    *,
    sem: str | None = None,
    scope: str | None = None,
) -> Reg:
    """A new predicate: has the phase of this parity completed? May wait a while, and may say no at any time.

    Records one ``mbarrier.try_wait.parity``.

    Args:
        mbar: the barrier, in this CTA's shared memory.
        phase: parity, 0 or 1. On a fresh barrier parity 1 has completed, 0 has not.
        suspend_hint: nanoseconds.
        sem, scope: order and scope, given together.

    Raises:
        OperandError: a number other than 0 and 1.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait`.
    """
    extra = () if suspend_hint is None else (suspend_hint,)
    modifiers = ("try_wait", "parity", sem, scope, "shared::cta", "b64")
    return _wait(modifiers, mbar, _parity(phase), *extra)


def test_wait(mbar: Mbarrier, phase: Phase, *, sem: str | None = None, scope: str | None = None) -> Reg:
    """As :func:`try_wait`, never waiting. Records one ``mbarrier.test_wait.parity``."""
    return _wait(("test_wait", "parity", sem, scope, "shared::cta", "b64"), mbar, _parity(phase))


def wait(mbar: Mbarrier, phase: Phase) -> None:
    """Spin until the phase of this parity has completed.

    Records two instructions and one label: ``mbarrier.try_wait.parity`` and a ``bra`` back to it.
    Arguments and errors as for :func:`try_wait`.
    """
    trace = current()
    source = here()[1]
    with trace.atomic():
        again = Label("wait", trace)
        trace.place(again, source)
        ready = try_wait(mbar, phase)
        trace.branch(again, Guard(ready.operand, negated=True), source)
