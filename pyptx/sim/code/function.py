"""Prepares one PTX function to run: places its registers and local variables, and forms basic blocks.

Owns everything about a function that does not depend on a launch. :mod:`.translate` generates the Python code
of a block when the block first runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.source import SourceLocation
from ...flow import (
    Block,
    Graph,
    accesses,
    control_flow,
    maybe_undefined,
    read_after,
    read_from,
    reconvergence,
)
from ...flow.graph import EXIT
from ...ir import (
    Address,
    Arguments,
    Element,
    Function,
    Indexed,
    Instruction,
    Operand,
    Pair,
    Param,
    Raw,
    Register,
    ScopeMark,
    Special,
    Symbol,
    Variable,
    Vector,
    leaves,
)
from ...isa import Binding, bind_instruction
from ..memory.access import StateSpace
from ..memory.segments import Fault
from .interleaving import interleaving_cuts, waiting_cuts
from .semantic import CLASSES, Collective, Control, Op, RegisterPlace, Semantic, semantic_of
from .spaces import named_space

if TYPE_CHECKING:
    from .program import EntryProgram

__all__ = [
    "CallSite",
    "FunctionCode",
    "CodeBlock",
    "component_names",
    "element_place",
]

#: Special registers whose value comes from a driver, a debugger or a performance monitor.
_WITHOUT_VALUE = re.compile(r"pm\d|envreg(?![12]$)|current_graph_exec|perctamemory")
_CLASS_OF_BITS = {1: "p", 8: "16", 16: "16", 32: "32", 64: "64", 128: "128"}
_COMPONENTS = {"x": "x", "y": "y", "z": "z", "w": "w", "r": "x", "g": "y", "b": "z", "a": "w"}
#: Number of statements between two checks of the time.
_CHECKED = 256
#: The largest number of operations in a block: generated functions stay small enough to compile fast.
_LONGEST = 400
#: Least number of operations in a row that get a block of their own, which several warps execute together.
_WORTHWHILE = 6


def _computes(instruction: Instruction) -> bool:
    """True if an instruction does nothing but compute registers of its own lane."""
    known = semantic_of(bind_instruction(instruction).form_id)
    return known is not None and known.control is None and known.per == "value"


def round_up(value: int, multiple: int) -> int:
    return (value + multiple - 1) // multiple * multiple


def element_place(register: Register, selector: str) -> str:
    """Return the key of a vector register's component, such as ``%v.x``, in :attr:`FunctionCode.places`."""
    return f"{register.name}.{_COMPONENTS[selector]}"


def component_names(register: Register | Param) -> list[str]:
    """Return the keys of a register in :attr:`FunctionCode.places`: one for each component of a vector."""
    if register.vector == 1:
        return [register.name]
    return [f"{register.name}.{component}" for component in "xyzw"[: register.vector]]


@dataclass(frozen=True, eq=False)
class CallSite:
    """One ``call`` instruction: callee, arguments and results.

    ``callee`` is the function's name, or the place of the register that holds the function's address.
    """

    instruction: Instruction
    callee: str | RegisterPlace
    arguments: tuple[Operand, ...]
    results: tuple[Operand, ...]


