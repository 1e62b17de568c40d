"""Loops of persistent kernels over tiles: which tile a cluster computes next.

Each role of the kernel (loads, products, epilogue) runs the same loop by itself and gets the same tiles in
the same order.  Two objects give out tiles; both have ``loop()``:

:class:`StaticTiles`
    A cluster takes every ``step``-th tile. Each role computes the numbers by itself.
:class:`LaunchControlTiles`
    The grid has a cluster for each tile. A running cluster cancels clusters that have not started, and
    computes their tiles: so a cluster that is faster, or started earlier, takes more tiles (Blackwell).
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..core.errors import SpecError
from ..core.types import b64, b128, u32
from ..dsl import Reg, ptx, reg, smem
from ..dsl.choices import ClusterScope
from ..dsl.loops import do_while, for_
from ..dsl.operands import Addr
from ..ir import Guard
from .division import quotient
from .ring import Consumer, Producer, Ring, Slot

__all__ = ["LaunchControlTiles", "StaticTiles"]

#: Bytes of an answer of try_cancel.
_ANSWER = 16


class StaticTiles:
    """Tiles that a cluster takes at a constant distance. The constructor records nothing.

    ::

        tiles = kit.StaticTiles(tiles_m * tiles_n, first=ptx.special.clusterid.x(), step=clusters)
        with tiles.loop() as tile:                  # in each role
            row, column = kit.tile_order.grouped(tile, tiles_m, tiles_n)

    With ``snake`` each second round goes through the clusters backwards: cluster c takes tile ``c``, then
    ``2 * step - 1 - c``, ``2 * step + c`` and so on.  If tiles are in the order of their work, longest first,
    the sums of all clusters are nearly equal.

    Args:
        count: number of tiles, an int or a u32 register.
        first: number of this cluster's first tile, a u32 register.
        step: distance from one tile of the cluster to the next: the number of clusters.
        snake: whether each second round is reversed; ``first`` is then below ``step``.

    Raises:
        SpecError: a number below 1.
    """

    def __init__(self, count: Reg | int, *, first: Reg, step: Reg | int, snake: bool = False) -> None:
        for name, value in (("count", count), ("step", step)):
            if not isinstance(value, Reg) and (isinstance(value, bool) or value < 1):
                raise SpecError(f"{name} is {value!r}: expected a positive number or a u32 register")
        self.count = count
        self.first = first
        self.step = step
        self.snake = snake

    def loop(self, leader: Reg | None = None) -> for_:
        """Open the loop over this cluster's tiles; ``with tiles.loop() as tile`` binds a u32 register.

        Records a ``ptx.for_``: three instructions before the body, two behind it.  With ``snake`` it records
        two more before it (and a ``mul`` if ``step`` is a register), and one more behind it.  ``leader`` is
        there for kernels that may use :class:`LaunchControlTiles` instead; nothing here needs it.
        """
        if not self.snake:
            return ptx.for_(self.first, self.count, self.step)
        return _Snake(self.first, self.count, self.step)


class _Snake(for_):
    """A loop whose step alternates between the way to the mirrored place of the next round and the rest."""

    def __init__(self, first: Reg, count: Reg | int, step: Reg | int) -> None:
        self._both = step * 2
        # From place c of a round to place step - 1 - c of the next: 2 * (step - c) - 1 tiles.
        way = reg.scalar(u32)
        ptx.inst.sub.u32(way, self._both - 1, first)
        ptx.inst.sub.u32(way, way, first)
        super().__init__(first, count, way)
        self._way = way

    def _finish(self) -> Guard | None:
        guard = super()._finish()
        ptx.inst.sub.u32(self._way, self._both, self._way)
        return guard


class LaunchControlTiles:
    """Tiles of clusters whose launch a running cluster cancels. The constructor records nothing.

    One thread of the cluster's first CTA, the scheduler, requests clusters
    (``clusterlaunchcontrol.try_cancel``); the answers come to a ring in the shared memory of every CTA, where
    the other roles read them.  The scheduler requests the next tile as soon as an answer has come, as long as
    the ring has room, so a cluster holds up to ``answers`` tiles that its slowest role has not begun::

        tiles = kit.LaunchControlTiles(first=ptx.special.clusterid.x(), readers=6, answers=3)
        with ptx.if_(first_warp), ptx.if_(ptx.warp.elect()):
            tiles.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)                             # for a cluster: ptx.cluster.sync()

        with ptx.if_(scheduler_warp), ptx.if_(ptx.warp.elect()):
            tiles.schedule()                        # in one thread of the cluster's first CTA
        ...
        with tiles.loop() as tile:                  # in a role of one thread
            ...
        with tiles.loop(leader) as tile:            # in a role of a whole warp
            ...

    The grid has one dimension, with a cluster for each tile.

    Watch out: each role must take all tiles.  No CTA may exit before the scheduler has ended (a cluster
    barrier): the readers arrive at its mbarriers.  A run depends on which clusters are canceled: a simulation
    with ``launch_control="every"`` runs all cases of a small grid.

    With ``ahead`` above 1 the scheduler keeps that many requests in flight.  A CTA that has observed a
    refusal must not request any more, whichever of its threads did.  So readers look at an answer only after
    the scheduler has (an mbarrier more for each answer).  The requests that are in flight when one is refused
    may still cancel clusters: every role takes these tiles, too.  A simulated run then holds for its schedule
    alone.

    Tiles that a cluster holds ahead are lost to others, so the last round can be less even: more requests in
    flight take them earlier, before clusters that start later have asked.  One request, as in CUTLASS, is
    enough where a tile takes longer than an answer; hence the default (``benchmarks/launch_control.py``).

    Args:
        first: number of this cluster's own tile, a u32 register: its number in the grid.
        readers: number of arrivals that free an answer: one for each role of one thread and each warp that
            runs the loop, in all CTAs of the cluster.
        answers: number of answers that can be ahead of the slowest reader.
        ahead: number of requests in flight, 1 to ``answers``.
        cluster: number of CTAs of the cluster.
        name: prefix of the names of the mbarriers.

    Raises:
        SpecError: a number below 1, or more arrivals than an mbarrier can count.
        SharedMemoryError: there is no room for the barriers and answers, 32 bytes for each answer (40 with
            ``ahead`` above 1).

    PTX ISA: `#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel`.
    """

    def __init__(
        self,
        *,
        first: Reg,
        readers: int,
        answers: int = 3,
        ahead: int = 1,
        cluster: int = 1,
        name: str = "tiles",
    ) -> None:
        if type(cluster) is not int or not 1 <= cluster <= 16:
            raise SpecError(f"cluster is {cluster!r}: expected a number of CTAs, 1..16")
        if type(ahead) is not int or not 1 <= ahead <= max(1, answers):
            raise SpecError(f"ahead is {ahead!r}: expected a number of requests, 1 to {answers} (answers)")
        self.first = first
        self.cluster = cluster
        self.ahead = ahead
        self.answers = smem.alloc(1, b128, align=_ANSWER, stages=answers, name=f"{name}_answer")
        self.ring = Ring(answers, consumers=readers, name=name)
        #: Mbarriers that signal that the scheduler has observed an answer.
        self.seen = smem.alloc(answers, b64, name=f"{name}_seen") if ahead > 1 else None

    def __repr__(self) -> str:
        return f"<tiles of canceled clusters of {self.cluster} CTAs, {self.ring!r}>"

    def init(self) -> None:
        """Initialize the mbarriers; call it in one thread of each CTA.

        Records :meth:`.ring.Ring.init`, and with ``ahead`` above 1 ``answers`` ``mbarrier.init``.
        """
        self.ring.init()
        if self.seen is not None:
            for answer in range(self.ring.stages):
                ptx.mbarrier.init(ptx.addr(self.seen.addr, 8 * answer), 1)

    def schedule(self) -> None:
        """Request tiles until there is none; call it in one thread of the cluster's first CTA.

        Records the two ``mov`` of a producer and two of a consumer, and a ``ptx.loop``. In the loop:
        :meth:`.ring.Producer.acquire`, ``mbarrier.arrive.expect_tx`` (for each other CTA one more, after a
        ``mapa``), a ``mad.lo.u32``, ``clusterlaunchcontrol.try_cancel``, :meth:`.ring.Producer.advance`;
        :meth:`.ring.Consumer.acquire`, a ``mad.lo.u32``, ``ld.shared.b128``,
        ``clusterlaunchcontrol.query_cancel.is_canceled``, ``fence.proxy.async``, the consumer's ``advance``
        and a ``bra``.  Records :meth:`.ring.Producer.drain` after the loop.

        With ``ahead`` above 1 it also records a ``ptx.for_`` of ``ahead - 1`` requests before the loop, in
        the loop an ``mbarrier.arrive`` (for each other CTA one more, after a ``mapa``), and after it a
        ``ptx.for_`` with a ``mad.lo.u32``, these arrivals and the consumer's ``advance``.
        """
        producer, consumer = self.ring.producer(), self.ring.consumer()
        if self.ahead > 1:
            with ptx.for_(0, self.ahead - 1):
                self._request(producer)
        with ptx.loop() as requests:
            self._request(producer)
            slot, canceled, _ = self._read(consumer)
            if self.ahead > 1:
                self._hand_out(slot)
            # After a refusal there must be no further request.
            consumer.advance()
            requests.break_(~canceled)
        if self.ahead > 1:
            with ptx.for_(0, self.ahead - 1):
                self._hand_out(self.ring.slot(consumer.stage))
                consumer.advance()
        producer.drain()

    def _request(self, producer: Producer) -> None:
        slot = producer.acquire(scope=self._scope)
        ptx.mbarrier.arrive_expect_tx(slot.full, _ANSWER)
        for rank in range(1, self.cluster):
            ptx.mbarrier.arrive_expect_tx(ptx.cluster.map(_base(slot), rank), _ANSWER, space="cluster")
        ptx.clusterlaunchcontrol.try_cancel(self.answers[slot.index], slot.full, multicast=self.cluster > 1)
        producer.advance()

    def _hand_out(self, slot: Slot) -> None:
        """Let the readers look at an answer: the scheduler has, or it requests no more."""
        seen = self._seen(slot)
        ptx.mbarrier.arrive(seen)
        for rank in range(1, self.cluster):
            there = ptx.cluster.map(_base(slot), rank)
            ptx.mbarrier.arrive(ptx.addr(there, seen.offset), space="cluster")

    def _seen(self, slot: Slot) -> Addr:
        assert self.seen is not None
        return ptx.addr(_base(slot), self.seen.offset - self.ring.full.offset)

    def loop(self, leader: Reg | None = None) -> _Taken:
        """Open the loop over this cluster's tiles; ``with tiles.loop() as tile`` binds a u32 register.

        Records three ``mov`` before the body.  Records behind it :meth:`.ring.Consumer.acquire`, a
        ``mad.lo.u32``, ``ld.shared.b128``, the two ``clusterlaunchcontrol.query_cancel``, a guarded
        :func:`.division.quotient` by the CTAs of a cluster (``mov.u32`` for one CTA, ``shr.u32`` for two),
        ``fence.proxy.async``, ``bar.warp.sync`` with ``leader``, :meth:`.ring.Consumer.release` and
        a ``bra``.

        With ``ahead`` above 1 it records two ``mov`` more before the body.  What stands behind the body, but
        for the last ``bra``, is in a loop that skips refusals while requests are in flight: ``mov``,
        ``setp``, ``bra``; a wait for the scheduler; ``mov``, ``sub``, ``mov``, two ``bra``; then a ``setp``.

        Args:
            leader: None if one thread runs the loop. If a whole warp runs it, a predicate that is true in one
                of its lanes, which arrives for the warp.
        """
        return _Taken(self, leader)

    @property
    def _scope(self) -> ClusterScope | None:
        """Scope of the hand-back of answers, which are read by ordinary loads in every CTA of the cluster."""
        return "cluster" if self.cluster > 1 else None

    def _read(self, consumer: Consumer, *, after_scheduler: bool = False) -> tuple[Slot, Reg, Reg]:
        """Wait for the next answer; return its slot, whether a cluster was canceled, and the answer."""
        slot = consumer.acquire()
        if after_scheduler:
            ptx.mbarrier.wait(self._seen(slot), consumer.phase)
        answer = smem.load(b128, self.answers[slot.index])
        canceled = ptx.clusterlaunchcontrol.is_canceled(answer)
        # The answer was read by ordinary loads, and the next one is written through the async proxy.
        ptx.fence.proxy_async("shared::cta")
        return slot, canceled, answer


def _base(slot: Slot) -> Reg:
    """Return the address of a slot's ``full``: its stage is in a register, so the address has no offset."""
    base = slot.full.base
    assert isinstance(base, Reg)
    return base


