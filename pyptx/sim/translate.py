"""Blocks of operations into Python functions, in three forms.

* wide: all 32 lanes of the warp, whole rows of the register file;
* masked: some of them;
* one lane: plain Python numbers in a list.

The generated functions take ``(s, w)`` (the split and its warp) or, for one lane, ``(s, R)``.  A one-lane
function returns the next block; a block that ends in a yielding operation returns the wait or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.types import TYPES, ScalarType
from ..ir import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from ..isa.notation import OperandSpec
from ..isa.special import SPECIAL_REGISTERS
from .program import CodeBlock, Program
from .semantics import Op, Place

__all__ = ["translate"]

_VIEW_OF_DTYPE = {
    np.dtype(np.uint16): "u16",
    np.dtype(np.int16): "s16",
    np.dtype(np.float16): "f16",
    np.dtype(np.uint32): "u32",
    np.dtype(np.int32): "s32",
    np.dtype(np.float32): "f32",
    np.dtype(np.uint64): "u64",
    np.dtype(np.int64): "s64",
    np.dtype(np.float64): "f64",
    np.dtype(np.bool_): "p",
}
_RAW_VIEW = {"p": "p", "16": "u16", "32": "u32", "64": "u64"}
_SIGNED_VIEW = {"16": "s16", "32": "s32", "64": "s64"}
_CLASS_BITS = {"p": 1, "16": 16, "32": 32, "64": 64}
_B32 = TYPES["b32"]


def translate(program: Program, block: CodeBlock, form: str) -> Callable[..., Any]:
    """The function of ``block`` in ``form`` (``wide``, ``masked`` or ``lane``)."""
    emitter = (_LaneEmitter if form == "lane" else _ArrayEmitter)(program, masked=form == "masked")
    for position, (instruction, op) in enumerate(block.ops):
        last_yields = block.yields and position == len(block.ops) - 1
        emitter.operation(instruction, op, last_yields)
    emitter.end(block)
    source = emitter.text(f"block_{block.index}_{form}")
    namespace: dict[str, Any] = dict(emitter.constants)
    exec(compile(source, f"<pyptx block {block.index} {form}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[f"block_{block.index}_{form}"]
    return function


class _Emitter:
    parameters = ""
    #: Lets the loads in flight write their registers.
    settling = ""

    def __init__(self, program: Program, masked: bool) -> None:
        self.program, self.masked = program, masked
        self.lines: list[str] = []
        self.indent = "    "
        self.constants: dict[str, Any] = {"np": np}

    def constant(self, value: Any, hint: str = "c") -> str:
        # The underscore keeps constants apart from the typed views ("f32").
        name = f"_{hint}{len(self.constants)}"
        self.constants[name] = value
        return name

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def prologue(self) -> list[str]:
        return []

    def text(self, name: str) -> str:
        body = self.prologue() + self.lines or ["    pass"]
        return f"def {name}({self.parameters}):\n" + "\n".join(body) + "\n"

    # --- what both forms share ----------------------------------------------------------------

    def symbol(self, symbol: Symbol) -> int:
        _, address = self.program.symbols[symbol.name]
        return address + symbol.offset

    def function(self, op: Op) -> str:
        meaning = op.semantic
        if meaning.wants_op and meaning.per == "value":
            bound = meaning.function

            def with_op(*values: Any) -> Any:
                return bound(op, *values)

            return self.constant(with_op, "f")
        return self.constant(meaning.function, "f")

    def operands(self, op: Op) -> list[tuple[OperandSpec, Operand | None]]:
        """Operands that are read, in the order of the form; absent optional ones are None."""
        return [
            (spec, op.binding.operands.get(spec.name))
            for spec in op.binding.match.form.specs()
            if spec.access != "w"
        ]

    def type_of(self, operand: Operand | None, spec: OperandSpec, op: Op) -> ScalarType:
        """The type as which ``operand`` is read: of several, the one that fits the register."""
        types = spec.scalar_types(op.chosen)
        if isinstance(operand, Register):
            for candidate in types:
                if candidate.bits == operand.type.bits:
                    return candidate
        return types[0] if types else _B32

    def settle(self, instruction: Instruction, op: Op) -> None:
        """Registers that a tensor-memory load writes are ready when an instruction touches them."""
        if not self.program.loaded:
            return
        from ..flow import accesses

        reads, writes = accesses(instruction, op.binding)
        if any(r.name in self.program.loaded for r in (*reads, *writes)):
            self.line(self.settling)

    def undefined_reads(self, instruction: Instruction, op: Op) -> None:
        """Check reads that some path reaches without a write; note writes of registers so read."""
        tracked = self.program.tracked
        if not tracked:
            return
        from ..flow import accesses

        reads, writes = accesses(instruction, op.binding)
        if instruction.guard is not None:
            # Every lane reads the guard, only those that it lets through read the rest.
            self.check_guard(instruction)
            reads = reads[1:]
        rows = tuple((tracked[r.name], r.name) for r in reads if r.name in tracked)
        if rows:
            self.check_reads(instruction, rows)
        for register in writes:
            if register.name in tracked:
                self.note_written(instruction, register)

    def check_guard(self, instruction: Instruction) -> None:
        assert instruction.guard is not None
        name = instruction.guard.register.name
        if name in self.program.tracked:
            rows = ((self.program.tracked[name], name),)
            self.line(f"s.check_written({self.constant(instruction.source)}, {self.constant(rows)})")

    def check_reads(self, instruction: Instruction, rows: tuple[tuple[int, str], ...]) -> None:
        raise NotImplementedError

    def note_written(self, instruction: Instruction, register: Register) -> None:
        raise NotImplementedError

    def operation(self, instruction: Instruction, op: Op, yields: bool) -> None:
        raise NotImplementedError

    def end(self, block: CodeBlock) -> None:
        raise NotImplementedError


class _ArrayEmitter(_Emitter):
    """The wide and the masked form."""

    parameters = "s, w"
    settling = "if w.loading: w.settle()"

    def __init__(self, program: Program, masked: bool) -> None:
        super().__init__(program, masked)
        self.views: set[str] = set()
        #: Name of the boolean mask of active lanes, or None for all 32.
        self.mask: str | None = "k" if masked else None

    def prologue(self) -> list[str]:
        lines = [f"    {view} = w.{view}" for view in sorted(self.views)]
        return ["    k = s.k", *lines] if self.masked else lines

    def view(self, name: str) -> str:
        self.views.add(name)
        return name

    # --- reading ------------------------------------------------------------------------------

    def read_register(self, register: Register, wanted: ScalarType) -> str:
        place = self.program.places[register.name]
        bits = _CLASS_BITS[place.cls]
        if wanted.bits == bits or place.cls == "p":
            view = "p" if place.cls == "p" else _VIEW_OF_DTYPE[wanted.register_dtype]
            return f"{self.view(view)}[{place.row}]"
        raw = f"{self.view(_RAW_VIEW[place.cls])}[{place.row}]"
        return f"{raw}.astype({self.constant(wanted.register_dtype)})"

    def read_scalar(self, operand: Operand | None, wanted: ScalarType) -> str:
        if operand is None:
            return "None"
        if isinstance(operand, Register):
            return self.read_register(operand, wanted)
        if isinstance(operand, Negated):
            return f"~{self.read_register(operand.register, wanted)}"
        if isinstance(operand, Special):
            return _special(operand, "w", "s")
        if isinstance(operand, Symbol):
            return self.constant(np.array(self.symbol(operand)).astype(wanted.register_dtype)[()])
        assert isinstance(operand, Immediate), operand
        return self.constant(_typed(operand.value, wanted))

    def read(self, operand: Operand | None, spec: OperandSpec, op: Op, *, select: bool) -> str:
        """The operand as an array; with ``select`` only the active lanes of it."""
        if isinstance(operand, Address):
            return self.address(operand, select, spec, op)
        wanted = self.type_of(operand, spec, op)
        if isinstance(operand, Vector):
            return self.vector(operand, wanted, select)
        text = self.read_scalar(operand, wanted)
        if select and isinstance(operand, (Register, Negated, Special)):
            return f"({text})[L]"
        return text

    def vector(self, operand: Vector, wanted: ScalarType, select: bool) -> str:
        rows = self.consecutive(operand)
        places = [self.program.places[e.name] for e in operand.elements if isinstance(e, Register)]
        if rows is not None and _CLASS_BITS[places[0].cls] == wanted.bits:
            view = self.view(_VIEW_OF_DTYPE[wanted.register_dtype])
            text = f"{view}[{rows[0]}:{rows[1]}]"
            return f"{text}[:, L]" if select else text
        parts = [self.read_scalar(e, wanted) for e in operand.elements]
        text = "np.stack([" + ", ".join(f"np.broadcast_to({p}, 32)" for p in parts) + "])"
        return f"{text}[:, L]" if select else text

    def consecutive(self, vector: Vector) -> tuple[int, int] | None:
        """Rows (first, end) if the elements are registers in consecutive rows of one class."""
        places: list[Place] = []
        for element in vector.elements:
            if not isinstance(element, Register):
                return None
            places.append(self.program.places[element.name])
        first = places[0]
        if all(p.cls == first.cls and p.row == first.row + i for i, p in enumerate(places)):
            return first.row, first.row + len(places)
        return None

    def address(self, address: Address, select: bool, spec: OperandSpec, op: Op) -> str:
        base = address.base
        if isinstance(base, Register):
            place = self.program.places[base.name]
            if place.cls == "64":
                text = f"{self.view('s64')}[{place.row}]"
            else:
                text = f"{self.view('u32')}[{place.row}].astype(np.int64)"
        else:
            value = self.symbol(base) if isinstance(base, Symbol) else int(base.value)
            text = self.constant(np.full(32, value, np.int64))
        if address.offset:
            text = f"({text} + {address.offset})"
        if select:
            text = f"{text}[L]"
        if address.coordinates is not None and spec.coordinates is not None:
            coordinate = spec.coordinates.scalar_types(op.chosen)[0]
            return f"({text}, {self.vector(address.coordinates, coordinate, select)})"
        return text

    # --- writing ------------------------------------------------------------------------------

    def write(self, register: Register, kind: ScalarType, value: str) -> None:
        """Write typed values of the active lanes (full 32-lane arrays) to a register."""
        place = self.program.places[register.name]
        view = self.destination(place, kind)
        if self.mask is None:
            self.line(f"{view}[{place.row}] = {value}")
        else:
            self.line(f"np.copyto({view}[{place.row}], {value}, where={self.mask}, casting='unsafe')")

    def destination(self, place: Place, kind: ScalarType) -> str:
        if place.cls == "p":
            return self.view("p")
        if kind.bits == _CLASS_BITS[place.cls]:
            return self.view(_VIEW_OF_DTYPE[kind.register_dtype])
        return self.view(_SIGNED_VIEW[place.cls] if kind.kind == "s" else _RAW_VIEW[place.cls])

    def active(self, instruction: Instruction) -> str:
        """The lanes that a guard lets through, as a mask."""
        assert instruction.guard is not None
        place = self.program.places[instruction.guard.register.name]
        text = f"{'~' if instruction.guard.negated else ''}{self.view('p')}[{place.row}]"
        return f"{text} & k" if self.masked else text

    def check_reads(self, instruction: Instruction, rows: tuple[tuple[int, str], ...]) -> None:
        lanes = f", {self.active(instruction)}" if instruction.guard is not None else ""
        self.line(f"s.check_written({self.constant(instruction.source)}, {self.constant(rows)}{lanes})")

    def note_written(self, instruction: Instruction, register: Register) -> None:
        row = self.program.tracked[register.name]
        if instruction.guard is None:
            self.line(f"s.note_written({row})")
        else:
            self.line(f"w.written[{row}] |= {self.active(instruction)}")

    # --- operations ---------------------------------------------------------------------------

    def operation(self, instruction: Instruction, op: Op, yields: bool) -> None:
        self.settle(instruction, op)
        self.undefined_reads(instruction, op)
        outer_mask, outer_indent = self.mask, self.indent
        guard = instruction.guard
        if guard is not None:
            # A copy where the operation writes the guard: the mask is what it was before.
            own = self.program.places[guard.register.name] in op.dests.values()
            self.line(f"g = {self.active(instruction)}{'.copy()' if own and not self.masked else ''}")
            self.line("if g.any():")
            self.indent += "    "
            self.mask = "g"
        if op.semantic.per == "value":
            self.value(op)
        else:
            self.effect(op, yields)
        self.mask, self.indent = outer_mask, outer_indent
        if yields and guard is not None:
            self.line("return None")

    def value(self, op: Op) -> None:
        arguments = [self.read(o, spec, op, select=False) for spec, o in self.operands(op)]
        call = f"{self.function(op)}({', '.join(arguments)})"
        for spec in op.binding.match.form.specs():
            if spec.access != "w":
                continue
            dest = op.binding.operands[spec.name]
            if isinstance(dest, Register):
                self.write(dest, self.type_of(dest, spec, op), call)
            else:
                assert isinstance(dest, Pair), dest
                self.line(f"r = {call}")
                for number, part in enumerate((dest.first, dest.second)):
                    if isinstance(part, Register):
                        kind = self.type_of(part, spec, op) if number == 0 else TYPES["pred"]
                        self.write(part, kind, f"r[{number}]")

    def effect(self, op: Op, yields: bool) -> None:
        name = self.constant(op, "op")
        select = self.mask is not None
        if select:
            self.line("L = s.lanes" if self.mask == "k" else "L = np.flatnonzero(g)")
        lanes = "L" if select else "s.lanes"
        self.line(f"s.op, s.acting = {name}, {lanes}")
        if op.semantic.collective == "warp" and self.mask == "g":
            self.line("s.all_of_them(L)")
        if op.semantic.per == "lane":
            self.per_lane(op, name, lanes)
            return
        arguments = [self.read(o, spec, op, select=select) for spec, o in self.operands(op)]
        call = f"{self.function(op)}({', '.join(['s', name, lanes, *arguments])})"
        if yields:
            self.line(f"return {call}")
        elif op.semantic.deferred:
            self.line(call)
        else:
            self.results(op, call, lanes, select)

    def results(self, op: Op, call: str, lanes: str, select: bool) -> None:
        dests = [
            (spec, op.binding.operands[spec.name])
            for spec in op.binding.match.form.specs()
            if spec.access == "w" and not isinstance(op.binding.operands.get(spec.name), (Sink, type(None)))
        ]
        if not dests:
            self.line(call)
            return
        spec, dest = dests[0]
        self.line(f"r = {call}")
        parts: list[tuple[Operand, str, ScalarType]]
        if isinstance(dest, Vector):
            kind = spec.scalar_types(op.chosen)[0]
            rows = self.consecutive(dest)
            if rows is not None and not select:
                first = dest.elements[0]
                assert isinstance(first, Register)
                view = self.destination(self.program.places[first.name], kind)
                self.line(f"{view}[{rows[0]}:{rows[1]}] = r")
                return
            parts = [(e, f"r[{i}]", kind) for i, e in enumerate(dest.elements)]
        elif isinstance(dest, Pair):
            first_kind = spec.scalar_types(op.chosen)[0]
            parts = [(dest.first, "r[0]", first_kind), (dest.second, "r[1]", TYPES["pred"])]
        else:
            parts = [(dest, "r", self.type_of(dest, spec, op))]
        for part, text, kind in parts:
            if isinstance(part, Register):
                place = self.program.places[part.name]
                index = f"{place.row}, {lanes}" if select else f"{place.row}"
                self.line(f"{self.destination(place, kind)}[{index}] = {text}")

    def per_lane(self, op: Op, name: str, lanes: str) -> None:
        arguments = []
        for spec, operand in self.operands(op):
            arguments.append(self.lane_argument(operand, spec, op))
        call = f"{self.function(op)}({', '.join(['s', name, 'l', *arguments])})"
        self.line(f"for l in {lanes}.tolist():")
        self.indent += "    "
        self.line("s.acting = (l,)")
        written = next(iter(op.dests.values()), None)
        if written is None:
            self.line(call)
        else:
            view = self.view(_RAW_VIEW[written.cls])
            self.line(f"{view}[{written.row}, l] = {call}")
        self.indent = self.indent[:-4]

    def lane_argument(self, operand: Operand | None, spec: OperandSpec, op: Op) -> str:
        if isinstance(operand, Address):
            text = self.address_of_lane(operand)
            if operand.coordinates is not None and spec.coordinates is not None:
                kind = spec.coordinates.scalar_types(op.chosen)[0]
                parts = [self.lane_scalar(e, kind) for e in operand.coordinates.elements]
                return f"({text}, ({', '.join(parts)},))"
            return text
        wanted = self.type_of(operand, spec, op)
        if isinstance(operand, Vector):
            return "(" + ", ".join(self.lane_scalar(e, wanted) for e in operand.elements) + ",)"
        return self.lane_scalar(operand, wanted)

    def lane_scalar(self, operand: Operand | None, wanted: ScalarType) -> str:
        text = self.read_scalar(operand, wanted)
        if isinstance(operand, (Register, Negated, Special)):
            return f"({text})[l].item()"
        return f"{text}.item()" if operand is not None else text

    def address_of_lane(self, address: Address) -> str:
        base = address.base
        if isinstance(base, Register):
            place = self.program.places[base.name]
            return f"int({self.view(_RAW_VIEW[place.cls])}[{place.row}, l]) + {address.offset}"
        value = self.symbol(base) if isinstance(base, Symbol) else int(base.value)
        return str(value + address.offset)

    def end(self, block: CodeBlock) -> None:
        if block.branch is not None:
            self.check_guard(block.branch)


class _LaneEmitter(_Emitter):
    """The one-lane form: ``R`` is the list of registers, raw bits as Python ints."""

    parameters = "s, R"
    settling = "if s.stale: s.refresh()"

    def note_written(self, instruction: Instruction, register: Register) -> None:
        row = self.program.tracked[register.name]
        self.line(f"{self.condition(instruction)}s.note_written({row})")

    def check_reads(self, instruction: Instruction, rows: tuple[tuple[int, str], ...]) -> None:
        arguments = f"{self.constant(instruction.source)}, {self.constant(rows)}"
        self.line(f"{self.condition(instruction)}s.check_written({arguments})")

    def condition(self, instruction: Instruction) -> str:
        return f"if {self.guard(instruction)}: " if instruction.guard is not None else ""

    def guard(self, instruction: Instruction) -> str:
        guard = instruction.guard
        assert guard is not None
        place = self.program.places[guard.register.name]
        return f"{'not ' if guard.negated else ''}R[{place.index}]"

    def read_scalar(self, operand: Operand | None, wanted: ScalarType) -> str:
        """A Python expression: ints by value, predicates as bools, floats as raw bits."""
        if operand is None:
            return "None"
        if isinstance(operand, Negated):
            return f"(not R[{self.program.places[operand.register.name].index}])"
        if isinstance(operand, Special):
            return _special_lane(operand)
        if isinstance(operand, Symbol):
            return str(self.symbol(operand))
        if isinstance(operand, Immediate):
            value = _typed(operand.value, wanted)
            if wanted.kind == "f":
                return str(int(np.asarray(value).view(f"u{wanted.bits // 8}")))
            return repr(value.item())
        assert isinstance(operand, Register), operand
        place = self.program.places[operand.name]
        text = f"R[{place.index}]"
        if place.cls == "p":
            return text
        if wanted.bits < _CLASS_BITS[place.cls]:
            text = f"({text} & {(1 << wanted.bits) - 1:#x})"
        if wanted.kind == "s":
            sign = 1 << (wanted.bits - 1)
            text = f"(({text} ^ {sign:#x}) - {sign:#x})"
        return text

    def read(self, operand: Operand | None, spec: OperandSpec, op: Op) -> str:
        if isinstance(operand, Address):
            base = operand.base
            if isinstance(base, Register):
                text = f"R[{self.program.places[base.name].index}]"
                if operand.offset:
                    text = f"({text} + {operand.offset})"
            else:
                value = self.symbol(base) if isinstance(base, Symbol) else int(base.value)
                text = str(value + operand.offset)
            if operand.coordinates is not None and spec.coordinates is not None:
                kind = spec.coordinates.scalar_types(op.chosen)[0]
                parts = [self.read_scalar(e, kind) for e in operand.coordinates.elements]
                return f"({text}, ({', '.join(parts)},))"
            return text
        wanted = self.type_of(operand, spec, op)
        if isinstance(operand, Vector):
            return "(" + ", ".join(self.read_scalar(e, wanted) for e in operand.elements) + ",)"
        return self.read_scalar(operand, wanted)

    def store(self, register: Register, kind: ScalarType, value: str) -> str:
        place = self.program.places[register.name]
        if place.cls == "p":
            return f"R[{place.index}] = {value}"
        bits = _CLASS_BITS[place.cls]
        if kind.bits < bits:
            value = f"({value}) & {(1 << kind.bits) - 1:#x}"
            if kind.kind == "s":
                sign = 1 << (kind.bits - 1)
                value = f"((({value}) ^ {sign:#x}) - {sign:#x})"
        return f"R[{place.index}] = ({value}) & {(1 << bits) - 1:#x}"

    def operation(self, instruction: Instruction, op: Op, yields: bool) -> None:
        self.settle(instruction, op)
        self.undefined_reads(instruction, op)
        outer = self.indent
        if instruction.guard is not None:
            self.line(f"if {self.guard(instruction)}:")
            self.indent += "    "
        if op.semantic.per == "value":
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
        # No scalar expression: the array function on arrays of one.
        wrapped = []
        for (spec, operand), text in zip(operands, arguments, strict=True):
            wanted = self.type_of(operand, spec, op)
            wrapped.append(text if operand is None else f"{self.constant(_boxer(wanted))}({text})")
        self.line(f"r = {self.function(op)}({', '.join(wrapped)})")
        if isinstance(dest, Register):
            kind = self.type_of(dest, specs[0], op)
            self.line(self.store(dest, kind, f"{self.constant(_unboxer(kind))}(r)"))
            return
        assert isinstance(dest, Pair)
        for number, part in enumerate((dest.first, dest.second)):
            if isinstance(part, Register):
                kind = self.type_of(part, specs[0], op) if number == 0 else TYPES["pred"]
                self.line(self.store(part, kind, f"{self.constant(_unboxer(kind))}(r[{number}])"))

    def effect(self, op: Op, yields: bool) -> None:
        name = self.constant(op, "op")
        self.line(f"s.op = {name}")
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
        if isinstance(operand, Address):
            return f"np.array([{text}], np.int64)"
        wanted = self.type_of(operand, spec, op)
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
        if block.guard is not None:
            assert block.branch is not None
            self.check_guard(block.branch)
            place, negated = block.guard
            taken, other = (block.next, block.taken) if negated else (block.taken, block.next)
            self.line(f"return {taken} if R[{place.index}] else {other}")
        else:
            self.line(f"return {block.taken if block.taken is not None else block.next}")


def _typed(value: int | float, wanted: ScalarType) -> Any:
    """A Python number as a numpy scalar of the register's dtype, wrapping integers."""
    if wanted.kind == "p":
        return np.bool_(value)
    if isinstance(value, float) or wanted.register_dtype.kind == "f":
        return wanted.register_dtype.type(value)
    bits = wanted.bits
    raw = np.array(value & ((1 << bits) - 1), f"u{bits // 8}")
    return raw.view(wanted.register_dtype)[()]


