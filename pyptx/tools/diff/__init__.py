"""``pyptx diff``: two kernels compared by their instructions, not by their spelling.

``canonical`` says what counts, ``align`` which instruction is which, ``names`` which register is which,
``compare`` and ``modules`` what differs, ``show`` how it is reported.
"""

from typing import Any

from .api import Diff, assert_same_ptx, diff
from .model import KINDS, Difference, FunctionDiff, Place

__all__ = ["KINDS", "Diff", "Difference", "FunctionDiff", "Place", "assert_same_ptx", "diff"]


def __getattr__(name: str) -> Any:
    # The command line alone needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
