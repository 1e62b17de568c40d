"""``python -m tests.sanitizer.reviews``: findings on kernels that are right, per 1,000 instructions of their text.

A line with several findings of one rule counts once. Kernels of one text are counted together.
"""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import click

from pyptx.core.findings import RULES
from pyptx.ir import Instruction, Module, parse_module


class Counted(NamedTuple):
    """What the runs of one text gave: how many instructions it has, and rule and line of each finding."""

    corpus: str
    instructions: int
    reviews: frozenset[tuple[str, int]]
    errors: frozenset[tuple[str, int]]


def _size(module: Module) -> int:
    return sum(isinstance(s, Instruction) for function in module.functions for s in function.body)


def _counted(corpus: str, module: Module, findings: list[Any]) -> Counted:
    by_severity: dict[str, set[tuple[str, int]]] = {"review": set(), "error": set()}
    for finding in findings:
        line = finding.location.line if finding.location is not None else 0
        by_severity.setdefault(str(finding.severity), set()).add((finding.rule.name, line))
    return Counted(corpus, _size(module), frozenset(by_severity["review"]), frozenset(by_severity["error"]))


def names() -> Iterator[tuple[str, str]]:
    """The corpora, and the names of their kernels."""
    from tests.examples.test_tcgen05_suite import LESSON
    from tests.sanitizer.unusual.unusuals import UNUSUAL
    from tests.sim.compiled import cases
    from tests.sim.compiled.blackwell import test_compiled_blackwell
    from tests.sim.compiled.hopper.cases import CASES

    yield from (("compiled", name) for name, (_, case) in cases.CASES.items() if not case.fails)
    yield from (("compiled for Hopper's engines", name) for name in CASES)
    blackwell = test_compiled_blackwell
    yield from (("compiled for sm_100a", name) for name in blackwell.CASES if name not in blackwell.OLD)
    yield from (("unusual synchronization", name) for name in UNUSUAL)
    yield from (("tcgen05 suite", name) for name in LESSON)


def count(kernel: tuple[str, str]) -> list[Counted]:
    """Run a kernel under eager."""
    corpus, name = kernel
    if corpus == "unusual synchronization":
        from tests.sanitizer.unusual.running import run_unusual
        from tests.sanitizer.unusual.unusuals import UNUSUAL

        unusual = UNUSUAL[name]
        found = list(run_unusual(unusual).findings)
        return [_counted(corpus, parse_module(unusual.text), found)]
    if corpus == "tcgen05 suite":
        from tests.examples.test_tcgen05_suite import LESSON, suite

        made = []
        for case in LESSON[name].cases():
            _, _, report = suite.simulated(case, "eager")
            made.append(_counted(corpus, case.kernel.module(), report.findings))
        return made
    from tests.sim.compiled import cases
    from tests.sim.compiled.blackwell import test_compiled_blackwell
    from tests.sim.compiled.check import simulated
    from tests.sim.compiled.hopper.cases import CASES

    if corpus == "compiled":
        run = cases.run_of(name)
    else:
        run = (CASES if "Hopper" in corpus else test_compiled_blackwell.CASES)[name].run()
    report, _ = simulated(run)
    return [_counted(corpus, parse_module(run.text), report.findings)]


@click.command(help=__doc__)
@click.option(
    "--jobs", default=os.cpu_count() or 1, show_default="number of cores", help="Number of processes."
)
def main(jobs: int) -> None:
    kernels = list(names())
    with ProcessPoolExecutor(jobs) as pool:
        counted = [one for found in pool.map(count, kernels, chunksize=4) for one in found]
    click.echo("| corpus | kernels | with an error | with a review | median | mean | most |")
    click.echo("|---|--:|--:|--:|--:|--:|--:|")
    for corpus in dict.fromkeys(one.corpus for one in counted):
        here = [one for one in counted if one.corpus == corpus]
        rates = [1000 * len(one.reviews) / max(1, one.instructions) for one in here]
        errors, reviews = sum(bool(one.errors) for one in here), sum(bool(one.reviews) for one in here)
        click.echo(
            f"| {corpus} | {len(here)} | {errors} | {reviews} | {statistics.median(rates):.1f} "
            f"| {statistics.mean(rates):.1f} | {max(rates):.1f} |"
        )
    click.echo("\n| rule | lines | anchor |\n|---|--:|---|")
    for name, lines in Counter(rule for one in counted for rule, _ in one.reviews).most_common():
        click.echo(f"| {name} | {lines} | {RULES[name].anchor} |")


if __name__ == "__main__":
    main()
