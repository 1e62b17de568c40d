"""Figures of layouts, tiles, copies and runs as SVG, drawn from pyptx's own data.

Every figure is computed: from the functions of :mod:`pyptx.layout`, from orders of :mod:`pyptx.kit` that are
recorded and simulated, from tensor maps, and from timelines of simulated runs.  Each function returns a
:class:`Figure`, which a notebook shows, and which :meth:`Figure.save` writes.
"""

import sys

from ..dsl.arguments import guard_arguments
from .maps import tensor_map
from .runs import RunEvents, copies, data_flow, mbarrier, pipeline
from .shared_memory import core_matrices, swizzle
from .svg import Figure
from .tensor_memory import accumulator, fragment, tensor_memory
from .tiles import block_tiling, pair, tile_order

__all__ = [
    "Figure",
    "RunEvents",
    "accumulator",
    "block_tiling",
    "copies",
    "core_matrices",
    "data_flow",
    "fragment",
    "mbarrier",
    "pair",
    "pipeline",
    "swizzle",
    "tensor_map",
    "tensor_memory",
    "tile_order",
]

# An argument of a wrong type is refused at the caller's line, as those of the recording functions are.
guard_arguments(sys.modules[__name__], "viz")
