"""Calls of a kernel on a GPU that differ from an earlier call in addresses and numbers alone.

Owns :class:`Signatures`: the launches of one kernel that are ready, by signature.  A signature is what a
launch was checked and packed for: dtype, shape and device of each tensor, the number of tensors that were
given, and the constants.  What else may change is looked at in every call: strides, alignment, gradients,
numbers, the stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..dsl import Scalar, Tile
from ..runtime.quick import entry, exchange_api, native
from .arguments import ALIGNMENT, dims_of
from .constants import exact_items

if TYPE_CHECKING:
    from ..runtime._quick import Table
    from .ready import Ready
    from .sizes import Sizes

__all__ = ["MISS", "Signatures"]

#: Returned for a call that needs all checks.
MISS: Any = object()
#: Largest number of launches that a kernel keeps ready; the one that was made first goes first.
_MOST = 1024
#: Held by the thread that changes what is kept.
_keeping = Lock()


def _miss(given: Sequence[Any], out: Any, stream: Any) -> Any:
    """The compiled path, where there is none."""
    return MISS


def _nothing() -> None:
    """The state of torch.jit.trace, before torch is there."""


class Signatures:
    """The launches of one kernel that are ready.

    Args:
        specs: the kernel's parameters.
    """

    __slots__ = (
        "_arrays",
        "_dims",
        "_dispatch_modes",
        "_forward_ad",
        "_grad_enabled",
        "_kinds",
        "_ready",
        "_shapes",
        "_sizes",
        "_table",
        "_tracing_state",
        "quick",
    )

    def __init__(self, specs: Sequence[Tile | Scalar]) -> None:
        #: For each parameter of the kernel, whether it is an array; and the dims of the arrays.
        self._arrays = tuple(isinstance(spec, Tile) for spec in specs)
        self._shapes = tuple(spec.dims for spec in specs if isinstance(spec, Tile))
        self._dims = dims_of(specs)
        self._ready: dict[Any, Ready] = {}
        #: Launches for any sizes, by what else the signature holds.
        self._sizes: dict[Any, Sizes] = {}
        #: The classes of torch whose objects have memory of their own.
        self._kinds: tuple[type, ...] = ()
        self._grad_enabled: Callable[[], bool] = bool
        #: torch's module for tangents, its number of dispatch modes, the state of torch.jit.trace: none of
        #: them sees a launch.
        self._forward_ad: Any = None
        self._dispatch_modes: Callable[[], int] = int
        self._tracing_state: Callable[[], Any] = _nothing
        #: The compiled path, and its call for a kernel's inputs, outputs and stream, without constants.
        self._table: Table | None = None
        self.quick: Callable[[Sequence[Any], Any, Any], Any] = _miss

    def __call__(self, given: Sequence[Any], out: Any, stream: Any, keywords: Mapping[str, Any]) -> Any:
        """Launch, and return what the kernel's call returns; :data:`MISS` if nothing was launched.

        Raises:
            SpecError, LaunchError: as :meth:`.Ready.launch`.
        """
        if not self._ready:
            return MISS
        if self._forward_ad._current_level >= 0 or self._dispatch_modes():
            return MISS
        if self._tracing_state() is not None:
            return MISS
        read = self.read(given, out, keywords)
        if read is None:
            return MISS
        key, flat = read
        try:
            ready = self._ready.get(key)
        except TypeError:  # a constant that has no hash
            return MISS
        if ready is None:
            sizes = self._sizes.get(_without_shapes(key))
            extents = None if sizes is None else self._extents(key)
            if sizes is None or extents is None or (ready := sizes.ready(extents)) is None:
                return MISS
            _keep(self._ready, key, ready)
        return ready.launch(given, flat, out, stream)

    def _extents(self, key: tuple[Any, ...]) -> tuple[int, ...] | None:
        """Return the values of the dims in a signature; None if its shapes do not fit the specs."""
        dims: dict[str, int] = {}
        for tile, shape in zip(self._shapes, _shapes(key), strict=False):
            if len(tile) != len(shape):
                return None
            for dim, extent in zip(tile, shape, strict=True):
                if (dim if isinstance(dim, int) else dims.setdefault(dim, extent)) != extent:
                    return None
        return tuple(dims[dim] for dim in self._dims) if len(dims) == len(self._dims) else None

    def read(
        self, given: Sequence[Any], out: Any, keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], list[Any]] | None:
        """Return the signature of a call, and the addresses and numbers of its arguments.

        The signature has the numbers of inputs and of arguments, then dtype, shape and device of each array,
        then the constants.
        None if the full checks must look at the call, as at each with arrays of other libraries than torch.
        """
        values: list[Any] | tuple[Any, ...]
        if out is None:
            values = tuple(given)
        elif out.__class__ is tuple or out.__class__ is list:
            if not out:
                return None
            values = [*given, *out]
        else:
            values = [*given, out]
        kinds: tuple[Any, ...] = self._kinds
        key: list[Any] = [len(given), len(values)]
        flat: list[Any] = []
        addresses = 0
        value: Any
        for value, is_array in zip(values, self._arrays, strict=False):
            if not is_array:
                flat.append(value)
                continue
            if value.__class__ not in kinds:
                return None
            try:
                address = value.data_ptr()
            except RuntimeError:  # a tensor without memory of its own: sparse, or under a transform
                return None
            if not address or not value.is_contiguous() or value.is_neg():
                return None
            if value.requires_grad and self._grad_enabled():
                return None
            addresses |= address
            flat.append(address)
            key += (value.dtype, value.shape, value.device)
        if addresses % ALIGNMENT:
            return None
        if keywords:
            key.append(exact_items(keywords.items()))
        return tuple(key), flat

    def add(
        self, given: Sequence[Any], out: Any, keywords: Mapping[str, Any], ready: Ready, sizes: Sizes | None
    ) -> None:
        """Keep a launch for calls with the signature of this call, and launches for other sizes.

        Args:
            given: the inputs.
            out: the outputs; None if each call allocates them.
            keywords: the call's constants and dims.
            ready: the launch.
            sizes: the launches for other sizes, if there are any.
        """
        key = self.key(given, out, keywords)
        if key is None:
            return
        if any(name in self._dims for name in keywords) or self._extents(key) is None:
            sizes = None  # the arrays alone do not determine the dims
        _keep(self._ready, key, ready)
        if sizes is not None:
            _keep(self._sizes, _without_shapes(key), sizes)
        if self._table is not None and not keywords and not ready.spaces:
            compiled = entry(ready.plan, ready.places)
            if compiled is not None:
                compile = None if sizes is None else sizes.compiled
                self._table.add(tuple(given), out, compiled, ready.outputs, compile)

    def key(self, given: Sequence[Any], out: Any, keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the signature of a call whose arguments were checked; None if each call needs checks."""
        if not self._kinds:
            torch = sys.modules.get("torch")
            if torch is None:
                return None
            self._kinds = (torch.Tensor, torch.nn.Parameter)
            self._grad_enabled = torch.is_grad_enabled
            self._forward_ad = torch.autograd.forward_ad
            self._dispatch_modes = torch._C._len_torch_dispatch_stack
            self._tracing_state = torch._C._get_tracing_state
            module, api = native(), exchange_api(torch)
            if module is not None and api is not None and len(self._arrays) <= module.MOST_PARAMETERS:
                watched = (self._grad_enabled, self._forward_ad, self._dispatch_modes, self._tracing_state)
                count = torch._C._increment_version
                self._table = module.Table(*self._kinds, *watched, count, api, self._numbered(), MISS)
                self.quick = self._table.call
        outs = () if out is None else out if isinstance(out, (tuple, list)) else (out,)
        arrays: list[Any] = [value for value in (*given, *outs) if value.__class__ in self._kinds]
        if any(value.is_complex() for value in arrays):
            return None  # a lazily conjugated view has the dtype and the address of its base
        read = self.read(given, out, keywords)
        return None if read is None else read[0]

    def _numbered(self) -> tuple[tuple[int, ...] | None, ...]:
        """Return the dims of each array: an extent, or -1 minus the number of a name; None for a number."""
        shapes = iter(self._shapes)
        return tuple(
            tuple(dim if isinstance(dim, int) else -1 - self._dims.index(dim) for dim in next(shapes))
            if is_array
            else None
            for is_array in self._arrays
        )


def _shapes(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the shapes of the arrays in a signature."""
    return key[3::3]


def _without_shapes(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a signature without the shapes of the arrays."""
    return (key[0], key[1], key[2::3], key[4::3])


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep a value. Beyond the largest number, the value that was kept first goes."""
    with _keeping:
        while len(kept) >= _MOST:
            del kept[next(iter(kept))]
        kept[key] = value
