"""The 128 bytes of a *simulated* tensor map.

NVIDIA's encoding is not public, and kernels copy a map to shared or global memory and edit it with
``tensormap.replace``; so the simulator needs 128 real bytes whose fields can be patched one by one.
Owns that layout.  It is our own: little-endian, one fixed place per field, named and coded as
``tensormap.replace`` names and codes them (`PTX ISA, #tensormap-new-val-validity`_), so that a replace is
one plain store::

      0  magic b"PYPTXTM1"           64  global_stride   4 x u64, bytes, without the innermost
      8  global_address   u64        96  box_dim         5 x u16
     16  elemtype         u8        106  element_stride  5 x u8
     17  rank             u8, -1    111  zero
     18  interleave_layout u8       112  l2 promotion    u8 (tensormap.replace has none)
     19  swizzle_mode     u8        113  im2col          u8, 1: the box is (channels, pixels)
     20  swizzle_atomicity u8       114  lower corner    u16, W lowest, 16, 8 or 5 bits each
     21  fill_mode        u8        116  upper corner    u16
     22  zero                       118  zero
                                    120  magic b"1MTXTPYP"
     24  global_dim       5 x u64

Arrays are in the hardware's order, innermost axis first.  Unused entries are zero.

.. _PTX ISA, #tensormap-new-val-validity:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tensormap-new-val-validity
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..core.errors import SpecError, UnsupportedError
from ..core.types import ScalarType
from .tensor_map_rules import (
    CORNER_BITS,
    ELEMENTS,
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    Element,
    check_im2col,
    check_tiled,
    element_of,
    transferred,
)

__all__ = ["FIELDS", "IMAGE_BYTES", "DecodedMap", "Field", "pack", "unpack"]

#: Size of a tensor map.
IMAGE_BYTES = 128

_HEAD, _TAIL = b"PYPTXTM1", b"1MTXTPYP"
_SEE = "tensor-tensormap"

_ELEMENT_NAMES = {element.code: element.name for element in ELEMENTS.values()}
#: (swizzle_mode, swizzle_atomicity) of tensormap.replace. Mode 4, 96 bytes, is not modelled.
_SWIZZLE_CODES = {
    "none": (0, 0),
    "32B": (1, 0),
    "64B": (2, 0),
    "128B": (3, 0),
    "128B_ATOM_32B": (3, 1),
    "128B_ATOM_32B_FLIP_8B": (3, 2),
    "128B_ATOM_64B": (3, 3),
}
_SWIZZLE_NAMES = {codes: name for name, codes in _SWIZZLE_CODES.items()}


@dataclass(frozen=True, slots=True)
class Field:
    """Where a field lies: ``count`` little-endian unsigned integers of ``size`` bytes from ``offset``."""

    offset: int
    size: int
    count: int = 1

    def at(self, ordinal: int = 0) -> int:
        """Byte offset of entry ``ordinal``. Raises SpecError outside ``0..count-1``."""
        if not 0 <= ordinal < self.count:
            raise SpecError(
                f"ordinal {ordinal} of a tensor map field is outside 0..{self.count - 1}",
                see="data-movement-and-conversion-instructions-tensormap-replace",
            )
        return self.offset + ordinal * self.size

    def read(self, raw: bytes) -> tuple[int, ...]:
        """All entries of the field in the image ``raw``."""
        ends = (self.offset + i * self.size for i in range(self.count))
        return tuple(int.from_bytes(raw[at : at + self.size], "little") for at in ends)


#: Fields by the names of ``tensormap.replace`` (``rank`` holds the rank minus one, as its operand does).
FIELDS: dict[str, Field] = {
    "global_address": Field(8, 8),
    "elemtype": Field(16, 1),
    "rank": Field(17, 1),
    "interleave_layout": Field(18, 1),
    "swizzle_mode": Field(19, 1),
    "swizzle_atomicity": Field(20, 1),
    "fill_mode": Field(21, 1),
    "global_dim": Field(24, 8, 5),
    "global_stride": Field(64, 8, 4),
    "box_dim": Field(96, 2, 5),
    "element_stride": Field(106, 1, 5),
}
_L2_PROMOTION = Field(112, 1)
_IM2COL = Field(113, 1)
_CORNERS = Field(114, 2, 2)


@dataclass(frozen=True, slots=True)
class DecodedMap:
    """What a tensor map says, innermost axis first throughout.

    Attributes:
        address: generic address of the tensor's first element.
        type: element type as TMA sees it (float8 and packed formats are ``u8``).
        rank: number of axes, 1..5.
        dims: extents of the tensor in elements.
        strides: bytes between neighbours along each axis; ``strides[0]`` is the element size.
        box: traversed elements along each axis; of an im2col map the channels and the pixels.
        element_strides: step along each axis within the box.
        swizzle, interleave, oob_fill: as in :class:`~pyptx.layout.tensor_map.TensorMap`.
        element: name of the element type, where ``type`` does not say it.
        lower, upper: corners of an im2col map's bounding box, W first; empty for boxes.
    """

    address: int
    type: ScalarType
    rank: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    interleave: str
    oob_fill: str
    element: str = ""
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    @property
    def kind(self) -> Element:
        """The element type in full."""
        return element_of(self.element or self.type)

    @property
    def im2col(self) -> bool:
        """Whether copies take pixels of a bounding box instead of a box."""
        return bool(self.lower)

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Elements that one copy moves along each axis, innermost first."""
        if self.im2col:
            return self.box
        return transferred(self.box[::-1], self.element_strides[::-1], self.interleave)[::-1]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the box, its innermost axis, in shared memory."""
        return self.box_shape[0] * self.kind.held // 8

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy moves and counts on its mbarrier, wherever the box lies."""
        return math.prod(self.box_shape) * self.kind.held // 8


