"""Runs a transpiled program and returns the module that it records, for a comparison with the PTX."""

from __future__ import annotations

import linecache
from typing import Any

from ...ir import Module

__all__ = ["run"]


def run(text: str, filename: str) -> Module:
    """Execute a program and return the module that it records.

    Raises:
        PyptxError: pyptx refuses a line of the program; the error's location is that line.
    """
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"__name__": "transpiled"}
    exec(compile(text, filename, "exec", dont_inherit=True), scope)
    module: Module = scope["program"].module(check=False)
    return module
