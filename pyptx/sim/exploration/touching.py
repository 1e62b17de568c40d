"""Observes a run, and collects what the current transition touches."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.types import TYPES
from ..engine.events import AsyncOperation, Step, StepKind
from ..engine.stream import Fence, FenceKind, Life, LifeKind, Observer, Sync, SyncKind
from ..memory.access import Access, AccessKind, MemoryOrder, StateSpace
from ..threads.warp import Split, mask_of_lanes
from .events import FENCES, Act, Event, Meeting, Role, Touch, ordered
from .groups import Groups

if TYPE_CHECKING:
    from ..threads.machine_state import MachineState

__all__ = ["Touching", "split_name"]

#: Spaces whose bytes only one thread reaches, or that no thread writes.
_OWN = (StateSpace.LOCAL, StateSpace.PARAM, StateSpace.CONST)
#: The largest store, in bytes of all lanes, whose value is compared with that of other stores.
_COMPARED = 4096
#: The largest word, in bytes, of an atomic operation whose summand is known.
_WORD = 8
#: Atomic operations on integers of which any two commute, and the addition of floats: its order is left out.
_COMMUTING = frozenset({"add", "and", "or", "xor", "min", "max"})

_MBARRIER = {
    SyncKind.MBARRIER_ARRIVE: Role.ARRIVE,
    SyncKind.MBARRIER_EXPECT_TX: Role.EXPECT,
    SyncKind.MBARRIER_INCREMENT: Role.INCREMENT,
    SyncKind.MBARRIER_COMPLETE_TX: Role.COMPLETE,
    SyncKind.MBARRIER_WAIT: Role.WAIT,
}
_BARRIERS = {
    SyncKind.BAR_ARRIVE: ("bar", Role.ARRIVE),
    SyncKind.BAR_WAIT: ("bar", Role.WAIT),
    SyncKind.WARP_ARRIVE: ("bar.warp", Role.ARRIVE),
    SyncKind.WARP_WAIT: ("bar.warp", Role.WAIT),
    SyncKind.CLUSTER_ARRIVE: ("barrier.cluster", Role.ARRIVE),
    SyncKind.CLUSTER_WAIT: ("barrier.cluster", Role.WAIT),
}
_SILENT = (SyncKind.REGISTERS_USED, SyncKind.GROUP_WAIT, SyncKind.GRID_WAIT, SyncKind.LANES_MATCH)


def split_name(s: Split) -> str:
    """Return the name of a split's lanes: launch, CTA and warp, and the lanes as a mask."""
    launch, cta = s.cta_key
    return f"{launch}.{cta}.{s.warp.index}:{s.mask:x}"


