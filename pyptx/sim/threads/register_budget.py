"""The registers of a CTA: ``setmaxnreg`` releases them to the CTA's pool and takes them from it.

The pool is empty when the CTA starts, since the launch gives all registers to the warps. A warp that ends
without a ``setmaxnreg.dec`` returns nothing to the pool. Both are measured on an H200. One thing is simpler
here: on an H200, a whole warpgroup cannot use what a last warpgroup of fewer than four warps has released.

Source: PTX ISA, `#miscellaneous-instructions-setmaxnreg`_.

.. _#miscellaneous-instructions-setmaxnreg:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#miscellaneous-instructions-setmaxnreg
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...core.findings import RULES, Finding
from ...core.source import SourceLocation
from ...ir import Function
from ..engine.waits import Awaited, Wait, WaitCause
from .multiprocessor import REGISTERS
from .units import CtaUnit

if TYPE_CHECKING:
    from .cta import CTA

__all__ = ["RegisterBudget", "RegisterWait", "registers_at_entry"]

#: Warps of a warpgroup.
_WARPS = 4
#: Registers of a thread are allocated in multiples of the first number, up to the second number.
_STEP, _MOST = 8, 255
#: Threads of a warp.
_LANES = 32


def registers_at_entry(function: Function) -> tuple[bool, int | None]:
    """Return whether ptxas knows a thread's number of registers at the entry, and the number if it is fixed.

    Without ``.maxnreg``, or ``.minnctapersm`` together with the size of a block, ptxas ignores
    ``setmaxnreg``. If the block is so small that a thread could have the largest number of registers, ptxas
    chooses the number.
    """
    most = function.directive("maxnreg")
    if most is not None:
        return True, int(most[0])
    together = function.directive("minnctapersm")
    block = function.directive("maxntid") or function.directive("reqntid")
    if together is None or block is None:
        return False, None
    threads = max(1, int(together[0]))
    for extent in block:
        threads *= max(1, int(extent))
    share = REGISTERS // threads // _STEP * _STEP
    return True, share if share < _MOST else None


class RegisterBudget(CtaUnit):
    """The registers of one CTA's warps, its pool, and the ``setmaxnreg`` instructions of the warps.

    Attributes:
        known: whether ptxas knows the number of registers of a thread at the entry; if not, it ignores
            ``setmaxnreg``.
        first: number of registers that the launch gives to each thread, or None if ptxas chooses it. The
            size of the pool is then not known either, and no instruction waits.
        pool: registers that warps have released and that no warp has taken again.
        released: for each line with a ``.dec``, the warps that executed it and their new number of registers.
    """

    exit_order = 2

    def __init__(self, cta: CTA) -> None:
        super().__init__(cta)
        self.known, first = registers_at_entry(cta.grid.program.function)
        self.first = None if first is None else -(-first // _STEP) * _STEP
        self.pool = 0
        self.released: dict[tuple[SourceLocation | None, int], list[int]] = {}
        #: Registers of each thread of a warp, once the warp has executed a setmaxnreg.
        self._held: dict[int, int] = {}
        #: For each warp: (action, count) of its instructions, and the line of each.
        self._asked: dict[int, list[tuple[str, int]]] = {}
        self._lines: dict[int, list[SourceLocation | None]] = {}

    def change(self, warp: int, action: str, count: int, line: SourceLocation | None) -> tuple[str, int]:
        """Record that a warp executes ``setmaxnreg``; a ``.dec`` releases registers to the pool.

        Returns text that says why the instruction is wrong, or "", and the number of registers that the warp
        must take from the pool.
        """
        self._asked.setdefault(warp, []).append((action, count))
        self._lines.setdefault(warp, []).append(line)
        if not self.known:
            return (
                f"setmaxnreg.{action} to {count}: ptxas ignores it, since the kernel does not state how many "
                "registers a thread has at its entry"
            ), 0
        before = self._held.get(warp, self.first)
        if before is not None and (count < before if action == "inc" else count > before):
            way = "below" if action == "inc" else "above"
            return f"setmaxnreg.{action} to {count}, {way} the {before} registers that each thread has", 0
        self._held[warp] = count
        if action == "dec":
            self.released.setdefault((line, count), []).append(warp)
        if self.first is None or before is None:
            return "", 0
        if action == "inc":
            return "", (count - before) * _LANES
        self.pool += (before - count) * _LANES
        return "", 0

    @property
    def launched(self) -> int:
        """Number of registers that the launch gave to the CTA's warps."""
        return (self.first or 0) * _LANES * len(self.cta.warps)

    @property
    def largest(self) -> int:
        """The largest number of registers that each warp which asked for more can get, a multiple of 8."""
        takers = sum(any(action == "inc" for action, _ in asked) for asked in self._asked.values())
        first = self.first or 0
        free = sum((first - count) * len(warps) for (_, count), warps in self.released.items())
        return (first + free // max(1, takers)) // _STEP * _STEP

    def at_exit(self) -> None:
        """Report ``setmaxnreg`` instructions that only some warps of a warpgroup have executed."""
        for finding in self._unequal(f"CTA {self.cta.coordinates}", len(self.cta.warps)):
            self.cta.machine.report(finding)

    def _unequal(self, cta: str, warps: int) -> Iterator[Finding]:
        for first in range(0, warps if self.known else 0, _WARPS):
            group = range(first, min(first + _WARPS, warps))
            longest = max(group, key=lambda warp: len(self._asked.get(warp, [])))
            wanted = self._asked.get(longest, [])
            for warp in group:
                asked = self._asked.get(warp, [])
                if asked == wanted:
                    continue
                same = [a == b for a, b in zip(asked, wanted, strict=False)]
                position = same.index(False) if False in same else len(asked)
                action, count = wanted[position]
                yield Finding(
                    RULES["setmaxnreg-warpgroup"],
                    f"setmaxnreg.{action} to {count} of {cta} warp {longest}: "
                    f"warp {warp} of the same warpgroup "
                    + (
                        f"executed .{asked[position][0]} to {asked[position][1]}"
                        if position < len(asked)
                        else "did not execute it"
                    ),
                    self._lines[longest][position],
                    f"{cta} warp {longest}",
                )
                break


class RegisterWait(Wait):
    """Waits until the CTA's pool has the registers that a ``setmaxnreg.inc`` takes."""

    __slots__ = ("budget", "count", "needed")

    def __init__(self, budget: RegisterBudget, count: int, needed: int) -> None:
        self.budget, self.count, self.needed = budget, count, needed

    @property
    def cause(self) -> WaitCause:
        return WaitCause.REGISTERS

    @property
    def awaited(self) -> Awaited:
        return Awaited.REGISTERS

    def over(self) -> bool:
        return self.budget.pool >= self.needed

    def finish(self) -> None:
        self.budget.pool -= self.needed

    def describe(self) -> str:
        budget = self.budget
        return (
            f"waits at setmaxnreg.inc to {self.count} for {self.needed} registers: the CTA's pool has "
            f"{budget.pool} of the {budget.launched} that the launch gave its warps ({budget.first} for each "
            "thread)" + ("" if budget.released else ", and no warp has executed setmaxnreg.dec")
        )

    def notes(self) -> tuple[tuple[str, SourceLocation | None], ...]:
        return tuple(
            (f"{len(warps)} warps keep {count} registers for each thread", line)
            for (line, count), warps in self.budget.released.items()
        )
