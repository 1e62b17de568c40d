"""The parameters of an entry through which it writes global memory."""

from __future__ import annotations

from collections import defaultdict

from ..ir import Address, Function, Instruction, Symbol
from ..ir.walk import leaves
from .registers import accesses

__all__ = ["written_parameters"]

#: Instructions that write where their addresses lead; of copies only the first address counts.
_WRITERS = ("st", "red", "atom", "multimem", "tensormap", "wmma", "cp")


def written_parameters(function: Function) -> set[str]:
    """Return the names of the parameters whose addresses or tensor maps an instruction may write through.

    Addresses are followed through registers, whatever the order of the instructions, and into calls, which
    may write.  An address that the code stores in memory and loads again is not followed.
    """
    parameters = {parameter.name for parameter in function.params}
    instructions = [each for each in function.body or () if isinstance(each, Instruction)]
    origins = _origins(instructions, parameters)
    found: set[str] = set()
    for instruction in instructions:
        if instruction.opcode == "call":
            for operand in instruction.operands:
                found |= _named(operand, origins, parameters)
        elif instruction.opcode in _WRITERS and "prefetch" not in instruction.modifiers:
            addresses = [each for each in instruction.operands if isinstance(each, Address)]
            for address in addresses[:1] if instruction.opcode == "cp" else addresses:
                found |= _named(address.base, origins, parameters)
    return found


def _origins(instructions: list[Instruction], parameters: set[str]) -> dict[str, set[str]]:
    """Return, for each register, the parameters from which its value is computed."""
    origins: dict[str, set[str]] = defaultdict(set)
    flows = []
    for instruction in instructions:
        if instruction.opcode in ("ld", "atom") and "param" not in instruction.modifiers:
            continue  # what memory has is no address of a parameter
        reads, writes = accesses(instruction)
        given = {
            leaf.name
            for operand in instruction.operands
            for leaf in leaves(operand)
            if isinstance(leaf, Symbol) and leaf.name in parameters
        }
        flows.append((given, [register.name for register in reads], [register.name for register in writes]))
    grows = True
    while grows:
        grows = False
        for given, reads_of, writes_of in flows:
            whole = given.union(*(origins[name] for name in reads_of))
            for name in writes_of:
                if not whole <= origins[name]:
                    origins[name] |= whole
                    grows = True
    return origins


def _named(operand: object, origins: dict[str, set[str]], parameters: set[str]) -> set[str]:
    """Return the parameters from which the parts of an operand are computed."""
    found: set[str] = set()
    for leaf in leaves(operand):  # type: ignore[arg-type]
        name = getattr(leaf, "name", "")
        found |= {name} & parameters if isinstance(leaf, Symbol) else origins.get(name, set())
    return found
