"""When products of the tensor core have read their operands, and when their results are there.

Owns the products in flight. Those of ``tcgen05`` run in the order in which they come. Those of ``wgmma`` have
few places for all warpgroups of a multiprocessor: one that finds none waits where it issues its product, and
those that wait take turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ...core.records import dataclass
from ..engine.events import AsyncOperation, Step
from ..engine.work import Product
from ..threads.warp import Split
from .figures import WARPGROUP, Figures
from .stalls import Passage
from .units import Units

__all__ = ["PLACES", "Agenda", "Products"]

#: Products of warpgroups that a tensor core takes before the first has ended. On an H200, with A in registers
#: or shared memory and N = 64 to 256, each of 12 is issued when the seventh before it ends.
PLACES = 7

#: A warpgroup: its CTA, and its number there.
_Group = tuple[tuple[int, int], int]


class Agenda(Protocol):
    """What happens when, in the order of time."""

    now: float

    def call_at(self, time: float, call: Callable[[], None]) -> None:
        """Call back at a time."""

    def happens_at(self, step: Step, due: float) -> None:
        """Let a step happen at a time."""

    def goes_on(self, s: Split, since: float) -> None:
        """Let a warp go on that has waited ``since`` a time to issue a product."""


@dataclass(eq=False, slots=True)
class _Issued:
    """A product that all warps of a warpgroup have issued.

    Attributes:
        group: the warpgroup.
        product: what it is.
        quarters: the part of each warp, and when the warp issued it.
        queued: whether products of the warpgroup are in flight before it.
        ready: from when on the tensor core may work on it.
    """

    group: _Group
    product: Product
    quarters: list[tuple[Step, float]]
    queued: bool = False
    ready: float = 0.0


class Products:
    """The products in flight of all multiprocessors, by the figures of a GPU."""

    def __init__(self, figures: Figures, agenda: Agenda) -> None:
        self._figures, self._agenda = figures, agenda
        #: When the result of a product is there whose operands have been read.
        self._results: dict[AsyncOperation, float] = {}
        #: How many products each warp of a warpgroup has issued, and the quarters of products of which some
        #: are missing, with the times of their issue.
        self._issued: dict[tuple[tuple[int, int], int], int] = {}
        self._quarters: dict[tuple[_Group, int], list[tuple[Step, float]]] = {}
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

    def issue(self, step: Step, time: float, product: Product, units: Units) -> None:
        """Take a warp's quarter of a product of ``wgmma``, issued at ``time``.

        The four parts of the tensor core read B together: they begin when the last warp comes with its rows.
        """
        key, warp = step.operation.cta_key, step.operation.issuer.warp
        number = self._issued[key, warp] = self._issued.get((key, warp), 0) + 1
        group = key, warp // WARPGROUP
        quarters = self._quarters.setdefault((group, number), [])
        quarters.append((step, time))
        if len(quarters) == WARPGROUP:
            del self._quarters[group, number]
            whole = _Issued(group, product, quarters)
            line = self._lines.get(units)
            if line is None:
                line = self._lines[units] = _Line(self._figures, units, self._agenda, self._results)
            self._agenda.call_at(max(issued for _, issued in quarters), partial(line.offer, whole))

    def hold(self, s: Split, units: Units) -> bool:
        """Hold a warp that waits for a place for the product that it has executed; True if it does."""
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
        self._waiting: dict[_Group, deque[_Issued]] = {}
        self._held: dict[_Group, list[tuple[Split, float]]] = {}

    def hold(self, s: Split, group: _Group) -> bool:
        """Hold a warp of a warpgroup until its last product has a place; True if it has none."""
        if group not in self._waiting:
            return False
        self._held.setdefault(group, []).append((s, self._agenda.now))
        return True

    def offer(self, whole: _Issued) -> None:
        """Take a product that is issued now."""
        group = whole.group
        before = (*self._placed, self._running) if self._running is not None else tuple(self._placed)
        whole.queued = any(each.group == group for each in before)
        if len(before) < PLACES and group not in self._waiting:
            self._place(whole)
        else:
            self._waiting.setdefault(group, deque()).append(whole)

    def _place(self, whole: _Issued) -> None:
        whole.ready = self._agenda.now + self._figures.product_start
        self._placed.append(whole)
        if self._running is None:
            self._agenda.call_at(whole.ready, self._begin)

    def _begin(self) -> None:
        """Begin the next product, if the tensor core is free."""
        if self._running is not None or not self._placed:
            return
        ready = self._placed[0].ready
        if ready > self._agenda.now:
            self._agenda.call_at(ready, self._begin)
        else:
            self._run(self._placed.popleft())

    def _run(self, whole: _Issued) -> None:
        figures, units, product = self._figures, self._units, whole.product
        interval, rest = figures.product(product)
        if any(each.group != whole.group for each in self._placed) or self._waiting.keys() - {whole.group}:
            interval = figures.beside_another(product)
        if whole.queued:
            rest = max(0.0, rest - figures.queued)
        nbytes = WARPGROUP * product.operand_bytes
        units.read_operands(nbytes, interval)
        interval = units.beside_accesses(self._agenda.now, interval, nbytes)
        begun = units.multiply_from(self._agenda.now, interval)
        read = units.tensor.serve(begun, interval)
        units.duty.work(begun, read - begun)
        self._running = whole
        for quarter, issued in whole.quarters:
            self._results[quarter.operation] = read + rest
            quarter.operation.observed = Passage(issued, read, "tensor")
            self._agenda.happens_at(quarter, read)
        self._agenda.call_at(read, self._end)

    def _end(self) -> None:
        """Give the place of the product that ends to a warpgroup that waits, and begin the next one."""
        self._running = None
        if self._waiting:
            group = next(iter(self._waiting))
            line = self._waiting.pop(group)
            self._place(line.popleft())
            if line:
                self._waiting[group] = line
            else:
                for s, since in self._held.pop(group, ()):
                    self._agenda.goes_on(s, since)
        self._begin()
