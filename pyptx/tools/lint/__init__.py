"""``pyptx lint``: what a look at the code shows: wrapping offsets, register sums, unreached code, spills.

``subject`` loads what is to be examined, ``assumptions`` says what is known about a launch; ``paths``,
``offsets``, ``registers`` and ``machine_code`` have the rules, and ``api`` makes the report.
"""

from typing import Any

from .api import LintReport, lint

__all__ = ["LintReport", "lint"]


def __getattr__(name: str) -> Any:
    # Only the command line needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
