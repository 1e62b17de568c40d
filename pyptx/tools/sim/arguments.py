"""Parses the arguments of a launch: ``7``, ``x.npy:y.npy``, ``zeros:f32[128]``, ``map:A,box=64x32``.

Owns the classes that describe arguments of the command line and of TOML tables; :mod:`.bind` makes arrays and
numbers of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.arrays import dtype_of
from ...core.errors import SpecError
from ...core.records import dataclass
from ...core.types import ScalarType
from ...sim import unknown
from ..diff.run import random_array

__all__ = [
    "FILLS",
    "FileArray",
    "FilledArray",
    "ArgumentSource",
    "TensorMapOf",
    "NamedArgument",
    "Number",
    "SameArray",
    "element_type",
    "map_options",
    "parse_given",
    "parse_named",
    "parse_number",
]

#: The ways to fill an array that does not come from a file.
FILLS = ("zeros", "full", "arange", "random", "empty", "unknown")

_EXPECTED = (
    "expected a number (7, u32:7, f32:1.5), a file (x.npy, x.npy:y.npy, bf16:x.npy), an array "
    "(zeros:f32[64], full:f32[64]=1.5, arange:s32[64], random:f32[64]@1, empty:f32[64], and for predictions "
    "unknown:f32[64]), the name of an array, or map:NAME,box=64x32"
)


@dataclass(frozen=True)
class Number:
    """A number given as an argument.

    ``type`` None means the parameter's type. ``bits`` is true if the number was written in hexadecimal.
    """

    value: int | float
    type: ScalarType | None = None
    bits: bool = False


@dataclass(frozen=True)
class FileArray:
    """The array in the file ``path`` (.npy, or raw bytes in .bin); after the run it is written to ``out``."""

    path: Path
    type: ScalarType | None = None
    out: Path | None = None

    def make(self, index: int) -> NDArray[Any]:
        """Read the array, in C order. Raises :class:`SpecError` if the file cannot be read as this type."""
        array = self._read()
        if self.type is None:
            return array
        dtype = self.type.dtype
        assert dtype is not None  # element_type() only yields types that arrays have
        raw = array.dtype.kind == "V" or array.dtype == np.dtype(f"u{dtype.itemsize}")
        if array.dtype == dtype or (raw and array.dtype.itemsize == dtype.itemsize):
            return array.view(dtype)
        if self.path.suffix == ".bin":
            if array.nbytes % dtype.itemsize:
                raise SpecError(
                    f"{self.path} has {array.nbytes} bytes, which is not a multiple of {dtype.itemsize}, "
                    f"the size of one {self.type}"
                )
            return array.view(dtype)
        raise SpecError(f"{self.path} holds {array.dtype}, not {self.type}")

    def _read(self) -> NDArray[Any]:
        try:
            if self.path.suffix == ".bin":
                return np.fromfile(self.path, np.uint8)
            array = np.load(self.path, allow_pickle=False)
        except FileNotFoundError:
            raise SpecError(f"no such file: {self.path}") from None
        except (OSError, ValueError, EOFError) as error:
            raise SpecError(f"cannot read {self.path}: {error}") from None
        if not isinstance(array, np.ndarray):
            raise SpecError(f"{self.path} holds several arrays: expected one")
        return np.array(array, array.dtype.newbyteorder("="), order="C", ndmin=1)


@dataclass(frozen=True)
class FilledArray:
    """An array of ``type`` and ``shape``.

    Attributes:
        fill: one of :data:`FILLS`. The elements of ``empty`` count as never written. ``random`` draws floats
            from a normal distribution and integers from the range of the type, or both uniformly within
            ``bounds``. ``unknown`` has a type and a shape only, for predictions.
        value: the value of the elements for ``full``.
        seed: the seed for ``random``; None means the argument's position.
        bounds: the least and the largest element for ``random``.
        out: the file that the array is written to after the run.
    """

    fill: str
    type: ScalarType
    shape: tuple[int, ...]
    value: Number = field(default_factory=lambda: Number(0))
    seed: int | None = None
    bounds: tuple[float, float] | None = None
    out: Path | None = None

    def make(self, index: int) -> NDArray[Any]:
        """Make a new array; ``index`` is the position among the arguments, counted from 1."""
        try:
            return self._make(np.dtype(self.type.dtype), index)
        except (MemoryError, ValueError, OverflowError) as error:
            raise SpecError(f"{self.fill}:{self.type}{list(self.shape)} cannot be made: {error}") from None

    def _make(self, dtype: np.dtype[Any], index: int) -> NDArray[Any]:
        if self.fill == "random":
            rng = np.random.default_rng(index if self.seed is None else self.seed)
            return random_array(self.type, self.shape, rng, self.bounds)
        if self.fill == "unknown":
            return unknown(self.shape, self.type)
        array = np.zeros(self.shape, dtype)
        if self.fill == "arange":
            array[...] = np.arange(array.size).reshape(self.shape).astype(dtype)
        elif self.fill == "full":
            if self.value.bits:
                array.view(f"u{dtype.itemsize}")[...] = self.value.value
            else:
                array[...] = self.value.value
        return array


@dataclass(frozen=True)
class SameArray:
    """An argument that passes the array ``name``, which another argument creates."""

    name: str


@dataclass(frozen=True)
class TensorMapOf:
    """A tensor map of the array called ``name``, with the options of ``TensorMap.tiled``."""

    name: str
    options: Mapping[str, Any]


ArgumentSource = Number | FileArray | FilledArray | SameArray | TensorMapOf


@dataclass(frozen=True)
class NamedArgument:
    """An argument, and its name if it has one."""

    name: str | None
    given: ArgumentSource


_NAME = re.compile(r"([A-Za-z_$%][\w$]*)=(.+)", re.DOTALL)
_FILE = re.compile(r"(.+?\.(?:npy|bin))(?::(.+\.(?:npy|bin)))?", re.DOTALL)
_SHAPED = re.compile(r"(\w+)\[(\d+(?:[,x]\d+)*)\](.*)")
_DECIMAL = r"-?\d+(?:\.\d+)?"
_RANDOM = re.compile(rf"(?::(?P<low>{_DECIMAL})\.\.(?P<high>{_DECIMAL}))?(?:@(?P<seed>\d+))?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX]")
_WORD = re.compile(r"[A-Za-z_$%][\w$]*")

#: Options of ``TensorMap.tiled`` whose values are sequences, and options whose values are strings.
_SEQUENCES = ("box", "shape", "strides", "element_strides")
_WORDS = ("swizzle", "dtype", "interleave", "l2_promotion", "oob_fill")


def parse_named(text: str) -> NamedArgument:
    """Parse ``NAME=VALUE`` or ``VALUE``. Raises :class:`SpecError`."""
    match = _NAME.fullmatch(text)
    if match is not None:
        return NamedArgument(match[1], parse_given(match[2]))
    return NamedArgument(None, parse_given(text))


def parse_given(text: str) -> ArgumentSource:
    """Parse the value of one argument. Raises :class:`SpecError` that lists the accepted values."""
    head, colon, rest = text.partition(":")
    if colon and head == "map":
        return _parse_map(rest, text)
    if colon and head in FILLS:
        return _parse_fill(head, rest, text)
    file = _FILE.fullmatch(text)
    kind = _type(head) if colon else None
    if kind is not None:
        file = _FILE.fullmatch(rest)
        if file is None:
            return parse_number(rest, kind, text)
        kind = element_type(head)
    if file is not None:
        return FileArray(Path(file[1]), kind, None if file[2] is None else Path(file[2]))
    try:
        return parse_number(text)
    except SpecError:
        if _WORD.fullmatch(text):
            return SameArray(text)
        raise SpecError(f"{text!r} is not an argument: {_EXPECTED}") from None


def parse_number(text: str, kind: ScalarType | None = None, whole: str = "") -> Number:
    """Parse a number: ``7``, ``0x10``, ``-1.5``, ``nan``. Raises :class:`SpecError`."""
    try:
        return Number(int(text, 0), kind, bool(_HEXADECIMAL.match(text)))
    except ValueError:
        pass
    try:
        return Number(float(text), kind)
    except ValueError:
        raise SpecError(f"{whole or text!r}: {text!r} is neither a number nor a .npy or .bin file") from None


def element_type(text: str) -> ScalarType:
    """Parse the element type of an array. Raises :class:`SpecError` for a type that arrays cannot have."""
    kind = _type(text)
    if kind is None or kind.dtype is None:
        raise SpecError(f"{text!r} is not an element type: expected u8, s32, f16, bf16, f32, e4m3 ...")
    return kind


def map_options(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Convert the options of a tensor map. Raises :class:`SpecError` for an unknown option."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name not in (*_SEQUENCES, *_WORDS):
            raise SpecError(
                f"{where}: a tensor map has no option {name!r}; "
                f"its options are {', '.join((*_SEQUENCES, *_WORDS))}"
            )
        found[name] = _integers(value, f"{where}: {name}") if name in _SEQUENCES else str(value)
    if "box" not in found:
        raise SpecError(f"{where}: a tensor map needs its box, such as box=64x32")
    return found


def _type(text: str) -> ScalarType | None:
    try:
        return dtype_of(text)
    except SpecError:
        return None


def _integers(value: Any, where: str) -> tuple[int, ...]:
    parts = re.split("[x,]", value) if isinstance(value, str) else value
    try:
        return tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        raise SpecError(f"{where} is {value!r}: expected integers, outermost first, such as 64x32") from None


def _parse_map(rest: str, text: str) -> TensorMapOf:
    name, *pairs = rest.split(",")
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SpecError(f"{text!r}: expected NAME=VALUE after the array's name, got {pair!r}")
        options[key] = value
    if not _WORD.fullmatch(name):
        raise SpecError(f"{text!r}: expected the name of an array after map:, got {name!r}")
    return TensorMapOf(name, map_options(options, repr(text)))


def _parse_fill(fill: str, rest: str, text: str) -> FilledArray:
    match = _SHAPED.fullmatch(rest)
    if match is None:
        raise SpecError(f"{text!r}: expected a type and a shape after {fill}:, such as {fill}:f32[128,256]")
    kind, shape, tail = element_type(match[1]), _integers(match[2], text), match[3]
    if fill == "full":
        if not tail.startswith("="):
            raise SpecError(f"{text!r}: full: needs a value after the shape, such as full:f32[128]=1.5")
        return FilledArray(fill, kind, shape, parse_number(tail[1:], None, text))
    if fill == "random" and (drawn := _RANDOM.fullmatch(tail)) is not None:
        bounds = (float(drawn["low"]), float(drawn["high"])) if drawn["low"] else None
        seed = int(drawn["seed"]) if drawn["seed"] else None
        return FilledArray(fill, kind, shape, seed=seed, bounds=bounds)
    if tail:
        raise SpecError(f"{text!r}: the argument must end after the shape, got {tail!r}")
    return FilledArray(fill, kind, shape)
