"""Parses PTX text into IR: :func:`parse_module`, and the top level of a module.

:mod:`.lexer` makes tokens, :mod:`.declarations` and :mod:`.statements` read variables and bodies, and
:mod:`.names` makes names unique.  The parser only knows the grammar; :mod:`pyptx.isa` knows which
instructions exist.
"""

from __future__ import annotations

import re
from dataclasses import replace

from .constants import integer, starts_constant
from .data import (
    Alias,
    Attribute,
    Dwarf,
    File,
    LabelDifference,
    ModuleDirective,
    Pragma,
    Section,
    SectionData,
    SectionLabel,
)
from .declarations import (
    SPACES,
    read_attributes,
    read_directive,
    read_offset,
    read_params,
    read_pragma,
    read_variables,
)
from .lexer import Cursor
from .names import Names
from .nodes import Directive, Function, Module, Param, Symbol, Variable
from .statements import Body

__all__ = ["parse_module"]

_VERSION = re.compile(r"(\d+)\.(\d+)\Z", re.ASCII)
_LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
_DECLARES = frozenset({*_LINKAGE, *SPACES, ".func", ".entry", ".attribute"})
#: Tokens that may follow a prototype without a semicolon.
_BEHIND = frozenset({*_DECLARES, ".file", ".section", ".alias", ".target", "@", ""}) - {".attribute"}
_DATA = frozenset({".b8", ".b16", ".b32", ".b64"})


def parse_module(text: str, filename: str = "<ptx>") -> Module:
    """Read one PTX translation unit.

    Comments and the notation of numbers are lost; everything else is kept. Of the registers declared as a
    range (``%r<100>``), the function has those that it uses. The source location of a statement is its line
    in ``filename``.

    Raises:
        ParseError: the text is not PTX; the message has the line, the column, and what was read and expected.
    """
    return _ModuleReader(Cursor(text, filename)).read()


