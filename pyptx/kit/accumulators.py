"""Accumulators in tensor memory that the products and the epilogue of a persistent kernel hand to each other.

Owns the allocation of the columns and the protocol between the two sides.  With two accumulators the tensor
core works on one tile while the epilogue loads the previous one::

    tensor core    tile 0 in D[0]   tile 1 in D[1]   tile 2 in D[0]   ...
    epilogue                        loads D[0]       loads D[1]       loads D[0]

Each accumulator has two mbarriers, as a stage of :class:`.ring.Ring` has: ``full`` completes a phase when a
commit says that all products have been added, ``empty`` when every warp of the epilogue has loaded its
lanes.  With ``parts`` each part of the columns has an ``empty`` of its own, so that the products of the next
tile begin in columns that are free while the epilogue still loads the others.  For a pair of CTAs the commit
signals ``full`` of both CTAs, and the warps of both signal ``empty`` of the even CTA, whose thread issues the
products.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import b32, b64
from ..dsl import Reg, ptx, reg, smem
from ..dsl.operands import Addr
from ..layout import COLUMNS
from .ring import Ring, Slot

__all__ = ["Accumulator", "AccumulatorReader", "AccumulatorWriter", "Accumulators"]

_SMALLEST = 32


class Accumulator:
    """One accumulator of the ring.

    Attributes:
        tmem: its address in tensor memory, lane 0 and first column, a b32 register.
        slot: its number and mbarriers.
    """

    __slots__ = ("slot", "tmem")

    def __init__(self, tmem: Reg, slot: Slot) -> None:
        self.tmem = tmem
        self.slot = slot

    def __repr__(self) -> str:
        return f"<accumulator {self.slot.index} at {self.tmem}>"


class Accumulators:
    """A ring of accumulators in tensor memory. The constructor records nothing.

    ::

        accumulators = kit.Accumulators(2, 256, readers=4)
        with ptx.if_(first_warp), ptx.if_(ptx.warp.elect()):
            accumulators.init()
            ptx.fence.mbarrier_init()
        with ptx.if_(second_warp):
            accumulators.alloc()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        base = accumulators.base()

        writer = accumulators.writer(base)          # in one thread
        with tiles.loop() as tile:
            acc = writer.acquire()
            ...                                     # tcgen05.mma into acc.tmem
            writer.commit()
        writer.drain()

        reader = accumulators.reader(base)          # in each warp of the epilogue
        with tiles.loop() as tile:
            acc = reader.acquire()
            ...                                     # tcgen05.ld from acc.tmem, tcgen05.wait::ld
            reader.release(leader)

    Args:
        count: number of accumulators.
        columns: columns of each, ``n`` of the product; ``count * columns`` is at most 512.
        readers: number of warps of the epilogue in one CTA.
        cta_group: 1, or 2 for a pair of CTAs.
        parts: number of parts of equal width that the epilogue hands back one by one. The products then need
            as many instructions for each step of K (``parts`` of :class:`.stage_multiply.StageMultiply`).
        name: prefix of the names of the mbarriers.

    Raises:
        SpecError: a number that is not positive, more columns than tensor memory has, or columns that the
            parts do not divide.
        SharedMemoryError: there is no room for the barriers and the address, ``8 * count * (1 + parts) + 4``
            bytes.

    PTX ISA: `#tcgen05-memory-alloc-manage-instructions`.
    """

    def __init__(
        self,
        count: int,
        columns: int,
        *,
        readers: int,
        cta_group: int = 1,
        parts: int = 1,
        name: str = "acc",
    ) -> None:
        for what, value in (("count", count), ("columns", columns), ("readers", readers), ("parts", parts)):
            if type(value) is not int or value < 1:
                raise SpecError(f"{what} is {value!r}: expected a positive number")
        if cta_group not in (1, 2):
            raise SpecError(f"cta_group is {cta_group!r}: expected 1 or 2", see="tcgen05-cta-pair")
        if count * columns > COLUMNS:
            raise SpecError(
                f"{count} accumulators of {columns} columns are {count * columns} columns: "
                f"tensor memory has {COLUMNS}",
                see="tensor-memory-addressing",
            )
        if columns % parts:
            raise SpecError(f"{parts} parts do not divide {columns} columns")
        self.count = count
        self.parts = parts
        self.columns = columns
        self.cta_group = cta_group
        #: Columns that are allocated: a power of two.
        self.allocated = max(_SMALLEST, 1 << (count * columns - 1).bit_length())
        self.ring = Ring(count, consumers=readers * cta_group, name=name)
        #: ``empty`` of each part but the first, whose barrier is the ring's.
        self._empties = [smem.alloc(count, b64, name=f"{name}_empty_{part}") for part in range(1, parts)]
        self._slot = smem.alloc(1, b32, name=f"{name}_tmem")

    def __repr__(self) -> str:
        return f"<{self.count} accumulators of {self.columns} columns, cta_group {self.cta_group}>"

    def init(self) -> None:
        """Initialize the mbarriers; call it in one thread. Records ``count * (1 + parts)`` ``mbarrier.init``.

        What :meth:`.ring.Ring.init` says about other threads and CTAs applies.
        """
        self.ring.init()
        for empty in self._empties:
            for number in range(self.count):
                ptx.mbarrier.init(ptx.addr(empty.addr, 8 * number), self.ring.consumers)

    def alloc(self) -> None:
        """Allocate the columns; call it in one whole warp (of each CTA of a pair).

        Records ``tcgen05.alloc`` and ``tcgen05.relinquish_alloc_permit``.
        """
        ptx.tcgen05.alloc(self._slot, self.allocated, cta_group=self.cta_group)
        ptx.tcgen05.relinquish_alloc_permit(cta_group=self.cta_group)

    def base(self) -> Reg:
        """Return the address of the first column, a b32 register. Records one ``ld.shared.b32``.

        Watch out: a barrier must order the call after :meth:`alloc`.
        """
        return smem.load(b32, self._slot)

    def dealloc(self, base: Reg) -> None:
        """Free the columns; call it in one whole warp (of each CTA of a pair). Records ``tcgen05.dealloc``.

        Watch out: a barrier (of the cluster, for a pair) must order the call after every access.
        """
        ptx.tcgen05.dealloc(base, self.allocated, cta_group=self.cta_group)

    def writer(self, base: Reg) -> AccumulatorWriter:
        """Return the side that multiplies. Records two ``mov``: accumulator 0, phase 1."""
        return AccumulatorWriter(self, base)

    def reader(self, base: Reg) -> AccumulatorReader:
        """Return the side that loads; ``base`` may have the warp's lane added. Records two ``mov``."""
        return AccumulatorReader(self, base)

    def _empty(self, slot: Slot, part: int, leader: bool) -> Addr:
        """Return the address of a part's ``empty``; with ``leader``, in the even CTA (one ``and.b32``)."""
        empty = slot.leader_empty() if leader else slot.empty
        if part == 0:
            return empty
        first, other = self.ring.empty, self._empties[part - 1]
        return ptx.addr(empty.base, empty.offset + other.offset - first.offset)

    def _place(self, base: Reg, index: Reg | int) -> Reg:
        """Return the address of the first column of an accumulator. Records one ``mad.lo.u32``."""
        tmem = reg.scalar(b32)
        ptx.inst.mad.lo.u32(tmem, index, self.columns, base)
        return tmem


