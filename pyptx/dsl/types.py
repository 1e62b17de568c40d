"""Maps the DSL's types to the types of declarations, moves and loads.

PTX declares registers of fewer types than it computes with: there is no ``.reg .bf16``, and 8-bit
registers serve loads, stores and conversions only.  Owns the mapping from a value's type to the type of its
register's declaration, and to the types of ``mov``, ``ld`` and ``st``.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..core.errors import OperandError
from ..core.types import TYPES, ScalarType, pred

__all__ = [
    "as_number",
    "as_whole",
    "bits_of",
    "declared",
    "encode_number",
    "memory_type",
    "move_type",
    "the_type",
]

#: Types that ``.reg`` takes, apart from integers and 8-bit types.
_DECLARABLE = frozenset({"f16", "f16x2", "f32", "f64"})
#: Types with a ``mov`` of their own; the others move as bits.
_MOVABLE = frozenset(f"{kind}{bits}" for kind in "us" for bits in (16, 32, 64)) | {"f32", "f64", "pred"}
#: Types of ``ld`` and ``st``.
_LOADABLE = frozenset(f"{kind}{bits}" for kind in "usb" for bits in (8, 16, 32, 64)) | {"f32", "f64"}


def bits_of(kind: ScalarType) -> ScalarType:
    """Return the bit type of the same width. Raises :class:`OperandError` for a predicate, which has none."""
    if kind is pred:
        raise OperandError(
            "a predicate (.pred) has no bit type", hint="select a number with it: ptx.selp(x, y, p)"
        )
    return TYPES[f"b{kind.bits}"]


def declared(kind: ScalarType) -> ScalarType:
    """Return the type in the declaration of a register of ``kind``: ``b16`` for bf16 and for 8-bit types.

    Packs of 8 bits (e2m1x2) are declared ``b8``, the only type that their conversions accept.
    """
    if kind.bits == 8 and kind.lanes == 1:
        return TYPES["b16"]
    if kind.name in _DECLARABLE or (kind.kind != "f" and kind.lanes == 1):
        return kind
    return bits_of(kind)


def move_type(kind: ScalarType) -> ScalarType:
    """Return the type of the ``mov`` that copies a register of ``kind``."""
    kind = declared(kind)
    return kind if kind.name in _MOVABLE else bits_of(kind)


def memory_type(kind: ScalarType) -> ScalarType:
    """Return the type of the ``ld`` or ``st`` that moves one value of ``kind`` in its own size.

    Raises :class:`OperandError` for predicates, which memory cannot hold.
    """
    if kind is pred:
        raise OperandError(
            "a predicate cannot be loaded or stored",
            hint="select an integer with it first: ptx.inst.selp.u32(d, 1, 0, p)",
            see="data-movement-and-conversion-instructions-ld",
        )
    return kind if kind.name in _LOADABLE else bits_of(kind)


def as_number(value: object) -> int | float | None:
    """Return ``value`` as a Python number (also a numpy scalar or a bool); None if it is not a number."""
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    return None


def as_whole(value: object) -> int | None:
    """Return ``value`` as a Python integer, or None if it is not an integer."""
    number = as_number(value)
    return number if isinstance(number, int) else None


def the_type(value: object) -> ScalarType:
    """Return ``value`` if it is a PTX type; else raise :class:`OperandError`."""
    if isinstance(value, ScalarType):
        return value
    raise OperandError(
        f"{value!r} is not a register type",
        hint="use a PTX type such as pyptx.types.u32, f32, b64, pred",
        see="fundamental-types",
    )


def encode_number(value: int | float, kind: ScalarType) -> int | float:
    """Convert ``value`` to the immediate that a register of ``kind`` takes.

    An integer stays the same; it must fit the width, signed or unsigned.  A number for f32 or f64 becomes a
    float.  The other float formats have no literals: the result is the bits of the nearest value.

    Raises :class:`OperandError` for a float in an integer register, and for a number that does not fit.
    """
    if kind.kind == "f" and kind.lanes == 1:
        return _encode_float(value, kind)
    if isinstance(value, float):
        raise OperandError(
            f"the float {value!r} was given where a .{kind} value is expected",
            hint=f"write an integer, or convert with ptx.inst.cvt into a .{kind} register",
        )
    low, high = (0, 1) if kind.kind == "p" else (-(1 << (kind.bits - 1)), (1 << kind.bits) - 1)
    if not low <= value <= high:
        raise OperandError(f"{value} does not fit .{kind}: expected {low}..{high}")
    return operator.index(value)


def _encode_float(value: int | float, kind: ScalarType) -> int | float:
    assert kind.dtype is not None  # all float formats of one lane have one
    try:
        number = float(value)
        with np.errstate(over="ignore"):
            narrowed: Any = np.float64(number).astype(kind.dtype)
    except OverflowError:
        number, narrowed = math.inf, math.inf
    if math.isfinite(float(narrowed)) != math.isfinite(number) or (
        not math.isfinite(number) and not isinstance(value, float)
    ):
        import ml_dtypes

        largest = float(ml_dtypes.finfo(kind.dtype).max)  # type: ignore[no-untyped-call]
        raise OperandError(f"{value!r} does not fit .{kind}: its largest number is {largest:g}")
    if kind.name in ("f32", "f64"):
        return number
    raw = np.asarray(narrowed).view(f"u{np.dtype(kind.dtype).itemsize}")
    return int(raw)
