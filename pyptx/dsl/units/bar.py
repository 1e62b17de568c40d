"""``ptx.bar``: the CTA's numbered barriers, and the warp's.

Every function records exactly one instruction.  All threads of a warp execute ``bar`` together; if they may
arrive separately, use ``ptx.barrier``.  A CTA has the barriers 0..15; ``threads`` is the number of threads
that take part, a multiple of 32.

PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import OperandError
from ...core.types import ScalarType, u32
from ...core.types import pred as predicate
from ..emit import Predicate, checked, emit
from ..records import records
from ..registers import NotPred, Reg
from .answers import answer

__all__ = ["arrive", "red_and", "red_or", "red_popc", "sync", "warp_sync"]

_SEE = "parallel-synchronization-and-communication-instructions-bar"
_WARP = "parallel-synchronization-and-communication-instructions-bar-warp-sync"


def numbered(id: Reg | int) -> Any:
    """Check the number of a barrier: 0..15 or a register."""
    return checked("id", id, 0, 15, see=_SEE)


def whole_warps(threads: Reg | int) -> Any:
    """Check the number of threads that take part: a multiple of 32 or a register."""
    number = checked("threads", threads, 32, 1024, see=_SEE, hint="a multiple of 32")
    if isinstance(number, int) and number % 32:
        raise OperandError(f"threads is {threads}: expected a multiple of 32, 32..1024", see=_SEE)
    return number


def reduction(
    kind: ScalarType,
    opcode: str,
    modifiers: tuple[str | None, ...],
    p: object,
    id: Reg | int,
    threads: Reg | int | None,
    out: Reg | None,
) -> Reg:
    """Record one barrier that combines ``p`` over the threads into ``out``, or a new register."""
    if not isinstance(p, (Reg, NotPred)) or p.type is not predicate:
        raise OperandError(f"p is {p!r}: expected a predicate register, or ~p", see=_SEE)
    some = () if threads is None else (whole_warps(threads),)
    hint = "p" if kind is predicate else "count"
    return answer(kind, opcode, modifiers, numbered(id), *some, p, hint=hint, out=out)


@records("bar.sync")
def sync(
    id: Reg | int = 0, threads: Reg | int | None = None, *, cta: bool = False, pred: Predicate = None
) -> None:
    """Wait until all threads of the CTA, or ``threads`` of them, have arrived. Records one ``bar.sync``.

    Args:
        id: number of the barrier, 0..15.
        threads: number of threads that take part, a multiple of 32; None for all.
        cta: write the scope explicitly, ``bar.cta.sync``.
        pred: guard.

    Raises:
        OperandError: a number out of range, or ``threads`` that is not a multiple of 32.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    some = () if threads is None else (whole_warps(threads),)
    emit("bar", ("cta" if cta else None, "sync"), numbered(id), *some, pred=pred)


@records("bar.arrive")
def arrive(id: Reg | int, threads: Reg | int, *, cta: bool = False, pred: Predicate = None) -> None:
    """Arrive at barrier ``id``, at which ``threads`` threads synchronize, without waiting.

    Records one ``bar.arrive``.

    Arguments and errors are those of :func:`sync`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    emit("bar", ("cta" if cta else None, "arrive"), numbered(id), whole_warps(threads), pred=pred)


@records("bar.red.popc")
def red_popc(
    p: Reg | NotPred,
    id: Reg | int = 0,
    threads: Reg | int | None = None,
    *,
    cta: bool = False,
    out: Reg | None = None,
) -> Reg:
    """Wait as :func:`sync` does, and return the number of threads in which ``p`` holds, a new u32 register.

    Records one ``bar.red.popc``, also for ``~p``.  With ``out``, it writes that register instead.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    return reduction(u32, "bar", ("cta" if cta else None, "red", "popc", "u32"), p, id, threads, out)


@records("bar.red")
def red_and(
    p: Reg | NotPred,
    id: Reg | int = 0,
    threads: Reg | int | None = None,
    *,
    cta: bool = False,
    out: Reg | None = None,
) -> Reg:
    """Wait as :func:`sync` does, and return a new predicate: true if ``p`` holds in all threads.

    Records one ``bar.red.and``, also for ``~p``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    return reduction(predicate, "bar", ("cta" if cta else None, "red", "and", "pred"), p, id, threads, out)


@records("bar.red")
def red_or(
    p: Reg | NotPred,
    id: Reg | int = 0,
    threads: Reg | int | None = None,
    *,
    cta: bool = False,
    out: Reg | None = None,
) -> Reg:
    """Wait as :func:`sync` does, and return a new predicate: true if ``p`` holds in any thread.

    Records one ``bar.red.or``, also for ``~p``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    return reduction(predicate, "bar", ("cta" if cta else None, "red", "or", "pred"), p, id, threads, out)


@records("bar.warp.sync")
def warp_sync(mask: Reg | int = 0xFFFFFFFF, *, pred: Predicate = None) -> None:
    """Wait for the lanes of ``mask``, and order their memory accesses. Records one ``bar.warp.sync``.

    Args:
        mask: lanes that take part, including the executing lane; default: all.
        pred: guard.

    Raises:
        OperandError: a mask outside 1..2**32-1.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar-warp-sync`.
    """
    emit("bar", ("warp", "sync"), checked("mask", mask, 1, 0xFFFFFFFF, see=_WARP), pred=pred)
