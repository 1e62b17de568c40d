"""What the code of a kernel costs on a GPU, block by block.

By ptxas's schedule where there is ptxas and nvdisasm, and by a default expansion of each instruction
elsewhere, or for a text that ptxas refuses for the target of the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from ..core.errors import AssembleError, TargetError, ToolNotFoundError
from ..core.records import dataclass
from ..flow import accesses
from ..ir import Instruction, Module
from ..sim import LoadedModule
from ..sim.code.function import CodeBlock
from ..timing.access_order import NO_ORDER, AccessOrder
from ..timing.constants import Gpu
from ..timing.expansions import expansion
from ..timing.opcodes import Pipes

if TYPE_CHECKING:
    from ..toolchain.schedule.costs import StatementCost
    from ..toolchain.schedule.statements import StatementCode

__all__ = ["BlockCosts", "Schedule"]

#: Cycles that ptxas 13 leaves between an instruction that writes a predicate and a branch or a guarded
#: instruction that reads it, and behind a branch, in code for sm_90a and sm_100a.
_PREDICATE, _BRANCH = 13.0, 5.0
#: Where costs come from: ptxas's schedule of the machine code, or the default expansion.
Schedule = Literal["ptxas", "default"]


@dataclass(slots=True)
class _Cost:
    cycles: float = 0.0
    issues: float = 0.0
    runs: float = 0.0
    pipes: dict[str, float] = field(default_factory=dict)
    dense: dict[str, float] = field(default_factory=dict)
    behind: dict[int, float] = field(default_factory=dict)
    lines: tuple[int, ...] = ()
    serialized: bool = False
    order: AccessOrder = NO_ORDER


class BlockCosts:
    """The cost of each block of a kernel's code. Calling it returns the cost of a block.

    Args:
        loaded: the module, which keeps its machine code for each architecture.
        entry: name of the kernel.
        gpu: the constants.

    Attributes:
        schedule: where the costs come from.
        reason: why they do not come from ptxas; empty if they do.
        registers: 32-bit registers of a thread, as ptxas chose them; None without ptxas.
    """

    def __init__(self, loaded: LoadedModule, entry: str, gpu: Gpu) -> None:
        self._pipes = Pipes(gpu)
        self._known: dict[CodeBlock, _Cost] = {}
        self.schedule: Schedule = "ptxas"
        self.reason = ""
        self.registers: int | None = None
        self._statements: dict[tuple[str, int], StatementCost] = {}
        self._serialized: frozenset[str] = frozenset()
        self._orders: Mapping[str, AccessOrder] = {}
        try:
            code, registers = _assembled(loaded, entry, gpu)
            self._statements, self._serialized, self._orders = _scheduled(loaded.module, code, self._pipes)
            self.registers = registers.get(entry)
        except (AssembleError, TargetError, ToolNotFoundError) as error:
            self.schedule, self.reason = "default", str(error).partition("\n")[0]

    def __call__(self, block: CodeBlock) -> _Cost:
        found = self._known.get(block)
        if found is None:
            made = self._default(block) if self.schedule == "default" else self._from_machine_code(block)
            if block.taken is not None and block.taken <= block.index:
                made.cycles = max(1.0, made.cycles)  # time goes on in every loop
            found = self._known[block] = made
        return found

    def _from_machine_code(self, block: CodeBlock) -> _Cost:
        found, issued, lines = _Cost(), {}, set[int]()
        for number, cost in self._in_machine_order(block):
            issued[number] = found.cycles
            if cost is not None:
                found.cycles += cost.cycles
                found.issues += cost.issues
                found.runs += cost.runs
                for sums, more in ((found.pipes, cost.pipes), (found.dense, cost.dense)):
                    for name, cycles in more.items():
                        sums[name] = sums.get(name, 0.0) + cycles
                lines |= cost.lines
                issued[number] = found.cycles - cost.stalled
        found.behind = {number: found.cycles - time for number, time in issued.items()}
        found.lines = tuple(sorted(lines))
        found.serialized = block.code.function.name in self._serialized
        found.order = self._orders.get(block.code.function.name, NO_ORDER)
        return found

    def _in_machine_order(self, block: CodeBlock) -> Iterator[tuple[int, StatementCost | None]]:
        """Yield the statements of a block and their costs, in the order in which ptxas has put them."""
        costs = {
            number: self._statements.get((block.code.function.name, number)) for number in block.statements
        }
        places, last = dict[int, tuple[int, int]](), (-1, -1)
        for number, cost in costs.items():
            last = places[number] = last if cost is None or cost.place is None else cost.place
        for number in sorted(costs, key=places.__getitem__):
            yield number, costs[number]

    def _default(self, block: CodeBlock) -> _Cost:
        """Return the cost of a block whose instructions are issued as soon as their operands are there."""
        pipes, body = self._pipes, block.code.function.body
        found, issued = _Cost(), {}
        arrives: dict[str, float] = {}
        for number in block.statements:
            instruction = body[number]
            assert isinstance(instruction, Instruction)
            opcodes = expansion(instruction.opcode, instruction.modifiers)
            reads, writes = accesses(instruction)
            done = max((arrives.get(register.name, 0.0) for register in reads), default=0.0)
            for position, opcode in enumerate(opcodes):
                # Equal instructions are parts of one wide one, others need each other's results.
                again = position > 0 and opcode == opcodes[position - 1] and opcode[0] != "D"
                done += 1.0 if again else max(1.0, pipes.latency(opcode), pipes.held(opcode))
                if opcode in ("BRA", "EXIT"):
                    done += _BRANCH - 1.0
                found.issues += 1.0
                for name, cycles in pipes.occupied(opcode).items():
                    found.pipes[name] = found.pipes.get(name, 0.0) + cycles
            for register in writes:
                late = _PREDICATE - pipes.latency(opcodes[-1]) if opcodes and register.type.bits == 1 else 0.0
                arrives[register.name] = done + max(0.0, late)
            found.cycles = max(found.cycles, done)
            issued[number] = done
        found.cycles = max(found.cycles, found.issues, *found.pipes.values())
        found.runs, found.dense = found.issues, found.pipes
        found.behind = {number: found.cycles - time for number, time in issued.items()}
        return found


def _assembled(loaded: LoadedModule, entry: str, gpu: Gpu) -> tuple[StatementCode, dict[str, int]]:
    """Return the machine code of each function, and the registers of each."""
    from ..toolchain.cubin import registers_of
    from ..toolchain.schedule.statements import code_of, statement_cubin

    key = "statements", gpu.target
    found: tuple[StatementCode, dict[str, int]] | None = loaded.kept.get(key)
    if found is None:
        cubin = statement_cubin(loaded.module, gpu.target, entry)
        found = loaded.kept[key] = code_of(cubin), registers_of(cubin)
    return found


def _scheduled(
    module: Module, code: StatementCode, pipes: Pipes
) -> tuple[dict[tuple[str, int], StatementCost], frozenset[str], dict[str, AccessOrder]]:
    """Return the costs of statements, the functions with serialized products, and orders of accesses."""
    from ..toolchain.schedule.access_orders import access_orders
    from ..toolchain.schedule.costs import statement_costs
    from ..toolchain.schedule.products import serialized_functions

    costs = statement_costs(code, module, pipes)
    return costs, serialized_functions(code, module), access_orders(code, module, costs)