def pack(
    *,
    address: int,
    element: Element,
    dims: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int],
    swizzle: str,
    interleave: str,
    l2_promotion: str,
    oob_fill: str,
    lower: Sequence[int] = (),
    upper: Sequence[int] = (),
) -> bytes:
    """The image of values that :mod:`~pyptx.layout.tensor_map_rules` has accepted.

    Sequences are innermost first; ``strides`` without the innermost.
    """
    raw = bytearray(IMAGE_BYTES)
    raw[:8], raw[-8:] = _HEAD, _TAIL

    def store(field: Field, *values: int) -> None:
        for ordinal, value in enumerate(values):
            at = field.at(ordinal)
            raw[at : at + field.size] = value.to_bytes(field.size, "little")

    store(FIELDS["global_address"], address)
    store(FIELDS["elemtype"], element.code)
    store(FIELDS["rank"], len(dims) - 1)
    store(FIELDS["interleave_layout"], INTERLEAVES.index(interleave))
    mode, atomicity = _SWIZZLE_CODES[swizzle]
    store(FIELDS["swizzle_mode"], mode)
    store(FIELDS["swizzle_atomicity"], atomicity)
    store(FIELDS["fill_mode"], FILLS.index(oob_fill))
    store(FIELDS["global_dim"], *dims)
    store(FIELDS["global_stride"], *strides)
    store(FIELDS["box_dim"], *box)
    store(FIELDS["element_stride"], *element_strides)
    store(_L2_PROMOTION, L2_PROMOTIONS.index(l2_promotion))
    if lower:
        store(_IM2COL, 1)
        store(_CORNERS, _pack_corner(lower), _pack_corner(upper))
    return bytes(raw)


def _pack_corner(corner: Sequence[int]) -> int:
    bits = CORNER_BITS[len(corner) + 2]
    return sum((at & (1 << bits) - 1) << bits * axis for axis, at in enumerate(corner))


def _unpack_corner(packed: int, rank: int) -> tuple[int, ...]:
    bits = CORNER_BITS[rank]
    parts = (packed >> bits * axis & (1 << bits) - 1 for axis in range(rank - 2))
    return tuple(part - (part >> bits - 1 << bits) for part in parts)


