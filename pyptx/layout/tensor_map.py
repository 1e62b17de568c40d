"""The tensor map: a description of a tensor in global memory and of the box that one TMA instruction moves.

Owns :class:`TensorMap`.  The simulator reads this value, and the runtime passes it to
``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col``.  Users write shapes and boxes in numpy order
(innermost axis last).  Instructions take coordinates with the innermost axis first: they load a
``(BM, BK)`` box at ``{k, m}``.  See `PTX ISA, #tensor-tensormap`_.

.. _PTX ISA, #tensor-tensormap: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-tensormap
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import ArrayInfo, describe, dtype_of
from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.tuples import NamedTuple
from ..core.types import ScalarType
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

if TYPE_CHECKING:
    from .tensor_map_image import DecodedMap

__all__ = ["DriverArguments", "TensorMap"]


class DriverArguments(NamedTuple):
    """The arguments of ``cuTensorMapEncodeTiled`` in its order. Enums are integers.

    Sequences begin with the innermost axis.  ``strides`` omits the innermost axis, so it has ``rank - 1``
    entries.  For ``cuTensorMapEncodeIm2col``, ``box`` holds channels and pixels; the driver takes the two
    corners in place of ``box``, and then channels and pixels as separate arguments.
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
        raise SpecError(f"{name} = {values!r} is not a sequence of integers; give a tuple of ints") from None


def _c_strides(shape: tuple[int, ...], bits: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) * bits // 8 for axis in range(len(shape)))


