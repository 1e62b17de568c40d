"""The 128 bytes of a tensor map, as a driver encodes it.

Kernels copy maps to shared or global memory, edit the copies with ``tensormap.replace`` and use them there.
Therefore the simulator works on the real bytes.  NVIDIA does not document the encoding.  The encoding below
was derived from the bytes that an H200's driver (580.159) writes for maps that differ in one value
(``tests/layout/driver_maps.json``).  Only the first 64 bytes have a meaning, and compilers copy only these::

    bit   0  im2col (bits 1 to 3: 1 in some encoders)     bytes  0..7   address
          4  rank - 1                                     bytes  8..11  the bits to the left
          7  element type                                 bytes 12..27  strides / 16, 32 bits each
         11  interleave                                   bytes 28..29  their upper 4 bits each
         13  swizzle mode                                 bytes 32..51  dims - 1, 32 bits each
         15  fill mode                                    bytes 52..53  element strides - 1, 3 bits each
         16  tf32, of an f32 type                         bytes 55..59  box - 1, 8 bits each
         17  L2 promotion
         19  swizzle atomicity                            im2col maps: byte 55 channels - 1,
                                                          bytes 56..57 lower corner, 58..59 upper corner,
                                                          W lowest, 16, 8 or 5 bits each;
                                                          bytes 60..63 pixels - 1

Arrays are in the hardware's order, innermost axis first.  All bits of entries beyond the rank are 0.
An H200 refuses the element types of 4 and 6 bits: their encoding, and the encoding of swizzles with larger
atoms, was derived from maps that compilers for Blackwell write without the driver.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.types import ScalarType
from .tensor_map_rules import (
    CORNER_BITS,
    ELEMENTS,
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    MapElement,
    check_im2col,
    check_tiled,
    element_of,
    transferred,
)

__all__ = ["FIELDS", "IMAGE_BYTES", "USED_BYTES", "DecodedMap", "Field", "pack", "unpack"]

#: Size of a tensor map in bytes.
IMAGE_BYTES = 128
#: Number of leading bytes of a tensor map that have a meaning.
USED_BYTES = 64

_SEE = "tensor-tensormap"
_REPLACE = "data-movement-and-conversion-instructions-tensormap-replace"

_ELEMENT_NAMES = {element.code: element.name for element in ELEMENTS.values()}
#: (swizzle_mode, swizzle_atomicity) of tensormap.replace.
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


#: Code of an element type in tensormap.replace -> its code in the map's element type field, and its tf32 bit.
_ELEMENT_CODES = {code: (code, 0) for code in range(11)} | {
    11: (7, 1),
    12: (8, 1),
    13: (11, 0),
    14: (12, 0),
    15: (13, 0),
}
_REPLACE_CODES = {pair: code for code, pair in _ELEMENT_CODES.items()}
_TF32_BIT = 64 + 16


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the map: the bits of its entries in the map as a little-endian number, and their encoding.

    Attributes:
        first: lowest bit of entry 0.
        bits: number of bits of an entry.
        step: distance in bits from one entry to the next.
        count: number of entries.
        less: number that the map subtracts from a value before it stores the value.
        shift: number of low bits of a value that the map does not store.
        upper: lowest bit of the place that holds the upper four bits of entry 0, or None if the field has no
            such place. The upper bits of the other entries follow, four bits each.
    """

    first: int
    bits: int
    step: int = 0
    count: int = 1
    less: int = 0
    shift: int = 0
    upper: int | None = None

    def _places(self, ordinal: int) -> Iterator[tuple[int, int]]:
        """Yield the first bit and the width of each part of an entry, the lowest part first."""
        yield self.first + ordinal * self.step, self.bits
        if self.upper is not None:
            yield self.upper + 4 * ordinal, 4

    def _check(self, ordinal: int) -> None:
        if not 0 <= ordinal < self.count:
            raise SpecError(
                f"ordinal {ordinal} of the tensor map field is outside 0..{self.count - 1}",
                see=_REPLACE,
            )

    def get(self, image: int, ordinal: int = 0) -> int:
        """Return the value of entry ``ordinal``. Raises SpecError if the field has no such entry."""
        self._check(ordinal)
        value = position = 0
        for first, bits in self._places(ordinal):
            value |= (image >> first & (1 << bits) - 1) << position
            position += bits
        return (value << self.shift) + self.less

    def set(self, image: int, value: int, ordinal: int = 0) -> int:
        """Return the map with ``value`` in entry ``ordinal``. The low ``shift`` bits of ``value`` are lost.

        Raises:
            SpecError: the field has no such entry, or the value does not fit.
        """
        self._check(ordinal)
        kept = value - self.less
        bits = self.shift + self.bits + (4 if self.upper is not None else 0)
        if value >> 64 or kept >> bits or kept < -1:
            raise SpecError(
                f"the value {value} does not fit a field of {bits} bits of the tensor map", see=_REPLACE
            )
        # 0 - 1 is stored as all ones, as in the hardware's own arithmetic.
        kept = (kept & (1 << bits) - 1) >> self.shift
        for first, width in self._places(ordinal):
            mask = (1 << width) - 1
            image = image & ~(mask << first) | (kept & mask) << first
            kept >>= width
        return image

    def read(self, raw: bytes) -> tuple[int, ...]:
        """Return the values of all entries of this field in the map with the bytes ``raw``."""
        image = int.from_bytes(raw, "little")
        return tuple(self.get(image, ordinal) for ordinal in range(self.count))


