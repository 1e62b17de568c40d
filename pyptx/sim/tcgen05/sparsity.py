"""Sparse A: reads the indices from tensor memory, and expands the stored elements to A with its zeros.

PTX ISA ``#tcgen05-sparse-matrices``: of each four elements, memory holds two, and a 2-bit index for each. For
tf32, memory holds one of two elements, and a 4-bit index that names its two halves of 16 bits. For the mxf4
kinds, memory holds two of each four pairs of elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...layout.sparsity_metadata import sparsity_metadata
from ...layout.tcgen05_instruction_descriptor import InstructionDescriptor
from ..memory.access import AccessKind
from ..memory.segments import Actor
from .addresses import cell_at
from .tensor_memory import TensorMemory

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["expanded", "read_indices"]

Array = NDArray[Any]

#: Kind -> stored places of a chunk, all places of a chunk, elements per place. The default is 2, 4 and 1.
_CHUNKS = {"tf32": (1, 2, 1), "mxf4": (2, 4, 2), "mxf4nvf4": (2, 4, 2)}
_WIDE = ("f16", "tf32")


def read_indices(cta: CTA, address: int, d: InstructionDescriptor, actor: Actor) -> NDArray[np.uint8]:
    """Read the 4-bit indices ``[copies, rows, chunks]`` of the CTA's rows of A."""
    wide = d.kind in _WIDE
    lane, column, bit = sparsity_metadata(d.m, wide=wide, ws=d.ws, cta_group=d.cta_group)
    base, first = cell_at(cta, address, actor)
    first += d.sparsity_selector if wide else 0
    tensor = cta.unit(TensorMemory)
    tensor.check(AccessKind.READ, np.unique(lane) + base, first, 1 if wide else 2, actor)
    words = tensor.cells[lane + base, column + first]
    return (words >> bit.astype(np.uint32) & np.uint32(15)).astype(np.uint8)


def expanded(stored: Array, indices: NDArray[np.uint8], kind: str) -> Array:
    """Expand rows of stored elements ``[..., m, k/2]`` to rows of K elements, with zeros between them.

    The result has one matrix for each copy of the indices.
    """
    kept, places, width = _CHUNKS.get(kind, (2, 4, 1))
    chunks = indices.shape[-1]
    values = stored.reshape(*stored.shape[:-1], chunks, kept, width)
    dense = np.zeros((*indices.shape, places, width), stored.dtype)
    values = np.broadcast_to(values, (*indices.shape, kept, width))
    for number in range(kept):
        place = indices >> np.uint8(2 * number) & np.uint8(3)
        if places == 2:
            # The index names a half of an element; both halves of an element are kept or dropped.
            place = place >> np.uint8(1)
        where = np.broadcast_to(place[..., None, None].astype(np.intp), (*indices.shape, 1, width))
        np.put_along_axis(dense, where, values[..., number : number + 1, :], axis=-2)
    return dense.reshape(*indices.shape[:-1], -1)
