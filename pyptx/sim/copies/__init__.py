"""The TMA engine: boxes of tensors and plain ranges between global and shared memory.

- :mod:`~pyptx.sim.copies.tensor_maps` checks the tensor map that an instruction names, and makes its copy
- :mod:`~pyptx.sim.copies.boxes` finds the bytes of global memory that a copy moves
- :mod:`~pyptx.sim.copies.elements` converts elements
- :mod:`~pyptx.sim.copies.shared` finds the places of the elements in shared memory
- :mod:`~pyptx.sim.copies.ranges` copies plain bytes

:mod:`pyptx.sim.semantics.bulk_copy` orders the steps of a copy.
"""

from __future__ import annotations

from .ranges import Range
from .tensor_maps import BoxCopy, tensor_copy

__all__ = ["Range", "BoxCopy", "tensor_copy"]
