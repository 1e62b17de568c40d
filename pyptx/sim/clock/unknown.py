"""Where a kernel's control depends on contents that are not known.

A prediction may know only the shapes of arrays. Their contents may pass through the kernel, but they must not
decide where a thread goes: then the time depends on them, and the run ends as incomplete.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

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
    """The memory with unknown contents: ``bases`` are the addresses of such arrays.

    Arrays at ``written`` may have been written by another launch, or by CTAs that do not run here. Those at
    ``alike`` hold the same number everywhere: what it decides, it decides alike for all tiles.
    """

    def __init__(
        self,
        bases: frozenset[int],
        written: frozenset[int] = frozenset(),
        alike: frozenset[int] = frozenset(),
    ) -> None:
        self._bases, self._all, self._alike = bases, bases | written, alike
        #: True if known contents of global memory that differ have decided where a thread goes.
        self.steered = False
        #: For each shared memory, which of its lines hold unknown contents.
        self._lines: dict[int, NDArray[np.bool_]] = {}

    @property
    def active(self) -> bool:
        """True if there is memory with unknown contents."""
        return bool(self._bases)

    def check(self, s: Split | None, access: Access) -> None:
        """Take an access. Raises :class:`Fault` if it reads unknown contents that decide where ``s`` goes."""
        if s is not None and access.space is StateSpace.GLOBAL and access.kind is not AccessKind.WRITE:
            known = access.segment.base not in self._all | self._alike
            self.steered |= known and s.op is not None and _decides(s.frame.code, s.op)
        if not self._all:
            return
        actor = access.actor
        if isinstance(actor, AsyncOperation):
            work = actor.work
            if access.space is StateSpace.SHARED and access.kind is AccessKind.WRITE:
                self._mark(access, unknown=self.active and isinstance(work, Copy) and work.loads)
        elif access.kind is AccessKind.WRITE:
            if access.space is StateSpace.SHARED:
                self._mark(access, unknown=False)
        elif s is not None and self._reads(access):
            self._require(s)

    def require(self, s: Split) -> None:
        """Raise :class:`Fault` if a product of unknown contents decides where ``s`` goes."""
        if self._bases:
            self._require(s)

    def _require(self, s: Split) -> None:
        op = s.op
        if op is not None and _decides(s.frame.code, op):
            raise Fault(
                Finding(
                    RULES["needs-data"],
                    f"what {op.name} reads decides where a thread goes, or whether it accesses memory",
                    op.location,
                    s.description(),
                )
            )

    def _mark(self, access: Access, *, unknown: bool) -> None:
        segment = access.segment
        lines = self._lines.get(id(segment))
        if lines is None:
            if not unknown:
                return
            lines = self._lines[id(segment)] = np.zeros(-(-segment.size // _LINE), np.bool_)
        lines[_lines_of(access)] = unknown

    def _reads(self, access: Access) -> bool:
        if access.space is StateSpace.GLOBAL:
            return access.segment.base in self._all
        lines = self._lines.get(id(access.segment)) if access.space is StateSpace.SHARED else None
        return lines is not None and bool(lines[_lines_of(access)].any())


def _lines_of(access: Access) -> NDArray[np.int64]:
    """Return the numbers of the lines that an access touches, some of them several times."""
    first = access.footprint.starts // _LINE
    last = (access.footprint.starts + access.footprint.size - 1) // _LINE
    most = int((last - first).max()) + 1
    found: NDArray[np.int64] = np.minimum(first[:, None] + np.arange(most), last[:, None])
    return found


@cache
def _decides(code: FunctionCode, op: Op) -> bool:
    return code.decides(op)
