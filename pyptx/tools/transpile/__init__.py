"""``pyptx transpile``: converts PTX to a Python program that reads like one written by hand.

``body`` prepares the statements, ``structure`` finds blocks, ``registers`` chooses types, ``arrays`` and
``repeats`` find arrays and loops over repetitions. ``operators``, ``results`` and ``units`` find the Python
operators and the functions that record an instruction. ``operand_writer``, ``expressions`` and ``writer``
write a function, ``module`` writes the file. ``check`` runs the program, and ``pyptx.tools.diff`` compares
the result.
"""

from typing import Any

from .api import Transpiled, transpile

__all__ = ["Transpiled", "transpile"]


def __getattr__(name: str) -> Any:
    # Only the command line needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
