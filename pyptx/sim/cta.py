"""One cooperative thread array of a launch: its shared, local and tensor memory, its warps, what it has in
flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .code import round_up
from .events import Step
from .local_memory import LocalMemory
from .memory import Segment
from .program import SHARED_START
from .tensor_memory import TensorMemory
from .warp import Warp

if TYPE_CHECKING:
    from .machine import Machine
    from .named_barrier import NamedBarrier

__all__ = ["CTA"]

_AXES = "xyz"


class CTA:
    """See the module's docstring. ``number`` counts CTAs of the grid, x fastest."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.number = machine, number
        gx, gy, _ = machine.launch.grid
        self.coordinates = (number % gx, number // gx % gy, number // (gx * gy))
        self.rank = 0
        data = np.zeros(machine.shared_bytes, np.uint8)
        self.shared = Segment(
            f"shared memory of CTA {self.coordinates}", "shared", SHARED_START, data, tracked=True
        )
        #: Shared memories of the cluster that this CTA can reach, by rank.
        self.reach: dict[int, Segment] = {self.rank: self.shared}
        self.tensor = TensorMemory(self)
        self.threads = machine.threads
        self.local_memory = LocalMemory(self, machine.program.entry.local_bytes)
        #: The CTA's barriers that have been used, by number.
        self.bars: dict[int, NamedBarrier] = {}
        #: tcgen05 operations in flight that a commit of (warp, lane) covers.
        self.uncommitted: dict[tuple[int, int], list[Step]] = {}
        #: Last MMA into each accumulator: what a later one with the same key is ordered after.
        self.accumulators: dict[tuple[Any, ...], Step] = {}
        #: Bulk copies of (warp, lane): those not committed, and the committed groups, oldest first.
        self.bulk: dict[tuple[int, int], tuple[list[Any], list[list[Any]]]] = {}
        #: Steps of this CTA in flight.
        self.in_flight: list[Step] = []
        count = (self.threads + 31) // 32
        self.registers = machine.registers(machine.program.entry, count)
        self._special: dict[str, NDArray[Any]] = {}
        self.warps: list[Warp] = []
        for index in range(count):
            frame = self.registers.frame(index)
            frame.special = self.special(index)
            self.warps.append(Warp(self, index, frame, self.threads - 32 * index))
        self.live_warps = count

    def special(self, warp: int, count: int = 1) -> Special:
        """Values of the special registers that do not change, for the threads of ``count`` warps."""
        return Special(self, slice(32 * warp, 32 * (warp + count)))

    def special_values(self, name: str) -> NDArray[Any]:
        """Values of one special register, for every thread of the CTA's warps."""
        found = self._special.get(name)
        if found is None:
            found = self._special[name] = self._compute(name)
        return found

    def _compute(self, name: str) -> NDArray[Any]:
        count = (self.threads + 31) // 32
        linear = np.arange(32 * count, dtype=np.uint32)
        if name.startswith("lanemask_"):
            one = np.uint64(1) << (linear % 32).astype(np.uint64)
            below = one - np.uint64(1)
            bits = {"eq": one, "lt": below, "le": below | one, "ge": ~below, "gt": ~(below | one)}
            return bits[name[9:]].astype(np.uint32)
        if name in ("laneid", "warpid"):
            return linear % 32 if name == "laneid" else linear // 32
        base, _, axis = name.partition(".")
        if base == "tid" and axis != "w":
            bx, by, _ = self.machine.launch.block
            return {"x": linear % bx, "y": linear // bx % by, "z": linear // (bx * by)}[axis].astype(
                np.uint32
            )
        value = self._same_in_all(base, axis)
        if name == "gridid":
            return np.full(linear.size, value, np.uint64)
        return np.full(linear.size, value, np.bool_ if name == "is_explicit_cluster" else np.uint32)

    def _same_in_all(self, base: str, axis: str) -> int:
        launch, target = self.machine.launch, self.machine.program.target
        if axis == "w":
            return 0
        if axis:
            position = _AXES.index(axis)
            return {
                "ntid": launch.block[position],
                "ctaid": self.coordinates[position],
                "clusterid": self.coordinates[position],
                "nctaid": launch.grid[position],
                "nclusterid": launch.grid[position],
                "cluster_ctaid": 0,
                "cluster_nctaid": 1,
            }[base]
        return {
            "nwarpid": target.threads_per_sm // 32,
            "smid": self.number % target.multiprocessors,
            "nsmid": target.multiprocessors,
            "cluster_ctarank": self.rank,
            "cluster_nctarank": 1,
            "gridid": 1,
            "dynamic_smem_size": launch.dynamic_smem,
            "total_smem_size": round_up(self.shared.size, 128),
            "is_explicit_cluster": 0,
        }[base]


class Special(dict[str, "NDArray[Any]"]):
    """Special registers by name, computed when first read."""

    def __init__(self, cta: CTA, span: slice) -> None:
        super().__init__()
        self.cta, self.span = cta, span

    def __missing__(self, name: str) -> NDArray[Any]:
        found = self[name] = self.cta.special_values(name)[self.span]
        return found
