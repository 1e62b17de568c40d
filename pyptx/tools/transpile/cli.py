"""The command ``pyptx transpile``: writes a file of PTX as a Python program."""

from __future__ import annotations

from pathlib import Path

import click

from .api import transpiled

__all__ = ["command"]


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.ptx")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write here instead of standard output."
)
@click.option(
    "--entry",
    metavar="NAME",
    help="Write only this kernel, with the functions and variables that it reaches.",
)
@click.option("--lines", is_flag=True, help="Add comments with the source lines of .loc.")
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Run the program and compare the recorded module with the file.",
)
def command(file: Path, output: Path | None, entry: str | None, lines: bool, check: bool) -> None:
    """Write PTX as a Python program that records the same instructions again.

    The program needs only pyptx: python OUT.py prints the PTX, and other files can import `program` from it.
    """
    found = transpiled(file, entry=entry, lines=lines, check=check)
    if output is None:
        click.echo(found.text, nl=False)
    else:
        output.write_text(found.text, encoding="utf-8")
    count = sum(1 for function in found.module.functions for _ in function.instructions())
    said = "recorded again, the same" if found.checked else "not checked"
    click.echo(f"{file}: {count} instructions, {said}", err=True)
    if found.flat:
        click.echo(f"written with labels and branches only: {', '.join(found.flat)}", err=True)
