"""tcgen05.mma: an MMA has two events, *read A and B* and *write D*, and with ``.ashift`` a third, *shift A*.

A collector buffer only permits the hardware to reuse A or B from the buffer. The hardware may also read them
from memory again; the simulator always reads memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..code.semantic import Bound, Op, executes
from ..engine.events import Engine, Step, StepKind
from ..engine.stream import GroupKind
from ..tcgen05 import MmaOperation, Operands, group_of
from ..tcgen05.tensor_memory import TensorMemory
from ..threads.warp import Split
from .tcgen05 import issue

_BOUND = Bound(
    "an element of D differs by at most K * 2**-23 * (|A| @ |B|.T), where K is the length of the whole "
    "reduction; kind::i8 is exact"
)

#: Scales per row, by modifier. With .block32 or without a modifier, the kind fixes their number
#: (PTX ISA #tcgen05-mma-instructions-mma). ``.scale_vec`` fixes the number for K of the kind alone.
_SCALE_VECS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
_COUNTS = {**_SCALE_VECS, "block16": 4}


def _mma(form: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function for A in shared memory and for A in tensor memory.

    ``op.traits`` is True for tensor memory.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for a, in_tensor_memory in (("ss", False), ("ts", True)):
            how = executes(
                f"{form}.{a}", fidelity="bounded", per="lane", bound=_BOUND, traits=in_tensor_memory
            )
            how(function)
        return function

    return register


def _kind(op: Op) -> str:
    return op.chosen["kind"].removeprefix("kind::")


def _scales(s: Split, op: Op, a: int, b: int, idesc: int) -> tuple[int, int, int]:
    """Return the addresses of the scales of A and B, and the scales per row; K = 96 has 1.5 times as many."""
    size = op.chosen.get("scale", "")
    if idesc >> 31 and size in _SCALE_VECS:
        raise s.warp.cta.machine.fault(
            "bad-descriptor", f"{op.name} with K = 96 and .{size}; expected .block16 or .block32", s
        )
    default = 1 if _kind(op) == "mxf8f6f4" else 2
    return a, b, _COUNTS.get(size, default)


def _issue(s: Split, op: Op, lane: int, operands: Operands) -> None:
    group = group_of(s, op)
    cta = s.warp.cta
    operation = cta.machine.operation(s, Engine.MMA, group=GroupKind.TCGEN05_COMMIT)
    work = MmaOperation(group, _kind(op), operands, operation)
    operation.work = work.asked()
    mine = cta.unit(TensorMemory).issued_by(s.warp.index, lane)
    before, earlier, assumed = mine.before_product(work.accumulator)
    kind = StepKind.READ if operands.a_in_tensor_memory else StepKind.READ_A
    read = Step(operation, kind, lambda: work.read(operation), before)
    write = Step(operation, StepKind.WRITE, lambda: work.write(operation), [read, *earlier], assumed=assumed)
    steps = [read, write]
    if "ashift" in op.chosen:
        after = [read, *mine.before_shift()]
        steps.append(Step(operation, StepKind.SHIFT, lambda: work.shift(operation), after))
        mine.shift(steps[-1])
    mine.product(work.accumulator, write)
    issue(s, group, steps)


def _in_tensor_memory(op: Op) -> bool:
    return bool(op.traits)


@_mma("tcgen05.mma")
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


@_mma("tcgen05.mma.sp")
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


@_mma("tcgen05.mma.block_scale")
def mma_block_scale(
    s: Split, op: Op, lane: int, d: int, a: int, b: int, idesc: int, of_a: int, of_b: int, accumulate: bool
) -> None:
    scales = _scales(s, op, of_a, of_b, idesc)
    _issue(s, op, lane, Operands(d, a, b, idesc, bool(accumulate), _in_tensor_memory(op), scales=scales))


@_mma("tcgen05.mma.sp.block_scale")
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
        scales=_scales(s, op, of_a, of_b, idesc),
    )
    _issue(s, op, lane, work)


@_mma("tcgen05.mma.ws")
def mma_ws(
    s: Split, op: Op, lane: int, d: int, a: int, b: int, idesc: int, accumulate: bool, zeros: int | None
) -> None:
    inside = _in_tensor_memory(op)
    _issue(s, op, lane, Operands(d, a, b, idesc, bool(accumulate), inside, ws=True, zeros=zeros))


@_mma("tcgen05.mma.ws.sp")
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
