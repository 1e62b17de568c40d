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
     19  swizzle_mode     u8        113  zero
     20  swizzle_atomicity u8       120  magic b"1MTXTPYP"
     21  fill_mode        u8
     22  zero
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

from ..core.errors import SpecError, UnsupportedError
from ..core.types import ScalarType, scalar_type
from .tensor_map_rules import (
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    SWIZZLES,
    check_tiled,
    element_type,
    transferred,
)

__all__ = ["FIELDS", "IMAGE_BYTES", "DecodedMap", "Field", "pack", "unpack"]

#: Size of a tensor map.
IMAGE_BYTES = 128

_HEAD, _TAIL = b"PYPTXTM1", b"1MTXTPYP"
_SEE = "tensor-tensormap"

# Codes of tensormap.replace; they are not the driver's. 8 and 12 flush denormals, 13..15 are packed.
_ELEMENT_CODES = {
    "u8": 0,
    "u16": 1,
    "u32": 2,
    "s32": 3,
    "u64": 4,
    "s64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 9,
    "bf16": 10,
    "tf32": 11,
}
_ELEMENT_NAMES = {code: name for name, code in _ELEMENT_CODES.items()}
_ELEMENTS_NOT_MODELLED = {8: "f32.ftz", 12: "tf32.ftz", 13: "b4x16", 14: "b4x16_p64", 15: "b6x16_p32"}


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


@dataclass(frozen=True, slots=True)
class DecodedMap:
    """What a tensor map says, innermost axis first throughout.

    Attributes:
        address: generic address of the tensor's first element.
        type: element type as TMA sees it (float8 is ``u8``).
        rank: number of axes, 1..5.
        dims: extents of the tensor in elements.
        strides: bytes between neighbours along each axis; ``strides[0]`` is the element size.
        box: traversed elements along each axis.
        element_strides: step along each axis within the box.
        swizzle, interleave, oob_fill: as in :class:`~pyptx.layout.tensor_map.TensorMap`.
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

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Elements that one copy moves along each axis, innermost first."""
        return transferred(self.box[::-1], self.element_strides[::-1], self.interleave)[::-1]

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy moves and counts on its mbarrier, wherever the box lies."""
        return math.prod(self.box_shape) * self.type.nbytes


def pack(
    *,
    address: int,
    type: ScalarType,
    dims: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int],
    swizzle: str,
    interleave: str,
    l2_promotion: str,
    oob_fill: str,
) -> bytes:
    """The image of values that :func:`~pyptx.layout.tensor_map_rules.check_tiled` has accepted.

    Sequences are innermost first; ``strides`` without the innermost.
    """
    raw = bytearray(IMAGE_BYTES)
    raw[:8], raw[-8:] = _HEAD, _TAIL

    def store(field: Field, *values: int) -> None:
        for ordinal, value in enumerate(values):
            at = field.at(ordinal)
            raw[at : at + field.size] = value.to_bytes(field.size, "little")

    store(FIELDS["global_address"], address)
    store(FIELDS["elemtype"], _ELEMENT_CODES[element_type(type).name])
    store(FIELDS["rank"], len(dims) - 1)
    store(FIELDS["interleave_layout"], INTERLEAVES.index(interleave))
    store(FIELDS["swizzle_mode"], SWIZZLES.index(swizzle))
    store(FIELDS["fill_mode"], FILLS.index(oob_fill))
    store(FIELDS["global_dim"], *dims)
    store(FIELDS["global_stride"], *strides)
    store(FIELDS["box_dim"], *box)
    store(FIELDS["element_stride"], *element_strides)
    store(_L2_PROMOTION, L2_PROMOTIONS.index(l2_promotion))
    return bytes(raw)


def _choice(what: str, code: int, names: Sequence[str]) -> str:
    if code >= len(names):
        known = ", ".join(f"{i} {name}" for i, name in enumerate(names))
        raise SpecError(f"the tensor map has {what} code {code}; expected {known}", see=_SEE)
    return names[code]


@lru_cache(maxsize=256)
def unpack(raw: bytes) -> DecodedMap:
    """What the image ``raw`` says. Cached, since a kernel uses few maps many times.

    Raises:
        SpecError: not 128 bytes, not an image, or values that ``cuTensorMapEncodeTiled`` would refuse
            (``tensormap.replace`` can store any).
        UnsupportedError: an element type or a swizzle that is not modelled.
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
    if code in _ELEMENTS_NOT_MODELLED:
        raise UnsupportedError(
            f"the tensor map's element type {_ELEMENTS_NOT_MODELLED[code]} is not modelled yet", see=_SEE
        )
    if code not in _ELEMENT_NAMES:
        raise SpecError(f"the tensor map has element type code {code}; expected 0..15", see=_SEE)
    if values["swizzle_atomicity"][0]:
        raise UnsupportedError(
            f"the tensor map's swizzle atomicity code {values['swizzle_atomicity'][0]} is not modelled yet; "
            "supported is 0 (16 bytes)",
            see="tensor-swizzling-modes",
        )
    if values["swizzle_mode"][0] == 4:
        raise UnsupportedError("96-byte swizzle is not modelled yet", see="tensor-swizzling-modes")
    type = scalar_type(_ELEMENT_NAMES[code])
    decoded = DecodedMap(
        address=values["global_address"][0],
        type=type,
        rank=rank,
        dims=values["global_dim"][:rank],
        strides=(type.nbytes, *values["global_stride"][: rank - 1]),
        box=values["box_dim"][:rank],
        element_strides=values["element_stride"][:rank],
        swizzle=_choice("swizzle", values["swizzle_mode"][0], SWIZZLES),
        interleave=_choice("interleave", values["interleave_layout"][0], INTERLEAVES),
        oob_fill=_choice("fill mode", values["fill_mode"][0], FILLS),
    )
    check_tiled(
        type=type,
        address=decoded.address,
        shape=decoded.dims[::-1],
        strides=decoded.strides[::-1],
        box=decoded.box[::-1],
        element_strides=decoded.element_strides[::-1],
        swizzle=decoded.swizzle,
        interleave=decoded.interleave,
        l2_promotion=_choice("l2 promotion", _L2_PROMOTION.read(raw)[0], L2_PROMOTIONS),
        oob_fill=decoded.oob_fill,
    )
    return decoded
