"""CPU tensors as the memory of a device: what host code in Python asks of torch's and of NVIDIA's bindings.

Owns :class:`HostMemory`, under which torch makes tensors for ``cuda`` on the CPU, and :func:`pretend`, which
answers questions about the device. Both change torch and the bindings for the rest of the process.
"""

from __future__ import annotations

import contextlib
import gc
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.libraries.cute.runtime import Range

__all__ = ["HostMemory", "attribute", "pretend"]

#: Alignment of a GPU's allocations.
_ALIGNMENT = 256
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_COPIES = (torch.Tensor.cuda, torch.Tensor.cpu)
#: Multiprocessors that host code is told of: persistent kernels start this many CTAs at most.
MULTIPROCESSORS = 8
_SHARED_BYTES = 232_448
#: Numbers of ``cudaDeviceAttr``, which are those of ``CUdevice_attribute``, and their values. 75 and 76 are the
#: compute capability, which :func:`pretend` sets.
_ATTRIBUTES = {
    1: 1024,
    8: 49_152,
    10: 32,
    12: 65_536,
    16: MULTIPROCESSORS,
    38: 50 << 20,
    39: 2048,
    75: 0,
    76: 0,
    81: 233_472,
    82: 65_536,
    97: _SHARED_BYTES,
    106: 32,
}


def attribute(number: int) -> int:
    """Return an attribute of the device; 0 for those that no host code has asked for so far."""
    return _ATTRIBUTES.get(int(number), 0)


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _on_cpu(value: Any) -> Any:
    return torch.device("cpu") if _is_cuda(value) else value


class HostMemory(TorchFunctionMode):
    """Makes tensors for ``cuda`` on the CPU, and keeps the memory of all tensors of this process."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[int, torch.UntypedStorage] = {}
        #: Memory that has moved, by its old address: the old and the new.
        self._moved: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def ranges(self) -> Iterator[Range]:
        """Yield address and size of the memory of every tensor."""
        # Functions of torch that are written in Python make tensors of which this mode does not learn. They stay
        # where they are, since a launch has their addresses already.
        for value in gc.get_objects():
            if type(value) in _PLAIN:
                self.keep(value)
        for storage in self._kept.values():
            yield storage.data_ptr(), storage.nbytes()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        named.pop("pin_memory", None)
        if isinstance(named.get("device"), int):
            named["device"] = "cuda"
        if func in _COPIES:
            found = args[0].clone()
        else:
            moves = any(map(_is_cuda, (*args, *named.values()))) and func is torch.Tensor.to
            found = func(*tree_map(_on_cpu, args), **tree_map(_on_cpu, named))
            if moves and found is args[0]:
                found = found.clone()
        for leaf in (found, *args) if isinstance(found, torch.Tensor) else tree_leaves((found, args)):
            if type(leaf) in _PLAIN:
                self.keep(leaf)
        return found

    def keep(self, tensor: torch.Tensor, *, move: bool = True) -> None:
        """Keep the memory of a tensor; move it if a GPU's allocator would not have placed it there."""
        if tensor.layout is not torch.strided or tensor.device.type != "cpu" or not tensor.numel():
            return
        storage = torch._C.TensorBase.untyped_storage(tensor)
        address = storage.data_ptr()
        if address in self._kept:
            return
        if move and address % _ALIGNMENT:
            if address not in self._moved:
                # The old memory is kept, so that its address does not appear again.
                self._moved[address] = storage, _aligned_copy(storage)
            storage = self._moved[address][1]
            place = tensor.storage_offset(), tensor.size(), tensor.stride()
            tensor.data = torch.empty(0, dtype=tensor.dtype).set_(storage, *place)
        self._kept[storage.data_ptr()] = storage


