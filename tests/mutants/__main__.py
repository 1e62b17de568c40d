"""``python -m tests.mutants``: run mutants of kernels that are right, and say how each was seen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

from . import frozen
from .kernels import KERNELS
from .mending import Mended, mend_mutant, remedies
from .mutants import Mutant, mutants
from .operators import OPERATORS
from .running import Outcome, run_mutant, run_original
from .tables import by_kernel, by_operator, census


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
def freeze() -> None:
    """Write the list of mutants, with what each must give, to the file that the tests compare with."""
    frozen.FILE.write_text("\n".join(frozen.lines(mutants())) + "\n")


@main.command("census")
def count() -> None:
    """How many mutants each kernel and each operator has."""
    click.echo(census(list(mutants())))


def _line(mutant: Mutant, schedule: str, outcome: Outcome) -> str:
    row = {"mutant": mutant.name, "line": mutant.line, "statement": mutant.statement}
    row |= {"class": mutant.expected.kind, "schedule": schedule, "how": outcome.how}
    return json.dumps(row | {"right": outcome.right, "found": outcome.found}) + "\n"


def _run_part(
    kernel: str, schedule: str, operators: Sequence[str], every: int, mend: bool, part: int, parts: int
) -> list[tuple[Outcome, Mended | None]]:
    """Run one of ``parts`` parts of a kernel's mutants."""
    report, right = run_original(kernel, schedule)
    if not right or report.verdict == "error":
        raise click.ClickException(f"{kernel} is not right under {schedule}:\n{report}")
    results: list[tuple[Outcome, Mended | None]] = []
    for mutant in list(mutants([kernel], operators))[::every][part::parts]:
        outcome = run_mutant(mutant, schedule, report)
        mends = mend and outcome.how in ("named", "otherwise")
        results.append((outcome, mend_mutant(mutant, schedule, report) if mends else None))
    return results


@main.command()
@click.option("--schedules", default="eager", show_default=True, help="Comma-separated: eager,late,random:3.")
@click.option("--kernel", "kernels", multiple=True, type=click.Choice(KERNELS), help="Only this kernel.")
@click.option(
    "--operator", "operators", multiple=True, type=click.Choice(list(OPERATORS)), help="Only this one."
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="A file to which each mutant adds a JSON line."
)
@click.option("--every", default=1, show_default=True, help="Only every n-th mutant.")
@click.option(
    "--jobs", default=os.cpu_count() or 1, show_default="number of cores", help="Number of processes."
)
@click.option("--mend", is_flag=True, help="Apply the remedies that are one instruction, and run again.")
def run(
    schedules: str,
    kernels: tuple[str, ...],
    operators: tuple[str, ...],
    output: Path | None,
    every: int,
    jobs: int,
    mend: bool,
) -> None:
    """Run the mutants and print how each operator's were seen."""
    names = schedules.split(",")
    started = time.perf_counter()
    records = []
    results: list[tuple[Mutant, Mended]] = []
    with ProcessPoolExecutor(jobs) as pool:
        tasks = {
            (kernel, schedule, part): pool.submit(
                _run_part, kernel, schedule, operators, every, mend, part, jobs
            )
            for kernel in kernels or KERNELS
            for schedule in names
            for part in range(jobs)
        }
        for kernel in kernels or KERNELS:
            for schedule in names:
                parts = [tasks[kernel, schedule, part].result() for part in range(jobs)]
                for number, mutant in enumerate(list(mutants([kernel], operators))[::every]):
                    outcome, mended = parts[number % jobs][number // jobs]
                    records.append((mutant, schedule, outcome))
                    if mended is not None:
                        results.append((mutant, mended))
                    if output is not None:
                        with output.open("a") as file:
                            file.write(_line(mutant, schedule, outcome))
            click.echo(f"{kernel}: {time.perf_counter() - started:.0f} s", err=True)
    click.echo(by_operator(records))
    click.echo(by_kernel(records))
    if mend:
        click.echo(remedies(results))


if __name__ == "__main__":
    main()
