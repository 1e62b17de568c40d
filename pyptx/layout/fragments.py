"""Matrix fragments in registers: the row and column of each element that a thread's registers hold.

Owns :class:`FragmentLayout` and the layouts of ``mma``, ``mma.sp``, ``wgmma``, ``ldmatrix``, ``stmatrix``
and ``movmatrix``, of the metadata of sparse operands and of the scales of block scaling.  Sources: the
formulas of `PTX ISA, #warp-level-matrix-instructions`_ and
``#asynchronous-warpgroup-level-matrix-register-fragment``;
CUTLASS ``cute/atom/mma_traits_sm*.hpp`` and ``copy_traits_sm*.hpp``, also for the metadata and the scales,
for which the manual has only figures.  Measured on an H200 (``tests/gpu/test_products.py``): all layouts,
except the scales and the byte matrices of ``ldmatrix`` and ``stmatrix``, which an H200 does not have.

A layout is two lists of :class:`Mode`, one for the number of the thread and one for the number of the element
within the thread.  Each mode is one digit of the number, the fastest digit first, and says by how many rows
and columns a step of the digit moves; the moves add up.  A is indexed (m, k), B (k, n), C and D (m, n).  For
sparse A, only the stored elements have columns: half as many as K.

.. _PTX ISA, #warp-level-matrix-instructions:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions
"""

from __future__ import annotations

import math
import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.tuples import NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "DENSE_SHAPES",
    "SPARSE_SHAPES",
    "Coordinate",
    "FragmentLayout",
    "Mode",
    "MatrixPosition",
    "SelectedLayout",
    "block_scales",
    "matrix_fragment",
    "mma_fragment",
    "mma_metadata",
    "product_extents",
    "wgmma_fragment",
    "wgmma_metadata",
]

_MMA = "warp-level-matrix-instructions-mma"
_SPARSE = "warp-level-matrix-instructions-sparse-mma"
_WGMMA = "asynchronous-warpgroup-level-matrix-register-fragment"


class Mode(NamedTuple):
    """One digit of a thread's or element's number: its extent, and how far a step of 1 moves in a matrix."""

    extent: int
    row: int = 0
    column: int = 0
    matrix: int = 0


class MatrixPosition(NamedTuple):
    """Position of an element. ``matrix`` is the number of its matrix if the fragment has several."""

    row: int
    column: int
    matrix: int = 0


class Coordinate(NamedTuple):
    """A row or column as a function of the thread: ``constant + sum((thread >> shift) % extent * step)``.

    Attributes:
        constant: the part that does not depend on the thread.
        terms: (shift, extent, step) for each digit of the thread's number that moves the coordinate.
    """

    constant: int
    terms: tuple[tuple[int, int, int], ...]

    def __call__(self, thread: int) -> int:
        """Return the coordinate in thread ``thread``."""
        return self.constant + sum((thread >> shift) % extent * step for shift, extent, step in self.terms)

    def __str__(self) -> str:
        parts = [str(self.constant)] if self.constant or not self.terms else []
        for shift, extent, step in self.terms:
            digit = f"(thread >> {shift}) % {extent}" if shift else f"thread % {extent}"
            parts.append(digit if step == 1 else f"{step} * ({digit})")
        return " + ".join(parts)


def _digits(number: int, modes: tuple[Mode, ...]) -> MatrixPosition:
    row = column = matrix = 0
    for mode in modes:
        number, digit = divmod(number, mode.extent)
        row += digit * mode.row
        column += digit * mode.column
        matrix += digit * mode.matrix
    return MatrixPosition(row, column, matrix)


def _size(modes: tuple[Mode, ...]) -> int:
    return math.prod(mode.extent for mode in modes)


