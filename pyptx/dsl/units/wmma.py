"""``ptx.wmma``: matrix products of one warp, in fragments whose layout PTX does not define.

PTX ISA: `#warp-level-matrix-instructions-wmma`.  The hardware decides which elements a fragment's registers
hold: load, multiply and store a fragment with the same shape.  A kernel may apply the same operation to every
element.  Every function records exactly one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.types import TYPES, ScalarType
from ..choices import BitProduct, MatrixLayout
from ..emit import Predicate, checked, emit
from ..operands import Addr, addr
from ..records import records
from ..reg import array
from ..register_arrays import RegArray
from ..registers import Reg
from ..smem import Buffer
from ..trace import current
from .fragments import type_name
from .qualifiers import one_of

__all__ = ["load_a", "load_b", "load_c", "mma", "store_d"]

_LD = "warp-level-matrix-instructions-wmma-ld"
_ST = "warp-level-matrix-instructions-wmma-st"
_MMA = "warp-level-matrix-instructions-wmma-mma"

#: Shapes of products with several types of bytes and halves.
_LARGE = ("m16n16k16", "m8n32k16", "m32n8k16")

#: (operand, element type) -> type of a register, and how many by shape.
_FRAGMENTS: dict[tuple[str, str], tuple[str, dict[str, int]]] = {
    **{(operand, "f16"): ("f16x2", dict.fromkeys(_LARGE, 8)) for operand in "ab"},
    **{("a", name): ("s32", dict(zip(_LARGE, (2, 1, 4), strict=True))) for name in ("s8", "u8")},
    **{("b", name): ("s32", dict(zip(_LARGE, (2, 4, 1), strict=True))) for name in ("s8", "u8")},
    ("a", "bf16"): ("bf16x2", dict(zip(_LARGE, (4, 2, 8), strict=True))),
    ("b", "bf16"): ("bf16x2", dict(zip(_LARGE, (4, 8, 2), strict=True))),
    **{(operand, "tf32"): ("tf32", {"m16n16k8": 4}) for operand in "ab"},
    **{(operand, "f64"): ("f64", {"m8n8k4": 1}) for operand in "ab"},
    **{(operand, name): ("b32", {"m8n8k32": 1}) for operand in "ab" for name in ("s4", "u4")},
    **{(operand, "b1"): ("b32", {"m8n8k128": 1}) for operand in "ab"},
    ("c", "f16"): ("f16x2", dict.fromkeys(_LARGE, 4)),
    ("c", "f32"): ("f32", dict.fromkeys((*_LARGE, "m16n16k8"), 8)),
    ("c", "s32"): ("s32", {**dict.fromkeys(_LARGE, 8), "m8n8k32": 2, "m8n8k128": 2}),
    ("c", "f64"): ("f64", {"m8n8k4": 2}),
}

Vector = RegArray | Sequence[Reg]
Place = Reg | Addr | Buffer


def _fragment(operand: str, shape: str, dtype: str, see: str) -> tuple[ScalarType, int]:
    """Return the type of a ``wmma`` operand's registers, and how many registers each thread has."""
    types = tuple(name for letter, name in _FRAGMENTS if letter == operand)
    kind, counts = _FRAGMENTS[operand, one_of("dtype", dtype, types, see=see)]
    return TYPES[kind], counts[one_of(f"shape with {dtype}", shape, tuple(counts), see=see)]


def _stride(stride: Reg | int | None, see: str) -> list[Reg | int]:
    """Return a list with the stride as an operand; the list is empty without a stride."""
    return [] if stride is None else [checked("stride", stride, 0, 0xFFFFFFFF, see=see)]


def _space(space: str | None, see: str) -> str | None:
    spaces = {"global": "global", "shared": "shared", "cta": "shared::cta", None: None}
    return spaces[one_of("space", space, tuple(spaces), see=see)]


def _load(
    operand: str,
    place: Place,
    shape: str,
    dtype: ScalarType | str,
    layout: str,
    stride: Reg | int | None,
    space: str | None,
    pred: Predicate,
) -> RegArray:
    name = type_name(dtype)
    kind, count = _fragment(operand, shape, name, _LD)
    where = _space(space, _LD)
    modifiers = ("load", operand, "sync", "aligned", layout, shape, where, name)
    with current().atomic():
        registers = array(kind, count)
        emit("wmma", modifiers, registers, addr(place), *_stride(stride, _LD), pred=pred)
    return registers


@records("wmma.load.a", "wmma.load.a.bits")
def load_a(
    place: Place,
    shape: str,
    dtype: ScalarType | str,
    layout: MatrixLayout = "row",
    *,
    stride: Reg | int | None = None,
    space: str | None = "shared",
    pred: Predicate = None,
) -> RegArray:
    """Load A from memory into new registers. Records one ``wmma.load.a...``.

    Args:
        place: address at which the matrix begins, the same in all lanes.
        shape: ``"m16n16k16"``, ``"m8n32k16"``, ``"m32n8k16"`` (f16, bf16, s8, u8), ``"m16n16k8"`` (tf32),
            ``"m8n8k4"`` (f64), ``"m8n8k32"`` (s4, u4) or ``"m8n8k128"`` (b1).
        dtype: type of the elements.
        layout: ``"row"`` or ``"col"``; for s4, u4 and b1 ``"row"``.
        stride: elements from one row (column) to the next, a number or a u32 register; default: the length
            of a row (column) of the matrix.
        space: ``"shared"``, ``"global"``, ``"cta"``, or None for a generic address.
        pred: guard.

    Returns:
        The fragment's registers.

    Raises:
        OperandError: a shape, type, layout or space that does not exist.
        TargetError: an architecture that lacks this form of the instruction.

    PTX ISA: `#warp-level-matrix-instructions-wmma-ld`.
    """
    return _load("a", place, shape, dtype, layout, stride, space, pred)


