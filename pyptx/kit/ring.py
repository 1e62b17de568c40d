"""The pipeline ring: stages of shared memory that producers fill and consumers empty, over and over.

Owns the protocol between the two: a pair of mbarriers for each stage, and the stage and phase that each side
keeps in registers.  Stage ``s`` of the ring has ``full[s]``, which completes a phase when the stage is
filled, and ``empty[s]``, which completes one when it may be filled again::

    stage          0      1      2      3      0      1      2      3      0 ...
    fill           0      1      2      3      4      5      6      7      8
    consumer       waits for full[stage],  parity 0 0 0 0  1 1 1 1  0 ...
    producer       waits for empty[stage], parity 1 1 1 1  0 0 0 0  1 ...

A fresh barrier counts as having completed the phase of parity 1, so the producer's first round waits for
nothing.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import b64, u32
from ..dsl import NotPred, Reg, ptx, reg, smem
from ..dsl.operands import Addr

__all__ = ["Consumer", "Producer", "Ring", "Slot"]

#: Clears the lowest bit of the CTA's rank in a shared address.
_EVEN_CTA = 0xFEFFFFFF


class Slot:
    """One use of one stage.

    Attributes:
        index: the stage, a register or a number: ``buffer[slot.index]``.
        full: address of the mbarrier that says that the stage is filled.
        empty: address of the mbarrier that says that it may be filled again.
    """

    __slots__ = ("empty", "full", "index")

    def __init__(self, index: Reg | int, full: Addr, empty: Addr) -> None:
        self.index = index
        self.full = full
        self.empty = empty

    def leader_full(self) -> Reg:
        """The address of ``full`` in the even CTA of this CTA's pair. Records one ``and.b32``.

        It is what the copies of a pair (``cta_group=2``) signal where the even CTA, the leader, waits for
        both: bit 24 of a shared address is the lowest of the CTA's rank.  Of a stage that is a number, an
        ``add`` comes before.

        PTX ISA: `#tcgen05-cta-pair`.
        """
        address = self.full.base
        assert isinstance(address, Reg)
        if self.full.offset:
            address = address + self.full.offset
        return address & _EVEN_CTA

    def __repr__(self) -> str:
        return f"<slot {self.index}: full {self.full}, empty {self.empty}>"


class Ring:
    """A ring of ``stages``, with its mbarriers in shared memory. Making one records nothing.

    ::

        ring = kit.Ring(4)
        tile = smem.alloc((128, 64), bf16, swizzle="128B", stages=4)
        with ptx.if_(first_warp), ptx.if_(ptx.warp.elect()):
            ring.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        producer = ring.producer()                  # in one thread
        with ptx.for_(0, K, 64) as k:
            slot = producer.acquire()
            ptx.mbarrier.arrive_expect_tx(slot.full, tile.nbytes)
            ptx.cp.async_.bulk.tensor_2d(dst=tile[slot.index], src=A.tma_desc(), coord=(k, m), mbar=slot.full)
            producer.advance()
        producer.drain()

        consumer = ring.consumer()                  # in other threads
        with ptx.for_(0, K, 64) as k:
            slot = consumer.acquire()
            ...                                     # read tile[slot.index]
            ptx.mbarrier.arrive(slot.empty)         # or ptx.tcgen05.commit(slot.empty) after MMAs
            consumer.advance()

    Args:
        stages: how many, at least 1.
        producers: arrivals that make a stage full; one for a thread that expects the bytes of
            its copies.
        consumers: arrivals that make it empty: threads, or commits.
        name: of the barriers in the text and in messages, before ``full`` and ``empty``.

    Raises:
        SpecError: fewer than one stage, or a number of arrivals that an mbarrier cannot count.
        SharedMemoryError: no room for the barriers, 16 bytes a stage.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier`.
    """

    def __init__(self, stages: int, *, producers: int = 1, consumers: int = 1, name: str = "") -> None:
        for what, value, most in (
            ("stages", stages, 1 << 16),
            ("producers", producers, ptx.mbarrier.MAX_COUNT),
            ("consumers", consumers, ptx.mbarrier.MAX_COUNT),
        ):
            if type(value) is not int or not 1 <= value <= most:
                raise SpecError(f"{what} is {value!r}: expected a number, 1..{most}")
        self.stages = stages
        self.producers = producers
        self.consumers = consumers
        stem = f"{name}_" if name else ""
        self._full = smem.alloc(stages, b64, name=f"{stem}full")
        self._empty = smem.alloc(stages, b64, name=f"{stem}empty")

    def __repr__(self) -> str:
        return (
            f"<ring of {self.stages} stages, {self._full.name} and {self._empty.name}: "
            f"{self.producers} and {self.consumers} arrivals>"
        )

    def init(self) -> None:
        """Initialize all barriers; one thread does. Records ``2 * stages`` ``mbarrier.init``.

        Watch out: other threads may use the ring only after a barrier (and ``ptx.fence.mbarrier_init()`` with
        a cluster barrier, where other CTAs do).
        """
        for stage in range(self.stages):
            # Through the registers with the barriers' names, which messages about a barrier take from here.
            ptx.mbarrier.init(ptx.addr(self._full.addr, 8 * stage), self.producers)
            ptx.mbarrier.init(ptx.addr(self._empty.addr, 8 * stage), self.consumers)

    def slot(self, stage: Reg | int) -> Slot:
        """The slot of a stage. Records nothing for a number, one ``mad.lo.u32`` for a register."""
        if isinstance(stage, Reg):
            full = reg.scalar(u32)
            ptx.inst.mad.lo.u32(full, stage, 8, self._full.addr)
            return Slot(stage, ptx.addr(full), ptx.addr(full, self._empty.offset - self._full.offset))
        return Slot(stage, ptx.addr(self._full.at(stage)), ptx.addr(self._empty.at(stage)))

    def producer(self) -> Producer:
        """The side that fills, at its first stage. Records two ``mov``: stage 0, phase 1."""
        return Producer(self)

    def consumer(self) -> Consumer:
        """The side that empties, at its first stage. Records two ``mov``: stage 0, phase 0."""
        return Consumer(self)


class _Side:
    """Where one side of the ring stands, in two registers: use it in the threads that made it."""

    def __init__(self, ring: Ring, phase: int) -> None:
        self.ring = ring
        self.stage = reg.scalar(u32, init=0)
        self.phase = reg.scalar(u32, init=phase)

    def advance(self) -> None:
        """Step to the next stage, and to the other phase after the last.

        Records 4 instructions: ``add``, ``setp``, and under its predicate ``mov`` and ``xor``; for a ring of
        one stage the ``xor`` alone.
        """
        if self.ring.stages == 1:
            self.phase ^= 1
            return
        self.stage += 1
        wrapped = self.stage == self.ring.stages
        ptx.inst.mov.u32(self.stage, 0, pred=wrapped)
        ptx.inst.xor.b32(self.phase, self.phase, 1, pred=wrapped)


class Producer(_Side):
    """The side that fills stages. Made by :meth:`Ring.producer`."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring, phase=1)

    def acquire(self) -> Slot:
        """Wait until the current stage may be filled.

        Records 3 instructions and a label: ``mad.lo.u32``, and ``ptx.mbarrier.wait`` on ``slot.empty``.
        """
        slot = self.ring.slot(self.stage)
        ptx.mbarrier.wait(slot.empty, self.phase)
        return slot

    def drain(self) -> None:
        """Wait until every stage that was filled has been emptied; the ring stands at the same stage after.

        A CTA must not exit while commits or remote arrivals for its barriers are on their way.  Records a
        ``ptx.for_`` over the stages around :meth:`acquire` and :meth:`advance`; stages that were never filled
        wait for nothing.
        """
        with ptx.for_(0, self.ring.stages):
            self.acquire()
            self.advance()


class Consumer(_Side):
    """The side that empties stages. Made by :meth:`Ring.consumer`."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring, phase=0)

    def acquire(self) -> Slot:
        """Wait until the current stage is filled.

        Records 3 instructions and a label: ``mad.lo.u32``, and ``ptx.mbarrier.wait`` on ``slot.full``.
        """
        slot = self.ring.slot(self.stage)
        ptx.mbarrier.wait(slot.full, self.phase)
        return slot

    def release(self, *, cta: Reg | int | None = None, pred: Reg | NotPred | None = None) -> None:
        """Hand the current stage back from this thread, and step on.

        Records ``mbarrier.arrive`` on ``empty`` of the stage, its ``mad.lo.u32`` (and ``mapa`` with ``cta``),
        and :meth:`advance`.

        Watch out: an arrive covers what this thread has read itself.  Where a tensor core reads the stage,
        its commit must arrive instead: ``ptx.tcgen05.commit(slot.empty)``; or a warp arrives after its
        ``ptx.wgmma.wait_group``.

        Args:
            cta: rank of the CTA of the cluster whose ring gets the stage back, where its producer fills this
                CTA's stages too (multicast): a number or a u32 register. None is this CTA.
            pred: guard of the arrival; every thread steps on.
        """
        slot = self.ring.slot(self.stage)
        if cta is None:
            ptx.mbarrier.arrive(slot.empty, pred=pred)
        else:
            full = slot.full.base
            assert isinstance(full, Reg)  # of a stage in a register, without an offset
            there = ptx.cluster.map(full, cta, pred=pred)
            ptx.mbarrier.arrive(ptx.addr(there, slot.empty.offset), space="cluster", pred=pred)
        self.advance()
