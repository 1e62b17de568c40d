"""An operand tile of ``tcgen05.mma`` in shared memory: how it is stored, and the descriptors that follow.

Owns :class:`OperandTile`: byte offsets of a descriptor, and the step along K, from the tile's extents, its
major-ness and its swizzle.  See `PTX ISA, #tcgen05-strides`_ and ``#tcgen05-canonical-layouts``.

.. _PTX ISA, #tcgen05-strides:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-strides
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import SpecError, UnsupportedError
from .swizzle import SWIZZLE_PERIOD
from .tcgen05_smem_descriptor import (
    ATOM_32B,
    OPERAND_SWIZZLES,
    Major,
    Tcgen05SmemDescriptor,
    check_operand_swizzle,
)
from .wgmma_descriptor import box_strides

__all__ = ["OperandTile"]

_SEE = "tcgen05-shared-memory-layout-swizzling"
_UNSWIZZLED = 16  # bytes of a row without a swizzle


@dataclass(frozen=True, slots=True, init=False)
class OperandTile:
    """A tile of A or B as TMA leaves it: boxes one behind the other, each as wide as the swizzle.

    K-major: each box has all rows, and ``span`` bytes of K.  MN-major: each box has all of K, and ``span``
    bytes of M or N.  ``span`` is the swizzle's width; 16 bytes without a swizzle.

    Attributes:
        rows: extent along M (of A) or N (of B), in elements.
        k: extent along K, in elements as stored: half of K for a sparse A.
        element_bits: what one element takes: 4 (mxf4 kinds), 8 (f8f6f4, mxf8f6f4 and i8: also for types of 4
            and 6 bits), 16 or 32.
        major: ``"K"`` or ``"MN"``: the dimension whose neighbors are adjacent in memory.
        swizzle: a name of :data:`~pyptx.layout.tcgen05_smem_descriptor.OPERAND_SWIZZLES`.

    Raises:
        SpecError: extents that do not fill boxes, or a swizzle that does not go with type and major-ness.
        UnsupportedError: K-major with 32-byte atoms.
    """

    rows: int
    k: int
    element_bits: int
    major: Major = "K"
    swizzle: str = "128B"

    # Not generated: errors name the author's line, and generated code has none.
    def __init__(
        self, rows: int, k: int, element_bits: int, major: Major = "K", swizzle: str = "128B"
    ) -> None:
        for name, value in (
            ("rows", rows),
            ("k", k),
            ("element_bits", element_bits),
            ("major", major),
            ("swizzle", swizzle),
        ):
            object.__setattr__(self, name, value)
        check_operand_swizzle(self.swizzle)
        if self.major not in ("K", "MN"):
            raise SpecError(f"major = {self.major!r} is neither 'K' nor 'MN'", see=_SEE)
        if self.element_bits not in (4, 8, 16, 32):
            raise SpecError(f"element_bits = {self.element_bits} is not 4, 8, 16 or 32", see=_SEE)
        self._check_swizzle()
        self._check_extents()

    def _check_swizzle(self) -> None:
        if self.major == "K":
            if self.swizzle == ATOM_32B:
                raise UnsupportedError(
                    f"a K-major tile with swizzle {ATOM_32B!r} is not modeled yet; other swizzles are",
                    see=_SEE,
                )
        elif self.element_bits == 4 or (self.element_bits == 32) != (self.swizzle == ATOM_32B):
            raise SpecError(
                f"an MN-major tile of {self.element_bits}-bit elements with swizzle {self.swizzle!r}: "
                f"8 and 16 bits take any but {ATOM_32B!r}, 32 bits that alone, 4 bits must be K-major",
                see="tcgen05-transpose-and-negate-operations",
            )

    def _check_extents(self) -> None:
        k_major = self.major == "K"
        along, across = (self.k, self.rows) if k_major else (self.rows, self.k)
        names = ("K", "rows") if k_major else ("rows", "K")
        if along < 1 or along * self.element_bits % (8 * self.span):
            raise SpecError(
                f"{names[0]} of {along} elements of {self.element_bits} bits are "
                f"{along * self.element_bits / 8:g} bytes: a {self.major}-major tile with swizzle "
                f"{self.swizzle!r} has rows of a multiple of {self.span} bytes",
                hint="choose a narrower swizzle or a wider tile",
                see=_SEE,
            )
        if across < self.atom or across % self.atom:
            raise SpecError(
                f"{names[1]} = {across} of a {self.major}-major tile with swizzle {self.swizzle!r} "
                f"is not a multiple of {self.atom}",
                see=_SEE,
            )

    @property
    def span(self) -> int:
        """Bytes of one row of a box."""
        return OPERAND_SWIZZLES[self.swizzle] or _UNSWIZZLED

    @property
    def atom(self) -> int:
        """Rows of a box after which the canonical layout repeats: 8, or 4 of 32-byte atoms."""
        return 4 if self.swizzle == ATOM_32B else 8

    @property
    def nbytes(self) -> int:
        """Bytes of the tile."""
        return self.rows * self.k * self.element_bits // 8

    @property
    def alignment(self) -> int:
        """Bytes to whose multiple the tile is aligned, so that the base offset is 0."""
        return SWIZZLE_PERIOD["128B" if self.swizzle == ATOM_32B else self.swizzle]

    @property
    def _box_rows(self) -> int:
        return self.rows if self.major == "K" else self.k

    @property
    def _strides(self) -> tuple[int, int]:
        if self.swizzle == ATOM_32B:
            return self._box_rows * self.span, self.atom * self.span
        return box_strides(self._box_rows, self.span, self.swizzle, self.major)

    @property
    def leading_bytes(self) -> int:
        """The leading dimension byte offset; 16 where it is not used."""
        return self._strides[0]

    @property
    def stride_bytes(self) -> int:
        """The stride dimension byte offset."""
        return self._strides[1]

    def k_offset(self, first: int) -> int:
        """Bytes from the tile's start to the part that begins at element ``first`` of K.

        Raises:
            SpecError: outside the tile, or where no descriptor can start.
        """
        step = 128 // self.element_bits if self.major == "K" else self.atom
        if not 0 <= first < self.k or first % step:
            raise SpecError(
                f"first = {first} is not a multiple of {step} elements of K below {self.k}", see=_SEE
            )
        if self.major == "MN":
            return first * self.span
        byte = first * self.element_bits // 8
        return byte // self.span * self._box_rows * self.span + byte % self.span

    def descriptor(self, address: int = 0, *, first: int = 0, base_offset: int = 0) -> Tcgen05SmemDescriptor:
        """The descriptor of the tile at ``address``, from element ``first`` of K on.

        Raises:
            SpecError: as :meth:`k_offset`.
        """
        return Tcgen05SmemDescriptor(
            address + self.k_offset(first), self.leading_bytes, self.stride_bytes, self.swizzle, base_offset
        )
