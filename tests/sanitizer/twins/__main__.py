"""``python -m tests.sanitizer.twins``: run the twins under several schedules, and say what was found."""

from __future__ import annotations

import time

import click

from .corpus import TWINS
from .not_yet import FALSE_ALARMS, NOT_YET
from .twin import SIDES, Twin, Which


def _row(twin: Twin) -> str:
    """Return what must be found in the wrong kernel, separated by tabs."""
    omitted = "omitted by compilers" if twin.omitted else ""
    return "\t".join((twin.name, twin.severity, " ".join(twin.rules), twin.anchor, omitted, twin.why))


def _judge(twin: Twin, which: Which, schedule: str, show: bool) -> bool:
    """Run one side, print a line about it, and return whether the run is as expected."""
    kind, _, seed = schedule.partition(":")
    started = time.perf_counter()
    outcome = twin.run(which, kind, int(seed or 0))
    spent = time.perf_counter() - started
    complaint = twin.complaint(which, outcome)
    known = twin.name in (NOT_YET if which == "wrong" else FALSE_ALARMS)
    state = "ok" if not complaint else "not yet" if known else "BAD"
    click.echo(f"{twin.name:45} {which:5} {schedule:9} {state:7} {spent:.2f} s  {complaint}")
    if show and complaint:
        click.echo(str(outcome))
    return not complaint


@click.command(help=__doc__)
@click.option("--schedules", default="eager,late,random:0,random:1,random:2", show_default=True)
@click.option("--only", default="", help="Only twins whose name contains this.")
@click.option("--show", is_flag=True, help="Print the reports of runs that are not as expected.")
@click.option("--table", is_flag=True, help="List the twins with what must be found, and run nothing.")
@click.option("--text", is_flag=True, help="Print both texts of each twin, and run nothing.")
def main(schedules: str, only: str, show: bool, table: bool, text: bool) -> None:
    chosen = [twin for name, twin in TWINS.items() if only in name]
    if table or text:
        for twin in chosen:
            click.echo(_row(twin) if table else twin.text("right") + twin.text("wrong"))
        return
    runs = [
        (twin, schedule, which) for twin in chosen for schedule in schedules.split(",") for which in SIDES
    ]
    expected = [_judge(twin, which, schedule, show) for twin, schedule, which in runs]
    click.echo(f"{len(chosen)} twins: {sum(expected)} of {len(runs)} runs are as expected")


if __name__ == "__main__":
    main()
