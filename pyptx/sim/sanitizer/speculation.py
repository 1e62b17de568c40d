"""Decides whether a load that races can matter: a look at the code for what becomes of its value.

Compilers let every thread of a CTA load a word of which only one thread uses the value, and begin a loop of
compare-and-swap with an ordinary load: the compare-and-swap confirms the value, or gives the right one. Both
race with a write of another thread. Accesses of one size race without harm to other values (PTX ISA,
`#limitations-on-mixed-size-data-races`), so only the use of the loaded value can make such a race a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from ...core.errors import TraceError
from ...core.records import dataclass
from ...core.source import SourceLocation
from ...flow import accesses
from ...flow.graph import Graph, control_flow
from ...ir import Address, Arguments, Function, Immediate, Instruction, Register, Special, Symbol, Vector
from ...isa import bind_instruction
from ..code.semantic import Control, Semantic, semantic_of
from ..memory.access import AccessKind, MemoryOrder, Proxy
from .agents import bits_of
from .examine import Conflict
from .records import ALL_LANES, Record
from .world import World

__all__ = ["Speculation", "Thread", "is_speculative"]

#: The value of a special register of one thread, by its name: ``tid.x``.
Thread = dict[str, int]
_WORD = 0xFFFFFFFF
#: Stands among the registers that hold a value once the register of its address has changed.
_MOVED = " moved"


@dataclass(slots=True)
class _Uses:
    """What becomes of a loaded value.

    Attributes:
        effects: instructions that need the value and do more than compute registers.
        decides: True if the value decides where a thread goes.
        confirmed: True if a compare-and-swap of the loaded word takes it as the value to compare with.
        polls: True if the thread may load again, and no compare-and-swap stands between.
    """

    effects: list[Instruction] = field(default_factory=list)
    decides: bool = False
    confirmed: bool = False
    polls: bool = False


class Speculation:
    """The functions that an entry can reach, and what becomes of the values of their loads."""

    def __init__(self, functions: list[Function]) -> None:
        self._functions = {function.name: function for function in functions}
        self._known: dict[SourceLocation | None, list[tuple[_Flow, _Uses]]] = {}

    def unused(self, location: SourceLocation | None, thread: Thread, writer: Thread) -> bool:
        """True if ``writer`` uses the value that it loads at ``location`` itself, and ``thread`` does not.

        Both have the special registers that tell the threads of a launch apart.
        """
        loads = self._loads(location)
        return bool(loads) and all(
            not uses.decides
            and not _without_effect(flow, uses, writer)
            and _without_effect(flow, uses, thread)
            for flow, uses in loads
        )

    def is_guess(self, location: SourceLocation | None, thread: Thread) -> bool:
        """True if the loaded value only decides whether, and with what, a compare-and-swap of it is tried."""
        loads = self._loads(location)
        return bool(loads) and all(
            uses.confirmed and not uses.polls and _without_effect(flow, uses, thread) for flow, uses in loads
        )

    def always(self, location: SourceLocation | None) -> bool:
        """True if no thread does anything with the loaded value but try a compare-and-swap."""
        return all(not uses.effects for _, uses in self._loads(location))

    def _loads(self, location: SourceLocation | None) -> list[tuple[_Flow, _Uses]]:
        if location not in self._known:
            self._known[location] = self._look(location)
        return self._known[location]

    def _look(self, location: SourceLocation | None) -> list[tuple[_Flow, _Uses]]:
        """Return what becomes of the values of a line's loads; nothing if the code does not show that."""
        found: list[tuple[_Flow, _Uses]] = []
        for function in self._functions.values():
            loads = [
                (index, statement)
                for index, statement in enumerate(function.body)
                if isinstance(statement, Instruction)
                and statement.source == location
                and statement.opcode == "ld"
                and "param" not in statement.modifiers
            ]
            if not loads:
                continue
            if function.kind != "entry":
                # The caller of a function may use what it returns.
                return []
            try:
                flow = _Flow(function, control_flow(function), self._functions)
            except TraceError:
                return []
            found += [(flow, flow.uses(index, load)) for index, load in loads]
        return found


def _without_effect(flow: _Flow, uses: _Uses, thread: Thread) -> bool:
    return not any(flow.may_execute(each, thread) for each in uses.effects)


def is_speculative(conflict: Conflict, world: World, code: Speculation) -> bool:
    """True if the conflict is the race of a load whose value does not matter in any of its threads."""
    check, earlier = conflict.check, conflict.record
    reads = earlier.kind is AccessKind.READ
    read, write = (earlier, conflict.later) if reads else (conflict.later, earlier)
    if read.kind is not AccessKind.READ or write.kind not in (AccessKind.WRITE, AccessKind.RMW):
        return False
    if read.size != write.size or not (_is_ordinary(read) and _is_ordinary(write)):
        return False
    strong = write.semantics is not MemoryOrder.WEAK or write.kind is AccessKind.RMW
    judged = False
    for lane, my_lane in dict.fromkeys(conflict.pairs):
        first, second = _mask(lane, earlier.mask), _mask(my_lane, check.mask)
        readers, writers = (first, second) if reads else (second, first)
        for reader in bits_of(readers):
            others = writers & ~(1 << reader) if read.key == write.key else writers
            writing = list(_threads(write, others, world))
            (thread,) = _threads(read, 1 << reader, world)
            unused = all(code.unused(read.location, thread, writer) for writer in writing)
            if writing and not unused and not (strong and code.is_guess(read.location, thread)):
                return False
            judged = judged or bool(writing)
    return judged


