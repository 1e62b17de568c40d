"""Phases of mbarriers and rounds of barriers: whether every schedule counts each operation in the same phase.

For phase k of one object:

* whatever counts in phase k is ordered after the end of phase k - 1;
* a wait for phase k is ordered after the end of phase k - 1, and before something that counts in phase k + 1;
* each ``expect_tx`` of phase k is ordered before an arrival of phase k, or is one instruction with it; an
  arrival that must not complete the phase is ordered before another one.

Then the phase cannot end early, nothing can count in another phase, and no wait can be lapped.

A wait that may be lapped is no finding as such. It is a deadlock under another schedule, and an error, if its
threads know that the phase is over, the next phase ends in any case, and nothing counts in the one behind it:
if the wait looks late, it waits for a phase that never ends.

The end of a phase has a key in the clocks of the sanitizer: waits for the phase learn it. A thread also knows
the end if it knows all that counted in the phase.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.remedies import Remedy
from ...core.source import SourceLocation
from ..engine.events import Engine, Step
from ..engine.stream import Sync, SyncKind
from ..memory.mbarrier import MAX_COUNT
from ..sanitizer.clocks import NO_CLOCK, Clock, Level, Levels
from ..sanitizer.issuing import SignalToken
from ..sanitizer.sanitizer import Sanitizer
from ..sanitizer.synchronization import ARRIVALS, WAITS
from .competing import Ledger
from .moments import Moment, execution, groups_of, known_lanes, moment

__all__ = ["Phases"]

#: Barriers of a warp have no phases in which something could count by chance.
_WAITS = {kind: family for kind, family in WAITS.items() if family != "bar.warp"}
_COUNTS = {kind: family for kind, family in ARRIVALS.items() if family != "bar.warp"} | {
    SyncKind.MBARRIER_COMPLETE_TX: "mbarrier"
}
_AFTER = "nothing orders it after the end of the phase before"
_BEFORE = (SyncKind.MBARRIER_EXPECT_TX, SyncKind.MBARRIER_INCREMENT, SyncKind.MBARRIER_NO_COMPLETE)


@dataclass(eq=False, slots=True)
class _Pending:
    """Something that must come before an operation that counts in a phase.

    ``kind`` is that of the event; ``left`` has the lanes that nothing of that phase is ordered after yet.
    ``stale`` names the threads of a wait that know that their phase is over; it is empty for all else.
    """

    moment: Moment
    left: int
    kind: SyncKind
    stale: str = ""

    def covered_by(self, sync: Sync, step: Step | None) -> bool:
        """True if the phase cannot end before this operation counts in it.

        Completed bytes keep a phase open only if it expects them, so they cannot cover ``expect_tx``. The
        arrival of a ``cp.async`` may be one that an increment added, so it cannot cover an increment.
        """
        if self.kind is SyncKind.MBARRIER_WAIT:
            return True
        if sync.kind is SyncKind.MBARRIER_COMPLETE_TX:
            return False
        copies = step is not None and bool(sync.steps) and step.operation.engine is Engine.CP
        return not copies or self.kind is SyncKind.MBARRIER_EXPECT_TX


@dataclass(eq=False, slots=True)
class _Object:
    """One mbarrier or barrier.

    Attributes:
        key: key in clocks; time k + 1 stands for the end of phase k.
        name: name for messages.
        last: the last phase in which something counted, or -1.
        pending: for each phase: what must come before an operation that counts in it.
        marked: the last phase whose end is in the sanitizer's boards, or -1.
        bytes: for the latest phase: the bytes that it expects.
        counted: for the latest phases: what threads did that counts in it; None if engines count, too.
        completed: returns the number of phases that are over; None for barriers.
        location: the line of what counted last.
    """

    key: int
    name: str
    completed: Callable[[], int] | None = None
    location: SourceLocation | None = None
    last: int = -1
    pending: dict[int, list[_Pending]] = field(default_factory=dict)
    marked: int = -1
    bytes: dict[int, int] = field(default_factory=dict)
    counted: dict[int, list[Moment] | None] = field(default_factory=dict)

    def over(self, phase: int, clock: Clock, key: int, mask: int) -> bool:
        """True if an agent knows the end of a phase, or all that counted in the phase.

        ``key`` and ``mask`` name the agent's lanes, as in :func:`~.moments.known_lanes`.
        """
        if phase < 0 or clock.get(self.key, 0) > phase:
            return True
        counted = self.counted.get(phase)
        if not counted:
            return False
        return all(known_lanes(clock, each, key, mask) == each.mask for each in counted)

    def count(self, phase: int, moments: list[Moment]) -> None:
        """Store what threads did that counts in a phase; an empty list stands for an engine's signal."""
        if phase not in self.counted:
            self.counted = {number: each for number, each in self.counted.items() if number >= phase - 2}
            self.counted[phase] = []
        counted = self.counted[phase]
        if counted is not None and moments:
            counted += moments
        else:
            self.counted[phase] = None