def _usable_strides(info: ArrayInfo, alignment: int) -> tuple[int, ...]:
    """Return the array's strides in bytes, replaced along axes of extent 1 by strides that TMA accepts.

    Any stride describes an axis of extent 1, but TMA accepts only multiples of ``alignment``.
    """
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
            f"an element of dtype {kind.name} has {kind.width}, but an element of the array ({info.type}) "
            f"has {info.itemsize} bytes",
            hint="also give shape=, in elements of the new type",
        )
    if strides is not None:
        steps = _integers("strides", strides)
    elif info is not None and shape is None:
        steps = _usable_strides(info, 32 if interleave == "32B" else 16)
    elif info is not None and not info.contiguous:
        raise SpecError(
            f"shape = {extents} is given without strides for an array that is not contiguous (its shape is "
            f"{info.shape}, its strides are {info.strides} bytes); also give strides=, in bytes"
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
    """A tensor map. :meth:`tiled` and :meth:`im2col` create one.

    All sequences are in numpy order: the innermost axis is last.

    Attributes:
        type: element type as the user gave it (TMA moves float8 and signed bytes as unsigned integers).
        address: address of the tensor's first element.
        shape: extents of the tensor in elements.
        strides: bytes between neighbors along each axis; the last is the element size (packed formats: 0).
        box: elements that one copy traverses along each axis; for an im2col map, pixels and channels.
        element_strides: step along each axis within the box.
        swizzle: ``"none"``, ``"32B"``, ``"64B"``, ``"128B"``, or 128 bytes in larger atoms:
            ``"128B_ATOM_32B"``, ``"128B_ATOM_32B_FLIP_8B"``, ``"128B_ATOM_64B"``.
        interleave: ``"none"``, ``"16B"`` or ``"32B"``.
        l2_promotion: ``"none"``, ``"64B"``, ``"128B"`` or ``"256B"``.
        oob_fill: what a load writes for elements outside the tensor: ``"zeros"`` or ``"nan"``.
        array: the array that the map describes, or None if the user gave an address.
        element: name of the element type if ``type`` does not determine it: ``f32.ftz``, ``b4x16_p64`` ...
        lower, upper: corners of an im2col map's bounding box, W last; empty for a tiled map.
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

    def __getstate__(self) -> dict[str, Any]:
        # A copy of the array has another address; the map's own is kept relative to the array.
        state = dict(vars(self))
        if self.array is not None:
            state["address"] -= describe(self.array).pointer
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.array is not None:
            vars(self)["address"] += describe(self.array).pointer

    @property
    def kind(self) -> MapElement:
        """The element type with its code, its driver enum and its widths."""
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
        """Return a map of ``array`` with which one instruction moves a box of ``box`` elements.

        Args:
            array: a numpy array, a torch tensor, or an integer address. An address also needs ``dtype`` and
                ``shape``.
            box: number of elements along each axis, 1..256. The innermost extent is a multiple of 16 bytes
                and, with a swizzle, at most the swizzle's span.
            swizzle: permutation of 16-byte chunks in shared memory.
            dtype: element type, if it differs from the array's: a PTX type, its name, or a numpy or torch
                dtype. It has the size of the array's type, unless ``shape`` is given too.
            shape: extents, if they differ from the array's.
            strides: bytes per step along each axis. The default is the array's strides, or C order if
                ``shape`` is given.
            element_strides: a copy takes every n-th element along an axis; 1..8 for each axis. TMA ignores
                the innermost one unless the tensor is interleaved.
            interleave: layout of the tensor in global memory.
            l2_promotion: granularity of L2 fetches.
            oob_fill: ``"zeros"``, or ``"nan"`` for float types.
            element: an element type that no dtype names: ``"f32.ftz"``, ``"tf32.ftz"``, or a packed format:
                ``"b4x16"``, ``"b4x16_p64"``, ``"b6x16_p32"``. A packed format also needs ``shape``, in
                elements.

        Raises:
            SpecError: ``cuTensorMapEncodeTiled`` would refuse the arguments, or ``array`` is neither an
                array nor an address.
            UnsupportedError: the swizzle mode is not modeled.
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
        """Return a map of ``array`` for copies in im2col mode, which follow the filter of a convolution.

        The axes of ``array`` are N, D, H, W, C; or N, H, W, C; or N, W, C.

        Args:
            pixels: number of pixels that one copy moves, in the order W, H, D, N.
            channels: number of channels of each pixel.
            lower: for each axis between N and C, the first coordinate of the bounding box (-1: one element
                before the tensor).
            upper: for each axis between N and C, the last coordinate of the bounding box, relative to the
                tensor's last element (0: that element).

        The other arguments are those of :meth:`tiled`.

        Raises:
            SpecError: ``cuTensorMapEncodeIm2col`` would refuse the arguments, or ``array`` is neither an
                array nor an address.
            UnsupportedError: the swizzle mode is not modeled.
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
        """Shape of the data that one copy writes to shared memory: the box divided by the element strides."""
        if self.lower:
            return self.box
        return transferred(self.box, self.element_strides, self.interleave)

    @property
    def box_bytes(self) -> int:
        """Bytes of shared memory that one load fills, including elements outside the tensor."""
        return math.prod(self.box_shape) * self.kind.held // 8

    @property
    def transaction_bytes(self) -> int:
        """Bytes that one load counts on its mbarrier: less than ``box_bytes`` for a padded packed format."""
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
        """Return the 128 bytes that the simulator stores in memory for this map.

        ``address`` is the address of the tensor.  The encoding is the driver's
        (:mod:`pyptx.layout.tensor_map_image`).

        Raises:
            SpecError: ``address`` is not a multiple of 16 (32 with 32-byte interleave).
        """
        alignment = 32 if self.interleave == "32B" else 16
        if address % alignment or not 0 <= address < 1 << 64:
            raise SpecError(f"the tensor's address {address:#x} is not a multiple of {alignment} bytes")
        from .tensor_map_image import pack

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
        """Decode the 128 bytes that :meth:`encode` returned and ``tensormap.replace`` may have changed.

        Raises:
            SpecError: the bytes are not a tensor map, or hold a value that the driver would refuse.
        """
        from .tensor_map_image import unpack

        return unpack(bytes(raw))
