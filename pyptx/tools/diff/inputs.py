"""The two sides: whatever was given, as a module, and where its statements stand."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...dsl import Program
from ...entry import Kernel
from ...ir import Function, Module, Param, Statement, Variable, parse_module, print_module
from .model import Place

__all__ = ["Side", "side_of"]


@dataclass(frozen=True)
class Side:
    """A module to compare.

    Attributes:
        name: in words, for reports.
        module: its IR.
        text: the PTX text that it was parsed from; None for a recorded one.
        kernel: the kernel that was recorded, with ``keywords``, if one was.
    """

    name: str
    module: Module
    text: str | None = None
    kernel: Kernel | None = None
    keywords: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def ptx(self) -> str:
        """The text: as given, or printed."""
        return self.text if self.text is not None else print_module(self.module).text

    @cached_property
    def _lines(self) -> dict[int, int]:
        """Lines of the printed text by statement; statements of a parsed text have their own."""
        if self.text is not None:
            return {}
        return {id(statement): line for line, statement in print_module(self.module).lines.items()}

    def place(self, thing: Statement | Function | Param | Variable, index: int | None = None) -> Place:
        """Where ``thing`` stands."""
        source = thing.source
        text = f".{thing.kind} {thing.name}" if isinstance(thing, Function) else _text(thing)
        if self.text is not None:
            return Place(text, source.line if source is not None else None, None, index)
        # A module that was parsed has lines of PTX as its sources: they are not the ones printed here.
        recorded = source is not None and not source.file.endswith(".ptx") and bool(source.text)
        return Place(text, self._lines.get(id(thing)), source if recorded else None, index)


def _text(thing: Any) -> str:
    return " ".join(str(getattr(thing, "text", thing)).split())


def side_of(given: Any, name: str) -> Side:
    """``given`` as a side: PTX text, a path to it, a module, or what holds one.

    ``name`` is what reports call it.  A kernel is recorded with its constants' defaults; others are bound
    with ``functools.partial``.

    Raises:
        ParseError: text that is not PTX.
        OSError: a path that cannot be read.
        PyptxError: what recording a kernel raises.
        TypeError: none of these.
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
        "(functools.partial binds its constants), a recording, or what kernel.specialize() gives"
    )
