"""Functions that the CUDA system provides to kernels: printf, malloc and free, and failed assertions.

Source: CUDA C++ Programming Guide, formatted output and dynamic global memory allocation. The signatures are
those that compilers declare in PTX (``.extern .func (.param .b32 _) vprintf(...)``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ..memory.access import AccessKind, StateSpace

if TYPE_CHECKING:
    from .calls import At
    from .machine_state import MachineState

__all__ = ["BUILTINS", "SIGNATURES", "CallArguments", "formatted"]

#: Bytes of the device's heap, the default of the CUDA runtime.
_HEAP = 8 << 20
#: Least number of bytes of the heap that an allocation takes.
_SMALLEST = 64
_LONGEST_STRING = 1 << 16
#: The largest number of characters of one conversion, and of all text that a launch prints.
_WIDEST, _MOST_PRINTED = 1 << 12, 16 << 20
_CONVERSION = re.compile(rb"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXcsaAeEfFgGp%])")

_SIGNLESS = re.compile(r"[+ #]")


@dataclass(frozen=True)
class CallArguments:
    """The arguments of a call: the lanes that make it, and for each parameter the values of these lanes."""

    machine: MachineState
    at: At
    lanes: NDArray[np.intp]
    values: list[NDArray[Any]]

    def read(self, address: int, size: int) -> bytes:
        """Return the bytes at a generic address."""
        cta = self.at.split.warp.cta
        segment, offset = self.machine.memory.access(
            AccessKind.READ, StateSpace.GENERIC, address, size, self.at, cta.cluster_memory, align=1
        )
        return bytes(segment.data[offset : offset + size])

    def string(self, address: int) -> bytes:
        """Return the bytes up to a zero byte."""
        cta = self.at.split.warp.cta
        segment, offset = self.machine.memory.access(
            AccessKind.READ, StateSpace.GENERIC, address, 1, self.at, cta.cluster_memory, align=1
        )
        rest = bytes(segment.data[offset : offset + _LONGEST_STRING])
        length = rest.find(b"\0")
        if length < 0 and len(rest) == _LONGEST_STRING:
            return self.read(address, _LONGEST_STRING)
        # Without a zero byte the string runs past the end of its memory: read on, which is a fault as on a
        # GPU.
        return self.read(address, (len(rest) if length < 0 else length) + 1)[:-1]

    def each(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return the number and the arguments of each lane that makes the call."""
        columns = [value.tolist() for value in self.values]
        return list(zip(self.lanes.tolist(), zip(*columns, strict=True), strict=True))


