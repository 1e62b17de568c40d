"""Video instructions: as the manual has them, and where ptxas makes something else of them, as that.

No GPU of today has these instructions; ptxas (13.0 to 13.5, for sm_90) writes each as a sequence in 64-bit
arithmetic, and such a sequence differs from the manual where intermediate results are long:

* ``.sat`` of a part takes negative results for large ones, of an unsigned word lets large ones pass but for
  shifts: see :func:`_saturated`;
* a second operation compares the words that it is given, all 64 bits of them: see :func:`_second`; that of
  ``vset`` as its first operand's type says, not as unsigned ones;
* ``vmad`` multiplies and adds words as if they were signed.

(That ptxas 13.0 merges the wrong half of a result into ``.h1`` is not here: 13.5 does not.)

Operands come as whole registers: which part of one is meant, and its sign, stands in the instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ...ir import Element, Minus, Operand
from ..code.semantic import Op, executes
from ..numbers.bits import clamped
from ..numbers.packed import elements, joined

Array = NDArray[Any]
Binary = Callable[[Any, Any], Any]

_COMPARISONS: dict[str, Binary] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _distance(x: Any, y: Any) -> Any:
    return np.absolute(x - y)


def _average(x: Any, y: Any) -> Any:
    total = x + y
    return (total + (total >= 0)) >> 1


_ARITHMETIC: dict[str, Binary] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": _distance,
    "vmin": np.minimum,
    "vmax": np.maximum,
}
#: Instructions whose result loses what lies beyond 32 bits before a second operation.
_CUT = {"vadd", "vsub"}
#: Those for which that is so after a saturation, which itself sees 34 bits.
_SHIFTS = {"vshl", "vshr"}


def _selector(operand: Operand) -> str:
    """``b2`` of ``%r.b2`` and of ``-%r.b2``; empty if the register is meant as a whole."""
    if isinstance(operand, Minus):
        operand = operand.operand
    return operand.selector if isinstance(operand, Element) else ""


# --- one value --------------------------------------------------------------------------------


def _place(selector: str) -> tuple[int, int]:
    """First bit and width of a part of a word."""
    if not selector:
        return 0, 32
    width = 8 if selector[0] == "b" else 16
    return int(selector[1]) * width, width


def _signed(value: Any, width: int) -> Any:
    """The low bits of 64, as a signed number."""
    return value << (64 - width) >> (64 - width)


def _part(op: Op, name: str, value: Array) -> Any:
    """An operand's selected part as int64, extended as its type says."""
    first, width = _place(_selector(op.binding.operands[name]))
    part = value.astype(np.int64) >> first
    if op.chosen.get(f"{name}type", "u32") == "s32":
        return _signed(part, width)
    return part & ((1 << width) - 1)


def _finished(op: Op, result: Any, kind: str, c: Array | None) -> Any:
    """Saturation, then the second operation or the merge with ``c``; of the result the low 32 bits count."""
    destination = op.binding.operands["d"]
    first, width = _place(_selector(destination))
    opcode = op.binding.match.form.opcode
    if "sat" in op.chosen:
        result = _saturated(result, opcode, kind, width)
    if c is None:
        return result
    if isinstance(destination, Element):
        field = ((1 << width) - 1) << first
        return (c.astype(np.int64) & ~field) | (result << first & field)
    if opcode in _CUT or (opcode in _SHIFTS and "sat" in op.chosen):
        result = _signed(result, 32)
    addend = c.astype(np.int64)
    return _second(op.chosen["op2"], result, _signed(addend, 32) if kind == "s32" else addend, kind)


def _saturated(result: Any, opcode: str, kind: str, width: int) -> Any:
    """Of a shift: 34 bits into a word, whatever the part.  Of others into a part: no more than its greatest
    value, as unsigned numbers, so that a negative one becomes that."""
    if opcode in _SHIFTS:
        return clamped(_signed(result, 34), *TYPES[kind].limits)
    if width < 32:
        greatest = np.uint64(TYPES[f"{kind[0]}{width}"].limits[1])
        return np.minimum(result.astype(np.uint64), greatest).astype(np.int64)
    return np.maximum(result, 0) if kind == "u32" else clamped(result, *TYPES[kind].limits)