class _ElementField(Field):
    """The element type. The map stores it in two places: four bits, and the tf32 bit.

    ``get`` and ``set`` use the code of tensormap.replace, which covers both.
    """

    __slots__ = ()

    def get(self, image: int, ordinal: int = 0) -> int:
        pair = (Field.get(self, image, ordinal), image >> _TF32_BIT & 1)
        # A pair that is not a type gets a code of 16 or more, which no type has.
        return _REPLACE_CODES.get(pair, 16 + pair[0])

    def set(self, image: int, value: int, ordinal: int = 0) -> int:
        if value not in _ELEMENT_CODES:
            raise SpecError(f"the tensor map has element type code {value}; expected 0..15", see=_SEE)
        code, tf32 = _ELEMENT_CODES[value]
        return Field.set(self, image, code, ordinal) & ~(1 << _TF32_BIT) | tf32 << _TF32_BIT


#: Name in ``tensormap.replace`` -> field. ``rank`` holds the rank minus one, like the instruction's operand.
FIELDS: dict[str, Field] = {
    "global_address": Field(0, 64),
    "rank": Field(64 + 4, 3),
    "elemtype": _ElementField(64 + 7, 4),
    "interleave_layout": Field(64 + 11, 2),
    "swizzle_mode": Field(64 + 13, 2),
    "fill_mode": Field(64 + 15, 1),
    "swizzle_atomicity": Field(64 + 19, 2),
    "global_stride": Field(8 * 12, 32, 32, 4, shift=4, upper=8 * 28),
    "global_dim": Field(8 * 32, 32, 32, 5, less=1),
    "element_stride": Field(8 * 52, 3, 3, 5, less=1),
    "box_dim": Field(8 * 55, 8, 8, 5, less=1),
}
_L2_PROMOTION = Field(64 + 17, 2)
_IM2COL = Field(64, 1)
_CORNERS = Field(8 * 56, 16, 16, 2)
_PIXELS = Field(8 * 60, 32, less=1)
#: Bits that are zero in every map.
_ZERO = 0x3FF << 64 + 22 | 0xFFFF << 8 * 30 | 0x1FF << 8 * 52 + 15


@dataclass(frozen=True, slots=True)
class DecodedMap:
    """The values that a tensor map encodes. All sequences begin with the innermost axis.

    Attributes:
        address: generic address of the tensor's first element.
        type: element type as TMA sees it (float8 and packed formats are ``u8``).
        rank: number of axes, 1..5.
        dims: extents of the tensor in elements.
        strides: bytes between neighbors along each axis; ``strides[0]`` is the element size.
        box: elements that one copy traverses along each axis; for an im2col map, channels and pixels.
        element_strides: step along each axis within the box.
        swizzle, interleave, oob_fill: as in :class:`~pyptx.layout.tensor_map.TensorMap`.
        element: name of the element type if ``type`` does not determine it.
        lower, upper: corners of an im2col map's bounding box, W first; empty for a tiled map.
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
    def kind(self) -> MapElement:
        """The element type with its code, its driver enum and its widths."""
        return element_of(self.element or self.type)

    @property
    def im2col(self) -> bool:
        """True for an im2col map, with which copies move pixels of a bounding box; False for a tiled map."""
        return bool(self.lower)

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Elements that one copy moves along each axis, innermost first."""
        if self.im2col:
            return self.box
        return transferred(self.box[::-1], self.element_strides[::-1], self.interleave)[::-1]

    @property
    def row_bytes(self) -> int:
        """Bytes that one row of the box takes in shared memory. A row runs along the innermost axis."""
        return self.box_shape[0] * self.kind.held // 8

    @property
    def box_bytes(self) -> int:
        """Bytes of shared memory that one copy fills or reads, including elements outside the tensor."""
        return math.prod(self.box_shape) * self.kind.held // 8

    @property
    def transaction_bytes(self) -> int:
        """Bytes that one load counts on its mbarrier. The padding between elements does not count."""
        return math.prod(self.box_shape) * self.kind.bits // 8


