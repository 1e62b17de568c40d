"""Twins of clusters: distributed shared memory, cluster barriers, multicast, start and exit of CTAs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .twin import Launch, Twin, arrays, wait

__all__ = ["TWINS"]

_SYNC = "parallel-synchronization-and-communication-instructions-"
_CLUSTER = _SYNC + "barrier-cluster"
_ARRIVE = _SYNC + "mbarrier-arrive"
_WAIT = _SYNC + "mbarrier-test-wait-try-wait"
_FENCE = _SYNC + "membar"
_STRONG = "morally-strong-operations"
_MULTICAST = "data-movement-and-conversion-instructions-cp-async-bulk"
_ST_ASYNC = "data-movement-and-conversion-instructions-st-async"

_MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


def _cluster(
    name: str,
    classes: tuple[str, ...],
    why: str,
    body: str,
    *,
    lines: tuple[str, ...] = ("store", "load"),
    rules: tuple[str, ...] = ("data-race",),
    anchor: str = _CLUSTER,
    block: int = 1,
    **arguments: Any,
) -> Twin:
    """Two CTAs: ``to`` is the peer's ``box``, ``at`` the peer's ``bar``, ``x`` is the rank + 5."""
    return Twin(
        name=name,
        classes=("clusters", *classes),
        why=why,
        anchor=anchor,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 box[32]; .shared .align 8 .b64 bar;
mov.u32 base, box; xor.b32 peer, rank, 1; mapa.shared::cluster.u32 to, base, peer;
mov.u32 a, bar; mapa.shared::cluster.u32 at, a, peer; setp.eq.u32 p, rank, 0;
add.u32 x, rank, 5; mad.wide.u32 ptr, cta, 4, out;
{body}
""",
                grid=2,
                cluster=2,
                block=block,
            ),
        ),
        rules=rules,
        lines=lines,
        **{"expect": np.array([6, 5], np.uint32), "severity": "error", **arguments},
    )


_STORE = "st.shared::cluster.u32 [to], x; // @store"
_LOAD = "ld.shared.u32 y, [box]; // @load"
_OUT = "st.global.u32 [ptr], y;"

# --- start and exit ---------------------------------------------------------------------------

_LIFE = [
    _cluster(
        "peer-not-started",
        ("early-dsmem", "exit-under-remote-access"),
        "the first cluster barrier comes after the start of every CTA, the second one before every exit",
        f"-{_MEET}\n+\n{_STORE}\n{_MEET}\nld.shared.u32 y, [box];\n{_OUT}",
        rules=("cluster-lifetime",),
        lines=("store",),
    ),
    _cluster(
        "store-to-a-peer-that-may-have-ended",
        ("exit-under-remote-access",),
        "the cluster barrier comes after the store and before the exit of the peer",
        f"{_MEET}\n@p {_STORE}\n-{_MEET}\n+\nst.global.u32 [ptr], x;",
        expect=np.array([5, 6], np.uint32),
        rules=("cluster-lifetime",),
        lines=("store",),
    ),
    _cluster(
        "load-from-a-peer-that-may-have-ended",
        ("exit-under-remote-access",),
        "the second cluster barrier comes after the loads and before the exit of the peer",
        f"st.shared.u32 [box], x;\n{_MEET}\nld.shared::cluster.u32 y, [to]; // @load\n-{_MEET}\n+\n{_OUT}",
        rules=("cluster-lifetime",),
        lines=("load",),
    ),
    _cluster(
        "signal-to-a-peer-that-may-have-ended",
        ("exit-under-remote-access",),
        "the peer waits for the arrival before it ends",
        f"mbarrier.init.shared::cta.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\n{_MEET}\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [at]; // @signal\n"
        f"-{wait('bar', 0)}\n+\nst.global.u32 [ptr], x;",
        expect=np.array([5, 6], np.uint32),
        rules=("cluster-lifetime",),
        lines=("signal",),
    ),
]

# --- cluster barriers -------------------------------------------------------------------------