def _mask(lane: int, everyone: int) -> int:
    """Return the mask of the lanes that one side of a conflict has."""
    return 1 << lane if 0 <= lane < ALL_LANES else everyone


def _is_ordinary(record: Record) -> bool:
    """True for an access that threads make to data."""
    return record.proxy is Proxy.GENERIC and bool(record.mask) and not record.barrier and record.issue is None


def _threads(record: Record, mask: int, world: World) -> Iterator[Thread]:
    """Yield the special registers that tell a thread apart, for each lane of ``mask`` in a record's warp."""
    cta = world.ctas[record.cta]
    block = world.machine.grids[cta.launch].launch.block
    index = next(warp.index for warp in cta.warps if warp.key == record.key)
    for lane in bits_of(mask):
        number = 32 * index + lane
        found = {"laneid": lane}
        for axis, size, place in zip("xyz", block, cta.coordinates, strict=True):
            number, within = divmod(number, size)
            found.update({f"tid.{axis}": within, f"ntid.{axis}": size, f"ctaid.{axis}": place})
        yield found


class _Flow:
    """The flow of values in one function."""

    def __init__(self, function: Function, graph: Graph, functions: dict[str, Function]) -> None:
        self._function, self._graph, self._functions = function, graph, functions
        self._definitions: dict[str, list[Instruction]] = {}
        for instruction in function.instructions():
            for register in accesses(instruction)[1]:
                self._definitions.setdefault(register.name, []).append(instruction)

    # --- what becomes of a value ----------------------------------------------------------------

    def uses(self, statement: int, load: Instruction) -> _Uses:
        """Return what becomes of the value that the load at index ``statement`` loads."""
        found = _Uses()
        names = frozenset(register.name for register in accesses(load)[1])
        names |= _moved(load, names)
        block, position = next(
            (block.index, position)
            for block in self._graph.blocks
            for position, (index, _) in enumerate(block.instructions)
            if index == statement
        )
        pending = [(block, position + 1, names, False)]
        seen: set[tuple[int, frozenset[str], bool]] = set()
        while pending:
            number, start, alive, confirmed = pending.pop()
            for index, instruction in self._graph.blocks[number].instructions[start:]:
                if index == statement:
                    found.polls = found.polls or not confirmed
                    if load.guard is None:
                        break
                alive, confirmed = self._step(instruction, load, alive, confirmed, found)
            else:
                for successor in self._graph.blocks[number].successors:
                    state = (successor, alive, confirmed)
                    if successor >= 0 and alive and state not in seen:
                        seen.add(state)
                        pending.append((successor, 0, alive, confirmed))
        return found

    def _step(
        self,
        instruction: Instruction,
        load: Instruction,
        alive: frozenset[str],
        confirmed: bool,
        found: _Uses,
    ) -> tuple[frozenset[str], bool]:
        """Return the registers that hold the value behind an instruction, and if a swap has confirmed it."""
        reads, writes = _names(instruction)
        written = frozenset(writes)
        alive |= _moved(load, written)
        if not alive & set(reads):
            return (alive if instruction.guard is not None else alive - written), confirmed
        meaning = semantic_of(bind_instruction(instruction).form_id)
        control = None if meaning is None else meaning.control
        guard = instruction.guard is not None and instruction.guard.register.name in alive
        if control is Control.BRANCH:
            found.decides = True
        elif self._confirms(instruction, load, alive) and not guard:
            found.confirmed = True
            return alive - written, True
        elif control is Control.CALL and not guard and self._is_pure(instruction):
            return alive | written, confirmed
        elif meaning is None or control is not None or not _computes(instruction, meaning):
            found.effects.append(instruction)
        else:
            return alive | written, confirmed
        return alive, confirmed

    def _confirms(self, instruction: Instruction, load: Instruction, alive: frozenset[str]) -> bool:
        """True for a compare-and-swap of the loaded word with the loaded value, or with one made from it."""
        if instruction.opcode != "atom" or "cas" not in instruction.modifiers:
            return False
        loaded, (place, compared) = load.operands[1], instruction.operands[1:3]
        if not isinstance(place, Address) or not isinstance(loaded, Address):
            return False
        same = (place.base, place.offset) == (loaded.base, loaded.offset) and _MOVED not in alive
        return same and isinstance(compared, Register) and compared.name in alive

    def _is_pure(self, call: Instruction) -> bool:
        """True if a call only computes what it returns."""
        named = [operand.name for operand in call.operands if isinstance(operand, Symbol)]
        called = self._functions.get(named[0]) if named else None
        if called is None:
            return False
        for instruction in called.instructions():
            meaning = semantic_of(bind_instruction(instruction).form_id)
            ends = instruction.opcode == "ret" and instruction.guard is None
            if not ends and (meaning is None or not _computes(instruction, meaning)):
                return False
        return True

    # --- which threads execute an instruction -----------------------------------------------------

    def may_execute(self, instruction: Instruction, thread: Thread) -> bool:
        """False if the guard of an instruction is false in this thread, which its numbers alone decide."""
        if instruction.guard is None:
            return True
        value = self._value(instruction.guard.register, thread)
        return value is None or bool(value) != instruction.guard.negated

    def _value(self, operand: object, thread: Thread) -> int | None:
        """Return an integer of 32 bits or a predicate if the thread's numbers decide it, else None."""
        if isinstance(operand, Immediate):
            return operand.value & _WORD if isinstance(operand.value, int) else None
        if isinstance(operand, Special):
            return thread.get(operand.name)
        if not isinstance(operand, Register):
            return None
        made = self._definitions.get(operand.name, ())
        if len(made) != 1 or made[0].guard is not None or len(accesses(made[0])[1]) != 1:
            return None
        compute = _COMPUTED.get(made[0].opcode)
        if compute is None or made[0].modifiers[-1] not in _TYPES:
            return None
        values = [self._value(each, thread) for each in made[0].operands[1:]]
        if made[0].opcode == "and" and 0 in values:
            return 0
        known = [value for value in values if value is not None]
        return compute(made[0].modifiers, *known) if len(known) == len(values) else None