def pack(
    *,
    address: int,
    element: MapElement,
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
    """Return the 128 bytes of a map with these values.

    The caller has checked the values with :mod:`~pyptx.layout.tensor_map_rules`.  Sequences begin with the
    innermost axis; ``strides`` omits the innermost axis.
    """
    image = 0
    mode, atomicity = _SWIZZLE_CODES[swizzle]
    single = {
        "global_address": address,
        "elemtype": element.code,
        "rank": len(dims) - 1,
        "interleave_layout": INTERLEAVES.index(interleave),
        "swizzle_mode": mode,
        "swizzle_atomicity": atomicity,
        "fill_mode": FILLS.index(oob_fill),
    }
    arrays = {
        "global_dim": dims,
        "global_stride": strides,
        "element_stride": element_strides,
        "box_dim": box[:1] if lower else box,
    }
    for name, value in single.items():
        image = FIELDS[name].set(image, value)
    for name, values in arrays.items():
        for ordinal, value in enumerate(values):
            image = FIELDS[name].set(image, value, ordinal)
    image = _L2_PROMOTION.set(image, L2_PROMOTIONS.index(l2_promotion))
    if lower:
        image = _IM2COL.set(image, 1)
        image = _PIXELS.set(image, box[1])
        for ordinal, corner in enumerate((lower, upper)):
            image = _CORNERS.set(image, _pack_corner(corner), ordinal)
    return image.to_bytes(IMAGE_BYTES, "little")


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
    """Return the swizzle's name for a mode and an atomicity. Raises SpecError if no swizzle has them."""
    if (mode, atomicity) not in _SWIZZLE_NAMES:
        raise SpecError(
            f"the tensor map has swizzle code {mode} with swizzle atomicity code {atomicity}; atoms of more "
            "than 16 bytes (atomicity codes 1..3) need the 128-byte swizzle (swizzle code 3)",
            see="tensor-swizzling-modes",
        )
    return _SWIZZLE_NAMES[mode, atomicity]


@lru_cache(maxsize=256)
def unpack(raw: bytes) -> DecodedMap:
    """Return the values that the map ``raw`` encodes. Cached, since a kernel uses few maps many times.

    Raises:
        SpecError: ``raw`` is not 128 bytes, is not a tensor map, or holds values that the driver would refuse
            (``tensormap.replace`` can store any value).
    """
    if len(raw) != IMAGE_BYTES:
        raise SpecError(f"a tensor map has {IMAGE_BYTES} bytes, got {len(raw)}", see=_SEE)
    image = int.from_bytes(raw[:USED_BYTES], "little")
    if not image or image & _ZERO:
        what = "are all zero" if not image else "have bits set that are zero in every map"
        raise SpecError(
            f"these bytes are not a tensor map: the first {USED_BYTES} {what}: "
            f"{raw[:16].hex()} {raw[16:32].hex()} ...",
            hint="point at the parameter that holds the map, or at a copy of its first 64 bytes",
            see=_SEE,
        )
    values = {name: field.read(raw) for name, field in FIELDS.items()}
    rank = values["rank"][0] + 1
    if rank > 5:
        raise SpecError(f"the tensor map has rank {rank}; expected 1..5", see=_SEE)
    code = values["elemtype"][0]
    if code not in _ELEMENT_NAMES:
        raise SpecError(f"the tensor map has element type code {code - 16}, which is not a type", see=_SEE)
    element = ELEMENTS[_ELEMENT_NAMES[code]]
    im2col = bool(_IM2COL.read(raw)[0])
    if im2col and rank < 3:
        raise SpecError(f"the im2col tensor map has rank {rank}; expected 3..5", see=_SEE)
    corners = [_unpack_corner(corner, rank) for corner in _CORNERS.read(raw)] if im2col else [(), ()]
    box = values["box_dim"][:rank]
    decoded = DecodedMap(
        address=values["global_address"][0],
        type=element.type,
        rank=rank,
        dims=values["global_dim"][:rank],
        strides=(element.nbytes, *values["global_stride"][: rank - 1]),
        box=(box[0], *_PIXELS.read(raw)) if im2col else box,
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
