"""Writes a PTX module as a Python file: imports, variables, prototypes, functions, and a print of the PTX.

Owns :func:`written`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...core.errors import UnsupportedError
from ...core.records import dataclass
from ...core.types import TYPES
from ...ir import (
    Alias,
    Dwarf,
    File,
    Function,
    Module,
    Param,
    Pragma,
    Section,
    Variable,
)
from ...ir.mangling import demangle
from .declare import parameter, type_text, unnamed, variable_options
from .names import PythonNames, short_name
from .text import wrapped
from .writer import Writer

__all__ = ["Written", "written"]

#: Names that a program may import, and that it must not use for anything else.
_RESERVED = ("ir", "ptx", "reg", "program", "Program", "Reg", "Sym", "VectorReg", *TYPES)


class _File:
    def __init__(self, module: Module, flat: frozenset[str], lines: bool) -> None:
        self.module = module
        self.flat = flat
        self.files = {d.index: d.name for d in module.directives if isinstance(d, File)} if lines else None
        self.names = PythonNames(_RESERVED)
        self.symbols: dict[str, str] = {}
        self.used: set[str] = {"Program"}
        self.body: list[str] = []
        self.python: dict[str, str] = {}
        #: Text of a ``ptx.param`` call -> the Python name of the variable that holds the result.
        self.kinds: dict[str, str] = {}

    def render(self, title: str) -> str:
        module = self.module
        for name in (*(v.name for v in module.variables), *(f.name for f in module.functions)):
            if name not in self.python:
                self.python[name] = self.names.new(short_name(name))
        self._head()
        for directive in module.directives:
            if isinstance(directive, Pragma):
                strings = ", ".join(f'"{s}"' for s in directive.strings)
                self.body.append(f"program.directive(ir.Pragma(({strings},)))")
                self.used.add("ir")
        for variable in module.variables:
            self._variable(variable)
        for function in module.functions:
            if function.prototype:
                self._prototype(function)
            else:
                self._function(function)
        for directive in module.directives:
            if isinstance(directive, Alias):
                self.used.add("ir")
                self.body.append(f'program.directive(ir.Alias("{directive.name}", "{directive.target}"))')
            elif not isinstance(directive, File | Section | Dwarf | Pragma):
                raise UnsupportedError(f"a pyptx program cannot emit the directive {directive}")
        imports = f"from pyptx import {', '.join(sorted(self.used, key=_import_order))}"
        return "\n".join(
            [
                *title.split("\n"),
                "",
                *wrapped_import(imports),
                "",
                *self.body,
                "",
                "",
                'if __name__ == "__main__":',
                '    print(program.ptx(), end="")',
                "",
            ]
        )

    def _head(self) -> None:
        module = self.module
        words = [f'"{module.target}"', f"version={module.version}"]
        if module.target_options:
            words.append(f"options={module.target_options}")
        if module.address_size != 64:
            words.append(f"address_size={module.address_size}")
        self.body.append(f"program = Program({', '.join(words)})")

    # --- variables and prototypes -------------------------------------------------------------

    def _variable(self, variable: Variable) -> None:
        name = self.python[variable.name]
        self.symbols[variable.name] = name
        known = {"global": "global_", "const": "const", "shared": "shared"}.get(variable.space)
        head = f"program.{known}" if known else "program.variable"
        words = [] if known else [f'"{variable.space}"']
        words.append(type_text(variable.type, self.used))
        if name != variable.name:
            words.append(f'"{variable.name}"')
        words += variable_options(variable, self.symbols, self.used)
        self.body += wrapped(f"{name} = {head}({', '.join(words)})", 0)

    def _signature(self, function: Function, params: Sequence[str]) -> list[str]:
        """Return the keywords that declare results and parameters; ``params`` are their Python names."""
        found = []
        names = iter(params)
        for what, given in (("returns", function.returns), ("params", function.params)):
            if given:
                texts = [parameter(p, next(names), self.used) for p in given]
                found.append(f"{what}={_tuple(texts)}")
        return found

    def _kind(self, param: Param) -> str:
        """Return a parameter's declaration without its name, as Python text.

        This is its type, or the name of a ``ptx.param`` result.
        """
        text = unnamed(param, self.used)
        if text == param.type.name:
            return text
        if text not in self.kinds:
            wish = "pointer" if param.pointer is not None else f"bytes_{param.nbytes}"
            self.kinds[text] = self.names.new(wish if param.space == "param" else f"{param.type}_register")
            self.body.append(f"{self.kinds[text]} = {text}")
        return self.kinds[text]

    def _passed(self, param: Param) -> str:
        """Return the Python type of the object that the function's body gets for a parameter."""
        kind = "Sym" if param.space != "reg" else "VectorReg" if param.vector > 1 else "Reg"
        self.used.add(kind)
        return kind

    def _options(self, function: Function, linkage: str) -> list[str]:
        found = [] if function.linkage == linkage else [f'linkage="{function.linkage}"']
        if function.attributes:
            self.used.add("ir")
            words = ", ".join(f'ir.Attribute("{a.name}", {a.values})' for a in function.attributes)
            found.append(f"attributes=({words},)")
        if function.pragmas:
            found.append(f"pragmas={tuple(s for p in function.pragmas for s in p.strings)}")
        names = [d.name for d in function.directives]
        if len(set(names)) != len(names):
            self.used.add("ir")
            words = ", ".join(f'ir.Directive("{d.name}", {d.values})' for d in function.directives)
            return [*found, f"directives=({words},)"]
        for directive in function.directives:
            values = directive.values
            text = "True" if not values else str(values[0]) if len(values) == 1 else str(values)
            found.append(f"{directive.name}={text}")
        return found

    def _prototype(self, function: Function) -> None:
        name = self.python[function.name]
        known = Writer(replaced(function), self.names, self.symbols, arch=self.module.target)
        words = [f'"{function.name}"', *self._signature(function, known.parameters())]
        words += self._options(function, "extern")
        if function.kind != "func":
            words.append(f'kind="{function.kind}"')
        self.body += wrapped(f"{name} = program.declare({', '.join(words)})", 0)
        self.symbols[function.name] = name

    # --- functions ----------------------------------------------------------------------------

    def _function(self, function: Function) -> None:
        name = self.python[function.name]
        writer = Writer(
            function,
            self.names,
            self.symbols,
            arch=self.module.target,
            flat=function.name in self.flat,
            lines=self.files,
        )
        params = writer.parameters()
        declared = function.name in self.symbols  # its name stands for the declaration
        body = self.names.new(f"define_{name}") if declared else name
        words = [] if body == function.name else [f'"{function.name}"']
        results = len(function.returns)
        words += self._signature(replace(function, params=()), params[:results])
        if function.params:
            words.append(f"params={_tuple([self._kind(param) for param in function.params])}")
        params = [
            f"{text}: {self._passed(param)}"
            for text, param in zip(params, (*function.returns, *function.params), strict=True)
        ]
        words += self._options(function, "visible" if function.kind == "entry" else "")
        block = writer.write()
        self.used |= writer.used
        self.body += ["", ""]
        plain = demangle(function.name)
        self.body += wrapped(f"@program.{function.kind}({', '.join(words)})", 0)
        self.body += wrapped(f"def {body}({', '.join(params)}) -> None:", 0)
        if plain not in (name, function.name):
            self.body.append(f'    """``{plain}``"""')
        self.body += block.render(1)
        self.symbols[function.name] = name


