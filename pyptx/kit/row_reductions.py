"""Reductions along the rows of an accumulator in registers: the maximum, minimum or sum of each row.

Owns the order in which elements are combined.  An accumulator that a warp has loaded from tensor memory
(``32x32b``) has one row in each thread; one of ``wgmma`` or ``mma`` has parts of several rows in each thread,
and a row in several lanes.
"""

from __future__ import annotations

from typing import Any

from ..core.errors import SpecError
from ..core.types import f32
from ..dsl import Reg, RegArray, ptx, reg
from ..dsl.trace import current
from ..dsl.units.fragments import Fragment
from ..layout import FragmentLayout

__all__ = ["across_lanes", "row_reduce"]

_INSTRUCTIONS: dict[str, Any] = {
    "max": ptx.inst.max.f32,
    "max_nan": ptx.inst.max.NaN.f32,
    "min": ptx.inst.min.f32,
    "add": ptx.inst.add.rn.f32,
}
_LANES = 32
#: First architecture whose ``max`` and ``min`` take three operands.
_THREE_OPERANDS = 100


def row_reduce(
    values: RegArray,
    operation: str,
    *,
    start: RegArray | None = None,
    across: bool = True,
    ways: int = 4,
) -> RegArray:
    """Combine the elements of each row that this thread holds. Returns an f32 register for each row.

    Element ``i`` of a row goes to chain ``i % ways``; each chain is combined in order, and then the chains in
    order, so sums have a fixed order. For a fragment, lanes that share a row exchange their results:
    afterwards each of them has the row's.

    Records ``max``, ``min`` or ``add.rn`` for each element of a row but the first; from sm_100 on, where
    ``max`` and ``min`` have three operands, about half as many of them. A chain of one element is a ``mov``.
    With ``across``, records for each row of a fragment a ``shfl.sync.bfly`` and an operation for each halving
    of the lanes that share it: two of each for ``wgmma`` and ``mma``.

    Args:
        values: f32 registers of this thread's row, as ``tcgen05.ld`` of shape ``32x32b`` loads them, or a
            whole fragment of D (``ptx.wgmma.accumulator``, ``ptx.mma``) in f32.
        operation: ``"max"``, ``"max_nan"``, ``"min"`` or ``"add"``. ``max`` and ``min`` ignore NaN unless all
            are; ``max_nan`` is NaN if one is.
        start: a result of an earlier call for the same rows, which is combined first and is not changed.
            With ``across`` and ``"add"`` it must be None: the lanes would add it more than once.
        across: whether lanes that share a row exchange their results. Without, each has that of its own
            elements, so that a loop can add up partial sums and exchange once, by :func:`across_lanes`.
        ways: number of independent chains, 1 to the number of elements of a row.

    Raises:
        SpecError: another operation, registers of another type, a fragment that is no whole D, a ``start``
            of another size, or a number of chains that is not positive.

    PTX ISA: `#floating-point-instructions-max`.
    """
    _check(values, operation)
    if type(ways) is not int or ways < 1:
        raise SpecError(f"ways is {ways!r}: expected a positive number of chains")
    rows = _rows(values)
    if start is not None and (len(start) != len(rows) or start.type is not f32):
        raise SpecError(f"start is {start!r}: expected {len(rows)} f32 registers, one for each row")
    fragment = isinstance(values, Fragment)
    if start is not None and fragment and across and operation == "add":
        raise SpecError(
            "start would be added once for each lane that shares a row",
            hint="pass across=False here, and call kit.across_lanes() behind the loop",
        )
    result = reg.array(f32, len(rows))
    for number, (out, elements) in enumerate(zip(result, rows, strict=True)):
        first = [] if start is None else [start[number]]
        _combine(out, [*first, *elements], operation, ways)
    if fragment and across:
        across_lanes(result, values, operation)
    return result


def across_lanes(rows: RegArray, values: RegArray, operation: str) -> None:
    """Combine the results of lanes that share a row, in place. All lanes of the warp must execute it.

    Records for each row and each halving of the lanes a ``shfl.sync.bfly`` and the operation; nothing for an
    accumulator that has a row in each thread.

    Args:
        rows: f32 registers, one for each row that this thread holds, as :func:`row_reduce` returns them.
        values: the fragment, or the registers, that they were made of.
        operation: ``"max"``, ``"max_nan"``, ``"min"`` or ``"add"``.

    Raises:
        SpecError: as :func:`row_reduce`.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    _check(values, operation)
    expected = len(_rows(values))
    if len(rows) != expected or rows.type is not f32:
        raise SpecError(f"rows is {rows!r}: expected {expected} f32 registers, one for each row")
    if not isinstance(values, Fragment):
        return
    for step in _steps(values.layout):
        for row in rows:
            _INSTRUCTIONS[operation](row, row, ptx.warp.shfl_bfly(row, step))


def _check(values: RegArray, operation: str) -> None:
    if operation not in _INSTRUCTIONS:
        raise SpecError(f"operation is {operation!r}: expected {', '.join(map(repr, _INSTRUCTIONS))}")
    if values.type is not f32:
        raise SpecError(
            f"values are {values!r}: expected f32 registers",
            hint="words.view(f32) of registers that tcgen05.ld has loaded",
        )
    if isinstance(values, Fragment) and not (values.operand in "cd" and values.whole):
        raise SpecError(f"values are {values!r}: expected a whole D in f32")


def _rows(values: RegArray) -> list[list[Reg]]:
    """The elements of each row that a thread holds; a plain array is one row."""
    if not isinstance(values, Fragment):
        return [list(values)]
    rows: dict[int, list[Reg]] = {}
    for number, value in enumerate(values):
        rows.setdefault(values.row(number), []).append(value)
    return [rows[row] for row in sorted(rows)]


def _steps(layout: FragmentLayout) -> list[int]:
    """The lanes that share a row with a lane: the bits of the lane's number that move no row."""
    found, step = [], 1
    for digit in layout.threads:
        if not digit.row and step < _LANES:
            found += [step << bit for bit in range(digit.extent.bit_length() - 1)]
        step *= digit.extent
    return found


def _combine(out: Reg, elements: list[Reg], operation: str, ways: int) -> None:
    """Record the chains of one row and their combination into ``out``."""
    heads = elements[:ways]
    chains = [out, *(reg.scalar(f32) for _ in heads[1:])]
    for number, (chain, head) in enumerate(zip(chains, heads, strict=True)):
        _chain(chain, head, elements[number + ways :: ways], operation)
    _chain(out, out, chains[1:], operation)


def _chain(out: Reg, head: Reg, others: list[Reg], operation: str) -> None:
    """Record ``out = head``, combined with the others in order."""
    instruction = _INSTRUCTIONS[operation]
    each = 2 if operation != "add" and current().target.number >= _THREE_OPERANDS else 1
    if not others and out is not head:
        ptx.inst.mov.f32(out, head)
    for at in range(0, len(others), each):
        instruction(out, head, *others[at : at + each])
        head = out
