"""``ptx.mma``: matrix products of one warp, with all operands in registers.

PTX ISA: `#warp-level-matrix-instructions-mma`.  ``ptx.mma(d, a, b, c)`` records exactly one instruction, of
any form of the table: dense, sparse (``metadata=``) or block-scaled (``scale_a=``, ``scale_b=``).
``ptx.mma.fragment("a", "m16n8k16", f16)`` declares an operand together with its layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import OperandError
from ...core.tuples import NamedTuple
from ...core.types import ScalarType
from ...layout import mma_fragment, mma_metadata
from ..choices import BitProduct, MatrixLayout
from ..emit import Predicate, emit
from ..records import records
from ..register_arrays import RegArray
from ..registers import Reg
from ..types import as_whole
from .fragments import Fragment, declare, type_name
from .qualifiers import one_of

__all__ = ["mma"]

_SEE = "warp-level-matrix-instructions-mma"
_SPARSE = "warp-level-matrix-instructions-sparse-mma"
_SCALES = "warp-level-block-scaling"

Operand = Fragment | RegArray | Sequence[Reg] | Reg

#: Element types whose products are summed in s32.
_INTEGERS = ("s8", "u8", "s4", "u4", "b1")
#: Floats that only kind::f8f6f4 takes.
_NARROW = ("e3m2", "e2m3", "e2m1")
#: Kind with block scaling -> the numbers of scales that a row may have.
_SCALED_KINDS = {"mxf8f6f4": (1,), "mxf4": (2,), "mxf4nvf4": (2, 4)}


class _Given(NamedTuple):
    """An operand of ``ptx.mma``: its registers, and its fragment if the author passed one."""

    letter: str
    registers: list[Reg]
    fragment: Fragment | None


def _given(letter: str, value: Operand) -> _Given:
    if isinstance(value, Reg):
        return _Given(letter, [value], None)
    fragment = value if isinstance(value, Fragment) else None
    if fragment is not None:
        roles = "cd" if letter in "cd" else letter
        if fragment.operand not in roles:
            raise OperandError(
                f"operand {letter} is {fragment!r}, a fragment of operand {fragment.operand}: "
                f"expected one of {' or '.join(roles)}",
                see=_SEE,
            )
        if not fragment.whole:
            raise OperandError(
                f"operand {letter} is {fragment!r}: expected all {fragment.layout.registers} registers",
                see=_SEE,
            )
    return _Given(letter, list(value), fragment)


def _agree(what: str, given: str | None, operands: Sequence[_Given], attribute: str) -> str | None:
    """Return the shape or type that an argument and the fragments give; raise an error if they disagree."""
    found, origin = given, what
    for operand in operands:
        if operand.fragment is None:
            continue
        said = getattr(operand.fragment, attribute)
        if found is None:
            found, origin = said, f"{attribute} of operand {operand.letter}"
        elif said != found:
            raise OperandError(
                f"{attribute} of operand {operand.letter} is {said!r}, but {origin} is {found!r}: "
                "expected equal values",
                see=_SEE,
            )
    return found


class Mma:
    """Compute D = A*B + C in one warp. Records one ``mma.sync...``."""

    __all__ = ("fragment",)

    @records(
        "mma.f16.m8n8k4",
        "mma.f16",
        "mma.alternate",
        "mma.f8",
        "mma.f8f6f4",
        "mma.mxf8f6f4",
        "mma.mxf4",
        "mma.nvf4",
        "mma.f64.m8n8k4",
        "mma.f64",
        "mma.i8",
        "mma.i4",
        "mma.b1",
        "mma.sp.f16.m16n8k16",
        "mma.sp.f16.m16n8k32",
        "mma.sp.alternate",
        "mma.sp.alternate.pairs",
        "mma.sp.f8",
        "mma.sp.f8.f16",
        "mma.sp.f8f6f4",
        "mma.sp.mxf8f6f4",
        "mma.sp.mxf4",
        "mma.sp.nvf4",
        "mma.sp.integer",
        "mma.sp.integer.all",
    )
    def __call__(
        self,
        d: Operand,
        a: Operand,
        b: Operand,
        c: Operand | None = None,
        shape: str | None = None,
        *,
        dtype: ScalarType | str | None = None,
        atype: ScalarType | str | None = None,
        btype: ScalarType | str | None = None,
        ctype: ScalarType | str | None = None,
        alayout: MatrixLayout | None = None,
        blayout: MatrixLayout | None = None,
        kind: str | None = None,
        satfinite: bool = False,
        bit_op: BitProduct | None = None,
        rounding: str | None = None,
        metadata: Reg | None = None,
        selector: int | None = None,
        ordered: bool | None = None,
        scale_a: Reg | None = None,
        scale_b: Reg | None = None,
        select_a: tuple[int, int] | None = None,
        select_b: tuple[int, int] | None = None,
        scale_vec: int | None = None,
        stype: ScalarType | str | None = None,
        pred: Predicate = None,
    ) -> None:
        """Compute D = A*B + C in one warp. Records one ``mma.sync...`` (``mma.sp...`` with ``metadata``).

        Shape and types come from the fragments; for plain registers pass them as arguments. Every operand
        must have as many registers as its layout.

        Args:
            d: destination.
            a, b: multiplicands.
            c: addend; default: ``d``.
            shape: ``"m16n8k16"`` ... ; K counts the elements of a row of A with the zeroes of a sparse A.
            dtype, ctype: types of D and C; default: one equals the other, and both are f32, s32 or f64
                depending on the types of A and B.
            atype, btype: types of A and B; default: one equals the other.
            alayout, blayout: for ``m8n8k4`` of f16, ``"row"`` or ``"col"``; default: the layouts of the
                fragments, else A by rows and B by columns, as in every other shape.
            kind: ``"f8f6f4"``, ``"mxf8f6f4"``, ``"mxf4"`` or ``"mxf4nvf4"``; default: derived from types,
                shape and scales.
            satfinite: integer sums clamp instead of wrapping.
            bit_op: for single bits, ``"xor"`` (default) or ``"and"``.
            rounding: for f64, ``"rn"``, ``"rz"``, ``"rm"`` or ``"rp"``.
            metadata: a b32 register with the indices of A's kept elements; A then holds half of K. See
                :func:`pyptx.layout.mma_metadata`.
            selector: selects the threads of each four that supply the metadata; default: 0.
            ordered: True (default): the indices of a chunk ascend, ``sp::ordered_metadata`` (PTX 8.5); False
                records ``sp``.
            scale_a, scale_b: b32 registers with the scales, both or neither. See
                :func:`pyptx.layout.block_scales`.
            select_a, select_b: ``(byte, thread)`` of the scales: numbers; default: (0, 0).
            scale_vec: number of scales of a row of A: 1, 2 or 4; default: 1 for mxf8f6f4, 2 for mxf4;
                required for mxf4nvf4.
            stype: type of the scales, ``"ue8m0"`` or ``"ue4m3"``; default: ue4m3 with four, else ue8m0.
            pred: guard.

        Raises:
            OperandError: fragments or arguments that disagree, a wrong number of registers, or a selector out
                of range.
            SpecError: a shape or type that the operand does not have.
            InstructionError: types that cannot be multiplied with each other.
            TargetError: an architecture that lacks this form of the instruction.

        PTX ISA: `#warp-level-matrix-instructions-mma`.
        """
        operands = [_given(*pair) for pair in (("d", d), ("a", a), ("b", b), ("c", d if c is None else c))]
        size = _agree("shape", shape, operands, "shape")
        if size is None:
            raise OperandError("the shape is not known", hint='pass shape="m16n8k16", or fragments', see=_SEE)
        types = _types(operands, dtype, atype, btype, ctype)
        sparse = metadata is not None
        layouts = _major(operands[1], size, types[1], alayout), _major(operands[2], size, types[2], blayout)
        for operand, name, major in zip(operands, types, (None, *layouts, None), strict=True):
            _check(operand, size, name, sparse, major)
        values: list[Any] = [operand.registers for operand in operands]
        values += _supplied(size, types[1], metadata, selector, ordered)
        scaling = _scaling(size, sparse, kind, types, scale_a, scale_b, scale_vec, stype)
        if scale_a is not None:
            first, second = _selected("select_a", select_a, 2), _selected("select_b", select_b, 4)
            values += [scale_a, first, scale_b, second]
        elif select_a is not None or select_b is not None:
            raise OperandError(
                f"select_a is {select_a!r} and select_b is {select_b!r} without scales: expected None",
                see=_SCALES,
            )
        variant = "sp::ordered_metadata" if ordered in (None, True) else "sp"
        operation: tuple[str | None, ...] = (bit_op,)
        if types[1] == "b1":
            operation = (bit_op or "xor", "popc")
        modifiers = (
            variant if sparse else None,
            "sync",
            "aligned",
            size,
            *layouts,
            *scaling[:3],
            "satfinite" if satfinite else None,
            *types,
            *operation,
            rounding,
            *scaling[3:],
        )
        emit("mma", modifiers, *values, pred=pred)

    @staticmethod
    def fragment(
        operand: str,
        shape: str,
        dtype: ScalarType | str,
        *,
        sparse: bool = False,
        layout: str | None = None,
        name: str | None = None,
    ) -> Fragment:
        """Declare the registers of an operand. Records nothing.

        Args:
            operand: ``"a"``, ``"b"``, ``"c"`` or ``"d"``.
            shape: shape of the instruction, ``"m16n8k16"`` ...
            dtype: type of the operand's elements: f16, bf16, tf32, f64, e4m3 ..., or a name such as ``"s4"``.
                The registers are f16x2, bf16x2, tf32, f32, s32, f64 or b32.
            sparse: True for a product with ``metadata``, whose A has half of K.
            layout: layout of A or B for ``m8n8k4`` of f16: ``"row"`` or ``"col"``.
            name: stem of the names; default: the Python variable that the result is bound to.

        Raises:
            SpecError: a shape, type or layout that the operand does not have.

        PTX ISA: `#warp-level-matrix-instructions-mma`.
        """
        element = type_name(dtype)
        places = mma_fragment(operand, shape, element, sparse=sparse, major=layout)
        return declare(places, operand, shape, element, sparse=sparse, name=name)


def _types(
    operands: Sequence[_Given],
    dtype: ScalarType | str | None,
    atype: ScalarType | str | None,
    btype: ScalarType | str | None,
    ctype: ScalarType | str | None,
) -> tuple[str, str, str, str]:
    """Return the types of D, A, B and C, from arguments or fragments, or derived from the other types."""
    d, a, b, c = (
        _agree(what, None if value is None else type_name(value), [operand], "dtype")
        for operand, what, value in zip(
            operands, ("dtype", "atype", "btype", "ctype"), (dtype, atype, btype, ctype), strict=True
        )
    )
    a, b = a or b, b or a
    if a is None or b is None:
        raise OperandError(
            "the types of A and B are not known", hint='pass atype="bf16", or fragments', see=_SEE
        )
    d, c = d or c, c or d
    default = "s32" if a in _INTEGERS else "f64" if a == "f64" else "f32"
    return d or default, a, b, c or default


def _major(operand: _Given, shape: str, dtype: str, given: str | None) -> str:
    """Return the row or column order of A or B: ``given``, else the fragment's order, else the usual one."""
    usual = "row" if operand.letter == "a" else "col"
    if given is None and operand.fragment is not None and (shape, dtype) == ("m8n8k4", "f16"):
        other = "col" if usual == "row" else "row"
        if operand.fragment.layout == mma_fragment(operand.letter, shape, dtype, major=other):
            return other
    return given or usual


