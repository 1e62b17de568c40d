"""The pipeline ring: stages of shared memory that producers fill and consumers empty repeatedly.

Owns the protocol between the two sides: two mbarriers for each stage, and the current stage and phase, which
each side keeps in registers.  Stage ``s`` of the ring has ``full[s]``, which completes a phase when the stage
is filled, and ``empty[s]``, which completes a phase when the stage may be filled again::

    stage          0      1      2      3      0      1      2      3      0 ...
    fill           0      1      2      3      4      5      6      7      8
    consumer       waits for full[stage],  parity 0 0 0 0  1 1 1 1  0 ...
    producer       waits for empty[stage], parity 1 1 1 1  0 0 0 0  1 ...

A wait for parity 1 of a fresh barrier succeeds at once, as if a phase of parity 1 had completed; so the
producer does not wait in its first round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ..core.errors import SpecError
from ..core.types import b64, u32
from ..dsl import NotPred, Reg, ptx, reg, smem
from ..dsl.choices import ClusterScope
from ..dsl.operands import Addr
from ..dsl.smem import name_ring

__all__ = ["Consumer", "Producer", "Ring", "Slot"]

#: Mask that clears the lowest bit of the CTA's rank in a shared address.
_EVEN_CTA = 0xFEFFFFFF


class Slot:
    """One stage of the ring, with its two mbarriers.

    Attributes:
        index: number of the stage, in a register or as an int, for ``buffer[slot.index]``.
        full: address of the mbarrier that signals that the stage is filled.
        empty: address of the mbarrier that signals that the stage may be filled again.
    """

    __slots__ = ("empty", "full", "index")

    def __init__(self, index: Reg | int, full: Addr, empty: Addr) -> None:
        self.index = index
        self.full = full
        self.empty = empty

    def leader_full(self) -> Reg:
        """Compute the address of ``full`` in the even CTA of this CTA's pair. Records one ``and.b32``.

        If the even CTA, the leader, waits for the copies of both CTAs (``cta_group=2``), the copies signal
        this mbarrier.  The mask clears bit 24 of the shared address, the lowest bit of the CTA's rank.  For a
        stage given as an int, and for a further one of ``slots``, an ``add`` follows.

        PTX ISA: `#tcgen05-cta-pair`.
        """
        address = self.full.base
        assert isinstance(address, Reg)
        # An offset within shared memory does not reach the bits of the rank, so stages share the masked base.
        leader = address & _EVEN_CTA
        return leader + self.full.offset if self.full.offset else leader

    def leader_empty(self) -> Addr:
        """Compute the address of ``empty`` in the even CTA of this CTA's pair. Records one ``and.b32``.

        If the even CTA alone fills a stage for both, the readers of both CTAs hand it back there.

        PTX ISA: `#tcgen05-cta-pair`.
        """
        # An offset within shared memory does not reach the bits of the rank.
        address = self.empty.base
        assert isinstance(address, Reg)
        return ptx.addr(address & _EVEN_CTA, self.empty.offset)

    def __repr__(self) -> str:
        return f"<slot {self.index}: full {self.full}, empty {self.empty}>"


def _further(slot: Slot, stages: int) -> Slot:
    """Return the slot of a stage further on in the ring. Records an ``add``, its number."""
    if not stages:
        return slot
    full, empty = (ptx.addr(place.base, place.offset + 8 * stages) for place in (slot.full, slot.empty))
    return Slot(slot.index + stages, full, empty)


class Ring:
    """A ring of ``stages``, with its mbarriers in shared memory. The constructor records nothing.

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
        stages: number of stages, at least 1.
        producers: number of arrivals that complete a phase of ``full``; a thread that expects the bytes of
            its copies is one arrival.
        consumers: number of arrivals (of threads, or by commits) that complete a phase of ``empty``.
        name: prefix of the names ``full`` and ``empty``, which the barriers have in the text and in messages.
        suspend_hint: time in nanoseconds for which each ``try_wait`` of a wait may suspend its thread; None
            leaves it to the hardware.

    Raises:
        SpecError: there is less than one stage, or an mbarrier cannot count so many arrivals.
        SharedMemoryError: there is no room for the barriers, which take 16 bytes per stage.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-mbarrier`.
    """

    def __init__(
        self,
        stages: int,
        *,
        producers: int = 1,
        consumers: int = 1,
        name: str = "",
        suspend_hint: int | None = None,
    ) -> None:
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
        self.suspend_hint = suspend_hint
        stem = f"{name}_" if name else ""
        self.full = smem.alloc(stages, b64, name=f"{stem}full")
        self.empty = smem.alloc(stages, b64, name=f"{stem}empty")
        name_ring(name or "ring", self.full, self.empty)

    def __repr__(self) -> str:
        return (
            f"<ring of {self.stages} stages, {self.full.name} and {self.empty.name}: "
            f"{self.producers} and {self.consumers} arrivals>"
        )

    def init(self) -> None:
        """Initialize all barriers; call it in one thread only. Records ``2 * stages`` ``mbarrier.init``.

        Watch out: other threads of the CTA may use the ring only after a barrier. If other CTAs use it, they
        need ``ptx.fence.mbarrier_init()`` in this thread and then a cluster barrier.
        """
        for stage in range(self.stages):
            # The address is in a register with the barrier's name, so that messages can show the name.
            ptx.mbarrier.init(ptx.addr(self.full.addr, 8 * stage), self.producers)
            ptx.mbarrier.init(ptx.addr(self.empty.addr, 8 * stage), self.consumers)

    def slot(self, stage: Reg | int) -> Slot:
        """Return the slot of a stage. Records nothing for an int, one ``mad.lo.u32`` for a register."""
        if isinstance(stage, Reg):
            full = reg.scalar(u32)
            ptx.inst.mad.lo.u32(full, stage, 8, self.full.addr)
            return Slot(stage, ptx.addr(full), ptx.addr(full, self.empty.offset - self.full.offset))
        return Slot(stage, ptx.addr(self.full.at(stage)), ptx.addr(self.empty.at(stage)))

    def producer(self) -> Producer:
        """Return a producer, which starts at the first stage. Records two ``mov``: stage 0, phase 1."""
        return Producer(self)

    def consumer(self) -> Consumer:
        """Return a consumer, which starts at the first stage. Records two ``mov``: stage 0, phase 0."""
        return Consumer(self)


class _Side:
    """The stage and phase of a producer or consumer. Only the threads that created it may use it."""

    def __init__(self, ring: Ring, phase: int) -> None:
        self.ring = ring
        self.stage = reg.scalar(u32, init=0)
        self.phase = reg.scalar(u32, init=phase)
        self._unit: int | None = None  # how many stages each call goes past, once a call has been recorded

    def advance(self) -> None:
        """Go to the next stage; after the last stage, to the first stage and the other phase.

        Records 4 instructions: ``add``, ``setp``, and under its predicate ``mov`` and ``xor``; for a ring of
        one stage only the ``xor``.

        Raises:
            SpecError: other loops of this side go past several stages at a time (:meth:`slots`).
        """
        self._go_by(1)
        self._step()

    def skip(self, count: int) -> None:
        """Go ``count`` stages further without a wait: another side of the same kind takes these stages.

        Records ``add``, ``setp``, and under its predicate ``sub`` and ``xor``, and an ``xor`` more if an odd
        number of whole rounds is skipped; for whole rounds at most that ``xor``.

        Raises:
            SpecError: the count is negative, or other loops of this side go past several stages at a time.
        """
        if type(count) is not int or count < 0:
            raise SpecError(f"count is {count!r}: expected a number of stages")
        self._go_by(1)
        rounds, rest = divmod(count, self.ring.stages)
        if rounds & 1:
            self.phase ^= 1
        if rest:
            self.stage += rest
            wrapped = self.stage >= self.ring.stages
            ptx.inst.sub.u32(self.stage, self.stage, self.ring.stages, pred=wrapped)
            ptx.inst.xor.b32(self.phase, self.phase, 1, pred=wrapped)

    def slots(self, count: int = 1) -> Iterator[Slot]:
        """Wait for each of the next ``count`` stages, and go past them: the iterator of a Python loop.

        A loop over K is shorter if a turn has several stages: they share the arithmetic of the ring, and
        their addresses are one address and constants. With all stages of the ring their numbers are ints. ::

            count = math.gcd(ring.stages, K // 64)
            with ptx.for_(0, K, 64 * count) as k:
                for i, slot in enumerate(producer.slots(count)):
                    ...                             # columns k + 64 * i go to tile[slot.index]

        Records the wait of :meth:`acquire` for each stage; one ``mad.lo.u32`` before the first and, after the
        last, the instructions of :meth:`advance`. Further stages have an ``add``, their number. A whole round
        needs none of these but the ``xor``.

        Raises:
            SpecError: ``count`` does not divide the number of stages, or other loops of this side go past
                another number of stages at a time.
        """
        stages = self.ring.stages
        if type(count) is not int or count < 1 or stages % count:
            raise SpecError(f"count is {count!r}: expected a number that divides the {stages} stages")
        self._go_by(count)
        first = None if count == stages else self.ring.slot(self.stage)
        for i in range(count):
            slot = self.ring.slot(i) if first is None else _further(first, i)
            self._wait(slot)
            yield slot
        if first is None:
            self.phase ^= 1
        else:
            self._step(count)

    def _wait(self, slot: Slot) -> None:
        """Record the wait for a stage: until it may be filled, or is filled."""
        raise NotImplementedError

    def _go_by(self, stages: int) -> None:
        if self._unit not in (None, stages):
            raise SpecError(
                f"this side of {self.ring!r} goes past {self._unit} stages at a time, and here {stages}",
                hint="a turn begins at a multiple of its stages: use one count in all loops of a side",
            )
        self._unit = stages

    def _step(self, count: int = 1) -> None:
        if self.ring.stages == 1:
            self.phase ^= 1
            return
        self.stage += count
        wrapped = self.stage == self.ring.stages
        ptx.inst.mov.u32(self.stage, 0, pred=wrapped)
        ptx.inst.xor.b32(self.phase, self.phase, 1, pred=wrapped)


class Producer(_Side):
    """The side that fills stages. Made by :meth:`Ring.producer`."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring, phase=1)

    def acquire(self, *, scope: ClusterScope | None = None) -> Slot:
        """Wait until the current stage may be filled.

        Records 3 instructions and a label: ``mad.lo.u32``, and ``ptx.mbarrier.wait`` on ``slot.empty``.

        Args:
            scope: scope of the wait, which then acquires: ``"cluster"`` if threads of other CTAs hand back
                stages that they have read by ordinary loads. None is the scope of the CTA.
        """
        slot = self.ring.slot(self.stage)
        self._wait(slot, scope)
        return slot

    def _wait(self, slot: Slot, scope: ClusterScope | None = None) -> None:
        ptx.mbarrier.wait(
            slot.empty,
            self.phase,
            self.ring.suspend_hint,
            sem=None if scope is None else "acquire",
            scope=scope,
        )

    def drain(self) -> None:
        """Wait until every filled stage has been emptied. The producer's stage is the same afterwards.

        Call it before the CTA exits, since no commit or remote arrival to the CTA's barriers may be in flight
        then. The call does not wait for stages that were never filled.  Records a ``ptx.for_`` over the
        stages, with :meth:`acquire` and the instructions of :meth:`advance` in it.
        """
        with ptx.for_(0, self.ring.stages):
            self.acquire()
            self._step()


class Consumer(_Side):
    """The side that empties stages. Made by :meth:`Ring.consumer`."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring, phase=0)

    def acquire(self) -> Slot:
        """Wait until the current stage is filled.

        Records 3 instructions and a label: ``mad.lo.u32``, and ``ptx.mbarrier.wait`` on ``slot.full``.
        """
        slot = self.ring.slot(self.stage)
        self._wait(slot)
        return slot

    def _wait(self, slot: Slot) -> None:
        ptx.mbarrier.wait(slot.full, self.phase, self.ring.suspend_hint)

    def release(
        self,
        *,
        cta: Reg | int | None = None,
        scope: ClusterScope | None = None,
        pred: Reg | NotPred | None = None,
    ) -> None:
        """Signal that this thread no longer needs the current stage, and step to the next one.

        Records ``mbarrier.arrive`` on ``empty`` of the stage, its ``mad.lo.u32`` (and ``mapa`` with ``cta``),
        and :meth:`advance`.

        Watch out: an arrival only covers reads of this thread.  If the tensor core reads the stage, a commit
        must arrive instead: ``ptx.tcgen05.commit(slot.empty)``.  After ``wgmma``, a warp arrives once its
        ``ptx.wgmma.wait_group`` is complete.

        Args:
            cta: rank of the CTA at whose ``empty`` the thread arrives, if the producer of that CTA also fills
                this CTA's stages (multicast): an int or a u32 register. None means this CTA.
            scope: scope of the arrival, which then releases: ``"cluster"`` after ordinary loads of the stage
                that a thread of another CTA overwrites. Tensor cores and TMA need None, the scope of the CTA.
            pred: guard of the arrival; all threads step to the next stage.
        """
        slot = self.ring.slot(self.stage)
        sem: Literal["release"] | None = None if scope is None else "release"
        if cta is None:
            ptx.mbarrier.arrive(slot.empty, sem=sem, scope=scope, pred=pred)
        else:
            full = slot.full.base
            assert isinstance(full, Reg)  # the stage is in a register, so the address has no offset
            there = ptx.cluster.map(full, cta, pred=pred)
            ptx.mbarrier.arrive(
                ptx.addr(there, slot.empty.offset), sem=sem, scope=scope, space="cluster", pred=pred
            )
        self.advance()
