"""The chip: its clock, what the driver knows, and the sizes of its GPCs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from ....core.types import u8
from ....dsl import smem
from ....entry import Kernel, kernel
from ..bench import MHZ, Bench, Microbenchmark, Readings, Value
from ..kernels import spin

__all__ = ["BENCHMARKS", "TOLD", "gpc_sizes"]

_WARP = 32
#: A spin lasts so many steps of the timer: their rounding is then below 0.1%.
_STEPS = 1024

#: Constants that the driver tells.
TOLD = (
    "sm.count",
    "sm.clock_max_mhz",
    "sm.smem_bytes",
    "sm.smem_bytes_per_cta",
    "sm.warps",
    "sm.registers",
    "sm.ctas",
    "l2.capacity_bytes",
    "hbm.capacity_bytes",
)


def _clock(bench: Bench) -> dict[str, Readings]:
    """Cycles over ns of a spin: the clock of this calibration, and no constant of the GPU."""
    device = bench.device
    found = bench.output(spin(device.target, device.rounds, int(_STEPS * device.timer_ns)))
    return {MHZ: found[:, 0] / found[:, 1] * 1000}


def _told(bench: Bench) -> dict[str, float]:
    return dict(bench.device.facts())


@cache
def clusters(target: str, size: int, shared: int) -> Kernel:
    """Build a kernel whose CTAs, in clusters of ``size``, take a multiprocessor each."""

    @kernel(grid=size, cluster=size, block=_WARP, arch=target, extern_smem=True, name=f"cluster_{size}")
    def section() -> None:
        smem.alloc(shared, u8)

    return section


#: Sizes of clusters that all drivers allow, and that of clusters which are not portable.
_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 16)
#: Multiprocessors of a TPC, which no GPC divides; the most of a GPC; GPCs of a chip.
_TPC, _MOST, _GPCS = 2, 24, range(4, 13)


def gpc_sizes(fitting: Mapping[int, int], base: Sequence[float] = ()) -> tuple[float, ...] | None:
    """Return the sizes of GPCs that fit so many clusters of each size, or None if there are none.

    Args:
        fitting: for each size of a cluster, 1 among them, how many fit on the chip.
        base: sizes that are taken if they fit as many.
    """

    def fits(groups: Sequence[float]) -> bool:
        return all(sum(int(group) // size for group in groups) == count for size, count in fitting.items())

    if base and fits(base):
        return tuple(base)
    for count in _GPCS:
        for groups in _partitions(fitting[1] // _TPC, count, _MOST // _TPC):
            found = tuple(float(_TPC * group) for group in groups)
            if fits(found):
                return found
    return None


def _partitions(total: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the falling sums of ``parts`` numbers up to ``most`` that make ``total``, the evenest first."""
    if parts == 1:
        if 1 <= total <= most:
            yield (total,)
        return
    for first in range(-(-total // parts), min(most, total - parts + 1) + 1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)


def _gpcs(bench: Bench) -> dict[str, Value]:
    shared = int(bench.value("sm.smem_bytes_per_cta")) * 3 // 4 // 1024 * 1024
    fitting = {size: bench.device.fitting(clusters(bench.device.target, size, shared)) for size in _SIZES}
    found = gpc_sizes({**fitting, 1: int(bench.value("sm.count"))})
    if found is None:
        return {}
    return {"gpc.sizes": Value(found, found, found)}


BENCHMARKS = (
    Microbenchmark("what the driver tells", TOLD, _told),
    Microbenchmark("clock", (MHZ,), _clock),
    Microbenchmark("clusters that fit", ("gpc.sizes",), _gpcs),
)
