"""The clock that a kernel runs at: what the power limit leaves of the maximum.

Owns the law of power and the protocols.  The power of a board is

    static + x v^2 (base + mma * tensor + port * bytes + simt * issue) + l2 * bytes + hbm * bytes

where x is the clock over its maximum and v the voltage over that at the maximum, a line in x.  The governor
lowers the clock until the power is at most the limit.  Below the limit, too, tensor cores lower it: any use
of them by ``power.tensor_droop``, lasting use by ``power.sustained_droop`` times their share of the time.
For some hundred microseconds after an idle time the governor allows more (``power.burst_limit_w``), and it
approaches the sustained clock with the time constant ``power.governor_ns``.

Two sets of coefficients exist.  :attr:`PowerFit.DERIVED` was fitted to no ladder of kernels: for the H200 to
cuBLAS at two sizes, and for the B200 it is the H200's, scaled by the data sheets.  :attr:`PowerFit.LADDER`
(B200) was fitted to the clocks of the Tilus ladder at 8192 cubed, and must not be used to score that ladder.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

from ..core.errors import SpecError
from ..core.records import dataclass
from .constants import Gpu

__all__ = ["Activity", "PowerFit", "frequency", "power"]

#: Share of the difference between the energies of zeros and of normally distributed data.
_DATA = {"zeros": 0.0, "normal": 1.0}
#: Share of the time up to which tensor cores count as not in use.
_UNUSED = 0.02
_LOWEST = 0.1  # of the maximum clock, where the search begins
_HALVINGS = 40


class PowerFit(Enum):
    """Where the coefficients of the power law come from."""

    DERIVED = "power"
    LADDER = "power.ladder"


@dataclass(frozen=True)
class Activity:
    """What a kernel does while it runs, averaged over its time and over the SMs.

    Attributes:
        tensor: share of cycles in which the tensor pipe is busy, 0 to 1.
        port_bytes_per_clk: operand reads of the tensor core from shared memory, of one SM.
        l2_bytes_per_ns: bytes that L2 gives to all SMs, multicast counted once.
        hbm_bytes_per_ns: bytes to and from HBM.
        issue: share of issue slots in use, 0 to 1.
        data: ``"zeros"``, ``"normal"``, or a number: 0 costs what zeros cost, 1 what normal data cost.
    """

    tensor: float = 0.0
    port_bytes_per_clk: float = 0.0
    l2_bytes_per_ns: float = 0.0
    hbm_bytes_per_ns: float = 0.0
    issue: float = 0.0
    data: str | float = "normal"

    @property
    def toggling(self) -> float:
        """The data as a number from 0 (zeros) to 1 (normal).

        Raises:
            SpecError: the data is neither a known word nor such a number.
        """
        if isinstance(self.data, str) and self.data not in _DATA:
            raise SpecError(
                f"data {self.data!r}: expected {', '.join(map(repr, _DATA))} or a number from 0 to 1"
            )
        if not isinstance(self.data, str) and not 0 <= self.data <= 1:
            raise SpecError(f"data = {self.data}: expected a number from 0 (zeros) to 1 (normal)")
        return _DATA[self.data] if isinstance(self.data, str) else self.data


def power(gpu: Gpu, mhz: float, activity: Activity, fit: PowerFit = PowerFit.DERIVED) -> float:
    """Return the power in W of a board whose SMs run at `mhz`.

    Raises:
        SpecError: an activity outside its range, or the GPU has no such fit.
    """
    _check(activity)
    x = mhz / gpu.value("sm.clock_max_mhz")
    floor = gpu.value("power.voltage_floor")
    voltage = floor + (1 - floor) * x
    normal = gpu.value(f"{fit.value}.mma_w")
    zeros = normal * gpu.value("power.zeros_share")
    mma = zeros + activity.toggling * (normal - zeros)
    # Operand reads toggle as the products do. pJ/B x B/ns = mW; the bytes are those at the maximum clock.
    port_bytes = activity.port_bytes_per_clk * gpu.value("sm.count") * gpu.value("sm.clock_max_mhz") / 1000
    port = gpu.value("power.port_pj_per_byte") * port_bytes / 1000 * mma / normal
    dynamic = gpu.value(f"{fit.value}.base_w") + mma * activity.tensor + port
    dynamic += gpu.value("power.simt_w") * activity.issue
    memory = gpu.value("power.l2_pj_per_byte") * activity.l2_bytes_per_ns
    memory += gpu.value("power.hbm_pj_per_byte") * activity.hbm_bytes_per_ns
    return gpu.value("power.static_w") + x * voltage**2 * dynamic + memory / 1000


def frequency(
    gpu: Gpu,
    protocol: str | float,
    activity: Activity,
    *,
    duration_ns: float = 0.0,
    fit: PowerFit = PowerFit.DERIVED,
) -> tuple[float, float, float]:
    """Return the average clock of the SMs while a kernel runs, with an interval.

    Args:
        gpu: the constants.
        protocol: ``"sustained"``: launches back to back for a second and more.  ``"burst"``: single launches
            with idle time between them.  A number: the clock in MHz that the SMs are locked at.
        activity: what the kernel does.
        duration_ns: how long one launch takes; counts under ``"burst"`` alone.
        fit: the coefficients of the power law.

    Returns:
        MHz, and the lower and the upper end of its interval: each coefficient of the law alone is moved to
        the ends of its own interval, and the differences are added as squares.

    Raises:
        SpecError: an unknown protocol, an activity outside its range, or the GPU has no such fit.
    """
    _check(activity)
    if isinstance(protocol, str) and protocol not in ("sustained", "burst"):
        raise SpecError(
            f"protocol {protocol!r}: expected 'sustained', 'burst' or a clock in MHz",
            hint="a locked clock is a number, such as 1300",
        )
    if not isinstance(protocol, str) and not 0 < protocol <= gpu.value("sm.clock_max_mhz"):
        raise SpecError(
            f"a clock of {protocol} MHz: {gpu.title} runs at 1 to {gpu.value('sm.clock_max_mhz'):g}"
        )

    def law(changed: Gpu) -> float:
        return _average(changed, protocol, activity, duration_ns, fit)

    return _with_interval(law, gpu, fit)


def _average(gpu: Gpu, protocol: str | float, activity: Activity, duration_ns: float, fit: PowerFit) -> float:
    rested = _top(gpu, activity)
    lasting = min(rested, 1 - gpu.value("power.sustained_droop") * activity.tensor)
    sustained = _capped(gpu, activity, lasting, gpu.value("power.limit_w"), fit)
    if not isinstance(protocol, str):
        return min(float(protocol), sustained)
    if protocol == "sustained":
        return sustained
    start = _capped(gpu, activity, rested, gpu.value("power.burst_limit_w"), fit)
    lives = duration_ns / gpu.value("power.governor_ns")
    share = -math.expm1(-lives) / lives if lives > 0 else 1.0  # the mean of exp(-t) over the launch
    return sustained + (start - sustained) * share


def _top(gpu: Gpu, activity: Activity) -> float:
    """Return the share of the maximum clock that tensor cores leave a chip with power to spare."""
    droop = gpu.value("power.droop") * activity.tensor**2
    if activity.tensor > _UNUSED:
        droop = max(droop, gpu.value("power.tensor_droop"))
    return 1 - droop


def _capped(gpu: Gpu, activity: Activity, top: float, limit: float, fit: PowerFit) -> float:
    """Return the highest clock in MHz, at most a share `top`, at which the power is at most `limit`."""
    top *= gpu.value("sm.clock_max_mhz")
    if power(gpu, top, activity, fit) <= limit:
        return top
    low, high = _LOWEST * top, top
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if power(gpu, middle, activity, fit) <= limit:
            low = middle
        else:
            high = middle
    return low


def _with_interval(law: Callable[[Gpu], float], gpu: Gpu, fit: PowerFit) -> tuple[float, float, float]:
    value, below, above = law(gpu), 0.0, 0.0
    for name in (*_LAW, f"{fit.value}.base_w", f"{fit.value}.mma_w"):
        constant = gpu.constant(name)
        ends = [law(gpu.with_values({name: end})) - value for end in (constant.low, constant.high)]
        below += min(0.0, *ends) ** 2
        above += max(0.0, *ends) ** 2
    top = gpu.constant("sm.clock_max_mhz").high
    assert not isinstance(top, tuple)
    return value, max(0.0, value - math.sqrt(below)), min(top, value + math.sqrt(above))


_LAW = (
    "sm.clock_max_mhz",
    "power.limit_w",
    "power.burst_limit_w",
    "power.governor_ns",
    "power.static_w",
    "power.voltage_floor",
    "power.zeros_share",
    "power.port_pj_per_byte",
    "power.l2_pj_per_byte",
    "power.hbm_pj_per_byte",
    "power.simt_w",
    "power.droop",
    "power.tensor_droop",
    "power.sustained_droop",
)


def _check(activity: Activity) -> None:
    for name in ("tensor", "issue"):
        share = getattr(activity, name)
        if not 0 <= share <= 1:
            raise SpecError(f"{name} = {share}: expected a share from 0 to 1")
    for name in ("port_bytes_per_clk", "l2_bytes_per_ns", "hbm_bytes_per_ns"):
        if not getattr(activity, name) >= 0:
            raise SpecError(f"{name} = {getattr(activity, name)}: expected a number from 0 on")