def _boxer(wanted: ScalarType) -> Callable[[Any], Any]:
    """Value as one-lane code has it -> array of one, typed."""
    dtype = wanted.register_dtype
    if wanted.kind == "p":
        return lambda value: np.array([value], np.bool_)
    if wanted.kind == "s":
        return lambda value: np.array([value], dtype)
    raw = np.dtype(f"u{wanted.bits // 8}")
    return lambda value: np.array([value], raw).view(dtype)


def _unboxer(wanted: ScalarType) -> Callable[[Any], Any]:
    """Array of one -> raw bits as an int (sign kept for signed types), or a bool."""
    dtype = wanted.register_dtype
    if wanted.kind == "p":
        return lambda array: bool(np.asarray(array).reshape(-1)[0])
    if wanted.kind == "s":
        return lambda array: int(np.asarray(array).reshape(-1)[0])
    raw = np.dtype(f"u{wanted.bits // 8}")
    return lambda array: int(np.asarray(array, dtype).reshape(-1).view(raw)[0])


_CLOCKS = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"})


def _special(operand: Special, warp: str, split: str) -> str:
    if operand.name in _CLOCKS:
        return f"{split}.warp.cta.machine.clock({operand.name!r})"
    assert operand.name in SPECIAL_REGISTERS, operand
    return f"{warp}.special[{operand.name!r}]"


def _special_lane(operand: Special) -> str:
    if operand.name in _CLOCKS:
        return f"s.warp.cta.machine.clock({operand.name!r}).item()"
    return f"s.warp.special[{operand.name!r}][s.lane].item()"
