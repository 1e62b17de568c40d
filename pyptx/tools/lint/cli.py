"""The command ``pyptx lint FILE``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ...core.errors import ParseError, SpecError
from ...core.waivers import check_waiver
from ..finding_rows import finding_row, parse_waiver
from ..load import load_target
from ..sim.cli import parse_extent, run_launches
from ..sim.config import LaunchConfig, read_config
from ..user_output import user_output_to_stderr
from .api import LintReport, examine
from .subject import Subject, ended, subject_of, with_launch

__all__ = ["command"]

_VALUES = re.compile(r"(?P<name>\w+)=(?P<least>-?\d+)\.\.(?P<most>-?\d+)")
_FINDINGS = 1


@click.command()
@click.argument("file", metavar="FILE.ptx|FILE.py[:NAME]")
@click.argument("words", nargs=-1, metavar="[VALUE | NAME=VALUE]...")
@click.option("--target", help="Assemble for this architecture, such as sm_100a. Default: that of the text.")
@click.option("--ptxas/--no-ptxas", default=True, help="Report what ptxas says (default), or do not run it.")
@click.option("--grid", metavar="X[,Y[,Z]]", help="CTAs of the grid, for PTX text.")
@click.option("--block", metavar="X[,Y[,Z]]", help="Threads of a CTA, for PTX text without .reqntid.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=LEAST..MOST",
    help="Values of a parameter. May be repeated.",
)
@click.option(
    "--run",
    "runs",
    is_flag=True,
    help="Run the kernel first, with random inputs, and report what no thread ran.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Run the launches of this TOML file first (see pyptx sim), and report what no thread ran.",
)
@click.option(
    "--waive",
    "waivers",
    multiple=True,
    metavar="RULE@FILE:LINE=REASON",
    help="Accept the findings of a rule at a line; the report counts them. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/lint.md has its keys).")
def command(
    file: str,
    words: tuple[str, ...],
    target: str | None,
    ptxas: bool,
    grid: str | None,
    block: str | None,
    params: tuple[str, ...],
    runs: bool,
    config: Path | None,
    waivers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Look for what no run shows: offsets that can wrap, register sums, unreached code, spills, lost speed.

    FILE.py:NAME, VALUE and NAME=VALUE are those of `pyptx emit`. A kernel of a Python file has its own launch
    and array sizes. PTX text has none: give --grid, --block and --param to let lint find offsets that wrap.

    Exit status: 0 without findings, 1 with findings, 2 if the command line is wrong or FILE cannot be read.
    """
    try:
        accepted = [check_waiver(parse_waiver(text)) for text in waivers]
        subject = with_launch(
            _subject(file, words),
            None if grid is None else parse_extent("grid", grid),
            None if block is None else parse_extent("block", block),
            dict(map(_values, params)),
        )
        if runs or config is not None:
            launches = LaunchConfig() if config is None else read_config(config)
            accepted += launches.settings.get("waivers", [])
            subject = _run(subject, file, words, launches)
        report = examine(subject, ptxas=ptxas, target=target, waivers=accepted)
    except ParseError as error:
        raise click.UsageError(f"{error.location}: {error.message}") from None
    except SpecError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise click.UsageError(f"{error.message}{hint}") from None
    click.echo(json.dumps(_object(file, report), indent=2) if as_json else str(report))
    if report.findings:
        raise SystemExit(_FINDINGS)


def _subject(file: str, words: tuple[str, ...]) -> Subject:
    if Path(file).suffix == ".py" or ".py:" in file:
        loaded = load_target(file, words)
        with user_output_to_stderr():
            return subject_of(loaded.what, (), loaded.keywords)
    if words:
        raise click.UsageError(f"{file} is PTX text: only kernels of Python files take NAME=VALUE arguments")
    try:
        return replace(subject_of(Path(file), (), {}), name=file)
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {file}: {error}") from None


def _run(subject: Subject, file: str, words: tuple[str, ...], launches: LaunchConfig) -> Subject:
    """Return the subject after these launches; a kernel of a Python file needs no more than its own."""
    launches.file, launches.words = file, words
    modules: dict[tuple[str, tuple[str, ...]], Any] = {}
    _, reports = run_launches(launches, False, False, True, modules)
    return ended(subject, modules[file, words], reports)


def _values(text: str) -> tuple[str, tuple[int, int]]:
    found = _VALUES.fullmatch(text)
    if found is None:
        raise click.UsageError(f"--param {text}: expected NAME=LEAST..MOST, such as n=1..65536")
    return found["name"], (int(found["least"]), int(found["most"]))


def _object(file: str, report: LintReport) -> dict[str, Any]:
    return {
        "file": file,
        "name": report.name,
        "verdict": str(report.verdict),
        "findings": [finding_row(finding) for finding in report.findings],
        "waived": [
            {"reason": waiver.reason, "waiver_line": waiver.line, **finding_row(finding)}
            for finding, waiver in report.waived
        ],
        "skipped": report.skipped,
    }
