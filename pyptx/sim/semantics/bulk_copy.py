"""Executes bulk copies as asynchronous operations, whose steps read the source, write the target and signal.

The steps of one copy happen in this order; steps of two copies have no order. An mbarrier or a bulk group
tells a thread when the steps have happened
(``#data-movement-and-conversion-instructions-asynchronous-copy-completion-mechanisms``).
A copy to several CTAs of a cluster reads its source once, and has one write and one signal for each CTA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Op, executes
from ..copies import Range
from ..copies.copied import Copied
from ..engine.bulk_groups import BulkGroups
from ..engine.events import AsyncOperation, Engine, Step, StepKind, nothing
from ..engine.stream import GroupKind, SyncKind
from ..engine.waits import Awaited, StepsDone
from ..engine.work import Copy, lines_of
from ..memory.access import MemoryOrder, StateSpace
from ..memory.mbarrier import Signal, SignalOrigin
from ..numbers.read_modify_write import combination
from ..threads.events import announce_sync
from ..threads.warp import Split
from .mbarrier import live_barrier

Bytes = NDArray[np.uint8]


# --- operations ---------------------------------------------------------------------------------


#: The lowest bit of a CTA's rank in a shared address; the bits below it are the offset.
_RANK_BIT = 24
_OFFSET = (1 << _RANK_BIT) - 1


def targets(s: Split, op: Op, dst: int, mbar: int, mask: int | None) -> list[tuple[int, int]]:
    """Return the destination address and the mbarrier of each copy that one instruction issues.

    Without ``mask`` this is one copy, else one for each CTA. The mbarrier must be in the CTA of the
    destination. With .cta_group::2 and no mask, it may also be in the peer CTA. With .cta_group::2 and a
    mask, the copies to a CTA pair signal the CTA whose rank has the parity of the rank in ``mbar``.
    """
    pairs = op.chosen.get("cta_group") == "cta_group::2"
    if mask is None:
        apart = dst >> _RANK_BIT ^ mbar >> _RANK_BIT
        if apart and not (pairs and apart == 1):
            raise s.warp.cta.machine.fault(
                "mbarrier-misuse",
                f"{op.name}: the mbarrier at {mbar:#x} is not in the CTA of the destination {dst:#x}"
                + (" nor in its peer CTA" if pairs else ""),
                s,
            )
        return [(dst, mbar)]
    found = []
    for rank in range(mask.bit_length()):
        if mask >> rank & 1:
            holder = rank & ~1 | mbar >> _RANK_BIT & 1 if pairs else rank
            found.append((dst & _OFFSET | rank << _RANK_BIT, mbar & _OFFSET | holder << _RANK_BIT))
    return found


def ranks_of(targets: list[tuple[int, int]]) -> tuple[int, ...]:
    """Return the ranks of the CTAs that hold the destinations."""
    return tuple(dst >> _RANK_BIT for dst, _ in targets)


def signaled(
    s: Split,
    op: Op,
    operation: AsyncOperation,
    targets: list[tuple[int, int]],
    nbytes: int,
    read: Callable[[], Bytes],
    write: Callable[[int, Bytes], None],
    *,
    reads: StepKind = StepKind.READ,
) -> None:
    """Issue a copy that, after the write to each target, completes ``nbytes`` on the target's mbarrier."""
    cta = s.warp.cta
    held: list[Copied] = []

    def take() -> None:
        held.append(Copied(cta.machine, operation, read))

    first = Step(operation, reads, take, [], nbytes=nbytes)
    origin = SignalOrigin(reads_shared=reads is StepKind.READ_SHARED)
    steps = [first]
    for dst, mbar in targets:
        barrier = live_barrier(s, op, mbar)

        def put(dst: int = dst) -> None:
            held[0].write(lambda data: write(dst, data))

        step = Step(operation, StepKind.WRITE, put, [first], nbytes=nbytes)
        signal = Signal(barrier, nbytes=nbytes, origin=origin)
        steps += [step, Step(operation, StepKind.SIGNAL, nothing, [step], signal)]
    cta.machine.issue(cta, steps)


def grouped(
    s: Split,
    lane: int,
    operation: AsyncOperation,
    nbytes: int,
    read: Callable[[], Bytes],
    write: Callable[[Bytes], None],
) -> None:
    """Issue a copy of ``nbytes`` of shared memory, and add it to the lane's open bulk group.

    The copy takes the bytes that the source holds when the read happens.
    """
    held: list[Copied] = []
    machine = s.warp.cta.machine
    operation.group = GroupKind.BULK

    def take() -> None:
        held.append(Copied(machine, operation, read, to_global=True))

    first = Step(operation, StepKind.READ_SHARED, take, [], nbytes=nbytes)
    second = Step(operation, StepKind.WRITE, lambda: held.pop().write(write), [first], nbytes=nbytes)
    _groups(s, lane).add(first, second)
    machine.issue(s.warp.cta, [first, second])


