"""A driver for Triton whose device is the simulator: the host code of a library runs unchanged on CPU tensors.

Triton compiles for a target without a GPU and stops at the PTX text. A launch of a compiled kernel goes to
:meth:`pyptx.sim.LoadedModule.launch`. While the driver is active, ``"cuda"`` names the CPU in torch, and an
autotuner takes the first configuration that fits instead of measuring all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
import triton
from torch.overrides import TorchFunctionMode
from triton._C.libtriton import nvidia
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.driver import CudaDriver
from triton.runtime import _allocation, jit
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver as active

from pyptx import TensorMap, sim
from pyptx.core.arrays import dtype_of
from pyptx.core.errors import SpecError
from pyptx.ir import Param
from pyptx.layout.tensor_map_rules import ELEMENTS
from tests.libraries.launches import Kernel, Launch

__all__ = ["kernel", "simulated"]

#: Multiprocessors of the device: few, so that persistent kernels give each CTA several tiles.
_MULTIPROCESSORS = 4

#: Largest dynamic shared memory of a CTA on sm_90 and sm_100.
_SHARED_BYTES = 232_448

#: Swizzle modes and element types by the numbers in the metadata of a compiled kernel.
_SWIZZLES = ("none", "32B", "64B", "128B")
_ELEMENT_NAMES = {element.code: element.name for element in ELEMENTS.values()}

#: Registers of a thread, as the host code of a persistent kernel reads them.
_REGISTERS = 64

#: Name of TF32 in tensor maps.
_TF32 = "tf32"


class _Run:
    """What the launches of one run share: how they are scheduled, and their reports."""

    def __init__(self, arch: int, schedule: str, seed: int) -> None:
        self.arch = arch
        self.schedule = schedule
        self.seed = seed
        self.launches: list[Launch] = []
        #: Tensors whose address the host code has asked for: a table of addresses refers to them.
        self.addresses: dict[int, torch.Tensor] = {}


class _Function:
    """A loaded kernel: its text, the module in the simulator, and the name of the entry."""

    def __init__(self, name: str, text: str, shared: int) -> None:
        self.name, self.text, self.shared = name, text, shared
        self.module = sim.load(text)
        self.params = self.module.module.entry(name).params


class _Launcher:
    """Launches one compiled kernel; Triton makes it from the source and the compiler's metadata."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._types = list(source.signature.values())
        self._metadata = metadata

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        function: _Function,
        packed: Any,
        about: Any,
        *hooks_and_args: Any,
    ) -> None:
        enter, leave, *given = hooks_and_args
        run, metadata = _DRIVER.run, self._metadata
        if x * y * z == 0:
            return
        values = list(_flattened(given, self._types, iter(metadata.tensordesc_meta or ())))
        scratch = x * y * z * metadata.num_ctas
        values += [
            _scratch(scratch * metadata.global_scratch_size, metadata.global_scratch_align),
            _scratch(scratch * metadata.profile_scratch_size, metadata.profile_scratch_align),
        ]
        if enter is not None:
            enter(about)
        report = function.module.launch(
            function.name,
            grid=(x * metadata.num_ctas, y, z),
            block=(32 * metadata.num_warps,),
            cluster=(metadata.num_ctas, 1, 1),
            dynamic_smem=function.shared,
            args=[_argument(param, value) for param, value in zip(function.params, values, strict=True)],
            uninitialized=[at for at in (len(values) - 2, len(values) - 1) if values[at] is not None],
            schedule=run.schedule,
            seed=run.seed,
        )
        if leave is not None:
            leave(about)
        run.launches.append(Launch(function.text, report))
        ended = [f for f in report.findings if str(f.severity) == "incomplete"]
        assert not ended, f"{function.name} did not end: {ended[0]}"


