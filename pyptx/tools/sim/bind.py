"""Assigns arguments to the parameters of a launch, and makes the arrays, numbers and tensor maps.

Owns :class:`LaunchArray` (an array of a run, and the file that it is written to afterwards) and :func:`bind`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.arrays import dtype_of
from ...core.errors import SpecError
from ...core.records import dataclass
from ...core.types import ScalarType, from_dtype
from ...layout import TensorMap
from ...sim import UnknownArray
from .arguments import ArgumentSource, FileArray, FilledArray, NamedArgument, Number, SameArray, TensorMapOf
from .target import KernelParameter

__all__ = ["BoundArguments", "LaunchArray", "bind"]


@dataclass
class LaunchArray:
    """An array of the run.

    Attributes:
        name: the name that the user gave, or the parameter's name.
        array: the elements, which the kernel writes in place.
        out: the file that the array is written to after the run, or None.
        fresh: whether the elements count as never written.
    """

    name: str
    array: NDArray[Any]
    out: Path | None = None
    fresh: bool = False
    _before: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._before = self._digest()

    def _digest(self) -> bytes:
        """Return a digest of the elements. To read those of an unknown array would give it memory."""
        if isinstance(self.array, UnknownArray):
            return b""
        return hashlib.blake2b(self.array.reshape(-1).view(np.uint8).data, digest_size=16).digest()

    @property
    def changed(self) -> bool:
        """Return True if the run changed the bytes of the array."""
        return self._digest() != self._before

    @property
    def type(self) -> ScalarType:
        return dtype_of(self.array.dtype)

    def write(self) -> None:
        """Write the array to ``out`` if there is one: as .npy, or as raw bytes. Raises :class:`SpecError`."""
        if self.out is None:
            return
        try:
            if self.out.suffix == ".bin":
                self.array.tofile(self.out)
            else:
                np.save(self.out, self.array)
        except OSError as error:
            raise SpecError(f"cannot write {self.out}: {error}") from None


@dataclass(frozen=True)
class BoundArguments:
    """The arguments of a launch.

    Attributes:
        values: one value for each parameter.
        buffers: the arrays by name.
        fresh: positions of the parameters whose arrays count as never written.
    """

    values: list[Any]
    buffers: dict[str, LaunchArray]
    fresh: frozenset[int]


def bind(
    entry: str,
    wanted: Sequence[KernelParameter],
    args: Sequence[NamedArgument],
    arrays: Sequence[NamedArgument] = (),
    outs: Mapping[str, Path] | None = None,
    *,
    known: Mapping[str, LaunchArray] | None = None,
    overwrite: bool = False,
) -> BoundArguments:
    """Make the arguments of a launch.

    An argument that has the name of a parameter goes to that parameter; the other arguments fill the
    remaining parameters in order.  ``known`` has the arrays of earlier launches, which arguments may name.

    Raises:
        SpecError: there are too many or too few arguments, an argument does not fit its parameter, a name is
            unknown or given twice, a file cannot be read, or a file would be overwritten.
    """
    assigned = _assign(entry, wanted, args)
    buffers: dict[str, LaunchArray] = dict(known or {})
    values: list[Any] = [None] * len(wanted)
    made: list[tuple[str, ArgumentSource, int | None]] = [(n.name or "", n.given, None) for n in arrays]
    made += [(n.name or wanted[p].name, n.given, p) for p, n in enumerate(assigned)]
    for index, (name, given, position) in enumerate(made, 1):
        if not isinstance(given, (FileArray, FilledArray)):
            if position is None:
                raise SpecError(f"--array {name}: expected an array, such as zeros:f32[64] or x.npy")
            continue
        if position is not None and wanted[position].by_value:
            values[position] = _by_value(wanted[position], given, index)
            continue
        if position is not None and wanted[position].nbytes != 8:
            raise SpecError(f"{_described(wanted[position])}, got an array")
        if name in buffers:
            raise SpecError(f"two arrays are called {name}")
        fresh = isinstance(given, FilledArray) and given.fill == "empty"
        buffers[name] = LaunchArray(name, _elements(given, index), given.out, fresh)
        if position is not None:
            values[position] = buffers[name].array
    for position, (parameter, named) in enumerate(zip(wanted, assigned, strict=True)):
        if isinstance(named.given, Number):
            values[position] = _number(parameter, named.given)
        elif isinstance(named.given, SameArray):
            values[position] = _find(buffers, named.given.name).array
        elif isinstance(named.given, TensorMapOf):
            values[position] = _map(parameter, buffers, named.given)
    for name, path in (outs or {}).items():
        _find(buffers, name).out = path
    _check_outs(list(buffers.values()), overwrite)
    fresh_arrays = {id(buffer.array) for buffer in buffers.values() if buffer.fresh}
    positions = frozenset(
        p for p, v in enumerate(values) if id(v.array if isinstance(v, TensorMap) else v) in fresh_arrays
    )
    return BoundArguments(values, buffers, positions)


def _assign(
    entry: str, wanted: Sequence[KernelParameter], args: Sequence[NamedArgument]
) -> list[NamedArgument]:
    """Return the argument of each parameter, by name first and then in order."""
    names = [parameter.name for parameter in wanted]
    chosen: dict[int, NamedArgument] = {}
    rest: list[NamedArgument] = []
    for argument in args:
        if argument.name not in names:
            rest.append(argument)
            continue
        position = names.index(argument.name)
        if position in chosen:
            raise SpecError(f"two arguments for the parameter {argument.name}")
        chosen[position] = argument
    free = [p for p in range(len(wanted)) if p not in chosen]
    needed = [p for p in free if wanted[p].default is None]
    if len(rest) < len(free) and len(rest) <= len(needed):
        free = needed  # the other parameters take their defaults
    given = len(args)
    if len(rest) != len(free):
        listed = ", ".join(map(_short, wanted)) or "none"
        raise SpecError(
            f"{given} argument{'s' * (given != 1)} given, {entry} has {len(wanted)} "
            f"parameter{'s' * (len(wanted) != 1)}: {listed}; give one --arg for each"
        )
    chosen.update(zip(free, rest, strict=True))
    for position, parameter in enumerate(wanted):
        if position not in chosen and parameter.default is not None:
            chosen[position] = NamedArgument(None, parameter.default)
    return [chosen[position] for position in range(len(wanted))]


def _short(parameter: KernelParameter) -> str:
    if parameter.default is not None:
        return f"{parameter.name} (an array)"
    return f"{parameter.name} ({parameter.nbytes} bytes)" if parameter.by_value else _typed(parameter)


def _typed(parameter: KernelParameter) -> str:
    return f"{parameter.name} (.{parameter.type})"


def _described(parameter: KernelParameter) -> str:
    if parameter.by_value:
        return f"the parameter {parameter.name} takes {parameter.nbytes} bytes by value"
    return f"the parameter {parameter.name} takes a number of type .{parameter.type}"


def _elements(given: FileArray | FilledArray, index: int) -> NDArray[Any]:
    array = given.make(index)
    if from_dtype(array.dtype) is None and isinstance(given, FileArray):
        # numpy writes bfloat16 and float8 as plain bytes.
        raise SpecError(
            f"{given.path} holds elements of type {array.dtype}, which is not a type of PTX: "
            f"name the type, such as bf16:{given.path}"
        )
    return array


def _by_value(parameter: KernelParameter, given: ArgumentSource, index: int) -> bytes:
    assert isinstance(given, (FileArray, FilledArray))
    if isinstance(given, FilledArray) and given.fill == "unknown":
        raise SpecError(
            f"{_described(parameter)}, got bytes that are not known", hint="give a .npy or .bin file"
        )
    raw = given.make(index).tobytes()
    if len(raw) != parameter.nbytes:
        raise SpecError(f"{_described(parameter)}, got {len(raw)} bytes")
    return raw


def _number(parameter: KernelParameter, number: Number) -> Any:
    """Convert the number to a value for this parameter.

    Raises :class:`SpecError` if the number does not fit.
    """
    kind, given = parameter.type, number.type
    if parameter.by_value:
        raise SpecError(
            f"{_described(parameter)}, got the number {number.value}", hint="give a .npy or .bin file"
        )
    if given is not None and given.bits != kind.bits:
        raise SpecError(f"{_described(parameter)}, got a number of type .{given}")
    if kind.is_float:
        if given is not None and not given.is_float and given.kind != "b":
            raise SpecError(f"{_described(parameter)}, got a number of type .{given}")
        if number.bits or (given is not None and given.kind == "b"):
            return _from_bits(number.value, kind, parameter)
        return float(number.value) if kind.dtype is not None else _whole(number.value, parameter)
    if given is not None and given.is_float and given.dtype is not None:
        bits = number.value if number.bits else _to_bits(number.value, given)
        return _whole(bits, parameter)
    return _whole(number.value, parameter)


def _whole(value: int | float, parameter: KernelParameter) -> int:
    if isinstance(value, float):
        hint = f"; f{parameter.type.bits}:{value} passes its bits" if parameter.type.kind == "b" else ""
        raise SpecError(f"{_described(parameter)}, got {value}{hint}")
    bits = parameter.type.bits
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise SpecError(f"{_described(parameter)}, and {value} does not fit")
    return value


def _to_bits(value: int | float, kind: ScalarType) -> int:
    with np.errstate(over="ignore"):
        raw = np.array(value, np.float64).astype(np.dtype(kind.dtype)).tobytes()
    return int.from_bytes(raw, "little")


def _from_bits(value: int | float, kind: ScalarType, parameter: KernelParameter) -> Any:
    bits = _whole(value, parameter) & ((1 << kind.bits) - 1)
    if kind.dtype is None:
        return bits
    return np.frombuffer(bits.to_bytes(kind.nbytes, "little"), kind.dtype)[0]


def _find(buffers: Mapping[str, LaunchArray], name: str) -> LaunchArray:
    if name not in buffers:
        raise SpecError(f"no array is called {name!r}; the arrays are: {', '.join(buffers) or 'none'}")
    return buffers[name]


def _map(parameter: KernelParameter, buffers: Mapping[str, LaunchArray], given: TensorMapOf) -> TensorMap:
    if parameter.nbytes != 128:
        raise SpecError(f"{_described(parameter)}, got a tensor map, which is 128 bytes by value")
    try:
        return TensorMap.tiled(_find(buffers, given.name).array, **given.options)
    except SpecError as error:
        raise SpecError(f"the tensor map for {parameter.name}: {error.message}", hint=error.hint) from None


def _check_outs(buffers: Sequence[LaunchArray], overwrite: bool) -> None:
    seen: dict[Path, str] = {}
    for buffer in buffers:
        if buffer.out is None:
            continue
        path = buffer.out.resolve()
        if path in seen:
            raise SpecError(f"{buffer.name} and {seen[path]} would both be written to {buffer.out}")
        seen[path] = buffer.name
        if not path.parent.is_dir():
            raise SpecError(f"{buffer.name} cannot be written to {buffer.out}: the folder does not exist")
        if path.exists() and not overwrite:
            raise SpecError(f"{buffer.out} exists: give --overwrite to replace it")
