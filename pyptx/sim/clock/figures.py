"""The figures of a GPU that the timed machine reads, in cycles of the multiprocessor's clock.

What lies beyond the multiprocessor has clocks of its own: its constants are in ns, or in cycles at the
maximum clock, and converted here for the frequency of the run.
"""

from __future__ import annotations

from ...timing.constants import Gpu
from ...timing.tensor import mma_interval, mma_latency, wgmma_interval, wgmma_latency
from ..engine.work import Product
from .beside import Beside

__all__ = ["BANKS", "WARPGROUP", "WARP_ROWS", "WORD", "Figures"]

#: Rows of D of one warp of a warpgroup, and the warps of one.
WARP_ROWS, WARPGROUP = 16, 4
#: Sectors of a line of L1.
_LINE_SECTORS = 4
#: How long a multiprocessor may save up its share of what the chip has, in ns. Multiprocessors are out of
#: step by about an epilogue, so that those that store leave their share of the loads to the others.
_CREDIT = 3000
#: Banks of shared memory and bytes of a word.
BANKS, WORD = 32, 4
#: Cycles of the code of an arrival at a barrier of a cluster and the wait, by ptxas's control codes.
_AROUND_CLUSTER_BARRIER = 6.0
#: The same of a ``wgmma`` and the wait for it.
_AROUND_PRODUCT = 3.0


