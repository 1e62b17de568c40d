"""Helpers for kernels, which consist of DSL calls: the pipeline ring, tile orders, epilogues.

Each is a small function or class whose docstring says what it records; a user could write the same few lines
by hand.  The recorded instructions have the user's line as their source.
"""

from . import tcgen05_epilogue, tile_order, wgmma_epilogue
from .ring import Consumer, Producer, Ring, Slot
from .trace import Trace

__all__ = [
    "Consumer",
    "Producer",
    "Ring",
    "Slot",
    "Trace",
    "tcgen05_epilogue",
    "tile_order",
    "wgmma_epilogue",
]
