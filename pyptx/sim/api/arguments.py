"""Maps the arguments of a launch: arrays into global memory, everything else into parameter bytes.

A parameter that is a C struct by value takes a sequence of its members or a mapping from offsets to members.
Each member of a sequence goes to the next multiple of its alignment. A pointer parameter also takes a list of
arrays: it then points at a table of their addresses. It also takes a tensor map or a list of tensor maps: it
then points at their bytes, one map after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.arrays import ArrayInfo, describe, host_bytes, is_array
from ...core.errors import SpecError
from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...ir import Param
from ...layout.tensor_map import TensorMap
from ...layout.tensor_map_image import IMAGE_BYTES
from ..code.program import EntryProgram
from ..memory.access import StateSpace
from ..memory.address_space import Memory
from ..memory.segments import Segment

__all__ = ["Mapped", "MappedArray", "bases_of", "bind_arguments", "unwritten_outputs"]

#: The largest number of bytes of an entry's parameters (since PTX 8.1).
_MOST_PARAMETER_BYTES = 32_764


@dataclass(frozen=True)
class MappedArray:
    """An array in global memory, named after the first parameter that it was passed for."""

    name: str
    segment: Segment
    info: ArrayInfo

    def unwritten(self) -> Finding | None:
        """Return a finding if elements of the array were never written, else None.

        Returns None also if writes to the array are not tracked.
        """
        if self.segment.written is None or self.segment.written.all():
            return None
        each = np.ndarray(
            (*self.info.shape, self.info.itemsize),
            np.uint8,
            self.segment.written.data,
            0,
            (*self.info.strides, 1),
        )
        each = each.astype(np.bool_)
        missing = ~each.all(axis=-1)
        count = int(np.count_nonzero(missing))
        if not count:
            return None
        where = tuple(int(i) for i in np.unravel_index(int(np.argmax(missing)), missing.shape))
        number = ", ".join(map(str, where))
        return Finding(
            RULES["unwritten-output"],
            f"{self.name}: {count} of {missing.size} elements were never written completely "
            f"({int(np.count_nonzero(~each))} of {each.size} bytes), the first at [{number}]",
        )


#: Arrays that are in global memory, keyed by their address and extent on the host.
Mapped = dict[tuple[int, int], MappedArray]


def bind_arguments(
    memory: Memory, mapped: Mapped, program: EntryProgram, args: Sequence[Any], uninitialized: frozenset[int]
) -> Segment:
    """Map the arrays that are not yet in global memory, and return the parameter space."""
    params = program.function.params
    if len(args) != len(params):
        names = ", ".join(p.name for p in params)
        raise SpecError(
            f"{len(args)} arguments were given, but {program.function.name} takes {len(params)}: {names}"
        )
    if program.entry.param_bytes > _MOST_PARAMETER_BYTES:
        raise SpecError(
            f"the parameters of {program.function.name} have {program.entry.param_bytes} bytes; an entry has "
            f"at most {_MOST_PARAMETER_BYTES}",
            see="kernel-function-parameters",
        )
    raw = np.zeros(max(program.entry.param_bytes, 1), np.uint8)
    # Tensor maps that were made from an address come last: the address lies in an array that another argument
    # maps.
    order = sorted(range(len(params)), key=lambda position: _names_an_address(args[position]))
    for position in order:
        param, value = params[position], args[position]
        offset = program.entry.symbols[param.name][1]
        data = _encode(memory, mapped, param, value, position in uninitialized)
        raw[offset : offset + param.nbytes] = np.frombuffer(data, np.uint8)
    return Segment("parameters", StateSpace.PARAM, 0, raw, tracked=False)


def unwritten_outputs(mapped: Mapped, args: Sequence[Any], outputs: frozenset[int]) -> list[Finding]:
    """Return one finding for each array among the ``outputs`` that has elements which were never written."""
    found: dict[tuple[int, int], Finding] = {}
    for position in sorted(outputs):
        key = _place_of(args[position])
        finding = mapped[key].unwritten()
        if finding is not None:
            found.setdefault(key, finding)
    return list(found.values())


def bases_of(mapped: Mapped, args: Iterable[Any]) -> frozenset[int]:
    """Return the addresses in the machine of arrays among the arguments."""
    return frozenset(mapped[_place_of(value)].segment.base for value in args)


def _place_of(value: Any) -> tuple[int, int]:
    """Return where the array of an argument, which may be a tensor map, is found among the mapped ones."""
    return _key(describe(value.array if isinstance(value, TensorMap) else value))


def _names_an_address(value: Any) -> bool:
    """True if the argument is, or contains, a tensor map that was created from an address."""
    if isinstance(value, TensorMap):
        return value.array is None
    if isinstance(value, Mapping):
        return any(map(_names_an_address, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_names_an_address, value))


def _encode(memory: Memory, mapped: Mapped, param: Param, value: Any, tracked: bool) -> bytes:
    if isinstance(value, TensorMap):
        if param.nbytes == 8 and param.count is None:
            return _place_maps(memory, mapped, param.name, [value], tracked)
        if param.nbytes != IMAGE_BYTES:
            raise SpecError(
                f"a tensor map was given for parameter {param.name}, which has {param.nbytes} bytes",
                hint=f"a parameter that is a map has {IMAGE_BYTES} bytes, a pointer to a map has 8",
            )
        return _encode_map(memory, mapped, param.name, value, tracked)
    if is_array(value) and np.ndim(value) > 0:
        if param.nbytes != 8:
            raise SpecError(
                f"an array was given for parameter {param.name}, which has {param.nbytes} bytes, not 8"
            )
        return _map_array(memory, mapped, param.name, value, tracked).to_bytes(8, "little")
    if isinstance(value, (bytes, np.void)):
        raw = value if isinstance(value, bytes) else value.tobytes()
        if len(raw) != param.nbytes:
            raise SpecError(
                f"{len(raw)} bytes were given for parameter {param.name}, which has {param.nbytes} bytes"
            )
        return raw
    if param.count is not None and isinstance(value, (list, tuple, Mapping)):
        return _encode_struct(memory, mapped, param, value, tracked)
    if _is_list_of_maps(value) and param.nbytes == 8:
        return _place_maps(memory, mapped, param.name, value, tracked)
    if isinstance(value, (list, tuple)) and param.nbytes == 8 and all(map(_is_buffer, value)):
        table = [_map_array(memory, mapped, f"{param.name}[{i}]", v, tracked) for i, v in enumerate(value)]
        addresses = np.array(table, np.uint64)
        return _map_array(memory, mapped, param.name, addresses, tracked=False).to_bytes(8, "little")
    if param.count is not None or isinstance(value, str):
        raise SpecError(
            f"{value!r} was given for parameter {param.name} of {param.nbytes} bytes: pass bytes, a "
            "structured numpy scalar, or a list of the struct's members"
        )
    return _encode_scalar(param, value)


def _is_buffer(value: Any) -> bool:
    return is_array(value) and np.ndim(value) > 0


def _is_list_of_maps(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(v, TensorMap) for v in value)


def _place_maps(memory: Memory, mapped: Mapped, name: str, maps: Sequence[TensorMap], tracked: bool) -> bytes:
    """Place tensor maps in global memory, one after the other, and return the address of the first.

    The address is a multiple of 64. Each launch has its own copy.
    """
    images = b"".join(
        _encode_map(memory, mapped, f"{name}[{i}]" if len(maps) > 1 else name, value, tracked)
        for i, value in enumerate(maps)
    )
    segment = memory.map_global(f"{name} (tensor maps)", np.frombuffer(bytearray(images), np.uint8))
    return segment.base.to_bytes(8, "little")


def _encode_map(memory: Memory, mapped: Mapped, name: str, value: TensorMap, tracked: bool) -> bytes:
    if value.array is not None:
        start = _map_array(memory, mapped, name, value.array, tracked)
        return value.encode(start + value.address - describe(value.array).pointer)
    for array in mapped.values():
        inside = value.address - array.info.pointer
        if 0 <= inside < array.info.extent:
            return value.encode(array.segment.base + inside)
    raise SpecError(
        f"the tensor map for {name} was made from the address {value.address:#x}, which lies in no array of "
        "this launch",
        hint="make the map of the array itself, or pass the array as another argument",
    )


def _encode_struct(memory: Memory, mapped: Mapped, param: Param, value: Any, tracked: bool) -> bytes:
    """Encode a C struct: each member at its alignment or at the offset that a mapping gives.

    All other bytes are zero.
    """
    raw = bytearray(param.nbytes)
    end = 0
    for at, member in _members(value):
        name = f"{param.name}.{end if at is None else at}"
        data, alignment = _encode_member(memory, mapped, name, member, tracked)
        offset = -(-end // alignment) * alignment if at is None else at
        if offset < 0 or offset + len(data) > param.nbytes:
            raise SpecError(
                f"a member of {len(data)} bytes at offset {offset} does not fit parameter {param.name}, "
                f"which has {param.nbytes} bytes"
            )
        raw[offset : offset + len(data)] = data
        end = offset + len(data)
    return bytes(raw)


def _members(value: Any) -> Iterator[tuple[int | None, Any]]:
    """Yield each member of a struct with its offset, or None for the next aligned offset.

    Members of nested structs are yielded in place of the nested struct.
    """
    if isinstance(value, Mapping):
        for offset, member in value.items():
            if type(offset) is not int:
                raise SpecError(f"{offset!r} is not an offset: the keys of a struct's dict are whole numbers")
            yield offset, member
        return
    for member in value:
        if isinstance(member, (list, tuple)):
            yield from _members(member)
        else:
            yield None, member


def _encode_member(memory: Memory, mapped: Mapped, name: str, value: Any, tracked: bool) -> tuple[bytes, int]:
    """Return the bytes of a struct's member, and their alignment."""
    if isinstance(value, TensorMap):
        return _encode_map(memory, mapped, name, value, tracked), 64
    if _is_buffer(value):
        return _map_array(memory, mapped, name, value, tracked).to_bytes(8, "little"), 8
    if isinstance(value, bytes):
        return value, 1
    if isinstance(value, np.generic):
        return value.tobytes(), value.dtype.alignment
    raise SpecError(
        f"{value!r} was given as member {name} of a struct: pass an array (a pointer), a TensorMap, "
        "bytes, or a numpy scalar, whose type gives its size"
    )


