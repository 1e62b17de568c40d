"""Specializations: a kernel recorded for given dims and constants, printed and ready to run.

Owns :class:`Recorded`, :class:`Specialization`, and the functions that make them from the kernel's options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.source import SourceLocation
from ..dsl import ParameterSlot, Scalar, Tile, Workspace, record
from ..dsl.dims import Dims
from ..ir import Directive, Launch, Module, PrintedModule, print_module
from ..layout import TensorMap
from ..runtime.workspaces import Space, WorkspaceMemory
from .arguments import dims_of

__all__ = [
    "Evaluator",
    "Extent",
    "KernelOptions",
    "Recorded",
    "Specialization",
    "WorkspaceSizes",
    "argument_of",
    "evaluate",
    "map_of",
    "record_for",
    "size_name",
    "spaces_of",
    "specialize",
]

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
    cooperative: bool
    dependent: bool
    priority: int | None
    carveout: int | None
    workspaces: tuple[tuple[str, Workspace], ...]
    entry: str
    location: SourceLocation | None

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Names of the dims, in the order of the specs."""
        return dims_of(self.specs)

    @cached_property
    def parameters(self) -> tuple[tuple[str, Tile | Scalar], ...]:
        """Name and spec of each parameter of the function: inputs, outputs, then workspaces.

        The dim of a workspace has a name that no other dim can have (:func:`size_name`).
        """
        tiles = [(name, Tile(size_name(name), space.dtype)) for name, space in self.workspaces]
        return (*zip(self.names, self.specs, strict=True), *tiles)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A kernel recorded for some dims and constants: it serves all dims that differ in what was not read.

    Attributes:
        entry: name of the kernel.
        module: the IR.
        block: threads of a CTA.
        dynamic_smem: bytes of dynamic shared memory.
        static_smem: bytes of static shared memory.
        slots: the entry's parameters, each with the kernel parameter that provides its value.
        constants: values of the keyword-only parameters.
        read: values of the dims that the text depends on.
        sizes: gives the dims of the workspaces; None if there are none.
    """

    entry: str
    module: Module
    block: tuple[int, int, int]
    dynamic_smem: int
    static_smem: int
    slots: tuple[ParameterSlot, ...]
    constants: dict[str, Any]
    read: dict[str, int]
    sizes: WorkspaceSizes | None = field(repr=False)
    #: The module as loaded by the simulator, ptxas and the driver, by backend and device.
    loaded: dict[Any, Any] = field(default_factory=dict, repr=False)
    #: A launch on each GPU, of which other dims change a part (:class:`pyptx.entry.sizes.Template`).
    templates: dict[int, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """For each parameter that a call fills, the number of the argument that gives its value."""
        return tuple(slot.index for slot in self.slots if slot.kind != "extent")

    @cached_property
    def printed(self) -> PrintedModule:
        """The plain PTX text, for people to read and compare, with its table of lines."""
        return print_module(self.module)

    @cached_property
    def lined(self) -> PrintedModule:
        """The PTX text with ``.loc``, for ptxas and the driver. Line numbers are those of the plain text."""
        return print_module(self.module, lines=True)

    def serves(self, dims: Mapping[str, int]) -> bool:
        """True if the text is the same for these dims."""
        if self.sizes is not None and not self.read.keys() <= dims.keys():
            dims = {**self.sizes({**dims, **self.constants}), **dims}
        return not self.read or all(dims.get(name) == value for name, value in self.read.items())


@dataclass(frozen=True, eq=False)
class Specialization:
    """A kernel for given dims and constants.

    Attributes:
        recorded: the recording, which specializations of other dims may share.
        launch: grid, block, cluster and dynamic shared memory.
        dims: values of the named dims.
        memory: the memory of the kernel's workspaces.
        siblings: the kernel's recordings for the same constants; others may be added to the list.
        plans: launches that are ready, by device.
    """

    recorded: Recorded
    launch: Launch
    dims: dict[str, int]
    memory: WorkspaceMemory
    siblings: Sequence[Recorded] = ()
    plans: dict[int, Any] = field(default_factory=dict, repr=False)

    @property
    def entry(self) -> str:
        """Name of the kernel."""
        return self.recorded.entry

    @property
    def module(self) -> Module:
        """The IR."""
        return self.recorded.module

    @property
    def slots(self) -> tuple[ParameterSlot, ...]:
        """The entry's parameters, each with the kernel parameter that provides its value."""
        return self.recorded.slots

    @property
    def constants(self) -> dict[str, Any]:
        """Values of the keyword-only parameters."""
        return self.recorded.constants

    @property
    def static_smem(self) -> int:
        """Bytes of static shared memory."""
        return self.recorded.static_smem

    @property
    def loaded(self) -> dict[Any, Any]:
        """The module as loaded by the simulator, ptxas and the driver, by backend and device."""
        return self.recorded.loaded

    @property
    def printed(self) -> PrintedModule:
        """The plain PTX text, for people to read and compare, with its table of lines."""
        return self.recorded.printed

    @property
    def lined(self) -> PrintedModule:
        """The PTX text with ``.loc``, for ptxas and the driver."""
        return self.recorded.lined


