"""Analysis of a whole function: control flow, post-dominators, definitions and uses, ranges of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazily

if TYPE_CHECKING:
    from .function_ranges import value_ranges
    from .graph import Block, Graph, control_flow, reconvergence
    from .intervals import UNKNOWN, Interval, fitted, is_finite, type_range
    from .ranges import Ranges, State
    from .registers import accesses, maybe_undefined, read_after, read_from

__all__ = [
    "UNKNOWN",
    "Block",
    "Graph",
    "Interval",
    "Ranges",
    "State",
    "accesses",
    "control_flow",
    "fitted",
    "is_finite",
    "maybe_undefined",
    "read_after",
    "read_from",
    "reconvergence",
    "type_range",
    "value_ranges",
]

__getattr__ = lazily(
    __name__,
    {
        "graph": ("Block", "Graph", "control_flow", "reconvergence"),
        "intervals": ("UNKNOWN", "Interval", "fitted", "is_finite", "type_range"),
        "ranges": ("Ranges", "State"),
        "registers": ("accesses", "maybe_undefined", "read_after", "read_from"),
        "function_ranges": ("value_ranges",),
    },
)
