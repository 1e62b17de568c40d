"""``python -m tests.sanitizer.twins``: run the twins under several schedules, and say what was found."""

from __future__ import annotations

import time

import click

from .corpus import TWINS
from .not_yet import FALSE_ALARMS, NOT_YET


@click.command(help=__doc__)
@click.option("--schedules", default="eager,late,random:0,random:1,random:2", show_default=True)
@click.option("--only", default="", help="Only twins whose name contains this.")
@click.option("--show", is_flag=True, help="Print the reports of runs that are not as expected.")
@click.option("--text", is_flag=True, help="Print both texts of each twin, and run nothing.")
def main(schedules: str, only: str, show: bool, text: bool) -> None:
    chosen = [twin for name, twin in TWINS.items() if only in name]
    bad = 0
    for twin in chosen:
        if text:
            click.echo(twin.text("right") + twin.text("wrong"))
            continue
        for schedule in schedules.split(","):
            kind, _, seed = schedule.partition(":")
            for which in ("right", "wrong"):
                started = time.perf_counter()
                outcome = twin.run(which, kind, int(seed or 0))
                spent = time.perf_counter() - started
                complaint = twin.complaint(which, outcome)
                if which == "right" and complaint:
                    bad += 1
                known = twin.name in (NOT_YET if which == "wrong" else FALSE_ALARMS)
                state = "ok" if not complaint else "not yet" if known else "BAD"
                click.echo(f"{twin.name:45} {which:5} {schedule:9} {state:7} {spent:.2f} s  {complaint}")
                if show and complaint:
                    click.echo(str(outcome))
    click.echo(f"{len(chosen)} twins, {bad} runs of right kernels are not clean")


if __name__ == "__main__":
    main()