@dataclass(eq=False)
class CodeBlock:
    """A basic block: its instructions, how it ends, and its generated functions (None until first used).

    ``taken`` and ``next`` are the numbers in the program of the blocks that follow if the final branch is
    taken or not (EXIT ends the lanes). ``branch`` is the final branch or exit if it is guarded; ``guard`` is
    then the place of its predicate, and whether the predicate is negated. For an indexed branch, ``table``
    has the targets, and ``selector`` the instruction and the place of its index. ``call`` is a final call.
    ``returns`` marks the last block of a device function. ``yields`` means that the last operation may park
    the split, ``deferred`` that some operation writes registers of the warp later, ``team`` that several
    warps may execute the block together, and ``continues`` that the block ends only so that other threads or
    engines can act.
    """

    code: FunctionCode
    index: int
    ops: list[tuple[Instruction, Op]]
    taken: int | None
    next: int | None
    rpc: int
    branch: Instruction | None = None
    guard: tuple[RegisterPlace, bool] | None = None
    table: tuple[int, ...] = ()
    selector: tuple[Instruction, RegisterPlace] | None = None
    call: CallSite | None = None
    returns: bool = False
    yields: bool = False
    deferred: bool = False
    collective: Collective = ""
    team: bool = False
    continues: bool = False
    #: Lines of the block's first and last instruction.
    lines: tuple[SourceLocation | None, SourceLocation | None] = (None, None)
    steps: int = 0
    #: Numbers of its instructions in the function's body. A guarded instruction that has a block of its own
    #: belongs to the block with the guard, which all lanes run.
    statements: tuple[int, ...] = ()
    wide: Callable[..., Any] | None = None
    masked: Callable[..., Any] | None = None
    lane: Callable[..., Any] | None = None


