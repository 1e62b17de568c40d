"""``pyptx build``: compiles kernels with ptxas, without a GPU, into a folder that ships with a program.

Owns the search of a file for what to build, and the building of many kernels side by side.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import GeneratorType, ModuleType
from typing import Any

import click

from ..core.errors import PyptxError
from ..core.records import dataclass
from ..entry import Kernel, Specialization
from ..toolchain import Tool, assemble, find_ptxas
from ..toolchain.cache import CachedCubin, CubinCache, CubinSource
from .cache import size_text
from .load import load_module, parse_words
from .resources import complaints
from .user_output import exit_output_to_stderr, user_output_to_stderr

__all__ = ["command"]


@dataclass(frozen=True)
class _Built:
    """What became of one text: a line for people, and whether it is an error."""

    line: str
    notes: tuple[str, ...] = ()
    failed: bool = False


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="FILE.py|MODULE[:NAME]... [NAME=VALUE]...")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write; name it in PYPTX_CACHE_PATH where the kernels run.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), help="ptxas processes at a time; default: one a CPU."
)
def command(targets: tuple[str, ...], output: Path, jobs: int | None) -> None:
    """Compile kernels for given sizes, in parallel and without a GPU.

    \b
        pyptx build kernels.py -o cubins              what the file has specialized
        pyptx build kernels.py:gemm M=4096 K=512 -o cubins
        pyptx build package.kernels:SIZES -o cubins

    Without NAME, everything at the top of the file counts that names a kernel and its sizes. NAME can be

    \b
      - a kernel: for the values NAME=VALUE, or else for what k.specialize(M=4096) recorded in the file;
      - what k.specialize(...) returned, or a pair (k, {"M": 4096}) of a kernel with dims and constants;
      - a list, tuple, dict or generator of such things, or a function that returns one; NAME=VALUE are then
        its arguments.

    Where the program runs, PYPTX_CACHE_PATH names the folder: a kernel whose PTX (without line numbers) is
    the same is loaded from there, and no compiler runs.

    Exit status: 1 if a kernel cannot be recorded or assembled, 2 if the command line is wrong.
    """
    places = [word for word in targets if "=" not in word]
    words = tuple(word for word in targets if "=" in word)
    if not places or (words and len(places) > 1):
        raise click.UsageError("give one FILE.py:NAME for the values NAME=VALUE")
    keywords = parse_words(words)[1]
    found: dict[str, Specialization] = {}
    for place in places:
        for special in _listed(place, keywords):
            found.setdefault(special.printed.text, special)
    if not found:
        raise click.UsageError(
            f"{' '.join(places)}: no kernel with its sizes; call k.specialize(M=4096) in the file, or list "
            'pairs (k, {"M": 4096})'
        )
    ptxas, cache = find_ptxas(), CubinCache(output, limit=1 << 62, shipped=True)
    started = time.perf_counter()
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        results = list(pool.map(lambda special: _build(special, cache, ptxas), found.values()))
    for result in results:
        click.echo(result.line, err=result.failed)
        for note in result.notes:
            click.echo(f"  {note}", err=True)
    failed = sum(result.failed for result in results)
    seconds = time.perf_counter() - started
    click.echo(f"{len(results) - failed} of {len(results)} kernels in {output}, {seconds:.1f} s with {ptxas}")
    if failed:
        raise SystemExit(1)


def _build(special: Specialization, cache: CubinCache, ptxas: Tool) -> _Built:
    text, target = special.printed.text, special.module.target
    source, tool = CubinSource(special.entry, text, target), f"ptxas-{ptxas.version_text}"
    sizes = {**special.dims, **special.constants}
    shown = " ".join((special.entry, target, *(f"{name}={value}" for name, value in sizes.items())))
    if cache.find(source, tool) is not None:
        return _Built(f"{shown}: is there")
    try:
        made = assemble(special.printed, target, ptxas=ptxas)
    except PyptxError as error:
        return _Built(f"{shown}: {error}", failed=True)
    cache.discard(source, tool)  # it is damaged, if it is there
    if not cache.store(source, CachedCubin(made.cubin, tool)):
        return _Built(f"{shown}: cannot write to {cache.root}", failed=True)
    notes = tuple(str(message) for message in complaints(made))
    facts = f"{made.registers} registers, {made.spills} bytes spilled, {size_text(len(made.cubin))}"
    return _Built(f"{shown}: {facts}", notes)


def _listed(place: str, keywords: dict[str, Any]) -> Iterator[Specialization]:
    """Yield the specializations that ``FILE.py``, ``FILE.py:NAME``, ``MODULE`` or ``MODULE:NAME`` lists."""
    file, _, name = place.partition(":")
    module = _module(file)
    if not name:
        if keywords:
            raise click.UsageError(f"NAME=VALUE needs {file}:NAME")
        for public, value in vars(module).items():
            if not public.startswith("_") and not isinstance(value, (ModuleType, type)):
                yield from _specializations(value, public, nested=True)
        return
    if not hasattr(module, name):
        raise click.UsageError(f"{file} has no {name!r}")
    value = getattr(module, name)
    with user_output_to_stderr():
        if isinstance(value, Kernel):
            recorded = () if keywords else value.specializations()
            yield from recorded or (value.specialize(**keywords),)
            return
        if callable(value):
            try:
                value = value(**keywords)
                if isinstance(value, Kernel) and not value.specializations():
                    value = value.specialize()
            except TypeError as error:
                raise click.UsageError(f"{name}: {error}") from None
        elif keywords:
            raise click.UsageError(f"{name} is a {type(value).__name__}, which takes no NAME=VALUE")
        yield from _specializations(value, name, nested=False)


def _module(file: str) -> ModuleType:
    if file.endswith(".py") or os.sep in file:
        return load_module(Path(file))
    try:
        with user_output_to_stderr():
            module = importlib.import_module(file)
            exit_output_to_stderr()
    except ModuleNotFoundError as error:
        raise click.UsageError(f"{file} is neither a Python file nor a module: {error}") from None
    return module


def _specializations(value: Any, where: str, *, nested: bool) -> Iterator[Specialization]:
    """Yield what a value lists. With ``nested``, values that list nothing are left out."""
    if isinstance(value, Specialization):
        yield value
    elif isinstance(value, Kernel):
        yield from value.specializations()
    elif isinstance(value, tuple) and value and isinstance(value[0], Kernel) and _are_sizes(value[1:]):
        with user_output_to_stderr():
            yield value[0].specialize(**{name: v for sizes in value[1:] for name, v in sizes.items()})
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _specializations(each, f"{where}[{key!r}]", nested=nested)
    elif isinstance(value, (list, tuple, set, frozenset, GeneratorType)):
        for number, each in enumerate(value):
            yield from _specializations(each, f"{where}[{number}]", nested=nested)
    elif not nested:
        raise click.UsageError(
            f"{where} is {value!r}: expected a kernel, what k.specialize(...) returned, a pair of a kernel "
            "and its dims and constants, or a list of them"
        )


def _are_sizes(values: tuple[Any, ...]) -> bool:
    """True for one or two dicts: dims and constants, together or apart."""
    return 1 <= len(values) <= 2 and all(
        isinstance(sizes, Mapping) and all(isinstance(name, str) for name in sizes) for sizes in values
    )
