"""PTX scalar types and the corresponding dtypes of numpy, ml_dtypes and torch.

Owns :class:`ScalarType` and one constant per type.  A type is a *fundamental type* of PTX, or a packed or
narrow format that instructions name; see `PTX ISA, #fundamental-types`_.

.. _PTX ISA, #fundamental-types: https://docs.nvidia.com/cuda/parallel-thread-execution/#fundamental-types
"""

from __future__ import annotations

from dataclasses import field
from functools import cache
from typing import Any

import numpy as np

from .records import dataclass

__all__ = [
    "TYPES",
    "ScalarType",
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "bf16",
    "bf16x2",
    "e4m3",
    "e5m2",
    "f16",
    "f16x2",
    "f32",
    "f64",
    "from_dtype",
    "pred",
    "s8",
    "s16",
    "s32",
    "s64",
    "scalar_type",
    "tf32",
    "u8",
    "u16",
    "u32",
    "u64",
    "ue8m0",
]


@dataclass(frozen=True, eq=False, slots=True)
class ScalarType:
    """One PTX type.

    Attributes:
        name: the type's name in PTX without the dot (``"u32"``).
        bits: width of one value in a register, in bits (``pred`` is 1).
        kind: ``"u"`` unsigned, ``"s"`` signed, ``"f"`` float, ``"b"`` untyped bits, ``"p"`` predicate.
        dtype_name: name of the dtype of one *array element* of this type (numpy or ml_dtypes); None if no
            array can have this type.
        torch_name: name of the torch dtype, or None.
        lanes: 2 for packed types such as ``f16x2`` (4 for ``e4m3x4``), otherwise 1.
    """

    name: str
    bits: int
    kind: str
    dtype_name: str | None = None
    torch_name: str | None = None
    lanes: int = 1
    #: numpy dtype of a register that holds this type (raw bits for formats numpy lacks).
    register_dtype: np.dtype[Any] = field(init=False)

    def __post_init__(self) -> None:
        native = {"u": "u", "s": "i", "f": "f", "b": "u"}
        chosen: np.dtype[Any]
        if self.kind == "p":
            chosen = np.dtype(np.bool_)
        elif self.kind == "f" and (self.lanes > 1 or self.name not in ("f16", "f32", "f64")):
            chosen = np.dtype(f"u{max(self.bits, 8) // 8}")
        elif self.bits == 128:
            chosen = np.dtype([("lo", "u8"), ("hi", "u8")])
        else:
            chosen = np.dtype(f"{native[self.kind]}{self.bits // 8}")
        object.__setattr__(self, "register_dtype", chosen)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (scalar_type, (self.name,))

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The numpy dtype of one array element of this type, or None if no array can have this type."""
        return None if self.dtype_name is None else _dtype(self.dtype_name)

    @property
    def nbytes(self) -> int:
        """Bytes of one value in memory; 0 for a predicate, which memory cannot hold."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        """True for floating-point types, packed ones included."""
        return self.kind == "f"

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type (untyped bits count as unsigned)."""
        if self.kind == "s":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


@cache
def _dtype(name: str) -> np.dtype[Any]:
    """Return the dtype with this name; to record and to launch a kernel takes no ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


#: Formats with 8 bits per value when packed; PTX packs two or four of them.
_PACKED_8BIT = ("e4m3", "e5m2", "e2m3", "e3m2", "ue8m0")
_PAIRS_8BIT = (*_PACKED_8BIT, "ue5m3", "s2f6")
_FOURS_8BIT = (*_PACKED_8BIT, "e2m1p4")


def _table() -> dict[str, ScalarType]:
    rows: list[ScalarType] = [ScalarType("pred", 1, "p", "bool", "bool")]
    for bits in (8, 16, 32, 64):
        rows.append(ScalarType(f"u{bits}", bits, "u", f"uint{bits}", f"uint{bits}"))
        rows.append(ScalarType(f"s{bits}", bits, "s", f"int{bits}", f"int{bits}"))
        rows.append(ScalarType(f"b{bits}", bits, "b", f"uint{bits}"))
    rows += [
        ScalarType("b128", 128, "b"),
        ScalarType("f16", 16, "f", "float16", "float16"),
        ScalarType("f32", 32, "f", "float32", "float32"),
        ScalarType("f64", 64, "f", "float64", "float64"),
        ScalarType("bf16", 16, "f", "bfloat16", "bfloat16"),
        ScalarType("tf32", 32, "f", "float32"),
        ScalarType("f16x2", 32, "f", None, None, 2),
        ScalarType("bf16x2", 32, "f", None, None, 2),
        ScalarType("f32x2", 64, "f", None, None, 2),
        ScalarType("u16x2", 32, "u", None, None, 2),
        ScalarType("s16x2", 32, "s", None, None, 2),
        ScalarType("u8x4", 32, "u", None, None, 4),
        ScalarType("s8x4", 32, "s", None, None, 4),
        # Packed narrow formats, which only instructions name: their registers are declared as bits.
        *(ScalarType(f"{name}x2", 16, "f", None, None, 2) for name in _PAIRS_8BIT),
        *(ScalarType(f"{name}x4", 32, "f", None, None, 4) for name in _FOURS_8BIT),
        ScalarType("e2m1x2", 8, "f", None, None, 2),
        ScalarType("e2m1x4", 16, "f", None, None, 4),
        ScalarType("e2m1x8", 32, "f", None, None, 8),
        ScalarType("e4m3", 8, "f", "float8_e4m3fn", "float8_e4m3fn"),
        ScalarType("e5m2", 8, "f", "float8_e5m2", "float8_e5m2"),
        ScalarType("ue8m0", 8, "f", "float8_e8m0fnu", "float8_e8m0fnu"),
    ]
    return {row.name: row for row in rows}


#: Every known type by its PTX name.
TYPES: dict[str, ScalarType] = _table()

#: The type of an array by the name of its dtype.
_BY_DTYPE: dict[str, ScalarType] = {}
for _type in TYPES.values():
    # Several types share a dtype (u32 and b32): an array's type is the first of them, never an untyped one.
    if _type.dtype_name is not None and _type.kind != "b" and _type.name != "tf32":
        _BY_DTYPE.setdefault(_type.dtype_name, _type)


def scalar_type(name: str) -> ScalarType:
    """Return the type called ``name`` (with or without the leading dot). Raises KeyError."""
    return TYPES[name.lstrip(".")]


def from_dtype(dtype: Any) -> ScalarType | None:
    """Return the PTX type of a numpy dtype, or None if there is none."""
    given = np.dtype(dtype)
    found = _BY_DTYPE.get(given.name)
    return found if found is not None and found.dtype == given else None


pred = TYPES["pred"]
u8, u16, u32, u64 = (TYPES[f"u{n}"] for n in (8, 16, 32, 64))
s8, s16, s32, s64 = (TYPES[f"s{n}"] for n in (8, 16, 32, 64))
b8, b16, b32, b64, b128 = (TYPES[f"b{n}"] for n in (8, 16, 32, 64, 128))
f16, f32, f64, bf16, tf32 = (TYPES[n] for n in ("f16", "f32", "f64", "bf16", "tf32"))
f16x2, bf16x2, e4m3, e5m2, ue8m0 = (TYPES[n] for n in ("f16x2", "bf16x2", "e4m3", "e5m2", "ue8m0"))
