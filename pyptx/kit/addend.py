"""A matrix that an epilogue adds to the accumulator: ``acc + beta * C``, with C loaded by TMA.

Owns the loads of C into the staging buffer of :func:`.wgmma_epilogue.through_shared`.  A box of C comes into
the stage where the warp then writes the box of D, which has the same type and layout; each lane adds the
words that it replaces.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import b32, b64, f16, f32, u32
from ..dsl import Buffer, Reg, TensorMapReg, ptx, reg, smem
from ..dsl.operands import Addr
from ..dsl.units.fragments import Fragment
from .outputs import check_output
from .staging import ROWS, check_staging

__all__ = ["Addend"]


class Addend:
    """``beta * C`` for the epilogues of one warp. The constructor records nothing.

    ::

        addend = kit.Addend(staging, beta=0.5, warps=8)
        with kit.single_thread(warp, 0):
            addend.init()
            ...
        addend.begin(C.tma_desc(), warp=warp - 4, leader=leader)        # in each warp that stores
        with tiles.loop() as tile:
            addend.prefetch((column, row))                              # as early as the tile is known
            ...
            kit.wgmma_epilogue.through_shared(acc, staging, ..., addend=addend)

    Args:
        staging: the buffer of ``through_shared``.
        beta: the factor of C, a number.
        warps: number of warps that share ``staging``.

    Raises:
        SpecError: the staging buffer has another shape, or fewer rows than the warps need.
        SharedMemoryError: there is no room for the barriers: 8 bytes for each warp and stage.
    """

    def __init__(self, staging: Buffer, *, beta: float, warps: int) -> None:
        check_output(staging.dtype)
        self._span = check_staging(staging)
        if staging.shape[0] < ROWS * warps:
            raise SpecError(f"{staging!r} has fewer than {ROWS} rows for each of {warps} warps")
        assert staging.stages is not None
        self.staging, self.beta, self.warps, self.depth = staging, beta, warps, staging.stages
        self._barriers = smem.alloc(warps * self.depth, b64, name="c_full")

    def init(self) -> None:
        """Initialize the barriers, in one thread. Records an ``mbarrier.init`` for each warp and stage."""
        for number in range(self.warps * self.depth):
            ptx.mbarrier.init(ptx.addr(self._barriers.addr, 8 * number), 1)

    def begin(self, source: TensorMapReg, *, warp: Reg | int, leader: Reg) -> None:
        """Bind C's tensor map and this warp's place, which are those of ``through_shared``.

        Records ``mov``, ``mad.lo.u32``, and the addresses of the warp's boxes.
        """
        self._source, self._leader, self._warp = source, leader, warp
        self._phase = reg.scalar(u32, init=0)
        self._own = reg.scalar(u32)
        ptx.inst.mad.lo.u32(self._own, reg.scalar(u32, init=0) + warp, 8 * self.depth, self._barriers.addr)
        self._boxes = [self.staging[i].rows(warp * ROWS, ROWS) for i in range(self.depth)]

    def prefetch(self, coord: tuple[Reg | int, ...]) -> None:
        """Load the first box of each stage; ``coord`` is that of the next ``through_shared``.

        The leader waits until the engine has read what the warp stored before.  Records a guarded block with
        ``cp.async.bulk.wait_group.read`` and, for each stage, ``mbarrier.arrive.expect_tx``, the copy and an
        ``add``; and the ``add`` of the warp's rows.
        """
        column, row, *matrix = coord
        self._coord = (column, (self._warp & 3) * ROWS + row, *matrix)
        with ptx.if_(self._leader):
            ptx.cp.async_.bulk.wait_group(0, read=True)
            for stage in range(self.depth):
                self._load(stage)
        ptx.warp.sync()  # so that the lanes wait for the next stage of the product together

    def _load(self, number: int) -> None:
        stage = number % self.depth
        barrier = ptx.addr(self._own, 8 * stage)
        box = self._boxes[stage]
        ptx.mbarrier.arrive_expect_tx(barrier, ROWS * self._span)
        column, *others = self._coord
        first = column + number * (self._span // self.staging.dtype.nbytes)
        copy = ptx.cp.async_.bulk.tensor_3d if len(self._coord) == 3 else ptx.cp.async_.bulk.tensor_2d
        copy(dst=box, src=self._source, coord=(first, *others), mbar=barrier)

    def wait(self, number: int) -> None:
        """Wait for box ``number`` of the tile. Records a wait, and an ``xor`` in every other round."""
        odd = number // self.depth & 1
        ptx.mbarrier.wait(
            ptx.addr(self._own, 8 * (number % self.depth)), self._phase ^ 1 if odd else self._phase
        )

    def add(self, values: Fragment, place: Addr, below: int) -> None:
        """Add ``beta * C`` to the registers of 32 bytes of columns; ``below`` bytes lie to the row 8 below.

        Records two ``ld.shared.v2`` and four ``fma``; for a 16-bit type an ``ldmatrix``, ``bar.warp.sync``,
        and for each of eight elements an ``fma`` and what converts it to f32.
        """
        dtype = self.staging.dtype
        if dtype is f32:
            words = reg.array(f32, 4)
            ptx.inst.ld.shared.v2.f32(words[:2], place)
            ptx.inst.ld.shared.v2.f32(words[2:], ptx.addr(place.base, place.offset + below))
            numbers = list(words)
        else:
            packed = reg.array(b32, 4)
            ptx.ldmatrix(packed, place)
            # The lanes have read the words that other lanes of the warp replace.
            ptx.warp.sync()
            numbers = [half for word in packed for half in _halves(word, dtype is f16)]
        for value, number in zip(values, numbers, strict=True):
            ptx.inst.fma.rn.f32(value, number, self.beta, value)

    def refill(self, number: int, boxes: int) -> None:
        """Load the next box into the stage of box ``number``, once the engine has read it; by the leader."""
        if number + self.depth < boxes:
            ptx.cp.async_.bulk.wait_group(0, read=True)
            self._load(number + self.depth)

    def advance(self, boxes: int) -> None:
        """Go on to the next tile, after ``boxes`` boxes.

        Records an ``xor`` for an odd number of rounds, and ``bar.warp.sync``.
        """
        if boxes // self.depth & 1:
            self._phase ^= 1
        ptx.warp.sync()  # the leader may have waited alone in its last block


def _halves(word: Reg, half_precision: bool) -> tuple[Reg, Reg]:
    """Return the two elements of a word as f32, the lower one first."""
    if not half_precision:
        return (word << 16).view(f32), (word & 0xFFFF0000).view(f32)  # a bf16 is the upper half of an f32
    numbers = []
    for part in ptx.unpack(word, f16):
        wide = reg.scalar(f32)
        ptx.inst.cvt.f32.f16(wide, part)
        numbers.append(wide)
    return numbers[0], numbers[1]