def _encode_scalar(param: Param, value: Any) -> bytes:
    number = value.item() if isinstance(value, np.generic) else value
    if param.type.is_float:
        return np.array(number, param.type.dtype).tobytes()
    if isinstance(number, float) and isinstance(value, np.floating):
        # An untyped parameter takes the bits of a numpy float of the parameter's width.
        raw = value.tobytes()
        if len(raw) == param.nbytes:
            return raw
    if not isinstance(number, int):
        raise SpecError(f"{value!r} was given for the integer parameter {param.name} (.{param.type})")
    bits = param.type.bits
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise SpecError(f"{number} does not fit parameter {param.name} (.{param.type})")
    return (number & ((1 << bits) - 1)).to_bytes(param.nbytes, "little")


def _key(info: ArrayInfo) -> tuple[int, int]:
    return (info.pointer, info.extent)


def _map_array(memory: Memory, mapped: Mapped, name: str, array: Any, tracked: bool) -> int:
    info = describe(array)
    if info.device != "cpu":
        raise SpecError(f"{name} is on {info.device}; the simulator takes numpy arrays and CPU tensors")
    key = _key(info)
    found = mapped.get(key)
    if found is None:
        data = host_bytes(array)
        # CUDA allocations are 256-byte aligned; a view that starts inside one is not.
        inside = (info.pointer - _owner_pointer(array, info.pointer)) % 256
        segment = memory.map_global(
            f"{name} {info.shape} {info.type}", data, misalignment=inside, tracked=tracked
        )
        found = mapped[key] = MappedArray(name, segment, info)
    return found.segment.base


def _owner_pointer(array: Any, pointer: int) -> int:
    """Return the address of the allocation that ``array`` is a view of."""
    if isinstance(array, np.ndarray):
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return int(owner.ctypes.data)
    return pointer - int(array.storage_offset()) * int(array.element_size())
