"""TMA copies as events: read the source, write the target, signal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..events import Signal, Step
from ..semantics import Op, executes
from ..tma import read_box, read_map, read_shared, write_box, write_shared
from ..waits import StepsDone
from ..warp import Split
from .mbarrier import live_barrier


@executes("cp.async.bulk.tensor.load", per="lane")
def load(
    s: Split,
    op: Op,
    lane: int,
    dst: int,
    tensor_map: tuple[int, tuple[int, ...]],
    mbar: int,
    mask: int | None = None,
    policy: int | None = None,
) -> None:
    cta = s.warp.cta
    machine = cta.machine
    if mask is not None or op.chosen.get("cta_group") == "cta_group::2":
        raise machine.fault("not-modelled", "multicast and cta_group::2 copies are not modelled yet", s)
    address, coordinates = tensor_map
    operation = machine.operation(s, "tma")
    decoded = read_map(cta, address, coordinates, operation)
    barrier = live_barrier(s, op, mbar)
    box: list[Any] = []
    read = Step(operation, "read", lambda: box.append(read_box(cta, decoded, coordinates, operation)), [])
    write = Step(
        operation, "write", lambda: write_shared(cta, dst, box.pop(), decoded.swizzle, operation), [read]
    )
    signal = Step(operation, "signal", lambda: None, [write], Signal(barrier, nbytes=decoded.box_bytes))
    machine.issue(cta, [read, write, signal])


def _groups(s: Split, lane: int) -> tuple[list[Any], list[list[Any]]]:
    return s.warp.cta.bulk.setdefault((s.warp.index, lane), ([], []))


@executes("cp.async.bulk.tensor.store", per="lane")
def store(
    s: Split,
    op: Op,
    lane: int,
    tensor_map: tuple[int, tuple[int, ...]],
    src: int,
    policy: int | None = None,
) -> None:
    cta = s.warp.cta
    machine = cta.machine
    address, coordinates = tensor_map
    operation = machine.operation(s, "tma")
    decoded = read_map(cta, address, coordinates, operation)
    box: list[Any] = []
    read = Step(
        operation,
        "read",
        lambda: box.append(read_shared(cta, src, decoded.box_bytes, decoded.swizzle, operation)),
        [],
    )
    write = Step(
        operation, "write", lambda: write_box(cta, decoded, coordinates, box.pop(), operation), [read]
    )
    if min(coordinates) < 0:
        # Measured on an H200: past the end is dropped, before the start is an illegal instruction.
        raise machine.fault(
            "bad-tensor-map",
            f"a store at the negative coordinates {coordinates} (innermost first)",
            operation,
        )
    _groups(s, lane)[0].append((read, write))
    machine.issue(cta, [read, write])


@executes("cp.async.bulk.commit_group", per="lane")
def commit_group(s: Split, op: Op, lane: int) -> None:
    uncommitted, groups = _groups(s, lane)
    groups.append(list(uncommitted))
    uncommitted.clear()


@executes("cp.async.bulk.wait_group", per="warp", yields=True)
def wait_group(s: Split, op: Op, lanes: Any, n: Any) -> StepsDone | None:
    keep = int(np.ravel(n)[0])
    reads = "read" in op.chosen
    steps: list[Step] = []
    for lane in lanes.tolist():
        _, groups = _groups(s, lane)
        # The oldest groups are forgotten once complete; a newer one that is done still counts.
        while groups and all(write.done for _, write in groups[0]):
            del groups[0]
        waited = groups[: max(0, len(groups) - keep)]
        steps += [read if reads else write for group in waited for read, write in group]
    steps = [step for step in steps if not step.done]
    what = "the sources of bulk copies to be read" if reads else "bulk copies"
    return StepsDone(what, steps) if steps else None
