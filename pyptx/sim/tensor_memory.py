"""Tensor memory of one CTA: 128 lanes x 512 columns of 32-bit cells, its allocations and its accesses.

Source: PTX ISA, `#tensor-memory`_ and ``#tcgen05-memory-alloc-manage-instructions``.

.. _#tensor-memory: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-memory
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.findings import RULES, Finding
from ..layout.tensor_memory import COLUMNS, LANES, unpack_address
from .memory import Actor
from .tensor_core.order import Issued

if TYPE_CHECKING:
    from .threads.cta import CTA

__all__ = ["TensorMemory"]


class TensorMemory:
    """Cells, which of them were written, and who owns which columns."""

    def __init__(self, cta: CTA) -> None:
        self.cta = cta
        #: First column and width of each live allocation, and the line that made it.
        self.allocations: dict[int, tuple[int, Any]] = {}
        self.relinquished = False
        #: Columns of the last allocation: no later one may be larger.
        self.largest = COLUMNS
        #: First column of the allocation that was made exclusively, while it lives.
        self.exclusive: int | None = None
        #: What each thread, (warp, lane), has issued, and what was released for others to be ordered behind.
        self.issued: dict[tuple[int, int], Issued] = {}
        self.released = Issued()
        self._cells: np.ndarray[Any, np.dtype[np.uint32]] | None = None
        self._written: np.ndarray[Any, np.dtype[np.bool_]] | None = None

    @property
    def cells(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """``uint32[lane, column]``; made on first use, since most kernels have none."""
        if self._cells is None:
            self._cells = np.zeros((LANES, COLUMNS), np.uint32)
            self._written = np.zeros((LANES, COLUMNS), np.bool_)
        return self._cells

    # --- allocation ---------------------------------------------------------------------------

    def find_room(self, columns: int, exclusive: bool = False) -> int | None:
        """First column of a free, aligned run of ``columns``, or None; an exclusive one suffers no other."""
        if self.exclusive is not None or (exclusive and self.allocations):
            return None
        for first in range(0, COLUMNS - columns + 1, columns):
            if all(
                start >= first + columns or start + width <= first
                for start, (width, _) in self.allocations.items()
            ):
                return first
        return None

    def request(self, columns: int, exclusive: bool, actor: Actor) -> None:
        """alloc, before it waits for room. Raises a fault for what may not be asked for."""
        legal = range(32, COLUMNS + 1, 32) if exclusive else (32, 64, 128, 256, 512)
        if columns not in legal:
            rule = "a multiple of 32" if exclusive else "a power of two"
            why = f"alloc of {columns} columns; it takes {rule} from 32 to {COLUMNS}"
        elif self.relinquished:
            why = "alloc after relinquish_alloc_permit"
        elif columns > self.largest:
            why = f"alloc of {columns} columns after one of {self.largest}: a later one may not be larger"
        else:
            self.largest = columns
            return
        raise self.cta.machine.fault("tensor-memory", why, actor)

    def allocate(self, first: int, columns: int, exclusive: bool, actor: Actor) -> None:
        self.allocations[first] = (columns, actor.location)
        if exclusive:
            self.exclusive = first
        if self._written is not None:
            self._written[:, first : first + columns] = False

    def free(self, address: int, columns: int, exclusive: bool, actor: Actor) -> None:
        """dealloc. Raises a fault unless exactly this was allocated, in this way."""
        lane, first = unpack_address(address)
        width, _ = self.allocations.get(first, (0, None))
        if lane or width != columns or exclusive != (self.exclusive == first):
            have = ", ".join(f"{w} columns at {s:#x}" for s, (w, _) in self.allocations.items()) or "nothing"
            kind = ".exclusive" if exclusive else ""
            how = " exclusively" if self.exclusive is not None else ""
            raise self.cta.machine.fault(
                "tensor-memory",
                f"dealloc{kind} of {columns} columns at {address:#x}; allocated{how}: {have}",
                actor,
            )
        del self.allocations[first]
        self.exclusive = None

    def at_exit(self) -> None:
        """All threads of the CTA have ended: nothing may be allocated any more."""
        for first, (width, location) in self.allocations.items():
            self.cta.machine.report(
                Finding(
                    RULES["tensor-memory"],
                    f"{width} columns of tensor memory at {first:#x} were never freed",
                    location,
                    f"CTA {self.cta.coordinates}",
                )
            )

    # --- access -------------------------------------------------------------------------------

    def check(self, kind: str, lanes: Any, first: int, columns: int, actor: Actor) -> None:
        """The seam for tensor memory: the columns must be allocated, and written before a read.

        ``lanes`` is a slice of lanes or an array of lane numbers.

        Reports an access outside the allocations and goes on, as the hardware would; raises a fault outside
        the 128 x 512 cells.
        """
        machine = self.cta.machine
        numbers = lanes
        if isinstance(lanes, slice):
            numbers = np.arange(LANES if lanes.stop is None else lanes.stop)[lanes]
        end = first + columns
        owned = sum(max(0, min(end, s + w) - max(first, s)) for s, (w, _) in self.allocations.items())
        beyond = end > COLUMNS or numbers[-1] >= LANES
        if owned < columns or beyond:
            have = ", ".join(f"columns {s}..{s + w - 1}" for s, (w, _) in self.allocations.items())
            fault = machine.fault(
                "tensor-memory",
                f"{kind} of lanes {numbers[0]}..{numbers[-1]}, columns {first}..{end - 1}; "
                f"allocated: {have or 'nothing'}",
                actor,
            )
            if beyond:
                raise fault
            machine.report(fault.finding)
        _ = self.cells
        assert self._written is not None
        where = (lanes, slice(first, first + columns))
        if kind == "write":
            self._written[where] = True
        elif not self._written[where].all():
            lane, column = np.argwhere(~self._written[where])[0]
            machine.report(
                Finding(
                    RULES["uninitialised-read"],
                    f"read of tensor memory lane {numbers[lane]}, column {first + column}: never written",
                    actor.location,
                    actor.who(),
                )
            )
