"""Predicts how long a launch takes on a GPU, from the timed machine.

Owns :class:`Prediction` and :func:`predict`. ``pyptx.sim.api.timing`` times a launch at one frequency; here
the frequency comes from the protocol of a measurement, and the result is put into the words of an author:
microseconds, TFLOP/s, what bounds the kernel, and the lines where it waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from os import PathLike
from typing import Any, Literal

import numpy as np

from ..core.errors import SpecError
from ..core.findings import Finding, Verdict
from ..core.records import dataclass
from ..dsl import Tile
from ..sim.api.timing import LaunchTimer, Timing
from ..sim.clock.stalls import Stall
from ..timing.clock import Activity, frequency
from ..timing.constants import Gpu
from ..timing.constants import gpu as gpu_of
from .arguments import KernelArguments
from .block_costs import block_costs
from .execute import request_of
from .specialize import KernelOptions, Specialization

__all__ = ["Prediction", "Protocol", "predict_launch", "with_contents"]

#: How a measurement runs the kernel: single launches with idle time between them, launches back to back for
#: seconds, or the frequency in MHz at which the multiprocessors are locked.
Protocol = Literal["burst", "sustained"] | float

_FASTEST = "sm.clock_max_mhz"
#: Times at most so often, until the frequency and the activity at it agree as closely.
_ROUNDS, _CLOSE = 4, 0.01

#: The error that 80% of the scored predictions stay below.
_ERROR = 0.13
#: Units whose work takes time that nothing can hide, in the words of the result.
_BOUNDS = {
    "tensor": "tensor",
    "L2": "L2",
    "fabric": "fabric",
    "HBM": "HBM",
    "copy engine": "copy engine",
    "issue": "issue",
    "tensor memory": "tensor memory",
    "shared memory": "shared memory",
    "link": "link",
}
#: A unit that works less than this share of the time does not bound the kernel.
_BINDING = 0.75


@dataclass(frozen=True, eq=False)
class Prediction:
    """How long a launch takes on a GPU.

    Attributes:
        entry: the kernel's name.
        gpu: the GPU's title.
        clock: the protocol.
        timing: cycles, waits and the work of each unit, of the machine.
        mhz_interval: between which frequencies the clock law places the multiprocessors.
    """

    entry: str
    gpu: str
    clock: Protocol
    timing: Timing
    mhz_interval: tuple[float, float]

    @property
    def cycles(self) -> float:
        """Cycles of the multiprocessors."""
        return self.timing.cycles

    @property
    def mhz(self) -> float:
        """Frequency of the multiprocessors."""
        return self.timing.mhz

    @property
    def microseconds(self) -> float:
        """Time of the launch in us."""
        return self.timing.nanoseconds / 1000

    @property
    def interval(self) -> tuple[float, float]:
        """Between which times in us the launch takes in about 80% of all cases.

        The width joins that of the clock law's frequencies and the error of the machine, as scored on
        published times (docs/clock.md).
        """
        low, high = self.mhz_interval
        slower, faster = self.mhz / low - 1, 1 - self.mhz / high
        return (
            self.microseconds * (1 - math.hypot(_ERROR, faster)),
            self.microseconds * (1 + math.hypot(_ERROR, slower)),
        )

    @property
    def tflops(self) -> float:
        """Floating-point operations of the tensor cores, in 10**12 a second."""
        return self.timing.flops / self.microseconds / 1e6 if self.microseconds else 0.0

    @property
    def gbps(self) -> float:
        """Bytes that memory reads and writes, in 10**9 a second."""
        moved = self.timing.traffic.fetched + self.timing.stored
        return moved / self.microseconds / 1e3 if self.microseconds else 0.0

    @property
    def busy(self) -> Mapping[str, float]:
        """Share of the time in which each unit of a multiprocessor works."""
        return self.timing.busy

    @property
    def bound(self) -> str:
        """What bounds the kernel: a unit that works nearly always, ``tail``, or ``latency``.

        Empty without a prediction.
        """
        if not self.busy:
            return ""
        name, share = max(((n, s) for n, s in self.busy.items() if n in _BOUNDS), key=lambda each: each[1])
        if share >= _BINDING:
            return _BOUNDS[name]
        waves = self.timing.placement.waves
        even = waves / -(-waves // 1)
        return "tail" if share / even >= _BINDING else "latency"

    @property
    def waits(self) -> tuple[Stall, ...]:
        """Where warps wait, longest first."""
        return self.timing.stalls

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why there is no prediction, if the run ended early."""
        return self.timing.findings

    @property
    def verdict(self) -> Verdict:
        """``clean``, or why there is no prediction."""
        return self.timing.verdict

    def __str__(self) -> str:
        if self.verdict is not Verdict.CLEAN:
            return "\n".join([f"{self.entry} on {self.gpu}: {self.verdict}", *map(str, self.findings)])
        lines = [
            f"{self.entry} on {self.gpu} at {self.mhz:.0f} MHz: {self.microseconds:.1f} us "
            f"({self.interval[0]:.1f} to {self.interval[1]:.1f}), "
            f"{self.cycles:,.0f} cycles, {self.tflops:.0f} TFLOP/s, {self.gbps:.0f} GB/s from memory",
            f"bound by: {self.bound}",
            "busy: " + ", ".join(f"{n} {s:.0%}" for n, s in self.busy.items() if s >= 0.01),
        ]
        for wait in self.timing.stalls[:5]:
            lines.append(f"waits {wait.cycles:,.0f} cycles in {wait.count}: {wait.name} at {wait.location}")
        return "\n".join(lines)


