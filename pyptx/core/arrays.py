"""Descriptions of users' arrays (numpy arrays and torch tensors), and views of their bytes.

Owns :class:`ArrayInfo` (type, shape, strides, device, pointer) and the zero-copy views of host memory
that the simulator reads and writes.  This module never imports torch: an object can only be a tensor if
the user's program has imported torch already, so a look into ``sys.modules`` suffices.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .errors import SpecError
from .records import dataclass
from .types import TYPES, ScalarType, b64, b128, from_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "ArrayInfo",
    "contiguous_strides",
    "describe",
    "dtype_of",
    "host_bytes",
    "host_view",
    "is_array",
    "is_contiguous",
    "is_tensor",
    "refuse_composed",
    "tensor_type",
    "to_numpy",
]

#: Complex dtypes by name. PTX has no complex type, so an element is untyped bits: (real, imaginary).
_COMPLEX_TYPES = {"complex64": b64, "complex128": b128, "torch.complex64": b64, "torch.complex128": b128}
_TORCH_TYPES = {f"torch.{t.torch_name}": t for t in TYPES.values() if t.torch_name is not None}


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """The description of an array that a kernel launch needs.

    Attributes:
        type: PTX type of one element.
        shape: extents, outermost first (numpy order).
        strides: bytes between neighbors along each axis, same order as ``shape``.
        pointer: address of element ``[0, ..., 0]`` in the memory of ``device``.
        device: ``"cpu"`` or ``"cuda"``.
        device_index: ordinal of the GPU; 0 for ``"cpu"``.
        nbytes: bytes of all elements together, without the gaps between them.
        contiguous: whether the elements lie in C order without gaps.
        obj: the array itself; this reference keeps its memory alive.
    """

    type: ScalarType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int
    device: Literal["cpu", "cuda"]
    device_index: int
    nbytes: int
    contiguous: bool
    obj: Any = field(repr=False, compare=False)

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory (1 for ``pred``, although a register holds it in one bit)."""
        # numpy has no dtype for b128, the type of a complex128 element.
        return self.type.nbytes if self.type.dtype is None else self.type.dtype.itemsize

    @property
    def extent(self) -> int:
        """Bytes from ``pointer`` to the end of the last element, including gaps; 0 for an empty array."""
        if 0 in self.shape:
            return 0
        return sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.itemsize


def _torch() -> Any:
    return sys.modules.get("torch")


def is_array(obj: object) -> bool:
    """True if ``obj`` is a numpy array, a torch tensor or an :class:`ArrayInfo`; false for a numpy scalar.

    :func:`describe` may still refuse the array, for example for its dtype.
    """
    return isinstance(obj, (np.ndarray, ArrayInfo)) or is_tensor(obj)


def is_tensor(obj: object) -> bool:
    """True for a torch tensor."""
    torch = _torch()
    return torch is not None and isinstance(obj, torch.Tensor)


def dtype_of(dtype: Any) -> ScalarType:
    """Return the PTX type for ``dtype``: a ScalarType, a PTX name, or a numpy or torch dtype.

    Raises:
        SpecError: no PTX type corresponds to ``dtype``.
    """
    if isinstance(dtype, ScalarType):
        return dtype
    if isinstance(dtype, str) and dtype.lstrip(".") in TYPES:
        return TYPES[dtype.lstrip(".")]
    found = _TORCH_TYPES.get(str(dtype))
    if found is None and dtype is not None:
        try:
            found = from_dtype(dtype)
        except TypeError:  # numpy has no such dtype either
            found = None
    if found is None:
        known = ", ".join(sorted({str(t.dtype) for t in TYPES.values() if t.dtype is not None}))
        raise SpecError(
            f"no PTX type corresponds to the dtype {dtype!r}",
            hint=f"pass a PTX type such as 'bf16', or one of these dtypes (native byte order): {known}",
        )
    return found


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of an array in C order without gaps."""
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return tuple(strides)


def is_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """True if elements with these strides in bytes lie in C order without gaps."""
    if 0 in shape:
        return True
    expected = itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True


def describe(obj: Any) -> ArrayInfo:
    """Return the type, shape, strides, device and address of ``obj``, without a copy or an import.

    Args:
        obj: a numpy array (ml_dtypes included) or a strided torch tensor on the CPU or a CUDA device; or a
            description, which is returned. A complex number is an untyped element of 8 or 16 bytes: ``b64``,
            ``b128``.

    Raises:
        SpecError: ``obj`` is something else, or a kernel cannot use its dtype, device or layout.
    """
    if isinstance(obj, np.ndarray):
        kind = _COMPLEX_TYPES.get(str(obj.dtype)) or dtype_of(obj.dtype)
        shape, strides = obj.shape, obj.strides
        return ArrayInfo(
            type=kind,
            shape=shape,
            strides=strides,
            pointer=obj.__array_interface__["data"][0],
            device="cpu",
            device_index=0,
            nbytes=obj.nbytes,
            contiguous=is_contiguous(shape, strides, obj.itemsize),
            obj=obj,
        )
    if isinstance(obj, ArrayInfo):
        return obj
    torch = _torch()
    if torch is not None and isinstance(obj, torch.Tensor):
        return _describe_tensor(obj, torch)
    raise SpecError(
        f"expected a numpy array or a torch tensor, got {type(obj).__module__}.{type(obj).__qualname__}",
        hint="convert it with numpy.asarray(...) or torch.as_tensor(...)",
    )


def refuse_composed(tensor: Any) -> None:
    """Raise :class:`SpecError` for tensors that are made of other tensors, or whose numbers have scales."""
    distributed = sys.modules.get("torch.distributed.tensor")
    if distributed is not None and isinstance(tensor, distributed.DTensor):
        raise SpecError(
            "expected a plain tensor, got a DTensor, whose parts lie on several devices",
            hint="pass tensor.to_local(), or call the kernel in "
            "torch.distributed.tensor.experimental.local_map",
        )
    if tensor.is_nested:
        raise SpecError(
            "expected a plain tensor, got a nested tensor",
            hint="pass tensor.values() and tensor.offsets(), or torch.nested.to_padded_tensor(...)",
        )
    if tensor.is_quantized:
        raise SpecError(
            f"expected a plain tensor, got a quantized one of {tensor.dtype}",
            hint="pass tensor.int_repr(), and scale and zero point as scalars",
        )


def tensor_type(tensor: Any) -> ScalarType:
    """Return the PTX type of a tensor's elements.

    Raises:
        SpecError: PTX has no such type.
    """
    try:
        return _COMPLEX_TYPES.get(str(tensor.dtype)) or dtype_of(tensor.dtype)
    except SpecError as error:
        raise SpecError(
            error.message,
            hint=f"pass the bytes, tensor.view(torch.uint{8 * tensor.element_size()}), for such a spec",
        ) from None


def _describe_tensor(tensor: Any, torch: Any) -> ArrayInfo:
    refuse_composed(tensor)
    kind = tensor_type(tensor)
    device = tensor.device
    if device.type not in ("cpu", "cuda"):
        raise SpecError(
            f"expected a tensor on the CPU or a CUDA device, got one on {device}",
            hint="move it with tensor.to('cuda') or tensor.cpu()",
        )
    if tensor.layout is not torch.strided:
        raise SpecError(
            f"expected a strided tensor, got layout {tensor.layout}", hint="use tensor.to_dense()"
        )
    if tensor.is_neg():
        # The tensor's memory holds the values with the opposite sign.
        raise SpecError("expected a plain tensor, got a lazily negated view", hint="use tensor.resolve_neg()")
    if tensor.is_conj():
        raise SpecError(
            "expected a plain tensor, got a lazily conjugated view", hint="use tensor.resolve_conj()"
        )
    shape = tuple(tensor.shape)
    itemsize = tensor.element_size()
    strides = tuple(s * itemsize for s in tensor.stride())
    return ArrayInfo(
        type=kind,
        shape=shape,
        strides=strides,
        pointer=tensor.data_ptr(),
        device=device.type,
        device_index=device.index or 0,
        nbytes=math.prod(shape) * itemsize,
        contiguous=is_contiguous(shape, strides, itemsize),
        obj=tensor,
    )


class _HostMemory:
    """A range of host memory that numpy can view as an array; this object keeps the memory's owner alive."""

    def __init__(self, pointer: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (pointer, False),
        }


