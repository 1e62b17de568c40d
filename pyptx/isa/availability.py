"""Finds the instructions that a module uses and that its target or version does not have.

Owns the checks that read only the form of an instruction: the target has the form, the version has it,
and all tcgen05 instructions of a kernel have the same ``cta_group``.  :mod:`.checking` runs these checks with
all others; a launch in the simulator requires only these, through :func:`unavailable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..core.errors import InstructionError, OperandError, PyptxError, TargetError
from ..core.source import SourceLocation
from ..ir import Function, Instruction, Module, Symbol, leaves
from .binding import Binding, Shape, bind_instruction, check_target
from .targets import Target, version_text, written_target

__all__ = [
    "cta_group_fault",
    "named_symbols",
    "reached_functions",
    "target_version_fault",
    "unavailable",
    "version_fault",
]


def target_version_fault(module: Module, arch: Target, location: SourceLocation | None) -> TargetError | None:
    """Return the error if the module's version is older than its target, else None."""
    if module.version >= arch.since:
        return None
    return TargetError(
        f".target {arch} requires PTX ISA {version_text(arch.since)}, "
        f"but the module has .version {version_text(module.version)}",
        hint=f"write .version {version_text(arch.since)} or later",
        see="ptx-module-directives-target",
        location=location,
    )


def version_fault(module: Module, binding: Binding, location: SourceLocation | None) -> TargetError | None:
    """Return the error if the module's version is older than the instruction, else None."""
    if binding.since <= module.version:
        return None
    return TargetError(
        f"{binding.match.name} requires PTX ISA {version_text(binding.since)}, "
        f"but the module has .version {version_text(module.version)}",
        hint=f"write .version {version_text(binding.since)} or later",
        see=binding.match.form.anchor,
        location=location,
    )


def cta_group_fault(module: Module, entry: Function) -> InstructionError | None:
    """Return the error if the kernel's tcgen05 instructions have different CTA groups, else None."""
    seen: dict[str, Instruction] = {}
    for function in reached_functions(module, entry):
        for instruction in function.instructions():
            if instruction.opcode == "tcgen05":
                for modifier in instruction.modifiers:
                    if modifier.startswith("cta_group::"):
                        seen.setdefault(modifier, instruction)
    if len(seen) < 2:
        return None
    first, second = list(seen.values())[:2]
    return InstructionError(
        f"{entry.name} uses {first.name} and {second.name}, "
        "but all tcgen05 instructions of a kernel must have the same .cta_group",
        see="tcgen05-instructions",
        location=second.source if second.source is not None else entry.source,
    )


def reached_functions(module: Module, function: Function) -> list[Function]:
    """Return ``function`` and every function that it calls or takes the address of, at any depth."""
    found = {function.name: function}
    # The only function of a module reaches no other: its instructions need not be read.
    pending = [function] if len(module.by_name) > 1 else []
    while pending:
        for name in named_symbols(pending.pop()):
            callee = module.by_name.get(name)
            if callee is not None and name not in found:
                found[name] = callee
                pending.append(callee)
    return list(found.values())


def named_symbols(function: Function) -> Iterator[str]:
    """Yield the name of every variable, parameter or function that operands in ``function`` name."""
    for instruction in function.instructions():
        for operand in instruction.operands:
            for leaf in leaves(operand):
                if isinstance(leaf, Symbol):
                    yield leaf.name


def unavailable(
    module: Module, entry: Function, bind: Callable[[Instruction], Binding] = bind_instruction
) -> list[PyptxError]:
    """Return an error for each instruction that the module's target or version does not have.

    The instructions are those of ``entry`` and of the functions that it reaches.  There are also errors for a
    version that is older than the target, and for tcgen05 instructions with different CTA groups.  Each error
    carries the line at fault.  Instructions that are not in the table are skipped.  ``bind`` binds an
    instruction.
    """
    arch = written_target(module.target)
    fault = target_version_fault(module, arch, entry.source)
    found: list[PyptxError] = [] if fault is None else [fault]
    available: set[Shape] = set()
    for function in reached_functions(module, entry):
        for instruction in function.instructions():
            try:
                binding = bind(instruction)
            except (InstructionError, OperandError):
                continue
            if binding.shape in available:
                continue
            fault = _fault(module, arch, binding, instruction.source)
            if fault is None:
                available.add(binding.shape)
            else:
                found.append(fault)
    mixed = cta_group_fault(module, entry)
    return found if mixed is None else [*found, mixed]


def _fault(
    module: Module, arch: Target, binding: Binding, location: SourceLocation | None
) -> TargetError | None:
    """Return the error if the target or the module's version does not have the instruction, else None."""
    try:
        check_target(binding, arch, location)
    except TargetError as error:
        return error
    return version_fault(module, binding, location)
