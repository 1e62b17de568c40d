"""The products of one stage: every ``tcgen05.mma`` along K on a stage of shared memory, of any kind.

A may be in tensor memory.

Owns the instruction descriptor, the descriptors of the operands, and their steps from stage to stage and
along K.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.errors import SpecError
from ..core.types import ScalarType, u32, u64
from ..dsl import Buffer, NotPred, Reg, ptx, reg
from ..dsl.operands import Addr
from ..layout import InstructionDescriptor, OperandTile
from ..layout.tcgen05_smem_descriptor import Major

__all__ = ["StageMultiply"]

#: Columns of tensor memory that A takes for one product: 32 bytes of K in each lane.
_A_COLUMNS = 8


class StageMultiply:
    """The products of one stage, ``D += A @ B.T``, with A and B in stages of shared memory.

    The constructor records the descriptors of stage 0, 10 instructions. A call records the products of one
    stage.  Make it in the thread that issues them::

        multiply = kit.StageMultiply(tile_a, tile_b, m=128, n=256, k=64)
        slot = consumer.acquire()
        ptx.tcgen05.fence_after_thread_sync()
        multiply(acc.tmem, slot.index, accumulate=k != 0)
        ptx.tcgen05.commit(slot.empty)

    Args:
        a, b: the operands with their stages and swizzle, as TMA writes them
            (:class:`pyptx.layout.OperandTile`). With ``cta_group=2`` each CTA holds ``m / 2`` rows of A and
            ``n / 2`` rows of B. ``a=None``: A is in tensor memory, as :func:`.operand_a.store_a` writes it.
        m, n: rows and columns of D; with ``cta_group=2``, of the pair.
        k: elements of K in one stage.
        kind: ``"f16"``, ``"tf32"``, ``"f8f6f4"`` or ``"i8"``.
        a_type, b_type: types of the elements; default: those of the buffers. A in tensor memory needs its
            type.
        d_type: type of D; default: f32, or s32 for i8.
        a_major, b_major: ``"K"`` or ``"MN"``.
        cta_group: 1, or 2 for a pair of CTAs.
        parts: number of parts of D's columns, each with instructions of its own: as in
            :class:`.accumulators.Accumulators`. Part ``p`` multiplies rows ``p * n / parts`` and on of B,
            which must be K-major and as wide as its swizzle; of a pair, each CTA holds half of each part.

    Attributes:
        idesc: the instruction descriptor, a number.
        steps: number of products in one stage and part.

    Raises:
        SpecError: a shape or type that the kind does not have, or a buffer of another size than its tile.

    PTX ISA: `#tcgen05-mma-instructions-mma`.
    """

    def __init__(
        self,
        a: Buffer | None,
        b: Buffer,
        *,
        m: int,
        n: int,
        k: int,
        kind: str = "f16",
        a_type: ScalarType | None = None,
        b_type: ScalarType | None = None,
        d_type: ScalarType | None = None,
        a_major: Major = "K",
        b_major: Major = "K",
        cta_group: int = 1,
        parts: int = 1,
    ) -> None:
        if type(parts) is not int or parts < 1 or n % parts:
            raise SpecError(f"parts is {parts!r}: expected a number that divides the {n} columns of D")
        if a is not None:
            a_type = a_type or a.dtype
        elif a_type is None:
            raise SpecError(
                "A is in tensor memory, and a_type is None: expected the type of its elements",
                see="tcgen05-mma-instructions-mma",
            )
        self.kind = kind
        self.cta_group = cta_group
        self.parts = parts
        self.columns = n // parts
        self.idesc = ptx.tcgen05.instruction_descriptor(
            m=m,
            n=self.columns,
            kind=kind,
            a_type=a_type,
            b_type=b_type or b.dtype,
            d_type=d_type,
            a_major=a_major,
            b_major=b_major,
            cta_group=cta_group,
            a_in_tensor_memory=a is None,
        )
        step = InstructionDescriptor.decode(self.idesc, kind, cta_group=cta_group).k
        if k < step or k % step:
            raise SpecError(f"k is {k}: expected a multiple of {step}, K of one product of kind {kind}")
        self.steps = k // step
        tile_a = None if a is None else _tile("a", a, m // cta_group, k, a_major)
        tile_b = _tile("b", b, n // cta_group, k, b_major)
        if parts > 1 and (b_major != "K" or tile_b.k * tile_b.element_bits != 8 * tile_b.span):
            raise SpecError(
                f"parts is {parts}, and B is {tile_b}: expected a K-major tile as wide as its swizzle"
            )
        self._part_bytes = b.nbytes // parts
        along_k = range(0, k, step)
        self._a = None if a is None or tile_a is None else _Operand("a", a, tile_a, along_k)
        self._b = _Operand("b", b, tile_b, along_k)

    def __call__(
        self,
        d_tmem: Reg,
        stage: Reg | int,
        accumulate: bool | Reg | NotPred = True,
        *,
        a_tmem: Reg | None = None,
        idesc: Reg | int | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        """Record the products of one stage.

        Records ``mad.lo`` and ``mov`` for A and for B (for B alone with A in tensor memory), ``steps``
        ``tcgen05.mma`` for each part, an ``add`` for each further descriptor of A and of B, and one for the
        address of each further part.

        Args:
            d_tmem: address of D in tensor memory.
            stage: number of the stage, an int or a u32 register.
            a_tmem: address of A in tensor memory, if the constructor got ``a=None``.
            accumulate: whether the first product of each part adds to what D holds; False overwrites D.
            idesc: the instruction descriptor, if it is not :attr:`idesc`: a b32 register for products whose
                ``n`` is smaller in some tiles. Their B fills the first rows of the stage.
            before: records what precedes the products of each part; gets the number of the part.
        """
        if (a_tmem is None) != (self._a is not None):
            raise SpecError(
                f"a_tmem is {a_tmem!r}, and A is in {'tensor' if self._a is None else 'shared'} memory",
                hint="the address of A in tensor memory is for a StageMultiply that was made with a=None",
            )
        a = None if self._a is None else self._a.descriptor(stage)
        b = self._b.descriptor(stage)
        if self._a is not None and a is not None:
            lefts: list[Reg | Addr] = [_moved(a, offset) for offset in self._a.offsets]
        else:
            assert a_tmem is not None
            lefts = [ptx.addr(a_tmem, _A_COLUMNS * step) for step in range(self.steps)]
        for part in range(self.parts):
            if before is not None:
                before(part)
            place = d_tmem + part * self.columns if part else d_tmem
            for i, (left, offset) in enumerate(zip(lefts, self._b.offsets, strict=True)):
                ptx.tcgen05.mma(
                    place,
                    left,
                    _moved(b, offset + part * self._part_bytes),
                    self.idesc if idesc is None else idesc,
                    kind=self.kind,
                    pred_operand=True if i else accumulate,
                    cta_group=self.cta_group,
                )


class _Operand:
    """An operand in shared memory: its descriptor in stage 0, and the steps from there."""

    __slots__ = ("_lower", "_stage_bytes", "_upper", "offsets")

    def __init__(self, name: str, buffer: Buffer, tile: OperandTile, along_k: range) -> None:
        if buffer.stage_bytes % 16:
            raise SpecError(f"a stage of {name} has {buffer.stage_bytes} bytes: expected a multiple of 16")
        self._stage_bytes = buffer.stage_bytes
        #: Bytes from the first product's place in a stage to that of each product.
        self.offsets = [tile.k_offset(at) for at in along_k]
        desc = ptx.tcgen05.smem_descriptor(buffer[0] if buffer.stages else buffer, tile)
        # The address is in the lower word, so 32 bits suffice for the step to another stage.  The upper word
        # is a constant, which ptxas keeps out of the arithmetic.
        lower, upper = ptx.unpack(desc, u32)
        self._lower, self._upper = lower, upper

    def descriptor(self, stage: Reg | int) -> Reg:
        """Return the descriptor in a stage. Records ``mad.lo`` (``add`` for a known stage) and ``mov``."""
        lower = reg.scalar(u32)
        if isinstance(stage, Reg):
            ptx.inst.mad.lo.u32(lower, stage, self._stage_bytes // 16, self._lower)
        else:
            ptx.inst.add.u32(lower, self._lower, stage * self._stage_bytes // 16)
        desc = ptx.pack(lower, self._upper, to=u64)
        return desc


def _moved(descriptor: Reg, nbytes: int) -> Reg:
    """Return the descriptor of a place ``nbytes`` further. Records an ``add`` unless it is the same place."""
    return ptx.tcgen05.advance(descriptor, nbytes) if nbytes else descriptor


def _tile(name: str, buffer: Buffer, rows: int, k: int, major: Major) -> OperandTile:
    tile = OperandTile(rows, k, buffer.dtype.bits, major, buffer.swizzle)
    if tile.nbytes != buffer.nbytes:
        raise SpecError(
            f"{name} is {buffer!r} with {buffer.nbytes} bytes, but {rows} rows of {k} elements of K are "
            f"{tile.nbytes} bytes",
            hint="with cta_group=2 each CTA holds half of the rows of A and of B",
        )
    return tile
