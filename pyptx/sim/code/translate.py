"""Translates blocks of operations into Python functions, in three versions.

* wide: for all lanes of one warp or of several warps, on whole rows of the register file;
* masked: for some lanes of a warp;
* one lane: on a list of Python numbers.

The generated functions take ``(s, w)`` (the split and its frame) or, for one lane, ``(s, R)`` (the split and
the list). A one-lane function returns the next block. The function of a block that ends in a yielding
operation returns the wait, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .array_code import ArrayEmitter
from .emitter import Emitter
from .function import CodeBlock, FunctionCode
from .lane_code import LaneEmitter
from .semantic import Op

__all__ = [
    "array_function",
    "executed",
    "lane_function",
    "operands_function",
    "single_function",
    "translate",
    "value_function",
]

#: The versions of one operation's function.
_SINGLE = {masked: ("single", masked) for masked in (False, True)}


def translate(block: CodeBlock, form: str) -> Callable[..., Any]:
    """Return the generated Python function of ``block``; ``form`` is ``wide``, ``masked`` or ``lane``."""
    emitter = (LaneEmitter if form == "lane" else ArrayEmitter)(block.code, masked=form == "masked")
    for position, (instruction, op) in enumerate(block.ops):
        last_yields = block.yields and position == len(block.ops) - 1
        emitter.operation(instruction, op, last_yields)
    emitter.end(block)
    return _compiled(emitter, f"block_{block.index}_{form}")


def _compiled(emitter: Emitter, name: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = dict(emitter.constants)
    exec(compile(emitter.text(name), f"<pyptx {name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def single_function(block: CodeBlock, position: int, *, masked: bool) -> Callable[..., Any]:
    """Return the wide or the masked function of one operation of a block. It is generated once."""
    instruction, op = block.ops[position]
    key = _SINGLE[masked]
    found: Callable[..., Any] | None = op.cache.get(key)
    if found is None:
        emitter = ArrayEmitter(block.code, masked)
        emitter.operation(instruction, op, block.yields and position == len(block.ops) - 1)
        found = op.cache[key] = _compiled(emitter, f"operation_{op.statement}")
    return found


def operands_function(block: CodeBlock, op: Op, *, select: bool) -> Callable[..., Any]:
    """Return a function that returns the operands which ``op`` reads, as a tuple. It is generated once.

    With ``select``, the arrays have only the lanes ``L``, the function's third argument.
    """
    key = ("operands", select)
    found: Callable[..., Any] | None = op.cache.get(key)
    if found is None:
        emitter = ArrayEmitter(block.code, masked=False)
        emitter.parameters = "s, w, L"
        texts = [emitter.read(operand, spec, op, select=select) for spec, operand in emitter.operands(op)]
        emitter.line(f"return ({' '.join(text + ',' for text in texts)})")
        found = op.cache[key] = _compiled(emitter, f"operands_{op.statement}")
    return found


def value_function(code: FunctionCode, ops: Sequence[Op]) -> Callable[[Any, list[Any]], None]:
    """Return a function that executes operations of value forms for one lane, on the list of its registers.

    Its first argument is a split, or None if no operation reads a special register.
    """
    emitter = LaneEmitter(code, masked=False)
    for op in ops:
        emitter.value(op)
    return _compiled(emitter, "values")


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


def executed(block: CodeBlock) -> set[int]:
    """Return the indices of the statements of ``block`` that threads have executed as operations.

    A function is generated when threads first execute it. Branches, calls and returns are not operations.
    """
    whole = any(function is not None for function in (block.lane, block.masked, block.wide))
    return {op.statement for _, op in block.ops if whole or any(key in op.cache for key in _SINGLE.values())}
