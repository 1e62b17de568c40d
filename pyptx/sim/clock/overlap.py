"""What a launch loses where several units work at the same time.

Threads load, compute and exchange by turns, and those of a multiprocessor do not take turns in step: now and
then all of them wait for one unit while the other stands still. So a launch takes longer than the unit that
works most, the more so the more another one works, too. Here warps find a rhythm in which one hides behind
the other; hardware, where no two accesses take equally long, does not.

Measured on an H200: docs/clock.md, "Units that work at the same time".
"""

from __future__ import annotations

from collections.abc import Mapping

from ...timing.constants import Gpu
from .freed import PIPES
from .scheduler import ISSUE

__all__ = ["overlap_loss"]

#: Units that serve the same work one behind the other, in a pipeline, and lose nothing to each other.
_CHAINS = (
    frozenset({ISSUE, *PIPES}),
    frozenset({"shared memory"}),
    frozenset({"L1", "link", "L2", "fabric", "HBM"}),
)


def overlap_loss(gpu: Gpu, busy: Mapping[str, float]) -> float:
    """Return by which share of its time a launch takes longer than if units took turns in step.

    Args:
        gpu: the constants.
        busy: share of the time in which each unit of a multiprocessor worked, if they did. Tensor cores and
            the copy engine, which are told long before, do not count.
    """
    shares = sorted(max([busy.get(unit, 0.0) for unit in chain]) for chain in _CHAINS)
    return gpu.value("sm.overlap_loss") * min(1.0, shares[-2]) ** 3
