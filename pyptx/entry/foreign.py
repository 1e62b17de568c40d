"""Arrays of other libraries than numpy and torch, by DLPack or the CUDA array interface, without a copy.

Owns :func:`lend`, which makes of such an array what the checks, the simulator and the launch take, and
:func:`allocate_like`, which allocates outputs in the array's library.

Stream semantics are those of the protocols: ``__dlpack__(stream=...)`` gets the stream of the launch, and the
library makes that stream wait for its own work. The array is kept alive until the launch is enqueued.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays import ArrayInfo, contiguous_strides, host_view, is_array, is_contiguous
from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.types import TYPES, ScalarType, b64, b128, from_dtype
from ..runtime.driver import call, device_context, driver
from ..runtime.launch import stream_handle

__all__ = ["allocate_like", "is_foreign", "lend", "owner_of"]

# https://dmlc.github.io/dlpack/latest/c_api.html
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_READ_ONLY = 1
#: The newest version whose layout is known.
_VERSION = (1, 3)
#: Names of element types, by DLPack's code and bits.
_TYPES = {
    **{(0, bits): f"s{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"u{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"f{bits}" for bits in (16, 32, 64)},
    (4, 16): "bf16",
    (6, 8): "pred",
    (10, 8): "e4m3",
    (12, 8): "e5m2",
    (14, 8): "ue8m0",
}
_COMPLEX = {64: b64, 128: b128}
#: Streams by their numbers in both protocols, which have no 0.
_LEGACY = 1


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


@dataclass(frozen=True, slots=True)
class _Loan:
    """Keeps an array's memory alive.

    Attributes:
        owner: the array.
        capsule: what the array's library gave out; its end tells the library that the loan is over.
        stream: the stream of the launch, as the call gave it.
        read_only: whether the library forbids writing.
    """

    owner: Any
    capsule: Any
    stream: Any
    read_only: bool


class _View(np.ndarray[Any, Any]):
    """A numpy view of another library's array in host memory."""

    loan: _Loan


def is_foreign(value: object) -> bool:
    """True for an array of another library that shares its memory by one of the two protocols."""
    if is_array(value) or isinstance(value, type):
        return False
    return hasattr(value, "__dlpack_device__") or hasattr(value, "__cuda_array_interface__")


def owner_of(array: Any) -> Any:
    """Return the array of which :func:`lend` made this one; the array itself if it was not lent."""
    loan = _loan_of(array)
    return array if loan is None else loan.owner


def _loan_of(array: Any) -> _Loan | None:
    if isinstance(array, _View):
        return getattr(array, "loan", None)  # a slice of the view has none
    if isinstance(array, ArrayInfo) and isinstance(array.obj, _Loan):
        return array.obj
    return None


def lend(name: str, array: Any, stream: Any, *, written: bool = False) -> Any:
    """Return a numpy view of an array in host memory, or the description of one on a GPU.

    Args:
        name: of the parameter, for messages.
        array: an object with ``__dlpack__`` and ``__dlpack_device__``, or with ``__cuda_array_interface__``.
        stream: the launch's stream, as the call gave it.
        written: whether the kernel writes the array.

    Raises:
        SpecError: the library does not give the array out, or a kernel cannot use its device or type.
    """
    read = _by_dlpack if hasattr(array, "__dlpack__") else _by_interface
    lent = read(name, array, stream)
    loan = _loan_of(lent)
    if written and loan is not None and loan.read_only:
        raise SpecError(
            f"{name} is an array of {_library(array)} that must not be written",
            hint="pass an array that may be written as out=",
        )
    return lent


def _library(array: Any) -> str:
    return str(type(array).__module__).partition(".")[0]


def _by_dlpack(name: str, array: Any, stream: Any) -> Any:
    device_type, device_id = (int(each) for each in array.__dlpack_device__())
    if device_type not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise SpecError(
            f"{name} is on a device of DLPack's type {device_type}: expected host memory or a CUDA GPU",
            hint="move it there with its own library",
        )
    on_gpu = device_type in (_CUDA, _CUDA_MANAGED)
    # The protocol has no stream 0; 1 is the legacy default stream.
    options = {"stream": (stream_handle(stream, device_id) or _LEGACY) if on_gpu else None}
    try:
        try:
            capsule = array.__dlpack__(**options, max_version=_VERSION)
        except TypeError:  # a library from before DLPack 1.0
            capsule = array.__dlpack__(**options)
    except Exception as error:
        raise SpecError(f"{name}: {_library(array)} does not give the array out: {error}") from error
    tensor, read_only = _read(capsule)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    kind = _type_of(name, tensor)
    itemsize = kind.nbytes or 1
    strides = (
        tuple(tensor.strides[axis] * itemsize for axis in range(tensor.ndim))
        if tensor.strides
        else contiguous_strides(shape, itemsize)
    )
    pointer = (tensor.data or 0) + tensor.byte_offset
    loan = _Loan(array, capsule, stream, read_only)
    return _lent(loan, kind, shape, strides, pointer, device_id if on_gpu else None)