# --- plain copies -------------------------------------------------------------------------------


def _range(s: Split, op: Op, space: StateSpace, address: int, nbytes: int) -> Range:
    """Return the bytes that a copy reads or writes; raise a fault unless both numbers are multiples of 16.

    The access of a copy without .relaxed is weak, even if the copy signals an mbarrier.
    """
    if address % 16 or nbytes % 16:
        raise s.warp.cta.machine.fault(
            "misaligned",
            f"{op.name} of {nbytes} bytes at {space.value} address {address:#x}: "
            "both must be multiples of 16",
            s,
        )
    if op.scope is None:
        return Range(space, address, nbytes)
    return Range(space, address, nbytes, MemoryOrder.RELAXED, op.scope)


@executes(
    *("cp.async.bulk.load", "cp.async.bulk.load.weak", "cp.async.bulk.load.relaxed"),
    "cp.async.bulk.load.wide_multicast",
    per="lane",
)
def load(
    s: Split,
    op: Op,
    lane: int,
    dst: int,
    src: int,
    size: int,
    mbar: int,
    mask: int | None = None,
    policy: int | None = None,
) -> None:
    target = _range(s, op, StateSpace.SHARED, dst, size)
    _copy(s, op, _range(s, op, StateSpace.GLOBAL, src, size), target, targets(s, op, dst, mbar, mask), size)


def _copy(
    s: Split,
    op: Op,
    source: Range,
    target: Range,
    targets: list[tuple[int, int]],
    counted: int,
    *,
    reads: StepKind = StepKind.READ,
) -> None:
    cta = s.warp.cta
    operation = cta.machine.operation(s, Engine.TMA, takes_padding=True)
    loads = source.space is StateSpace.GLOBAL
    place = (source.address, source.nbytes) if loads else None
    lines = lines_of(source.address, source.nbytes) if loads else 0
    operation.work = Copy(source.nbytes, 1, place, ranks_of(targets), loads, lines)
    signaled(
        s,
        op,
        operation,
        targets,
        counted,
        lambda: source.read(cta, operation),
        lambda where, data: replace(target, address=where).write(cta, data, operation),
        reads=reads,
    )


@executes("cp.async.bulk.load.ignore_oob", "cp.async.bulk.load.relaxed.ignore_oob", per="lane")
def load_ignore_oob(
    s: Split,
    op: Op,
    lane: int,
    dst: int,
    src: int,
    size: int,
    left: int,
    right: int,
    mbar: int,
    policy: int | None = None,
) -> None:
    """Copy without the ignored bytes at both ends: they are not read, and their targets stay unchanged.

    The manual does not define the values of those targets.
    """
    whole = _range(s, op, StateSpace.GLOBAL, src, size), _range(s, op, StateSpace.SHARED, dst, size)
    if not 0 <= left <= 15 or not 0 <= right <= 15 or left + right > size:
        raise s.warp.cta.machine.fault(
            "misaligned",
            f"{op.name} ignores {left} and {right} of {size} bytes; expected 0..15 each, at most all bytes",
            s,
        )
    source, target = (
        replace(each, address=each.address + left, nbytes=size - left - right) for each in whole
    )
    _copy(s, op, source, target, [(target.address, mbar)], size)


@executes("cp.async.bulk.cluster", "cp.async.bulk.cluster.sem", per="lane")
def within_cluster(s: Split, op: Op, lane: int, dst: int, src: int, size: int, mbar: int) -> None:
    target = _range(s, op, StateSpace.SHARED, dst, size)
    source = _range(s, op, StateSpace.SHARED, src, size)
    _copy(s, op, source, target, targets(s, op, dst, mbar, None), size, reads=StepKind.READ_SHARED)


