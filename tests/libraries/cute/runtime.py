"""Stands for the CUDA runtime below the host code that CuTe DSL compiles, and launches in the simulator.

Owns :class:`Runtime`. CuTe DSL compiles a host function to machine code, which calls the CUDA runtime through
a library that ``CUTE_DSL_LIBS`` names. Here this library is ``runtime.c``, whose functions call those of a
:class:`Runtime`. Addresses of the host are those of the simulated global memory, so that pointers in parameters,
in tables and in tensor maps need no translation.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyptx import sim
from pyptx.layout.tensor_map import TensorMap
from pyptx.layout.tensor_map_rules import ELEMENTS, FILLS, INTERLEAVES, L2_PROMOTIONS, SWIZZLES
from pyptx.sim.api import runs
from tests.libraries.cute.image import text_of
from tests.libraries.launches import Launch

__all__ = ["Range", "Runtime"]

#: A range of bytes of the host: address and size.
Range = tuple[int, int]

_INT, _POINTER, _WORD = ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32
_CLUSTER_DIMENSION = 4
#: What the host code gets back from a function that failed.
_FAILED = 999
#: Most seconds of one launch.
_LIMIT = 200


class _Dim3(ctypes.Structure):
    _fields_ = (("x", _WORD), ("y", _WORD), ("z", _WORD))

    def extents(self) -> tuple[int, int, int]:
        return self.x, self.y, self.z


class _Attribute(ctypes.Structure):
    """``cudaLaunchAttribute``: an identifier, and a union of 64 bytes that may be extents."""

    _fields_ = (("id", _INT), ("padding", _WORD), ("extents", _Dim3), ("rest", _WORD * 13))


class _Config(ctypes.Structure):
    """``cudaLaunchConfig_t``."""

    _fields_ = (
        ("grid", _Dim3),
        ("block", _Dim3),
        ("shared", ctypes.c_size_t),
        ("stream", _POINTER),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", _WORD),
    )


class _Handlers(ctypes.Structure):
    """``struct handlers`` of runtime.c."""

    _fields_ = (
        ("load", ctypes.CFUNCTYPE(_INT, ctypes.POINTER(_POINTER), _POINTER)),
        ("kernel", ctypes.CFUNCTYPE(_INT, ctypes.POINTER(_POINTER), _POINTER, ctypes.c_char_p)),
        ("launch", ctypes.CFUNCTYPE(_INT, ctypes.POINTER(_Config), _POINTER, ctypes.POINTER(_POINTER))),
        (
            "encode",
            ctypes.CFUNCTYPE(
                _INT,
                _POINTER,
                _INT,
                _WORD,
                _POINTER,
                ctypes.POINTER(ctypes.c_uint64),
                ctypes.POINTER(ctypes.c_uint64),
                ctypes.POINTER(_WORD),
                ctypes.POINTER(_WORD),
                *[_INT] * 4,
            ),
        ),
        ("attribute", ctypes.CFUNCTYPE(_INT, ctypes.POINTER(_INT), _INT)),
    )


class _Kernel(NamedTuple):
    text: str
    module: sim.LoadedModule
    name: str


class Runtime:
    """Loads modules of PTX and launches their kernels in the simulator.

    Attributes:
        launches: all launches so far.
        errors: the tracebacks of exceptions in calls of the host code, which cannot pass them on.
    """

    def __init__(
        self, memory: Callable[[], Iterable[Range]], attribute: Callable[[int], int], schedule: str, seed: int
    ) -> None:
        """Args:
        memory: returns the ranges of bytes that kernels may access.
        attribute: returns an attribute of the device, by the number of ``cudaDeviceAttr``.
        """
        self.launches: list[Launch] = []
        self.errors: list[str] = []
        self._memory, self._attribute = memory, attribute
        self._schedule, self._seed = schedule, seed
        self._modules: list[tuple[str, sim.LoadedModule]] = []
        self._kernels: list[_Kernel] = []
        calls = (self._load, self._kernel, self._launch, self._encode, self._device_attribute)
        types = [type_ for _, type_ in _Handlers._fields_]
        self._handlers = _Handlers(
            *(type_(self._guarded(call)) for type_, call in zip(types, calls, strict=True))
        )

    def install(self, folder: Path) -> None:
        """Compile the library in ``folder`` and let CuTe DSL use it. To be called before the DSL is imported."""
        library = folder / "libcute_runtime_of_the_simulator.so"
        source = Path(__file__).with_name("runtime.c")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        ctypes.CDLL(str(library)).set_handlers(ctypes.byref(self._handlers))
        os.environ["CUTE_DSL_LIBS"] = str(library)
        bind = runs.bind_arguments

        def with_host_memory(memory: Any, *rest: Any) -> Any:
            end = 0
            for address, size in sorted(self._memory()):
                if size and address >= end:
                    data = np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)
                    memory.place_global(f"{size} bytes of the host", address, data)
                    end = address + size
            return bind(memory, *rest)

        runs.bind_arguments = with_host_memory

    def _guarded(self, call: Callable[..., int | None]) -> Callable[..., int]:
        def run(*arguments: Any) -> int:
            try:
                return call(*arguments) or 0
            except Exception:
                self.errors.append(traceback.format_exc(limit=-6))
                return _FAILED

        return run

    def _load(self, library: Any, image: int) -> None:
        text = text_of(image)
        self._modules.append((text, sim.load(text)))
        library[0] = len(self._modules)

    def _kernel(self, kernel: Any, library: int, name: bytes) -> None:
        text, module = self._modules[library - 1]
        self._kernels.append(_Kernel(text, module, name.decode()))
        kernel[0] = len(self._kernels)

    def _launch(self, config: Any, kernel: int, arguments: Any) -> None:
        text, module, name = self._kernels[kernel - 1]
        launch = config.contents
        clusters = [
            launch.attributes[i].extents.extents()
            for i in range(launch.count)
            if launch.attributes[i].id == _CLUSTER_DIMENSION
        ]
        params = module.module.entry(name).params
        report = module.launch(
            name,
            grid=launch.grid.extents(),
            block=launch.block.extents(),
            cluster=clusters[0] if clusters else (1, 1, 1),
            dynamic_smem=launch.shared,
            args=[ctypes.string_at(arguments[i], param.nbytes) for i, param in enumerate(params)],
            schedule=self._schedule,
            seed=self._seed,
            timeout=_LIMIT,
        )
        self.launches.append(Launch(text, report))

    def _encode(self, image: int, type: int, rank: int, address: int, *rest: Any) -> None:
        dims, strides, box, steps, interleave, swizzle, l2, fill = rest
        element = next(e for e in ELEMENTS.values() if e.driver == type)
        made = TensorMap(
            element.type,
            address,
            tuple(dims[:rank])[::-1],
            (*tuple(strides[: rank - 1])[::-1], element.nbytes),
            tuple(box[:rank])[::-1],
            tuple(steps[:rank])[::-1],
            swizzle=SWIZZLES[swizzle],
            interleave=INTERLEAVES[interleave],
            l2_promotion=L2_PROMOTIONS[l2],
            oob_fill=FILLS[fill],
            element=element.name,
        )
        raw = made.encode(address)
        ctypes.memmove(image, raw, len(raw))

    def _device_attribute(self, value: Any, attribute: int) -> None:
        value[0] = self._attribute(attribute)
