"""The shared-memory descriptor of tcgen05, and the address of every element that it describes.

Owns the 64-bit descriptor (:class:`Tcgen05SmemDescriptor`) and the canonical layouts of the operands that it
describes (:func:`element_addresses`, :func:`tile_offsets`); :mod:`.operand_tile` computes the descriptor of a
tile.  The layouts are those of CUTLASS, ``cute/arch/mma_sm100_desc.hpp``; the fields are those of
`PTX ISA, #tcgen05-shared-memory-descriptor`_.

Lengths are in bytes; only the layouts quoted from CUTLASS are in units of ``uint128``.  Row ``r`` is the M
(or N) index of the operand, ``k`` its K index.  One instruction consumes 32 bytes of K.

.. _PTX ISA, #tcgen05-shared-memory-descriptor:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-shared-memory-descriptor
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..core.errors import SpecError, UnsupportedError
from ..core.records import dataclass
from .swizzle import SWIZZLE_BYTES, swizzle_mask

if TYPE_CHECKING:
    import numpy.typing as npt

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

#: The descriptor of a K-major operand with 128-byte swizzle and 1024 bytes between its 8-row groups, without
#: the address. OR the constant with ``(address & 0x3FFFF) >> 4``.
TCGEN05_K_MAJOR_128B = 0x4000404000010000

_SEE = "tcgen05-shared-memory-descriptor"

_ADDRESS_MASK = 0x3FFFF  # 18 bits address the 256 KiB of one CTA
_FIELD_BYTES = 0x3FFF << 4  # the largest value of a 14-bit field in units of 16 bytes

#: The swizzle of MN-major operands with 4-byte elements. Its atoms have 32 bytes; it XORs bits 7 and 8 of an
#: address onto bits 5 and 6.
ATOM_32B = "128B_ATOM_32B"

#: Swizzle mode of an operand -> bytes of a row, within which the swizzle permutes atoms (0: no permutation).
OPERAND_SWIZZLES: dict[str, int] = {**SWIZZLE_BYTES, ATOM_32B: 128}

_CODES = {"none": 0, ATOM_32B: 1, "128B": 2, "64B": 4, "32B": 6}
_MODES = {code: mode for mode, code in _CODES.items()}
_RESERVED = (0x3 << 14) | (0x3 << 30) | (0xFF << 53)


def check_operand_swizzle(mode: str) -> str:
    """Return ``mode`` if it is the name of an operand's swizzle, one of :data:`OPERAND_SWIZZLES`.

    Raises:
        SpecError: there is no such mode.
    """
    if mode not in OPERAND_SWIZZLES:
        raise SpecError(
            f"there is no swizzle mode {mode!r} of an operand; expected one of {', '.join(OPERAND_SWIZZLES)}",
            see=_SEE,
        )
    return mode


def check_address(address: int, base_offset: int, swizzle: str, *, see: str) -> None:
    """Check the address and the base offset of a descriptor of an operand in shared memory.

    Raises:
        SpecError: the address is misaligned or out of range, or the base offset does not fit.
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
            f"base_offset = {base_offset} with swizzle 'none': without a swizzle base_offset must be 0",
            see=see,
        )


def byte_field(name: str, value: int) -> int:
    """Return the 14-bit field of a descriptor that encodes ``value`` bytes, in units of 16 bytes.

    Raises:
        SpecError: the field cannot hold the value.
    """
    if value % 16 or not 0 <= value <= _FIELD_BYTES:
        raise SpecError(
            f"{name} = {value} bytes is not a multiple of 16 between 0 and {_FIELD_BYTES}",
            hint="the descriptor holds 14 bits in units of 16 bytes",
            see=_SEE,
        )
    return value >> 4