_BARRIERS = [
    _cluster(
        "cluster-barrier-relaxed",
        ("relaxed-barrier", "narrow-handover"),
        "barrier.cluster.arrive releases by default; a relaxed one orders execution alone",
        f"{_MEET}\n{_STORE}\n-barrier.cluster.arrive;\n+barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n{_LOAD}\n{_OUT}",
    ),
    _cluster(
        "cluster-barrier-of-the-cta",
        ("weakened-cluster-barrier",),
        "the barrier of the cluster joins both CTAs; bar.sync joins the threads of one",
        f"st.shared.u32 [box], 0;\n{_MEET}\n{_STORE}\n-{_MEET}\n+bar.sync 0;\n{_LOAD}\n{_OUT}\n{_MEET}",
    ),
    _cluster(
        "cluster-counter-at-cta-scope",
        ("cta-scope-atomic", "moral strength"),
        "the scope of both atomics includes the whole cluster",
        f"st.shared.u32 [box], 0;\n{_MEET}\n"
        "mov.u32 b, 0; mapa.shared::cluster.u32 c, base, b;\n@p bra OWN;\n"
        "red.relaxed.cluster.shared::cluster.add.u32 [c], 1; // @store\nbra JOIN;\nOWN:\n"
        "-red.relaxed.cluster.shared::cluster.add.u32 [c], 2;\n+red.relaxed.cta.shared::cluster.add.u32 [c], 2; // @load\n"
        f"JOIN:\n{_MEET}\nld.shared.u32 y, [box];\n{_OUT}",
        expect=np.array([3, 0], np.uint32),
        anchor=_STRONG,
    ),
]

_COPY = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [{to}], [{source}], 16, [at];"
_BARRIERS += [
    _cluster(
        "store-behind-the-arrival",
        ("barriers",),
        "barrier.cluster.arrive releases what comes before it, not what stands between arrive and wait",
        f"{_MEET}\n-{_STORE}\nbarrier.cluster.arrive;\n+{_STORE}\nbarrier.cluster.wait;\n{_LOAD}\n{_OUT}\n{_MEET}",
    ),
    _cluster(
        "copy-to-the-peer-not-waited-for",
        ("completions",),
        "the peer waits on its barrier for the bytes of the copy from this CTA's shared memory",
        "st.shared.v4.u32 [base+16], {x, x, x, x}; st.shared.u32 [base], 0;\nfence.proxy.async;\n"
        "mbarrier.init.shared::cta.b64 [bar], 1;\n"
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;\n{_MEET}\nadd.u32 c, base, 16;\n"
        f"{_COPY.format(to='to', source='c')} // @store\n-{wait('bar', 0)}\n+\n{_LOAD}\n+{wait('bar', 0)}\n{_OUT}\n{_MEET}",
        anchor="data-movement-and-conversion-instructions-cp-async-bulk",
    ),
]

_BARRIERS += [
    _cluster(
        "flag-of-a-cluster-at-cta-scope",
        ("message-passing", "narrow-handover", "moral strength"),
        "the scope of the release and of the acquire includes both CTAs of the cluster",
        "setp.eq.u32 q, rank, 1;\n@q bra CONSUME;\nst.global.u32 [data], x; // @store\n"
        "-st.release.cluster.global.u32 [data+4], 1;\n+st.release.cta.global.u32 [data+4], 1; // @store\nbra END;\n"
        "CONSUME:\nPOLL: ld.acquire.cluster.global.u32 y, [data+4]; setp.eq.u32 q, y, 0; @q bra POLL; // @load\n"
        f"ld.global.u32 y, [data]; // @load\n{_OUT}\nEND:",
        anchor=_STRONG,
        arrays=arrays(data=2),
        expect=np.array([0, 5], np.uint32),
    ),
    _cluster(
        "remote-store-then-bulk-store",
        ("proxies", "across CTAs", "read-then-refill"),
        "the CTA that copies executes a proxy fence after the barrier, on the path from the stores to its copy",
        f"{_MEET}\n@!p bra MEET;\nst.shared::cluster.v4.u32 [to], {{x, x, x, x}}; // @store\nfence.proxy.async;\nMEET:\n{_MEET}\n@p bra END;\n"
        "-fence.proxy.async.shared::cta;\n+\ncp.async.bulk.global.shared::cta.bulk_group [out], [base], 16; // @copy\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nEND:",
        anchor="async-proxy",
        rules=("proxy-fence-open",),
        severity="review",
        omitted=True,
        lines=("store", "copy"),
        expect=np.full(4, 5, np.uint32),
    ),
    _cluster(
        "reductions-of-the-cluster",
        ("completions", "moral strength"),
        "red.async of both CTAs are relaxed atomics, which need no order among themselves",
        "mov.u32 b, 0; mapa.shared::cluster.u32 c, base, b; mov.u32 d, bar; mapa.shared::cluster.u32 d, d, b;\n"
        "st.shared.u32 [box], 0;\nfence.proxy.async;\nmbarrier.init.shared::cta.b64 [bar], 1;\n"
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 8;\n{_MEET}\n"
        "-red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [c], x, [d];\n"
        "+mov.u32 x, 11; mov.u32 y, 0;\n"
        "+@p red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [c], y, [d]; // @red\n"
        "+@!p st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [c], x, [d]; // @store\n"
        f"@!p bra OTHER;\n{wait('bar', 0, '.acquire.cluster')}\nOTHER:\n"
        f"@p ld.shared.u32 y, [box];\n@!p mov.u32 y, 0;\n{_OUT}\n{_MEET}",
        anchor=_ST_ASYNC,
        lines=("red", "store"),
        expect=np.array([11, 0], np.uint32),
    ),
]

