"""Columns of tensor memory whose numbers are open, since several CTAs of a multiprocessor allocate.

The number of a column says only where the CTA's own columns are. So instructions may use it to access tensor
memory; a predicate, another address or a stored value that depends on it competes.

Owns the bytes of shared memory to which allocations wrote such numbers, and the instructions that load them.
"""

from __future__ import annotations

from typing import Any

from ..engine.events import AsyncOperation
from ..memory.access import Access, AccessKind
from ..memory.segments import Segment
from .competing import Ledger

__all__ = ["Columns"]

_BYTES = 4


class Columns:
    """The numbers of columns that one run has written to shared memory."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        #: The CTAs whose columns have open numbers.
        self.open: set[tuple[int, int]] = set()
        #: True between an allocation and the store of its address.
        self.allocated = False
        #: By identity of the segment: the segment, its CTA, and the offsets of the numbers.
        self._places: dict[int, tuple[Segment, tuple[int, int], set[int]]] = {}
        #: For each function, by identity, the statements that load such a number.
        self.loads: dict[int, set[int]] = {}

    @property
    def watching(self) -> bool:
        """True if accesses must be told to :meth:`access`."""
        return self.allocated or bool(self._places)

    def access(self, access: Access) -> None:
        """Follow an access of shared memory."""
        if self.allocated:
            self.allocated = False
            kept = self._places.setdefault(id(access.segment), (access.segment, access.actor.cta_key, set()))
            kept[2].update(access.footprint.starts.tolist())
            return
        found = self._places.get(id(access.segment))
        if found is None or access.kind is AccessKind.PROBE:
            return
        starts, size = access.footprint.starts, access.footprint.size
        if access.kind is AccessKind.WRITE:
            # Other bytes may take the place of a whole number.
            ends = starts + size - _BYTES
            found[2].difference_update([p for p in found[2] if ((starts <= p) & (p <= ends)).any()])
        elif any(((starts < place + _BYTES) & (starts > place - size)).any() for place in found[2]):
            actor: Any = access.actor
            if isinstance(actor, AsyncOperation) or not hasattr(actor, "frame"):
                self._ledger.competes(
                    "read of the number of a column of tensor memory, which is open",
                    actor.location,
                )
                return
            self.loads.setdefault(id(actor.frame.code), set()).add(actor.op.statement)

    def begin(self, cta: tuple[int, int]) -> None:
        """Begin an allocation: the next access stores its address."""
        self.allocated = cta in self.open

    def end_cta(self, cta: tuple[int, int]) -> None:
        """Forget the shared memory of a CTA."""
        self.open.discard(cta)
        for number in [n for n, (_, owner, _) in self._places.items() if owner == cta]:
            del self._places[number]
