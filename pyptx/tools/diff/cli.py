"""The command ``pyptx diff A B``: loads both sides, compares them, and prints the report."""

from __future__ import annotations

import functools
import json
import shlex
from pathlib import Path
from typing import Any, NoReturn

import click

from ...core.errors import PyptxError
from ...entry import Kernel
from ..load import load_target
from ..user_output import user_output_to_stderr
from .api import compare
from .inputs import Side, side_of
from .outputs import Tolerance
from .run import RunResult, RunSettings, outcome, parse_arguments, run_both
from .show import print_report

__all__ = ["command"]

#: Exit status if there is nothing to compare: a file cannot be read, or a kernel cannot be recorded.
_FAILED = 2


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--ignore-header", is_flag=True, help="Do not compare PTX version, target and address size.")
@click.option(
    "--ignore-types", is_flag=True, help="Do not compare types that only give a width, such as .u32 of mov."
)
@click.option("--no-sass", is_flag=True, help="Do not run ptxas and nvdisasm for the summary.")
@click.option("--context", default=2, show_default=True, help="Unchanged lines around a difference.")
@click.option("--all", "everything", is_flag=True, help="Show all differences of a function, not only 200.")
@click.option("--width", type=int, help="Columns. Default: the terminal's width, 110 in a pipe.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the report as JSON (docs/diff.md has the schema)."
)
@click.option("--run", "runs", is_flag=True, help="Also run both in the simulator on the same random inputs.")
@click.option("--grid", help="For --run of PTX files: CTAs, such as 4 or 4,2,1.")
@click.option("--block", help="For --run of PTX files: threads of a CTA.")
@click.option("--smem", default=0, help="For --run of PTX files: bytes of dynamic shared memory.")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="TYPE[N] | TYPE=VALUE | NAME=VALUE",
    help="For --run: a parameter of PTX files, f32[1024], s32[16]:0..63 or u32=7; a scalar of a kernel, n=7.",
)
@click.option("--entry", help="For --run of PTX files: the kernel, if there are several.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--schedule", default="eager", show_default=True, help="Schedule of the simulator.")
@click.option(
    "--rtol",
    type=float,
    default=0.0,
    help="For --run: relative tolerance of floating types: |A - B| <= atol + rtol * |B|.",
)
@click.option("--atol", type=float, default=0.0, help="For --run: absolute tolerance, see --rtol.")
def command(
    a: str,
    b: str,
    ignore_header: bool,
    ignore_types: bool,
    no_sass: bool,
    context: int,
    everything: bool,
    width: int | None,
    as_json: bool,
    runs: bool,
    grid: str | None,
    block: str | None,
    smem: int,
    arguments: tuple[str, ...],
    entry: str | None,
    seed: int,
    schedule: str,
    rtol: float,
    atol: float,
) -> None:
    """Compare two kernels by their instructions, not by their spelling.

    A and B are PTX files, or kernels of Python files as for `pyptx emit`. Quote such a kernel and its values
    as one argument:

    \b
        pyptx diff mine.ptx theirs.ptx
        pyptx diff "examples/blackwell/gemm_highperf_blackwell.py:build_gemm 8192 8192 8192 stages=3" old.ptx

    Names of registers, labels and parameters, the order of declarations, comments and .loc are not compared.

    Exit status: 0 equal, 1 different, 2 if a side cannot be read or recorded.
    """
    try:
        first, second = _side(a), _side(b)
        found = compare(first, second, header=not ignore_header, types=not ignore_types, machine=not no_sass)
        values, scalars = parse_arguments(arguments)
        tolerance = Tolerance(rtol, atol)
    except (PyptxError, OSError, UnicodeDecodeError) as error:
        _fail(error)
    settings = RunSettings(
        _extent(grid),
        _extent(block),
        smem,
        entry,
        values,
        scalars,
        seed=seed,
        schedule=schedule,
        tolerance=tolerance,
    )
    ran: RunResult | PyptxError | None = None
    if runs:
        try:
            with user_output_to_stderr():
                ran = run_both(first, second, settings)
        except PyptxError as error:
            ran = error
    if as_json:
        click.echo(json.dumps({**found.to_json(), **_run_json(ran)}, indent=2))
    else:
        print_report(found, context=context, limit=None if everything else 200, width=width)
        for line in outcome(ran) if ran is not None else ():
            click.echo(line)
    if isinstance(ran, PyptxError):
        raise SystemExit(_FAILED)
    if not found.equal or (ran is not None and (ran.mismatches or len(set(ran.verdicts)) > 1)):
        raise SystemExit(1)


def _fail(said: object) -> NoReturn:
    click.echo(f"Error: {said}", err=True)
    raise SystemExit(_FAILED)


def _side(text: str) -> Side:
    """Load a side: a PTX file, or a kernel of a Python file with its values."""
    target, *words = shlex.split(text) or [""]
    if not target:
        raise click.UsageError("A or B is empty: expected a PTX file or FILE.py:NAME")
    if not target.endswith(".py") and ".py:" not in target:
        if words:
            raise click.UsageError(
                f"{target} is PTX text: only kernels of Python files take NAME=VALUE arguments"
            )
        return side_of(Path(target), target)
    try:
        loaded = load_target(target, tuple(words))
    except (click.ClickException, PyptxError):
        raise
    except Exception as error:  # whatever the file's own code raises
        _fail(f"{target} cannot be loaded: {type(error).__name__}: {error}")
    with user_output_to_stderr():
        if isinstance(loaded.what, Kernel):
            return side_of(functools.partial(loaded.what, **loaded.keywords), text)
        return side_of(loaded.what, text)


def _extent(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise click.UsageError(f"{text!r} is not an extent: expected 4, 4,2 or 4,2,1") from None


def _run_json(ran: RunResult | PyptxError | None) -> dict[str, Any]:
    if ran is None:
        return {}
    if isinstance(ran, PyptxError):
        return {"run": {"error": ran.message}}
    return {
        "run": {
            "verdicts": list(ran.verdicts),
            "equal": ran.equal,
            "arrays": ran.arrays,
            "mismatches": [
                {
                    "array": m.name,
                    "elements": m.elements,
                    "of": m.of,
                    "index": list(m.index),
                    "a": m.a,
                    "b": m.b,
                    "largest": m.largest,
                }
                for m in ran.mismatches
            ],
            "notes": list(ran.notes),
            "rtol": ran.tolerance.rtol,
            "atol": ran.tolerance.atol,
        }
    }
