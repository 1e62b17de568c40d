"""Bulk groups: the bulk copies from shared memory that one thread has issued, and its waits for them.

Source: PTX ISA, `#data-movement-and-conversion-instructions-cp-async-bulk-commit-group`_.

.. _#data-movement-and-conversion-instructions-cp-async-bulk-commit-group:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk-commit-group
"""

from __future__ import annotations

from ...core.records import dataclass
from .events import Step

__all__ = ["BulkGroups"]


@dataclass(slots=True)
class _Group:
    """The copies of one bulk group, as steps (read, write).

    Also stores whether the thread has waited at least for their reads.
    """

    copies: list[tuple[Step, Step]]
    waited: bool = False


class BulkGroups:
    """The open group of one thread, and its committed groups, oldest first."""

    def __init__(self) -> None:
        self._open: list[tuple[Step, Step]] = []
        self._groups: list[_Group] = []

    def add(self, read: Step, write: Step) -> None:
        """Add a copy to the open group."""
        self._open.append((read, write))

    def commit(self) -> None:
        """Close the open group, and open a new one."""
        self._groups.append(_Group(self._open))
        self._open = []

    def to_wait_for(self, keep: int, *, reads: bool) -> list[Step]:
        """Return the steps that must happen until at most the ``keep`` newest groups are pending.

        With ``reads``, a copy is pending until it has read its source; otherwise until it is complete.
        """
        # Complete groups that the thread has waited for are forgotten, oldest first. A newer complete group
        # still counts.
        while self._groups and self._groups[0].waited and all(w.done for _, w in self._groups[0].copies):
            del self._groups[0]
        waited = self._groups[: max(0, len(self._groups) - keep)]
        for group in waited:
            group.waited = True
        steps = [read if reads else write for group in waited for read, write in group.copies]
        return [step for step in steps if not step.done]

    def never_waited(self) -> list[Step]:
        """Return the reads of all copies for which the thread has never waited."""
        copies = [copy for group in self._groups if not group.waited for copy in group.copies]
        return [read for read, _ in (*copies, *self._open)]