def _aligned_copy(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    size = storage.nbytes()
    larger = np.empty(size + _ALIGNMENT, np.uint8)
    first = -larger.ctypes.data % _ALIGNMENT
    copy = torch.from_numpy(larger[first : first + size])
    copy.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    return copy.untyped_storage()


class _Stream:
    """The only stream. All launches run to their end at once."""

    cuda_stream = 0
    device = torch.device("cpu")

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def synchronize(self) -> None: ...

    wait_stream = wait_event = record_event = record = wait = synchronize_event = lambda self, *args: None

    def elapsed_time(self, other: _Stream) -> float:
        return 1.0

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *args: Any) -> None: ...


def pretend(memory: HostMemory, capability: tuple[int, int]) -> None:
    """Let torch and ``cuda.bindings`` answer as if there were one GPU of this compute capability."""
    _ATTRIBUTES[75], _ATTRIBUTES[76] = capability
    torch.Tensor.is_cuda = property(lambda tensor: True)  # type: ignore[assignment, method-assign]
    stream = _Stream()
    properties = types.SimpleNamespace(
        name="the simulator",
        major=capability[0],
        minor=capability[1],
        multi_processor_count=MULTIPROCESSORS,
        total_memory=1 << 33,
        L2_cache_size=50 << 20,
        shared_memory_per_block_optin=_SHARED_BYTES,
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties,
        "get_device_name": lambda device=None: properties.name,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "device": lambda device: contextlib.nullcontext(),
        "is_current_stream_capturing": lambda: False,
        "mem_get_info": lambda device=None: (1 << 33, 1 << 33),
        "init": lambda: None,
        "Stream": _Stream,
        "Event": _Stream,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    custom_op = torch.library.custom_op
    torch.library.custom_op = lambda name, fn=None, *, device_types=None, **rest: custom_op(name, fn, **rest)
    _pretend_driver()
    memory.__enter__()


def _pretend_driver() -> None:
    from cuda.bindings import driver, runtime

    done = driver.CUresult.CUDA_SUCCESS
    answers: dict[str, tuple[Any, ...]] = {
        "cuInit": (),
        "cuDeviceGetCount": (1,),
        "cuDeviceGet": (driver.CUdevice(0),),
        "cuDeviceGetName": (b"the simulator",),
        "cuDeviceTotalMem": (1 << 33,),
        "cuDriverGetVersion": (13_000,),
        "cuCtxGetCurrent": (driver.CUcontext(1),),
        "cuCtxGetDevice": (driver.CUdevice(0),),
        "cuCtxSetCurrent": (),
        "cuCtxCreate": (driver.CUcontext(1),),
        "cuCtxSynchronize": (),
        "cuDevicePrimaryCtxRetain": (driver.CUcontext(1),),
        "cuDevicePrimaryCtxRelease": (),
        "cuStreamCreate": (driver.CUstream(0),),
        "cuStreamDestroy": (),
        "cuStreamSynchronize": (),
        "cuGetErrorName": (b"an error",),
    }
    for name, answer in answers.items():
        setattr(driver, name, lambda *args, answer=answer: (done, *answer))
    driver.cuDeviceGetAttribute = lambda number, device: (done, attribute(number))
    ok = runtime.cudaError_t.cudaSuccess
    for name, answer in {
        "cudaGetDeviceCount": (1,),
        "cudaGetDevice": (0,),
        "cudaSetDevice": (),
        "cudaDeviceSynchronize": (),
        "cudaStreamSynchronize": (),
        "cudaStreamCreate": (runtime.cudaStream_t(0),),
        "cudaStreamDestroy": (),
        "cudaLibraryUnload": (),
        "cudaRuntimeGetVersion": (13_000,),
        "cudaDriverGetVersion": (13_000,),
        "cudaGetLastError": (),
        "cudaGetErrorName": (b"an error",),
        "cudaGetErrorString": (b"an error",),
    }.items():
        setattr(runtime, name, lambda *args, answer=answer: (ok, *answer))
    runtime.cudaDeviceGetAttribute = lambda number, device: (ok, attribute(number))
