"""Checks that a tensor map fits the instruction that names it, and computes the copy from both.

Source: PTX ISA, `#tensor-tensormap`_.

.. _#tensor-tensormap: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-tensormap
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core.errors import PyptxError, UnsupportedError
from ...layout.tensor_map import TensorMap
from ...layout.tensor_map_image import IMAGE_BYTES, USED_BYTES, DecodedMap
from ..engine.work import Copy
from ..memory.access import AccessKind, Proxy, StateSpace
from ..memory.segments import Actor
from . import elements
from .boxes import Combine, LoadMode, parts_of
from .shared import read_shared, write_shared

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["BoxCopy", "tensor_copy"]

Bytes = NDArray[np.uint8]


class BoxCopy:
    """The copy of one instruction through a tensor map.

    Attributes:
        decoded: the map.
        kind: the map's element type.
        nbytes: size in shared memory of all elements that move, inside or outside the tensor.
        counted: bytes that a load counts on its mbarrier.
        wrong: the reason why the map does not fit the instruction; "" if it fits.
    """

    __slots__ = ("_parts", "_row", "counted", "decoded", "kind", "nbytes", "wrong")

    def __init__(
        self, decoded: DecodedMap, coordinates: tuple[int, ...], mode: LoadMode, offsets: tuple[int, ...]
    ) -> None:
        self.decoded, self.kind = decoded, decoded.kind
        self.wrong = _misfit(decoded, coordinates, mode)
        self._parts = [] if self.wrong else parts_of(decoded, coordinates, mode, offsets)
        self._row = decoded.row_bytes
        self.nbytes = decoded.box_bytes * len(self._parts)
        self.counted = decoded.transaction_bytes * len(self._parts)

    def read_tensor(self, cta: CTA, actor: Actor) -> Bytes:
        """Read the elements in their form in shared memory.

        Elements outside the tensor get the fill value.
        """
        found = [elements.to_shared(self.kind, part.read(cta, actor)) for part in self._parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def write_tensor(self, cta: CTA, data: Bytes, actor: Actor, combine: Combine | None = None) -> None:
        """Write the elements inside the tensor; with ``combine``, combine them with the old ones first."""
        start = 0
        moved = elements.to_global(self.kind, data)
        for part in self._parts:
            part.write(cta, moved[start : start + part.nbytes], actor, combine)
            start += part.nbytes

    def read_shared(self, cta: CTA, address: int, actor: Actor) -> Bytes:
        """Read the elements at ``address`` of shared memory. Elements that a store drops may be unwritten."""
        return read_shared(cta, address, self.nbytes, self._row, self.decoded.swizzle, actor, self._kept())

    def asked(self, tensor: tuple[int, tuple[int, ...]], *, targets: tuple[int, ...], loads: bool) -> Copy:
        """Return what the copy, through the map at an address and to coordinates, asks of the copy engine."""
        address, coordinates = tensor
        source = self.decoded.address, (self.decoded.box, coordinates)
        lines = sum(part.lines for part in self._parts)
        return Copy(self.nbytes, self.nbytes // self._row, source, targets, loads, lines, address)

    def _kept(self) -> NDArray[np.bool_] | None:
        """Return flags of the bytes of shared memory that a store uses; None if it uses all."""
        found = [part.kept() for part in self._parts]
        if all(kept is None for kept in found):
            return None
        whole = [
            np.ones(part.nbytes, np.bool_) if kept is None else kept
            for part, kept in zip(self._parts, found, strict=True)
        ]
        return elements.kept_in_shared(self.kind, np.concatenate(whole))

    def write_shared(self, cta: CTA, address: int, data: Bytes, actor: Actor) -> None:
        """Write the elements to ``address`` of shared memory."""
        write_shared(cta, address, data, self._row, self.decoded.swizzle, actor)


#: Cached, since kernels load the same boxes in many CTAs.
@lru_cache(maxsize=4096)
def _prepared(raw: bytes, coordinates: tuple[int, ...], mode: LoadMode, offsets: tuple[int, ...]) -> BoxCopy:
    return BoxCopy(TensorMap.decode(raw.ljust(IMAGE_BYTES, b"\0")), coordinates, mode, offsets)


def tensor_copy(
    cta: CTA,
    tensor: tuple[int, tuple[int, ...]],
    mode: LoadMode,
    offsets: tuple[int, ...],
    actor: Actor,
) -> BoxCopy:
    """Return the copy through the map at a generic address. Raises a fault if the map does not fit.

    An H200 stops with "illegal instruction" if the innermost coordinate is not a multiple of 16 bytes.
    """
    machine = cta.machine
    address, coordinates = tensor
    segment, offset = machine.memory.access(
        AccessKind.READ,
        StateSpace.GENERIC,
        address,
        IMAGE_BYTES,
        actor,
        cta.cluster_memory,
        Proxy.TENSORMAP,
        align=64,
        check_written=False,
    )
    if segment.unwritten(offset, USED_BYTES) is not None:
        machine.memory.uninitialized(segment, offset, USED_BYTES, 0, actor, copied=False)
    try:
        found = _prepared(segment.data[offset : offset + USED_BYTES].tobytes(), coordinates, mode, offsets)
    except UnsupportedError as error:
        raise machine.fault("not-modeled", error.message, actor) from None
    except PyptxError as error:
        raise machine.fault("bad-tensor-map", error.message, actor) from None
    if found.wrong:
        raise machine.fault("bad-tensor-map", found.wrong, actor)
    if found.decoded.interleave != "none":
        raise machine.fault("not-modeled", "tensor maps with interleave are not modeled", actor)
    return found


def _misfit(decoded: DecodedMap, coordinates: tuple[int, ...], mode: LoadMode) -> str:
    """Return why the map does not fit the instruction, or "" if it fits."""
    rank = 2 if mode.four_rows else len(coordinates)
    if decoded.rank != rank:
        return f"the instruction has {rank} coordinates, but the map has {decoded.rank} dimensions"
    if decoded.im2col != mode.im2col:
        given = "an im2col" if decoded.im2col else "a tiled"
        return f"{given} tensor map is used by a copy in the mode .{mode.value}"
    if mode.four_rows and decoded.box[1] != 1:
        return f".{mode.value} needs a box of one row, but the map's box has {decoded.box[1]}"
    kind = decoded.kind
    # Packed elements that are padded in shared memory are copied in runs of 128.
    unit = 128 if kind.held > kind.bits else 128 // kind.bits
    if coordinates[0] % unit:
        return (
            f"innermost coordinate {coordinates[0]} of .{kind.name} elements is "
            f"{coordinates[0] * kind.bits / 8:g} bytes, not a multiple of {unit * kind.bits // 8}"
        )
    return ""
