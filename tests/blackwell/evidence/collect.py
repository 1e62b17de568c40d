"""Collects facts about kernels that others wrote or that ran on a GPU: ``python -m tests.blackwell.evidence.collect``.

Four sources, each of which appends lines to a folder of observations; ``merge`` makes the committed table of them:

* ``run LIBRARY --source CHECKOUT``: kernels of a library of ``tests.libraries``, by their own host code, in the simulator:
  the forms of their PTX, and the fields of descriptors and tensor maps with which they execute;
* ``texts PROJECT FOLDER``: the forms of every ``*.ptx`` in a folder;
* ``corpus``: what Triton made of the kernels in ``tests/sim/compiled/blackwell``, run likewise;
* ``hopper``: kernels of this tree that ran on an H200: ``tests/conformance``, ``tests/sim/compiled``, ``examples/hopper``.
"""

from __future__ import annotations

import importlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from pyptx.core.errors import PyptxError
from pyptx.ir import Module, parse_module

from .facts import Fact
from .forms import facts_of_text
from .observer import observed
from .table import Table

__all__ = ["main"]

#: Cases of value forms that are read as one kernel.
_BATCH = 64
#: Chapters of kernel cases with tensor copies.
_COPIES = ("tensor_copy", "tensor_edges", "cluster_copies")


class _Notes:
    """Facts of one kernel that processes append to a file, each once in a process."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._path.unlink(missing_ok=True)
        self._seen: set[Fact] = set()

    def __call__(self, fact: Fact) -> None:
        if fact not in self._seen:
            self._seen.add(fact)
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(f"{fact.kind.value}\t{fact.text}\n")

    def facts(self) -> set[Fact]:
        if not self._path.exists():
            return set()
        lines = self._path.read_text(encoding="utf-8").splitlines()
        self._path.unlink()
        return {Fact.read(*line.split("\t")) for line in lines}


def _write(out: Path, project: str, kernel: str, facts: Iterable[Fact]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    lines = sorted(f"{fact.kind.value}\t{fact.text}\t{project}\t{kernel}\n" for fact in facts)
    with open(out / f"{project}.tsv", "a", encoding="utf-8") as file:
        file.writelines(lines)
    click.echo(f"{project} {kernel}: {len(lines)} facts")


@contextmanager
def _noting(out: Path) -> Iterator[Callable[[], set[Fact]]]:
    out.mkdir(parents=True, exist_ok=True)
    notes = _Notes(out / f"notes.{os.getpid()}")
    with observed(notes):
        yield notes.facts


def _forms(texts: Iterable[str]) -> set[Fact]:
    return set().union(*(facts_of_text(parse_module(text)) for text in set(texts)))


def _for_blackwell(module: Module) -> bool:
    return module.target.startswith(("sm_100", "sm_103"))


@click.group(help=__doc__)
def main() -> None:
    pass


_OUT = click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of observations.")


@main.command()
@click.argument("library")
@click.option("--project", help="Name in the table, if not the library's.")
@click.option("--source", type=click.Path(path_type=Path, exists=True))
@click.option("-k", "substring", default="", help="Only kernels whose name contains this.")
@_OUT
def run(library: str, project: str | None, source: Path | None, substring: str, out: Path) -> None:
    """Run the kernels of a library that are compiled for Blackwell; those whose results are right count."""
    out = out.resolve()
    module = library if "." in library else f"tests.libraries.{library}"
    for kernel in importlib.import_module(module).kernels(source):
        if substring not in kernel.name:
            continue
        with _noting(out) as noted:
            try:
                launches = kernel.run("eager", 1)
            except Exception as error:
                # The host code of a library may raise anything; the next kernel runs all the same.
                click.echo(f"{library} {kernel.name}: {type(error).__name__}: {str(error)[:200]}")
                noted()
                continue
            texts = {launch.text for launch in launches}
            facts = noted()
        if texts and all(_for_blackwell(parse_module(text)) for text in texts):
            _write(out, project or library, kernel.name, facts | _forms(texts))


@main.command()
@click.argument("project")
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@_OUT
def texts(project: str, folder: Path, out: Path) -> None:
    """Read the forms of all texts for Blackwell in a folder."""
    for path in sorted(folder.rglob("*.ptx")):
        try:
            module = parse_module(path.read_text())
            facts = facts_of_text(module)
        except PyptxError as error:
            click.echo(f"{project} {path.name}: {error.message}")
            continue
        if _for_blackwell(module):
            _write(out, project, path.stem, facts)


@main.command()
@_OUT
def corpus(out: Path) -> None:
    """Run what Triton compiled for Blackwell from the sources of this tree."""
    from pyptx import sim
    from tests.sim.compiled.blackwell.triton_cases import TRITON_CASES
    from tests.sim.compiled.check import simulated

    for case in TRITON_CASES:
        given = case.run()
        with _noting(out) as noted:
            simulated(given, "eager", 0, module=sim.load(given.text, check=False))
            facts = noted()
        _write(out, "triton", case.name, facts | _forms([given.text]))


@main.command()
@_OUT
def hopper(out: Path) -> None:
    """Read the forms of what ran on an H200, and run the tensor copies among it."""
    from tests.conformance.collect import kernel_cases, kernel_chapters, value_cases, value_chapters
    from tests.conformance.simulate import simulate
    from tests.conformance.values import batch
    from tests.sim.compiled.cases import runs
    from tests.sim.compiled.hopper.cases import CASES

    for chapter in value_chapters():
        cases = value_cases(chapter)
        batches = [batch(cases[start : start + _BATCH]) for start in range(0, len(cases), _BATCH)]
        _write(out, "h200", f"conformance {chapter}", _forms(run.text for run in batches))
    for chapter in kernel_chapters():
        found = _forms(case.text for case in kernel_cases(chapter))
        for case in kernel_cases(chapter) if chapter in _COPIES else ():
            with _noting(out) as noted:
                simulate(case, sanitize=False)
                found |= noted()
        _write(out, "h200", f"conformance {chapter}", found)
    _write(out, "h200", "compiled", _forms(run.text for run in (*runs(), *(c.run() for c in CASES.values()))))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
def merge(folder: Path) -> None:
    """Make the committed table of the observations in a folder."""
    kernels: dict[Fact, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in sorted(folder.glob("*.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines():
            kind, text, project, kernel = line.split("\t")
            kernels[Fact.read(kind, text)][project].add(kernel)
    Table.of(kernels).write()


if __name__ == "__main__":
    main()
