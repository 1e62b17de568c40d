"""``pyptx sim``: runs a kernel in the simulator, with arguments from the command line or a TOML file.

``arguments`` parses the arguments, ``config`` reads a launch from TOML, ``target`` finds the kernel, ``bind``
makes arrays, numbers and tensor maps for its parameters, and ``show`` prints the report of a run.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    # Only the command line needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