@dataclass(eq=False)
class FunctionCode:
    """One function prepared to run: its blocks, and the places of its registers and local variables.

    ``first`` is the number of the function's first block in the program's list.
    """

    program: EntryProgram
    function: Function
    #: State space and offset of parameters and local variables. An entry's parameters lie in parameter space,
    #: all others in the frame.
    symbols: dict[str, tuple[StateSpace, int]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    places: dict[str, RegisterPlace] = field(default_factory=dict)
    tracked: dict[str, int] = field(default_factory=dict)
    #: 32-bit registers that engines write some time after an instruction.
    written_later: dict[str, RegisterPlace] = field(default_factory=dict)
    #: Rows of these registers, and of those that engines read later.
    held_rows: dict[str, int] = field(default_factory=dict)
    first: int = 0
    #: Number of the block that returns to the caller; EXIT in an entry.
    end: int = EXIT
    #: Bytes of each thread's local memory that an activation takes, and bytes of an entry's parameters.
    local_bytes: int = 0
    param_bytes: int = 0
    #: The result of :func:`.liveness.live_registers`, once it is known.
    live: dict[int, frozenset[int]] | None = None

    def __post_init__(self) -> None:
        self.is_entry = self.function.kind == "entry"
        self._place_registers()
        self._place_parameters()
        self._place_locals()
        self._read_blocks()

    # --- storage ------------------------------------------------------------------------------

    def _place_registers(self) -> None:
        by_class: dict[str, list[str]] = {name: [] for name in CLASSES}
        for register in self.function.registers:
            cls = _CLASS_OF_BITS[register.type.bits]
            by_class[cls] += component_names(register)
        declared = {register.name for register in self.function.registers}
        for param in (*self.function.params, *self.function.returns):
            if param.space == "reg" and param.name not in declared:
                by_class[_CLASS_OF_BITS[param.type.bits]] += component_names(param)
        index = 0
        for cls, names in by_class.items():
            self.rows[cls] = len(names)
            for row, name in enumerate(names):
                self.places[name] = RegisterPlace(cls, row, index)
                index += 1

    @property
    def register_bytes(self) -> int:
        """The number of bytes that all registers of one thread take."""
        rows = self.rows
        return rows["p"] + 2 * rows["16"] + 4 * rows["32"] + 8 * rows["64"] + 16 * rows["128"]

    def _place_parameters(self) -> None:
        if not self.is_entry:
            for param in (*self.function.params, *self.function.returns):
                if param.space != "reg" and param.name != "_":
                    self._local(param.name, param.nbytes, param.align or param.type.nbytes)
            return
        offset = 0
        for param in self.function.params:
            offset = round_up(offset, max(param.align or 1, param.type.nbytes * param.vector))
            self.symbols[param.name] = (StateSpace.PARAM, offset)
            offset += param.nbytes
        self.param_bytes = offset

    def _local(self, name: str, nbytes: int, align: int) -> None:
        offset = round_up(self.local_bytes, max(1, align))
        self.symbols[name] = (StateSpace.LOCAL, offset)
        self.local_bytes = offset + nbytes

    def _place_locals(self) -> None:
        """Give places to local variables and to the parameters of calls.

        Variables of a scope reuse the places of scopes that have ended.
        """
        for variable in self.function.variables:
            if variable.space in ("local", "param"):
                self._local(variable.name, variable.nbytes, variable.align or variable.type.nbytes)
        most, open_at = self.local_bytes, []
        for statement in self.function.body:
            if isinstance(statement, ScopeMark):
                if statement.opens:
                    open_at.append(self.local_bytes)
                elif open_at:
                    self.local_bytes = open_at.pop()
            elif isinstance(statement, Variable) and statement.space in ("local", "param"):
                self._local(statement.name, statement.nbytes, statement.align or statement.type.nbytes)
                most = max(most, self.local_bytes)
        self.local_bytes = round_up(most, 16)

    def symbol(self, name: str) -> tuple[StateSpace, int] | None:
        """Return state space and address of a name; a ``LOCAL`` address is relative to the frame."""
        return self.symbols.get(name) or self.program.symbols.get(name)

    def element_bytes(self, name: str) -> int:
        """Return the size in bytes of one element of a variable."""
        for variable in (*self.function.variables, *self.function.body, *self.program.module.variables):
            if isinstance(variable, Variable) and variable.name == name:
                return variable.type.nbytes * variable.vector
        return 1

    @property
    def idle(self) -> frozenset[int]:
        """The statements whose results are not computed."""
        return self.program.idle if self.is_entry else frozenset()

    @cached_property
    def _graph(self) -> Graph:
        """The control-flow graph of the function as written, before the simulator splits blocks."""
        return control_flow(self.function)

    def reads_results(self, op: Op) -> bool:
        """True if some path from ``op`` leads to an instruction that reads a register that ``op`` writes."""
        instruction = self.function.body[op.statement]
        assert isinstance(instruction, Instruction)
        written = frozenset(register.name for register in accesses(instruction, op.binding)[1])
        return bool(written) and read_after(self._graph, op.statement, written)

    def reads_from(self, statement: int, names: frozenset[str]) -> bool:
        """True if some path from a statement on reads one of these registers before it overwrites it."""
        graph = self._graph
        number, position = next(
            (block.index, position)
            for block in graph.blocks
            for position, (index, _) in enumerate(block.instructions)
            if index >= statement
        )
        return read_from(graph, number, names, position=position)

    def decides(self, op: Op) -> bool:
        """True if what ``op`` writes may decide where a thread goes, or whether it accesses memory.

        A guarded instruction that computes registers from registers decides neither: what it writes then
        depends on its guard as on its operands.
        """
        instruction = self.function.body[op.statement]
        assert isinstance(instruction, Instruction)
        names = {register.name for register in accesses(instruction, op.binding)[1]}
        statements = [each for each in self.function.body if isinstance(each, Instruction)]
        while True:
            before = len(names)
            for each in statements:
                reads, writes = accesses(each)
                if each.guard is not None and each.guard.register.name in names and not _computes(each):
                    return True
                if any(register.name in names for register in reads):
                    names |= {register.name for register in writes}
            if len(names) == before:
                return False

    # --- code ---------------------------------------------------------------------------------

    def _read_blocks(self) -> None:
        bindings: dict[int, Binding] = {}
        meanings: dict[int, Semantic] = {}
        calls: set[int] = set()
        # Guarded calls and waits: lanes whose guard is true diverge from the others.
        apart: set[int] = set()
        for index, statement in enumerate(self.function.body):
            if isinstance(statement, Raw):
                raise Fault(
                    Finding(
                        RULES["not-modeled"], "raw PTX text, which pyptx does not interpret", statement.source
                    )
                )
            if not isinstance(statement, Instruction):
                continue
            if index % _CHECKED == 0:
                self.program.check_time()
            binding = bindings[index] = self.program.image.bind(statement)
            known = semantic_of(binding.form_id)
            control = None if known is None else known.control
            if control is Control.CALL:
                calls.add(index)
                if statement.guard is not None:
                    apart.add(index)
            elif control is None:
                meaning = meanings[index] = self._meaning(statement, binding, known)
                if statement.guard is not None and meaning.yields and not meaning.collective:
                    apart.add(index)
            if index in meanings:
                self._note_held(binding, meanings[index].held)
        collective = {i for i, meaning in meanings.items() if meaning.collective}
        starts = calls | apart | collective | self._cuts(meanings)
        ends = calls | {i for i, meaning in meanings.items() if meaning.yields}
        between: set[int] = set()
        if self.program.interleaved:
            last = ends | (bindings.keys() - meanings.keys())
            between = interleaving_cuts(self.function, bindings, meanings, starts, last)
            if self.program.waits:
                cut = between | starts | {each + 1 for each in last}
                between |= waiting_cuts(self.function, bindings, meanings, cut)
        graph = control_flow(self.function, (starts | between).__contains__, ends.__contains__)
        for names in maybe_undefined(self.function, graph, bindings).values():
            for name in sorted(names):
                self.tracked.setdefault(name, len(self.tracked))
        self._number(graph, apart)
        for block, rpc_block in zip(graph.blocks, reconvergence(graph, _leaves), strict=True):
            self.program.check_time()
            self._add(block, rpc_block, bindings, meanings, calls, apart)
        self._describe(graph, between)
        if not self.is_entry:
            self.program.blocks.append(CodeBlock(self, self.end, [], None, None, EXIT, returns=True, steps=0))

    def _describe(self, graph: Graph, between: set[int]) -> None:
        """Store the first and last line of each block, and mark blocks that end only before ``between``.

        ``between`` has the statements before which a block ends so that other threads or engines can act.
        """
        for block in graph.blocks:
            if not block.instructions:
                continue
            number = self._numbers[block.index]
            (first, begin), (_, end) = block.instructions[0], block.instructions[-1]
            self.program.blocks[number].lines = (begin.source, end.source)
            if first in between:
                self.program.blocks[number - 1].continues = True

    def _note_held(self, binding: Binding, held: tuple[str, ...]) -> None:
        """Store which registers an engine may still read or write after the instruction.

        ``held`` names the operands of the instruction that contain these registers.
        """
        for name in held:
            operand = binding.operands.get(name)
            for leaf in leaves(operand) if operand is not None else ():
                for register in component_names(leaf) if isinstance(leaf, Register) else ():
                    place = self.places[register]
                    self.held_rows[register] = place.row
                    if binding.specs[name].access in ("w", "rw"):
                        self.written_later[register] = place

    def _meaning(self, statement: Instruction, binding: Binding, known: Semantic | None) -> Semantic:
        """Return how to execute an instruction: ``known``, or the semantics of an unmodeled instruction.

        An instruction is not modeled if ``known`` is None, or if an operand has no value in the simulator.
        """
        for operand in binding.fitted:
            for leaf in leaves(operand):
                if isinstance(leaf, Special) and _WITHOUT_VALUE.match(leaf.name):
                    return Semantic.unmodeled(str(leaf))
                if isinstance(leaf, Symbol) and self.symbol(leaf.name) is None:
                    return Semantic.unmodeled(f"{statement}: {leaf.name}, which the module does not define,")
        return known if known is not None else Semantic.unmodeled(statement.name)

    def _cuts(self, meanings: dict[int, Semantic]) -> set[int]:
        """Return indices of statements before which a block ends, although control flow does not require it.

        The cuts keep blocks short enough to compile fast, and separate long runs of instructions that several
        warps can execute together.
        """
        cuts: set[int] = set()
        run: list[int] = []
        since = 0
        previous = True
        for index in sorted(meanings):
            meaning = meanings[index]
            together = meaning.per == "value" or meaning.team
            if together != previous:
                if len(run) >= _WORTHWHILE:
                    cuts.update((run[0], index))
                run = []
            if together:
                run.append(index)
            previous = together
            since += 1
            if since >= _LONGEST:
                cuts.add(index)
                since = 0
        if len(run) >= _WORTHWHILE:
            cuts.add(run[0])
        return cuts

    def _number(self, graph: Graph, apart: set[int]) -> None:
        """Assign each block of the control-flow graph its number in the program.

        A block whose last statement is in ``apart`` gets two numbers: it is split into two blocks, so that
        lanes whose guard is false skip the statement.
        """
        self.first = len(self.program.blocks)
        self._numbers: list[int] = []
        number = self.first
        for block in graph.blocks:
            self._numbers.append(number)
            last = block.instructions[-1] if block.instructions else None
            number += 2 if last is not None and last[0] in apart else 1
        if not self.is_entry:
            self.end = number

    def _target(self, block: int | None, *, leaves: bool = False) -> int | None:
        """Convert the index of a block in the control-flow graph to its number in the program.

        For the end of the function, the result is EXIT if ``leaves`` is True (``exit``), else the number that
        follows the last block (``ret``).
        """
        if block is None:
            return None
        if block == EXIT:
            return EXIT if leaves else self.end
        return self._numbers[block]

    def _add(
        self,
        block: Block,
        rpc_block: int,
        bindings: dict[int, Binding],
        meanings: dict[int, Semantic],
        calls: set[int],
        apart: set[int],
    ) -> None:
        end = block.instructions[-1] if block.instructions else None
        number = self._numbers[block.index]
        rpc = self._target(rpc_block)
        assert rpc is not None
        following = self._target(block.fallthrough)
        taken = self._target(block.taken, leaves=end is not None and end[1].opcode == "exit")
        alone = end is not None and end[0] in apart
        if end is not None and alone:
            # Lanes whose guard is true go to a block of their own; the others skip it.
            guard = self._guard(end[1])
            guarded = CodeBlock(self, number, [], number + 1, following, rpc, end[1], guard, team=True)
            guarded.statements = (end[0],)
            self._append(guarded)
            number += 1
        if end is not None and end[0] in calls:
            assert following is not None
            site = self._site(end[1], bindings[end[0]])
            called = CodeBlock(self, number, [], None, following, rpc, call=site, steps=1)
            called.statements = () if alone else (end[0],)
            self._append(called)
            return
        ops = [
            (replace(i, guard=None) if alone else i, self._op(index, i, bindings[index], meanings[index]))
            for index, i in block.instructions
            if index in meanings
        ]
        made = CodeBlock(self, number, ops, taken, following, rpc, steps=len(block.instructions))
        made.statements = () if alone else tuple(index for index, _ in block.instructions)
        if end is not None:
            if block.table:
                made.table = tuple(
                    t for t in (self._target(target) for target in block.table) if t is not None
                )
                index = end[1].operands[0]
                assert isinstance(index, Register)
                made.selector = (end[1], self.places[index.name])
            two_ways = block.taken is not None and block.fallthrough is not None
            if two_ways or (block.table and end[1].guard is not None):
                made.branch, made.guard = end[1], self._guard(end[1])
            if end[0] in meanings:
                made.yields = meanings[end[0]].yields
            first = meanings.get(block.instructions[0][0])
            if first is not None:
                made.collective = first.collective
        made.deferred = any(op.semantic.deferred for _, op in ops)
        made.team = (
            not made.yields
            and not made.table
            and all(op.semantic.per == "value" or op.semantic.team for _, op in ops)
        )
        self._append(made)

    def _append(self, block: CodeBlock) -> None:
        assert block.index == len(self.program.blocks)
        self.program.blocks.append(block)

    def _guard(self, instruction: Instruction) -> tuple[RegisterPlace, bool]:
        assert instruction.guard is not None
        return self.places[instruction.guard.register.name], instruction.guard.negated

    def _site(self, instruction: Instruction, binding: Binding) -> CallSite:
        operands = binding.operands

        def elements(name: str) -> tuple[Operand, ...]:
            found = operands.get(name)
            return found.elements if isinstance(found, Arguments) else ()

        callee: str | RegisterPlace
        if "fptr" in operands:
            register = operands["fptr"]
            assert isinstance(register, Register)
            callee = self.places[register.name]
        else:
            callee = str(operands["func"])
        return CallSite(instruction, callee, elements("params"), elements("results"))

    def _op(self, index: int, instruction: Instruction, binding: Binding, meaning: Semantic) -> Op:
        binding = self._plain(binding)
        op = Op(index, binding, meaning, instruction.source)
        for name, operand in binding.operands.items():
            spec = binding.specs[name]
            if isinstance(operand, Address) or (isinstance(operand, Indexed) and spec.access == "a"):
                base = operand.base if isinstance(operand, Address) else Symbol(operand.name)
                op.space = self._space(base, named_space(spec, op.chosen))
            if spec.access not in ("w", "rw"):
                continue
            if isinstance(operand, Register):
                op.dests[name] = self.places[operand.name]
            elif isinstance(operand, Element) and operand.register.vector > 1:
                op.dests[name] = self.places[element_place(operand.register, operand.selector)]
            elif isinstance(operand, Element):
                op.dests[name] = self.places[operand.register.name]
            elif isinstance(operand, Pair):
                op.pair = True
                for key, part in ((name, operand.first), (f"{name}|", operand.second)):
                    if isinstance(part, Register):
                        op.dests[key] = self.places[part.name]
            elif isinstance(operand, Vector):
                op.dests[name] = tuple(
                    self.places[e.name] for e in operand.elements if isinstance(e, Register)
                )
        return op

    def _space(self, base: Operand, named: StateSpace) -> StateSpace:
        """Return the state space of an address with this base; ``named`` is the space in the instruction.

        A device function's parameters are in its frame in local memory. ptxas takes a variable's name as an
        address in the variable's own space.
        """
        if named is StateSpace.PARAM:
            if isinstance(base, Symbol):
                found = self.symbol(base.name)
                return found[0] if found is not None else named
            return named if self.is_entry else StateSpace.LOCAL
        if named is StateSpace.GENERIC and isinstance(base, Symbol):
            # ptxas treats a variable's name as its address in the variable's own space.
            found = self.symbol(base.name)
            return found[0] if found is not None else named
        return named

    def _plain(self, binding: Binding) -> Binding:
        """Return ``binding`` with each vector register replaced by its component registers."""
        if not any(map(_has_vector_register, binding.fitted)):
            return binding
        return Binding(binding.shape, tuple(map(self._spell_out, binding.fitted)))

    def _spell_out(self, operand: Operand) -> Any:
        if isinstance(operand, Register) and operand.vector > 1:
            names = [f"{operand.name}.{c}" for c in "xyzw"[: operand.vector]]
            return Vector(tuple(Register(name, operand.type) for name in names))
        if isinstance(operand, Element) and operand.register.vector > 1:
            return Register(element_place(operand.register, operand.selector), operand.register.type)
        if isinstance(operand, Vector):
            return Vector(tuple(self._spell_out(e) for e in operand.elements))
        if isinstance(operand, Pair):
            return replace(operand, first=self._spell_out(operand.first))
        if isinstance(operand, Address) and operand.coordinates is not None:
            return replace(operand, coordinates=self._spell_out(operand.coordinates))
        return operand


def _leaves(instruction: Instruction) -> bool:
    """True for ``exit`` and ``ret``, which end the thread or leave the function.

    Other lanes do not wait for the lanes that execute one of them.
    """
    return instruction.opcode in ("exit", "ret")


def _has_vector_register(operand: Operand) -> bool:
    if isinstance(operand, Vector):
        return any(map(_has_vector_register, operand.elements))
    if isinstance(operand, Pair):
        return _has_vector_register(operand.first)
    if isinstance(operand, Address):
        return operand.coordinates is not None and _has_vector_register(operand.coordinates)
    if isinstance(operand, Element):
        return operand.register.vector > 1
    return isinstance(operand, Register) and operand.vector > 1
