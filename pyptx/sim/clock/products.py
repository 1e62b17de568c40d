"""When products of the tensor core have read their operands, and when their results are there.

Owns the products in flight. Those of ``tcgen05`` run in the order in which they come. A warp issues its first
``wgmma`` behind a ``wgmma.fence`` when all warps of its warpgroup have come to the fence. Products of
``wgmma`` have few places for all warpgroups of a multiprocessor: where there is none, the first warp of the
warpgroup waits at the product, the others go on, and warpgroups that wait take turns. Where ptxas has
serialized products, each waits for the result of the one before, and the warps for that of the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Protocol

from ...core.records import dataclass
from ...timeline import Cause
from ..engine.events import AsyncOperation, Step
from ..engine.work import Product
from ..threads.warp import Split, Warp
from .beside import Warpgroup
from .figures import WARPGROUP, Figures
from .stalls import Passage
from .units import Units

__all__ = ["PLACES", "Agenda", "Products"]

#: Products of warpgroups that a tensor core takes before the first has ended. On an H200, with A in registers
#: or shared memory and N = 64 to 256, each of 12 is issued when the seventh before it ends.
PLACES = 7

#: A warp: its CTA, and its number there.
_Warp = tuple[tuple[int, int], int]


class Agenda(Protocol):
    """What happens when, in the order of time."""

    now: float

    def call_at(self, time: float, call: Callable[[], None]) -> None:
        """Call back at a time."""

    def happens_at(self, step: Step, due: float) -> None:
        """Let a step happen at a time."""

    def goes_on(self, s: Split, since: float, cause: Cause) -> None:
        """Let a warp go on that has waited ``since`` a time to issue a product."""


@dataclass(eq=False, slots=True)
class _Issued:
    """A product that warps of a warpgroup have issued.

    Attributes:
        group: the warpgroup.
        product: what it is.
        quarters: the part of each warp, and when the warp issued it.
        queued: whether products of the warpgroup are in flight before it.
        whole: whether all warps have issued it.
        serialized: whether it waits for the product before, and the next one for it.
        ready: from when on the tensor core may work on it.
    """

    group: Warpgroup
    product: Product
    quarters: list[tuple[Step, float]]
    queued: bool = False
    whole: bool = False
    serialized: bool = False
    ready: float = 0.0


@dataclass(frozen=True, eq=False, slots=True)
class _First:
    """A warp's first product behind a fence.

    Attributes:
        step, product, units: its quarter, what it is, and where.
        serialized: whether it waits for the product before.
        time: when the warp could issue it.
        behind: for how long its code goes on behind the issue.
    """

    step: Step
    time: float
    behind: float
    product: Product
    units: Units
    serialized: bool


@dataclass(eq=False, slots=True)
class _Fence:
    """A ``wgmma.fence`` of a warpgroup.

    Attributes:
        times: when each warp has executed it.
        waiting: the products of warps that wait for the others.
    """

    times: dict[int, float] = field(default_factory=dict)
    waiting: list[_First] = field(default_factory=list)


class Products:
    """The products in flight of all multiprocessors, by the figures of a GPU."""

    def __init__(self, figures: Figures, agenda: Agenda) -> None:
        self._figures, self._agenda = figures, agenda
        #: When the result of a product is there whose operands have been read.
        self._results: dict[AsyncOperation, float] = {}
        #: How many products each warp of a warpgroup has issued, and the products that some have not issued.
        self._issued: dict[_Warp, int] = {}
        self._parts: dict[tuple[Warpgroup, int], _Issued] = {}
        #: For warps that have executed a fence and no product since, the fence; and the last fence of each.
        self._fenced: dict[_Warp, _Fence] = {}
        self._fences: dict[_Warp, int] = {}
        self._open: dict[tuple[Warpgroup, int], _Fence] = {}
        #: The warps that wait at a product for others to come to its fence: since when they are held, if they
        #: are; and for those that need not wait any more, until when their code goes on.
        self._early: dict[_Warp, tuple[Split, float] | None] = {}
        self._met: dict[_Warp, float] = {}
        self._lines: dict[Units, _Line] = {}

    def result(self, operation: AsyncOperation, time: float) -> float:
        """Return when the result of a product is there, whose steps may happen from ``time`` on.

        Products run one behind the other: a result does not wait longer than its own product takes.
        """
        return max(time, self._results.pop(operation, 0.0))

    def read(self, operation: AsyncOperation, time: float, product: Product, units: Sequence[Units]) -> float:
        """Return when a product that comes at ``time`` has read an operand, which takes its tensor cores.

        ``units`` are those of the multiprocessors of its CTAs.
        """
        interval, rest = self._figures.product(product)
        start = max([time, *(each.tensor.free for each in units)])
        waited = start > time
        start = max(each.multiply_from(start, interval) for each in units)
        read = max(each.tensor.serve(start, interval) for each in units)
        if not waited:
            # What a burst takes beyond intervals and one latency: the second product begins later.
            for each in units:
                each.tensor.free += self._figures.burst
        self._results[operation] = read + rest
        operation.observed = Passage(time, read, "tensor")
        return read

    def fence(self, warp: Warp, time: float) -> None:
        """Note that a warp has executed a ``wgmma.fence``, at a time."""
        key, index = warp.cta.key, warp.index
        fence = self._fenced.get((key, index))
        if fence is None:
            number = self._fences[key, index] = self._fences.get((key, index), 0) + 1
            group = key, index // WARPGROUP
            fence = self._open.setdefault((group, number), _Fence())
            self._fenced[key, index] = fence
            if len(fence.times) == WARPGROUP - 1:
                del self._open[group, number]
        fence.times[index] = time
        if len(fence.times) == WARPGROUP:
            for first in fence.waiting:
                self._go_on(first, fence)
            fence.waiting.clear()

    def issue(
        self,
        step: Step,
        time: float,
        behind: float,
        product: Product,
        units: Units,
        *,
        serialized: bool = False,
    ) -> None:
        """Take a warp's quarter of a product of ``wgmma``, issued at ``time``.

        The four parts of the tensor core read B together: they begin when the last warp comes with its rows.
        The code that runs goes on ``behind`` the issue for so long. A product that is ``serialized`` waits
        for the result of the one before.
        """
        warp = step.operation.cta_key, step.operation.issuer.warp
        fence = self._fenced.pop(warp, None)
        if fence is None:
            self._issue(step, time, product, units, serialized)
            return
        first = _First(step, time, behind, product, units, serialized)
        if len(fence.times) == WARPGROUP:
            self._go_on(first, fence)
        else:
            fence.waiting.append(first)
            self._early[warp] = None

    def _go_on(self, first: _First, fence: _Fence) -> None:
        """Let a warp issue its first product behind a fence to which all have come."""
        warp = first.step.operation.cta_key, first.step.operation.issuer.warp
        time = max(first.time, max(fence.times.values()) + self._figures.behind_fence)
        if time > first.time:
            self._met[warp] = time + first.behind
        early = self._early.pop(warp, None)
        if early is not None:
            self._agenda.call_at(self._agenda.now, partial(self._agenda.goes_on, *early, Cause.WARPS))
        self._issue(first.step, time, first.product, first.units, first.serialized)

    def _issue(self, step: Step, time: float, product: Product, units: Units, serialized: bool) -> None:
        key, warp = step.operation.cta_key, step.operation.issuer.warp
        number = self._issued[key, warp] = self._issued.get((key, warp), 0) + 1
        group = key, warp // WARPGROUP
        part = self._parts.setdefault((group, number), _Issued(group, product, [], serialized=serialized))
        part.quarters.append((step, time))
        line = self._lines.get(units)
        if line is None:
            line = self._lines[units] = _Line(self._figures, units, self._agenda, self._results)
        if warp % WARPGROUP == 0 and not serialized:
            self._agenda.call_at(time, partial(line.offer, part))
        if len(part.quarters) == WARPGROUP:
            del self._parts[group, number]
            last = max(issued for _, issued in part.quarters)
            self._agenda.call_at(last, partial(line.append if serialized else line.complete, part))

    def hold(self, s: Split, units: Units) -> bool:
        """Hold a warp at the product that it has executed; True if it waits there.

        It waits for other warps at the first product behind a fence, and for a place at each.
        """
        if not self._lines and not self._early:
            return False
        warp = s.warp.cta.key, s.warp.index
        if warp in self._early:
            self._early[warp] = s, self._agenda.now
            return True
        met = self._met.pop(warp, 0.0)
        if met > self._agenda.now:
            self._agenda.call_at(met, partial(self._agenda.goes_on, s, self._agenda.now, Cause.MMA))
            return True
        line = self._lines.get(units)
        return line is not None and line.hold(s, (s.warp.cta.key, s.warp.index // WARPGROUP))


class _Line:
    """The products of warpgroups on their way to the tensor core of one multiprocessor."""

    def __init__(
        self, figures: Figures, units: Units, agenda: Agenda, results: dict[AsyncOperation, float]
    ) -> None:
        self._figures, self._units, self._agenda, self._results = figures, units, agenda, results
        #: The products that have places and do not run yet, in their order, and the one that runs.
        self._placed: deque[_Issued] = deque()
        self._running: _Issued | None = None
        #: The products that have no place, by warpgroup, the one whose turn it is first; and the warps that
        #: wait, since when.
        self._waiting: dict[Warpgroup, deque[_Issued]] = {}
        self._held: dict[Warpgroup, list[tuple[Split, float]]] = {}
        #: The serialized products of each warpgroup, the one that runs first.
        self._chains: dict[Warpgroup, deque[_Issued]] = {}

    def hold(self, s: Split, group: Warpgroup) -> bool:
        """Hold a warp at a product; True if it waits there.

        The first warp of a warpgroup waits until its last product has a place, and all warps for the result
        of serialized products.
        """
        if group not in self._chains and (s.warp.index % WARPGROUP or group not in self._waiting):
            return False
        self._held.setdefault(group, []).append((s, self._agenda.now))
        return True

    def append(self, whole: _Issued) -> None:
        """Take a serialized product that all warps of its warpgroup have issued."""
        chain = self._chains.setdefault(whole.group, deque())
        chain.append(whole)
        if len(chain) == 1:
            self._start(whole)

    def _start(self, whole: _Issued) -> None:
        self.offer(whole)
        self.complete(whole)

    def _pass(self, group: Warpgroup) -> None:
        """Begin the next serialized product of a warpgroup; let its warps go on behind the last one."""
        chain = self._chains[group]
        chain.popleft()
        if chain:
            fenced = self._agenda.now + self._figures.behind_fence
            self._agenda.call_at(fenced, partial(self._start, chain[0]))
            return
        del self._chains[group]
        self._release(group)

    def _release(self, group: Warpgroup) -> None:
        """Let the warps of a warpgroup go on that are held."""
        for s, since in self._held.pop(group, ()):
            self._agenda.goes_on(s, since, Cause.MMA)

    def offer(self, whole: _Issued) -> None:
        """Take a product that the first warp of its warpgroup issues now."""
        group = whole.group
        self._units.multiplying.issued(self._figures.product(whole.product)[0])
        before = (*self._placed, self._running) if self._running is not None else tuple(self._placed)
        whole.queued = any(each.group == group for each in before)
        if len(before) < PLACES and group not in self._waiting:
            self._place(whole)
        else:
            self._waiting.setdefault(group, deque()).append(whole)

    def complete(self, whole: _Issued) -> None:
        """Take a product that the last warp of its warpgroup issues now."""
        whole.whole = True
        whole.ready = max(whole.ready, self._agenda.now + self._figures.until_begin(whole.product))
        self._begin()

    def _place(self, whole: _Issued) -> None:
        whole.ready = max(whole.ready, self._agenda.now + self._figures.until_begin(whole.product))
        self._placed.append(whole)
        self._begin()

    def _begin(self) -> None:
        """Begin the next product, if the tensor core is free and all warps have issued it."""
        if self._running is not None or not self._placed or not self._placed[0].whole:
            return
        ready = self._placed[0].ready
        if ready > self._agenda.now:
            self._agenda.call_at(ready, self._begin)
        else:
            self._run(self._placed.popleft())

    def _run(self, whole: _Issued) -> None:
        figures, units, product = self._figures, self._units, whole.product
        interval, rest = figures.product(product)
        if whole.queued:
            rest = max(0.0, rest - figures.queued)
        nbytes = WARPGROUP * product.operand_bytes
        units.read_operands(self._agenda.now, nbytes, interval)
        interval = units.beside_accesses(self._agenda.now, interval, nbytes)
        begun = units.multiply_from(self._agenda.now, interval)
        read = units.tensor.serve(begun, interval)
        units.multiplying.runs(whole.group, begun, read, figures.product(product)[0])
        self._running = whole
        for quarter, issued in whole.quarters:
            self._results[quarter.operation] = read + rest
            quarter.operation.observed = Passage(issued, read, "tensor")
            self._agenda.happens_at(quarter, read)
        self._agenda.call_at(read, self._end)
        if whole.serialized:
            self._agenda.call_at(read + rest, partial(self._pass, whole.group))

    def _end(self) -> None:
        """Give the place of the product that ends to a warpgroup that waits, and begin the next one."""
        self._running = None
        if self._waiting:
            group = next(iter(self._waiting))
            line = self._waiting.pop(group)
            self._place(line.popleft())
            if line:
                self._waiting[group] = line
            elif group not in self._chains:
                self._release(group)
        self._begin()
