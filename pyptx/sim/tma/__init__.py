"""The TMA engine: boxes of tensors and plain ranges between global and shared memory.

- :mod:`~pyptx.sim.tma.maps`: the tensor map that an instruction names, and its copy
- :mod:`~pyptx.sim.tma.boxes`: which bytes of global memory a copy moves
- :mod:`~pyptx.sim.tma.elements`: what becomes of elements on the way
- :mod:`~pyptx.sim.tma.shared`: where they lie in shared memory
- :mod:`~pyptx.sim.tma.ranges`: copies of plain bytes

When each part of a copy happens is for :mod:`pyptx.sim.exec.bulk_copy` to say.
"""

from __future__ import annotations

from .maps import TensorCopy, tensor_copy
from .ranges import Range

__all__ = ["Range", "TensorCopy", "tensor_copy"]
