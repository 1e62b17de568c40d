"""A device for host programs that were compiled for CUDA: the fake runtime's hooks, and launches in the simulator.

An address of the device is an address of this process, so host code may look into the memory, and structs and
tables that hold pointers go to the kernels as they are.
"""

from __future__ import annotations

import ctypes
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from pyptx.ir import Module, parse_module, print_module
from pyptx.layout.tensor_map import TensorMap
from pyptx.layout.tensor_map_rules import ELEMENTS, FILLS, INTERLEAVES, L2_PROMOTIONS, SWIZZLES
from pyptx.sim import LoadedModule, load
from pyptx.sim.api import arguments, runs
from tests.libraries.host.compile import runtime_library
from tests.libraries.launches import Launch

__all__ = ["Device", "Stopped"]

_ARENA = 4 << 30
_RED_ZONE = 1 << 20
_ADDRESS, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_DRIVER_ELEMENTS = {element.driver: element for element in ELEMENTS.values()}
_FAILED = 999


class _Hooks(ctypes.Structure):
    """The struct of the same name in ``runtime.c``."""

    _fields_ = (
        ("allocate", ctypes.CFUNCTYPE(_ADDRESS, _SIZE)),
        ("release", ctypes.CFUNCTYPE(None, _ADDRESS)),
        ("copy", ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS, _SIZE)),
        ("fill", ctypes.CFUNCTYPE(None, _ADDRESS, ctypes.c_int, _SIZE)),
        ("load", ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS)),
        (
            "launch",
            ctypes.CFUNCTYPE(
                ctypes.c_int, _ADDRESS, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), _SIZE, _ADDRESS
            ),
        ),
        ("encode", ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, ctypes.c_int, ctypes.c_uint, *[_ADDRESS] * 8)),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("multiprocessors", ctypes.c_int),
    )


class Stopped(Exception):
    """A launch did not end, so the results mean nothing; the report says why."""


class _Allocation(NamedTuple):
    """Memory of the device: its bytes, and a flag for each byte that was written."""

    start: int
    data: Any
    written: Any


@cache
def _runtime() -> ctypes.CDLL:
    return ctypes.CDLL(str(runtime_library()), mode=ctypes.RTLD_GLOBAL)


