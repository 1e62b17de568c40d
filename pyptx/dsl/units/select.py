"""``ptx.selp``, ``ptx.slct``, ``ptx.setp``, ``ptx.set_``: comparison and selection.

Each function records exactly one instruction.  For a comparison without options, use an operator: ``x < y``.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ...core.types import ScalarType
from ...core.types import pred as predicate
from ...ir import Operand
from ..choices import Comparison
from ..emit import Predicate
from ..operands import operand
from ..records import records
from ..registers import NotPred, Number, Reg
from ..trace import Trace, current
from ..types import move_type, the_type
from .qualifiers import one_of
from .values import meet, present, typed, value, value_pair

__all__ = ["selp", "set_", "setp", "setp_pair", "slct"]

Value = Reg | Number
#: ``("and", p)``: combine the outcome of a comparison with a predicate.
Combination = tuple[str, Reg | NotPred]

_SELP = "comparison-and-selection-instructions-selp"
_SETP = "comparison-and-selection-instructions-setp"


@records("selp")
def selp(
    a: Value, b: Value, condition: Reg | NotPred, *, out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Select ``a`` where ``condition`` holds, otherwise ``b``. Records one ``selp``.

    Args:
        a, b: registers of one type of 16, 32 or 64 bits, or numbers; at least one register.
        condition: a predicate; ``~p`` exchanges ``a`` and ``b``.
        out: register to write; default: a new one, named after the variable that takes the result.
        pred: guard.

    PTX ISA: `#comparison-and-selection-instructions-selp`.
    """
    trace = current()
    kind = meet("selp", a, b)
    if isinstance(condition, NotPred):
        a, b, condition = b, a, condition.register
    if getattr(condition, "type", None) is not predicate:
        raise OperandError(f"condition is {condition!r}: expected a predicate, such as x < y", see=_SELP)
    operands = (typed(a, kind, trace), typed(b, kind, trace), operand(condition, trace))
    return value(kind, "selp", (move_type(kind).name,), operands, out=out, pred=pred)


@records("slct.int", "slct.float")
def slct(
    a: Value, b: Value, c: Reg, *, ftz: bool = False, out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Select ``a`` where ``c`` is not negative, otherwise ``b``. Records one ``slct``.

    Args:
        a, b: as for :func:`selp`.
        c: s32 or f32; NaN selects ``b``, -0 selects ``a``.
        ftz: treat a subnormal f32 ``c`` as zero.
        out, pred: as for :func:`selp`.

    PTX ISA: `#comparison-and-selection-instructions-slct`.
    """
    trace = current()
    kind, by = meet("slct", a, b), meet("slct", c)
    operands = (typed(a, kind, trace), typed(b, kind, trace), typed(c, by, trace))
    modifiers = present(ftz and "ftz", move_type(kind).name, by.name)
    return value(kind, "slct", modifiers, operands, out=out, pred=pred)


def _compared(
    name: str, a: Value, b: Value, combine: Combination | None, trace: Trace
) -> tuple[str, str | None, tuple[Operand, ...]]:
    """Return a comparison's type modifier, its modifier for the combination or None, and its operands."""
    kind = meet(name, a, b)
    operands = (typed(a, kind, trace), typed(b, kind, trace))
    if combine is None:
        return kind.name, None, operands
    how, other = combine
    one_of("combine", how, ("and", "or", "xor"), see=_SETP)
    return kind.name, how, (*operands, operand(other, trace))


@records("setp", "setp.ftz", "setp.bool", "setp.half", "setp.bfloat")
def setp(
    comparison: Comparison,
    a: Value,
    b: Value,
    *,
    combine: Combination | None = None,
    ftz: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compare into a predicate. Records one ``setp``.

    Args:
        comparison: ``"eq"``, ``"ne"``, ``"lt"``, ``"le"``, ``"gt"``, ``"ge"``; of floats also ``"equ"``,
            ``"neu"``, ``"ltu"``, ``"leu"``, ``"gtu"``, ``"geu"`` (true for NaN), ``"num"`` and ``"nan"``.
        a, b: registers of one type, or numbers; at least one register.
        combine: ``("and", p)``, ``"or"`` or ``"xor"``: combine the outcome with ``p`` or ``~p``.
        ftz: treat subnormal f32 and f16 as zero.
        out, pred: as for :func:`selp`.

    PTX ISA: `#comparison-and-selection-instructions-setp`.
    """
    kind, how, operands = _compared("setp", a, b, combine, current())
    modifiers = present(comparison, how, ftz and "ftz", kind)
    return value(predicate, "setp", modifiers, operands, out=out, pred=pred, hint="p")


@records("setp", "setp.ftz", "setp.bool", "setp.half2", "setp.bfloat2")
def setp_pair(
    comparison: Comparison,
    a: Value,
    b: Value,
    *,
    combine: Combination | None = None,
    ftz: bool = False,
    pred: Predicate = None,
) -> tuple[Reg, Reg]:
    """Compare into two predicates. Records one ``setp``.

    For packs (f16x2, bf16x2), the first predicate is the outcome for the lower halves, the second for the
    upper halves; for other types, the second is the complement of the first. The arguments are those of
    :func:`setp`.

    PTX ISA: `#comparison-and-selection-instructions-setp`.
    """
    kind, how, operands = _compared("setp_pair", a, b, combine, current())
    modifiers = present(comparison, how, ftz and "ftz", kind)
    return value_pair((predicate, predicate), ("p", "q"), "setp", modifiers, operands, pred)


@records("set", "set.half", "set.bfloat", "set.int.half", "set.int.bfloat", "set.half2", "set.bfloat2")
def set_(
    comparison: Comparison,
    a: Value,
    b: Value,
    to: ScalarType,
    *,
    combine: Combination | None = None,
    ftz: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compare into a number: all ones or 1.0 if the comparison holds, otherwise 0. Records one ``set``.

    Args:
        to: type of the result: u32, s32, f32, f16, bf16; u16 and s16 for 16-bit floats; for packs the pack's
            type, u32 or s32.
        comparison, a, b, combine, ftz, out, pred: as for :func:`setp`.

    PTX ISA: `#comparison-and-selection-instructions-set`.
    """
    kind, how, operands = _compared("set_", a, b, combine, current())
    modifiers = present(comparison, how, ftz and "ftz", the_type(to).name, kind)
    return value(to, "set", modifiers, operands, out=out, pred=pred)
