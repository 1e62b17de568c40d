"""Undefined bits between registers and tensor memory, which loads and stores of tensor memory pass on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ..code.bit_flow import bit_flow
from ..code.semantic import Op, RegisterPlace
from ..engine.events import AsyncOperation
from ..threads.origins import Origin
from .tensor_memory import TensorMemory

if TYPE_CHECKING:
    from ..threads.frames import Frame
    from ..threads.warp import Split

__all__ = ["UndefinedCells", "missing_bits", "note_loaded", "stored"]

Array = NDArray[Any]
_LOW, _HIGH, _ALL, _NONE = (np.uint32(mask) for mask in (0xFFFF, 0xFFFF0000, 0xFFFFFFFF, 0))


@dataclass(frozen=True, slots=True)
class UndefinedCells:
    """The undefined bits of registers that a store takes, and their origins, as ``[register, thread]``."""

    bits: Array
    origins: Array

    def write(self, tensor: TensorMemory, lanes: Array, columns: Array, mask: int = 0xFFFFFFFF) -> None:
        """Mark the cells that were written from bits of ``mask`` that are undefined."""
        tensor.storage.store_undefined(lanes, columns, self.bits & np.uint32(mask) != 0, self.origins)


def stored(s: Split, op: Op) -> UndefinedCells | None:
    """Return the undefined bits of the registers that ``op`` stores; None if there are none."""
    undefined, span = s.frame.registers.undefined, s.frame.span
    if not undefined:
        return None
    (source,) = [source for source in bit_flow(s.frame.code, op).sources if source.name == "r"]
    shape = len(source.places), len(s.lanes)
    bits, origins = np.zeros(shape, np.uint32), np.zeros(shape, np.int64)
    for row, place in enumerate(source.places):
        known = undefined.bits(place.index, span)
        if known is not None:
            bits[row] = known[s.lanes]
            origins[row] = undefined.origins(place.index, span)[s.lanes]
    return UndefinedCells(bits, origins) if bits.any() else None


def missing_bits(tensor: TensorMemory, lanes: Array, columns: Array, *, packed: bool) -> tuple[Array, Array]:
    """Return which bits of loaded registers come from unwritten cells, and the column of each such cell.

    With ``packed``, a register has the lower halves of two neighboring cells.
    """
    missing = ~tensor.storage.written[lanes, columns]
    if not packed:
        return np.where(missing, _ALL, _NONE), columns
    second = ~tensor.storage.written[lanes, columns + 1]
    bits = np.where(missing, _LOW, _NONE) | np.where(second, _HIGH, _NONE)
    return bits, np.where(missing, columns, columns + 1)


def note_loaded(
    operation: AsyncOperation,
    tensor: TensorMemory,
    frame: Frame,
    places: Sequence[RegisterPlace],
    threads: Array,
    lanes: Array,
    found: tuple[Array, Array],
) -> None:
    """Set the undefined bits of registers that ``operation`` loaded from the cells of ``lanes``.

    ``found`` is the result of :func:`missing_bits`.
    """
    bits, columns = found
    undefined = frame.registers.undefined
    mask = np.zeros(frame.columns, np.bool_)
    mask[threads] = True
    if not bits.any():
        for place in places if undefined else ():
            undefined.define(place.index, frame.span, mask)
        return
    known = tensor.storage.origins
    origins = np.zeros(bits.shape, np.int64) if known is None else known[lanes, columns]
    own = (bits != 0) & (origins == 0)
    if own.any():
        first = _add(operation, tensor, lanes, columns, own)
        origins = np.where(own, first + np.arange(own.size).reshape(own.shape), origins)
    for row, place in enumerate(places):
        words, sources = np.zeros(frame.columns, np.uint64), np.zeros(frame.columns, np.int64)
        words[threads], sources[threads] = bits[row], origins[row]
        undefined.set(place, frame.span, mask, words, sources)


def _add(operation: AsyncOperation, tensor: TensorMemory, lanes: Array, columns: Array, own: Array) -> int:
    """Store the load as an origin; return the number of its first element."""

    def describe(element: int) -> tuple[str, str]:
        lane, column = int(lanes.reshape(-1)[element]), int(columns.reshape(-1)[element])
        return tensor.unwritten(lane, column), operation.description()

    origin = Origin(
        (operation.name, operation.location),
        operation.location,
        operation.issuer.account,
        describe,
        lambda element: False,
        "undefined-load",
        int(np.argmax(own.reshape(-1))),
    )
    return tensor.cta.machine.origins.add(origin, own.size)
