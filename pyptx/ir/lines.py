"""Source lines in PTX text: ``.loc`` before statements, ``.file`` and names of inlined functions at the end.

Owns the directives that the printer adds to a module whose statements have a ``source``, and the removal of
such directives.  A helper function that recorded instructions is an inlined function in PTX: ``.loc`` names
the helper's line, ``inlined_at`` the line that called it (PTX ISA: ``#debugging-directives-loc``).

Watch out: ptxas identifies the frame of ``inlined_at`` by its file and line, in the latest ``.loc`` that has
them.  So when the caller changes, the whole chain of calls is repeated, outermost first.  ptxas also merges
neighboring ``.loc`` with the same file number and line, even if their callers differ.  So each file of
inlined frames has two numbers, and a change of caller switches to the other number.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from ..core.source import SourceLocation
from .data import Dwarf, File, Loc, Section, SectionData, SectionLabel
from .nodes import Module, Statement

__all__ = ["LineTable", "has_lines", "without_lines"]

#: The first version with ``function_name`` and ``inlined_at``.
_INLINED_SINCE = (7, 2)
_NOT_WORD = partial(re.compile, r"[^A-Za-z0-9_]")


class LineTable:
    """The ``.loc`` directives of one module's statements, and the files and names that they refer to.

    PTX before version 7.2 has no inlined functions: ``.loc`` then names only the innermost line.
    """

    def __init__(self, version: tuple[int, int]) -> None:
        self._inlined = version >= _INLINED_SINCE
        #: Numbers of files. The key is the name, and True for a file's second number of inlined frames.
        self._files: dict[tuple[str, bool], int] = {}
        self._other = False
        self._functions: dict[str, str] = {}
        self._previous: SourceLocation | None = None

    def start(self) -> None:
        """Begin a function: ``.loc`` directives of the previous function no longer apply."""
        self._previous = None

    def before(self, source: SourceLocation | None) -> list[Loc]:
        """Return the directives to print before a statement from ``source``; none if the last ones apply."""
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
        """Return the numbers of file, line and column for a ``.loc``; the column is unknown, so 0."""
        second = self._inlined and source.caller is not None and self._other
        return self._files.setdefault((source.file, second), len(self._files) + 1), source.line, 0

    def _loc(self, source: SourceLocation) -> Loc:
        place = self._place(source)
        if not self._inlined or source.caller is None:
            return Loc(*place)
        function = self._label(source.function)
        return Loc(*place, function=function, inlined_at=self._place(source.caller))

    def _label(self, function: str) -> str:
        """Return the label of a function's name in ``.debug_str``."""
        label = self._functions.get(function)
        if label is None:
            stem = label = "$" + _NOT_WORD().sub("_", function)
            taken = set(self._functions.values())
            count = 0
            while label in taken:
                count += 1
                label = f"{stem}_{count}"
            self._functions[function] = label
        return label

    def directives(self) -> list[File | Section]:
        """Return the ``.file`` directives and the section of function names for the ``.loc`` so far."""
        found: list[File | Section] = [File(index, _quoted(name)) for (name, _), index in self._files.items()]
        if self._functions:
            items: list[SectionData | SectionLabel] = []
            for name, label in self._functions.items():
                items += [SectionLabel(label), SectionData("b8", (*name.encode(), 0))]
            found.append(Section("debug_str", tuple(items)))
        return found


def _quoted(name: str) -> str:
    """Return ``name`` in a form that a PTX string can hold: ASCII without quotes, as PTX has no escapes."""
    return name.encode("ascii", "replace").decode().replace('"', "'")


def _is_debug(directive: object) -> bool:
    if isinstance(directive, Section):
        return directive.name.startswith("debug_")
    return isinstance(directive, (File, Dwarf))


def has_lines(module: Module) -> bool:
    """True if the module itself has ``.loc`` or ``.file``."""
    return any(isinstance(d, File) for d in module.directives) or any(
        isinstance(statement, Loc) for function in module.functions for statement in function.body
    )


def without_lines(module: Module) -> Module:
    """Return the module without ``.loc``, ``.file`` and debug sections, which do not change machine code."""

    def kept(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(statement for statement in body if not isinstance(statement, Loc))

    return replace(
        module,
        functions=tuple(replace(function, body=kept(function.body)) for function in module.functions),
        directives=tuple(d for d in module.directives if not _is_debug(d)),
    )
