"""Reads the body of a function: statements and operands.

Names become unique in the process (see :mod:`.names`).  A name that is not declared yet may be a label
further down, so operands with such a name are resolved after the whole body has been read.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.source import SourceLocation
from .constants import DEPTH, constant, integer, is_constant, starts_constant
from .data import Loc
from .declarations import (
    SPACES,
    read_bank,
    read_directive,
    read_layout,
    read_offset,
    read_params,
    read_pragma,
    read_range,
    read_variables,
)
from .lexer import Cursor
from .names import Names, NameScope
from .nodes import (
    Address,
    Arguments,
    BranchTarget,
    CallPrototype,
    Directive,
    Element,
    Guard,
    Immediate,
    Indexed,
    Instruction,
    LabelStatement,
    Minus,
    Negated,
    Operand,
    Pair,
    Param,
    Register,
    ScopeMark,
    Sink,
    Special,
    Statement,
    Sum,
    Symbol,
    TargetList,
    Variable,
    Vector,
)
from .walk import map_registers

__all__ = ["Body"]

_SINK = Sink()
#: First characters of an instruction's name, a label or a register.
_NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$%")
_OPERAND = "an operand"
#: Largest number of registers in a range. More of them must be a mistake in the text.
_MAX_RANGE = 1 << 30


class Body:
    """Reads the body of one function. ``names`` already has the function's parameters."""

    def __init__(self, cursor: Cursor, names: Names) -> None:
        self.cursor = cursor
        self.names = names
        self.statements: list[Statement] = []
        self.variables: list[Variable] = []
        #: Indices of statements with unresolved names, and the scope in which to find the names.
        self._open: list[tuple[int, NameScope]] = []
        self._unsettled = False
        self._opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}

    def read(self) -> None:
        """Read the statements of the function from the opening brace to the closing one."""
        cursor, names = self.cursor, self.names
        texts = cursor.texts
        cursor.expect("{", "'{'")
        while True:
            text = texts[cursor.at]
            first = text[:1]
            if first in _NAME_START and first:
                if texts[cursor.at + 1] == ":":
                    self._label()
                else:
                    self._instruction(None, cursor.location())
            elif first == "@":
                self._guarded()
            elif first == ".":
                self._directive(text)
            elif text == "{":
                self.statements.append(ScopeMark(True, cursor.location()))
                cursor.at += 1
                names.open()
            elif text == "}":
                source = cursor.location()
                cursor.at += 1
                if not names.close():
                    break
                self.statements.append(ScopeMark(False, source))
            else:
                cursor.fail("a statement or '}'")
        for index, scope in self._open:
            self.statements[index] = self._settled(self.statements[index], scope)
        if changed := names.apart():
            self.statements = [_renamed(statement, changed) for statement in self.statements]

    def _settled(self, statement: Statement, scope: NameScope) -> Statement:
        if isinstance(statement, TargetList):
            return replace(
                statement, targets=tuple(Names.find_label(scope, t) or t for t in statement.targets)
            )
        assert isinstance(statement, Instruction)
        operands: list[Operand] = []
        for operand in statement.operands:
            if isinstance(operand, BranchTarget):
                label = Names.find_label(scope, operand.name)
                operands.append(Symbol(operand.name) if label is None else BranchTarget(label))
            else:
                operands.append(operand)
        return replace(statement, operands=tuple(operands))

    # --- statements ---------------------------------------------------------------------------

    def _label(self) -> None:
        cursor = self.cursor
        source = cursor.location()
        text = cursor.name("a label")
        name = self.names.label(text)
        if name is None:
            cursor.fail("a label that is not defined yet", cursor.at - 1)
        cursor.at += 1
        follows = cursor.text
        if follows in (".branchtargets", ".calltargets"):
            cursor.at += 1
            targets = self._targets()
            while cursor.accept(","):
                targets += self._targets()
            cursor.expect(";", "',' or ';'")
            self._open.append((len(self.statements), self.names.scope))
            self.statements.append(TargetList(name, follows[1:], tuple(targets), source))
        elif follows == ".callprototype":
            cursor.at += 1
            self.statements.append(self._prototype(name, source))
        else:
            self.statements.append(LabelStatement(name, source))

    def _targets(self) -> list[str]:
        """Read a name in a list of labels or functions, or a range: ``L<3>`` means ``L0``, ``L1``, ``L2``."""
        name, count = read_range(self.cursor, "a label")
        return [name] if count is None else [f"{name}{n}" for n in range(count)]

    def _prototype(self, name: str, source: SourceLocation) -> CallPrototype:
        cursor = self.cursor
        returns: tuple[Param, ...] = ()
        if cursor.text == "(":
            returns = read_params(cursor, _as_written)
        cursor.expect("_", "'_' in the place of a function's name")
        params: tuple[Param, ...] = ()
        if cursor.text == "(":
            params = read_params(cursor, _as_written)
        directives: list[Directive] = []
        while cursor.text[:1] == ".":
            directives.append(read_directive(cursor))
        cursor.expect(";")
        return CallPrototype(name, returns, params, tuple(directives), source)

    def _directive(self, text: str) -> None:
        cursor = self.cursor
        if text == ".reg":
            cursor.at += 1
            self._registers()
        elif text == ".loc":
            self.statements.append(self._loc())
        elif text == ".pragma":
            self.statements.append(read_pragma(cursor))
        else:
            external, linkage = False, ""
            while cursor.text in (".extern", ".visible", ".weak", ".common"):
                keyword = cursor.take()
                external, linkage = (True, linkage) if keyword == ".extern" else (external, keyword[1:])
            space = cursor.text
            if space.partition("::")[0] not in SPACES:
                cursor.fail("a statement or a declaration")
            cursor.at += 1
            found = read_variables(cursor, space[1:], external, linkage, self.names.variable)
            if space == ".param" or (space == ".local" and self.names.nested):
                self.statements += found
            else:
                self.variables += found

    def _registers(self) -> None:
        cursor, names = self.cursor, self.names
        layout = read_layout(cursor)
        while True:
            text, count = read_range(cursor, "a register's name", _MAX_RANGE)
            if count is not None:
                names.registers(text, count, layout.type, layout.vector)
            elif names.register(text, layout.type, layout.vector) is None:
                cursor.fail("a name that is not declared yet", cursor.at - 1)
            if not cursor.accept(","):
                cursor.expect(";", "',' or ';'")
                return

    def _loc(self) -> Loc:
        cursor = self.cursor
        source = cursor.location()
        cursor.at += 1
        file, line, column = (integer(cursor) for _ in range(3))
        function, offset = "", 0
        inlined: tuple[int, int, int] | None = None
        while cursor.accept(","):
            option = cursor.name("function_name or inlined_at")
            if option == "function_name":
                # A label in .debug_str, or the section's name with an offset.
                function = cursor.take() if cursor.text[:1] == "." else cursor.name("a label")
                offset = read_offset(cursor)
            elif option == "inlined_at":
                inlined = (integer(cursor), integer(cursor), integer(cursor))
            else:
                cursor.fail("function_name or inlined_at", cursor.at - 1)
        return Loc(file, line, column, function, offset, inlined, source)

    def _guarded(self) -> None:
        cursor = self.cursor
        source = cursor.location()
        cursor.at += 1
        negated = cursor.accept("!")
        register = self.names.find(cursor.text)
        if not isinstance(register, Register):
            cursor.fail("a declared predicate register")
        cursor.at += 1
        if cursor.text[:1] not in _NAME_START or not cursor.text:
            cursor.fail("an instruction")
        self._instruction(Guard(register, negated), source)

    def _instruction(self, guard: Guard | None, source: SourceLocation) -> None:
        cursor = self.cursor
        texts = cursor.texts
        name = texts[cursor.at]
        known = self._opcodes.get(name)
        if known is None:
            if name[0] in "%$_":
                cursor.fail("an instruction")
            opcode, *written = name.split(".")
            known = self._opcodes[name] = (opcode, tuple(written))
        opcode, modifiers = known
        cursor.at += 1
        if texts[cursor.at] == "[" and modifiers[-1:] == ("const",):
            modifiers = (*modifiers[:-1], read_bank(cursor))
        while texts[cursor.at][:1] == ".":
            modifiers += tuple(cursor.take()[1:].split("."))
        operands: list[Operand] = []
        self._unsettled = False
        if texts[cursor.at] == ";":
            cursor.at += 1
        else:
            calls = opcode == "call"
            while True:
                if calls and texts[cursor.at] == "(":
                    operands.append(self._arguments())
                else:
                    operands.append(self._operand())
                end = texts[cursor.at]
                cursor.at += 1
                if end == ";":
                    break
                if end != ",":
                    cursor.fail("',' or ';'", cursor.at - 1)
        if self._unsettled:
            self._open.append((len(self.statements), self.names.scope))
        self.statements.append(Instruction(opcode, modifiers, tuple(operands), guard, source))

    # --- operands -----------------------------------------------------------------------------

    def _operand(self) -> Operand:
        cursor = self.cursor
        text = cursor.texts[cursor.at]
        known = self.names.find(text)
        if known is not None:
            cursor.at += 1
            follows = cursor.texts[cursor.at]
            if follows == "," or follows == ";":
                return known
            if isinstance(known, Symbol):
                return self._element_of(known) or Symbol(known.name, read_offset(cursor))
            if follows == "|":
                return self._pair(known)
            if follows == "+":
                return Sum(known, read_offset(cursor))
            if follows[:1] == "." and "." not in text:
                cursor.at -= 1
                return self._named()
            return known
        first = text[:1]
        if first == "[":
            return self._address()
        if first == "{":
            vector = self._vector(0)
            return self._pair(vector) if cursor.text == "|" else vector
        if first == "!" and (register := self.names.find(cursor.texts[cursor.at + 1])) is not None:
            cursor.at += 2
            if not isinstance(register, Register):
                cursor.fail("a predicate register", cursor.at - 1)
            return Negated(register)
        if first == "-" and _is_name(cursor.texts[cursor.at + 1]):
            cursor.at += 1
            operand = self._named()
            if not isinstance(operand, Register | Element):
                cursor.fail("a register after '-'", cursor.at - 1)
            return Minus(operand)
        if _is_name(text):
            named = self._named()
            if isinstance(named, Sink):
                return self._pair(named) if cursor.text == "|" else named
            if isinstance(named, Symbol):
                if (element := self._element_of(named)) is not None:
                    return element
                offset = read_offset(cursor)
                if offset:
                    return Symbol(named.name, offset)
                self._unsettled = True
                return BranchTarget(named.name)
            return named
        return constant(cursor, _OPERAND)

    def _element_of(self, array: Symbol) -> Indexed | None:
        """Read ``[3]`` or ``[%r+1]`` after the name of an array; return None if there is no bracket."""
        cursor = self.cursor
        if not cursor.accept("["):
            return None
        index: Register | Sum | Immediate
        if _is_name(cursor.text):
            register = self._named()
            if not isinstance(register, Register):
                cursor.fail("a number or a declared register", cursor.at - 1)
            index = Sum(register, read_offset(cursor)) if cursor.text in ("+", "-") else register
        else:
            index = Immediate(integer(cursor, "the number of an element"))
        cursor.expect("]")
        return Indexed(array.name, index)

    def _pair(self, first: Register | Sink | Vector) -> Pair:
        cursor = self.cursor
        cursor.expect("|")
        second = self._named()
        if not isinstance(second, Register | Sink):
            cursor.fail("a register or '_' after '|'", cursor.at - 1)
        return Pair(first, second)

    def _named(self) -> Register | Symbol | Element | Special | Sink:
        """Read a name. An undeclared one is a special register if it begins with ``%``, else a symbol."""
        cursor = self.cursor
        text = cursor.texts[cursor.at]
        if text[:1] != "_" and cursor.texts[cursor.at + 1][:1] == "." and "." not in text:
            cursor.at += 1  # the text may have a blank before the dot
            text += cursor.text
        known = self.names.find(text)
        if known is not None:
            cursor.at += 1
            return known
        if "." in text:
            base, _, selector = text.partition(".")
            register = self.names.find(base)
            if isinstance(register, Register):
                cursor.at += 1
                return Element(register, selector)
        if text == "_":
            cursor.at += 1
            return _SINK
        if text[:1] == "%":
            cursor.at += 1
            return self.names.special(text)
        return Symbol(cursor.name(_OPERAND))

    def _address(self) -> Address:
        cursor = self.cursor
        cursor.expect("[")
        base = self._address_base()
        offset, zero = 0, False
        if not isinstance(base, Immediate) and cursor.text in ("+", "-"):
            offset = read_offset(cursor)
            zero = not offset
        extra: list[Register | Symbol | Immediate | Special | Vector] = []
        while cursor.accept(","):
            extra.append(self._vector(0) if cursor.text == "{" else self._address_base())
        coordinates: Vector | None = None
        if extra and isinstance(extra[-1], Vector):
            coordinates = extra[-1]
            del extra[-1]
        cursor.expect("]", "',', an offset or ']'" if not extra and coordinates is None else "',' or ']'")
        suffix = ""
        if cursor.text[:1] == ".":
            suffix = cursor.take()[1:]
        return Address(base, offset, coordinates, tuple(extra), suffix, zero)

    def _address_base(self) -> Register | Symbol | Immediate:
        cursor = self.cursor
        if starts_constant(cursor.text):
            return Immediate(integer(cursor, "an address"))
        if not _is_name(cursor.text):
            cursor.fail("an address: a register, a variable or a number")
        base = self._named()
        if not isinstance(base, Register | Symbol):
            cursor.fail("an address: a declared register, a variable or a number", cursor.at - 1)
        return base

    def _vector(self, depth: int) -> Vector:
        cursor = self.cursor
        if depth > DEPTH:
            cursor.fail(f"at most {DEPTH} nested vectors")
        cursor.expect("{")
        elements: list[Register | Immediate | Sink | Symbol | Special | Element | Vector] = []
        while True:
            elements.append(self._element(depth))
            if not cursor.accept(","):
                cursor.expect("}", "',' or '}'")
                return Vector(tuple(elements))

    def _arguments(self) -> Arguments:
        cursor = self.cursor
        cursor.expect("(")
        elements: list[Register | Immediate | Sink | Symbol | Special | Element | Vector] = []
        while not cursor.accept(")"):
            if elements:
                cursor.expect(",", "',' or ')'")
            elements.append(self._element(0))
        return Arguments(tuple(elements))

    def _element(self, depth: int) -> Register | Immediate | Sink | Symbol | Special | Element | Vector:
        """Read an element of a vector or of a call's list."""
        cursor = self.cursor
        text = cursor.text
        if text == "{":
            return self._vector(depth + 1)
        if _is_name(text):
            named = self._named()
            return Symbol(named.name, read_offset(cursor)) if isinstance(named, Symbol) else named
        return constant(cursor, _OPERAND)


def _renamed(statement: Statement, changed: dict[Register, Register]) -> Statement:
    def new(register: Register) -> Register:
        return changed.get(register, register)

    if not isinstance(statement, Instruction):
        return statement
    guard = statement.guard
    if guard is not None:
        guard = replace(guard, register=new(guard.register))
    return replace(statement, operands=tuple(map_registers(o, new) for o in statement.operands), guard=guard)


def _is_name(text: str) -> bool:
    """True if an operand that starts with this token is a name, not a number or a sign."""
    return text[:1] in _NAME_START and text != "" and not is_constant(text)


def _as_written(param: Param, text: str) -> Param | None:
    """Accept a parameter of a prototype without declaring its name, which has no meaning."""
    del text
    return param