class Phases:
    """All objects of a run with phases."""

    def __init__(self, sanitizer: Sanitizer, ledger: Ledger) -> None:
        self._world, self._synchronization = sanitizer.world, sanitizer.synchronization
        self._ledger = ledger
        self._objects: dict[Hashable, _Object] = {}
        #: The objects that end with a CTA.
        self._owned: dict[tuple[int, int], set[Hashable]] = {}

    def begin(self, key: Hashable, owner: tuple[int, int], name: str, completed: Callable[[], int]) -> None:
        """Begin the life of an mbarrier: its phases count from 0 again.

        ``completed`` returns the number of its phases that are over.
        """
        whole = ("mbarrier", key)
        found = self._objects.pop(whole, None)
        if found is not None:
            self._close(found)
        self._objects[whole] = self._new(name, completed)
        self._owned.setdefault(owner, set()).add(whole)

    def end_cta(self, cta: tuple[int, int]) -> None:
        """End the objects of a CTA."""
        for whole in self._owned.pop(cta, ()):
            found = self._objects.pop(whole, None)
            if found is not None:
                self._report_stale(found)
                self._close(found)

    def close(self) -> None:
        """End all objects."""
        for found in self._objects.values():
            self._close(found)
        self._objects.clear()

    # --- events ---------------------------------------------------------------------------------

    def sync(self, sync: Sync, step: Step | None) -> None:
        """Check an operation on an object; called before the sanitizer sees it."""
        family = _COUNTS.get(sync.kind)
        if family is not None:
            self._count(self._object(family, sync), sync, step)
        elif sync.kind in _WAITS:
            family = _WAITS[sync.kind]
            self._wait(family, self._object(family, sync), sync)
        elif sync.kind in _BEFORE:
            self._before(self._object("mbarrier", sync), sync)

    def _new(self, name: str, completed: Callable[[], int] | None = None) -> _Object:
        return _Object(self._world.chains.chain().key, name, completed)

    def _object(self, family: str, sync: Sync) -> _Object:
        whole = (family, sync.object)
        found = self._objects.get(whole)
        if found is None:
            found = self._objects[whole] = self._new(family)
            if family == "bar":
                self._owned.setdefault(sync.cta, set()).add(whole)
        return found

    def _count(self, found: _Object, sync: Sync, step: Step | None) -> None:
        """Check an arrival or completed bytes."""
        phase = sync.phase
        if phase > found.last:
            for earlier in [number for number in found.pending if number < phase]:
                self._settle(found, found.pending.pop(earlier))
            found.last = phase
        found.location = sync.location
        waiting = found.pending.get(phase)
        pending = [each for each in waiting if each.covered_by(sync, step)] if waiting else []
        if sync.steps:
            assert step is not None and step.serial == sync.steps[0]
            self._check_count(found, phase, _issued(step).get(Level.EXECUTION, NO_CLOCK), sync, pending, 0, 0)
            found.count(phase, [])
        else:
            moments = []
            for group, mask in groups_of(self._world, sync.cta, sync.threads):
                self._check_count(found, phase, execution(group), sync, pending, group.warp.key, mask)
                moments.append(moment(self._world, group.warp, mask, sync.location))
            found.count(phase, moments)
        if waiting:
            found.pending[phase] = [each for each in waiting if each.left]

    def _check_count(
        self,
        found: _Object,
        phase: int,
        clock: Clock,
        sync: Sync,
        pending: list[_Pending],
        key: int,
        mask: int,
    ) -> None:
        if not found.over(phase - 1, clock, key, mask):
            self._by_chance(f"{sync.kind.value} on {found.name}: {_AFTER}", sync)
        for each in pending:
            each.left &= ~known_lanes(clock, each.moment, key, mask)

    def _wait(self, family: str, found: _Object, sync: Sync) -> None:
        phase = sync.phase
        mbarrier = family == "mbarrier"
        if phase > found.marked:
            self._synchronization.mark(family, sync.object, phase, {found.key: phase + 1})
            found.marked = phase
        if not mbarrier:
            # The threads that wait have arrived in the same round.
            return
        for group, mask in groups_of(self._world, sync.cta, sync.threads):
            clock, key = execution(group), group.warp.key
            if not found.over(phase - 1, clock, key, mask):
                self._by_chance(f"wait on {found.name}: {_AFTER} the one that it waits for", sync)
            stale = self._who(sync) if found.over(phase, clock, key, mask) else ""
            then = moment(self._world, group.warp, mask, sync.location)
            self._expect(found, phase + 1, then, sync.kind, stale)

    def _before(self, found: _Object, sync: Sync) -> None:
        for group, mask in groups_of(self._world, sync.cta, sync.threads):
            if not found.over(sync.phase - 1, execution(group), group.warp.key, mask):
                self._by_chance(f"{sync.kind.value} on {found.name}: {_AFTER}", sync)
            then = moment(self._world, group.warp, mask, sync.location)
            self._expect(found, sync.phase, then, sync.kind)
        if sync.kind is SyncKind.MBARRIER_EXPECT_TX:
            total = found.bytes.get(sync.phase, 0) + sync.amount
            found.bytes = {sync.phase: total}
            if total > MAX_COUNT:
                self._ledger.competes(
                    f"{sync.kind.value} on {found.name}: more bytes in one phase than the tx-count can hold "
                    "if none of them has arrived",
                    sync.location,
                )

    def _by_chance(self, what: str, sync: Sync) -> None:
        """Record an operation that another schedule may count in another phase, and report it for review."""
        self._ledger.competes(what, sync.location)
        message = f"{what}, so another schedule may count it in another phase"
        finding = Finding(RULES["ordered-by-chance"], message, sync.location, self._who(sync))
        self._world.machine.report(finding)

    def _who(self, sync: Sync) -> str:
        """Name the CTA and the first warp of an operation."""
        agent = self._world.ctas[sync.cta]
        warps = sorted({int(thread) >> 5 for thread in sync.threads})
        return f"CTA {agent.coordinates}" + (f" warp {warps[0]}" if warps else "")

    @staticmethod
    def _expect(found: _Object, phase: int, then: Moment, kind: SyncKind, stale: str = "") -> None:
        found.pending.setdefault(phase, []).append(_Pending(then, then.mask, kind, stale))

    # --- ends -----------------------------------------------------------------------------------

    def _report_stale(self, found: _Object) -> None:
        """Report waits that never end if they look after the end of the last phase."""
        if found.completed is None or found.completed() <= found.last:
            return
        for each in found.pending.get(found.last, ()):
            if not each.stale or each.left != each.moment.mask:
                continue
            over = found.last - 1
            fresh = "no phase has ended yet" if over < 0 else f"phase {over} has ended"
            message = (
                f"wait on {found.name} for parity {over & 1}: its thread knows that {fresh}, and phase "
                f"{found.last} may end before the wait looks; then the wait never ends, since nothing counts "
                f"in phase {found.last + 1}"
            )
            advice = f"wait for parity {found.last & 1}, or leave the wait out"
            self._world.machine.report(
                Finding(
                    RULES["deadlock"],
                    message,
                    each.moment.location,
                    each.stale,
                    (("counts in the next phase", found.location),),
                    remedy=Remedy(advice),
                )
            )

    def _close(self, found: _Object) -> None:
        for phase, pending in found.pending.items():
            if phase <= found.last:
                self._settle(found, pending)
        found.pending.clear()

    def _settle(self, found: _Object, pending: list[_Pending]) -> None:
        """Judge what nothing that counted in the phase is ordered after: the phase is over."""
        for each in pending:
            if not each.left:
                continue
            location = each.moment.location
            if each.kind is not SyncKind.MBARRIER_WAIT:
                self._ledger.competes(
                    f"{each.kind.value} on {found.name}: no arrival of the same phase comes after them",
                    location,
                )
            elif each.left != each.moment.mask:
                self._ledger.assume(
                    "lanes of a warp that wait together on an mbarrier see the end of the phase together",
                    location,
                )
            else:
                self._ledger.competes(
                    f"wait on {found.name}: the next phase may end before the wait looks", location
                )


def _issued(step: Step) -> Levels:
    """Return what is ordered before a step's signal."""
    token = step.observed
    levels: Levels = token.issued if isinstance(token, SignalToken) else token.levels
    return levels
