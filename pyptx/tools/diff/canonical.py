"""Converts a function's body to a canonical form, in which names and places of declarations do not matter.

Owns the decision which parts of an instruction a comparison uses. An instruction becomes a :class:`Line`. The
line's ``key`` holds everything except the names of registers, labels and the function's own variables; the
line lists these names separately, in their order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache

from ...core.errors import PyptxError
from ...core.records import dataclass
from ...core.types import TYPES
from ...flow import accesses
from ...ir import (
    Address,
    Arguments,
    BranchTarget,
    CallPrototype,
    Element,
    Function,
    Immediate,
    Indexed,
    Instruction,
    LabelStatement,
    Minus,
    Negated,
    Operand,
    Pair,
    Pragma,
    Raw,
    Register,
    Statement,
    Sum,
    Symbol,
    TargetList,
    Variable,
    Vector,
    map_registers,
    registers_of,
)
from ...isa import bind_instruction
from ...isa.special import SPECIAL_REGISTERS
from ...isa.table import forms_of, orders, spelled

__all__ = ["Code", "Interner", "Line", "canonical", "colors", "spelling"]

#: A name in a line: of a register (``%r``) or of a variable (``v``).
Name = str


class Interner:
    """Maps values of A and of B to small integers; equal values get the same integer."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        #: Key of a line -> for each of the line's names, whether the line writes it.
        self.writes: dict[int, tuple[bool, ...]] = {}

    def __call__(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))


@dataclass(slots=True)
class Line:
    """One instruction, or another statement that the comparison uses, such as ``.pragma``.

    Attributes:
        index: index among the lines of the function.
        statement: the IR node.
        head: opcode and modifiers, in canonical order.
        opcode: the opcode; for other statements ``.pragma``, ``.branchtargets`` and the like.
        modifiers: the modifiers.
        guard: "", "@" or "@!".
        forms: each operand without its names.
        spans: for each operand, the range of its names in ``names``; the guard's names come first.
        names: registers and variables of the function, in the order of the operands.
        targets: the labels that the line refers to.
        key: equal for two lines that agree in everything but ``names`` and ``targets``.
        writes: for each of ``names``, whether the line writes it.
    """

    index: int
    statement: Statement
    head: str
    opcode: str
    modifiers: tuple[str, ...]
    guard: str
    forms: tuple[Hashable, ...]
    spans: tuple[tuple[int, int], ...]
    names: tuple[Name, ...]
    targets: tuple[str, ...]
    key: int
    writes: tuple[bool, ...]

    @property
    def text(self) -> str:
        """The line as PTX text."""
        if isinstance(self.statement, Raw):
            return " ".join(self.statement.text.split())
        return str(self.statement)


@dataclass(slots=True)
class Code:
    """The canonical lines of one function, its labels (label -> index of the next line) and its variables."""

    function: Function
    lines: list[Line]
    labels: dict[str, int]
    variables: dict[str, Variable]


