"""tcgen05.mma: an MMA as two events, *read A and B* and *write D*.

A collector buffer is a permission to read A or B from there again; the hardware may read them from memory as
well, and so it does here.
"""

from __future__ import annotations

from ...layout.instruction_descriptor import KINDS
from ..events import Step
from ..semantics import Bound, Op, executes
from ..tensor_core import Mma
from ..warp import Split
from .tcgen05 import one_cta, uncommitted


@executes(
    "tcgen05.mma.ss",
    fidelity="bounded",
    per="lane",
    bound=Bound("K * 2**-23 * (|A| @ |B|.T) over a whole reduction"),
)
def mma(
    s: Split,
    op: Op,
    lane: int,
    d: int,
    a: int,
    b: int,
    idesc: int,
    disabled: tuple[int, ...] | None,
    accumulate: bool,
    scale: int | None,
) -> None:
    one_cta(s, op)
    cta = s.warp.cta
    operation = cta.machine.operation(s, "mma")
    kind = op.chosen["kind"].removeprefix("kind::")
    if kind not in KINDS:
        raise cta.machine.fault("not-modelled", f"kind::{kind} is not modelled yet", s)
    work = Mma(cta, d, a, b, idesc, kind, bool(accumulate), disabled, scale or 0, operation)
    before = cta.accumulators.get(work.accumulator)
    read = Step(operation, "read", lambda: work.read(operation), [])
    write = Step(
        operation, "write", lambda: work.write(operation), [read] if before is None else [read, before]
    )
    cta.accumulators[work.accumulator] = write
    uncommitted(s, lane).append(write)
    cta.machine.issue(cta, [read, write])
