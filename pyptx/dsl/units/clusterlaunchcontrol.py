"""``ptx.clusterlaunchcontrol``: work stealing: a running cluster takes over the work of one not yet started.

:func:`try_cancel` requests a cluster. The hardware writes the answer to 16 bytes of shared memory; the kernel
loads it into a b128 register (``smem.load(b128, answer)``), which the other functions decode.  Every function
records exactly one instruction.

Watch out: the answer is written through the async proxy. After reading it, record ``ptx.fence.proxy_async``
before the buffer is passed again.  After a refusal, the cluster must not request again.

PTX ISA: `#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import OperandError
from ...core.types import pred as predicate
from ...core.types import u32
from .. import reg
from ..choices import CtaSpace
from ..emit import Predicate, emit
from ..operands import addr, operand
from ..records import records
from ..register_arrays import RegArray
from ..registers import Reg
from ..trace import current
from .answers import answer
from .places import Shared, barrier, check_place
from .qualifiers import shared_space
from .values import values

__all__ = ["first_ctaid", "first_ctaid_x", "first_ctaid_y", "first_ctaid_z", "is_canceled", "try_cancel"]

_TRY = "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel"
_QUERY = "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel"


@records("clusterlaunchcontrol.try_cancel")
def try_cancel(
    answer: Shared,
    mbar: Shared,
    *,
    multicast: bool = False,
    space: CtaSpace | None = "cta",
    pred: Predicate = None,
) -> None:
    """Request a cluster that has not started. Records one ``clusterlaunchcontrol.try_cancel``.

    Args:
        answer: 16 bytes of shared memory, aligned to 16.
        mbar: the mbarrier that counts the answer's 16 bytes.
        multicast: write the answer to every CTA of the cluster and signal its barrier, at the same offsets.
        space: ``"cta"``, or None to leave the state space out.
        pred: guard: only one thread of the cluster may request.

    Raises:
        OperandError: a buffer that is misaligned or too small.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel`.
    """
    check_place("the answer", answer, 16, 16, see=_TRY)
    modifiers = (
        *("try_cancel", "async", shared_space(space, ("cta", None), see=_TRY)),
        "mbarrier::complete_tx::bytes",
        "multicast::cluster::all" if multicast else None,
        "b128",
    )
    emit("clusterlaunchcontrol", modifiers, addr(answer), barrier(mbar), pred=pred)


def _response(response: object) -> Reg:
    if not isinstance(response, Reg) or response.type.bits != 128:
        raise OperandError(
            f"response is {response!r}: expected a b128 register",
            hint="load the answer: smem.load(b128, answer)",
            see=_QUERY,
        )
    return response


@records("clusterlaunchcontrol.query_cancel.is_canceled")
def is_canceled(response: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return a new predicate: true if a cluster's launch was canceled, so that this cluster gets its work.

    Records one ``clusterlaunchcontrol.query_cancel.is_canceled``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel`.
    """
    modifiers = ("query_cancel", "is_canceled", "pred", "b128")
    return answer(
        predicate, "clusterlaunchcontrol", modifiers, _response(response), hint="canceled", out=out, pred=pred
    )


def _coordinate(axis: str, response: Reg, out: Reg | None, pred: Predicate) -> Reg:
    modifiers = ("query_cancel", f"get_first_ctaid::{axis}", "b32", "b128")
    return answer(
        u32, "clusterlaunchcontrol", modifiers, _response(response), hint=f"ctaid_{axis}", out=out, pred=pred
    )


@records("clusterlaunchcontrol.query_cancel")
def first_ctaid_x(response: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return ctaid.x of the canceled cluster's first CTA, a new u32 register; undefined if none was canceled.

    Records one ``clusterlaunchcontrol.query_cancel.get_first_ctaid::x``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel`.
    """
    return _coordinate("x", response, out, pred)


@records("clusterlaunchcontrol.query_cancel")
def first_ctaid_y(response: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return ctaid.y of the canceled cluster's first CTA, as :func:`first_ctaid_x` does for x.

    Records one ``clusterlaunchcontrol.query_cancel.get_first_ctaid::y``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel`.
    """
    return _coordinate("y", response, out, pred)


@records("clusterlaunchcontrol.query_cancel")
def first_ctaid_z(response: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return ctaid.z of the canceled cluster's first CTA, as :func:`first_ctaid_x` does for x.

    Records one ``clusterlaunchcontrol.query_cancel.get_first_ctaid::z``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel`.
    """
    return _coordinate("z", response, out, pred)


@records("clusterlaunchcontrol.query_cancel.v4")
def first_ctaid(
    response: Reg, *, out: RegArray | Sequence[Reg] | None = None, pred: Predicate = None
) -> RegArray:
    """Return ctaid.x, .y and .z of the canceled cluster's first CTA in three u32 registers, new or ``out``.

    Records one ``clusterlaunchcontrol.query_cancel.get_first_ctaid.v4``, whose fourth element is dropped.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel`.
    """
    given = operand(_response(response), current())
    modifiers = ("query_cancel", "get_first_ctaid", "v4", "b32", "b128")
    with current().atomic():
        three = reg.array(u32, 3) if out is None else list(out)
        if len(three) != 3:
            raise OperandError(f"out is {out!r}: expected three registers", see=_QUERY)
        values(u32, 4, "clusterlaunchcontrol", modifiers, (given,), out=(*three, None), pred=pred)
    return three if isinstance(three, RegArray) else RegArray(three, u32, "out")
