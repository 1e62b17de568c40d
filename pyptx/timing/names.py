"""The constants that describe a GPU's timing: name, unit and meaning of each.

Owns the names that a file of constants must have (:func:`required`).  ``clk`` are cycles of the SM's clock;
what lies beyond the SM is in ns, or in ``clk`` at the maximum clock where the meaning says so.  Rates of
``tensor``, ``mma``, ``tmem``, ``tma`` and the SIMT pipes are those of one SM; rates of ``l2`` and ``hbm`` are
those of the chip.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMMON", "TCGEN05", "WGMMA", "required"]

#: Of every GPU: unit, meaning.
COMMON: dict[str, tuple[str, str]] = {
    "sm.count": ("1", "multiprocessors"),
    "sm.clock_max_mhz": ("MHz", "clock of the SMs under light load"),
    "sm.schedulers": ("1", "warp schedulers of an SM"),
    "sm.smem_bytes": ("B", "shared memory of an SM"),
    "sm.smem_bytes_per_cta": ("B", "shared memory that one CTA may have"),
    "sm.warps": ("1", "resident warps of an SM, at most"),
    "sm.registers": ("1", "32-bit registers of an SM"),
    "sm.ctas": ("1", "resident CTAs of an SM, at most"),
    "sm.setmaxnreg_clk": ("clk", "one setmaxnreg"),
    "sm.overlap_loss": (
        "1",
        "share of a launch's time that it takes longer if two units work all the time, by the cube of the "
        "share of the one that works less",
    ),
    "sm.bsync_clk": ("clk", "instruction that brings the lanes of a warp together behind a branch"),
    "icache.line_clk": ("clk", "line of 128 bytes of code that no cache holds, behind one that is there"),
    "icache.jump_clk": ("clk", "line of code elsewhere"),
    "icache.line_busy_clk": ("clk", "icache.line_clk where all multiprocessors fetch at once"),
    "icache.jump_busy_clk": ("clk", "icache.jump_clk where all multiprocessors fetch at once"),
    "gpc.sizes": ("1", "SMs of each GPC; a cluster lies in one"),
    "tensor.flops_per_clk_16bit": ("FLOP/clk/SM", "dense bf16 and f16"),
    "tensor.flops_per_clk_8bit": ("FLOP/clk/SM", "dense 8-bit floats"),
    "tensor.flops_per_clk_tf32": ("FLOP/clk/SM", "dense tf32"),
    "tensor.ramp_share": ("1", "share of the rate of all tensor cores that the chip gives after idle time"),
    "tensor.ramp_ns": ("ns", "for how long it gives no more"),
    "tensor.ramp_busy": ("1", "share of the SMs from which on that holds; with fewer, it gives more"),
    "hmma.flops_per_clk_16bit": ("FLOP/clk/SM", "mma.sync of bf16 and f16"),
    "hmma.least_clk": ("clk", "mma.sync of less than 32 bytes of K, which takes longer than its operations"),
    "dmma.flops_per_clk": ("FLOP/clk/SM", "mma.sync of f64"),
    "mma.k_bytes": ("B", "bytes of a row of K that one instruction covers"),
    "mma.port_bytes_per_clk": ("B/clk/SM", "reads of MMA operands from shared memory"),
    "issue.per_clk_per_scheduler": ("instr/clk", "warp instructions that a scheduler issues"),
    "fma.lanes_per_clk": ("lanes/clk/SM", "f32 multiply-adds"),
    "fma.latency_clk": ("clk", "f32 multiply-add to a dependent instruction"),
    "fmaheavy.lanes_per_clk": (
        "lanes/clk/SM",
        "multiply-adds of integers and of pairs of halves, for which the pipe of fma has one half",
    ),
    "alu.lanes_per_clk": ("lanes/clk/SM", "integer, logic, compare, select"),
    "alu.latency_clk": ("clk", "integer instruction to a dependent one"),
    "mufu.lanes_per_clk": ("lanes/clk/SM", "ex2, rcp, rsqrt and their like"),
    "mufu.latency_clk": ("clk", "such an instruction to a dependent one"),
    "mufu.read_clk": ("clk", "such an instruction to one that may overwrite its operand"),
    "lsu.read_clk": ("clk", "load, store or shuffle to an instruction that may overwrite its operands"),
    "cvt.lanes_per_clk": ("lanes/clk/SM", "packed conversions, which the ALU executes"),
    "fp64.lanes_per_clk": ("lanes/clk/SM", "f64 multiply-adds"),
    "shfl.lanes_per_clk": ("lanes/clk/SM", "shuffles"),
    "shfl.latency_clk": ("clk", "shuffle to a dependent instruction"),
    "lds.bytes_per_clk": ("B/clk/SM", "shared memory, without conflicts"),
    "lds.latency_clk": ("clk", "load from shared memory"),
    "lds.use_clk": ("clk", "what it takes longer until arithmetic can use it, not a load as its address"),
    "ldg.latency_l1_clk": ("clk", "load that hits L1"),
    "ldg.latency_hbm_clk": ("clk", "load that misses L2, at the maximum clock"),
    "ldg.l1_bytes_per_clk": ("B/clk/SM", "loads that hit L1"),
    "ldg.sm_bytes_per_clk": ("B/clk/SM", "loads of one SM from L2"),
    "ldg.sectors_per_clk": ("sectors/clk/SM", "sectors that L1 looks up"),
    "stg.sectors_per_clk": ("sectors/clk/SM", "sectors that stores of threads fill"),
    "stg.partial_sectors_per_clk": ("sectors/clk/SM", "sectors of which they write a part"),
    "ldg.async_groups": ("1", "groups of cp.async that a warp has in flight, at most"),
    "ldg.lines_in_flight": ("1", "outstanding lines of an SM"),
    "dsmem.latency_clk": ("clk", "load from another CTA's shared memory"),
    "dsmem.load_bytes_per_clk": ("B/clk/SM", "such loads"),
    "dsmem.bulk_bytes_per_clk": ("B/clk/SM", "bulk copies between CTAs of a cluster"),
    "atom.latency_clk": ("clk", "atomic in L2 to its result"),
    "atom.same_address_clk": ("clk", "between two atomics on one address"),
    "atom.sm_sectors_per_clk": ("sectors/clk/SM", "sectors with atomics that one SM sends to L2"),
    "atom.sectors_per_clk": ("sectors/clk", "atomics of the chip on distinct sectors"),
    "bar.sync_clk": ("clk", "barrier of a CTA, without its warps' share"),
    "bar.sync_per_warp_clk": ("clk", "what each warp adds to it"),
    "bar.warp_sync_clk": ("clk", "bar.warp.sync"),
    "bar.cluster_clk": ("clk", "arrive and wait of a cluster"),
    "mbarrier.arrive_clk": ("clk", "one arrive"),
    "mbarrier.test_clk": ("clk", "try_wait on a complete phase, and the branch behind it"),
    "mbarrier.visible_clk": ("clk", "an arrive to one's own true test"),
    "mbarrier.wake_clk": (
        "clk",
        "an arrive to the wake of a parked warp of the CTA, without the code around",
    ),
    "mbarrier.peer_wake_clk": ("clk", "the same of an arrive of another CTA of the cluster"),
    "fence.proxy_async_clk": ("clk", "fence.proxy.async of shared memory"),
    "fence.behind_store_clk": ("clk", "a store to shared memory to the end of such a fence behind it"),
    "fence.behind_stmatrix_clk": ("clk", "an stmatrix of four matrices to the end of such a fence behind it"),
    "fence.proxy_async_all_clk": ("clk", "fence.proxy.async of every space"),
    "fence.gpu_clk": ("clk", "fence at gpu scope"),
    "tma.row_per_clk": ("rows/clk/SM", "rows of boxes that one SM's TMA requests"),
    "tma.row_bytes": ("B", "bytes that count as one row; a longer row counts as several"),
    "tma.split_row": ("1", "rows that a row counts of which parts lie in two lines of 128 bytes"),
    "tma.issue_clk": ("clk", "between two TMA instructions of an SM, small boxes"),
    "tma.sm_bytes_per_clk": ("B/clk/SM", "TMA loads of one SM that hit L2"),
    "tma.store_bytes_per_clk": ("B/clk/SM", "bytes that TMA stores of one SM read from shared memory"),
    "tma.reduce_bytes_per_clk": ("B/clk/SM", "the same of TMA stores that add to global memory"),
    "tma.store_issue_clk": ("clk", "what each TMA store takes of the engine beyond its bytes"),
    "tma.store_read_clk": ("clk", "TMA store, from the end of its bytes to the end of wait_group.read"),
    "tma.received_bytes_per_clk": ("B/clk/SM", "bytes that multicasts of other SMs bring to one SM"),
    "tma.latency_l2_ns": ("ns", "TMA load that hits L2, from issue to the end of the wait, without its rows"),
    "tma.latency_hbm_ns": ("ns", "the same where it misses L2"),
    "tma.store_latency_ns": ("ns", "TMA store, from the end of its reads to the end of wait_group"),
    "tma.prefetch_map_ns": ("ns", "what the first use of a tensor map adds"),
    "tlb.reach_bytes": ("B", "span of memory up to which the TLBs translate all addresses"),
    "tlb.miss_ns": ("ns", "what a load takes longer whose address they do not translate"),
    "l2.capacity_bytes": ("B", "L2, nominal"),
    "l2.soft_capacity_bytes": ("B", "working set from which on misses grow"),
    "l2.dirty_share": ("1", "share of L2's lines that a flush by writes leaves to be written to memory"),
    "l2.latency_clk": ("clk", "load that hits L2, mean of near and far, at the maximum clock"),
    "l2.latency_far_clk": ("clk", "load that hits the far half, at the maximum clock"),
    "l2.bytes_per_ns": ("B/ns", "reads that hit L2"),
    "l2.write_bytes_per_ns": ("B/ns", "bytes that come into L2: filled by memory, and stored by SMs"),
    "l2.partial_cost": (
        "1",
        "what a sector of which a store writes a part takes when L2 takes it in, in whole sectors",
    ),
    "l2.reduce_bytes_per_ns": ("B/ns", "bytes that are added in L2"),
    "l2.burst_share": (
        "1",
        "for how many times its share of L2 an SM can ask at once where all do the same, which ask, too",
    ),
    "l2.fabric_bytes_per_ns": (
        "B/ns",
        "bytes that arrive in all SMs, equal requests and multicast counted for each",
    ),
    "l2.fill_share": (
        "1",
        "what a byte that memory fills into L2 takes of the fabric, over one that arrives",
    ),
    "l2.store_share": ("1", "what a stored byte takes of the fabric, over one that arrives"),
    "l2.merge_share": (
        "1",
        "share of the bytes for both SMs of a TPC that the fabric carries once; it carries the others twice",
    ),
    "l2.coalesced_share": (
        "1",
        "share of a GPC's equal copies that L2 answers once, of SMs with several CTAs",
    ),
    "l2.apart_ns": (
        "ns",
        "after so long, of SMs with several CTAs, 1/e of the equal loads of threads come at the same time",
    ),
    "l2.drift_root_ns": (
        "ns^0.5",
        "by so much, times the root of the time, are SMs apart that began together and load the same",
    ),
    "hbm.queue_ns": ("ns", "what a load takes longer where memory is always busy, beside its bandwidth"),
    "hbm.spread_ns": ("ns", "what a load of memory takes longer for each doubling of its lines of 128 bytes"),
    "hbm.read_bytes_per_ns": ("B/ns", "reads alone"),
    "hbm.write_bytes_per_ns": ("B/ns", "writes alone"),
    "hbm.mixed_bytes_per_ns": ("B/ns", "reads and writes in equal parts, their sum"),
    "hbm.latency_ns": ("ns", "what a miss of L2 adds to a hit"),
    "hbm.capacity_bytes": ("B", "memory"),
    "launch.ns": ("ns", "start of a kernel to the first instruction, and its last to its end, together"),
    "launch.event_ns": ("ns", "what timing one launch by two events adds"),
    "launch.idle_ns": ("ns", "what it adds beyond that where the GPU is idle before, and waits for the host"),
    "launch.profiled_ns": ("ns", "what a launch takes longer under a profiler that counts its cycles"),
    "launch.gap_ns": ("ns", "between two kernels of a stream"),
    "launch.dependent_gap_ns": ("ns", "the same with programmatic dependent launch"),
    "cta.start_ns": ("ns", "place on an SM to the CTA's first instruction"),
    "cta.turnaround_ns": ("ns", "exit of a CTA to the first instruction of the next one in its place"),
    "cta.apart_clk": ("clk", "between CTAs that start on one SM at the begin of a launch"),
    "cta.apart_warp_clk": ("clk", "the least of it for each warp of a CTA"),
    "cluster.apart_ns": ("ns", "between clusters that start on the chip at the begin of a launch"),
    "cta.refill_ns": ("ns", "between CTAs that start on the chip in the place of others"),
    "cluster.refill_ns": ("ns", "what a cluster adds to that of its CTAs"),
    "power.limit_w": ("W", "power limit of the board"),
    "power.burst_limit_w": ("W", "power that the governor allows right after idle time"),
    "power.governor_ns": ("ns", "time constant at which the clock falls to the sustained one"),
    "power.static_w": ("W", "power without clocks"),
    "power.base_w": ("W", "clocks and control at the maximum clock"),
    "power.mma_w": ("W", "tensor cores all busy on normal data, at the maximum clock"),
    "power.zeros_share": ("1", "the share of it that zeros cost"),
    "power.port_pj_per_byte": ("pJ/B", "operand reads from shared memory, at the maximum clock"),
    "power.l2_pj_per_byte": ("pJ/B", "bytes from L2"),
    "power.hbm_pj_per_byte": ("pJ/B", "bytes of HBM"),
    "power.simt_w": ("W", "every issue slot in use, at the maximum clock"),
    "power.voltage_floor": ("1", "voltage extrapolated to clock 0, over that at the maximum clock"),
    "power.droop": ("1", "share of the maximum clock that a busy tensor pipe costs below the power limit"),
    "power.tensor_droop": ("1", "share of the maximum clock that any use of the tensor pipe costs"),
    "power.sustained_droop": ("1", "share of the maximum clock that a lasting use of all of the pipe costs"),
}

#: Of GPUs with tcgen05.  ``g1`` and ``g2`` are cta_group::1 and ::2; with ``ss`` A is in shared memory, with
#: ``ts`` in tensor memory.
TCGEN05: dict[str, tuple[str, str]] = {
    "tensor.flops_per_clk_4bit": ("FLOP/clk/SM", "dense 4-bit floats"),
    "mma.interval.g1_m64.per_n_clk": ("clk/column", "compute, for each column of N"),
    "mma.interval.g1_m128.per_n_clk": ("clk/column", "compute, for each column of N"),
    "mma.interval.g2_m128.per_n_clk": ("clk/column", "compute, for each column of N"),
    "mma.interval.g2_m256.per_n_clk": ("clk/column", "compute, for each column of N"),
    "mma.interval.floor_clk": ("clk", "smallest interval"),
    "mma.interval.loop_clk": ("clk", "what a loop of the measurement adds; no part of a kernel's interval"),
    "mma.interval.g2_m256_ss.extra_clk": ("clk", "what a pair's port needs beyond its rule"),
    "mma.burst_clk": ("clk", "what a burst takes beyond intervals and one latency"),
    "mma.issue_clk": ("clk", "between two MMAs that one thread issues"),
    "mma.latency.g2_m128_ss.narrow_base_clk": ("clk", "latency at N = 0 of the line for N up to 128"),
    "mma.latency.g2_m128_ss.narrow_per_n_clk": ("clk/column", "its slope"),
    "tmem.load_bytes_per_clk_warp": ("B/clk", "tcgen05.ld of one warp"),
    "tmem.load_bytes_per_clk_sm": ("B/clk/SM", "tcgen05.ld of an SM"),
    "tmem.store_bytes_per_clk_warp": ("B/clk", "tcgen05.st of one warp"),
    "tmem.store_bytes_per_clk_sm": ("B/clk/SM", "tcgen05.st of an SM"),
    "tmem.load_latency_clk": ("clk", "tcgen05.ld to the end of wait::ld, without its bytes"),
    "tmem.alloc_clk": ("clk", "tcgen05.alloc"),
    "tmem.cp_clk": ("clk", "one tcgen05.cp"),
    "tmem.shift_clk": ("clk", "one tcgen05.shift"),
    "power.ladder.base_w": ("W", "power.base_w, fitted to a ladder of kernels"),
    "power.ladder.mma_w": ("W", "power.mma_w, fitted to a ladder of kernels"),
    "clc.latency_clk": ("clk", "clusterlaunchcontrol.try_cancel to its answer"),
}
for _form in (
    "g1_m64_ss",
    "g1_m64_ts",
    "g1_m128_ss",
    "g1_m128_ts",
    "g2_m128_ss",
    "g2_m128_ts",
    "g2_m256_ss",
    "g2_m256_ts",
):
    TCGEN05[f"mma.latency.{_form}.base_clk"] = (
        "clk",
        "latency at N = 0: issue to the end of the wait for the commit",
    )
    TCGEN05[f"mma.latency.{_form}.per_n_clk"] = ("clk/column", "what each column of N adds to it")

#: Of GPUs with wgmma.
WGMMA: dict[str, tuple[str, str]] = {
    "wgmma.interval.per_n_clk": ("clk/column", "compute of one m64nNk16, for each column of N"),
    "wgmma.interval.floor_ss_clk": ("clk", "smallest interval, A in shared memory"),
    "wgmma.interval.floor_rs_clk": ("clk", "smallest interval, A in registers"),
    "wgmma.latency.base_clk": ("clk", "latency at N = 0: issue to the end of wait_group"),
    "wgmma.latency.per_n_clk": ("clk/column", "what each column of N adds to it"),
    "wgmma.pace": (
        "1",
        "share of their rate that products of normally distributed numbers keep; zeros keep all",
    ),
    "wgmma.start_clk": ("clk", "from its issue by the last warp until the tensor core, if free, works on it"),
    "wgmma.start_rs_clk": ("clk", "the same with A in registers"),
    "wgmma.fence_clk": ("clk", "from the fence of a warpgroup's last warp to the first product, at least"),
    "wgmma.queued_clk": (
        "clk",
        "by so much the result of a product behind others comes earlier than that of one",
    ),
    "wgmma.fma_share": (
        "1",
        "what products that run all the time take of the pipe of f32 multiply-adds that are not in a row",
    ),
    "wgmma.alu_share": ("1", "the same of the pipes of integer instructions and conversions"),
    "wgmma.mufu_share": ("1", "the same of the pipe of ex2, rcp and their like"),
    "wgmma.alone_clk": (
        "clk",
        "what a warp alone loses to each instruction beside products, but for multiply-adds and these",
    ),
    "wgmma.others_clk": ("clk", "what any other instruction takes of the pipe of these, beside products"),
    "wgmma.issue_clk": ("clk", "between two wgmma that a warpgroup issues"),
}

_OF_TARGETS: dict[str, dict[str, tuple[str, str]]] = {"sm_90a": WGMMA, "sm_100a": TCGEN05}


def required(target: str) -> Mapping[str, tuple[str, str]] | None:
    """Return unit and meaning of every constant that a GPU of a target has, or None for an unknown target."""
    own = _OF_TARGETS.get(target)
    return None if own is None else {**COMMON, **own}