@dataclass(frozen=True, slots=True)
class FragmentLayout:
    """The mapping from a matrix to registers: it gives the matrix element in each part of each register.

    The elements of a thread are numbered as in the manual (``a0, a1, ...``), starting at the low bits of the
    thread's first register.

    Attributes:
        rows, columns: extents of the matrix, or of each matrix if there are several.
        bits: width of an element in the register.
        register_bits: width of a register, 32 or 64.
        threads: digits of the thread's number, fastest first: 32 threads, or 128 of a warpgroup.
        values: digits of the element's number within the thread, fastest first.
        matrices: number of matrices in the fragment.
    """

    rows: int
    columns: int
    bits: int
    register_bits: int
    threads: tuple[Mode, ...]
    values: tuple[Mode, ...]
    matrices: int = 1

    @property
    def elements(self) -> int:
        """Number of elements that one thread holds."""
        return _size(self.values)

    @property
    def packed(self) -> int:
        """Number of elements that one register holds."""
        return self.register_bits // self.bits

    @property
    def registers(self) -> int:
        """Number of registers that one thread has for the fragment."""
        return -(-self.elements // self.packed)

    @property
    def thread_count(self) -> int:
        """Number of threads: 32, or 128 of a warpgroup."""
        return _size(self.threads)

    def place(self, element: int, thread: int = 0) -> MatrixPosition:
        """Return the position of ``element`` of ``thread`` in the matrix.

        Raises:
            SpecError: there is no such element or thread.
        """
        for what, number, count in (
            ("element", element, self.elements),
            ("thread", thread, self.thread_count),
        ):
            if not 0 <= number < count:
                raise SpecError(f"the fragment has no {what} {number}: expected 0..{count - 1}", see=_MMA)
        own, others = _digits(element, self.values), _digits(thread, self.threads)
        return MatrixPosition(*(a + b for a, b in zip(own, others, strict=True)))

    def coordinate(self, axis: Literal["row", "column", "matrix"], element: int = 0) -> Coordinate:
        """Return the row, column or matrix of ``element`` as a function of the thread.

        Raises:
            SpecError: there is no such element.
        """
        terms, shift = [], 0
        for mode in self.threads:
            if step := getattr(mode, axis):
                terms.append((shift, mode.extent, step))
            shift += mode.extent.bit_length() - 1
        return Coordinate(getattr(self.place(element), axis), tuple(terms))

    def places(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Return ``(row, column, matrix)`` of all elements, each a read-only ``int64[elements, threads]``."""
        return _places(self)


@lru_cache(maxsize=256)
def _places(layout: FragmentLayout) -> tuple[npt.NDArray[np.int64], ...]:
    own = np.array([_digits(i, layout.values) for i in range(layout.elements)], np.int64)
    others = np.array([_digits(t, layout.threads) for t in range(layout.thread_count)], np.int64)
    arrays = own[:, None, :] + others[None, :, :]
    arrays.flags.writeable = False
    return tuple(arrays[:, :, axis] for axis in range(3))


@dataclass(frozen=True, slots=True)
class SelectedLayout:
    """The layout of an operand that only some threads of each group of four supply; a selector chooses them.

    Attributes:
        layout: the elements that each thread holds if it is selected; threads of a group that can be selected
            in place of each other have the same elements.
        suppliers: number of threads of each group of four that supply the operand: 1, 2 or 4.
    """

    layout: FragmentLayout
    suppliers: int

    def lanes(self, selector: int) -> tuple[int, ...]:
        """Return the lanes of a warp that supply the operand: the instruction reads only their registers.

        Raises:
            SpecError: the selector selects no lane.
        """
        groups = 4 // self.suppliers
        if not 0 <= selector < groups:
            raise SpecError(
                f"selector {selector} selects no thread: {self.suppliers} of every 4 neighboring threads "
                f"supply the operand; the selector must be in 0..{groups - 1}",
                see=_SPARSE,
            )
        return tuple(lane for lane in range(32) if lane % 4 // self.suppliers == selector)


# --- mma ------------------------------------------------------------------------------------------

#: Width in registers of the elements of A and B (6- and 4-bit floats of kind f8f6f4 take a byte each).
_BITS = {
    "b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8,
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64,
}  # fmt: skip

#: Width of the accumulators' elements.
_ACCUMULATORS = {"f16": 16, "f32": 32, "s32": 32, "f64": 64}

_BYTES = ("m16n8k16", "m16n8k32")

#: Type of A and B -> shapes of ``mma`` that take it.
DENSE_SHAPES: dict[str, tuple[str, ...]] = {
    "f16": ("m8n8k4", "m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    **dict.fromkeys(("e4m3", "e5m2"), _BYTES),
    **dict.fromkeys(("e3m2", "e2m3"), ("m16n8k32",)),
    "e2m1": ("m16n8k32", "m16n8k64"),
    **dict.fromkeys(("s8", "u8"), ("m8n8k16", *_BYTES)),
    **dict.fromkeys(("s4", "u4"), ("m8n8k32", "m16n8k32", "m16n8k64")),
    "b1": ("m8n8k128", "m16n8k128", "m16n8k256"),
}

#: Type of A and B -> shapes of ``mma.sp`` that take it.
SPARSE_SHAPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("f16", "bf16"), ("m16n8k16", "m16n8k32")),
    "tf32": ("m16n8k8", "m16n8k16"),
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3"), ("m16n8k64",)),
    "e2m1": ("m16n8k64", "m16n8k128"),
    **dict.fromkeys(("s8", "u8"), ("m16n8k32", "m16n8k64")),
    **dict.fromkeys(("s4", "u4"), ("m16n8k64", "m16n8k128")),
}

_SHAPE = partial(re.compile, r"m(\d+)n(\d+)k(\d+)")


def product_extents(shape: str) -> tuple[int, int, int]:
    """Return M, N and K of a product's shape, such as ``m16n8k16``. Raises SpecError for another text."""
    found = _SHAPE().fullmatch(shape)
    if found is None:
        raise SpecError(f"shape is {shape!r}: expected the shape of a product, such as 'm16n8k16'", see=_MMA)
    m, n, k = map(int, found.groups())
    return m, n, k


def _check_shape(shape: str, dtype: str, sparse: bool) -> tuple[int, int, int]:
    opcode, shapes = ("mma.sp", SPARSE_SHAPES) if sparse else ("mma", DENSE_SHAPES)
    see = _SPARSE if sparse else _MMA
    if dtype not in shapes:
        raise SpecError(f"{opcode} has no operand of type {dtype!r}: expected {', '.join(shapes)}", see=see)
    if shape not in shapes[dtype]:
        raise SpecError(
            f"{opcode} has no shape {shape!r} for {dtype}: expected {', '.join(shapes[dtype])}", see=see
        )
    return product_extents(shape)


def _width(dtype: str, k: int) -> int:
    """Return the bits of an element in a register, for rows of ``k`` elements: e2m1 takes 4 if k is 64."""
    return 4 if dtype == "e2m1" and k == 64 else _BITS[dtype]


def _a(m: int, k: int, bits: int, warps: int = 1) -> FragmentLayout:
    """Return the layout of A: a register holds neighbors along K, 4 threads hold a row, a warp 8 rows."""
    register = max(bits, 32)
    packed = register // bits
    halves = m // (8 * warps)
    return FragmentLayout(
        m, k, bits, register,
        threads=(Mode(4, column=packed), Mode(8, row=1), *([Mode(warps, row=16)] if warps > 1 else ())),
        values=(Mode(packed, column=1), Mode(halves, row=8), Mode(k // (4 * packed), column=4 * packed)),
    )  # fmt: skip


def _b(k: int, n: int, bits: int) -> FragmentLayout:
    """Return the layout of B, which is the layout of A with rows and columns exchanged."""
    register = max(bits, 32)
    packed = register // bits
    return FragmentLayout(
        k, n, bits, register,
        threads=(Mode(4, row=packed), Mode(8, column=1)),
        values=(Mode(packed, row=1), Mode(k // (4 * packed), row=4 * packed)),
    )  # fmt: skip


def _d(m: int, n: int, bits: int, warps: int = 1) -> FragmentLayout:
    """Return the layout of C and D: a pair along N, then a pair 8 rows below, then the next 8 columns."""
    return FragmentLayout(
        m, n, bits, max(bits, 32),
        threads=(Mode(4, column=2), Mode(8, row=1), *([Mode(warps, row=16)] if warps > 1 else ())),
        values=(Mode(2, column=1), Mode(m // (8 * warps), row=8), Mode(n // 8, column=8)),
    )  # fmt: skip


def _quarters(operand: str, dtype: str, major: str) -> FragmentLayout:
    """Return the layout of one operand of ``mma.m8n8k4`` on f16, which computes four products at once.

    Threads 4q..4q+3 and 16+4q..16+4q+3 hold product q.
    """
    bits = _ACCUMULATORS[dtype]
    quarter = Mode(4, matrix=1)
    threads: tuple[Mode, ...]
    values: tuple[Mode, ...]
    if operand in "cd":
        upper = Mode(2, row=4)
        if dtype == "f16":
            threads, values = (Mode(4, row=1), quarter, upper), (Mode(8, column=1),)
        else:
            threads = (Mode(2, row=1), Mode(2, column=2), quarter, upper)
            values = (Mode(2, column=1), Mode(2, row=2), Mode(2, column=4))
        return FragmentLayout(8, 8, bits, 32, threads, values, matrices=4)
    if operand == "a":
        upper = Mode(2, row=4)
        rows, columns = 8, 4
    else:
        upper = Mode(2, column=4)
        rows, columns = 4, 8
    along, across = Mode(4, column=1), Mode(4, row=1)
    own, others = (along, across) if major == "row" else (across, along)
    return FragmentLayout(rows, columns, bits, 32, (others, quarter, upper), (own,), matrices=4)


@lru_cache(maxsize=512)
def mma_fragment(
    operand: str, shape: str, dtype: str, *, sparse: bool = False, major: str | None = None
) -> FragmentLayout:
    """Return the layout of one operand of ``mma`` or ``mma.sp`` in the registers of a warp's 32 threads.

    Args:
        operand: ``"a"``, ``"b"``, ``"c"`` or ``"d"``.
        shape: ``"m16n8k16"`` ...
        dtype: PTX name of the operand's element type.
        sparse: True for ``mma.sp``, where A has K/2 stored columns.
        major: ``"row"`` or ``"col"`` for A and B of ``m8n8k4`` on f16. All other forms have a single layout:
            A by rows and B by columns.

    Raises:
        SpecError: there is no such operand, shape, type or order.

    PTX ISA: `#warp-level-matrix-instructions-mma`.
    """
    if operand not in ("a", "b", "c", "d"):
        raise SpecError(f"operand {operand!r} of an mma: expected 'a', 'b', 'c' or 'd'", see=_MMA)
    usual = {"a": "row", "b": "col"}.get(operand)
    choice = shape == "m8n8k4" and dtype == "f16" and usual is not None
    if major not in (None, usual) and not (choice and major in ("row", "col")):
        raise SpecError(
            f"operand {operand!r} of {shape} {dtype} cannot be {major!r}-major"
            + (f": expected {usual!r}" if usual else ": only A and B of m8n8k4 f16 have a choice"),
            see=_MMA,
        )
    if operand in "ab":
        m, n, k = _check_shape(shape, dtype, sparse)
        if choice:
            return _quarters(operand, dtype, major or str(usual))
        stored = k // 2 if sparse else k
        bits = _width(dtype, stored)
        return _a(m, stored, bits) if operand == "a" else _b(k, n, bits)
    return _accumulator(operand, shape, dtype, sparse)


def _accumulator(operand: str, shape: str, dtype: str, sparse: bool) -> FragmentLayout:
    shapes = SPARSE_SHAPES if sparse else DENSE_SHAPES
    products = {  # types of A and B with this shape, and the possible types of their accumulators
        product: ("f64",) if product == "f64"
        else ("s32",) if product in ("s8", "u8", "s4", "u4", "b1")
        else ("f32",) if product in ("bf16", "tf32")
        else ("f16", "f32")
        for product, taken in shapes.items()
        if shape in taken
    }  # fmt: skip
    if not products:
        raise SpecError(
            f"mma{'.sp' if sparse else ''} has no shape {shape!r}",
            hint=f"shapes: {', '.join(sorted({s for taken in shapes.values() for s in taken}))}",
            see=_MMA,
        )
    legal = sorted({total for totals in products.values() for total in totals})
    if dtype not in legal:
        raise SpecError(
            f"{operand.upper()} of {shape} cannot be {dtype!r}: expected {', '.join(legal)}", see=_MMA
        )
    if shape == "m8n8k4" and dtype != "f64":
        return _quarters(operand, dtype, "row")
    m, n, _ = product_extents(shape)
    return _d(m, n, _ACCUMULATORS[dtype])


# --- wgmma ----------------------------------------------------------------------------------------

#: Type of A -> K of ``wgmma.mma_async``; ``.sp`` has twice that.
_WGMMA_K = {
    "f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256,
}  # fmt: skip


@lru_cache(maxsize=256)
def wgmma_fragment(operand: str, dtype: str, n: int | None = None) -> FragmentLayout:
    """Return the register layout of A, or of the accumulator, in ``wgmma.mma_async``.

    It has 128 threads and M = 64.

    Args:
        operand: ``"a"`` or ``"d"``. A's layout is the same for ``.sp``, whose stored columns are half of K.
        dtype: PTX name of the element type.
        n: columns of the accumulator, a multiple of 8 up to 256; None for A.

    Raises:
        SpecError: there is no such operand, type or extent.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-register-fragment`.
    """
    if operand not in ("a", "d"):
        raise SpecError(f"operand {operand!r} of wgmma in registers: expected 'a' or 'd'", see=_WGMMA)
    if (operand == "d") == (n is None):
        raise SpecError(
            f"n = {n} for operand {operand!r}: expected a number for 'd', None for 'a'", see=_WGMMA
        )
    if n is None:
        if dtype not in _WGMMA_K:
            raise SpecError(f"A of wgmma cannot be {dtype!r}: expected {', '.join(_WGMMA_K)}", see=_WGMMA)
        return _a(64, _WGMMA_K[dtype], _BITS[dtype], warps=4)
    if dtype not in ("f16", "f32", "s32"):
        raise SpecError(f"D of wgmma cannot be {dtype!r}: expected f16, f32 or s32", see=_WGMMA)
    if not 8 <= n <= 256 or n % 8 or (dtype == "s32" and n > 24 and n % 16):
        step = "8, 16, 24 or a multiple of 16" if dtype == "s32" else "a multiple of 8"
        raise SpecError(f"N = {n} of wgmma with {dtype}: expected {step} up to 256", see=_WGMMA)
    return _d(64, n, _ACCUMULATORS[dtype], warps=4)


# --- operands that only some threads supply -------------------------------------------------------

#: Dense elements (a chunk) per 4-bit index, by bits of an element: two of four, one of two, or two pairs of
#: four are kept.
_CHUNK = {4: 8, 8: 4, 16: 4, 32: 2}


def _metadata(rows: int, k: int, bits: int, warps: int) -> SelectedLayout:
    """Return the layout of a sparse A's metadata: one 4-bit index for each chunk of a row.

    For types of at least 16 bits, a register has four chunks of row r and four of row r + 8. For narrower
    types, it has eight chunks of one row.
    """
    chunks = k // _CHUNK[bits]
    row = (Mode(8, row=1), *([Mode(warps, row=16)] if warps > 1 else ()))
    values: tuple[Mode, ...]
    if bits >= 16:
        suppliers = chunks // 4
        lanes = [Mode(suppliers, column=4), Mode(4 // suppliers)]
        values = (Mode(4, column=1), Mode(2, row=8))
    else:
        suppliers = chunks // 4
        lanes = [Mode(2, row=8), Mode(2, column=8 if suppliers == 4 else 0)]
        values = (Mode(8, column=1),)
    threads = (*(mode for mode in lanes if mode.extent > 1), *row)
    return SelectedLayout(FragmentLayout(rows, chunks, 4, 32, threads, values), suppliers)


def mma_metadata(shape: str, dtype: str) -> SelectedLayout:
    """Return the layout of the metadata of ``mma.sp``: a 4-bit index for each chunk of A, ``[16, chunks]``.

    A chunk has 4 elements of 16 or 8 bits (two are kept, with 2 bits of index each), 2 elements of tf32 (one
    is kept, as two halves), or 8 elements of 4 bits (two pairs are kept).

    Raises:
        SpecError: there is no such shape or type.

    PTX ISA: `#warp-level-matrix-instructions-for-sparse-mma`.
    """
    m, _, k = _check_shape(shape, dtype, True)
    return _metadata(m, k, _width(dtype, k // 2), 1)


def wgmma_metadata(dtype: str) -> SelectedLayout:
    """Return the layout of the metadata of ``wgmma.mma_async.sp``, ``[64, chunks]``.

    Chunks are those of :func:`mma_metadata`.

    Raises:
        SpecError: the type has no sparse form.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async-sp`.
    """
    if dtype not in _WGMMA_K or dtype == "b1":
        legal = ", ".join(name for name in _WGMMA_K if name != "b1")
        raise SpecError(f"wgmma.mma_async.sp has no A of type {dtype!r}: expected {legal}", see=_SPARSE)
    return _metadata(64, 2 * _WGMMA_K[dtype], _BITS[dtype], 4)


def block_scales(operand: str, count: int) -> SelectedLayout:
    """Return the layout of the scales of ``mma`` with ``.block_scale``, one byte each.

    They are ``[16, count]`` for A and ``[count, 8]`` for B. The selector is the manual's thread-id. The
    manual's byte-id, the byte at which the ``count`` scales begin, is 0 in this layout.

    Args:
        operand: ``"a"`` or ``"b"``.
        count: scales per row of A or column of B: 1, 2 or 4, as in ``.scale_vec::4X``.

    Raises:
        SpecError: there is no such operand or count.

    PTX ISA: `#warp-level-block-scaling`.
    """
    if operand not in ("a", "b") or count not in (1, 2, 4):
        raise SpecError(
            f"operand {operand!r} with {count} scales: expected operand 'a' or 'b' with 1, 2 or 4 scales",
            see="warp-level-block-scaling",
        )
    if operand == "a":
        rows = (Mode(2, row=8), Mode(2), Mode(8, row=1))
        return SelectedLayout(FragmentLayout(16, count, 8, 32, rows, (Mode(count, column=1),)), 2)
    columns = (Mode(4), Mode(8, column=1))
    return SelectedLayout(FragmentLayout(count, 8, 8, 32, columns, (Mode(count, row=1),)), 1)


# --- ldmatrix, stmatrix, movmatrix ----------------------------------------------------------------

#: (shape, transposed) -> rows in memory, elements per row, bits, modes of the lane and of the element.
_MATRICES: dict[tuple[str, bool], tuple[int, int, int, tuple[Mode, ...], tuple[Mode, ...]]] = {
    ("m8n8", False): (8, 8, 16, (Mode(4, column=2), Mode(8, row=1)), (Mode(2, column=1),)),
    ("m8n8", True): (8, 8, 16, (Mode(4, row=2), Mode(8, column=1)), (Mode(2, row=1),)),
    ("m8n16", False): (8, 16, 8, (Mode(4, column=4), Mode(8, row=1)), (Mode(4, column=1),)),
    ("m16n16", True): (16, 16, 8, (Mode(4, row=4), Mode(8, column=1)), (Mode(4, row=1), Mode(2, column=8))),
    ("m16n8", True): (8, 16, 8, (Mode(4, row=2), Mode(8, column=1)), (Mode(2, row=1), Mode(2, column=8))),
}


@lru_cache(maxsize=64)
def matrix_fragment(shape: str, num: int = 1, *, trans: bool = False) -> FragmentLayout:
    """Return the register layout of ``ldmatrix`` and ``stmatrix``. Rows and columns are those in memory.

    Lane ``i * rows + r`` gives the address of row ``r`` of matrix ``i``. ``movmatrix`` reads ``m8n8`` and
    writes its transpose, which is ``m8n8`` with ``trans``. Elements of ``m8n16`` and of unpacked ``m16n16``
    are bytes in registers, even if they are smaller in memory.

    Args:
        shape: ``"m8n8"``, ``"m8n16"`` (ldmatrix), ``"m16n16"`` (ldmatrix) or ``"m16n8"`` (stmatrix).
        num: number of matrices: 1, 2 or 4; 1 or 2 for ``m16n16``.
        trans: True for ``.trans``, which ``m16n16`` and ``m16n8`` always have, and ``m8n16`` never.

    Raises:
        SpecError: there is no such combination.

    PTX ISA: `#warp-level-matrix-instructions-ldmatrix`.
    """
    see = "warp-level-matrix-instructions-ldmatrix"
    found = _MATRICES.get((shape, trans))
    if found is None:
        raise SpecError(
            f"there is no shape {shape!r} {'with' if trans else 'without'} .trans; expected "
            + ", ".join(f"{name}{'.trans' if turned else ''}" for name, turned in _MATRICES),
            see=see,
        )
    if num not in ((1, 2) if shape == "m16n16" else (1, 2, 4)):
        raise SpecError(
            f".x{num} of {shape}: expected 1 or 2{'' if shape == 'm16n16' else ', or 4'} matrices", see=see
        )
    rows, columns, bits, threads, values = found
    return FragmentLayout(rows, columns, bits, 32, threads, (*values, Mode(num, matrix=1)), matrices=num)