@dataclass(frozen=True, slots=True)
class Tcgen05SmemDescriptor:
    """The description of an operand in shared memory for a tcgen05 instruction.

    Attributes:
        address: shared address of the first element, a multiple of 16. Bits 24 and up, the CTA's rank in
            its cluster, do not fit the descriptor and are dropped: each CTA reads its own shared memory.
        leading_bytes: distance in bytes. K-major without swizzle: to the next 16 bytes along K. MN-major with
            swizzle: to the next swizzle-wide group along M/N; without: to the next 8 elements along K.
            K-major with swizzle: not used (compilers write 16).
        stride_bytes: distance in bytes. K-major: to the next 8 rows. MN-major with swizzle: to the next 8
            elements along K; without: to the next 16 bytes along M/N.
        swizzle: ``"none"``, ``"32B"``, ``"64B"``, ``"128B"`` or ``"128B_ATOM_32B"``.
        base_offset: 0 if the swizzle pattern starts at a multiple of its period (1024, 512, 256 bytes),
            otherwise ``(pattern start >> 7) & 7``.
        leading_mode: 0 if ``leading_bytes`` is a distance; 1 if it is the shared address of the bytes that
            follow the row's 128 bytes (sm_103a, K = 96: K-major, 128-byte swizzle, base offset 0).
    """

    address: int
    leading_bytes: int
    stride_bytes: int
    swizzle: str
    base_offset: int = 0
    leading_mode: int = 0

    def encode(self) -> int:
        """Return the descriptor as a 64-bit number.

        Raises:
            SpecError: a value is misaligned, does not fit its field or contradicts another value.
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
        """Return the descriptor that ``word`` encodes; ``address`` has only its low 18 bits.

        Raises:
            SpecError: ``word`` is not a tcgen05 descriptor: bits 46-48 have the wrong constant, a reserved
                bit is set, the swizzle code is invalid, or an absolute leading address comes with a base
                offset or with another swizzle than ``"128B"``.
        """
        if not 0 <= word < 1 << 64:
            raise SpecError(f"a shared-memory descriptor is an unsigned 64-bit word, got {word:#x}", see=_SEE)
        if (word >> 46) & 0b111 != 0b001:
            raise SpecError(
                f"bits 46-48 of the descriptor {word:#018x} are {(word >> 46) & 7:#05b}, expected 0b001",
                hint="a wgmma descriptor has 0 there; encode the operand with a tcgen05 descriptor",
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
    """Return the unswizzled byte offset of each element from the start address, ``[rows, k]``."""
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
                f"a K-major operand with swizzle {mode!r} is not modeled yet; use another swizzle", see=_SEE
            )
        k_bytes = k * element_bytes
        if rows < 8 or rows % 8 or k < 1 or k_bytes % 16 or (span and k_bytes > span):
            limit = f" up to the swizzle's {span}" if span else ""
            raise SpecError(
                f"a K-major tile of {rows} rows x {k} elements of {element_bytes} bytes does not fit swizzle "
                f"{mode!r}: rows must be a multiple of 8, and K ({k_bytes} bytes) must be a multiple of 16 "
                f"bytes{limit}"
            )
    else:
        if (element_bytes == 4) != (mode == ATOM_32B):
            raise SpecError(
                f"swizzle {mode!r} does not fit an MN-major operand of {element_bytes}-byte elements: "
                f"expected {'' if element_bytes == 4 else 'a swizzle other than '}{ATOM_32B!r}",
                hint="use a swizzle that fits the element size, or store the operand K-major",
                see="tcgen05-transpose-and-negate-operations",
            )
        if rows < 1 or rows * element_bytes % 16 or k < 8 or k % 8:
            raise SpecError(
                f"an MN-major tile of {rows} rows x {k} elements of {element_bytes} bytes: the rows "
                f"({rows * element_bytes} bytes) must fill a multiple of 16 bytes, and k must be a multiple "
                "of 8"
            )
    linear = low_address + _linear_offsets(rows, k, element_bytes, major, mode, leading, stride)
    # The row of the pattern is counted from the start of the pattern, which is base_offset * 128 bytes after
    # a 1024-byte boundary; with base_offset 0 the row is bits 7..9 of the absolute address.
    row = (linear >> 7) - base_offset
    offsets = linear ^ ((row & 3) << 5 if mode == ATOM_32B else (row & swizzle_mask(mode)) << 4)
    offsets.flags.writeable = False
    return offsets


def tile_offsets(
    descriptor: Tcgen05SmemDescriptor, rows: int, k: int, element_bytes: int, major: Major
) -> npt.NDArray[np.int64]:
    """Return the offset in bytes from ``descriptor.address & ~1023`` to each element of an operand tile.

    The simulator reads a tile as ``memory[(address & ~1023) + tile_offsets(...)]``.  The offsets are cached.
    The key of the cache leaves out the address bits above the 1024-byte pattern, so that all tiles of one
    kind share one entry.

    Args:
        descriptor: the start and the layout of the tile.
        rows: extent along M or N. K-major: a multiple of 8. MN-major: fills a multiple of 16 bytes.
        k: number of elements along K. One instruction consumes 32 bytes, for example 16 two-byte elements.
        element_bytes: 1, 2 or 4.
        major: ``"K"`` or ``"MN"``: the dimension whose neighbors are adjacent in memory.

    Returns:
        A read-only ``int64[rows, k]``. The offsets include the swizzle.

    Raises:
        SpecError: the canonical layouts cannot express the tile.
        UnsupportedError: ``leading_mode`` is 1 (absolute address), or the tile is K-major with 32-byte atoms.
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
    """Return the absolute shared address of each element of an operand tile, ``int64[rows, k]``.

    The descriptor's start address and strides give the unswizzled address; the swizzle then permutes bits
    of this absolute address.  Arguments and errors are those of :func:`tile_offsets`.
    """
    return (descriptor.address & ~1023) + tile_offsets(descriptor, rows, k, element_bytes, major)
