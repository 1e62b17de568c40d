"""Finds the loops of a function that do nothing but poll a word of memory (:mod:`.polls`)."""

from __future__ import annotations

from dataclasses import field
from weakref import WeakKeyDictionary

from ...core.records import dataclass
from ...flow import Block, accesses, control_flow, read_from
from ...flow.graph import EXIT
from ...ir import Immediate, Instruction, Register, leaves
from ..code.emitter import CLASS_BITS
from ..code.function import FunctionCode
from ..code.semantic import Op, RegisterPlace, semantic_of
from ..semantics.atomics import operation_of
from .polls import Origin, Poll, Polls

__all__ = ["polls_of"]

#: Instructions whose results depend on nothing but their operands: they may compute the predicate of a loop.
_COMPUTING = frozenset(
    {"mov", "and", "or", "xor", "not", "neg", "add", "sub", "mul", "mad", "shl", "shr", "min", "max"}
    | {"setp", "set", "selp", "cvt", "lop3", "bfe"}
)
_FOUND: WeakKeyDictionary[FunctionCode, Polls] = WeakKeyDictionary()


def polls_of(code: FunctionCode) -> Polls:
    """Return the loops of a function that poll a word of memory."""
    found = _FOUND.get(code)
    if found is None:
        found = _FOUND[code] = Polls()
        body = [each for each in code.function.body if isinstance(each, Instruction)]
        if any(each.opcode == "bra" for each in body) and any(_is_load(each) for each in body):
            _Search(code).fill(found)
    return found


def _is_load(instruction: Instruction) -> bool:
    return instruction.opcode == "ld" and instruction.guard is None


@dataclass(eq=False, slots=True)
class _Way:
    """A way through the code: its statements, branches left out, and its blocks.

    It ends at the statement that was looked for (``arrives``), at a choice, or at neither.
    """

    passed: list[tuple[int, Instruction]] = field(default_factory=list)
    blocks: set[int] = field(default_factory=set)
    arrives: bool = False
    choice: Block | None = None


