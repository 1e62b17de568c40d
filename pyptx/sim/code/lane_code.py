"""Generates the one-lane version of a basic block: code on a list of Python numbers, one per register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES, ScalarType
from ...ir import (
    Address,
    Element,
    Immediate,
    Indexed,
    Instruction,
    Minus,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
)
from ...isa.notation import OperandSpec
from ...isa.special import CLOCKS
from .emitter import CLASS_BITS, Emitter, typed
from .function import CodeBlock
from .semantic import Op

__all__ = ["LaneEmitter"]


class LaneEmitter(Emitter):
    """Writes the one-lane version of a block; ``R`` is the list of registers, as raw bits in Python ints."""

    parameters = "s, R"

    def note_written(self, instruction: Instruction, register: Register) -> None:
        row = self.code.tracked[register.name]
        self.line(f"{self.condition(instruction)}s.note_written({row})")

    def check_reads(self, instruction: Instruction, rows: tuple[tuple[int, str], ...]) -> None:
        arguments = f"{self.constant(instruction.source)}, {self.constant(rows)}"
        self.line(f"{self.condition(instruction)}s.check_written({arguments})")

    def condition(self, instruction: Instruction) -> str:
        return f"if {self.guard(instruction)}: " if instruction.guard is not None else ""

    def guard(self, instruction: Instruction) -> str:
        guard = instruction.guard
        assert guard is not None
        place = self.code.places[guard.register.name]
        return f"{'not ' if guard.negated else ''}R[{place.index}]"

    def read_scalar(self, operand: Operand | None, wanted: ScalarType) -> str:
        """Return a Python expression for the value of an operand in one lane.

        Its value is an int for an integer, a bool for a predicate, and the raw bits for a float.
        """
        if operand is None:
            return "None"
        if isinstance(operand, Negated):
            return f"(not R[{self.place(operand.register).index}])"
        if isinstance(operand, Special):
            return _special_lane(operand)
        if isinstance(operand, Symbol):
            return self.base(operand)
        if isinstance(operand, Indexed):
            return f"({self.indexed(operand)})"
        if isinstance(operand, Sink):
            return "0"
        if isinstance(operand, Sum):
            return f"({self.read_register(operand.register, wanted)} + {operand.offset})"
        if isinstance(operand, Immediate):
            return _literal(operand, wanted)
        assert isinstance(operand, Register | Element | Minus), operand
        return self.read_register(operand, wanted)

    def read_register(self, operand: Register | Element | Minus, wanted: ScalarType) -> str:
        place = self.place(operand)
        text = f"R[{place.index}]"
        if place.cls == "p":
            return text
        if wanted.bits < CLASS_BITS[place.cls]:
            text = f"({text} & {(1 << wanted.bits) - 1:#x})"
        if wanted.kind == "s":
            sign = 1 << (wanted.bits - 1)
            text = f"(({text} ^ {sign:#x}) - {sign:#x})"
        return text

    def base(self, symbol: Symbol) -> str:
        return f"({self.place_of(symbol, 's.frame')})"

    def indexed(self, operand: Indexed) -> str:
        symbol, index, size = self.element(operand)
        text = self.base(symbol)
        return text if index is None else f"{text} + R[{self.code.places[index.name].index}] * {size}"

    def read(self, operand: Operand | None, spec: OperandSpec, op: Op) -> str:
        if isinstance(operand, Address):
            base = operand.base
            if isinstance(base, Register):
                text = f"R[{self.code.places[base.name].index}]"
                if operand.offset:
                    # Addresses wrap: a pointer before its array and an offset back into it are legal.
                    mask = (1 << CLASS_BITS[self.code.places[base.name].cls]) - 1
                    text = f"({text} + {operand.offset} & {mask:#x})"
                if self.truncates(operand, spec, op):
                    text = f"({text} & 0xffffffff)"
            elif isinstance(base, Symbol):
                text = self.base(Symbol(base.name, base.offset + operand.offset))
            else:
                text = str(int(base.value) + operand.offset)
            if operand.coordinates is not None and spec.coordinates is not None:
                kind = spec.coordinates.scalar_types(op.chosen)[0]
                parts = [self.read_scalar(e, kind) for e in operand.coordinates.elements]
                return f"({text}, ({', '.join(parts)},))"
            return text
        if isinstance(operand, Indexed) and spec.access == "a":
            return f"({self.indexed(operand)})"
        wanted = self.type_of(operand, spec, op)
        if isinstance(operand, Vector):
            return "(" + ", ".join(self.read_scalar(e, wanted) for e in operand.elements) + ",)"
        return self.read_scalar(operand, wanted)

    def store(self, register: Register | Element, kind: ScalarType, value: str) -> str:
        place = self.place(register)
        if place.cls == "p":
            return f"R[{place.index}] = {value}"
        bits = CLASS_BITS[place.cls]
        if kind.bits < bits:
            value = f"({value}) & {(1 << kind.bits) - 1:#x}"
            if kind.kind == "s":
                sign = 1 << (kind.bits - 1)
                value = f"((({value}) ^ {sign:#x}) - {sign:#x})"
        return f"R[{place.index}] = ({value}) & {(1 << bits) - 1:#x}"

    def operation(self, instruction: Instruction, op: Op, yields: bool) -> None:
        if op.semantic.modeled:
            self.undefined_reads(instruction, op)
        outer = self.indent
        if instruction.guard is not None:
            self.line(f"if {self.guard(instruction)}:")
            self.indent += "    "
        self.touch(instruction, op)
        if op.statement in self.code.idle:
            self.line("pass")
        elif op.semantic.per == "value":
            self.value(op)
        else:
            self.effect(op, yields)
        self.indent = outer
        if yields and instruction.guard is not None:
            self.line("return None")

    def value(self, op: Op) -> None:
        operands = self.operands(op)
        arguments = [self.read(o, spec, op) for spec, o in operands]
        specs = [spec for spec in op.binding.match.form.specs() if spec.access == "w"]
        dest = op.binding.operands[specs[0].name]
        template = op.semantic.expression(op.chosen)
        if template is not None and isinstance(dest, Register):
            names = {spec.name: text for (spec, _), text in zip(operands, arguments, strict=True)}
            self.line(self.store(dest, self.type_of(dest, specs[0], op), template.format(**names)))
            return
        # Without a scalar template, call the array function with arrays of one element.
        wrapped = []
        for (spec, operand), text in zip(operands, arguments, strict=True):
            wanted = self.type_of(operand, spec, op)
            if operand is None:
                wrapped.append(text)
            elif isinstance(operand, Immediate):
                wrapped.append(self.constant(typed(operand, wanted)))
            else:
                wrapped.append(self.box_argument(operand, spec, op, text))
        self.line(f"r = {self.function(op)}({', '.join(wrapped)})")
        if isinstance(dest, Register | Element):
            kind = self.type_of(dest, specs[0], op)
            self.line(self.store(dest, kind, f"{self.constant(_unboxer(kind))}(r)"))
            return
        assert isinstance(dest, Pair | Vector), dest
        parts = dest.elements if isinstance(dest, Vector) else (dest.first, dest.second)
        for number, part in enumerate(parts):
            if isinstance(part, Register):
                predicate = isinstance(dest, Pair) and number == 1
                kind = TYPES["pred"] if predicate else self.type_of(part, specs[0], op)
                self.line(self.store(part, kind, f"{self.constant(_unboxer(kind))}(r[{number}])"))

    def effect(self, op: Op, yields: bool) -> None:
        name = self.constant(op, "op")
        self.line(f"s.op, s.acting = {name}, None")
        if not op.semantic.modeled:
            self.line(f"{self.function(op)}(s, {name}, s.lanes)")
            return
        operands = self.operands(op)
        arguments = [self.read(o, spec, op) for spec, o in operands]
        meaning = op.semantic
        function = meaning.lane_function if meaning.lane_function is not None else meaning.function
        if meaning.per == "lane" or meaning.lane_function is not None:
            call = f"{self.constant(function, 'f')}({', '.join(['s', name, 's.lane', *arguments])})"
            unbox = False
        else:
            boxed = []
            for (spec, operand), text in zip(operands, arguments, strict=True):
                boxed.append(self.box_argument(operand, spec, op, text))
            call = f"{self.constant(function, 'f')}({', '.join(['s', name, 's.lanes', *boxed])})"
            unbox = True
        if yields:
            self.line(f"return {call}")
        elif meaning.deferred:
            self.line(call)
        else:
            self.results(op, call, unbox)

    def box_argument(self, operand: Operand | None, spec: OperandSpec, op: Op, text: str) -> str:
        if operand is None:
            return text
        if isinstance(operand, Address) or spec.access == "a":
            return f"{self.constant(_one_address)}({text})"
        wanted = self.type_of(operand, spec, op)
        if isinstance(operand, Immediate):
            return self.constant(typed(operand, wanted))
        box = self.constant(_boxer(wanted))
        if isinstance(operand, Vector):
            return f"np.stack([{box}(x) for x in {text}])"
        return f"{box}({text})"

    def results(self, op: Op, call: str, unbox: bool) -> None:
        for spec in op.binding.match.form.specs():
            dest = op.binding.operands.get(spec.name)
            if spec.access != "w" or dest is None or isinstance(dest, Sink):
                continue
            self.line(f"r = {call}")
            kind = self.type_of(dest, spec, op)
            convert = self.constant(_unboxer(kind)) if unbox else ""
            if isinstance(dest, Vector):
                parts: list[Operand] = list(dest.elements)
            elif isinstance(dest, Pair):
                parts = [dest.first, dest.second]
            else:
                if isinstance(dest, Register):
                    self.line(self.store(dest, kind, f"{convert}(r)"))
                return
            for number, part in enumerate(parts):
                if isinstance(part, Register):
                    pair_second = isinstance(dest, Pair) and number == 1
                    how = TYPES["pred"] if pair_second else kind
                    unboxer = self.constant(_unboxer(how)) if unbox else ""
                    self.line(self.store(part, how, f"{unboxer}(r[{number}])"))
            return
        self.line(call)

    def end(self, block: CodeBlock) -> None:
        if block.yields:
            return
        if block.selector is not None:
            if block.branch is not None:
                self.check_guard(block.branch)
            self.line("return None")
        elif block.guard is not None:
            assert block.branch is not None
            self.check_guard(block.branch)
            place, negated = block.guard
            taken, other = (block.next, block.taken) if negated else (block.taken, block.next)
            self.line(f"return {taken} if R[{place.index}] else {other}")
        else:
            self.line(f"return {block.taken if block.taken is not None else block.next}")


def _literal(operand: Immediate, wanted: ScalarType) -> str:
    """Return a constant as the text of Python code for one lane; a float becomes its raw bits."""
    value = typed(operand, wanted)
    if wanted.bits == 128:
        return str(operand.value & (2**128 - 1) if isinstance(operand.value, int) else 0)
    if value.dtype.kind == "f":
        return str(int(np.asarray(value).view(f"u{wanted.bits // 8}")))
    return repr(value.item())


def _boxer(wanted: ScalarType) -> Callable[[Any], Any]:
    """Return a function that converts a one-lane value to a typed array of one element."""
    dtype = wanted.register_dtype
    if wanted.kind == "p":
        return lambda value: np.array([value], np.bool_)
    if wanted.kind == "s":
        return lambda value: np.array([value], dtype)
    if wanted.bits == 128:
        return lambda value: np.array([(value & (2**64 - 1), value >> 64)], dtype)
    raw = np.dtype(f"u{max(wanted.bits, 8) // 8}")
    return lambda value: np.array([value], raw).view(dtype)


def _one_address(value: int) -> NDArray[np.int64]:
    """Return an address, truncated to 64 bits, as an array of one element."""
    return np.array([value & 0xFFFF_FFFF_FFFF_FFFF], np.uint64).view(np.int64)


def _unboxer(wanted: ScalarType) -> Callable[[Any], Any]:
    """Return a function that converts an array of one element to a one-lane value.

    The value is the raw bits as an int (signed types keep the sign), or a bool.
    """
    dtype = wanted.register_dtype
    if wanted.kind == "p":
        return lambda array: bool(np.asarray(array).reshape(-1)[0])
    if wanted.kind == "s":
        return lambda array: int(np.asarray(array).reshape(-1)[0])
    if wanted.bits == 128:
        return lambda array: int(array.reshape(-1)["lo"][0]) | int(array.reshape(-1)["hi"][0]) << 64
    raw = np.dtype(f"u{max(wanted.bits, 8) // 8}")
    return lambda array: int(np.asarray(array, dtype).reshape(-1).view(raw)[0])


def _special_lane(operand: Special) -> str:
    if operand.name in CLOCKS:
        return f"s.warp.cta.machine.clock({operand.name!r}).item()"
    return f"s.frame.special[{operand.name!r}][s.lane].item()"
