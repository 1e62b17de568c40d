"""tcgen05.cp and tcgen05.shift: what they write where.

PTX ISA ``#tcgen05-instructions-tcgen05-cp``.  The source is a K-major tile of 16-byte units as its descriptor
lays it out; which lanes each of its rows goes to is CUTLASS's ``cute/atom/copy_traits_sm100.hpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...layout.tensor_memory import unpack_address
from ..memory import Actor
from .operands import PADDED, shared_words, unpacked

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["Copy", "shift_down"]

_ROWS = np.arange(128)
#: For each lane behind the address that is written, the row of the tile it gets; and all such lanes.
_SHAPES: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {
    "128": (_ROWS, _ROWS),
    # One row for each quarter of the lanes: the last one, that a shift leaves behind.
    "4": (np.arange(4), 32 * np.arange(4)),
    "warpx4": (_ROWS % 32, _ROWS),
    "warpx2::02_13": (_ROWS % 64, _ROWS),
    "warpx2::01_23": (_ROWS % 32 + 32 * (_ROWS // 64), _ROWS),
}
#: How elements of 16 bytes are packed: a name of :data:`PADDED`, and bits that they move up in their byte.
_FORMATS = {"b4x16_p64": ("e2m1", 2), "b6x16_p32": ("e3m2", 0)}


class Copy:
    """One ``tcgen05.cp`` of cta_group::1."""

    __slots__ = ("address", "cta", "data", "format", "lanes", "nbytes", "rows", "word")

    def __init__(
        self, cta: CTA, address: int, word: int, shape: str, multicast: str | None, source: str | None
    ) -> None:
        self.cta, self.address, self.word, self.format = cta, address, word, source
        height, _, width = shape.partition("x")
        self.rows, self.lanes = _SHAPES[multicast or height]
        self.nbytes = int(width.removesuffix("b")) // 8
        self.data: NDArray[np.uint8] | None = None

    def read(self, actor: Actor) -> None:
        """Read the tile."""
        element, up = _FORMATS[self.format] if self.format else ("", 0)
        # A tile has rows by eights; of the smallest shape four count.
        count = max(8, int(self.rows.max()) + 1)
        words = shared_words(self.cta, self.word, count, self.nbytes, element, "K", actor)
        if element:
            words = unpacked(words, PADDED[element] // 2) << np.uint8(up)
        self.data = words[self.rows]

    def write(self, actor: Actor) -> None:
        """Write the cells."""
        assert self.data is not None
        lane, first = unpack_address(self.address)
        lanes = self.lanes + lane
        columns = self.nbytes // 4
        tensor = self.cta.tensor
        tensor.check("write", lanes, first, columns, actor)
        tensor.cells[lanes[:, None], first + np.arange(columns)] = np.ascontiguousarray(self.data).view("<u4")
        self.data = None


def shift_down(cta: CTA, address: int, actor: Actor) -> None:
    """``tcgen05.shift.down``: of 32 lanes and 32 bytes, each lane but the last gets what the next one holds.

    The last keeps its own, for a cp.4x256b to refresh (PTX ISA #tcgen05-data-movement-shape: ``.31x256b``).
    """
    lane, first = unpack_address(address)
    if lane % 32:
        raise cta.machine.fault(
            "tensor-memory", f"tcgen05.shift at lane {lane}, which is no multiple of 32", actor
        )
    tensor = cta.tensor
    lanes: Any = slice(lane, lane + 32)
    tensor.check("read", lanes, first, 8, actor)
    tile = tensor.cells[lanes, first : first + 8]
    tile[:-1] = tile[1:].copy()
