"""What one entry can run: the code of the functions that it reaches, and its shared memory.

Functions are made ready when something first calls them; their blocks share one numbering.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ...core.errors import SimulationError
from ...core.findings import RULES, Finding
from ...ir import Function, Instruction, Module, Special, Symbol, Variable, leaves
from ...isa import bind_instruction, target
from ...isa.table import form
from ..memory.address_space import LOCAL_LIMIT, Fault
from ..memory.named_parts import NamedParts, Part
from .function import CodeBlock, FunctionCode, round_up
from .image import ModuleImage
from .semantic import semantic_of, semantics

__all__ = ["SHARED_START", "EntryProgram"]

#: Offset of the first byte of a CTA's own shared memory: the first KiB is the system's.
SHARED_START = 0x400


def _unlimited() -> None:
    """No run waits for the code."""


class EntryProgram:
    """See the module's docstring. Raises a :class:`~.memory.Fault` for what cannot be read, or needs more
    local memory than a thread has.
    """

    def __init__(
        self,
        image: ModuleImage,
        function: Function,
        *,
        clustered: bool = False,
        interleaved: bool = False,
        check_time: Callable[[], None] = _unlimited,
    ) -> None:
        self.image, self.function = image, function
        #: Whether CTAs have ranks other than 0, which their addresses of shared variables show.
        self.clustered = clustered
        #: Whether blocks end between any two instructions that others can notice.
        self.interleaved = interleaved
        #: Called now and then while functions are made ready; it may raise, and ends the run so.
        self.check_time = check_time
        self.module: Module = image.module
        self.target = target(self.module.target)
        self.symbols = dict(image.symbols)
        self.blocks: list[CodeBlock] = []
        self._codes: dict[str, FunctionCode] = {}
        #: The entry and every device function that some chain of names leads to.
        self.reachable = self._reachable()
        self._place_shared()
        #: First address of a CTA's shared memory that it may use: the system's part only where code asks for
        #: it.
        self.shared_start = 0 if self._names("reserved_smem_offset_") else SHARED_START
        self.entry = self.code(function)
        self.check_time = _unlimited
        if self.entry.local_bytes > LOCAL_LIMIT:
            raise Fault(
                Finding(
                    RULES["stack-overflow"],
                    f"{function.name} takes {self.entry.local_bytes} bytes of local memory; "
                    f"a thread has at most {LOCAL_LIMIT}",
                    function.source,
                )
            )

    def code(self, function: Function) -> FunctionCode:
        """The code of a function of the module that has a body."""
        found = self._codes.get(function.name)
        if found is None:
            found = self._codes[function.name] = FunctionCode(self, function)
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
                    names.update(leaf.name for leaf in leaves(operand) if isinstance(leaf, Symbol))
            for name in names & self.image.functions.keys() - found.keys():
                found[name] = self.image.functions[name]
                pending.append(found[name])
        return list(found.values())

    def _names(self, prefix: str) -> bool:
        """Whether code that is reachable names a special register that begins so."""
        return any(
            isinstance(leaf, Special) and leaf.name.startswith(prefix)
            for function in self.reachable
            for instruction in function.instructions()
            for operand in instruction.operands
            for leaf in leaves(operand)
        )

    def _place_shared(self) -> None:
        """Static variables first, then the dynamic area, as ptxas and the driver lay them out."""
        own = [v for f in self.reachable for v in f.variables if v.space == "shared"]
        shared = [v for v in self.module.variables if v.space == "shared"] + own
        offset = SHARED_START
        for variable in shared:
            if not variable.external:
                offset = round_up(offset, variable.align or variable.type.nbytes)
                self.symbols[variable.name] = ("shared", offset)
                offset += variable.nbytes
        self.static_shared = offset - SHARED_START
        dynamic = offset
        for variable in shared:
            if variable.external:
                dynamic = round_up(offset, max(variable.align or 1, 16))
                self.symbols[variable.name] = ("shared", dynamic)
        self.dynamic_start = dynamic

    def shared_parts(self, nbytes: int) -> NamedParts:
        """The buffers in ``nbytes`` of shared memory from :attr:`shared_start` on: variables, and the ranges
        that a recording names in them. What is behind the ranges of dynamic memory is that variable's.
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
            parts += [Part(start + r.offset, start + r.offset + r.size, r.name) for r in inside]
            if variable.external:
                parts.append(Part(start + max(r.offset + r.size for r in inside), end, variable.name))
        return NamedParts(parts)

    def shared_bytes(self, dynamic: int) -> int:
        """Bytes of shared memory per CTA with ``dynamic`` bytes of it dynamic."""
        total = self.dynamic_start + dynamic - SHARED_START if dynamic else self.static_shared
        if total > self.target.shared_limit:
            raise SimulationError(
                f"{total} bytes of shared memory; {self.target} has at most "
                f"{self.target.shared_limit} per CTA",
                location=self.function.source,
            )
        return total

    # --- what CTAs take -----------------------------------------------------------------------

    def host_bytes(self, warps: int, shared: int) -> int:
        """Bytes of the host's memory that a CTA takes: shared memory, registers, local memory."""
        return 2 * shared + 32 * warps * (self.entry.register_bytes + 2 * self.entry.local_bytes)

    @cached_property
    def cancels_launches(self) -> bool:
        """Whether code that is reachable asks for the work of CTAs that have not started."""
        opcodes = {form(id).opcode for id, meaning in semantics().items() if meaning.takes_launches}
        return any(
            instruction.opcode in opcodes and _takes_launches(instruction)
            for function in self.reachable
            for instruction in function.instructions()
        )


def _takes_launches(instruction: Instruction) -> bool:
    meaning = semantic_of(bind_instruction(instruction).form_id)
    return meaning is not None and meaning.takes_launches


def _symbols_of(variable: Variable) -> list[Symbol]:
    """Names in a variable's initial value."""
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
