"""Asynchronous stores and reductions of single threads: st.async and red.async.

The store of each thread is a separate operation. Two such operations are not ordered, not even in one thread.
Operations on shared memory complete their bytes on an mbarrier. Operations on global memory (.release) happen
at some later time, without a signal. Sources: PTX ISA, `#data-movement-and-conversion-instructions-st-async`_
and ``#parallel-synchronization-and-communication-instructions-red-async``.

.. _#data-movement-and-conversion-instructions-st-async:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-st-async
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ...ir import Vector
from ..code.bit_flow import bit_flow
from ..code.semantic import Op
from ..engine.events import Engine, Step, StepKind, nothing
from ..memory.access import AccessKind, MemoryOrder, Proxy, Scope, StateSpace
from ..memory.address_space import SHARED_WINDOW
from ..memory.mbarrier import MBarrier, Signal
from ..memory.segments import Segment
from ..numbers.read_modify_write import combination
from ..threads.bit_rules import register_bits
from ..threads.warp import Split

__all__ = ["reduce_async", "shared_address", "store_async"]

Bytes = NDArray[np.uint8]


def shared_address(op: Op, address: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an instruction's addresses as shared addresses; without .shared::cluster they are generic."""
    return address if "shared::cluster" in op.chosen else address - SHARED_WINDOW


def _bytes_of(b: Any, lanes: int, dtype: np.dtype[Any]) -> Bytes:
    """Return the bytes of an operand, (lanes, bytes).

    The operand is a row of values, a vector of rows, or one immediate for all lanes.
    """
    values = np.asarray(b)
    rows = values if values.ndim == 2 else np.broadcast_to(values, (1, lanes))
    # Copied, since registers may change before the store happens.
    together = np.array(rows.T, dtype, order="C")
    return together.view(np.uint8).reshape(lanes, -1)


def _undefined(
    s: Split, op: Op, lanes: NDArray[Any], dtype: np.dtype[Any]
) -> tuple[Bytes, NDArray[np.int64]]:
    """Return bytes that are not 0 where the stored bytes are undefined, (lanes, bytes), and their origins."""
    (source,) = [source for source in bit_flow(s.frame.code, op).sources if source.name == "b"]
    operand = source.operand
    assert operand is not None
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    rows = np.stack([register_bits(s.frame, element, dtype)[lanes] for element in elements])
    known = s.frame.registers.undefined
    origins = np.zeros(len(lanes), np.int64)
    for place in source.places:
        flags = known.flags(place.index, s.frame.span)
        if flags is not None:
            more = known.origins(place.index, s.frame.span)[lanes]
            origins = np.where(flags[lanes] & (origins == 0), more, origins)
    return _bytes_of(rows, len(lanes), dtype), origins


def _issue(
    s: Split,
    op: Op,
    lanes: NDArray[Any],
    address: NDArray[np.int64],
    data: Bytes,
    barriers: list[MBarrier] | None,
    put: Callable[[int, Segment, int, Bytes], None],
    order: MemoryOrder,
    *,
    reduction: tuple[str, str] | None = None,
) -> None:
    """Issue one asynchronous operation for each lane, which writes ``data`` and then signals.

    A reduction (its operation and type) reads the old bytes first. ``put`` also gets the lane's position.
    """
    modify = reduction is not None
    cta = s.warp.cta
    memory = cta.machine.memory
    size = data.shape[1]
    scope = op.scope or (Scope.CLUSTER if order is MemoryOrder.RELAXED else Scope.NONE)
    space = StateSpace.SHARED if barriers is not None else op.space
    steps: list[Step] = []
    for number, one in enumerate(address.tolist()):
        s.acting = lanes[number : number + 1]
        operation = cta.machine.operation(s, Engine.ST)
        operation.reduction = reduction

        def happen(
            one: int = one, number: int = number, given: Bytes = data[number], operation: Any = operation
        ) -> None:
            kind = AccessKind.RMW if modify else AccessKind.WRITE
            segment, offset = memory.access(
                kind, space, one, size, operation, cta.cluster_memory, Proxy.GENERIC, order, scope
            )
            if modify:
                memory.changed(segment, offset, size, operation)
            put(number, segment, int(offset), given)

        write = Step(operation, StepKind.WRITE, happen, [], nbytes=size)
        steps.append(write)
        if barriers is not None:
            if barriers[number].address >> 24 != one >> 24:
                raise cta.machine.fault(
                    "mbarrier-misuse", f"{op.name}: the mbarrier is not in the CTA of the address {one:#x}", s
                )
            signal = Signal(barriers[number], nbytes=size)
            steps.append(Step(operation, StepKind.SIGNAL, nothing, [write], signal))
    s.acting = None
    cta.machine.issue(cta, steps)


def store_async(
    s: Split,
    op: Op,
    lanes: NDArray[Any],
    address: NDArray[Any],
    b: Any,
    barriers: list[MBarrier] | None,
    order: MemoryOrder,
) -> None:
    """Issue a store of each lane's value. It completes its bytes on the lane's barrier, if there is one."""
    dtype = TYPES[op.chosen.get("type", "b128")].register_dtype
    undefined = _undefined(s, op, lanes, dtype) if s.frame.undefined_rows else None

    def put(number: int, segment: Segment, offset: int, given: Bytes) -> None:
        segment.data[offset : offset + given.size] = given
        if undefined is not None:
            places = offset + np.arange(given.size)
            segment.store_undefined(places, undefined[0][number] != 0, undefined[1][number])

    data = _bytes_of(b, len(lanes), dtype)
    _issue(s, op, lanes, address, data, barriers, put, order)


def reduce_async(
    s: Split,
    op: Op,
    lanes: NDArray[Any],
    address: NDArray[Any],
    b: Any,
    barriers: list[MBarrier] | None,
    order: MemoryOrder,
) -> None:
    """Issue a reduction of each lane's value into memory. It completes its bytes on the lane's barrier."""
    in_shared = barriers is not None
    reduction = op.chosen.get("op", "add"), op.chosen["type"]
    combine = combination(*reduction, ftz=True, in_shared=in_shared)

    def put(number: int, segment: Segment, offset: int, given: Bytes) -> None:
        del number
        old = segment.data[offset : offset + given.size]
        old[:] = combine(old.copy(), given)

    data = _bytes_of(b, len(lanes), TYPES[op.chosen["type"]].register_dtype)
    _issue(s, op, lanes, address, data, barriers, put, order, reduction=reduction)
