"""When products of the tensor core have read their operands, and when their results are there.

Owns the products in flight: the quarters of a warpgroup's product that wait for the others, and the results
of products whose operands have been read.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.events import AsyncOperation, Step
from ..engine.work import Product
from .figures import WARPGROUP, Figures
from .stalls import Passage
from .units import PLACES, Units

__all__ = ["Products"]


class Products:
    """The products in flight of all multiprocessors, by the figures of a GPU."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        #: When the result of a product is there whose operands have been read.
        self._results: dict[AsyncOperation, float] = {}
        #: How many products each warp of a warpgroup has issued, and the quarters of products of which some
        #: are missing, with the times of their issue.
        self._issued: dict[tuple[tuple[int, int], int], int] = {}
        self._quarters: dict[tuple[tuple[int, int], int, int], list[tuple[Step, float]]] = {}
        #: Until when a warpgroup waits for a place for its last product.
        self._held: dict[tuple[tuple[int, int], int], float] = {}
        #: Until when the multipliers have products of a warpgroup.
        self._multiplying: dict[tuple[tuple[int, int], int], float] = {}

    def held(self, cta: tuple[int, int], warp: int) -> float:
        """Return until when a warp issues the products that it has executed."""
        return self._held.get((cta, warp // WARPGROUP), 0.0)

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

    def gather(self, step: Step, time: float, product: Product, units: Units) -> list[tuple[Step, float]]:
        """Take a warp's quarter of a product, issued at ``time``. Return all four with the last one.

        Each comes with the time at which it has read its operands. The four parts of the tensor core read B
        together: they begin when the last warp comes with its rows.
        """
        key, warp = step.operation.cta_key, step.operation.issuer.warp
        number = self._issued[key, warp] = self._issued.get((key, warp), 0) + 1
        group = key, warp // WARPGROUP
        quarters = self._quarters.setdefault((*group, number), [])
        quarters.append((step, time))
        if len(quarters) < WARPGROUP:
            return []
        del self._quarters[(*group, number)]
        interval, rest = self._figures.product(product)
        time = max(issued for _, issued in quarters)
        if self._multiplying.get(group, 0.0) <= time:
            interval += self._figures.refill
        else:
            rest = max(0.0, rest - self._figures.queued)
        begun = units.multiply_from(max(time, units.tensor.free), interval)
        read = units.tensor.serve(begun, interval)
        units.duty.work(begun, read - begun)
        units.read_operands(WARPGROUP * product.operand_bytes, interval)
        self._multiplying[group] = read
        # The warpgroup has issued the product when one of those before it leaves its place.
        ended = units.products
        if len(ended) == PLACES:
            self._held[group] = ended[0]
        ended.append(read)
        for quarter, issued in quarters:
            self._results[quarter.operation] = read + rest
            quarter.operation.observed = Passage(issued, read, "tensor")
        return [(quarter, read) for quarter, _ in quarters]