# --- mbarriers of the peer --------------------------------------------------------------------

_INIT = "mbarrier.init.shared::cta.b64 [bar], 1; // @init\n"
_START = (
    f"{_INIT}fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed; barrier.cluster.wait;\n"
)
_REMOTE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [at];"
_TAKE = wait("bar", 0, ".acquire.cluster")
_WHY = "an arrival that releases and a wait that acquires, both at cluster scope, hand over ordinary stores"
_MBARRIERS = [
    _cluster(
        "remote-arrival-at-cta-scope",
        ("narrow-handover", "remote-arrival"),
        _WHY,
        f"{_START}{_STORE}\n-{_REMOTE}\n+mbarrier.arrive.shared::cluster.b64 _, [at];\n{_TAKE}\n{_LOAD}\n{_OUT}",
        anchor=_ARRIVE,
    ),
    _cluster(
        "remote-arrival-relaxed",
        ("narrow-handover", "relaxed-barrier"),
        _WHY,
        f"{_START}{_STORE}\n-{_REMOTE}\n+{_REMOTE.replace('release', 'relaxed')}\n{_TAKE}\n{_LOAD}\n{_OUT}",
        anchor=_ARRIVE,
    ),
    _cluster(
        "remote-wait-at-cta-scope",
        ("narrow-handover",),
        _WHY,
        f"{_START}{_STORE}\n{_REMOTE}\n-{_TAKE}\n+{wait('bar', 0)}\n{_LOAD}\n{_OUT}",
        anchor=_WAIT,
    ),
    _cluster(
        "remote-init-not-ordered",
        ("init-not-ordered",),
        "fence.mbarrier_init releases the initialization to the cluster, whatever the barrier behind it",
        f"{_INIT}-fence.mbarrier_init.release.cluster;\n+\nbarrier.cluster.arrive.relaxed; barrier.cluster.wait;\n"
        f"{_STORE}\n{_REMOTE} // @remote\n{_TAKE}\nld.shared.u32 y, [box];\n{_OUT}",
        lines=("init", "remote"),
        anchor=_FENCE,
    ),
    _cluster(
        "fence-restricted-to-shared-memory",
        ("fences", "fences"),
        "fence.release.cluster covers the store to global memory; sync_restrict::shared::cta covers shared memory alone",
        f"{_START}mad.wide.u32 from, peer, 4, data; mad.wide.u32 wide, cta, 4, data;\nst.global.u32 [wide], x; // @store\n"
        "-fence.release.cluster;\n+fence.release.sync_restrict::shared::cta.cluster;\n"
        f"{_REMOTE.replace('release', 'relaxed')}\n{wait('bar', 0, '.relaxed.cluster')}\nfence.acquire.cluster;\n"
        f"ld.global.u32 y, [from]; // @load\n{_OUT}",
        anchor=_FENCE,
        arrays=arrays(data=2),
    ),
    _cluster(
        "acquire-restricted-to-shared-memory",
        ("fences", "fences"),
        "fence.acquire.cluster covers the load from global memory; sync_restrict::shared::cluster covers shared memory alone",
        f"{_START}mad.wide.u32 from, peer, 4, data; mad.wide.u32 wide, cta, 4, data;\nst.global.u32 [wide], x; // @store\n"
        f"fence.release.cluster;\n{_REMOTE.replace('release', 'relaxed')}\n{wait('bar', 0, '.relaxed.cluster')}\n"
        "-fence.acquire.cluster;\n+fence.acquire.sync_restrict::shared::cluster.cluster;\n"
        f"ld.global.u32 y, [from]; // @load\n{_OUT}",
        anchor=_FENCE,
        arrays=arrays(data=2),
    ),
    _cluster(
        "restricted-fences",
        ("fences", "fences"),
        "the restricted fences release a store to the CTA's shared memory, and acquire a load from the cluster's",
        f"{_START}st.shared.u32 [box], x; // @store\n"
        f"fence.release.sync_restrict::shared::cta.cluster;\n{_REMOTE.replace('release', 'relaxed')}\n"
        f"{wait('bar', 0, '.relaxed.cluster')}\n-fence.acquire.sync_restrict::shared::cluster.cluster;\n+\n"
        f"ld.shared::cluster.u32 y, [to]; // @load\n{_OUT}\n{_MEET}",
        anchor=_FENCE,
    ),
    _cluster(
        "st-async-not-waited-for",
        ("completions",),
        "st.async completes its bytes on the mbarrier at the destination, where the peer waits for them",
        f"st.shared.u32 [box], 0;\nfence.proxy.async.shared::cta;\n{_INIT}fence.mbarrier_init.release.cluster;\n{_MEET}\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [to], x, [at]; // @store\n"
        f"-{_TAKE}\n+\n{_LOAD}\n+{_TAKE}\n{_OUT}",
        anchor=_ST_ASYNC,
    ),
]