def _check(operand: _Given, shape: str, dtype: str, sparse: bool, major: str | None) -> None:
    """Raise :class:`OperandError` for a fragment of another layout, or a wrong number of registers."""
    layout = mma_fragment(operand.letter, shape, dtype, sparse=sparse, major=major)
    fragment = operand.fragment
    if fragment is not None and fragment.layout != layout:
        raise OperandError(
            f"operand {operand.letter} is {fragment!r}, which has another layout: expected "
            f"{'a sparse' if sparse else 'a dense'} fragment{f' by {major}s' if major else ''}"
            f"{' (metadata= is given)' if sparse else ''}",
            hint="declare it with ptx.mma.fragment(..., sparse=, layout=)",
            see=_SEE,
        )
    if len(operand.registers) != layout.registers:
        raise OperandError(
            f"operand {operand.letter} has {len(operand.registers)} registers: expected {layout.registers} "
            f"for {dtype} in {'sparse ' if sparse else ''}{shape}",
            see=_SEE,
        )


def _supplied(
    shape: str, atype: str, metadata: Reg | None, selector: int | None, ordered: bool | None
) -> list[Any]:
    """Return the operands of a sparse product: the metadata and the selector of the supplying threads."""
    if metadata is None:
        if selector is not None or ordered is not None:
            raise OperandError(
                f"selector is {selector!r} and ordered is {ordered!r} without metadata: expected None",
                see=_SPARSE,
            )
        return []
    if not isinstance(metadata, Reg):
        raise OperandError(f"metadata is {metadata!r}: expected a b32 register", see=_SPARSE)
    choices = tuple(range(4 // mma_metadata(shape, atype).suppliers))
    return [metadata, one_of("selector", 0 if selector is None else selector, choices, see=_SPARSE)]


def _selected(what: str, select: Sequence[int] | None, threads: int) -> list[int]:
    """Return the selector ``{byte, thread}`` of the scale factors, (0, 0) by default."""
    parts = [as_whole(part) for part in select or (0, 0)]
    if len(parts) != 2 or parts[0] not in range(4) or parts[1] not in range(threads):
        raise OperandError(
            f"{what} is {select!r}: expected (byte, thread), byte 0..3 and thread 0..{threads - 1}",
            see=_SCALES,
        )
    return [part for part in parts if part is not None]


def _scaling(
    shape: str,
    sparse: bool,
    kind: str | None,
    types: tuple[str, str, str, str],
    scale_a: Reg | None,
    scale_b: Reg | None,
    scale_vec: int | None,
    stype: ScalarType | str | None,
) -> tuple[str | None, ...]:
    """Return the modifiers of block scaling: ``kind::``, ``block_scale``, ``scale_vec::``, type of scales."""
    if (scale_a is None) != (scale_b is None):
        raise OperandError(
            f"scale_a is {scale_a!r} and scale_b is {scale_b!r}: expected both or neither", see=_SCALES
        )
    if scale_a is None:
        if scale_vec is not None or stype is not None:
            raise OperandError(
                f"scale_vec is {scale_vec!r} and stype is {stype!r} without scales: "
                "expected scale_a and scale_b too",
                see=_SCALES,
            )
        if kind is None and {*types[1:3]} & {*_NARROW}:
            kind = "f8f6f4"
        if kind is not None:
            one_of("kind without scales", kind, ("f8f6f4",), see=_SEE)
        return None if kind is None else f"kind::{kind}", None, None, None
    if kind is None:
        packed = shape.endswith("k128" if sparse else "k64")
        kind = "mxf8f6f4" if not packed else "mxf4nvf4" if scale_vec == 4 else "mxf4"
    counts = _SCALED_KINDS[one_of("kind with scales", kind, tuple(_SCALED_KINDS), see=_SCALES)]
    if scale_vec is None and kind == "mxf4nvf4":
        raise OperandError("kind mxf4nvf4 needs the number of scales: pass scale_vec=2 or 4", see=_SCALES)
    if scale_vec is not None:
        one_of(f"scale_vec of kind {kind}", scale_vec, counts, see=_SCALES)
    scales = "ue4m3" if scale_vec == 4 else "ue8m0"
    return (
        f"kind::{kind}",
        "block_scale",
        None if scale_vec is None else f"scale_vec::{scale_vec}X",
        scales if stype is None else type_name(stype),
    )


#: ``ptx.mma``.
mma = Mma()
