"""Loops in which a CTA waits for others through words of a zeroed workspace, and when such a wait is over.

A launch finds its zeroed workspaces as zeros, and one position of the chip is simulated: no thread sets the
flags of the others. They do the same as this one at the same time, so that they have come as far when it
begins to wait: it reads the flag once more and goes on.

That holds for those who set a flag before they wait themselves. If a CTA that has waited sets one, others
wait for it, and it for others: how long such a chain is does not follow from one position.
"""

from __future__ import annotations

from functools import cache

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...flow import accesses
from ...flow.graph import EXIT
from ..code.function import CodeBlock, FunctionCode
from ..memory.access import Access, AccessKind
from ..memory.segments import Fault
from ..threads.warp import Split, Warp

__all__ = ["Flags"]

#: Instructions with memory that a loop may have which only waits.
_HARMLESS = frozenset({"ld", "fence", "membar", "nanosleep"})


@dataclass(frozen=True, slots=True)
class _Poll:
    """A loop that only reads memory until it ends: its first block, and the block behind it."""

    head: int
    behind: int


class Flags:
    """The flags of a launch: ``bases`` are the addresses of its zeroed workspaces."""

    def __init__(self, bases: frozenset[int]) -> None:
        self._bases = bases
        self._polling: dict[Warp, _Poll] = {}
        self._waited = False
        #: What the running block writes behind a wait.
        self._written: list[Access] = []

    def polls(self, s: Split, access: Access) -> bool:
        """Take an access. Return whether it reads a flag in a loop that waits for other positions."""
        if access.segment.base not in self._bases:
            return False
        if access.kind is not AccessKind.READ:
            if self._waited:
                self._written.append(access)
            return False
        cta = s.warp.cta
        # Another CTA of the position may set the flag later.
        alone = cta.multiprocessor.held == 1 and len(cta.cluster.ctas) == 1
        poll = _poll_around(s.frame.code, s.pc) if alone else None
        if poll is None:
            return False
        self._polling[s.warp] = poll
        return True

    def behind(self, s: Split, target: int) -> int | None:
        """Return where a warp goes on that would begin its loop at ``target`` again; None if it begins it."""
        poll = self._polling.pop(s.warp, None)
        if poll is None or poll.head != target:
            return None
        self._waited = True
        return poll.behind

    def check(self, s: Split) -> None:
        """Take the end of a block. Raises :class:`Fault` if a CTA that has waited sets a flag in it."""
        written, self._written = self._written, []
        for access in written:
            size = access.footprint.size
            if any(access.segment.data[start : start + size].any() for start in access.footprint.starts):
                raise Fault(
                    Finding(
                        RULES["needs-data"],
                        "a CTA that has waited for others sets a flag: the length of such a chain is unknown",
                        s.location,
                        s.description(),
                    )
                )


@cache
def _poll_around(code: FunctionCode, at: int) -> _Poll | None:
    """Return the innermost loop around a block, if it does nothing but wait and leaves no values behind."""
    loops = [
        (block.index - head, head, block.index)
        for block in code.program.blocks[at:]
        if block.code is code
        for head in _following(block)
        if 0 <= head <= at
    ]
    if not loops:
        return None
    _, head, last = min(loops)
    inside = code.program.blocks[head : last + 1]
    if not all(_only_reads(block) for block in inside):
        return None
    ways = {way for block in inside for way in _following(block) if not head <= way <= last}
    if len(ways) != 1:
        return None
    (behind,) = ways
    written = {
        register.name
        for block in inside
        for instruction, op in block.ops
        for register in accesses(instruction, op.binding)[1]
    }
    if behind != EXIT:
        statements = code.program.blocks[behind].statements
        if not statements or code.reads_from(statements[0], frozenset(written)):
            return None
    return _Poll(head, behind)


def _following(block: CodeBlock) -> list[int]:
    return [way for way in (block.taken, block.next, *block.table) if way is not None]


def _only_reads(block: CodeBlock) -> bool:
    return block.call is None and all(
        op.semantic.per == "value" or instruction.opcode in _HARMLESS for instruction, op in block.ops
    )
