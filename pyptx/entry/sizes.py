"""Launches for sizes that a kernel has never seen: the recording and the loaded module exist already.

Owns :class:`Template`, a launch whose sizes may change, and :class:`Sizes`, which makes a launch for the dims
of a call.  Nothing is recorded, compiled or loaded; what changes is the grid, the dims in the tensor maps and
the extents that the kernel reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.records import dataclass
from ..ir import Launch
from ..runtime.plan import Constant, MapImage, Parameter, Plan
from .ready import Ready, allocator_of_shape
from .specialize import Evaluator, KernelOptions, Specialization, spaces_of

__all__ = ["Output", "Sizes", "Template"]


#: A dim whose extent the kernel reads must be below this number.
_MOST = 1 << 32


@dataclass(frozen=True, slots=True)
class Output:
    """An output that each call allocates.

    Attributes:
        dims: its extents: numbers, or names of dims.
        dtype: torch's dtype.
        device: torch's device.
        allocate: allocates the output if its shape is always that of an input, else None.
    """

    dims: tuple[int | str, ...]
    dtype: Any
    device: Any
    allocate: Callable[[Sequence[Any]], Any] | None

    def allocator(self, dims: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
        """Return a function of a call's inputs that allocates the output for these dims."""
        if self.allocate is not None:
            return self.allocate
        shape = tuple(dim if isinstance(dim, int) else dims[dim] for dim in self.dims)
        return allocator_of_shape(shape, self.dtype, self.device)


@dataclass(frozen=True, slots=True)
class Template:
    """A launch of one recording on one GPU, of which other sizes change a part.

    Attributes:
        plan: a launch of the recording.
        entry: the compiled path's launch; None if there is none.
        places: for each parameter that a call fills, the number of the argument that gives its value.
        maps: number of each parameter that is a tensor map, and the function of the dims that gives its
            image, or None if the driver must encode the map.
        extents: number and dim of each parameter that is the extent of a dim.
    """

    plan: Plan
    entry: Any
    places: tuple[int, ...]
    maps: tuple[tuple[int, Callable[[Mapping[str, int]], bytes | None]], ...]
    extents: tuple[tuple[int, str], ...]


def _extent(value: Any) -> tuple[int, int, int]:
    """Return ``Launch.extent(value)``, at once for the usual kinds of values."""
    if value.__class__ is int and value > 0:
        return (value, 1, 1)
    if value.__class__ is tuple and len(value) == 2:
        x, y = value
        if x.__class__ is int and y.__class__ is int and x > 0 and y > 0:
            return (x, y, 1)
    return Launch.extent(value)


class Sizes:
    """The launches of a kernel for one choice of dtypes, GPU and constants, for any dims.

    Args:
        options: the kernel's options.
        special: a specialization for the constants.
        device_index: number of the GPU.
        outputs: the outputs that each call allocates; none if the caller gives them.
    """

    __slots__ = (
        "_cluster",
        "_constants",
        "_device",
        "_dims",
        "_grid",
        "_memory",
        "_options",
        "_outputs",
        "_recordings",
        "_spaces",
    )

    def __init__(
        self,
        options: KernelOptions,
        special: Specialization,
        device_index: int,
        outputs: Sequence[Output],
    ) -> None:
        self._options = options
        self._dims = options.dims
        self._recordings = special.siblings
        self._constants = dict(special.constants)
        self._memory = special.memory
        self._device = device_index
        self._outputs = tuple(outputs)
        names = (*self._dims, *self._constants)
        self._spaces = special.recorded.sizes
        self._grid = Evaluator("grid", options.grid, names)
        #: A cluster that does not depend on the sizes is that of the template.
        self._cluster = Evaluator("cluster", options.cluster, names) if callable(options.cluster) else None

    def compiled(self, extents: tuple[int, ...]) -> tuple[Any, tuple[Callable[..., Any], ...]] | None:
        """Return the compiled path's launch, and the functions that allocate the outputs.

        None if the full checks must look at the call.

        Args:
            extents: values of the dims, in the order of the kernel's dims.
        """
        found = self._find(extents)
        if found is None or found[0].entry is None:
            return None
        template, dims, grid = found
        changed = self._changed(template, dims)
        if changed is None:
            return None
        return template.entry.resized(grid, tuple(changed)), self._allocators(dims)

    def ready(self, extents: tuple[int, ...]) -> Ready | None:
        """Return the launch for these dims; None if the full checks must look at the call."""
        found = self._find(extents)
        if found is None:
            return None
        template, dims, grid = found
        changed = self._changed(template, dims)
        if changed is None:
            return None
        plan = template.plan
        parameters: list[Parameter] = list(plan.parameters)
        for number, image in changed:
            is_map = isinstance(parameters[number], MapImage)
            parameters[number] = MapImage(image) if is_map else Constant(image)
        return Ready(
            plan.resized(replace(plan.launch, grid=grid), parameters),
            template.places,
            self._device,
            self._allocators(dims),
            spaces_of(self._options, dims),
            self._memory,
        )

    @staticmethod
    def _changed(template: Template, dims: Mapping[str, int]) -> list[tuple[int, bytes]] | None:
        """Return number and image of the parameters that depend on the dims.

        None if the driver must encode a map.
        """
        changed: list[tuple[int, bytes]] = []
        for number, resized in template.maps:
            image = resized(dims)
            if image is None:
                return None
            changed.append((number, image))
        for number, dim in template.extents:
            changed.append((number, dims[dim].to_bytes(8, "little")))
        return changed

    def _find(self, extents: tuple[int, ...]) -> tuple[Template, dict[str, int], tuple[int, int, int]] | None:
        dims = dict(zip(self._dims, extents, strict=True))
        values = {**dims, **self._constants}
        if self._spaces is not None:
            try:
                dims.update(self._spaces(values))
            except Exception:  # whatever the author's function raises, the full checks raise again
                return None
        for recorded in self._recordings:
            template = recorded.templates.get(self._device)
            if template is not None and recorded.serves(dims):
                break
        else:
            return None
        cluster = template.plan.launch.cluster
        try:
            grid = _extent(self._grid(values))
            fits = self._cluster is None or _extent(self._cluster(values)) == cluster
        except Exception:  # whatever the author's function raises, the full checks raise again
            return None
        fits = fits and Launch.fits(grid, cluster)
        return (template, dims, grid) if fits and all(dims[d] < _MOST for _, d in template.extents) else None

    def _allocators(self, dims: Mapping[str, int]) -> tuple[Callable[[Sequence[Any]], Any], ...]:
        return tuple(output.allocator(dims) for output in self._outputs)
