"""``pyptx ncu`` and ``pyptx.ncu_run``: Nsight Compute's figures for each kernel, with the Python lines.

``program`` finds ncu and runs it, ``report`` reads what it prints, ``call`` is the process that calls one
function under ncu, and ``cli`` is the command.
"""

from typing import Any

from .program import ncu_run
from .report import HotLine, NcuReport, ProfiledKernel

__all__ = ["HotLine", "NcuReport", "ProfiledKernel", "ncu_run"]


def __getattr__(name: str) -> Any:
    # Only the command line needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
