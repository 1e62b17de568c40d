"""Generates the wide and the masked version of a basic block: code on numpy arrays of all lanes.

The wide version runs for all lanes of one or more warps, the masked version for some lanes of a warp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from ...isa.special import CLOCKS, SPECIAL_REGISTERS
from .emitter import CLASS_BITS, Emitter, typed
from .function import CodeBlock, FunctionCode
from .semantic import CLASSES, Op, RegisterPlace

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
    TYPES["b128"].register_dtype: "u128",
}
_WORD, _LONG = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
_SIGNED_VIEW = {"16": "s16", "32": "s32", "64": "s64"}


class ArrayEmitter(Emitter):
    """Writes the wide and the masked version of a basic block as Python code.

    In the generated code, ``u32[5]`` is a row of the register file, and ``T_u32`` the array of all rows.
    """

    parameters = "s, w"

    def __init__(self, code: FunctionCode, masked: bool) -> None:
        super().__init__(code, masked)
        self.views: set[str] = set()
        self.tables: set[str] = set()
        #: Name of the boolean mask of active lanes, or None if all lanes are active.
        self.mask: str | None = "k" if masked else None
        self.constants["stacked"] = _stacked

    def prologue(self) -> list[str]:
        lines = [f"    {view} = w.r_{view}" for view in sorted(self.views)]
        lines += [f"    T_{view} = w.{view}" for view in sorted(self.tables)]
        return ["    k = s.k", *lines] if self.masked else lines

    def row(self, view: str, row: int) -> str:
        self.views.add(view)
        return f"{view}[{row}]"

    def rows(self, view: str, rows: tuple[int, int]) -> str:
        self.tables.add(view)
        return f"T_{view}[{rows[0]}:{rows[1]}]"

    # --- reading ------------------------------------------------------------------------------

    def read_place(self, place: RegisterPlace, wanted: ScalarType) -> str:
        bits = CLASS_BITS[place.cls]
        if place.cls == "p":
            return self.row("p", place.row)
        if wanted.bits == bits:
            return self.row(_VIEW_OF_DTYPE[wanted.register_dtype], place.row)
        raw = self.row(CLASSES[place.cls], place.row)
        return f"{raw}.astype({self.constant(wanted.register_dtype)})"

    def read_scalar(self, operand: Operand | None, wanted: ScalarType) -> str:
        if operand is None:
            return "None"
        if isinstance(operand, Register | Element | Minus):
            return self.read_place(self.place(operand), wanted)
        if isinstance(operand, Negated):
            return f"~{self.read_place(self.place(operand.register), wanted)}"
        if isinstance(operand, Special):
            return _special(operand)
        if isinstance(operand, Symbol):
            if self.moves(operand):
                return f"{self.base(operand)}.astype({self.constant(wanted.register_dtype)})"
            return self.constant(np.array(self.symbol(operand)[1]).astype(wanted.register_dtype)[()])
        if isinstance(operand, Sum):
            offset = self.constant(typed(Immediate(operand.offset), wanted))
            return f"({self.read_place(self.place(operand.register), wanted)} + {offset})"
        if isinstance(operand, Indexed):
            return f"({self.indexed(operand)}).astype({self.constant(wanted.register_dtype)})"
        if isinstance(operand, Sink):
            return self.constant(np.zeros((), wanted.register_dtype)[()])
        assert isinstance(operand, Immediate), operand
        return self.constant(typed(operand, wanted))

    def indexed(self, operand: Indexed) -> str:
        """Return a Python expression for the address of ``a[%r]`` in each lane."""
        symbol, index, size = self.element(operand)
        text = self.base(symbol)
        if index is not None:
            place = self.code.places[index.name]
            text += f" + {self.row(CLASSES[place.cls], place.row)}.astype(np.int64) * {size}"
        return text

    def base(self, symbol: Symbol) -> str:
        return f"w.constant({self.place_of(symbol, 'w')})"

    def read(self, operand: Operand | None, spec: OperandSpec, op: Op, *, select: bool) -> str:
        """Return a Python expression that gives the operand as an array.

        With ``select``, the array has only the active lanes.
        """
        if isinstance(operand, Address):
            return self.address(operand, select, spec, op)
        if isinstance(operand, Indexed) and spec.access == "a":
            return f"({self.indexed(operand)}){'[L]' if select else ''}"
        wanted = self.type_of(operand, spec, op)
        if isinstance(operand, Vector):
            return self.vector(operand, wanted, select)
        text = self.read_scalar(operand, wanted)
        if isinstance(operand, Special) and operand.name in CLOCKS:
            return text
        if select and not isinstance(operand, Immediate | Sink | type(None)):
            constant = isinstance(operand, Symbol) and not self.moves(operand)
            return text if constant else f"({text})[L]"
        return text

    def vector(self, operand: Vector, wanted: ScalarType, select: bool) -> str:
        rows = self.consecutive(operand)
        if rows is not None and CLASS_BITS[rows[2]] == wanted.bits:
            text = self.rows(_VIEW_OF_DTYPE[wanted.register_dtype], rows[:2])
            return f"{text}[:, L]" if select else text
        parts = ", ".join(self.read_scalar(e, wanted) for e in operand.elements)
        text = f"stacked(w.columns, {self.constant(wanted.register_dtype)}, {parts})"
        return f"{text}[:, L]" if select else text

    def consecutive(self, vector: Vector) -> tuple[int, int, str] | None:
        """Return (first row, end row, class) if the registers of a vector are consecutive rows, else None."""
        places: list[RegisterPlace] = []
        for element in vector.elements:
            if not isinstance(element, Register):
                return None
            places.append(self.code.places[element.name])
        first = places[0]
        if all(p.cls == first.cls and p.row == first.row + i for i, p in enumerate(places)):
            return first.row, first.row + len(places), first.cls
        return None

    def address(self, address: Address, select: bool, spec: OperandSpec, op: Op) -> str:
        base = address.base
        offset = address.offset
        if isinstance(base, Register):
            place = self.code.places[base.name]
            if place.cls == "64":
                text = self.row("s64", place.row)
            else:
                text = self.row(CLASSES[place.cls], place.row)
                # Addresses wrap: a pointer before its array and an offset back into it are legal.
                if offset:
                    text = f"({text} + {self.constant(np.array(offset & _WORD, np.uint32))})"
                text, offset = f"{text}.astype(np.int64)", 0
        elif isinstance(base, Symbol):
            text, offset = self.base(Symbol(base.name, base.offset + offset)), 0
        else:
            text, offset = f"w.constant({int(base.value) + offset})", 0
        if select:
            text = f"{text}[L]"
        if offset:
            text = f"({text} + {self.constant(np.array(offset & _LONG, np.uint64).view(np.int64))})"
        if self.truncates(address, spec, op):
            text = f"({text} & {_WORD:#x})"
        if address.coordinates is not None and spec.coordinates is not None:
            coordinate = spec.coordinates.scalar_types(op.chosen)[0]
            return f"({text}, {self.vector(address.coordinates, coordinate, select)})"
        return text

    # --- writing ------------------------------------------------------------------------------

    def write(self, place: RegisterPlace, kind: ScalarType, value: str) -> None:
        """Emit code that writes a typed array over all lanes to a register, for the active lanes."""
        target = self.row(self.destination(place, kind), place.row)
        if self.mask is None:
            self.line(f"{target}[...] = {value}")
        else:
            self.line(f"np.copyto({target}, {value}, where={self.mask}, casting='unsafe')")

    def destination(self, place: RegisterPlace, kind: ScalarType) -> str:
        """Return the name of the register file's view to which a value of type ``kind`` is written."""
        if place.cls in ("p", "128"):
            return CLASSES[place.cls]
        if kind.bits == CLASS_BITS[place.cls]:
            return _VIEW_OF_DTYPE[kind.register_dtype]
        return _SIGNED_VIEW[place.cls] if kind.kind == "s" else CLASSES[place.cls]

    def active(self, instruction: Instruction) -> str:
        """Return a Python expression for the mask of the lanes in which the instruction's guard is true."""
        assert instruction.guard is not None
        place = self.code.places[instruction.guard.register.name]
        text = f"{'~' if instruction.guard.negated else ''}{self.row('p', place.row)}"
        return f"{text} & k" if self.masked else text

    def check_reads(self, instruction: Instruction, rows: tuple[tuple[int, str], ...]) -> None:
        lanes = f", {self.active(instruction)}" if instruction.guard is not None else ""
        self.line(f"s.check_written({self.constant(instruction.source)}, {self.constant(rows)}{lanes})")

    def note_written(self, instruction: Instruction, register: Register) -> None:
        row = self.code.tracked[register.name]
        if instruction.guard is None:
            self.line(f"s.note_written({row})")
        else:
            self.line(f"w.written[{row}] |= {self.active(instruction)}")

    # --- operations ---------------------------------------------------------------------------

    def operation(self, instruction: Instruction, op: Op, yields: bool) -> None:
        if op.semantic.modeled:
            self.undefined_reads(instruction, op)
        outer_mask, outer_indent = self.mask, self.indent
        guard = instruction.guard
        if guard is not None:
            # Copy the guard if the operation writes it: the mask must keep the old values.
            own = self.code.places[guard.register.name] in op.written_places()
            self.line(f"g = {self.active(instruction)}{'.copy()' if own and not self.masked else ''}")
            self.line("if g.any():")
            self.indent += "    "
            self.mask = "g"
        self.touch(instruction, op)
        if op.statement in self.code.idle:
            self.line("pass")
        elif op.semantic.per == "value":
            self.value(op)
        else:
            self.effect(op, yields)
        self.mask, self.indent = outer_mask, outer_indent
        if yields and guard is not None:
            self.line("return None")

    def value(self, op: Op) -> None:
        if self.direct(op):
            return
        arguments = [self.read(o, spec, op, select=False) for spec, o in self.operands(op)]
        call = f"{self.function(op)}({', '.join(arguments)})"
        for spec in op.binding.match.form.specs():
            if spec.access != "w":
                continue
            dest = op.binding.operands[spec.name]
            if isinstance(dest, Register | Element):
                self.write(self.place(dest), self.type_of(dest, spec, op), call)
            elif isinstance(dest, Vector):
                self.line(f"r = {call}")
                for number, part in enumerate(dest.elements):
                    if isinstance(part, Register):
                        self.write(self.place(part), self.type_of(part, spec, op), f"r[{number}]")
            elif isinstance(dest, Pair):
                self.line(f"r = {call}")
                for number, half in enumerate((dest.first, dest.second)):
                    if isinstance(half, Register):
                        kind = self.type_of(half, spec, op) if number == 0 else TYPES["pred"]
                        self.write(self.place(half), kind, f"r[{number}]")

    def direct(self, op: Op) -> bool:
        """Emit the instruction as one numpy call from its template, if its operands allow this.

        Returns True if the code was emitted.
        """
        template = op.semantic.template(op.chosen)
        if template is None:
            return False
        ((spec, dest),) = [
            (s, op.binding.operands[s.name]) for s in op.binding.match.form.specs() if s.access == "w"
        ]
        if not isinstance(dest, Register):
            return False
        place, kind = self.place(dest), self.type_of(dest, spec, op)
        if CLASS_BITS[place.cls] != kind.bits:
            return False
        operands: dict[str, str] = {}
        for source, operand in self.operands(op):
            wanted = self.type_of(operand, source, op)
            if isinstance(operand, Immediate):
                operands[source.name] = self.constant(np.array(typed(operand, wanted)))
            elif isinstance(operand, Register | Negated | Special):
                operands[source.name] = self.read_scalar(operand, wanted)
            else:
                return False
        out = f"out={self.row(self.destination(place, kind), place.row)}"
        if self.mask is not None:
            out += f", where={self.mask}"
        self.line(template.format(out=out, **operands))
        return True

    def effect(self, op: Op, yields: bool) -> None:
        name = self.constant(op, "op")
        select = self.mask is not None
        if select:
            self.line("L = s.lanes" if self.mask == "k" else "L = np.flatnonzero(g)")
        lanes = "L" if select else "s.lanes"
        self.line(f"s.op, s.acting = {name}, {lanes}")
        if not op.semantic.modeled:
            self.line(f"{self.function(op)}(s, {name}, {lanes})")
            return
        if op.semantic.collective == "warp" and self.mask == "g":
            self.line("s.check_whole_warp(L)")
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
            if rows is not None and not select and CLASS_BITS[rows[2]] == kind.bits:
                view = _VIEW_OF_DTYPE[kind.register_dtype]
                self.line(f"{self.rows(view, rows[:2])}[...] = r")
                return
            parts = [(e, f"r[{i}]", kind) for i, e in enumerate(dest.elements)]
        elif isinstance(dest, Pair):
            first_kind = spec.scalar_types(op.chosen)[0]
            parts = [(dest.first, "r[0]", first_kind), (dest.second, "r[1]", TYPES["pred"])]
        else:
            parts = [(dest, "r", self.type_of(dest, spec, op))]
        for part, text, kind in parts:
            if isinstance(part, Register):
                place = self.place(part)
                target = self.row(self.destination(place, kind), place.row)
                self.line(f"{target}[{lanes if select else '...'}] = {text}")

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
            self.line(f"{self.row(CLASSES[written.cls], written.row)}[l] = {call}")
        self.indent = self.indent[:-4]

    def lane_argument(self, operand: Operand | None, spec: OperandSpec, op: Op) -> str:
        if isinstance(operand, Address):
            text = self.address_of_lane(operand)
            if self.truncates(operand, spec, op):
                text = f"({text} & {_WORD:#x})"
            if operand.coordinates is not None and spec.coordinates is not None:
                kind = spec.coordinates.scalar_types(op.chosen)[0]
                parts = [self.lane_scalar(e, kind) for e in operand.coordinates.elements]
                return f"({text}, ({', '.join(parts)},))"
            return text
        if isinstance(operand, Indexed) and spec.access == "a":
            return f"({self.indexed(operand)})[l].item()"
        wanted = self.type_of(operand, spec, op)
        if isinstance(operand, Vector):
            return "(" + ", ".join(self.lane_scalar(e, wanted) for e in operand.elements) + ",)"
        return self.lane_scalar(operand, wanted)

    def lane_scalar(self, operand: Operand | None, wanted: ScalarType) -> str:
        text = self.read_scalar(operand, wanted)
        if operand is None:
            return text
        constant = isinstance(operand, Immediate | Sink) or (
            isinstance(operand, Symbol) and not self.moves(operand)
        )
        return f"{text}.item()" if constant else f"({text})[l].item()"

    def address_of_lane(self, address: Address) -> str:
        base = address.base
        if isinstance(base, Register):
            place = self.code.places[base.name]
            return f"int({self.row(CLASSES[place.cls], place.row)}[l]) + {address.offset}"
        if isinstance(base, Symbol):
            return self.place_of(Symbol(base.name, base.offset + address.offset), "w")
        return str(int(base.value) + address.offset)

    def end(self, block: CodeBlock) -> None:
        if block.branch is not None:
            self.check_guard(block.branch)


def _stacked(columns: int, dtype: np.dtype[Any], *parts: Any) -> Any:
    """Return the elements of a vector operand (``parts``) as one array ``[element, lane]``."""
    values = np.empty((len(parts), columns), dtype)
    for row, part in enumerate(parts):
        values[row] = part
    return values


def _special(operand: Special) -> str:
    if operand.name in CLOCKS:
        return f"s.warp.cta.machine.clock({operand.name!r})"
    assert operand.name in SPECIAL_REGISTERS, operand
    return f"w.special[{operand.name!r}]"
