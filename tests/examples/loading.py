"""Examples as modules: they are programs, not a package."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType

from pyptx.tools.load import load_module

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@cache
def load_example(path: str) -> ModuleType:
    return load_module(EXAMPLES / path)
