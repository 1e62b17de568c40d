"""Twins of the proxies: generic to async and back, shared and global, tensor maps, read-only loads."""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin

__all__ = ["TWINS"]

_PROXY = "async-proxy"

TWINS = [
    Twin(
        name="store-then-bulk-store",
        classes=("lessons 10", "found: fence.proxy.async deleted"),
        why="each storing thread executes the proxy fence before the barrier that the copying thread passes",
        anchor=_PROXY,
        launches=(
            Launch(
                """
.shared .align 16 .b32 tile[32];
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base;
st.shared.u32 [at], tid; // @store
-fence.proxy.async.shared::cta;
+
bar.warp.sync -1;
@!first bra END;
cp.async.bulk.global.shared::cta.bulk_group [out], [base], 128; // @copy
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:
"""
            ),
        ),
        expect=np.arange(32, dtype=np.uint32),
        rules=("proxy-fence-missing",),
        severity="error",
        lines=("store", "copy"),
    ),
]