def _tuple(texts: Sequence[str]) -> str:
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def replaced(function: Function) -> Function:
    """Return a prototype of ``function``: the function without its statements."""
    return Function(function.name, function.params, kind=function.kind, returns=function.returns)


def _import_order(name: str) -> tuple[bool, str, int]:
    """Return the sort key of an imported name, as formatters sort: classes first, b8 before b16."""
    stem = name.rstrip("0123456789")
    return (not name[0].isupper(), stem, int(name[len(stem) :] or 0))


def wrapped_import(line: str) -> list[str]:
    if len(line) <= 110:
        return [line]
    head, _, names = line.partition(" import ")
    return [f"{head} import (", *(f"    {name}," for name in names.split(", ")), ")"]


@dataclass(frozen=True)
class Written:
    """A Python file, and a map from the functions' names in PTX to their names in the file."""

    text: str
    functions: Mapping[str, str]


def written(
    module: Module, title: str, *, flat: frozenset[str] = frozenset(), lines: bool = False
) -> Written:
    """Write the Python file that records ``module``; ``title`` is its docstring, quotes included.

    Functions named in ``flat`` are written with labels, branches and ``ptx.inst`` only.  ``lines`` adds
    comments for ``.loc``.

    Raises:
        InstructionError, OperandError: the table does not have an instruction.
        UnsupportedError: no program can record a statement or a directive.
    """
    file = _File(module, flat, lines)
    text = file.render(title)
    return Written(text, {f.name: file.python[f.name] for f in module.functions})
