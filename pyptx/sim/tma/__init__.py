"""The TMA engine: boxes of tensors and plain ranges between global and shared memory.

- :mod:`~pyptx.sim.tma.maps`: the tensor map that an instruction names
- :mod:`~pyptx.sim.tma.boxes`: which bytes of global memory a copy moves
- :mod:`~pyptx.sim.tma.elements`: what becomes of elements on the way
- :mod:`~pyptx.sim.tma.shared`: where they lie in shared memory
- :mod:`~pyptx.sim.tma.ranges`: copies of plain bytes

When each part of a copy happens is for :mod:`pyptx.sim.exec.bulk_copy` to say.
"""

from __future__ import annotations

from . import elements
from .boxes import Part, parts_of
from .maps import read_map
from .ranges import Range
from .shared import read_shared, write_shared

__all__ = ["Part", "Range", "elements", "parts_of", "read_map", "read_shared", "write_shared"]