class AccumulatorWriter:
    """The thread that issues the products. Made by :meth:`Accumulators.writer`."""

    def __init__(self, accumulators: Accumulators, base: Reg) -> None:
        self._accumulators = accumulators
        self._base = base
        self._producer = accumulators.ring.producer()
        self._slot: Slot | None = None

    def acquire(self) -> Accumulator:
        """Wait until the epilogue has loaded what the current accumulator held.

        Records 5 instructions and a label: :meth:`.ring.Producer.acquire`,
        ``tcgen05.fence::after_thread_sync`` and ``mad.lo.u32``.
        """
        self._slot = self._producer.acquire()
        ptx.tcgen05.fence_after_thread_sync()
        return Accumulator(self._accumulators._place(self._base, self._slot.index), self._slot)

    def wait_part(self, part: int) -> None:
        """Wait until the epilogue has loaded a part of what the current accumulator held.

        :meth:`acquire` has waited for part 0. Records 3 instructions and a label: ``ptx.mbarrier.wait`` and
        ``tcgen05.fence::after_thread_sync``.

        Raises:
            SpecError: there is no such part, or no accumulator was acquired.
        """
        if self._slot is None:
            raise SpecError("wait_part() before acquire(): no accumulator was acquired")
        if not 1 <= part < self._accumulators.parts:
            raise SpecError(f"part is {part}: expected 1..{self._accumulators.parts - 1}")
        ptx.mbarrier.wait(self._accumulators._empty(self._slot, part, False), self._producer.phase)
        ptx.tcgen05.fence_after_thread_sync()

    def commit(self, multicast: Reg | None = None) -> None:
        """Signal ``full`` when the products issued so far have completed, and step to the next accumulator.

        Records ``tcgen05.commit`` and :meth:`.ring.Producer.advance`.

        Args:
            multicast: for a pair of CTAs, mask of both, a 16-bit register that holds 3.

        Raises:
            SpecError: no mask for a pair, or no accumulator was acquired.
        """
        group = self._accumulators.cta_group
        if (multicast is None) != (group == 1):
            raise SpecError(
                f"multicast is {multicast!r} and cta_group is {group}: a pair of CTAs needs the mask of both"
                if group == 2
                else f"multicast is {multicast!r}, but the accumulators belong to one CTA",
                see="tcgen05-instructions-tcgen05-commit",
            )
        if self._slot is None:
            raise SpecError("commit() before acquire(): no accumulator was acquired")
        ptx.tcgen05.commit(self._slot.full, multicast=multicast, cta_group=group)
        self._producer.advance()

    def drain(self) -> None:
        """Wait until the epilogue has loaded every accumulator.

        No arrival of the epilogue is on its way to this CTA afterwards.  Records a ``ptx.for_`` over the
        accumulators with :meth:`.ring.Producer.acquire`, for each further part a ``ptx.mbarrier.wait``, and
        :meth:`.ring.Producer.advance`.
        """
        with ptx.for_(0, self._accumulators.count):
            slot = self._producer.acquire()
            for part in range(1, self._accumulators.parts):
                ptx.mbarrier.wait(self._accumulators._empty(slot, part, False), self._producer.phase)
            self._producer.advance()


