"""Offsets into global memory that are computed in 32 bits and can exceed them.

A 32-bit value that is widened to 64 bits and leads to an address of global memory is reported if the numbers
that it can have reach beyond its type: the bits have wrapped before they were widened. Only bounds that are
known count, so a parameter or a loaded value that nothing limits is no finding, and neither is a difference
that may be negative. Where the sizes of the arrays are known, one of those that the address leads to must be
larger than what the type can address.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.remedies import Remedy
from ...core.types import TYPES, ScalarType
from ...flow import Graph, Interval, accesses, is_finite, type_range, value_ranges
from ...ir import Address, Function, Immediate, Instruction, Operand, Register, Symbol, Vector, registers_of
from ...isa import Binding, bind_instruction
from .assumptions import special_ranges, stated
from .subject import Array, Subject

__all__ = ["wrapping_offsets"]

_ELSEWHERE = frozenset({"shared", "local", "param", "const"})


def wrapping_offsets(function: Function, graph: Graph, subject: Subject) -> list[Finding]:
    """Report the 32-bit offsets of ``function`` that can wrap."""
    slices = _Slices(function)
    if not slices.addresses:
        return []
    ranges = value_ranges(function, graph, special_ranges(function, subject), subject.params)
    found: dict[int, Finding] = {}
    for block in sorted(ranges.inputs):
        for index, instruction, binding, state in ranges.states(block):
            results = {register.name for register in accesses(instruction, binding)[1]}
            if results.isdisjoint(slices.addresses):
                continue
            for widened in _widened(binding):
                value = ranges.value(widened.operand, state)
                if _wraps(value, widened.kind):
                    origin = slices.origin(widened.operand, index)
                    finding = _finding(function, subject, slices, widened, value, origin, index)
                    if finding is not None:
                        found.setdefault(origin, finding)
    return [found[origin] for origin in sorted(found)]


@dataclass(frozen=True, slots=True)
class _Widened:
    """A 32-bit operand that an instruction widens as ``kind``, and by what it then multiplies the value."""

    operand: Operand
    kind: ScalarType
    scale: int = 1


def _widened(binding: Binding) -> Iterator[_Widened]:
    """Yield the operands that an instruction widens from 32 to 64 bits."""
    chosen, operands = binding.chosen, binding.operands
    if binding.form_id in ("mul.wide", "mad.wide"):
        kind = TYPES[chosen["type"]]
        for name, other in (("a", "b"), ("b", "a")):
            by = operands[other]
            scale = by.value if isinstance(by, Immediate) and isinstance(by.value, int) else 1
            if kind.bits == 32 and isinstance(operands[name], Register):
                yield _Widened(operands[name], kind, max(1, abs(scale)))
    elif binding.form_id == "cvt.int" and TYPES[chosen["dtype"]].bits == 64:
        kind = TYPES[chosen["atype"]]
        if kind.bits == 32:
            yield _Widened(operands["a"], kind)
    elif binding.form_id == "mov.pack.b64":
        pair = operands["a"]
        if isinstance(pair, Vector) and pair.elements[1] == Immediate(0):
            yield _Widened(pair.elements[0], TYPES["u32"])


def _wraps(value: Interval, kind: ScalarType) -> bool:
    """True if the value has known bounds that reach beyond the type's largest number."""
    return is_finite(value) and value[1] > type_range(kind)[1]


