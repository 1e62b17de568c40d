"""Turns a kernel function into an ``ir.Module``: runs the function once, and completes what it recorded.

Owns the steps that need the complete recording: which parameters and addresses are used (the prologue loads
these), which registers are declared, where shared memory lies, the final ``ret``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.collection import uncollected
from ..core.records import dataclass
from ..core.source import SourceLocation
from ..core.types import TYPES
from ..ir import (
    Directive,
    Function,
    Guard,
    Instruction,
    Module,
    Param,
    Raw,
    Register,
    Statement,
    map_registers,
    registers_of,
)
from ..isa import check_kernel, required_version, target
from .dims import Dims
from .params import Parameters, ParameterSlot, Scalar, Tile
from .smem import Shared
from .trace import Trace

__all__ = ["Recording", "ended", "finished", "record"]


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
    slots: tuple[ParameterSlot, ...]
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
    """Run ``body`` with its parameters and keyword ``constants``, and make a module of the recording.

    ``dims`` may be :class:`.Dims`, which then know what the body has read.

    A ``ret`` is added if the body does not end with an unguarded ``ret``, ``exit`` or ``trap``.

    Raises:
        PyptxError: a mistake in the body, reported at its line.
    """
    trace = Trace(entry, target(arch), location)
    values = dims if isinstance(dims, Dims) else Dims(dims or {})
    parameters = Parameters(trace, names, specs, values)
    shared = Shared(trace, parameters.free_symbol("smem"), smem, extern_smem)
    trace.state["smem"] = shared
    trace.builder.take(*sorted(parameters.symbols()))
    with uncollected():
        trace.run(body, parameters.arguments, dict(constants or {}))
        return _recording(trace, parameters, shared, entry, tuple(directives), location)


def _recording(
    trace: Trace,
    parameters: Parameters,
    shared: Shared,
    entry: str,
    directives: tuple[Directive, ...],
    location: SourceLocation | None,
) -> Recording:
    """Return the module of a kernel function that has run."""
    variable = shared.variable()
    used, registers, statements = _complete(trace, ended(trace.close(), location))
    dynamic = variable is not None and variable.external
    slots = parameters.slots(used)
    function = Function(
        name=entry,
        params=tuple(slot.param for slot in slots),
        directives=directives,
        registers=registers,
        variables=(*(() if variable is None or dynamic else (variable,)), *trace.symbols.variables),
        body=statements,
        source=location,
        shared_ranges=tuple(shared.ranges) if variable is not None else (),
        waivers=tuple(trace.builder.waivers),
    )
    outside = (*((variable,) if variable is not None and dynamic else ()), *trace.builder.variables)
    module = Module(trace.target.since, trace.target.name, (*trace.builder.functions, function), outside)
    module = replace(module, version=required_version(module))
    for recorded in module.functions:
        for fault in check_kernel(module, recorded):
            raise fault
    return Recording(
        module,
        slots,
        dynamic_smem=shared.end if dynamic else 0,
        static_smem=variable.nbytes if variable is not None and not dynamic else 0,
    )


def ended(statements: list[Statement], location: SourceLocation | None) -> list[Statement]:
    """Return ``statements``, with a ``ret`` added unless they end with an unguarded ret, exit or trap."""
    last = statements[-1] if statements else None
    if isinstance(last, Instruction) and last.guard is None and last.opcode in ("ret", "exit", "trap"):
        return statements
    return [*statements, Instruction("ret", (), (), None, location)]


# --- which registers the text names ---------------------------------------------------------------


def _used(statements: Iterable[Statement]) -> set[str]:
    found: set[str] = set()
    for statement in statements:
        if isinstance(statement, Instruction):
            for operand in statement.operands:
                if operand.__class__ is Register:
                    found.add(operand.name)
                else:
                    found.update([register.name for register in registers_of(operand)])
            if statement.guard is not None:
                found.add(statement.guard.register.name)
        elif isinstance(statement, Raw):
            # Raw text is not parsed: every piece that looks like a register counts as one.
            found.update(piece.rstrip(";,]})") for piece in statement.text.replace("%", " %").split())
            found.update(name[1:] for name in list(found) if name.startswith("%"))
    return found


def _complete(
    trace: Trace, statements: list[Statement]
) -> tuple[set[str], tuple[Register, ...], tuple[Statement, ...]]:
    """Return the names in use, the registers to declare, and the statements with the prologue in front."""
    used = _used(statements) if trace.prologue else set()
    body: list[Statement] = [*_prologue(trace, used), *statements]
    prepared = [entry.register for entry in trace.prologue.values() if entry.register.name in used]
    registers = [*prepared, *trace.registers]
    if trace.untyped:
        registers, body = _untype(trace.untyped, registers, body)
    return used, tuple(registers), tuple(body)


def _prologue(trace: Trace, used: set[str]) -> list[Instruction]:
    """Return the prologue: the instructions that compute those of its registers that ``used`` names.

    These instructions may read other registers of the prologue, which are then computed too and added to
    ``used``.
    """
    chosen: list[tuple[Instruction, ...]] = []
    for _, entry in sorted(trace.prologue.items(), key=lambda item: item[0], reverse=True):
        if entry.register.name in used:
            chosen.append(entry.instructions)
            used |= _used(entry.instructions)
    return [instruction for instructions in reversed(chosen) for instruction in instructions]


# --- device functions, and functions recorded as they stand -----------------------------------------


def finished(trace: Trace, head: Function, statements: list[Statement]) -> Function:
    """Return the function ``head`` with the body of ``trace``; ``.reg`` parameters are not declared again."""

    def formal(param: Param) -> Param:
        untyped = param.space == "reg" and param.name in trace.untyped
        return replace(param, type=TYPES[f"b{param.type.bits}"]) if untyped else param

    formals = {param.name for param in (*head.params, *head.returns) if param.space == "reg"}
    _, registers, body = _complete(trace, statements)
    return replace(
        head,
        params=tuple(map(formal, head.params)),
        returns=tuple(map(formal, head.returns)),
        registers=tuple(register for register in registers if register.name not in formals),
        variables=tuple(trace.symbols.variables),
        body=body,
    )


# --- registers seen as several kinds --------------------------------------------------------------


def _untype(
    names: set[str], registers: list[Register], statements: list[Statement]
) -> tuple[list[Register], list[Statement]]:
    """Return ``registers`` and ``statements``, with the type of the registers in ``names`` set to ``.bN``."""

    def register(given: Register) -> Register:
        return Register(given.name, TYPES[f"b{given.type.bits}"]) if given.name in names else given

    def statement(given: Statement) -> Statement:
        if not isinstance(given, Instruction):
            return given
        guard = given.guard
        if guard is not None and guard.register.name in names:
            guard = Guard(register(guard.register), guard.negated)
        operands = given.operands
        if any(read.name in names for operand in operands for read in registers_of(operand)):
            operands = tuple(map_registers(operand, register) for operand in operands)
        elif guard is given.guard:
            return given
        return replace(given, operands=operands, guard=guard)

    return [register(r) for r in registers], [statement(s) for s in statements]
