"""``python -m tests.sanitizer.claims``: is what runs claim for every schedule true, and do near misses claim nothing?"""

from __future__ import annotations

import time
from itertools import islice

import click

from .near_misses import NEAR_MISSES
from .truth import kernels, untrue


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command("true", help="Run kernels that claim every schedule under many schedules that preempt.")
@click.option("--kernels", "wanted", default=200, show_default=True, help="Number of kernels.")
@click.option("--seeds", default=1000, show_default=True, help="Number of schedules for each.")
@click.option("--first", default=0, show_default=True, help="Seed of the first kernel.")
def true(wanted: int, seeds: int, first: int) -> None:
    started, false = time.perf_counter(), 0
    for number, (kernel, run) in enumerate(islice(kernels(first), wanted), 1):
        for seed in range(seeds):
            found = untrue(kernel, run, seed)
            if found:
                false += 1
                click.echo(f"FALSE: {kernel.name}, schedule {seed}: {found}")
                break
        if number % 10 == 0:
            click.echo(f"{number} kernels, {false} false claims, {time.perf_counter() - started:.0f} s")
    click.echo(f"{wanted} kernels under {seeds} schedules each: {false} false claims")
    raise SystemExit(bool(false))


@main.command("near-misses", help="Run kernels that must not claim every schedule.")
@click.option("--schedules", default="eager,late,random", show_default=True)
def near_misses(schedules: str) -> None:
    false = 0
    for name, one in NEAR_MISSES.items():
        for schedule in schedules.split(","):
            report = one.run(schedule=schedule)
            if report.holds != "this schedule":
                false += 1
                click.echo(f"FALSE: {name} under {schedule}: {report}")
    click.echo(f"{len(NEAR_MISSES)} near misses: {false} false claims")
    raise SystemExit(bool(false))


if __name__ == "__main__":
    main()
