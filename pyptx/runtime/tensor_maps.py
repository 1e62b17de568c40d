"""Encodes tensor maps for the GPU with ``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col``.

Owns the translation of a :class:`~pyptx.layout.TensorMap` into the driver's opaque ``CUtensorMap``, and its
change for other addresses and extents.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.errors import SpecError
from ..layout import TensorMap
from .driver import describe_status, device_context, driver

__all__ = ["MapTemplate", "encode", "template"]


def encode(tensor_map: TensorMap, pointer: int, device_index: int = 0) -> Any:
    """Return the ``CUtensorMap`` of ``tensor_map`` for the tensor at the device address ``pointer``.

    A kernel gets it by value, as a parameter of 128 bytes (:func:`pyptx.runtime.launch.pack`).  The driver
    needs a current context to encode, here the primary one of ``device_index``; the result does not depend on
    the context.

    Raises:
        SpecError: the driver refuses; the message lists every argument.
        LaunchError: there is no driver.
    """
    module = driver()
    arguments = tensor_map.driver_arguments()._replace(address=pointer)
    # For rank 1 the driver reads no strides; whether it accepts a null pointer for them is unknown.
    strides = arguments.strides or (16,)
    box: tuple[Any, ...] = ([module.cuuint32_t(v) for v in arguments.box],)
    name = "cuTensorMapEncodeTiled"
    if tensor_map.lower:
        name = "cuTensorMapEncodeIm2col"
        channels, pixels = arguments.box
        box = (list(tensor_map.lower[::-1]), list(tensor_map.upper[::-1]), channels, pixels)
    with device_context(device_index):
        status, encoded = getattr(module, name)(
            module.CUtensorMapDataType(arguments.data_type),
            arguments.rank,
            arguments.address,
            [module.cuuint64_t(v) for v in arguments.dims],
            [module.cuuint64_t(v) for v in strides],
            *box,
            [module.cuuint32_t(v) for v in arguments.element_strides],
            module.CUtensorMapInterleave(arguments.interleave),
            module.CUtensorMapSwizzle(arguments.swizzle),
            module.CUtensorMapL2promotion(arguments.l2_promotion),
            module.CUtensorMapFloatOOBfill(arguments.oob_fill),
        )
    if int(status) != 0:
        given = ", ".join(f"{key} {value}" for key, value in arguments._asdict().items())
        raise SpecError(
            f"{name} refused the tensor map: {describe_status(status)}\n"
            f"  given (innermost axis first): {given}",
            hint="the driver does not say which argument is wrong; tensor maps need compute capability 9.0",
            see="tensor-tensormap",
        )
    return encoded


_BYTES = 128
#: Distance of two addresses that are encoded to see where an address lies in a map.
_APART = 1 << 30
#: Bytes of a map where its strides begin and its dims end (:mod:`pyptx.layout.tensor_map_image`), and the
#: functions that pack both, by the rank: strides / 16 of all axes but the innermost one, then dims - 1.
_STRIDES, _DIMS_END = 12, 52
_FIELDS = {n: struct.Struct(f"<{n - 1}I{4 * (6 - n)}x{n}I{4 * (5 - n)}x").pack for n in range(1, 6)}
_MOST_EXTENT = 1 << 32
#: Strides of this size have bits in further bytes.
_MOST_STRIDE = 1 << 36


class MapTemplate:
    """A tensor map of a contiguous tensor, which other addresses and extents change.

    The template was compared with two maps that the driver encoded, for other addresses and other extents.

    Args:
        image: the 128 bytes of the driver's map for some extents.
        nbytes: size of an element in bytes.
    """

    __slots__ = ("_head", "_nbytes", "_tail", "image")

    def __init__(self, image: bytes, nbytes: int) -> None:
        self.image = image
        self._nbytes = nbytes
        self._head, self._tail = image[:_STRIDES], image[_DIMS_END:]

    def __call__(self, shape: Sequence[int]) -> bytes | None:
        """Return the 128 bytes for a shape; None if TMA refuses the map, or encodes it in another way."""
        strides: list[int] = []
        dims: list[int] = []
        stride = self._nbytes
        for extent in shape[:0:-1]:
            stride *= extent
            # The stride of an axis with one element may be another.
            if not 1 < extent <= _MOST_EXTENT or stride & 15 or stride >= _MOST_STRIDE:
                return None
            dims.append(extent - 1)
            strides.append(stride >> 4)
        outermost = shape[0]
        if not 1 < outermost <= _MOST_EXTENT:
            return None
        return self._head + _FIELDS[len(shape)](*strides, *dims, outermost - 1) + self._tail

    def of_dims(self, tile: Sequence[int | str]) -> Callable[[Mapping[str, int]], bytes | None]:
        """Return a function of the values of dims that returns the 128 bytes; None as a call of the template.

        Args:
            tile: the extents: numbers, or names of dims.
        """
        outermost, *inner = tile
        if any(isinstance(dim, str) for dim in inner) or isinstance(outermost, int):
            return lambda dims: self([dim if isinstance(dim, int) else dims[dim] for dim in tile])
        # Only the outermost extent changes, which no stride depends on: one word of the map.
        image = self([2, *(dim for dim in inner if isinstance(dim, int))])
        if image is None:
            return lambda dims: None
        end = _DIMS_END - 4 * (5 - len(tile))
        before, after = image[: end - 4], image[end:]

        def resized(dims: Mapping[str, int]) -> bytes | None:
            extent = dims[outermost]
            if not 1 < extent <= _MOST_EXTENT:
                return None
            return before + (extent - 1).to_bytes(4, "little") + after

        return resized


def _image(encoded: Any) -> bytes:
    """Return the bytes of a ``CUtensorMap``, which its object owns."""
    return ctypes.string_at(encoded.getPtr(), _BYTES)


def template(tensor_map: TensorMap, pointer: int, device_index: int = 0) -> MapTemplate | None:
    """Return the driver's map of a contiguous tensor for other addresses and extents.

    The driver encodes a second map, for another address and other extents; it must have the bytes that the
    template has for them.  None if it does not: then each launch must encode its maps.

    Raises:
        SpecError, LaunchError: as :func:`encode`.
    """
    first = _image(encode(tensor_map, pointer, device_index))
    made = MapTemplate(first, tensor_map.type.nbytes)
    extents = [16 * (axis + 3) for axis in range(tensor_map.rank)]
    nbytes = tensor_map.type.nbytes
    strides = [nbytes * math.prod(extents[axis + 1 :]) for axis in range(tensor_map.rank)]
    other = replace(
        tensor_map, address=pointer ^ _APART, shape=tuple(extents), strides=tuple(strides), array=None
    )
    second = _image(encode(other, pointer ^ _APART, device_index))
    held = [int.from_bytes(raw[:8], "little") for raw in (first, second)]
    guessed = made(extents)
    known = guessed is not None and held == [pointer, pointer ^ _APART] and guessed[8:] == second[8:]
    return made if known else None
