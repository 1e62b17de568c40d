"""Running a program for the module that it records, which :mod:`pyptx.tools.diff` then compares."""

from __future__ import annotations

import linecache
from typing import Any

from ...ir import Module

__all__ = ["run"]


def run(text: str, filename: str) -> Module:
    """Execute a program and give the module that it records.

    Raises:
        PyptxError: what the program does wrong, at its line.
    """
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"__name__": "transpiled"}
    exec(compile(text, filename, "exec", dont_inherit=True), scope)
    module: Module = scope["program"].module(check=False)
    return module
