"""``python -m tests.sanitizer.claims``: is what runs claim for every schedule true, and do near misses claim nothing?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import count

import click

from .near_misses import NEAR_MISSES
from .truth import claims, first_untrue, first_untrue_assignment

#: Schedules that one task runs: a kernel's schedules are spread over the processes.
_SCHEDULES = 50
#: Tasks for each process that wait at most.
_WAITING = 4

_JOBS = click.option(
    "--jobs", default=os.cpu_count() or 1, show_default="number of cores", help="Number of processes."
)


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command("true", help="Run kernels that claim every schedule under many schedules that preempt.")
@click.option("--kernels", "wanted", default=200, show_default=True, help="Number of kernels.")
@click.option("--seeds", default=1000, show_default=True, help="Number of schedules for each.")
@click.option("--first", "--seed", default=0, show_default=True, help="Seed of the first kernel.")
@_JOBS
def true(wanted: int, seeds: int, first: int, jobs: int) -> None:
    with _processes(jobs) as pool:
        progress = _Progress("runs", wanted * seeds)
        chosen = _claiming(pool, wanted, first, jobs)
        click.echo(f"{wanted} kernels claim, of seeds {first} to {chosen[-1] if chosen else first}")
        tasks = {
            pool.submit(first_untrue, seed, range(begin, min(begin + _SCHEDULES, seeds))): (seed, begin)
            for seed in chosen
            for begin in range(0, seeds, _SCHEDULES)
        }
        false: dict[int, str] = {}
        for task in as_completed(tasks):
            seed, begin = tasks[task]
            if task.result() and seed not in false:
                false[seed] = task.result()
                click.echo(f"FALSE: {false[seed]}")
            progress.add(min(_SCHEDULES, seeds - begin), len(false))
    click.echo(f"{wanted} kernels under {seeds} schedules each: {len(false)} false claims")
    raise SystemExit(bool(false))


@main.command("assignments", help="Run kernels with launch control with random assignments.")
@click.option("--kernels", "wanted", default=20, show_default=True, help="Number of kernels.")
@click.option("--seeds", default=100, show_default=True, help="Number of schedules for each.")
@_JOBS
def assignments(wanted: int, seeds: int, jobs: int) -> None:
    with _processes(jobs) as pool:
        tasks = [pool.submit(first_untrue_assignment, seed, range(seeds)) for seed in range(wanted)]
        progress, false = _Progress("kernels", wanted), 0
        for task in as_completed(tasks):
            if task.result():
                false += 1
                click.echo(f"FALSE: {task.result()}")
            progress.add(1, false)
    click.echo(f"{wanted} kernels under {seeds} schedules each: {false} false claims")
    raise SystemExit(bool(false))


@main.command("near-misses", help="Run kernels that must not claim every schedule.")
@click.option("--schedules", default="eager,late,random", show_default=True)
@click.option("--seed", default=0, show_default=True, help="Seed of the schedule random.")
@_JOBS
def near_misses(schedules: str, seed: int, jobs: int) -> None:
    with _processes(jobs) as pool:
        tasks = [
            pool.submit(claimed, name, schedule, seed)
            for name in NEAR_MISSES
            for schedule in schedules.split(",")
        ]
        progress, false = _Progress("runs", len(tasks)), 0
        for task in as_completed(tasks):
            if task.result():
                false += 1
                click.echo(f"FALSE: {task.result()}")
            progress.add(1, false)
    click.echo(f"{len(NEAR_MISSES)} near misses: {false} false claims")
    raise SystemExit(bool(false))


def claimed(name: str, schedule: str, seed: int) -> str:
    """Run one near miss; return its report if it claims every schedule, or ""."""
    report = NEAR_MISSES[name].run(schedule=schedule, seed=seed)
    return "" if report.holds == "this schedule" else f"{name} under {schedule}: {report}"


def _claiming(pool: Executor, wanted: int, first: int, jobs: int) -> list[int]:
    """Return the first ``wanted`` seeds whose kernels claim every schedule."""
    chosen: list[int] = []
    waiting: list[tuple[int, Future[bool]]] = []
    for seed in count(first):
        waiting.append((seed, pool.submit(claims, seed)))
        if len(waiting) < _WAITING * jobs:
            continue
        oldest, task = waiting.pop(0)
        if task.result():
            chosen.append(oldest)
        if len(chosen) == wanted:
            break
    for _, task in waiting:
        task.cancel()
    return chosen


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(jobs)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


class _Progress:
    """Prints how far a command is, about every ten seconds."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._started = self._told = time.perf_counter()

    def add(self, done: int, false: int) -> None:
        """Count tasks that are done."""
        self._done += done
        now = time.perf_counter()
        if now - self._told >= 10:
            self._told = now
            spent = now - self._started
            click.echo(
                f"{self._done} of {self._total} {self._what}, {false} false claims, {spent:.0f} s, "
                f"about {spent / self._done * (self._total - self._done):.0f} s left"
            )


if __name__ == "__main__":
    main()
