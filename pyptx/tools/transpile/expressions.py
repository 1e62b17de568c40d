"""Writes PTX instructions as Python expressions: operators, special registers, updates such as ``x += y``.

Owns :class:`Expressions`, which finds the expression or statement that emits exactly an instruction and is
shorter than ``ptx.inst``, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ...core.types import TYPES, ScalarType
from ...dsl.types import bits_of, move_type
from ...ir import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    registers_of,
)
from ...isa.special import SPECIAL_REGISTERS
from .arrays import Array
from .body import StatementStep
from .names import word
from .operand_writer import OperandWriter, Pending, generic, imported, inner
from .operators import operation_of, result_type
from .registers import Info
from .results import result_call
from .text import Formula, number

__all__ = ["WRITTEN", "Expressions"]

_FULL = 0xFFFFFFFF
#: Matches the name that a compiler gives to a parameter.
_PARAMETER = re.compile(r"param_\d+$")


class Expressions(OperandWriter):
    """An operand writer that also writes instructions as Python expressions, such as ``x + y``."""

    def _expression(self, step: StatementStep) -> Pending | None:
        """Write the statement as a Python operator if one emits exactly this instruction.

        The operator makes a new register for the result, or changes a register in place.
        """
        instruction = step.instruction
        assert instruction is not None
        if instruction.guard is not None or not instruction.operands or self.flat:
            return None
        result = instruction.operands[0]
        if instruction.opcode == "ld":
            self._name_argument(instruction)
        if instruction.opcode == "elect" and isinstance(result, Pair) and isinstance(result.first, Sink):
            return self._elect(step, result.second, instruction.operands[1])
        if instruction.opcode == "shfl" and isinstance(result, Pair):
            return self._shuffle(step, instruction, result)
        if not isinstance(result, Register) or result.vector != 1:
            return None
        info = self.infos[result.name]
        if (
            result.name in self.arrays
            or result.name in self.made
            or not info.fresh
            or result.name in self.home
            or self._around(result.name) is not self.block
        ):
            return self._in_place(instruction, info)
        if info.first != step.index:
            return None
        if instruction.opcode == "mov":
            return self._move(instruction, info)
        return self._operator(instruction, info.takes, info) or self._returned(instruction, info)

    def _returned(self, instruction: Instruction, info: Info) -> Pending | None:
        """Return the instruction as a pending call of a ``ptx`` function that returns its result, or None."""
        found = result_call(instruction, self._kind, self.arch)
        if found is None:
            return None
        call, kind = found
        types = [word for word in (*call.first, *call.last) if isinstance(word, ScalarType)]
        if not all(imported(word) for word in types):
            return None
        wanted = info.kind
        viewed = (
            wanted is not kind and wanted.bits == kind.bits and wanted.kind in "us" and kind.kind in "usb"
        )
        if not info.takes(wanted if viewed else kind) or kind.bits != info.register.type.bits:
            return None
        sources = instruction.operands[1:]
        texts = self._take([r for s in sources for r in registers_of(s)])
        mask = instruction.opcode in ("lop3", "prmt")
        words = [
            *map(self._type, call.first),
            *(self._source(source, texts, "mask" if mask else "") for source in sources),
            *(f'"{word}"' if isinstance(word, str) else self._type(word) for word in call.last),
            *(
                f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}"
                for key, value in call.keywords
            ),
        ]
        text = f"ptx.{call.function}({', '.join(words)})"
        return Pending(
            info, f"{text}.view({self._type(wanted)})" if viewed else text, wanted if viewed else kind
        )

    def _source(self, source: Operand, texts: Mapping[str, str], how: str) -> str:
        """Write an operand of a function of ``ptx``; an address without an offset is written as its base."""
        if isinstance(source, Address) and source.offset == 0 and not isinstance(source.offset, Formula):
            source = source.base
        return self._operand(source, texts, how)

    def _operator(
        self, instruction: Instruction, takes: Callable[[ScalarType], bool], info: Info
    ) -> Pending | None:
        """Return the instruction as a pending Python operator that makes a new register, or None.

        ``takes`` says whether the result may have a given type.
        """
        operation = operation_of(instruction)
        if operation is None:
            return None
        sources = instruction.operands[1:]
        kinds: list[ScalarType | int | float] = []
        for source in sources:
            if isinstance(source, Register) and source.vector == 1:
                kinds.append(self._kind(source))
            elif isinstance(source, Immediate) and source.pattern is None:
                kinds.append(source.value)
            else:
                return None
        kind = result_type(operation, kinds)
        if kind is None or not takes(kind):
            return None
        texts = self._take([s for s in sources if isinstance(s, Register)])
        parts = []
        for source in sources:
            if isinstance(source, Register):
                text = texts[source.name]
                parts.append(inner(text))
            else:
                assert isinstance(source, Immediate)
                how = (
                    "float"
                    if isinstance(source.value, float)
                    else "mask"
                    if operation.symbol in "&|^"
                    else ""
                )
                parts.append(inner(self._constant(source, how)))
        text = f"{operation.symbol}{parts[0]}" if len(parts) == 1 else f" {operation.symbol} ".join(parts)
        return Pending(info, text, kind)

    def _move(self, instruction: Instruction, info: Info) -> Pending | None:
        """Return a ``mov`` to a new register as a pending expression, or None if there is none.

        The source is a special register, a constant or another register.
        """
        if len(instruction.operands) != 2 or len(instruction.modifiers) != 1:
            return None
        source = instruction.operands[1]
        spelled = instruction.modifiers[0]
        if isinstance(source, Special) and source.name in SPECIAL_REGISTERS:
            kind = SPECIAL_REGISTERS[source.name].type
            if kind.lanes > 1 or move_type(kind).name != spelled or not info.takes(kind):
                return None
            self._flush()
            text = f"{self._special(source)}()"
            wish = word(source.name.replace(".", "_"))
            if info.kind.bits == kind.bits and info.kind.kind in "us" and info.kind is not kind:
                text, kind = f"{text}.view({self._type(info.kind)})", info.kind
            info.kind = kind
            self._write(Pending(info, text, kind), wish)
            return WRITTEN
        if isinstance(source, Immediate) and source.pattern is None:
            kind = info.kind
            if move_type(kind).name != spelled or (isinstance(source.value, float) and not kind.is_float):
                return None
            self._flush()
            value = self._constant(source, "float")
            self.used.add("reg")
            self._write(Pending(info, f"reg.scalar({self._type(kind)}, init={value})", kind))
            return WRITTEN
        if isinstance(source, Register) and source.vector == 1:
            kind = info.kind
            copied = _copied(self._kind(source), kind)
            if copied is None or copied.name != spelled:
                return None
            value = self._take([source])[source.name]
            self.used.add("reg")
            self._write(Pending(info, f"reg.scalar({self._type(kind)}, init={value})", kind))
            return WRITTEN
        return None

    def _name_argument(self, instruction: Instruction) -> None:
        """Name the register that a numbered parameter is loaded into: ``arg_3`` for ``param_3``."""
        result, source = instruction.operands[:2]
        if not isinstance(result, Register) or not isinstance(source, Address) or source.offset:
            return
        name = self.symbols.get(source.base.name, "") if isinstance(source.base, Symbol) else ""
        known = result.name in self.text_of or result.name in self.arrays or not generic(result.name)
        own = _PARAMETER.match(name) and "param" in instruction.modifiers and not known
        if own and self.infos[result.name].writes == 1:
            self.text_of[result.name] = self.names.new(name.replace("param", "arg"))

    def _shuffle(self, step: StatementStep, instruction: Instruction, result: Pair) -> Pending | None:
        """Write ``d, p = ptx.warp.shfl_bfly(...)``, which makes two new registers."""
        mode = instruction.modifiers[1]
        sources = instruction.operands[1:]
        made = (result.first, result.second)
        limits = (0xFFFFFFFF, 31, 0x1FFF, _FULL)
        for source, limit in zip(sources, limits, strict=True):
            low = 1 if limit == _FULL and source is sources[-1] else 0
            number_fits = isinstance(source, Immediate) and low <= source.value <= limit
            if not isinstance(source, Register) and not number_fits:
                return None
        if instruction.modifiers != ("sync", mode, "b32") or not isinstance(sources[0], Register):
            return None
        infos = [self.infos[r.name] for r in made if isinstance(r, Register)]
        kind = self._kind(sources[0])
        if len(infos) != 2 or not all(self._new(info, step) for info in infos) or not infos[0].takes(kind):
            return None
        texts = self._take([s for s in sources if isinstance(s, Register)])
        value, lane, clamp, mask = (self._operand(source, texts) for source in sources)
        members = "" if mask == number(_FULL) else f", mask={mask}"
        infos[0].kind = kind
        names = f"{self._define(infos[0])}, {self._define(infos[1])}"
        self.block.add(
            f"{names} = ptx.warp.shfl_{mode}({value}, {lane}, clamp={clamp}{members}, with_pred=True)"
        )
        return WRITTEN

    def _new(self, info: Info, step: StatementStep) -> bool:
        """True if the statement is the first to write the register, so that its line can make it."""
        name = info.register.name
        known = name in self.arrays or name in self.made or name in self.home
        return not known and self._around(name) is self.block and info.first == step.index and info.fresh

    def _elect(self, step: StatementStep, result: Operand, mask: Operand) -> Pending | None:
        """Write ``ptx.warp.elect()``, which makes a new predicate."""
        if not isinstance(result, Register) or not isinstance(mask, Immediate):
            return None
        info = self.infos[result.name]
        if not self._new(info, step):
            return None
        if not isinstance(mask.value, int) or not 0 < mask.value <= _FULL:
            return None
        self._flush()
        text = "" if mask.value == _FULL else number(mask.value, mask=True)
        self._write(Pending(info, f"ptx.warp.elect({text})", TYPES["pred"]), "elected")
        return WRITTEN

    def _in_place(self, instruction: Instruction, info: Info) -> Pending | None:
        """Write ``x += y``: an operator whose result is its first operand."""
        operation = operation_of(instruction)
        if operation is None or len(instruction.operands) != 3 or operation.what == "compare":
            return None
        result, first, second = instruction.operands
        if result != first:
            return None
        assert isinstance(result, Register)
        kinds: list[ScalarType | int | float] = [self._kind(result)]
        if isinstance(second, Register) and second.vector == 1 and second != result:
            kinds.append(self._kind(second))
        elif isinstance(second, Immediate) and second.pattern is None:
            kinds.append(second.value)
        else:
            return None
        if result_type(operation, kinds) is None:
            return None
        if isinstance(second, Register):
            value = self._take([second])[second.name]
        else:
            assert isinstance(second, Immediate)
            self._flush()
            value = self._constant(second, "float" if isinstance(second.value, float) else "")
        self.block.add(f"{self._name(result)} {operation.symbol}= {value}")
        return WRITTEN

    def _filled(self, instruction: Instruction, array: Array) -> str | None:
        """Return ``reg.array(f32, 64, init=0.0)`` if it records the consecutive ``mov`` of the array."""
        if instruction.opcode != "mov" or len(instruction.operands) != 2 or len(instruction.modifiers) != 1:
            return None
        source = instruction.operands[1]
        if isinstance(source, Immediate) and source.pattern is None and not isinstance(source.value, Formula):
            if move_type(array.kind).name != instruction.modifiers[0]:
                return None
            if isinstance(source.value, float) and not array.kind.is_float:
                return None
            value = self._constant(source, "float")
        elif isinstance(source, Register) and not self._steps(source):
            copied = _copied(self._kind(source), array.kind)
            if copied is None or copied.name != instruction.modifiers[0]:
                return None
            value = self._name(source)
        else:
            return None
        self.used.add("reg")
        return f"reg.array({self._type(array.kind)}, {len(array.registers)}, init={value})"

    def _steps(self, register: Register) -> bool:
        element = self.arrays.get(register.name)
        return element is not None and isinstance(element[1], Formula)

    def _once(self, info: Info) -> bool:
        """True if the expression for the register's value may be written where the value is read."""
        return info.writes == 1 and info.reads == 1 and info.register.name not in self.arrays


#: The result of :meth:`Expressions._expression` for a step that the method has already written.
WRITTEN = Pending(None, "", TYPES["b32"])  # type: ignore[arg-type]


def _copied(given: ScalarType, kind: ScalarType) -> ScalarType | None:
    """Return the type of the ``mov`` that copies a register of type ``given`` to one of type ``kind``."""
    if given is kind:
        return move_type(kind)
    if given.bits == kind.bits and (kind.kind == "b" or (given.kind == "b" and kind.kind in "us")):
        return move_type(bits_of(kind))
    return None
