"""Kernels in JAX programs: a custom call of XLA, by its foreign function interface.

Owns :func:`call_jax`, and the handler that XLA calls when a compiled program reaches the kernel.  The handler
is a Python function that ctypes makes a C function: it reads XLA's call frame, whose layout is that of
``xla/ffi/api/c_api.h`` (major version 0), and runs the kernel on XLA's stream, or in the simulator on a CPU.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import ArrayInfo, contiguous_strides, dtype_of, host_view
from ..core.errors import SpecError, UnsupportedError
from ..core.records import dataclass
from ..core.types import ScalarType
from ..dsl import Tile
from ..runtime.driver import call, driver
from .arguments import bind_dims, check_info, check_scalar
from .constants import exact_items
from .content import content_digest

if TYPE_CHECKING:
    from .decorator import Kernel

__all__ = ["call_jax"]

_TARGET = "pyptx"
#: What compiled programs call, by the name that they keep.
_calls: dict[str, _Call] = {}
_names: dict[Any, str] = {}


@dataclass(frozen=True, eq=False)
class _Call:
    """What one custom call runs.

    Attributes:
        kernel: the kernel.
        scalars: the numbers among the inputs, by their place.
        keywords: dims and constants.
        types: the types of the arrays: inputs, then outputs.
    """

    kernel: Kernel
    scalars: Mapping[int, Any]
    keywords: Mapping[str, Any]
    types: tuple[ScalarType, ...]

    def run(self, arrays: Sequence[Any], stream: int | None) -> None:
        """Run the kernel with arrays that describe XLA's buffers: inputs, then outputs."""
        options = self.kernel.options
        rest = iter(arrays)
        inputs = [self.scalars[n] if n in self.scalars else next(rest) for n in range(options.inputs)]
        self.kernel.run(inputs, tuple(rest), stream, self.keywords)


def call_jax(kernel: Kernel, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Put a call of the kernel into the program that JAX traces, or run it; see :meth:`.Kernel.jax`."""
    import jax

    if not hasattr(jax, "ffi"):
        raise UnsupportedError(f"jax {jax.__version__} has no jax.ffi", hint="use jax 0.5 or later")
    _register()
    options = kernel.options
    kernel.check_counts(len(arrays), None)
    scalars: dict[int, Any] = {}
    given: list[Any] = []
    infos: list[ArrayInfo | None] = []
    for place, (name, spec, value) in enumerate(zip(options.names, options.specs, arrays, strict=False)):
        if isinstance(spec, Tile):
            array = jax.numpy.asarray(value)
            given.append(array)
            infos.append(check_info(name, spec, _info(array.shape, dtype_of(array.dtype), 0, None)))
            continue
        if isinstance(value, jax.core.Tracer):
            raise SpecError(
                f"{name} is traced by JAX: expected a number that is known when the program is compiled",
                hint="name it in static_argnames, or pass the number in an array of one element",
            )
        scalars[place] = check_scalar(name, spec, value)
        infos.append(None)
    dims, constants = kernel.split(keywords)
    known = bind_dims(options.names[: len(infos)], options.specs[: len(infos)], infos, dims)
    outputs = [spec for spec in options.specs[options.inputs :] if isinstance(spec, Tile)]
    if not outputs:
        raise UnsupportedError(
            f"{options.entry} has no outputs, and JAX's arrays cannot be written",
            hint="declare what the kernel writes as out_specs",
        )
    results = []
    for spec in outputs:
        missing = [dim for dim in spec.dims if isinstance(dim, str) and dim not in known]
        if missing:
            raise SpecError(
                f"{options.entry}: the dims {', '.join(missing)} of an output have no value",
                hint=f"pass them: {', '.join(f'{dim}=...' for dim in missing)}",
            )
        results.append(jax.ShapeDtypeStruct(spec.shape(known), spec.dtype.dtype))
    types = (*(info.type for info in infos if info is not None), *(spec.dtype for spec in outputs))
    name = _name(_Call(kernel, scalars, {**dims, **constants}, types))
    target = jax.ffi.ffi_call(_TARGET, results, vmap_method="sequential")
    made = target(*given, call=name)
    return made[0] if len(made) == 1 else tuple(made)


def _name(made: _Call) -> str:
    """Return the name of a call, the same in every process: compiled programs keep it."""
    keywords = exact_items(sorted(made.keywords.items()))
    key = (made.kernel, exact_items(made.scalars.items()), keywords, made.types)
    try:
        found = _names.get(key)
    except TypeError:
        raise SpecError(
            f"{made.kernel.options.entry}: constants must be hashable, got {dict(made.keywords)!r}",
            hint="pass tuples instead of lists, numbers instead of arrays",
        ) from None
    if found is None:
        kernel = made.kernel
        digest = content_digest(
            kernel.function, kernel.options, dict(made.scalars), dict(made.keywords), made.types
        )
        found = first = f"{kernel.options.entry}_{digest}"
        for number in itertools.count(2):
            if found not in _calls:
                break
            found = f"{first}_{number}"  # another kernel object of the same content
        _names[key] = found
        _calls[found] = made
    return found


def _info(shape: Sequence[int], kind: ScalarType, pointer: int, device: int | None) -> ArrayInfo:
    """Describe a buffer of XLA, which lies in C order; ``device`` is None for host memory."""
    itemsize = kind.nbytes or 1
    return ArrayInfo(
        type=kind,
        shape=tuple(shape),
        strides=contiguous_strides(shape, itemsize),
        pointer=pointer,
        device="cpu" if device is None else "cuda",
        device_index=device or 0,
        nbytes=0 if not pointer else itemsize * int(np.prod(shape, dtype=np.int64)),
        contiguous=True,
        obj=None,
    )


# --- the layout of XLA's C interface, version 0.x: xla/ffi/api/c_api.h --------------------------------

_Pointer = ctypes.c_void_p


class _Head(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension", _Pointer)]


class _Version(ctypes.Structure):
    _fields_ = [*_Head._fields_, ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class _Api(ctypes.Structure):
    _fields_ = [
        *_Head._fields_,
        ("version", _Version),
        ("internal", _Pointer),
        ("error_create", _Pointer),
        ("error_get_message", _Pointer),
        ("error_destroy", _Pointer),
        ("handler_register", _Pointer),
        ("stream_get", _Pointer),
    ]


class _List(ctypes.Structure):
    """Arguments, results, and (with names before the values) attributes."""

    _fields_ = [
        *_Head._fields_,
        ("size", ctypes.c_int64),
        ("types", _Pointer),
        ("values", ctypes.POINTER(_Pointer)),
    ]


class _Attributes(ctypes.Structure):
    _fields_ = [
        *_List._fields_[:-1],
        ("names", ctypes.POINTER(_Pointer)),
        ("values", ctypes.POINTER(_Pointer)),
    ]


class _Frame(ctypes.Structure):
    _fields_ = [
        *_Head._fields_,
        ("api", ctypes.POINTER(_Api)),
        ("context", _Pointer),
        ("stage", ctypes.c_int),
        ("arguments", _List),
        ("results", _List),
        ("attributes", _Attributes),
    ]


class _Buffer(ctypes.Structure):
    _fields_ = [
        *_Head._fields_,
        ("dtype", ctypes.c_int),
        ("data", _Pointer),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


class _Bytes(ctypes.Structure):
    _fields_ = [("start", _Pointer), ("size", ctypes.c_size_t)]


class _Extension(ctypes.Structure):
    """The extension by which XLA asks for the version of the interface that a handler was made for."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("next", _Pointer),
        ("metadata", _Pointer),
    ]


