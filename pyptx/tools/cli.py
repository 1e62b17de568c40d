"""The ``pyptx`` program: finds a command, loads its module, reports pyptx's own errors in one piece.

To add a command, write ``pyptx/tools/NAME.py`` with a click command called ``command``, and add NAME to
:data:`COMMANDS`.
"""

from __future__ import annotations

import importlib

import click

from ..core.errors import PyptxError

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS = ("check", "diff", "doctor", "emit", "isa", "sim", "transpile")


class _Commands(click.Group):
    """A group whose commands are imported when first asked for."""

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
    """Run the command line; exit status 1 and the error's text for an error of pyptx."""
    try:
        cli(prog_name="pyptx")
    except PyptxError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
