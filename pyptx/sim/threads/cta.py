"""One CTA (cooperative thread array) of a launch.

Owns the CTA's shared and local memory, its warps, its operations in flight, and the state that units of the
hardware hold for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..code.function import round_up
from ..code.program import SHARED_START
from ..engine.bulk_groups import BulkGroups
from ..engine.events import AsyncOperation, Step
from ..engine.stream import Life, LifeKind
from ..memory.access import StateSpace
from ..memory.mbarrier import Signal
from ..memory.segments import Segment
from .local_memory import LocalMemory
from .units import CtaUnit
from .warp import Warp

if TYPE_CHECKING:
    from .cluster import Cluster
    from .multiprocessor import Multiprocessor
    from .named_barrier import NamedBarrier

__all__ = ["CTA"]

_AXES = "xyz"
#: The lane masks as functions of the bit of the lane itself and of the bits of the lanes below.
_LANE_MASKS: dict[str, Callable[[NDArray[np.uint64], NDArray[np.uint64]], NDArray[np.uint64]]] = {
    "lanemask_eq": lambda one, below: one,
    "lanemask_lt": lambda one, below: below,
    "lanemask_le": lambda one, below: below | one,
    "lanemask_ge": lambda one, below: ~below,
    "lanemask_gt": lambda one, below: ~(below | one),
}
Unit = TypeVar("Unit", bound=CtaUnit)


class CTA:
    """One CTA (cooperative thread array) of a launch.

    ``number`` counts the CTAs of the grid, x fastest. ``rank`` is the CTA's number in its cluster, and
    ``within`` its coordinates there.
    """

    def __init__(
        self, cluster: Cluster, rank: int, within: tuple[int, int, int], multiprocessor: Multiprocessor
    ) -> None:
        self.cluster, self.rank, self.within = cluster, rank, within
        self.multiprocessor = multiprocessor
        grid = self.grid = cluster.grid
        machine = self.machine = grid.machine
        launch, program = grid.launch, grid.program
        x, y, z = (
            place * size + inner
            for place, size, inner in zip(cluster.coordinates, launch.cluster, within, strict=True)
        )
        self.coordinates = (x, y, z)
        self.number = x + launch.grid[0] * (y + launch.grid[1] * z)
        #: A key that no other CTA has that may live at the same time.
        self.key = (grid.number, self.number)
        #: True until the CTA has allowed dependent launches to start.
        self.holds = True
        #: True if its threads have seen that no cluster is left whose launch could be canceled.
        self.refused = False
        start = program.shared_start
        data = np.zeros(grid.shared_bytes + SHARED_START - start, np.uint8)
        self.shared = Segment(
            f"shared memory of CTA {self.coordinates}",
            StateSpace.SHARED,
            start + self.shared_base,
            data,
            tracked=True,
        )
        self.shared.parts = grid.shared_parts
        # The system's part of shared memory is initialized with zeros.
        self.shared.mark(0, SHARED_START - start)
        #: Shared memories of the cluster that this CTA can reach, by rank.
        self.cluster_memory = cluster.memory
        self.cluster_memory[rank] = self.shared
        self.threads: int = grid.threads
        self.local_memory = LocalMemory(self, program.entry.local_bytes)
        #: The named barriers that have been used, by number.
        self.bars: dict[int, NamedBarrier] = {}
        #: Bulk groups by (warp, lane).
        self.bulk: dict[tuple[int, int], BulkGroups] = {}
        self._units: dict[Any, Any] = {}
        #: Steps of this CTA in flight.
        self.in_flight: list[Step] = []
        count = (self.threads + 31) // 32
        self.registers = machine.registers(program.entry, count)
        self._special: dict[str, NDArray[Any]] = {}
        self.warps: list[Warp] = []
        for index in range(count):
            frame = self.registers.frame(index)
            frame.special = self.special(index)
            frame.shared = self.shared_base
            self.warps.append(Warp(self, index, frame, self.threads - 32 * index))
        self.live_warps = count

    def unit(self, kind: type[Unit]) -> Unit:
        """Return the state that a unit of the hardware holds for this CTA. The first call creates it."""
        found: Unit | None = self._units.get(kind)
        if found is None:
            found = self._units[kind] = kind(self)
        return found

    def units(self) -> list[CtaUnit]:
        """Return the units that hold state, in the order in which they are called at the CTA's end."""
        return sorted(self._units.values(), key=lambda unit: unit.exit_order)

    def unseen_signals(self) -> list[tuple[AsyncOperation, Signal]]:
        """Return the signals of operations to this CTA's mbarriers whose phases no thread has seen complete.

        Some of them may still be in flight.
        """
        pending = self.machine.engines.pending
        found: list[tuple[AsyncOperation, Signal]] = []
        for barrier in self.shared.barriers.values():
            found += [(operation, signal) for _, operation, signal in barrier.unseen.values()]
            found += [(pending[serial].operation, signal) for serial, signal in barrier.signals.items()]
        return found

    def life(self) -> Life:
        """Return the event record with which observers learn that the CTA begins or ends."""
        return Life(LifeKind.CTA, self.key, self.threads, f"CTA {self.coordinates}", self.key)

    def owns(self, address: int) -> bool:
        """True if a shared address is one of this CTA, and not of another one of its cluster."""
        return address >> 24 == self.rank

    @property
    def shared_base(self) -> int:
        """The value that the CTA's rank adds to its shared addresses: the rank in bits 24 and up."""
        return self.rank << 24

    def special(self, warp: int, count: int = 1) -> SpecialRegisters:
        """Return the special registers that never change, for ``count`` warps from ``warp`` on."""
        return SpecialRegisters(self, slice(32 * warp, 32 * (warp + count)))

    def special_values(self, name: str) -> NDArray[Any]:
        """Return the values of one special register for every thread of the CTA's warps."""
        found = self._special.get(name)
        if found is None:
            found = self._special[name] = self._compute(name)
        return found

    def _compute(self, name: str) -> NDArray[Any]:
        count = (self.threads + 31) // 32
        linear = np.arange(32 * count, dtype=np.uint32)
        if name in _LANE_MASKS:
            one = np.uint64(1) << (linear % 32).astype(np.uint64)
            return _LANE_MASKS[name](one, one - np.uint64(1)).astype(np.uint32)
        if name in ("laneid", "warpid"):
            return linear % 32 if name == "laneid" else linear // 32
        base, _, axis = name.partition(".")
        if base == "tid" and axis != "w":
            bx, by, _ = self.grid.launch.block
            return {"x": linear % bx, "y": linear // bx % by, "z": linear // (bx * by)}[axis].astype(
                np.uint32
            )
        value = self._same_in_all(base, axis)
        if name == "gridid":
            return np.full(linear.size, value, np.uint64)
        return np.full(linear.size, value, np.bool_ if name == "is_explicit_cluster" else np.uint32)

    def _same_in_all(self, base: str, axis: str) -> int:
        grid, launch = self.grid, self.grid.launch
        if axis == "w":
            return 0
        if axis:
            position = _AXES.index(axis)
            return {
                "ntid": launch.block[position],
                "ctaid": self.coordinates[position],
                "clusterid": self.cluster.coordinates[position],
                "nctaid": launch.grid[position],
                "nclusterid": launch.grid[position] // launch.cluster[position],
                "cluster_ctaid": self.within[position],
                "cluster_nctaid": launch.cluster[position],
            }[base]
        return {
            "nwarpid": self.machine.target.threads_per_sm // 32,
            "smid": self.multiprocessor.number,
            "nsmid": len(self.machine.residency.multiprocessors.all),
            "cluster_ctarank": self.rank,
            "cluster_nctarank": grid.cluster_size,
            "gridid": 1 + grid.number,
            "dynamic_smem_size": launch.dynamic_smem,
            # The sizes and the offsets are measured on an H200.
            "total_smem_size": round_up(grid.shared_bytes, 128),
            "aggr_smem_size": SHARED_START + grid.shared_bytes,
            "reserved_smem_offset_begin": 0,
            "reserved_smem_offset_end": 0x120,
            "reserved_smem_offset_cap": SHARED_START,
            "reserved_smem_offset_0": 0,
            "reserved_smem_offset_1": 0,
            # Address of the workspace with the grid barrier of a cooperative launch.
            "envreg1": grid.workspace >> 32 if base == "envreg1" else 0,
            "envreg2": grid.workspace & 0xFFFFFFFF if base == "envreg2" else 0,
            "is_explicit_cluster": int(grid.explicit_cluster),
        }[base]


class SpecialRegisters(dict[str, "NDArray[Any]"]):
    """Special registers by name. Values are computed at the first read."""

    def __init__(self, cta: CTA, span: slice) -> None:
        super().__init__()
        self.cta, self.span = cta, span

    def __missing__(self, name: str) -> NDArray[Any]:
        found = self[name] = self.cta.special_values(name)[self.span]
        return found
