"""Load an example as a module. The examples are programs, not a package, so ``import`` cannot find them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from pyptx.tools.load import load_module

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load_example(path: str) -> ModuleType:
    """Import the file ``path``, relative to examples/, and return it as a module."""
    return load_module(EXAMPLES / path)
