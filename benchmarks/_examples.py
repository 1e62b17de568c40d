"""Loads an example as a module: examples are programs, not a package."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from pyptx.tools.load import load_module

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load_example(path: str) -> ModuleType:
    """The example at ``path`` below examples/, imported."""
    return load_module(EXAMPLES / path)
