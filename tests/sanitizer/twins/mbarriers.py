"""Twins of mbarriers: what an arrival releases, which phase a wait acquires, counts and bytes."""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin, wait

__all__ = ["TWINS"]

_SYNC = "parallel-synchronization-and-communication-instructions-"
_ARRIVE = _SYNC + "mbarrier-arrive"

TWINS = [
    Twin(
        name="arrival-relaxed",
        classes=("found: relaxed arrivals", "moral strength"),
        why="mbarrier.arrive has release semantics by default, and the wait has acquire semantics",
        anchor=_ARRIVE,
        launches=(
            Launch(
                f"""
.shared .align 8 .b64 bar; .shared .align 4 .b32 tile;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
setp.eq.u32 p, tid, 32;
@p bra CONSUME;
@!first bra END;
st.shared.u32 [tile], 7; // @store
-mbarrier.arrive.shared::cta.b64 _, [bar];
+mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];
bra END;
CONSUME:
{wait("bar", 0)}
ld.shared.u32 y, [tile]; // @load
st.global.u32 [out], y;
END:
""",
                block=64,
            ),
        ),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
]
