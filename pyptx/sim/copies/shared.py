"""Reads and writes the elements of a tensor copy in shared memory: row after row, through the swizzle.

The swizzle acts on absolute shared-memory addresses. Rows that are shorter than the swizzle's span begin one
span apart (measured on an H200, for every swizzle); the bytes between them stay unchanged. Source: PTX ISA,
`#tensor-swizzling-modes`_.

.. _#tensor-swizzling-modes:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-swizzling-modes
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...layout.swizzle import COPY_SWIZZLES, swizzle
from ..memory.access import AccessKind, Footprint, Proxy, StateSpace
from ..memory.segments import Actor

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["read_shared", "write_shared"]

Bytes = NDArray[np.uint8]

#: Types of 8 and 16 bytes that numpy moves whole. Complex numbers serve only as 16 opaque bytes.
_CARRIERS: dict[int, Any] = {8: np.uint64, 16: np.complex128}


def _unit(mode: str) -> int:
    """Return how many bytes the swizzle moves together: 8 or 16."""
    return 8 if mode.endswith("FLIP_8B") else 16


@lru_cache(maxsize=1024)
def _order(low: int, rows: int, row: int, mode: str) -> NDArray[np.int64]:
    """Return, for ``rows`` rows of ``row`` bytes, the number of each swizzle unit in shared memory.

    The rows begin ``low`` bytes after a multiple of 1024 bytes, from which the units are counted.
    """
    unit = _unit(mode)
    pitch = COPY_SWIZZLES[mode] or row
    linear = low + pitch * np.arange(rows, dtype=np.int64)[:, None] + np.arange(0, row, unit)
    units = np.asarray(swizzle(linear.reshape(-1), mode)) // unit
    units.setflags(write=False)
    return units


def _in_units(data: Bytes, unit: int) -> NDArray[Any]:
    return data[: data.size // unit * unit].view(_CARRIERS[unit])


def _place(
    cta: CTA,
    kind: AccessKind,
    address: int,
    nbytes: int,
    row: int,
    mode: str,
    actor: Actor,
    kept: NDArray[np.bool_] | None = None,
) -> tuple[Any, NDArray[np.int64]]:
    """Check an access to a box at ``address``; return its segment, and which swizzle units hold the box.

    ``kept`` flags the bytes of a read that must have been written; None means all.
    """
    if address % 128:
        raise cta.machine.fault(
            "misaligned",
            f"tensor copy at shared address {address:#x}, which is not a multiple of 128",
            actor,
        )
    unit = _unit(mode)
    # Shared memory starts at a multiple of 1024, so offsets and addresses share their pattern bits.
    units = _order(address & 1023, nbytes // row, row, mode)
    pitch = COPY_SWIZZLES[mode] or row
    whole = pitch == row and kept is None
    segment, offset = cta.machine.memory.access(
        kind,
        StateSpace.SHARED,
        address,
        nbytes // row * pitch,
        actor,
        cta.cluster_memory,
        Proxy.ASYNC,
        align=1,
        check_written=whole,
        announce=False,
    )
    units = units + (offset & ~1023) // unit
    cta.machine.memory.announce(kind, segment, lambda: Footprint(units * unit, unit), actor, Proxy.ASYNC)
    if not whole and segment.written is not None:
        written = _in_units(segment.written, unit).view(np.uint8).reshape(-1, unit)
        if kind is AccessKind.WRITE:
            written[units] = 1
        else:
            needed = np.ones((len(units), unit), np.bool_) if kept is None else kept.reshape(-1, unit)
            missing = needed & (written[units] == 0)
            if missing.any():
                first = int(np.argmax(missing.any(axis=1)))
                position = unit * int(units[first]) + int(np.argmax(missing[first]))
                known = written[units][needed]
                cta.machine.memory.report_unwritten(segment, position, nbytes, known, actor)
    return segment, units


def write_shared(cta: CTA, address: int, data: Bytes, row: int, mode: str, actor: Actor) -> None:
    """Write rows of ``row`` bytes to shared memory through the swizzle."""
    segment, units = _place(cta, AccessKind.WRITE, address, data.size, row, mode, actor)
    unit = _unit(mode)
    _in_units(segment.data, unit)[units] = _in_units(data, unit)


def read_shared(
    cta: CTA,
    address: int,
    nbytes: int,
    row: int,
    mode: str,
    actor: Actor,
    kept: NDArray[np.bool_] | None = None,
) -> Bytes:
    """Read ``nbytes``, rows of ``row`` bytes, from shared memory through the swizzle.

    If ``kept`` is given, only the bytes that it marks must have been written.
    """
    segment, units = _place(cta, AccessKind.READ, address, nbytes, row, mode, actor, kept)
    return _in_units(segment.data, _unit(mode))[units].view(np.uint8)
