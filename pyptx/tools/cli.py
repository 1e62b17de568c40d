"""The ``pyptx`` program: finds a command, imports its module, and prints pyptx's errors without traceback.

To add a command, write ``pyptx/tools/NAME.py`` with a click command called ``command``, and add NAME to
:data:`COMMANDS`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from ..core.errors import PyptxError

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS = (
    "build",
    "cache",
    "calibrate",
    "check",
    "compare",
    "diff",
    "doctor",
    "emit",
    "isa",
    "lint",
    "ncu",
    "predict",
    "sim",
    "timeline",
    "transpile",
    "viz",
)


_CLICK = Path(click.__file__).parent


class _Commands(click.Group):
    """A group that imports a command's module when the command is first used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f".{cmd_name}", __package__).command
        assert isinstance(command, click.Command)
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyptx")
def cli() -> None:
    """NVIDIA GPU kernels written in Python, one PTX instruction at a time."""


def main() -> None:
    """Run the command line. An error of pyptx prints its text and ends the program with exit status 1."""
    try:
        cli(prog_name="pyptx")
    except PyptxError as error:
        # A line of click's tells the user nothing.
        located = not Path(error.location.file).is_relative_to(_CLICK)
        click.echo(f"Error: {error.render(located=located)}", err=True)
        raise SystemExit(1) from None
