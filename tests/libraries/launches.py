"""What the kernels of a library give to the program that counts their findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyptx.sim.api.report import Report

__all__ = ["Kernel", "Launch", "WrongResult"]


class Launch(NamedTuple):
    """One launch in the simulator: the PTX text of the module, and the report."""

    text: str
    report: Report


class WrongResult(AssertionError):
    """The results of a kernel are wrong; ``launches`` are those that computed them."""

    def __init__(self, what: str, launches: list[Launch]) -> None:
        super().__init__(what)
        self.launches = launches


class Kernel(NamedTuple):
    """A kernel of a library with arguments and a reference.

    Attributes:
        name: what the library calls the kernel, and the configuration if there are several.
        run: launches the kernel in the simulator under a schedule (``eager``, ``late``, ``random``) with a
            seed, and compares the results with a reference of the library or of numpy or torch. It returns
            all launches; it raises AssertionError where a result is wrong: WrongResult, which keeps the launches.
    """

    name: str
    run: Callable[[str, int], list[Launch]]
