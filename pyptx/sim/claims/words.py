"""Words of memory that loops poll: flags, counters of arrivals, generations of a barrier.

The writes of a word form *epochs*: each write of an epoch is ordered after all writes of the epochs before,
and the writes of one epoch commute, or there is only one. So every schedule takes the word through the same
values at the ends of epochs. A loop that polls the word may keep the claim if there is one epoch whose end
ends the loop: it goes on with every value before that, and stops at every value after it, whatever the order.
Then all writes up to the end of this epoch are ordered before the end of the loop.

The order here is causality order: a load may get an older value than execution order alone would allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...core.types import TYPES
from ...ir import Immediate, Register
from ..code.emitter import typed
from ..code.semantic import Op
from ..memory.segments import Segment
from ..sanitizer.agents import LaneGroup
from ..sanitizer.flags import LastWrite
from .moments import Moment, causality, known_lanes
from .polls import Poll, register_value

__all__ = ["Lane", "Verdict", "Word", "combined"]

#: Values of a word that other orders may show, and comparisons for one word; beyond, the claim is refused.
_VALUES, _COMPARISONS = 5_000, 2_000_000


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane that accesses a word: its group, its number, and its column in the registers of its split."""

    group: LaneGroup
    number: int
    split: Any
    column: int
    op: Op
    now: Moment

    @property
    def key(self) -> tuple[int, int]:
        return self.group.warp.key, self.number

    def knows(self, then: Moment) -> bool:
        """True if ``then`` is ordered before what the lane does now."""
        clock = causality(self.group)
        return known_lanes(clock, then, self.group.warp.key, 1 << self.number) == then.mask


@dataclass(eq=False, slots=True)
class _Write:
    """One write of a word.

    Attributes:
        number: its position in the order of the run.
        operation, operand: what a commuting operation does; None for other writes.
        after: the value after the write, once it is known.
        learns: True if the lane may learn by it of writes that nothing orders before.
    """

    number: int
    moment: Moment
    cluster: tuple[int, int]
    statement: int
    operation: tuple[str, str] | None
    operand: int
    after: int = 0
    learns: bool = False