_MBARRIERS.append(
    _cluster(
        "init-before-a-full-cluster-barrier",
        ("fences", "false-alarm"),
        "a cluster barrier that releases and acquires orders mbarrier.init, with the fence and without it",
        f"{_INIT}-fence.mbarrier_init.release.cluster;\n+\n{_MEET}\n{_STORE}\n{_REMOTE}\n{_TAKE}\n{_LOAD}\n{_OUT}",
        rules=(),
        lines=(),
        anchor=_FENCE,
        severity="none",
    )
)

# --- multicast --------------------------------------------------------------------------------

_FILL = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [box], [{}], 128, [bar], mask;"
_EXPECT = "@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;"
_LANES = np.arange(32, dtype=np.uint32)
_PREPARE = f"""
mov.u16 mask, 3; setp.eq.and.u32 p, rank, 0, first;
mad.lo.u32 to, lane, 4, base; mad.lo.u32 b, cta, 32, lane; mad.wide.u32 ptr, b, 4, out; add.u64 from, data, 128;
st.shared.u32 [to], lane;
fence.proxy.async;
@first mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
{_EXPECT}
{_MEET}
@p {_FILL.format("data")} // @copy @before
bar.warp.sync -1;
"""


def _multicast(name: str, classes: tuple[str, ...], why: str, body: str, **arguments: Any) -> Twin:
    """CTA 0 fills the box of both CTAs by one copy."""
    return _cluster(
        name,
        ("multicast", *classes),
        why,
        _PREPARE + body,
        anchor=_MULTICAST,
        block=32,
        arrays=arrays(data=np.arange(64, dtype=np.uint32)),
        **{"expect": np.tile(_LANES, 2), **arguments},
    )


_READ = "ld.shared.u32 y, [to]; // @load"
_MULTICASTS = [
    _multicast(
        "multicast-not-waited-for",
        ("completion-not-observed",),
        "each CTA waits on its own barrier for its own bytes",
        f"setp.eq.u32 p, rank, 1; @p bra READ;\n{wait('bar', 0)}\nREAD:\n-{wait('bar', 0)}\n+\n{_READ}\n+{wait('bar', 0)}\n{_OUT}",
        lines=("copy", "load"),
    ),
    _multicast(
        "multicast-into-a-cta-that-may-have-ended",
        ("exit-under-remote-access",),
        "each CTA waits for its bytes before it ends",
        f"-{wait('bar', 0)}\n+{wait('bar', 0).replace('WAIT:', 'setp.eq.u32 q, rank, 1; @q bra SKIP; WAIT:').replace(' }', ' SKIP: }')}\nst.global.u32 [ptr], lane;",
        rules=("cluster-lifetime", "exit-in-flight"),
        lines=("copy",),
    ),
    _multicast(
        "multicast-over-a-peer-that-reads",
        ("reuse", "weakened-cluster-barrier"),
        "the readers of both CTAs, and the copying thread, have fenced and met before the next copy to both",
        f"{wait('bar', 0)}\nld.shared.u32 z, [to]; // @before\nfence.proxy.async.shared::cta;\n{_EXPECT}\n"
        f"-{_MEET}\n+bar.sync 0;\n@p fence.proxy.async;\n@p {_FILL.format('from')} // @again\nbar.warp.sync -1;\n{wait('bar', 1)}\n"
        f"ld.shared.u32 y, [to]; sub.u32 y, y, z;\n{_OUT}",
        lines=("before", "again"),
        expect=np.full(64, 32, np.uint32),
    ),
]

TWINS = [*_LIFE, *_BARRIERS, *_MBARRIERS, *_MULTICASTS]
