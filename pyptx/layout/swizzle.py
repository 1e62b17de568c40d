"""The swizzles of shared memory, as functions of the address.

Owns the XOR that TMA, wgmma, tcgen05 and hand-written code share.  The swizzle uses bits of the *absolute*
shared-memory address, not of the offset from a tile's start [measured on an H200: destinations 128, 384 and
512 bytes past a 1024-byte boundary].  See `PTX ISA, #tensor-swizzling-modes`_.

.. _PTX ISA, #tensor-swizzling-modes:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-swizzling-modes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..core.errors import SpecError, UnsupportedError
from ..core.tuples import NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "COPY_SWIZZLES",
    "SWIZZLE_BYTES",
    "SWIZZLE_PERIOD",
    "check_copy_swizzle",
    "check_swizzle",
    "swizzle",
    "swizzle_mask",
    "swizzle_pattern",
]

#: Span of each mode in bytes: the width of a row, within which 16-byte chunks are permuted (0: no
#: permutation).
SWIZZLE_BYTES: dict[str, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}

#: Alignment in bytes with which a tile starts at row 0 of a mode's pattern, for the modes that operands in
#: shared memory have. The pattern repeats after so many bytes (with 32-byte atoms after half of them).
SWIZZLE_PERIOD: dict[str, int] = {"none": 16, "32B": 256, "64B": 512, "128B": 1024, "128B_ATOM_32B": 1024}

#: Span of each mode of tensor copies, including the modes that permute atoms of more than 16 bytes.
COPY_SWIZZLES: dict[str, int] = {
    **SWIZZLE_BYTES,
    "128B_ATOM_32B": 128,
    "128B_ATOM_32B_FLIP_8B": 128,
    "128B_ATOM_64B": 128,
}

_NOT_MODELED = (*(mode for mode in COPY_SWIZZLES if mode not in SWIZZLE_BYTES), "96B")
_MASK = {"none": 0, "32B": 1, "64B": 3, "128B": 7}


class _Pattern(NamedTuple):
    """One swizzle: ``(address >> 7) & mask`` is XORed onto bits from ``shift`` on; odd rows flip ``flip``."""

    mask: int
    shift: int
    flip: int = 0


_PATTERNS = {
    **{mode: _Pattern(mask, 4) for mode, mask in _MASK.items()},
    "128B_ATOM_32B": _Pattern(3, 5),
    "128B_ATOM_32B_FLIP_8B": _Pattern(3, 5, 8),
    "128B_ATOM_64B": _Pattern(1, 6),
}

Address = TypeVar("Address", int, "npt.NDArray[np.integer[Any]]")


def check_swizzle(mode: str) -> str:
    """Return ``mode`` if it is the name of a swizzle in :data:`SWIZZLE_BYTES`.

    Raises:
        UnsupportedError: the hardware has the mode, but pyptx does not model it yet.
        SpecError: there is no such mode.
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
    """Return ``mode`` if it is one of :data:`COPY_SWIZZLES`. Raises the errors of :func:`check_swizzle`."""
    return mode if mode in COPY_SWIZZLES else check_swizzle(mode)


def swizzle_mask(mode: str) -> int:
    """Return the mask of the row bits 7..9 in use: 0, 1, 3 or 7. Raises as :func:`check_swizzle`."""
    return _MASK[check_swizzle(mode)]


def swizzle_pattern(mode: str) -> tuple[int, int]:
    """Return (mask, shift) of a mode that flips no halves: ``a ^ (((a >> 7) & mask) << shift)``.

    Args:
        mode: a name of :data:`COPY_SWIZZLES`.

    Raises:
        SpecError, UnsupportedError: :func:`check_copy_swizzle` refuses the mode.
        SpecError: the mode exchanges halves of 16 bytes too.
    """
    mask, shift, flip = _PATTERNS[check_copy_swizzle(mode)]
    if flip:
        raise SpecError(f"the swizzle mode {mode!r} also exchanges halves of 16 bytes in odd rows")
    return mask, shift


def swizzle(address: Address, mode: str) -> Address:
    """Return the swizzled address of the byte with the unswizzled shared address ``address``.

    ``a ^ (((a >> 7) & m) << 4)``: bits 7..9, the row within the pattern, are XORed onto bits 4..6, the
    16-byte chunk within the row.  Modes with atoms of 32 and 64 bytes XOR fewer row bits onto higher bits, so
    that an atom stays whole; with the flip, the 8-byte halves of each 16 bytes change places in odd rows.
    Applying the function twice gives the original address.

    Args:
        address: an absolute shared-memory byte address, or an integer array of them.
        mode: a name of :data:`COPY_SWIZZLES`.

    Raises:
        SpecError, UnsupportedError: :func:`check_copy_swizzle` refuses the mode.
    """
    mask, shift, flip = _PATTERNS[check_copy_swizzle(mode)]
    row = address >> 7
    moved = address ^ ((row & mask) << shift)
    return moved ^ ((row & 1) * flip) if flip else moved