class _ModuleReader:
    """Reads one module: its top-level directives, declarations and functions."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.texts = {text.partition(".")[0] for text in set(cursor.texts)}
        self.target = ""
        self.options: list[str] = []
        self.address_size = 64
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.directives: list[ModuleDirective] = []
        #: Names of the module's variables and functions so far.
        self.names: set[str] = set()

    def read(self) -> Module:
        cursor = self.cursor
        cursor.expect(".version", ".version at the start of a module")
        version = _VERSION.match(cursor.text)
        if version is None or len(version[0]) > 9:
            cursor.fail("a version such as 8.6")
        cursor.at += 1
        if cursor.text != ".target":
            cursor.fail(".target after .version")
        while cursor.text:
            self._item(cursor.text)
        return Module(
            (int(version[1]), int(version[2])),
            self.target,
            tuple(self.functions),
            tuple(self.variables),
            self.address_size,
            tuple(self.options),
            tuple(self.directives),
        )

    def _item(self, text: str) -> None:
        cursor = self.cursor
        if text in _DECLARES:
            self._declaration()
        elif text == ".file":
            self._file()
        elif text == ".section":
            self._section()
        elif text == ".pragma":
            self.directives.append(read_pragma(cursor))
        elif text == "@":
            self._dwarf()
        elif text == ".alias":
            cursor.at += 1
            name = cursor.name("a function's name")
            cursor.expect(",")
            self.directives.append(Alias(name, cursor.name("a function's name")))
            cursor.expect(";")
        elif text == ".target":
            cursor.at += 1
            names = [cursor.name("an architecture such as sm_90a")]
            while cursor.accept(","):
                names.append(cursor.name("a target or an option such as debug"))
            if not self.target:
                self.target = names.pop(0)
            self.options += [name for name in names if name not in (self.target, *self.options)]
        elif text == ".address_size":
            cursor.at += 1
            if cursor.text not in ("32", "64"):
                cursor.fail("32 or 64")
            self.address_size = int(cursor.take())
        else:
            cursor.fail("a declaration, a function or a directive of a module")

    def _declaration(self) -> None:
        """Read a variable or a function, with its linkage and attributes."""
        cursor = self.cursor
        external, linkage = False, ""
        source = cursor.location()
        attributes: tuple[Attribute, ...] = ()
        while cursor.text in _LINKAGE or cursor.text == ".attribute":
            if cursor.text == ".attribute":
                attributes += read_attributes(cursor)
                continue
            keyword = cursor.take()
            external, linkage = (True, linkage) if keyword == ".extern" else (external, keyword[1:])
        text = cursor.text
        if text in (".func", ".entry") and not attributes:
            cursor.at += 1
            function = self._function(text[1:], "extern" if external else linkage)
            self.functions.append(replace(function, source=source))
        elif text in SPACES:
            cursor.at += 1
            self.variables += read_variables(cursor, text[1:], external, linkage, self._declared, attributes)
        else:
            cursor.fail("a state space, .func or .entry")

    def _declared(self, text: str) -> str:
        # A module may declare a name several times and define it once, so no name counts as taken.
        self.names.add(text)
        return text

    def _function(self, kind: str, linkage: str) -> Function:
        cursor = self.cursor
        names = Names(self.texts, self.names)

        def declare(param: Param, text: str) -> Param | None:
            if text == "_":
                return param
            if param.space == "reg":
                register = names.register(text, param.type, param.vector, listed=False)
                return None if register is None else replace(param, name=register.name)
            return None if names.variable(text) is None else param

        attributes = read_attributes(cursor)
        returns = read_params(cursor, declare) if kind == "func" and cursor.text == "(" else ()
        name = self._declared(cursor.name("the function's name"))
        params = read_params(cursor, declare) if cursor.text == "(" else ()
        directives: list[Directive] = []
        pragmas: list[Pragma] = []
        while cursor.text[:1] == "." and cursor.text not in _BEHIND:
            if cursor.text == ".pragma":
                pragmas.append(read_pragma(cursor))
            elif cursor.text == ".attribute":
                attributes += read_attributes(cursor)
            else:
                directives.append(read_directive(cursor))
        function = Function(
            name,
            params,
            tuple(directives),
            kind=kind,
            linkage=linkage,
            returns=returns,
            attributes=attributes,
            pragmas=tuple(pragmas),
        )
        if cursor.accept(";") or (kind == "func" and cursor.text in _BEHIND):
            return replace(function, prototype=True)
        if cursor.text != "{":
            cursor.fail("'{', ';' or a directive of the function")
        body = Body(cursor, names)
        body.read()
        return replace(
            function,
            registers=names.all_registers(),
            variables=tuple(body.variables),
            body=tuple(body.statements),
        )

    # --- debug data ---------------------------------------------------------------------------

    def _file(self) -> None:
        cursor = self.cursor
        cursor.at += 1
        index = integer(cursor, "a file's index")
        name = cursor.string("a quoted file name")
        stamp: list[int] = []
        while cursor.accept(","):
            stamp.append(integer(cursor))
        self.directives.append(File(index, name, tuple(stamp)))

    def _dwarf(self) -> None:
        cursor = self.cursor
        for token in ("@", "@", "DWARF"):
            cursor.expect(token, "a declaration, a function or a directive of a module")
        self.directives.append(Dwarf(cursor.rest_of_line()))

    def _section(self) -> None:
        cursor = self.cursor
        cursor.at += 1
        name = cursor.take()
        if name[0] != "." or len(name) < 2:
            cursor.fail("a section's name such as .debug_info", cursor.at - 1)
        cursor.expect("{")
        items: list[SectionData | SectionLabel] = []
        while not cursor.accept("}"):
            text = cursor.text
            if text in _DATA:
                cursor.at += 1
                values = [self._datum()]
                while cursor.accept(","):
                    values.append(self._datum())
                items.append(SectionData(text[1:], tuple(values)))
            else:
                label = cursor.name("data such as .b8, a label or '}'")
                cursor.expect(":")
                items.append(SectionLabel(label))
        self.directives.append(Section(name[1:], tuple(items)))

    def _datum(self) -> int | Symbol | LabelDifference:
        cursor = self.cursor
        text = cursor.text
        if starts_constant(text):
            return integer(cursor)
        if text[:1] == ".":
            cursor.at += 1
            return Symbol(text, read_offset(cursor))
        name = cursor.name("a number, a label or a section")
        if cursor.text == "-" and not starts_constant(cursor.texts[cursor.at + 1]):
            cursor.at += 1
            return LabelDifference(name, cursor.name("a label"))
        return Symbol(name, read_offset(cursor))
