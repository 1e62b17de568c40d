"""Checks the declarations of a module: repeated names, initializers, types, results and parameters.

Source: PTX ISA, `#variables`_ and `#kernel-and-function-directives`_, and what ptxas says.

.. _#variables: https://docs.nvidia.com/cuda/parallel-thread-execution/#variables
.. _#kernel-and-function-directives: https://docs.nvidia.com/cuda/parallel-thread-execution/#kernel-and-function-directives
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..core.errors import OperandError, PyptxError
from ..core.types import TYPES
from ..ir import Function, InitialList, Module, Param, Variable
from ..ir.nodes import OPAQUE_TYPES

__all__ = ["declaration_faults"]

#: Types that instructions can have, but registers and variables cannot.
_INSTRUCTION_TYPES = frozenset(
    t.name for t in TYPES.values() if t.kind == "f" and t.name not in ("f16", "f16x2", "f32", "f64")
)
#: State spaces whose variables may have an initial value.
_INITIALIZED = frozenset({"global", "const"})


def declaration_faults(module: Module) -> Iterator[PyptxError]:
    """Yield an error for each fault in the declarations of ``module``, with its line."""
    if module.address_size != 64:
        yield OperandError(
            f".address_size {module.address_size} is not supported: addresses in kernels have 64 bits",
            hint="write .address_size 64",
            see="ptx-module-directives-address-size",
            location=next((f.source for f in module.functions), None),
        )
    for node, what in _twice((*module.variables, *(f for f in module.functions if not f.prototype))):
        yield OperandError(f"{what} is declared twice", see="identifiers", location=node.source)
    for variable in module.variables:
        yield from _variable(variable)
    for function in module.functions:
        yield from _function(module, function)


def _twice(nodes: Iterable[Variable | Function | Param]) -> Iterator[tuple[Variable | Function | Param, str]]:
    """Yield each node whose name an earlier node has, together with the name."""
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen and not (isinstance(node, Variable) and node.external):
            yield node, node.name
        seen.add(node.name)


def _function(module: Module, function: Function) -> Iterator[PyptxError]:
    inner = [statement for statement in function.body if isinstance(statement, Variable)]
    for variable in (*function.variables, *inner):
        yield from _variable(variable)
    named = [param for param in (*function.returns, *function.params) if param.name != "_"]
    for param, what in _twice(named):
        yield OperandError(f"parameter {what} is declared twice", see="identifiers", location=param.source)
    if function.kind == "entry":
        for param in function.params:
            if param.space != "param":
                yield OperandError(
                    f"parameter {param.name} is in .{param.space} space; a kernel takes .param space only",
                    see="kernel-and-function-directives-entry",
                    location=param.source or function.source,
                )
    for register in function.registers:
        if register.type.name in _INSTRUCTION_TYPES:
            yield OperandError(
                f"{register}: no register can have type .{register.type}; declare .b{register.type.bits}",
                see="fundamental-types",
                location=function.source,
            )
    definition = module.by_name[function.name]
    for what, own, other in (
        ("results", function.returns, definition.returns),
        ("parameters", function.params, definition.params),
    ):
        if len(own) != len(other):
            yield OperandError(
                f"{function.name} is declared once with {len(own)} {what} and once with {len(other)}",
                see="kernel-and-function-directives-func",
                location=function.source,
            )


def _variable(variable: Variable) -> Iterator[PyptxError]:
    def fault(reason: str) -> OperandError:
        return OperandError(f"{variable.name}: {reason}", see="variables", location=variable.source)

    if variable.type.name in _INSTRUCTION_TYPES:
        yield fault(f"no variable can have type .{variable.type}; declare .b{variable.type.bits}")
    if variable.type.kind == "p":
        yield fault("a variable cannot be a predicate; predicates exist only in registers")
    if variable.count == 0 and not variable.external and variable.initial is None:
        yield fault("an array without a size must be .extern or have an initial value")
    if variable.initial is None:
        return
    if variable.external or variable.space.partition("[")[0] not in _INITIALIZED:
        where = "an .extern variable" if variable.external else f"a variable of .{variable.space} space"
        yield fault(f"{where} cannot have an initial value")
        return
    if variable.type.name in OPAQUE_TYPES:
        return
    shape = list(variable.shape or (() if variable.count is None else (variable.count,)))
    extents = [*shape, variable.vector] if variable.vector > 1 else shape
    if bool(extents) != isinstance(variable.initial, InitialList):
        wanted = "values in braces" if extents else "one value without braces"
        yield fault(f"expected {wanted} as its initial value")
    elif not _within(variable.initial, extents):
        yield fault(f"it has more initial values than its size {' x '.join(map(str, extents))}")


def _within(initial: object, extents: list[int]) -> bool:
    """True if a list of values fits the array. A first extent of 0 means that the list decides the size."""
    if not isinstance(initial, InitialList):
        return True
    if not extents or (extents[0] and len(initial.elements) > extents[0]):
        return False
    return all(_within(element, extents[1:]) for element in initial.elements)
