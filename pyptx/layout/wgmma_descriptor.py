"""The matrix descriptor of ``wgmma``, which describes an operand in shared memory.

Owns the 64-bit descriptor (:class:`WgmmaDescriptor`) and the byte offsets for a tile made of TMA boxes
(:func:`box_strides`).  The canonical layouts are those of tcgen05: :meth:`WgmmaDescriptor.operand` returns
the descriptor that :func:`~pyptx.layout.element_addresses` takes.  Sources: `PTX ISA,
#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor`_ and CUTLASS
``cute/arch/mma_sm90_desc.hpp``, ``cute/atom/mma_traits_sm90_gmma.hpp``.

.. _PTX ISA, #asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.records import dataclass
from .swizzle import SWIZZLE_BYTES, SWIZZLE_PERIOD, check_swizzle
from .tcgen05_smem_descriptor import Major, Tcgen05SmemDescriptor, byte_field, check_address

__all__ = ["WgmmaDescriptor", "box_strides"]

_SEE = "asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor"

_CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
_MODES = {code: mode for mode, code in _CODES.items()}
_RESERVED = 0x3 << 14 | 0x3 << 30 | 0x7 << 46 | 0x3FF << 52


@dataclass(frozen=True, slots=True)
class WgmmaDescriptor:
    """The description of an operand in shared memory for a wgmma instruction.

    Attributes:
        address: shared address of the first element, a multiple of 16; bits 24 and up, the CTA's rank in its
            cluster, do not fit the descriptor and are dropped.
        leading_bytes: distance in bytes. K-major without swizzle: to the next 16 bytes along K. MN-major with
            swizzle: to the next swizzle-wide group along M/N; without: to the next 8 elements along K.
            K-major with swizzle: not used.
        stride_bytes: distance in bytes. K-major: to the next 8 rows. MN-major with swizzle: to the next 8
            elements along K; without: to the next 16 bytes along M/N.
        swizzle: ``"none"``, ``"32B"``, ``"64B"`` or ``"128B"``.
        base_offset: 0 if the swizzle pattern starts at a multiple of its period (1024, 512, 256 bytes),
            otherwise ``(pattern start >> 7) & 7``.
    """

    address: int
    leading_bytes: int
    stride_bytes: int
    swizzle: str
    base_offset: int = 0

    def encode(self) -> int:
        """Return the descriptor as a 64-bit number.

        Raises:
            SpecError: a value is misaligned or does not fit its field.
            UnsupportedError: wgmma does not have the swizzle mode.
        """
        check_swizzle(self.swizzle)
        check_address(self.address, self.base_offset, self.swizzle, see=_SEE)
        return (
            (self.address & 0x3FFFF) >> 4  # 0-13   start address / 16
            | byte_field("leading_bytes", self.leading_bytes) << 16  # 16-29  leading byte offset / 16
            | byte_field("stride_bytes", self.stride_bytes) << 32  # 32-45  stride byte offset / 16
            | self.base_offset << 49  # 49-51  matrix base offset
            | _CODES[self.swizzle] << 62  # 62-63  0 none, 1 128B, 2 64B, 3 32B
        )

    @staticmethod
    def decode(word: int) -> WgmmaDescriptor:
        """Return the descriptor that ``word`` encodes; ``address`` has only its low 18 bits.

        Raises:
            SpecError: ``word`` does not fit 64 bits, or a reserved bit is set.
        """
        if not 0 <= word < 1 << 64:
            raise SpecError(f"a matrix descriptor is an unsigned 64-bit word, got {word:#x}", see=_SEE)
        if word & _RESERVED:
            raise SpecError(
                f"reserved bits of the descriptor {word:#018x} are set ({word & _RESERVED:#018x}); "
                "bits 14-15, 30-31, 46-48 and 52-61 must be 0",
                hint="a tcgen05 descriptor has 0b001 in bits 46-48 and does not fit wgmma",
                see=_SEE,
            )
        return WgmmaDescriptor(
            address=(word & 0x3FFF) << 4,
            leading_bytes=((word >> 16) & 0x3FFF) << 4,
            stride_bytes=((word >> 32) & 0x3FFF) << 4,
            swizzle=_MODES[word >> 62],
            base_offset=(word >> 49) & 7,
        )

    def operand(self) -> Tcgen05SmemDescriptor:
        """Return the tcgen05 descriptor of the same operand; the canonical layouts are the same."""
        return Tcgen05SmemDescriptor(
            self.address, self.leading_bytes, self.stride_bytes, self.swizzle, self.base_offset
        )


def box_strides(rows: int, row_bytes: int, swizzle: str, major: Major) -> tuple[int, int]:
    """Return ``(leading_bytes, stride_bytes)`` for a tile of TMA boxes that lie one after the other.

    Args:
        rows: rows of one box, along M or N (K-major) or along K (MN-major); a multiple of 8.
        row_bytes: bytes of a row, along K (K-major) or along M or N (MN-major); the swizzle's width, or 16
            without a swizzle.
        swizzle: ``"none"``, ``"32B"``, ``"64B"`` or ``"128B"``.
        major: ``"K"`` or ``"MN"``: the dimension whose neighbors are adjacent in memory.

    Raises:
        SpecError: no descriptor can describe such boxes.
    """
    span = SWIZZLE_BYTES[check_swizzle(swizzle)] or 16
    if major not in ("K", "MN"):
        raise SpecError(f"major is {major!r}: expected 'K' or 'MN'", see=_SEE)
    if row_bytes != span:
        raise SpecError(
            f"rows of {row_bytes} bytes with swizzle {swizzle!r}: a descriptor needs rows of {span} bytes",
            hint="split a wider tile into boxes of that width, or give the distances as leading= and stride=",
            see=_SEE,
        )
    if rows < 8 or rows % 8:
        raise SpecError(
            f"a box of {rows} rows: expected a multiple of 8, since the pattern repeats every 8 rows "
            f"({SWIZZLE_PERIOD[swizzle] if swizzle != 'none' else 8 * span} bytes)",
            see=_SEE,
        )
    box, eight = rows * span, 8 * span
    if major == "K" and swizzle != "none":
        return 16, eight  # hardware does not use the first
    # Without a swizzle, the two fields of an MN-major operand change places.
    return (eight, box) if major == "MN" and swizzle == "none" else (box, eight)
