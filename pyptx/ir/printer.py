"""Prints IR as PTX text, with a table that maps text lines back to statements.

Printing is a pure function of the module: the same IR gives the same bytes in any process.  On request the
text also has the author's lines, as ``.loc`` for tools or as comments for people.  These contain paths and
lines of source files; so compare the plain text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from ..core.records import dataclass
from ..core.source import SourceLocation, comment_lines
from .data import Initial, InitialList, MaskedSymbol, Pragma, SymbolAddress
from .lines import LineTable, has_lines
from .nodes import Function, Instruction, LabelStatement, Module, Raw, Statement, Symbol, Variable

__all__ = ["PrintedModule", "print_module"]

#: The first PTX version with the directive ``.address_size``.
_ADDRESS_SIZE_SINCE = (2, 3)
#: Width of a line of register declarations.
_DECLARATION_WIDTH = 100


@dataclass(frozen=True)
class PrintedModule:
    """PTX ``text``; ``lines`` has the statement from which a 1-based line of the text was printed."""

    text: str
    lines: dict[int, Statement] = field(repr=False)

    def source_of(self, line: int) -> SourceLocation | None:
        """Return the author's line for text line ``line``, or None if the line has no statement or source."""
        statement = self.lines.get(line)
        return statement.source if statement is not None else None


def print_module(module: Module, *, lines: bool = False, annotate: bool = False) -> PrintedModule:
    """Print ``module`` as PTX.

    Args:
        module: a module, recorded or parsed.
        lines: name the source line of each statement with ``.loc``, ``.file`` and inlined frames. A ``.loc``
            is printed on the line of its instruction, so that the numbers of the text's lines do not change.
            If the module has its own ``.loc`` or ``.file``, only these are printed.
        annotate: put the source lines between the instructions, as comments.
    """
    table = LineTable(module.version) if lines and not has_lines(module) else None
    printer = _Printer(table, annotate)
    return printer.module(module)


class _Printer:
    """Collects the printed text: ``out`` has the lines, ``statements`` maps 1-based lines to statements."""

    def __init__(self, table: LineTable | None, annotate: bool) -> None:
        self.table = table
        self.annotate = annotate
        self.out: list[str] = []
        self.statements: dict[int, Statement] = {}

    def module(self, module: Module) -> PrintedModule:
        out = self.out
        out.append(".version {}.{}".format(*module.version))
        out.append(f".target {', '.join((module.target, *module.target_options))}")
        if module.version >= _ADDRESS_SIZE_SINCE:
            out.append(f".address_size {module.address_size}")
        out += [str(d) for d in module.directives if isinstance(d, Pragma)]
        after = _deferred(module)
        for variable in after.get(-1, ()):
            out += ["", f"{variable};"]
        for index, function in enumerate(module.functions):
            out.append("")
            self.function(function)
            for variable in after.get(index, ()):
                out += ["", f"{variable};"]
        for directive in module.directives:
            if not isinstance(directive, Pragma):
                out += ["", *str(directive).split("\n")]
        if self.table is not None:
            for directive in self.table.directives():
                out += ["", *str(directive).split("\n")]
        out.append("")
        return PrintedModule("\n".join(out), self.statements)

    def function(self, function: Function) -> None:
        out = self.out
        out += _header(function)
        if function.prototype:
            out.append(";")
            return
        out.append("{")
        _registers(function, out)
        out += [f"    {v};" for v in function.variables]
        if function.registers or function.variables:
            out.append("")
        if self.table is not None:
            self.table.start()
        previous: SourceLocation | None = None
        for statement in function.body:
            source = statement.source
            if self.annotate and source is not None and source != previous:
                out += [f"    // {line}" for line in comment_lines(source, previous)]
                previous = source
            self.statement(statement)
        out.append("}")

    def statement(self, statement: Statement) -> None:
        locations = ""
        if self.table is not None and isinstance(statement, Instruction | Raw):
            locations = "".join(f"{loc} " for loc in self.table.before(statement.source))
        if isinstance(statement, Raw):
            self.out.append("    // raw PTX: not checked, not simulated")
            lines = [line.strip() for line in statement.text.strip("\n").split("\n")]
        elif isinstance(statement, Variable):
            lines = [f"{statement};"]
        else:
            lines = [str(statement)]
        indent = "" if isinstance(statement, LabelStatement) else "    "
        for line in lines:
            self.out.append(indent + locations + line)
            self.statements[len(self.out)] = statement
            locations = ""


def _deferred(module: Module) -> dict[int, list[Variable]]:
    """Return variables by the index of the function after which they are printed; -1 means before all
    functions.

    A function must be declared before an initializer names it. The order of the variables is kept, since
    ptxas numbers them in this order.
    """
    declared: dict[str, int] = {}
    for index, function in enumerate(module.functions):
        declared.setdefault(function.name, index)
    after: dict[int, list[Variable]] = {}
    place = -1
    for variable in module.variables:
        place = max([place, *(declared.get(name, -1) for name in _names(variable.initial))])
        after.setdefault(place, []).append(variable)
    return after


def _names(initial: Initial | InitialList | None) -> Iterator[str]:
    """Yield the name of each variable or function that an initializer refers to."""
    if isinstance(initial, InitialList):
        for element in initial.elements:
            yield from _names(element)
    elif isinstance(initial, MaskedSymbol):
        yield initial.symbol.name
    elif isinstance(initial, Symbol | SymbolAddress):
        yield initial.name


def _registers(function: Function, out: list[str]) -> None:
    groups: dict[str, list[str]] = {}
    for register in function.registers:
        vector = f".v{register.vector} " if register.vector != 1 else ""
        groups.setdefault(f"{vector}.{register.type.name}", []).append(str(register))
    for type_name, names in groups.items():
        prefix = f"    .reg {type_name} "
        line = prefix + names[0]
        for name in names[1:]:
            if len(line) + len(name) + 2 > _DECLARATION_WIDTH:
                out.append(line + ";")
                line = prefix + name
            else:
                line += ", " + name
        out.append(line + ";")


def _header(function: Function) -> list[str]:
    parts = [f".{function.linkage}"] if function.linkage else []
    parts += [f".{function.kind}", *map(str, function.attributes)]
    if function.returns:
        parts.append(f"({', '.join(map(str, function.returns))})")
    header = " ".join([*parts, f"{function.name}("])
    out = []
    if function.params:
        out.append(header)
        out += [f"    {p}," for p in function.params[:-1]]
        out.append(f"    {function.params[-1]}")
        out.append(")")
    else:
        out.append(header + ")")
    out += [str(directive) for directive in function.directives]
    out += [str(pragma) for pragma in function.pragmas]
    return out