class Figures:
    """A GPU's figures at one frequency. Times are in cycles of the multiprocessor, rates are per cycle.

    Args:
        gpu: the constants.
        mhz: frequency of the multiprocessors.

    Attributes:
        ghz: the same in GHz: cycles of a ns.
        copy_issue: least time between two copies of one multiprocessor.
        copy_row: time of the copy engine for a row of a box; ``row_bytes`` count as one row,
            and a row in two lines as ``split_row``.
        link: bytes of loads that one multiprocessor gets; ``link_received``: that others load for it.
        l2_latency, memory_latency: from the issue of a load to its signal, without its rows.
        memory_queue: what a load of memory takes longer where memory is always busy; ``memory_spread``:
            for each doubling of its lines, the last of which counts.
        map_fetch: until a multiprocessor has a tensor map that it uses for the first time.
        tlb_reach: bytes of memory up to which no load misses the TLBs; ``tlb_miss``: what a miss adds.
        store_latency: from the end of a store's reads to the end of the wait for it.
        l2: bytes that L2 reads, for all that ask for them together once; ``l2_write``: that it
            writes, of memory and of stores.
        l2_burst: for how many times its share of L2 a multiprocessor can ask: the others ask, too.
        l2_partial: how many whole sectors one costs L2 of which a store writes a part.
        add_cost: how many stored bytes a byte costs L2 that is added there.
        fabric: bytes that arrive in all multiprocessors; ``memory``: bytes that memory reads.
        fill, store_fill: what a byte that memory reads, and one that is stored, take of the fabric, too.
        merge: share of the bytes for both multiprocessors of a TPC that the fabric carries once.
        apart: how long equal loads of threads come at the same time, where CTAs drift apart.
        store: bytes of shared memory that copies to global memory read; ``reduce``: the same where they are
            added there; ``store_issue``: more for each of them; ``store_read``: until the wait for its reads
            is over, beyond them.
        dirty: share of the lines of L2 that a flush leaves to be written; ``l2_bytes``: size of L2.
        write_cost: how many read bytes a written byte costs where as many are read; ``write_alone``: where
            none are.
        credit: how long a multiprocessor may save up its share of the chip's rates.
        ramp: for how long :meth:`ramp_limit` holds after idle time.
        port: bytes of shared memory that a multiprocessor reads.
        bank: cycles of a bank of shared memory for a word.
        shared_latency: of a load from shared memory until the next one takes it as an address, and
            ``shared_use``: longer for other instructions; ``lookup``: of L1 for a line.
        whole_sector, part_sector: time of a sector that a store fills, and of one that it writes in part.
        load_link: bytes of loads of threads that one multiprocessor gets from L2.
        atomic_latency: of an atomic in L2; ``atomic_word``: time between two on one word; ``atomics``:
            sectors with one that L2 takes; ``atomic_sector``: of a multiprocessor for one.
        load_l1_latency, load_l2_latency, load_memory_latency: of a load from global memory, by where it hits.
        wake: from a completed phase to the next instruction of a waiting warp.
        arrive: until an arrival counts.
        peer_latency: of a load from another CTA's shared memory; ``peer_word``: cycles of such a load that
            takes one cycle of a CTA's own; ``peer_way``: until an arrival at a barrier there counts, beyond
            that at one's own.
        code_line: of a line of machine code that is not in the instruction cache, behind one that is;
            ``code_jump``: of one elsewhere.
        start: from the launch to the first instruction; ``finish``: from the last one to the event behind.
        queued: by how much the result of a product that is issued behind others comes earlier.
        behind_fence: from the ``wgmma.fence`` of a warpgroup's last warp to its first ``wgmma``, at least.
        beside: what products take from the code of threads; None for nothing.
        burst: what products in a row take beyond their intervals and the latency of one.
        turnaround: from the end of a CTA to the first instruction of the next one in its place.
    """

    def __init__(self, gpu: Gpu, mhz: float) -> None:
        value = gpu.value
        self.gpu, self.ghz = gpu, mhz / 1000
        ghz, maximum = self.ghz, value("sm.clock_max_mhz") / 1000
        self.sms, self.schedulers = int(value("sm.count")), int(value("sm.schedulers"))
        self.copy_issue, self.copy_row = value("tma.issue_clk"), 1 / value("tma.row_per_clk")
        self.row_bytes, self.split_row = value("tma.row_bytes"), value("tma.split_row")
        self.link, self.link_received = value("tma.sm_bytes_per_clk"), value("tma.received_bytes_per_clk")
        self.store, self.store_issue = value("tma.store_bytes_per_clk"), value("tma.store_issue_clk")
        self.reduce = value("tma.reduce_bytes_per_clk")
        self.store_read = value("tma.store_read_clk")
        self.l2_latency = value("tma.latency_l2_ns") * ghz
        self.memory_latency, self.memory_queue = (
            value("tma.latency_hbm_ns") * ghz,
            value("hbm.queue_ns") * ghz,
        )
        self.memory_spread = value("hbm.spread_ns") * ghz
        self.store_latency = value("tma.store_latency_ns") * ghz
        self.map_fetch = value("tma.prefetch_map_ns") * ghz
        self.tlb_reach, self.tlb_miss = value("tlb.reach_bytes"), value("tlb.miss_ns") * ghz
        self.l2, self.l2_write = value("l2.bytes_per_ns") / ghz, value("l2.write_bytes_per_ns") / ghz
        self.l2_burst, self.l2_partial = value("l2.burst_share"), value("l2.partial_cost")
        self.add_cost = value("l2.write_bytes_per_ns") / value("l2.reduce_bytes_per_ns")
        self.fabric, self.fill = value("l2.fabric_bytes_per_ns") / ghz, value("l2.fill_share")
        self.store_fill, self.merge = value("l2.store_share"), value("l2.merge_share")
        # Memory serves reads and writes in equal parts at another rate than reads alone.
        self.memory = value("hbm.read_bytes_per_ns") / ghz
        mixed = 2 * value("hbm.read_bytes_per_ns") / value("hbm.mixed_bytes_per_ns") - 1
        alone = value("hbm.read_bytes_per_ns") / value("hbm.write_bytes_per_ns")
        self.write_cost, self.write_alone = mixed, min(mixed, alone)
        self.dirty, self.l2_bytes = value("l2.dirty_share"), value("l2.capacity_bytes")
        self.credit, self.apart = _CREDIT * ghz, value("l2.apart_ns") * ghz
        self._ramp_share, self._ramp_busy = value("tensor.ramp_share"), value("tensor.ramp_busy")
        self.ramp = value("tensor.ramp_ns") * ghz
        self.port = value("mma.port_bytes_per_clk")
        self.bank = 1.0
        self.shared_latency, self.shared_use = value("lds.latency_clk"), value("lds.use_clk")
        self.lookup = _LINE_SECTORS / value("ldg.sectors_per_clk")
        self.whole_sector = 1 / value("stg.sectors_per_clk")
        self.part_sector = 1 / value("stg.partial_sectors_per_clk")
        # These two were measured at the maximum clock.
        self.atomic_latency = value("atom.latency_clk") / maximum * ghz
        self.atomic_word = value("atom.same_address_clk") / maximum * ghz
        self.atomics = value("atom.sectors_per_clk") * maximum / ghz
        self.atomic_sector = 1 / value("atom.sm_sectors_per_clk")
        self.load_link = value("ldg.sm_bytes_per_clk")
        self.load_l1_latency = value("ldg.latency_l1_clk")
        self.load_l2_latency = value("l2.latency_clk") / maximum * ghz
        self.load_memory_latency = value("ldg.latency_hbm_clk") / maximum * ghz
        self.wake = value("mbarrier.wake_clk") - value("mbarrier.visible_clk") + value("mbarrier.test_clk")
        self.arrive = value("mbarrier.visible_clk") - value("mbarrier.test_clk")
        self.test = value("mbarrier.test_clk")
        self.barrier_base, self.barrier_warp = value("bar.sync_clk"), value("bar.sync_per_warp_clk")
        self.cluster_barrier = max(0.0, value("bar.cluster_clk") - _AROUND_CLUSTER_BARRIER)
        self.peer_latency = value("dsmem.latency_clk")
        self.peer_word = BANKS * WORD / value("dsmem.load_bytes_per_clk")
        self.peer_way = max(0.0, value("mbarrier.peer_wake_clk") - value("mbarrier.wake_clk"))
        self._code = tuple(
            (value(f"icache.{name}_clk"), value(f"icache.{name}_busy_clk")) for name in ("line", "jump")
        )
        self.start = value("launch.ns") * ghz
        self.finish = value("launch.event_ns") * ghz
        self.turnaround = value("cta.turnaround_ns") * ghz
        self._start_cta, self._start_warp = value("cta.apart_clk"), value("cta.apart_warp_clk")
        self._start_cluster = value("cluster.apart_ns") * ghz
        self._refill_cta, self._refill_cluster = (
            value("cta.refill_ns") * ghz,
            value("cluster.refill_ns") * ghz,
        )
        self.beside = Beside.of(gpu)
        self._products: dict[Product, tuple[float, float]] = {}
        self.cancel = self.allocate = self.burst = self.tensor_latency = self.tensor_copy = 0.0
        self.tensor_load = self.tensor_store = 1.0
        self.queued = self.behind_fence = self._product_start = self._product_start_rs = 0.0
        if gpu.target == "sm_90a":
            self.queued, self.behind_fence = value("wgmma.queued_clk"), value("wgmma.fence_clk")
            self._product_start, self._product_start_rs = (
                value("wgmma.start_clk"),
                value("wgmma.start_rs_clk"),
            )
        if gpu.target == "sm_100a":
            self.cancel, self.allocate = value("clc.latency_clk"), value("tmem.alloc_clk")
            self.tensor_load = value("tmem.load_bytes_per_clk_warp")
            self.tensor_store = value("tmem.store_bytes_per_clk_warp")
            self.tensor_latency = value("tmem.load_latency_clk")
            self.tensor_copy = value("tmem.cp_clk")
            self.burst = value("mma.burst_clk")

    def barrier(self, warps: int) -> float:
        """Return what a barrier of a CTA takes from the last arrival on, with so many warps."""
        return self.barrier_base + self.barrier_warp * warps

    def free_starts(self) -> None:
        """Let all CTAs start at once."""
        self._start_cta = self._start_warp = self._start_cluster = 0.0
        self._refill_cta = self._refill_cluster = 0.0

    def start_apart(self, warps: int, size: int, busy: int, *, first: bool) -> float:
        """Return by how much CTAs of so many warps start one after the other on a multiprocessor, at least.

        Args:
            warps: warps of a CTA.
            size: CTAs of a cluster.
            busy: multiprocessors that work.
            first: whether they have room from the beginning of the launch, and take no other's place.
        """
        apart = max(self._start_cta, self._start_warp * warps)
        clusters = busy / size
        if not first:
            return max(
                apart, busy * self._refill_cta + (clusters * self._refill_cluster if size > 1 else 0.0)
            )
        return max(apart, clusters * self._start_cluster) if size > 1 else apart

    def translation(self, spanned: float) -> float:
        """Return what a load takes longer, on average, in a launch whose arrays span so many bytes."""
        missing = 1 - self.tlb_reach / spanned if spanned > self.tlb_reach else 0.0
        return missing * self.tlb_miss

    def code(self, busy: int) -> tuple[float, float]:
        """Return how long a line of code takes that no cache holds, with so many SMs busy.

        Behind a line that is there, and elsewhere.
        """
        share = (busy - 1) / max(1, self.sms - 1)
        line, jump = (alone + (crowded - alone) * share for alone, crowded in self._code)
        return line, jump

    def ramp_limit(self, busy: int) -> float:
        """Return the share of its rate that a tensor core reaches after idle time, with so many SMs busy."""
        return 1 - (1 - self._ramp_share) * min(1.0, busy / self.sms / self._ramp_busy)

    def product(self, product: Product) -> tuple[float, float]:
        """Return the interval of a tensor-core instruction, and what its result takes beyond it.

        The latter ends when the signal of a commit behind it counts, or ``wgmma.wait_group`` is over.
        """
        found = self._products.get(product)
        if found is None:
            found = self._products[product] = self._product(product)
        return found

    def until_begin(self, product: Product) -> float:
        """Return how long after the issue of a ``wgmma`` the tensor core works on it, if it is free."""
        return self._product_start if product.a_in_shared else self._product_start_rs

    def _product(self, product: Product) -> tuple[float, float]:
        if product.rows == WARP_ROWS:
            interval = wgmma_interval(self.gpu, product.columns, not product.a_in_shared)
            # The latency is that of a product alone.
            latency = wgmma_latency(self.gpu, product.columns) - _AROUND_PRODUCT
            return interval, max(0.0, latency - interval - self._product_start)
        shape = product.ctas, product.rows * product.ctas, product.columns, not product.a_in_shared
        interval = mma_interval(self.gpu, *shape)
        waiting = self.wake + self.test
        return interval, max(0.0, mma_latency(self.gpu, *shape) - interval - waiting)