def _flattened(given: Sequence[Any], types: Sequence[Any], maps: Iterator[dict[str, Any]]) -> Iterator[Any]:
    """Yield one value for each parameter of the entry: tuples and descriptors are several, constants none."""
    for value, kind in zip(given, types, strict=True):
        if isinstance(kind, tuple):
            yield from _flattened(tuple(value), kind, maps)
        elif kind.startswith("tensordesc"):
            about = next(maps)
            yield _tensor_map(value, about)
            yield from value.shape
            yield from value.strides
        elif kind != "constexpr":
            yield value


def _tensor_map(given: Any, about: dict[str, Any]) -> TensorMap:
    """Return the tensor map of a descriptor of the host, with the box that the compiler chose."""
    element = ELEMENTS[_TF32 if given.round_f32_to_tf32 else _ELEMENT_NAMES[about["elem_type"]]]
    shape = list(given.shape)
    if about["fp4_padded"]:
        shape[-1] *= 2
    common = {
        "element": element.name,
        "shape": shape,
        "strides": [*(step * about["elem_size"] for step in given.strides[:-1]), element.nbytes],
        "swizzle": _SWIZZLES[about["swizzle"]],
        "l2_promotion": "128B",
        "oob_fill": "nan" if given.padding == "nan" else "zeros",
    }
    if not about.get("is_im2col", False):
        return TensorMap.tiled(_tensor(given.base), box=about["block_size"], **common)
    pixels, channels = about["block_size"]
    return TensorMap.im2col(
        _tensor(given.base),
        pixels=pixels,
        channels=channels,
        lower=given.pixel_box_lower_corner,
        upper=given.pixel_box_upper_corner,
        element_strides=given.element_strides or [1] * len(shape),
        **common,
    )


def _tensor(given: Any) -> Any:
    """Return the torch tensor of an argument, with a dimension and with a type that the simulator takes."""
    tensor = given.base if isinstance(given, jit.TensorWrapper) else given
    tensor = tensor.detach()
    if tensor.dim() == 0:
        tensor = tensor.reshape(1)
    try:
        dtype_of(tensor.dtype)
    except SpecError:
        tensor = tensor.view(torch.uint8)
    return tensor


def _argument(param: Param, value: Any) -> Any:
    """Return what a launch takes for a parameter: tensors and maps as they are, scalars as their bytes."""
    if value is None:
        return 0
    if isinstance(value, TensorMap):
        return value
    if hasattr(value, "data_ptr"):
        tensor = _tensor(value)
        return _table(tensor) or (tensor if tensor.numel() else 0)
    if isinstance(value, float):
        if not param.type.is_float:
            raise TypeError(f"a float was given for {param.name}, whose type is {param.type}")
        return np.array(value, param.type.dtype).tobytes()
    return int(value)


def _table(tensor: torch.Tensor) -> list[Any]:
    """Return the tensors whose addresses a tensor contains; an empty list if it contains other numbers."""
    if tensor.dtype is not torch.int64 or tensor.dim() != 1 or not tensor.is_contiguous():
        return []
    found = [_DRIVER.run.addresses.get(address) for address in tensor.tolist()]
    return [] if None in found else [_tensor(each) for each in found]


def _scratch(size: int, alignment: int) -> Any:
    if size == 0:
        return None
    return _allocation._allocator.get()(size, alignment, 0)


