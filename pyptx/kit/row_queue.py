"""A queue of rows: a CTA takes the next row when it has a place for it, not rows at a constant distance.

Owns the tickets.  A counter in a workspace of the kernel gives each row out once; a CTA that gets more
bandwidth than others takes more rows, so all CTAs end within about one row of each other.  One thread of the
CTA takes a ticket a row ahead of its use, so that it seldom waits for memory::

    stages 0..S-1 of CTA c     rows c, c + ctas, ...              no ticket
    ticket t                   row S * ctas + t, while it exists
    one ticket too many        tells the CTA that no row is left

The CTA asks for its next ticket only after one that was a row, so each CTA gets exactly one ticket too many,
and the number of all tickets is known: ``atom.inc`` wraps the counter to 0 at the last one.  So the workspace
is zero again when the kernel ends, without a last CTA that resets it.

The number of the row of each stage stands in shared memory.  The thread writes it before it arrives at the
mbarrier of the stage, and the other threads read it after their wait.

Which CTA computes a row depends on the schedule, and so the simulator claims its own schedule only; no
result depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.types import u32
from ..dsl import Reg, TileParam, ptx, reg, smem

if TYPE_CHECKING:
    from .row_stream import RowStream

__all__ = ["RowQueue"]


class RowQueue:
    """The rows that a CTA takes. Made by :class:`.row_sources.RingRows`.

    Attributes:
        block: the row of this pass, in all threads; not below the number of rows: none is left.
    """

    def __init__(self, stream: RowStream, counter: TileParam) -> None:
        self._stream, self._counter = stream, counter
        stages = stream.plan.stages
        self._numbers = smem.alloc(stages, u32, name="row_numbers")
        self._first = stream.step * stages
        #: Number of the last ticket: those of rows, and one of each CTA.
        self._last = reg.scalar(u32)
        ptx.inst.max.u32(self._last, self._first, stream.blocks)
        ptx.inst.sub.u32(self._last, self._last, self._first)
        self._last += stream.step - 1
        self._ticket = reg.scalar(u32, init=0)
        self.block = reg.scalar(u32, init=stream.first)

    def _number(self, stage: Reg) -> Reg:
        """Compute the address of the number of a stage's row."""
        place = reg.scalar(u32)
        ptx.inst.mad.lo.u32(place, stage, 4, self._numbers.addr)
        return place

    def ask(self) -> None:
        """Take the next ticket. In one thread. Records one ``atom.inc``."""
        ptx.atom(
            "inc",
            self._counter.at(0),
            self._last,
            sem="relaxed",
            scope="gpu",
            space="global",
            out=self._ticket,
        )

    def next_row(self) -> Reg:
        """Return the row of the ticket. In the thread that took it."""
        return self._first + self._ticket

    def note(self, stage: Reg, block: Reg) -> None:
        """Write the row of a stage, before the arrival at the stage's mbarrier."""
        ptx.store(ptx.addr(self._number(stage)), block, space="shared")

    def look(self, stage: Reg) -> None:
        """Read the row of a stage into :attr:`block`. In all threads, after their wait for the stage."""
        ptx.load(u32, ptx.addr(self._number(stage)), space="shared", out=self.block)
