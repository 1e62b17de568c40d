"""Values that hardware chooses, and where they go: clocks, %smid, masks of active lanes, answers of waits.

Owns a look at the text of each function that ran: it follows such values through registers to the
instructions that use them. A predicate, an address, a stored value or any other effect that depends on one
competes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal
from weakref import WeakKeyDictionary

from ...core.records import dataclass
from ...flow import accesses, control_flow
from ...ir import Instruction, Register, Special, Symbol, leaves, registers_of
from ...isa.special import CLOCKS
from ..code.function import FunctionCode
from ..code.semantic import Semantic, semantic_of
from .competing import Ledger
from .retries import PureRetries

__all__ = ["Kind", "check_choices", "is_copy"]

#: Special registers whose values hardware chooses when it runs the kernel.
_CHOSEN = CLOCKS | {"smid", "warpid"}
#: What was found in each function, by the statements whose loads are open: launches share the functions.
_FOUND: WeakKeyDictionary[FunctionCode, dict[frozenset[tuple[int, Kind]], Ledger]] = WeakKeyDictionary()
_ELECTED = "elect.sync takes the lowest lane of its member mask"


#: What is chosen: the count in the state of an mbarrier, the number of a column, the encoding of an answer of
#: launch control, or anything.
Kind = Literal["any", "state", "column", "answer"]
_NAMES: dict[Kind, str] = {
    "column": "tcgen05.alloc",
    "answer": "clusterlaunchcontrol.try_cancel",
    "any": "a part of an answer of clusterlaunchcontrol.try_cancel",
}


@dataclass(frozen=True, slots=True)
class _Source:
    """An instruction whose result hardware chooses, and the kind of the result."""

    name: str
    instruction: Instruction
    kind: Kind = "any"


class _Function:
    """One function, whose chosen values are followed through its registers."""

    def __init__(self, code: FunctionCode, loads: Mapping[int, Kind], ledger: Ledger) -> None:
        self._code, self._loads, self._ledger = code, loads, ledger
        self._statements = [
            (index, statement)
            for index, statement in enumerate(code.function.body)
            if isinstance(statement, Instruction)
        ]
        #: For each register, a source on which its value may depend.
        self._chosen: dict[str, _Source] = {}

    def check(self) -> None:
        retries: PureRetries | None = None
        for index, instruction in self._statements:
            meaning = self._meaning(instruction)
            if meaning is not None and meaning.takes_launches:
                self._ledger.competes(
                    f'{instruction.name}: which clusters it cancels (launch_control="every" runs all cases)',
                    instruction.source,
                    assigned=True,
                )
            if meaning is not None and meaning.varies == "lane":
                self._ledger.assume(_ELECTED)
            for leaf in self._names(instruction):
                if isinstance(leaf, Symbol) and leaf.name == "malloc":
                    self._ledger.competes("malloc: the address that it returns", instruction.source)
            source = self._source(index, instruction, meaning)
            if source is None:
                continue
            if meaning is not None and meaning.varies == "answer":
                retries = retries or PureRetries(self._code, control_flow(self._code.function))
                if retries.pure(index, instruction):
                    continue
            for register in accesses(instruction)[1]:
                self._mark(register.name, source)
        if self._chosen:
            self._spread()
            self._uses()

    def _meaning(self, instruction: Instruction) -> Semantic | None:
        return semantic_of(self._code.program.image.bind(instruction).form_id)

    @staticmethod
    def _names(instruction: Instruction) -> Iterator[object]:
        for operand in instruction.operands:
            if operand.__class__ is not Register:
                yield from leaves(operand)

    def _source(self, index: int, instruction: Instruction, meaning: Semantic | None) -> _Source | None:
        if index in self._loads:
            kind = self._loads[index]
            return _Source(_NAMES[kind], instruction, kind)
        for leaf in self._names(instruction):
            if isinstance(leaf, Special) and leaf.name in _CHOSEN:
                return _Source(f"%{leaf.name}", instruction)
        if meaning is None or meaning.varies in ("", "lane"):
            return None
        return _Source(instruction.name, instruction, "state" if meaning.varies == "state" else "any")

    def _computes(self, meaning: Semantic | None) -> bool:
        """True if an instruction only computes registers of its warp."""
        return meaning is not None and (meaning.per == "value" or meaning.registers_only)

    def _spread(self) -> None:
        """Mark all registers that are computed from chosen values."""
        changed = True
        while changed:
            changed = False
            for _, instruction in self._statements:
                if not self._computes(self._meaning(instruction)):
                    continue
                reads, writes = accesses(instruction)
                for source in [self._chosen[r.name] for r in reads if r.name in self._chosen]:
                    if source.kind == "answer" and not is_copy(instruction):
                        # What the bits of an answer mean is the hardware's choice.
                        source = replace(source, kind="any")
                    for register in writes:
                        changed |= self._mark(register.name, source)

    def _mark(self, name: str, source: _Source) -> bool:
        """Mark a register; return True if it was not marked so before."""
        before = self._chosen.get(name)
        if before is None:
            self._chosen[name] = source
            return True
        if before.kind in ("any", source.kind):
            return False
        # Values of different kinds together: no instruction may use them.
        self._chosen[name] = replace(source, kind="any")
        return True

    def _uses(self) -> None:
        """List the instructions with an effect that depends on a chosen value."""
        for _, instruction in self._statements:
            meaning = self._meaning(instruction)
            used = [each.name for each in accesses(instruction)[0] if each.name in self._chosen]
            if self._computes(meaning):
                assert meaning is not None
                # A collective depends on its member mask and on the guard in another way than on its data.
                if not meaning.collective:
                    continue
                used = [name for name in used if name in self._controls(instruction)]
            for name in used:
                source = self._chosen[name]
                if name in self._allowed(instruction, meaning, source.kind):
                    continue
                self._ledger.competes(
                    f"{source.name}: hardware chooses its result, and {instruction.name} uses it",
                    source.instruction.source,
                    instruction.source,
                )

    def _controls(self, instruction: Instruction) -> set[str]:
        binding = self._code.program.image.bind(instruction)
        mask = binding.operands.get("membermask")
        names = {register.name for register in registers_of(mask)} if mask is not None else set()
        return names | ({instruction.guard.register.name} if instruction.guard is not None else set())

    def _allowed(self, instruction: Instruction, meaning: Semantic | None, kind: Kind) -> set[str]:
        """Return the registers that an instruction may use although their values are chosen.

        The state of an mbarrier names a phase, and a wait reads nothing else of it. The number of a column
        says where an instruction accesses tensor memory. An answer of launch control is decoded.
        """
        if kind == "any" or meaning is None or (kind == "state" and meaning.varies != "answer"):
            return set()
        if kind == "answer" and not meaning.decodes_answer:
            return set()
        binding = self._code.program.image.bind(instruction)
        allowed: set[str] = set()
        others: set[str] = set() if instruction.guard is None else {instruction.guard.register.name}
        for name, operand in binding.operands.items():
            spec = binding.specs[name]
            if kind == "state":
                fits = name == "state"
            elif kind == "answer":
                fits = spec.access != "w"
            else:
                fits = spec.space == "tensor" or name == "taddr"
            names = {register.name for register in registers_of(operand)}
            allowed |= names if fits else set()
            others |= names if not fits and spec.access != "w" else set()
        return allowed - others


def is_copy(instruction: Instruction) -> bool:
    """True if an instruction copies one register to another."""
    reads, writes = accesses(instruction)
    return instruction.opcode == "mov" and instruction.guard is None and len(reads) == len(writes) == 1


def check_choices(code: FunctionCode, loads: Mapping[int, Kind], ledger: Ledger) -> None:
    """List the values that hardware chooses in a function, if an effect depends on them.

    ``loads`` has the statements that load bytes which hardware chooses, such as the number of a column of
    tensor memory that is open.
    """
    known = _FOUND.setdefault(code, {})
    key = frozenset(loads.items())
    found = known.get(key)
    if found is None:
        found = known[key] = Ledger()
        _Function(code, loads, found).check()
    ledger.add(found)
