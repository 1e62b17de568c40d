"""Block scales of tcgen05.mma: reads them from tensor memory, and multiplies A and B by them.

PTX ISA ``#tcgen05-block-scaling``: a row of A or column of B has ``count`` scales, each for an equal share of
its elements along K. Each quarter of the lanes holds a copy of the scales, and computes with its own copy.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...layout.tcgen05_instruction_descriptor import InstructionDescriptor
from ...layout.tensor_memory import LANES, scale_factors
from ..memory.access import AccessKind
from ..memory.segments import Actor
from ..numbers.formats import decoded
from .addresses import cell_at
from .tensor_memory import TensorMemory

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["read_scales", "scaled"]

F64 = NDArray[np.float64]

#: Number of lanes of a quarter.
_QUARTER = 32


@cache
def _values(kind: str) -> F64:
    """Return a table with the value of each bit pattern of a scale type.

    ue4m3 is e4m3 with the sign bit ignored.
    """
    return np.tile(decoded("e4m3")[:128], 2) if kind == "ue4m3" else decoded(kind)


def read_scales(
    cta: CTA, address: int, matrix: str, count: int, d: InstructionDescriptor, actor: Actor
) -> F64:
    """Read the scales ``[copies, extent, count]`` at ``address``.

    Each CTA of a pair holds the scales of its own rows of A, and of all columns of B.
    """
    of_a = matrix == "A"
    extent = d.m // d.cta_group if of_a else d.n
    number = d.scale_a_id if of_a else d.scale_b_id
    lane, column, byte = scale_factors(matrix, extent, count, m=d.m, cta_group=d.cta_group, scale_id=number)
    # The top two bits may repeat the number of the first byte (CUTLASS cute/arch/mma_sm100_desc.hpp).
    base, first = cell_at(cta, address & 0x3FFFFFFF, actor)
    tensor = cta.unit(TensorMemory)
    lanes = np.arange(LANES) + base
    whole, rest = divmod(extent * len(lane) // 4, _QUARTER)
    # With K = 96 the last scales may lie in the cells after the first scales of all rows.
    for start in sorted({first, first + int(column[0, 0, -1])}):
        if whole:
            tensor.check(AccessKind.READ, lanes, start, whole, actor)
        if rest:
            tensor.check(AccessKind.READ, lanes[np.arange(LANES) % _QUARTER < rest], start + whole, 1, actor)
    codes: NDArray[Any] = tensor.cells[lane + base, column + first]
    assert d.scale_type is not None
    return _values(d.scale_type).take(codes >> (8 * byte).astype(np.uint32) & np.uint32(255))


def scaled(values: NDArray[Any], scales: F64) -> F64:
    """Return ``values[rows, k]`` multiplied by ``scales[rows, count]``; a scale covers k / count elements."""
    rows, count = scales.shape
    shares = values.reshape(rows, count, -1) * scales[:, :, None]
    return np.asarray(shares.reshape(rows, -1))
