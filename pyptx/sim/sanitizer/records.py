"""Records of accesses: what shadow memory stores about the last accesses to each byte.

A record stands for all accesses of one instruction of one warp (or of one step of an asynchronous
operation) in one time of its agent. Shadow memory stores values: :data:`CODES` times the number of the record
plus the lane, or plus :data:`ALL_LANES` if the whole record is meant.
"""

from __future__ import annotations

from dataclasses import field

from ...core.records import dataclass
from ...core.source import SourceLocation
from ..memory.access import AccessKind, MemoryOrder, Proxy, Scope
from .clocks import Levels
from .issue import Issue

__all__ = ["ALL_LANES", "CODES", "SAME_LANE", "Record", "Records"]

#: A shadow value is ``CODES * number + lane``.
CODES = 34
#: In place of a lane: all lanes of the record together, or an engine.
ALL_LANES = 32
#: In place of a lane, in a set of accesses: the lane of the value that names the set.
SAME_LANE = 33


@dataclass(eq=False, slots=True)
class Record:
    """One access.

    Attributes:
        number: position among the records of the run, from 1.
        key: key in clocks of the warp, or of the chain of the asynchronous operation.
        time: the time of this key at which the access happened.
        mask: the lanes, for a value with :data:`ALL_LANES`; 0 for an engine.
        reads_only: True if the access is the read of an operation that also writes: knowing the chain's
            :data:`~.clocks.READ_KEY` is enough.
        bound: for copies that a thread has waited for: key and time of its warp at the wait, by lane. For a
            strong write that other threads have read: ``observed`` and 1; for an arrival at an mbarrier: the
            barrier's key, and the phase plus 1.
        before: for a strong write of threads: masks of lanes, and what they knew.
        observed: key by which threads know a strong write that they have read; 0 if there is none.
        size: bytes of one piece.
        launch: the key in clocks that stands for the completion of the access's launch.
        barrier: True for an operation on an mbarrier: such operations are atomic among themselves.
        together: True for one access that the lanes of a warp make together, as ``tcgen05.alloc`` does.
        waited: False for a load of tensor memory that no ``tcgen05.wait::ld`` has waited for.
        issuer: for an operation: key of the warp that issued it.
        issue: the operation that accessed, for messages; None for threads.
        name: what accessed, for messages: the CTA, the warp and the lanes, or the operation.
    """

    number: int
    key: int
    time: int
    mask: int
    kind: AccessKind
    proxy: Proxy
    semantics: MemoryOrder
    scope: Scope
    size: int
    cta: tuple[int, int]
    launch: int
    name: str
    location: SourceLocation | None
    reads_only: bool = False
    barrier: bool = False
    together: bool = False
    waited: bool = True
    issuer: int = -1
    stream: object = None
    before: tuple[tuple[int, Levels], ...] = ()
    observed: int = 0
    bound: dict[int, tuple[int, int]] = field(default_factory=dict)
    issue: Issue | None = None


class Records:
    """All records of a run, by number."""

    def __init__(self) -> None:
        self._all: list[Record | None] = [None]

    def __getitem__(self, number: int) -> Record:
        found = self._all[number]
        assert found is not None
        return found

    @property
    def last(self) -> int:
        """The number of the last record."""
        return len(self._all) - 1

    def reserve(self, count: int) -> int:
        """Return the first of ``count`` numbers, whose records may follow (:meth:`put`)."""
        first = len(self._all)
        self._all.extend([None] * count)
        return first

    def put(self, record: Record) -> None:
        """Keep a record that has a reserved number."""
        self._all[record.number] = record

    def add(self, record: Record) -> Record:
        """Give the record its number, and keep it."""
        record.number = len(self._all)
        self._all.append(record)
        return record