def host_view(
    pointer: int, dtype: Any, shape: Sequence[int], strides: Sequence[int], owner: Any
) -> npt.NDArray[Any]:
    """Return a numpy array of memory that ``owner`` owns and that the array keeps alive.

    Args:
        pointer: address of element ``[0, ..., 0]``.
        dtype: numpy dtype of an element.
        shape: extents, outermost first.
        strides: bytes between neighbors along each axis, at least 0.
        owner: the object that the memory belongs to.

    Raises:
        SpecError: a stride is negative.
    """
    if any(stride < 0 for stride in strides):
        raise SpecError(
            f"expected strides of at least 0, got {tuple(strides)} bytes for shape {tuple(shape)}"
        )
    if 0 in shape:
        return np.empty(shape, dtype)
    size = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + np.dtype(dtype).itemsize
    memory = np.asarray(_HostMemory(pointer, size, owner))
    return np.ndarray(tuple(shape), dtype, buffer=memory.data, strides=tuple(strides))


def host_bytes(array: Any) -> npt.NDArray[np.uint8]:
    """Return a writable view, ``uint8[extent]``, of the memory that a host array spans.

    The view starts at element ``[0, ..., 0]`` and ends with the last element; for a non-contiguous array it
    includes the gaps.  It is not a copy, and it keeps the array alive.

    Args:
        array: a numpy array, a CPU tensor, or the :class:`ArrayInfo` of one.

    Raises:
        SpecError: the array is on a GPU or read-only, or a stride is negative.
    """
    info = array if isinstance(array, ArrayInfo) else describe(array)
    if info.device != "cpu":
        raise SpecError(
            f"expected an array in host memory, got a tensor on {info.device}:{info.device_index}",
            hint="copy it with tensor.cpu()",
        )
    if any(stride < 0 for stride in info.strides):
        raise SpecError(
            f"expected strides of at least 0, got {info.strides} bytes for shape {info.shape}",
            hint="copy the array with numpy.ascontiguousarray(...)",
        )
    if isinstance(info.obj, np.ndarray) and not info.obj.flags.writeable:
        raise SpecError(
            f"expected a writable array, got a read-only one of shape {info.shape}",
            hint="pass array.copy()",
        )
    if info.extent == 0:
        return np.empty(0, np.uint8)
    return np.asarray(_HostMemory(info.pointer, info.extent, info.obj))


def to_numpy(array: Any) -> npt.NDArray[Any]:
    """Return a numpy array that shares the memory of ``array`` (bfloat16 and float8 through ml_dtypes).

    Args:
        array: a numpy array (returned unchanged) or a CPU tensor.

    Raises:
        SpecError: the array is on a GPU.
    """
    if isinstance(array, np.ndarray):
        return array
    info = describe(array)
    memory = host_bytes(info)
    name = str(array.dtype).removeprefix("torch.")
    dtype = np.dtype(name) if name in _COMPLEX_TYPES else info.type.dtype
    return np.ndarray(info.shape, dtype, buffer=memory.data, strides=info.strides)