@records("wmma.load.b", "wmma.load.b.bits")
def load_b(
    place: Place,
    shape: str,
    dtype: ScalarType | str,
    layout: MatrixLayout = "col",
    *,
    stride: Reg | int | None = None,
    space: str | None = "shared",
    pred: Predicate = None,
) -> RegArray:
    """Load B from memory into new registers. Records one ``wmma.load.b...``.

    Arguments and errors as for :func:`load_a`; s4, u4 and b1 need ``layout="col"``.
    """
    return _load("b", place, shape, dtype, layout, stride, space, pred)


@records("wmma.load.c")
def load_c(
    place: Place,
    shape: str,
    dtype: ScalarType | str,
    layout: MatrixLayout = "row",
    *,
    stride: Reg | int | None = None,
    space: str | None = "shared",
    pred: Predicate = None,
) -> RegArray:
    """Load C from memory into new registers. Records one ``wmma.load.c...``.

    Arguments and errors as for :func:`load_a`; the types are f16, f32, s32 and f64.
    """
    return _load("c", place, shape, dtype, layout, stride, space, pred)


@records("wmma.store.d")
def store_d(
    place: Place,
    d: Vector,
    shape: str,
    dtype: ScalarType | str,
    layout: MatrixLayout = "row",
    *,
    stride: Reg | int | None = None,
    space: str | None = "shared",
    pred: Predicate = None,
) -> None:
    """Store D. Records one ``wmma.store.d``.

    Arguments and errors are those of :func:`load_c`.

    PTX ISA: `#warp-level-matrix-instructions-wmma-st`.
    """
    name = type_name(dtype)
    _fragment("c", shape, name, _ST)
    modifiers = ("store", "d", "sync", "aligned", layout, shape, _space(space, _ST), name)
    emit("wmma", modifiers, addr(place), list(d), *_stride(stride, _ST), pred=pred)


@records("wmma.mma.f16", "wmma.mma.i8", "wmma.mma.alternate", "wmma.mma.f64", "wmma.mma.i4", "wmma.mma.b1")
def mma(
    a: Vector,
    b: Vector,
    c: Vector,
    shape: str,
    atype: ScalarType | str,
    *,
    btype: ScalarType | str | None = None,
    dtype: ScalarType | str | None = None,
    ctype: ScalarType | str | None = None,
    alayout: MatrixLayout = "row",
    blayout: MatrixLayout = "col",
    satfinite: bool = False,
    bit_op: BitProduct | None = None,
    rounding: str | None = None,
    out: Vector | None = None,
    pred: Predicate = None,
) -> Vector:
    """Compute D = A*B + C. Records one ``wmma.mma...``.

    Args:
        a, b, c: fragments, as :func:`load_a`, :func:`load_b` and :func:`load_c` return them.
        shape: the shape with which the fragments were loaded.
        atype, btype: types of A and B; default for B: A's type.
        dtype, ctype: types of D and C; default for D: f32, s32 or f64, depending on A; for C: D's type.
        alayout, blayout: the layouts with which A and B were loaded.
        satfinite: integer sums clamp instead of wrapping.
        bit_op: for b1, ``"xor"`` (default) or ``"and"``.
        rounding: for f64, ``"rn"``, ``"rz"``, ``"rm"`` or ``"rp"``.
        out: destination; default: new registers.
        pred: guard.

    Returns:
        D's registers.

    Raises:
        OperandError: a shape or type that does not exist, or vectors of another length.
        InstructionError: types that cannot be multiplied with each other.
        TargetError: an architecture that lacks this form of the instruction.

    PTX ISA: `#warp-level-matrix-instructions-wmma-mma`.
    """
    first = type_name(atype)
    second = first if btype is None else type_name(btype)
    default = "s32" if first in ("s8", "u8", "s4", "u4", "b1") else "f64" if first == "f64" else "f32"
    total = default if dtype is None else type_name(dtype)
    addend = total if ctype is None else type_name(ctype)
    for operand, name in (("a", first), ("b", second), ("c", total), ("c", addend)):
        _fragment(operand, shape, name, _MMA)
    clamp = "satfinite" if satfinite else None
    head: tuple[str | None, ...] = ("mma", "sync", "aligned", alayout, blayout, shape)
    types: tuple[str | None, ...] = (total, first, second, addend, clamp)
    if first == "f16":
        types = (total, addend, clamp)
    if first != "b1":
        types = (rounding, *types, bit_op)
    else:
        head = ("mma", bit_op or "xor", "popc", *head[1:])
    with current().atomic():
        kind, count = _fragment("c", shape, total, _MMA)
        registers = array(kind, count) if out is None else out
        emit("wmma", (*head, *types), list(registers), list(a), list(b), list(c), pred=pred)
    return registers
