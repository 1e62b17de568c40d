"""Arrays of registers in the Python program, and :class:`Pool`, which assigns registers to arrays.

A register is in at most one array, and its place in the array does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.records import dataclass
from ...core.types import ScalarType
from ...ir import Register, Vector
from .body import StatementStep
from .names import PythonNames
from .registers import Info

__all__ = ["Array", "Pool"]

#: A vector of at least this many registers becomes an array even if its registers are only read.
_LONG = 8
#: A vector of at least this many registers becomes an array if its registers are written.
_WRITTEN = 4
#: Name of an array whose registers an instruction writes, by the first word or the first two words of its
#: name.
_CALLED = {
    "wgmma.mma_async": "acc",
    "mma": "acc",
    "wmma": "frag",
    "tcgen05": "acc",
    "ldmatrix": "frag",
    "ld": "loaded",
    "cvt": "packed",
    "fma": "acc",
    "mad": "acc",
    "shfl": "other",
    "setp": "p",
    "mov": "value",
    "max": "top",
    "min": "low",
    "mul": "product",
    "add": "total",
    "sub": "delta",
    "ex2": "power",
    "cp": "dst",
}
_PRODUCTS = frozenset({"wgmma", "mma"})


@dataclass(eq=False)
class Array:
    """An array, written as ``name = reg.array(kind, len(registers))``."""

    name: str
    kind: ScalarType
    registers: tuple[Register, ...]


class Pool:
    """The arrays of registers in one function."""

    def __init__(self, infos: dict[str, Info], names: PythonNames) -> None:
        self.infos = infos
        self.names = names
        #: Register -> its array, and its index in the array.
        self.places: dict[str, tuple[Array, int]] = {}
        #: Register -> the instruction that writes it and that names its array.
        self.written_by: dict[str, str] = {}

    def survey(self, steps: Iterable[StatementStep]) -> None:
        """Store, for each register, the PTX instruction from which its array gets its name.

        This is the last matrix product that writes the register, or else the first instruction that writes
        it.
        """
        for step in steps:
            if step.instruction is None:
                continue
            product = step.instruction.opcode in _PRODUCTS
            for register in step.writes:
                if product or register.name not in self.written_by:
                    self.written_by[register.name] = step.instruction.name

    def may_hold(self, registers: Sequence[Register]) -> bool:
        """True if the registers can become a new array.

        They have one type, no register occurs twice, and none is in another array.
        """
        names = {r.name for r in registers}
        return (
            len(names) == len(registers)
            and len({(r.type, r.vector) for r in registers}) == 1
            and registers[0].vector == 1
            and registers[0].type.bits != 8
            and not any(n in self.places or n not in self.infos for n in names)
            and not any(self.infos[n].header for n in names)
        )

    def add(self, registers: Sequence[Register]) -> Array:
        """Make an array of registers that :meth:`may_hold` allows."""
        kind = self._kind(registers)
        array = Array(self.names.new(self._wish(registers, kind)), kind, tuple(registers))
        for place, register in enumerate(registers):
            self.places[register.name] = (array, place)
            self.infos[register.name].kind = kind
        return array

    def vectors(self, steps: Iterable[StatementStep], shortest: int) -> None:
        """Make an array for each vector operand that has at least ``shortest`` registers."""
        for step in steps:
            if step.instruction is None:
                continue
            for operand in step.instruction.operands:
                if not isinstance(operand, Vector) or len(operand.elements) < shortest:
                    continue
                registers = [e for e in operand.elements if isinstance(e, Register)]
                written = registers and registers[0] in step.writes
                if len(registers) < len(operand.elements) or not (written or len(registers) >= _LONG):
                    continue
                if self.may_hold(registers):
                    self.add(registers)

    def products(self, steps: Iterable[StatementStep]) -> None:
        """Make one array for the accumulators of consecutive matrix products, if no two share a register."""
        group: list[Register] = []
        for step in steps:
            instruction = step.instruction
            if instruction is None or instruction.opcode not in _PRODUCTS or not instruction.operands:
                continue
            result = instruction.operands[0]
            registers = list(result.elements) if isinstance(result, Vector) else []
            plain = [r for r in registers if isinstance(r, Register)]
            if plain and len(plain) == len(registers) and self.may_hold([*group, *plain]):
                group += plain
            elif group:
                self.add(group)
                group = []
        if group:
            self.add(group)

    def long_vectors(self, steps: Iterable[StatementStep]) -> None:
        self.vectors(steps, _LONG)

    def written_vectors(self, steps: Iterable[StatementStep]) -> None:
        self.vectors(steps, _WRITTEN)

    def _kind(self, registers: Sequence[Register]) -> ScalarType:
        infos = [self.infos[r.name] for r in registers]
        kinds = [info.kind for info in infos]
        for kind in sorted(set(kinds), key=lambda k: (-kinds.count(k), k.name)):
            if all(info.takes(kind) for info in infos):
                return kind
        return registers[0].type

    def _wish(self, registers: Sequence[Register], kind: ScalarType) -> str:
        name = self.written_by.get(registers[0].name, "")
        first, _, rest = name.partition(".")
        if kind.bits == 64 and first in ("add", "mad") and not kind.is_float:
            return "address"
        for key in (f"{first}.{rest.partition('.')[0]}", first):
            if key in _CALLED:
                return _CALLED[key]
        return {"p": "p", "f": "x"}.get(kind.kind, "v")