class _Taken:
    """The loop of one role over the tiles of :class:`LaunchControlTiles`."""

    def __init__(self, tiles: LaunchControlTiles, leader: Reg | None) -> None:
        self._tiles = tiles
        self._leader = leader
        self._again: Reg | None = None
        self._loop: do_while | None = None

    def __enter__(self) -> Reg:
        self._tile = reg.scalar(u32)
        ptx.inst.mov.u32(self._tile, self._tiles.first)
        self._consumer = self._tiles.ring.consumer()
        if self._tiles.ahead > 1:
            self._left = reg.scalar(u32, init=self._tiles.ahead)  # answers that are to come
            self._fewer = reg.scalar(u32, init=0)  # 1 after a refusal: no request replaces an answer
        self._loop = ptx.do_while(self._condition)
        self._loop.__enter__()
        return self._tile

    def _condition(self) -> Reg:
        assert self._again is not None
        return self._again

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        assert self._loop is not None
        if kind is None:
            self._next()
        return self._loop.__exit__(kind, error, traceback)

    def _next(self) -> None:
        if self._tiles.ahead == 1:
            self._again = self._take()
            return
        found = reg.scalar(u32, init=0)
        with ptx.while_(lambda: self._left != 0) as answers:
            canceled = self._take()
            ptx.inst.mov.u32(self._fewer, 1, pred=~canceled)
            ptx.inst.sub.u32(self._left, self._left, self._fewer)
            ptx.inst.mov.u32(found, 1, pred=canceled)
            answers.break_(canceled)
        self._again = found != 0

    def _take(self) -> Reg:
        """Take the next answer's tile, if it has one; return whether it has."""
        tiles = self._tiles
        _, canceled, answer = tiles._read(self._consumer, after_scheduler=tiles.ahead > 1)
        first = ptx.clusterlaunchcontrol.first_ctaid_x(answer, pred=canceled)
        quotient(first, tiles.cluster, limit=1 << 31, out=self._tile, pred=canceled)
        if self._leader is not None:
            ptx.warp.sync()
        self._consumer.release(cta=None if tiles.cluster == 1 else 0, scope=tiles._scope, pred=self._leader)
        return canceled
