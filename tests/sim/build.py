"""Kernels for tests from a few lines of PTX-like text, straight to the IR.

The grammar is what the tests need: one statement a line, ``;`` optional, ``//`` starts a comment.

    .reg u32 x y z            registers
    .shared b8 tile[64] 16    a static shared variable of 64 elements, 16-byte aligned
    .shared b8 dyn[] 1024     the dynamic one
    mov.u32 x, %tid.x
    @!p bra DONE              // a comment; KERNEL.line("a comment") is this line's number
    st.global.v2.b32 [out+8], {x, y}
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0..r3}, [t]
    DONE:

An instruction's source location is its line in the text, so that a test can ask where a finding points.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from pyptx import ir, sim
from pyptx.core.source import SourceLocation
from pyptx.core.types import TYPES
from pyptx.sim import LoadedModule, Report

__all__ = ["Kernel"]

_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)$")
_FLOAT_BITS = re.compile(r"0f([0-9a-fA-F]{8})$|0d([0-9a-fA-F]{16})$")
_RANGE = re.compile(r"([A-Za-z_]+)(\d+)\.\.([A-Za-z_]+)(\d+)$")
_PARAM = re.compile(r"(\w+):(\w+)(?:\[(\d+)\](?:@(\d+))?)?$")
_VARIABLE = re.compile(r"(\w+)\[(\d*)\]$")


def _split(text: str) -> list[str]:
    """At the commas outside brackets and braces."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "[{") - (character in "]}")
        if character == "," and not depth:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()] if text.strip() else []


