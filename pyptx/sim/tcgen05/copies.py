"""tcgen05.cp and tcgen05.shift: copies into tensor memory, and shifts of its rows.

PTX ISA ``#tcgen05-instructions-tcgen05-cp``.  The source is a K-major tile of 16-byte units; its descriptor
gives the layout. The lanes that receive each row are those of CUTLASS's ``cute/atom/copy_traits_sm100.hpp``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..copies.copied import Copied
from ..engine.events import AsyncOperation
from ..memory.access import AccessKind
from ..memory.segments import Actor
from .addresses import cell_at
from .operands import PADDED, shared_words, unpacked
from .tensor_memory import TensorMemory

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["Copy", "shift_down"]

_ROWS = np.arange(128)
#: The rows of the tile that the copy writes, one for each written lane; and these lanes, counted from the
#: address.
_SHAPES: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {
    "128": (_ROWS, _ROWS),
    # One row for each quarter of the lanes, for the lane that a shift leaves unchanged.
    "4": (np.arange(4), 32 * np.arange(4)),
    "warpx4": (_ROWS % 32, _ROWS),
    "warpx2::02_13": (_ROWS % 64, _ROWS),
    "warpx2::01_23": (_ROWS % 32 + 32 * (_ROWS // 64), _ROWS),
}
#: Source format -> element type (a key of :data:`PADDED`), and the left shift of an element in its byte.
_FORMATS = {"b4x16_p64": ("e2m1", 2), "b6x16_p32": ("e3m2", 0)}


class Copy:
    """One ``tcgen05.cp``: each of its CTAs copies from its own shared memory to its own tensor memory."""

    __slots__ = ("address", "copied", "ctas", "format", "lanes", "nbytes", "rows", "word")

    def __init__(
        self,
        ctas: tuple[CTA, ...],
        address: int,
        word: int,
        shape: str,
        multicast: str | None,
        source: str | None,
    ) -> None:
        self.ctas, self.address, self.word, self.format = ctas, address, word, source
        height, _, width = shape.partition("x")
        self.rows, self.lanes = _SHAPES[multicast or height]
        self.nbytes = int(width.removesuffix("b")) // 8
        #: What was read and is not written yet: the tile of each CTA.
        self.copied: list[Copied] = []

    def read(self, operation: AsyncOperation) -> None:
        """Read each CTA's tile from its shared memory."""
        self.copied = [
            Copied(cta.machine, operation, partial(self._tile, cta, operation)) for cta in self.ctas
        ]

    def _tile(self, cta: CTA, actor: Actor) -> NDArray[np.uint8]:
        element, up = _FORMATS[self.format] if self.format else ("", 0)
        # A tile has a multiple of eight rows; the smallest shape uses four of them.
        count = max(8, int(self.rows.max()) + 1)
        words = shared_words(cta, self.word, count, self.nbytes, element, "K", actor)
        if element:
            words = unpacked(words, PADDED[element] // 2) << np.uint8(up)
        return np.asarray(words[self.rows])

    def write(self, actor: Actor) -> None:
        """Write the tiles that were read to each CTA's cells; an undefined byte makes its cell undefined."""
        lane, first = cell_at(self.ctas[0], self.address, actor)
        lanes = self.lanes + lane
        columns = self.nbytes // 4
        where = lanes[:, None], first + np.arange(columns)
        for cta, copied in zip(self.ctas, self.copied, strict=True):
            tensor = cta.unit(TensorMemory)
            tensor.check(AccessKind.WRITE, lanes, first, columns, actor)
            tensor.cells[where] = np.ascontiguousarray(copied.data).view("<u4")
            if copied.flags is not None:
                undefined = np.ascontiguousarray(copied.flags).view("<u4") != 0
                tensor.storage.store_undefined(*where, undefined, copied.origin)
        self.copied = []


def shift_down(ctas: tuple[CTA, ...], address: int, actor: Actor, quarters: int = 1) -> None:
    """Execute ``tcgen05.shift.down``: each of 32 lanes except the last gets 32 bytes of the next lane.

    The last lane keeps its bytes until a cp.4x256b overwrites them (PTX ISA #tcgen05-data-movement-shape:
    ``.31x256b``). ``quarters`` is the number of runs of 32 lanes that the instruction shifts; ``.ashift``
    shifts four.
    """
    lane, first = cell_at(ctas[0], address, actor)
    if lane % 32:
        raise ctas[0].machine.fault(
            "tensor-memory", f"tcgen05.shift at lane {lane}; expected a lane that is a multiple of 32", actor
        )
    for cta in ctas:
        tensor = cta.unit(TensorMemory)
        tensor.check(AccessKind.READ, slice(lane, lane + 32 * quarters), first, 8, actor)
        for start in range(lane, lane + 32 * quarters, 32):
            tile = tensor.cells[start : start + 32, first : first + 8]
            tile[:-1] = tile[1:].copy()
