"""Tensor memory: its addresses, and the cells that hold registers and matrix elements.

Owns the 128 x 512 grid of 32-bit cells, the fragments of ``tcgen05.ld``/``st``, and the layouts of the
matrices of ``tcgen05.mma``: D, A and the scale factors.  Sources: `PTX ISA, #tensor-memory-addressing`_,
``#tcgen05-data-movement-shape`` and ``#tcgen05-data-path-layout-organization``; CUTLASS
``cute/atom/copy_traits_sm100.hpp`` and ``mma_traits_sm100_frag.hpp`` (the manual has only figures).

.. _PTX ISA, #tensor-memory-addressing:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-memory-addressing
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..core.errors import SpecError

__all__ = [
    "COLUMNS",
    "LANES",
    "a_operand",
    "accumulator",
    "fragment",
    "pack_address",
    "scale_factors",
    "unpack_address",
]

#: Rows (lanes) of tensor memory in one CTA. Warp ``w`` can access lanes ``32 * (w % 4)`` to ``+31``.
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

Integers = npt.NDArray[np.int64]
Cells = tuple[Integers, Integers]
Bits = tuple[Integers, Integers, Integers]

#: cta_group -> values that M can have in an instruction without ``.ws``.
_ROWS = {1: (64, 128), 2: (128, 256)}
#: Number of scales of one row -> bytes of a cell at which these scales may begin.
_SCALE_IDS = {1: (0, 1, 2, 3), 2: (0, 2), 3: (0, 1, 2, 3), 4: (0,), 6: (0, 2)}
_SEE_PACKING = "tcgen05-packing-formats"
_SEE_SCALES = "tcgen05-mma-scale-factor-a"


def pack_address(lane: int, column: int) -> int:
    """Return the 32-bit address of a cell: the lane in bits 31..16, the column in bits 15..0.

    Raises:
        SpecError: the cell is outside the 128 lanes x 512 columns.
    """
    if not (0 <= lane < LANES and 0 <= column < COLUMNS):
        raise SpecError(
            f"tensor memory cell (lane {lane}, column {column}) is outside {LANES} lanes x {COLUMNS} columns",
            see="tensor-memory-addressing",
        )
    return lane << 16 | column


def unpack_address(address: int) -> tuple[int, int]:
    """Return ``(lane, column)`` of a 32-bit address without a check: each may be outside tensor memory."""
    return (address >> 16) & 0xFFFF, address & 0xFFFF


def _filled(values: Integers, shape: tuple[int, ...]) -> Integers:
    # Without the copy, the rows of the broadcast array would share memory.
    array = np.broadcast_to(values, shape).copy()
    array.flags.writeable = False
    return array


def _frozen(lane: Integers, column: Integers, shape: tuple[int, ...]) -> Cells:
    return _filled(lane, shape), _filled(column, shape)


@lru_cache(maxsize=256)
def fragment(shape: str, num: int, half_split_offset: int | None = None) -> Cells:
    """Return the cell of tensor memory that each register of each thread accesses in ``tcgen05.ld``/``st``.

    Args:
        shape: ``"32x32b"``, ``"16x64b"``, ``"16x128b"``, ``"16x256b"`` or ``"16x32bx2"``.
        num: the ``.x`` factor: a power of two, up to 128 (``16x128b``: 64, ``16x256b``: 32).
        half_split_offset: for ``16x32bx2``, the columns between the two halves (immHalfSplitoff); None for
            the other shapes.

    Returns:
        ``(lane, column)``, each a read-only ``int64[registers, 32]`` relative to the instruction's
        address, indexed by register and by thread of the warp. The number of registers is ``num``, except
        ``2 * num`` for ``16x128b`` and ``4 * num`` for ``16x256b``.

    Raises:
        SpecError: there is no such shape or ``num``, ``16x32bx2`` has no ``half_split_offset``, or another
            shape has one.
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
            ".16x32bx2 needs an offset, and the other shapes take none",
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
def accumulator(m: int, n: int, *, cta_group: int, ws: bool = False, sparse: bool = False) -> Cells:
    """Return the tensor-memory cell of each element of the accumulator D that one CTA holds.

    Each element takes one 32-bit cell; a 16-bit D uses the cell's low half.  With ``cta_group`` 2, each CTA
    of the pair holds ``m // 2`` rows of D; the CTA with the even rank holds the first half.

    ===================================== ============================== ====================
    instruction                           lane, column of (row, n)       manual's layout
    ===================================== ============================== ====================
    M = 128; a pair's M = 256             row, n                         D, A
    M = 64; a pair's sparse M = 128       row%16 + 32*(row//16), n       F, C (base lane 0 or 16)
    .ws M = 64; a pair's dense M = 128    row + 64*(n//h), n%h; h = N/2  E, B
    .ws M = 32                            row + 32*(n//q), n%q; q = N/4  G
    ===================================== ============================== ====================

    Args:
        m: M of the instruction: 64 or 128; 32, 64 or 128 with ``ws``; 128 or 256 for a pair.
        n: N of the instruction: a multiple of 8, 8..256; with ``ws`` 64, 128 or 256.
        cta_group: 1 or 2.
        ws: True if the instruction is ``tcgen05.mma.ws``.
        sparse: True if A is sparse.

    Returns:
        ``(lane, column)``, each a read-only ``int64[rows of one CTA, n]`` relative to the accumulator's
        address.

    Raises:
        SpecError: tcgen05.mma does not have this shape.

    Sources for the lanes of layout C: the manual's table (D uses half of the lanes and begins at lane 0 or
    16), and ``tmem_datapath_layout`` of Apache TVM.
    """
    _check_group(cta_group)
    if ws and cta_group == 2:
        raise SpecError("tcgen05.mma.ws exists for cta_group::1 only, not cta_group::2", see="tcgen05-mma-ws")
    rows = (32, 64, 128) if ws else _ROWS[cta_group]
    if m not in rows:
        raise SpecError(
            f"M = {m} with cta_group::{cta_group}{', .ws' if ws else ''} is not {_either(rows)}",
            see="tcgen05-kind-shapes",
        )
    if ws and n not in (64, 128, 256):
        raise SpecError(f"N = {n} with .ws is not 64, 128 or 256", see="tcgen05-kind-shapes")
    step = 8 * cta_group
    if n < step or n > 256 or n % step:
        raise SpecError(
            f"N = {n} with cta_group::{cta_group} is not a multiple of {step} between {step} and 256",
            see="tcgen05-kind-shapes",
        )
    held = m // cta_group
    row = np.arange(held, dtype=np.int64)[:, None]
    column = np.arange(n, dtype=np.int64)[None, :]
    if held == 128:
        lane = row
    elif ws or (cta_group == 2 and not sparse):
        # The columns are split into 2 parts (4 for 32 rows), and the parts lie in successive groups of lanes.
        part = n // (128 // held)
        lane, column = row + held * (column // part), column % part
    else:
        lane = _in_half_lanes(row)
    return _frozen(lane, column, (held, n))


def _check_group(cta_group: int) -> None:
    if cta_group not in (1, 2):
        raise SpecError(f"cta_group = {cta_group} is neither 1 nor 2", see="tcgen05-cta-pair")


def _either(values: tuple[int, ...]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} or {last}"


def _in_half_lanes(row: Integers) -> Integers:
    """Return the lane of each of 64 rows that use the first 16 of every warp's 32 lanes.

    The other 16 lanes can hold a second such matrix, which begins at lane 16.
    """
    return row % 16 + 32 * (row // 16)


@lru_cache(maxsize=32)
def a_operand(m: int, k: int, *, container_bits: int, cta_group: int, sparse: bool = False) -> Bits:
    """Return the bits of each element of A in tensor memory, for ``tcgen05.mma`` without ``.ws``.

    Elements are packed along K into the 32-bit cells of their row's lane; the first element has the low bits.
    With a dense M = 128 of a pair, each CTA holds its 64 rows twice: in lanes 0..63, and again at
    ``lane + 64``.  If 64 rows use half of the lanes, A begins at the accumulator's lane, 0 or 16.

    Args:
        m: M of the instruction: 64 or 128; 128 or 256 for a pair.
        k: number of elements along K, which must fill whole cells.
        container_bits: bits that one element takes: 32 (tf32), 16, 8 (f8f6f4, mxf8f6f4 and i8, also for
            types of 4 and 6 bits) or 4 (mxf4, mxf4nvf4).
        cta_group: 1 or 2.
        sparse: True if A is sparse; then ``k`` counts the stored elements.

    Returns:
        ``(lane, column, bit)``, each a read-only ``int64[rows of one CTA, k]``: the cell relative to A's
        address, and the lowest bit of the element's container in the cell.

    Raises:
        SpecError: there is no such shape or width.

    PTX ISA: `#tcgen05-packing-formats`.
    """
    _check_group(cta_group)
    if m not in _ROWS[cta_group]:
        raise SpecError(
            f"M = {m} with cta_group::{cta_group} is not {_either(_ROWS[cta_group])}",
            see="tcgen05-kind-shapes",
        )
    if container_bits not in (4, 8, 16, 32):
        raise SpecError(f"container_bits = {container_bits} is not 4, 8, 16 or 32", see=_SEE_PACKING)
    if k < 1 or k * container_bits % 32:
        raise SpecError(
            f"K = {k} elements of {container_bits} bits do not fill whole 32-bit cells", see=_SEE_PACKING
        )
    held = m // cta_group
    row = np.arange(held, dtype=np.int64)[:, None]
    first_bit = np.arange(k, dtype=np.int64)[None, :] * container_bits
    lane = _in_half_lanes(row) if m == 64 or (held == 64 and sparse) else row
    return (*_frozen(lane, first_bit // 32, (held, k)), _filled(first_bit % 32, (held, k)))


@lru_cache(maxsize=32)
def scale_factors(
    matrix: str, extent: int, count: int, *, m: int = 128, cta_group: int = 1, scale_id: int = 0
) -> Bits:
    """Return the place of each scale factor of ``tcgen05.mma.block_scale`` in one CTA's tensor memory.

    The ``count`` scales of row ``r`` of A (column ``r`` of B) are in consecutive bytes of one cell, at lane
    ``r % 32``, column ``r // 32``.  Copies of them are in lanes 32..63, 64..95 and 96..127.  For B of a pair
    with M = 128, the second half of the columns is 64 lanes after the first, and each half has two copies
    (CUTLASS ``examples/python/CuTeDSL/experimental/primitives/tcgen05/2cta_mma_blockscale_m128.py``).

    Args:
        matrix: ``"A"`` or ``"B"``.
        extent: for A, the rows in this CTA: 128, or 64 for a pair's M = 128. For B, N of the instruction.
        count: scales of one row: 1 (``scale_vec::1X``), 2 or 4; 3 or 6 with K = 96. Scales that do not fit
            the cell continue 4 columns further (8 columns if B has more than 128 columns), as in
            ``tCtSFA_mma`` of CUTLASS ``sm103_blockscaled_mma_warpspecialized.hpp``.
        m: M of the instruction: 128; 128 or 256 for a pair.
        cta_group: 1 or 2.
        scale_id: the scale factor id of the instruction descriptor, which is the first byte of the scales:
            0..3 for one or three scales, 0 or 2 for two or six, 0 for four.

    Returns:
        ``(lane, column, byte)``, each a read-only ``int64[copies, extent, count]`` relative to the address
        of the scales. ``copies`` is 4 (2 for B of a pair with M = 128); all copies must hold the same value.

    Raises:
        SpecError: there is no such combination of arguments.

    PTX ISA: `#tcgen05-mma-scale-factor-a`.
    """
    _check_group(cta_group)
    rows = (128,) if cta_group == 1 else (128, 256)
    if m not in rows:
        raise SpecError(
            f"M = {m} with cta_group::{cta_group} and block scaling is not {' or '.join(map(str, rows))}",
            see="tcgen05-kind-shapes",
        )
    if matrix not in ("A", "B"):
        raise SpecError(f"matrix = {matrix!r} is neither 'A' nor 'B'", see=_SEE_SCALES)
    if count not in _SCALE_IDS:
        raise SpecError(f"count = {count} scales of one row: expected 1, 2, 3, 4 or 6", see=_SEE_SCALES)
    if scale_id not in _SCALE_IDS[count]:
        raise SpecError(
            f"scale_id = {scale_id} with {count} scales of one row: "
            f"expected {', '.join(map(str, _SCALE_IDS[count]))}",
            see=_SEE_SCALES,
        )
    halves = matrix == "B" and cta_group == 2 and m == 128
    if matrix == "A" and extent != m // cta_group:
        raise SpecError(
            f"extent = {extent}: one CTA holds {m // cta_group} rows of A with M = {m}, "
            f"cta_group::{cta_group}",
            see=_SEE_SCALES,
        )
    step = 8 * cta_group
    if extent < step or extent > 256 or extent % step:
        raise SpecError(
            f"N = {extent} with cta_group::{cta_group} is not a multiple of {step} between {step} and 256",
            see="tcgen05-kind-shapes",
        )
    if count in (3, 6) and cta_group == 2 and m == 128:
        raise SpecError(
            f"count = {count} scales of one row with M = {m} of a pair: K = 96 needs M = 256",
            see=_SEE_SCALES,
        )
    copies = 2 if halves else 4
    copy = np.arange(copies, dtype=np.int64)[:, None, None]
    row = np.arange(extent, dtype=np.int64)[None, :, None]
    within = row % (extent // 2) if halves else row
    lane = within % 32 + 32 * copy + 64 * (row >= extent // 2) * halves
    byte = scale_id + np.arange(count, dtype=np.int64)[None, None, :]
    column = within // 32 + (4 if extent <= 128 else 8) * (byte // 4)
    shape = (copies, extent, count)
    return (*_frozen(lane, column, shape), _filled(byte % 4, shape))
