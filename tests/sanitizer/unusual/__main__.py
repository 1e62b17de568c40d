"""``python -m tests.sanitizer.unusual``: run the unusual kernels and count what the sanitizer reports on them."""

from __future__ import annotations

import statistics
import sys
import time

import click

from pyptx.toolchain import check_text, find_ptxas

from .running import Result, run_unusual
from .table import Unusual
from .unusuals import UNUSUAL


def _unexpected(kernel: Unusual, result: Result) -> list[str]:
    """What is wrong with a run: wrong outputs, errors, reviews of rules that the table does not name."""
    faults = []
    if not result.ended:
        faults.append("incomplete")
    if not result.right:
        faults.append(f"wrong outputs: {[array.ravel()[:8].tolist() for array in result.outputs]}")
    faults += [str(finding) for finding in result.errors]
    faults += [str(finding) for finding in result.reviews if finding.rule.name not in kernel.reviews]
    return faults


def _lines(result: Result) -> int:
    """Number of lines that findings for review name."""
    return len({(f.rule.name, f.location.line if f.location else 0) for f in result.reviews})


@click.command(help=__doc__)
@click.option("--schedules", default="eager", show_default=True, help="Comma-separated: eager,late,random:3.")
@click.option("--only", default="", help="Only kernels whose name contains this.")
@click.option("--assemble", is_flag=True, help="Also assemble each kernel with ptxas.")
def main(schedules: str, only: str, assemble: bool) -> None:
    chosen = [kernel for name, kernel in UNUSUAL.items() if only in name]
    tool = find_ptxas() if assemble else None
    failed, densities = 0, []
    for kernel in chosen:
        if tool is not None and (refusal := check_text(kernel.text, ptxas=tool).errors):
            failed += 1
            click.echo(f"{kernel.name}: ptxas refuses it: {refusal[0]}")
        counted = 0
        for schedule in schedules.split(","):
            started = time.perf_counter()
            result = run_unusual(kernel, schedule)
            seconds = time.perf_counter() - started
            counted = max(counted, _lines(result))
            faults = _unexpected(kernel, result)
            failed += bool(faults)
            click.echo(f"{'FAILED' if faults else 'ok':7}{schedule:10}{seconds:6.2f} s {kernel.name}")
            for fault in faults:
                click.echo("    " + fault.replace("\n", "\n    "))
        densities.append(1000 * counted / kernel.instructions)
    if densities:
        click.echo(
            f"{len(chosen)} kernels, {sum(k.instructions for k in chosen)} instructions; lines for review per 1,000 "
            f"instructions: median {statistics.median(densities):.1f}, mean {statistics.mean(densities):.1f}"
        )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
