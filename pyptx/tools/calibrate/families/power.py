"""Power: what memory, L2, code and tensor cores take, and the clocks that the governor leaves them.

Loads of known activity run for seconds. The law of the clock, with the clock that each got, gives its power;
the coefficients are those at which that is nearest to the power of the board, by least squares. Bursts after
idle time show the clock as a function of time.

Neither ``power.static_w`` nor ``power.voltage_floor`` is measured. An idle board has other clocks and
voltages than a busy one, so that its power is not what the law means; and without locked clocks all light
loads run at the maximum, where only the sum of ``power.static_w`` and ``power.base_w`` shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np

from ....core.errors import SpecError
from ....core.records import dataclass
from ....timing.clock import Activity, power
from ....timing.constants import Gpu, gpu_for
from ..bench import Bench, Microbenchmark, Readings, Value
from ..device import Burst, Load, Sustained
from .loads import FMAS, PRODUCTS, ROWS, STREAMED, multiplied, streamed, tensored

__all__ = ["BENCHMARKS", "Reading", "Work", "code", "decay", "fitted", "stream", "tensor"]

_HOPPER = ("sm_90a",)
#: Threads that keep the schedulers of a multiprocessor busy with so many chains each.
_WARP, _THREADS, _CHAINS = 32, 256, 4
#: Threads whose single chains take a quarter of the issue slots; share of multiprocessors of a thin stream.
_QUARTER, _FEW = 128, 0.125
_OF_CODE = ("power.base_w", "power.simt_w", "power.l2_pj_per_byte", "power.hbm_pj_per_byte")
_FLOPS_OF_K = 2 * ROWS * 16
_WIDE, _NARROW = 256, 64
#: Steps of the search for coefficients, of which the law is nearly linear, and the share by which each moves.
_STEPS, _MOVED = 8, 0.01
#: Bursts of a load.
_BURSTS = 3
#: Time constants that are tried for a burst, as shares of its length.
_LIVES = np.geomspace(1e-3, 1.0, 200)
#: Most of a unit's time that a load can take, with what reading the clocks leaves to chance.
_POSSIBLE = 1.02
#: A clock below this share of another one is lower.
_CLEARLY = 0.995


@dataclass(frozen=True)
class Work:
    """A load, and what it does in one section.

    Attributes:
        load: builds it.
        data: what its inputs hold.
        tensor: cycles that its products take in the tensor core of a multiprocessor at the full rate.
        operands: bytes that the tensor core of a multiprocessor reads from shared memory.
        issued: instructions of a multiprocessor over its issue slots in a cycle; the mean of all.
        l2, hbm: bytes that L2 gives to all multiprocessors, and memory to L2.
    """

    load: Load
    data: str
    tensor: float = 0.0
    operands: float = 0.0
    issued: float = 0.0
    l2: float = 0.0
    hbm: float = 0.0

    def activity(self, found: Sustained) -> Activity:
        """Return what the load does, by the time that a section takes.

        Raises:
            SpecError: it does more than is possible, so that the kernel does less than it should.
        """
        share = max(self.tensor, self.issued) / found.cycles
        if share > _POSSIBLE:
            raise SpecError(
                f"a load is {share:.2f} times as fast as the hardware can be",
                hint="ptxas may have dropped a part of the kernel",
            )
        return Activity(
            tensor=min(1.0, self.tensor / found.cycles),
            port_bytes_per_clk=self.operands / found.cycles,
            l2_bytes_per_ns=self.l2 / found.ns,
            hbm_bytes_per_ns=self.hbm / found.ns,
            issue=min(1.0, self.issued / found.cycles),
            data=self.data,
        )


@dataclass(frozen=True)
class Reading:
    """What a load did, and what it took: the clock in MHz and the power in W."""

    activity: Activity
    mhz: float
    watts: float


def code(bench: Bench, data: str, threads: int = _THREADS, chains: int = _CHAINS) -> Work:
    """Return multiply-adds in all multiprocessors."""
    device = bench.device
    load = partial(
        multiplied, device.target, int(bench.value("sm.count")), threads, chains, data, device.passes
    )
    warps = threads // _WARP
    return Work(load, data, issued=FMAS * chains * device.passes * warps / bench.value("sm.schedulers"))


def stream(bench: Bench, level: Literal["l2", "hbm"], share: float = 1.0) -> Work:
    """Return reads of L2 or of memory by a share of the multiprocessors."""
    ctas = int(bench.value("sm.count") * share)
    load = partial(streamed, bench.device.target, ctas, level)
    nbytes = STREAMED * ctas
    return Work(load, "normal", l2=nbytes, hbm=nbytes if level == "hbm" else 0.0)


def tensor(bench: Bench, data: str, n: int = _WIDE, batch: int = 16) -> Work:
    """Return products in all multiprocessors."""
    load = partial(tensored, bench.device.target, int(bench.value("sm.count")), n, batch)
    cycles = PRODUCTS * _FLOPS_OF_K * n / bench.value("tensor.flops_per_clk_16bit")
    return Work(load, data, tensor=cycles, operands=PRODUCTS * (ROWS + n) * bench.value("mma.k_bytes"))


def _read(bench: Bench, work: Work) -> Reading:
    found = bench.device.sustained(work.load, work.data)
    return Reading(work.activity(found), found.mhz, found.watts)


# --- coefficients -------------------------------------------------------------------------------------


def _law(bench: Bench) -> Gpu:
    """Return constants for the law of the clock: those that were measured before, and the base's."""
    base = gpu_for(bench.device.target)
    assert base is not None
    names = [name for name in base.constants if name.startswith("power.")]
    values = {name: bench.value(name) for name in (*names, "sm.count", "sm.clock_max_mhz")}
    return base.with_values(values)


