"""Checks a call's arrays and numbers against the kernel's specs, before the kernel is recorded or launched.

Owns the binding of named dims to the arrays' shapes, the check of each argument, and the allocation of
outputs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import ArrayInfo, describe, is_array
from ..core.errors import AlignmentError, DeviceError, NoMemoryError, SpecError, StrideError
from ..core.records import dataclass
from ..core.types import ScalarType
from ..dsl import Scalar, Tile
from .foreign import allocate_like, owner_of

__all__ = [
    "ALIGNMENT",
    "KernelArguments",
    "allocate",
    "bind_dims",
    "check_array",
    "check_info",
    "check_scalar",
    "dims_of",
    "gradient_error",
    "place_of",
]

#: Alignment in bytes that TMA and 16-byte vector accesses need for an array's first element.
ALIGNMENT = 16

Spec = Tile | Scalar


@dataclass(frozen=True)
class KernelArguments:
    """The checked arguments of one call, in the order of the parameters.

    Attributes:
        values: the arrays and numbers.
        infos: the description of each array; None for a number.
        outputs: the output arrays.
        fresh: True if the outputs were allocated for this call.
    """

    values: tuple[Any, ...]
    infos: tuple[ArrayInfo | None, ...]
    outputs: tuple[Any, ...]
    fresh: bool

    @property
    def written(self) -> tuple[Any, ...]:
        """What the kernel writes: its outputs; the arrays that it got, if it has no outputs."""
        return self.outputs or self.values


def check_scalar(name: str, spec: Scalar, value: Any) -> int | float:
    """Return ``value`` as the number that a parameter of this type holds.

    Raises :class:`SpecError` if ``value`` is not a number or does not fit the type.
    """
    kind = spec.type
    if kind.kind == "f" and kind.lanes == 1:
        if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
            return _finite(name, spec, value)
        raise SpecError(f"{name} is {value!r}: expected a number, for Scalar({kind})")
    if isinstance(value, (float, np.floating)) or not isinstance(value, (int, np.integer, np.bool_)):
        raise SpecError(f"{name} is {value!r}: expected an integer, for Scalar({kind})")
    number = int(value)
    low = 0 if kind.kind == "u" else -(1 << (kind.bits - 1))
    high = (1 << (kind.bits - (kind.kind == "s"))) - 1
    if not low <= number <= high:
        raise SpecError(f"{name} is {number}: Scalar({kind}) holds {low}..{high}")
    return number


def _finite(name: str, spec: Scalar, value: Any) -> float:
    """Return ``value`` as a float. Raises :class:`SpecError` if the type has no number that large."""
    dtype = spec.type.dtype
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if number in (math.inf, -math.inf) or dtype is None:
        fits = not isinstance(value, int)
    else:
        with np.errstate(over="ignore"):
            fits = math.isnan(number) or bool(np.isfinite(np.array(number).astype(dtype).astype(np.float64)))
    if not fits:
        raise SpecError(f"{name} is {value!r}: Scalar({spec.type}) has no number that large")
    return number


def _same_type(given: ScalarType, wanted: ScalarType) -> bool:
    """True if an array of type ``given`` fits a spec of type ``wanted``.

    An untyped spec accepts any type of its width, and tf32 accepts f32, which has the same bytes in memory.
    """
    if wanted.kind == "b":
        return given.nbytes == wanted.nbytes
    return given is wanted or (wanted.name == "tf32" and given.name == "f32")


def gradient_error(name: str, *, differentiable: bool = False) -> SpecError:
    """Return the error for an argument that requires a gradient.

    Args:
        name: of the argument.
        differentiable: whether the kernel has a backward, which calls with ``out=`` do not use.
    """
    if differentiable:
        return SpecError(
            f"{name} requires a gradient, which a call with out= does not have",
            hint="leave out out=, or call within torch.no_grad()",
        )
    return SpecError(
        f"{name} requires a gradient, but autograd cannot see a kernel: the gradient would be lost",
        hint=f"give the kernel a backward with k.differentiable(...), pass {name}.detach(), or call within "
        "torch.no_grad()",
    )


def check_array(name: str, spec: Tile, value: Any) -> ArrayInfo:
    """Check that ``value`` fits ``spec``, except for named dims, and return its description.

    Raises:
        SpecError: ``value`` is not an array; has the wrong dtype, rank or extent; is not contiguous, or not
            aligned to 16 bytes; has no memory; or is a tensor that requires a gradient.
    """
    if not is_array(value):
        raise SpecError(
            f"{name} is of type {type(value).__name__}: expected an array for {spec!r}",
            hint="pass a numpy array or a torch tensor",
        )
    info = describe(value)
    if getattr(value, "requires_grad", False) and sys.modules["torch"].is_grad_enabled():
        raise gradient_error(name)
    return check_info(name, spec, info)


def check_info(name: str, spec: Tile, info: ArrayInfo) -> ArrayInfo:
    """Check an array's description as :func:`check_array` does, and return it.

    Raises:
        SpecError: as :func:`check_array`, except for gradients.
    """
    if not _same_type(info.type, spec.dtype):
        raise SpecError(
            f"{name} has dtype {info.type}, expected {spec.dtype}", hint=f"convert it, for {spec!r}"
        )
    if len(info.shape) != len(spec.dims):
        raise SpecError(
            f"{name} has shape {info.shape} of {len(info.shape)} dimensions, expected {len(spec.dims)}, "
            f"for {spec!r}"
        )
    for axis, (extent, dim) in enumerate(zip(info.shape, spec.dims, strict=True)):
        if isinstance(dim, int) and extent != dim:
            raise SpecError(
                f"{name} has shape {info.shape}: dimension {axis} is {extent}, expected {dim}, for {spec!r}"
            )
    if not info.contiguous:
        raise StrideError(
            f"{name} is not contiguous: shape {info.shape} with strides {info.strides} bytes",
            hint="pass numpy.ascontiguousarray(x), or x.contiguous() in torch",
        )
    if info.nbytes and not info.pointer:
        raise NoMemoryError(
            f"{name} has no memory: its address is 0", hint="its storage was freed or never allocated"
        )
    if info.pointer % ALIGNMENT and info.nbytes:
        raise AlignmentError(
            f"{name} starts at the address {info.pointer:#x}, which is not a multiple of {ALIGNMENT} bytes",
            hint="pass a copy; a slice of an array starts at the address of its own first element",
            see="tensor-tensormap" if spec.layout.is_tma else "addresses-as-operands",
        )
    return info


def dims_of(specs: Sequence[Spec]) -> tuple[str, ...]:
    """Return the names of the dims, in the order of the specs."""
    tiles = [spec for spec in specs if isinstance(spec, Tile)]
    return tuple(dict.fromkeys(dim for tile in tiles for dim in tile.dims if isinstance(dim, str)))


def bind_dims(
    names: Sequence[str],
    specs: Sequence[Spec],
    infos: Sequence[ArrayInfo | None],
    given: Mapping[str, int],
) -> dict[str, int]:
    """Return the values of the named dims, from the keywords and from the arrays' shapes.

    Raises :class:`SpecError` if two of them give different values; the message names both.
    """
    dims = dict(given)
    origin = {dim: "the keyword" for dim in given}
    for name, spec, info in zip(names, specs, infos, strict=True):
        if info is None or not isinstance(spec, Tile):
            continue
        for axis, (dim, extent) in enumerate(zip(spec.dims, info.shape, strict=True)):
            if isinstance(dim, int):
                continue
            known = dims.setdefault(dim, extent)
            here = f"dimension {axis} of {name}"
            if known != extent:
                raise SpecError(
                    f"{dim} is {known} by {origin[dim]} and {extent} by {here} (shape {info.shape})",
                    hint="all dims of one name must have the same extent",
                )
            origin.setdefault(dim, here)
    return dims


def place_of(names: Sequence[str], infos: Sequence[ArrayInfo | None]) -> tuple[str, int]:
    """Return the device that holds all arrays: ("cpu", 0) or ("cuda", index).

    Raises :class:`SpecError` if the arrays are on different devices.
    """
    places = {
        (info.device, info.device_index): name
        for name, info in zip(names, infos, strict=True)
        if info is not None
    }
    if len(places) > 1:
        where = ", ".join(f"{name} on {device}:{index}" for (device, index), name in places.items())
        raise DeviceError(
            f"the arrays are on different devices: {where}",
            hint="move all arrays to one GPU to run there, or to host memory to simulate",
        )
    return next(iter(places), ("cpu", 0))


def allocate(name: str, spec: Tile, dims: Mapping[str, int], like: Any) -> Any:
    """Allocate the output ``name``, of the same library and on the same device as ``like`` (numpy if None).

    Raises :class:`SpecError` if the library has no such dtype, or does not allocate arrays for others.
    """
    shape = spec.shape(dict(dims))
    if owner_of(like) is not like:
        return allocate_like(name, like, shape, spec.dtype)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        dtype = getattr(torch, spec.dtype.torch_name or _SIGNED[spec.dtype.nbytes], None)
        if dtype is None:
            raise SpecError(f"torch has no dtype for {spec.dtype}", hint="pass an output array as out=")
        return torch.empty(shape, dtype=dtype, device=like.device)
    # numpy does not guarantee an alignment of 16 bytes; it depends on malloc.
    dtype = np.dtype(spec.dtype.dtype)
    raw = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


#: The torch dtype for untyped elements, by their bytes.
_SIGNED = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
