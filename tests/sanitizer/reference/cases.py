"""Hand-written programs, one or more for each entry of the table, with the verdicts that the PTX ISA gives them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CASES", "VERDICTS", "Case"]


@dataclass(frozen=True)
class Case:
    """A program in :mod:`.notation` and its verdicts.

    Attributes:
        entry: the entry of the table that decides.
        rules: the rules that the program breaks.
        without: the rules that it breaks if the entry is off.
    """

    entry: str
    text: str
    rules: str
    without: str


RACE, MISSING, OPEN = "data-race", "proxy-fence-missing", "proxy-fence-open"
LIFETIME, RELAXED, COLLISION = "cluster-lifetime", "relaxed-handover", "store-collision"

_EXPECT = "mbarrier.arrive.expect_tx !bar $16"
_LOAD = f"{_EXPECT}; bulk.load s <-g x16 !bar"
_CLUSTER = "cluster.arrive; cluster.wait"
_LIGHT = "cluster.arrive .relaxed; cluster.wait"
_STORE = "bulk.store g <-s x16"
_DONE = "bulk.commit; bulk.wait"
_READ = "bulk.store h <-s x16; bulk.commit; bulk.wait ~read"
_CP = "cp.async s <-g x16"


def _message(first: str, second: str) -> str:
    """Message passing between two CTAs."""
    return f"st g; {first} || {second}; ld g"


CASES = (
    Case("program_order", "st s; bar.sync #1 %64 | bar.sync #1 %64; ld s", "", RACE),
    Case("bar_sync", "st s; bar.sync #1 %64 | bar.sync #1 %64; ld s", "", RACE),
    Case("bar_arrive", "st s; bar.arrive #1 %64 | bar.sync #1 %64; ld s", "", RACE),
    Case("bar_red", "st s; bar.red #1 %64 | bar.red #1 %64; ld s", "", RACE),
    Case("bar_warp_sync", "st s; 0,1: bar.warp.sync; 1: ld s", "", RACE),
    Case("cluster_barrier", f"st g; {_CLUSTER} || {_CLUSTER}; ld g", "", RACE),
    Case("cluster_relaxed", f"{_LIGHT}; st s@1; {_CLUSTER} || {_LIGHT}; {_CLUSTER}", "", LIFETIME),
    Case("mbarrier_arrive", "st s; mbarrier.arrive !bar | mbarrier.wait !bar; ld s", "", RACE),
    Case(
        "mbarrier_remote",
        "st s@1; mbarrier.arrive !bar@1 .release.cluster || mbarrier.wait !bar .acquire.cluster; ld s",
        "",
        f"{RACE} {LIFETIME}",
    ),
    Case(
        "mbarrier_relaxed",
        f"{_READ}; mbarrier.arrive !back .relaxed.cta | mbarrier.wait !back; {_LOAD}; mbarrier.wait !bar",
        RELAXED,
        RACE,
    ),
    Case("complete_tx", f"{_LOAD}; mbarrier.wait !bar; ld s", "", RACE),
    Case(
        "complete_tx_remote",
        f"bulk.load s@1 <-g x16 !bar@1 || {_EXPECT}; mbarrier.wait !bar .acquire.cluster; ld s",
        "",
        RACE,
    ),
    Case(
        "st_async",
        "st.async s@1 !bar@1 || mbarrier.arrive.expect_tx !bar $4; mbarrier.wait !bar .acquire.cluster; ld s",
        "",
        f"{RACE} {LIFETIME}",
    ),
    Case("async_issue", f"st s v4; fence.proxy.async; {_STORE}; {_DONE}", "", RACE),
    Case("bulk_wait_read", f"{_STORE}; bulk.commit; bulk.wait ~read; st s", "", RACE),
    Case("bulk_wait", f"{_STORE}; {_DONE}; ld g", "", RACE),
    Case("cp_async_wait", f"{_CP}; cp.async.commit; cp.async.wait; ld s", "", RACE),
    Case("cp_async_wait_all", f"{_CP}; cp.async.wait_all; ld s", "", RACE),
    Case("cp_async_arrive", f"{_CP}; cp.async.arrive !bar ~noinc | mbarrier.wait !bar; ld s", "", RACE),
    Case("flag", _message("st flag .release.gpu =1", "poll flag .acquire.gpu =1"), "", RACE),
    Case(
        "rmw_chain",
        "st g; red flag .release.gpu =1 | st g+4; red flag .release.gpu =1 | poll flag .acquire.gpu =2; ld g v2",
        "",
        RACE,
    ),
    Case(
        "release_fence",
        _message("fence .acq_rel.gpu; st flag .relaxed.gpu =1", "poll flag .acquire.gpu =1"),
        "",
        RACE,
    ),
    Case(
        "acquire_fence",
        _message("st flag .release.gpu =1", "poll flag .relaxed.gpu =1; fence .acq_rel.gpu"),
        "",
        RACE,
    ),
    Case(
        "release_then_write",
        _message("st flag .release.gpu =1; st flag .relaxed.gpu =2", "poll flag .acquire.gpu =2"),
        "",
        RACE,
    ),
    Case(
        "acquire_after_read",
        _message("st flag .release.gpu =1", "poll flag .relaxed.gpu =1; ld flag .acquire.gpu"),
        "",
        RACE,
    ),
    Case(
        "fence_sc", _message("fence .sc.gpu; st flag .relaxed.gpu =1", "poll flag .acquire.gpu =1"), "", RACE
    ),
    Case("membar", _message("membar .gl; st flag .relaxed.gpu =1", "poll flag .acquire.gpu =1"), "", RACE),
    Case(
        "fence_one_way",
        _message("fence .release.gpu; st flag .relaxed.gpu =1", "poll flag .acquire.gpu =1"),
        "",
        RACE,
    ),
    Case(
        "flag_relaxed",
        f"{_READ}; st flag .relaxed.gpu =1 | poll flag .relaxed.gpu =1; {_LOAD}; mbarrier.wait !bar",
        RELAXED,
        RACE,
    ),
    Case("observation", "st flag .relaxed.gpu =1 || poll flag .relaxed.gpu =1; st flag =0", "", RACE),
    Case(
        "fence_mbarrier_init",
        f"mbarrier.init !bar #1; fence.mbarrier_init; {_LIGHT}; mbarrier.wait !bar"
        f" || {_LIGHT}; mbarrier.arrive !bar@0 .release.cluster",
        "",
        RACE,
    ),
    Case("cta_start", f"{_CLUSTER}; st s@1; {_CLUSTER} || {_CLUSTER}; {_CLUSTER}", "", LIFETIME),
    Case("cta_exit", f"{_CLUSTER}; st s@1; {_CLUSTER} || {_CLUSTER}; {_CLUSTER}", "", LIFETIME),
    Case("write_then_async", f"st s v4; {_STORE}; {_DONE}", MISSING, ""),
    Case(
        "read_then_async",
        "mbarrier.init !bar #1; bar.sync %32; ld s; bulk.load s <-g x16 !bar;"
        " mbarrier.arrive.expect_tx !bar $16; mbarrier.wait !bar",
        OPEN,
        "",
    ),
    Case("proxy_fence", f"st s v4; fence.proxy.async; {_STORE}; {_DONE}", "", MISSING),
    Case("proxy_fence_cta", f"st s v4; fence.proxy.async ~shared::cta; {_STORE}; {_DONE}", "", MISSING),
    Case(
        "proxy_fence_cluster", f"st s v4; fence.proxy.async ~shared::cluster; {_STORE}; {_DONE}", "", MISSING
    ),
    Case(
        "proxy_fence_global", f"st g v4; fence.proxy.async ~global; {_LOAD}; mbarrier.wait !bar", "", MISSING
    ),
    Case("proxy_space", f"st s v4; fence.proxy.async ~global; {_STORE}; {_DONE}", MISSING, ""),
    Case("proxy_path", f"fence.proxy.async; st s v4; {_STORE}; {_DONE}", MISSING, ""),
    Case(
        "proxy_cta",
        f"{_CLUSTER}; st s@1 v4; fence.proxy.async; {_CLUSTER} || {_CLUSTER}; {_CLUSTER}; {_STORE}; {_DONE}",
        OPEN,
        "",
    ),
    Case(
        "async_across_ctas",
        f"{_STORE}; {_DONE}; {_CLUSTER} || {_CLUSTER}; {_LOAD}; mbarrier.wait !bar",
        OPEN,
        "",
    ),
    Case("completion_fence", f"{_LOAD}; mbarrier.wait !bar; ld s", "", MISSING),
    Case("cp_async_generic", f"{_CP}; cp.async.wait_all; bulk.store h <-s x16; {_DONE}", MISSING, ""),
    Case(
        "st_async_generic",
        f"st.async s !bar; mbarrier.arrive.expect_tx !bar $4; mbarrier.wait !bar; {_STORE}; {_DONE}",
        MISSING,
        "",
    ),
    Case("noncoherent", "st g; ld.nc g", RACE, ""),
    Case("strong", "st g .relaxed.gpu || ld g .relaxed.gpu", "", RACE),
    Case("strong_scope", "atom g .relaxed.cta || atom g .relaxed.gpu", RACE, ""),
    Case("strong_size", "st g .relaxed.gpu x8 || ld g .relaxed.gpu x4", RACE, ""),
    Case("strong_proxy", f"{_STORE.replace('store', 'reduce')}; {_DONE} | red g .relaxed.gpu", RACE, ""),
    Case("vector_elements", "st g .relaxed.gpu v2 || ld g+4 .relaxed.gpu", "", RACE),
    Case("volatile", "st g .volatile || ld g .volatile", "", RACE),
    Case("atomic_default", "atom g || red g", "", RACE),
    Case("reduce_atomic", f"bulk.reduce g <-s x16; {_DONE} | bulk.reduce g <-s x16; {_DONE}", "", RACE),
    Case(
        "synchronization_scope", _message("st flag .release.cta =1", "poll flag .acquire.gpu =1"), RACE, RACE
    ),
    Case(
        "mbarrier_init",
        f"mbarrier.init !bar #1; {_LIGHT}; mbarrier.wait !bar || {_LIGHT}; mbarrier.arrive !bar@0 .release.cluster",
        RACE,
        "",
    ),
    Case(
        "mbarrier_inval",
        "mbarrier.arrive !bar; mbarrier.wait !bar2; mbarrier.inval !bar"
        " | mbarrier.wait !bar; mbarrier.arrive !bar2 .relaxed.cta",
        RELAXED,
        "",
    ),
    Case("lifetime_start", f"st s@1; {_CLUSTER} || {_CLUSTER}", LIFETIME, ""),
    Case("lifetime_exit", f"{_CLUSTER}; st s@1 || {_CLUSTER}", LIFETIME, ""),
    Case("store_collision", "0,1: st s", COLLISION, RACE),
    Case(
        "relaxed_handover",
        "st.async s@1 !bar@1 || mbarrier.arrive.expect_tx !bar $4; mbarrier.wait !bar; ld s",
        RELAXED,
        RACE,
    ),
)

#: More programs and their verdicts.
VERDICTS = (
    ("shfl orders nothing", "st s; shfl; 1: ld s", RACE),
    ("vote orders nothing", "st s; vote; 1: ld s", RACE),
    ("bar.arrive does not wait", "bar.arrive #1 %64; ld s | st s; bar.sync #1 %64", RACE),
    ("what follows bar.arrive is not released", "bar.arrive #1 %64; st s | bar.sync #1 %64; ld s", RACE),
    ("a relaxed cluster barrier publishes nothing", f"st g; {_LIGHT} || {_LIGHT}; ld g", RACE),
    ("a fence before a relaxed cluster barrier does", f"st g; fence .acq_rel.cluster; {_LIGHT} || {_LIGHT}; ld g", ""),
    ("a fence of the CTA is not enough", f"st g; fence .acq_rel.cta; {_LIGHT} || {_LIGHT}; ld g", RACE),
    ("a relaxed arrival publishes nothing", "st s; mbarrier.arrive !bar .relaxed.cta | mbarrier.wait !bar; ld s", RACE),
    ("a relaxed wait acquires nothing", "st s; mbarrier.arrive !bar | mbarrier.wait !bar .relaxed.cta; ld s", RACE),
    (
        "fences around relaxed mbarrier operations",
        "st s; fence .acq_rel.cta; mbarrier.arrive !bar .relaxed.cta"
        " | mbarrier.wait !bar .relaxed.cta; fence .acq_rel.cta; ld s",
        "",
    ),
    (
        "a remote arrival with the scope of the CTA",
        "st s@1; mbarrier.arrive !bar@1 .release.cta || mbarrier.wait !bar .acquire.cluster; ld s",
        f"{RACE} {LIFETIME}",
    ),
    (
        "a wait with the scope of the CTA",
        "st s@1; mbarrier.arrive !bar@1 .release.cluster || mbarrier.wait !bar; ld s",
        f"{RACE} {LIFETIME}",
    ),
    ("complete-tx publishes only its own copy", f"st s2; bulk.load s <-g x16 !bar | {_EXPECT}; mbarrier.wait !bar; ld s; ld s2", RACE),
    (
        "complete-tx is of the scope of the cluster, whatever the wait's scope",
        f"bulk.load s@1 <-g x16 !bar@1 || {_EXPECT}; mbarrier.wait !bar; ld s",
        "",
    ),
    (
        "st.async and the scope of the CTA",
        "st.async s@1 !bar@1 || mbarrier.arrive.expect_tx !bar $4; mbarrier.wait !bar; ld s",
        RELAXED,
    ),
    ("a relaxed wait for a copy", f"{_LOAD} | mbarrier.wait !bar .relaxed.cta; ld s", RACE),
    ("a copy over an ordinary store", f"st s; {_LOAD}; mbarrier.wait !bar", OPEN),
    ("a reduction over an ordinary store", f"st g; {_STORE.replace('store', 'reduce')}; {_DONE}", MISSING),
    ("a copy from the CTA that loaded for it",
     f"bulk.load s@1 <-h x16 !bar@1 || {_EXPECT}; mbarrier.wait !bar .acquire.cluster; {_STORE}; {_DONE}", ""),
    ("a relaxed wait for st.async", "st.async s !bar; mbarrier.arrive.expect_tx !bar $4; mbarrier.wait !bar .relaxed.cta; ld s", RACE),
    ("wait_group.read does not wait for writes", f"{_STORE}; bulk.commit; bulk.wait ~read; ld g", RACE),
    ("a group that may be pending", f"{_STORE}; bulk.commit; bulk.wait #1; ld g", RACE),
    ("copies that no group has", f"{_STORE}; bulk.wait; st s", RACE),
    ("another thread's group", f"{_STORE}; bulk.commit; 1: bulk.wait; 0,1: bar.warp.sync; ld g", RACE),
    ("cp.async without a wait", f"{_CP}; ld s", RACE),
    ("cp.async of an open group", f"{_CP}; cp.async.wait; ld s", RACE),
    ("an arrival does not wait for later copies", f"cp.async.arrive !bar ~noinc; {_CP} | mbarrier.wait !bar; ld s", RACE),
    ("relaxed on one side", _message("st flag .relaxed.gpu =1", "poll flag .acquire.gpu =1"), RACE),
    ("relaxed on the other side", _message("st flag .release.gpu =1", "poll flag .relaxed.gpu =1"), RACE),
    ("a weak flag", _message("st flag =1", "poll flag .acquire.gpu =1"), RACE),
    ("volatile flags publish nothing", _message("st flag .volatile =1", "poll flag .volatile =1"), RACE),
    ("volatile flags with fences", _message("membar .gl; st flag .volatile =1", "poll flag .volatile =1; membar .gl"), ""),
    ("a fence after the flag", _message("st flag .relaxed.gpu =1; fence .acq_rel.gpu", "poll flag .acquire.gpu =1"), RACE),
    ("the wrong half of a fence", _message("fence .acquire.gpu; st flag .relaxed.gpu =1", "poll flag .acquire.gpu =1"), RACE),
    ("a fence of the CTA", _message("fence .acq_rel.cta; st flag .relaxed.gpu =1", "poll flag .acquire.gpu =1"), RACE),
    ("red is no acquire", "st g; st flag .release.gpu =1 || red flag; fence .acq_rel.gpu; ld g", RACE),
    (
        "order is transitive across scopes",
        "st g; st flag .release.cta =1 | poll flag .acquire.cta =1; st h .release.gpu =1 || poll h .acquire.gpu =1; ld g",
        "",
    ),
    ("two copies into one buffer", "mbarrier.init !bar #1; bar.sync %32; mbarrier.arrive.expect_tx !bar $32;"
     " bulk.load s <-g x16 !bar; bulk.load s <-h x16 !bar; mbarrier.wait !bar", RACE),
    ("a reduction and a plain copy", f"bulk.reduce g <-s x16; {_DONE} | {_STORE}; {_DONE}", RACE),
    ("a fence after the barrier, in the reader's thread",
     f"st s v4; bar.sync #1 %64 | bar.sync #1 %64; fence.proxy.async; {_STORE}; {_DONE}", ""),
    ("a fence in a third thread, off the path",
     f"st s v4; bar.sync #1 %96 | bar.sync #1 %96; {_STORE}; {_DONE} | bar.sync #1 %96; fence.proxy.async", MISSING),
    ("shared::cta does not reach the other CTA's memory",
     f"{_CLUSTER}; st s@1 v4; fence.proxy.async ~shared::cta; {_CLUSTER} || {_CLUSTER}; {_CLUSTER}; {_STORE}; {_DONE}", MISSING),
    ("a non-coherent load of what nothing writes", "st g; ld.nc g+8", ""),
    ("a non-coherent load before the store", "ld.nc g; st g", ""),
    ("a non-coherent load that races", "st g | ld.nc g", RACE),
    ("lanes of a strong store", "0,1: st s .relaxed.cta", COLLISION),
    ("lanes of one store side by side", "0,1: st s*4", ""),
    ("lanes of two stores", "st s; 1: st s", RACE),
    ("mapa of the own rank", f"{_CLUSTER}; st s@0; {_CLUSTER} || {_CLUSTER}; {_CLUSTER}", ""),
    ("an exit after a relaxed cluster barrier", f"{_CLUSTER}; st s@1; {_LIGHT} || {_CLUSTER}; {_LIGHT}", LIFETIME),
    ("a wait may begin before the initialization", "mbarrier.init !bar #1; mbarrier.arrive !bar | mbarrier.wait !bar", RACE),
    ("a poll may read before the flag is cleared", "st flag; st flag .release.gpu =1 | poll flag .acquire.gpu =1", RACE),
    ("bar.warp.sync at two places", "st s; bar.warp.sync #3; 1: bar.warp.sync #3; 1: ld s", ""),
    ("an arrival that counts twice", "st s; mbarrier.init !bar #2; bar.sync #1 %64; mbarrier.arrive !bar #2"
     " | bar.sync #1 %64; mbarrier.wait !bar; ld s", ""),
    ("an atomic that polls", _message("st flag .release.gpu =1", "poll.atom flag .acquire.gpu =1"), ""),
    ("vector atomics are their elements", "red.v2 g .relaxed.gpu v2 || red g+4 .relaxed.gpu", ""),
    ("packed atomics are their halves", "red.f16x2 g .relaxed.gpu || red g .relaxed.gpu", RACE),
    ("packed atomics among themselves", "red.f16x2 g .relaxed.gpu || red.f16x2 g .relaxed.gpu", ""),
    ("a copy through a tensor map", f"st s v4; bulk.store g <-s x16 ~tensor; {_DONE}", MISSING),
)  # fmt: skip
