"""``python -m tests.libraries LIBRARY --source PATH``: kernels of other projects in the simulator, with the sanitizer.

A library is a module of this folder; its docstring says what the source is and what must be installed.
"""

from __future__ import annotations

import importlib
import json
import time
import traceback
from pathlib import Path

import click

from pyptx.ir import parse_module
from tests.libraries.launches import Kernel, Launch, WrongResult
from tests.sanitizer.counting import Counted, counted, tables

_HERE = Path(__file__).parent
LIBRARIES = sorted(p.stem for p in _HERE.glob("[!_]*.py") if p.stem not in ("launches", "mutate"))


def _lines(launches: list[Launch], library: str) -> list[Counted]:
    """One row for each text, with the findings of all its launches."""
    texts: dict[str, list[Launch]] = {}
    for launch in launches:
        texts.setdefault(launch.text, []).append(launch)
    return [
        counted(library, parse_module(text), (f for one in same for f in one.report.findings))
        for text, same in texts.items()
    ]


def _run(kernel: Kernel, schedule: str, seed: int) -> tuple[list[Launch], str]:
    """The launches of a kernel, and how it ended: ``right``, ``WRONG`` or the exception."""
    try:
        return kernel.run(schedule, seed), "right"
    except AssertionError as error:
        launches = error.launches if isinstance(error, WrongResult) else []
        return launches, f"WRONG: {str(error)[:300]}"
    except Exception:  # the host code of a library may raise anything; the next kernel runs all the same
        return [], f"FAILED: {traceback.format_exc(limit=-3)}"


@click.command(help=__doc__)
@click.argument("library", type=click.Choice(LIBRARIES))
@click.option(
    "--source", type=click.Path(path_type=Path, exists=True), help="Checkout or folder of the library."
)
@click.option("-k", "substring", default="", help="Only kernels whose name contains this.")
@click.option("--schedule", default="eager", show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--reports", type=click.Path(path_type=Path), help="File for all findings, one JSON object a line."
)
def main(
    library: str, source: Path | None, substring: str, schedule: str, seed: int, reports: Path | None
) -> None:
    rows: list[Counted] = []
    bad = 0
    for kernel in importlib.import_module(f"tests.libraries.{library}").kernels(source):
        if substring not in kernel.name:
            continue
        begin = time.perf_counter()
        launches, end = _run(kernel, schedule, seed)
        findings = [f for launch in launches for f in launch.report.findings]
        found = sorted({f"{f.severity}:{f.rule.name}" for f in findings})
        bad += end != "right"
        seconds = time.perf_counter() - begin
        click.echo(
            f"{seconds:6.1f} s  {kernel.name}: {end}; {len(launches)} launches; {', '.join(found) or 'clean'}"
        )
        if reports is not None:
            with reports.open("a", encoding="utf-8") as file:
                for finding in findings:
                    said = {"kernel": kernel.name, "severity": str(finding.severity), "finding": str(finding)}
                    file.write(json.dumps(said) + "\n")
        rows += _lines(launches, library)
    for line in tables(rows) if rows else ():
        click.echo(line)
    click.echo(f"\n{bad} kernels did not end right")


if __name__ == "__main__":
    main()
