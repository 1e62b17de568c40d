"""The functions that an author calls while a kernel is recorded.

Authors use the namespaces ``reg``, ``smem`` and ``ptx``; ``record`` turns a function that calls them into an
``ir.Module``.  The DSL checks every call against the instruction table and records it.  The DSL does not
depend on ptxas, the simulator or the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazily
from . import ptx, reg, smem
from .arguments import guard_arguments, guard_methods
from .labels import Label
from .params import Layout, ParameterSlot, Scalar, TensorMapReg, Tile, TileParam, Workspace
from .recording import Recording, record
from .register_arrays import RegArray
from .registers import NotPred, Reg
from .smem import Buffer
from .symbols import Sym, VectorReg
from .trace import Trace, current

if TYPE_CHECKING:
    from .program import Program

__all__ = [
    "Buffer",
    "Label",
    "Layout",
    "NotPred",
    "ParameterSlot",
    "Program",
    "Recording",
    "Reg",
    "RegArray",
    "Scalar",
    "Sym",
    "TensorMapReg",
    "Tile",
    "TileParam",
    "Trace",
    "VectorReg",
    "Workspace",
    "current",
    "ptx",
    "record",
    "reg",
    "smem",
]

guard_arguments(ptx, "ptx")
guard_arguments(reg, "reg")
guard_arguments(smem, "smem")
guard_methods(Buffer, "a buffer", ("stage", "rows", "at"))
guard_methods(TileParam, "a tile", ("at",))
guard_methods(Reg, "a register", ("view", "set"))

__getattr__ = lazily(__name__, {"program": ("Program",)})
