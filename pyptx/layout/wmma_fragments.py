"""Maps the elements of ``wmma`` matrices to the registers that hold them, as measured on an H200.

PTX does not define these layouts. Most of them consist of blocks: each block has the layout of an operand of
``mma.m16n8k16`` (``m16n8k4`` for tf32; see :mod:`.fragments`), and the blocks follow each other in the
thread's registers. A layout of ``m8n32k16`` is the transpose of a layout of ``m32n8k16``.
``tests/conformance`` has the registers that a GPU loads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod

from ..core.errors import SpecError
from ..core.tuples import NamedTuple
from .fragments import FragmentLayout, Mode, mma_fragment

__all__ = ["WMMA_SHAPES", "FragmentOperand", "wmma_fragment"]

_BLOCKS = ("m16n16k16", "m8n32k16", "m32n8k16")

#: Type of A and B -> shapes of ``wmma`` that take it.
WMMA_SHAPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), _BLOCKS),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    **dict.fromkeys(("s4", "u4"), ("m8n8k32",)),
    "b1": ("m8n8k128",),
}

#: Type of A and B -> types of C and D.
_SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}

#: Bytes of a row that a register of each thread holds, for mma.
_MATRIX_ROW = 16

#: Elements of f16 A or B that a thread holds; some of them are copies.
_HALVES = 16


def _turned(layout: FragmentLayout) -> FragmentLayout:
    """Return ``layout`` with rows and columns exchanged: the layout of the transposed matrix."""

    def turn(modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
        return tuple(Mode(mode.extent, mode.column, mode.row) for mode in modes)

    return FragmentLayout(
        layout.columns,
        layout.rows,
        layout.bits,
        layout.register_bits,
        turn(layout.threads),
        turn(layout.values),
    )


class FragmentOperand(NamedTuple):
    """The matrix that ``wmma.load`` or ``wmma.store`` moves, and the modifier that names its type."""

    matrix: str
    type: str

    def layout(self, chosen: Mapping[str, str]) -> FragmentLayout:
        """Return the layout of the fragment, from an instruction's modifiers by their names in the table."""
        return wmma_fragment(self.matrix, chosen["shape"], chosen[self.type])

    def adjacent(self, chosen: Mapping[str, str]) -> int:
        """Return how many elements of a register are side by side in memory; 0 if none are."""
        values = self.layout(chosen).values
        return values[0].extent if values and getattr(values[0], _along(chosen)) == 1 else 0

    def together(self, chosen: Mapping[str, str]) -> int:
        """Return how many bytes of a line in memory a warp accesses with one register of each thread.

        A line is a row or a column, by the instruction's layout; ``ldmatrix``, which ptxas uses for elements
        of up to 16 bits, accesses 16.
        """
        layout, along = self.layout(chosen), _along(chosen)
        lanes = prod(mode.extent for mode in layout.threads if getattr(mode, along))
        return max(_MATRIX_ROW, lanes * max(1, self.adjacent(chosen)) * layout.bits // 8)


def _along(chosen: Mapping[str, str]) -> str:
    """Return the coordinate that counts along a line in memory, which is a row or a column."""
    return "column" if chosen["layout"] == "row" else "row"


@lru_cache(maxsize=256)
def wmma_fragment(operand: str, shape: str, dtype: str) -> FragmentLayout:
    """Return the layout of one operand of ``wmma`` in the registers of a warp's 32 threads.

    For A and B of f16 every thread holds 16 elements. If its part of the matrix has fewer, copies of the same
    elements fill the other registers, so that positions repeat.

    Args:
        operand: ``"a"``, ``"b"``, ``"c"`` or ``"d"``.
        shape: ``"m16n16k16"`` ...
        dtype: PTX name of the operand's element type.

    Raises:
        SpecError: there is no such operand, shape or type.

    PTX ISA: `#warp-level-matrix-fragment`.
    """
    see = "warp-level-matrix-fragment"
    if operand not in ("a", "b", "c", "d"):
        raise SpecError(f"operand {operand!r} of a wmma: expected 'a', 'b', 'c' or 'd'", see=see)
    legal = [product for product, shapes in WMMA_SHAPES.items() if shape in shapes]
    if operand in "cd":
        legal = sorted({total for product in legal for total in _SUMS.get(product, ("s32",))})
    if dtype not in legal:
        expected = ", ".join(legal) or "another shape"
        raise SpecError(
            f"{operand.upper()} of wmma {shape} cannot be {dtype!r}: expected {expected}", see=see
        )
    m, n, k = map(int, re.findall(r"\d+", shape))
    if n == 32:
        other = {"a": "b", "b": "a"}.get(operand, operand)
        return _turned(wmma_fragment(other, f"m{n}n{m}k{k}", dtype))
    if m == n == 8:
        return mma_fragment(operand, shape, dtype)
    block = mma_fragment(operand, "m16n8k4" if dtype == "tf32" else "m16n8k16", dtype)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
    down, across = (
        Mode(rows // block.rows, row=block.rows),
        Mode(columns // block.columns, column=block.columns),
    )
    # The blocks go along K first, so that elements that are multiplied with each other correspond.
    modes = [*block.values, *((across, down) if operand == "a" else (down, across))]
    if dtype == "f16" and operand in "ab":
        modes.append(Mode(_HALVES * 32 // (rows * columns)))
    values = tuple(mode for mode in modes if mode.extent > 1)
    return FragmentLayout(rows, columns, block.bits, block.register_bits, block.threads, values)