class AccumulatorReader:
    """A warp of the epilogue. Made by :meth:`Accumulators.reader`."""

    def __init__(self, accumulators: Accumulators, base: Reg) -> None:
        self._accumulators = accumulators
        self._base = base
        self._consumer = accumulators.ring.consumer()
        self._slot: Slot | None = None
        #: Columns of the current accumulator whose parts were released.
        self._released = 0

    def acquire(self) -> Accumulator:
        """Wait until all products of the current accumulator have been added.

        Records 5 instructions and a label: :meth:`.ring.Consumer.acquire`,
        ``tcgen05.fence::after_thread_sync`` and ``mad.lo.u32``.
        """
        self._slot = self._consumer.acquire()
        self._released = 0
        ptx.tcgen05.fence_after_thread_sync()
        return Accumulator(self._accumulators._place(self._base, self._slot.index), self._slot)

    def release(self, leader: Reg, columns: int | None = None) -> None:
        """Signal that the warp has loaded its lanes; the registers may be used afterwards.

        Call it after ``tcgen05.wait::ld``: once, after all columns, or after each load with the number of
        columns loaded so far (``read=`` of the epilogues). Then it records something only where a part ends.
        Records ``tcgen05.fence::before_thread_sync``,
        ``bar.warp.sync`` and, under ``leader``, ``mbarrier.arrive``; for a pair an ``and.b32`` before it,
        since the arrival goes to the even CTA.  :meth:`advance` steps to the next accumulator.

        Args:
            leader: predicate that is true in one lane of the warp.
            columns: number of columns loaded so far, from the first one; default: all.

        Raises:
            SpecError: no accumulator was acquired.
        """
        accumulators, slot = self._accumulators, self._slot
        if slot is None:
            raise SpecError("release() before acquire(): no accumulator was acquired")
        width = accumulators.columns // accumulators.parts
        loaded = accumulators.columns if columns is None else columns
        ends = range(self._released + width, loaded + 1, width)
        if not ends:
            return
        ptx.tcgen05.fence_before_thread_sync()
        ptx.warp.sync()
        for end in ends:
            empty = accumulators._empty(slot, end // width - 1, accumulators.cta_group == 2)
            if accumulators.cta_group == 1:
                ptx.mbarrier.arrive(empty, pred=leader)
            else:
                ptx.mbarrier.arrive(empty, space="cluster", pred=leader)
        self._released = ends[-1]

    def advance(self) -> None:
        """Step to the next accumulator. Records what :meth:`.ring.Consumer.advance` does."""
        self._consumer.advance()
