"""Undefined bits of the arguments and results of calls, in registers and in the threads' local memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation
from ..code.semantic import RegisterPlace
from ..memory.segments import Actor
from .origins import LoadedBytes

if TYPE_CHECKING:
    from .frames import Frame
    from .warp import Split

__all__ = ["check_local", "move", "read_local", "use_register", "write_local"]

Array = NDArray[Any]


def _flags(s: Split) -> NDArray[np.bool_]:
    flags = np.zeros(32, np.bool_)
    flags[s.lanes] = True
    return flags


def move(s: Split, source: Frame, place: RegisterPlace | None, target: Frame, to: RegisterPlace) -> None:
    """Copy the undefined bits of a register of ``source`` to one of ``target``; a constant has no place."""
    known = source.registers.undefined
    bits = None if place is None else known.bits(place.index, source.span)
    if place is None or bits is None:
        target.registers.undefined.define(to.index, target.span, _flags(s))
        return
    if to.cls != "128" and bits.ndim == 2:
        bits = bits[:, 0]
    elif to.cls == "128" and bits.ndim == 1:
        bits = np.stack([bits, np.zeros_like(bits)], axis=1)
    origins = known.origins(place.index, source.span)
    target.registers.undefined.set(to, target.span, _flags(s), bits, origins)


def write_local(s: Split, source: Frame, place: RegisterPlace | None, start: int, nbytes: int) -> None:
    """Mark bytes of local memory that a call wrote; they are undefined where the register's bits are."""
    memory = s.warp.cta.local_memory
    threads = 32 * s.warp.index + s.lanes
    places = (threads * memory.capacity)[:, None] + start + np.arange(nbytes)
    segment = memory.segment
    known = source.registers.undefined
    bits = None if place is None else known.bits(place.index, source.span)
    if place is None or bits is None:
        assert segment.written is not None
        segment.written[places] = 1
        return
    raw: Array = np.ascontiguousarray(bits[s.lanes]).view(np.uint8)
    undefined = raw.reshape(len(s.lanes), -1)[:, :nbytes] != 0
    segment.store_undefined(places, undefined, known.origins(place.index, source.span)[s.lanes])


def read_local(
    s: Split,
    target: Frame,
    to: RegisterPlace,
    start: int,
    nbytes: int,
    call: object,
    at: SourceLocation | None,
) -> None:
    """Set the undefined bits of a register that a call at line ``at`` filled from local memory."""
    memory = s.warp.cta.local_memory
    segment = memory.segment
    threads = 32 * s.warp.index + s.lanes
    offsets = threads * memory.capacity + start
    missing: NDArray[np.bool_] = segment.missing(offsets[:, None] + np.arange(nbytes))
    lanes = _flags(s)
    if not missing.any():
        target.registers.undefined.define(to.index, target.span, lanes)
        return
    count = len(s.lanes)
    lanes_here = s.lanes.copy()
    loaded = LoadedBytes(
        [segment] * count, offsets, missing, nbytes, lambda at: s.warp.thread_names([int(lanes_here[at])])
    )
    numbers = loaded.numbers(s.warp.cta.machine.origins, call, at, s.warp.issuer.account)
    word: Array = np.zeros((count, 16 if to.cls == "128" else 8), np.uint8)
    word[:, :nbytes] = missing * np.uint8(255)
    bits: Array = np.zeros((32, 2) if to.cls == "128" else 32, np.uint64)
    bits[s.lanes] = word.view(np.uint64) if to.cls == "128" else word.view(np.uint64)[:, 0]
    origins = np.zeros(32, np.int64)
    origins[s.lanes] = numbers[:, 0]
    target.registers.undefined.set(to, target.span, lanes, bits, origins)


def check_local(s: Split, start: int, nbytes: int, actor: Actor) -> None:
    """Report that a function of the system uses bytes of local memory if some of them are undefined."""
    memory = s.warp.cta.local_memory
    offsets = (32 * s.warp.index + s.lanes) * memory.capacity + start
    missing = memory.segment.missing(offsets[:, None] + np.arange(nbytes))
    if missing.any():
        row = int(np.argmax(missing.any(axis=1)))
        position = int(offsets[row]) + int(np.argmax(missing[row]))
        known = (~missing[row]).astype(np.uint8)
        s.warp.cta.machine.memory.report_unwritten(memory.segment, position, nbytes, known, actor, row)


def use_register(s: Split, place: RegisterPlace, how: str, location: SourceLocation | None) -> None:
    """Report that the lanes of a call use a register, if it has undefined bits in one of them."""
    frame = s.frame
    flags = frame.registers.undefined.flags(place.index, frame.span)
    bad: Array = np.flatnonzero(flags[s.lanes]) if flags is not None else np.zeros(0)
    if len(bad):
        lane = int(s.lanes[bad[0]])
        number = int(frame.registers.undefined.origins(place.index, frame.span)[lane])
        thread = s.warp.thread_names([lane])
        s.warp.cta.machine.origins.used(number, f"{how} in {thread}", location)
