"""Block scales of tcgen05.mma: read from tensor memory, and multiplied into A and B.

PTX ISA ``#tcgen05-block-scaling``: a row of A or column of B has ``count`` scales, each for an equal share of
its elements along K.  The scales lie in each quarter of the lanes; what a quarter computes takes its own.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...layout.tensor_memory import LANES, scale_factors, unpack_address
from ..memory import Actor
from ..numbers.formats import decoded

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["read_scales", "scaled"]

F64 = NDArray[np.float64]

#: Lanes of a quarter.
_QUARTER = 32


@cache
def _values(kind: str) -> F64:
    """ue4m3 is e4m3 without its sign, whose bit is ignored."""
    return np.tile(decoded("e4m3")[:128], 2) if kind == "ue4m3" else decoded(kind)


def read_scales(
    cta: CTA, address: int, matrix: str, extent: int, count: int, number: int, kind: str, actor: Actor
) -> F64:
    """The scales ``[quarter, extent, count]`` that lie at ``address``, from byte ``number`` of a cell on."""
    lane, column, byte = scale_factors(matrix, extent, count, scale_id=number)
    base, first = unpack_address(address)
    tensor = cta.tensor
    whole, rest = divmod(extent, _QUARTER)
    lanes = np.arange(LANES) + base
    if whole:
        tensor.check("read", lanes, first, whole, actor)
    if rest:
        tensor.check("read", lanes[np.arange(LANES) % _QUARTER < rest], first + whole, 1, actor)
    codes: NDArray[Any] = tensor.cells[lane + base, column + first]
    return _values(kind).take(codes >> (8 * byte).astype(np.uint32) & np.uint32(255))


def scaled(values: NDArray[Any], scales: F64) -> F64:
    """Rows ``[rows, k]`` times their scales ``[rows, count]``."""
    rows, count = scales.shape
    shares = values.reshape(rows, count, -1) * scales[:, :, None]
    return np.asarray(shares.reshape(rows, -1))
