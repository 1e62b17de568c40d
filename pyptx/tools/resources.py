"""What ptxas says of an assembled module, as commands print it."""

from __future__ import annotations

import click

from ..toolchain import Assembly

__all__ = ["show_assembly"]


def show_assembly(assembly: Assembly) -> None:
    """Print registers, spills and shared memory of each function, then warnings, to standard error."""
    for resources in assembly.resources:
        click.echo(
            f"{resources.function}: {resources.registers} registers, {resources.spills} bytes spilled, "
            f"{resources.shared} bytes static shared memory, {resources.barriers} barriers",
            err=True,
        )
    for message in (*assembly.warnings, *assembly.notes):
        click.echo(str(message), err=True)
