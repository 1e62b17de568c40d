"""The command ``pyptx ncu``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .program import SECTIONS, profile

__all__ = ["command"]


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--kernel", metavar="REGEX", help="Only kernels whose name REGEX matches.")
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help=f"A section of ncu; may be given several times. Default: {', '.join(SECTIONS)}.",
)
@click.option(
    "--launches", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many launches."
)
@click.option("--keep", type=click.Path(dir_okay=False, path_type=Path), help="Where ncu's file shall stay.")
@click.option(
    "--unlocked", is_flag=True, help="Leave the clocks alone; ncu otherwise sets them to the base clock."
)
def command(
    file: Path,
    arguments: tuple[str, ...],
    kernel: str | None,
    sections: tuple[str, ...],
    launches: int,
    keep: Path | None,
    unlocked: bool,
) -> None:
    """Run a Python FILE with its ARGUMENTS under ncu, and show each kernel's figures and Python lines.

    Options of this command stand before FILE.
    """
    found = profile(
        [sys.executable, str(file), *arguments],
        kernel_regex=kernel,
        sections=sections or SECTIONS,
        launches=launches,
        options=("--clock-control", "none") if unlocked else (),
        keep=keep,
    )
    click.echo(str(found))
