"""Helpers for kernels, which consist of DSL calls: the pipeline ring, tile orders, epilogues.

Each is a small function or class whose docstring says what it records; a user could write the same few lines
by hand.  The recorded instructions have the user's line as their source.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import tcgen05_epilogue, tile_order, wgmma_epilogue
from .ring import Consumer, Producer, Ring, Slot

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name != "Trace":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.trace").Trace
