"""Twins of launches: full boundaries, and programmatic dependent launch."""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin, arrays

__all__ = ["TWINS"]

_DEPENDENT = "parallel-synchronization-and-communication-instructions-griddepcontrol"

TWINS = [
    Twin(
        name="dependent-reads-too-early",
        classes=("launches",),
        why="griddepcontrol.wait waits until the launch before it has completed and its stores are visible",
        anchor=_DEPENDENT,
        launches=(
            Launch(
                """
griddepcontrol.launch_dependents;
st.global.u32 [data], 7; // @store
""",
                block=1,
            ),
            Launch(
                """
-griddepcontrol.wait;
+
ld.global.u32 y, [data]; // @load
st.global.u32 [out], y;
""",
                block=1,
                dependent=True,
            ),
        ),
        arrays=arrays(data=1),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
]
