"""tensormap.replace and tensormap.cp_fenceproxy, which change and copy a tensor map of 128 bytes in memory.

:mod:`pyptx.layout.tensor_map_image` defines the fields. Only the first 64 bytes hold fields; the other bytes
may have any value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import SpecError
from ...layout.tensor_map_image import FIELDS, IMAGE_BYTES, USED_BYTES
from ..code.semantic import Op, executes
from ..memory.access import AccessKind, MemoryOrder, Proxy, Scope, StateSpace
from ..threads.warp import Split

_FIELDS_BY_FORM = {
    "address": "global_address",
    **{name: name for name in ("rank", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode")},
    "swizzle_atomicity": "swizzle_atomicity",
    "packed_elemtype": "elemtype",
}


#: Code of the 96-byte swizzle in tensormap.replace.
_SWIZZLE_96B = 4


def _replace(s: Split, op: Op, lane: int, address: int, name: str, ordinal: int, value: int) -> None:
    machine = s.warp.cta.machine
    if address % IMAGE_BYTES:
        # The operand is one .b1024 object.
        raise machine.fault(
            "misaligned", f"{op.name} at {address:#x}; expected a multiple of {IMAGE_BYTES}", s
        )
    if name == "swizzle_mode" and value == _SWIZZLE_96B:
        raise machine.fault("not-modeled", f"{op.name}: the 96-byte swizzle is not modeled yet", s)
    if name == "global_stride" and value % 16:
        raise machine.fault("bad-tensor-map", f"{op.name}: {value} bytes; expected a multiple of 16", s)
    segment, offset = s.access_one(AccessKind.READ, op, lane, address, USED_BYTES)
    segment, offset = s.access_one(AccessKind.WRITE, op, lane, address, USED_BYTES)
    place = segment.data[int(offset) : int(offset) + USED_BYTES]
    try:
        image = FIELDS[name].set(int.from_bytes(place.tobytes(), "little"), value, ordinal)
    except SpecError as error:
        raise machine.fault("bad-tensor-map", f"{op.name}: {error.message}", s) from None
    place[:] = np.frombuffer(image.to_bytes(USED_BYTES, "little"), np.uint8)


def replace(s: Split, op: Op, lane: int, address: int, value: int) -> None:
    name: str = op.traits
    bits = 64 if name == "global_address" else 32
    _replace(s, op, lane, address, name, 0, value & (1 << bits) - 1)


for _form, _field in _FIELDS_BY_FORM.items():
    executes(f"tensormap.replace.{_form}", per="lane", traits=_field)(replace)


@executes("tensormap.replace.dim", per="lane")
def replace_dim(s: Split, op: Op, lane: int, address: int, ordinal: int, value: int) -> None:
    _replace(s, op, lane, address, op.chosen["field"], ordinal, value & 0xFFFFFFFF)


@executes("tensormap.replace.stride", per="lane")
def replace_stride(s: Split, op: Op, lane: int, address: int, ordinal: int, value: int) -> None:
    _replace(s, op, lane, address, "global_stride", ordinal, value & (1 << 64) - 1)


@executes("tensormap.cp_fenceproxy", per="warp", collective="warp")
def cp_fenceproxy(s: Split, op: Op, lanes: Any, dst: Any, src: Any, size: Any) -> None:
    """Copy one tensor map with the whole warp; both addresses must be the same in all lanes."""
    s.check_whole_warp(lanes)
    cta = s.warp.cta
    machine = cta.machine
    if (dst != dst[0]).any() or (src != src[0]).any():
        raise machine.fault(
            "divergent-collective", f"{op.name}: the addresses are not the same in all lanes", s
        )
    found = []
    spaces = ((True, StateSpace.SHARED, int(src[0])), (False, StateSpace.GLOBAL, int(dst[0])))
    for reads, space, address in spaces:
        segment, offset = machine.memory.access(
            AccessKind.READ if reads else AccessKind.WRITE,
            space,
            address,
            IMAGE_BYTES,
            s,
            cta.cluster_memory,
            Proxy.GENERIC if reads else Proxy.TENSORMAP,
            MemoryOrder.WEAK if reads else MemoryOrder.RELEASE,
            Scope.NONE if reads else Scope(op.chosen["scope"]),
            align=IMAGE_BYTES,
            check_written=not reads,
        )
        if reads and segment.unwritten(int(offset), USED_BYTES) is not None:
            machine.memory.uninitialized(segment, int(offset), USED_BYTES, 0, s)
        found.append(segment.data[int(offset) : int(offset) + IMAGE_BYTES])
    found[1][:] = found[0]
