"""Kernels to tune, and a place that measures them by what a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyptx import Kernel, Tile, f32, kernel, ptx, reg
from pyptx.tools.autotune.candidates import Candidate, State
from pyptx.tools.autotune.lab import Mishap


def build_double(N: Any, *, block: int, per: int = 1, wrong: bool = False, name: str = "double") -> Kernel:
    """B = 2 A, or 3 A if ``wrong``; N is a size or the name of a dim."""
    if block > 1024:
        raise ValueError(f"block {block} is too large")

    @kernel(
        in_specs=(Tile(N, f32),),
        out_specs=(Tile(N, f32),),
        grid=(lambda N: N // (block * per)) if isinstance(N, str) else max(1, N // (block * per)),
        block=block,
        arch="sm_90a",
        name=name,
    )
    def double(A: Any, B: Any) -> None:
        start = ptx.special.ctaid.x() * (block * per) + ptx.special.tid.x()
        for number in range(per):
            a = reg.scalar(f32)
            ptx.inst.ld.global_.f32(a, A.at(start + number * block))
            ptx.inst.st.global_.f32(B.at(start + number * block), a + a + a if wrong else a + a)
        ptx.ret()

    return double


class FakePlace:
    """Measures as ``us`` says: a number of microseconds, a state that a launch ends in, or an exception.

    ``us`` gets a candidate and the number of its interval, from 0; that of the first launch is -1.
    """

    gpu, driver = "Fake", "1"

    def __init__(self, us: Callable[[Candidate, int], Any], group: Callable[[Candidate], int] = lambda _: 0):
        self._us, self._group = us, group
        self.asked: list[Candidate] = []
        self._counts: dict[int, int] = {}
        self.restarts = 0
        self.closed = False

    def _answer(self, candidate: Candidate) -> float:
        self.asked.append(candidate)
        number = self._counts.get(candidate.number, -1)
        self._counts[candidate.number] = number + 1
        found = self._us(candidate, number)
        if isinstance(found, State):
            raise Mishap(found, f"said to be {found.value}")
        if isinstance(found, BaseException):
            raise found
        return float(found)

    def first(self, candidate: Candidate) -> tuple[float, int]:
        return self._answer(candidate), self._group(candidate)

    def close(self) -> None:
        self.closed = True

    def time(self, candidate: Candidate, launches: int) -> float:
        return self._answer(candidate)
