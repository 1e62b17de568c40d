"""CPU tensors that say, through DLPack, that they are on a GPU.

CuTe DSL compiles other code for tensors of the host than for those of a GPU, and host code that it compiles for
TVM FFI refuses them. Owns :func:`tensors_for_cuda`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from tests.libraries.cute.device import HostMemory

__all__ = ["tensors_for_cuda"]

_CUDA = 2
#: Offset of ``DLTensor.device.device_type`` in a ``DLManagedTensor``.
_DEVICE_TYPE = 8


class _OnCuda:
    """A tensor with only the functions of DLPack."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return self._tensor.detach().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, 0


def tensors_for_cuda(memory: HostMemory) -> None:
    """Let DLPack say that tensors of torch are on a GPU, also for compiled functions and TVM FFI.

    ``memory`` keeps each of them.
    """
    import tvm_ffi
    from cutlass.cutlass_dsl import tvm_ffi_provider

    to_dlpack = torch.Tensor.__dlpack__
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

    def marked(tensor: torch.Tensor, **_: Any) -> Any:
        memory.keep(tensor, move=False)
        capsule = to_dlpack(tensor)
        ctypes.c_int.from_address(pointer(capsule, b"dltensor") + _DEVICE_TYPE).value = _CUDA
        return capsule

    torch.Tensor.__dlpack__ = marked
    torch.Tensor.__dlpack_device__ = lambda tensor: (_CUDA, 0)
    convert = tvm_ffi.from_dlpack

    def on_cuda(value: Any, **named: Any) -> Any:
        return convert(_OnCuda(value) if isinstance(value, torch.Tensor) else value, **named)

    def argument(value: Any) -> Any:
        return on_cuda(value) if isinstance(value, torch.Tensor) else value

    def converting(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda function, *args, **named: call(
            function, *tree_map(argument, args), **tree_map(argument, named)
        )

    tvm_ffi.from_dlpack = on_cuda
    for compiled in (
        tvm_ffi_provider.TVMFFIJitCompiledFunction,
        tvm_ffi_provider.TVMFFIJitCompiledFunctionWithKwargs,
    ):
        compiled.__call__ = converting(compiled.__call__)
