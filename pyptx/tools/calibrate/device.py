"""What a calibration asks of a GPU: run a kernel, run it several times in a row, say what the driver knows.

Owns :class:`Device`, with two implementations: the GPU in this machine, and the timed machine, which must
give back the constants that it was given; and the readings of a load, a kernel of equal sections that writes
its clock and the timer at the beginning of each and at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...entry import Kernel

__all__ = ["Burst", "Device", "Launched", "Load", "Sustained"]

#: Builds a load from the number of its sections.
Load = Callable[[int], Kernel]


@dataclass(frozen=True, eq=False)
class Launched:
    """One launch that has ended.

    Attributes:
        output: the kernel's output, on the host. Elements that the kernel did not write are 0.
        ns: nanoseconds between two events around the launch.
    """

    output: NDArray[np.uint64]
    ns: float


@dataclass(frozen=True)
class Sustained:
    """A load that lasts.

    Attributes:
        mhz: frequency of the multiprocessors, by their own clock.
        watts: power of the board.
        cycles, ns: of one section.
    """

    mhz: float
    watts: float
    cycles: float
    ns: float


@dataclass(frozen=True, eq=False)
class Burst:
    """One launch of a load after idle time.

    Attributes:
        clocks: cycles since its first section began, at the beginning of each section and at the end.
        ns: the time since then.
    """

    clocks: NDArray[np.float64]
    ns: NDArray[np.float64]


class Device(Protocol):
    """A GPU, or what stands for one.

    Attributes:
        title: its name.
        target: its PTX target, ``sm_90a`` or ``sm_100a``.
        driver: what ran the kernels: the driver's version.
        rounds: rounds of a measured section in one launch. The first warms up and is not counted.
        repeats: launches of a kernel that is timed from outside.
        timer_ns: steps of ``%globaltimer``, in ns.
        passes: passes of a load's section of code, so many that reading the clocks hardly counts.
        memory: bytes that the arrays of a kernel may take, at most.
        visits: loads of a chain through the pages of memory, a power of two.
    """

    title: str
    target: str
    driver: str
    rounds: int
    repeats: int
    timer_ns: float
    passes: int
    memory: int
    visits: int

    def usable(self) -> bool:
        """Return False if an error has made the device unusable for this process."""

    def facts(self) -> Mapping[str, float]:
        """Return the constants that the driver tells, by name."""

    def run(
        self, kernel: Kernel, inputs: Sequence[Any] = (), *, cold: bool = False, cold_code: bool = False
    ) -> Launched:
        """Run a kernel with one output of u64, or without one.

        Args:
            kernel: the kernel.
            inputs: its arrays. A tuple of integers is the shape of an array of zeros.
            cold: True if L2 must not hold the inputs.
            cold_code: True if no cache may hold the kernel's code.
        """

    def stream(self, kernel: Kernel | None, count: int) -> float:
        """Return the ns between two events around ``count`` launches in a row; None for no launch at all."""

    def fitting(self, kernel: Kernel) -> int:
        """Return how many clusters of a kernel's only launch are resident on the whole chip at once."""

    def power_limit(self) -> float:
        """Return the power in W that the board may draw.

        Raises:
            SpecError: nothing here reads it. Likewise of :meth:`sustained`.
        """

    def sustained(self, load: Load, data: str) -> Sustained:
        """Run launches of a load back to back until power and clock have settled, and read them.

        Args:
            load: builds the kernel.
            data: what its inputs hold: ``"zeros"`` or ``"normal"``, normally distributed bf16 numbers.
        """

    def burst(self, load: Load, data: str) -> Burst:
        """Run one launch of a load after idle time, which lasts until the governor has settled."""
