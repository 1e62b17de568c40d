"""``python -m tests.sanitizer.reviews``: findings on kernels that are right, per 1,000 instructions of their text.

A line with several findings of one rule counts once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import click

from pyptx.ir import parse_module
from tests.sanitizer.counting import Counted, counted, tables


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
        return [counted(corpus, parse_module(unusual.text), found)]
    if corpus == "tcgen05 suite":
        from tests.examples.test_tcgen05_suite import LESSON, suite

        made = []
        for case in LESSON[name].cases():
            _, _, report = suite.simulated(case, "eager")
            made.append(counted(corpus, case.kernel.module(), report.findings))
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
    return [counted(corpus, parse_module(run.text), report.findings)]


@click.command(help=__doc__)
@click.option(
    "--jobs", default=os.cpu_count() or 1, show_default="number of cores", help="Number of processes."
)
def main(jobs: int) -> None:
    kernels = list(names())
    with ProcessPoolExecutor(jobs) as pool:
        rows = [one for found in pool.map(count, kernels, chunksize=4) for one in found]
    for line in tables(rows):
        click.echo(line)


if __name__ == "__main__":
    main()
