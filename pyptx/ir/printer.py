"""IR to PTX text, with a table from text lines back to statements.

Printing is a pure function of the module: the same IR gives the same bytes in any process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..core.source import SourceLocation
from .data import Initial, InitialList, MaskedSymbol, Pragma, SymbolAddress
from .nodes import Function, Label, Module, Raw, Statement, Symbol, Variable

__all__ = ["PrintedModule", "print_module"]

#: The first version with the directive.
_ADDRESS_SIZE_SINCE = (2, 3)
#: Width of a line of register declarations.
_DECLARATION_WIDTH = 100


@dataclass(frozen=True)
class PrintedModule:
    """``text``, and for each 1-based line of it the statement that the line came from."""

    text: str
    lines: dict[int, Statement] = field(repr=False)

    def source_of(self, line: int) -> SourceLocation | None:
        """The author's line of text line ``line``, if a statement stands there."""
        statement = self.lines.get(line)
        return statement.source if statement is not None else None


def print_module(module: Module) -> PrintedModule:
    """Print ``module`` as PTX."""
    out: list[str] = [
        ".version {}.{}".format(*module.version),
        f".target {', '.join((module.target, *module.target_options))}",
    ]
    if module.version >= _ADDRESS_SIZE_SINCE:
        out.append(f".address_size {module.address_size}")
    table: dict[int, Statement] = {}
    out += [str(d) for d in module.directives if isinstance(d, Pragma)]
    after = _deferred(module)
    for variable in after.get(-1, ()):
        out += ["", f"{variable};"]
    for index, function in enumerate(module.functions):
        out.append("")
        _function(function, out, table)
        for variable in after.get(index, ()):
            out += ["", f"{variable};"]
    for directive in module.directives:
        if not isinstance(directive, Pragma):
            out += ["", *str(directive).split("\n")]
    out.append("")
    return PrintedModule("\n".join(out), table)


def _deferred(module: Module) -> dict[int, list[Variable]]:
    """Variables by the index of the function that they are printed behind: -1 is before all.

    A function must be declared before an initialiser names it. Variables keep their order: ptxas
    numbers them by it.
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
    """Symbols in an initialiser."""
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


def _function(function: Function, out: list[str], table: dict[int, Statement]) -> None:
    parts = [f".{function.linkage}"] if function.linkage else []
    parts += [f".{function.kind}", *map(str, function.attributes)]
    if function.returns:
        parts.append(f"({', '.join(map(str, function.returns))})")
    header = " ".join([*parts, f"{function.name}("])
    if function.params:
        out.append(header)
        out += [f"    {p}," for p in function.params[:-1]]
        out.append(f"    {function.params[-1]}")
        out.append(")")
    else:
        out.append(header + ")")
    out += [str(directive) for directive in function.directives]
    out += [str(pragma) for pragma in function.pragmas]
    if function.prototype:
        out.append(";")
        return
    out.append("{")
    _registers(function, out)
    out += [f"    {v};" for v in function.variables]
    if function.registers or function.variables:
        out.append("")
    for statement in function.body:
        if isinstance(statement, Label):
            out.append(str(statement))
        elif isinstance(statement, Raw):
            out.append("    // raw PTX: not checked, not simulated")
            for line in statement.text.strip("\n").split("\n"):
                out.append("    " + line.strip())
                table[len(out)] = statement
            continue
        elif isinstance(statement, Variable):
            out.append(f"    {statement};")
        else:
            out.append("    " + str(statement))
        table[len(out)] = statement
    out.append("}")
