"""The TMA engine: boxes of tensors between global and shared memory.

Source: PTX ISA, `#tensor`_ and ``#data-movement-and-conversion-instructions-cp-async-bulk-tensor``.
A load fills the whole box, out-of-bounds elements with the map's fill value, and always counts the whole
box's bytes; a store drops what lies outside.  The swizzle acts on absolute shared-memory addresses.

.. _#tensor: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import PyptxError
from ..core.findings import RULES, Finding
from ..layout.swizzle import swizzle, swizzle_mask
from ..layout.tensor_map import TensorMap
from ..layout.tensor_map_image import DecodedMap
from .memory import Actor, Fault

if TYPE_CHECKING:
    from .machine import CTA

__all__ = ["read_box", "read_map", "read_shared", "write_box", "write_shared"]

Bytes = NDArray[np.uint8]


@lru_cache(maxsize=4096)
def _decode(raw: bytes) -> DecodedMap:
    return TensorMap.decode(raw)


def read_map(cta: CTA, address: int, coordinates: tuple[int, ...], actor: Actor) -> DecodedMap:
    """The tensor map at a generic address, which must fit the coordinates.

    An H200 stops with "illegal instruction" where the innermost coordinate is not a multiple of 16 bytes.
    """
    machine = cta.machine
    segment, offset = machine.memory.access(
        "read", "generic", address, 128, actor, cta.reach, "tensormap", align=64
    )
    try:
        decoded = _decode(segment.data[offset : offset + 128].tobytes())
    except PyptxError as error:
        raise machine.fault("bad-tensor-map", error.message, actor) from None
    if decoded.rank != len(coordinates):
        raise machine.fault(
            "bad-tensor-map", f"{len(coordinates)} coordinates for a map of {decoded.rank} dimensions", actor
        )
    inner = coordinates[0] * decoded.type.nbytes
    if inner % 16:
        raise machine.fault(
            "bad-tensor-map",
            f"innermost coordinate {coordinates[0]} of .{decoded.type} elements is {inner} bytes, "
            "not a multiple of 16",
            actor,
        )
    if decoded.interleave != "none" or any(s != 1 for s in decoded.element_strides):
        raise Fault(
            Finding(
                RULES["not-modelled"],
                "tensor maps with interleave or element strides are not modelled",
                actor.location,
            )
        )
    return decoded


class _Place:
    """Where a box lies: per axis (outermost first) the part inside the tensor, in box and in tensor."""

    __slots__ = ("empty", "inside", "shape", "starts", "whole")

    def __init__(self, decoded: DecodedMap, coordinates: tuple[int, ...]) -> None:
        size = decoded.type.nbytes
        self.shape = decoded.box_shape[::-1]
        self.inside: list[slice] = []
        self.starts: list[int] = []
        self.whole = True
        for length, extent, start in zip(self.shape, decoded.dims[::-1], coordinates[::-1], strict=True):
            low, high = max(0, -start), min(length, extent - start)
            self.inside.append(slice(low, max(low, high)))
            self.starts.append(start + low)
            self.whole &= low == 0 and high == length
        self.empty = any(part.start >= part.stop for part in self.inside)
        # The innermost axis counts in bytes from here on.
        inner = self.inside[-1]
        self.inside[-1] = slice(inner.start * size, inner.stop * size)


def _tensor_view(cta: CTA, decoded: DecodedMap, place: _Place, kind: str, actor: Actor) -> NDArray[np.uint8]:
    """The part of the box that is inside the tensor, as a strided byte view of global memory."""
    strides = decoded.strides[::-1]
    start = decoded.address + sum(s * stride for s, stride in zip(place.starts, strides, strict=True))
    lengths = [part.stop - part.start for part in place.inside]
    extent = sum((n - 1) * stride for n, stride in zip(lengths[:-1], strides[:-1], strict=True)) + lengths[-1]
    segment, offset = cta.machine.memory.access(
        kind, "global", start, extent, actor, cta.reach, "async", align=1, check_written=False
    )
    if kind == "write" and segment.written is not None:
        written = np.ndarray(tuple(lengths), np.uint8, segment.written.data, offset, (*strides[:-1], 1))
        written[...] = 1
    elif segment.written is not None:
        written = np.ndarray(tuple(lengths), np.uint8, segment.written.data, offset, (*strides[:-1], 1))
        if not written.all():
            first = np.argwhere(written == 0)[0]
            position = offset + sum(int(i) * s for i, s in zip(first, (*strides[:-1], 1), strict=True))
            cta.machine.memory.uninitialised(segment, int(position), 1, 0, actor)
    return np.ndarray(tuple(lengths), np.uint8, segment.data.data, offset, (*strides[:-1], 1))


def read_box(cta: CTA, decoded: DecodedMap, coordinates: tuple[int, ...], actor: Actor) -> Bytes:
    """The bytes of a box, dense and outermost first, out-of-bounds elements filled."""
    place = _Place(decoded, coordinates)
    inner = place.shape[-1] * decoded.type.nbytes
    if place.whole:
        # A copy: what the tensor holds later is not what was read.
        return _tensor_view(cta, decoded, place, "read", actor).copy().reshape(-1)
    box: Bytes = np.zeros((*place.shape[:-1], inner), np.uint8)
    if decoded.oob_fill == "nan":
        # The manual's special NaN is all ones in exponent and mantissa.
        fill = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}[decoded.type.nbytes]
        box.view(f"u{decoded.type.nbytes}")[...] = fill
    if not place.empty:
        box[tuple(place.inside)] = _tensor_view(cta, decoded, place, "read", actor)
    return box.reshape(-1)


def write_box(cta: CTA, decoded: DecodedMap, coordinates: tuple[int, ...], data: Bytes, actor: Actor) -> None:
    """Write the part of a dense box that lies inside the tensor."""
    place = _Place(decoded, coordinates)
    if place.empty:
        return
    box = data.reshape(*place.shape[:-1], -1)
    _tensor_view(cta, decoded, place, "write", actor)[...] = box[tuple(place.inside)]


@lru_cache(maxsize=1024)
def _chunks(low: int, count: int, mode: str) -> NDArray[np.int64]:
    """16-byte units of a dense run of ``count``, relative to the 1024-byte boundary below it."""
    linear = low + 16 * np.arange(count, dtype=np.int64)
    units = np.asarray(swizzle(linear, mode)) >> 4
    units.setflags(write=False)
    return units


def _units(data: NDArray[Any]) -> NDArray[np.complex128]:
    """Bytes as 16-byte units; complex numbers are only a carrier of 16 bytes that numpy moves whole."""
    return data[: data.size // 16 * 16].view(np.complex128)


def _shared_place(
    cta: CTA, kind: str, address: int, nbytes: int, mode: str, actor: Actor
) -> tuple[Any, NDArray[np.int64]]:
    """The segment and the 16-byte units of it where a dense box at ``address`` lies."""
    if address % 128:
        raise cta.machine.fault(
            "misaligned",
            f"tensor copy at shared address {address:#x}, which is not a multiple of 128",
            actor,
        )
    # Shared memory starts at a multiple of 1024, so offsets and addresses share their pattern bits.
    units = _chunks(address & 1023, nbytes // 16, mode)
    # A box that ends within a row of the pattern may reach beyond its last byte, but not out of the row.
    row = 16 * (swizzle_mask(mode) + 1)
    segment, offset = cta.machine.memory.access(
        kind,
        "shared",
        address,
        -(-nbytes // row) * row,
        actor,
        cta.reach,
        "async",
        align=1,
        check_written=nbytes % row == 0,
    )
    units = units + ((offset & ~1023) >> 4)
    if nbytes % row and segment.written is not None:
        written = _units(segment.written).view(np.uint8).reshape(-1, 16)
        if kind == "write":
            written[units] = 1
        elif not written[units].all():
            unit = units[np.argmin(written[units].all(axis=1))]
            cta.machine.memory.uninitialised(segment, 16 * int(unit), 16, 0, actor)
    return segment, units


def write_shared(cta: CTA, address: int, data: Bytes, mode: str, actor: Actor) -> None:
    """Write a dense box to shared memory through the swizzle."""
    segment, units = _shared_place(cta, "write", address, data.size, mode, actor)
    _units(segment.data)[units] = _units(data)


def read_shared(cta: CTA, address: int, nbytes: int, mode: str, actor: Actor) -> Bytes:
    """Read a dense box from shared memory through the swizzle."""
    segment, units = _shared_place(cta, "read", address, nbytes, mode, actor)
    return _units(segment.data)[units].view(np.uint8)
