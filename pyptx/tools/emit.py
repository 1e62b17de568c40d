"""``pyptx emit``: record a kernel of a Python file and print its PTX or its machine code."""

from __future__ import annotations

from pathlib import Path

import click

from .load import load_target
from .resources import show_assembly

__all__ = ["command"]


@click.command()
@click.argument("target", metavar="FILE.py[:NAME]")
@click.argument("words", nargs=-1, metavar="[VALUE | NAME=VALUE]...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write here instead of standard output."
)
@click.option("--annotate", is_flag=True, help="Put the Python lines between the instructions, as comments.")
@click.option("--lines", is_flag=True, help="Add .loc: the Python line that recorded each instruction.")
@click.option("--sass", is_flag=True, help="Print the machine code that ptxas makes instead of the PTX.")
@click.option(
    "--control", is_flag=True, help="With --sass: stall cycles and scoreboard barriers of each instruction."
)
@click.option("--assemble", is_flag=True, help="Also assemble, and print registers, spills and warnings.")
def command(
    target: str,
    words: tuple[str, ...],
    output: Path | None,
    annotate: bool,
    lines: bool,
    sass: bool,
    control: bool,
    assemble: bool,
) -> None:
    """Print the PTX of a kernel or a program.

    NAME is a kernel, a program, or a function that builds one of them. For a kernel, NAME=VALUE gives its
    dims and compile-time constants (M=4096). For a function, VALUE and NAME=VALUE are its arguments:

    \b
        pyptx emit examples/blackwell/gemm_highperf_blackwell.py:build_gemm 8192 8192 8192 stages=4

    With --sass, both --annotate and --lines put Python lines between the machine instructions. --control puts
    in front of each when it is issued, B0-----:R-:W1:-:S02: the scoreboard barriers that it waits for, those
    it holds until its operands are read and its result is written, Y if another warp should go next, and the
    cycles to this warp's next instruction.

    Exit status: 1 if the kernel cannot be recorded or assembled, 2 if the command line is wrong.
    """
    if control and not sass:
        raise click.UsageError("--control belongs to machine code: give --sass as well")
    loaded = load_target(target, words)
    if sass:
        text = loaded.sass(lines=annotate or lines, control=control)
    else:
        text = loaded.ptx(lines=lines, annotate=annotate)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
    if assemble:
        show_assembly(loaded.assemble())