class Device:
    """One device with its memory, its modules and the launches so far."""

    def __init__(
        self, compute: tuple[int, int], multiprocessors: int, schedule: str, seed: int, unchecked: str = ""
    ) -> None:
        """Make a device that host programs see from now on.

        Args:
            compute: the compute capability, (9, 0).
            unchecked: part of the names of kernels that run without the sanitizer and are not listed, such as
                a library's own reference.
        """
        self.launches: list[Launch] = []
        self._schedule, self._seed, self._unchecked = schedule, seed, unchecked
        # The system gives memory to pages when they are first written.
        self._bytes = np.empty(_ARENA, np.uint8)
        self._base = int(self._bytes.ctypes.data)
        self._end = _RED_ZONE - self._base % 256
        self._live: dict[int, _Allocation] = {}
        self._modules: dict[int, Module] = {}
        self._entries: dict[tuple[int, str], tuple[str, LoadedModule]] = {}
        self._failure: BaseException | None = None
        hooks = (self.allocate, self._release, self._copy, self._fill, self._load, self._launch, self._encode)
        calls = [kind(self._guarded(hook)) for hook, (_, kind) in zip(hooks, _Hooks._fields_, strict=False)]
        self._hooks = _Hooks(*calls, *compute, multiprocessors)
        _runtime().fake_cuda_connect(ctypes.byref(self._hooks))

    # --- for adapters -----------------------------------------------------------------------------

    def program(self, built: Path) -> ctypes.CDLL:
        """Load a host program, with static variables of its own."""
        with tempfile.TemporaryDirectory() as folder:
            return ctypes.CDLL(shutil.copy(built, folder))

    def call(self, function: Any, *args: Any) -> Any:
        """Call a function of a host program; raise what a hook raised, and whatever ended a launch."""
        result = function(*args)
        self.check()
        return result

    def run(self, built: Path, arrays: Sequence[Any], numbers: Sequence[int] = ()) -> None:
        """Evaluate the expression of a program with arrays in the device's memory (None: no array), and numbers."""
        addresses = [None if array is None else array.ctypes.data for array in arrays]
        pointers = (ctypes.c_void_p * max(1, len(arrays)))(*addresses)
        self.call(self.program(built).run, pointers, (ctypes.c_long * max(1, len(numbers)))(*numbers))

    def run_main(self, built: Path, words: Sequence[str]) -> int:
        """Run ``main`` of a program that was linked with ``--wrap=exit``, and return its exit status."""
        given = (ctypes.c_char_p * (len(words) + 1))(b"program", *(word.encode() for word in words))
        return int(self.call(_runtime().fake_cuda_main, self.program(built).main, len(given), given))

    def check(self) -> None:
        """Raise what a hook raised since the last check."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def put(self, array: Any) -> Any:
        """Copy an array to new memory of the device and return it there."""
        array = np.ascontiguousarray(array)
        there = self.empty(array.shape, array.dtype)
        there[...] = array
        self._written(there.ctypes.data, array.nbytes)
        return there

    def empty(self, shape: int | Sequence[int], dtype: Any) -> Any:
        """Return an array in new memory of the device, whose elements count as never written."""
        dtype = np.dtype(dtype)
        count = int(np.prod(shape))
        start = self.allocate(count * dtype.itemsize) - self._base
        return self._bytes[start : start + count * dtype.itemsize].view(dtype).reshape(shape)

    def allocate(self, size: int) -> int:
        """Return the address of new memory; ends of allocations are a megabyte apart."""
        if self._end + size + _RED_ZONE > _ARENA:
            return 0
        start = self._base + self._end
        data = self._bytes[self._end : self._end + max(size, 1)]
        self._live[start] = _Allocation(start, data, np.zeros(data.size, np.uint8))
        self._end += (size + 255) // 256 * 256 + _RED_ZONE
        return start

    # --- hooks ------------------------------------------------------------------------------------

    def _guarded(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Keep the first exception for :meth:`check`: the host program sees an error code."""

        def guarded(*args: Any) -> Any:
            try:
                if self._failure is None:
                    return hook(*args)
            except BaseException as error:
                self._failure = error
            return _FAILED if hook in (self._launch, self._encode) else None

        return guarded

    def _release(self, start: int) -> None:
        del self._live[start]

    def _copy(self, to: int, source: int, size: int) -> None:
        ctypes.memmove(to, source, size)
        self._written(to, size)

    def _fill(self, to: int, value: int, size: int) -> None:
        ctypes.memset(to, value, size)
        self._written(to, size)

    def _written(self, start: int, size: int) -> None:
        for one in self._live.values():
            if one.start <= start < one.start + one.data.size:
                one.written[start - one.start : start - one.start + size] = 1

    def _load(self, module: int, image: int) -> None:
        self._modules[module] = parse_module(_ptx_of(image))

    def _launch(self, module: int, name: bytes, extents: Any, smem: int, args: int) -> int:
        text, loaded = self._entry(module, name.decode())
        (entry,) = (f for f in loaded.module.functions if f.kind == "entry")
        pointers = (ctypes.c_void_p * len(entry.params)).from_address(args) if entry.params else ()
        given = [ctypes.string_at(p, param.nbytes) for p, param in zip(pointers, entry.params, strict=True)]
        grid, block, cluster = (tuple(extents[i : i + 3]) for i in (0, 3, 6))
        checked = not self._unchecked or self._unchecked not in name.decode()
        with mock.patch.object(runs, "bind_arguments", self._bind):
            report = loaded.launch(
                grid=grid,
                block=block,
                cluster=cluster,
                dynamic_smem=smem,
                args=given,
                schedule=self._schedule,
                seed=self._seed,
                sanitize=checked,
            )
        if checked:
            self.launches.append(Launch(text, report))
        if report.verdict == "incomplete":
            raise Stopped(str(report))
        return 0

    def _entry(self, module: int, name: str) -> tuple[str, LoadedModule]:
        """The text and the loaded form of one entry, with the functions and variables of its module."""
        found = self._entries.get((module, name))
        if found is None:
            whole = self._modules[module]
            kept = [f for f in whole.functions if f.kind != "entry" or name in ("", f.name)]
            one = replace(whole, functions=tuple(kept))
            found = self._entries[module, name] = print_module(one).text, load(one)
        return found

    def _bind(self, memory: Any, *rest: Any) -> Any:
        """Bind the arguments of a launch, after the device's memory got its place in the simulator's."""
        for one in self._live.values():
            segment = memory.place_global(f"allocation of {one.data.size} bytes", one.start, one.data)
            segment.written = None if one.written.all() else one.written
        return arguments.bind_arguments(memory, *rest)

    def _encode(self, to: int, kind: int, rank: int, start: int, *pointers: int) -> int:
        """Encode a tensor map. The driver's sequences have the innermost axis first."""
        dims_at, strides_at, box_at, steps_at, modes_at, lower_at, upper_at = pointers
        element = _DRIVER_ELEMENTS[kind]
        interleave, swizzle, promotion, fill = _integers("i", modes_at, 4)
        modes = {
            "interleave": INTERLEAVES[interleave],
            "swizzle": SWIZZLES[swizzle],
            "l2_promotion": L2_PROMOTIONS[promotion],
            "oob_fill": FILLS[fill],
            "element": element.name,
            "shape": _integers("Q", dims_at, rank)[::-1],
            "strides": (*_integers("Q", strides_at, rank - 1)[::-1], element.bits // 8),
            "element_strides": _integers("I", steps_at, rank)[::-1],
        }
        if lower_at:
            channels, pixels = _integers("I", box_at, 2)
            corners = (_integers("i", at, rank - 2)[::-1] for at in (lower_at, upper_at))
            lower, upper = corners
            made = TensorMap.im2col(
                start, pixels=pixels, channels=channels, lower=lower, upper=upper, **modes
            )
        else:
            made = TensorMap.tiled(start, box=_integers("I", box_at, rank)[::-1], **modes)
        ctypes.memmove(to, made.encode(start), 128)
        return 0


def _integers(kind: str, start: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"{count}{kind}", ctypes.string_at(start, struct.calcsize(f"{count}{kind}")))


def _ptx_of(image: int) -> str:
    """The PTX text at an address: plain text, or the first text of a fat binary that is not compressed."""
    start = ctypes.string_at(image, 4)
    if struct.unpack("I", start)[0] != 0x466243B1:
        return ctypes.string_at(image).decode()
    (data,) = struct.unpack("Q", ctypes.string_at(image + 8, 8))
    header_bytes, size = struct.unpack(
        "HQ", ctypes.string_at(data + 6, 2) + b"\0" * 6 + ctypes.string_at(data + 8, 8)
    )
    at, end = data + header_bytes, data + header_bytes + size
    while at < end:
        kind, _, entry_header, payload = struct.unpack("HHIQ", ctypes.string_at(at, 16))
        if kind == 1:
            return ctypes.string_at(at + entry_header, payload).rstrip(b"\0").decode()
        at += entry_header + payload
    raise ValueError("the fat binary has no PTX")
