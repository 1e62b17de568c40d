"""``ptx.barrier``: the CTA's numbered barriers, at which the threads of a warp may arrive separately.

These are the sixteen barriers of ``ptx.bar``, with the same arguments.  ``aligned=True`` promises that
all threads of the warp execute the same instruction, as ``bar`` always does.  Every function records exactly
one instruction.

PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
"""

from __future__ import annotations

from ...core.types import pred as predicate
from ...core.types import u32
from ..emit import Predicate, emit
from ..records import records
from ..registers import NotPred, Reg
from .bar import numbered, reduction, whole_warps

__all__ = ["arrive", "red_and", "red_or", "red_popc", "sync"]


def _modifiers(cta: bool, aligned: bool, *modifiers: str) -> tuple[str | None, ...]:
    return ("cta" if cta else None, *modifiers, "aligned" if aligned else None)


@records("barrier.sync")
def sync(
    id: Reg | int = 0,
    threads: Reg | int | None = None,
    *,
    aligned: bool = False,
    cta: bool = False,
    pred: Predicate = None,
) -> None:
    """Wait until all threads of the CTA, or ``threads`` of them, have arrived. Records one ``barrier.sync``.

    Args:
        id: number of the barrier, 0..15.
        threads: number of threads that take part, a multiple of 32; None for all.
        aligned: promises that all threads of the warp execute this instruction together.
        cta: write the scope explicitly, ``barrier.cta.sync``.
        pred: guard.

    Raises:
        OperandError: a number out of range, or ``threads`` that is not a multiple of 32.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    some = () if threads is None else (whole_warps(threads),)
    emit("barrier", _modifiers(cta, aligned, "sync"), numbered(id), *some, pred=pred)


@records("barrier.arrive")
def arrive(
    id: Reg | int, threads: Reg | int, *, aligned: bool = False, cta: bool = False, pred: Predicate = None
) -> None:
    """Arrive at barrier ``id``, at which ``threads`` threads synchronize, without waiting.

    Records one ``barrier.arrive``.  Arguments and errors are those of :func:`sync`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    emit("barrier", _modifiers(cta, aligned, "arrive"), numbered(id), whole_warps(threads), pred=pred)


@records("barrier.red.popc")
def red_popc(
    p: Reg | NotPred,
    id: Reg | int = 0,
    threads: Reg | int | None = None,
    *,
    aligned: bool = False,
    cta: bool = False,
    out: Reg | None = None,
) -> Reg:
    """Wait as :func:`sync` does, and return the number of threads in which ``p`` holds, a new u32 register.

    Records one ``barrier.red.popc``.  With ``out``, it writes that register instead.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    modifiers = (*_modifiers(cta, aligned, "red", "popc"), "u32")
    return reduction(u32, "barrier", modifiers, p, id, threads, out)


@records("barrier.red")
def red_and(
    p: Reg | NotPred,
    id: Reg | int = 0,
    threads: Reg | int | None = None,
    *,
    aligned: bool = False,
    cta: bool = False,
    out: Reg | None = None,
) -> Reg:
    """Wait as :func:`sync` does, and return a new predicate: true if ``p`` holds in all threads.

    Records one ``barrier.red.and``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    modifiers = (*_modifiers(cta, aligned, "red", "and"), "pred")
    return reduction(predicate, "barrier", modifiers, p, id, threads, out)


@records("barrier.red")
def red_or(
    p: Reg | NotPred,
    id: Reg | int = 0,
    threads: Reg | int | None = None,
    *,
    aligned: bool = False,
    cta: bool = False,
    out: Reg | None = None,
) -> Reg:
    """Wait as :func:`sync` does, and return a new predicate: true if ``p`` holds in any thread.

    Records one ``barrier.red.or``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
    """
    modifiers = (*_modifiers(cta, aligned, "red", "or"), "pred")
    return reduction(predicate, "barrier", modifiers, p, id, threads, out)
