"""Checks a call against the called function: number, types, sizes and alignment of results and arguments.

Source: PTX ISA, `#control-flow-instructions-call`_, and ptxas, which requires equal alignment.

.. _#control-flow-instructions-call: https://docs.nvidia.com/cuda/parallel-thread-execution/#control-flow-instructions-call
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..core.records import dataclass
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
    """Layout of an argument or a parameter: type, number of elements (None if no array), alignment."""

    type: ScalarType
    count: int | None
    align: int

    @staticmethod
    def of(declared: Param | Variable) -> _Passed:
        """Return the layout of a declared parameter or variable."""
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
    """Yield a message for each fault of a call of ``callee``; ``variables`` are those in its scope."""
    for what, given, formal in (
        ("result", results, callee.returns),
        ("argument", arguments, callee.params),
    ):
        elements = given.elements if isinstance(given, Arguments) else ()
        if len(elements) != len(formal):
            yield f"call of {callee.name}: expected {_count(len(formal), what)}, got {len(elements)}"
            continue
        for number, (element, param) in enumerate(zip(elements, formal, strict=True), 1):
            reason = _mismatch(element, param, variables)
            if reason:
                yield f"{what} {number} of {callee.name}: {reason}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _mismatch(element: Operand, param: Param, variables: Mapping[str, Variable | Param]) -> str:
    """Return a message if an argument or result does not fit parameter ``param``, else an empty string."""
    wanted = _Passed.of(param)
    if param.space == "reg" and param.type.bits < 32:
        return f"a register of type {wanted} cannot be passed; a passed register has at least 32 bits"
    if isinstance(element, Immediate):
        real = isinstance(element.value, float)
        if wanted.count is not None or (wanted.type.is_float and not real):
            return f"expected {wanted}, got the constant {element}"
        return ""
    if isinstance(element, Register):
        if wanted.count is None and fits(element.type, wanted.type):
            return ""
        return f"expected {wanted}, got register {element} of type .{element.type}"
    if isinstance(element, Special):
        return f"special register {element} cannot be passed; move it into a register first"
    if not isinstance(element, Symbol):
        return ""  # a sink `_` fits any result
    declared = variables.get(element.name)
    if declared is None or not isinstance(declared, Param | Variable):
        return ""  # the check of names reports an unknown name
    if declared.space not in ("param", "reg"):
        return f"expected a variable of .param space, but {element} is in .{declared.space} space"
    given = _Passed.of(declared)
    if (given.count is None) != (wanted.count is None):
        return f"expected {wanted}, but {element} is {given}"
    same = fits(given.type, wanted.type) if wanted.count is None else given.nbytes == wanted.nbytes
    if not same:
        return f"expected {wanted}, but {element} is {given}"
    if given.align != wanted.align:
        return f"expected an alignment of {wanted.align} bytes, but {element} is aligned to {given.align}"
    return ""
