"""What a module's target and version lack of what its code uses: :func:`unavailable`.

Owns the checks that need no more of an instruction than its form: the target has it, the version has it,
and the tcgen05 instructions of a kernel have one ``cta_group``.  :mod:`.checking` makes them with all others;
a module that only runs is held to these.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    """The version is older than the target, or nothing."""
    if module.version >= arch.since:
        return None
    return TargetError(
        f".target {arch} needs PTX ISA {version_text(arch.since)}, "
        f"the module says .version {version_text(module.version)}",
        hint=f"write .version {version_text(arch.since)} or later",
        see="ptx-module-directives-target",
        location=location,
    )


def version_fault(module: Module, binding: Binding, location: SourceLocation | None) -> TargetError | None:
    """The module's version is older than the instruction, or nothing."""
    if binding.since <= module.version:
        return None
    return TargetError(
        f"{binding.match.name} needs PTX ISA {version_text(binding.since)}, "
        f"the module says .version {version_text(module.version)}",
        hint=f"write .version {version_text(binding.since)} or later",
        see=binding.match.form.anchor,
        location=location,
    )


def cta_group_fault(module: Module, entry: Function) -> InstructionError | None:
    """The kernel's tcgen05 instructions have different CTA groups, or nothing."""
    seen: dict[str, Instruction] = {}
    for function in reached_functions(module, entry):
        for instruction in function.instructions():
            if instruction.opcode == "tcgen05":
                for word in instruction.modifiers:
                    if word.startswith("cta_group::"):
                        seen.setdefault(word, instruction)
    if len(seen) < 2:
        return None
    first, second = list(seen.values())[:2]
    return InstructionError(
        f"{entry.name} uses {first.name} and {second.name}: "
        "all tcgen05 instructions of a kernel have the same .cta_group",
        see="tcgen05-instructions",
        location=second.source if second.source is not None else entry.source,
    )


def reached_functions(module: Module, function: Function) -> list[Function]:
    """``function`` and those that it calls or whose address it takes, directly or not."""
    found = {function.name: function}
    # Of the only function there is nothing to look for.
    pending = [function] if len(module.by_name) > 1 else []
    while pending:
        for name in named_symbols(pending.pop()):
            callee = module.by_name.get(name)
            if callee is not None and name not in found:
                found[name] = callee
                pending.append(callee)
    return list(found.values())


def named_symbols(function: Function) -> Iterator[str]:
    """Every name that the operands of ``function`` hold."""
    for instruction in function.instructions():
        for operand in instruction.operands:
            for leaf in leaves(operand):
                if isinstance(leaf, Symbol):
                    yield leaf.name


def unavailable(module: Module, entry: Function) -> list[PyptxError]:
    """What ``entry`` and the functions that it reaches use and cannot have, as the module is written.

    The version is older than the target, an instruction exists on other targets or in later versions alone,
    tcgen05 instructions have different CTA groups.  Each error carries the line at fault.  An instruction
    that the table does not know is left to whatever reads it.
    """
    arch = written_target(module.target)
    fault = target_version_fault(module, arch, entry.source)
    found: list[PyptxError] = [] if fault is None else [fault]
    available: set[Shape] = set()
    for function in reached_functions(module, entry):
        for instruction in function.instructions():
            try:
                binding = bind_instruction(instruction)
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
    try:
        check_target(binding, arch, location)
    except TargetError as error:
        return error
    return version_fault(module, binding, location)
