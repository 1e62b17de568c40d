"""IR to PTX text, with a table from text lines back to statements.

Printing is a pure function of the module: the same IR gives the same bytes in any process.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.source import SourceLocation
from .nodes import Function, Instruction, Label, Module, Param, Raw, Statement, Variable

__all__ = ["PrintedModule", "print_module"]

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
        f".target {module.target}",
        f".address_size {module.address_size}",
    ]
    table: dict[int, Statement] = {}
    for variable in module.variables:
        out += ["", _variable(variable)]
    for function in module.functions:
        out.append("")
        _function(function, out, table)
    out.append("")
    return PrintedModule("\n".join(out), table)


def _array(name: str, count: int | None) -> str:
    if count is None:
        return name
    return f"{name}[{count}]" if count else f"{name}[]"


def _variable(variable: Variable) -> str:
    parts = [".extern"] if variable.external else []
    parts.append("." + variable.space)
    if variable.align is not None:
        parts.append(f".align {variable.align}")
    parts += ["." + variable.type.name, _array(variable.name, variable.count) + ";"]
    return " ".join(parts)


def _param(param: Param) -> str:
    parts = [".param"]
    if param.align is not None:
        parts.append(f".align {param.align}")
    parts += ["." + param.type.name, _array(param.name, param.count)]
    return " ".join(parts)


def _registers(function: Function, out: list[str]) -> None:
    groups: dict[str, list[str]] = {}
    for register in function.registers:
        groups.setdefault(register.type.name, []).append(str(register))
    for type_name, names in groups.items():
        prefix = f"    .reg .{type_name} "
        line = prefix + names[0]
        for name in names[1:]:
            if len(line) + len(name) + 2 > _DECLARATION_WIDTH:
                out.append(line + ";")
                line = prefix + name
            else:
                line += ", " + name
        out.append(line + ";")


def _function(function: Function, out: list[str], table: dict[int, Statement]) -> None:
    header = f".visible .entry {function.name}("
    if function.params:
        out.append(header)
        out += [f"    {_param(p)}," for p in function.params[:-1]]
        out.append(f"    {_param(function.params[-1])}")
        out.append(")")
    else:
        out.append(header + ")")
    out += [str(directive) for directive in function.directives]
    out.append("{")
    _registers(function, out)
    out += ["    " + _variable(v) for v in function.variables]
    if function.registers or function.variables:
        out.append("")
    for statement in function.body:
        if isinstance(statement, Instruction):
            out.append("    " + str(statement))
        elif isinstance(statement, Label):
            out.append(str(statement))
        elif isinstance(statement, Raw):
            out.append("    // raw PTX: not checked, not simulated")
            for line in statement.text.strip("\n").split("\n"):
                out.append("    " + line.strip())
                table[len(out)] = statement
            continue
        table[len(out)] = statement
    out.append("}")
