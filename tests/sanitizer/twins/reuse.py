"""Twins of reuse: mbarriers invalidated or overwritten, unions of shared memory, initialization by order."""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin, wait

__all__ = ["TWINS"]

_INVAL = "parallel-synchronization-and-communication-instructions-mbarrier-inval"

TWINS = [
    Twin(
        name="invalidated-under-a-wait",
        classes=("lessons 7", "reuse"),
        why="the barrier of the CTA comes after the last wait of every thread, and before mbarrier.inval",
        anchor=_INVAL,
        launches=(
            Launch(
                f"""
.shared .align 8 .b64 bar;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
@first mbarrier.arrive.shared::cta.b64 _, [bar];
{wait("bar", 0)} // @wait
-bar.sync 0;
+
@first mbarrier.inval.shared::cta.b64 [bar]; // @inval
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], tid;
""",
                block=64,
            ),
        ),
        expect=np.arange(64, dtype=np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("wait", "inval"),
    ),
]