def _choice(what: str, code: int, names: Sequence[str]) -> str:
    if code >= len(names):
        known = ", ".join(f"{i} {name}" for i, name in enumerate(names))
        raise SpecError(f"the tensor map has {what} code {code}; expected {known}", see=_SEE)
    return names[code]


def _swizzle(mode: int, atomicity: int) -> str:
    """Raises SpecError and UnsupportedError as :func:`unpack`."""
    if mode == 4:
        raise UnsupportedError("96-byte swizzle is not modelled yet", see="tensor-swizzling-modes")
    _choice("swizzle", mode, ("none", "32B", "64B", "128B"))
    if (mode, atomicity) not in _SWIZZLE_NAMES:
        raise SpecError(
            f"the tensor map has swizzle code {mode} with swizzle atomicity code {atomicity}; atoms of more "
            "than 16 bytes (1..3) need the 128-byte swizzle",
            see="tensor-swizzling-modes",
        )
    return _SWIZZLE_NAMES[mode, atomicity]


@lru_cache(maxsize=256)
def unpack(raw: bytes) -> DecodedMap:
    """What the image ``raw`` says. Cached, since a kernel uses few maps many times.

    Raises:
        SpecError: not 128 bytes, not an image, or values that the driver would refuse
            (``tensormap.replace`` can store any).
        UnsupportedError: a swizzle that is not modelled.
    """
    if len(raw) != IMAGE_BYTES:
        raise SpecError(f"a tensor map is {IMAGE_BYTES} bytes, got {len(raw)}", see=_SEE)
    if raw[:8] != _HEAD or raw[-8:] != _TAIL:
        raise SpecError(
            f"these 128 bytes are no tensor map: they start with {raw[:8].hex()} and end with "
            f"{raw[-8:].hex()}, expected {_HEAD.hex()} and {_TAIL.hex()}",
            hint="point at the parameter that holds the map, or at a complete copy of all 128 bytes of it",
            see=_SEE,
        )
    values = {name: field.read(raw) for name, field in FIELDS.items()}
    rank = values["rank"][0] + 1
    if rank > 5:
        raise SpecError(f"the tensor map has rank {rank}; expected 1..5", see=_SEE)
    code = values["elemtype"][0]
    if code not in _ELEMENT_NAMES:
        raise SpecError(f"the tensor map has element type code {code}; expected 0..15", see=_SEE)
    element = ELEMENTS[_ELEMENT_NAMES[code]]
    im2col = bool(_IM2COL.read(raw)[0])
    if im2col and rank < 3:
        raise SpecError(f"the im2col tensor map has rank {rank}; expected 3..5", see=_SEE)
    corners = [_unpack_corner(corner, rank) for corner in _CORNERS.read(raw)] if im2col else [(), ()]
    decoded = DecodedMap(
        address=values["global_address"][0],
        type=element.type,
        rank=rank,
        dims=values["global_dim"][:rank],
        strides=(element.nbytes, *values["global_stride"][: rank - 1]),
        box=values["box_dim"][: 2 if im2col else rank],
        element_strides=values["element_stride"][:rank],
        swizzle=_swizzle(values["swizzle_mode"][0], values["swizzle_atomicity"][0]),
        interleave=_choice("interleave", values["interleave_layout"][0], INTERLEAVES),
        oob_fill=_choice("fill mode", values["fill_mode"][0], FILLS),
        element="" if element.name == element.type.name else element.name,
        lower=corners[0],
        upper=corners[1],
    )
    said: dict[str, Any] = {
        "element": element,
        "address": decoded.address,
        "shape": decoded.dims[::-1],
        "strides": decoded.strides[::-1],
        "box": decoded.box[::-1],
        "element_strides": decoded.element_strides[::-1],
        "swizzle": decoded.swizzle,
        "interleave": decoded.interleave,
        "l2_promotion": _choice("l2 promotion", _L2_PROMOTION.read(raw)[0], L2_PROMOTIONS),
        "oob_fill": decoded.oob_fill,
    }
    if im2col:
        check_im2col(**said, lower=decoded.lower[::-1], upper=decoded.upper[::-1])
    else:
        check_tiled(**said)
    return decoded
