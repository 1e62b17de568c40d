"""The groups of asynchronous operations for which lanes wait, so that a wait follows their steps.

Only groups are known whose operations, commits and waits are executed by the same lanes. For others a wait
follows fewer steps than it could: then a few runs are tried in vain.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.events import AsyncOperation, Step, StepKind
from ..engine.stream import GroupKind, Sync, SyncKind
from ..threads.warp import mask_of_lanes

__all__ = ["Groups", "lanes_of_threads"]

#: The lanes of a warp: launch, CTA, warp, and mask.
Lanes = tuple[int, int, int, int]
_TENSOR = (GroupKind.TCGEN05_LD, GroupKind.TCGEN05_ST)


def lanes_of_threads(cta: tuple[int, int], threads: Sequence[int]) -> Lanes:
    """Return the lanes of threads of one warp."""
    numbers = [int(number) for number in threads]
    return (*cta, numbers[0] // 32, mask_of_lanes([number % 32 for number in numbers]))


class Groups:
    """The groups of all lanes."""

    def __init__(self) -> None:
        self._open: dict[tuple[Lanes, GroupKind], list[Step]] = {}
        self._committed: dict[tuple[Lanes, GroupKind], list[list[Step]]] = {}

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        """Add an operation to the open group of the lanes that issued it."""
        if operation.group is not None:
            lanes = lanes_of_threads(operation.cta_key, list(operation.issuing_threads()))
            self._open.setdefault((lanes, operation.group), []).extend(steps)

    def sync(self, sync: Sync) -> list[Step]:
        """Handle a commit or a wait; return the steps that a wait follows."""
        kind = sync.object
        if not isinstance(kind, GroupKind) or not len(sync.threads):
            return []
        lanes = lanes_of_threads(sync.cta, list(sync.threads))
        reads = kind is GroupKind.BULK_READ
        key = (lanes, GroupKind.BULK if reads else kind)
        if sync.kind is SyncKind.GROUP_COMMIT:
            self._committed.setdefault(key, []).append(self._open.pop(key, []))
            return []
        if kind in _TENSOR:
            return list(self._open.get(key, []))
        groups = self._committed.get(key, [])
        steps = [step for group in groups[: max(0, len(groups) - sync.amount)] for step in group]
        return [step for step in steps if not reads or step.kind is StepKind.READ_SHARED]
