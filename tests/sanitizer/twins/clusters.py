"""Twins of clusters: distributed shared memory, cluster barriers, multicast, start and exit of CTAs."""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin

__all__ = ["TWINS"]

_CLUSTER = "parallel-synchronization-and-communication-instructions-barrier-cluster"

TWINS = [
    Twin(
        name="peer-not-started",
        classes=("found: DSMEM before any cluster barrier", "lessons 2", "clusters"),
        why="the first cluster barrier comes after the start of every CTA, the second one before every exit",
        anchor=_CLUSTER,
        launches=(
            Launch(
                """
.shared .align 4 .b32 box;
mov.u32 base, box; xor.b32 peer, rank, 1; mapa.shared::cluster.u32 to, base, peer;
add.u32 x, rank, 5;
-barrier.cluster.arrive; barrier.cluster.wait;
+
st.shared::cluster.u32 [to], x; // @store
barrier.cluster.arrive; barrier.cluster.wait;
ld.shared.u32 y, [box];
mad.wide.u32 ptr, cta, 4, out; st.global.u32 [ptr], y;
""",
                grid=2,
                cluster=2,
                block=1,
            ),
        ),
        expect=np.array([6, 5], np.uint32),
        rules=("cluster-lifetime",),
        severity="error",
        lines=("store",),
    ),
]
