"""Analysis of a whole function: control flow, post-dominators, definitions and uses of registers."""

from .graph import Block, Graph, control_flow, reconvergence
from .registers import accesses, maybe_undefined, read_after

__all__ = ["Block", "Graph", "accesses", "control_flow", "maybe_undefined", "read_after", "reconvergence"]