@executes("cp.async.bulk.store", "cp.async.bulk.store.sem", per="lane")
def store_range(
    s: Split,
    op: Op,
    lane: int,
    dst: int,
    src: int,
    size: int,
    policy: int | None = None,
    mask: int | None = None,
) -> None:
    cta = s.warp.cta
    source, target = _range(s, op, StateSpace.SHARED, src, size), _range(s, op, StateSpace.GLOBAL, dst, size)
    operation = cta.machine.operation(s, Engine.TMA, takes_padding=True)
    operation.work = Copy(size, 1, (target.address, size), (), False, lines_of(target.address, size))
    grouped(
        s,
        lane,
        operation,
        size,
        lambda: source.read(cta, operation),
        lambda data: target.write(cta, data, operation, mask),
    )


def _reduction(op: Op) -> tuple[str, str]:
    """Return the operation of a reducing copy, and the name of its type."""
    return op.chosen.get("op", "add"), op.chosen.get("type", "f32")


def _combination(op: Op, *, in_shared: bool) -> Callable[[Bytes, Bytes], Bytes]:
    """Return the function with which a reducing copy combines old and new bytes.

    An H200 keeps subnormal numbers with and without .noftz.
    """
    return combination(*_reduction(op), ftz=False, in_shared=in_shared)


@executes("cp.reduce.async.bulk.cluster", "cp.reduce.async.bulk.cluster.relaxed", per="lane")
def reduce_in_cluster(s: Split, op: Op, lane: int, dst: int, src: int, size: int, mbar: int) -> None:
    cta = s.warp.cta
    source, target = _range(s, op, StateSpace.SHARED, src, size), _range(s, op, StateSpace.SHARED, dst, size)
    combine = _combination(op, in_shared=True)
    operation = cta.machine.operation(s, Engine.TMA)
    operation.reduction = _reduction(op)
    operation.work = Copy(size, 1, None, (), loads=False)
    signaled(
        s,
        op,
        operation,
        targets(s, op, dst, mbar, None),
        size,
        lambda: source.read(cta, operation),
        lambda _, data: target.combine(cta, data, combine, operation),
        reads=StepKind.READ_SHARED,
    )


@executes(
    *("cp.reduce.async.bulk.global", "cp.reduce.async.bulk.global.relaxed"),
    *("cp.reduce.async.bulk.global.noftz", "cp.reduce.async.bulk.global.noftz.f32"),
    "cp.reduce.async.bulk.global.noftz.relaxed",
    per="lane",
)
def reduce_in_global(
    s: Split, op: Op, lane: int, dst: int, src: int, size: int, policy: int | None = None
) -> None:
    cta = s.warp.cta
    source, target = _range(s, op, StateSpace.SHARED, src, size), _range(s, op, StateSpace.GLOBAL, dst, size)
    combine = _combination(op, in_shared=False)
    operation = cta.machine.operation(s, Engine.TMA)
    operation.reduction = _reduction(op)
    operation.work = Copy(size, 1, (target.address, size), (), False, lines_of(target.address, size))
    grouped(
        s,
        lane,
        operation,
        size,
        lambda: source.read(cta, operation),
        lambda data: target.combine(cta, data, combine, operation),
    )


@executes("cp.async.bulk.prefetch", "cp.async.bulk.prefetch.evict_last", per="lane")
def prefetch(s: Split, op: Op, lane: int, src: int, size: int, policy: int | None = None) -> None:
    """Check that the bytes exist: a prefetch changes nothing that a thread can observe."""
    _range(s, op, StateSpace.GLOBAL, src, size)


# --- bulk groups --------------------------------------------------------------------------------


def _groups(s: Split, lane: int) -> BulkGroups:
    return s.warp.cta.bulk.setdefault((s.warp.index, lane), BulkGroups())


@executes("cp.async.bulk.commit_group", per="lane")
def commit_group(s: Split, op: Op, lane: int) -> None:
    announce_sync(s, SyncKind.GROUP_COMMIT, GroupKind.BULK, lanes=[lane])
    _groups(s, lane).commit()


@executes("cp.async.bulk.wait_group", per="warp", yields=True)
def wait_group(s: Split, op: Op, lanes: Any, n: Any) -> StepsDone | None:
    keep = int(np.ravel(n)[0])
    reads = "read" in op.chosen
    steps: list[Step] = []
    for lane in lanes.tolist():
        steps += _groups(s, lane).to_wait_for(keep, reads=reads)
    what = "the sources of bulk copies to be read" if reads else "bulk copies"
    group, frozen = GroupKind.BULK_READ if reads else GroupKind.BULK, lanes.copy()

    def leave() -> None:
        s.op = op
        announce_sync(s, SyncKind.GROUP_WAIT, group, lanes=frozen, amount=keep)

    if not steps:
        leave()
        return None
    return StepsDone(what, steps, leave, awaited=Awaited.COPIES)
