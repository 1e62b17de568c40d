"""The ``wgmma`` of one stage of a ring: descriptors from the operands' layout, and the step along K.

Owns the arithmetic between "stage ``s`` holds a tile of A and a tile of B" and the descriptors of the
products of one warpgroup.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import SpecError
from ..core.types import ScalarType, u32, u64
from ..dsl import Buffer, NotPred, Reg, ptx, reg
from ..dsl.units.fragments import Fragment
from ..layout import OperandTile
from ..layout.tcgen05_smem_descriptor import Major

__all__ = ["WgmmaMultiply"]

#: Rows of A in one wgmma, the bytes of K that it multiplies, and those of a stage: the swizzle's width.
_ROWS, _K_BYTES, _SPAN = 64, 32, 128


class WgmmaMultiply:
    """The products of one warpgroup with a stage of A and B. Make it in the warpgroup that multiplies.

    ::

        acc = [ptx.wgmma.accumulator(n=256)]
        multiply = kit.WgmmaMultiply(tile_a, tile_b, n=256, k=64, dtype=bf16, first=64 * group)
        slot = consumer.acquire()
        multiply(acc, slot.index)
        ptx.wgmma.commit_group()

    A and B are in stages as :class:`.tma_operand.TmaOperand` loads them, with 128-byte swizzle.

    Records the descriptor of the first stage of A and of B: four instructions each, a ``mov`` that splits
    each of them, and for a register ``first`` the address of its rows.

    Args:
        a, b: buffers with stages.
        n: columns of D, a multiple of 8 up to 256.
        k: elements of K in a stage, 128 bytes.
        dtype, b_type: types that A and B are multiplied as; B's is A's by default.
        first: this warpgroup's first row of A in the tile: a multiple of 64, an int or a register.
        blocks: number of accumulators of 64 rows, one below the other.
        a_major, b_major: ``"K"`` or ``"MN"``.

    Raises:
        SpecError: extents that the swizzle or wgmma do not have.
        OperandError: a type that wgmma cannot multiply MN-major.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async`.
    """

    def __init__(
        self,
        a: Buffer,
        b: Buffer,
        *,
        n: int,
        k: int,
        dtype: ScalarType,
        b_type: ScalarType | None = None,
        first: Reg | int = 0,
        blocks: int = 1,
        a_major: Major = "K",
        b_major: Major = "K",
    ) -> None:
        a_bits, b_bits = 8 * a.dtype.nbytes, 8 * b.dtype.nbytes
        self.dtype, self.b_type = dtype, dtype if b_type is None else b_type
        self.trans_a, self.trans_b = a_major == "MN", b_major == "MN"
        block, columns = OperandTile(_ROWS, k, a_bits, a_major), OperandTile(n, k, b_bits, b_major)
        step = _K_BYTES * 8 // a_bits
        if k * a_bits != _SPAN * 8 or a_bits != b_bits:
            raise SpecError(
                f"k is {k}: expected the elements of both types in {_SPAN} bytes, the swizzle's width"
            )
        self._a, self._b = (
            _First(buffer, tile, first, k * buffer.dtype.nbytes)
            for buffer, tile, first in ((a, block, first), (b, columns, 0))
        )
        whole_a = a.stage_bytes // (k * a_bits // 8)  # rows of A in the tile
        #: Bytes from one block of 64 rows to the next. MN-major rows are in boxes of 64 of 16 bits.
        self._block_bytes = block.nbytes
        if not 0 < blocks * _ROWS <= whole_a:
            raise SpecError(f"{blocks} blocks of {_ROWS} rows are more than the {whole_a} rows of A")
        self.blocks = blocks
        self._a_steps = [block.k_offset(at) for at in range(0, k, step)]
        self._b_steps = [columns.k_offset(at) for at in range(0, k, step)]

    def __call__(
        self, accs: Sequence[Fragment], stage: Reg | int, accumulate: bool | Reg | NotPred = True
    ) -> None:
        """Record ``wgmma.fence`` and the products of a stage, block after block for each step of K.

        Records ``mad.lo`` and ``mov`` for A and for B (``add`` for a known stage), an ``add`` for each
        further descriptor, and ``k`` steps for each block.

        Args:
            accs: the accumulators of the blocks.
            stage: number of the stage.
            accumulate: whether the first step adds to what the accumulators hold; False overwrites them.
        """
        if len(accs) != self.blocks:
            raise SpecError(f"{len(accs)} accumulators: expected {self.blocks}, one for each block")
        a, b = self._a.descriptor(stage), self._b.descriptor(stage)
        ptx.wgmma.fence()
        for i, (a_step, b_step) in enumerate(zip(self._a_steps, self._b_steps, strict=True)):
            right = _moved(b, b_step)
            for block, acc in enumerate(accs):
                ptx.wgmma.mma_async(
                    acc,
                    _moved(a, a_step + block * self._block_bytes),
                    right,
                    atype=self.dtype,
                    btype=self.b_type,
                    trans_a=self.trans_a,
                    trans_b=self.trans_b,
                    scale_d=True if i else accumulate,
                )


class _First:
    """The descriptor of the first stage of an operand."""

    __slots__ = ("_lower", "_stage_bytes", "_upper")

    def __init__(self, buffer: Buffer, tile: OperandTile, first: Reg | int, row_bytes: int) -> None:
        if buffer.stages is None or buffer.swizzle != "128B":
            raise SpecError(f"{buffer!r}: expected stages with 128-byte swizzle")
        self._stage_bytes = buffer.stage_bytes
        desc = ptx.wgmma.descriptor(buffer[0].addr, tile)
        lower, self._upper = ptx.unpack(desc, u32)
        if isinstance(first, Reg):
            moved = reg.scalar(u32)
            ptx.inst.mad.lo.u32(moved, first, row_bytes // 16, lower)
            lower = moved
        elif first:
            lower = lower + first * row_bytes // 16
        self._lower = lower

    def descriptor(self, stage: Reg | int) -> Reg:
        if isinstance(stage, Reg):
            lower = reg.scalar(u32)
            ptx.inst.mad.lo.u32(lower, stage, self._stage_bytes // 16, self._lower)
        else:
            lower = self._lower + stage * self._stage_bytes // 16 if stage else self._lower
        return ptx.pack(lower, self._upper, to=u64)


def _moved(desc: Reg, nbytes: int) -> Reg:
    return ptx.wgmma.advance(desc, nbytes) if nbytes else desc
