"""Terms that several CTAs add to shared places in global memory, in a fixed order.

Owns the protocol: a counter for each place says how many terms have arrived.  The CTA whose term is number n
waits until n terms are there, lets the copy engine add its own, and counts it when it is in memory.  All CTAs
of the launch must run at once, and each must take its terms in an order in which none waits for a later one.
"""

from __future__ import annotations

from ..core.types import u32, u64
from ..dsl import Reg, ptx, reg

__all__ = ["OrderedTerms"]

#: No number of a place.
_NOTHING = 0xFFFFFFFF


class OrderedTerms:
    """One thread's side of the protocol. The constructor records one ``mov``: nothing was added yet.

    ::

        terms = kit.OrderedTerms(COUNTS.at(0).base, leader)
        terms.wait(place, number)               # until `number` terms have arrived at the place
        ...                                     # the leader adds its term, and commits the bulk group
        ...                                     # work
        terms.count()                           # when the term is in memory

    Args:
        counters: global address of the u32 counters, one for each place, 0 before the launch.
        leader: predicate of the thread that adds the terms.
    """

    def __init__(self, counters: Reg, leader: Reg) -> None:
        self._counters, self._leader = counters, leader
        self._added = reg.scalar(u32, init=_NOTHING)

    def _counter(self, place: Reg) -> Reg:
        address = reg.scalar(u64)
        ptx.inst.mad.wide.u32(address, place, u32.nbytes, self._counters)
        return address

    def wait(self, place: Reg, number: Reg) -> None:
        """Make the leader wait until ``number`` terms have arrived. The next :meth:`count` is for the place.

        Records ``mad.wide``, a guarded loop of ``ld.acquire.gpu``, ``fence.proxy.async``, ``bar.warp.sync``
        and a ``mov``.  The warp must be whole again before the copy engine gets the term: ptxas leaves out
        the predicate of a bulk instruction if ``elect.sync`` made it.  Without the barrier an H200 added the
        term twice.

        Args:
            place: number of the place, a u32 register.
            number: number of the leader's term, a u32 register.
        """
        counter, there = self._counter(place), reg.scalar(u32)
        with ptx.if_(self._leader):
            with ptx.do_while(lambda: there < number):
                ptx.load(u32, counter, space="global", sem="acquire", scope="gpu", out=there)
            ptx.fence.proxy_async("global")
        ptx.warp.sync()
        self._added.set(place)

    def count(self) -> None:
        """Count the leader's last term when it is in memory; nothing if it was counted, or none was added.

        Records ``mad.wide``, guarded ``cp.async.bulk.wait_group``, ``fence.proxy.async`` and
        ``red.release.gpu``, and a ``mov``.
        """
        counter = self._counter(self._added)
        with ptx.if_(self._leader), ptx.if_(self._added != _NOTHING):
            ptx.cp.async_.bulk.wait_group(0)
            ptx.fence.proxy_async("global")
            ptx.red("add", counter, 1, u32, sem="release", scope="gpu", space="global")
        self._added.set(_NOTHING)