class _Slices:
    """The 64-bit registers of a function from which addresses of global memory are computed."""

    def __init__(self, function: Function) -> None:
        self._flow: list[tuple[int, Instruction, Binding, set[str], set[str]]] = []
        bases: dict[str, list[int]] = {}
        for index, instruction in enumerate(function.body):
            if not isinstance(instruction, Instruction):
                continue
            binding = bind_instruction(instruction)
            reads, writes = accesses(instruction, binding)
            wide = {register.name for register in reads if register.type.bits == 64}
            if instruction.opcode in ("ld", "atom"):  # what is loaded is not computed from the address
                wide = set()
            self._flow.append((index, instruction, binding, wide, {register.name for register in writes}))
            for base in _global_bases(instruction):
                bases.setdefault(base, []).append(index)
        self._bases = bases
        #: Registers that lead to an address of global memory.
        self.addresses = self._backward(set(bases))

    def _backward(self, names: set[str]) -> set[str]:
        found = set(names)
        while True:
            before = len(found)
            for _, _, _, reads, writes in reversed(self._flow):
                if not writes.isdisjoint(found):
                    found |= reads
            if len(found) == before:
                return found

    def _forward(self, names: set[str]) -> set[str]:
        found = set(names)
        while True:
            before = len(found)
            for _, _, _, reads, writes in self._flow:
                if not reads.isdisjoint(found):
                    found |= writes
            if len(found) == before:
                return found

    def accesses(self, index: int) -> tuple[list[Instruction], set[str]]:
        """Return the accesses that the result of statement ``index`` leads to, and their parameters."""
        (writes,) = (writes for at, *_, writes in self._flow if at == index)
        bases = self._forward(writes) & self._bases.keys()
        places = sorted(place for base in bases for place in self._bases[base])
        at = {place: instruction for place, instruction, *_ in self._flow}
        registers = self._backward(set(bases))
        params = {
            name
            for _, instruction, _, _, written in self._flow
            if not written.isdisjoint(registers)
            for name in _parameters(instruction)
        }
        return [at[place] for place in places], params

    def origin(self, operand: Operand, index: int) -> int:
        """Return the statement that computes a register before statement ``index``, or ``index``."""
        names = {register.name for register in registers_of(operand)}
        before = [at for at, *_, writes in self._flow if at < index and not writes.isdisjoint(names)]
        return before[-1] if before else index

    def statement(self, index: int) -> Instruction:
        """Return the instruction at a place."""
        return next(instruction for at, instruction, *_ in self._flow if at == index)


def _global_bases(instruction: Instruction) -> Iterator[str]:
    """Yield the 64-bit registers that address global memory, or memory of a space that is not named."""
    spaces = {modifier.partition(":")[0] for modifier in instruction.modifiers}
    if "global" not in spaces and not spaces.isdisjoint(_ELSEWHERE):
        return
    for operand in instruction.operands:
        base = operand.base if isinstance(operand, Address) else None
        if isinstance(base, Register) and base.type.bits == 64:
            yield base.name


def _parameters(instruction: Instruction) -> Iterator[str]:
    if instruction.opcode == "ld":
        for operand in instruction.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Symbol):
                yield operand.base.name


def _finding(
    function: Function,
    subject: Subject,
    slices: _Slices,
    widened: _Widened,
    value: Interval,
    origin: int,
    index: int,
) -> Finding | None:
    """Return the finding, or None if no array is large enough for the offset to be meant."""
    used, params = slices.accesses(index)
    limit = type_range(widened.kind)[1]
    into = ""
    if subject.arrays is not None:
        reached = [subject.arrays[name] for name in params if name in subject.arrays]
        large = _largest(reached or list(subject.arrays.values()))
        if large is None or large.nbytes <= (limit + 1) * widened.scale:
            return None
        into = f", in {large.name} {large.shape} of {large.nbytes:,} bytes"
    source = slices.statement(origin)
    widens = slices.statement(index)
    message = (
        f"{source} can reach {int(value[1]):,}, but as .{widened.kind} the 32 bits end at {limit:,}; the "
        f"result is an offset into global memory{into}"
    )
    other = [(f"widened to 64 bits by {widens}", widens.source)] if origin != index else []
    other += [(f"the address of {each}", each.source) for each in used[:1]]
    return Finding(
        RULES["offset-wraps"],
        message,
        source.source,
        other=tuple(other),
        why=f"assumed: {stated(function, subject)}",
        remedy=_remedy(source, widened.kind),
    )


def _largest(arrays: list[Array]) -> Array | None:
    return max(arrays, key=lambda array: array.nbytes, default=None)


def _remedy(source: Instruction, kind: ScalarType) -> Remedy:
    """Return the spelling in 64 bits of the instruction that wraps, where there is one instruction."""
    sign = "s" if kind.kind == "s" else "u"
    name = {"mul": f"mul.wide.{sign}32", "mad": f"mad.wide.{sign}32"}.get(source.opcode)
    if name is None or "lo" not in source.modifiers:
        return Remedy(
            RULES["offset-wraps"].remedy,
            f"wide = reg.scalar({sign}64); ptx.inst.cvt.{sign}64.{sign}32(wide, x)",
            f"cvt.{sign}64.{sign}32 %wide, %x;",
        )
    operands = ", ".join(map(str, source.operands[1:3]))
    third = ", %c64" if source.opcode == "mad" else ""
    return Remedy(
        RULES["offset-wraps"].remedy,
        f"wide = reg.scalar({sign}64); ptx.inst.{name}(wide, ...)",
        f"{name} %wide, {operands}{third};",
    )
