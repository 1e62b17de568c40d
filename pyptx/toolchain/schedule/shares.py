"""Which PTX statement pays for which machine instruction, and for what part of it.

ptxas copies code (unrolled, peeled and rotated loops), moves it to other blocks (invariant and speculative
code), and turns branches into predicates. An execution of a PTX statement then costs:

- the instructions of the statement in one *home* of its PTX block, divided by the copies of the block there.
  A home is an innermost loop of the machine code, or the code outside of loops. The home with the most copies
  counts, which is the main part of an unrolled loop; of a loop that waits, the first, which is its way in.
- the instructions of other statements that ptxas moved to where this one is. They run as often as the code
  around them, not as often as the PTX block that they came from.

Copies are counted by *anchors*: instructions that ptxas neither merges nor repeats, such as stores, barriers
and f32 arithmetic. A product of matrices may take several machine instructions, and is counted by its
multiply-adds. Of the ways through the code of one statement (a division, an allocation), the shortest
counts. Paths for divergent lanes cost nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from statistics import median_low, multimode

from ...core.records import dataclass
from ...flow import Graph, control_flow
from ...flow.graph import EXIT, post_dominators
from ...flow.loops import Loop, dominates, dominators, equally_often, innermost, natural_loops
from ...ir import Function, Instruction
from ...timing.expansions import expansion, products_of
from ...timing.opcodes import multiply_adds
from ..nvdisasm import MachineInstruction
from .graph import MachineBlock, MachineGraph, base_of, is_guarded
from .merged import bytes_of, width_of
from .order import is_access
from .statements import Statement, statement_of

__all__ = ["PtxFlow", "Share", "shares"]

#: The home outside of all loops.
_OUTSIDE = -1
#: A home has copies of a block if it has this part of the statements that another home has.
_COPIED = 0.5
#: Fewest instructions that say where a PTX block runs.
_WHOLE = 3
#: PTX opcodes that end blocks: their branches are no part of another statement's expansion.
_BRANCHES = frozenset({"bra", "brx", "ret", "exit", "call", "trap"})
#: PTX opcodes that say nothing about copies: branches, and moves, which become any number of instructions.
_COPYING = _BRANCHES | {"mov"}
#: Most statements of a loop that only waits.
_WAITING = 8

_STORES = frozenset(
    (
        *(
            "ST",
            "STG",
            "STS",
            "STSM",
            "STAS",
            "RED",
            "REDG",
            "REDAS",
            "ATOM",
            "ATOMG",
            "ATOMS",
            "BAR",
            "SYNCS",
        ),
        *("LDGSTS", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED", "UTMACMDFLUSH", "LDTM", "STTM"),
        *("HGMMA", "IGMMA", "QGMMA", "BGMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCMXQMMA", "UTCOMMA"),
        *("UTCBAR", "UTCCP", "UCGABAR_ARV", "UCGABAR_WAIT"),
    )
)
#: Machine opcodes of which a copy of a PTX instruction has a number of its own.
_ANCHORS = _STORES | frozenset(
    (
        *(
            "LD",
            "LDG",
            "LDS",
            "LDSM",
            "SHFL",
            "VOTE",
            "REDUX",
            "MUFU",
            "FFMA",
            "FFMA2",
            "FMUL",
            "FMUL2",
            "FADD",
        ),
        *("FADD2", "HFMA2", "HMUL2", "HADD2", "DFMA", "DMUL", "DADD", "HMMA", "IMMA", "DMMA", "QMMA", "BMMA"),
        *("F2FP", "F2F", "F2I", "I2F", "FRND"),
    )
)


@dataclass(frozen=True)
class Share:
    """A statement's part of a machine instruction: of its cost, ``part`` belongs to ``statement``."""

    statement: Statement
    part: float


