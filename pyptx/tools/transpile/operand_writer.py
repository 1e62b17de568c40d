"""Writes operands and names of one PTX function as Python text, and the declarations of its registers.

Owns :class:`OperandWriter`, the state of a function that is being written: the place where each register is
declared, and the results whose expressions are not written yet, because the next line may contain them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...core import types
from ...core.records import dataclass
from ...core.types import TYPES, ScalarType
from ...ir import (
    Address,
    BranchTarget,
    Element,
    Function,
    Immediate,
    Indexed,
    Instruction,
    Minus,
    Negated,
    Pair,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Variable,
    Vector,
)
from ...isa import bind
from ...isa.special import SPECIAL_REGISTERS
from .arrays import Array, Pool
from .body import steps
from .declare import parameter_name, variable_options
from .names import PythonNames, short_name, word
from .registers import Info, survey
from .text import Formula, SourceBlock, common, nearest, number, packed

__all__ = ["Pending", "OperandWriter", "generic", "imported", "inner"]

#: Types that a register can be declared with unchanged.
_PLAIN = frozenset(f"{k}{b}" for k in "usb" for b in (16, 32, 64)) | {
    "b128",
    "f16",
    "f16x2",
    "f32",
    "f64",
    "pred",
}
#: Matches names of registers that only repeat the register's type, such as ``r5``.
_GENERIC = re.compile(r"(?:p|r|rs|rd|f|fd|rq|SP|SPL)?\d*$")
_ELEMENT = re.compile(r"\w+\[[^\[\]]*\]$")
#: Types that a program imports by name.
_IMPORTED = frozenset(name for name in TYPES if hasattr(types, name))


@dataclass(eq=False)
class Pending:
    """A result whose Python expression is not written yet, because the next line may contain it."""

    info: Info
    text: str
    kind: ScalarType


class OperandWriter:
    """Writes the names and operands of one function; the arguments are those of :class:`.writer.Writer`."""

    def __init__(
        self, function: Function, names: PythonNames, symbols: Mapping[str, str], *, flat: bool, arch: str
    ) -> None:
        self.function = function
        self.names = names.within()
        self.symbols = dict(symbols)
        self.flat = flat
        self.arch = arch
        #: Names that the file must import.
        self.used: set[str] = set()
        self.steps = list(steps(function))
        header = _header(function)
        self.infos = survey(self.steps, [*function.registers, *header], typed=not flat)
        for register in header:
            self.infos[register.name].header = True
        self.block = SourceBlock()
        self.pending: list[Pending] = []
        self.text_of: dict[str, str] = {}
        self.home: dict[str, SourceBlock] = {}
        self.made: set[str] = set()
        self.labels: dict[str, str] = {}
        self.pool = Pool(self.infos, self.names)
        self.arrays = self.pool.places
        #: Arrays that are declared by the line that fills them.
        self.made_arrays: set[int] = set()
        #: The block around a loop over repetitions, and the registers that each repetition makes for itself.
        self.outside: SourceBlock | None = None
        self.own: frozenset[str] = frozenset()
        #: The variable of loops over repetitions; empty until the first such loop.
        self.index = ""
        self.array_home: dict[int, tuple[Array, SourceBlock]] = {}

    # --- names --------------------------------------------------------------------------------

    def parameters(self) -> list[str]:
        """Return the names of the Python function's parameters: first PTX results, then PTX parameters."""
        found = []
        for param in (*self.function.returns, *self.function.params):
            name = self.names.new(word(parameter_name(param.name, self.function.name)))
            found.append(name)
            if param.space == "reg":
                self.text_of[param.name] = name
                self.made.add(param.name)
            else:
                self.symbols[param.name] = name
        return found

    def _name(self, register: Register) -> str:
        """Return the Python name of a register, and note that the current block uses the register."""
        name = register.name
        element = self.arrays.get(name)
        if element is not None:
            array, index = element
            self._occurs_array(array)
            return f"{array.name}[{number(index)}]"
        text = self.text_of.get(name)
        if text is None:
            text = self.text_of[name] = self.names.new(word(name))
        if name not in self.made:
            home = self.home.get(name)
            block = self._around(name)
            self.home[name] = block if home is None else common(home, block)
        return text

    def _around(self, name: str) -> SourceBlock:
        """Return the innermost block in which a register that occurs here may be declared.

        A declaration in a Python loop would make a new register in each repetition.
        """
        return self.outside if self.outside is not None and name not in self.own else self.block

    def _occurs_array(self, array: Array) -> None:
        known = self.array_home.get(id(array))
        here = self._around(array.registers[0].name)
        block = here if known is None else common(known[1], here)
        self.array_home[id(array)] = (array, block)

    def _define(self, info: Info, wish: str | None = None) -> str:
        """Return the Python name for a register that the next line makes; ``wish`` is a preferred name."""
        name = info.register.name
        if wish is not None and generic(name):
            self.text_of[name] = self.names.new(wish)
        text = self.text_of.get(name)
        if text is None:
            text = self.text_of[name] = self.names.new(word(name))
        self.made.add(name)
        return text

    def _type(self, kind: ScalarType) -> str:
        self.used.add(kind.name)
        assert imported(kind), kind
        return kind.name

    def _kind(self, register: Register) -> ScalarType:
        element = self.arrays.get(register.name)
        return element[0].kind if element is not None else self.infos[register.name].kind

    def _label(self, name: str) -> str:
        known = self.labels.get(name)
        if known is None:
            known = word(name.removeprefix("$L__").lstrip("$"))
            while known in self.labels.values():
                known += "_"
            self.labels[name] = known
        return known

    # --- declarations -------------------------------------------------------------------------

    def _declare(self) -> None:
        """Write declarations for all registers that no line makes, at the tops of their blocks."""
        groups: dict[int, tuple[SourceBlock, dict[str, list[str]]]] = {}
        for name, block in self.home.items():
            info = self.infos[name]
            _, kinds = groups.setdefault(id(block), (block, {}))
            kinds.setdefault(info.kind.name if info.register.vector == 1 else "", []).append(name)
        for block, kinds in groups.values():
            for kind, registers in kinds.items():
                block.declared += self._declarations(kind, registers, block.depth + 1)
        for array, block in self.array_home.values():
            if id(array) in self.made_arrays:
                continue
            self.used.add("reg")
            block.declared.append(
                f"{array.name} = reg.array({self._type(array.kind)}, {len(array.registers)})"
            )

    def _declarations(self, kind: str, registers: list[str], depth: int) -> list[str]:
        self.used.add("reg")
        if kind not in _PLAIN:
            found = []
            for name in registers:
                register = self.infos[name].register
                vector = f", vector={register.vector}" if register.vector != 1 else ""
                found.append(
                    f'{self.text_of[name]} = reg.declare({self._type(register.type)}, "{name}"{vector})'
                )
            return found
        spelled = self._type(TYPES[kind])
        found = []
        texts = [self.text_of[name] for name in registers]
        for row in packed(texts, 100 - 4 * depth - len(" = reg.array(pred, 99)")):
            count = row.count(",") + 1
            if count == 1:
                found.append(f"{row} = reg.scalar({spelled})")
            else:
                found.append(f"{row} = reg.array({spelled}, {count})")
        return found

    def _variable(self, variable: Variable) -> None:
        """Write the declaration of one of the function's own variables."""
        self.used.add("ptx")
        name = self.names.new(short_name(variable.name))
        self.symbols[variable.name] = name
        given = [f'"{variable.space}"', self._type(variable.type)]
        if name != variable.name:
            given.append(f'"{variable.name}"')
        given += variable_options(variable, self.symbols, self.used)
        self.block.add(f"{name} = ptx.variable({', '.join(given)})")

    # --- operands -----------------------------------------------------------------------------

    def _operand(self, operand: Any, texts: Mapping[str, str] | None = None, how: str = "") -> str:
        """Return the Python text of a PTX operand as an argument of a call.

        ``texts`` has expressions for registers that are results of the lines before.
        """
        if isinstance(operand, Register):
            if texts is not None and operand.name in texts:
                return texts[operand.name]
            return self._name(operand)
        if isinstance(operand, Immediate):
            return self._constant(operand, how)
        if isinstance(operand, Address):
            return self._address(operand, texts)
        if isinstance(operand, Vector):
            return self._vector(operand, texts)
        if isinstance(operand, Symbol):
            return self._symbol(operand)
        if isinstance(operand, Special):
            return self._special(operand)
        if isinstance(operand, Negated):
            return f"~{inner(self._operand(operand.register, texts))}"
        if isinstance(operand, Pair):
            return f"ptx.pair({self._operand(operand.first, texts)}, {self._operand(operand.second, texts)})"
        if isinstance(operand, Sink):
            return "ptx.sink"
        if isinstance(operand, Element):
            return f'ptx.part({self._name(operand.register)}, "{operand.selector}")'
        if isinstance(operand, Minus):
            return f"ptx.minus({self._operand(operand.operand, texts)})"
        if isinstance(operand, Sum):
            return f"ptx.plus({self._name(operand.register)}, {number(operand.offset)})"
        if isinstance(operand, Indexed):
            base = self._symbol(Symbol(operand.name))
            return f"{base}[{self._operand(operand.index, texts)}]"
        assert isinstance(operand, BranchTarget), operand
        return f'"{self._label(operand.name)}"'

    def _constant(self, operand: Immediate, how: str = "") -> str:
        value = operand.value
        if isinstance(value, int):
            return number(value, mask=how == "mask")
        if how == "float":
            return number(nearest(value, operand.bits))
        self.used.add("ptx")
        kind = TYPES[f"f{operand.bits}"]
        return f"ptx.pattern(0x{str(operand)[2:]}, {self._type(kind)})"

    def _exact(self, instruction: Instruction, at: int, mask: bool) -> str:
        """Return the notation in which the DSL keeps the constants of operand number ``at`` unchanged.

        It is ``"float"``, ``"pattern"`` for ``ptx.pattern``, ``"mask"`` (hexadecimal), or ``""`` (decimal).
        """
        operand = instruction.operands[at]
        if isinstance(operand, Immediate) and isinstance(operand.value, float):
            if operand.pattern is None:
                trial = list(instruction.operands)
                trial[at] = Immediate(nearest(operand.value, operand.bits))
                found = bind(instruction.opcode, instruction.modifiers, tuple(trial)).fitted[at]
                if str(found) == str(operand):
                    return "float"
            return "pattern"
        return "mask" if mask else ""

    def _symbol(self, symbol: Symbol) -> str:
        known = self.symbols.get(symbol.name)
        moved = symbol.offset or isinstance(symbol.offset, Formula)
        if known is None:
            offset = f", {number(symbol.offset)}" if moved else ""
            return f'ptx.symbol("{symbol.name}"{offset})'
        return f"{known} + {inner(number(symbol.offset))}" if moved else known

    def _special(self, special: Special) -> str:
        head, dot, component = special.name.partition(".")
        if special.name in SPECIAL_REGISTERS:
            return f"ptx.special.{head}{dot}{component}"
        self.used.add("ir")
        return f'ir.Special("{special.name}")'

    def _vector(self, vector: Vector, texts: Mapping[str, str] | None) -> str:
        whole = self._slice(vector)
        if whole is not None:
            return whole
        return f"[{', '.join(self._operand(e, texts, 'pattern') for e in vector.elements)}]"

    def _slice(self, vector: Vector) -> str | None:
        """Return the Python text of a vector operand as an array or a slice of one; None if it is neither."""
        if len(vector.elements) < 2:
            return None
        places = []
        for element in vector.elements:
            if not isinstance(element, Register) or element.name not in self.arrays:
                return None
            places.append(self.arrays[element.name])
        array, first = places[0]
        stride = _stride(first)
        if any(a is not array or i != first + n or _stride(i) != stride for n, (a, i) in enumerate(places)):
            return None
        self._occurs_array(array)
        if len(places) == len(array.registers):
            return array.name
        if isinstance(first, Formula):
            stop: int = Formula(first + len(places), first.stride, first.variable)
        else:
            stop = first + len(places)
        return f"{array.name}[{number(first)} : {number(stop)}]".replace(" : ", " : " if stride else ":")

    def _address(self, address: Address, texts: Mapping[str, str] | None) -> str:
        base = self._operand(address.base, texts)
        words = [base]
        if address.offset or isinstance(address.offset, Formula):
            words.append(number(address.offset))
        if address.extra:
            words.append(f"extra=[{', '.join(self._operand(e, texts) for e in address.extra)}]")
        if address.coordinates is not None:
            words.append(f"coord={self._operand(address.coordinates, texts)}")
        if address.suffix:
            words.append(f'suffix="{address.suffix}"')
        return f"ptx.addr({', '.join(words)})"

    # --- what is not written yet --------------------------------------------------------------

    def _take(self, registers: Sequence[Register]) -> dict[str, str]:
        """Return the texts of ``registers``, which the next line reads in this order.

        The text of a pending result is its expression if the order of the instructions stays the same. All
        other pending results are written to lines of their own first; their text is the variable's name.
        """
        names = [register.name for register in registers]
        kept = len(self.pending)
        limit = len(names)
        while kept:
            name = self.pending[kept - 1].info.register.name
            if names.count(name) != 1 or names.index(name) >= limit:
                break
            limit = names.index(name)
            kept -= 1
        inlined = {p.info.register.name: p.text for p in self.pending[kept:]}
        for name in inlined:
            self.made.add(name)
        waiting, self.pending = self.pending[:kept], []
        for made in waiting:
            self._write(made)
        return {
            register.name: inlined[register.name] if register.name in inlined else self._name(register)
            for register in registers
        }

    def _flush(self) -> None:
        waiting, self.pending = self.pending, []
        for made in waiting:
            self._write(made)

    def _write(self, made: Pending, wish: str | None = None) -> None:
        made.info.kind = made.kind
        self.block.add(f"{self._define(made.info, wish)} = {made.text}")


def imported(kind: ScalarType) -> bool:
    """True if a program can import the type by its name."""
    return kind.name in _IMPORTED


def generic(name: str) -> bool:
    """True if the PTX name of a register only repeats its type, such as ``r5``."""
    return _GENERIC.match(name) is not None


def inner(text: str) -> str:
    """Return a Python expression as part of a larger one, in parentheses if precedence requires them."""
    return f"({text})" if " " in text and not _ELEMENT.match(text) else text


def _stride(place: int) -> int:
    return place.stride if isinstance(place, Formula) else 0


def _header(function: Function) -> list[Register]:
    """Return the function's parameters and results that PTX declares as registers."""
    return [
        Register(p.name, p.type, p.vector) for p in (*function.returns, *function.params) if p.space == "reg"
    ]