def with_contents(
    options: KernelOptions, given: Sequence[Any], dims: Mapping[str, int]
) -> tuple[list[Any], frozenset[int]]:
    """Return the inputs with an array of zeros for each shape; without inputs, for the shapes of the dims.

    The second result has the addresses of these arrays.

    Raises:
        SpecError: a shape with other than positive integers; without inputs, a kernel that takes numbers, or
            dims that are not given.
    """
    found: list[Any] = []
    unknown: list[int] = []
    if not given:
        given = _shapes_of(options, dims)
    for value, name, spec in zip_longest(given, options.names[: len(given)], options.specs[: len(given)]):
        if isinstance(value, tuple) and isinstance(spec, Tile):
            if not all(isinstance(n, int) and n > 0 for n in value):
                raise SpecError(f"{name} = {value!r}: expected an array, or a shape of positive integers")
            value = np.zeros(value, spec.dtype.dtype)
            unknown.append(value.ctypes.data)
        found.append(value)
    return found, frozenset(unknown)


def _shapes_of(options: KernelOptions, dims: Mapping[str, int]) -> list[tuple[int, ...]]:
    """Return the shapes of a kernel's inputs from its dims."""
    specs = options.specs[: options.inputs]
    numbers = [name for name, spec in zip(options.names, specs, strict=False) if not isinstance(spec, Tile)]
    if numbers:
        raise SpecError(
            f"{options.entry} takes numbers ({', '.join(numbers)}), which no dim gives",
            hint="give all inputs in order: arrays or shapes, and numbers",
        )
    missing = [name for name in options.dims if name not in dims]
    if missing:
        raise SpecError(
            f"{options.entry} has dims that were not given: {', '.join(missing)}",
            hint=f"give {missing[0]}=..., or the shapes of the inputs",
        )
    return [spec.shape(dict(dims)) for spec in specs if isinstance(spec, Tile)]


def _locked(clock: float, gpu: Gpu) -> float:
    """Return a frequency in MHz at which multiprocessors can be locked."""
    most = gpu.value(_FASTEST)
    if not 0 < clock <= most:
        raise SpecError(
            f"clock = {clock:g} MHz: the multiprocessors of the {gpu.title} run at up to {most:g}"
        )
    return clock


def predict_launch(
    special: Specialization,
    options: KernelOptions,
    arguments: KernelArguments,
    gpu: str | PathLike[str] | Gpu,
    clock: Protocol,
    timeout: float | None,
    unknown: frozenset[int],
) -> Prediction:
    """Return the prediction of a launch. Arguments and errors are those of :meth:`.Kernel.predict`."""
    constants = gpu_of(gpu if isinstance(gpu, Gpu) else str(gpu))
    request, _ = request_of(special, options, arguments, poison=False)
    timer = LaunchTimer(request, constants, block_costs(special, constants), unknown=unknown, timeout=timeout)
    mhz = constants.value(_FASTEST) if isinstance(clock, str) else _locked(float(clock), constants)
    low = high = mhz
    for _ in range(_ROUNDS):
        timing = timer.at(mhz, rested=clock != "sustained")
        if timing.verdict is not Verdict.CLEAN:
            break
        if not isinstance(clock, str):
            break
        ns = timing.nanoseconds
        activity = Activity(
            tensor=min(1.0, timing.busy["tensor"]),
            port_bytes_per_clk=timing.operands,
            l2_bytes_per_ns=timing.traffic.loaded / ns,
            hbm_bytes_per_ns=(timing.traffic.fetched + timing.stored) / ns,
            issue=min(1.0, timing.busy["issue"]),
        )
        wanted, low, high = frequency(constants, clock, activity, duration_ns=ns)
        if abs(wanted / mhz - 1) < _CLOSE:
            break
        mhz = wanted
    return Prediction(request.function.name, constants.title, clock, timing, (low, high))
