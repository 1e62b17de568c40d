"""The element types, options and limits of tensor maps.

Owns the tables that ``TensorMap``, its 128-byte encoding and the driver call share, and the only check of the
limits.  Sources: CUDA Driver API, ``cuTensorMapEncodeTiled`` (probes on an H200 showed what the driver
accepts) and ``cuTensorMapEncodeIm2col``, and `PTX ISA, #tensor-tensormap`_.

.. _PTX ISA, #tensor-tensormap: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-tensormap
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.types import ScalarType, scalar_type
from .swizzle import COPY_SWIZZLES, check_copy_swizzle

__all__ = [
    "CORNER_BITS",
    "ELEMENTS",
    "FILLS",
    "INTERLEAVES",
    "L2_PROMOTIONS",
    "MAX_SHARED_BYTES",
    "SWIZZLES",
    "MapElement",
    "check_im2col",
    "check_tiled",
    "element_of",
    "element_type",
    "transferred",
]

#: Dynamic shared memory that one CTA can have on sm_90 and sm_100: no box can be larger.
MAX_SHARED_BYTES = 232_448


@dataclass(frozen=True, slots=True)
class MapElement:
    """An element type of tensor maps.

    Attributes:
        name: name of a PTX type, ``f32.ftz``, ``tf32.ftz``, or name of a packed format.
        type: the scalar type (packed formats: u8).
        code: code of the element type in ``tensormap.replace``.
        driver: value of the driver's enum CUtensorMapDataType.
        bits: bits that an element takes in global memory.
        held: bits that an element takes in shared memory, including the padding of each group of 16 elements.
    """

    name: str
    type: ScalarType
    code: int
    driver: int
    bits: int
    held: int

    @property
    def nbytes(self) -> int:
        """Bytes of an element in global memory; 0 for a packed format."""
        return self.bits // 8

    @property
    def width(self) -> str:
        """Size of an element in shared memory as text, such as ``4 bytes`` or ``4 bits``."""
        return f"{self.held} bits" if self.held % 8 else f"{self.held // 8} bytes"

    @property
    def packed(self) -> bool:
        """True if elements are smaller than bytes."""
        return self.bits < 8


def _elements() -> Iterator[MapElement]:
    plain = (
        "u8",
        "u16",
        "u32",
        "s32",
        "u64",
        "s64",
        "f16",
        "f32",
        "f32.ftz",
        "f64",
        "bf16",
        "tf32",
        "tf32.ftz",
    )
    driver = {"f64": 8, "bf16": 9, "f32.ftz": 10}
    for code, name in enumerate(plain):
        type = scalar_type(name.removesuffix(".ftz"))
        yield MapElement(name, type, code, driver.get(name, code), type.bits, type.bits)
    byte = scalar_type("u8")
    for code, (name, bits, held) in enumerate(
        (("b4x16", 4, 4), ("b4x16_p64", 4, 8), ("b6x16_p32", 6, 8)), 13
    ):
        yield MapElement(name, byte, code, code, bits, held)


#: Element types that TMA distinguishes, by name.
ELEMENTS: dict[str, MapElement] = {element.name: element for element in _elements()}

#: Bits of each coordinate of an im2col bounding box's corner, by the tensor's rank.
CORNER_BITS = {3: 16, 4: 8, 5: 5}

_SAME_BITS = {
    "s8": "u8",
    "b8": "u8",
    "e4m3": "u8",
    "e5m2": "u8",
    "ue8m0": "u8",
    "s16": "u16",
    "b16": "u16",
    "b32": "u32",
    "b64": "u64",
}

# Each tuple is in the order of the driver's enum; all but SWIZZLES also in the order of tensormap.replace.
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = tuple(COPY_SWIZZLES)
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zeros", "nan")

_SEE = "tensor-tensormap"
_IM2COL = "tensor-im2col-mode"


def element_of(given: ScalarType | str) -> MapElement:
    """Return the element type with which TMA moves elements of type ``given``.

    For a type that TMA does not distinguish (float8, signed bytes), this is the unsigned integer of the same
    width.  ``given`` can also be a name in :data:`ELEMENTS`.

    Raises:
        SpecError: TMA cannot move elements of this type.
    """
    name = given if isinstance(given, str) else _SAME_BITS.get(given.name, given.name)
    if name not in ELEMENTS:
        raise SpecError(
            f"a tensor map cannot have elements of type {given}; expected one of "
            f"{', '.join((*ELEMENTS, *_SAME_BITS))}",
            see=_SEE,
        )
    return ELEMENTS[name]


def element_type(given: ScalarType) -> ScalarType:
    """Return the scalar type of the elements that TMA moves for ``given``; see :func:`element_of`."""
    return element_of(given).type


def transferred(box: Sequence[int], element_strides: Sequence[int], interleave: str) -> tuple[int, ...]:
    """Return the number of elements that one copy moves along each axis: ``ceil(box / element stride)``.

    All sequences are in numpy order.

    Without interleave TMA ignores the innermost element stride.
    """
    steps = (*element_strides[:-1], 1) if interleave == "none" else element_strides
    return tuple(-(-b // e) for b, e in zip(box, steps, strict=True))


def _one_of(what: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise SpecError(f"{what} = {value!r} is not one of {', '.join(map(repr, allowed))}", see=_SEE)


def check_tiled(
    *,
    element: MapElement,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int],
    swizzle: str,
    interleave: str,
    l2_promotion: str,
    oob_fill: str,
) -> None:
    """Raise SpecError if ``cuTensorMapEncodeTiled`` would refuse these values.

    All sequences are in numpy order.  ``strides`` are in bytes and include the innermost axis.  Like the
    driver, this function accepts a box larger than the tensor, a row stride smaller than the row, a stride
    of 0, and the address 0.

    Raises:
        SpecError: the driver would refuse a value. The message has the value and the values allowed.
        UnsupportedError: the swizzle mode is not modeled.
    """
    rank = len(shape)
    least = 1 if interleave == "none" else 3
    _check_tensor(
        element, address, shape, strides, element_strides, swizzle, interleave, l2_promotion, oob_fill, least
    )
    _same_length("box", box, shape)
    for axis in range(rank):
        if not 1 <= box[axis] <= 256:
            raise SpecError(
                f"box[{axis}] = {box[axis]} is outside 1..256",
                hint="issue several copies for a larger tile",
                see=_SEE,
            )
    _check_inner(f"box[-1] = {box[-1]}", box[-1], element, swizzle, interleave)
    _check_size(f"box {tuple(box)}", transferred(box, element_strides, interleave), element)


def check_im2col(
    *,
    element: MapElement,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    swizzle: str,
    interleave: str,
    l2_promotion: str,
    oob_fill: str,
) -> None:
    """Raise SpecError if ``cuTensorMapEncodeIm2col`` would refuse these values.

    All sequences are in numpy order.  ``box`` is (pixels of a column, channels of a pixel).  The corners have
    one entry for each axis between N and C.

    Raises:
        SpecError: the driver would refuse a value. The message has the value and the values allowed.
        UnsupportedError: the swizzle mode is not modeled.
    """
    _check_tensor(
        element, address, shape, strides, element_strides, swizzle, interleave, l2_promotion, oob_fill, 3
    )
    bits = CORNER_BITS[len(shape)]
    for name, corner in (("lower", lower), ("upper", upper)):
        if len(corner) != len(shape) - 2 or not all(-1 << bits - 1 <= at < 1 << bits - 1 for at in corner):
            raise SpecError(
                f"{name} = {tuple(corner)}; a tensor of rank {len(shape)} needs {len(shape) - 2} numbers "
                f"that fit {bits} signed bits",
                see=_IM2COL,
            )
    if len(box) != 2 or not 1 <= box[0] <= 1024 or not 1 <= box[1] <= 256:
        raise SpecError(
            f"pixels and channels are {tuple(box)}; expected pixels 1..1024 and channels 1..256", see=_IM2COL
        )
    _check_inner(f"channels = {box[-1]}", box[-1], element, swizzle, interleave)
    _check_size(f"pixels and channels {tuple(box)}", box, element)


def _check_tensor(
    element: MapElement,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    element_strides: Sequence[int],
    swizzle: str,
    interleave: str,
    l2_promotion: str,
    oob_fill: str,
    least: int,
) -> None:
    """Check the limits that tiled and im2col maps share. Raises the errors of :func:`check_tiled`."""
    check_copy_swizzle(swizzle)
    _one_of("interleave", interleave, INTERLEAVES)
    _one_of("l2_promotion", l2_promotion, L2_PROMOTIONS)
    _one_of("oob_fill", oob_fill, FILLS)
    rank = len(shape)
    if not least <= rank <= 5:
        raise SpecError(
            f"the tensor has rank {rank} (shape {tuple(shape)}); expected {least}..5 with interleave "
            f"{interleave!r}",
            hint="merge axes that are contiguous with each other",
            see=_SEE,
        )
    _same_length("strides", strides, shape)
    _same_length("element_strides", element_strides, shape)
    alignment = 32 if interleave == "32B" or element.held > element.bits else 16
    if address % alignment or not 0 <= address < 1 << 64:
        raise SpecError(
            f"the tensor's address {address:#x} is not a multiple of {alignment} bytes",
            hint="start the view at an aligned element, or copy it",
            see=_SEE,
        )
    for axis in range(rank):
        _check_axis(axis, rank, element, alignment, shape, strides, element_strides)
    if element.packed:
        _check_packed(element, shape, swizzle, interleave)
    if oob_fill == "nan" and not element.type.is_float:
        raise SpecError(
            f"oob_fill = 'nan' with elements that TMA moves as {element.name}: "
            "only f16, bf16, f32, tf32 and f64 can be filled with NaN",
            see=_SEE,
        )


def _same_length(name: str, values: Sequence[int], shape: Sequence[int]) -> None:
    if len(values) != len(shape):
        raise SpecError(
            f"{name} = {tuple(values)} has {len(values)} entries for a tensor of rank {len(shape)} "
            f"(shape {tuple(shape)})",
            see=_SEE,
        )


def _check_axis(
    axis: int,
    rank: int,
    element: MapElement,
    alignment: int,
    shape: Sequence[int],
    strides: Sequence[int],
    element_strides: Sequence[int],
) -> None:
    if not 1 <= shape[axis] <= 1 << 32:
        raise SpecError(f"shape[{axis}] = {shape[axis]} is outside 1..2**32", see=_SEE)
    if not 1 <= element_strides[axis] <= 8:
        raise SpecError(f"element_strides[{axis}] = {element_strides[axis]} is outside 1..8", see=_SEE)
    stride = strides[axis]
    if axis == rank - 1:
        if stride != element.nbytes:
            raise SpecError(
                f"strides[{axis}] = {stride} bytes: the innermost axis must be contiguous "
                f"({element.nbytes} bytes per element)",
                hint="transpose the tensor so that its contiguous axis is the last, or copy it",
                see=_SEE,
            )
    elif stride % alignment or not 0 <= stride < 1 << 40:
        raise SpecError(
            f"strides[{axis}] = {stride} bytes is not a multiple of {alignment} below 2**40",
            hint=f"pad the rows to a multiple of {alignment} bytes",
            see=_SEE,
        )


def _check_packed(element: MapElement, shape: Sequence[int], swizzle: str, interleave: str) -> None:
    unit = 128 if element.held > element.bits else 2
    if shape[-1] % unit:
        raise SpecError(
            f"shape[-1] = {shape[-1]} elements of {element.name} is not a multiple of {unit}", see=_SEE
        )
    if interleave != "none":
        raise SpecError(
            f"interleave = {interleave!r} with elements of {element.name}; expected 'none'", see=_SEE
        )
    if element.held > element.bits and swizzle not in ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B"):
        raise SpecError(
            f"swizzle = {swizzle!r} with elements of {element.name}; expected 'none', '128B', "
            "'128B_ATOM_32B' or '128B_ATOM_64B'",
            see=_SEE,
        )


def _check_inner(name: str, count: int, element: MapElement, swizzle: str, interleave: str) -> None:
    inner = count * element.held // 8
    said = f"{name} elements of {element.width} is {inner} bytes"
    if element.held > element.bits and count != 128:
        raise SpecError(f"{name} with elements of {element.name}; expected 128 elements", see=_SEE)
    if interleave == "none":
        if inner % 16:
            raise SpecError(
                f"{said}, which is not a multiple of 16",
                hint=f"use a multiple of {128 // element.held} elements",
                see=_SEE,
            )
        span = COPY_SWIZZLES[swizzle]
        if span and inner > span:
            raise SpecError(
                f"{said}; swizzle {swizzle!r} allows at most {span}",
                hint=f"use {span * 8 // element.held} elements and several copies",
                see="tensor-swizzling-modes",
            )
    elif interleave == "32B" and swizzle != "32B":
        raise SpecError(
            f"interleave '32B' needs swizzle '32B', got {swizzle!r}", see="tensor-interleaved-layout"
        )


def _check_size(name: str, moved: Sequence[int], element: MapElement) -> None:
    nbytes = math.prod(moved) * element.held // 8
    if nbytes > MAX_SHARED_BYTES:
        raise SpecError(
            f"{name} of {element.name} is {nbytes} bytes; a CTA has {MAX_SHARED_BYTES} bytes of shared "
            "memory",
            hint="use a smaller box and several copies",
            see=_SEE,
        )
