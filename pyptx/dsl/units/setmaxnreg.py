"""``ptx.setmaxnreg``: move registers from one warpgroup to another.

All warps of the warpgroup execute the same instruction.  ptxas honors it only in kernels that bound their
registers or CTAs: ``.minnctapersm`` beside ``.maxntid`` or ``.reqntid``, or ``.maxnreg``.

PTX ISA: `#miscellaneous-instructions-setmaxnreg`.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ..emit import Predicate, emit
from ..records import records
from ..types import as_whole

__all__ = ["dec", "inc"]


def _set(action: str, count: int, pred: Predicate) -> None:
    number = as_whole(count)
    if number is None or not 24 <= number <= 256 or number % 8:
        raise OperandError(
            f"count is {count!r}: expected a number of registers, a multiple of 8 in 24..256",
            see="miscellaneous-instructions-setmaxnreg",
        )
    emit("setmaxnreg", (action, "sync", "aligned", "u32"), number, pred=pred)


@records("setmaxnreg")
def inc(count: int, *, pred: Predicate = None) -> None:
    """Wait until each thread of the warpgroup can have ``count`` registers. Records one ``setmaxnreg.inc``.

    Raises:
        OperandError: ``count`` is not a multiple of 8 in 24..256.

    PTX ISA: `#miscellaneous-instructions-setmaxnreg`.
    """
    _set("inc", count, pred)


@records("setmaxnreg")
def dec(count: int, *, pred: Predicate = None) -> None:
    """Keep ``count`` registers for each thread and release the others. Records one ``setmaxnreg.dec``.

    Raises:
        OperandError: ``count`` is not a multiple of 8 in 24..256.

    PTX ISA: `#miscellaneous-instructions-setmaxnreg`.
    """
    _set("dec", count, pred)