class _Values(Mapping[str, Any]):
    """Dims and constants by name, for the functions that ``@kernel`` takes; reading a dim is remembered."""

    def __init__(self, dims: Dims, constants: Mapping[str, Any]) -> None:
        self._dims, self._constants = dims, constants

    def __getitem__(self, name: str) -> Any:
        return self._constants[name] if name in self._constants else self._dims[name]

    def __contains__(self, name: object) -> bool:
        return name in self._constants or name in self._dims

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._dims), **dict.fromkeys(self._constants)})

    def __len__(self) -> int:
        return len(list(iter(self)))


def size_name(workspace: str) -> str:
    """Return the name of the dim that holds the number of elements of a workspace."""
    return f"{workspace}.size"


def spaces_of(options: KernelOptions, dims: Mapping[str, int]) -> tuple[Space, ...]:
    """Return the workspaces of a launch with these dims, which have the sizes (:class:`WorkspaceSizes`)."""
    return tuple(
        Space(dims[size_name(name)] * space.dtype.nbytes, space.zeroed) for name, space in options.workspaces
    )


class WorkspaceSizes:
    """The numbers of elements of a kernel's workspaces, for any dims and constants.

    Args:
        options: the kernel's options.
        names: names of the dims and constants.
    """

    __slots__ = ("_evaluators",)

    def __init__(self, options: KernelOptions, names: Collection[str]) -> None:
        self._evaluators = [
            (name, space.dtype.nbytes, Evaluator(f"the size of {name}", space.nbytes, names))
            for name, space in options.workspaces
        ]

    def __call__(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Return the dim of each workspace. Raises SpecError if a size is no positive number of elements."""
        found = {}
        for name, nbytes, evaluator in self._evaluators:
            size = evaluator(values)
            size = int(size) if isinstance(size, np.integer) else size
            if not _is_whole(size) or size < 1 or size % nbytes:
                raise SpecError(
                    f"the workspace {name} has {size!r} bytes: expected a positive multiple of {nbytes}"
                )
            found[size_name(name)] = size // nbytes
        return found


class Evaluator:
    """An option of ``@kernel`` that is a value or a function of dims and constants, ready to be evaluated.

    If the function has a single parameter, whose name is not that of a value, the parameter gets all values
    as a dict; otherwise each parameter gets the value of its name.

    Args:
        what: name of the option, for messages.
        option: the value or the function.
        names: names of the dims and constants.

    Raises:
        SpecError: the function has a parameter without a value or a default.
    """

    __slots__ = ("_call", "_option")

    def __init__(self, what: str, option: Any, names: Collection[str]) -> None:
        self._option = option
        self._call: Callable[[Mapping[str, Any]], Any] | None = None
        if not callable(option):
            return
        parameters = list(inspect.signature(option).parameters.values())
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        plain = [p for p in parameters if p.kind in (*by_name, inspect.Parameter.POSITIONAL_ONLY)]
        if len(plain) == len(parameters) == 1 and plain[0].name not in names:
            self._call = lambda values: option(dict(values))
            return
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            self._call = lambda values: option(**values)
            return
        for parameter in plain:
            if parameter.name not in names and parameter.default is parameter.empty:
                raise SpecError(
                    f"{what} is a function of {parameter.name!r}, which is neither a dim nor a constant; "
                    f"there are: {', '.join(names) or 'none'}"
                )
        chosen = tuple(parameter.name for parameter in plain if parameter.name in names)
        if len(chosen) == 1 and chosen[0] == plain[0].name and plain[0].kind is not plain[0].KEYWORD_ONLY:
            self._call = lambda values: option(values[chosen[0]])
        else:
            self._call = lambda values: option(**{name: values[name] for name in chosen})

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Return the option's value for these dims and constants."""
        return self._option if self._call is None else self._call(values)


def evaluate(what: str, option: Any, values: Mapping[str, Any]) -> Any:
    """Return the value of an option for these dims and constants, as :class:`Evaluator` does."""
    return Evaluator(what, option, values)(values)


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
    options: KernelOptions,
    recorded: Recorded,
    dims: dict[str, int],
    memory: WorkspaceMemory,
    siblings: Sequence[Recorded],
) -> Specialization:
    """Return a recorded kernel for these dims, which :meth:`Recorded.serves`.

    ``memory`` is that of the kernel's workspaces; ``siblings`` are its recordings for the same constants.

    Raises:
        SpecError: TMA refuses a tensor map, or extents exceed the hardware's limits.
    """
    _check_dims(options, dims)
    _check_maps(options, dims)
    for slot in recorded.slots:
        if slot.kind == "extent" and dims[slot.dim] >= 1 << 32:
            raise SpecError(
                f"the dim {slot.dim} is {dims[slot.dim]}, but the kernel reads it as a u32 register "
                "(extent): expected less than 2**32",
                hint=f"read {options.parameters[slot.index][0]}.shape, which makes a specialization for each "
                "size",
            )
    values = {**{dim: dims[dim] for dim in options.dims}, **recorded.constants}
    cluster = extent("cluster", options.cluster, values)
    grid = extent("grid", options.grid, values)
    launch = Launch(
        grid,
        recorded.block,
        cluster,
        recorded.dynamic_smem,
        cooperative=options.cooperative,
        dependent=options.dependent,
        priority=options.priority,
        carveout=options.carveout,
    )
    launch.check()
    return Specialization(recorded, launch, dims, memory, siblings)


