"""The values that the integer registers of a function can have: an interval for each, at each instruction.

Owns the states of the analysis, and the effect of instructions and branches on them. A branch narrows the
values that its comparison concerns. What is not known about a parameter or a loaded value stays unknown; a
value is assumed not to wrap where it has no upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from ..core.records import dataclass
from ..core.types import TYPES, ScalarType
from ..ir import Address, Instruction, Operand, Pair, Register, Symbol, registers_of
from ..isa import Binding, bind_instruction
from .graph import Block, Graph
from .integer_results import integer_result, value_of
from .intervals import UNKNOWN, Interval, hull, refined, widened
from .registers import accesses

__all__ = ["Ranges", "State"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``a name b`` as ``kind``, which holds or does not."""

    name: str
    kind: ScalarType
    a: Operand
    b: Operand
    holds: bool


#: What is known if a predicate is true, and if it is false.
_Facts = tuple[tuple[Comparison, ...], tuple[Comparison, ...]]
_NOTHING: _Facts = ((), ())
#: Opcodes that compute a predicate from a comparison or from other predicates.
_PREDICATES = frozenset({"setp", "and", "or", "not", "mov"})


@dataclass(slots=True)
class State:
    """What is known at one place: intervals of registers, and what predicates mean."""

    values: dict[str, Interval] = field(default_factory=dict)
    facts: dict[str, _Facts] = field(default_factory=dict)
    #: Predicates whose meaning mentions a register.
    mentions: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.values), dict(self.facts), dict(self.mentions))

    def write(self, name: str, value: Interval) -> None:
        """Record a write of a register: what predicates said about the old value is lost."""
        for predicate in self.mentions.pop(name, ()):
            self.facts.pop(predicate, None)
        self.facts.pop(name, None)
        if value == UNKNOWN:
            self.values.pop(name, None)
        else:
            self.values[name] = value

    def mean(self, predicate: str, facts: _Facts) -> None:
        """Record what a predicate means, after :meth:`write` of the predicate."""
        self.facts[predicate] = facts
        for comparison in (*facts[0], *facts[1]):
            for operand in (comparison.a, comparison.b):
                if isinstance(operand, Register):
                    known = self.mentions.get(operand.name, ())
                    if predicate not in known:
                        self.mentions[operand.name] = (*known, predicate)

    def joined(self, other: State) -> State:
        """Return what holds in both states."""
        values = {
            name: hull(value, other.values[name])
            for name, value in self.values.items()
            if name in other.values
        }
        joined = State({name: value for name, value in values.items() if value != UNKNOWN})
        for predicate, facts in self.facts.items():
            if other.facts.get(predicate) == facts:
                joined.mean(predicate, facts)
        return joined

    def widened(self, new: State) -> State:
        """Return ``new`` with the bounds that have grown made infinite."""
        for name, value in list(new.values.items()):
            wide = widened(self.values[name], value) if name in self.values else value
            if wide == UNKNOWN:
                del new.values[name]
            else:
                new.values[name] = wide
        return new

    def same(self, other: State) -> bool:
        return self.values == other.values and self.facts == other.facts


