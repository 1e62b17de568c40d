"""Loads Python files of a library without what they run when they are imported: demonstrations and benchmarks."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["load"]

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


@cache
def load(path: Path, variant: str = "") -> ModuleType:
    """Return a module with the definitions of a file; ``variant`` tells apart modules of one file.

    Function calls, loops and assertions of the module's own level are left out, and so are assignments that
    call a function of the file with arguments. An assignment or a condition that raises an exception has no
    effect.
    """
    name = f"{path.stem}{variant}".replace("-", "_").replace(".", "_")
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    with _imports_from(path.parent):
        for statement in _kept(tree.body, functions):
            code = compile(ast.Module([statement], []), str(path), "exec")
            try:
                exec(code, vars(module))
            except Exception:
                if isinstance(statement, _DEFINITIONS):
                    raise
    return module


def _kept(body: list[ast.stmt], functions: set[str]) -> list[ast.stmt]:
    """Return the statements of a body that define something, also those inside of conditions."""
    kept: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.If):
            statement.body = _kept(statement.body, functions) or [ast.Pass(lineno=1, col_offset=0)]
            statement.orelse = _kept(statement.orelse, functions)
            kept.append(statement)
        elif isinstance(statement, (*_DEFINITIONS, ast.Try)) or (
            isinstance(statement, (ast.Assign, ast.AnnAssign)) and not _runs(statement, functions)
        ):
            kept.append(statement)
    return kept


def _runs(statement: ast.stmt, functions: set[str]) -> bool:
    """True if the value of an assignment is a call of a function of the file with arguments."""
    value = getattr(statement, "value", None)
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in functions
        and bool(value.args or value.keywords)
    )


@contextmanager
def _imports_from(folder: Path) -> Iterator[None]:
    """Let files of a folder import each other."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
