"""What bounds a launch, and between which times it lies.

Owns :func:`bound_of`, :func:`interval_of`, and :class:`Estimate`, whose instances say whether predictions
tell two launches apart. The interval joins, as squares, how far scored predictions of such launches were off
(:mod:`pyptx.timing.scores`), the interval of the frequency, and the intervals of the
constants that matter for this launch and that the scored launches did not depend on. A constant matters if
its unit bounds the launch, or would do so at the slow end of the constant's interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..core.records import dataclass
from ..sim.api.timing import Timing
from ..sim.clock.freed import PIPES
from ..timing.constants import Gpu
from ..timing.scores import Score, score_of

__all__ = ["Estimate", "bound_of", "interval_of", "stratum_by", "stratum_of"]

#: A unit that works less than this share of the time does not bound the kernel.
_BINDING = 0.75
#: A launch whose start and end take this share of its time is bound by them.
_LAUNCH = 0.5
#: The ramp of the tensor cores limits them if products take so many times their own time in it.
_RAMP = 1.05
#: The port bounds products if it works for this share of their time.
_PORT = 0.9

#: Units whose work takes time that nothing can hide, each with its stratum.
_STRATA: Mapping[str, str] = {
    "tensor": "tensor",
    "port": "tensor",
    "ramp": "tensor",
    "L2": "fabric",
    "fabric": "fabric",
    "link": "fabric",
    "copy engine": "fabric",
    "HBM": "HBM",
    "issue": "issue",
    "tensor memory": "issue",
    "shared memory": "issue",
    "L1": "issue",
    **dict.fromkeys(PIPES, "issue"),
}
#: Constants that say how fast a unit is: beginnings of names, and +1 for a rate, -1 for a duration.
_PACES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "tensor": (("mma.port_bytes", 1), ("mma.interval.", -1), ("wgmma.interval.per_n", -1), ("wgmma.pace", 1)),
    "ramp": (("tensor.ramp_share", 1),),
    "L2": (("l2.bytes", 1),),
    "fabric": (("l2.fabric_bytes", 1),),
    "link": (("tma.sm_bytes", 1),),
    "copy engine": (("tma.row_per", 1), ("tma.issue", -1)),
    "HBM": (("hbm.read_bytes", 1),),
    "issue": (("issue.per_clk", 1),),
    "tensor memory": (("tmem.load_bytes_per_clk_warp", 1),),
    "shared memory": (("lds.bytes", 1),),
    "L1": (("ldg.sectors", 1),),
}
#: Constants of ``mma.interval`` that are no pace of a whole pipe.
_NO_PACES = ("mma.interval.floor_clk", "mma.interval.loop_clk", "mma.interval.g2_m256_ss.extra_clk")


@dataclass(frozen=True)
class Estimate:
    """A predicted time.

    Attributes:
        us: the time in us, with its interval ``low`` to ``high``.
        low, high: the interval.
        bound: what bounds the launch.
        apart: share by which the time of another launch must differ, on the same GPU under the same protocol,
            for the order to be known; None if only intervals decide.
        conditions: the GPU and the protocol.
    """

    us: float
    low: float
    high: float
    bound: str
    apart: float | None
    conditions: tuple[str, str | float]

    def __str__(self) -> str:
        return f"{self.us:.2f} us ({self.low:.2f} to {self.high:.2f}), bound by {self.bound}"

    def overlaps(self, other: Estimate) -> bool:
        """True if the predictions do not tell which launch is faster.

        Errors of two predictions under the same conditions are alike, so that scored pairs decide if there
        are any. Otherwise the intervals must have no time in common.
        """
        if self.conditions == other.conditions and self.apart is not None and other.apart is not None:
            return max(self.us, other.us) < min(self.us, other.us) * (1 + max(self.apart, other.apart))
        return self.low <= other.high and other.low <= self.high


def _working(busy: Mapping[str, float]) -> dict[str, float]:
    """Return the units that may bound a launch; the ramp only if it limits the tensor cores."""
    found = {name: share for name, share in busy.items() if name in _STRATA}
    if found.get("ramp", 0.0) <= _RAMP * found.get("tensor", 0.0):
        found.pop("ramp", None)
    return found


def bound_of(timing: Timing, gpu: Gpu) -> str:
    """Return what bounds a launch: a unit that works nearly always, ``launch``, ``tail`` or ``latency``.

    Empty for a launch that has no time.
    """
    working = _working(timing.busy)
    if not working:
        return ""
    name = max(working, key=lambda each: working[each])
    share = working[name]
    if share >= _BINDING:
        if name == "tensor" and timing.operands / gpu.value("mma.port_bytes_per_clk") >= _PORT * share:
            return "port"
        return name
    if gpu.value("launch.ns") >= _LAUNCH * timing.nanoseconds:
        return "launch"
    return "tail" if share / timing.evenness >= _BINDING else "latency"


def stratum_of(timing: Timing, gpu: Gpu) -> str:
    """Return the stratum of scores to which a launch belongs."""
    return stratum_by(bound_of(timing, gpu), timing.busy)


def stratum_by(bound: str, busy: Mapping[str, float]) -> str:
    """Return the stratum of what bounds a launch, by its busiest unit if that is a tail."""
    if bound == "tail":
        working = _working(busy)
        bound = max(working, key=lambda each: working[each])
    return _STRATA.get(bound, "latency")


def interval_of(timing: Timing, gpu: Gpu, mhz: tuple[float, float]) -> tuple[float, float]:
    """Return between which times in ns a launch takes in about 80% of all cases.

    Args:
        timing: the launch at its frequency.
        gpu: the constants.
        mhz: the interval of the frequency.
    """
    score = score_of(gpu, stratum_of(timing, gpu))
    changes = [(score.low - 1, score.high - 1), (timing.mhz / mhz[1] - 1, timing.mhz / mhz[0] - 1)]
    changes += [*_of_units(timing, gpu, score), *_of_launch(timing, gpu, score)]
    down = math.hypot(*(min(0.0, *each) for each in changes))
    up = math.hypot(*(max(0.0, *each) for each in changes))
    return timing.nanoseconds * max(0.0, 1 - down), timing.nanoseconds * (1 + up)


def _of_units(timing: Timing, gpu: Gpu, score: Score) -> Iterator[tuple[float, float]]:
    """Yield by which share the time changes at both ends of each unit's pace."""
    working = _working(timing.busy)
    if not working:
        return
    most = max(working.values())
    # What no unit fills would not pass faster with a faster unit.
    bound = most >= _BINDING
    for unit, paces in _PACES.items():
        ends = []
        for name, constant in gpu.constants.items():
            exponent = next((sign for start, sign in paces if name.startswith(start)), 0)
            value, low, high = constant.value, constant.low, constant.high
            if not exponent or name in _NO_PACES or score.contains(name):
                continue
            if isinstance(value, tuple) or isinstance(low, tuple) or isinstance(high, tuple) or not value:
                continue
            ends += [(end / value) ** exponent for end in (low, high)]
        for pace in (min(ends, default=1.0), max(ends, default=1.0)):
            others = max((share for name, share in working.items() if name != unit), default=0.0)
            changed = max(others, working.get(unit, 0.0) / pace) if pace else math.inf
            yield (changed - most, 0.0) if bound else (max(0.0, changed - 1.0), 0.0)


def _of_launch(timing: Timing, gpu: Gpu, score: Score) -> Iterator[tuple[float, float]]:
    """Yield by which share the time changes at both ends of what starting a kernel takes."""
    constant = gpu.constant("launch.ns")
    value, low, high = constant.value, constant.low, constant.high
    assert not (isinstance(value, tuple) or isinstance(low, tuple) or isinstance(high, tuple))
    if not score.contains("launch.ns") and timing.nanoseconds:
        yield (low - value) / timing.nanoseconds, (high - value) / timing.nanoseconds
