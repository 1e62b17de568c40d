"""Prints the report of a run, as text or as JSON, and the progress of a long run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click
import numpy as np

from ...core.findings import Verdict
from ...sim import Report
from ...sim.threads.limits import Progress
from ..finding_rows import finding_row, place_row
from .bind import LaunchArray

__all__ = ["array_objects", "progress_line", "report_object", "show_arrays", "show_report"]

_COLORS = {
    Verdict.CLEAN: "green",
    Verdict.REVIEW: "yellow",
    Verdict.INCOMPLETE: "yellow",
    Verdict.ERROR: "red",
}
#: Number of elements of an array that JSON shows.
_FIRST = 16


def show_report(report: Report) -> None:
    """Print the kernel's own output, then verdict and findings, to standard output."""
    if report.printed:
        click.echo(report.printed, nl=not report.printed.endswith("\n"))
    schedule = f"{len(report.runs)} schedules" if report.runs else report.schedule
    click.echo(f"{report.entry} under {schedule}: {_styled(report.verdict)}")
    events = f", {report.events:,} asynchronous steps" if report.events else ""
    click.echo(
        f"{report.steps:,} warp-instructions{events} in {report.seconds:.2f} s ({_rate(report):,} per second)"
    )
    if report.exploration is not None:
        click.echo(str(report.exploration))
        if report.exploration.failing:
            click.echo(f"the first that failed: --schedule {report.exploration.failing}")
    if report.assignments is not None:
        click.echo(str(report.assignments))
    width = max((len(one.schedule) for one in report.runs), default=0)
    for one in report.runs:
        click.echo(f"  {one.schedule:<{width}}  {_styled(one.verdict)}")
    for finding in report.findings:
        first, *rest = str(finding).splitlines()
        click.echo()
        click.secho(first, fg=_COLORS[finding.severity])
        click.echo("\n".join(rest))
    for line in (*report.waiver_lines(), *report.claim_lines()):
        click.echo(line)


def _styled(verdict: Verdict) -> str:
    return click.style(str(verdict), fg=_COLORS[verdict], bold=True)


def show_arrays(buffers: list[LaunchArray]) -> None:
    """Print the contents of the arrays after the run."""
    if buffers:
        click.echo()
    width = max((len(buffer.name) for buffer in buffers), default=0)
    for buffer in buffers:
        _show_buffer(buffer, width)


def _rate(report: Report) -> int:
    return round(report.steps / max(report.seconds, 1e-9))


def _shape(buffer: LaunchArray) -> str:
    return f"{buffer.type}[{','.join(map(str, buffer.array.shape))}]"


def _show_buffer(buffer: LaunchArray, width: int) -> None:
    written = f"  -> {buffer.out}" if buffer.out is not None else ""
    head = f"{buffer.name:<{width}}  {_shape(buffer)}"
    if not buffer.changed:
        click.echo(f"{head}  unchanged{written}")
        return
    click.echo(f"{head}{written}")
    for line in _preview(buffer.array).splitlines():
        click.echo(f"  {line}")


def _preview(array: np.ndarray[Any, Any]) -> str:
    shown = array if array.ndim <= 2 else array.reshape(-1)
    with np.printoptions(precision=6, suppress=False):
        return np.array2string(shown, threshold=16, edgeitems=3, max_line_width=100)


def report_object(report: Report) -> dict[str, Any]:
    """Return a report as values for ``--json``, without arrays; docs/sim.md lists the keys."""
    return {
        "entry": report.entry,
        "schedule": report.schedule,
        "verdict": str(report.verdict),
        "steps": report.steps,
        "events": report.events,
        "seconds": report.seconds,
        "steps_per_second": _rate(report),
        "printed": report.printed,
        "findings": [finding_row(finding) for finding in report.findings],
        "waived": [
            {"reason": waiver.reason, "waiver_line": waiver.line, **finding_row(finding)}
            for finding, waiver in report.waived
        ],
        "holds": report.holds,
        "competing": [
            {"what": each.what, **place_row(each.location), "other": place_row(each.other)}
            for each in report.competing
        ],
        "assumptions": list(report.assumptions),
        "runs": [{"schedule": one.schedule, "verdict": str(one.verdict)} for one in report.runs],
        "exploration": None if report.exploration is None else asdict(report.exploration),
        "assignments": None if report.assignments is None else asdict(report.assignments),
    }


def array_objects(buffers: list[LaunchArray]) -> list[dict[str, Any]]:
    """Return the arrays as values for ``--json``."""
    return [
        {
            "name": buffer.name,
            "type": str(buffer.type),
            "shape": list(buffer.array.shape),
            "changed": buffer.changed,
            "first": [_plain(value) for value in buffer.array.reshape(-1)[:_FIRST]],
            "file": None if buffer.out is None else str(buffer.out),
        }
        for buffer in buffers
    ]


def _plain(value: Any) -> Any:
    """Return a number as a value for JSON; NaN and infinities become strings, since JSON has none."""
    if isinstance(value, (np.integer, np.bool_)):
        return int(value)
    number = float(value)
    return number if np.isfinite(number) else str(number)


def _words(now: Progress) -> str:
    rate = now.steps / max(now.seconds, 1e-9)
    if not now.ctas:
        return f"{now.interleavings:,} interleavings, {now.left:,} to do, {now.steps:,} warp-instructions"
    return f"{now.ctas_done}/{now.ctas} CTAs, {now.steps:,} warp-instructions, {rate:,.0f} per second"


@contextmanager
def progress_line(shown: bool | None) -> Iterator[Callable[[Progress], None] | None]:
    """Yield the function that a launch takes as ``progress``.

    On a terminal the function updates one line, elsewhere it prints lines. ``shown`` None means the default:
    show progress only on a terminal.
    """
    terminal = sys.stderr.isatty()
    if shown is False or (shown is None and not terminal):
        yield None
        return
    if not terminal:
        yield lambda now: click.echo(f"{now.seconds:.0f} s: {_words(now)}", err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2) as bar:
        task = bar.add_task("starting", total=None)

        def update(now: Progress) -> None:
            bar.update(task, description=_words(now), completed=now.ctas_done, total=now.ctas)

        yield update
