"""Finds the form of an instruction in the table, and assigns its modifiers and operands to those of the form.

Owns :func:`bind`, which the recorder calls to check an instruction and the simulator to read its operands,
the check of an instruction's target, and the PTX version that a whole module needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any

from ..core.errors import OperandError, TargetError
from ..core.source import SourceLocation
from ..core.types import ScalarType
from ..ir import (
    Address,
    Arguments,
    Element,
    Immediate,
    Instruction,
    Minus,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Sum,
    Vector,
    leaves,
)
from .directives import DIRECTIVES
from .notation import Alternative, OperandSpec
from .operands import Mismatch, fit
from .special import SPECIAL_REGISTERS
from .table import Match, match_modifiers, orders
from .targets import Target, TargetSet, Version, written_target

__all__ = [
    "Binding",
    "BoundInstructions",
    "Shape",
    "bind",
    "bind_instruction",
    "check_target",
    "required_version",
]


class Shape:
    """The table's facts about an instruction, shared by instructions that differ only in register names.

    Attributes:
        match: the form of the instruction in the table, with the chosen modifiers.
        specs: the form's description of each operand that is present, by name, in order.
        replaced: the index of each constant operand that is converted to the form's type, and the new
            constant.
        alternatives: the modifiers and operands that have a version or target limit of their own.
    """

    def __init__(self, match: Match, fitted: list[tuple[OperandSpec, Operand]]) -> None:
        self.match = match
        self.specs = {spec.name: spec for spec, _ in fitted}
        self.replaced: tuple[tuple[int, Operand], ...] = ()
        self.alternatives = (
            *match.alternatives,
            *_operand_limits(match, {spec.name: operand for spec, operand in fitted}),
            *_special_limits(operand for _, operand in fitted),
        )

    @cached_property
    def since(self) -> Version:
        """The lowest PTX version that has the instruction."""
        return max([self.match.form.since, *(a.since for a in self.alternatives if a.since is not None)])

    @cached_property
    def on(self) -> tuple[TargetSet, ...]:
        """The sets of targets that have the instruction and its parts: a target must be in every set."""
        return (self.match.form.on, *(a.on for a in self.alternatives if a.on is not None))


def _special_limits(operands: Iterable[Operand]) -> Iterator[Alternative]:
    """Yield the PTX version and targets required by each special register that the operands read."""
    for operand in operands:
        for leaf in leaves(operand):
            if isinstance(leaf, Special) and leaf.name in SPECIAL_REGISTERS:
                entry = SPECIAL_REGISTERS[leaf.name]
                yield Alternative(f"%{leaf.name}", entry.since, entry.on)


def _operand_limits(match: Match, operands: dict[str, Operand]) -> list[Alternative]:
    """Return the PTX versions and targets that the form requires for the operands that are present."""
    found = []
    for limit in match.form.operand_limits:
        name, _, what = limit.text.partition(".")
        operand = operands.get(name)
        if what == "_":
            applies = isinstance(operand, Sink) or (
                isinstance(operand, Pair) and Sink() in (operand.first, operand.second)
            )
        elif what == "pair":
            applies = isinstance(operand, Pair)
        elif what:
            applies = isinstance(operand, Address) and operand.suffix == what
        else:
            applies = operand is not None
        if applies:
            found.append(limit)
    return found


class Binding:
    """An instruction that was found in the table: its form, its modifiers and its operands.

    ``fitted`` has the operands in their order, converted to what the form takes: an integer literal for a
    float operand becomes a float.
    """

    __slots__ = ("_operands", "fitted", "shape")

    def __init__(self, shape: Shape, fitted: tuple[Operand, ...]) -> None:
        self.shape = shape
        self.fitted = fitted
        self._operands: dict[str, Operand] | None = None

    @property
    def operands(self) -> dict[str, Operand]:
        """The operands by name; absent optional operands are not in the dict."""
        if self._operands is None:
            self._operands = dict(zip(self.shape.specs, self.fitted, strict=True))
        return self._operands

    @property
    def match(self) -> Match:
        """The form with the modifiers."""
        return self.shape.match

    @property
    def specs(self) -> dict[str, OperandSpec]:
        """The form's description of each operand, by name."""
        return self.shape.specs

    @property
    def form_id(self) -> str:
        """The id of the form."""
        return self.shape.match.form.id

    @property
    def chosen(self) -> dict[str, str]:
        """The instruction's modifiers, by the name of their position (slot) in the form."""
        return self.shape.match.chosen

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The modifiers and operands that have a version or target limit of their own."""
        return self.shape.alternatives

    @property
    def since(self) -> Version:
        """The lowest PTX version that has the instruction."""
        return self.shape.since

    @property
    def on(self) -> tuple[TargetSet, ...]:
        """The sets of targets that have the instruction and its parts: a target must be in every set."""
        return self.shape.on

    def types(self, name: str) -> tuple[ScalarType, ...]:
        """Return the PTX types that the form allows for operand ``name``."""
        return self.specs[name].scalar_types(self.match.chosen)


# --- one check for instructions of one shape --------------------------------------------------------


def _key_of_immediate(operand: Immediate) -> Hashable:
    value = operand.value
    # 1 and 1.0, or 0.0 and -0.0, are equal in Python but different constants.
    return (value.hex() if isinstance(value, float) else value, operand.bits, operand.pattern)


def _keys(operands: Iterable[Operand]) -> list[Hashable]:
    # Most operands are plain registers, so their key is computed here and not by a call.
    return [
        operand.type
        if operand.__class__ is Register and operand.vector == 1
        else _KEYS[operand.__class__](operand)
        for operand in operands
    ]


def _key_of_vector(operand: Vector) -> Hashable:
    return (Vector, *_keys(operand.elements))


def _key_of_address(operand: Address) -> Hashable:
    base, coordinates = operand.base, operand.coordinates
    key: Any = base.type if base.__class__ is Register else base.__class__
    moved = operand.offset != 0 or operand.zero
    if coordinates is None and not operand.extra:
        return (Address, key, moved, operand.suffix)
    extra = _keys(operand.extra)
    return (Address, key, moved, operand.suffix, coordinates and _key_of_vector(coordinates), *extra)


def _key_of_register(operand: Register) -> Hashable:
    return operand.type if operand.vector == 1 else (operand.type, operand.vector)


class _Keys(dict[type, Callable[[Any], Hashable]]):
    """Maps a class of operands to a function that returns all that :func:`fit` reads of an operand.

    For a class that is not listed, the function returns the class.
    """

    def __missing__(self, kind: type) -> Callable[[Any], Hashable]:
        return self.setdefault(kind, lambda _: kind)


_KEYS: _Keys = _Keys(
    {
        Register: _key_of_register,
        Immediate: _key_of_immediate,
        Vector: _key_of_vector,
        Address: _key_of_address,
        Special: lambda operand: operand,
        Negated: lambda operand: (Negated, operand.register.type),
        Pair: lambda pair: (Pair, *_keys((pair.first, pair.second))),
        Element: lambda part: (Element, _key_of_register(part.register), part.selector),
        Sum: lambda added: (Sum, *_keys((added.register,))),
        Minus: lambda minus: (Minus, *_keys((minus.operand,))),
        Arguments: lambda operand: Arguments,
    }
)

#: Shapes that were found legal, by opcode, modifiers and the keys of the operands.
_shapes: dict[Hashable, Shape] = {}
_MOST_SHAPES = 1 << 16


def bind(
    opcode: str,
    modifiers: tuple[str, ...],
    operands: tuple[Operand, ...],
    location: Callable[[], SourceLocation] | SourceLocation | None = None,
) -> Binding:
    """Check an instruction against the table and return its binding.

    Raises :class:`InstructionError` if the modifiers are illegal, :class:`OperandError` if the operands are.
    """
    key = (opcode, modifiers, *_keys(operands))
    shape = _shapes.get(key)
    if shape is None:
        return _bind_new(key, opcode, modifiers, operands, location)
    return _bound(shape, operands)


def _bound(shape: Shape, operands: tuple[Operand, ...]) -> Binding:
    """Return the binding of an instruction of a known shape."""
    if shape.replaced:
        converted = list(operands)
        for index, operand in shape.replaced:
            converted[index] = operand
        operands = tuple(converted)
    return Binding(shape, operands)


def _bind_new(
    key: Hashable,
    opcode: str,
    modifiers: tuple[str, ...],
    operands: tuple[Operand, ...],
    location: Callable[[], SourceLocation] | SourceLocation | None,
) -> Binding:
    best: Mismatch | None = None
    best_match: Match | None = None
    for match in match_modifiers(opcode, modifiers):
        try:
            fitted = fit(match, operands)
        except Mismatch as mismatch:
            if best is None or mismatch.position > best.position:
                best, best_match = mismatch, match
            continue
        shape = Shape(match, fitted)
        result = tuple(operand for _, operand in fitted)
        changed = [i for i, operand in enumerate(operands) if operand is not result[i]]
        # A vector that has a converted constant also has registers, which differ in each instruction.
        if all(isinstance(operands[i], Immediate) or operands[i] == result[i] for i in changed):
            shape.replaced = tuple((i, result[i]) for i in changed if isinstance(operands[i], Immediate))
            if len(_shapes) >= _MOST_SHAPES:
                _shapes.clear()
            _shapes[key] = shape
        return Binding(shape, result)
    assert best is not None and best_match is not None
    raise OperandError(
        f"{best_match.name}: {best}",
        hint=best_match.form.syntax,
        see=best_match.form.anchor,
        location=location() if callable(location) else location,
    )


def bind_instruction(instruction: Instruction) -> Binding:
    """Bind an IR instruction as :func:`bind` does; the modifiers may be in any legal order.

    Errors carry the source location of the instruction.
    """
    opcode, modifiers, operands = instruction.opcode, instruction.modifiers, instruction.operands
    shape = _shapes.get((opcode, modifiers, *_keys(operands)))
    if shape is not None:  # legal as it stands, as what was recorded is: no other order comes before it
        return _bound(shape, operands)
    others = _other_orders(opcode, modifiers)
    if not others:
        return bind(opcode, modifiers, operands, instruction.source)
    for spelling in others:
        with suppress(OperandError):
            return bind(opcode, spelling, operands)
    return bind(opcode, others[0], operands, instruction.source)


class BoundInstructions:
    """A cache of bindings: calls :func:`bind_instruction` once for each instruction."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Instruction, Binding]] = {}

    def __call__(self, instruction: Instruction) -> Binding:
        known = self._known.get(id(instruction))
        if known is None:
            known = self._known[id(instruction)] = instruction, bind_instruction(instruction)
        return known[1]