@lru_cache(maxsize=65536)
def spelling(opcode: str, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``modifiers`` in the order of the instruction table.

    If several orders are legal, they keep the given order.
    """
    if not forms_of(opcode) or spelled(opcode, modifiers):
        return modifiers
    legal = orders(opcode, modifiers)
    return legal[0] if len(legal) == 1 else modifiers


#: Names of special registers; for vectors such as %tid, without the component.
_SPECIAL = frozenset(name.partition(".")[0] for name in SPECIAL_REGISTERS)
#: Matches a possible register in raw text.
_REGISTER = re.compile(r"%[\w$]+")


class _LineReader:
    """Reads the operands of one line."""

    def __init__(self, symbols: Mapping[str, Hashable], own: Mapping[str, Variable]) -> None:
        self.symbols = symbols
        self.own = own
        self.names: list[Name] = []
        self.targets: list[str] = []

    def symbol(self, name: str) -> Hashable:
        if name in self.own:
            self.names.append(name)
            return "variable"
        return ("symbol", self.symbols.get(name, name))

    def raw(self, found: re.Match[str]) -> str:
        """Return the replacement for a name in raw text that looks like a register, and store the name.

        Special registers are not replaced.
        """
        if found[0][1:].partition(".")[0] in _SPECIAL:
            return found[0]
        self.names.append(found[0])
        return "%"

    def form(self, operand: Operand) -> Hashable:
        """Return ``operand`` without names of registers and labels, and append these names to the line's."""
        if isinstance(operand, Register):
            self.names.append(str(operand))
            return "register"
        if isinstance(operand, Symbol):
            return ("at", self.symbol(operand.name), operand.offset)
        if isinstance(operand, BranchTarget):
            self.targets.append(operand.name)
            return "label"
        if isinstance(operand, Vector | Arguments):
            return (type(operand).__name__, *map(self.form, operand.elements))
        if isinstance(operand, Address):
            inner = None if operand.coordinates is None else self.form(operand.coordinates)
            base = self.form(operand.base)
            extra = tuple(map(self.form, operand.extra))
            return ("address", base, operand.offset, inner, extra, operand.suffix)
        if isinstance(operand, Pair):
            return ("pair", self.form(operand.first), self.form(operand.second))
        if isinstance(operand, Negated):
            return ("not", self.form(operand.register))
        if isinstance(operand, Element):
            return ("part", self.form(operand.register), operand.selector)
        if isinstance(operand, Minus):
            return ("minus", self.form(operand.operand))
        if isinstance(operand, Sum):
            return ("sum", self.form(operand.register), operand.offset)
        if isinstance(operand, Indexed):
            return ("element", self.symbol(operand.name), self.form(operand.index))
        # The text of an immediate contains its bits, so 0.0, -0.0 and NaNs are different.
        return (type(operand).__name__, str(operand))


def canonical(
    function: Function, symbols: Mapping[str, Hashable], intern: Interner, *, types: bool = True
) -> Code:
    """Convert ``function`` to its canonical form.

    ``symbols`` maps names of parameters and of the module's symbols to values that are equal for
    corresponding names.  If ``types`` is false, moves, loads, stores, selections and tests for equality have
    untyped bits.  The form leaves out `.loc`, scopes, declarations of registers, and the places of variables.
    """
    own = {v.name: v for v in function.variables}
    own.update({s.name: s for s in function.body if isinstance(s, Variable)})
    code = Code(function, [], {}, own)
    for statement in function.body:
        if isinstance(statement, LabelStatement):
            code.labels[statement.name] = len(code.lines)
            continue
        if isinstance(statement, TargetList | CallPrototype):
            code.labels[statement.name] = len(code.lines)
        line = _line(len(code.lines), statement, symbols, own, intern, types)
        if line is not None:
            code.lines.append(line)
    return code


def _line(
    index: int,
    statement: Statement,
    symbols: Mapping[str, Hashable],
    own: Mapping[str, Variable],
    intern: Interner,
    types: bool,
) -> Line | None:
    reader = _LineReader(symbols, own)
    guard = ""
    modifiers: tuple[str, ...] = ()
    forms: list[Hashable] = []
    spans: list[tuple[int, int]] = []
    if isinstance(statement, Instruction):
        opcode = statement.opcode
        modifiers = spelling(opcode, statement.modifiers)
        if not types:
            modifiers = _untyped(statement, modifiers)
        if statement.guard is not None:
            guard = "@!" if statement.guard.negated else "@"
            reader.names.append(str(statement.guard.register))
        for operand in _fitted(statement):
            start = len(reader.names)
            forms.append(reader.form(operand))
            spans.append((start, len(reader.names)))
    elif isinstance(statement, Pragma):
        opcode, forms, spans = ".pragma", [statement.strings], [(0, 0)]
    elif isinstance(statement, TargetList):
        opcode = "." + statement.kind
        reader.targets += [name for name in statement.targets if name not in symbols]
        called = tuple(symbols[name] for name in statement.targets if name in symbols)
        forms, spans = [(len(statement.targets), called)], [(0, 0)]
    elif isinstance(statement, CallPrototype):
        shape = tuple(
            (p.space, p.type.bits, p.count, p.align, p.vector)
            for p in (*statement.returns, *statement.params)
        )
        opcode = ".callprototype"
        forms, spans = [(len(statement.returns), shape, statement.directives)], [(0, 0)]
    elif isinstance(statement, Raw):
        opcode, forms = "raw", [_REGISTER.sub(reader.raw, " ".join(statement.text.split()))]
        spans = [(0, len(reader.names))]
    else:
        return None
    names = tuple(reader.names)
    key = intern((opcode, modifiers, guard, tuple(forms), len(reader.targets)))
    writes = intern.writes.get(key)
    if writes is None:
        writes = intern.writes[key] = _writes(statement, names)
    return Line(
        index,
        statement,
        ".".join((opcode, *modifiers)),
        opcode,
        modifiers,
        guard,
        tuple(forms),
        tuple(spans),
        names,
        tuple(reader.targets),
        key,
        writes,
    )


def _fitted(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the operands, each in the spelling that a recorded kernel would use."""
    if not any(map(_respelled, instruction.operands)):
        return instruction.operands
    try:
        fitted = bind_instruction(instruction).fitted
    except PyptxError:
        return instruction.operands
    pairs = zip(instruction.operands, fitted, strict=True)
    return tuple(new if _respelled(old) else old for old, new in pairs)


def _respelled(operand: Operand) -> bool:
    """True if the operand has another spelling with the same meaning.

    Examples are ``{%r}`` for ``%r``, -1 for a true predicate, and ``0d3FF0000000000000`` for a 32-bit number.
    """
    if isinstance(operand, Immediate):
        return operand.value == -1 or isinstance(operand.value, float)
    return isinstance(operand, Vector)


#: Instructions whose type only gives the number of bits (and for loads, how the value is extended).
_MOVING = ("mov", "st", "selp", "ld", "ldu")


def _untyped(instruction: Instruction, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modifiers with types such as ``u32`` or ``f32`` replaced by ``b32``.

    Only instructions that do the same with both types are changed.
    """
    kind = TYPES.get(modifiers[-1]) if modifiers else None
    if kind is None or kind.name == "pred" or not instruction.operands:
        return modifiers
    equality = instruction.opcode == "setp" and modifiers[0] in ("eq", "ne") and not kind.is_float
    if instruction.opcode not in _MOVING and not equality:
        return modifiers
    loaded = registers_of(instruction.operands[0]) if instruction.opcode in ("ld", "ldu") else []
    if any(register.type.bits != kind.bits for register in loaded):
        return modifiers
    return (*modifiers[:-1], f"b{kind.bits}")


def _writes(statement: Statement, names: tuple[Name, ...]) -> tuple[bool, ...]:
    """Return, for each name, whether the statement writes it.

    Without a form in the instruction table, the first operand counts as written.
    """
    if not isinstance(statement, Instruction) or not names:
        return (False,) * len(names)
    guarded = statement.guard is not None
    count = 0

    def numbered(register: Register) -> Register:
        nonlocal count
        count += 1
        return Register(f"#{count - 1}", register.type, register.vector)

    # A different register at each place shows which places are read and which are written.
    operands = tuple(map_registers(operand, numbered) for operand in statement.operands)
    probe = Instruction(statement.opcode, statement.modifiers, operands)
    try:
        written = {register.name for register in accesses(probe)[1]}
    except PyptxError:
        written = {"#0"} if operands and isinstance(operands[0], Register | Pair | Vector) else set()
    found: list[bool] = [False] if guarded else []
    place = 0
    for name in names[guarded:]:
        # A name of a variable is not a register: the instruction reads the variable's address.
        if name.startswith("%"):
            found.append(f"#{place}" in written)
            place += 1
        else:
            found.append(False)
    return tuple(found)


def colors(code: Code, depth: int, intern: Interner) -> list[list[int]]:
    """Return, for each distance up to ``depth``, a color of each line.

    At distance 0 the color is the key. At distance n, two lines of equal color also agree in the keys of the
    lines up to n steps away: lines that define the values that the line reads, lines that branch to it, and
    lines to which it branches. So colors distinguish lines without any names.
    """
    found = [[line.key for line in code.lines]]
    definitions: dict[Name, list[_Slot]] = defaultdict(list)
    branches: dict[int, list[_Slot]] = defaultdict(list)
    for line in code.lines:
        for slot, (name, written) in enumerate(zip(line.names, line.writes, strict=True)):
            if written:
                definitions[name].append((line.index, slot))
        for slot, label in enumerate(line.targets):
            if label in code.labels:
                branches[code.labels[label]].append((line.index, slot))
    for distance in range(1, depth + 1):
        before = found[-1]
        origin = {name: _color_of(places, before) for name, places in definitions.items()}
        found.append([])
        for line in code.lines:
            read = tuple(
                origin.get(name) for name, written in zip(line.names, line.writes, strict=True) if not written
            )
            ahead = tuple(
                before[place] if (place := code.labels.get(label, -1)) in range(len(before)) else None
                for label in line.targets
            )
            behind = _color_of(branches.get(line.index, ()), before)
            found[-1].append(intern(("color", distance, line.key, read, ahead, behind)))
    return found


#: The index of a line, and the index of one of its names or labels.
_Slot = tuple[int, int]


def _color_of(places: Iterable[_Slot], before: Sequence[int]) -> Hashable:
    return tuple(sorted({(before[index], slot) for index, slot in places}))
