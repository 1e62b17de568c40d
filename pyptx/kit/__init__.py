"""Helpers made of DSL calls that kernels share: the pipeline ring, tile orders, epilogues.

Each is a thin function or class that says what it records; nothing here does what an author could not write
with the same few lines.  Instructions that a helper records carry the author's line.
"""

from . import tcgen05_epilogue, tile_order, wgmma_epilogue
from .ring import Consumer, Producer, Ring, Slot

__all__ = ["Consumer", "Producer", "Ring", "Slot", "tcgen05_epilogue", "tile_order", "wgmma_epilogue"]
