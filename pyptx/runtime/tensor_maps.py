"""Encodes tensor maps for the GPU with ``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col``.

Owns the translation of a :class:`~pyptx.layout.TensorMap` into the driver's opaque ``CUtensorMap``.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..core.errors import SpecError
from ..layout import TensorMap
from .driver import describe_status, device_context, driver

__all__ = ["encode", "image"]


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


def image(tensor_map: TensorMap, pointer: int, device_index: int = 0) -> bytes | None:
    """Return the 128 bytes of the driver's map, if the address is their first 8 bytes and nowhere else.

    Two maps that the driver encodes for different addresses show it.  None if it does not hold: then each
    launch must encode its maps.

    Raises:
        SpecError, LaunchError: as :func:`encode`.
    """
    first, second = (
        ctypes.string_at(encode(tensor_map, address, device_index).getPtr(), _BYTES)
        for address in (pointer, pointer ^ _APART)
    )
    held = [int.from_bytes(raw[:8], "little") for raw in (first, second)]
    return first if held == [pointer, pointer ^ _APART] and first[8:] == second[8:] else None
