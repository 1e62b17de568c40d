"""What ptxas says about a module: warnings, notes with a code, spills and stack frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...core.errors import ToolNotFoundError
from ...core.findings import RULES, Finding
from ...core.source import SourceLocation
from ...ir import Function, Instruction, Module
from ...toolchain import Assembly, Message, Resources, machine_instructions

__all__ = ["local_memory", "messages"]

#: Opcodes of the instructions that notes without a line concern.
_CONCERNED = {"C7508": "setmaxnreg", "C7506": "wgmma", "C7510": "wgmma", "C7514": "wgmma"}
#: Rules that say the same as a note.
_SAID = {"C7508": "setmaxnreg"}
#: Number of lines that a finding about spills names.
_LINES = 4


def messages(module: Module, assembly: Assembly, known: frozenset[str]) -> list[Finding]:
    """Report the warnings of ptxas, and its notes with a code.

    Spills have findings of their own, and so has what a rule in ``known``, which was found, says already.
    """
    spilled = any(resources.spills for resources in assembly.resources)
    found: dict[tuple[str, SourceLocation | None], Finding] = {}
    for message in (*assembly.warnings, *assembly.notes):
        if message.severity == "info" and (not message.code or _SAID.get(message.code) in known):
            continue
        if message.severity == "warning" and spilled and _is_about_spills(message, assembly):
            continue
        rule = RULES["ptxas-warning" if message.severity == "warning" else "lost-speed"]
        code = f"({message.code}) " if message.code else ""
        place = message.source or _place(module, message)
        found.setdefault((message.text, place), Finding(rule, f"{code}{message.text}", place))
    return list(found.values())


def _is_about_spills(message: Message, assembly: Assembly) -> bool:
    """True if a warning repeats the spills of a function, as ``--warn-on-spills`` asks."""
    return any(
        resources.spills and resources.function == message.function and not message.code
        for resources in assembly.resources
    )


def _place(module: Module, message: Message) -> SourceLocation | None:
    """Return the line of the first instruction that a note concerns, or of the function that it names."""
    opcode = _CONCERNED.get(message.code)
    for function in module.functions:
        if message.function and function.name != message.function:
            continue
        for instruction in function.instructions():
            if instruction.opcode == opcode:
                return instruction.source
        if message.function:
            return function.source
    return None


def local_memory(module: Module, assembly: Assembly) -> list[Finding]:
    """Report the spills of kernels, and the local variables that ptxas could not keep in registers.

    A function that is not inlined saves registers of its caller, which ptxas counts as spills, too; such
    functions are left out, and so are the stack frames of kernels that call them.
    """
    found = []
    lines: Mapping[str, Counter[SourceLocation]] | None = None
    for used in assembly.resources:
        function = module.by_name.get(used.function)
        if function is None or function.kind != "entry" or not (used.spills or used.stack):
            continue
        if not used.spills and _calls(function):
            continue
        lines = lines if lines is not None else _local_accesses(assembly)
        found.append(_frame(function, used, lines.get(used.function, Counter())))
    return found


def _frame(function: Function, used: Resources, lines: Counter[SourceLocation]) -> Finding:
    rule, kept = "local-memory", f"{used.stack} bytes of each thread are in local memory"
    if used.spills:
        rule = "register-spill"
        kept = f"{used.spill_stores} bytes of spill stores and {used.spill_loads} bytes of spill loads"
        kept += f" with {used.registers} registers" if used.registers else ""
    most = lines.most_common(_LINES)
    place = most[0][0] if most else function.source
    other = tuple((f"{count} accesses to local memory", each) for each, count in most)
    return Finding(RULES[rule], f"{function.name}: {kept}", place, other=other)


def _calls(function: Function) -> bool:
    """True if a function calls others, whose arguments and return addresses a stack frame holds."""
    opcodes = ("call", "alloca")
    return any(isinstance(each, Instruction) and each.opcode in opcodes for each in function.body)


def _local_accesses(assembly: Assembly) -> dict[str, Counter[SourceLocation]]:
    """Return the number of accesses to local memory at each line, by function. Empty without nvdisasm."""
    found: dict[str, Counter[SourceLocation]] = {}
    try:
        instructions = machine_instructions(assembly.cubin)
    except ToolNotFoundError:
        return {}
    for each in instructions:
        if each.opcode.partition(".")[0] in ("LDL", "STL") and each.location is not None:
            found.setdefault(each.function, Counter())[each.location] += 1
    return found
