"""Twins of Hopper's tensor cores: operands in shared memory, and registers in flight.

A and B have equal elements, so their layout does not matter: D is K = 16 times the product of two elements.
"""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin

__all__ = ["TWINS"]

_PROXY = "async-proxy"
_DESCRIPTOR = 128 >> 4 << 16 | 256 >> 4 << 32

#: A is 64 x 16 and B 8 x 16, f16, without a swizzle, both filled with 1: 2304 bytes at ``base``.
FILL = f"""
.shared .align 128 .b8 stage[2304];
mov.u32 base, stage; shr.u32 a, base, 4; cvt.u64.u32 adesc, a; or.b64 adesc, adesc, {_DESCRIPTOR:#x}; add.u64 bdesc, adesc, 128;
mad.lo.u32 at, tid, 16, base; mov.u32 x, 0x3c003c00;
st.shared.v4.b32 [at], {{x, x, x, x}}; // @store
setp.lt.u32 p, tid, 16;
@p st.shared.v4.b32 [at+2048], {{x, x, x, x}}; // @store
"""
MMA = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {acc0, acc1, acc2, acc3}, adesc, bdesc, 0, 1, 1, 0, 0;"
)
DRAIN = "mad.wide.u32 ptr, tid, 4, out; st.global.f32 [ptr], acc0;"

TWINS = [
    Twin(
        name="store-then-wgmma",
        classes=("lessons 10", "found: fence.proxy.async deleted"),
        why="each storing thread executes the proxy fence before the barrier that the warps of the wgmma pass",
        anchor=_PROXY,
        launches=(
            Launch(
                f"""
{FILL}
-fence.proxy.async.shared::cta;
+
bar.sync 0;
wgmma.fence.sync.aligned;
{MMA} // @mma
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{DRAIN}
""",
                block=128,
            ),
        ),
        expect=np.full(128, 16, np.float32),
        rules=("proxy-fence-missing",),
        severity="error",
        lines=("store", "mma"),
    ),
]
