"""The GPU operations that a measurement needs: events, copies of inputs, a flush of the cache, readings.

Owns :class:`Device`, the interface that a measurement uses, and :class:`TorchDevice`, which implements it
with torch. torch is imported when a measurement begins.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...core.arrays import describe, is_array
from ...core.errors import LaunchError, PyptxError, SpecError
from .readings import Reading, energy_counter, reader

__all__ = ["Device", "TorchDevice"]

#: The least number of bytes that a flush of the L2 cache writes.
_FLUSH_BYTES = 256 << 20
#: SM clock in MHz that converts the duration of a hold into cycles. No GPU has a much higher clock, so a hold
#: never lasts much less than it should.
_CLOCK = 2100


class Device(Protocol):
    """The operations of a GPU that a measurement needs. Times are microseconds.

    Attributes:
        name: the GPU's name in the result.
        l2_bytes: size of the L2 cache.
    """

    name: str
    l2_bytes: int

    def check(self, array: Any, what: str) -> None:
        """Raise :class:`SpecError` if ``array`` is not in this device's memory."""

    def clone(self, array: Any) -> Any:
        """Return a copy of ``array`` in other memory of this device."""

    def poison(self, array: Any) -> None:
        """Overwrite all elements with values that no result should have: NaNs, or integers of all ones."""

    def wide(self, array: Any) -> Any:
        """Return the elements of ``array`` in double precision."""

    def mark(self) -> Any:
        """Return an event that happens when all work enqueued so far has ended."""

    def between(self, start: Any, end: Any) -> float:
        """Return the microseconds between two events. Call :meth:`synchronize` first."""

    def flush(self) -> None:
        """Enqueue work that removes the inputs from the L2 cache."""

    def hold(self, us: float) -> None:
        """Enqueue work that keeps the GPU busy for ``us`` microseconds without touching memory."""

    def synchronize(self) -> None:
        """Wait until all enqueued work has ended."""

    def now(self) -> float:
        """Return the time of the host's clock."""

    def wait(self, event: Any) -> None:
        """Wait until an event has happened."""

    def graph(self, run: Callable[[], Any]) -> Callable[[], Any] | None:
        """Capture what ``run`` enqueues, and return a function that enqueues it again; None if that fails."""

    def host_of(self, function: Callable[..., Any], arguments: Sequence[Any]) -> float:
        """Return the least time that the host needed for a few calls of ``function``."""

    def energy(self) -> Callable[[], float | None] | None:
        """Return a function that reads the joules drawn so far; None if this machine does not count them."""

    def reader(self) -> Callable[[], Reading | None] | None:
        """Return a function that reads clocks and power, or None if this machine cannot read them."""


class TorchDevice:
    """Torch's current GPU, used on torch's current stream.

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
                hint="pyptx doctor shows this machine's GPUs; the simulator checks kernels but times none",
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
                f"{what} is in {place}: expected a tensor on cuda:{self.index}, the GPU that is measured",
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
        # Launches a kernel of torch that spins for this many cycles. Torch's own tests time with it.
        self._torch.cuda._sleep(int(us * _CLOCK))

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(self.index)

    def now(self) -> float:
        return time.perf_counter() * 1e6

    def wait(self, event: Any) -> None:
        event.synchronize()

    def graph(self, run: Callable[[], Any]) -> Callable[[], Any] | None:
        torch = self._torch
        run()  # whatever a function does at its first call cannot be captured
        self.synchronize()
        captured = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(captured):
                run()
        except (RuntimeError, PyptxError):
            self.synchronize()
            # After a capture that failed, torch's random generators work in captures alone. The end of one
            # that succeeds puts them right.
            number = torch.zeros(1, device="cuda")
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                number.zero_()
            return None
        replay: Callable[[], Any] = captured.replay
        replay()  # the first launch of a graph uploads it
        return replay

    def host_of(self, function: Callable[..., Any], arguments: Sequence[Any]) -> float:
        times = []
        for _ in range(10):
            before = self.now()
            function(*arguments)
            times.append(self.now() - before)
        self.synchronize()
        return min(times)

    def energy(self) -> Callable[[], float | None] | None:
        return None if self._uuid is None else energy_counter(self._uuid)

    def reader(self) -> Callable[[], Reading | None] | None:
        return None if self._uuid is None else reader(self._uuid)


def arrays_of(values: Any, what: str) -> list[Any]:
    """Return as a list the arrays that a function returned. Raises :class:`SpecError` for other values."""
    found = list(values) if isinstance(values, (tuple, list)) else [values]
    for value in found:
        if not is_array(value):
            raise SpecError(
                f"{what} returned {type(value).__name__}: expected an array, or a tuple of arrays",
                hint="a function that writes into an argument must return it, so that it can be verified",
            )
    return found
