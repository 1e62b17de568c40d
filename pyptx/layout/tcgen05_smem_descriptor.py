"""The shared-memory descriptor of tcgen05, and the address of every element that it describes.

Owns the 64-bit word (:class:`Tcgen05SmemDescriptor`) and the canonical operand layouts behind it
(:func:`element_addresses`, :func:`tile_offsets`); :mod:`.operand_tile` derives the word from a tile.  The
layouts are those of CUTLASS, ``cute/arch/mma_sm100_desc.hpp``; the word is
`PTX ISA, #tcgen05-shared-memory-descriptor`_.

Lengths are in bytes, in units of ``uint128`` only where a layout is quoted.  Row ``r`` is the M (or N)
index of the operand, ``k`` its K index.  One instruction consumes 32 bytes of K.

.. _PTX ISA, #tcgen05-shared-memory-descriptor:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-shared-memory-descriptor
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..core.errors import SpecError, UnsupportedError
from .swizzle import SWIZZLE_BYTES, swizzle_mask

__all__ = [
    "ATOM_32B",
    "TCGEN05_K_MAJOR_128B",
    "OPERAND_SWIZZLES",
    "Major",
    "Tcgen05SmemDescriptor",
    "byte_field",
    "check_address",
    "check_operand_swizzle",
    "element_addresses",
    "tile_offsets",
]

Major = Literal["K", "MN"]

#: Everything but the address of a K-major operand with 128-byte swizzle and 1024 bytes between its
#: 8-row groups: OR it with ``(address & 0x3FFFF) >> 4``.
TCGEN05_K_MAJOR_128B = 0x4000404000010000

_SEE = "tcgen05-shared-memory-descriptor"

_ADDRESS_MASK = 0x3FFFF  # 18 bits: 256 KiB of one CTA
_FIELD_BYTES = 0x3FFF << 4  # the largest value of a 14-bit field in units of 16 bytes

#: The swizzle of MN-major operands of 4 bytes: 32-byte atoms, bits 7 and 8 of an address onto bits 5 and 6.
ATOM_32B = "128B_ATOM_32B"

#: Swizzle modes of an operand: bytes of the rows whose parts are permuted (0: no permutation).
OPERAND_SWIZZLES: dict[str, int] = {**SWIZZLE_BYTES, ATOM_32B: 128}

_CODES = {"none": 0, ATOM_32B: 1, "128B": 2, "64B": 4, "32B": 6}
_MODES = {code: mode for mode, code in _CODES.items()}
_RESERVED = (0x3 << 14) | (0x3 << 30) | (0xFF << 53)


def check_operand_swizzle(mode: str) -> str:
    """``mode`` itself, if it is one of :data:`OPERAND_SWIZZLES`.

    Raises:
        SpecError: it is none.
    """
    if mode not in OPERAND_SWIZZLES:
        raise SpecError(
            f"there is no swizzle mode {mode!r} of an operand; expected one of {', '.join(OPERAND_SWIZZLES)}",
            see=_SEE,
        )
    return mode


def check_address(address: int, base_offset: int, swizzle: str, *, see: str) -> None:
    """What every descriptor of an operand in shared memory asks of its address and base offset.

    Raises :class:`SpecError` with the value given.
    """
    if address % 16 or not 0 <= address < 1 << 32 or address & 0xFC0000:
        raise SpecError(
            f"address = {address:#x} is not a multiple of 16 in the 256 KiB of a CTA "
            f"(bits 18..23 must be 0, bits 24..31 are the CTA's rank)",
            see=see,
        )
    if not 0 <= base_offset <= 7:
        raise SpecError(f"base_offset = {base_offset} is outside 0..7", see=see)
    if base_offset and swizzle == "none":
        raise SpecError(
            f"base_offset = {base_offset} with swizzle 'none': without a pattern it must be 0",
            see=see,
        )


def byte_field(name: str, value: int) -> int:
    """The 14 bits of a descriptor that hold ``value`` bytes, or :class:`SpecError`."""
    if value % 16 or not 0 <= value <= _FIELD_BYTES:
        raise SpecError(
            f"{name} = {value} bytes is not a multiple of 16 between 0 and {_FIELD_BYTES}",
            hint="the descriptor holds 14 bits in units of 16 bytes",
            see=_SEE,
        )
    return value >> 4


@dataclass(frozen=True, slots=True)
class Tcgen05SmemDescriptor:
    """What a tcgen05 instruction is told about an operand in shared memory.

    Attributes:
        address: shared address of the first element, a multiple of 16. Bits 24 and up, the CTA's rank in
            its cluster, do not fit the word and are dropped: each CTA means its own shared memory.
        leading_bytes: K-major without swizzle: to the next 16 bytes along K. MN-major with swizzle: to
            the next swizzle-wide group along M/N; without: to the next 8 along K. K-major with
            swizzle: not used (compilers write 16).
        stride_bytes: K-major: to the next 8 rows. MN-major with swizzle: to the next 8 along K; without:
            to the next 16 bytes along M/N.
        swizzle: ``"none"``, ``"32B"``, ``"64B"``, ``"128B"`` or ``"128B_ATOM_32B"``.
        base_offset: 0 when the swizzle pattern starts at a multiple of its period (1024, 512, 256
            bytes), otherwise ``(pattern start >> 7) & 7``.
        leading_mode: 0 for ``leading_bytes`` relative; 1 for the shared address of what follows the row's
            128 bytes (sm_103a, K = 96: with 128-byte swizzle, K-major, without a base offset).
    """

    address: int
    leading_bytes: int
    stride_bytes: int
    swizzle: str
    base_offset: int = 0
    leading_mode: int = 0

    def encode(self) -> int:
        """The 64-bit word.

        Raises:
            SpecError: a value that is misaligned, does not fit its field or does not go with another.
        """
        check_operand_swizzle(self.swizzle)
        check_address(self.address, self.base_offset, self.swizzle, see=_SEE)
        if self.leading_mode not in (0, 1):
            raise SpecError(f"leading_mode = {self.leading_mode} is neither 0 nor 1", see=_SEE)
        self._check_absolute()
        return (
            (self.address & _ADDRESS_MASK) >> 4  # 0-13   start address / 16
            | byte_field("leading_bytes", self.leading_bytes) << 16  # 16-29  leading byte offset / 16
            | byte_field("stride_bytes", self.stride_bytes) << 32  # 32-45  stride byte offset / 16
            | 0b001 << 46  # 46-48  constant 0b001
            | self.base_offset << 49  # 49-51  matrix base offset
            | self.leading_mode << 52  # 52     leading dimension: 0 relative, 1 absolute
            | _CODES[self.swizzle] << 61  # 61-63  0 none, 1 128B of 32B atoms, 2 128B, 4 64B, 6 32B
        )

    def _check_absolute(self) -> None:
        if self.leading_mode and (self.swizzle != "128B" or self.base_offset):
            raise SpecError(
                f"leading_mode = 1 with swizzle {self.swizzle!r}, base_offset = {self.base_offset}: "
                "an absolute address needs swizzle '128B' and base offset 0",
                see="tcgen05-leading-dimension-byte-offset-absolute-address-restriction",
            )

    @staticmethod
    def decode(word: int) -> Tcgen05SmemDescriptor:
        """The descriptor that ``word`` encodes; ``address`` is its low 18 bits.

        Raises:
            SpecError: not a tcgen05 descriptor: wrong constant in bits 46-48, a reserved bit that is
                set, an invalid swizzle code, or an absolute address with what it does not go with.
        """
        if not 0 <= word < 1 << 64:
            raise SpecError(f"a shared-memory descriptor is an unsigned 64-bit word, got {word:#x}", see=_SEE)
        if (word >> 46) & 0b111 != 0b001:
            raise SpecError(
                f"bits 46-48 of the descriptor {word:#018x} are {(word >> 46) & 7:#05b}, expected 0b001",
                hint="a wgmma descriptor has no such constant and does not fit tcgen05",
                see=_SEE,
            )
        if word & _RESERVED:
            raise SpecError(
                f"reserved bits of the descriptor {word:#018x} are set ({word & _RESERVED:#018x}); "
                "bits 14-15, 30-31 and 53-60 must be 0",
                hint="mask the address with 0x3FFFF before shifting it into the word",
                see=_SEE,
            )
        code = word >> 61
        if code not in _MODES:
            raise SpecError(
                f"swizzle code {code} in bits 61-63 of the descriptor {word:#018x} is invalid; "
                "expected 0 (none), 1 (128B of 32B atoms), 2 (128B), 4 (64B) or 6 (32B)",
                see=_SEE,
            )
        descriptor = Tcgen05SmemDescriptor(
            address=(word & 0x3FFF) << 4,
            leading_bytes=((word >> 16) & 0x3FFF) << 4,
            stride_bytes=((word >> 32) & 0x3FFF) << 4,
            swizzle=_MODES[code],
            base_offset=(word >> 49) & 7,
            leading_mode=(word >> 52) & 1,
        )
        descriptor._check_absolute()
        return descriptor


def _linear_offsets(
    rows: int, k: int, element_bytes: int, major: Major, mode: str, leading: int, stride: int
) -> npt.NDArray[np.int64]:
    """Unswizzled byte offsets from the start address, ``[rows, k]``."""
    span = OPERAND_SWIZZLES[mode]
    if major == "K":
        # none ((8,n),2):((1,SBO),LBO); 32B ((8,n),2):((2,SBO),1); 64B ..(4,SBO); 128B ..(8,SBO)
        r = np.arange(rows, dtype=np.int64)[:, None]
        byte = np.arange(k, dtype=np.int64)[None, :] * element_bytes
        next_chunk = 16 if span else leading
        return r % 8 * (span or 16) + r // 8 * stride + byte // 16 * next_chunk + byte % 16
    # none ((1,n),(8,k)):((X,SBO),(1,LBO)); 32B ((2,n),(8,k)):((1,LBO),(2,SBO)); 64B 4; 128B 8;
    # 128B of 32B atoms ((8,n),(4,k)):((1,LBO),(8,SBO))
    byte = np.arange(rows, dtype=np.int64)[:, None] * element_bytes
    i = np.arange(k, dtype=np.int64)[None, :]
    if span == 0:
        return byte // 16 * stride + byte % 16 + i % 8 * 16 + i // 8 * leading
    atom = 4 if mode == ATOM_32B else 8
    return byte // span * leading + byte % span + i % atom * span + i // atom * stride


@lru_cache(maxsize=512)
def _tile_offsets(
    low_address: int,
    leading: int,
    stride: int,
    mode: str,
    base_offset: int,
    rows: int,
    k: int,
    element_bytes: int,
    major: Major,
) -> npt.NDArray[np.int64]:
    span = OPERAND_SWIZZLES[check_operand_swizzle(mode)]
    if major not in ("K", "MN"):
        raise SpecError(f"major = {major!r} is neither 'K' nor 'MN'")
    if element_bytes not in (1, 2, 4):
        raise SpecError(f"element_bytes = {element_bytes} is not 1, 2 or 4")
    if major == "K":
        if mode == ATOM_32B:
            raise UnsupportedError(
                f"a K-major operand with swizzle {mode!r} is not modeled yet; other swizzles are", see=_SEE
            )
        k_bytes = k * element_bytes
        if rows < 8 or rows % 8 or k < 1 or k_bytes % 16 or (span and k_bytes > span):
            limit = f" up to the swizzle's {span}" if span else ""
            raise SpecError(
                f"a K-major tile of {rows} rows x {k} elements of {element_bytes} bytes does not fit swizzle "
                f"{mode!r}: rows must be a multiple of 8, K a multiple of 16 bytes{limit} (it is {k_bytes})"
            )
    else:
        if (element_bytes == 4) != (mode == ATOM_32B):
            raise SpecError(
                f"an MN-major operand of {element_bytes}-byte elements with swizzle {mode!r}: "
                f"4-byte elements need {ATOM_32B!r}, others any but that",
                hint="or store the operand K-major",
                see="tcgen05-transpose-and-negate-operations",
            )
        if rows < 1 or rows * element_bytes % 16 or k < 8 or k % 8:
            raise SpecError(
                f"an MN-major tile of {rows} rows x {k} elements of {element_bytes} bytes: the rows must "
                f"fill a multiple of 16 bytes (they are {rows * element_bytes}), k be a multiple of 8"
            )
    linear = low_address + _linear_offsets(rows, k, element_bytes, major, mode, leading, stride)
    # The row of the pattern is counted from where the pattern starts, base_offset * 128 bytes past
    # a 1024-byte boundary; with base_offset 0 these are the absolute bits 7..9.
    row = (linear >> 7) - base_offset
    offsets = linear ^ ((row & 3) << 5 if mode == ATOM_32B else (row & swizzle_mask(mode)) << 4)
    offsets.flags.writeable = False
    return offsets


def tile_offsets(
    descriptor: Tcgen05SmemDescriptor, rows: int, k: int, element_bytes: int, major: Major
) -> npt.NDArray[np.int64]:
    """Byte offset of each element of an operand tile from ``descriptor.address & ~1023``.

    Cached on everything but the address bits above the 1024-byte pattern, so that a simulator pays for
    each *kind* of tile once: ``memory[(address & ~1023) + tile_offsets(...)]``.

    Args:
        descriptor: where the tile starts and how it is laid out.
        rows: extent along M or N; a multiple of 8 (K-major), or filling a multiple of 16 bytes (MN-major).
        k: elements along K. One instruction takes 32 bytes' worth: 16 two-byte elements.
        element_bytes: 1, 2 or 4.
        major: ``"K"`` or ``"MN"``: the dimension whose neighbors are adjacent in memory.

    Returns:
        A read-only ``int64[rows, k]``, swizzle included.

    Raises:
        SpecError: a tile that the canonical layouts cannot express.
        UnsupportedError: absolute leading dimension (``leading_mode`` 1); K-major with 32-byte atoms.
    """
    if descriptor.leading_mode:
        raise UnsupportedError(
            "the absolute leading dimension mode (descriptor bit 52, sm_103a) is not modeled yet", see=_SEE
        )
    return _tile_offsets(
        descriptor.address & 1023,
        descriptor.leading_bytes,
        descriptor.stride_bytes,
        descriptor.swizzle,
        descriptor.base_offset,
        rows,
        k,
        element_bytes,
        major,
    )


def element_addresses(
    descriptor: Tcgen05SmemDescriptor, rows: int, k: int, element_bytes: int, major: Major
) -> npt.NDArray[np.int64]:
    """Absolute shared address of each element of an operand tile, ``int64[rows, k]``.

    The unswizzled address comes first, from the descriptor's start address and strides; the swizzle
    then acts on its absolute bits.  Arguments and errors are those of :func:`tile_offsets`.
    """
    return (descriptor.address & ~1023) + tile_offsets(descriptor, rows, k, element_bytes, major)
