"""``ptx.bar``: the CTA's numbered barriers.

PTX ISA: `#parallel-synchronization-and-communication-instructions-bar`.
"""

from __future__ import annotations

from ..core.errors import OperandError
from .emit import Predicate, checked, emit
from .registers import Reg

__all__ = ["sync"]

_SEE = "parallel-synchronization-and-communication-instructions-bar"


def sync(id: Reg | int = 0, threads: Reg | int | None = None, *, pred: Predicate = None) -> None:
    """Wait until all threads of the CTA, or ``threads`` of them, have arrived. Records one ``bar.sync``.

    Args:
        id: which barrier, 0..15.
        threads: how many threads take part, a multiple of 32; None for all.
        pred: guard.

    Raises:
        OperandError: a number out of range, or threads that are no whole warps.
    """
    operands = [checked("id", id, 0, 15, see=_SEE)]
    if threads is not None:
        operands.append(checked("threads", threads, 32, 1024, see=_SEE, hint="a multiple of 32"))
        if not isinstance(threads, Reg) and threads % 32:
            raise OperandError(f"threads is {threads}: expected a multiple of 32", see=_SEE)
    emit("bar", ("sync",), *operands, pred=pred)
