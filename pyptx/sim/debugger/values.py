"""Values of registers by the names of the author's variables, and expressions over them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SpecError
from ...core.records import dataclass
from ...core.types import TYPES, ScalarType
from ...ir import Instruction, Register
from ..code.function import FunctionCode
from ..code.semantic import CLASSES, Op, RegisterPlace
from ..threads.warp import ALL_LANES, Split, Warp, mask_of
from .text import register_lines

__all__ = ["RegisterValue", "Written", "called", "evaluate", "register_values", "type_called"]

Array = NDArray[Any]
_NUMBERED = re.compile(r"_\d+$")
_FUNCTIONS = {"abs": abs, "all": np.all, "any": np.any, "max": np.max, "min": np.min, "np": np, "sum": np.sum}


@dataclass(frozen=True, eq=False, repr=False)
class RegisterValue:
    """A register in the lanes of one warp.

    Attributes:
        name: the register's name, without ``%``.
        type: its type.
        values: its value in each of the 32 lanes, also in those that do not execute now.
        undefined: the lanes in which it was never written, or has undefined bits.
    """

    name: str
    type: ScalarType
    values: Array
    undefined: NDArray[np.bool_]

    def lines(self, lanes: NDArray[np.intp]) -> list[str]:
        """Return the values in some lanes as text."""
        name = f"{self.name} {self.type}"
        return list(register_lines(name, self.type.kind, self.values, self.undefined, lanes))

    def __repr__(self) -> str:
        return "\n".join(self.lines(ALL_LANES))


def _typed(raw: Array, type: ScalarType) -> Array:
    """Return the raw bits of a register as values of its type."""
    if raw.dtype.names is not None:
        return np.array([int(low) | int(high) << 64 for low, high in raw.tolist()], object)
    if type.dtype is None or type.bits == 1:
        return raw
    if type.dtype.itemsize != raw.dtype.itemsize:
        raw = raw.astype(f"u{type.dtype.itemsize}")
    return np.ascontiguousarray(raw).view(type.dtype)


class Written:
    """Which lanes have written which registers, by warp and function."""

    def __init__(self) -> None:
        self._masks: WeakKeyDictionary[Warp, dict[tuple[FunctionCode, int], int]] = WeakKeyDictionary()

    def note(self, s: Split, instruction: Instruction, op: Op) -> None:
        """Record that ``s`` executes an instruction, in the lanes in which its guard is true."""
        mask, code = s.mask, s.frame.code
        if instruction.guard is not None:
            row = code.places[instruction.guard.register.name].row
            true = mask_of(s.frame.p[row])
            mask &= ~true if instruction.guard.negated else true
        masks = self._masks.setdefault(s.warp, {})
        for dest in op.dests.values():
            for place in dest if isinstance(dest, tuple) else (dest,):
                key = code, place.index
                masks[key] = masks.get(key, 0) | mask

    def lanes(self, s: Split, place: RegisterPlace) -> NDArray[np.bool_]:
        """Return which lanes of the split's warp have written a register."""
        mask = self._masks.get(s.warp, {}).get((s.frame.code, place.index), 0)
        return np.array([mask >> lane & 1 for lane in range(32)], np.bool_)


def _value(s: Split, name: str, type: ScalarType, written: Written | None) -> RegisterValue:
    frame = s.frame
    place = frame.code.places[name]
    raw = getattr(frame, CLASSES[place.cls])[place.row]
    flags = frame.registers.undefined.flags(place.index, frame.span)
    undefined = np.zeros(frame.columns, np.bool_) if flags is None else flags.copy()
    if written is not None:
        undefined |= ~written.lanes(s, place)
    return RegisterValue(name, type, _typed(raw.copy(), type), undefined)


def register_values(
    s: Split, kind: ScalarType | None = None, written: Written | None = None
) -> dict[str, RegisterValue]:
    """Return the registers of the function that ``s`` executes, by name.

    ``kind`` replaces the type of the registers of its size. Registers that ``written`` does not have count as
    undefined.
    """
    s.scatter()
    found = {}
    for register in _registers(s):
        type = register.type
        if kind is not None and kind.bits == type.bits:
            type = kind
        names = [register.name]
        if register.vector > 1:
            names = [f"{register.name}.{component}" for component in "xyzw"[: register.vector]]
        for name in names:
            found[name] = _value(s, name, type, written)
    return found


def _registers(s: Split) -> tuple[Register, ...]:
    return s.frame.code.function.registers


def called(name: str, known: Mapping[str, RegisterValue]) -> list[str]:
    """Return the registers that a user calls ``name``: this one, or those of one Python variable.

    A variable that was assigned several times has the registers ``x``, ``x_1``, ``x_2``.
    """
    if name in known:
        return [name]
    return [each for each in known if _NUMBERED.sub("", each.partition(".")[0]) == name]


def _namespace(s: Split) -> dict[str, Any]:
    """Return what an expression may name: registers as arrays over 32 lanes, and the thread.

    These are ``lane``, ``thread`` (in the CTA), ``warp``, and ``cta`` (x, y, z); registers come first.
    """
    known = register_values(s)
    lanes = np.arange(32)
    found: dict[str, Any] = {
        "lane": lanes,
        "thread": lanes + 32 * s.warp.index,
        "warp": s.warp.index,
        "cta": s.warp.cta.coordinates,
    }
    for name in {_NUMBERED.sub("", each) for each in known}:
        several = called(name, known)
        if len(several) == 1:
            found[name] = known[several[0]].values
    found.update({name: value.values for name, value in known.items()})
    return found


def evaluate(expression: str, s: Split) -> Any:
    """Return the value of a Python expression over the registers of ``s``.

    Raises:
        SpecError: it is not an expression, or names what there is not.
    """
    try:
        return eval(expression, {"__builtins__": {}, **_FUNCTIONS}, _namespace(s))
    except Exception as error:
        raise SpecError(
            f"cannot evaluate {expression!r}: {type(error).__name__}: {error}",
            hint="name registers by their variables, and lane, thread, warp, cta; numpy is np",
        ) from None


def type_called(name: str) -> ScalarType:
    """Return the type of a name. Raises :class:`SpecError` for other names."""
    if name not in TYPES:
        raise SpecError(f"{name!r} is not a type", hint="f32, bf16, u32, s32, b32, ...")
    return TYPES[name]
