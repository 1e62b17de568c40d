"""Translates blocks of operations into Python functions, in three versions.

* wide: for all lanes of one warp or of several warps, on whole rows of the register file;
* masked: for some lanes of a warp;
* one lane: on a list of Python numbers.

The generated functions take ``(s, w)`` (the split and its frame) or, for one lane, ``(s, R)`` (the split and
the list). A one-lane function returns the next block. The function of a block that ends in a yielding
operation returns the wait, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .array_code import ArrayEmitter
from .function import CodeBlock
from .lane_code import LaneEmitter

__all__ = ["array_function", "lane_function", "translate"]


def translate(block: CodeBlock, form: str) -> Callable[..., Any]:
    """Return the generated Python function of ``block``; ``form`` is ``wide``, ``masked`` or ``lane``."""
    emitter = (LaneEmitter if form == "lane" else ArrayEmitter)(block.code, masked=form == "masked")
    for position, (instruction, op) in enumerate(block.ops):
        last_yields = block.yields and position == len(block.ops) - 1
        emitter.operation(instruction, op, last_yields)
    emitter.end(block)
    source = emitter.text(f"block_{block.index}_{form}")
    namespace: dict[str, Any] = dict(emitter.constants)
    exec(compile(source, f"<pyptx block {block.index} {form}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[f"block_{block.index}_{form}"]
    return function


def lane_function(block: CodeBlock) -> Callable[..., Any]:
    """Return the one-lane function of a block. It is generated at the first request."""
    if block.lane is None:
        block.lane = translate(block, "lane")
    return block.lane


def array_function(block: CodeBlock, *, masked: bool) -> Callable[..., Any]:
    """Return the wide or the masked function of a block. It is generated at the first request."""
    if masked:
        if block.masked is None:
            block.masked = translate(block, "masked")
        return block.masked
    if block.wide is None:
        block.wide = translate(block, "wide")
    return block.wide
