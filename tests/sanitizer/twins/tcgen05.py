"""Twins of Blackwell's tensor cores: stages handed back, tensor memory, its fences and waits.

A and B have equal elements, so their layout does not matter: D is K = 16 times the product of two elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .twin import Launch, Twin, wait

__all__ = ["TWINS"]

_COMMIT = "tcgen05-instructions-tcgen05-commit"

#: A is 128 x 16 and B 32 x 16, f16, without a swizzle: 4096 and 1024 bytes.
_BYTES = 5120
_WORD = 1 << 4 | 32 >> 3 << 17 | 128 >> 4 << 24
_DESCRIPTOR = 128 >> 4 << 16 | 256 >> 4 << 32 | 1 << 46


def operands(*values: float) -> Any:
    """Makes the argument ``src``: A and B of one value each, for each stage that is filled."""
    return lambda out: {"src": np.repeat(np.array(values, np.float16), _BYTES // 2)}


def d_of(value: float) -> Any:
    """The output: column 0 of D, all of one value."""
    return np.full(128, value, np.float32)


#: Warp 0 allocates 32 columns at ``tm``; ``stage`` is one stage, ``adesc`` and ``bdesc`` describe it.
BEGIN = f"""
.shared .align 128 .b8 stage[{_BYTES}]; .shared .align 8 .b64 full, empty, done; .shared .align 4 .b32 slot;
setp.eq.u32 p, warp, 0;
@p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
@first mbarrier.init.shared::cta.b64 [full], 1;
@first mbarrier.init.shared::cta.b64 [empty], 1;
@first mbarrier.init.shared::cta.b64 [done], 1;
mov.u32 base, stage; shr.u32 a, base, 4; cvt.u64.u32 adesc, a; or.b64 adesc, adesc, {_DESCRIPTOR:#x}; add.u64 bdesc, adesc, 256;
mov.u32 word, {_WORD:#x};
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.b32 tm, [slot];
"""
#: All threads wait for D, and write its column 0 to ``out``; warp 0 frees.
END = f"""
bar.warp.sync -1;
{wait("done", 0)}
tcgen05.fence::after_thread_sync;
shl.b32 at, warp, 21; add.u32 at, at, tm;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{x}}, [at]; // @drain
tcgen05.wait::ld.sync.aligned;
mad.wide.u32 ptr, tid, 4, out; st.global.b32 [ptr], x;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
setp.eq.u32 p, warp, 0;
@p tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32; // @free
"""
FILL = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {_BYTES}; cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [stage], [{{source}}], {_BYTES}, [full];"
MMA = "tcgen05.mma.cta_group::1.kind::f16 [tm], adesc, bdesc, word, {flag};"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{barrier}];"


def kernel(body: str) -> tuple[Launch, ...]:
    """One launch of four warps with ``body`` between the allocation and the output of D."""
    return (Launch(BEGIN + body.strip("\n") + END, block=128),)


TWINS = [
    Twin(
        name="stage-handed-back-at-issue",
        classes=("lessons 1", "found: commit replaced by arrive"),
        why="tcgen05.commit arrives on the barrier when the MMA has read A and B, and TMA fills the stage after that",
        anchor=_COMMIT,
        target="sm_100a",
        launches=kernel(f"""
setp.eq.u32 p, tid, 32;
@p bra PRODUCE;
@!first bra DRAIN;
{wait("full", 0)}
{MMA.format(flag="never")} // @mma
-{COMMIT.format(barrier="empty")}
+mbarrier.arrive.shared::cta.b64 _, [empty];
{wait("full", 1)}
{MMA.format(flag="always")}
{COMMIT.format(barrier="done")}
bra DRAIN;
PRODUCE:
{FILL.format(source="src")}
{wait("empty", 0)}
add.u64 from, src, {_BYTES};
{FILL.format(source="from")} // @refill
DRAIN:
"""),
        arrays=operands(1, 2),
        expect=d_of(16 * 1 + 16 * 4),
        rules=("data-race",),
        severity="error",
        lines=("mma", "refill"),
    ),
]
