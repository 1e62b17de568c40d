"""Where a kernel's control depends on contents that are not known.

A prediction may know only the shapes of arrays. Their contents may pass through the kernel, but they must not
decide where a thread goes: then the time depends on them, and the run ends as incomplete.
"""

from __future__ import annotations

from functools import cache

from ...core.findings import RULES, Finding
from ..code.function import FunctionCode
from ..code.semantic import Op
from ..engine.events import AsyncOperation
from ..engine.work import Copy
from ..memory.access import Access, AccessKind, StateSpace
from ..memory.segments import Fault
from ..threads.warp import Split

__all__ = ["Unknown"]

#: Bytes of shared memory that are known or unknown together.
_LINE = 16


class Unknown:
    """The memory with unknown contents: ``bases`` are the addresses of such arrays."""

    def __init__(self, bases: frozenset[int]) -> None:
        self._bases = bases
        #: Lines of each shared memory that hold unknown contents.
        self._lines: dict[int, set[int]] = {}

    def check(self, s: Split | None, access: Access) -> None:
        """Take an access. Raises :class:`Fault` if it reads unknown contents that decide where ``s`` goes."""
        if not self._bases:
            return
        actor = access.actor
        if isinstance(actor, AsyncOperation):
            work = actor.work
            if access.space is StateSpace.SHARED and access.kind is AccessKind.WRITE:
                unknown = isinstance(work, Copy) and work.loads
                self._mark(access, unknown=unknown)
        elif access.kind is AccessKind.WRITE:
            if access.space is StateSpace.SHARED:
                self._mark(access, unknown=False)
        elif s is not None and self._reads(access):
            self.require(s)

    def require(self, s: Split) -> None:
        """Raise :class:`Fault` if the result of the current instruction decides where ``s`` goes."""
        op = s.op
        if self._bases and op is not None and _decides(s.frame.code, op):
            raise Fault(
                Finding(
                    RULES["needs-data"],
                    f"what {op.name} reads decides where a thread goes, or what a guarded instruction does",
                    op.location,
                    s.description(),
                )
            )

    def _lines_of(self, access: Access) -> set[int]:
        first = access.footprint.starts // _LINE
        last = (access.footprint.starts + access.footprint.size - 1) // _LINE
        return {*first.tolist(), *last.tolist()}

    def _mark(self, access: Access, *, unknown: bool) -> None:
        lines = self._lines.setdefault(id(access.segment), set())
        if unknown:
            lines |= self._lines_of(access)
        elif lines:
            lines -= self._lines_of(access)

    def _reads(self, access: Access) -> bool:
        if access.space is StateSpace.GLOBAL:
            return access.segment.base in self._bases
        lines = self._lines.get(id(access.segment), set()) if access.space is StateSpace.SHARED else set()
        return bool(lines) and not lines.isdisjoint(self._lines_of(access))


@cache
def _decides(code: FunctionCode, op: Op) -> bool:
    return code.decides(op)