def _read(capsule: Any) -> tuple[_Tensor, bool]:
    """Return the tensor in a capsule, and whether it must not be written."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    named = ctypes.pythonapi.PyCapsule_IsValid
    named.restype, named.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    if named(capsule, b"dltensor_versioned"):
        held = _Versioned.from_address(get(capsule, b"dltensor_versioned"))
        return held.tensor, bool(held.flags & _READ_ONLY)
    return _Tensor.from_address(get(capsule, b"dltensor")), False


def _type_of(name: str, tensor: _Tensor) -> ScalarType:
    if tensor.lanes == 1:
        if tensor.code == 5 and tensor.bits in _COMPLEX:
            return _COMPLEX[tensor.bits]
        if (tensor.code, tensor.bits) in _TYPES:
            return TYPES[_TYPES[tensor.code, tensor.bits]]
    raise SpecError(
        f"{name} has elements of DLPack's type {tensor.code} with {tensor.bits} bits in {tensor.lanes} "
        "lanes, which no kernel parameter has",
        hint="pass the bytes: view the array as uint8",
    )


def _by_interface(name: str, array: Any, stream: Any) -> Any:
    """Read ``__cuda_array_interface__``, whose array is on a GPU."""
    interface = array.__cuda_array_interface__
    pointer, read_only = interface["data"]
    kind = from_dtype(interface["typestr"])
    if kind is None:
        raise SpecError(
            f"{name} has elements of type {interface['typestr']!r}, which no kernel parameter has",
            hint="pass the bytes: view the array as uint8",
        )
    ordinal = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    device = int(call("cuPointerGetAttribute", ordinal, pointer)) if pointer else 0
    shape = tuple(interface["shape"])
    strides = interface.get("strides") or contiguous_strides(shape, kind.nbytes)
    theirs, ours = interface.get("stream"), stream_handle(stream, device) or _LEGACY
    if theirs is not None and theirs != ours:
        _wait(ours, theirs, device)
    loan = _Loan(array, interface, stream, bool(read_only))
    return _lent(loan, kind, shape, tuple(strides), int(pointer or 0), device)


def _wait(waiting: int, written: int, device_index: int) -> None:
    """Let one stream wait for what another has been given so far; this protocol leaves it to the reader."""
    with device_context(device_index):
        event = call("cuEventCreate", driver().CUevent_flags.CU_EVENT_DISABLE_TIMING)
        call("cuEventRecord", event, written)
        call("cuStreamWaitEvent", waiting, event, 0)
        call("cuEventDestroy", event)


def _lent(
    loan: _Loan,
    kind: ScalarType,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    pointer: int,
    device: int | None,
) -> Any:
    """Return the view or the description of lent memory; ``device`` is None for host memory."""
    if device is None:
        dtype = {b64: "complex64", b128: "complex128"}.get(kind, kind.dtype)
        view = host_view(pointer, dtype, shape, strides, loan).view(_View)
        view.loan = loan
        view.flags.writeable = not loan.read_only
        return view
    itemsize = kind.nbytes or 1
    return ArrayInfo(
        type=kind,
        shape=shape,
        strides=strides,
        pointer=pointer,
        device="cuda",
        device_index=device,
        nbytes=math.prod(shape) * itemsize,
        contiguous=is_contiguous(shape, strides, itemsize),
        obj=loan,
    )


def allocate_like(name: str, like: Any, shape: Sequence[int], kind: ScalarType) -> Any:
    """Allocate an output in the library of a lent array, on its device, and lend it.

    Raises:
        SpecError: the library does not say how (the array API's ``__array_namespace__``), forbids writing to
            its arrays, or has no such dtype.
    """
    loan = _loan_of(like)
    assert loan is not None
    library = _library(loan.owner)
    namespace: Callable[[], Any] | None = getattr(loan.owner, "__array_namespace__", None)
    if namespace is None or library in ("jax", "jaxlib"):
        why = "does not allow writing to its arrays" if namespace else "has no __array_namespace__"
        raise SpecError(
            f"{name} cannot be allocated: {library}, the library of the inputs, {why}",
            hint="use pyptx.jax" if namespace else "allocate it with its library, and pass it as out=",
        )
    module = namespace()
    dtype = getattr(module, _ARRAY_API.get(kind.name, ""), None)
    if dtype is None:
        raise SpecError(f"{library} has no dtype for {kind}", hint=f"pass an array as out= for {name}")
    device = getattr(loan.owner, "device", None)
    options = {} if device is None else {"device": device}
    return lend(name, module.empty(tuple(shape), dtype=dtype, **options), loan.stream, written=True)


#: dtypes of the array API.
_ARRAY_API = {
    "pred": "bool",
    **{
        f"{letter}{bits}": f"{word}{bits}"
        for letter, word in (("u", "uint"), ("s", "int"))
        for bits in (8, 16, 32, 64)
    },
    **{f"b{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "tf32": "float32",
}
