"""Launches that repeat: parameters and configuration lie in memory, and a launch changes what is new.

Owns :class:`Plan`.  What depends on the kernel and on its launch configuration is checked and packed once.  A
launch stores addresses and numbers, and calls ``cuLaunchKernelEx``.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from ..core.records import dataclass
from ..core.types import ScalarType
from ..ir import Launch
from .driver import check, device_context, driver
from .launch import (
    TOO_LARGE,
    allow_cluster,
    check_fit,
    check_residency,
    configuration,
    describe_launch,
    scalar_bytes,
)
from .loader import LoadedKernel
from .recent import note

__all__ = ["Address", "Constant", "Frame", "MapImage", "Number", "Parameter", "Plan"]

#: Room of a parameter, which is that of a tensor map, in bytes and in words.
_BYTES, _WORDS = 128, 16
#: Statuses of a launch for which the current context is not that of the kernel.
_OTHER_CONTEXT = (201, 400)


@dataclass(frozen=True, slots=True)
class Address:
    """A parameter that holds a device address, 8 bytes."""


@dataclass(frozen=True, slots=True)
class MapImage:
    """A parameter that holds a tensor map by value.

    Attributes:
        image: the 128 bytes of the map, of which a launch changes the address, the first 8 bytes.
    """

    image: bytes


@dataclass(frozen=True, slots=True)
class Number:
    """A parameter that holds a number of a type of at most 8 bytes.

    Attributes:
        type: the type.
        check: returns a value as the number that the parameter holds; raises SpecError if it does not fit.
    """

    type: ScalarType
    check: Callable[[Any], int | float]


@dataclass(frozen=True, slots=True)
class Constant:
    """A parameter of 4 bytes whose value belongs to the launch: the extent of a dim.

    Attributes:
        image: the value in 8 bytes, little-endian.
    """

    image: bytes


Parameter = Address | MapImage | Number | Constant


class Frame:
    """Memory of one launch: the parameters, the pointers to them, and the configuration.

    Attributes:
        words: the parameters as 64-bit words; parameter ``n`` starts at word ``16 * n``.
        address: address of the array of pointers to the parameters (``void**``).
        config: the driver's ``CUlaunchConfig``.
        stream: handle of the stream in ``config``.
    """

    __slots__ = ("_memory", "_pointers", "address", "config", "stream", "words")

    def __init__(self, parameters: Sequence[Parameter], launch: Launch) -> None:
        self._memory = ctypes.create_string_buffer(_BYTES * (len(parameters) + 1))
        first = -ctypes.addressof(self._memory) % _BYTES
        self.words = memoryview(self._memory).cast("B")[first : first + _BYTES * len(parameters)].cast("Q")
        base = ctypes.addressof(self._memory) + first
        self._pointers = (ctypes.c_void_p * max(1, len(parameters)))(
            *(base + _BYTES * number for number in range(len(parameters)))
        )
        self.address = ctypes.addressof(self._pointers)
        for number, parameter in enumerate(parameters):
            if isinstance(parameter, (MapImage, Constant)):
                ctypes.memmove(base + _BYTES * number, parameter.image, len(parameter.image))
        self.config = configuration(launch)
        self.stream = 0


def _word_of(number: Number) -> Callable[[Any], int]:
    """Return the function that encodes a number as a 64-bit word. It raises SpecError for others."""
    type = number.type

    def slowly(value: Any) -> int:
        return int.from_bytes(scalar_bytes(number.check(value), type, "a number"), "little")

    if type.kind in "us" and type.lanes == 1:
        low = 0 if type.kind == "u" else -(1 << (type.bits - 1))
        high = (1 << (type.bits - (type.kind == "s"))) - 1
        mask = (1 << type.bits) - 1

        def whole(value: Any) -> int:
            return value & mask if value.__class__ is int and low <= value <= high else slowly(value)

        return whole
    if type.name in ("f32", "f64"):
        pack = struct.Struct("<f" if type.name == "f32" else "<d").pack

        def floating(value: Any) -> int:
            try:
                return int.from_bytes(pack(value), "little") if value.__class__ is float else slowly(value)
            except OverflowError:
                return slowly(value)

        return floating
    return slowly


def _size(parameter: Parameter) -> int:
    """Return the bytes of a parameter."""
    if isinstance(parameter, Number):
        return parameter.type.nbytes
    return {MapImage: _BYTES, Constant: 4}.get(type(parameter), 8)


class Plan:
    """A kernel with its launch configuration and parameters, of which a launch gives addresses and numbers.

    Several threads may launch one plan at the same time.

    Attributes:
        kernel: the loaded kernel.
        launch: grid, block, cluster and dynamic shared memory.
        parameters: how each parameter of the entry is filled.
    """

    __slots__ = (
        "__weakref__",
        "_encoders",
        "_enqueue",
        "_frames",
        "_function",
        "_handle",
        "_success",
        "_words",
        "kernel",
        "launch",
        "parameters",
    )

    def __init__(self, kernel: LoadedKernel, launch: Launch, parameters: Sequence[Parameter]) -> None:
        """Check that the parameters and the configuration fit the kernel.

        Raises:
            SpecError: the sizes are not those of the kernel's parameters, or the launch exceeds its limits.
        """
        check_fit(kernel, launch, tuple(map(_size, parameters)))
        with device_context(kernel.device_index):
            allow_cluster(kernel, launch)
        module = driver()
        self._function = kernel.function
        self._handle = int(kernel.function)
        self.kernel = kernel
        self.launch = launch
        self.parameters = tuple(parameters)
        filled = [(n, p) for n, p in enumerate(parameters) if not isinstance(p, Constant)]
        #: The first word of each parameter that a launch fills, and how it encodes numbers.
        self._words = tuple(_WORDS * number for number, _ in filled)
        self._encoders = tuple((n, _word_of(p)) for n, (_, p) in enumerate(filled) if isinstance(p, Number))
        self._enqueue = module.cuLaunchKernelEx
        self._success = module.CUresult.CUDA_SUCCESS
        #: Frames that no launch uses now; taking and giving back are atomic.
        self._frames: list[Frame] = []

    def resized(self, launch: Launch, parameters: Sequence[Parameter]) -> Plan:
        """Return the plan with another grid, other images of tensor maps, and other constants.

        Args:
            launch: the configuration, which the caller has checked; only the grid may be another.
            parameters: all parameters, of the same kinds.
        """
        other = copy(self)
        other.launch = launch
        other.parameters = tuple(parameters)
        other._frames = []
        return other

    def frame(self, values: Sequence[Any], stream: int) -> Frame:
        """Return a frame for :meth:`start` with these values, for launches that repeat on one stream.

        Raises:
            SpecError: a number does not fit its type.
        """
        frame = Frame(self.parameters, self.launch)
        self._fill(frame, values, stream)
        return frame

    def _fill(self, frame: Frame, values: Sequence[Any], stream: int) -> None:
        if self._encoders:
            values = list(values)
            for number, encode in self._encoders:
                values[number] = encode(values[number])
        words = frame.words
        for word, value in zip(self._words, values, strict=True):
            words[word] = value
        if frame.stream != stream:
            frame.config.hStream = frame.stream = stream

    def __call__(self, values: Sequence[Any], stream: int) -> None:
        """Enqueue one launch.

        Args:
            values: for each parameter that is no :class:`Constant`, an address or a number.
            stream: handle of a stream on the GPU of the kernel.

        Raises:
            SpecError: a number does not fit its type.
            LaunchError: the driver refused the launch, or an earlier kernel failed.
        """
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self.parameters, self.launch)
        self._fill(frame, values, stream)
        self.start(frame)
        self._frames.append(frame)

    def start(self, frame: Frame) -> None:
        """Enqueue one launch with what the frame holds. Raises LaunchError as a call of the plan does."""
        status = self._enqueue(frame.config, self._function, frame.address, 0)[0]
        if status is not self._success:
            self._again(frame, status)
        note(self._handle)
        if frame.stream:
            self.kernel.note_capture(frame.stream)

    def _again(self, frame: Frame, status: Any) -> None:
        """Launch in the kernel's context, if another one was current; else raise the status as an error."""
        if int(status) in _OTHER_CONTEXT:
            with device_context(self.kernel.device_index):
                (status,) = self._enqueue(frame.config, self._function, frame.address, 0)
        if int(status) in TOO_LARGE:
            with device_context(self.kernel.device_index):
                check_residency(self.kernel, self.launch)
        check((status,), describe_launch(self.kernel, self.launch))
