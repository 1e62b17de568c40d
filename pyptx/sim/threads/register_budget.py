"""Checks ``setmaxnreg`` instructions, which release or request registers.

The checks use the instructions of single warps. The pool of a CTA's registers is not modeled, so ``.inc``
never waits. Source: PTX ISA, `#miscellaneous-instructions-setmaxnreg`_.

.. _#miscellaneous-instructions-setmaxnreg:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#miscellaneous-instructions-setmaxnreg
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...core.findings import RULES, Finding
from ...core.source import SourceLocation
from ...ir import Function
from .multiprocessor import REGISTERS
from .units import CtaUnit

if TYPE_CHECKING:
    from .cta import CTA

__all__ = ["RegisterBudget", "registers_at_entry"]

#: Warps of a warpgroup.
_WARPS = 4
#: Registers of a thread are allocated in multiples of the first number, up to the second number.
_STEP, _MOST = 8, 255


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
    """The ``setmaxnreg`` instructions of one CTA's warps."""

    exit_order = 2

    def __init__(self, cta: CTA) -> None:
        super().__init__(cta)
        self.known, self._first = registers_at_entry(cta.grid.program.function)
        #: For each warp: (action, count) of its instructions, and the line of each.
        self._asked: dict[int, list[tuple[str, int]]] = {}
        self._lines: dict[int, list[SourceLocation | None]] = {}

    def change(self, warp: int, action: str, count: int, line: SourceLocation | None) -> str:
        """Record that a warp executes ``setmaxnreg``.

        Returns text that says why this is an error, or "" if it is none.
        """
        asked = self._asked.setdefault(warp, [])
        before = asked[-1][1] if asked else self._first
        asked.append((action, count))
        self._lines.setdefault(warp, []).append(line)
        if not self.known:
            return (
                f"setmaxnreg.{action} to {count}: ptxas ignores it, since the kernel does not state how many "
                "registers a thread has at its entry"
            )
        if before is not None and (count < before if action == "inc" else count > before):
            way = "below" if action == "inc" else "above"
            return f"setmaxnreg.{action} to {count}, {way} the {before} registers that each thread has"
        return ""

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
