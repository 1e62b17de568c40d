"""The two sides of a comparison: converts each input to a module, and finds the PTX lines of statements."""

from __future__ import annotations

import functools
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core.records import dataclass
from ...dsl import Program
from ...entry import Kernel
from ...ir import Function, Module, Param, Statement, Variable, parse_module, print_module
from .model import Place

__all__ = ["Side", "side_of"]


@dataclass(frozen=True)
class Side:
    """A module to compare.

    Attributes:
        name: name of the side in reports.
        module: the IR.
        text: the PTX text that the module was parsed from; None for a recorded module.
        kernel: the kernel that was recorded with ``keywords``, or None.
    """

    name: str
    module: Module
    text: str | None = None
    kernel: Kernel | None = None
    keywords: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def ptx(self) -> str:
        """Return the PTX text: the text that the caller gave, or the printed module."""
        return self.text if self.text is not None else print_module(self.module).text

    @cached_property
    def _lines(self) -> dict[int, int]:
        """Line of each statement in the printed text; parsed statements have their own lines."""
        if self.text is not None:
            return {}
        return {id(statement): line for line, statement in print_module(self.module).lines.items()}

    def place(self, thing: Statement | Function | Param | Variable, index: int | None = None) -> Place:
        """Return the :class:`Place` of a statement or declaration of this side, for reports."""
        source = thing.source
        text = f".{thing.kind} {thing.name}" if isinstance(thing, Function) else _text(thing)
        if self.text is not None:
            return Place(text, source.line if source is not None else None, None, index)
        # The source locations of a parsed module are lines of the PTX text, not of Python code.
        recorded = source is not None and not source.file.endswith(".ptx") and bool(source.text)
        return Place(text, self._lines.get(id(thing)), source if recorded else None, index)


def _text(thing: Any) -> str:
    return " ".join(str(getattr(thing, "text", thing)).split())


def side_of(given: Any, name: str) -> Side:
    """Make a side of ``given``: PTX text, a path to PTX text, a module, or an object that has a module.

    ``name`` is the side's name in reports.  A kernel is recorded with the defaults of its constants; bind
    other values with ``functools.partial``.

    Raises:
        ParseError: the text is not PTX.
        OSError: the path cannot be read.
        PyptxError: recording the kernel raised it.
        TypeError: ``given`` has another type.
    """
    if isinstance(given, Side):
        return given
    if isinstance(given, Path):
        return Side(name, parse_module(text := given.read_text(), str(given)), text)
    if isinstance(given, str):
        return Side(name, parse_module(given, name), given)
    if isinstance(given, Module):
        return Side(name, given)
    keywords: dict[str, Any] = {}
    if isinstance(given, functools.partial) and isinstance(given.func, Kernel) and not given.args:
        given, keywords = given.func, given.keywords
    if isinstance(given, Kernel):
        return Side(name, given.module(**keywords), None, given, keywords)
    if isinstance(given, Program):
        return Side(name, given.module())
    module = getattr(given, "module", None)
    if isinstance(module, Module):
        return Side(name, module)
    raise TypeError(
        f"{name} is a {type(given).__name__}: expected PTX text, a path, an ir.Module, a Program, a kernel "
        "(functools.partial binds its constants), a recording, or the result of kernel.specialize()"
    )
