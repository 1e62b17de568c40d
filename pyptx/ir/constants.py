"""Reads numbers and constant expressions in PTX text.

Integers are 64 bits wide.  A literal is signed unless it is too large or ends in ``U``; the results of ``~``
and ``%`` are unsigned.  An expression is folded to its value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TypeAlias

from .lexer import Cursor
from .nodes import Immediate

__all__ = ["constant", "integer", "is_constant", "starts_constant"]

#: A folded value: an integer with True if it is unsigned in PTX, or a float as its Immediate.
_Value: TypeAlias = "tuple[int, bool] | Immediate"

_INTEGER = re.compile(r"(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|\d+)U?\Z", re.ASCII)
_FLOAT = re.compile(r"(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)\Z", re.ASCII)
_MASK = (1 << 64) - 1
#: Largest nesting of parentheses, unary operators and lists. A deeper one is an error, before Python's own.
DEPTH = 100

_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"|"}),
    frozenset({"^"}),
    frozenset({"&"}),
    frozenset({"==", "!="}),
    frozenset({"<", "<=", ">", ">="}),
    frozenset({"<<", ">>"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_BY_OPERATOR = {operator: level for level, names in enumerate(_LEVELS) for operator in names}
_ADDITIVE = _BY_OPERATOR["+"]


#: Named constants.
_NAMED = {"WARP_SZ": 32}


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _truncated,
    "%": lambda a, b: a % b,
}
_COMPARISON: dict[str, Callable[[float, float], bool]] = {
    "||": lambda a, b: bool(a) or bool(b),
    "&&": lambda a, b: bool(a) and bool(b),
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_FLOATING: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


def starts_constant(text: str) -> bool:
    """True if a constant expression may start with this token."""
    return text[:1].isdecimal() or text[:1] in ("-", "+", "~", "!", "(") or is_constant(text)


def is_constant(text: str) -> bool:
    """True if ``text`` is a number, or the name of a constant."""
    first = text[:1]
    if first == ".":
        return text[1:2].isdecimal() and _FLOAT.match(text) is not None
    return first.isdecimal() or text in _NAMED


def constant(cursor: Cursor, what: str = "a constant") -> Immediate:
    """Read a constant expression. Raises :class:`ParseError`."""
    start = cursor.at
    value = _ternary(cursor, what, 0)
    return value if isinstance(value, Immediate) else Immediate(_folded(cursor, start, value[0]))


def integer(cursor: Cursor, what: str = "an integer", *, sum_of_terms: bool = True) -> int:
    """Read an integer expression; without sums, ``+`` and ``-`` end it. Raises :class:`ParseError`."""
    start = cursor.at
    value = _ternary(cursor, what, 0) if sum_of_terms else _binary(cursor, what, 0, _ADDITIVE + 1)
    if isinstance(value, Immediate):
        cursor.fail(what, start)
    return _folded(cursor, start, value[0])


def _folded(cursor: Cursor, start: int, value: int) -> int:
    """Return a literal unchanged, and the result of an expression as a signed integer with the same bits."""
    return value - (1 << 64) if value >> 63 == 1 and cursor.at - start > 1 else value


def _wrap(value: int, unsigned: bool) -> tuple[int, bool]:
    value &= _MASK
    if not unsigned and value >> 63:
        value -= 1 << 64
    return value, unsigned


def _ternary(cursor: Cursor, what: str, depth: int) -> _Value:
    condition = _binary(cursor, what, depth, 0)
    if not cursor.accept("?"):
        return condition
    if depth > DEPTH:
        cursor.fail(f"an expression of at most {DEPTH} levels")
    first = _ternary(cursor, what, depth + 1)
    cursor.expect(":")
    second = _ternary(cursor, what, depth + 1)
    return first if _number(condition) else second


def _number(value: _Value) -> int | float:
    return value.value if isinstance(value, Immediate) else value[0]


def _binary(cursor: Cursor, what: str, depth: int, level: int) -> _Value:
    """Read binary operators of precedence ``level`` and higher, by precedence climbing."""
    left = _unary(cursor, what, depth)
    while True:
        operator = cursor.text
        found = _BY_OPERATOR.get(operator)
        if found is None or found < level:
            return left
        at = cursor.at
        cursor.at += 1
        if depth > DEPTH:
            cursor.fail(f"an expression of at most {DEPTH} levels")
        right = _binary(cursor, what, depth + 1, found + 1)
        left = _apply(cursor, at, operator, left, right)


def _apply(cursor: Cursor, at: int, operator: str, left: _Value, right: _Value) -> _Value:
    if operator in _COMPARISON:
        if isinstance(left, tuple) and isinstance(right, tuple):
            unsigned = left[1] or right[1]
            left, right = _wrap(left[0], unsigned), _wrap(right[0], unsigned)
        return int(_COMPARISON[operator](_number(left), _number(right))), False
    if operator in ("/", "%") and not _number(right):
        cursor.fail("a divisor that is not zero", at + 1)
    if isinstance(left, Immediate) or isinstance(right, Immediate):
        if operator not in _FLOATING:
            cursor.fail(f"an operator for floats; {operator!r} takes only integers", at)
        if any(isinstance(v, Immediate) and v.bits == 32 for v in (left, right)):
            cursor.fail("',' or ';': a constant such as 0f3F800000 cannot be part of an expression", at)
        try:
            result = float(_FLOATING[operator](_number(left), _number(right)))
        except OverflowError:
            cursor.fail("an expression whose value fits a 64-bit float", at)
        return Immediate.from_pattern(int.from_bytes(struct.pack(">d", result), "big"), 64)
    if operator in ("<<", ">>"):
        unsigned = left[1]
    else:
        unsigned = left[1] or right[1] or operator == "%"
    a = _wrap(left[0], unsigned)[0]
    b = right[0] if operator in ("<<", ">>") else _wrap(right[0], unsigned)[0]
    return _wrap(_ARITHMETIC[operator](a, b), unsigned)


def _unary(cursor: Cursor, what: str, depth: int) -> _Value:
    text = cursor.text
    if is_constant(text):
        return _literal(cursor, what)
    if text not in ("-", "+", "~", "!", "("):
        cursor.fail(what)
    if depth > DEPTH:
        cursor.fail(f"an expression of at most {DEPTH} levels")
    at = cursor.at
    cursor.at += 1
    if text == "(":
        if cursor.text in (".s64", ".u64"):
            unsigned = cursor.take() == ".u64"
            cursor.expect(")")
            value = _unary(cursor, what, depth + 1)
            return _wrap(int(_number(value)), unsigned)
        value = _ternary(cursor, what, depth + 1)
        cursor.expect(")")
        return value
    value = _unary(cursor, what, depth + 1)
    if text == "!":
        return int(not _number(value)), False
    if isinstance(value, Immediate):
        if text == "~":
            cursor.fail("an integer after '~'", at)
        if text == "+":
            return value
        if value.pattern is not None:
            return Immediate.from_pattern(value.pattern ^ 1 << (value.bits - 1), value.bits)
        return Immediate(-value.value, value.bits)
    if text == "+":
        return value
    return _wrap(~value[0], True) if text == "~" else _wrap(-value[0], value[1])


def _literal(cursor: Cursor, what: str) -> _Value:
    text = cursor.text
    head = text[:2]
    if text in _NAMED:
        value: _Value = _NAMED[text], False
    elif head in ("0f", "0F") and len(text) == 10:
        value = Immediate.from_pattern(int(text[2:], 16), 32)
    elif head in ("0d", "0D") and len(text) == 18:
        value = Immediate.from_pattern(int(text[2:], 16), 64)
    elif _INTEGER.match(text) is not None:
        digits = text.rstrip("U")
        octal = len(digits) > 1 and digits.isdecimal() and digits[0] == "0"
        try:
            number = int(digits, 8) if octal else int(digits, 0)
        except ValueError:  # 08, or more digits than Python converts
            cursor.fail("an integer of at most 64 bits")
        if number > _MASK:
            cursor.fail("an integer of at most 64 bits")
        value = (number, text[-1] == "U" or number >> 63 != 0)
    elif _FLOAT.match(text) is not None:
        value = Immediate(float(text))
    else:
        cursor.fail(what)
    cursor.at += 1
    return value
