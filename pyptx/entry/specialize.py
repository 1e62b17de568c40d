"""Specializations: a kernel recorded for given dims and constants, printed and ready to run.

Owns :class:`Specialization` and the function that makes one from the kernel's options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..core.errors import SpecError
from ..core.source import SourceLocation
from ..dsl import ParameterSlot, Scalar, Tile, record
from ..ir import Directive, Launch, Module, PrintedModule, print_module
from ..layout import TensorMap

__all__ = ["Extent", "KernelOptions", "Specialization", "evaluate", "map_of", "specialize"]

#: One to three numbers in x, y, z order, or a function of dims and constants that gives them.
Extent = int | Sequence[int] | Callable[..., "int | Sequence[int]"]


@dataclass(frozen=True)
class KernelOptions:
    """The arguments of ``@kernel``; see :func:`pyptx.entry.kernel`."""

    names: tuple[str, ...]
    specs: tuple[Tile | Scalar, ...]
    inputs: int
    grid: Extent
    block: Extent
    cluster: Extent
    arch: str
    smem: int | Callable[..., int] | None
    extern_smem: bool
    min_ctas_per_sm: int | None
    max_registers: int | None
    entry: str
    location: SourceLocation | None


@dataclass(frozen=True, eq=False)
class Specialization:
    """A kernel recorded for given dims and constants.

    Attributes:
        module: the IR.
        launch: grid, block, cluster and dynamic shared memory.
        slots: the entry's parameters, each with the kernel parameter that provides its value.
        dims: values of the named dims.
        constants: values of the keyword-only parameters.
        static_smem: bytes of static shared memory.
    """

    entry: str
    module: Module
    launch: Launch
    slots: tuple[ParameterSlot, ...]
    dims: dict[str, int]
    constants: dict[str, Any]
    static_smem: int
    #: The module as loaded by the simulator, ptxas and the driver, by backend and device.
    loaded: dict[Any, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def printed(self) -> PrintedModule:
        """The plain PTX text, for people to read and compare, with its table of lines."""
        return print_module(self.module)

    @cached_property
    def lined(self) -> PrintedModule:
        """The PTX text with ``.loc``, for ptxas and the driver. Line numbers are those of the plain text."""
        return print_module(self.module, lines=True)


def evaluate(what: str, option: Any, values: Mapping[str, Any]) -> Any:
    """Return ``option``; if it is a function, return its result for the dims and constants in ``values``.

    If the function has a single parameter, whose name is not that of a value, the parameter gets all values
    as a dict; otherwise each parameter gets the value of its name.

    Raises :class:`SpecError` for a parameter without a value or a default.
    """
    if not callable(option):
        return option
    parameters = list(inspect.signature(option).parameters.values())
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if len(plain) == len(parameters) == 1 and plain[0].name not in values:
        return option(dict(values))
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return option(**values)
    chosen = {}
    for parameter in plain:
        if parameter.name in values:
            chosen[parameter.name] = values[parameter.name]
        elif parameter.default is parameter.empty:
            raise SpecError(
                f"{what} is a function of {parameter.name!r}, which is neither a dim nor a constant; "
                f"there are: {', '.join(values) or 'none'}"
            )
    return option(**chosen)


def extent(what: str, option: Extent, values: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return an option such as ``grid`` as (x, y, z). Raises :class:`SpecError` for any other value."""
    value = evaluate(what, option, values)
    try:
        return Launch.extent(value)
    except ValueError:
        raise SpecError(
            f"{what} is {value!r}: expected one to three positive integers, in x, y, z order"
        ) from None


def specialize(
    options: KernelOptions, body: Callable[..., object], dims: dict[str, int], constants: dict[str, Any]
) -> Specialization:
    """Record the kernel function ``body`` for these dims and constants, and return the specialization.

    Raises:
        SpecError: a dim has no value, TMA refuses a tensor map, or extents exceed the hardware's limits.
        SharedMemoryError: the kernel needs more shared memory than a CTA of the target has.
        PyptxError: the body makes a mistake; the error has its line.
    """
    values = {**dims, **constants}
    _check_dims(options, dims)
    _check_maps(options, dims)
    block = extent("block", options.block, values)
    cluster = extent("cluster", options.cluster, values)
    grid = extent("grid", options.grid, values)
    Launch(grid, block, cluster).check()
    smem = evaluate("smem", options.smem, values)
    if smem is not None and (not _is_whole(smem) or smem < 0):
        raise SpecError(f"smem is {smem!r}: expected a number of bytes, at least 0")
    recording = record(
        body,
        options.names,
        options.specs,
        entry=options.entry,
        arch=options.arch,
        dims=dims,
        constants=constants,
        directives=_directives(options, block),
        smem=smem or 0,
        extern_smem=options.extern_smem,
        location=options.location,
    )
    return Specialization(
        entry=options.entry,
        module=recording.module,
        launch=Launch(grid, block, cluster, recording.dynamic_smem),
        slots=recording.slots,
        dims=dims,
        constants=constants,
        static_smem=recording.static_smem,
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_dims(options: KernelOptions, dims: Mapping[str, int]) -> None:
    for name, spec in zip(options.names, options.specs, strict=True):
        if not isinstance(spec, Tile):
            continue
        missing = [dim for dim in spec.dims if isinstance(dim, str) and dim not in dims]
        if missing:
            raise SpecError(
                f"{options.entry}: the dims {', '.join(missing)} of {name} have no value",
                hint=f"pass them: .ptx({', '.join(f'{dim}=...' for dim in missing)})",
            )
    for dim, value in dims.items():
        if not _is_whole(value) or value < 1:
            raise SpecError(f"the dim {dim} is {value!r}: expected a positive integer")


def _check_maps(options: KernelOptions, dims: dict[str, int]) -> None:
    """Raise :class:`SpecError` if TMA would refuse a tensor map of the kernel even at an aligned address."""
    for name, spec in zip(options.names, options.specs, strict=True):
        if isinstance(spec, Tile) and spec.layout.is_tma:
            tensor_map(name, spec, 0, shape=spec.shape(dims), dtype=spec.dtype)


def tensor_map(name: str, spec: Tile, array: Any, **options: Any) -> TensorMap:
    """Return a parameter's tensor map. Raises :class:`SpecError` with its name if TMA refuses the map."""
    assert spec.tma_box is not None
    try:
        return TensorMap.tiled(array, box=spec.tma_box, swizzle=spec.layout.swizzle, **options)
    except SpecError as error:
        raise SpecError(
            f"the tensor map of {name}: {error.message}", hint=error.hint, see=error.see
        ) from None


def map_of(options: KernelOptions, index: int, array: Any) -> TensorMap:
    """Return the tensor map of kernel parameter ``index``. Raises :class:`SpecError` if TMA refuses it."""
    spec = options.specs[index]
    assert isinstance(spec, Tile)
    return tensor_map(options.names[index], spec, array, dtype=spec.dtype)


def _directives(options: KernelOptions, block: tuple[int, int, int]) -> list[Directive]:
    found = [Directive("reqntid", block)]
    if options.min_ctas_per_sm is not None:
        found.append(Directive("minnctapersm", (options.min_ctas_per_sm,)))
    if options.max_registers is not None:
        found.append(Directive("maxnreg", (options.max_registers,)))
    return found
