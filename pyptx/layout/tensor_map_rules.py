"""What a tiled tensor map may say: element types, option names, limits.

Owns the tables that the value, its 128-byte image and the driver call share, and the one check of
all limits.  Sources: CUDA Driver API, ``cuTensorMapEncodeTiled`` (probed on an H200 for what it accepts), and
`PTX ISA, #tensor-tensormap`_.

.. _PTX ISA, #tensor-tensormap: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-tensormap
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.errors import SpecError
from ..core.types import ScalarType, scalar_type
from .swizzle import SWIZZLE_BYTES, check_swizzle

__all__ = [
    "DRIVER_TYPES",
    "FILLS",
    "INTERLEAVES",
    "L2_PROMOTIONS",
    "MAX_SHARED_BYTES",
    "SWIZZLES",
    "check_tiled",
    "element_type",
    "transferred",
]

#: Dynamic shared memory that one CTA can have on sm_90 and sm_100: no box can be larger.
MAX_SHARED_BYTES = 232_448

#: Element types that TMA distinguishes, with the driver's CUtensorMapDataType.
DRIVER_TYPES: dict[str, int] = {
    "u8": 0,
    "u16": 1,
    "u32": 2,
    "s32": 3,
    "u64": 4,
    "s64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 8,
    "bf16": 9,
    "tf32": 11,
}

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

# Each tuple is in the order of the driver's enum, which is also tensormap.replace's.
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = tuple(SWIZZLE_BYTES)
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zeros", "nan")

_SEE = "tensor-tensormap"


def element_type(given: ScalarType) -> ScalarType:
    """What TMA calls elements of this type: itself, or the unsigned integer of the same width.

    Raises:
        SpecError: TMA has no elements of this width.
    """
    name = _SAME_BITS.get(given.name, given.name)
    if name not in DRIVER_TYPES:
        raise SpecError(
            f"a tensor map cannot have elements of type {given}; expected one of "
            f"{', '.join((*DRIVER_TYPES, *_SAME_BITS))}",
            see=_SEE,
        )
    return scalar_type(name)


def transferred(box: Sequence[int], element_strides: Sequence[int], interleave: str) -> tuple[int, ...]:
    """Elements that one copy moves along each axis: ``ceil(box / element stride)``. Numpy order.

    Without interleave TMA ignores the innermost element stride.
    """
    steps = (*element_strides[:-1], 1) if interleave == "none" else element_strides
    return tuple(-(-b // e) for b, e in zip(box, steps, strict=True))


def _one_of(what: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise SpecError(f"{what} = {value!r} is not one of {', '.join(map(repr, allowed))}", see=_SEE)


def check_tiled(
    *,
    type: ScalarType,
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
    """Raise SpecError for what ``cuTensorMapEncodeTiled`` refuses. All sequences in numpy order.

    ``strides`` are bytes, the innermost included.  Like the driver, this does not object to a box larger
    than the tensor, a row stride smaller than the row, a stride of 0, or the address 0.

    Raises:
        SpecError: with the value given and the values allowed.
        UnsupportedError: a swizzle mode that is not modelled.
    """
    check_swizzle(swizzle)
    _one_of("interleave", interleave, INTERLEAVES)
    _one_of("l2_promotion", l2_promotion, L2_PROMOTIONS)
    _one_of("oob_fill", oob_fill, FILLS)
    tma_type = element_type(type)
    itemsize = tma_type.nbytes
    rank = len(shape)
    least = 1 if interleave == "none" else 3
    if not least <= rank <= 5:
        raise SpecError(
            f"the tensor has rank {rank} (shape {tuple(shape)}); expected {least}..5 with interleave "
            f"{interleave!r}",
            hint="merge axes that are contiguous with each other",
            see=_SEE,
        )
    for name, values in (("strides", strides), ("box", box), ("element_strides", element_strides)):
        if len(values) != rank:
            raise SpecError(
                f"{name} = {tuple(values)} has {len(values)} entries for a tensor of rank {rank} "
                f"(shape {tuple(shape)})",
                see=_SEE,
            )
    alignment = 32 if interleave == "32B" else 16
    if address % alignment or not 0 <= address < 1 << 64:
        raise SpecError(
            f"the tensor's address {address:#x} is not a multiple of {alignment} bytes",
            hint="start the view at an aligned element, or copy it",
            see=_SEE,
        )
    for axis in range(rank):
        _check_axis(axis, rank, itemsize, alignment, shape, strides, box, element_strides)
    _check_box(tma_type, box, element_strides, swizzle, interleave)
    if oob_fill == "nan" and not tma_type.is_float:
        raise SpecError(
            f"oob_fill = 'nan' with elements of type {type}, which TMA moves as {tma_type}: "
            "only f16, bf16, f32, tf32 and f64 can be filled with NaN",
            see=_SEE,
        )


def _check_axis(
    axis: int,
    rank: int,
    itemsize: int,
    alignment: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int],
) -> None:
    if not 1 <= shape[axis] <= 1 << 32:
        raise SpecError(f"shape[{axis}] = {shape[axis]} is outside 1..2**32", see=_SEE)
    if not 1 <= box[axis] <= 256:
        raise SpecError(
            f"box[{axis}] = {box[axis]} is outside 1..256",
            hint="issue several copies for a larger tile",
            see=_SEE,
        )
    if not 1 <= element_strides[axis] <= 8:
        raise SpecError(f"element_strides[{axis}] = {element_strides[axis]} is outside 1..8", see=_SEE)
    stride = strides[axis]
    if axis == rank - 1:
        if stride != itemsize:
            raise SpecError(
                f"strides[{axis}] = {stride} bytes: the innermost axis must be contiguous "
                f"({itemsize} bytes per element)",
                hint="transpose the tensor so that its contiguous axis is the last, or copy it",
                see=_SEE,
            )
    elif stride % alignment or not 0 <= stride < 1 << 40:
        raise SpecError(
            f"strides[{axis}] = {stride} bytes is not a multiple of {alignment} below 2**40",
            hint=f"pad the rows to a multiple of {alignment} bytes",
            see=_SEE,
        )


def _check_box(
    tma_type: ScalarType,
    box: Sequence[int],
    element_strides: Sequence[int],
    swizzle: str,
    interleave: str,
) -> None:
    inner = box[-1] * tma_type.nbytes
    said = f"box[-1] = {box[-1]} elements of {tma_type.nbytes} bytes is {inner} bytes"
    if interleave == "none":
        if inner % 16:
            raise SpecError(
                f"{said}, not a multiple of 16",
                hint=f"use a multiple of {16 // tma_type.nbytes} elements",
                see=_SEE,
            )
        span = SWIZZLE_BYTES[swizzle]
        if span and inner > span:
            raise SpecError(
                f"{said}; swizzle {swizzle!r} allows at most {span}",
                hint=f"use box[-1] = {span // tma_type.nbytes} and several copies",
                see="tensor-swizzling-modes",
            )
    elif interleave == "32B" and swizzle != "32B":
        raise SpecError(
            f"interleave '32B' needs swizzle '32B', got {swizzle!r}", see="tensor-interleaved-layout"
        )
    nbytes = math.prod(transferred(box, element_strides, interleave)) * tma_type.nbytes
    if nbytes > MAX_SHARED_BYTES:
        raise SpecError(
            f"box {tuple(box)} of {tma_type} is {nbytes} bytes; the shared memory of a CTA is "
            f"{MAX_SHARED_BYTES}",
            hint="use a smaller box and several copies",
            see=_SEE,
        )