def _second(name: str, result: Any, c: Any, kind: str) -> Any:
    """add, min or max of 64 bits; of unsigned ones even where ``result`` is negative."""
    if name == "add":
        return result + c
    choose = np.minimum if name == "min" else np.maximum
    if kind == "s32":
        return choose(result, c)
    return choose(result.astype(np.uint64), c.astype(np.uint64))


def _scalar(operation: Binary) -> Callable[..., Any]:
    def execute(op: Op, a: Array, b: Array, c: Array | None) -> Any:
        return _finished(op, operation(_part(op, "a", a), _part(op, "b", b)), op.chosen["dtype"], c)

    return execute


for _name, _operation in _ARITHMETIC.items():
    executes(_name, f"{_name}.merge")(_scalar(_operation))


def _shift(operation: Binary) -> Callable[..., Any]:
    def execute(op: Op, a: Array, b: Array, c: Array | None) -> Any:
        amount = _part(op, "b", b)
        amount = np.minimum(amount, 32) if op.chosen["mode"] == "clamp" else amount & 31
        return _finished(op, operation(_part(op, "a", a), amount), op.chosen["dtype"], c)

    return execute


executes("vshl", "vshl.merge")(_shift(np.left_shift))
executes("vshr", "vshr.merge")(_shift(np.right_shift))


@executes("vset", "vset.merge")
def vset(op: Op, a: Array, b: Array, c: Array | None) -> Any:
    holds = _COMPARISONS[op.chosen["cmp"]](_part(op, "a", a), _part(op, "b", b))
    return _finished(op, holds.astype(np.int64), op.chosen["atype"], c)


@executes("vmad", "vmad.po")
def vmad(op: Op, a: Array, b: Array, c: Array) -> Any:
    minus = {name: isinstance(op.binding.operands[name], Minus) for name in "abc"}
    product = _signed(_part(op, "a", a), 32) * _signed(_part(op, "b", b), 32)
    addend = _signed(c.astype(np.int64), 32)
    if minus["a"] != minus["b"]:
        product = -product
    elif minus["c"]:
        addend = -addend
    result = product + addend + ("po" in op.chosen)
    signed = "s32" in (op.chosen["atype"], op.chosen["btype"]) or minus["a"] != minus["b"] or minus["c"]
    shift = {"shr7": 7, "shr15": 15}.get(op.chosen.get("scale", ""), 0)
    result = result >> shift if signed or not shift else (result.astype(np.uint64) >> shift).astype(np.int64)
    return clamped(result, *TYPES["s32" if signed else "u32"].limits) if "sat" in op.chosen else result


# --- halves and bytes side by side ------------------------------------------------------------


def _digits(operand: Operand, default: str) -> list[int]:
    """Which elements a selector or a mask names, the lowest first."""
    return [int(digit) for digit in reversed(_selector(operand)[1:] or default)]


def _lanes(operation: Binary | None, count: int) -> Callable[..., Any]:
    """An instruction of ``count`` elements; without an operation, the comparison that is chosen."""
    bits = 32 // count
    places = "3210"[-count:]
    defaults = {"a": places, "b": "".join(str(int(p) + count) for p in places)}

    def execute(op: Op, a: Array, b: Array, c: Array) -> Any:
        both = np.concatenate([elements(a, f"u{bits // 8}"), elements(b, f"u{bits // 8}")], axis=1)
        sides = []
        for name in "ab":
            side = both[:, _digits(op.binding.operands[name], defaults[name])].astype(np.int64)
            sides.append(_signed(side, bits) if op.chosen[f"{name}type"] == "s32" else side)
        compute = operation if operation is not None else _COMPARISONS[op.chosen["cmp"]]
        results = compute(*sides).astype(np.int64)
        written = _digits(op.binding.operands["d"], places)
        if "add" in op.chosen:
            return c.astype(np.int64) + results[:, written].sum(axis=1)
        if "sat" in op.chosen:
            results = clamped(results, *TYPES[f"{op.chosen['dtype'][0]}{bits}"].limits)
        merged = elements(c, f"u{bits // 8}").copy()
        merged[:, written] = results[:, written]
        return joined(merged)

    return execute


for _count in (2, 4):
    for _name, _operation in {**_ARITHMETIC, "vavrg": _average}.items():
        executes(f"{_name}{_count}")(_lanes(_operation, _count))
    executes(f"vset{_count}")(_lanes(None, _count))
