"""The table of the reference: what orders, what a proxy fence does, which scopes fit.  Each entry can be switched off.

An edge of the graph carries the names of all entries that it needs, and is gone as soon as one of them is off.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TABLE", "Entry", "bits", "names"]


@dataclass(frozen=True)
class Entry:
    """One rule of the table.

    Attributes:
        kind: ``edge`` (deleting it removes order), ``proxy``, ``scope`` or ``object``.
        anchor: the section of the PTX ISA that states it.
        text: what it says.
    """

    name: str
    kind: str
    anchor: str
    text: str


_MBARRIER = "parallel-synchronization-and-communication-instructions-mbarrier"
_FENCE = "parallel-synchronization-and-communication-instructions-membar-fence"
_COPY = "data-movement-and-conversion-instructions"

_ENTRIES = (
    Entry("program_order", "edge", "program-order", "what a thread executes earlier is before what it executes later"),
    Entry("bar_sync", "edge", "memory-synchronization", "bar.sync synchronizes with every bar.sync of its round"),
    Entry("bar_arrive", "edge", "memory-synchronization", "bar.arrive synchronizes with bar.sync, not the reverse"),
    Entry("bar_red", "edge", "memory-synchronization", "bar.red synchronizes as bar.sync does"),
    Entry(
        "bar_warp_sync",
        "edge",
        "parallel-synchronization-and-communication-instructions-bar-warp-sync",
        "bar.warp.sync orders the memory accesses of the lanes in its mask",
    ),
    Entry("cluster_barrier", "edge", "memory-synchronization", "barrier.cluster.arrive synchronizes with wait"),
    Entry(
        "cluster_relaxed",
        "edge",
        "parallel-synchronization-and-communication-instructions-barrier-cluster",
        "barrier.cluster.arrive.relaxed orders execution only",
    ),
    Entry("mbarrier_arrive", "edge", f"{_MBARRIER}-arrive", "an arrival releases to the waits for its phase"),
    Entry("mbarrier_remote", "edge", f"{_MBARRIER}-arrive", "an arrival at another CTA's mbarrier does as well"),
    Entry(
        "mbarrier_relaxed",
        "edge",
        f"{_MBARRIER}-test-wait-try-wait",
        "an arrival or a wait that is relaxed, or whose scope is too narrow, orders execution only",
    ),
    Entry("complete_tx", "edge", "program-order-async-operations", "complete-tx is after the copy that it belongs to"),
    Entry("complete_tx_remote", "edge", f"{_COPY}-cp-async-bulk", "complete-tx on another CTA's mbarrier, for any wait there"),
    Entry("st_async", "edge", f"{_COPY}-st-async", "complete-tx of st.async and red.async releases the store"),
    Entry("async_issue", "edge", "program-order-async-operations", "a copy is after what its thread did before it"),
    Entry("bulk_wait_read", "edge", f"{_COPY}-cp-async-bulk-wait-group", "wait_group.read: sources have been read"),
    Entry("bulk_wait", "edge", f"{_COPY}-cp-async-bulk-wait-group", "wait_group: the thread's copies are complete"),
    Entry("cp_async_wait", "edge", f"{_COPY}-cp-async-wait-group", "cp.async.wait_group: the groups are complete"),
    Entry("cp_async_wait_all", "edge", f"{_COPY}-cp-async-wait-group", "cp.async.wait_all: all copies are complete"),
    Entry("cp_async_arrive", "edge", f"{_MBARRIER}-cp-async-mbarrier-arrive", "arrives after the thread's cp.async"),
    Entry("flag", "edge", "release-acquire-patterns", "a release pattern on a location that an acquire pattern reads"),
    Entry("rmw_chain", "edge", "observation-order", "a chain of atomics carries the release on"),
    Entry("release_fence", "edge", "release-acquire-patterns", "a fence and then a strong write is a release pattern"),
    Entry("acquire_fence", "edge", "release-acquire-patterns", "a strong read and then a fence is an acquire pattern"),
    Entry("release_then_write", "edge", "release-acquire-patterns", "a release and then a strong write of the location"),
    Entry("acquire_after_read", "edge", "release-acquire-patterns", "a strong read and then an acquire of the location"),
    Entry("fence_sc", "edge", _FENCE, "fence.sc does what fence.acq_rel does"),
    Entry("membar", "edge", _FENCE, "membar is fence.sc: .cta, .gl for .gpu, .sys"),
    Entry("fence_one_way", "edge", _FENCE, "fence.release and fence.acquire are halves of fence.acq_rel"),
    Entry("flag_relaxed", "edge", "observation-order", "a strong flag of any semantics orders execution"),
    Entry("observation", "edge", "causality-order", "a write that was read is before what the reader does next"),
    Entry("fence_mbarrier_init", "edge", _FENCE, "fence.mbarrier_init releases the thread's mbarrier.init"),
    Entry("cta_start", "edge", "cluster-of-cooperative-thread-arrays", "a CTA's threads run after it has started"),
    Entry("cta_exit", "edge", "cluster-of-cooperative-thread-arrays", "a CTA ends after its threads"),
    Entry("write_then_async", "proxy", "async-proxy", "an ordinary write and then an async access: a proxy fence"),
    Entry("read_then_async", "proxy", "async-proxy", "an ordinary read and then an async write: a proxy fence (open)"),
    Entry("proxy_fence", "proxy", _FENCE, "fence.proxy.async covers every space"),
    Entry("proxy_fence_cta", "proxy", _FENCE, "fence.proxy.async.shared::cta covers the CTA's shared memory"),
    Entry("proxy_fence_cluster", "proxy", _FENCE, "fence.proxy.async.shared::cluster covers all shared memory"),
    Entry("proxy_fence_global", "proxy", _FENCE, "fence.proxy.async.global covers global memory"),
    Entry("proxy_space", "proxy", _FENCE, "a proxy fence does not cover other spaces"),
    Entry("proxy_path", "proxy", "causality-order", "the fence is between the two accesses"),
    Entry("proxy_cta", "proxy", "causality-order", "the fence is in the CTA of the async access or of its bytes (open)"),
    Entry("async_across_ctas", "proxy", "causality-order", "async accesses of global memory by different CTAs: a proxy fence (open)"),
    Entry("completion_fence", "proxy", "async-proxy", "completion is followed by an implicit proxy fence"),
    Entry("cp_async_generic", "proxy", "async-proxy", "cp.async is not in the async proxy"),
    Entry("st_async_generic", "proxy", "async-proxy", "st.async and red.async are not in the async proxy"),
    Entry("noncoherent", "proxy", "scope-and-applicability", "ld.global.nc must not read what the launch writes"),
    Entry("strong", "scope", "morally-strong-operations", "strong accesses do not race with each other"),
    Entry("strong_scope", "scope", "morally-strong-operations", "if their scopes include each other"),
    Entry("strong_size", "scope", "morally-strong-operations", "if they overlap completely"),
    Entry("strong_proxy", "scope", "morally-strong-operations", "if they are of one proxy"),
    Entry("vector_elements", "scope", "memory-operations-on-vector-data-types", "a vector is its elements"),
    Entry("volatile", "scope", "volatile-operation", "volatile is relaxed.sys"),
    Entry("atomic_default", "scope", f"{_COPY}-atom", "atom and red without .sem are relaxed, without .scope .gpu"),
    Entry("reduce_atomic", "scope", f"{_COPY}-cp-reduce-async-bulk", "the writes of a reduction are relaxed atomics"),
    Entry("synchronization_scope", "scope", "memory-synchronization", "patterns whose scopes include each other"),
    Entry("mbarrier_init", "object", f"{_MBARRIER}-init", "mbarrier.init is before every use"),
    Entry("mbarrier_inval", "object", f"{_MBARRIER}-inval", "every use is before mbarrier.inval"),
    Entry("lifetime_start", "object", "distributed-shared-memory", "accesses are after the CTA's start"),
    Entry("lifetime_exit", "object", "distributed-shared-memory", "accesses are before the CTA's end"),
    Entry("store_collision", "object", "memory-consistency-model", "lanes of one store that write one address"),
    Entry("relaxed_handover", "object", "async-proxy", "async data handed over by order of execution alone"),
)  # fmt: skip

#: The table by name.
TABLE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
_BITS: dict[str, int] = {name: 1 << n for n, name in enumerate(TABLE)}


def bits(*needed: str) -> int:
    """The entries as a set of bits."""
    mask = 0
    for name in needed:
        mask |= _BITS[name]
    return mask


def names(mask: int) -> list[str]:
    """The entries of a set of bits."""
    return [name for name, bit in _BITS.items() if mask & bit]
