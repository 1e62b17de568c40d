"""Tensor memory: its addresses, and which cell each register and each accumulator element is.

Owns the 128 x 512 grid of 32-bit cells, the fragments of ``tcgen05.ld``/``st`` and the place of D.  Sources:
`PTX ISA, #tensor-memory-addressing`_ and ``#tcgen05-data-movement-shape``; CUTLASS
``cute/atom/copy_traits_sm100.hpp`` and ``mma_traits_sm100_frag.hpp`` (the manual has figures only).

.. _PTX ISA, #tensor-memory-addressing:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-memory-addressing
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..core.errors import SpecError, UnsupportedError

__all__ = ["COLUMNS", "LANES", "accumulator", "fragment", "pack_address", "unpack_address"]

#: Rows of tensor memory in one CTA; warp ``w`` reaches lanes ``32 * (w % 4)`` to ``+31``.
LANES = 128
#: 32-bit columns of tensor memory in one CTA.
COLUMNS = 512

_SHAPES = {  # shape: (registers per unit of num, largest num)
    "32x32b": (1, 128),
    "16x64b": (1, 128),
    "16x128b": (2, 64),
    "16x256b": (4, 32),
    "16x32bx2": (1, 128),
}

Cells = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def pack_address(lane: int, column: int) -> int:
    """The 32-bit address of a cell: lane in bits 31..16, column in bits 15..0.

    Raises:
        SpecError: outside 128 lanes x 512 columns.
    """
    if not (0 <= lane < LANES and 0 <= column < COLUMNS):
        raise SpecError(
            f"tensor memory cell (lane {lane}, column {column}) is outside {LANES} lanes x {COLUMNS} columns",
            see="tensor-memory-addressing",
        )
    return lane << 16 | column


def unpack_address(address: int) -> tuple[int, int]:
    """(lane, column) of a 32-bit address, unchecked: each of the 16-bit halves may be out of range."""
    return (address >> 16) & 0xFFFF, address & 0xFFFF


def _frozen(lane: npt.NDArray[np.int64], column: npt.NDArray[np.int64], shape: tuple[int, int]) -> Cells:
    # A copy, because broadcasting alone would share one row's memory.
    cells = np.broadcast_to(lane, shape).copy(), np.broadcast_to(column, shape).copy()
    for array in cells:
        array.flags.writeable = False
    return cells


@lru_cache(maxsize=256)
def fragment(shape: str, num: int, half_split_offset: int | None = None) -> Cells:
    """The cell behind each register of each thread in ``tcgen05.ld``/``st.shape.xnum``.

    Args:
        shape: ``"32x32b"``, ``"16x64b"``, ``"16x128b"``, ``"16x256b"`` or ``"16x32bx2"``.
        num: the ``.x`` factor: a power of two, up to 128 (``16x128b``: 64, ``16x256b``: 32).
        half_split_offset: ``16x32bx2`` only: columns between its two halves (immHalfSplitoff).

    Returns:
        ``(lane, column)``, each a read-only ``int64[registers, 32]`` relative to the instruction's
        address, indexed by register and by thread of the warp. Registers are ``num``, except
        ``2 * num`` for ``16x128b`` and ``4 * num`` for ``16x256b``.

    Raises:
        SpecError: no such shape or count, or an offset where there is none (or none where one is due).
    """
    if shape not in _SHAPES:
        raise SpecError(
            f"there is no tcgen05.ld shape {shape!r}; expected one of {', '.join(_SHAPES)}",
            see="tcgen05-data-movement-shape",
        )
    per_num, largest = _SHAPES[shape]
    if not 1 <= num <= largest or num & (num - 1):
        raise SpecError(
            f".x{num} does not exist for .{shape}; expected a power of two between 1 and {largest}",
            see="tcgen05-ld",
        )
    if (half_split_offset is None) == (shape == "16x32bx2"):
        raise SpecError(
            f"half_split_offset = {half_split_offset} with .{shape}: "
            ".16x32bx2 needs one, no other shape has one",
            see="tcgen05-ld",
        )
    registers = per_num * num
    i = np.arange(registers, dtype=np.int64)[:, None]
    t = np.arange(32, dtype=np.int64)[None, :]
    if shape == "32x32b":
        lane, column = t, i
    elif shape == "16x64b":
        lane, column = t // 4 + 8 * (t & 1), 2 * i + ((t >> 1) & 1)
    elif shape == "16x128b":
        lane, column = t // 4 + 8 * (i & 1), 4 * (i // 2) + t % 4
    elif shape == "16x256b":
        lane, column = t // 4 + 8 * ((i >> 1) & 1), 8 * (i // 4) + 2 * (t % 4) + (i & 1)
    else:
        lane, column = t % 16, i + (t >= 16) * (half_split_offset or 0)
    return _frozen(lane, column, (registers, 32))


@lru_cache(maxsize=32)
def accumulator(m: int, n: int, *, cta_group: int, ws: bool = False) -> Cells:
    """The cell of each element of D that one CTA holds.

    One 32-bit cell per element; a 16-bit D uses the cell's low half.

    Args:
        m: M of the instruction: 64 or 128.
        n: N of the instruction: a multiple of 8, 8..256.
        cta_group: 1.
        ws: whether the instruction is ``tcgen05.mma.ws``.

    Returns:
        ``(lane, column)``, each a read-only ``int64[m, n]`` relative to the accumulator's address.

    Raises:
        SpecError: not a shape of tcgen05.mma.
        UnsupportedError: a pair of CTAs, or ``.ws``.
    """
    if n < 8 or n > 256 or n % 8:
        raise SpecError(f"N = {n} is not a multiple of 8 between 8 and 256", see="tcgen05-kind-shapes")
    if ws or cta_group != 1:
        raise UnsupportedError(
            f"the accumulator layout of cta_group::{cta_group}{' with .ws' if ws else ''} "
            "is not modelled yet; supported is cta_group::1 without .ws",
            see="tcgen05-data-path-layout-organization",
        )
    if m not in (64, 128):
        raise SpecError(f"M = {m} with cta_group::1 is neither 64 nor 128", see="tcgen05-kind-shapes")
    row = np.arange(m, dtype=np.int64)[:, None]
    column = np.arange(n, dtype=np.int64)[None, :]
    # M=64 fills the first 16 lanes of each warp's 32 (a second such D fits at lane 16).
    lane = row if m == 128 else row % 16 + 32 * (row // 16)
    return _frozen(lane, column, (m, n))
