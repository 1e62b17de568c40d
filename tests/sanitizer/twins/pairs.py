"""Twins of CTA pairs: MMAs that read the peer's shared memory, and tensor memory of both CTAs.

A and B have equal elements, so their layout does not matter: D is K = 16 times the product of two elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx.layout.tensor_map import TensorMap

from .twin import Launch, Twin, wait

__all__ = ["TWINS"]

_ORDER = "tcgen05-memory-consistency-model"
_PAIR = "tcgen05-issue-granularity"
_CONTENTS = "parallel-synchronization-and-communication-instructions-mbarrier-contents"
_CLUSTER = "parallel-synchronization-and-communication-instructions-barrier-cluster"
#: Each CTA brings 128 rows of A and 16 of the 32 of B, f16, K = 16: 4096 and 512 bytes, 9 rows of 256 elements.
_ROWS, _BYTES = 9, 4608
_WORD = 1 << 4 | 32 >> 3 << 17 | 256 >> 4 << 24
_DESCRIPTOR = 128 >> 4 << 16 | 256 >> 4 << 32 | 1 << 46

_BEFORE = "tcgen05.fence::before_thread_sync;"
_AFTER = "tcgen05.fence::after_thread_sync;"
_MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def _map(out: NDArray[Any]) -> dict[str, Any]:
    """Return a map of ones for the first stage of both CTAs and of twos for the second."""
    values = np.repeat(np.array([1, 2], np.float16), 2 * _ROWS * 256).reshape(-1, 256)
    return {"map": TensorMap.tiled(values, box=(_ROWS, 256))}


def _copy(row: int) -> str:
    """Thread 0 of each CTA fills its stage; the bytes count on the barrier of the leading CTA."""
    return (
        f"mad.lo.u32 y, rank, {_ROWS}, {row}; "
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [stage], [map, {x, y}], [b];"
    )


def _commit(barrier: str) -> str:
    return (
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
        f"[{barrier}], mask;"
    )


def _mma(flag: str) -> str:
    return f"tcgen05.mma.cta_group::2.kind::f16 [tm], adesc, bdesc, word, {flag};"


def _pair(
    name: str,
    classes: tuple[str, ...],
    why: str,
    *,
    lines: tuple[str, ...],
    rules: tuple[str, ...] = ("data-race",),
    anchor: str = _ORDER,
    start: str = _MEET,
    expect: str = f"@member mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {2 * _BYTES};",
    peer: str = wait("empty", 0),
    leave: str = _MEET,
    stores: str = "",
) -> Twin:
    """Two MMAs of M = 256 into one D; both CTAs fill their stages before each, the first time by ``stores`` if given."""
    fill = "" if stores else f"{expect}\n{_copy(0)} // @copy @before"
    filled = "" if stores else wait("full", 0)
    return Twin(
        name=name,
        classes=("pairs", *classes),
        why=why,
        anchor=anchor,
        target="sm_100a",
        launches=(
            Launch(
                f"""
.shared .align 128 .b8 stage[{_BYTES}]; .shared .align 8 .b64 full, empty, done; .shared .align 4 .b32 slot;
setp.eq.u32 p, warp, 0; setp.eq.u32 member, rank, 0; mov.u16 mask, 3; mov.u32 x, 0;
@p tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;
@first mbarrier.init.shared::cta.b64 [full], 1; // @init
@first mbarrier.init.shared::cta.b64 [empty], 1;
@first mbarrier.init.shared::cta.b64 [done], 1;
mov.u32 base, stage; and.b32 a, base, 0xffffff; shr.u32 a, a, 4; cvt.u64.u32 adesc, a; or.b64 adesc, adesc, {_DESCRIPTOR:#x}; add.u64 bdesc, adesc, 256;
mov.u32 word, {_WORD:#x}; mov.u32 b, full; and.b32 b, b, 0xfeffffff;
fence.mbarrier_init.release.cluster;
{stores}
{_BEFORE}
{start}
{_AFTER}
ld.shared.b32 tm, [slot];
@!first bra DRAIN;
{fill}
@!member bra OTHER;
{filled}
{_mma("never")} // @mma @before
{_commit("empty")}
{wait("empty", 0)}
{expect.splitlines()[0].removeprefix("-")}
{_copy(2 * _ROWS)} // @refill
{wait("full", 0 if stores else 1)}
{_mma("always")} // @mma
{_commit("done")}
bra DRAIN;
OTHER:
{peer}
{_copy(2 * _ROWS)} // @refill
DRAIN:
bar.warp.sync -1;
{wait("done", 0)}
{_AFTER}
shl.b32 at, warp, 21; add.u32 at, at, tm;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{x}}, [at]; // @drain
tcgen05.wait::ld.sync.aligned;
mad.lo.u32 n, cta, 128, tid; mad.wide.u32 ptr, n, 4, out; st.global.b32 [ptr], x;
{_BEFORE}
{leave}
{_AFTER}
setp.eq.u32 p, warp, 0;
@p tcgen05.dealloc.cta_group::2.sync.aligned.b32 tm, 32; // @free
""",
                grid=2,
                cluster=2,
                block=128,
            ),
        ),
        arrays=_map,
        expect=np.full(256, 16 + 64, np.float32),
        rules=rules,
        severity="error",
        lines=lines,
    )


#: Ones by ordinary stores of all threads.
_ONES = """
mad.lo.u32 at, tid, 16, base; mov.u32 n, 0x3c003c00; setp.lt.u32 q, tid, 32;
st.shared.v4.b32 [at], {n, n, n, n}; // @store
st.shared.v4.b32 [at+2048], {n, n, n, n}; // @store
@q st.shared.v4.b32 [at+4096], {n, n, n, n}; // @store
"""
_HALF = f"@member mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {_BYTES};"
TWINS = [
    _pair(
        "stage-of-the-peer-refilled",
        ("stage-handed-back-at-issue", "completions"),
        "a pair's MMA reads the peer's shared memory too: the commit arrives in both CTAs, and both wait",
        peer=f"-{wait('empty', 0)}\n+",
        lines=("before", "refill"),
    ),
    _pair(
        "bytes-of-one-half",
        ("transaction-bytes",),
        "the leading CTA's barrier counts the bytes of both CTAs",
        expect=f"-@member mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {2 * _BYTES};\n+{_HALF}",
        lines=("copy", "mma"),
        anchor=_CONTENTS,
    ),
    _pair(
        "stores-of-both-ctas",
        ("proxies", "proxy-fence", "across CTAs"),
        "the threads of both CTAs fence after their stores, before the barrier that the MMA's thread passes",
        stores=f"{_ONES}-fence.proxy.async;\n+",
        rules=("proxy-fence-missing",),
        lines=("store", "mma"),
        anchor="async-proxy",
    ),
    _pair(
        "signal-before-the-init-of-the-leader",
        ("init-not-ordered", "exit-under-remote-access"),
        "the cluster barrier comes after mbarrier.init in both CTAs and before the first copy",
        start=f"-{_MEET}\n+bar.sync 0;",
        rules=("data-race", "cluster-lifetime", "mbarrier-misuse"),
        lines=("copy",),
        anchor=_CLUSTER,
    ),
    _pair(
        "freed-before-the-peer-has-loaded",
        ("tensor-memory-lifetime",),
        "the cluster barrier comes after the loads of both CTAs and before tcgen05.dealloc of the pair",
        leave=f"-{_MEET}\n+bar.sync 0;",
        rules=("data-race", "tensor-memory"),
        lines=("drain", "free"),
        anchor=_PAIR,
    ),
]
