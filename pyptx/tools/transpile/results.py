"""Finds ``ptx`` functions that emit an instruction and return its result: ``x = ptx.mad(a, b, c)``.

Owns :func:`result_call`. The module tests whether a call emits exactly the instruction: it runs the call in a
small program, once for each combination of types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from ...core.errors import PyptxError
from ...core.records import dataclass
from ...core.types import TYPES, ScalarType
from ...dsl import Program, ptx, reg
from ...dsl.registers import Reg
from ...ir import Address, Immediate, Instruction, Register, Symbol

__all__ = ["VOTING", "Call", "result_call"]

#: Opcodes whose operands should have the type in the instruction's name.
VOTING = frozenset({"mad", "mul", "min", "max", "cvt"})
_ROUNDINGS = ("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")
_SPACES = ("global", "shared", "local", "const", "param")

#: An operand of the call: the type of a register, a number, or the type of an address's base and the offset.
Given = Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call ``ptx.function(first..., operands..., last..., keywords)``."""

    function: str
    first: tuple[ScalarType, ...] = ()
    last: tuple[ScalarType | str, ...] = ()
    keywords: tuple[tuple[str, str | bool], ...] = ()


def _keywords(words: tuple[str, ...], *known: str) -> tuple[tuple[str, str | bool], ...] | None:
    """Return an instruction's modifiers as keyword arguments, or None if one of them is not in ``known``."""
    found: list[tuple[str, str | bool]] = []
    for word in words:
        if word in _ROUNDINGS and "rounding" in known:
            found.append(("rounding", word))
        elif word in known:
            found.append((word, True))
        else:
            return None
    return tuple(found)


def _calls(instruction: Instruction) -> Iterator[Call]:
    """Yield the DSL calls that may emit ``instruction``; only a trial shows whether one does."""
    opcode, words = instruction.opcode, instruction.modifiers
    if not words:
        return
    kind = TYPES.get(words[-1])
    if opcode == "cvt" and len(words) >= 2 and words[-2] in TYPES:
        keywords = _keywords(words[:-2], "rounding", "ftz", "sat")
        if keywords is not None:
            yield Call("cvt", last=(TYPES[words[-2]],), keywords=keywords)
    elif opcode == "cvta" and words[0] == "to" and len(words) == 3:
        yield Call("cvta_to", last=(words[1],))
    elif opcode == "cvta" and len(words) == 2:
        yield Call("cvta", last=(words[0],))
    elif opcode == "ld" and kind is not None and kind.bits > 8:
        space = words[0] if words[0] in _SPACES else None
        rest = words[1:-1] if space else words[:-1]
        keywords = _keywords(rest, "nc")
        if keywords is not None:
            yield Call("load", (kind,), keywords=((("space", space),) if space else ()) + keywords)
    elif opcode in ("mad", "mul") and words[0] in ("lo", "hi", "wide") and len(words) == 2:
        yield Call(opcode, keywords=() if words[0] == "lo" else (("half", words[0]),))
    elif opcode in (
        "add",
        "sub",
        "mul",
        "div",
        "fma",
        "min",
        "max",
        "ex2",
        "lg2",
        "rcp",
        "sqrt",
        "rsqrt",
        "abs",
    ):
        known = (
            ("approx", "rounding", "ftz", "sat", "full")
            if opcode in ("ex2", "lg2")
            else ("rounding", "ftz", "sat")
        )
        given = tuple(w for w in words[:-1] if not (opcode in ("ex2", "lg2") and w == "approx"))
        keywords = _keywords(given, *known)
        if keywords is not None:
            yield Call(opcode, keywords=keywords)
    elif opcode in ("selp", "bfe", "popc", "clz", "brev", "prmt", "lop3") and len(words) == 1:
        yield Call(opcode)


def result_call(
    instruction: Instruction, kind_of: Callable[[Register], ScalarType], arch: str
) -> tuple[Call, ScalarType] | None:
    """Return the DSL call that emits ``instruction`` and returns its first operand, and the result's type."""
    given: list[Given] = []
    for operand in instruction.operands[1:]:
        if isinstance(operand, Register) and operand.vector == 1:
            given.append(kind_of(operand))
        elif (
            isinstance(operand, Immediate)
            and operand.pattern is None
            and not isinstance(operand.value, float)
        ):
            given.append(int(operand.value))
        elif isinstance(operand, Address) and not (operand.extra or operand.coordinates or operand.suffix):
            if isinstance(operand.base, Register):
                given.append(("address", kind_of(operand.base)))
            elif isinstance(operand.base, Symbol):
                given.append(("symbol", None))
            else:
                return None
        else:
            return None
    for call in _calls(instruction):
        kind = _tried(call, tuple(given), instruction.opcode, instruction.modifiers, arch)
        if kind is not None:
            return call, kind
    return None


@lru_cache(maxsize=4096)
def _tried(
    call: Call, given: tuple[Given, ...], opcode: str, modifiers: tuple[str, ...], arch: str
) -> ScalarType | None:
    """Return the type of the call's result if the call emits exactly this instruction, else None."""
    program = Program(arch)
    made: list[Any] = []
    sources: list[Any] = []

    def trial() -> None:
        for each in given:
            if isinstance(each, ScalarType):
                sources.append(reg.scalar(each))
            elif isinstance(each, tuple):
                base = ptx.symbol("symbol") if each[1] is None else reg.scalar(each[1])
                sources.append(ptx.addr(base))
            else:
                sources.append(each)
        function = getattr(ptx, call.function)
        made.append(function(*call.first, *sources, *call.last, **dict(call.keywords)))

    try:
        program.entry()(trial)
    except (PyptxError, TypeError):  # TypeError: the function takes another number of operands
        return None
    recorded = list(program.module(check=False).functions[0].instructions())
    if len(recorded) != 1 or (recorded[0].opcode, recorded[0].modifiers) != (opcode, modifiers):
        return None
    operands = recorded[0].operands
    if len(operands) != len(given) + 1 or not isinstance(made[0], Reg) or operands[0] != made[0].operand:
        return None
    for source, operand in zip(sources, operands[1:], strict=True):
        if isinstance(source, Reg) and operand != source.operand:
            return None
        if isinstance(source, int) and operand != Immediate(source):
            return None
    kind: ScalarType = made[0].type
    return kind
