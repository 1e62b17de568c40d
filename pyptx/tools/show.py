"""Prints the tables of the commands: with rich on a terminal, as plain aligned text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

__all__ = ["Section", "show_sections"]

#: A heading and its rows, each a label and a value.
Section = tuple[str, Sequence[tuple[str, str]]]


def show_sections(sections: Sequence[Section]) -> None:
    """Print ``sections`` to standard output, with the values of all sections in one column."""
    width = max((len(label) for _, rows in sections for label, _ in rows), default=0)
    if sys.stdout.isatty():
        _rich(sections, width)
        return
    for number, (title, rows) in enumerate(sections):
        click.echo(f"{chr(10) if number else ''}{title}")
        for label, value in rows:
            first, *more = value.splitlines() or [""]
            click.echo(f"  {label:<{width}}  {first}".rstrip())
            for line in more:
                click.echo(f"  {'':<{width}}  {line}")


def _rich(sections: Sequence[Section], width: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for number, (title, rows) in enumerate(sections):
        console.print(Text(f"{chr(10) if number else ''}{title}", style="bold"))
        table = Table.grid(padding=(0, 2))
        table.add_column(min_width=width + 2, style="cyan")
        table.add_column(overflow="fold")
        for label, value in rows:
            style = {"yes": "green", "no": "red"}.get(value.split(":")[0], "")
            table.add_row(Text(f"  {label}"), Text(value, style=style))
        console.print(table)
