"""Resources for which instructions wait: columns of tensor memory, and registers of a CTA's pool."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import field

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...layout.tensor_memory import COLUMNS
from ..engine.stream import Sync, SyncKind
from ..sanitizer.world import World
from ..tcgen05.tensor_memory import TensorMemory
from ..threads.cta import CTA
from ..threads.grid import Grid
from ..threads.multiprocessor import Multiprocessors
from .columns import Columns
from .competing import Ledger
from .moments import Moment, execution, groups_of, known_lanes, moment
from .polling import Polling

__all__ = ["Resources"]

_TENSOR = (SyncKind.TENSOR_ALLOCATE, SyncKind.TENSOR_FREE)
_REGISTERS = (SyncKind.REGISTERS_TAKE, SyncKind.REGISTERS_RELEASE)
#: Clusters that are placed one by one to see whether they fit at once; more do not.
_MOST = 10_000


@dataclass(eq=False, slots=True)
class _Asked:
    """What the threads of one CTA have asked for."""

    allocations: list[Moment] = field(default_factory=list)
    frees: list[Moment] = field(default_factory=list)
    taken: list[Moment] = field(default_factory=list)
    columns: int = 0


class Resources:
    """The resources of a run."""

    def __init__(self, world: World, columns: Columns, polling: Polling, ledger: Ledger) -> None:
        self._world, self._columns, self._polling, self._ledger = world, columns, polling, ledger
        #: What threads of all CTAs have taken from the pools of registers, if CTAs may wait for each other.
        self._taken: list[Moment] = []
        self._ctas: dict[Hashable, _Asked] = {}
        #: Launches in which a CTA may have to wait until others free their columns, with the line.
        self.waiting: dict[int, SourceLocation | None] = {}

    def end_cta(self, cta: tuple[int, int]) -> None:
        """Forget what a CTA has asked for."""
        self._ctas.pop(cta, None)

    def sync(self, sync: Sync) -> None:
        """Check that the order of two claims on one resource is decided."""
        if sync.kind in _TENSOR:
            self._tensor(sync, self._ctas.setdefault(sync.cta, _Asked()))
        elif sync.kind in _REGISTERS:
            self._registers(sync, self._ctas.setdefault(sync.cta, _Asked()))

    def _tensor(self, sync: Sync, asked: _Asked) -> None:
        """Allocations of a CTA must be ordered among themselves and with what frees columns."""
        takes = sync.kind is SyncKind.TENSOR_ALLOCATE
        if takes:
            self._beside(sync, self._world.machine.residency.live[sync.cta], asked)
        before = [*asked.allocations, *(asked.frees if takes else ())]
        # The instruction belongs to the whole warp: what one lane knows is enough.
        for then in before:
            known = [
                known_lanes(execution(group), then, group.warp.key, 0xFFFFFFFF)
                for group, _ in groups_of(self._world, sync.cta, sync.threads)
            ]
            if not any(known):
                self._ledger.competes(
                    f"{sync.kind.value}: nothing orders it after another one of the CTA",
                    sync.location,
                    then.location,
                )
        mine = asked.allocations if takes else asked.frees
        mine += self._moments(sync)

    def _registers(self, sync: Sync, asked: _Asked) -> None:
        """What releases registers must not wait for what takes them."""
        if sync.kind is SyncKind.REGISTERS_TAKE:
            taken = self._moments(sync)
            asked.taken += taken
            if self._polling.watches(self._world.machine.residency.live[sync.cta].grid.program.entry):
                self._taken += taken
            return
        for then in self._taken or asked.taken:
            for group, mask in groups_of(self._world, sync.cta, sync.threads):
                if known_lanes(execution(group), then, group.warp.key, mask):
                    self._ledger.competes(
                        "setmaxnreg.dec behind a setmaxnreg.inc: others may take registers of the pool first",
                        sync.location,
                        then.location,
                    )

    def across(self, launches: Iterable[int]) -> None:
        """Judge launches in which CTAs of different clusters wait for each other: all must run at once."""
        for number in launches:
            grid = self._world.machine.grids[number]
            if not self._fits(grid):
                self._ledger.competes(
                    f"launch {number}: CTAs of different clusters wait for each other, "
                    f"and not all {grid.ctas} fit on the GPU at once"
                )
            else:
                self._ledger.assume(
                    f"all {grid.ctas} CTAs of the launch run at once, as a cooperative launch guarantees"
                )
            if number in self.waiting:
                self._ledger.competes(
                    "tcgen05.alloc: a CTA may wait for columns of a CTA that waits for it",
                    self.waiting[number],
                )

    def _fits(self, grid: Grid) -> bool:
        """True if an empty GPU has room for all CTAs of a launch at once."""
        room = Multiprocessors(self._world.machine.target)
        clusters = grid.ctas // grid.cluster_size
        return clusters <= _MOST and all(
            room.place(grid.demand, grid.cluster_size) is not None for _ in range(clusters)
        )

    def _moments(self, sync: Sync) -> list[Moment]:
        return [
            moment(self._world, group.warp, mask, sync.location)
            for group, mask in groups_of(self._world, sync.cta, sync.threads)
        ]

    def _beside(self, sync: Sync, cta: CTA, asked: _Asked) -> None:
        """Judge an allocation against those of other CTAs that may be on the same multiprocessor."""
        grid = cta.grid
        several = any(each.dependent for each in self._world.machine.grids)
        pair = cta.unit(TensorMemory).group
        most = self._world.machine.residency.multiprocessors.at_once(grid.demand)
        # The CTAs of a pair are on different multiprocessors.
        if not several and (most == 1 or grid.ctas == 1 or grid.ctas == grid.cluster_size == len(pair)):
            return
        first = asked.columns == 0
        asked.columns += sync.amount
        alone = first and grid.cluster_size == len(pair)
        fits = min(most, grid.ctas) * asked.columns <= COLUMNS
        if not fits:
            self.waiting.setdefault(grid.number, sync.location)
        if several or not (alone or fits):
            self._ledger.competes(
                "tcgen05.alloc: CTAs that may share a multiprocessor wait for columns in any order",
                sync.location,
            )
        self._columns.open.add(sync.cta)