def formatted(
    template: bytes, read: Callable[[int, int], bytes], string: Callable[[int], bytes]
) -> tuple[str, int]:
    """Return the text that printf prints, and the number of conversions.

    ``read(offset, size)`` reads the packed arguments. Raises OverflowError if a field or the text is too
    long.
    """
    position = count = total = 0

    def argument(size: int) -> bytes:
        nonlocal position
        position = -(-position // size) * size
        raw = read(position, size)
        position += size
        return raw

    def number(word: bytes) -> int:
        if word == b"*":
            value = int(struct.unpack("<i", argument(4))[0])
        else:
            value = int(word[:10])
        if abs(value) > _WIDEST:
            raise OverflowError(f"printf with a field of {value} characters; the limit is {_WIDEST}")
        return value

    def convert(match: re.Match[bytes]) -> bytes:
        nonlocal total
        found = converted(match)
        total += len(found)
        if total > _MOST_PRINTED:
            raise OverflowError(f"printf of more than {_MOST_PRINTED} characters")
        return found

    def converted(match: re.Match[bytes]) -> bytes:
        nonlocal count
        flags, width, precision, length, kind = match.groups()
        if kind == b"%":
            return b"%"
        count += 1
        spec = "%" + flags.decode() + (str(number(width)) if width is not None else "")
        digits = number(precision) if precision is not None else -1
        if digits >= 0:
            # A negative precision counts as none.
            spec += f".{digits}"
        letter = kind.decode()
        double: float
        if letter in "aA":
            double = struct.unpack("<d", argument(8))[0]
            hexadecimal = double.hex()
            return (hexadecimal.upper() if letter == "A" else hexadecimal).encode()
        if letter in "eEfFgG":
            double = struct.unpack("<d", argument(8))[0]
            return bytes((spec + letter).encode() % double)
        if letter == "s":
            return bytes((spec + "s").encode() % string(int.from_bytes(argument(8), "little")))
        if letter == "p":
            return b"0x%x" % int.from_bytes(argument(8), "little")
        if letter == "c":
            return bytes((spec + "c").encode() % argument(4)[:1])
        wide = length in (b"l", b"ll", b"j", b"z", b"t")
        signed = letter in "di"
        raw = argument(8 if wide else 4)
        value = int.from_bytes(raw, "little", signed=signed)
        if length in (b"h", b"hh"):
            bits = 16 if length == b"h" else 8
            value &= (1 << bits) - 1
            if signed and value >> (bits - 1):
                value -= 1 << bits
        if letter == "o":
            # Python writes the prefix 0o where C writes 0.
            octal = f"{value:o}"
            if "#" in spec and not octal.startswith("0"):
                octal = "0" + octal
            field = _SIGNLESS.sub("", spec.partition(".")[0])
            return (field + "s").encode() % octal.zfill(max(digits, 0)).encode()
        return (spec + ("d" if letter in "diu" else letter)).encode() % value

    return _CONVERSION.sub(convert, template).decode("utf-8", "replace"), count


def _vprintf(a: CallArguments) -> list[int]:
    answers = []
    for lane, (template, packed) in a.each():
        a.at.split.acting = (lane,)

        def read(offset: int, size: int, base: int = packed) -> bytes:
            return a.read(base + offset, size)

        try:
            text, count = formatted(a.string(template), read, a.string)
        except OverflowError as error:
            raise a.machine.fault("not-modeled", str(error), a.at) from None
        a.at.split.warp.cta.grid.printed.append(text)
        a.machine.printed_characters += len(text)
        if a.machine.printed_characters > _MOST_PRINTED:
            a.machine.stop(f"stopped: the launch printed {_MOST_PRINTED} characters, which is the limit")
        answers.append(count)
    a.at.split.acting = None
    return answers


def _malloc(a: CallArguments) -> list[int]:
    machine = a.machine
    answers = []
    for _, (size,) in a.each():
        taken = max(size, _SMALLEST)
        if size == 0 or machine.heap_bytes + taken > _HEAP:
            answers.append(0)
            continue
        machine.heap_bytes += taken
        segment = machine.memory.map_global("malloc'ed memory", np.zeros(size, np.uint8), tracked=True)
        machine.heap[segment.base] = taken
        answers.append(segment.base)
    return answers


def _free(a: CallArguments) -> None:
    for lane, (address,) in a.each():
        if not address:
            continue
        size = a.machine.heap.pop(address, None)
        if size is None:
            a.at.split.acting = (lane,)
            raise a.machine.fault("out-of-bounds", f"free of {address:#x}, which malloc did not return", a.at)
        a.machine.heap_bytes -= size
        a.machine.memory.unmap_global(address)


def _assertfail(a: CallArguments) -> None:
    lane, (message, file, line, function, _) = a.each()[0]
    a.at.split.acting = (lane,)
    texts = [a.string(word).decode("utf-8", "replace") for word in (file, function, message)]
    raise a.machine.fault("trap", f"{texts[0]}:{line}: {texts[1]}: assertion `{texts[2]}` failed", a.at)


#: For each name, the function that executes the call. It returns the results of the lanes, or None.
BUILTINS: dict[str, Callable[[CallArguments], Any]] = {
    "vprintf": _vprintf,
    "malloc": _malloc,
    "free": _free,
    "__assertfail": _assertfail,
}
#: For each name, the bytes of the parameters and of the results.
SIGNATURES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "vprintf": ((8, 8), (4,)),
    "malloc": ((8,), (8,)),
    "free": ((8,), ()),
    "__assertfail": ((8, 8, 4, 8, 8), ()),
}
