"""Memory on GPUs that kernels need besides their arrays.

Owns :class:`WorkspaceMemory`.  torch's allocator gives the memory; launches in one stream share it, since
they run one after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

from ..core.errors import SpecError
from ..core.records import dataclass
from .driver import call, device_context, driver

__all__ = ["Space", "WorkspaceMemory", "pool_of"]

#: Largest number of streams for which a kernel keeps memory.
_STREAMS = 64


@dataclass(frozen=True, slots=True)
class Space:
    """A workspace of a launch: its size in bytes, and whether all bytes are 0 when the launch starts."""

    nbytes: int
    zeroed: bool


class WorkspaceMemory:
    """The memory of one kernel's workspaces, for each stream.

    A kernel leaves a zeroed workspace as it found it, so that the next launch in the stream needs no memset.
    A launch that is captured into a graph gets memory of its own, which each replay sets to 0: a graph may
    run in any stream, beside eager launches.  The memory stays for as long as the kernel, since it is not
    known when the graph ends, nor whether torch captures it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._captured: list[Any] = []
        self._kept: dict[tuple[int, int], list[Any]] = {}

    def tensors(self, spaces: Sequence[Space], device_index: int, stream: int) -> list[Any]:
        """Return a torch tensor for each workspace of a launch. The caller keeps them until the launch.

        Args:
            spaces: the workspaces.
            device_index: the GPU.
            stream: handle of the launch's stream.

        Raises:
            SpecError: torch is not imported.
        """
        if "torch" not in sys.modules:
            raise SpecError(
                "a workspace needs torch, whose allocator gives the memory",
                hint="import torch, or pass the memory as an array of your own",
            )
        if _is_capturing(device_index, stream):
            made = [self._allocate(space, device_index, stream) for space in spaces]
            self._captured += made
            return made
        with self._lock:
            while len(self._kept) >= _STREAMS and (device_index, stream) not in self._kept:
                del self._kept[next(iter(self._kept))]
            kept = self._kept.setdefault((device_index, stream), [None] * len(spaces))
            for number, space in enumerate(spaces):
                if kept[number] is None or kept[number].nbytes < space.nbytes:
                    kept[number] = self._allocate(space, device_index, stream)
            return list(kept)

    @staticmethod
    def _allocate(space: Space, device_index: int, stream: int) -> Any:
        torch = sys.modules["torch"]
        make: Callable[..., Any] = torch.zeros if space.zeroed else torch.empty
        with pool_of(stream, device_index):
            return make(space.nbytes, dtype=torch.uint8, device=f"cuda:{device_index}")


def pool_of(stream: int, device_index: int) -> AbstractContextManager[Any]:
    """Return a context in which torch allocates memory of a stream, and works in the stream."""
    cuda = sys.modules["torch"].cuda
    side = cuda.ExternalStream(stream, device=device_index) if stream else cuda.default_stream(device_index)
    context: AbstractContextManager[Any] = cuda.stream(side)
    return context


def _is_capturing(device_index: int, stream: int) -> bool:
    """True if a graph is captured from the stream."""
    status = driver().CUstreamCaptureStatus
    with device_context(device_index):
        return bool(call("cuStreamIsCapturing", stream) == status.CU_STREAM_CAPTURE_STATUS_ACTIVE)
