"""tcgen05.mma: an MMA as two events, *read A and B* and *write D*.

A collector buffer is a permission to read A or B from there again; the hardware may read them from memory as
well, and so it does here.
"""

from __future__ import annotations

from ..events import Step
from ..semantics import Bound, Op, executes
from ..tensor_core import Mma, Operands, issued_by
from ..threads.warp import Split
from .tcgen05 import one_cta

_BOUND = Bound("K * 2**-23 * (|A| @ |B|.T) over a whole reduction; kind::i8 is exact")

#: Scales of a row, by modifier; .block32 and none are the kind's own (PTX ISA #tcgen05-mma-instructions-mma).
_COUNTS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4, "block16": 4}


def _kind(op: Op) -> str:
    return op.chosen["kind"].removeprefix("kind::")


def _scales(op: Op, a: int, b: int) -> tuple[int, int, int]:
    default = 1 if _kind(op) == "mxf8f6f4" else 2
    return a, b, _COUNTS.get(op.chosen.get("scale", ""), default)


def _issue(s: Split, op: Op, lane: int, operands: Operands) -> None:
    one_cta(s, op)
    cta = s.warp.cta
    if "ashift" in op.binding.match.spelling:
        raise cta.machine.fault("not-modelled", f"{op.name} is not modelled yet: .ashift", s)
    operation = cta.machine.operation(s, "mma")
    work = Mma(cta, _kind(op), operands, operation)
    mine = issued_by(cta, s.warp.index, lane)
    before, earlier = mine.before_product(work.accumulator)
    read = Step(operation, "read", lambda: work.read(operation), before)
    write = Step(operation, "write", lambda: work.write(operation), [read, *earlier])
    mine.product(work.accumulator, write)
    cta.machine.issue(cta, [read, write])


def _in_tensor_memory(op: Op) -> bool:
    return op.binding.form_id.endswith(".ts")


@executes("tcgen05.mma.ss", "tcgen05.mma.ts", fidelity="bounded", per="lane", bound=_BOUND)
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
    halvings: int | None,
) -> None:
    work = Operands(
        d, a, b, idesc, bool(accumulate), _in_tensor_memory(op), disabled=disabled, halvings=halvings or 0
    )
    _issue(s, op, lane, work)


@executes("tcgen05.mma.sp.ss", "tcgen05.mma.sp.ts", fidelity="bounded", per="lane", bound=_BOUND)
def mma_sp(
    s: Split,
    op: Op,
    lane: int,
    d: int,
    a: int,
    b: int,
    metadata: int,
    idesc: int,
    disabled: tuple[int, ...] | None,
    accumulate: bool,
    halvings: int | None,
) -> None:
    work = Operands(
        d,
        a,
        b,
        idesc,
        bool(accumulate),
        _in_tensor_memory(op),
        metadata=metadata,
        disabled=disabled,
        halvings=halvings or 0,
    )
    _issue(s, op, lane, work)


@executes(
    "tcgen05.mma.block_scale.ss", "tcgen05.mma.block_scale.ts", fidelity="bounded", per="lane", bound=_BOUND
)
def mma_block_scale(
    s: Split, op: Op, lane: int, d: int, a: int, b: int, idesc: int, of_a: int, of_b: int, accumulate: bool
) -> None:
    scales = _scales(op, of_a, of_b)
    _issue(s, op, lane, Operands(d, a, b, idesc, bool(accumulate), _in_tensor_memory(op), scales=scales))


@executes(
    "tcgen05.mma.sp.block_scale.ss",
    "tcgen05.mma.sp.block_scale.ts",
    fidelity="bounded",
    per="lane",
    bound=_BOUND,
)
def mma_sp_block_scale(
    s: Split,
    op: Op,
    lane: int,
    d: int,
    a: int,
    b: int,
    metadata: int,
    idesc: int,
    of_a: int,
    of_b: int,
    accumulate: bool,
) -> None:
    work = Operands(
        d,
        a,
        b,
        idesc,
        bool(accumulate),
        _in_tensor_memory(op),
        metadata=metadata,
        scales=_scales(op, of_a, of_b),
    )
    _issue(s, op, lane, work)


@executes("tcgen05.mma.ws.ss", "tcgen05.mma.ws.ts", fidelity="bounded", per="lane", bound=_BOUND)
def mma_ws(
    s: Split, op: Op, lane: int, d: int, a: int, b: int, idesc: int, accumulate: bool, zeros: int | None
) -> None:
    inside = _in_tensor_memory(op)
    _issue(s, op, lane, Operands(d, a, b, idesc, bool(accumulate), inside, ws=True, zeros=zeros))


@executes("tcgen05.mma.ws.sp.ss", "tcgen05.mma.ws.sp.ts", fidelity="bounded", per="lane", bound=_BOUND)
def mma_ws_sp(
    s: Split,
    op: Op,
    lane: int,
    d: int,
    a: int,
    b: int,
    metadata: int,
    idesc: int,
    accumulate: bool,
    zeros: int | None,
) -> None:
    work = Operands(
        d, a, b, idesc, bool(accumulate), _in_tensor_memory(op), ws=True, metadata=metadata, zeros=zeros
    )
    _issue(s, op, lane, work)