@dataclass(frozen=True)
class _Decoded:
    """An instruction with what the analysis reads of it: its binding and the registers that it writes."""

    index: int
    instruction: Instruction
    binding: Binding
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Ranges:
    """The result of the analysis.

    Attributes:
        graph: the control-flow graph.
        inputs: for each block that a path reaches, what is known before it. Paths whose comparisons
            contradict each other are left out.
    """

    graph: Graph
    inputs: Mapping[int, State]
    specials: Mapping[str, Interval]
    params: Mapping[str, Interval]

    @cached_property
    def _code(self) -> dict[int, tuple[_Decoded, ...]]:
        return {block.index: _decoded(block) for block in self.graph.blocks}

    def states(self, block: int) -> Iterator[tuple[int, Instruction, Binding, State]]:
        """Yield the instructions of a reached block that its guards do not exclude, with the state before.

        The state is changed when the iteration goes on.
        """
        state = self.inputs[block].copy()
        for each in self._code[block]:
            guard = each.instruction.guard
            there = state if guard is None else self._assumed(state, guard.register.name, not guard.negated)
            if there is not None:
                yield each.index, each.instruction, each.binding, there
            self._execute(each, state, there)

    def value(self, operand: Operand, state: State) -> Interval:
        """Return the interval of an operand in a state."""
        return value_of(operand, state.values, self.specials)

    def following(self, block: Block, state: State) -> Iterator[tuple[int, State]]:
        """Yield each block that may follow, with what is known then. ``state`` is that before ``block``."""
        state = state.copy()
        for each in self._code[block.index]:
            guard = each.instruction.guard
            there = state if guard is None else self._assumed(state, guard.register.name, not guard.negated)
            self._execute(each, state, there)
        last = block.instructions[-1][1] if block.instructions else None
        guard = last.guard if last is not None and block.taken is not None else None
        for successor in block.successors:
            if successor < 0:
                continue
            after: State | None = state
            if guard is not None and block.taken != block.fallthrough:
                taken = successor == block.taken
                after = self._assumed(state, guard.register.name, taken != guard.negated)
            if after is not None:
                yield successor, after

    # --- one instruction ----------------------------------------------------------------------

    def _execute(self, each: _Decoded, state: State, there: State | None) -> None:
        """Change ``state`` to that after the instruction; ``there`` is the state if its guard is true."""
        if there is None or not each.writes:
            return
        operands = each.binding.operands
        result = self._result(each, there)
        kept = [state.values.get(name, UNKNOWN) for name in each.writes]
        compares = each.instruction.opcode in _PREDICATES and each.instruction.guard is None
        facts = self._meaning(each, there) if compares else {}
        for number, (name, old) in enumerate(zip(each.writes, kept, strict=True)):
            value = result if number == 0 else UNKNOWN
            state.write(name, value if each.instruction.guard is None else hull(value, old))
        if not facts:
            return
        own = {r.name for operand in operands.values() for r in registers_of(operand)} & set(each.writes)
        for predicate, meaning in facts.items():
            if not any(_reads(comparison, own) for side in meaning for comparison in side):
                state.mean(predicate, meaning)

    def _result(self, each: _Decoded, state: State) -> Interval:
        address = each.binding.operands.get("a")
        if each.instruction.opcode == "ld" and isinstance(address, Address):
            base = address.base
            whole = isinstance(base, Symbol) and not address.offset and not base.offset
            return self.params.get(base.name, UNKNOWN) if whole and isinstance(base, Symbol) else UNKNOWN
        return integer_result(each.binding, state.values, self.specials)

    def _meaning(self, each: _Decoded, state: State) -> dict[str, _Facts]:
        """Return what the predicates mean that the instruction writes."""
        binding, operands = each.binding, each.binding.operands
        if binding.form_id == "setp" or (binding.form_id == "setp.bool" and "ftz" not in binding.chosen):
            kind = TYPES[binding.chosen["type"]]
            if kind.kind == "f":
                return {}
            yes, no = (
                (Comparison(binding.chosen["cmp"], kind, operands["a"], operands["b"], holds),)
                for holds in (True, False)
            )
            facts: _Facts = yes, no
            if binding.form_id == "setp.bool":
                facts = _combined(binding.chosen["bool"], facts, self._facts(operands["c"], state))
            first = next(iter(operands.values()))
            if isinstance(first, Pair):
                if not isinstance(first.first, Register) or not isinstance(first.second, Register):
                    return {}
                swapped = (facts[1], facts[0]) if binding.form_id == "setp" else _NOTHING
                return {first.first.name: facts, first.second.name: swapped}
            return {first.name: facts} if isinstance(first, Register) else {}
        if binding.form_id in ("and", "or", "not", "mov") and binding.chosen["type"] == "pred":
            found = self._facts(operands["a"], state)
            if binding.form_id == "not":
                found = found[1], found[0]
            elif binding.form_id != "mov":
                found = _combined(binding.form_id, found, self._facts(operands["b"], state))
            return {each.writes[0]: found}
        return {}

    @staticmethod
    def _facts(operand: Operand, state: State) -> _Facts:
        return state.facts.get(operand.name, _NOTHING) if isinstance(operand, Register) else _NOTHING

    def _assumed(self, state: State, predicate: str, truth: bool) -> State | None:
        """Return the state if the predicate has this value, or None if it cannot."""
        facts = state.facts.get(predicate)
        if facts is None or not facts[0 if truth else 1]:
            return state
        state = state.copy()
        for each in facts[0 if truth else 1]:
            a, b = (self.value(operand, state) for operand in (each.a, each.b))
            found = refined(a, b, each.name, each.kind, each.holds)
            if found is None:
                return None
            for operand, value in zip((each.a, each.b), found, strict=True):
                if isinstance(operand, Register) and value != UNKNOWN:
                    state.values[operand.name] = value
        return state


def _reads(comparison: Comparison, names: set[str]) -> bool:
    operands = (comparison.a, comparison.b)
    return any(isinstance(operand, Register) and operand.name in names for operand in operands)


def _combined(operator: str, a: _Facts, b: _Facts) -> _Facts:
    if operator == "and":
        return (*a[0], *b[0]), ()
    return ((), (*a[1], *b[1])) if operator == "or" else _NOTHING


def _decoded(block: Block) -> tuple[_Decoded, ...]:
    found = []
    for index, instruction in block.instructions:
        binding = bind_instruction(instruction)
        writes = dict.fromkeys(register.name for register in accesses(instruction, binding)[1])
        found.append(_Decoded(index, instruction, binding, tuple(writes)))
    return tuple(found)
