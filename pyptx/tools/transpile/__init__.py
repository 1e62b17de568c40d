"""``pyptx transpile``: PTX to a Python program that reads like one written by hand.

``body`` makes statements ready, ``structure`` finds blocks, ``registers`` chooses types, ``arrays`` and
``repeats`` find arrays and loops over repetitions, ``operators`` and ``units`` know what Python's operators
and the units' functions record; ``operand_writer``, ``expressions`` and ``writer`` write a function,
``module`` the file; ``check`` runs it, and ``pyptx.tools.diff`` compares.
"""

from typing import Any

from .api import Transpiled, transpile

__all__ = ["Transpiled", "transpile"]


def __getattr__(name: str) -> Any:
    # The command line alone needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
