"""Near misses: instructions one change away from a legal one, made from the table itself.

Owns the mutations.  A near miss may well be legal (another type of the same set): what counts is that the
table and ptxas say the same of it, which :mod:`tests.isa.agreement` compares.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from pyptx.core.types import TYPES
from pyptx.ir import (
    Address,
    BranchTarget,
    Element,
    Immediate,
    Instruction,
    Minus,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from pyptx.isa import (
    KNOWN_TARGETS,
    Binding,
    Form,
    Match,
    Target,
    TargetSet,
    Version,
    all_forms,
    bind,
    forms_of,
    target,
)
from pyptx.isa.notation import ModifierGroup
from pyptx.isa.operands import address_space
from pyptx.isa.table import orders, spelled, variants
from pyptx.isa.targets import VERSIONS
from tests.isa.samples import DECLARED, choices_of, register

__all__ = [
    "KINDS",
    "LEAST",
    "Legal",
    "NearMiss",
    "claimed_targets",
    "in_order",
    "legal",
    "near_misses",
    "targets_in_all",
    "words_of",
]

#: What is changed, one thing at a time.
KINDS = (
    "modifier replaced",
    "modifier dropped",
    "modifier added",
    "modifiers reordered",
    "type replaced",
    "register type",
    "vector length",
    "operand count",
    "operand kind",
    "immediate value",
    "target",
    "version",
)
#: Kinds of change after which the modifiers are put into legal order.
_UNORDERED = ("modifier replaced", "modifier added", "type replaced")
#: Near misses that a form has, whatever is asked for of each kind.
LEAST = 20
#: Words from anywhere in the table that an opcode's own pool is joined by.
_STRANGERS = 6
#: Tries at random before every variant of a form is looked at.
_TRIES = 200
#: Instructions of the first variant that are kept, one for each kind of operand in each place.
_CHOICES = 24
_PREDICATE = register(TYPES["pred"], 3)
_WIDE = register(TYPES["u64"], 3)
#: One register of every type.
_REGISTERS = tuple(Register(name, kind) for name, kind in DECLARED.items() if name.endswith("_3"))
_SCALARS: tuple[Operand, ...] = (
    Immediate(1),
    Immediate(0.5, 32),
    Immediate(0.5, 64),
    Special("tid.x"),
    Symbol("in_shared"),
    BranchTarget("there"),
    Sink(),
    _PREDICATE,
    Negated(_PREDICATE),
    Address(_WIDE),
    Vector((_WIDE, _WIDE)),
    Pair(register(TYPES["u32"], 3), _PREDICATE),
    Element(register(TYPES["u32"], 3), "b0"),
    Element(register(TYPES["u32"], 3), "h1"),
    Minus(register(TYPES["u32"], 3)),
)


@dataclass(frozen=True)
class Legal:
    """An instruction that the table accepts."""

    binding: Binding
    instruction: Instruction


@dataclass(frozen=True)
class NearMiss:
    """``instruction`` is ``origin`` with one thing changed; ``kind`` says what sort of thing."""

    form: str
    kind: str
    instruction: Instruction
    version: Version
    target: Target
    origin: Instruction


# --- legal instructions -------------------------------------------------------------------------


def claimed_targets(binding: Binding) -> list[Target]:
    """Every known target that the instruction claims."""
    return targets_in_all(binding.on)


@cache
def targets_in_all(sets: tuple[TargetSet, ...]) -> list[Target]:
    """Every known target that each of the sets has."""
    return [t for t in map(target, KNOWN_TARGETS) if all(t in allowed for allowed in sets)]


def _spelling(form: Form, slot: str, text: str | None, rng: random.Random) -> Match | None:
    """A legal choice of modifiers at random in which ``slot`` has ``text`` (None: it is absent)."""
    for _ in range(_TRIES):
        words: list[str] = []
        for group in form.modifiers:
            here = [s.name for s in group.slots]
            wanted = text is not None if slot in here else rng.random() < 0.5
            if group.optional and not wanted:
                continue
            for s in group.slots:
                words.append(text if s.name == slot and text else rng.choice(s.alternatives).text)
        for match in spelled(form.opcode, tuple(words)):
            if match.form is form and match.chosen.get(slot) == text:
                return match
    return next((match for match in variants(form) if match.chosen.get(slot) == text), None)


def _goals(groups: Iterable[ModifierGroup]) -> Iterator[tuple[str, str | None]]:
    for group in groups:
        for slot in group.slots:
            for alternative in slot.alternatives:
                yield slot.name, alternative.text
        if group.optional:
            yield group.slots[0].name, None


@cache
def legal(form: Form) -> tuple[Legal, ...]:
    """Legal instructions of a form: every alternative, every optional part in and out, every kind of operand.

    Raises AssertionError for an alternative that is never legal.
    """
    rng = random.Random(form.id)
    matches: dict[tuple[str, ...], Match] = {}
    for slot, text in _goals(form.modifiers) if form.modifiers else [("", None)]:
        if any(match.chosen.get(slot) == text for match in matches.values()) and len(matches) > 2:
            continue
        match = _spelling(form, slot, text, rng)
        assert match is not None or text is None, f"[{form.id}] .{text} in .{slot} is never legal"
        if match is not None:
            matches[match.spelling] = match
    found: dict[str, Legal] = {}
    for number, match in enumerate(matches.values()):
        choices = list(choices_of(form, match))
        kept = choices if number == 0 else [choices[0], rng.choice(choices)]
        for instruction in kept if len(kept) <= _CHOICES else rng.sample(kept, _CHOICES):
            binding = bind(form.opcode, match.spelling, instruction.operands)
            found.setdefault(str(instruction), Legal(binding, instruction))
    return tuple(found.values())


# --- modifiers ----------------------------------------------------------------------------------


def in_order(opcode: str, words: Iterable[str]) -> tuple[str, ...] | None:
    """A legal spelling that has exactly these modifiers, in whatever order they are given."""
    return next(iter(orders(opcode, tuple(words))), None)


@cache
def words_of(opcode: str) -> tuple[str, ...]:
    """Every modifier of the forms of an opcode."""
    words = (a.text for form in forms_of(opcode) for slot in form.slots() for a in slot.alternatives)
    return tuple(dict.fromkeys(words))


@cache
def _all_words() -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for form in all_forms() for word in words_of(form.opcode)))


def _modifiers(base: Instruction, rng: random.Random) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Other modifiers, with the kind of change."""
    opcode, words = base.opcode, base.modifiers
    strangers = rng.sample(_all_words(), _STRANGERS)
    pool = [*words_of(opcode), *strangers]
    for i, word in enumerate(words):
        without = words[:i] + words[i + 1 :]
        yield "modifier dropped", without
        for other in TYPES if word in TYPES else pool:
            if other != word:
                changed = (*words[:i], other, *words[i + 1 :])
                kind = "type replaced" if word in TYPES else "modifier replaced"
                yield kind, changed
    for other in pool:
        place = rng.randint(0, len(words))
        yield "modifier added", (*words[:place], other, *words[place:])
    for i in range(len(words) - 1):
        yield "modifiers reordered", (*words[:i], words[i + 1], words[i], *words[i + 2 :])


