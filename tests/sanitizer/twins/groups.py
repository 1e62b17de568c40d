"""Twins of commit groups: bulk copies that write to global memory, and cp.async."""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin

__all__ = ["TWINS"]

_BULK = "data-movement-and-conversion-instructions-cp-async-bulk-wait-group"

TWINS = [
    Twin(
        name="source-overwritten",
        classes=("found: wait_group", "completions"),
        why="wait_group.read waits until the copies of the thread have read their sources",
        anchor=_BULK,
        launches=(
            Launch(
                """
.shared .align 16 .b32 tile[4];
mov.u32 base, tile;
st.shared.v4.u32 [base], {5, 6, 7, 8};
fence.proxy.async.shared::cta;
cp.async.bulk.global.shared::cta.bulk_group [out], [base], 16; // @copy
cp.async.bulk.commit_group;
-cp.async.bulk.wait_group.read 0;
+
st.shared.u32 [base], 9; // @store
cp.async.bulk.wait_group 0;
""",
                block=1,
            ),
        ),
        expect=np.array([5, 6, 7, 8], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("copy", "store"),
    ),
]
