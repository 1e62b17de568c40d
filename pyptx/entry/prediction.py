"""Predicts how long a launch takes on a GPU, from the timed machine.

Owns :class:`Prediction` and :func:`predict_request`. ``pyptx.sim.api.timing`` times a launch at one
frequency; here the frequency comes from the protocol of a measurement, and the result is put into the words
of an author: microseconds, TFLOP/s, what bounds the kernel, and the lines where it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from os import PathLike
from typing import Literal, get_args

from ..core.arrays import describe
from ..core.errors import SpecError
from ..core.findings import Finding, Verdict
from ..core.records import dataclass
from ..sim.api.runs import Request
from ..sim.api.timeline import DEFAULT_EVENTS
from ..sim.api.timing import LaunchTimer, Timing
from ..sim.api.unknown import arrays_in, unknown_addresses
from ..sim.clock.freed import UNITS as _FREED
from ..sim.clock.stalls import Stall, WarpGroup, grouped, merged
from ..sim.clock.units import L2State
from ..timeline import Timeline
from ..timing.clock import Activity, frequency
from ..timing.constants import Gpu, gpu_for
from ..timing.constants import gpu as gpu_of
from ..timing.opcodes import HMMA
from ..timing.scores import score_of
from ..timing.tensor import tensor_pace, with_pace
from .block_costs import BlockCosts, Schedule
from .bounds import Estimate, bound_of, interval_of, stratum_of
from .prediction_text import described, markdown, times

__all__ = [
    "UNITS",
    "Conditions",
    "Contents",
    "Prediction",
    "Protocol",
    "predict_request",
]

#: How a measurement runs the kernel: single launches with idle time between them, launches back to back for
#: seconds, or the frequency in MHz at which the multiprocessors are locked.
Protocol = Literal["burst", "sustained"] | float

#: What arrays hold of which only the shapes are given, where that decides which way a thread goes: it is
#: unknown, and the prediction ends, or zeros.
Contents = Literal["unknown", "zeros"]

_FASTEST = "sm.clock_max_mhz"
#: The GPU for targets that no GPU of the package has.
_DEFAULT = "b200"
#: Times at most so often, until the frequency and the activity at it agree as closely.
_ROUNDS, _CLOSE = 4, 0.01

#: What :meth:`Prediction.without` removes, and what a launch is like without it.
UNITS: Mapping[str, str] = {**_FREED, "tail": "all places of the chip have as much work as the mean"}


@dataclass(frozen=True)
class Conditions:
    """How a launch is measured that a prediction stands for; :meth:`.Kernel.predict` describes each field."""

    gpu: str | PathLike[str] | Gpu | None = None
    clock: Protocol = "sustained"
    timeout: float | None = None
    data: str | float = "normal"
    l2: L2State = "rotating"
    contents: Contents = "unknown"

    def constants(self, target: str) -> Gpu:
        """Return the constants of the GPU, by default of the one that runs kernels of the target.

        Raises:
            SpecError: there is no such GPU, or a field has a value that it cannot have.
        """
        given = (("l2", self.l2, L2State), ("contents", self.contents, Contents))
        for name, value, known in given:
            if value not in get_args(known):
                expected = ", ".join(map(repr, get_args(known)))
                raise SpecError(f"{name} = {value!r}: expected one of {expected}")
        return with_pace(_chosen(self.gpu, target), Activity(data=self.data).toggling)


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """How long a launch takes on a GPU.

    Attributes:
        entry: the kernel's name.
        constants: the GPU.
        clock: the protocol.
        timing: cycles, waits and the work of each unit, of the machine.
        mhz_interval: between which frequencies the clock law places the multiprocessors.
        lifted: the unit that has no limit here (:meth:`without`), or empty.
        timer: runs the launch again for other questions.
        schedule: ``"ptxas"`` if the code of threads costs what ptxas's schedule of the machine code says;
            ``"default"`` if it costs a default expansion of each instruction.
        schedule_reason: why the costs are not those of ptxas; empty if they are.
    """

    entry: str
    constants: Gpu
    clock: Protocol
    timing: Timing
    mhz_interval: tuple[float, float]
    timer: LaunchTimer
    schedule: Schedule
    schedule_reason: str
    lifted: str = ""
    _without: dict[str, Prediction] = field(default_factory=dict)

    # --- figures ----------------------------------------------------------------------------------

    @property
    def gpu(self) -> str:
        """The GPU's title."""
        return self.constants.title

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

        :mod:`pyptx.entry.bounds` says what it joins.
        """
        low, high = interval_of(self.timing, self.constants, self.mhz_interval)
        return low / 1000, high / 1000

    @property
    def estimate(self) -> Estimate:
        """The time with its interval, to compare with others: ``estimate.overlaps(other.estimate)``."""
        low, high = self.interval
        apart = score_of(self.constants, stratum_of(self.timing, self.constants)).apart
        return Estimate(self.microseconds, low, high, self.bound, apart, (self.gpu, self.clock))

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
        """What bounds the kernel: a unit that works nearly always, ``launch``, ``tail`` or ``latency``.

        Empty without a prediction.
        """
        return bound_of(self.timing, self.constants)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why there is no prediction, if the run ended early."""
        return self.timing.findings

    @property
    def verdict(self) -> Verdict:
        """``clean``, or why there is no prediction."""
        return self.timing.verdict

    # --- waits ------------------------------------------------------------------------------------

    @property
    def stalls(self) -> tuple[Stall, ...]:
        """Where each warp of a cluster waits, for what and at which barrier, longest first."""
        return self.timing.stalls

    @property
    def waits(self) -> tuple[Stall, ...]:
        """The same, with the waits of all warps at one line for one thing as one, longest first."""
        return merged(self.timing.stalls)

    @property
    def lines(self) -> dict[str, float]:
        """Cycles that the warps of a cluster wait at each line, in all; the line with the most first.

        A line is ``path:number``, whatever calls led to it.
        """
        return _sums((str(each.location), each.cycles) for each in self.stalls if each.location)

    @property
    def barriers(self) -> dict[str, float]:
        """Cycles that the warps of a cluster wait at each barrier, in all; the barrier with the most first.

        An mbarrier goes by the name of the buffer that holds it: all stages of a ring are one.
        """
        return _sums((each.barrier, each.cycles) for each in self.stalls if each.barrier)

    @property
    def warps(self) -> tuple[WarpGroup, ...]:
        """The warps of a cluster, in groups that wait alike, and the share of their time that waits take."""
        return grouped(self.timing.stalls, self.timing.lives)

    # --- further questions ------------------------------------------------------------------------

    def without(self, unit: str | None = None) -> Prediction:
        """Return how long the launch would take if a unit had no limit, at the same frequency.

        The launch runs again at the first call for a unit.

        Args:
            unit: a name of :data:`UNITS`; by default what bounds the launch.

        Raises:
            SpecError: there is no such unit, or no prediction.
        """
        name = self.bound if unit is None else unit
        if self.verdict is not Verdict.CLEAN:
            raise SpecError(f"{self.entry} has no prediction: {self.verdict}")
        if self.lifted:
            raise SpecError(
                f"{self.lifted} has no limit in this prediction already: one unit at a time is removed"
            )
        if name not in UNITS:
            near = get_close_matches(str(name), UNITS, 1)
            raise SpecError(
                f"unit {name!r}: expected one of {', '.join(UNITS)}",
                hint=f"did you mean {near[0]!r}?" if near else "",
            )
        found = self._without.get(name)
        if found is None:
            found = self._without[name] = replace(self, timing=self._freed(name), lifted=name, _without={})
        return found

    def _freed(self, unit: str) -> Timing:
        if unit == "tail":
            # The launch itself takes its time whatever the clusters do.
            start = self.constants.value("launch.ns") * self.mhz / 1000
            cycles = start + max(0.0, self.cycles - start) * self.timing.evenness
            return replace(self.timing, cycles=cycles, evenness=1.0)
        self.timer.restart()
        return self.timer.at(self.mhz, rested=_rested(self.clock), without=unit)

    def timeline(self, events: int = DEFAULT_EVENTS) -> Timeline:
        """Return what the clusters of one position of the chip do, with times in ns from the timed machine.

        The launch runs again.

        Args:
            events: the most events that are kept; further ones are counted in ``dropped``.

        Raises:
            SpecError: the launch cannot run, or a unit has no limit in this prediction.
        """
        if self.lifted:
            raise SpecError(f"there are timelines of real launches only: {self.lifted} has no limit here")
        self.timer.restart()
        return self.timer.timeline(self.mhz, events, rested=_rested(self.clock))

    # --- text -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if self.verdict is not Verdict.CLEAN:
            return f"<prediction of {self.entry} on {self.gpu}: {self.verdict}>"
        return f"<prediction of {self.entry} on {self.gpu}: {times(self)}, bound by {self.bound}>"

    def __str__(self) -> str:
        return "\n".join(described(self))

    def _repr_markdown_(self) -> str:
        """Return what a notebook shows."""
        return markdown(self)


