"""Video instructions, as the manual defines them; where the code of ptxas differs, as ptxas executes them.

No current GPU has these instructions. ptxas (13.0 to 13.5, for sm_90) expands each to a sequence in 64-bit
arithmetic, which differs from the manual if an intermediate result needs more than 32 bits:

* ``.sat`` of a part treats a negative result as a large one. Except for shifts, ``.sat`` of an unsigned
  32-bit result does not clamp large results. See :func:`_saturated`.
* A second operation compares all 64 bits of its operands (see :func:`_second`). The second operation of
  ``vset`` uses the type of its first operand, not an unsigned type.
* ``vmad`` multiplies and adds 32-bit values as signed numbers.

(ptxas 13.0 merges the wrong half of a result into ``.h1``. This module follows 13.5, which does not.)

The functions get whole registers; the instruction's operands name the part of a register and its sign.
"""

from __future__ import annotations

import enum
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


class _Cut(enum.Enum):
    """When a result is cut to 32 bits before the second operation. Forms without this trait never cut it.

    ``SATURATED``: after a saturation, which uses 34 bits.
    """

    ALWAYS = "always"
    SATURATED = "saturated"


#: Where a result is cut, by the name of the instruction.
_CUTS = {"vadd": _Cut.ALWAYS, "vsub": _Cut.ALWAYS}


def _selector(operand: Operand) -> str:
    """Return ``b2`` for ``%r.b2`` and for ``-%r.b2``; an empty string for a whole register."""
    if isinstance(operand, Minus):
        operand = operand.operand
    return operand.selector if isinstance(operand, Element) else ""


# --- one value --------------------------------------------------------------------------------


def _place(selector: str) -> tuple[int, int]:
    """Return the first bit and the width of a part of a register."""
    if not selector:
        return 0, 32
    width = 8 if selector[0] == "b" else 16
    return int(selector[1]) * width, width


def _signed(value: Any, width: int) -> Any:
    """Return the low ``width`` bits of an int64 as a signed number."""
    return value << (64 - width) >> (64 - width)


def _part(op: Op, name: str, value: Array) -> Any:
    """Return the selected part of an operand as int64, extended by sign or zeros as its type says."""
    first, width = _place(_selector(op.binding.operands[name]))
    part = value.astype(np.int64) >> first
    if op.chosen.get(f"{name}type", "u32") == "s32":
        return _signed(part, width)
    return part & ((1 << width) - 1)


def _finished(op: Op, result: Any, kind: str, c: Array | None) -> Any:
    """Saturate the result, then apply the second operation with ``c``, or merge the result into ``c``.

    Only the low 32 bits of the returned values are valid.
    """
    destination = op.binding.operands["d"]
    first, width = _place(_selector(destination))
    cut: _Cut | None = op.traits
    if "sat" in op.chosen:
        result = _saturated(result, cut, kind, width)
    if c is None:
        return result
    if isinstance(destination, Element):
        field = ((1 << width) - 1) << first
        return (c.astype(np.int64) & ~field) | (result << first & field)
    if cut is _Cut.ALWAYS or (cut is _Cut.SATURATED and "sat" in op.chosen):
        result = _signed(result, 32)
    addend = c.astype(np.int64)
    return _second(op.chosen["op2"], result, _signed(addend, 32) if kind == "s32" else addend, kind)


def _saturated(result: Any, cut: _Cut | None, kind: str, width: int) -> Any:
    """Saturate as the code of ptxas does.

    A shift clamps 34 bits to 32 bits, even if the destination is a part of a register. Another instruction
    with such a destination takes the unsigned minimum of the result and the part's largest value, so a
    negative result becomes the largest value.
    """
    if cut is _Cut.SATURATED:
        return clamped(_signed(result, 34), *TYPES[kind].limits)
    if width < 32:
        greatest = np.uint64(TYPES[f"{kind[0]}{width}"].limits[1])
        return np.minimum(result.astype(np.uint64), greatest).astype(np.int64)
    return np.maximum(result, 0) if kind == "u32" else clamped(result, *TYPES[kind].limits)


def _second(name: str, result: Any, c: Any, kind: str) -> Any:
    """Apply the second operation (add, min or max) to 64-bit values.

    For u32 the comparison is unsigned even if ``result`` is negative.
    """
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
    executes(_name, f"{_name}.merge", traits=_CUTS.get(_name))(_scalar(_operation))


def _shift(operation: Binary) -> Callable[..., Any]:
    def execute(op: Op, a: Array, b: Array, c: Array | None) -> Any:
        amount = _part(op, "b", b)
        amount = np.minimum(amount, 32) if op.chosen["mode"] == "clamp" else amount & 31
        return _finished(op, operation(_part(op, "a", a), amount), op.chosen["dtype"], c)

    return execute


executes("vshl", "vshl.merge", traits=_Cut.SATURATED)(_shift(np.left_shift))
executes("vshr", "vshr.merge", traits=_Cut.SATURATED)(_shift(np.right_shift))


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


# --- packed halves and bytes ------------------------------------------------------------------


def _digits(operand: Operand, default: str) -> list[int]:
    """Return which elements a selector or mask, such as ``.b210``, names, the lowest number first."""
    return [int(digit) for digit in reversed(_selector(operand)[1:] or default)]


def _lanes(operation: Binary | None, count: int) -> Callable[..., Any]:
    """Return the function that executes an instruction on ``count`` packed elements.

    It compares the elements if ``operation`` is None.
    """
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
