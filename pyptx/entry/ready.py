"""A launch on a GPU that needs only addresses and numbers.

Owns :class:`Ready`, and the functions that allocate the outputs of such a launch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ..core.arrays import is_tensor
from ..core.records import dataclass
from ..runtime.launch import current_stream, stream_handle
from ..runtime.plan import Plan
from ..runtime.workspaces import Space, WorkspaceMemory, pool_of

__all__ = [
    "Ready",
    "allocator_like",
    "allocator_of_shape",
    "count_writes",
    "on_stream",
    "versioned",
]


@dataclass(frozen=True, slots=True)
class Ready:
    """A launch of one signature.

    Attributes:
        plan: the launch.
        places: for each parameter that a call fills, the number of the argument that gives its value.
        device_index: the GPU.
        outputs: functions of the inputs that allocate the outputs; none if the caller gives the outputs.
        spaces: the workspaces, whose addresses follow those of the outputs.
        memory: the memory of the workspaces.
    """

    plan: Plan
    places: tuple[int, ...]
    device_index: int
    outputs: tuple[Callable[[Sequence[Any]], Any], ...]
    spaces: tuple[Space, ...]
    memory: WorkspaceMemory

    def launch(self, given: Sequence[Any], flat: list[Any], out: Any, stream: Any) -> Any:
        """Launch with the addresses and numbers in ``flat``; return the outputs as the kernel's call does.

        Raises:
            SpecError: ``stream`` is not a stream, or a number does not fit its type.
            LaunchError: the driver refused the launch, or an earlier kernel failed.
        """
        device = self.device_index
        handle = current_stream(device) if stream is None else stream_handle(stream, device)
        if self.outputs:
            made = on_stream(handle, device, lambda: [allocate(given) for allocate in self.outputs])
            flat += [tensor.data_ptr() for tensor in made]
            out = made[0] if len(made) == 1 else tuple(made)
        elif out.__class__ is list or out.__class__ is tuple:
            out = out[0] if len(out) == 1 else tuple(out)
        if self.spaces:
            held = self.memory.tensors(self.spaces, device, handle)
            flat += [tensor.data_ptr() for tensor in held]
        self.plan([flat[place] for place in self.places], handle)
        if not self.outputs:
            count_writes(given if out is None else out if out.__class__ is tuple else (out,))
        return out


def versioned(values: Iterable[Any]) -> list[Any]:
    """Return the tensors among some values whose version autograd knows: not those of inference mode."""
    return [value for value in values if is_tensor(value) and not value.is_inference()]


def count_writes(written: Iterable[Any]) -> None:
    """Tell autograd that a kernel writes these tensors: what it has saved of them is no longer valid."""
    tensors = versioned(written)
    if tensors:
        sys.modules["torch"].autograd.graph.increment_version(tensors)


def on_stream(handle: int, device_index: int, make: Callable[[], list[Any]]) -> list[Any]:
    """Return torch tensors that ``make`` allocates, for a kernel that writes them on a stream.

    torch's allocator orders the use of memory by streams.  For another stream than torch's current one, the
    memory comes from that stream's pool, and is given back only when the current stream, too, has passed the
    point where the tensor is freed.
    """
    if handle == current_stream(device_index):
        return make()
    with pool_of(handle, device_index):
        made = make()
    for tensor in made:
        tensor.record_stream(sys.modules["torch"].cuda.current_stream(device_index))
    return made


def allocator_of_shape(shape: Sequence[int], dtype: Any, device: Any) -> Callable[[Sequence[Any]], Any]:
    """Return a function that allocates a torch tensor of this shape, dtype and device."""
    empty = partial(sys.modules["torch"].empty, shape, dtype=dtype, device=device)
    return lambda given: empty()


def allocator_like(number: int) -> Callable[[Sequence[Any]], Any]:
    """Return a function that allocates a torch tensor like the input ``number`` of a call."""
    empty_like = sys.modules["torch"].empty_like
    return lambda given: empty_like(given[number])