class _Search:
    """Looks for the polling loops of one function."""

    def __init__(self, code: FunctionCode) -> None:
        self._code = code
        self._graph = control_flow(code.function)
        self._places = {
            index: (block, position)
            for block in self._graph.blocks
            for position, (index, _) in enumerate(block.instructions)
        }
        self._statements = [each for block in self._graph.blocks for each in block.instructions]
        self._ops = {
            op.statement: op for block in code.program.blocks if block.code is code for _, op in block.ops
        }
        #: The blocks of each loop that was found, by its load, and the registers that its passes change.
        self._blocks: dict[int, set[int]] = {}
        self._changed: dict[int, set[str]] = {}

    def fill(self, found: Polls) -> None:
        for index, instruction in self._statements:
            if _is_load(instruction):
                poll = self._poll(index, instruction)
                if poll is not None:
                    found.loops[index] = poll
        if found.loops:
            self._originate(found)
            for index, instruction in self._statements:
                if instruction.opcode == "atom" and instruction.guard is None:
                    found.before |= {index} if self._leads_to_loop(index, found) else set()

    # --- one loop -------------------------------------------------------------------------------

    def _poll(self, load: int, instruction: Instruction) -> Poll | None:
        """Return the loop that begins with a load, or None if there is none that only polls."""
        block, position = self._places[load]
        before = self._walk(block, position + 1, load)
        choice = before.choice
        if choice is None or choice.taken is None or choice.fallthrough is None:
            return None
        branch, jump = choice.instructions[-1]
        assert jump.guard is not None
        ways = [self._from(choice.taken, load), self._from(choice.fallthrough, load)]
        if ways[0].arrives is ways[1].arrives:
            return None
        taken_ends = ways[1].arrives
        after = ways[1] if taken_ends else ways[0]
        value = self._whole(load, instruction)
        if value is None:
            return None
        passed = [*before.passed, *after.passed]
        changed = {value} | {name for _, each in passed for name in self._written(each)}
        found = self._slice(before.passed, {jump.guard.register.name})
        if found is None or value not in found[1] or not self._pure(load, passed, value, changed):
            return None
        steps, needed = found
        inputs = needed - {value}
        leading = {number for number, _ in block.instructions[:position]}
        # What only passes that go on compute depends on how many there are.
        counted = {
            name for number, each in after.passed if number not in leading for name in self._written(each)
        }
        leaves_to = choice.taken if taken_ends else choice.fallthrough
        if inputs & changed or read_from(self._graph, leaves_to, frozenset(counted)):
            return None
        self._blocks[load], self._changed[load] = before.blocks | after.blocks, changed
        return Poll(
            self._code,
            load,
            branch,
            self._code.places[value],
            steps,
            self._code.places[jump.guard.register.name],
            # The branch is taken if the guard holds.
            taken_ends is not jump.guard.negated,
            self._registers(inputs),
            read_from(self._graph, leaves_to, frozenset(changed)),
        )

    def _from(self, target: int, load: int) -> _Way:
        return _Way() if target == EXIT else self._walk(self._graph.blocks[target], 0, load)

    def _walk(self, block: Block, position: int, end: int, *, waits: bool = False) -> _Way:
        """Follow the way from a statement until ``end``, a choice, or an instruction with an effect.

        With ``waits``, fences are no effect.
        """
        way = _Way()
        for _ in range(len(self._graph.blocks) + 2):
            way.blocks.add(block.index)
            following = block.fallthrough
            for number, instruction in block.instructions[position:]:
                if number == end:
                    way.arrives = True
                    return way
                if instruction.opcode == "bra":
                    if instruction.guard is not None and block.taken != block.fallthrough:
                        way.choice = block
                        return way
                    following = block.taken
                    continue
                fence = waits and instruction.opcode in ("fence", "membar")
                if not fence and not self._harmless(instruction):
                    return way
                way.passed.append((number, instruction))
            if following is None or following == EXIT:
                return way
            block, position = self._graph.blocks[following], 0
        return way

    def _harmless(self, instruction: Instruction) -> bool:
        """True if an instruction of a pass only computes registers, or lets some time pass."""
        if instruction.guard is not None:
            return False
        return instruction.opcode == "nanosleep" or self._computes(instruction)

    def _computes(self, instruction: Instruction) -> bool:
        meaning = semantic_of(self._code.program.image.bind(instruction).form_id)
        return meaning is not None and meaning.per == "value"

    def _slice(
        self, passed: list[tuple[int, Instruction]], wanted: set[str]
    ) -> tuple[tuple[Op, ...], set[str]] | None:
        """Return the operations that compute some registers, and the registers that these need from before.

        None if the registers depend on something else than registers.
        """
        needed, steps = set(wanted), []
        for number, instruction in reversed(passed):
            names = self._written(instruction)
            if not names & needed:
                continue
            plain = instruction.opcode in _COMPUTING and instruction.guard is None
            if not plain or not self._of_registers(instruction):
                return None
            needed = needed - names | self._read(instruction)
            steps.append(self._ops[number])
        if not needed <= self._code.places.keys():
            return None
        return tuple(steps[::-1]), needed

    @staticmethod
    def _of_registers(instruction: Instruction) -> bool:
        """True if all operands are registers or constants, and the carry flag is no operand."""
        return "cc" not in instruction.name.split(".") and all(
            isinstance(leaf, Register | Immediate)
            for operand in instruction.operands
            for leaf in leaves(operand)
        )

    def _pure(self, load: int, passed: list[tuple[int, Instruction]], value: str, changed: set[str]) -> bool:
        """True if no pass reads what the one before has computed, and all load from the same address."""
        block, position = self._places[load]
        leading = {number for number, _ in block.instructions[:position]}
        written = {value}
        # Registers that each pass computes anew from what no pass changes, the first pass included.
        fixed: set[str] = set()
        for number, instruction in passed:
            names = self._read(instruction)
            if names & (changed - written):
                return False
            made = self._written(instruction)
            if number in leading and not names & (changed - fixed):
                fixed |= made - written
            else:
                fixed -= made
            written |= made
        address = self._code.function.body[load]
        assert isinstance(address, Instruction)
        return not self._read(address) & (changed - fixed)

    def _whole(self, load: int, instruction: Instruction) -> str | None:
        """Return the register that a load fills with 32 or 64 bits; None for other loads."""
        op, written = self._ops.get(load), self._written(instruction)
        if op is None or len(written) != 1 or "vec" in op.chosen:
            return None
        (name,) = written
        place = self._code.places.get(name)
        bits = op.chosen.get("type", "")[1:]
        if place is None or bits not in ("32", "64") or CLASS_BITS[place.cls] != int(bits):
            return None
        return name

    def _leads_to_loop(self, index: int, found: Polls) -> bool:
        """True if nothing with an effect but fences comes between a statement and a polling loop."""
        block, position = self._places[index]
        return any(self._walk(block, position + 1, load, waits=True).arrives for load in found.loops)

    # --- old values of additions ----------------------------------------------------------------

    def _originate(self, found: Polls) -> None:
        """Find additions whose old values only the predicates of polling loops need."""
        branches = {poll.branch for poll in found.loops.values()}
        depending: dict[int, set[str]] = {}
        for index, instruction in self._statements:
            if instruction.opcode == "atom" and instruction.guard is None:
                names = self._depending(index, instruction, branches)
                if names is not None:
                    depending[index] = names
        tainted: set[str] = set().union(*depending.values())
        for poll in found.loops.values():
            for index in depending:
                poll.origin = poll.origin or self._origin(index, tainted, poll)
        # A loop without an origin, whose predicate depends on old values, could get them from anywhere.
        open_names = set[str]()
        for poll in found.loops.values():
            if poll.origin is None:
                open_names |= {name for name in tainted if self._code.places[name] in poll.inputs}
        found.quiet = {index for index, names in depending.items() if not names & open_names}

    def _depending(self, index: int, instruction: Instruction, branches: set[int]) -> set[str] | None:
        """Return the registers that depend on the old value of an addition.

        None if the value has an effect besides the ends of polling loops, or if no such loop needs it.
        """
        op = self._ops[index]
        names = self._written(instruction)
        if len(names) != 1 or not names <= self._code.places.keys() or operation_of(op)[0] != "add":
            return None
        ends = False
        while True:
            before = len(names)
            for number, each in self._statements:
                if not self._read(each) & names:
                    continue
                if number in branches:
                    ends = True
                    continue
                if each.guard is not None or not self._computes(each):
                    return None
                names |= self._written(each)
            if len(names) == before:
                return names if ends else None

    def _origin(self, index: int, tainted: set[str], poll: Poll) -> Origin | None:
        """Return how a loop's predicate depends on an addition right before the loop; None if it does not."""
        block, position = self._places[index]
        way = self._walk(block, position + 1, poll.statement, waits=True)
        if not way.arrives:
            return None
        inside = way.blocks | self._blocks[poll.statement]
        for other in self._graph.blocks:
            # Each way to the loop must come from the addition.
            if other.index not in inside and set(other.successors) & (inside - {block.index}):
                return None
        (result,) = (op_name for op_name in self._written(self._instruction(index)))
        names = {name for name, place in self._code.places.items() if place in poll.inputs}
        found = self._slice(way.passed, names)
        if found is None or result not in found[1]:
            return None
        steps, needed = found
        others = needed - {result}
        made = {name for _, each in way.passed for name in self._written(each)}
        if others & (tainted | made | self._changed[poll.statement]):
            return None
        place = self._code.places[result]
        return Origin(index, place, steps, self._registers(others))

    # --- instructions ---------------------------------------------------------------------------

    def _instruction(self, index: int) -> Instruction:
        found = self._code.function.body[index]
        assert isinstance(found, Instruction)
        return found

    def _read(self, instruction: Instruction) -> set[str]:
        binding = self._code.program.image.bind(instruction)
        return {register.name for register in accesses(instruction, binding)[0]}

    def _written(self, instruction: Instruction) -> set[str]:
        binding = self._code.program.image.bind(instruction)
        return {register.name for register in accesses(instruction, binding)[1]}

    def _registers(self, names: set[str]) -> tuple[RegisterPlace, ...]:
        return tuple(self._code.places[name] for name in sorted(names))
