"""The tensor map: a tensor in global memory, and the box that one TMA instruction moves.

Owns :class:`TensorMap`, the one value that the simulator reads and the runtime hands to
``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col``.  Authors write shapes and boxes in numpy order
(innermost last); instructions take coordinates innermost first, so a ``(BM, BK)`` box is loaded at
``{k, m}``.  See `PTX ISA, #tensor-tensormap`_.

.. _PTX ISA, #tensor-tensormap: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-tensormap
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import ArrayInfo, describe, dtype_of
from ..core.errors import SpecError
from ..core.types import ScalarType
from .tensor_map_image import DecodedMap, pack, unpack
from .tensor_map_rules import (
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    SWIZZLES,
    MapElement,
    check_im2col,
    check_tiled,
    element_of,
    transferred,
)

__all__ = ["DriverArguments", "TensorMap"]


class DriverArguments(NamedTuple):
    """Arguments of ``cuTensorMapEncodeTiled`` in its order: sequences innermost first, enums as integers.

    ``strides`` leaves the innermost out, so it has ``rank - 1`` entries.  ``cuTensorMapEncodeIm2col`` takes
    the corners in place of ``box``, then channels and pixels, which are ``box`` here.
    """

    data_type: int
    rank: int
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int
    swizzle: int
    l2_promotion: int
    oob_fill: int


def _integers(name: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(v) for v in values)
    except TypeError:
        raise SpecError(f"{name} = {values!r} is not a sequence of integers") from None


def _c_strides(shape: tuple[int, ...], bits: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) * bits // 8 for axis in range(len(shape)))


def _usable_strides(info: ArrayInfo, alignment: int) -> tuple[int, ...]:
    """The array's strides; along axes of one element, where any stride is right, one that TMA accepts."""
    return tuple(
        info.itemsize
        if n == 1 and axis == len(info.shape) - 1
        else -(-stride // alignment) * alignment
        if n == 1
        else stride
        for axis, (n, stride) in enumerate(zip(info.shape, info.strides, strict=True))
    )


def _tensor(
    array: Any,
    dtype: Any,
    shape: Sequence[int] | None,
    strides: Sequence[int] | None,
    element_strides: Sequence[int] | None,
    interleave: str,
    element: str,
) -> dict[str, Any]:
    """Return the fields of a map that describe the tensor and do not depend on the mode."""
    if element and dtype is None:
        dtype = element_of(element).type
    if isinstance(array, (int, np.integer)):
        if dtype is None or shape is None:
            raise SpecError(
                f"a tensor map at the address {array:#x} needs dtype and shape, got dtype {dtype!r} and "
                f"shape {shape!r}"
            )
        info = None
        address, type, extents = int(array), dtype_of(dtype), _integers("shape", shape)
    else:
        info = describe(array)
        address, type, extents = info.pointer, info.type, info.shape
        if dtype is not None:
            type = dtype_of(dtype)
        if shape is not None:
            extents = _integers("shape", shape)
    kind = element_of(element or type)
    if info is not None and shape is None and kind.nbytes != info.itemsize:
        raise SpecError(
            f"dtype {kind.name} has {kind.width}, the array's {info.type} has {info.itemsize}",
            hint="give the shape in elements of the new type as well",
        )
    if strides is not None:
        steps = _integers("strides", strides)
    elif info is not None and shape is None:
        steps = _usable_strides(info, 32 if interleave == "32B" else 16)
    elif info is not None and not info.contiguous:
        raise SpecError(
            f"shape {extents} over an array that is not contiguous (shape {info.shape}, strides "
            f"{info.strides} bytes) needs strides as well"
        )
    else:
        steps = _c_strides(extents, kind.bits)
    return {
        "type": type,
        "address": address,
        "shape": extents,
        "strides": steps,
        "element_strides": (1,) * len(extents)
        if element_strides is None
        else _integers("element_strides", element_strides),
        "array": None if info is None else info.obj,
        "element": element,
    }


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map: see :meth:`tiled` and :meth:`im2col`. All sequences are in numpy order, innermost last.

    Attributes:
        type: element type as given (float8 and signed bytes move as unsigned integers).
        address: address of the tensor's first element.
        shape: extents of the tensor in elements.
        strides: bytes between neighbors along each axis; the last is the element size (packed formats: 0).
        box: elements traversed along each axis by one copy; of an im2col map pixels and channels.
        element_strides: step along each axis within the box.
        swizzle: ``"none"``, ``"32B"``, ``"64B"``, ``"128B"``, or 128 bytes in larger atoms:
            ``"128B_ATOM_32B"``, ``"128B_ATOM_32B_FLIP_8B"``, ``"128B_ATOM_64B"``.
        interleave: ``"none"``, ``"16B"`` or ``"32B"``.
        l2_promotion: ``"none"``, ``"64B"``, ``"128B"`` or ``"256B"``.
        oob_fill: what a load writes for elements outside the tensor: ``"zeros"`` or ``"nan"``.
        array: the array whose memory this is, or None if an address was given.
        element: name of the element type, where ``type`` does not say it: ``f32.ftz``, ``b4x16_p64`` ...
        lower, upper: corners of an im2col map's bounding box, W last; empty for boxes.
    """

    type: ScalarType
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str = "none"
    interleave: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zeros"
    array: Any = field(default=None, repr=False, compare=False)
    element: str = ""
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        said: dict[str, Any] = {
            "element": self.kind,
            "address": self.address,
            "shape": self.shape,
            "strides": self.strides,
            "box": self.box,
            "element_strides": self.element_strides,
            "swizzle": self.swizzle,
            "interleave": self.interleave,
            "l2_promotion": self.l2_promotion,
            "oob_fill": self.oob_fill,
        }
        if self.lower or self.upper:
            check_im2col(**said, lower=self.lower, upper=self.upper)
        else:
            check_tiled(**said)

    @property
    def kind(self) -> MapElement:
        """The element type in full."""
        return element_of(self.element or self.type)

    @staticmethod
    def tiled(
        array: Any,
        *,
        box: Sequence[int],
        swizzle: str = "none",
        dtype: Any = None,
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        element_strides: Sequence[int] | None = None,
        interleave: str = "none",
        l2_promotion: str = "none",
        oob_fill: str = "zeros",
        element: str = "",
    ) -> TensorMap:
        """A map of ``array`` that moves ``box`` elements per instruction.

        Args:
            array: a numpy array, a torch tensor, or an integer address (then ``dtype`` and ``shape`` too).
            box: elements of each axis, 1..256; the innermost a multiple of 16 bytes and, with a swizzle,
                at most its span.
            swizzle: permutation of 16-byte chunks in shared memory.
            dtype: element type, if not the array's: a PTX type, its name, or a numpy or torch dtype of the
                same size (of any size, if ``shape`` is given too).
            shape: extents, if not the array's.
            strides: bytes per step along each axis; default: the array's, or C order if ``shape`` is given.
            element_strides: take every n-th element, 1..8 per axis (the innermost is ignored unless
                interleaved).
            interleave: layout of the tensor in global memory.
            l2_promotion: granularity of L2 fetches.
            oob_fill: ``"zeros"``, or ``"nan"`` for float types.
            element: an element type that no dtype names: ``"f32.ftz"``, ``"tf32.ftz"``, or packed
                ``"b4x16"``, ``"b4x16_p64"``, ``"b6x16_p32"`` (then ``shape`` too, in elements).

        Raises:
            SpecError: what ``cuTensorMapEncodeTiled`` would refuse, or an ``array`` that is neither array
                nor address.
            UnsupportedError: a swizzle mode that is not modeled.
        """
        tensor = _tensor(array, dtype, shape, strides, element_strides, interleave, element)
        return TensorMap(
            **tensor,
            box=_integers("box", box),
            swizzle=swizzle,
            interleave=interleave,
            l2_promotion=l2_promotion,
            oob_fill=oob_fill,
        )

    @staticmethod
    def im2col(
        array: Any,
        *,
        pixels: int,
        channels: int,
        lower: Sequence[int],
        upper: Sequence[int],
        swizzle: str = "none",
        dtype: Any = None,
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        element_strides: Sequence[int] | None = None,
        interleave: str = "none",
        l2_promotion: str = "none",
        oob_fill: str = "zeros",
        element: str = "",
    ) -> TensorMap:
        """A map of ``array`` (N, D, H, W, C, or without D or D and H) for copies that follow a filter.

        Args:
            pixels: pixels that one copy takes, one after the other through W, H, D and N.
            channels: channels of each.
            lower: for each axis between N and C, the first coordinate of the bounding box (-1: one before
                the tensor).
            upper: likewise the last one, counted from the tensor's last element (0: that one itself).

        The other arguments are those of :meth:`tiled`.

        Raises:
            SpecError: what ``cuTensorMapEncodeIm2col`` would refuse, or as :meth:`tiled`.
            UnsupportedError: a swizzle mode that is not modeled.
        """
        tensor = _tensor(array, dtype, shape, strides, element_strides, interleave, element)
        return TensorMap(
            **tensor,
            box=_integers("pixels and channels", (pixels, channels)),
            lower=_integers("lower", lower),
            upper=_integers("upper", upper),
            swizzle=swizzle,
            interleave=interleave,
            l2_promotion=l2_promotion,
            oob_fill=oob_fill,
        )

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Shape that one copy leaves in shared memory: the box, thinned by the element strides."""
        if self.lower:
            return self.box
        return transferred(self.box, self.element_strides, self.interleave)

    @property
    def box_bytes(self) -> int:
        """Bytes of shared memory that one load fills, also where the box is out of bounds."""
        return math.prod(self.box_shape) * self.kind.held // 8

    @property
    def transaction_bytes(self) -> int:
        """Bytes that one load counts on its mbarrier: fewer where elements of 4 or 6 bits are padded."""
        return math.prod(self.box_shape) * self.kind.bits // 8

    @property
    def extent(self) -> int:
        """Bytes from ``address`` to the end of the tensor's last element."""
        gaps = sum((n - 1) * stride for n, stride in zip(self.shape[:-1], self.strides[:-1], strict=True))
        return gaps + self.shape[-1] * self.kind.bits // 8

    def driver_arguments(self) -> DriverArguments:
        """Return the arguments of ``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col``."""
        return DriverArguments(
            data_type=self.kind.driver,
            rank=self.rank,
            address=self.address,
            dims=self.shape[::-1],
            strides=self.strides[-2::-1],
            box=self.box[::-1],
            element_strides=self.element_strides[::-1],
            interleave=INTERLEAVES.index(self.interleave),
            swizzle=SWIZZLES.index(self.swizzle),
            l2_promotion=L2_PROMOTIONS.index(self.l2_promotion),
            oob_fill=FILLS.index(self.oob_fill),
        )

    def encode(self, address: int) -> bytes:
        """The 128 bytes that the simulator puts in memory, for the tensor at ``address``.

        They are laid out as a driver's (:mod:`pyptx.layout.tensor_map_image`).

        Raises:
            SpecError: ``address`` is not a multiple of 16 (32 with 32-byte interleave).
        """
        alignment = 32 if self.interleave == "32B" else 16
        if address % alignment or not 0 <= address < 1 << 64:
            raise SpecError(f"the tensor's address {address:#x} is not a multiple of {alignment} bytes")
        return pack(
            address=address,
            element=self.kind,
            dims=self.shape[::-1],
            strides=self.strides[-2::-1],
            box=self.box[::-1],
            element_strides=self.element_strides[::-1],
            swizzle=self.swizzle,
            interleave=self.interleave,
            l2_promotion=self.l2_promotion,
            oob_fill=self.oob_fill,
            lower=self.lower[::-1],
            upper=self.upper[::-1],
        )

    @staticmethod
    def decode(raw: bytes | bytearray | memoryview) -> DecodedMap:
        """Decode the 128 bytes of :meth:`encode`, which ``tensormap.replace`` may have changed.

        Raises:
            SpecError: the bytes are no tensor map, or have values that no tensor map may have.
        """
        return unpack(bytes(raw))
