"""The accesses of a run: hands each to the part that checks it, and knows the memory that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.events import AsyncOperation, Step
from ..engine.stream import Sync
from ..memory.access import Access, AccessKind, Footprint, StateSpace
from ..memory.segments import Segment
from .agents import CtaAgent
from .engine_accesses import EngineAccesses
from .examine import Examiner
from .flags import Flags, LastWrite
from .issuing import Copies
from .mbarrier_accesses import MbarrierAccesses
from .records import ALL_LANES, CODES, Record
from .remote import RemoteAccesses
from .shadows import Shadows
from .thread_accesses import ThreadAccesses
from .world import World

__all__ = ["Accesses"]

#: Spaces that only one thread accesses, or that nothing writes.
_SKIPPED = (StateSpace.LOCAL, StateSpace.PARAM, StateSpace.CONST)
#: Tensor memory as a segment: lanes, bytes of one cell, bytes of one lane.
_TENSOR_LANES, _CELL_BYTES, _TENSOR_ROW = 128, 4, 2048


class Accesses:
    """The accesses of one run.

    ``beyond`` is called with an access to another CTA's shared memory that is not ordered after the start, or
    before the end, of that CTA.
    """

    def __init__(
        self, world: World, examiner: Examiner, beyond: Callable[[Record, CtaAgent, bool], None]
    ) -> None:
        self._world, self._examiner = world, examiner
        self._flags, self._shadows = Flags(world, examiner.sets), Shadows(world)
        self._remote = RemoteAccesses(world, beyond)
        self.mbarriers = MbarrierAccesses(world, examiner, self._remote)
        self._threads = ThreadAccesses(
            world, examiner, self._shadows, self._remote, self._flags, self.mbarriers
        )
        self._engines = EngineAccesses(world, examiner, self._shadows, self._remote, self._flags)
        #: Accesses of operations before their issue, such as the read of a tensor map.
        self._early: dict[int, list[Access]] = {}
        self._step: Step | None = None

    # --- life -----------------------------------------------------------------------------------

    def end_cta(self, key: tuple[int, int]) -> None:
        """Check the other CTAs' accesses to the shared memory of a CTA against its end; forget the memory."""
        self._remote.end_cta(key)
        self._shadows.end_cta(key)

    def end_segment(self, base: int) -> None:
        """Forget a segment of global memory."""
        self._shadows.end_segment(base)

    def allocate(self, storage: Segment, first: int, columns: int) -> None:
        """Forget what happened to columns of tensor memory before their allocation."""
        shadow = self._shadows.find(storage)
        if shadow is not None:
            self._examiner.settle(shadow)
            starts = _TENSOR_ROW * np.arange(_TENSOR_LANES) + _CELL_BYTES * first
            shadow.forget(Footprint(starts, _CELL_BYTES * columns))

    # --- flags ----------------------------------------------------------------------------------

    def last_write(self, segment: Segment, actor: Any, place: int) -> LastWrite:
        """Return what is known of the last write to an offset of a segment; ``actor`` can access it."""
        return self._flags.last_write(self._shadows.of(segment, actor), place)

    def has_flags(self, segment: Segment) -> bool:
        """True if something was released into bytes of a segment."""
        shadow = self._shadows.find(segment)
        return shadow is not None and bool(shadow.flags)

    def record_of(self, write: LastWrite) -> tuple[Record | None, int]:
        """Return the record of a write and the mask of the lanes that wrote; None if nothing was written."""
        if not write.value:
            return None, 0
        number, lane = divmod(self._examiner.sets.latest(write.value), CODES)
        record = self._world.records[number]
        return record, record.mask if lane == ALL_LANES else 1 << lane

    def follows(self, write: LastWrite, before: LastWrite | None) -> LastWrite:
        """Return what is known of a write that comes in coherence order after ``before``."""
        return self._flags.after(write, before)

    def read_from(self, segment: Segment, actor: Any, sources: dict[int, LastWrite]) -> None:
        """Let the next access take the values at some offsets from these writes, not from the last ones."""
        number = id(self._shadows.of(segment, actor))
        self._flags.sources = {(number, place): write for place, write in sources.items()}

    def learn_nothing(self, learns_nothing: bool) -> None:
        """Let the next access learn nothing of what others have released; or let it learn again."""
        self._flags.learns_nothing = learns_nothing

    # --- any access -----------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        if access.space in _SKIPPED or not access.footprint.nbytes:
            return
        actor = access.actor
        if not isinstance(actor, AsyncOperation):
            self._threads.access(access)
        elif actor.observed is None:
            self._early.setdefault(id(actor), []).append(access)
        elif isinstance(actor.observed, Copies):
            self._engines.of_copies(access, actor.observed)
        else:
            step = self._step
            assert step is not None and step.operation is actor, actor.name
            self._engines.of_step(access, actor, step.observed)

    def issued(self, operation: AsyncOperation) -> None:
        """Check the accesses that an operation made before its issue: its first step makes them."""
        for access in self._early.pop(id(operation), ()):
            self._engines.of_step(access, operation, operation.observed)

    def happens(self, step: Step) -> None:
        """The next accesses are those of this step."""
        self._step = step

    @property
    def step(self) -> Step | None:
        """The step that happens now."""
        return self._step

    def use_barrier(self, sync: Sync, kind: AccessKind) -> None:
        """Check an operation of threads, or a signal, on an mbarrier."""
        self.mbarriers.use(sync, kind, self._step)
