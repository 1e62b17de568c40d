"""The layout in tensor memory of A's sparsity metadata, which ``tcgen05.mma.sp`` reads.

Owns the lane, column and bits of each 4-bit index.  The manual has only figures
(`PTX ISA, #tcgen05-sparse-matrices-sparsity-selector`_); the sources in text are CUTLASS
``cute/atom/mma_traits_sm100_frag.hpp`` (``tmem_e_frg``, ``tmem_e_frg_ws``), for 16-bit types and 128 rows
``jax.experimental.pallas.mosaic_gpu``, and for 64 rows without ``.ws`` the metadata of Apache TVM's tests.

.. _PTX ISA, #tcgen05-sparse-matrices-sparsity-selector:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-sparse-matrices-sparsity-selector
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..core.errors import SpecError

__all__ = ["sparsity_metadata"]

Integers = npt.NDArray[np.int64]


@lru_cache(maxsize=16)
def sparsity_metadata(
    m: int, *, wide: bool, ws: bool = False, cta_group: int = 1
) -> tuple[Integers, Integers, Integers]:
    """Return where each 4-bit index of the metadata lies, for the rows of A that one CTA holds.

    If elements of A have 16 or 32 bits, a row has 8 indices: four in one 32-bit cell, four in the cell 8
    lanes further. Two rows that are 8 apart share these cells: the first row uses the low 16 bits, the second
    the high 16 bits. The sparsity selector is the column. If the elements are smaller, a row has 16 indices,
    in two cells of the row's lane.

    Args:
        m: M of the instruction: 64 or 128; 32, 64 or 128 with ``ws``; 128 or 256 for a pair.
        wide: True if an element has 16 or 32 bits.
        ws: True if the instruction is ``tcgen05.mma.ws.sp``.
        cta_group: 1 or 2. In a pair with M = 128, A, D and the metadata use the same half of the lanes
            (``#tcgen05-sparse-matrices-alignment-restriction``), so a CTA's 64 rows lie as with M = 64.

    Returns:
        ``(lane, column, bit)`` of the index's lowest bit, each a read-only ``int64[copies, rows, indices]``
        relative to the address of the metadata. ``copies`` is 1; for ``.ws`` with M = 64 or 32 it is 2 or 4,
        one copy for each part of D's columns.

    Raises:
        SpecError: the instruction does not have this M.
    """
    rows = (32, 64, 128) if ws else (64 * cta_group, 128 * cta_group)
    if m not in rows or cta_group not in (1, 2) or (ws and cta_group == 2):
        form = f"cta_group::{cta_group}{', .ws' if ws else ''}"
        raise SpecError(
            f"M is {m} with {form}: expected {' or '.join(map(str, rows))}",
            see="tcgen05-sparse-matrices-sparsity-selector",
        )
    m //= cta_group
    copies = 128 // m if ws else 1
    copy = np.arange(copies, dtype=np.int64)[:, None, None]
    row = np.arange(m, dtype=np.int64)[None, :, None]
    index = np.arange(8 if wide else 16, dtype=np.int64)[None, None, :]
    place = row + m * copy if ws or m == 128 else row % 16 + 32 * (row // 16)
    if wide:
        lane = place // 16 * 16 + place % 8 + 8 * (index // 4)
        column, bit = 0 * index, 16 * (place // 8 % 2) + 4 * (index % 4)
    else:
        lane, column, bit = place, index // 8, 4 * (index % 8)
    shape = (copies, m, index.size)
    arrays = tuple(np.broadcast_to(a, shape).copy() for a in (lane, column, bit))
    for array in arrays:
        array.flags.writeable = False
    return arrays[0], arrays[1], arrays[2]
