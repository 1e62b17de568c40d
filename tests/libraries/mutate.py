"""``python -m tests.libraries.mutate LIBRARY --source PATH``: bugs planted in other projects' kernels, and how they are seen.

The operators are those of ``tests/mutants``, at statements that the run executes. Whether a mutant is a bug of the kernel
at hand is not known beforehand: what is seen by wrong values alone, and what is not seen, is listed to be read.
"""

from __future__ import annotations

import contextlib
import importlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import click

from pyptx import PyptxError
from pyptx.core.findings import Finding
from pyptx.ir import Instruction, Module
from pyptx.sim.api.launch import LoadedModule
from pyptx.sim.api.report import Report
from tests.libraries.__main__ import LIBRARIES
from tests.libraries.launches import Kernel
from tests.mutants import more_operators  # noqa: F401  registers its operators
from tests.mutants.edits import Body
from tests.mutants.operators import OPERATORS

#: How a mutant was seen, best first: a new finding, values alone, or not at all.
OUTCOMES = ("error", "incomplete", "review", "refused", "values", "unseen")
#: Seconds of a launch of a mutant.
_SECONDS = 60.0
_Key = tuple[str, int]


@dataclass
class Watched:
    """What the launches during a run of a kernel loaded and reported."""

    modules: list[LoadedModule] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    def found(self) -> list[Finding]:
        return [finding for report in self.reports for finding in report.findings]


@contextlib.contextmanager
def watched(edit: Callable[[Module], Module] = lambda module: module, **options: Any) -> Iterator[Watched]:
    """Record the modules and reports of all launches; ``edit`` changes each module that is loaded."""
    seen = Watched()
    load, launch = LoadedModule.__init__, LoadedModule.launch

    def loading(self: LoadedModule, module: Module, **keywords: Any) -> None:
        load(self, edit(module), **keywords)
        seen.modules.append(self)

    def launching(self: LoadedModule, *args: Any, **keywords: Any) -> Report:
        report = launch(self, *args, **{**keywords, **options})
        seen.reports.append(report)
        return report

    with mock.patch.multiple(LoadedModule, __init__=loading, launch=launching):
        yield seen


@dataclass(frozen=True)
class Planted:
    """A bug: the operator, the function of the module, the original line, and the changed body."""

    operator: str
    function: str
    line: int
    statement: str
    body: Body

    def edit(self, module: Module) -> Module:
        """The module with the changed function, if it has a function of this name."""
        functions = tuple(
            replace(f, body=self.body) if f.name == self.function else f for f in module.functions
        )
        return replace(module, functions=functions)


def bugs(modules: list[LoadedModule]) -> Iterator[Planted]:
    """Every bug of every operator at a statement that the launches have executed."""
    met = set()
    for loaded in modules:
        executed = loaded.executed()
        for function in loaded.module.functions:
            if function.name in met or not executed.get(function.name):
                continue
            met.add(function.name)
            for name, operator in OPERATORS.items():
                for site in operator(function.body):
                    statement = function.body[site.index]
                    if site.index in executed[function.name] and isinstance(statement, Instruction):
                        line = statement.source.line if statement.source is not None else 0
                        yield Planted(name, function.name, int(line), statement.name, site.body)


def spread(found: list[Planted], each: int) -> list[Planted]:
    """At most ``each`` bugs, of every operator in turn, from all over its sites."""
    by_operator: dict[str, list[Planted]] = defaultdict(list)
    for bug in found:
        by_operator[bug.operator].append(bug)
    rows = [sites[:: max(1, len(sites) // 3)] for sites in by_operator.values()]
    turns = [
        bug for turn in range(max(map(len, rows), default=0)) for row in rows for bug in row[turn : turn + 1]
    ]
    return turns[:each]


def _key(finding: Finding) -> _Key:
    return finding.rule.name, finding.location.line if finding.location is not None else 0


def seen(kernel: Kernel, bug: Planted, known: frozenset[_Key], max_steps: int) -> tuple[str, list[Finding]]:
    """How the kernel with the bug was seen under eager, and the findings that the original has not."""
    right = True
    with watched(bug.edit, timeout=_SECONDS, max_steps=max_steps) as run:
        try:
            kernel.run("eager", 1)
        except AssertionError:
            right = False
        except PyptxError:
            right = False
            if not run.reports:
                return "refused", []
        except Exception:  # host code of the library that met wrong values
            right = False
    new = [f for f in run.found() if _key(f) not in known]
    severities = {str(f.severity) for f in new}
    for how in OUTCOMES[:3]:
        if how in severities:
            return how, new
    return ("unseen" if right else "values"), new


@click.command(help=__doc__)
@click.argument("library", type=click.Choice(LIBRARIES))
@click.option(
    "--source", type=click.Path(path_type=Path, exists=True), help="Checkout or folder of the library."
)
@click.option("-k", "substring", default="", help="Only kernels whose name contains this.")
@click.option("--each", default=20, show_default=True, help="Bugs for each kernel.")
def main(library: str, source: Path | None, substring: str, each: int) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for kernel in importlib.import_module(f"tests.libraries.{library}").kernels(source):
        if substring not in kernel.name:
            continue
        with watched() as original:
            try:
                kernel.run("eager", 1)
            except Exception as error:
                click.echo(f"{kernel.name}: left out, since the original fails: {error}")
                continue
        known = frozenset(map(_key, original.found()))
        steps = 20 * max(report.steps for report in original.reports) + 20_000
        for bug in spread(list(bugs(original.modules)), each):
            how, new = seen(kernel, bug, known, steps)
            counts[bug.operator][how] += 1
            rules = ", ".join(sorted({f"{f.rule.name} {f.severity}" for f in new}))
            click.echo(f"{how:10}  {kernel.name}  {bug.operator}  line {bug.line}  {bug.statement}  {rules}")
    click.echo("\n| operator | " + " | ".join(OUTCOMES) + " |\n|---|" + "--:|" * len(OUTCOMES))
    for operator, row in counts.items():
        click.echo(f"| {operator} | " + " | ".join(str(row[how]) for how in OUTCOMES) + " |")
    total = sum(counts.values(), Counter())
    click.echo("| all | " + " | ".join(str(total[how]) for how in OUTCOMES) + " |")


if __name__ == "__main__":
    main()
