"""The program of one entry: the code of the functions that it can reach, and its shared memory.

A function is prepared when a thread first calls it. The blocks of all functions share one numbering.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ...core.errors import SimulationError
from ...core.findings import RULES, Finding
from ...ir import Function, Module, Register, Special, Symbol, Variable, leaves
from ...isa import Binding, target
from ...isa.special import CLOCKS
from ...isa.table import form
from ..memory.access import StateSpace
from ..memory.address_space import LOCAL_LIMIT
from ..memory.named_parts import NamedParts, Part
from ..memory.segments import Fault
from .function import CodeBlock, FunctionCode, round_up
from .idle import Values, idle_statements
from .image import ModuleImage
from .semantic import semantic_of, semantics
from .translate import executed

__all__ = ["SHARED_START", "EntryProgram"]

#: Offset of the first byte of a CTA's own shared memory. The first KiB belongs to the system.
SHARED_START = 0x400


def _unlimited() -> None:
    """Do nothing: there is no time limit for preparing the code."""


class EntryProgram:
    """The code of the functions that one entry can reach, and the layout of its shared memory.

    Raises a :class:`~.memory.Fault` if code cannot be run, or needs more local memory than a thread can have.
    """

    def __init__(
        self,
        image: ModuleImage,
        function: Function,
        *,
        clustered: bool = False,
        interleaved: bool = False,
        waits: bool = False,
        values: Values = Values.ALL,
        check_time: Callable[[], None] = _unlimited,
    ) -> None:
        self.image, self.function = image, function
        #: True if CTAs may have ranks other than 0, on which addresses of shared variables then depend.
        self.clustered = clustered
        #: True if blocks end between any two instructions that other threads or engines can observe.
        self.interleaved = interleaved
        #: True if they also end before arithmetic that waits for what was loaded.
        self.waits = waits
        #: Which values a run of the program computes.
        self.values = values
        #: Called repeatedly while functions are prepared. It may raise an exception, which ends the run.
        self.check_time = check_time
        self.module: Module = image.module
        self.target = target(self.module.target)
        self.symbols = dict(image.symbols)
        self.blocks: list[CodeBlock] = []
        self._codes: dict[str, FunctionCode] = {}
        #: The special registers that reachable code names.
        self._special_registers: set[str] = set()
        #: The entry and every device function that can be reached from it through names in code or variables.
        self.reachable = self._reachable()
        self._place_shared()
        #: First address of shared memory that a CTA may use. The system's part is included only if code names
        #: it.
        reserved = any(name.startswith("reserved_smem_offset_") for name in self._special_registers)
        self.shared_start = 0 if reserved else SHARED_START
        self.entry = self.code(function)
        self.check_time = _unlimited
        if self.entry.local_bytes > LOCAL_LIMIT:
            raise Fault(
                Finding(
                    RULES["stack-overflow"],
                    f"{function.name} takes {self.entry.local_bytes} bytes of local memory, but "
                    f"a thread has at most {LOCAL_LIMIT}",
                    function.source,
                )
            )

    def code(self, function: Function) -> FunctionCode:
        """Return the code of a function of the module that has a body."""
        found = self._codes.get(function.name)
        if found is None:
            found = self._codes[function.name] = FunctionCode(self, function)
        return found

    def codes(self) -> list[FunctionCode]:
        """Return the functions that threads have called so far, the entry first."""
        return list(self._codes.values())

    def executed(self) -> dict[str, set[int]]:
        """Return the operations that threads have executed: indices of statements, by function."""
        found: dict[str, set[int]] = {function.name: set() for function in self.reachable}
        for block in self.blocks:
            found[block.code.function.name] |= executed(block)
        return found

    # --- shared memory ------------------------------------------------------------------------

    def _reachable(self) -> list[Function]:
        found = {self.function.name: self.function}
        pending = [self.function]
        named = {leaf.name for v in self.image.variables.values() for leaf in _symbols_of(v)}
        while pending:
            function = pending.pop()
            names = set(named)
            for instruction in function.instructions():
                for operand in instruction.operands:
                    if operand.__class__ is Register:
                        continue
                    for leaf in leaves(operand):
                        if isinstance(leaf, Symbol):
                            names.add(leaf.name)
                        elif isinstance(leaf, Special):
                            self._special_registers.add(leaf.name)
            for name in names & self.image.functions.keys() - found.keys():
                found[name] = self.image.functions[name]
                pending.append(found[name])
        return list(found.values())

    def _place_shared(self) -> None:
        """Place static variables first, then the dynamic area, as ptxas and the driver do."""
        own = [v for f in self.reachable for v in f.variables if v.space == "shared"]
        shared = [v for v in self.module.variables if v.space == "shared"] + own
        offset = SHARED_START
        for variable in shared:
            if not variable.external:
                offset = round_up(offset, variable.align or variable.type.nbytes)
                self.symbols[variable.name] = (StateSpace.SHARED, offset)
                offset += variable.nbytes
        self.static_shared = offset - SHARED_START
        dynamic = offset
        for variable in shared:
            if variable.external:
                dynamic = round_up(offset, max(variable.align or 1, 16))
                self.symbols[variable.name] = (StateSpace.SHARED, dynamic)
        self.dynamic_start = dynamic

    def shared_parts(self, nbytes: int) -> NamedParts:
        """Return the buffers in ``nbytes`` of shared memory, starting at :attr:`shared_start`.

        They are the variables, and the ranges that a recording names in them. The bytes after the ranges of
        dynamic memory belong to the dynamic variable.
        """
        own = [v for f in self.reachable for v in f.variables if v.space == "shared"]
        ranges = [r for f in self.reachable for r in f.shared_ranges]
        parts = [Part(0, SHARED_START - self.shared_start, "the system's part")]
        for variable in [v for v in self.module.variables if v.space == "shared"] + own:
            start = self.symbols[variable.name][1] - self.shared_start
            inside = [r for r in ranges if r.variable == variable.name]
            end = nbytes if variable.external else start + variable.nbytes
            if not inside:
                parts.append(Part(start, end, variable.name))
                continue
            parts += [Part(start + r.offset, start + r.offset + r.size, r.name, r.ring) for r in inside]
            if variable.external:
                parts.append(Part(start + max(r.offset + r.size for r in inside), end, variable.name))
        return NamedParts(parts, nbytes)

    def shared_bytes(self, dynamic: int) -> int:
        """Return the bytes of shared memory of a CTA, ``dynamic`` bytes of dynamic memory included."""
        total = self.dynamic_start + dynamic - SHARED_START if dynamic else self.static_shared
        if total > self.target.shared_limit:
            raise SimulationError(
                f"{total} bytes of shared memory, but {self.target} has at most "
                f"{self.target.shared_limit} per CTA",
                location=self.function.source,
            )
        return total

    @cached_property
    def idle(self) -> frozenset[int]:
        """The statements of the entry whose results are not computed.

        None if it may call functions, or reads a clock: what it stores is then looked at.
        """
        if len(self.reachable) > 1 or self._special_registers & CLOCKS:
            return frozenset()
        return idle_statements(self.image, self.function, self.values)

    # --- what CTAs take -----------------------------------------------------------------------

    def host_bytes(self, warps: int, shared: int) -> int:
        """Return the bytes of the host's memory that a CTA takes: shared memory, registers, local memory."""
        return 2 * shared + 32 * warps * (self.entry.register_bytes + 2 * self.entry.local_bytes)

    @cached_property
    def cancels_launches(self) -> bool:
        """True if reachable code tries to cancel the launch of clusters that have not started."""
        opcodes = {form(id).opcode for id, meaning in semantics().items() if meaning.takes_launches}
        return any(
            instruction.opcode in opcodes and _takes_launches(self.image.bind(instruction))
            for function in self.reachable
            for instruction in function.instructions()
        )


def _takes_launches(binding: Binding) -> bool:
    meaning = semantic_of(binding.form_id)
    return meaning is not None and meaning.takes_launches


def _symbols_of(variable: Variable) -> list[Symbol]:
    """Return the names of the variables and functions whose addresses a variable's initial value contains."""
    found: list[Symbol] = []

    def visit(node: object) -> None:
        for element in getattr(node, "elements", ()):
            visit(element)
        inner = getattr(node, "symbol", node)
        name = getattr(inner, "name", None)
        if isinstance(name, str):
            found.append(Symbol(name))

    visit(variable.initial)
    return found
