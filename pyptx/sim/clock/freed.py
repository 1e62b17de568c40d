"""The figures of a GPU of which one unit has no limit: what removing a bound would give.

Owns :data:`UNITS`, the names of what can be removed from a run, and :func:`figures_without` and
:func:`costs_without`, which remove it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...core.records import dataclass
from ...timing.access_order import NO_ORDER, AccessOrder
from ...timing.constants import Gpu
from ...timing.opcodes import REGISTER_BANKS
from ..code.function import CodeBlock
from ..engine.work import Product
from .costs import BlockCost, Costs
from .figures import Figures

__all__ = ["PIPES", "UNITS", "costs_without", "figures_without"]

#: Pipes of the parts of a multiprocessor, as costs of blocks name them.
PIPES = ("fma", "fmaheavy", "alu", "mufu", "fp64", "shfl", "hmma", "uniform", *REGISTER_BANKS)

#: What can be removed, and what a run is like without it.
UNITS: Mapping[str, str] = {
    "tensor": "products take only the time that their operands need to come from shared memory",
    "port": "operands come from shared memory at once",
    "ramp": "tensor cores run at their full rate right after idle time",
    "copy engine": "copies take no time for rows, instructions or the bytes that they store",
    "L1": "L1 looks up any number of lines at once",
    "link": "the link of a multiprocessor passes any number of bytes at once",
    "L2": "L2 reads any number of bytes at once",
    "fabric": "the chip brings any number of bytes to its multiprocessors at once",
    "HBM": "memory reads and writes any number of bytes at once",
    "tensor memory": "loads and stores of tensor memory take no time of its port",
    "shared memory": "accesses of threads to shared memory take no time of its banks",
    "issue": "the code of threads takes no time",
    "latency": "results arrive, and waiting warps go on, at once",
    **{name: f"the {name} pipe takes any number of instructions at once" for name in PIPES},
    "launch": "the launch begins and ends at once, and a CTA follows another at once",
}


def figures_without(gpu: Gpu, mhz: float, unit: str | None) -> Figures:
    """Return the figures of a GPU of which a unit of :data:`UNITS`, if any, has no limit."""
    return Figures(gpu, mhz) if unit is None else _Freed(gpu, mhz, unit)


class _Freed(Figures):
    """Figures without one unit's limit."""

    def __init__(self, gpu: Gpu, mhz: float, unit: str) -> None:
        super().__init__(gpu, mhz)
        assert unit in UNITS, unit
        self._pace = Figures(_paced(gpu, unit), mhz)
        self._at_once = unit == "latency"
        if unit == "tensor":
            self.product_issue = self.ramp = 0.0
        elif unit == "port":
            self.port = math.inf
        elif unit == "ramp":
            self.ramp = 0.0
        elif unit == "copy engine":
            self.copy_issue = self.copy_row = 0.0
            self.store = self.reduce = math.inf
            self.store_issue = 0.0
        elif unit == "L1":
            self.lookup = 0.0
        elif unit == "link":
            self.link = self.link_received = self.load_link = math.inf
        elif unit == "L2":
            self.l2 = self.l2_write = self.atomics = math.inf
            self.atomic_word = self.atomic_sector = 0.0
        elif unit == "fabric":
            self.fabric = math.inf
        elif unit == "HBM":
            self.memory = math.inf
        elif unit == "tensor memory":
            self.tensor_load = self.tensor_store = math.inf
        elif unit == "shared memory":
            self.bank = 0.0
        elif unit == "latency":
            self._free_latencies()
        elif unit == "launch":
            self.start = self.finish = self.turnaround = 0.0
            self.free_starts()

    def _free_latencies(self) -> None:
        self.l2_latency = self.memory_latency = self.store_latency = self.store_read = 0.0
        self.load_l1_latency = self.load_l2_latency = self.load_memory_latency = self.shared_latency = (
            self.shared_use
        ) = 0.0
        self.memory_spread = self.atomic_latency = self.peer_latency = self.peer_way = 0.0
        self.wake = self.arrive = self.test = self.cluster_barrier = 0.0
        self.barrier_base = self.barrier_warp = 0.0
        self.cancel = self.allocate = self.tensor_latency = self.map_fetch = self.tlb_miss = 0.0
        self.code_line = self.code_jump = 0.0

    def product(self, product: Product) -> tuple[float, float]:
        interval, _ = self._pace.product(product)
        return interval, 0.0 if self._at_once else super().product(product)[1]


def _paced(gpu: Gpu, unit: str) -> Gpu:
    """Return the constants of the intervals of products without a unit."""
    if unit == "tensor":
        names = [name for name in gpu.constants if ".interval." in name and "_ss.extra_" not in name]
        return gpu.with_values(dict.fromkeys(names, 0.0))
    if unit == "port":
        extra = [name for name in gpu.constants if "_ss.extra_" in name]
        return gpu.with_values({"mma.port_bytes_per_clk": math.inf, **dict.fromkeys(extra, 0.0)})
    return gpu


@dataclass(frozen=True)
class _Cost:
    cycles: float
    issues: float
    runs: float
    pipes: Mapping[str, float]
    dense: Mapping[str, float]
    behind: Mapping[int, float]
    lines: Sequence[int]
    serialized: bool = False
    order: AccessOrder = NO_ORDER


def costs_without(costs: Costs, unit: str | None) -> Costs:
    """Return the costs of blocks without a pipe, or with no cost at all without the unit ``issue``."""
    if unit == "issue":
        return _nothing
    if unit not in PIPES:
        return costs

    def cost(block: CodeBlock) -> BlockCost:
        found = costs(block)
        if unit not in found.pipes:
            return found
        pipes, dense = (
            {name: cycles for name, cycles in each.items() if name != unit}
            for each in (found.pipes, found.dense)
        )
        issued = found.cycles, found.issues, found.runs
        return _Cost(*issued, pipes, dense, found.behind, found.lines, found.serialized, found.order)

    return cost


def _nothing(block: CodeBlock) -> BlockCost:
    # In a loop time must go on: what the loop polls may change later.
    again = block.taken is not None and block.taken <= block.index
    return _Cost(float(again), 0.0, 0.0, {}, {}, {}, ())