class Kernel:
    """One entry, ready to launch.

    Args:
        text: the body, in this module's grammar.
        params: ``name:type`` or ``name:b8[128]@64`` (an array of 128, 64-byte aligned), separated by
            blanks. ``map`` is short for ``b8[128]@64``.
        prologue: load every 64-bit and 32-bit parameter into a register of its name, and the address of
            every tensor map, ready to use.
        racy: the kernel races on purpose, and the test is about the values that a schedule leaves, or about
            another finding: launches run without the sanitizer.
    """

    def __init__(
        self,
        text: str,
        params: str = "",
        *,
        prologue: bool = True,
        racy: bool = False,
        target: str = "sm_100a",
        directives: tuple[ir.Directive, ...] = (),
    ) -> None:
        self.text = text
        self.racy = racy
        self.registers: dict[str, ir.Register] = {}
        self.variables: list[ir.Variable] = []
        self.body: list[ir.Statement] = []
        self._source: SourceLocation | None = None
        self.params = tuple(self._param(p) for p in params.split())
        self.symbols = {p.name for p in self.params}
        for number, line in enumerate(text.splitlines(), 1):
            self._declaration(number, line)
        if prologue:
            self._prologue()
        for number, line in enumerate(text.splitlines(), 1):
            self._source = SourceLocation("<kernel>", number)
            self._statement(line.partition("//")[0].strip().rstrip(";"))
        entry = ir.Function(
            "kernel",
            self.params,
            directives,
            tuple(self.registers.values()),
            tuple(self.variables),
            tuple(self.body),
        )
        self.module = ir.Module((8, 6), target, (entry,))
        self._loaded: LoadedModule | None = None

    # --- running ------------------------------------------------------------------------------

    def run(self, *args: Any, block: Any = 32, grid: Any = 1, smem: int = 0, **options: Any) -> Report:
        """Launch in the simulator; ``options`` are those of :meth:`LoadedModule.launch`."""
        if self._loaded is None:
            # The tests use instructions of several targets under one.
            self._loaded = sim.load(self.module, check=False)
        options.setdefault("timeout", 20.0)
        if self.racy:
            options.setdefault("sanitize", False)
        return self._loaded.launch(
            "kernel", grid=grid, block=block, dynamic_smem=smem, args=list(args), **options
        )

    def clean(self, *args: Any, **options: Any) -> Report:
        """As :meth:`run`; the verdict must be clean."""
        report = self.run(*args, **options)
        assert report.verdict == "clean", report
        return report

    def line(self, comment: str) -> int:
        """Number of the only line whose comment is ``comment``."""
        found = [
            n for n, s in enumerate(self.text.splitlines(), 1) if s.partition("//")[2].strip() == comment
        ]
        assert len(found) == 1, (comment, found)
        return found[0]

    # --- declarations -------------------------------------------------------------------------

    @staticmethod
    def _param(text: str) -> ir.Param:
        match = _PARAM.match(text.replace(":map", ":b8[128]@64"))
        assert match is not None, text
        name, kind, count, align = match.groups()
        return ir.Param(name, TYPES[kind], int(count) if count else None, int(align) if align else None)

    def _declaration(self, number: int, line: str) -> None:
        line = line.partition("//")[0].strip().rstrip(";")
        if line.startswith(".reg"):
            _, kind, *names = line.replace(",", " ").split()
            for name in names:
                for one in self._names(name):
                    assert one not in self.registers, f"line {number}: {one} is declared twice"
                    self.registers[one] = ir.Register(one, TYPES[kind])
        elif line.startswith(".shared"):
            _, kind, shape, align = line.split()
            match = _VARIABLE.match(shape)
            assert match is not None, line
            name, count = match.groups()
            self.variables.append(
                ir.Variable(name, "shared", TYPES[kind], int(count or 0), int(align), external=not count)
            )
            self.symbols.add(name)

    @staticmethod
    def _names(text: str) -> list[str]:
        match = _RANGE.match(text)
        if match is None:
            return [text]
        first, low, last, high = match.groups()
        assert first == last, text
        return [f"{first}{i}" for i in range(int(low), int(high) + 1)]

    def _prologue(self) -> None:
        for param in self.params:
            if param.count == 128:
                register = self.registers[param.name] = ir.Register(param.name, TYPES["u64"])
                self.body += [
                    ir.Instruction("mov", ("b64",), (register, ir.Symbol(param.name))),
                    ir.Instruction("cvta", ("param", "u64"), (register, register)),
                ]
            elif param.count is None and param.type.bits >= 32:
                register = self.registers[param.name] = ir.Register(param.name, param.type)
                source = ir.Address(ir.Symbol(param.name))
                self.body.append(ir.Instruction("ld", ("param", param.type.name), (register, source)))

    # --- statements ---------------------------------------------------------------------------

    def _statement(self, line: str) -> None:
        if not line or line.startswith((".reg", ".shared")):
            return
        if re.match(r"\w+:$", line):
            self.body.append(ir.LabelStatement(line[:-1], self._source))
            return
        guard = None
        if line.startswith("@"):
            word, _, line = line[1:].partition(" ")
            guard = ir.Guard(self.registers[word.lstrip("!")], word.startswith("!"))
        name, _, operands = line.strip().partition(" ")
        opcode, *modifiers = name.split(".")
        self.body.append(
            ir.Instruction(
                opcode,
                tuple(modifiers),
                tuple(self._operand(o, opcode) for o in _split(operands)),
                guard,
                self._source,
            )
        )

    def _operand(self, text: str, opcode: str = "") -> Any:
        if text.startswith("["):
            return self._address(text[1:-1].strip())
        if text.startswith("{"):
            names = [one for part in _split(text[1:-1]) for one in self._names(part)]
            return ir.Vector(tuple(self._operand(name) for name in names))
        if "|" in text:
            first, second = text.split("|")
            return ir.Pair(self._operand(first), self._operand(second))
        if text == "_":
            return ir.Sink()
        if text.startswith("&"):  # a parameter's address, where a register has its name
            return ir.Symbol(text[1:])
        if text.startswith("!"):
            return ir.Negated(self.registers[text[1:]])
        if text.startswith("%"):
            return ir.Special(text[1:])
        name, _, selector = text.removeprefix("-").partition(".")
        if name in self.registers and name != text:
            part: Any = ir.Element(self.registers[name], selector) if selector else self.registers[name]
            return ir.Minus(part) if text.startswith("-") else part
        if _NUMBER.match(text):
            return ir.Immediate(int(text, 0))
        if match := _FLOAT_BITS.match(text):
            single, double = match.groups()
            if single:
                return ir.Immediate(struct.unpack(">f", bytes.fromhex(single))[0], 32)
            return ir.Immediate(struct.unpack(">d", bytes.fromhex(double))[0], 64)
        if opcode == "bra":
            return ir.BranchTarget(text)
        if text in self.registers:
            return self.registers[text]
        assert text in self.symbols, f"{text!r} is neither a register nor a symbol ({self._source})"
        return ir.Symbol(text)

    def _address(self, text: str) -> ir.Address:
        base, *rest = _split(text)
        coordinates = self._operand(rest[0]) if rest else None
        offset = 0
        if match := re.match(r"(\w+)(?:\+(-?\w+)|(-\w+))$", base):
            base, offset = match[1], int(match[2] or match[3], 0)
        found = (
            ir.Symbol(base) if base not in self.registers and base in self.symbols else self._operand(base)
        )
        return ir.Address(found, offset, coordinates)
