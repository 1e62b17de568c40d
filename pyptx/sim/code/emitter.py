"""Common parts of the code generators: constants, operands of an instruction, checks of reads.

Owns :class:`Emitter`, the base of the two classes that write a block as Python text, and :func:`typed`, which
converts an immediate to a typed number.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.types import TYPES, ScalarType
from ...flow import accesses
from ...ir import Address, Element, Immediate, Indexed, Instruction, Minus, Operand, Register, Symbol
from ...isa.notation import OperandSpec
from ..memory.access import StateSpace
from .function import CodeBlock, FunctionCode
from .semantic import Op, RegisterPlace
from .spaces import named_space

__all__ = ["CLASS_BITS", "Emitter", "touched_rows", "typed"]

#: Width of a register class in bits.
CLASS_BITS = {"p": 1, "16": 16, "32": 32, "64": 64, "128": 128}

#: Modifiers that name shared memory.
_SHARED = frozenset({"shared", "shared::cta", "shared::cluster"})
_B32 = TYPES["b32"]


class Emitter:
    parameters = ""

    def __init__(self, code: FunctionCode, masked: bool) -> None:
        self.code, self.masked = code, masked
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

    def symbol(self, symbol: Symbol) -> tuple[StateSpace, int]:
        """Return state space and address of a variable; a local address is relative to the frame."""
        found = self.code.symbol(symbol.name)
        assert found is not None, symbol
        return found[0], found[1] + symbol.offset

    def moves(self, symbol: Symbol) -> bool:
        """True if a variable's address is not the same in all runs of the code.

        The address depends on the activation of the function, or on the CTA's rank in its cluster.
        """
        space = self.symbol(symbol)[0]
        return space is StateSpace.LOCAL or (space is StateSpace.SHARED and self.code.program.clustered)

    def place_of(self, symbol: Symbol, frame: str) -> str:
        """Return the Python expression for a variable's address; ``frame`` is the name of the frame."""
        space, address = self.symbol(symbol)
        if not self.moves(symbol):
            return str(address)
        return f"{frame}.{'base' if space is StateSpace.LOCAL else 'shared'} + {address}"

    def truncates(self, address: Address, spec: OperandSpec, op: Op) -> bool:
        """True if the register is wider than an address of the state space.

        Then the instruction uses the lower half of the register (PTX ISA #addresses-as-operands). Kernels
        rely on this when they pass a generic address of shared memory as a shared address.
        """
        base = address.base
        return (
            isinstance(base, Register)
            and self.code.places[base.name].cls == "64"
            and named_space(spec, op.chosen) is StateSpace.SHARED
            # Some instructions, such as st.async, take a generic address if they name no state space.
            and not _SHARED.isdisjoint(op.chosen.values())
        )

    def element(self, indexed: Indexed) -> tuple[Symbol, Register | None, int]:
        """Split ``a[%r+1]`` into a symbol with a constant offset, a register, and the bytes of an element."""
        size = self.code.element_bytes(indexed.name)
        index = indexed.index
        if isinstance(index, Immediate):
            return Symbol(indexed.name, int(index.value) * size), None, size
        if isinstance(index, Register):
            return Symbol(indexed.name), index, size
        return Symbol(indexed.name, index.offset * size), index.register, size

    def place(self, operand: Register | Element | Minus) -> RegisterPlace:
        """Return the place of the register that an operand reads.

        A video operand reads the whole register.
        """
        if isinstance(operand, Minus):
            operand = operand.operand
        name = operand.register.name if isinstance(operand, Element) else operand.name
        return self.code.places[name]

    def function(self, op: Op) -> str:
        meaning = op.semantic
        if meaning.wants_op and meaning.per == "value":
            return self.constant(partial(meaning.function, op), "f")
        return self.constant(meaning.function, "f")

    def operands(self, op: Op) -> list[tuple[OperandSpec, Operand | None]]:
        """Return the operands that an instruction reads, in the form's order; None for an absent one."""
        return [
            (spec, op.binding.operands.get(spec.name))
            for spec in op.binding.match.form.specs()
            if spec.access != "w"
        ]

    def type_of(self, operand: Operand | None, spec: OperandSpec, op: Op) -> ScalarType:
        """Return the type with which ``operand`` is read. Of several types, it is the one of the register."""
        types = spec.scalar_types(op.chosen)
        if isinstance(operand, Register):
            for candidate in types:
                if candidate.bits == operand.type.bits:
                    return candidate
        return types[0] if types else _B32

    def touch(self, instruction: Instruction, op: Op) -> None:
        """Emit a check: do asynchronous operations in flight still use registers of this instruction?"""
        rows = touched_rows(self.code, instruction, op)
        if rows:
            self.line(f"s.touch({self.constant(op, 'op')}, {self.constant(rows)})")

    def undefined_reads(self, instruction: Instruction, op: Op) -> None:
        """Emit checks for registers that may be read before any write; their writes set marks."""
        tracked = self.code.tracked
        if not tracked:
            return
        reads, writes = accesses(instruction, op.binding)
        if op.semantic.checks_registers:
            # It is known only when the instruction runs whether it reads its accumulator.
            accumulator = {r.name for r in writes}
            reads, writes = [r for r in reads if r.name not in accumulator], []
        if instruction.guard is not None:
            # Every lane reads the guard; only lanes whose guard is true read the other registers.
            self.check_guard(instruction)
            reads = reads[1:]
        rows = tuple((tracked[r.name], r.name) for r in reads if r.name in tracked)
        if rows and not op.semantic.takes_undefined:
            self.check_reads(instruction, rows)
        for register in writes:
            if register.name in tracked:
                self.note_written(instruction, register)

    def check_guard(self, instruction: Instruction) -> None:
        assert instruction.guard is not None
        name = instruction.guard.register.name
        if name in self.code.tracked:
            rows = ((self.code.tracked[name], name),)
            self.line(f"s.check_written({self.constant(instruction.source)}, {self.constant(rows)})")

    def check_reads(self, instruction: Instruction, rows: tuple[tuple[int, str], ...]) -> None:
        raise NotImplementedError

    def note_written(self, instruction: Instruction, register: Register) -> None:
        raise NotImplementedError

    def operation(self, instruction: Instruction, op: Op, yields: bool) -> None:
        raise NotImplementedError

    def end(self, block: CodeBlock) -> None:
        raise NotImplementedError


