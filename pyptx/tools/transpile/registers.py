"""Collects facts about each register of a function: reads, writes, the first and last use, and a type.

PTX from compilers declares most registers as bits.  :func:`survey` chooses a type that all instructions of
the register accept, and with which most of them become Python operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field

from ...core.records import dataclass
from ...core.types import TYPES, ScalarType
from ...ir import Address, Indexed, Operand, Register, Vector, registers_of
from ...isa.operands import address_space, fits
from .body import StatementStep
from .operators import operation_of
from .results import VOTING

__all__ = ["Info", "survey"]

#: Opcodes whose result has the same type as their operands.
_SAME_TYPE = frozenset({"and", "or", "xor", "not", "shl", "mov"})


@dataclass(eq=False, slots=True)
class Info:
    """The facts about one register.

    Attributes:
        register: the register as declared in the source.
        kind: type of the register in the program.
        reads, writes: number of reads and of writes.
        first: index in the body of the step that first uses the register.
        fresh: True if that step writes the register unconditionally and does not read it.
        last: index in the body of the step that last uses the register.
        votes: type -> number of instructions that could become an operator if the register had this type.
        types: for each instruction, the types that its form accepts for the register.
        moved: type of a ``mov`` that writes the register.
        header: whether the register is a parameter or a result of the function.
        exact: whether the register must keep its declared type, such as an address in tensor memory.
    """

    register: Register
    kind: ScalarType
    reads: int = 0
    writes: int = 0
    first: int = -1
    last: int = -1
    fresh: bool = False
    votes: Counter[str] = field(default_factory=Counter)
    types: set[tuple[tuple[ScalarType, ...], bool]] = field(default_factory=set)
    moved: str = ""
    exact: bool = False
    header: bool = False

    def takes(self, kind: ScalarType) -> bool:
        """Return True if every instruction that uses the register accepts it with type ``kind``."""
        if kind is self.register.type:
            return True
        if (
            self.exact
            or kind.bits != self.register.type.bits
            or (kind.kind == "p") != (self.register.type.kind == "p")
        ):
            return False
        return all(any(fits(kind, t, wider) for t in types) for types, wider in self.types if types)


def survey(
    steps: Sequence[StatementStep], registers: Iterable[Register], typed: bool = True
) -> dict[str, Info]:
    """Return the registers of a function by name; if ``typed``, choose their types."""
    found = {r.name: Info(r, r.type) for r in registers}
    for step in steps:
        position = step.index
        instruction = step.instruction
        if instruction is None or step.binding is None:
            continue
        guard = instruction.guard
        for register in step.writes:
            info = found[register.name]
            info.writes += 1
            if info.first < 0:
                info.first = position
                info.fresh = guard is None and register not in step.reads
            info.last = position
        for register in step.reads:
            info = found[register.name]
            info.reads += 1
            if info.first < 0:
                info.first = position
            info.last = position
        if guard is not None:
            found[guard.register.name].types.add(((TYPES["pred"],), False))
        for spec, operand in zip(step.binding.specs.values(), step.binding.fitted, strict=True):
            if isinstance(operand, Address) and isinstance(operand.base, Register):
                space = address_space(spec, step.binding.match.chosen)
                found[operand.base.name].exact |= space == "tensor"
            direct = list(_direct(operand))
            if not direct:
                continue
            types = spec.scalar_types(step.binding.match.chosen)
            for register in direct:
                found[register.name].types.add((types, spec.wider))
        _vote(step, found)
    if typed:
        _share_votes(steps, found)
        for info in found.values():
            info.kind = _chosen(info)
    return found


def _share_votes(steps: Sequence[StatementStep], found: dict[str, Info]) -> None:
    """Add up the votes of registers that bit operations and copies connect: they must have one type."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.get(name, name) != name:
            parent[name] = name = parent.get(parent[name], parent[name])
        return name

    for step in steps:
        instruction = step.instruction
        if instruction is None or instruction.opcode not in _SAME_TYPE or instruction.guard is not None:
            continue
        operands = instruction.operands[:2] if instruction.opcode == "shl" else instruction.operands
        names = [o.name for o in operands if isinstance(o, Register) and o.type.kind == "b"]
        for name in names[1:]:
            if found[name].register.type is found[names[0]].register.type:
                parent[root(name)] = root(names[0])
    sums: dict[str, Counter[str]] = {}
    for name, info in found.items():
        sums.setdefault(root(name), Counter()).update(info.votes)
    for name, info in found.items():
        info.votes = sums[root(name)]


def _direct(operand: Operand) -> Iterable[Register]:
    """Yield the registers of an operand, except those in an address, which may have another type."""
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Vector):
        for element in operand.elements:
            yield from _direct(element)
    elif not isinstance(operand, Address | Indexed):
        yield from registers_of(operand)


def _vote(step: StatementStep, found: dict[str, Info]) -> None:
    instruction = step.instruction
    assert instruction is not None
    operation = operation_of(instruction)
    if instruction.opcode == "mov" and step.writes and instruction.modifiers[-1] in TYPES:
        found[step.writes[0].name].moved = instruction.modifiers[-1]
    if operation is None and instruction.opcode in VOTING and step.binding is not None:
        specs = step.binding.specs.values()
        for spec, operand in zip(specs, step.binding.fitted, strict=True):
            if not isinstance(operand, Register):
                continue
            types = spec.scalar_types(step.binding.match.chosen)
            if len(types) == 1 and types[0].kind in "us" and types[0].lanes == 1 and types[0].bits > 8:
                found[operand.name].votes[types[0].name] += 1
    if operation is None or operation.kind.kind not in "us":
        return
    operands = instruction.operands[1:] if operation.what == "compare" else instruction.operands
    if operation.what == "shift":
        operands = operands[:2]
    for operand in operands:
        if isinstance(operand, Register):
            found[operand.name].votes[operation.kind.name] += 1


def _chosen(info: Info) -> ScalarType:
    declared = info.register.type
    if declared.kind != "b" or declared.bits not in (16, 32, 64) or info.register.vector != 1:
        return declared
    if declared.bits != 16:
        real = TYPES[f"f{declared.bits}"]
        if any(
            real in types and not any(t.kind == "b" for t in types) for types, _ in info.types
        ) and info.takes(real):
            return real
    for name, _ in sorted(info.votes.items(), key=lambda vote: (-vote[1], vote[0])):
        if info.takes(TYPES[name]):
            return TYPES[name]
    moved = TYPES.get(info.moved)
    return moved if not info.votes and moved is not None and info.takes(moved) else declared