def _sums(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the sum of the numbers of each key, the largest first."""
    found: dict[str, float] = {}
    for key, number in rows:
        found[key] = found.get(key, 0.0) + number
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _by_warps(timing: Timing, gpu: Gpu) -> float:
    """Return what ``mma.sync`` computes, as a share of what tensor cores can."""
    share = gpu.value("hmma.flops_per_clk_16bit") / gpu.value("tensor.flops_per_clk_16bit")
    return timing.busy.get(HMMA, 0.0) * share


def _rested(clock: Protocol) -> bool:
    """True if the chip is idle before a launch of a measurement."""
    return clock != "sustained"


def _locked(clock: float, gpu: Gpu) -> float:
    """Return a frequency in MHz at which multiprocessors can be locked."""
    most = gpu.value(_FASTEST)
    if not 0 < clock <= most:
        raise SpecError(
            f"clock = {clock:g} MHz: the multiprocessors of the {gpu.title} run at up to {most:g}"
        )
    return clock


def _chosen(gpu: str | PathLike[str] | Gpu | None, target: str) -> Gpu:
    """Return the constants of a GPU; by default those of the GPU that runs kernels of a target."""
    if gpu is None:
        return gpu_for(target) or gpu_of(_DEFAULT)
    return gpu_of(gpu if isinstance(gpu, Gpu) else str(gpu))


def predict_request(
    request: Request, conditions: Conditions, zeroed: frozenset[int] = frozenset()
) -> Prediction:
    """Return the prediction of a checked launch.

    Args:
        request: the launch, whose arrays may be :class:`~pyptx.sim.UnknownArray`.
        conditions: how it is measured.
        zeroed: positions of arrays that are zero when the launch begins and that its CTAs work with.

    Raises:
        SpecError: the arguments do not fit the entry, the conditions are wrong, or the GPU does not run the
            target.
    """
    constants = conditions.constants(request.module.module.target)
    clock, data = conditions.clock, conditions.data
    # A flag there depends on CTAs that are not simulated, as unknown contents do.
    spaces = frozenset(describe(each).pointer for each in arrays_in(request.args[n] for n in zeroed))
    unknown = unknown_addresses(request.args) - spaces
    costs = BlockCosts(request.module, request.function.name, constants)
    timer = LaunchTimer(
        request,
        constants,
        costs,
        unknown=unknown,
        assumed=conditions.contents == "zeros" and bool(unknown),
        zeroed=spaces,
        timeout=conditions.timeout,
        l2=conditions.l2,
        registers=costs.registers,
    )
    mhz = constants.value(_FASTEST) if isinstance(clock, str) else _locked(float(clock), constants)
    low = high = mhz
    for _ in range(_ROUNDS):
        timing = timer.at(mhz, rested=_rested(clock))
        if timing.verdict is not Verdict.CLEAN:
            break
        if not isinstance(clock, str):
            break
        ns = timing.nanoseconds
        # Power follows the products, not the time for which the pipe is taken.
        activity = Activity(
            tensor=min(1.0, timing.busy["tensor"] * tensor_pace(constants) + _by_warps(timing, constants)),
            port_bytes_per_clk=timing.operands,
            l2_bytes_per_ns=(timing.traffic.loaded + timing.traffic.again) / ns,
            hbm_bytes_per_ns=(timing.traffic.fetched + timing.stored) / ns,
            issue=min(1.0, timing.busy["issue"]),
            data=data,
        )
        wanted, low, high = frequency(constants, clock, activity, duration_ns=ns)
        if abs(wanted / mhz - 1) < _CLOSE:
            break
        mhz = wanted
    return Prediction(
        request.function.name,
        constants,
        clock,
        timing,
        (low, high),
        timer,
        costs.schedule,
        costs.reason,
    )