@lru_cache(maxsize=65536)
def _other_orders(opcode: str, modifiers: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the legal orders of the modifiers, a legal given one first; empty if no other order is legal."""
    found = orders(opcode, modifiers)
    own = tuple(spelling for spelling in found if spelling == modifiers)
    return () if found == own else (*own, *(s for s in found if s != modifiers))


def check_target(binding: Binding, arch: Target, location: SourceLocation | None = None) -> None:
    """Raise :class:`TargetError` unless ``arch`` has the instruction."""
    match = binding.match
    for allowed in binding.on:
        if arch not in allowed:
            raise TargetError(
                f"{match.name} does not exist on {arch}",
                hint=f"it exists on: {', '.join(t.name for t in allowed.members())}",
                see=match.form.anchor,
                location=location,
            )


def required_version(module: Module) -> Version:
    """Return the lowest ``.version`` that allows everything that the module has, and its target."""
    arch = written_target(module.target)
    version = arch.since
    for function in module.functions:
        if sum(p.nbytes for p in function.params) > 4352:
            version = max(version, (8, 1))
        if any(register.type.name == "b128" for register in function.registers):
            version = max(version, (8, 3))
        for directive in function.directives:
            if directive.name in DIRECTIVES:
                version = max(version, DIRECTIVES[directive.name].since)
        for instruction in function.instructions():
            version = max(version, bind_instruction(instruction).since)
    return version
