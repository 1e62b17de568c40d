"""The facts about one instruction that following undefined bits through it needs, read from its operands.

Owns :class:`BitFlow`: the sources, the destinations and the rule of an instruction.
"""

from __future__ import annotations

from ...core.records import dataclass
from ...core.types import TYPES, ScalarType
from ...ir import Address, Element, Indexed, Operand, Pair, Register, Vector, registers_of
from .array_code import ArrayEmitter
from .function import FunctionCode
from .liveness import CARRY
from .propagation import EACH, USED, Propagation, Rule
from .semantic import Op, RegisterPlace

__all__ = ["BitFlow", "Dest", "Source", "bit_flow"]


@dataclass(frozen=True, slots=True)
class Source:
    """An operand that an instruction reads: its type, its registers, and whether it is an address."""

    name: str
    operand: Operand | None
    kind: ScalarType
    places: tuple[RegisterPlace, ...]
    is_address: bool


@dataclass(frozen=True, slots=True)
class Dest:
    """A register that an instruction writes, the type of the value, and its position among the results."""

    place: RegisterPlace
    kind: ScalarType
    part: int | None


@dataclass(frozen=True, slots=True)
class BitFlow:
    """Sources, destinations and rule of an instruction; its guard is not among them.

    ``reads`` and ``writes`` are the indices of the registers of all sources and destinations.
    """

    propagation: Propagation
    sources: tuple[Source, ...]
    dests: tuple[Dest, ...]
    reads: frozenset[int]
    writes: frozenset[int]

    @property
    def rule(self) -> Rule:
        return self.propagation.rule


def bit_flow(code: FunctionCode, op: Op) -> BitFlow:
    """Return the facts about ``op``, an instruction of ``code``. They are computed once and cached."""
    found: BitFlow | None = op.cache.get(BitFlow)
    if found is None:
        found = op.cache[BitFlow] = _read(code, op)
    return found


def _read(code: FunctionCode, op: Op) -> BitFlow:
    if not op.semantic.modeled:
        # The instruction ends the run.
        return BitFlow(USED, (), (), frozenset(), frozenset())
    emitter = ArrayEmitter(code, masked=False)
    propagation = op.semantic.undefined
    if "sat" in op.chosen or op.chosen.get("half") == "hi":
        # The result is not the lower part of a sum or product.
        propagation = EACH if op.semantic.per == "value" else propagation
    sources = []
    for spec, operand in emitter.operands(op):
        if op.semantic.checks_registers and spec.access == "rw":
            # It is known only when the instruction runs whether it reads its accumulator.
            continue
        found = registers_of(operand) if operand is not None else []
        places = tuple(code.places[register.name] for register in found)
        is_address = isinstance(operand, Address) or (isinstance(operand, Indexed) and spec.access == "a")
        # An address has no type, and neither has an operand that the instruction leaves out.
        typed = not is_address and operand is not None
        kind = emitter.type_of(operand, spec, op) if typed else TYPES["b64"]
        sources.append(Source(spec.name, operand, kind, places, is_address))
    dests: list[Dest] = []
    for spec in op.binding.match.form.specs():
        written = op.binding.operands.get(spec.name)
        if spec.access not in ("w", "rw") or written is None:
            continue
        if isinstance(written, Register | Element):
            dests.append(Dest(emitter.place(written), emitter.type_of(written, spec, op), None))
        elif isinstance(written, Vector):
            kind = spec.scalar_types(op.chosen)[0]
            for number, part in enumerate(written.elements):
                if isinstance(part, Register):
                    dests.append(Dest(emitter.place(part), kind, number))
        elif isinstance(written, Pair):
            for number, part in enumerate((written.first, written.second)):
                if isinstance(part, Register):
                    kind = emitter.type_of(part, spec, op) if number == 0 else TYPES["pred"]
                    dests.append(Dest(emitter.place(part), kind, number))
    reads = {place.index for source in sources for place in source.places}
    writes = {dest.place.index for dest in dests}
    if propagation.reads_carry:
        reads.add(CARRY.index)
    if propagation.rule is Rule.CARRY and "cc" in op.chosen:
        writes.add(CARRY.index)
        dests.append(Dest(CARRY, TYPES["b16"], None))
    return BitFlow(
        propagation,
        tuple(sources),
        tuple(dests),
        frozenset(reads),
        frozenset(writes),
    )