class _Utilities:
    """What Triton asks of a device: how large it is, and to load a binary."""

    def load_binary(self, name: str, text: bytes, shared: int, device: int) -> tuple[Any, ...]:
        function = _Function(name, text.decode(), shared)
        return function.module, function, _REGISTERS, 0, 1024

    def unload_module(self, module: Any) -> None:
        """Nothing is to be released."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": _SHARED_BYTES,
            "multiprocessor_count": _MULTIPROCESSORS,
            "max_num_regs": 65536,
            "warpSize": 32,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 1024,
        }

    def cuOccupancyMaxActiveClusters(self, function: _Function, shared: int, ctas: int) -> int:
        return _MULTIPROCESSORS // ctas

    def set_printf_fifo_size(self, size: int) -> None:
        """The output of a simulated kernel has no limit."""


class _Products:
    """What the host code of references calls in place of cuBLAS: products by torch."""

    def __init__(self, workspace: torch.Tensor) -> None:
        """The workspace is not needed."""

    def matmul(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        """Store the product of ``a`` and the transpose of ``b`` in ``out``."""
        out.copy_((a.float() @ b.float().T).to(out.dtype))


class _Driver(DriverBase):
    """The driver. One device; its target and the schedule are those of the run."""

    launcher_cls = _Launcher

    def __init__(self) -> None:
        self.utils = _Utilities()
        self.run = _Run(90, "eager", 1)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise NotImplementedError("the simulator needs no types of C++")

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.run.arch, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return divmod(self.run.arch, 10)

    def get_current_device(self) -> int:
        """Number of the device: kernels that were compiled for another target are not taken for this one."""
        return self.run.arch

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        raise NotImplementedError("the simulator predicts no time")


_DRIVER = _Driver()


def _stop_at_text(*given: Any) -> Any:
    """Let the compiler's last stage keep the PTX text; called without arguments, name this change."""
    if not given:
        return "text only", "text only"
    given[1]["cubin"] = lambda text, metadata: text.encode()
    return None


class _CudaIsTheHost(TorchFunctionMode):
    """Lets torch functions that name a CUDA device work on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if func == torch.Tensor.is_cuda.__get__:
            return True
        named = {key: _host_device(value) for key, value in (kwargs or {}).items()}
        if type(named.get("device")) is int:
            named["device"] = "cpu"
        result = func(*map(_host_device, args), **named)
        if func is torch.Tensor.data_ptr:
            _DRIVER.run.addresses[result] = args[0]
        return result


def _host_device(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return value


def _one_configuration(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``run`` of autotuners that takes the first configuration that fits the arguments."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        known = self.configs
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        self.configs = self.prune_configs(kwargs)[:1]
        try:
            return original(self, *args, **kwargs)
        finally:
            self.configs = known

    return run


def _patches(stack: ExitStack) -> None:
    """Put the driver, and torch's view of the device, in place until the stack is closed."""
    properties = SimpleNamespace(
        name="simulator", multi_processor_count=_MULTIPROCESSORS, total_memory=1 << 34, warp_size=32,
        shared_memory_per_block_optin=_SHARED_BYTES, major=_DRIVER.run.arch // 10, minor=_DRIVER.run.arch % 10,
    )  # fmt: skip
    replaced: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "device": lambda device: nullcontext(),
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "get_device_capability": _DRIVER.get_device_capability,
        "get_device_properties": lambda device=None: properties,
        "get_device_name": lambda device=None: properties.name,
    }
    for name, value in replaced.items():
        stack.enter_context(mock.patch.object(torch.cuda, name, value))
    stack.enter_context(mock.patch.object(nvidia.cublas, "CublasLt", _Products))
    stack.enter_context(mock.patch.object(CudaDriver, "is_active", staticmethod(lambda: True)))
    stack.enter_context(mock.patch.object(Autotuner, "run", _one_configuration(Autotuner.run)))
    stack.enter_context(mock.patch.object(triton.knobs.runtime, "add_stages_inspection_hook", _stop_at_text))
    stack.enter_context(mock.patch.object(active, "_active", _DRIVER))
    stack.enter_context(_CudaIsTheHost())
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))


@contextmanager
def simulated(arch: int, schedule: str = "eager", seed: int = 1) -> Iterator[list[Launch]]:
    """Launch the kernels of Triton in the simulator for a target (90 or 100); yield the list of the launches."""
    before, _DRIVER.run = _DRIVER.run, _Run(arch, schedule, seed)
    with ExitStack() as stack:
        _patches(stack)
        try:
            yield _DRIVER.run.launches
        finally:
            _DRIVER.run = before


def kernel(name: str, arch: int, body: Callable[[], None]) -> Kernel:
    """Return the kernel of a library that ``body`` launches and compares with a reference."""

    def run(schedule: str, seed: int) -> list[Launch]:
        torch.manual_seed(0)
        with simulated(arch, schedule, seed) as launches:
            body()
        return launches

    return Kernel(f"{name} (sm_{arch})", run)
