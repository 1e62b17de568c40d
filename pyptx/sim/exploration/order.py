"""The order of a run's events that their conflicts make, and the races between them.

Two runs whose events have the same order are equivalent. A race is a pair of conflicting events of different
agents with nothing between them: the run in which the second comes first may have other outcomes. An event's
predecessors are one integer, whose bits are the numbers of events.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from .events import FENCES, Act, Event, Meeting, Role, Touch, chosen, conflicts, ordered
from .trail import Trail, is_step

__all__ = ["Order", "Race"]


@dataclass(frozen=True, slots=True)
class Race:
    """A run to try: in place of event number ``position``, one of the choices ``first`` is made."""

    position: int
    first: tuple[str, ...]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Cell:
    """The last touches of an object: a group of touches that commute, and the group before it."""

    __slots__ = ("before", "group", "kind")

    def __init__(self) -> None:
        self.before = self.group = 0
        self.kind = Act.READ

    def touch(self, number: int, kind: str, *, keep: bool) -> int:
        """Return the events that conflict with a touch; with ``keep``, add it."""
        joins = kind == self.kind and kind != Act.CHANGE
        found = self.before if joins else self.group | (0 if self.group else self.before)
        if keep:
            if joins:
                self.group |= 1 << number
            else:
                self.before, self.group, self.kind = found, 1 << number, kind
        return found


class _Memory:
    """The cells of the bytes of one segment. Bytes with equal histories share a cell."""

    def __init__(self) -> None:
        self._cells: list[tuple[int, int, str]] = [(0, 0, Act.READ)]
        self._numbers: dict[tuple[int, int, str], int] = {self._cells[0]: 0}
        self._of_byte: NDArray[np.int64] = np.zeros(0, np.int64)

    def touch(self, number: int, touch: Touch, *, keep: bool) -> int:
        """Do what :meth:`_Cell.touch` does, for all bytes of a touch."""
        offsets = touch.offsets()
        if offsets[-1] >= len(self._of_byte):
            more = int(offsets[-1]) + 1 - len(self._of_byte)
            self._of_byte = np.concatenate([self._of_byte, np.zeros(more + len(self._of_byte), np.int64)])
        here = self._of_byte[offsets]
        found = 0
        for old in np.unique(here).tolist():
            cell = _Cell()
            cell.before, cell.group, cell.kind = self._cells[old]
            found |= cell.touch(number, touch.kind, keep=keep)
            if keep:
                new = (cell.before, cell.group, cell.kind)
                position = self._numbers.get(new)
                if position is None:
                    position = self._numbers[new] = len(self._cells)
                    self._cells.append(new)
                self._of_byte[offsets[here == old]] = position
        return found


@dataclass(slots=True)
class _Phase:
    """The events of one phase of an object by role, as bits; the bytes that it still expects.

    ``asked`` has the lanes that found the phase incomplete, with what they had done and seen before; ``seen``
    those that saw it complete.
    """

    roles: dict[str, int] = field(default_factory=dict)
    nbytes: int = 0
    asked: list[tuple[str, int]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def of(self, *roles: str) -> int:
        found = 0
        for role in roles:
            found |= self.roles.get(role, 0)
        return found


@dataclass(frozen=True, slots=True)
class _Poll:
    """Lanes at the head of a loop, and the bytes that they read first there."""

    agent: str
    state: Hashable
    touch: Touch


class _Polls:
    """The useless passes of polling loops in a run.

    Attributes:
        useless: for each poll, the sets of last writers after which it was in vain.
        before: the last writers before an event changed what a poll reads.
    """

    def __init__(self) -> None:
        self.useless: dict[_Poll, set[int]] = {}
        self.before: dict[tuple[int, _Poll], int] = {}

    def note_useless(self, event: Event, writers: int) -> None:
        """Note a pass in vain, of which ``event`` is the only transition."""
        poll = _poll_of(event)
        if poll is not None:
            self.useless.setdefault(poll, set()).add(writers)

    def changed_by(self, event: Event) -> list[_Poll]:
        """Return the polls that have been in vain and whose bytes an event changes."""
        if not event.effect or not self.useless:
            return []
        return [poll for poll in self.useless if conflicts([poll.touch], event.touches)]


def _poll_of(event: Event) -> _Poll | None:
    """Return the poll that an event begins, if it only reads memory."""
    if event.poll is None or event.effect or event.meetings:
        return None
    memory = [touch for touch in event.touches if touch.starts is not None]
    if len(memory) != 1 or memory[0].kind != Act.READ:
        return None
    return _Poll(event.agent, event.poll, memory[0])


_ARRIVALS = (Role.ARRIVE, Role.SIGNAL)
_COUNTED = (*_ARRIVALS, Role.EXPECT, Role.INCREMENT, Role.COMPLETE)


class Order:
    """The order of the events of one trail, its races, and the objects whose operations do not commute.

    Attributes:
        before: for each event, the events that it follows.
        races: reversals to try, of pairs whose second event has at least the number ``since``.
        contended: synchronization objects whose operations the order takes for independent, and are not.
    """

    def __init__(self, trail: Trail, known: frozenset[Hashable], *, since: int) -> None:
        self._trail, self._known, self._since = trail, known, since
        self.before: list[int] = []
        self.races: list[Race] = []
        self.contended: set[Hashable] = set()
        self._cells: dict[Hashable, _Cell] = {}
        self._memory: dict[Hashable, _Memory] = {}
        self._phases: dict[Hashable, dict[int, _Phase]] = {}
        #: For each event, what it follows by program order, without the waits that it ends.
        self._program: list[int] = []
        self._last: dict[tuple[int, int, int], list[int]] = {}
        self._numbers: dict[int, int] = {}
        self._polls = _Polls()
        #: Runs to try in which a strong access chooses another write.
        self._choices: list[Race] = []
        for place, event in enumerate(trail.log):
            if place in trail.void:
                past = self._program_order(event)
                before = self._compare(event, len(self.before), past, keep=False)
                self._choose(event, len(self.before), past, before)
                self._polls.note_useless(event, self._last_writers(event))
                for meeting in event.meetings:
                    self._phase(meeting).asked.append((event.agent, past))
            else:
                self._add(event)
        self._disabled()
        self._withdraw()
        self.races += self._choices
        for key, phases in self._phases.items():
            if key not in known and not self._commutes(key, phases):
                self.contended.add(key)

    # --- the order ------------------------------------------------------------------------------

    def _add(self, event: Event) -> None:
        number = len(self.before)
        past = self._program_order(event)
        self._program.append(past)
        for meeting in event.meetings:
            past |= self._meet(meeting, number, event.agent)
        self.before.append(0)
        self.before[number] = self._compare(event, number, past, keep=True)
        self._numbers[id(event)] = number
        self._choose(event, number, past, self.before[number])
        if event.failed:
            self.contended |= {each.object for each in event.meetings} - self._known
        if event.warp is not None:
            last = self._last.setdefault(event.warp, [-1] * 32)
            for lane in _bits(event.mask):
                last[lane] = number

    def _program_order(self, event: Event) -> int:
        found = 0
        for each in event.after:
            if each in self._numbers:
                found |= self._closed(self._numbers[each])
        if event.warp is not None and event.warp in self._last:
            last = self._last[event.warp]
            for number in {last[lane] for lane in _bits(event.mask)}:
                if number >= 0:
                    found |= self._closed(number)
        for warp, last in self._last.items() if event.ends else ():
            if warp[:2] in event.ends:
                for number in {each for each in last if each >= 0}:
                    found |= self._closed(number)
        return found

    def _closed(self, number: int) -> int:
        return self.before[number] | 1 << number

    def _meet(self, meeting: Meeting, number: int, agent: str) -> int:
        """Add a meeting; return the events that a wait follows: all that counted in its phase."""
        phase = self._phase(meeting)
        if meeting.role == Role.EXPECT:
            phase.nbytes += meeting.amount
        elif meeting.role == Role.COMPLETE:
            phase.nbytes -= meeting.amount
        phase.roles[meeting.role] = phase.roles.get(meeting.role, 0) | 1 << number
        if meeting.role != Role.WAIT:
            return 0
        phase.seen.add(agent)
        if meeting.object in self._known and _names_parities(meeting.object):
            # A wait for a parity may end at an earlier phase, too: it races with what counts.
            return 0
        found = 0
        for each in _bits(phase.of(*_COUNTED) & ~(1 << number)):
            found |= self._closed(each)
        return found

    def _phase(self, meeting: Meeting) -> _Phase:
        return self._phases.setdefault(meeting.object, {}).setdefault(meeting.phase, _Phase())

    # --- races ----------------------------------------------------------------------------------

    def _compare(self, event: Event, number: int, past: int, *, keep: bool) -> int:
        """Return the events that precede ``event``, and note its races with those that conflict with it."""
        if keep:
            for poll in self._polls.changed_by(event):
                self._polls.before[number, poll] = self._writers(poll.touch)
        conflicting = 0
        for touch in event.touches:
            if touch.starts is None:
                cell = self._cells.setdefault(touch.object, _Cell())
                conflicting |= cell.touch(number, touch.kind, keep=keep)
            else:
                memory = self._memory.setdefault(touch.object, _Memory())
                conflicting |= memory.touch(number, touch, keep=keep)
        conflicting &= ~(1 << number)
        total = past
        for each in _bits(conflicting & ~past):
            total |= self.before[each]
        if number >= self._since and not self._waits_for(event, conflicting):
            for each in _bits(conflicting & ~total):
                if self._trail.events[each].agent != event.agent:
                    self._reverse(each, number, event, past)
        return total | conflicting

    def _writers(self, touch: Touch) -> int:
        """Return the events that a read of these bytes would conflict with now."""
        memory = self._memory.get(touch.object)
        return 0 if memory is None else memory.touch(len(self.before), touch, keep=False)

    def _last_writers(self, event: Event) -> int:
        return self._writers(event.touches[0]) if _poll_of(event) is not None else 0

    def _waits_for(self, event: Event, writers: int) -> bool:
        """True if ``event`` polls, and this run shows that it needs all ``writers`` of what it reads.

        They are one write before which it has polled in vain, or additions of one amount, before each of
        which it has. Then it is not in a race with them: it would only poll in vain again.
        """
        poll = _poll_of(event)
        if poll is None or not writers:
            return False
        known = self._polls.useless.get(poll, set())
        numbers = list(_bits(writers))
        first = self._polls.before.get((numbers[0], poll))
        if first is None or first not in known:
            return False
        if len(numbers) == 1:
            return True
        amounts = {self._trail.events[each].amount for each in numbers}
        if None in amounts or len(amounts) > 1:
            return False
        seen, together = True, 0
        for each in numbers[:-1]:
            together |= 1 << each
            seen = seen and together in known
        return seen

    def _reverse(self, first: int, number: int, event: Event, past: int) -> None:
        """Note that ``event`` may come before event ``first``, and which agents may act there for it."""
        inside = 0
        initial: list[str] = []
        for each in range(first + 1, number):
            if self.before[each] >> first & 1:
                continue
            if not self.before[each] & inside:
                initial.append(self._trail.events[each].agent)
            inside |= 1 << each
        if not self._follows(event, past, inside):
            initial.insert(0, event.agent)
        able = self._trail.enabled[first]
        found = tuple(dict.fromkeys(agent for agent in initial if agent in able))
        if found:
            self.races.append(Race(first, found))

    def _follows(self, event: Event, past: int, inside: int) -> bool:
        """True if ``event`` follows one of the events ``inside`` even if it comes first of all others."""
        if past & inside:
            return True
        return any(conflicts(event.touches, self._trail.events[each].touches) for each in _bits(inside))

    def _choose(self, event: Event, number: int, past: int, before: int) -> None:
        """Note what else an event may choose among writes.

        To read an older value is the same as to read before the newer writes, unless these come before the
        read by what its thread did or saw earlier, or before the older write: without that, the races with
        these writes are enough.
        """
        weak = event.weak
        if weak is None or number < self._since:
            return
        if weak.fenced and FENCES not in self._known:
            self.contended.add(FENCES)
        needed, passed = False, 0
        for source, later in weak.others:
            bits = sum(1 << self._numbers[each] for each in later if each in self._numbers)
            known = past if weak.words == 1 else before
            if source in self._numbers:
                known |= self.before[self._numbers[source]]
            needed |= bool(bits & known)
            passed |= bits
        if not needed:
            return
        for each in _bits(passed):
            for touch in self._trail.events[each].touches:
                if touch.starts is not None and touch.kind not in (Act.READ, Act.CHANGE):
                    # The order of writes that commute decides which of them a read can leave out.
                    self.contended |= {ordered(touch.object)} - self._known
        if weak.number + 1 < weak.count:
            self._choices.append(Race(number, (chosen(event.agent, weak.number + 1),)))

    def _disabled(self) -> None:
        """Note events after which an agent that could act cannot any more."""
        trail = self._trail
        for position in range(max(self._since - 1, 0), len(trail.latest) - 1):
            lost = trail.latest[position] - trail.enabled[position + 1] - {trail.events[position].agent}
            for agent in sorted(lost):
                if not is_step(agent) and agent not in trail.exempt:
                    self.races.append(Race(position, (agent,)))

    def _withdraw(self) -> None:
        """If the run had to do a useless pass, try its other events without the pass."""
        if self._trail.withdrawn is None:
            return
        first, _ = self._trail.withdrawn
        inside = 0
        initial: list[str] = []
        for each in range(first, len(self.before)):
            if not self.before[each] & inside:
                initial.append(self._trail.events[each].agent)
            inside |= 1 << each
        self.races = [race for race in self.races if race.position < first]
        if initial:
            self.races.append(Race(first, tuple(dict.fromkeys(initial))))

    # --- synchronization objects ----------------------------------------------------------------

    def _commutes(self, key: Hashable, phases: dict[int, _Phase]) -> bool:
        """True if the operations on an object have the same effect in every order that the events allow."""
        parity = _names_parities(key)
        if parity and any(phase.of(Role.ASK) for phase in phases.values()):
            return False
        for number, phase in phases.items():
            counted, earlier = phase.of(*_COUNTED), phases.get(number - 1, _Phase()).of(*_COUNTED)
            for each in _bits(counted):
                if earlier & ~self._closed(each):
                    return False
            if not parity:
                continue
            if phase.nbytes < 0 or any(earlier & ~past for _, past in phase.asked):
                return False
            later = phases.get(number + 1, _Phase()).of(*_COUNTED)
            if later and any(agent not in phase.seen for agent, _ in phase.asked):
                return False
            for role, arrivals in ((Role.EXPECT, _ARRIVALS), (Role.INCREMENT, (Role.ARRIVE,))):
                for each in _bits(phase.of(role)):
                    if not any(self._closed(one) >> each & 1 for one in _bits(phase.of(*arrivals))):
                        return False
            for each in _bits(phase.of(Role.WAIT)):
                if earlier & ~self._program[each]:
                    return False
                if later and not any(self.before[one] >> each & 1 for one in _bits(later)):
                    return False
        return True


def _names_parities(key: Hashable) -> bool:
    """True if waits for an object name the parity of a phase, as those for mbarriers do."""
    return isinstance(key, tuple) and key[0] == "mbarrier"
