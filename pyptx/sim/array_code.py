"""The wide and the masked form of a block: numpy arrays of 32 lanes, whole rows of the register file."""

from __future__ import annotations

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
from .emitter import CLASS_BITS, CLOCKS, Emitter, typed
from .program import CodeBlock, Program
from .semantics import Op, Place

__all__ = ["ArrayEmitter"]

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


class ArrayEmitter(Emitter):
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
        bits = CLASS_BITS[place.cls]
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
        return self.constant(typed(operand.value, wanted))

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
        if rows is not None and CLASS_BITS[places[0].cls] == wanted.bits:
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
        if kind.bits == CLASS_BITS[place.cls]:
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


def _special(operand: Special, warp: str, split: str) -> str:
    if operand.name in CLOCKS:
        return f"{split}.warp.cta.machine.clock({operand.name!r})"
    assert operand.name in SPECIAL_REGISTERS, operand
    return f"{warp}.special[{operand.name!r}]"
