"""Analysis of a whole function: control flow, post-dominators, definitions and uses, ranges of values."""

from .graph import Block, Graph, control_flow, reconvergence
from .intervals import UNKNOWN, Interval, fitted, is_finite, type_range
from .ranges import Ranges, State
from .registers import accesses, maybe_undefined, read_after, read_from
from .value_ranges import value_ranges

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