#: Types of 32 bits, and predicates: the values that :meth:`_Flow._value` computes.
_TYPES = ("u32", "s32", "b32", "pred")


def _compare(modifiers: tuple[str, ...], a: int, b: int) -> int | None:
    if len(modifiers) != 2:
        return None
    if modifiers[1] == "s32":
        a, b = a - (a >> 31 << 32), b - (b >> 31 << 32)
    name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(modifiers[0], modifiers[0])
    results = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    return int(results[name]) if name in results else None


def _shift_right(modifiers: tuple[str, ...], a: int, b: int) -> int:
    signed = a - (a >> 31 << 32) if modifiers[-1] == "s32" else a
    return signed >> min(b, 31) & _WORD if modifiers[-1] == "s32" or b < 32 else 0


def _low(modifiers: tuple[str, ...], value: int) -> int | None:
    """Return the low word, for instructions without saturation."""
    return None if "sat" in modifiers else value & _WORD


_COMPUTED: dict[str, Callable[..., int | None]] = {
    "mov": lambda m, a: a,
    "and": lambda m, a, b: a & b,
    "or": lambda m, a, b: a | b,
    "xor": lambda m, a, b: a ^ b,
    "not": lambda m, a: int(not a) if m[-1] == "pred" else a ^ _WORD,
    "add": lambda m, a, b: _low(m, a + b),
    "sub": lambda m, a, b: _low(m, a - b),
    "shl": lambda m, a, b: a << b & _WORD if b < 32 else 0,
    "shr": _shift_right,
    "setp": _compare,
}


def _moved(load: Instruction, written: frozenset[str]) -> frozenset[str]:
    """Return the mark of a changed address if one of the written registers is that of the load's address."""
    place = load.operands[1]
    moved = isinstance(place, Address) and isinstance(place.base, Register) and place.base.name in written
    return frozenset({_MOVED}) if moved else frozenset()


def _names(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Return the names of the registers, and of the parameters of a call, that are read and written."""
    reads, writes = ([register.name for register in found] for found in accesses(instruction))
    if "param" in instruction.modifiers and instruction.opcode in ("ld", "st"):
        place = next((o for o in instruction.operands if isinstance(o, Address)), None)
        if place is not None and isinstance(place.base, Symbol):
            (reads if instruction.opcode == "ld" else writes).append(place.base.name)
    elif instruction.opcode == "call":
        lists = [list(_symbols(o)) for o in instruction.operands if isinstance(o, Arguments)]
        returns = isinstance(instruction.operands[0], Arguments)
        for number, names in enumerate(lists):
            (writes if returns and not number else reads).extend(names)
    return reads, writes


def _symbols(arguments: Arguments) -> Iterator[str]:
    for element in arguments.elements:
        if isinstance(element, (Symbol, Register)):
            yield element.name
        elif isinstance(element, Vector):
            yield from (each.name for each in element.elements if isinstance(each, Register))


def _computes(instruction: Instruction, meaning: Semantic) -> bool:
    """True if an instruction only computes registers of its own thread, or passes an argument of a call."""
    if "param" in instruction.modifiers and instruction.opcode in ("ld", "st"):
        return True
    carries = "cc" in instruction.modifiers
    return meaning.per == "value" and not meaning.collective and not carries
