"""The control flow of the machine code of one function: basic blocks, edges, loops, and paths that are rare.

Branches name labels, which nvdisasm prints. An indirect branch whose targets are not printed may go to every
label that nothing else names. A section of machine code has an entry, the functions that it calls, and
routines of ptxas, such as divisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from ...core.records import dataclass
from ...flow.loops import Loop, natural_loops, reachable
from ..nvdisasm import MachineInstruction

__all__ = [
    "MachineBlock",
    "MachineGraph",
    "base_of",
    "is_guarded",
    "is_try",
    "machine_graph",
    "split_functions",
]

_TARGET = re.compile(r"`\((?P<label>[^)]+)\)")
_TARGETS = re.compile(r"BRANCH_TARGETS (?P<labels>[^\"]+)")
#: Label of a routine of ptxas.
_ROUTINE = "$__internal_"
#: A branch without a guard, whose first operand is its target.
_ALWAYS = re.compile(r"(BRA|JMP)(\.\w+)*\s+`\(")
_NEVER_RETURNS = ("EXIT", "RET", "KILL", "BRX", "BRXU", "JMX", "JMXU")
#: What a loop of tries may begin with.
_IDLE = frozenset({"YIELD", "NOP"})
_INDIRECT = ("BRX", "BRXU", "JMX", "JMXU")


@dataclass(frozen=True, eq=False)
class MachineBlock:
    """Instructions that run one after the other.

    Attributes:
        index: its number, in the order of addresses.
        instructions: the instructions.
        successors: the numbers of the blocks that may follow; those of rare paths are left out.
        rare: blocks that follow only where lanes diverge.
        calls: for each position of a call of a routine of the same function, the routine's first block.
    """

    index: int
    instructions: tuple[MachineInstruction, ...]
    successors: tuple[int, ...]
    rare: tuple[int, ...]
    calls: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class MachineGraph:
    """The blocks of one function, and its loops."""

    blocks: tuple[MachineBlock, ...]

    @cached_property
    def edges(self) -> list[tuple[int, ...]]:
        """The successors of each block."""
        return [block.successors for block in self.blocks]

    @cached_property
    def active(self) -> frozenset[int]:
        """The blocks on paths from the first one, without rare ones and without routines."""
        return frozenset(reachable(self.edges))

    @cached_property
    def ends(self) -> frozenset[int]:
        """The blocks behind which threads may end."""
        return frozenset(
            block.index
            for block in self.blocks
            if block.instructions and base_of(block.instructions[-1].opcode) in ("EXIT", "KILL")
        )

    @cached_property
    def loops(self) -> list[Loop]:
        """The loops among active blocks, outer ones first."""
        return natural_loops(self.edges)

    @cached_property
    def sources(self) -> dict[int, list[int]]:
        """The active predecessors of each active block."""
        found: dict[int, list[int]] = {index: [] for index in self.active}
        for index in sorted(self.active):
            for target in self.edges[index]:
                found[target].append(index)
        return found


def is_guarded(instruction: MachineInstruction) -> bool:
    """True if a predicate decides whether the instruction does anything."""
    return instruction.text.startswith("@")


def is_try(instruction: MachineInstruction) -> bool:
    """True if it tries whether a phase of an mbarrier is over, for some time."""
    return instruction.opcode.startswith("SYNCS.PHASECHK") and "TRYWAIT" in instruction.opcode


def base_of(opcode: str) -> str:
    """Return the opcode without modifiers."""
    return opcode.partition(".")[0]


def _ends(instruction: MachineInstruction) -> bool:
    return base_of(instruction.opcode) in ("BRA", "JMP", *_NEVER_RETURNS)


def split_functions(
    instructions: Sequence[MachineInstruction], names: Iterable[str]
) -> list[list[MachineInstruction]]:
    """Return the code of a section by function, each with the routines of ptxas behind it.

    Args:
        instructions: the machine instructions of the section.
        names: the names of all functions; those that an entry calls have labels such as ``$entry$name``.
    """
    ends = tuple("$" + name for name in names)
    found: list[list[MachineInstruction]] = [[]]
    routines: list[MachineInstruction] = []
    inside = found[-1]
    for instruction in instructions:
        for label in instruction.labels:
            if label.startswith(_ROUTINE):
                inside = routines
            elif label.endswith(ends):
                found.append([])
                inside = found[-1]
        inside.append(instruction)
    return [function + routines for function in found if function]


def machine_graph(instructions: Sequence[MachineInstruction]) -> MachineGraph:
    """Return the control flow of the instructions of one function, which are in the order of addresses."""
    groups: list[list[MachineInstruction]] = [[]]
    for instruction in instructions:
        if groups[-1] and (instruction.labels or _ends(groups[-1][-1])):
            groups.append([])
        groups[-1].append(instruction)
    at = {label: number for number, group in enumerate(groups) if group for label in group[0].labels}
    named = {match["label"] for each in instructions for match in _TARGET.finditer(each.text)}
    loose = [number for label, number in at.items() if label.startswith(".L") and label not in named]
    tries, again = _trying(groups)
    blocks = []
    for number, group in enumerate(groups):
        following = (number + 1,) if number + 1 < len(groups) else ()
        successors, rare = _successors(group, following, at, loose)
        if number in tries and is_guarded(group[-1]) and set(successors) - {number, *following} <= again:
            # Another try, in a loop of its own, where the first one took too long.
            rare = tuple(each for each in successors if each not in (number, *following))
            successors = tuple(each for each in successors if each not in rare)
        calls = tuple(
            (position, at[target["label"]])
            for position, each in enumerate(group)
            if base_of(each.opcode) == "CALL"
            and (target := _TARGET.search(each.text)) is not None
            and target["label"] in at
        )
        blocks.append(MachineBlock(number, tuple(group), successors, rare, calls))
    return MachineGraph(tuple(blocks))


def _trying(groups: Sequence[Sequence[MachineInstruction]]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the numbers of the blocks that try, and of those that begin a loop of tries as well."""
    tries = frozenset(number for number, group in enumerate(groups) if any(map(is_try, group)))
    idle = {
        number - 1 for number in tries if number and {base_of(i.opcode) for i in groups[number - 1]} <= _IDLE
    }
    return tries, tries | idle


def _successors(
    group: list[MachineInstruction], following: tuple[int, ...], at: dict[str, int], loose: list[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the blocks that follow a block, and those that follow on rare paths."""
    if not group or not _ends(group[-1]):
        return following, ()
    last = group[-1]
    name = base_of(last.opcode)
    if name in _INDIRECT:
        listed = _TARGETS.search(last.text)
        if listed is not None:
            loose = [at[label] for label in listed["labels"].split(",") if label in at]
        return tuple(dict.fromkeys((*loose, *(following if is_guarded(last) else ())))), ()
    if name in _NEVER_RETURNS:
        return (following if is_guarded(last) else ()), ()
    target = _TARGET.search(last.text)
    taken = (at[target["label"]],) if target is not None and target["label"] in at else ()
    if ".DIV" in last.opcode:
        return following, taken
    if _ALWAYS.match(last.text):
        return taken, ()
    return tuple(dict.fromkeys((*taken, *following))), ()
