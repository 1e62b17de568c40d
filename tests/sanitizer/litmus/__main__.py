"""``python -m tests.sanitizer.litmus``: what PTX's memory model allows, and what a GPU does."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from .compare import compare
from .exploring import explored, race_free, random_test
from .families import FAMILIES, members
from .kernels import kernel_of
from .model import allowed, forbidden, racy
from .program import Litmus
from .running import Gpu


@click.group(help=__doc__)
def main() -> None:
    pass


def _chosen(families: Sequence[str], at_most: int, match: str) -> list[Litmus]:
    """The tests of the families whose names contain ``match``, of each family at most so many, evenly spaced."""
    chosen = []
    for family in families or FAMILIES:
        tests = [test for test in members(family) if match in test.name]
        step = max(1, -(-len(tests) // at_most)) if at_most else 1
        chosen += tests[::step]
    return chosen


def _spelled(outcome: Sequence[int]) -> str:
    return ",".join(map(str, outcome))


_families = click.option("--family", "families", multiple=True, type=click.Choice(FAMILIES))
_match = click.option("--match", default="", help="Only tests whose names contain this.")


@main.command("list")
@_families
@_match
def names(families: tuple[str, ...], match: str) -> None:
    """The names of the tests, and how many each family has."""
    tests = _chosen(families, 0, match)
    for test in tests:
        click.echo(test.name)
    click.echo(f"{len(tests)} tests", err=True)


@main.command()
@_match
@click.option("--text", is_flag=True, help="Also print the kernel.")
def model(match: str, text: bool) -> None:
    """What the model allows and forbids of each test whose name contains ``--match``."""
    for test in _chosen((), 0, match):
        click.echo(f"{test.name}{'  (has a data race)' if racy(test) else ''}")
        click.echo(f"  {', '.join(test.outcome_names)}")
        click.echo(f"  allowed:   {' '.join(map(_spelled, sorted(allowed(test))))}")
        click.echo(f"  forbidden: {' '.join(map(_spelled, sorted(forbidden(test))))}")
        if text:
            click.echo(kernel_of(test))


@main.command()
@_families
@_match
@click.option("--at-most", default=150, show_default=True, help="Tests of each family; 0: all.")
@click.option("--instances", default=1_000_000, show_default=True, help="Instances of each test.")
@click.option("--seconds", default=0.0, help="Stop after so many seconds; 0: never.")
@click.option("--seed", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="A file that gets a JSON line for each test.")
def run(
    families: tuple[str, ...],
    match: str,
    at_most: int,
    instances: int,
    seconds: float,
    seed: int,
    output: Path | None,
) -> None:
    """Run tests on the first GPU and count the outcomes; the status is 1 if a forbidden one was seen."""
    from pyptx.runtime.driver import device_context

    tests, started, violations, done = _chosen(families, at_most, match), time.perf_counter(), 0, 0
    seen_of: dict[str, Counter[str]] = {}
    with device_context(0):
        gpu = Gpu()
        for number, test in enumerate(tests):
            if seconds and time.perf_counter() - started > seconds:
                break
            counts = gpu.run(test, instances, seed + 4 * number)
            may = allowed(test)
            wrong = {_spelled(outcome): n for outcome, n in counts.items() if outcome not in may}
            violations += bool(wrong)
            done += 1
            tally = seen_of.setdefault(test.name.split()[0], Counter())
            tally["tests"] += 1
            tally["allowed"] += len(may)
            tally["seen"] += len(may & counts.keys())
            line = {
                "test": test.name,
                "outcome": test.outcome_names,
                "instances": counts.total(),
                "counts": {_spelled(outcome): n for outcome, n in sorted(counts.items())},
                "never seen": [_spelled(outcome) for outcome in sorted(may - counts.keys())],
                "violations": wrong,
            }
            if wrong or output is None:
                click.echo(json.dumps(line))
            if output is not None:
                with output.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    summary = {
        "tests": done,
        "of": len(tests),
        "seconds": round(time.perf_counter() - started, 1),
        "tests with forbidden outcomes": violations,
        "families": seen_of,
    }
    click.echo(json.dumps(summary))
    sys.exit(1 if violations else 0)


@main.command("compare")
@_families
@_match
@click.option("--at-most", default=60, show_default=True, help="Tests of each family; 0: all.")
@click.option("--seeds", default=3, show_default=True, help="Random schedules beside eager.")
@click.option("--schedule", default="random", show_default=True, type=click.Choice(["random", "weak"]))
def compare_all(families: tuple[str, ...], match: str, at_most: int, seeds: int, schedule: str) -> None:
    """Compare the data races that the sanitizer reports with those of the model; the status is 1 if they differ."""
    total: Counter[str] = Counter()
    for test in _chosen(families, at_most, match):
        results = compare(test, seeds, schedule)
        total.update(result.kind for result in results)
        for result in results:
            if result.kind in ("missed", "false alarm"):
                click.echo(f"{result.kind}: {test.name}: {_spelled(result.outcome)}")
                break
    click.echo(json.dumps(total))
    sys.exit(1 if total["missed"] or total["false alarm"] else 0)


@main.command("explore")
@_families
@click.option("--at-most", default=0, help="Tests of each family; 0: all.")
@click.option("--random", "count", default=0, help="Also so many random tests.")
@click.option("--seed", default=0, show_default=True, help="Seed of the first random test.")
def explore_all(families: tuple[str, ...], at_most: int, count: int, seed: int) -> None:
    """Compare ``schedule="all"`` with the model on race-free tests; the status is 1 if outcomes differ."""
    bodies = {family: race_free(family) for family in families or FAMILIES}
    bodies = {
        family: tests[:: max(1, -(-len(tests) // (at_most or len(tests))))]
        for family, tests in bodies.items()
    }
    if count:
        bodies["random"] = [random_test(number) for number in range(seed, seed + count)]
    differ = 0
    for family, tests in bodies.items():
        total: Counter[str] = Counter()
        for test in tests:
            result = explored(test)
            total["tests"] += 1
            total["with outcomes out of order"] += bool(result.timeless)
            total["interleavings"] += result.interleavings
            total["runs"] += result.runs
            if result.wrong or result.missing or not result.complete:
                differ += 1
                click.echo(f"{test.name}: {result}")
        click.echo(f"{family}: {json.dumps(total)}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