def record_for(
    options: KernelOptions,
    body: Callable[..., object],
    dims: dict[str, int],
    constants: dict[str, Any],
    sizes: WorkspaceSizes | None,
) -> Recorded:
    """Record the kernel function ``body`` for these dims and constants.

    ``dims`` have those of the workspaces, which ``sizes`` gives.

    Raises:
        SpecError: a dim has no value, TMA refuses a tensor map, or extents exceed the hardware's limits.
        SharedMemoryError: the kernel needs more shared memory than a CTA of the target has.
        PyptxError: the body makes a mistake; the error has its line.
    """
    known = Dims(dims)
    values = _Values(known, constants)
    _check_dims(options, dims)
    _check_maps(options, dims)
    block = extent("block", options.block, values)
    whole = {**{dim: dims[dim] for dim in options.dims}, **constants}
    Launch(extent("grid", options.grid, whole), block, extent("cluster", options.cluster, whole)).check()
    smem = evaluate("smem", options.smem, values)
    if smem is not None and (not _is_whole(smem) or smem < 0):
        raise SpecError(f"smem is {smem!r}: expected a number of bytes, at least 0")
    names, specs = zip(*options.parameters, strict=True) if options.parameters else ((), ())
    recording = record(
        body,
        names,
        specs,
        entry=options.entry,
        arch=options.arch,
        dims=known,
        constants=constants,
        directives=_directives(options, block),
        smem=smem or 0,
        extern_smem=options.extern_smem,
        location=options.location,
    )
    read = known.read | (constants.keys() & dims.keys())
    return Recorded(
        entry=options.entry,
        module=recording.module,
        block=block,
        dynamic_smem=recording.dynamic_smem,
        static_smem=recording.static_smem,
        slots=recording.slots,
        constants=constants,
        read={name: dims[name] for name in read},
        sizes=sizes,
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
    if spec.tma_shape is not None:
        options.update(shape=spec.tma_shape, strides=spec.tma_strides)
    try:
        return TensorMap.tiled(
            array,
            box=spec.tma_box,
            swizzle=spec.layout.swizzle,
            l2_promotion=spec.tma_promotion,
            **options,
        )
    except SpecError as error:
        raise SpecError(
            f"the tensor map of {name}: {error.message}", hint=error.hint, see=error.see
        ) from None


def map_of(options: KernelOptions, index: int, array: Any) -> TensorMap:
    """Return the tensor map of kernel parameter ``index``. Raises :class:`SpecError` if TMA refuses it."""
    spec = options.specs[index]
    assert isinstance(spec, Tile)
    return tensor_map(options.names[index], spec, array, dtype=spec.dtype)


def argument_of(special: Specialization, options: KernelOptions, slot: ParameterSlot, value: Any) -> Any:
    """Return what a launch gives to a parameter of the entry, for the simulator.

    Args:
        value: the array or number that the caller gave to the slot's kernel parameter.

    Raises:
        SpecError: TMA refuses the tensor map.
    """
    if slot.kind == "map":
        return map_of(options, slot.index, value)
    return special.dims[slot.dim] if slot.kind == "extent" else value


def _directives(options: KernelOptions, block: tuple[int, int, int]) -> list[Directive]:
    found = [Directive("reqntid", block)]
    if options.min_ctas_per_sm is not None:
        found.append(Directive("minnctapersm", (options.min_ctas_per_sm,)))
    if options.max_registers is not None:
        found.append(Directive("maxnreg", (options.max_registers,)))
    return found
