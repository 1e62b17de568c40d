"""Which interval an integer instruction gives for intervals of its operands.

A form that is not listed gives an unknown value. Values that come only from the width of a type are unknown
too: a loaded ``u32`` may be any number, but to call it large would be a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.records import dataclass
from ..core.types import TYPES, ScalarType
from ..ir import Immediate, Operand, Pair, Register, Special, Vector
from ..isa import Binding
from .intervals import UNKNOWN, Interval, add, fitted, hull, is_finite, multiply, negate, type_range

__all__ = ["integer_result", "value_of"]

#: Bits of the largest mask (or field) of an unknown value whose result counts as known.
_MASK_BITS = 24


def value_of(operand: Operand, values: Mapping[str, Interval], specials: Mapping[str, Interval]) -> Interval:
    """Return the interval of an operand. Constants of the upper half of a width count as negative."""
    if isinstance(operand, Register):
        return values.get(operand.name, UNKNOWN)
    if isinstance(operand, Immediate) and isinstance(operand.value, int):
        return operand.value, operand.value
    if isinstance(operand, Special):
        return specials.get(operand.name, UNKNOWN)
    return UNKNOWN


@dataclass(frozen=True)
class _Operands:
    """The operands of one instruction: their intervals by name, and the modifiers."""

    binding: Binding
    values: Mapping[str, Interval]
    specials: Mapping[str, Interval]

    def __call__(self, name: str) -> Interval:
        operand = self.binding.operands.get(name)
        if operand is None:
            return UNKNOWN
        value = value_of(operand, self.values, self.specials)
        kind = self.type
        if isinstance(operand, Immediate) and is_finite(value) and value[0] > type_range(kind)[1] >> 1:
            low = int(value[0]) - (1 << kind.bits)
            return (low, low) if -(1 << (kind.bits - 1)) <= low else value
        return value

    def typed(self, name: str, kind: ScalarType | None = None) -> Interval | None:
        """Return the operand as numbers of ``kind`` (by default the instruction's type), or None."""
        return fitted(self(name), kind or self.type)

    @property
    def type(self) -> ScalarType:
        """The instruction's type."""
        chosen = self.binding.chosen
        return TYPES[chosen.get("type") or chosen.get("atype") or "b32"]

    @property
    def saturates(self) -> bool:
        return "sat" in self.binding.chosen


def integer_result(
    binding: Binding, values: Mapping[str, Interval], specials: Mapping[str, Interval]
) -> Interval:
    """Return the interval of the instruction's first result."""
    rule = _RULES.get(binding.form_id)
    if rule is None or binding.chosen.get("type") == "pred":
        return UNKNOWN
    return rule(_Operands(binding, values, specials))


def _sum(of: _Operands) -> Interval:
    return UNKNOWN if of.saturates else add(of("a"), of("b"))


def _difference(of: _Operands) -> Interval:
    return UNKNOWN if of.saturates else add(of("a"), negate(of("b")))


def _product(of: _Operands) -> Interval:
    if of.binding.chosen["half"] == "lo":
        return multiply(of("a"), of("b"))
    a, b = of.typed("a"), of.typed("b")
    if a is None or b is None:
        return UNKNOWN
    low, high = multiply(a, b)
    return int(low) >> of.type.bits, int(high) >> of.type.bits


def _product_and_sum(of: _Operands) -> Interval:
    return add(_product(of), of("c"))


def _wide(of: _Operands) -> Interval:
    a, b = of.typed("a"), of.typed("b")
    return UNKNOWN if a is None or b is None else multiply(a, b)


def _wide_and_sum(of: _Operands) -> Interval:
    return add(_wide(of), of("c"))


def _quotient(of: _Operands) -> Interval:
    a, b = of.typed("a"), of.typed("b")
    if a is None or b is None or a[0] < 0 or b[0] < 1:
        return UNKNOWN
    return int(a[0]) // int(b[1]), int(a[1]) // int(b[0])


def _remainder(of: _Operands) -> Interval:
    a, b = of.typed("a"), of.typed("b")
    if b is None or b[0] < 1:
        return UNKNOWN
    if a is not None and a[0] >= 0:
        return 0, min(a[1], b[1] - 1)
    return (0, b[1] - 1) if of.type.kind == "u" else UNKNOWN


def _least(of: _Operands) -> Interval:
    a, b = of.typed("a"), of.typed("b")
    if a is not None and b is not None:
        return min(a[0], b[0]), min(a[1], b[1])
    known = a or b
    return UNKNOWN if known is None or of.type.kind == "s" else (0, known[1])


def _largest(of: _Operands) -> Interval:
    a, b = of.typed("a"), of.typed("b")
    return UNKNOWN if a is None or b is None else (max(a[0], b[0]), max(a[1], b[1]))


def _negative(of: _Operands) -> Interval:
    return negate(of("a"))


def _absolute(of: _Operands) -> Interval:
    a = of.typed("a")
    if a is None:
        return UNKNOWN
    return (0 if a[0] <= 0 <= a[1] else min(map(abs, a))), max(map(abs, a))


def _shift_left(of: _Operands) -> Interval:
    amount = of("b")
    if not is_finite(amount) or amount[0] < 0 or amount[1] > of.type.bits:
        return UNKNOWN
    return multiply(of("a"), (1 << int(amount[0]), 1 << int(amount[1])))


def _shift_right(of: _Operands) -> Interval:
    a, amount = of.typed("a"), of("b")
    if a is None or not is_finite(amount) or amount[0] < 0 or amount[1] > of.type.bits or a[0] < 0:
        return UNKNOWN
    return int(a[0]) >> int(amount[1]), int(a[1]) >> int(amount[0])


def _and(of: _Operands) -> Interval:
    unsigned = TYPES[f"u{of.type.bits}"]
    a, b = (fitted(of(name), unsigned) for name in ("a", "b"))
    if a is not None and b is not None:
        return 0, min(a[1], b[1])
    known = a or b
    if known is None or known[1] >= 1 << _MASK_BITS:
        return UNKNOWN
    return 0, known[1]


def _or(of: _Operands) -> Interval:
    a, b = of("a"), of("b")
    if not (is_finite(a) and is_finite(b)) or a[0] < 0 or b[0] < 0:
        return UNKNOWN
    bits = max(int(a[1]), int(b[1])).bit_length()
    return (max(a[0], b[0]) if of.binding.form_id == "or" else 0), min(a[1] + b[1], (1 << bits) - 1)


def _field(of: _Operands) -> Interval:
    length = of("c")
    if of.type.kind == "s" or length[0] != length[1] or not 0 <= length[0] <= _MASK_BITS:
        return UNKNOWN
    return 0, (1 << int(length[0])) - 1


def _count(of: _Operands) -> Interval:
    return 0, of.type.bits


def _selected(of: _Operands) -> Interval:
    return hull(of("a"), of("b"))


def _copied(of: _Operands) -> Interval:
    return of("a")


def _converted(of: _Operands) -> Interval:
    source, target = TYPES[of.binding.chosen["atype"]], TYPES[of.binding.chosen["dtype"]]
    if of.saturates:
        return UNKNOWN
    if target.bits <= source.bits:  # the lower bits; a narrow type is then extended to the register
        return of("a") if target.bits >= 32 else fitted(of("a"), target) or UNKNOWN
    return of.typed("a", source) or UNKNOWN


def _packed(of: _Operands) -> Interval:
    """Two 32-bit halves: the value of the lower one if the upper one is zero."""
    operand = of.binding.operands["a"]
    if not isinstance(operand, Vector) or operand.elements[1] != Immediate(0):
        return UNKNOWN
    return fitted(value_of(operand.elements[0], of.values, of.specials), TYPES["u32"]) or UNKNOWN


def _shuffled(of: _Operands) -> Interval:
    # Every lane that takes part has a value of this interval.
    return of("a") if not isinstance(of.binding.operands["d"], Pair) else UNKNOWN


_RULES: dict[str, Callable[[_Operands], Interval]] = {
    "add.int": _sum,
    "sub.int": _difference,
    "mul.int": _product,
    "mul.wide": _wide,
    "mad.int": _product_and_sum,
    "mad.wide": _wide_and_sum,
    "div.int": _quotient,
    "rem.int": _remainder,
    "min.int": _least,
    "max.int": _largest,
    "neg.int": _negative,
    "abs.int": _absolute,
    "shl": _shift_left,
    "shr": _shift_right,
    "and": _and,
    "or": _or,
    "xor": _or,
    "bfe": _field,
    "popc": _count,
    "clz": _count,
    "selp": _selected,
    "mov": _copied,
    "cvta": _copied,
    "cvt.int": _converted,
    "mov.pack.b64": _packed,
    "shfl.sync": _shuffled,
}
