"""The GPU as a measurement needs it: events, copies of inputs, a flush of the cache, readings.

Owns :class:`Device`, which a measurement is written against, and :class:`TorchDevice`, which is one by torch.
torch is imported when a measurement begins.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from ...core.arrays import describe, is_array
from ...core.errors import LaunchError, SpecError
from .readings import Reading, reader

__all__ = ["Device", "TorchDevice"]

#: Bytes that a flush writes at least.
_FLUSH_BYTES = 256 << 20
#: Clock in MHz by which a hold is counted: that of no GPU is much higher, so that a hold is not shorter.
_CLOCK = 2100


class Device(Protocol):
    """What a measurement asks of a GPU. Times are microseconds.

    Attributes:
        name: what the result calls it.
        l2_bytes: size of its L2 cache.
    """

    name: str
    l2_bytes: int

    def check(self, array: Any, what: str) -> None:
        """Raise :class:`SpecError` if ``array`` is not in this device's memory."""

    def clone(self, array: Any) -> Any:
        """A copy elsewhere in its memory."""

    def poison(self, array: Any) -> None:
        """Overwrite all elements with values that no result has: NaNs, and integers of all ones."""

    def wide(self, array: Any) -> Any:
        """Its elements in double precision."""

    def mark(self) -> Any:
        """An event that happens when everything enqueued so far has ended."""

    def between(self, start: Any, end: Any) -> float:
        """Microseconds from one event to another, after :meth:`synchronize`."""

    def flush(self) -> None:
        """Enqueue what leaves nothing of the inputs in the L2 cache."""

    def hold(self, us: float) -> None:
        """Enqueue what keeps the GPU busy for so long without touching memory."""

    def synchronize(self) -> None:
        """Wait for everything enqueued."""

    def now(self) -> float:
        """The host's clock."""

    def reader(self) -> Callable[[], Reading | None] | None:
        """What reads clocks and power, or None if nothing here can."""


class TorchDevice:
    """The GPU that torch has current, on torch's current stream.

    Raises:
        LaunchError: torch is not installed, or sees no GPU.
    """

    def __init__(self) -> None:
        try:
            torch: Any = importlib.import_module("torch")
        except ImportError:
            raise LaunchError(
                "pyptx.bench times functions of CUDA tensors, and torch is not installed",
                hint="pip install torch, on a machine with a GPU",
            ) from None
        if not torch.cuda.is_available():
            raise LaunchError(
                "pyptx.bench needs a GPU, and torch sees none",
                hint="pyptx doctor says what this machine has; the simulator checks kernels and times none",
            )
        self._torch = torch
        self.index = int(torch.cuda.current_device())
        properties = torch.cuda.get_device_properties(self.index)
        self.name = str(properties.name)
        self.l2_bytes = int(properties.L2_cache_size)
        uuid = getattr(properties, "uuid", None)
        self._uuid = None if uuid is None else f"GPU-{uuid}"
        self._flushed: Any = None

    def check(self, array: Any, what: str) -> None:
        info = describe(array)
        if info.device != "cuda" or info.device_index != self.index:
            place = "host memory" if info.device == "cpu" else f"cuda:{info.device_index}"
            raise SpecError(
                f"{what} is in {place}: expected a tensor on cuda:{self.index}, which is measured",
                hint="pass tensor.cuda()",
            )

    def clone(self, array: Any) -> Any:
        return array.clone()

    def poison(self, array: Any) -> None:
        if array.is_contiguous():
            array.view(-1).view(self._torch.uint8).fill_(0xFF)
        else:
            array.fill_(float("nan") if array.is_floating_point() else -1)

    def wide(self, array: Any) -> Any:
        return array.detach().to(self._torch.float64)

    def mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) * 1e3

    def flush(self) -> None:
        if self._flushed is None:
            nbytes = max(2 * self.l2_bytes, _FLUSH_BYTES)
            self._flushed = self._torch.empty(nbytes // 4, dtype=self._torch.int32, device=self.index)
        self._flushed.zero_()

    def hold(self, us: float) -> None:
        # A kernel of torch that spins for this many cycles; its own tests measure with it.
        self._torch.cuda._sleep(int(us * _CLOCK))

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(self.index)

    def now(self) -> float:
        return time.perf_counter() * 1e6

    def reader(self) -> Callable[[], Reading | None] | None:
        return None if self._uuid is None else reader(self._uuid)


def arrays_of(values: Any, what: str) -> list[Any]:
    """The arrays that a function returned. Raises :class:`SpecError` for anything else."""
    found = list(values) if isinstance(values, (tuple, list)) else [values]
    for value in found:
        if not is_array(value):
            raise SpecError(
                f"{what} returned {type(value).__name__}: expected an array, or a tuple of arrays",
                hint="a function that writes into an argument must return it, so that it can be verified",
            )
    return found
