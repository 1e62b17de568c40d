"""``pyptx sim``: a kernel in the simulator, with arguments from the command line or a TOML file.

``arguments`` reads what is passed, ``config`` reads a launch from TOML, ``target`` finds the kernel, ``bind``
makes arrays, numbers and tensor maps for its parameters, ``show`` prints what a run found.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    # The command line alone needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
