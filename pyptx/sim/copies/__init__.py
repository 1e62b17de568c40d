"""The TMA engine: boxes of tensors and plain ranges between global and shared memory.

- :mod:`~pyptx.sim.copies.tensor_maps`: the tensor map that an instruction names, and its copy
- :mod:`~pyptx.sim.copies.boxes`: which bytes of global memory a copy moves
- :mod:`~pyptx.sim.copies.elements`: how a copy converts elements
- :mod:`~pyptx.sim.copies.shared`: where the elements lie in shared memory
- :mod:`~pyptx.sim.copies.ranges`: copies of plain bytes

:mod:`pyptx.sim.semantics.bulk_copy` orders the steps of a copy.
"""

from __future__ import annotations

from .ranges import Range
from .tensor_maps import BoxCopy, tensor_copy

__all__ = ["Range", "BoxCopy", "tensor_copy"]
