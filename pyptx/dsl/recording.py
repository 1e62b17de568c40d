"""From a kernel function to an ``ir.Module``: set up a trace, run the function, close it.

Owns what only the end of a recording knows: which parameters and addresses are used (and so loaded in the
prologue), which registers are declared, where shared memory lies, the final ``ret``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.source import SourceLocation
from ..core.types import TYPES
from ..ir import (
    Directive,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    Raw,
    Register,
    map_registers,
    registers_of,
)
from ..isa import check_kernel, required_version, target
from .params import Parameters, Scalar, Slot, Tile
from .smem import Shared
from .trace import Trace

__all__ = ["Recording", "record"]

Statement = Instruction | Raw | Label


@dataclass(frozen=True)
class Recording:
    """A recorded kernel.

    Attributes:
        module: the module with its one entry.
        slots: the entry's parameters, and the kernel parameter that fills each.
        dynamic_smem: bytes of dynamic shared memory to launch with.
        static_smem: bytes of static shared memory.
    """

    module: Module
    slots: tuple[Slot, ...]
    dynamic_smem: int
    static_smem: int


def record(
    body: Callable[..., object],
    names: Sequence[str],
    specs: Sequence[Tile | Scalar],
    *,
    entry: str,
    arch: str,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Any] | None = None,
    directives: Iterable[Directive] = (),
    smem: int = 0,
    extern_smem: bool = False,
    location: SourceLocation | None = None,
) -> Recording:
    """Run ``body`` with its parameters and keyword ``constants``, and make a module of what it recorded.

    A ``ret`` is added where the body does not end with an unguarded ``ret``, ``exit`` or ``trap``.

    Raises:
        PyptxError: whatever the body does wrong, at its line.
    """
    trace = Trace(entry, target(arch), location)
    parameters = Parameters(trace, names, specs, dict(dims or {}))
    shared = Shared(trace, parameters.free_symbol("smem"), smem, extern_smem)
    trace.state["smem"] = shared
    trace.run(body, parameters.arguments, dict(constants or {}))
    variable = shared.variable()
    statements = trace.close(sorted(parameters.symbols()))
    if not _ends(statements):
        statements.append(Instruction("ret", (), (), None, location))
    used = _used(statements)
    prologue = _prologue(trace, used)
    registers = [
        *(entry.register for entry in trace.prologue.values() if entry.register.name in used),
        *trace.registers,
    ]
    body_statements: list[Statement] = [*prologue, *statements]
    if trace.untyped:
        registers, body_statements = _untype(trace.untyped, registers, body_statements)
    dynamic = variable is not None and variable.external
    slots = parameters.slots(used)
    function = Function(
        name=entry,
        params=tuple(slot.param for slot in slots),
        directives=tuple(directives),
        registers=tuple(registers),
        variables=() if variable is None or dynamic else (variable,),
        body=tuple(body_statements),
        source=location,
    )
    outside = (variable,) if variable is not None and dynamic else ()
    module = Module(trace.target.since, trace.target.name, (function,), outside)
    module = replace(module, version=required_version(module))
    for fault in check_kernel(module, function):
        raise fault
    return Recording(
        module,
        slots,
        dynamic_smem=shared.end if dynamic else 0,
        static_smem=variable.nbytes if variable is not None and not dynamic else 0,
    )


def _ends(statements: Sequence[Statement]) -> bool:
    if not statements:
        return False
    last = statements[-1]
    return isinstance(last, Instruction) and last.guard is None and last.opcode in ("ret", "exit", "trap")


# --- which registers the text names ---------------------------------------------------------------


def _used(statements: Iterable[Statement]) -> set[str]:
    found: set[str] = set()
    for statement in statements:
        if isinstance(statement, Instruction):
            for operand in statement.operands:
                found.update([register.name for register in registers_of(operand)])
            if statement.guard is not None:
                found.add(statement.guard.register.name)
        elif isinstance(statement, Raw):
            # Raw text is not read: every word that looks like a register may be one.
            found.update(piece.rstrip(";,]})") for piece in statement.text.replace("%", " %").split())
            found.update(name[1:] for name in list(found) if name.startswith("%"))
    return found


def _prologue(trace: Trace, used: set[str]) -> list[Instruction]:
    """Instructions for the prepared registers in ``used``, and for those that they need, which are added."""
    chosen: list[tuple[Instruction, ...]] = []
    for _, entry in sorted(trace.prologue.items(), key=lambda item: item[0], reverse=True):
        if entry.register.name in used:
            chosen.append(entry.instructions)
            used |= _used(entry.instructions)
    return [instruction for instructions in reversed(chosen) for instruction in instructions]


# --- registers seen as several kinds --------------------------------------------------------------


def _untype(
    names: set[str], registers: list[Register], statements: list[Statement]
) -> tuple[list[Register], list[Statement]]:
    """The same with every register in ``names`` declared as bits."""

    def register(given: Register) -> Register:
        return Register(given.name, TYPES[f"b{given.type.bits}"]) if given.name in names else given

    def statement(given: Statement) -> Statement:
        if not isinstance(given, Instruction):
            return given
        guard = given.guard
        if guard is not None:
            guard = Guard(register(guard.register), guard.negated)
        return replace(
            given, operands=tuple(map_registers(operand, register) for operand in given.operands), guard=guard
        )

    return [register(r) for r in registers], [statement(s) for s in statements]
