"""Calls against what they call: number, types, sizes and alignment of results and arguments.

Source: PTX ISA, `#control-flow-instructions-call`_, and ptxas, which asks for equal alignment.

.. _#control-flow-instructions-call: https://docs.nvidia.com/cuda/parallel-thread-execution/#control-flow-instructions-call
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..core.types import ScalarType
from ..ir import (
    Arguments,
    CallPrototype,
    Function,
    Immediate,
    Operand,
    Param,
    Register,
    Special,
    Symbol,
    Variable,
)
from .operands import fits

__all__ = ["call_faults"]


@dataclass(frozen=True, slots=True)
class _Passed:
    """What one place of a call holds: a type, how many of it (None: not an array), an alignment."""

    type: ScalarType
    count: int | None
    align: int

    @staticmethod
    def of(declared: Param | Variable) -> _Passed:
        natural = max(declared.type.nbytes, 1) * declared.vector
        return _Passed(declared.type, declared.count, declared.align or natural)

    @property
    def nbytes(self) -> int:
        return self.type.nbytes * (self.count or 1)

    def __str__(self) -> str:
        return f".{self.type}" if self.count is None else f".{self.type}[{self.count}]"


def call_faults(
    results: Operand | None,
    arguments: Operand | None,
    callee: Function | CallPrototype,
    variables: Mapping[str, Variable | Param],
) -> Iterator[str]:
    """What is wrong with a call of ``callee``; ``variables`` are the names that the caller sees."""
    for what, given, formal in (
        ("result", results, callee.returns),
        ("argument", arguments, callee.params),
    ):
        elements = given.elements if isinstance(given, Arguments) else ()
        if len(elements) != len(formal):
            yield f"{callee.name} has {_count(len(formal), what)}, {len(elements)} given"
            continue
        for number, (element, param) in enumerate(zip(elements, formal, strict=True), 1):
            reason = _mismatch(element, param, variables)
            if reason:
                yield f"{what} {number} of {callee.name}: {reason}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _mismatch(element: Operand, param: Param, variables: Mapping[str, Variable | Param]) -> str:
    wanted = _Passed.of(param)
    if param.space == "reg" and param.type.bits < 32:
        return f"a register of type {wanted} cannot be passed; 32 bits are the least"
    if isinstance(element, Immediate):
        real = isinstance(element.value, float)
        if wanted.count is not None or (wanted.type.is_float and not real):
            return f"the constant {element} where {wanted} is expected"
        return ""
    if isinstance(element, Register):
        if wanted.count is None and fits(element.type, wanted.type):
            return ""
        return f"register {element} is .{element.type}, {wanted} is expected"
    if isinstance(element, Special):
        return f"special register {element}: move it into a register first"
    if not isinstance(element, Symbol):
        return ""  # a sink takes any result
    declared = variables.get(element.name)
    if declared is None or not isinstance(declared, Param | Variable):
        return ""  # an unknown name is reported where all names are
    if declared.space not in ("param", "reg"):
        return f"{element} is in .{declared.space} space; a variable of .param space is expected"
    given = _Passed.of(declared)
    if (given.count is None) != (wanted.count is None):
        return f"{element} is {given}, {wanted} is expected"
    same = fits(given.type, wanted.type) if wanted.count is None else given.nbytes == wanted.nbytes
    if not same:
        return f"{element} is {given}, {wanted} is expected"
    if given.align != wanted.align:
        return f"{element} is aligned to {given.align} bytes, {wanted.align} are expected"
    return ""
