"""What a calibration asks of a GPU: run a kernel, run it several times in a row, say what the driver knows.

Owns :class:`Device`, with two implementations: the GPU in this machine, and the timed machine, which must
give back the constants that it was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...entry import Kernel

__all__ = ["Device", "Launched"]


@dataclass(frozen=True, eq=False)
class Launched:
    """One launch that has ended.

    Attributes:
        output: the kernel's output, on the host. Elements that the kernel did not write are 0.
        ns: nanoseconds between two events around the launch.
    """

    output: NDArray[np.uint64]
    ns: float


class Device(Protocol):
    """A GPU, or what stands for one.

    Attributes:
        title: its name.
        target: its PTX target, ``sm_90a`` or ``sm_100a``.
        driver: what ran the kernels: the driver's version.
        rounds: rounds of a measured section in one launch. The first warms up and is not counted.
        repeats: launches of a kernel that is timed from outside.
        timer_ns: steps of ``%globaltimer``, in ns.
    """

    title: str
    target: str
    driver: str
    rounds: int
    repeats: int
    timer_ns: float

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
