"""Helpers that kernels share, made of DSL calls: the pipeline ring, tile orders, epilogues.

Each is a thin function or class whose docstring says what it records; an author could write the same few
lines by hand.  The instructions that a helper records carry the author's line.
"""

from . import tcgen05_epilogue, tile_order, wgmma_epilogue
from .ring import Consumer, Producer, Ring, Slot

__all__ = ["Consumer", "Producer", "Ring", "Slot", "tcgen05_epilogue", "tile_order", "wgmma_epilogue"]
