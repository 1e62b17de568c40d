"""Records one instruction that writes a register, new or given, and returns the register."""

from __future__ import annotations

from typing import Any

from ...core.types import ScalarType
from ...ir import Pair
from ..call_sites import here
from ..emit import Predicate
from ..operands import guard, operand
from ..registers import Reg, new_register, owned
from ..trace import current
from .qualifiers import destination
from .values import present, value

__all__ = ["answer"]


def answer(
    kind: ScalarType,
    opcode: str,
    modifiers: tuple[str | None, ...],
    *operands: Any,
    hint: str,
    out: Reg | None = None,
    pred: Predicate = None,
    second: Reg | None = None,
) -> Reg:
    """Record one instruction that writes its result to ``out``, or to a new register of ``kind``; return it.

    Modifiers that are None are left out.  A new register is named after the variable that the author assigns,
    else after ``hint``.  With ``second``, the destination is the pair ``d|second``.  An operand ``~p`` is
    printed as ``!p``.
    """
    trace = current()
    given = present(*modifiers)
    values = tuple(operand(item, trace) for item in operands)
    if second is None:
        return value(kind, opcode, given, values, out=out, pred=pred, hint=hint)
    condition = guard(pred, trace)
    site, source = here()
    with trace.atomic():
        first = destination("out", out)
        if first is None:
            first = new_register(trace, kind, site.name or hint, source)
        both = Pair(owned(first, trace).operand, owned(second, trace).operand)
        trace.record(opcode, given, (both, *values), condition, source)
    return first
