"""Local memory of threads: variables that PTX keeps there, and registers for which ptxas had no room.

The words that the lanes of a warp have at one address lie in one line of L1. Stores pass L1, where their
lines stay, to L2; memory need not take them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ...timing.access_order import AccessOrder, Spill
from ..code.function import CodeBlock
from ..memory.access import Access, AccessKind
from ..threads.cta import CTA
from ..threads.warp import Warp
from .figures import BANKS, WORD
from .l1 import L1, LINE_SECTORS
from .units import SECTOR, Units

__all__ = ["LocalMemory"]

#: Lanes whose words share a sector.
_SECTOR_LANES = SECTOR // WORD


class LocalMemory:
    """The local memory of all threads.

    Args:
        cache: returns L1 of the multiprocessor of a CTA.
    """

    def __init__(self, cache: Callable[[CTA], L1]) -> None:
        self._cache = cache
        #: The lines, by CTA, warp and word; words of the stack lie below 0.
        self._lines: dict[tuple[tuple[int, int], int, int], int] = {}
        self._blocks: dict[CodeBlock, _Spills] = {}
        self._warps: dict[Warp, _Refills] = {}

    def use(self, warp: Warp, access: Access, units: Units, time: float) -> tuple[float, float]:
        """Return when a PTX access to local memory has left its warp, and when its value arrives."""
        assert access.threads is not None  # only accesses of threads are charged
        offsets = access.footprint.starts - access.threads * warp.cta.local_memory.capacity
        words = (offsets[:, None] + np.arange(0, max(WORD, access.footprint.size), WORD)) // WORD
        places = access.threads % BANKS // _SECTOR_LANES
        lines = {word: self._line(warp, word) for word in np.unique(words).tolist()}
        parts, lanes = np.unique(words * LINE_SECTORS + places[:, None], return_counts=True)
        sectors = [
            LINE_SECTORS * lines[each // LINE_SECTORS] + each % LINE_SECTORS for each in parts.tolist()
        ]
        if access.kind is AccessKind.WRITE:
            whole = int((lanes == _SECTOR_LANES).sum())
            left = self._store(warp, sectors, len(lines), whole, units, time)
            return left, left
        return self._load(warp, sectors, len(lines), units, time)

    def _store(
        self, warp: Warp, sectors: Sequence[int], lines: int, whole: int, units: Units, time: float
    ) -> float:
        """Return when L1 has passed on sectors, of which so many are written as a whole."""
        served = max(time, units.pass_on(time, lines, whole, len(sectors) - whole))
        self._cache(warp.cta).fill(sectors, served)
        return served

    def _load(
        self, warp: Warp, sectors: Iterable[int], lines: int, units: Units, time: float
    ) -> tuple[float, float]:
        """Return when L1 has looked up sectors, and when they arrive."""
        cache = self._cache(warp.cta)
        served = max(time, units.look_up(warp.index, time, lines))
        looked_up = served - units.figures.lookup
        missed, arrives = cache.read(sectors)
        arrives = max(arrives, looked_up + units.figures.load_l1_latency)
        if missed:
            done = units.access_global(looked_up, SECTOR * len(missed), loads=True, fresh=False)
            cache.fill(missed, done)
            arrives = max(arrives, done)
        return served, arrives

    def _line(self, warp: Warp, word: int) -> int:
        """Return the number of the line that the lanes of a warp have at a word: below 0."""
        key = warp.cta.key, warp.index, word
        return self._lines.setdefault(key, -1 - len(self._lines))

    def spill(
        self, warp: Warp, block: CodeBlock, order: AccessOrder, units: Units, begun: float, through: float
    ) -> float:
        """Charge the spills of a block that a warp runs. Return when it is through.

        The code of the block allows for loads that find L1 idle and the word there. By how much they are
        later than that, the warp stands where it waits for them.

        Args:
            warp: the warp.
            block: the block.
            order: what the machine code has made of the accesses of the function.
            units: those of the multiprocessor.
            begun, through: when the warp begins to issue the block, and when it would be through.
        """
        spills = self._blocks.get(block)
        if spills is None:
            spills = self._blocks[block] = _Spills(block, order)
        if not spills.all and not spills.refilled:
            return through
        refills = self._warps.setdefault(warp, _Refills())
        time = begun
        for each in spills.of(refills.next_run(block)):
            sectors = [
                LINE_SECTORS * self._line(warp, -1 - word) + part
                for word in each.words
                for part in range(LINE_SECTORS)
            ]
            lines = len(each.words)
            if each.stores:
                served = self._store(warp, sectors, lines, len(sectors), units, time)
            else:
                served, arrives = self._load(warp, sectors, lines, units, time)
                refills.late(arrives - time - units.figures.load_l1_latency)
            time = max(time, units.leave(warp.index, served))
        through = max(through, time)
        return through + refills.waited() if spills.refilled else through


class _Spills:
    """The spills of a block, and whether it waits for registers that come back."""

    __slots__ = ("_equal", "all", "refilled")

    def __init__(self, block: CodeBlock, order: AccessOrder) -> None:
        self.all = [each for number in block.statements for each in order.spills.get(number, ())]
        self.refilled = any(number in order.refilled for number in block.statements)
        self._equal = all(each.every == 1 for each in self.all)

    def of(self, run: int) -> list[Spill]:
        """Return those of one execution of the block, by its number."""
        return self.all if self._equal else [each for each in self.all if run % each.every == each.turn]


class _Refills:
    """The executions of blocks by a warp, and how late its loads of spilled registers are."""

    __slots__ = ("_latest", "_runs", "_stood")

    def __init__(self) -> None:
        self._runs: dict[CodeBlock, int] = {}
        #: For how long it has stood for such loads in all, and when the pending ones are there, in that sum.
        self._stood = self._latest = 0.0

    def next_run(self, block: CodeBlock) -> int:
        """Count an execution of a block, and return its number."""
        run = self._runs.get(block, 0)
        self._runs[block] = run + 1
        return run

    def late(self, cycles: float) -> None:
        """Note a load that arrives so much later than the code allows for."""
        self._latest = max(self._latest, self._stood + cycles)

    def waited(self) -> float:
        """Return for how long the warp now stands for the pending loads."""
        cycles = max(0.0, self._latest - self._stood)
        self._stood += cycles
        return cycles
