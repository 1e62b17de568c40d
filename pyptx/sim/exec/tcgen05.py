"""tcgen05: tensor memory and commits as events.

What is ordered without a wait is the ISA's list and nothing more: MMAs into the same accumulator follow
each other; a commit follows the thread's earlier MMAs; a load is unordered until waited for, except that
an instruction which touches its registers finds them written.
PTX ISA #tcgen05-memory-consistency-model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...layout.tensor_memory import COLUMNS, fragment, unpack_address
from ..events import Signal, Step
from ..semantics import Op, executes
from ..waits import Condition, StepsDone
from ..warp import Split
from .mbarrier import live_barrier


def one_cta(s: Split, op: Op) -> None:
    """Refuse what spans a pair of CTAs."""
    if op.chosen.get("cta_group") == "cta_group::2":
        raise s.warp.cta.machine.fault("not-modelled", "cta_group::2 is not modelled yet", s)


def _uniform(s: Split, op: Op, value: Any) -> int:
    values = np.atleast_1d(value)
    if (values != values[0]).any():
        raise s.warp.cta.machine.fault("divergent-collective", f"{op.name}: lanes disagree on an operand", s)
    return int(values[0])


@executes("tcgen05.alloc", per="warp", yields=True, collective="warp")
def alloc(s: Split, op: Op, lanes: Any, dst: Any, columns: Any) -> Condition | None:
    one_cta(s, op)
    cta = s.warp.cta
    tensor = cta.tensor
    address, count = _uniform(s, op, dst), _uniform(s, op, columns)
    if count not in (32, 64, 128, 256, 512):
        raise cta.machine.fault(
            "tensor-memory", f"alloc of {count} columns; it takes a power of two from 32 to {COLUMNS}", s
        )
    if tensor.relinquished:
        raise cta.machine.fault("tensor-memory", "alloc after relinquish_alloc_permit", s)

    def take() -> None:
        s.op = op
        first = tensor.find_room(count)
        assert first is not None
        tensor.allocate(first, count, s)
        segment, offset = cta.machine.memory.access("write", op.space, address, 4, s, cta.reach)
        segment.words(4)[offset // 4] = first

    if tensor.find_room(count) is not None:
        take()
        return None
    return Condition(
        lambda: tensor.find_room(count) is not None,
        lambda: f"waits for {count} columns of tensor memory; allocated: {sorted(tensor.allocations)}",
        take,
    )


@executes("tcgen05.dealloc", per="warp", collective="warp")
def dealloc(s: Split, op: Op, lanes: Any, address: Any, columns: Any) -> None:
    one_cta(s, op)
    s.warp.cta.tensor.free(_uniform(s, op, address), _uniform(s, op, columns), s)


@executes("tcgen05.relinquish_alloc_permit", per="warp", collective="warp")
def relinquish(s: Split, op: Op, lanes: Any) -> None:
    one_cta(s, op)
    s.warp.cta.tensor.relinquished = True


def uncommitted(s: Split, lane: int) -> list[Step]:
    """What the lane issued and did not commit yet, and is not done."""
    steps = s.warp.cta.uncommitted.setdefault((s.warp.index, lane), [])
    steps[:] = [step for step in steps if not step.done]
    return steps


@executes("tcgen05.commit", per="lane")
def commit(s: Split, op: Op, lane: int, mbar: int, mask: int | None = None) -> None:
    one_cta(s, op)
    cta = s.warp.cta
    if mask is not None:
        raise cta.machine.fault("not-modelled", "multicast commits are not modelled yet", s)
    if "restrict" in op.chosen:
        raise cta.machine.fault("not-modelled", f".{op.chosen['restrict']} is not modelled yet", s)
    barrier = live_barrier(s, op, mbar)
    operation = cta.machine.operation(s, "mma")
    signal = Step(operation, "signal", lambda: None, uncommitted(s, lane), Signal(barrier, arrivals=1))
    cta.machine.issue(cta, [signal])


@executes(
    "tcgen05.ld.32x32b",
    "tcgen05.ld.16x64b",
    "tcgen05.ld.16x128b",
    "tcgen05.ld.16x256b",
    per="warp",
    collective="warp",
    deferred=True,
)
def ld(s: Split, op: Op, lanes: Any, address: Any) -> Any:
    cta = s.warp.cta
    if "pack" in op.chosen:
        raise cta.machine.fault("not-modelled", ".pack::16b is not modelled yet", s)
    rows, first, place = _fragment(s, op, address, lanes)
    operation = cta.machine.operation(s, "ld")
    warp, frame = s.warp, s.frame
    dests = op.dests["r"]
    targets = np.array([d.row for d in dests])
    whole = len(targets) == targets[-1] - targets[0] + 1 and (np.diff(targets) == 1).all()
    where: Any = slice(targets[0], targets[-1] + 1) if whole else targets
    if len(lanes) < 32:
        where = (targets[:, None], lanes)

    def read() -> None:
        cta.tensor.check("read", rows, first, place[2], operation)
        frame.u32[where] = cta.tensor.cells[place[0], place[1] + first]

    step = Step(operation, "read", read, [])
    warp.loading = [earlier for earlier in warp.loading if not earlier.done]
    warp.loading.append(step)
    cta.machine.issue(cta, [step])


def _fragment(s: Split, op: Op, address: Any, lanes: Any) -> tuple[Any, int, Any]:
    """Lanes touched, first column, and (lane, column, columns) of each register of each thread."""
    lane, first = unpack_address(_uniform(s, op, address))
    quarter = 32 * (s.warp.index % 4)
    key = (quarter, lane, s.mask)
    known = op.cache.get(key)
    if known is None:
        shape = next(w for w in op.binding.match.spelling if w[0].isdigit())
        cells, columns = fragment(shape, int(op.chosen["num"][1:]))
        height = int(cells.max()) + 1
        if not quarter <= lane or lane + height > quarter + 32:
            raise s.warp.cta.machine.fault(
                "tensor-memory",
                f"{op.name} at lane {lane}: warp {s.warp.index} reaches lanes {quarter}..{quarter + 31}",
                s,
            )
        width = int(columns.max()) + 1
        rows: Any = slice(lane, lane + height)
        if len(lanes) < 32:
            # A warp of fewer threads touches its threads' cells.
            cells, columns = cells[:, lanes], columns[:, lanes]
            rows = np.unique(cells) + lane
        known = op.cache[key] = (rows, (cells + lane, columns, width))
    return known[0], first, known[1]


@executes("tcgen05.st.32x32b", per="warp", collective="warp")
def st(s: Split, op: Op, lanes: Any, address: Any, values: Any) -> None:
    cta = s.warp.cta
    if "unpack" in op.chosen:
        raise cta.machine.fault("not-modelled", ".unpack::16b is not modelled yet", s)
    rows, first, place = _fragment(s, op, address, lanes)
    operation = cta.machine.operation(s, "st")
    # The registers are read at issue: a later write to them does not change what is stored.
    held = np.array(values, np.uint32)

    def write() -> None:
        cta.tensor.check("write", rows, first, place[2], operation)
        cta.tensor.cells[place[0], place[1] + first] = held

    step = Step(operation, "write", write, [])
    s.warp.storing = [earlier for earlier in s.warp.storing if not earlier.done]
    s.warp.storing.append(step)
    cta.machine.issue(cta, [step])


@executes("tcgen05.wait", per="warp", yields=True, collective="warp")
def wait(s: Split, op: Op, lanes: Any) -> StepsDone | None:
    loads = op.chosen["op"] == "wait::ld"
    flying = [step for step in (s.warp.loading if loads else s.warp.storing) if not step.done]
    if not flying:
        return None
    return StepsDone("tcgen05.ld" if loads else "tcgen05.st", flying)


@executes("tcgen05.fence", fidelity="ordering", per="warp")
def fence(s: Split, op: Op, lanes: Any) -> None:
    return None