@dataclass(eq=False, slots=True)
class _Session:
    """One execution of a polling loop by one lane.

    Attributes:
        free: numbers of the writes that nothing orders before or after the loop.
        begun: the number of writes when the loop began.
        seen: the number of writes after which the loop could end for good, in the order of the run.
        added: the lane's latest write before the loop that may have told it of others.
        old: the lane's latest addition by the loop's origin.
        passed: the epoch of the first write that is ordered after the loop.
    """

    poll: Poll
    inputs: tuple[Any, ...]
    origin_inputs: tuple[Any, ...]
    moment: Moment
    cluster: tuple[int, int]
    free: list[int]
    begun: int
    seen: int = 0
    added: int = -1
    old: int = -1
    passed: int = -1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What keeps a loop from the claim: the line of the loop, and that of the write. None, None: nothing."""

    location: SourceLocation | None
    other: SourceLocation | None


@dataclass(eq=False, slots=True)
class Word:
    """One word, since the last access that changed it in another way than by a strong operation of threads.

    Attributes:
        base: the value before the first write.
        epochs: numbers of writes, by epoch.
        released: what the sanitizer had stored of the word before each write, and after the last one.
        open, closed: executions of loops that go on, and that have ended.
        active: those that have ended, and that not all later writes are known to come after.
        own: for each lane, the number of writes that its last loop has waited for.
        broken: True if no loop that polls the word may keep the claim.
    """

    segment: Segment
    place: int
    size: int
    base: int
    released: list[LastWrite | None]
    writes: list[_Write] = field(default_factory=list)
    epochs: list[list[int]] = field(default_factory=list)
    open: dict[tuple[int, int], _Session] = field(default_factory=dict)
    closed: list[_Session] = field(default_factory=list)
    active: list[_Session] = field(default_factory=list)
    own: dict[tuple[int, int], int] = field(default_factory=dict)
    broken: bool = False
    retired: bool = False
    pending: bool = False
    compared: int = 0

    def value(self) -> int:
        """Return the value of the word in memory."""
        return int.from_bytes(self.segment.data[self.place : self.place + self.size].tobytes(), "little")

    @property
    def last(self) -> int:
        """The value after the last write."""
        return self.writes[-1].after if self.writes else self.base

    def settle(self, released: LastWrite) -> bool:
        """Complete the last write, whose value is in memory now. False if something else changed the word."""
        now = self.value()
        if self.pending:
            last = self.writes[-1]
            if last.operation is None:
                last.after = now
            self.released.append(released)
            self.pending = False
        return now == self.last

    # --- reads ----------------------------------------------------------------------------------

    def read(self, lane: Lane, poll: Poll) -> LastWrite | None:
        """Add one pass of a loop.

        Return what was stored after the write that let the loop end, if it ends now and others came later.
        """
        session = self.open.get(lane.key)
        if session is None:
            session = self.open[lane.key] = self._begin(lane, poll)
        if session.poll is not poll:
            self.broken = True
        if not poll.ends(session.inputs, self.value()):
            return None
        del self.open[lane.key]
        session.moment = lane.now
        self.closed.append(session)
        self.active.append(session)
        first = len(self.writes)
        # If an instruction needs the value, the lane has learned of the write that it read, whichever it was.
        while (
            first
            and not poll.used
            and poll.ends(session.inputs, self.writes[first - 2].after if first > 1 else self.base)
        ):
            first -= 1
        session.seen = self.own[lane.key] = first
        if first == len(self.writes):
            return None
        if self.released[first] is None:
            self.broken = True
        return self.released[first]

    def _begin(self, lane: Lane, poll: Poll) -> _Session:
        inputs = tuple(register_value(lane.split, place, lane.column) for place in poll.inputs)
        others: tuple[Any, ...] = ()
        origin = poll.origin
        if origin is not None:
            others = tuple(register_value(lane.split, place, lane.column) for place in origin.inputs)
        cluster = lane.group.warp.cta.cluster
        session = _Session(poll, inputs, others, lane.now, cluster, self._unknown(lane), len(self.writes))
        for write in reversed(self.writes):
            own = write.moment.key == lane.group.warp.key and write.moment.mask == 1 << lane.number
            if own and write.learns and session.added < 0:
                session.added = write.number
            if own and origin is not None and write.statement == origin.statement:
                session.old = write.number
                break
        return session

    def _unknown(self, lane: Lane) -> list[int]:
        """Return the writes that nothing orders before what a lane does now."""
        found: list[int] = []
        seen = self._seen(lane)
        for epoch in reversed(self.epochs):
            left = self._left(lane, epoch, seen)
            if not left:
                break
            found += left
        return found

    def _seen(self, lane: Lane) -> int:
        """Return a number of writes that come before what a lane does now: a loop has waited for them."""
        seen = self.own.get(lane.key, 0)
        for session in self.active:
            if session.seen > seen and self._knows(lane, session.moment):
                seen = session.seen
        return seen

    def _left(self, lane: Lane, epoch: list[int], seen: int) -> list[int]:
        """Return the writes of an epoch that nothing orders before what a lane does now."""
        return [n for n in epoch if n >= seen and not self._knows(lane, self.writes[n].moment)]

    def _knows(self, lane: Lane, then: Moment) -> bool:
        self.compared += 1
        return lane.knows(then)

    # --- writes ---------------------------------------------------------------------------------

    def write(self, lane: Lane, operation: tuple[str, str] | None, *, learns: bool) -> bool:
        """Add a write that is about to happen. ``operation`` is that of a commuting one, else None.

        With ``learns``, the lane learns of what others have released into the word. Return True if it then
        learns of writes that nothing orders before its own.
        """
        learns = learns and bool(self._unknown(lane))
        operand = None if operation is None else _operand(lane, operation[1])
        if operation is not None and operand is None:
            operation, self.broken = None, True
        if self.pending:
            # Another lane of the same instruction has written the word.
            self.broken = self.broken or self.writes[-1].operation is None
            self.released.append(None)
        number, after = len(self.writes), 0
        if operation is not None:
            after = combined(operation, self.last, operand or 0, self.size)
        cluster = lane.group.warp.cta.cluster
        mine = _Write(number, lane.now, cluster, lane.op.statement, operation, operand or 0, after, learns)
        epoch = self._place(lane, mine)
        self.writes.append(mine)
        self.pending = True
        for session in self.open.values():
            session.free.append(number)
        kept = []
        for session in self.active:
            if not self._knows(lane, session.moment):
                session.free.append(number)
            elif session.passed < 0:
                session.passed = epoch
            if 0 <= session.passed < epoch:
                # Every later write comes after this one, and so after the loop.
                self.retired = True
            else:
                kept.append(session)
        self.active = kept
        self.broken = self.broken or self.compared > _COMPARISONS
        return learns

    def _place(self, lane: Lane, mine: _Write) -> int:
        """Put a write into an epoch; return the number of the epoch."""
        seen = self._seen(lane)
        if not self.epochs or not self._left(lane, self.epochs[-1], seen):
            self.epochs.append([mine.number])
            return len(self.epochs) - 1
        while len(self.epochs) > 1 and self._left(lane, self.epochs[-2], seen):
            last = self.epochs.pop()
            self.epochs[-1] += last
            self.broken = self.broken or self.retired
            for session in self.active:
                session.passed = min(session.passed, len(self.epochs) - 1)
        epoch = self.epochs[-1]
        operations = {mine.operation, *(self.writes[number].operation for number in epoch)}
        if len(operations) > 1 or None in operations:
            self.broken = True
        epoch.append(mine.number)
        return len(self.epochs) - 1

    # --- the claim ------------------------------------------------------------------------------

    def judge(self) -> Iterator[tuple[_Session, Verdict | None, bool]]:
        """Yield each execution of a loop with what keeps it from the claim, or None.

        The third value is True if the loop waits for CTAs of other clusters.
        """
        memo: dict[Any, tuple[bool, bool]] = {}
        values = self._ends_of_epochs() if not self.broken else []
        of_write = {number: index for index, epoch in enumerate(self.epochs) for number in epoch}
        for session in (*self.open.values(), *self.closed):
            others = [number for number in session.free if number < len(self.writes)]
            where = self.writes[others[0]].moment.location if others else None
            failed = Verdict(session.moment.location, where)
            if self.broken or session in self.open.values():
                yield session, failed, False
                continue
            key = (
                id(session.poll),
                session.inputs,
                session.origin_inputs,
                tuple(session.free),
                session.seen,
                session.added,
                session.old,
                session.cluster,
            )
            if key not in memo:
                memo[key] = self._holds(session, values, of_write)
            right, across = memo[key]
            yield session, None if right else failed, across

    def _ends_of_epochs(self) -> list[int]:
        """Return the value after each epoch."""
        value, values = self.base, []
        for epoch in self.epochs:
            first = self.writes[epoch[0]]
            if len(epoch) == 1:
                value = first.after
            else:
                assert first.operation is not None
                for number in epoch:
                    value = combined(first.operation, value, self.writes[number].operand, self.size)
            values.append(value)
        return values

    def _holds(self, session: _Session, values: list[int], of_write: dict[int, int]) -> tuple[bool, bool]:
        """Return whether a loop ends with one epoch in every order, and if it waits for other clusters."""
        no = False, False
        free = set(session.free)
        stages = self._stages(session, free, values, of_write)
        if stages is None:
            return no
        olds: list[int | None] = [None]
        if session.poll.origin is not None:
            found = self._olds(session, values, of_write)
            if (
                found is None
                or len(found) * sum(len(partial) + 1 for _, partial, _ in stages) > 100 * _VALUES
            ):
                return no
            olds = list(found)
        ends = {self._end(session, stages, old) for old in olds}
        if len(ends) != 1:
            return no
        (last,) = ends
        if last is None:
            return no
        # The epoch whose end ends the loop; -1 if the loop never waits.
        epoch = stages[last][0] if last else -1
        needed = {number for number in free if of_write[number] <= epoch}
        if any(number in free and number not in needed for number in range(session.seen)):
            return no
        if session.poll.used and needed != free:
            return no
        if session.added >= 0 and any(
            number in free and number not in needed for number in self.epochs[of_write[session.added]]
        ):
            return no
        across = any(self.writes[number].cluster != session.cluster for number in needed)
        return True, across

    def _stages(
        self, session: _Session, free: set[int], values: list[int], of_write: dict[int, int]
    ) -> list[tuple[int, set[int], int]] | None:
        """Return what a loop may load, in stages: an epoch, the values before its end, the value at its end.

        The first stage has the value before all writes that may come during the loop.
        """
        if not free:
            before = self.writes[session.begun - 1].after if session.begun else self.base
            return [(-1, set(), before)]
        first, last = min(of_write[number] for number in free), max(of_write[number] for number in free)
        value = values[first - 1] if first else self.base
        stages: list[tuple[int, set[int], int]] = []
        for index in range(first, last + 1):
            epoch = self.epochs[index]
            # A write that is not free comes before the loop, or it comes after it and happened later.
            known = [n for n in epoch if n not in free and n < session.begun]
            moving = [n for n in epoch if n in free]
            for number in known:
                value = self._applied(number, value)
            if not stages:
                stages.append((-1, set(), value))
            found = self._partial(moving, value)
            if found is None:
                return None
            partial, value = found
            stages.append((index, partial, value))
            if len(known) + len(moving) < len(epoch) and index < last:
                # A write of this epoch comes after the loop, and so do those of later epochs.
                return None
        return stages

    def _applied(self, number: int, value: int) -> int:
        write = self.writes[number]
        if write.operation is None:
            return write.after
        return combined(write.operation, value, write.operand, self.size)

    def _partial(self, numbers: list[int], value: int) -> tuple[set[int], int] | None:
        """Return the values after some of the writes, but not all, and the value after all of them."""
        partial: set[int] = set()
        full = value
        for number in numbers:
            partial |= {self._applied(number, one) for one in partial} | {full}
            full = self._applied(number, full)
            if len(partial) > _VALUES:
                return None
        return partial, full

    def _olds(self, session: _Session, values: list[int], of_write: dict[int, int]) -> set[int] | None:
        """Return the values that the addition before the loop may have returned."""
        if session.old < 0:
            return None
        index = of_write[session.old]
        found = self._partial(
            [number for number in self.epochs[index] if number != session.old],
            values[index - 1] if index else self.base,
        )
        return None if found is None else found[0] | {found[1]}

    @staticmethod
    def _end(session: _Session, stages: list[tuple[int, set[int], int]], old: int | None) -> int | None:
        """Return the stage with whose last value the loop ends; None if it may end with others as well."""
        poll, end = session.poll, None

        def ends(value: int) -> bool:
            if old is None:
                return poll.ends(session.inputs, value)
            return poll.ends_after(session.origin_inputs, old, value)

        for index, (_, partial, full) in enumerate(stages):
            if any(ends(value) is (end is None) for value in partial):
                return None
            if end is None and ends(full):
                end = index
            elif end is not None and not ends(full):
                return None
        return end


def _operand(lane: Lane, kind: str) -> int | None:
    """Return the raw bits of what an atomic operation combines with a word; None if they are not known."""
    operand = lane.op.binding.operands.get("b")
    bits = TYPES[kind].bits
    if isinstance(operand, Immediate):
        return int(typed(operand, TYPES[kind])) & (1 << bits) - 1
    if not isinstance(operand, Register):
        return None
    place = lane.split.frame.code.places[operand.name]
    return int(register_value(lane.split, place, lane.column)) & (1 << bits) - 1


def combined(operation: tuple[str, str], value: int, operand: int, size: int) -> int:
    """Return a word after a commuting operation of integers."""
    name, kind = operation
    mask = (1 << 8 * size) - 1
    if name == "add":
        return value + operand & mask
    if name in ("and", "or", "xor"):
        return {"and": value & operand, "or": value | operand, "xor": value ^ operand}[name]
    sign = 1 << 8 * size - 1 if TYPES[kind].kind == "s" else 0
    chosen = (min if name == "min" else max)(value ^ sign, operand ^ sign)
    return chosen ^ sign
