"""``ptx``: what a kernel says, in one namespace. Each name is documented where it is defined."""

from __future__ import annotations

from . import bar, cp, fence, mbarrier, tcgen05, warp
from .control import bra, else_, exit, if_, label, new_label, raw, ret, scope
from .inst import inst
from .loops import for_, loop, while_
from .operands import addr, pair, sink
from .special import special

__all__ = [
    # instructions and operands
    "addr",
    "inst",
    "pair",
    "raw",
    "sink",
    "special",
    # control flow
    "bra",
    "else_",
    "exit",
    "for_",
    "if_",
    "label",
    "loop",
    "new_label",
    "ret",
    "scope",
    "while_",
    # units of the hardware
    "bar",
    "cp",
    "fence",
    "mbarrier",
    "tcgen05",
    "warp",
]
