"""Structured sparsity in registers.

``spcompress`` is not modeled: the implementation defines which of equal elements it keeps, and which of more
than two NaN (PTX ISA #data-movement-and-conversion-instructions-spcompress).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Op, executes

_ELEMENT_BITS = {"b8": 8, "b16": 16}
_INDEX_BITS = {"b2": 2, "b4": 4}


def _unpacked(words: NDArray[np.uint32], bits: int, count: int) -> NDArray[np.uint32]:
    """Return fields of ``bits`` bits, the first in the low bits of word 0, as ``(count, lanes)``."""
    each = 32 // bits
    shifts = np.arange(each, dtype=np.uint32)[None, :, None] * np.uint32(bits)
    fields = words[:, None, :] >> shifts & np.uint32((1 << bits) - 1)
    return fields.reshape(-1, words.shape[-1])[:count]


@executes("spdecompress")
def spdecompress(op: Op, metadata: Any, compressed: Any) -> NDArray[np.uint32]:
    """Expand compressed elements as PTX ISA #data-movement-and-conversion-instructions-spdecompress does."""
    kept, dense = map(int, op.chosen["spfactor"].removeprefix("sp::").split(":"))
    bits, repeats = _ELEMENT_BITS[op.chosen["elemsize"]], int(op.chosen["num"][1:])
    metadata, compressed = np.atleast_2d(metadata), np.atleast_2d(compressed)
    lanes = compressed.shape[-1]
    places = _unpacked(metadata, _INDEX_BITS[op.chosen["idxsize"]], kept * repeats).reshape(
        repeats, kept, lanes
    )
    values = _unpacked(compressed, bits, kept * repeats).reshape(repeats, kept, lanes)
    # The manual leaves an index beyond the group to the implementation: here it wraps within the group.
    places = places % np.uint32(dense)
    result = np.zeros((repeats, dense, lanes), np.uint32)
    for number in range(kept):
        np.put_along_axis(result, places[:, number : number + 1], values[:, number : number + 1], axis=1)
    shifts = (np.arange(32 // bits, dtype=np.uint32) * np.uint32(bits))[None, :, None]
    words: NDArray[np.uint32] = np.bitwise_or.reduce(result.reshape(-1, 32 // bits, lanes) << shifts, axis=1)
    return words