class _Metadata(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("version", _Version), ("traits", ctypes.c_uint32)]


class _ErrorArguments(ctypes.Structure):
    _fields_ = [*_Head._fields_, ("message", ctypes.c_char_p), ("code", ctypes.c_int)]


class _StreamArguments(ctypes.Structure):
    _fields_ = [*_Head._fields_, ("context", _Pointer), ("stream", _Pointer)]


_Handler = ctypes.CFUNCTYPE(_Pointer, _Pointer)
_METADATA, _EXECUTE, _INTERNAL = 1, 3, 13


def _ask(function: int, structure: Any) -> int | None:
    """Call a function of XLA's interface with its structure; return the error that it returns."""
    structure.struct_size = ctypes.sizeof(structure)
    error: int | None = _Handler(function)(ctypes.addressof(structure))
    return error


def _stream_of(frame: _Frame) -> int:
    asked = _StreamArguments(context=frame.context)
    if _ask(frame.api.contents.stream_get, asked):
        raise RuntimeError("XLA has no stream for this call")
    return asked.stream or 0


def _execute(frame: _Frame, on_gpu: bool) -> None:
    name = ctypes.cast(frame.attributes.values[0], ctypes.POINTER(_Bytes)).contents
    wanted = ctypes.string_at(name.start, name.size).decode()
    found = _calls.get(wanted)
    if found is None:
        raise RuntimeError(
            f"this process has no kernel call {wanted}: the program was compiled in another process, and the "
            "call was not traced in this one"
        )
    buffers = [
        ctypes.cast(part.values[n], ctypes.POINTER(_Buffer)).contents
        for part in (frame.arguments, frame.results)
        for n in range(part.size)
    ]
    device: int | None = None
    if on_gpu:
        ordinal = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        device = int(call("cuPointerGetAttribute", ordinal, buffers[-1].data))
    arrays: list[Any] = []
    for buffer, kind in zip(buffers, found.types, strict=True):
        shape = buffer.shape[: buffer.rank]
        if on_gpu:
            arrays.append(_info(shape, kind, buffer.data or 0, device))
        else:
            strides = contiguous_strides(shape, kind.nbytes or 1)
            arrays.append(host_view(buffer.data or 0, kind.dtype, shape, strides, None))
    found.run(arrays, _stream_of(frame) if on_gpu else None)


def _answer(address: int, on_gpu: bool) -> int | None:
    """The handler: return None, or an error of XLA."""
    frame = _Frame.from_address(address)
    try:
        if frame.extension:
            extension = _Extension.from_address(frame.extension)
            if extension.kind == _METADATA:
                metadata = _Metadata.from_address(extension.metadata)
                metadata.version = frame.api.contents.version
                metadata.traits = 0
                return None
        if frame.stage == _EXECUTE:
            _execute(frame, on_gpu)
    except BaseException as error:  # none may pass through XLA
        message = f"{type(error).__name__}: {error}".encode()
        made = _ErrorArguments(message=message, code=_INTERNAL)
        return _ask(frame.api.contents.error_create, made)
    return None


@functools.cache
def _register() -> tuple[Callable[..., Any], ...]:
    """Register the handlers with XLA; they live as long as the process."""
    import jax

    handlers = []
    for platform in ("cpu", "CUDA"):
        handler = _Handler(functools.partial(_answer, on_gpu=platform == "CUDA"))
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(handler), platform=platform)
        handlers.append(handler)
    return tuple(handlers)