def fitted(law: Gpu, readings: Sequence[Reading], names: Sequence[str]) -> dict[str, Value]:
    """Return the constants at which the law of the clock is nearest to the power of some readings.

    The interval holds what comes out without any one of the readings.
    """
    values = _nearest(law, readings, names)
    others = [
        _nearest(law, [*readings[:place], *readings[place + 1 :]], names) for place in range(len(readings))
    ]
    low, high = np.min([values, *others], axis=0), np.max([values, *others], axis=0)
    return {
        name: Value(float(value), float(least), float(most))
        for name, value, least, most in zip(names, values, low, high, strict=True)
    }


def _nearest(law: Gpu, readings: Sequence[Reading], names: Sequence[str]) -> Readings:
    """Search by Newton's method with differences; without a negative value on the way."""
    values: Readings = np.array([law.value(name) for name in names])

    def watts(some: Readings) -> Readings:
        changed = law.with_values(dict(zip(names, map(float, some), strict=True)))
        return np.array([power(changed, each.mhz, each.activity) for each in readings])

    wanted = np.array([each.watts for each in readings])
    for _ in range(_STEPS):
        now, steps = watts(values), np.maximum(np.abs(values), _MOVED) * _MOVED
        slopes = np.stack(
            [
                (watts(values + step * axis) - now) / step
                for step, axis in zip(steps, np.eye(len(names)), strict=True)
            ],
            axis=1,
        )
        values = values + np.linalg.lstsq(slopes, wanted - now, rcond=None)[0]
    return values


def _of_code(bench: Bench) -> dict[str, Value]:
    """Code that takes all issue slots and a quarter, and streams of all multiprocessors and of few."""
    works = [
        code(bench, "normal"),
        code(bench, "normal", _QUARTER, 1),
        *(stream(bench, "l2", share) for share in (1.0, _FEW)),
        *(stream(bench, "hbm", share) for share in (1.0, _FEW)),
    ]
    return fitted(_law(bench), [_read(bench, work) for work in works], _OF_CODE)


def _of_products(bench: Bench) -> dict[str, Value]:
    """Products of normal numbers and of zeros, in a row and with waits between them.

    What the reads of their operands take (``power.port_pj_per_byte``) is the base's: both rise together.
    """
    law = _law(bench)
    works = [tensor(bench, data, batch=batch) for data in ("normal", "zeros") for batch in (16, 4, 1)]
    readings = [_read(bench, work) for work in works]
    found = fitted(law, readings, ("power.mma_w", "power.zeros_share"))
    lasting = next(each for each in readings if each.activity.data == "zeros")
    if lasting.watts < _CLEARLY * law.value("power.limit_w"):
        droop = 1 - lasting.mhz / law.value("sm.clock_max_mhz")
        found["power.sustained_droop"] = Value.of(droop / lasting.activity.tensor)
    return found


# --- bursts -------------------------------------------------------------------------------------------


def decay(burst: Burst) -> tuple[float, float, float]:
    """Return the clock in MHz at the beginning of a burst and at its end, and the time constant in ns.

    These are the exponential whose integral is nearest to the cycles, for the best of many time constants.
    """
    best = (np.inf, 0.0, 0.0, 0.0)
    for life in _LIVES * burst.ns[-1]:
        terms = np.stack([burst.ns, -life * np.expm1(-burst.ns / life)], axis=1)
        (end, above), *_ = np.linalg.lstsq(terms, burst.clocks, rcond=None)
        apart = float(np.square(terms @ (end, above) - burst.clocks).sum())
        if apart < best[0]:
            best = apart, (end + above) * 1000, end * 1000, life
    return best[1:]


def _of_bursts(bench: Bench) -> Mapping[str, Readings | Value]:
    """Few products of zeros show what any use of tensor cores costs, many of normal numbers the governor.

    Where the clock of the latter does not fall, or not below that of the former, the governor's constants do
    not show and are not reported.
    """
    law, device = _law(bench), bench.device

    def bursts(work: Work) -> list[Burst]:
        return [device.burst(work.load, work.data) for _ in range(min(_BURSTS, device.repeats))]

    light = np.array(
        [each.clocks[-1] / each.ns[-1] * 1000 for each in bursts(tensor(bench, "zeros", _NARROW, 1))]
    )
    found: dict[str, Readings | Value] = {"power.tensor_droop": 1 - light / law.value("sm.clock_max_mhz")}
    work = tensor(bench, "normal")
    start, end, life = np.array([decay(each) for each in bursts(work)]).T
    if np.median(end) < _CLEARLY * np.median(start):
        found["power.governor_ns"] = life
        if np.median(start) < _CLEARLY * np.median(light):
            activity = work.activity(device.sustained(work.load, work.data))
            found["power.burst_limit_w"] = np.array([power(law, mhz, activity) for mhz in start])
    return found


def _limit(bench: Bench) -> dict[str, float]:
    return {"power.limit_w": bench.device.power_limit()}


BENCHMARKS = (
    Microbenchmark("power limit", ("power.limit_w",), _limit),
    Microbenchmark(
        "power of code and streams",
        _OF_CODE,
        _of_code,
    ),
    Microbenchmark(
        "power of tensor cores",
        ("power.mma_w", "power.zeros_share", "power.sustained_droop"),
        _of_products,
        _HOPPER,
    ),
    Microbenchmark(
        "bursts", ("power.tensor_droop", "power.burst_limit_w", "power.governor_ns"), _of_bursts, _HOPPER
    ),
)
