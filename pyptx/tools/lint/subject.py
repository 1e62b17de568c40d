"""What is examined: a module, what is known about its launch, and the sizes of its arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from pathlib import Path
from typing import Any

from ...core.errors import SpecError
from ...core.findings import Verdict
from ...core.records import dataclass
from ...core.waivers import Waiver
from ...dsl import Program, Tile
from ...entry import Kernel
from ...entry.specialize import KernelOptions, Specialization
from ...flow import Interval
from ...ir import Launch, Module, PrintedModule, parse_module, print_module, without_lines
from ...sim import LoadedModule, Report

__all__ = ["Array", "Extent", "Subject", "ended", "subject_of", "with_launch"]

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Array:
    """An array of the host to which a parameter points: its name, shape as text, and size in bytes."""

    name: str
    shape: str
    nbytes: int


@dataclass(frozen=True)
class Subject:
    """A module to examine.

    Attributes:
        module: the IR.
        printed: the text for ptxas, with the author's lines.
        name: the name that reports show.
        grid, block, cluster: extents of the launch, or None if they are not known.
        arrays: for each parameter that is a pointer, its array; None if the sizes are not known.
        params: values of 32-bit parameters that the caller assumes.
        loaded: the module in the simulator, with the runs whose paths count; None if there are none.
        no_run: why there are none.
    """

    module: Module
    printed: Callable[[], PrintedModule]
    name: str
    grid: Extent | None = None
    block: Extent | None = None
    cluster: Extent | None = None
    arrays: Mapping[str, Array] | None = None
    params: Mapping[str, Interval] = field(default_factory=dict)
    loaded: LoadedModule | None = None
    no_run: str = "no run was given"

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """The waivers that the author wrote in the kernels."""
        return tuple(waiver for function in self.module.functions for waiver in function.waivers)


def subject_of(given: Any, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> Subject:
    """Return what ``given`` is, as :func:`~.api.lint` takes it. With ``arrays``, a kernel is run first.

    Raises:
        ParseError: a text is not PTX.
        PyptxError: the kernel cannot be recorded.
        SpecError: arrays or keywords were given for what takes none.
        TypeError: ``given`` holds no PTX.
    """
    if isinstance(given, functools.partial) and isinstance(given.func, Kernel) and not given.args:
        given, keywords = given.func, {**given.keywords, **keywords}
    if isinstance(given, Kernel):
        return _of_kernel(given, arrays, keywords)
    if arrays or keywords:
        what = "arrays" if arrays else f"{next(iter(keywords))}="
        raise SpecError(
            f"{what} given for a {type(given).__name__}: only a kernel takes them",
            hint="to see which instructions runs have executed, pass the sim.LoadedModule that you launched",
        )
    return _of_module(given)


def _of_kernel(kernel: Kernel, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> Subject:
    if not arrays:
        return _of_specialization(kernel.specialize(**keywords), kernel.options)
    special = kernel.specialize_for(*arrays, **keywords)
    report = kernel.simulate(*arrays, **keywords)
    return ended(_of_specialization(special, kernel.options), special.loaded["sim"], [report])


def ended(subject: Subject, loaded: LoadedModule, reports: Sequence[Report]) -> Subject:
    """Return the subject with the runs of ``loaded``, unless one of them did not run to its end."""
    worst = next((r.verdict for r in reports if r.verdict in (Verdict.ERROR, Verdict.INCOMPLETE)), None)
    if worst is not None:
        return replace(subject, no_run=f"the run ended as {worst}: see its report")
    return replace(subject, loaded=loaded)


def _of_specialization(special: Specialization, options: KernelOptions) -> Subject:
    sizes: dict[str, Array] = {}
    for slot in special.slots:
        name, spec = options.parameters[slot.index]
        if slot.kind == "pointer" and isinstance(spec, Tile):
            shape = spec.shape(special.dims)
            nbytes = prod(shape) * spec.dtype.bits // 8
            text = f"({', '.join(map(str, shape))}) {spec.dtype}"
            sizes[slot.param.name] = Array(name, text, nbytes)
    launch = special.launch
    return Subject(
        special.module,
        lambda: special.lined,
        special.entry,
        launch.grid,
        launch.block,
        launch.cluster,
        sizes,
    )


def _of_module(given: Any) -> Subject:
    if isinstance(given, LoadedModule):
        return replace(_of_module(given.module), loaded=given)
    if isinstance(given, Program):
        return Subject(given.module(), lambda: given.printed(lines=True), "program")
    if isinstance(given, Path):
        given = parse_module(given.read_text(encoding="utf-8"), str(given))
    elif isinstance(given, str):
        given = parse_module(given)
    if not isinstance(given, Module):
        raise TypeError(
            f"lint takes a kernel, PTX text, a pathlib.Path to PTX text, an ir.Module, a Program or a "
            f"sim.LoadedModule, got a {type(given).__name__}"
        )
    module: Module = given
    name = next(iter(module.entries), "module")
    return Subject(module, lambda: _with_lines(module), name)


def _with_lines(module: Module) -> PrintedModule:
    """Return the text with ``.loc`` for the lines of its instructions, in place of the lines that it has.

    A text of ``.target debug`` keeps its own, since ptxas demands its debug data.
    """
    if "debug" in module.target_options:
        return print_module(module)
    return print_module(without_lines(module), lines=True)


def with_launch(
    subject: Subject, grid: Any, block: Any, params: Mapping[str, tuple[int, int]] | None
) -> Subject:
    """Return the subject with what the caller says about the launch.

    Raises :class:`SpecError` if the subject has a launch of its own, or no such parameter.
    """
    if (grid is not None or block is not None) and subject.grid is not None:
        raise SpecError(f"{subject.name} defines its launch itself: leave grid and block out")
    known = {p.name for f in subject.module.entries.values() for p in f.params}
    for name, (least, most) in (params or {}).items():
        if name not in known:
            raise SpecError(f"no parameter {name!r}; there are: {', '.join(sorted(known)) or 'none'}")
        if least > most:
            raise SpecError(f"the values of {name} are {least}..{most}: the first is larger than the last")
    if grid is not None:
        subject = replace(subject, grid=_extent("grid", grid))
    if block is not None:
        subject = replace(subject, block=_extent("block", block))
    return replace(subject, params=dict(params or {}))


def _extent(name: str, value: Any) -> Extent:
    try:
        return Launch.extent(value)
    except ValueError as error:
        raise SpecError(f"{name}: {error}") from None
