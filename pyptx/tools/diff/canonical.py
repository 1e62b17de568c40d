"""A function's body in a form that names and places of declarations do not show in.

Owns what counts: an instruction becomes a :class:`Line` whose ``key`` has everything but the names of
registers, labels and the function's own variables; those are kept aside, in the order they stand.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...core.errors import PyptxError
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

#: A name in a line: ``%r`` of a register, ``v`` of a variable.
Name = str


class Interner:
    """Equal values of both sides as equal small numbers."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        #: Which names of a line are written, by the line's key.
        self.writes: dict[int, tuple[bool, ...]] = {}

    def __call__(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))


@dataclass(slots=True)
class Line:
    """One thing of the instruction stream.

    Attributes:
        index: its place among the lines of the function.
        statement: the IR node.
        head: opcode and modifiers, in canonical order.
        opcode: the first word; ``.pragma``, ``.branchtargets`` and the like for what is no instruction.
        modifiers: the others.
        guard: "", "@" or "@!".
        forms: each operand without its names.
        spans: where the names of each operand stand in ``names``; the guard's come first.
        names: registers and variables of the function, as they stand.
        targets: labels.
        key: equal where everything but ``names`` and ``targets`` is.
        writes: which of ``names`` it writes.
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
        """As PTX."""
        if isinstance(self.statement, Raw):
            return " ".join(self.statement.text.split())
        return str(self.statement)


@dataclass(slots=True)
class Code:
    """The lines of a function; where its labels stand (the index of the line behind); its own variables."""

    function: Function
    lines: list[Line]
    labels: dict[str, int]
    variables: dict[str, Variable]


@lru_cache(maxsize=65536)
def spelling(opcode: str, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """``modifiers`` in the order of the table, where that is the only legal one of these words."""
    if not forms_of(opcode) or spelled(opcode, modifiers):
        return modifiers
    legal = orders(opcode, modifiers)
    return legal[0] if len(legal) == 1 else modifiers


#: Special registers, of vectors without the component.
_SPECIAL = frozenset(name.partition(".")[0] for name in SPECIAL_REGISTERS)
#: What may be a register in raw text.
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
        """A word of raw text that may be a register: special ones stay."""
        if found[0][1:].partition(".")[0] in _SPECIAL:
            return found[0]
        self.names.append(found[0])
        return "%"

    def form(self, operand: Operand) -> Hashable:
        """``operand`` without its names, which are collected."""
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
        # Immediates print their bits, so that 0.0, -0.0 and NaN are told apart.
        return (type(operand).__name__, str(operand))


def canonical(
    function: Function, symbols: Mapping[str, Hashable], intern: Interner, *, types: bool = True
) -> Code:
    """``function`` read: ``symbols`` says what the names of parameters and of the module stand for.

    Without ``types``, those of moves, loads, stores, selections and tests for equality are untyped bits.
    Dropped are `.loc`, scopes, declarations of registers, and the places of variables.
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
    """The operands, with what has several spellings as a recording has it: see :func:`_respelled`."""
    if not any(map(_respelled, instruction.operands)):
        return instruction.operands
    try:
        fitted = bind_instruction(instruction).fitted
    except PyptxError:
        return instruction.operands
    pairs = zip(instruction.operands, fitted, strict=True)
    return tuple(new if _respelled(old) else old for old, new in pairs)


def _respelled(operand: Operand) -> bool:
    """``{%r}`` for ``%r``, -1 for a predicate that holds, ``0d3FF0000000000000`` for a number of 32 bits."""
    if isinstance(operand, Immediate):
        return operand.value == -1 or isinstance(operand.value, float)
    return isinstance(operand, Vector)


#: Instructions whose type says how many bits are moved; with loads, also how they are extended.
_MOVING = ("mov", "st", "selp", "ld", "ldu")


def _untyped(instruction: Instruction, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """``modifiers`` with ``b32`` for ``u32``, ``s32`` and ``f32`` where that is the same instruction."""
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
    """Which names are written; a guess by position for what the table does not know."""
    if not isinstance(statement, Instruction) or not names:
        return (False,) * len(names)
    guarded = statement.guard is not None
    count = 0

    def numbered(register: Register) -> Register:
        nonlocal count
        count += 1
        return Register(f"#{count - 1}", register.type, register.vector)

    # Registers of their own for each place tell apart what is read and written.
    operands = tuple(map_registers(operand, numbered) for operand in statement.operands)
    probe = Instruction(statement.opcode, statement.modifiers, operands)
    try:
        written = {register.name for register in accesses(probe)[1]}
    except PyptxError:
        written = {"#0"} if operands and isinstance(operands[0], Register | Pair | Vector) else set()
    found: list[bool] = [False] if guarded else []
    place = 0
    for name in names[guarded:]:
        # Variables are names too, but no registers; they are read by address.
        if name.startswith("%"):
            found.append(f"#{place}" in written)
            place += 1
        else:
            found.append(False)
    return tuple(found)


def colors(code: Code, depth: int, intern: Interner) -> list[list[int]]:
    """For each distance up to ``depth`` a number per line: equal where the line and what leads to it agree.

    At distance 0 it is the key; at n also the keys of the definitions of what the line reads, of the lines
    that branch to it and of those that it branches to, up to n steps away. Registers and blocks are thereby
    told apart by how they are reached, never by name.
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


#: A line, and which of its names or labels.
_Slot = tuple[int, int]


def _color_of(places: Iterable[_Slot], before: Sequence[int]) -> Hashable:
    return tuple(sorted({(before[index], slot) for index, slot in places}))
