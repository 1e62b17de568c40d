"""Sleeping, events, launches of dependent work, the register budget: only time and order; the threads'
stacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..semantics import Op, executes
from ..threads.warp import Split


@executes("nanosleep", fidelity="ordering", per="warp", team=True)
def nanosleep(s: Split, op: Op, lanes: Any, duration: Any) -> None:
    """Clocks go on; who runs meanwhile is the schedule's choice."""
    s.warp.cta.machine.sleep(int(np.max(duration)))


@executes("pmevent", "pmevent.mask", fidelity="ordering", per="warp", team=True)
def pmevent(s: Split, op: Op, lanes: Any, event: Any) -> None:
    """Nobody counts."""


@executes("griddepcontrol", fidelity="ordering", per="warp", team=True)
def griddepcontrol(s: Split, op: Op, lanes: Any) -> None:
    """A launch here depends on no other, and none depends on it."""


@executes("setmaxnreg", fidelity="ordering", per="warp", collective="warp")
def setmaxnreg(s: Split, op: Op, lanes: Any, count: Any) -> None:
    """The register budget is not modelled, so that ``.inc`` never waits."""


@executes("brkpt", per="warp")
def brkpt(s: Split, op: Op, lanes: Any) -> None:
    raise s.warp.cta.machine.fault("trap", "brkpt: without a debugger it ends the kernel", s)


# --- the stack in local memory --------------------------------------------------------------------

#: What ``alloca`` aligns to where the instruction does not say.
_STACK_ALIGNMENT = 8


@executes("stacksave", per="warp")
def stacksave(s: Split, op: Op, lanes: Any) -> Any:
    return s.warp.stack[lanes]


@executes("stackrestore", per="warp")
def stackrestore(s: Split, op: Op, lanes: Any, pointer: Any) -> None:
    s.warp.stack[lanes] = pointer


@executes("alloca", per="warp")
def alloca(s: Split, op: Op, lanes: Any, size: Any, alignment: Any = None) -> Any:
    """Stacks grow upward here, which a program can see only by comparing pointers."""
    align = np.int64(_STACK_ALIGNMENT if alignment is None else alignment)
    start = -(-s.warp.stack[lanes] // align) * align
    # A size that no thread can have must not wrap around.
    end = start + np.minimum(np.broadcast_to(size, start.shape).astype(np.uint64), np.uint64(1 << 40)).astype(
        np.int64
    )
    s.warp.cta.local_memory.ensure(s, int(end.max()))
    s.warp.stack[lanes] = end
    return start
