"""The swizzles of shared memory, as functions of the address.

Owns the XOR that TMA, wgmma, tcgen05 and hand-written code share.  It acts on *absolute* shared-memory
address bits, never on the offset from a tile's start [measured on an H200: destinations 128, 384 and
512 bytes past a 1024-byte boundary].  See `PTX ISA, #tensor-swizzling-modes`_.

.. _PTX ISA, #tensor-swizzling-modes:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-swizzling-modes
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.errors import SpecError, UnsupportedError

__all__ = [
    "COPY_SWIZZLES",
    "SWIZZLE_BYTES",
    "SWIZZLE_PERIOD",
    "check_copy_swizzle",
    "check_swizzle",
    "swizzle",
    "swizzle_mask",
]

#: Span of each mode in bytes: the width of the row whose 16-byte chunks are permuted (0: no permutation).
SWIZZLE_BYTES: dict[str, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}

#: Bytes after which a mode's pattern repeats: the alignment at which a tile starts with row 0 of it.
SWIZZLE_PERIOD: dict[str, int] = {"none": 16, "32B": 256, "64B": 512, "128B": 1024}

#: Span of each mode that a tensor copy can have: also those that move atoms of more than 16 bytes.
COPY_SWIZZLES: dict[str, int] = {
    **SWIZZLE_BYTES,
    "128B_ATOM_32B": 128,
    "128B_ATOM_32B_FLIP_8B": 128,
    "128B_ATOM_64B": 128,
}

_NOT_MODELED = (*(mode for mode in COPY_SWIZZLES if mode not in SWIZZLE_BYTES), "96B")
_MASK = {"none": 0, "32B": 1, "64B": 3, "128B": 7}


class _Pattern(NamedTuple):
    """Row bits ``mask``, from bit 7, are XORed onto those from ``shift``; odd rows flip the bit ``flip``."""

    mask: int
    shift: int
    flip: int = 0


_PATTERNS = {
    **{mode: _Pattern(mask, 4) for mode, mask in _MASK.items()},
    "128B_ATOM_32B": _Pattern(3, 5),
    "128B_ATOM_32B_FLIP_8B": _Pattern(3, 5, 8),
    "128B_ATOM_64B": _Pattern(1, 6),
}

Address = TypeVar("Address", int, npt.NDArray[np.integer[Any]])


def check_swizzle(mode: str) -> str:
    """``mode`` itself, if it is one of :data:`SWIZZLE_BYTES`.

    Raises:
        UnsupportedError: a mode of the hardware that pyptx does not model yet.
        SpecError: anything else.
    """
    if mode in SWIZZLE_BYTES:
        return mode
    if mode in _NOT_MODELED:
        raise UnsupportedError(
            f"the swizzle mode {mode!r} is not modeled yet; supported are {', '.join(SWIZZLE_BYTES)}",
            see="tensor-swizzling-modes",
        )
    raise SpecError(
        f"there is no swizzle mode {mode!r}; expected one of {', '.join(SWIZZLE_BYTES)}",
        see="tensor-swizzling-modes",
    )


def check_copy_swizzle(mode: str) -> str:
    """``mode`` itself, if it is one of :data:`COPY_SWIZZLES`. Raises as :func:`check_swizzle`."""
    return mode if mode in COPY_SWIZZLES else check_swizzle(mode)


def swizzle_mask(mode: str) -> int:
    """How many of the row bits 7..9 take part: 0, 1, 3 or 7. Raises as :func:`check_swizzle`."""
    return _MASK[check_swizzle(mode)]


def swizzle(address: Address, mode: str) -> Address:
    """Where the byte with the unswizzled shared address ``address`` really lies.

    ``a ^ (((a >> 7) & m) << 4)``: bits 7..9, the row within the pattern, are XORed onto bits 4..6, the
    16-byte chunk within the row.  Atoms of 32 and 64 bytes stay whole: fewer row bits are XORed further up,
    and with the flip the 8-byte halves of 16 bytes change places in odd rows.  Applying it twice gives the
    address back.

    Args:
        address: an absolute shared-memory byte address, or an integer array of them.
        mode: a name of :data:`COPY_SWIZZLES`.

    Raises:
        SpecError, UnsupportedError: as :func:`check_copy_swizzle`.
    """
    mask, shift, flip = _PATTERNS[check_copy_swizzle(mode)]
    row = address >> 7
    moved = address ^ ((row & mask) << shift)
    return moved ^ ((row & 1) * flip) if flip else moved
