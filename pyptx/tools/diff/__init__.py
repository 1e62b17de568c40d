"""``pyptx diff``: compares two kernels by their instructions, not by their spelling.

``canonical`` removes what is not compared, ``align`` pairs the instructions, ``names`` pairs the registers,
``compare`` and ``modules`` find the differences, and ``show`` reports them.
"""

from typing import Any

from .api import Diff, assert_same_ptx, diff
from .model import KINDS, Difference, FunctionDiff, Place

__all__ = ["KINDS", "Diff", "Difference", "FunctionDiff", "Place", "assert_same_ptx", "diff"]


def __getattr__(name: str) -> Any:
    # Only the command line needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
