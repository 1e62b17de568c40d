"""Calls of a kernel on a GPU that differ from an earlier call in addresses and numbers alone.

Owns :class:`Signatures`: the launches of one kernel that are ready, by signature.  A signature is what a
launch was checked and packed for: dtype, shape and device of each tensor, the number of tensors that were
given, and the constants.  What else may change is looked at in every call: strides, alignment, gradients,
numbers, the stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..runtime.launch import current_stream, stream_handle
from ..runtime.plan import Plan
from ..runtime.quick import entry, exchange_api, native
from .arguments import ALIGNMENT

if TYPE_CHECKING:
    from ..runtime._quick import Table

__all__ = ["MISS", "Ready", "Signatures"]

#: Returned for a call that needs all checks.
MISS: Any = object()
#: Largest number of launches that a kernel keeps ready; the one that was made first goes first.
_MOST = 1024


@dataclass(frozen=True, slots=True)
class Ready:
    """A launch of one signature.

    Attributes:
        plan: the launch.
        places: for each parameter of the entry, the number of the argument that gives its value.
        device_index: the GPU.
        outputs: functions of the inputs that allocate the outputs; none if the caller gives the outputs.
    """

    plan: Plan
    places: tuple[int, ...]
    device_index: int
    outputs: tuple[Callable[[Sequence[Any]], Any], ...]

    def launch(self, given: Sequence[Any], flat: list[Any], out: Any, stream: Any) -> Any:
        """Launch with the addresses and numbers in ``flat``; return the outputs as the kernel's call does.

        Raises:
            SpecError: ``stream`` is not a stream, or a number does not fit its type.
            LaunchError: the driver refused the launch, or an earlier kernel failed.
        """
        device = self.device_index
        handle = current_stream(device) if stream is None else stream_handle(stream, device)
        if self.outputs:
            made = [allocate(given) for allocate in self.outputs]
            flat += [tensor.data_ptr() for tensor in made]
            out = made[0] if len(made) == 1 else tuple(made)
        elif out.__class__ is list or out.__class__ is tuple:
            out = out[0] if len(out) == 1 else tuple(out)
        self.plan([flat[place] for place in self.places], handle)
        return out


def _miss(given: Sequence[Any], out: Any, stream: Any) -> Any:
    """The compiled path, where there is none."""
    return MISS


class Signatures:
    """The launches of one kernel that are ready.

    Args:
        arrays: for each parameter of the kernel, whether it is an array.
    """

    __slots__ = ("_arrays", "_grad_enabled", "_kinds", "_ready", "_table", "quick")

    def __init__(self, arrays: Sequence[bool]) -> None:
        self._arrays = tuple(arrays)
        self._ready: dict[Any, Ready] = {}
        #: The classes of torch whose objects have memory of their own.
        self._kinds: tuple[type, ...] = ()
        self._grad_enabled: Callable[[], bool] = bool
        #: The compiled path, and its call for a kernel's inputs, outputs and stream, without constants.
        self._table: Table | None = None
        self.quick: Callable[[Sequence[Any], Any, Any], Any] = _miss

    def __call__(self, given: Sequence[Any], out: Any, stream: Any, keywords: Mapping[str, Any]) -> Any:
        """Launch, and return what the kernel's call returns; :data:`MISS` if nothing was launched.

        Raises:
            SpecError, LaunchError: as :meth:`Ready.launch`.
        """
        if not self._ready:
            return MISS
        read = self.read(given, out, keywords)
        if read is None:
            return MISS
        try:
            ready = self._ready.get(read[0])
        except TypeError:  # a constant that has no hash
            return MISS
        return MISS if ready is None else ready.launch(given, read[1], out, stream)

    def read(
        self, given: Sequence[Any], out: Any, keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], list[Any]] | None:
        """Return the signature of a call, and the addresses and numbers of its arguments.

        None if the full checks must look at the call, as at each with arrays of other libraries than torch.
        """
        values: list[Any] | tuple[Any, ...]
        if out is None:
            values = tuple(given)
        elif out.__class__ is tuple or out.__class__ is list:
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
            # 1, True and 1.0 are equal and have one hash, but they are different constants.
            key.append(tuple((name, value.__class__, value) for name, value in keywords.items()))
        return tuple(key), flat

    def add(self, given: Sequence[Any], out: Any, keywords: Mapping[str, Any], ready: Ready) -> None:
        """Keep a launch for calls with the signature of this call."""
        key = self.key(given, out, keywords)
        if key is None:
            return
        while len(self._ready) >= _MOST:
            del self._ready[next(iter(self._ready))]
        self._ready[key] = ready
        if self._table is not None and not keywords:
            compiled = entry(ready.plan, ready.places)
            if compiled is not None:
                self._table.add(tuple(given), out, compiled, ready.outputs)

    def key(self, given: Sequence[Any], out: Any, keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the signature of a call whose arguments were checked; None if each call needs checks."""
        if not self._kinds:
            torch = sys.modules.get("torch")
            if torch is None:
                return None
            self._kinds = (torch.Tensor, torch.nn.Parameter)
            self._grad_enabled = torch.is_grad_enabled
            module, api = native(), exchange_api(torch)
            if module is not None and api is not None and len(self._arrays) <= module.MOST_PARAMETERS:
                flags = bytes(self._arrays)
                self._table = module.Table(*self._kinds, self._grad_enabled, api, flags, MISS)
                self.quick = self._table.call
        outs = () if out is None else out if isinstance(out, (tuple, list)) else (out,)
        arrays: list[Any] = [value for value in (*given, *outs) if value.__class__ in self._kinds]
        if any(value.is_complex() for value in arrays):
            return None  # a lazily conjugated view has the dtype and the address of its base
        read = self.read(given, out, keywords)
        return None if read is None else read[0]