class Touching(Observer):
    """Fills the current event; gives names to the steps of operations.

    Attributes:
        current: the event of the transition that runs now, or None before the first one.
        names: names of the steps in flight, by serial number.
    """

    def __init__(self, machine: MachineState, contended: frozenset[Hashable]) -> None:
        self._machine, self._contended = machine, contended
        self.current: Event | None = None
        self.names: dict[int, str] = {}
        #: The events of each launch.
        self._events: dict[int, list[Event]] = {}
        #: The events that let the launch after each launch start early.
        self._lets_go: dict[int, list[Event]] = {}
        self._groups = Groups()
        self._issued: dict[int, Event] = {}
        self._done: dict[int, Event] = {}
        self._counts: dict[str, int] = {}
        self._edges: dict[int, tuple[int, ...]] = {}
        #: Each CTA's launch, cluster and rank, by which its shared memory is known.
        self._places: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._storages: list[Any] = []
        #: Events that a CTA's first events follow: those of the launch before.
        self.roots: dict[tuple[int, int], list[Event]] = {}
        self._stores: list[tuple[int, Any, Any]] = []
        #: The word to which an atomic operation adds, and its value before.
        self._added: tuple[Any, slice, int] | None = None

    # --- the transition -------------------------------------------------------------------------

    def begin_event(self, event: Event) -> None:
        """Let ``event`` be the current one."""
        self.current = event
        self._added = None
        self._stores.clear()

    def finish_event(self, *, changed: bool) -> Event:
        """Return the current event. ``changed`` is False if it has written no memory."""
        event = self.current
        assert event is not None
        for number, segment, offsets in self._stores:
            touch = event.touches[number]
            digest = hashlib.blake2b(segment.data[offsets].tobytes(), digest_size=8)
            digest.update(repr((touch.starts, touch.size)).encode())
            event.touches[number] = Touch(
                touch.object, f"store {digest.hexdigest()}", touch.starts, touch.size
            )
        self._stores.clear()
        if self._added is not None:
            segment, here, before = self._added
            if event.weak is None or not event.weak.number:
                event.amount = _number(segment, here.start, here.stop - here.start) - before
            self._added = None
        if not changed:
            # A compare-and-swap that fails, or an exchange of equal values.
            event.touches = [
                Touch(t.object, Act.READ, t.starts, t.size) if t.kind == "rmw" else t for t in event.touches
            ]
        event.touches = [
            Touch(t.object, Act.CHANGE, t.starts, t.size) if t.kind == "rmw" else t for t in event.touches
        ]
        event.effect |= changed
        return event

    def keep_event(self, event: Event) -> None:
        """Remember an event that has happened, for the launches after its own."""
        self._events.setdefault(int(event.agent.partition(".")[0]), []).append(event)

    def follow_steps(self, steps: Sequence[Step]) -> None:
        """Record that the current event follows steps that have happened."""
        assert self.current is not None
        self.current.after |= {id(self._done[s.serial]) for s in steps if s.serial in self._done}

    def touch(self, object: Hashable, kind: str) -> None:
        """Add a touch of an object that is not memory to the current event."""
        if self.current is not None:
            found = Touch(object, kind)
            if found not in self.current.touches:
                self.current.touches.append(found)

    # --- observer -------------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        event = self.current
        if event is None or access.space in _OWN:
            if event is not None and access.kind.writes:
                event.effect = True
            return
        segment, footprint = access.segment, access.footprint
        starts = tuple(np.unique(footprint.starts).tolist())
        key = self._key(access)
        kind = _kind(access)
        in_order = ordered(key) in self._contended
        if in_order and kind not in (Act.READ, "rmw"):
            kind = Act.CHANGE
        if (
            access.kind is AccessKind.WRITE
            and not in_order
            and access.threads is not None
            and access.space is not StateSpace.TENSOR
            and footprint.nbytes <= _COMPARED
        ):
            self._stores.append((len(event.touches), segment, footprint.offsets()))
        event.touches.append(Touch(key, kind, starts, footprint.size))
        if kind not in (Act.READ, Act.CHANGE) and len(footprint.starts) == 1 and footprint.size <= _WORD:
            self._added = (
                segment,
                slice(starts[0], starts[0] + footprint.size),
                _number(segment, starts[0], footprint.size),
            )
        if access.kind in (AccessKind.INIT, AccessKind.INVAL):
            launch, cluster, _ = self._places[access.actor.cta_key]
            self.touch(("mbarrier", launch, cluster, segment.base + int(footprint.starts[0])), Act.CHANGE)

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        self._groups.issue(operation, steps)
        launch, cta = operation.cta_key
        by = f"{launch}.{cta}.{operation.issuer.warp}:{mask_of_lanes([n % 32 for n in operation.lanes]):x}"
        for step in steps:
            number = self._counts.get(by, 0)
            self._counts[by] = number + 1
            self.names[step.serial] = f"{by}#{number}"
            self._edges[step.serial] = step.edges
            if self.current is not None:
                self._issued[step.serial] = self.current
                self.current.effect = True

    def happens(self, step: Step) -> None:
        event = self.current
        assert event is not None
        self._done[step.serial] = event
        event.effect = True
        if step.serial in self._issued:
            event.after.add(id(self._issued[step.serial]))
        event.after |= {id(self._done[each]) for each in self._edges[step.serial] if each in self._done}
        if step.kind is StepKind.CANCEL:
            self.touch(("launch", step.operation.cta_key[0]), Act.CHANGE)

    def sync(self, sync: Sync) -> None:
        event = self.current
        if event is None:
            return
        role = _MBARRIER.get(sync.kind)
        if role is Role.ARRIVE and sync.steps:
            role = Role.SIGNAL
        if role is not None:
            assert isinstance(sync.object, tuple)
            self._meet(("mbarrier", *sync.object), sync.phase, role, sync.amount, parity=True)
            self._near(sync.object)
        elif sync.kind in _BARRIERS:
            family, role = _BARRIERS[sync.kind]
            self._meet((family, sync.object), sync.phase, role, parity=False)
        elif sync.kind in (SyncKind.GROUP_COMMIT, SyncKind.GROUP_WAIT):
            self.follow_steps(self._groups.sync(sync))
        elif sync.kind is SyncKind.GRID_WAIT:
            assert isinstance(sync.object, int)
            event.after |= {id(each) for each in self._events.get(sync.object, ())}
        elif sync.kind is SyncKind.LAUNCH_DEPENDENTS:
            self._lets_go.setdefault(sync.cta[0], []).append(event)
        if sync.kind not in _SILENT and role is not Role.WAIT:
            event.effect = True

    def fence(self, fence: Fence) -> None:
        if fence.kind is FenceKind.MEMORY and fence.semantics is MemoryOrder.SC and FENCES in self._contended:
            self.touch(FENCES, Act.CHANGE)

    def asked(self, barrier: Hashable, phase: int) -> None:
        """Record that a test of an mbarrier has found this phase incomplete."""
        assert isinstance(barrier, tuple)
        self._meet(("mbarrier", *barrier), phase, Role.ASK, parity=True)

    def begin(self, life: Life) -> None:
        if life.kind is LifeKind.CTA:
            assert isinstance(life.key, tuple)
            cta = self._machine.residency.live[life.key]
            self._places[life.key] = (life.key[0], cta.cluster.number, cta.rank)
            before = cta.grid.before
            if before is not None:
                known = self._lets_go if cta.grid.dependent else self._events
                self.roots[life.key] = list(known.get(before.number, ()))
                if self.current is not None:
                    self.roots[life.key].append(self.current)
        elif life.kind is LifeKind.TENSOR_MEMORY:
            assert isinstance(life.key, tuple)
            self._columns(life.key[0])

    def end(self, life: Life) -> None:
        if self.current is None:
            return
        if life.kind is LifeKind.CTA:
            assert isinstance(life.key, tuple)
            self.touch(("cta", *self._places[life.key]), Act.CHANGE)
            self.current.ends.append(life.key)
            self._lets_go.setdefault(life.key[0], []).append(self.current)
        elif life.kind is LifeKind.TENSOR_MEMORY:
            assert isinstance(life.key, tuple)
            self._columns(life.key[0])
        self.current.effect = True

    # --- objects --------------------------------------------------------------------------------

    def _meet(self, object: Hashable, phase: int, role: str, amount: int = 0, *, parity: bool) -> None:
        assert self.current is not None
        self.current.meetings.append(Meeting(object, phase, role, amount))
        if object in self._contended:
            self.touch(object, Act.READ if role in (Role.WAIT, Role.ASK) else Act.CHANGE)
        elif parity:
            self.touch(object, Act.USE)

    def _columns(self, multiprocessor: Hashable) -> None:
        self.touch(("columns", multiprocessor), Act.CHANGE)

    def _key(self, access: Access) -> Hashable:
        segment = access.segment
        if access.space is StateSpace.GLOBAL:
            return ("global", segment.base)
        if access.space is StateSpace.SHARED:
            launch, number, _ = self._places[access.actor.cta_key]
            self._near((launch, number, segment.base))
            return ("shared", launch, number, segment.base >> 24)
        return ("tensor", self._storage(segment))

    def _storage(self, segment: Any) -> int:
        for number, each in enumerate(self._storages):
            if each is segment:
                return number
        self._storages.append(segment)
        return len(self._storages) - 1

    def _near(self, place: tuple[Any, ...]) -> None:
        """Record that the event needs the CTA at ``place``: launch, cluster, and an address there."""
        launch, cluster, address = place
        if self._machine.grids[launch].cluster_size > 1:
            self.touch(("cta", launch, cluster, address >> 24), Act.READ)


def _kind(access: Access) -> str:
    if access.kind is AccessKind.READ:
        return Act.READ
    if access.kind is not AccessKind.RMW:
        return Act.CHANGE
    actor = access.actor
    if not isinstance(actor, Split) or actor.op is None:
        return Act.CHANGE
    op = actor.op
    operation, kind = op.chosen.get("op"), op.chosen.get("type", "")
    if operation in _COMMUTING and kind in TYPES:
        if "unread" not in op.cache:
            op.cache["unread"] = not actor.frame.code.reads_results(op)
        if op.cache["unread"]:
            return f"{operation} {kind}"
    return "rmw"


def _number(segment: Any, start: int, size: int) -> int:
    return int.from_bytes(segment.data[start : start + size].tobytes(), "little")
