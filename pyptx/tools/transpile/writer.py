"""Writes a PTX function as a Python function: its statements and blocks.

Owns :class:`Writer`, which visits the PTX statements in order and writes the Python code that emits each. If
a register occurs first as the result of an operator, that line makes the register; any other register is
declared at the top of the innermost block that contains all its occurrences. If only the next instruction
reads the result of an operator, the expression can be written as an operand of that instruction, since Python
evaluates it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import UnsupportedError
from ...core.types import ScalarType
from ...dsl.inst import attribute_name
from ...ir import (
    Arguments,
    BranchTarget,
    CallPrototype,
    Function,
    Guard,
    Instruction,
    LabelStatement,
    Operand,
    Pragma,
    Register,
    Symbol,
    TargetList,
    Variable,
    leaves,
)
from .body import StatementStep
from .declare import parameter
from .expressions import WRITTEN, Expressions
from .names import PythonNames
from .operand_writer import inner
from .repeats import Repeat, grouped
from .structure import IfNode, Jump, LoopNode, Structure, structured, uni
from .text import SourceBlock
from .units import unit_call

__all__ = ["Writer"]

#: An expression with more characters than this gets its own line and name.
_LONGEST = 44
#: Opcodes whose constants are bit patterns.
_BITWISE = frozenset({"and", "or", "xor", "lop3", "not", "prmt", "bfi", "bfe", "fns"})


class Writer(Expressions):
    """Writes one function.

    Args:
        function: the function to write.
        names: identifiers that the file uses, and that the function's own names must avoid.
        symbols: name in PTX of a variable or a function of the module -> its Python expression.
        arch: the module's target.
        flat: whether to write only labels and branches, and registers of the types that the source declares.
        lines: number of a file in ``.loc`` -> its name; if given, comments name the source lines.
    """

    def __init__(
        self,
        function: Function,
        names: PythonNames,
        symbols: Mapping[str, str],
        *,
        arch: str,
        flat: bool = False,
        lines: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(function, names, symbols, flat=flat, arch=arch)
        self.lines = lines
        self.structure: Structure = structured(self.steps, flat)
        #: Loops around the statement being written, outermost first.
        self.open: list[LoopNode] = []
        #: Names of the loops that a line refers to, and the name for the loops of each depth.
        self.loops: dict[int, str] = {}
        self.loop_names: dict[int, str] = {}
        self.last_loc: tuple[int, int] | None = None

    def write(self) -> SourceBlock:
        """Write the function, and return the Python block of its body."""
        for variable in self.function.variables:
            self._variable(variable)
        nodes: Sequence[Any] = self.structure.nodes
        if not self.flat:
            nodes = grouped(nodes, self.pool, self.infos)
        self._nodes(nodes)
        self._flush()
        self._declare()
        return self.block

    # --- nodes --------------------------------------------------------------------------------

    def _nodes(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            if isinstance(node, StatementStep):
                self._step(node)
            elif isinstance(node, IfNode):
                self._if(node)
            elif isinstance(node, LoopNode):
                self._loop(node)
            elif isinstance(node, Repeat):
                self._repeat(node)
            else:
                self._flush()
                self._inside("with ptx.block():", node.body)

    def _inside(self, header: str, nodes: Sequence[Any]) -> None:
        self.used.add("ptx")
        self.block.add(header)
        outer = self.block
        self.block = outer.inner()
        self._nodes(nodes)
        self._flush()
        self.block = outer

    def _condition(self, guard: Guard, negate: bool) -> str:
        """Return the Python text of a guard's predicate: its name, or the comparison that computes it.

        The comparison is used if its instruction comes directly before. ``negate`` asks for the opposite
        predicate.
        """
        text = self._take([guard.register])[guard.register.name]
        if guard.negated == negate:
            return text
        return f"~{inner(text)}"

    def _if(self, node: IfNode) -> None:
        instruction = node.branch.instruction
        assert instruction is not None and instruction.guard is not None
        self._line_of(node.branch)
        condition = self._condition(instruction.guard, negate=True)
        self._inside(f"with ptx.if_({condition}):", node.body)
        if node.skip is not None:
            self._inside(f"with ptx.else_({'uni=True' if uni(node.skip) else ''}):", node.orelse)

    def _loop(self, node: LoopNode) -> None:
        self._flush()
        if self._wait(node):
            return
        self.used.add("ptx")
        place = len(self.block.lines)
        self.block.add("")
        outer = self.block
        self.block = outer.inner()
        self.open.append(node)
        body, head = self._head(node)
        self._nodes(body)
        guard = node.guard
        words = ["uni=True"] if uni(node.back) else []
        if guard is not None:
            self._line_of(node.back)
            kind, condition = "do_while", self._condition(guard, negate=False)
            words.insert(0, f"lambda: {condition}")
        elif head:
            kind = "while_"
            words.insert(0, f"lambda: {head}")
        else:
            kind = "loop"
        self._flush()
        self.block = outer
        self.open.pop()
        suffix = f" as {self.loops[id(node)]}" if id(node) in self.loops else ""
        outer.lines[place] = f"with ptx.{kind}({', '.join(words)}){suffix}:"

    def _head(self, node: LoopNode) -> tuple[Sequence[Any], str]:
        """Return a loop's body, and its condition if the loop can be written as ``ptx.while_``, else ""."""
        if node.guard is not None or uni(node.back):
            return node.body, ""
        for count in (1, 0):
            if len(node.body) <= count or not all(
                isinstance(n, StatementStep) for n in node.body[: count + 1]
            ):
                continue
            leave = node.body[count]
            assert isinstance(leave, StatementStep)
            jump = self.structure.jumps.get(leave.index)
            instruction = leave.instruction
            if jump is None or jump.loop is not node or jump.kind != "break_" or uni(leave):
                continue
            assert instruction is not None
            if instruction.guard is None:
                continue
            if count:
                first = node.body[0]
                assert isinstance(first, StatementStep)
                found = first.instruction
                if found is None or found.opcode != "setp":
                    continue
                made = self._expression(first)
                if (
                    made is None
                    or made.info.register != instruction.guard.register
                    or not self._once(made.info)
                ):
                    continue
                self.pending.append(made)
                made.info.kind = made.kind
            condition = self._condition(instruction.guard, negate=True)
            return node.body[count + 1 :], condition
        return node.body, ""

    def _wait(self, node: LoopNode) -> bool:
        """Write a loop as ``ptx.mbarrier.wait`` if this call emits exactly the loop's instructions.

        Returns True if the loop was written.
        """
        guard = node.guard
        if guard is None or not guard.negated or len(node.body) != 1 or node.named:
            return False
        step = node.body[0]
        if not isinstance(step, StatementStep) or step.instruction is None:
            return False
        found = step.instruction
        if found.name != "mbarrier.try_wait.parity.shared::cta.b64" or found.guard is not None:
            return False
        ready, address, phase, *hint = found.operands
        info = self.infos[guard.register.name]
        if ready != guard.register or info.reads != 1 or info.writes != 1 or hint:
            return False
        self.used.add("ptx")
        self._line_of(step)
        words = [self._operand(address), self._operand(phase)]
        if uni(node.back):
            words.append("uni=True")
        self.block.add(f"ptx.mbarrier.wait({', '.join(words)})")
        return True

    def _repeat(self, node: Repeat) -> None:
        self._flush()
        self.index = self.index or self.names.new("i")
        if self._listed(node):
            return
        self.block.add(f"for {self.index} in range({node.count}):")
        outer = self.block
        self.block = outer.inner()
        self.outside, self.own = outer, node.own
        for step in node.template(self.pool, self.infos, self.index):
            self._step(step)
        self._flush()
        self.block, self.outside, self.own = outer, None, frozenset()

    def _listed(self, node: Repeat) -> bool:
        """Write a loop that makes the registers of an array as a list comprehension, if that is possible.

        Returns True if the loop was written.
        """
        if len(node.first) != 1:
            return False
        first = node.first[0].instruction
        assert first is not None
        if first.guard is not None or not first.operands or not isinstance(first.operands[0], Register):
            return False
        element = self.arrays.get(first.operands[0].name)
        if element is None or element[1] != 0 or len(element[0].registers) != node.count:
            return False
        array = element[0]
        infos = [self.infos[r.name] for r in array.registers]
        if (
            id(array) in self.array_home
            or [i.first for i in infos] != node.indices
            or not all(i.fresh for i in infos)
        ):
            return False
        self._line_of(node.first[0])
        (step,) = node.template(self.pool, self.infos, self.index)
        assert step.instruction is not None

        def takes(kind: ScalarType) -> bool:
            return all(info.takes(kind) for info in infos)

        text = self._filled(step.instruction, array)
        if text is None:
            made = self._operator(step.instruction, takes, infos[0])
            if made is None:
                return False
            array.kind = made.kind
            text = f"[{made.text} for {self.index} in range({node.count})]"
        for info in infos:
            info.kind = array.kind
        self.made_arrays.add(id(array))
        self.block.add(f"{array.name} = {text}")
        return True

    # --- steps --------------------------------------------------------------------------------

    def _line_of(self, step: StatementStep) -> None:
        """If the caller asked for comments, write a comment with the source line of the statement."""
        loc = step.loc
        if self.lines is None or loc is None or (loc.file, loc.line) == self.last_loc or not loc.line:
            return
        self.last_loc = (loc.file, loc.line)
        self._flush()
        self.block.add(f"# {self.lines.get(loc.file, '?')}:{loc.line}")

    def _step(self, step: StatementStep) -> None:
        statement = step.statement
        self.used.add("ptx")
        if isinstance(statement, Instruction):
            self._line_of(step)
            self._instruction(step, statement)
            return
        self._flush()
        if isinstance(statement, LabelStatement):
            if statement.name in self.structure.labels:
                self.block.add(f'ptx.label("{self._label(statement.name)}")')
        elif isinstance(statement, Variable):
            self._variable(statement)
        elif isinstance(statement, Pragma):
            self.block.add(f"ptx.pragma({', '.join(map(_quoted, statement.strings))})")
        elif isinstance(statement, TargetList):
            targets = ", ".join(
                f'"{self._label(t) if statement.kind == "branchtargets" else t}"' for t in statement.targets
            )
            self.block.add(f'ptx.{statement.kind}("{self._label(statement.name)}", [{targets}])')
        elif isinstance(statement, CallPrototype):
            self._prototype(statement)
        else:
            raise UnsupportedError(
                f"a program cannot record {statement}", location=getattr(statement, "source", None)
            )

    def _prototype(self, statement: CallPrototype) -> None:
        given = [f'"{self._label(statement.name)}"']
        for what, params in (("returns", statement.returns), ("params", statement.params)):
            if params:
                given.append(f"{what}=({', '.join(parameter(p, p.name, self.used) for p in params)},)")
        if statement.directives:
            self.used.add("ir")
            words = ", ".join(f'ir.Directive("{d.name}", {d.values})' for d in statement.directives)
            given.append(f"directives=({words},)")
        self.block.add(f"ptx.callprototype({', '.join(given)})")

    def _instruction(self, step: StatementStep, instruction: Instruction) -> None:
        jump = self.structure.jumps.get(step.index)
        if jump is not None:
            self._jump(instruction, jump, uni(step))
        elif instruction.opcode == "bra":
            self._branch(instruction, uni(step))
        elif instruction.opcode == "call":
            self._call(instruction)
        else:
            made = self._expression(step)
            if made is None:
                self._plain(instruction)
            elif made is WRITTEN:
                pass
            elif self._once(made.info) and len(made.text) <= _LONGEST and "ptx." not in made.text:
                made.info.kind = made.kind
                self.pending.append(made)
            else:
                self._flush()
                self._write(made)

    def _jump(self, instruction: Instruction, jump: Jump, uniform: bool) -> None:
        words = self._guard_words(instruction.guard)
        if uniform:
            words.append("uni=True")
        depth = self.open.index(jump.loop)
        if depth not in self.loop_names:
            self.loop_names[depth] = self.names.new("loop" if not depth else "inner")
        name = self.loops[id(jump.loop)] = self.loop_names[depth]
        self.block.add(f"{name}.{jump.kind}({', '.join(words)})")

    def _guard_words(self, guard: Guard | None) -> list[str]:
        if guard is None:
            self._flush()
            return []
        return [f"pred={self._condition(guard, negate=False)}"]

    def _branch(self, instruction: Instruction, uniform: bool) -> None:
        target = instruction.operands[0]
        assert isinstance(target, BranchTarget)
        words = [f'"{self._label(target.name)}"', *self._guard_words(instruction.guard)]
        if uniform:
            words.append("uni=True")
        self.block.add(f"ptx.bra({', '.join(words)})")

    def _call(self, instruction: Instruction) -> None:
        self._flush()
        operands = list(instruction.operands)
        prototype = None
        if isinstance(operands[-1], BranchTarget):
            last = operands.pop()
            assert isinstance(last, BranchTarget)
            prototype = last.name
        returns = self._list(operands.pop(0)) if isinstance(operands[0], Arguments) else "None"
        function = operands.pop(0)
        arguments = self._list(operands.pop(0)) if operands else None
        if isinstance(function, Symbol):
            known = self.symbols.get(function.name)
            target = known if known is not None else f'"{function.name}"'
        else:
            target = self._operand(function)
        words = [returns, target] if arguments is None else [returns, target, arguments]
        if "uni" in instruction.modifiers:
            words.append("uni=True")
        if prototype is not None:
            words.append(f'prototype="{self._label(prototype)}"')
        words += self._guard_words(instruction.guard)
        self.block.add(f"ptx.call({', '.join(words)})")

    def _list(self, arguments: Operand) -> str:
        assert isinstance(arguments, Arguments)
        texts = [self._operand(element) for element in arguments.elements]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    def _plain(self, instruction: Instruction) -> None:
        """Write the instruction as a call of ``ptx.inst``."""
        registers = [
            leaf for operand in instruction.operands for leaf in leaves(operand) if isinstance(leaf, Register)
        ]
        guard = instruction.guard
        texts = self._take([*registers, guard.register] if guard is not None else registers)
        mask = instruction.opcode in _BITWISE
        unit = None if self.flat else unit_call(instruction)
        function, places, keywords = unit or (_spelled(instruction), range(len(instruction.operands)), [])
        given = [
            self._operand(instruction.operands[at], texts, self._exact(instruction, at, mask))
            for at in places
        ]
        given += keywords
        if guard is not None:
            text = texts[guard.register.name]
            if guard.negated:
                text = f"~{inner(text)}"
            given.append(f"pred={text}")
        self.block.add(f"{function}({', '.join(given)})")


def _quoted(text: str) -> str:
    return f'"{text}"'


def _spelled(instruction: Instruction) -> str:
    """Return the Python name of an instruction, such as ``ptx.inst.add.s32``.

    Parts that contain colons are in brackets.
    """
    words = (instruction.opcode, *instruction.modifiers)
    if words in (("ret",), ("exit",)):
        return f"ptx.{words[0]}"
    if any(":" in word for word in words):
        return f'ptx.inst["{instruction.name}"]'
    return ".".join(("ptx.inst", *map(attribute_name, words)))