class PtxFlow:
    """The blocks and loops of the PTX functions of a module."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._functions = {function.name: function for function in functions}
        self._blocks: dict[Statement, tuple[str, int]] = {}
        self._known: dict[str, _FunctionFlow] = {}

    def _of(self, function: str) -> _FunctionFlow | None:
        found = self._known.get(function)
        if found is None and function in self._functions:
            found = self._known[function] = _FunctionFlow(self._functions[function])
        return found

    def block(self, statement: Statement) -> PtxBlock | None:
        """Return the block of a statement; None if this is no statement of the module."""
        flow = self._of(statement.function)
        number = None if flow is None else flow.block_of.get(statement.number)
        return None if flow is None or number is None else flow.blocks[number]

    def instruction(self, statement: Statement) -> Instruction:
        """Return the PTX instruction of a statement."""
        found = self._functions[statement.function].body[statement.number]
        assert isinstance(found, Instruction)
        return found


@dataclass(frozen=True)
class PtxLoop:
    """A loop of a PTX function: its number there, outer loops first, and the loops around it."""

    function: str
    number: int
    around: tuple[int, ...]
    waits: bool


@dataclass(frozen=True)
class PtxBlock:
    """A block of a PTX function, without the instructions.

    Attributes:
        function: the function.
        number: its number in the function.
        loop: the innermost loop; None outside of loops.
        equal: the number of the first of the blocks that run exactly as often as this one.
    """

    function: str
    number: int
    loop: PtxLoop | None
    equal: int


class _FunctionFlow:
    """Blocks of a function, with their loops and which of them run equally often."""

    def __init__(self, function: Function) -> None:
        graph = control_flow(function)
        self.block_of = {number: block.index for block in graph.blocks for number, _ in block.instructions}
        loops = natural_loops(graph.edges)
        found = [
            PtxLoop(
                function.name,
                number,
                tuple(outer for outer in range(number) if loop.nodes < loops[outer].nodes),
                _waits(graph, loop.nodes),
            )
            for number, loop in enumerate(loops)
        ]
        level = innermost(loops)
        ends = frozenset(block.index for block in graph.blocks if EXIT in block.successors)
        equal = equally_often(graph.edges, loops, ends)
        self.blocks = [
            PtxBlock(
                function.name,
                block.index,
                found[level[block.index]] if block.index in level else None,
                equal.get(block.index, block.index),
            )
            for block in graph.blocks
        ]


def _waits(graph: Graph, nodes: frozenset[int]) -> bool:
    """True if a loop does nothing but wait, for an mbarrier or for a value in memory."""
    inside = [each for node in nodes for _, each in graph.blocks[node].instructions]
    return len(inside) <= _WAITING and any(
        "try_wait" in each.modifiers or "test_wait" in each.modifiers for each in inside
    )


def shares(graph: MachineGraph, flow: PtxFlow) -> dict[int, tuple[Share | None, ...]]:
    """Return for each active block of a machine function the share of each instruction; None for no cost."""
    return _Attribution(graph, flow).shares()


class _Attribution:
    """The homes of PTX blocks in one machine function, and who pays."""

    def __init__(self, graph: MachineGraph, flow: PtxFlow) -> None:
        self._graph, self._flow = graph, flow
        self._statements = {
            index: tuple(map(self._statement, graph.blocks[index].instructions))
            for index in sorted(graph.active)
        }
        self._skipped = self._skippable()
        self._home = {index: self._home_of(index) for index in self._statements}
        self._loop_of_home = {home: self._matched(home) for home in set(self._home.values())}
        #: For each PTX block and home, how often each opcode of each statement occurs.
        self._found: dict[PtxBlock, dict[int, dict[Statement, Counter[str]]]] = {}
        self._count()
        self._native: dict[PtxBlock, frozenset[int]] = {}
        self._chosen: dict[PtxBlock, int] = {}
        for block in self._found:
            self._native[block] = self._homes(block)
        for block in self._found:
            self._chosen[block] = self._choose(block)

    # --- reading ----------------------------------------------------------------------------------

    def _statement(self, instruction: MachineInstruction) -> Statement | None:
        found = statement_of(instruction)
        return found if found is not None and self._flow.block(found) is not None else None

    def _block(self, statement: Statement | None) -> PtxBlock | None:
        return None if statement is None else self._flow.block(statement)

    def _active(self) -> Iterator[tuple[int, MachineBlock, tuple[Statement | None, ...]]]:
        for index, statements in self._statements.items():
            if index not in self._skipped:
                yield index, self._graph.blocks[index], statements

    def _skippable(self) -> frozenset[int]:
        """Return the blocks inside the code of one statement that its shortest way leaves out."""
        graph = self._graph
        edges = [tuple(block.successors) or (EXIT,) for block in graph.blocks]
        joins = post_dominators([targets if n in graph.active else () for n, targets in enumerate(edges)])
        above = dominators(graph.edges)
        skipped: set[int] = set()
        for index, statements in self._statements.items():
            own = statements[-1] if statements else None
            if own is None or len(graph.edges[index]) < 2:
                continue
            instruction = self._flow.instruction(own)
            if instruction.opcode in _BRANCHES or instruction.guard is not None:
                continue
            inside = self._inside(index, joins[index], own)
            path = self._shortest(index, joins[index], inside)
            if path is not None:
                skipped |= {each for each in inside - path if not dominates(above, each, index)}
        return frozenset(skipped)

    def _inside(self, start: int, join: int, own: Statement) -> set[int]:
        """Return the blocks between two blocks that have instructions of one statement alone."""
        found: set[int] = set()
        pending = list(self._graph.edges[start])
        while pending:
            index = pending.pop()
            if index in found or index in (join, start):
                continue
            if any(statement not in (own, None) for statement in self._statements[index]):
                continue
            found.add(index)
            pending += self._graph.edges[index]
        return found

    def _shortest(self, start: int, join: int, inside: set[int]) -> set[int] | None:
        """Return the blocks on the way from ``start`` to ``join`` with the fewest instructions."""
        best: dict[int, tuple[int, frozenset[int]]] = {start: (0, frozenset())}
        pending, found = [start], None
        while pending:
            index = pending.pop(0)
            length, path = best[index]
            for target in self._graph.edges[index]:
                if target == join and (found is None or length < found[0]):
                    found = length, path
                if target not in inside:
                    continue
                longer = length + len(self._statements[target])
                if target not in best or longer < best[target][0]:
                    best[target] = longer, path | {target}
                    pending.append(target)
        return None if found is None else set(found[1])

    # --- homes ------------------------------------------------------------------------------------

    def _home_of(self, index: int) -> int:
        """Return the number of the innermost loop around a block that is not the code of one statement."""
        home = _OUTSIDE
        for number, loop in enumerate(self._graph.loops):
            if index in loop.nodes and not self._is_expansion(loop):
                home = number
        return home

    def _is_expansion(self, loop: Loop) -> bool:
        """True if the branch back, and most of the loop, are code of one statement that is no branch."""
        back = {self._statements[latch][-1] for latch in loop.latches}
        inside = [each for node in loop.nodes for each in self._statements[node]]
        own = next(iter(back))
        if len(back) > 1 or own is None or self._flow.instruction(own).opcode in _BRANCHES:
            return False
        return 2 * inside.count(own) > len(inside)

    def _matched(self, home: int) -> PtxLoop | None:
        """Return the PTX loop that a loop of machine code came from."""
        if home == _OUTSIDE:
            return None
        loop = self._graph.loops[home]
        latches = Counter(
            block.loop
            for latch in loop.latches
            if (block := self._block(self._statements[latch][-1])) is not None and block.loop is not None
        )
        if latches:
            return latches.most_common(1)[0][0]
        votes = Counter(
            block.loop
            for index, _, statements in self._active()
            if self._home[index] == home
            for statement in statements
            if (block := self._block(statement)) is not None and block.loop is not None
        )
        return votes.most_common(1)[0][0] if votes else None

    def _count(self) -> None:
        for index, block, statements in self._active():
            for instruction, statement in zip(block.instructions, statements, strict=True):
                ptx = self._block(statement)
                if ptx is not None and statement is not None:
                    homes = self._found.setdefault(ptx, {}).setdefault(self._home[index], {})
                    homes.setdefault(statement, Counter())[instruction.opcode] += 1

    def _homes(self, block: PtxBlock) -> frozenset[int]:
        """Return the homes that have copies of a block, not just instructions that were moved there."""
        homes = self._found[block]
        natives = {home for home in homes if self._loop_of_home[home] == block.loop}
        if not natives:
            around = () if block.loop is None else block.loop.around
            natives = {
                home
                for home in homes
                if (loop := self._loop_of_home[home]) is None
                or loop.function != block.function
                or loop.number in around
            } or set(homes)
        best = max((homes[home] for home in natives), key=len)
        copies = {
            home
            for home, statements in homes.items()
            if len(statements.keys() & best.keys()) >= _COPIED * len(best)
        }
        return frozenset(natives | copies)

    def _choose(self, block: PtxBlock) -> int:
        """Return the home whose copies say what a block costs."""
        homes = self._native[block]
        native = [home for home in homes if self._loop_of_home[home] == block.loop] or list(homes)
        if block.loop is not None and block.loop.waits:
            return min(homes, key=self._first)
        return max(native, key=lambda home: (self._copies(block, home), len(self._found[block][home]), -home))

    def _first(self, home: int) -> int:
        return -1 if home == _OUTSIDE else self._graph.loops[home].head

    @cached_property
    def _equals(self) -> Mapping[tuple[str, int], list[PtxBlock]]:
        found: dict[tuple[str, int], list[PtxBlock]] = defaultdict(list)
        for block in self._found:
            found[block.function, block.equal].append(block)
        return found

    def _copies(self, block: PtxBlock, home: int) -> int:
        """Return how many copies of a block a home has."""
        return self._counted.get((block.function, block.equal, home), 1)

    @cached_property
    def _counted(self) -> dict[tuple[str, int, int], int]:
        """The copies of blocks that run equally often, by home."""
        found: dict[tuple[str, int, int], int] = {}
        for (function, equal), blocks in self._equals.items():
            for home in {home for block in blocks for home in self._native[block]}:
                each = [self._found[block][home] for block in blocks if home in self._found[block]]
                found[function, equal, home] = self._number_of_copies(each, blocks[0].loop is not None)
        return found

    def _number_of_copies(self, blocks: list[dict[Statement, Counter[str]]], in_loop: bool) -> int:
        anchors, others = [], []
        for statements in blocks:
            for statement, opcodes in statements.items():
                held = [n for opcode, n in opcodes.items() if base_of(opcode) in _ANCHORS]
                products = self._products(statement, opcodes)
                if products:
                    anchors.append(products)
                elif held and self._is_anchor(statement, opcodes):
                    anchors.append(min(held))
                elif self._flow.instruction(statement).opcode not in _COPYING:
                    others.append(max(1, min(self._repeats(statement, opcodes))))
        if anchors:
            return median_low(anchors)
        # Only loops are copied in numbers; elsewhere, equal instructions are parts of one statement.
        return max(multimode(others)) if others and in_loop else 1

    def _repeats(self, statement: Statement, opcodes: Counter[str]) -> Iterator[int]:
        """Yield how often each opcode of a statement occurs, beyond how often one copy needs it."""
        instruction = self._flow.instruction(statement)
        once = Counter(map(base_of, expansion(instruction.opcode, instruction.modifiers)))
        for opcode, number in opcodes.items():
            yield number // max(1, once[base_of(opcode)])

    def _products(self, statement: Statement, opcodes: Mapping[str, int]) -> int:
        """Return how many copies of a warp's product there are, by their multiply-adds; 0 for others."""
        instruction = self._flow.instruction(statement)
        wanted = products_of(instruction.opcode, instruction.modifiers)
        if not wanted:
            return 0
        found = sum(number * multiply_adds(opcode) for opcode, number in opcodes.items())
        return max(1, round(found / wanted))

    def _is_anchor(self, statement: Statement, opcodes: Iterable[str]) -> bool:
        """True if each copy of the statement has its own machine instructions."""
        instruction = self._flow.instruction(statement)
        if instruction.opcode == "wmma":  # as many accesses as a fragment has registers
            return False
        if instruction.opcode not in ("ld", "st"):
            return True
        # A wider access is one for several copies.
        alone = all(width_of(each) <= bytes_of(instruction) for each in opcodes if is_access(each))
        return alone and not {"param", "const"} & set(instruction.modifiers)

    # --- owners -----------------------------------------------------------------------------------

    def shares(self) -> dict[int, tuple[Share | None, ...]]:
        """Return the share of each instruction of each active block."""
        found: dict[int, tuple[Share | None, ...]] = {}
        last: dict[int, Statement] = {}
        without: list[int] = []
        for index, _, statements in self._active():
            owned = self._owned(index, statements)
            if owned:
                found[index] = tuple(self._share(index, owned, n) for n in range(len(statements)))
                last[self._home[index]] = owned[max(owned)]
            elif self._home[index] in last:
                share = self._paid(last[self._home[index]], self._home[index])
                found[index] = (share,) * len(statements)
            else:
                without.append(index)
        for index in without:  # blocks in front of all others of their home
            statement = last.get(self._home[index]) or next((s for s in self._statements[index] if s), None)
            share = None if statement is None else self._paid(statement, self._home[index])
            found[index] = (share,) * len(self._statements[index])
        for index in self._skipped:
            found[index] = (None,) * len(self._statements[index])
        return found

    def _owned(self, index: int, statements: tuple[Statement | None, ...]) -> dict[int, Statement]:
        """Return the positions whose statements run as often as this block of machine code."""
        owners = self._owners[self._equal[index]]
        return {
            position: statement
            for position, statement in enumerate(statements)
            if statement is not None and self._block(statement) in owners
        }

    @cached_property
    def _equal(self) -> dict[int, int]:
        return equally_often(self._graph.edges, self._graph.loops, self._graph.ends)

    @cached_property
    def _owners(self) -> dict[int, frozenset[PtxBlock]]:
        """The PTX blocks that run as often as blocks of machine code that run equally often."""
        together: dict[int, list[int]] = defaultdict(list)
        for index, _, _ in self._active():
            together[self._equal[index]].append(index)
        return {first: self._owners_of(indices) for first, indices in together.items()}

    def _owners_of(self, indices: list[int]) -> frozenset[PtxBlock]:
        held: Counter[PtxBlock] = Counter()
        for index in indices:
            for statement in self._statements[index]:
                ptx = self._block(statement)
                if ptx is not None and self._home[index] in self._native[ptx]:
                    held[ptx] += 1
        certain, branching = self._evident(indices)
        owners: set[PtxBlock] = set()
        # Copies of a loop that ptxas peeled or unrolled completely are beside the code around it.
        for loop in dict.fromkeys(ptx.loop for ptx in held):
            groups: dict[tuple[str, int], list[PtxBlock]] = defaultdict(list)
            for ptx in held:
                if ptx.loop == loop:
                    groups[ptx.function, ptx.equal].append(ptx)
            shown = groups.keys() & certain
            if not shown:
                shown = {self._likely(groups, held, branching)}
            owners.update(ptx for key in shown for ptx in groups[key])
        return frozenset(owners)

    def _evident(self, indices: list[int]) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """Return which PTX blocks certainly run when blocks of machine code do, and which probably.

        Stores and barriers without a guard are certain. A branch is not, since ptxas joins the conditions of
        two branches in one.
        """
        certain: set[tuple[str, int]] = set()
        probable: set[tuple[str, int]] = set()
        for index in indices:
            block, statements = self._graph.blocks[index], self._statements[index]
            for instruction, statement in zip(block.instructions, statements, strict=True):
                ptx = self._block(statement)
                if ptx is None or statement is None:
                    continue
                if base_of(instruction.opcode) in _STORES and not is_guarded(instruction):
                    certain.add((ptx.function, ptx.equal))
                last = instruction is block.instructions[-1] and len(block.successors) != 1
                if last and self._flow.instruction(statement).opcode in _BRANCHES:
                    probable.add((ptx.function, ptx.equal))
        return certain, probable

    def _likely(
        self,
        groups: Mapping[tuple[str, int], list[PtxBlock]],
        held: Mapping[PtxBlock, int],
        branching: set[tuple[str, int]],
    ) -> tuple[str, int]:
        """Return which PTX blocks run as often as machine code without a store.

        Those that are there as a whole do; the first of several, since the code of a branch that became
        predicates follows the code in front of it. Else those whose branch is there, or the largest part.
        """
        size = {key: sum(held[ptx] for ptx in blocks) for key, blocks in groups.items()}
        whole = [
            key
            for key, blocks in groups.items()
            if size[key] >= _WHOLE and all(self._is_whole(ptx, held[ptx]) for ptx in blocks)
        ]
        if whole:
            return min(whole, key=lambda key: key[1])
        branches = groups.keys() & branching
        return max(branches or groups, key=lambda key: size[key])

    def _is_whole(self, ptx: PtxBlock, number: int) -> bool:
        """True if a PTX block has no more than this number of machine instructions."""
        return number == sum(
            counter.total() for statements in self._found[ptx].values() for counter in statements.values()
        )

    def _share(self, index: int, owned: Mapping[int, Statement], position: int) -> Share | None:
        """Return who pays for an instruction: its statement, or the nearest one that runs as often."""
        if position not in owned:
            before = [place for place in owned if place < position]
            position = max(before) if before else min(owned)
        return self._paid(owned[position], self._home[index])

    def _paid(self, statement: Statement, home: int) -> Share | None:
        """Return the share of a statement in an instruction of a home; None in homes that do not count."""
        ptx = self._block(statement)
        assert ptx is not None
        if home in self._native[ptx] and home != self._chosen[ptx]:
            return None
        return Share(statement, 1.0 / self._copies(ptx, home))