# --- operands -----------------------------------------------------------------------------------


def _lengths(vector: Vector) -> Iterator[Operand]:
    """Vectors of other lengths, and the first element without braces."""
    elements = vector.elements
    for length in sorted({len(elements) // 2, len(elements) - 1, len(elements) + 1, len(elements) * 2} - {0}):
        grown = (elements * 2)[:length] if length <= 2 * len(elements) else elements
        if length != len(elements):
            yield Vector(grown)
    first = elements[0]
    if not isinstance(first, Vector):
        yield first


def _values(
    immediate: Immediate, values: range | tuple[int, ...] | None, bits: tuple[int, ...]
) -> Iterator[Operand]:
    """Values at the edges of what is allowed and beyond."""
    found: set[int] = {-1, 0}
    if values:
        step = values.step if isinstance(values, range) else 1
        found |= {values[0] - step, values[-1] + step, values[-1] + 1, values[0] + 1, values[0], values[-1]}
    for width in bits:
        if width > 1:
            found |= {1 << width, (1 << width) - 1, -(1 << (width - 1)), -(1 << (width - 1)) - 1}
    yield from (Immediate(value) for value in sorted(found) if value != immediate.value)


def _address(address: Address) -> Iterator[tuple[str, Operand]]:
    for other in _REGISTERS:
        if not isinstance(address.base, Register) or other.type is not address.base.type:
            yield "register type", replace(address, base=other)
    yield "operand kind", replace(address, base=Symbol("in_shared"))
    yield "operand kind", replace(address, base=Immediate(4096))
    yield "operand kind", replace(address, base=_PREDICATE)
    yield "immediate value", replace(address, offset=3)
    yield "immediate value", replace(address, offset=-4)
    yield "operand kind", address.base
    if address.coordinates is None:
        yield "vector length", replace(address, coordinates=Vector((register(TYPES["s32"], 3),)))
    else:
        yield "vector length", replace(address, coordinates=None)
        for kind, changed in _changed(address.coordinates):
            if isinstance(changed, Vector):
                yield kind, replace(address, coordinates=changed)


def _changed(operand: Operand) -> Iterator[tuple[str, Operand]]:
    """Other operands in the place of one, with the kind of change."""
    if isinstance(operand, Address):
        yield from _address(operand)
        return
    if isinstance(operand, Vector):
        for other in _lengths(operand):
            yield "vector length", other
        place = len(operand.elements) - 1
        for kind, other in _changed(operand.elements[place]):
            if kind in ("register type", "operand kind") and not isinstance(other, Address | Vector | Pair):
                yield kind, Vector((*operand.elements[:place], other))  # type: ignore[arg-type]
        return
    if isinstance(operand, Register):
        yield from (("register type", other) for other in _REGISTERS if other.type is not operand.type)
    if isinstance(operand, Pair) and isinstance(operand.first, Register):
        yield "operand kind", operand.first
        yield "operand kind", Pair(operand.first, Sink())
        yield "operand kind", Pair(Sink(), operand.second)
        for other in _REGISTERS:
            if other.type is not operand.first.type:
                yield "register type", Pair(other, operand.second)
            if other.type.kind != "p":
                yield "register type", Pair(operand.first, other)
    for scalar in _SCALARS:
        if type(scalar) is not type(operand) or isinstance(scalar, Element):
            yield "operand kind", scalar
    if isinstance(operand, Register | Immediate | Sink):
        yield "vector length", Vector((operand,))
        yield "vector length", Vector((operand, operand))


def _operands(base: Legal) -> Iterator[tuple[str, tuple[Operand, ...]]]:
    """Other operands, with the kind of change."""
    given = base.instruction.operands
    specs = list(base.binding.specs.values())
    if any("arguments" in spec.kinds for spec in specs):
        return  # a call's operands are its function's: a module's matter
    for i, operand in enumerate(given):
        # What a name stands for is known to a module, not to an instruction: shared variables only, where they fit.
        shared = specs[i].access == "a" and address_space(specs[i], base.binding.chosen).startswith("shared")
        for kind, changed in _changed(operand):
            if shared or not (isinstance(changed, Address) and isinstance(changed.base, Symbol)):
                yield kind, (*given[:i], changed, *given[i + 1 :])
        # An immediate's edges are tried where the form takes one, whatever the legal instruction has there.
        if specs[i].access != "a" and "imm" in specs[i].kinds:
            bits = tuple(kind.bits for kind in specs[i].scalar_types(base.binding.chosen))
            for value in _values(Immediate(1), specs[i].values, bits):
                yield "immediate value", (*given[:i], value, *given[i + 1 :])
        yield "operand count", given[:i] + given[i + 1 :]
        yield "operand count", (*given[: i + 1], operand, *given[i + 1 :])
    for extra in (
        register(TYPES["u32"], 5),
        register(TYPES["b64"], 5),
        _PREDICATE,
        Immediate(1),
        Address(_WIDE),
    ):
        yield "operand count", (*given, extra)


# --- near misses --------------------------------------------------------------------------------


def _places(base: Legal, newest: Version) -> Iterator[tuple[str, Version, Target]]:
    """Other targets and versions for a legal instruction."""
    claimed = claimed_targets(base.binding)
    first = min(claimed, key=lambda t: t.since)
    for version in VERSIONS:
        if first.since <= version <= newest:
            yield "version", version, first
    for arch in map(target, KNOWN_TARGETS):
        for version in {max(base.binding.since, arch.since), newest}:
            if arch.since <= version <= newest:
                yield "target", version, arch


def near_misses(form: Form, newest: Version, per_kind: int) -> list[NearMiss]:
    """At most ``per_kind`` near misses of each kind, spread over the form's legal instructions.

    More where that makes fewer than :data:`LEAST`: a bare instruction has few kinds.
    The choice depends on the table alone.  Each has the newest version, or the first that the legal
    instruction claims, and a target that it claims.
    """
    rng = random.Random(f"{form.id} near")
    bases = list(legal(form))
    found: dict[str, list[NearMiss]] = {kind: [] for kind in KINDS}
    for base in bases:
        for kind, version, arch in _places(base, newest):
            found[kind].append(NearMiss(form.id, kind, base.instruction, version, arch, base.instruction))
    rng.shuffle(bases)
    for base in bases:
        arch = rng.choice(claimed_targets(base.binding))
        version = newest if rng.random() < 0.75 else max(base.binding.since, arch.since)
        given = base.instruction
        named = any(isinstance(o, Address) and isinstance(o.base, Symbol) for o in given.operands)
        if not named and any(len(found[kind]) < 4 * per_kind for kind in KINDS[:5]):
            for kind, modifiers in _modifiers(given, rng):
                changed = Instruction(given.opcode, modifiers, given.operands)
                found[kind].append(NearMiss(form.id, kind, changed, version, arch, given))
        if any(len(found[kind]) < 4 * per_kind for kind in KINDS[5:10]):
            for kind, operands in _operands(base):
                changed = Instruction(given.opcode, given.modifiers, operands)
                found[kind].append(NearMiss(form.id, kind, changed, version, arch, given))
    most = per_kind
    while True:
        chosen = [miss for kind, misses in found.items() for miss in _choice(kind, misses, most, rng)]
        if len(chosen) >= LEAST or most >= max(map(len, found.values())):
            return chosen
        most *= 2


def _choice(kind: str, misses: list[NearMiss], most: int, rng: random.Random) -> Iterable[NearMiss]:
    """At most so many of them at random, none twice."""
    chosen: dict[tuple[str, Version, str], NearMiss] = {}
    for miss in rng.sample(misses, len(misses)):
        if len(chosen) == most:
            break
        if kind in _UNORDERED:
            miss = _tidied(miss)
        chosen[str(miss.instruction), miss.version, miss.target.name] = miss
    return chosen.values()


def _tidied(miss: NearMiss) -> NearMiss:
    """The near miss with its modifiers in legal order, where there is one: order is a mutation of its own."""
    given = miss.instruction
    words = in_order(given.opcode, given.modifiers)
    return miss if words is None else replace(miss, instruction=replace(given, modifiers=words))