def touched_rows(code: FunctionCode, instruction: Instruction, op: Op) -> tuple[int, ...]:
    """Return the rows of registers of an instruction that asynchronous operations in flight may still use.

    Some forms check their registers themselves; for them, there are none.
    """
    held = code.held_rows
    if not held or op.semantic.checks_registers:
        return ()
    reads, writes = accesses(instruction, op.binding)
    return tuple(sorted({held[r.name] for r in (*reads, *writes) if r.name in held}))


def typed(operand: Immediate, wanted: ScalarType) -> Any:
    """Return a constant as a numpy scalar of the register's dtype.

    Integers wrap. Bit types take the bits of a float.
    """
    value = operand.value
    if wanted.kind == "p":
        return np.bool_(value)
    dtype = wanted.register_dtype
    if isinstance(value, float):
        if wanted.bits == operand.bits and (operand.pattern is not None or dtype.kind != "f"):
            raw = operand.pattern
            if raw is None:
                return np.array(value, f"f{operand.bits // 8}").view(dtype)[()]
            return np.array(raw, f"u{operand.bits // 8}").view(dtype)[()]
        if dtype.kind == "f":
            return dtype.type(value)
        return np.array(value, f"f{operand.bits // 8}").view(f"u{operand.bits // 8}").astype(dtype)[()]
    if dtype.kind == "f":
        return dtype.type(value)
    if wanted.bits == 128:
        return np.array((value & (2**64 - 1), value >> 64 & (2**64 - 1)), dtype)[()]
    raw = value & ((1 << wanted.bits) - 1)
    return np.array(raw, f"u{max(wanted.bits, 8) // 8}").view(dtype)[()]
