"""Source lines in PTX text: ``.loc`` before statements, ``.file`` and the names of inlined functions behind.

Owns what the printer adds to a module whose statements know their ``source``, and the removal of what a
text says about lines.  A helper function that recorded instructions is an inlined function to PTX: ``.loc``
names the helper's line, ``inlined_at`` the line that called it (PTX ISA: ``#debugging-directives-loc``).

Watch out: ptxas finds the frame that ``inlined_at`` means by its file and line, in the latest ``.loc`` with
them; so a change of caller repeats the whole chain of calls, outermost first.  And it takes neighbors of one
file number and line for one place, whoever called them; so inlined frames have two numbers for each file. A
change of caller takes the other one.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..core.source import SourceLocation
from .data import Dwarf, File, Loc, Section, SectionData, SectionLabel
from .nodes import Module, Statement

__all__ = ["LineTable", "has_lines", "without_lines"]

#: The first version with ``function_name`` and ``inlined_at``.
_INLINED_SINCE = (7, 2)
_NOT_WORD = re.compile(r"[^A-Za-z0-9_]")


class LineTable:
    """The ``.loc`` of one module's statements, and what they refer to.

    Before version 7.2 PTX knows no inlined functions: then ``.loc`` is the innermost line alone.
    """

    def __init__(self, version: tuple[int, int]) -> None:
        self._inlined = version >= _INLINED_SINCE
        #: Numbers of files, by name and by which of the two numbers of inlined frames it is.
        self._files: dict[tuple[str, bool], int] = {}
        self._other = False
        self._functions: dict[str, str] = {}
        self._previous: SourceLocation | None = None

    def start(self) -> None:
        """A function begins: what was said in another does not hold."""
        self._previous = None

    def before(self, source: SourceLocation | None) -> list[Loc]:
        """The directives that go before a statement from ``source``; none where the last ones still hold."""
        previous = self._previous
        if source is None or source == previous:
            return []
        self._previous = source
        if previous is not None and previous.caller == source.caller:
            return [self._loc(source)]
        if source.caller is not None:
            self._other = not self._other
        chain = source.chain if self._inlined else (source,)
        return [self._loc(frame) for frame in reversed(chain)]

    def _place(self, source: SourceLocation) -> tuple[int, int, int]:
        """File, line and column, which is not known."""
        second = self._inlined and source.caller is not None and self._other
        return self._files.setdefault((source.file, second), len(self._files) + 1), source.line, 0

    def _loc(self, source: SourceLocation) -> Loc:
        place = self._place(source)
        if not self._inlined or source.caller is None:
            return Loc(*place)
        function = self._label(source.function)
        return Loc(*place, function=function, inlined_at=self._place(source.caller))

    def _label(self, function: str) -> str:
        """The label of a function's name in ``.debug_str``."""
        label = self._functions.get(function)
        if label is None:
            stem = label = "$" + _NOT_WORD.sub("_", function)
            taken = set(self._functions.values())
            count = 0
            while label in taken:
                count += 1
                label = f"{stem}_{count}"
            self._functions[function] = label
        return label

    def directives(self) -> list[File | Section]:
        """The files and the names of functions that the directives so far refer to."""
        found: list[File | Section] = [File(index, _quoted(name)) for (name, _), index in self._files.items()]
        if self._functions:
            items: list[SectionData | SectionLabel] = []
            for name, label in self._functions.items():
                items += [SectionLabel(label), SectionData("b8", (*name.encode(), 0))]
            found.append(Section("debug_str", tuple(items)))
        return found


def _quoted(name: str) -> str:
    """``name`` as a string of PTX can hold it: ASCII, and ptxas knows no escapes."""
    return name.encode("ascii", "replace").decode().replace('"', "'")


def _is_debug(directive: object) -> bool:
    if isinstance(directive, Section):
        return directive.name.startswith("debug_")
    return isinstance(directive, (File, Dwarf))


def has_lines(module: Module) -> bool:
    """Whether the module says itself where it comes from, with ``.loc`` or ``.file``."""
    return any(isinstance(d, File) for d in module.directives) or any(
        isinstance(statement, Loc) for function in module.functions for statement in function.body
    )


def without_lines(module: Module) -> Module:
    """The module without ``.loc``, ``.file`` and debug sections: what it says about machine code alone."""

    def kept(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(statement for statement in body if not isinstance(statement, Loc))

    return replace(
        module,
        functions=tuple(replace(function, body=kept(function.body)) for function in module.functions),
        directives=tuple(d for d in module.directives if not _is_debug(d)),
    )
