"""Compares an access with the shadow of its bytes, and then records it there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ..memory.access import AccessKind, Footprint, MemoryOrder, Scope
from .agents import FULL_MASK, CtaAgent, bits_of
from .order import Current, View, broken_rule, known_lanes, level_of, may_conflict
from .partition import distinct
from .records import ALL_LANES, CODES, SAME_LANE, Record, Records
from .release import narrower
from .shadow import Shadow
from .value_sets import ValueSets, absolute, relative

__all__ = ["Check", "Conflict", "Examiner"]

#: Sets of at most so many members are searched at each access.
_FEW = 4
#: Accesses to at most so many blocks are checked block by block.
_SINGLE = 6
#: Accesses to one place that are kept when they race with each other.
_RACING = 16
#: Scopes that include the threads of all CTAs of the device.
_WIDE = (Scope.GPU, Scope.SYS)
Values = NDArray[np.int64]


@dataclass(eq=False)
class Conflict:
    """Two accesses that break a rule.

    Attributes:
        record: the earlier access. later: the later one. view: what the later one's agent knows.
        check: the check of the later access, and of others of the same instruction.
        parts: the blocks in which the two conflict, with the lane of the earlier access and of the later one.
    """

    rule: str
    record: Record
    later: Record
    check: Check
    view: View
    parts: list[tuple[tuple[int, int], NDArray[np.int32]]]

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The offsets of the grains in which the two conflict, ascending."""
        return self._offsets_of(np.concatenate([blocks for _, blocks in self.parts]))

    @cached_property
    def lanes(self) -> tuple[int, int]:
        """The lanes of the earlier and of the later access that conflict in the first of these grains."""
        return min(self.parts, key=lambda part: (int(self._offsets_of(part[1])[0]), part[0]))[0]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The lanes of each pair of threads that break the rule."""
        return [lanes for lanes, _ in self.parts]

    def _offsets_of(self, blocks: NDArray[np.int32]) -> NDArray[np.int64]:
        return self.check.shadow.offsets_of(self.check.footprint, blocks)


@dataclass(eq=False, slots=True)
class Check:
    """An access that is to be checked.

    Attributes:
        shadow: the shadow of the segment.
        footprint: the bytes.
        values: the value that the shadow gets for each piece; one number if they are all equal.
        views: what the agents know.
        records: a record of each agent's access, for messages.
        current: the access.
        units: for each piece, the number of its agent in ``views``; None if there is one.
        lanes: for each piece, the lane that accesses; None if all pieces are accessed together.
        mask: the lanes that make an access to one place, if ``lanes`` is None; 0 for an engine.
        blocks: the blocks of the shadow. Once they are known, the arrays above are by block.
        raced: True once the access was found to race: then the other one stays in the shadow.
        conflicts: what it breaks, by the earlier record, the rule and the agent; None if nothing.
    """

    shadow: Shadow
    footprint: Footprint
    values: int | Values
    views: list[View]
    records: list[Record]
    current: Current
    units: NDArray[Any] | None = None
    lanes: NDArray[Any] | None = None
    mask: int = 0
    blocks: NDArray[np.int32] = field(init=False)
    raced: bool = False
    conflicts: dict[tuple[int, str, int], Conflict] | None = None

    def made(self) -> Check:
        """Return the check, as :meth:`~.late.Late.made` does."""
        return self

    def locate(self) -> None:
        """Find the blocks."""
        if self.lanes is None:
            self.blocks = self.shadow.whole(self.footprint)
            return
        self.blocks, pieces = self.shadow.pieces(self.footprint)
        if pieces is not None:
            self.lanes = self.lanes[pieces]
            if self.units is not None:
                self.units = self.units[pieces]
            if not isinstance(self.values, int):
                self.values = self.values[pieces]

    def breaks(
        self,
        rule: str,
        earlier: Record,
        lanes: tuple[int, int],
        unit: int,
        blocks: NDArray[np.int32],
    ) -> None:
        """Remember that the access breaks a rule, with the lane of the earlier access and its own lane."""
        # What time orders is overwritten, even if a fence is missing.
        self.raced = self.raced or rule == "data-race"
        key = earlier.number, rule, unit
        if self.conflicts is None:
            self.conflicts = {}
        if key in self.conflicts:
            self.conflicts[key].parts.append((lanes, blocks))
        else:
            later, view = self.records[unit], self.views[unit]
            self.conflicts[key] = Conflict(rule, earlier, later, self, view, [(lanes, blocks)])


def _split_values(values: Values) -> tuple[Values, Values]:
    """Return the numbers of records, or minus the numbers of sets, and the lanes."""
    numbers, lanes = np.divmod(np.abs(values), CODES)
    return np.where(values < 0, -numbers, numbers), lanes


def _replaces(earlier: Record, current: Current) -> bool:
    """True if what may race with the earlier access may race with the current one too.

    A weak access, or one of a narrow scope, stays beside a later one that is strong in more cases.
    """
    if earlier.proxy is not current.proxy or earlier.barrier is not current.barrier:
        return False
    if not current.strong:
        return True
    return (
        earlier.semantics is not MemoryOrder.WEAK
        and earlier.size == current.size
        and narrower(earlier.scope, current.scope) is current.scope
    )


class Examiner:
    """Compares accesses with shadow memory.

    ``report`` is called with each conflict.
    """

    def __init__(
        self,
        records: Records,
        agents: dict[tuple[int, int], CtaAgent],
        report: Callable[[Conflict], None],
    ) -> None:
        self._records, self._agents, self._report = records, agents, report
        self.sets = ValueSets(self._kind_of)
        #: Pairs of lines, by identity, of which a race was reported: nothing more is to be found there.
        self._told: set[tuple[int, int]] = set()

    def access(self, *checks: Check) -> None:
        """Check one access, and store it. Several checks are parts of one access to the same bytes."""
        shadow, current = checks[0].shadow, checks[0].current
        reading = current.kind is AccessKind.READ
        weak = not current.strong and (reading or current.kind is AccessKind.WRITE)
        if weak and shadow.waits(checks[0].footprint, reading=reading):
            shadow.early.extend(checks)
            return
        self.settle(shadow)
        for check in checks:
            check.locate()
            self._compare(check)
        if reading and len(checks) > 1:
            self._store_reads(checks)
            return
        for check in checks:
            self._store(check)

    def told(self, earlier: Record, record: Record) -> None:
        """Compare no more accesses of these two lines: their race was reported."""
        self._told.add((id(earlier.location), id(record.location)))

    def settle(self, shadow: Shadow) -> None:
        """Store the accesses that have waited."""
        for early in shadow.settle():
            check = early.made()
            check.locate()
            self._store(check)

    def compare(self, check: Check) -> None:
        """Check an access, and do not store it."""
        self.settle(check.shadow)
        check.locate()
        self._compare(check)

    def _compare(self, check: Check) -> None:
        shadow = check.shadow
        self._compare_with(check, shadow.writes)
        if check.current.kind is not AccessKind.READ:
            self._compare_with(check, shadow.reads)
        self._report_all(check)

    def _report_all(self, check: Check) -> None:
        for conflict in check.conflicts.values() if check.conflicts else ():
            self._report(conflict)

    def _compare_with(self, check: Check, values: Values) -> None:
        old = values[check.blocks]
        if check.lanes is None:
            self._compare_whole(check, old)
        elif len(check.blocks) <= _SINGLE:
            olds = old.tolist()
            if any(olds):
                self._compare_single(check, check.lanes.tolist(), olds)
        elif np.count_nonzero(old):
            self._compare_many(check, old)

    def _store(self, check: Check) -> None:
        if len(check.blocks) <= _SINGLE:
            self._store_single(check)
        else:
            self._store_many(check)

    # --- one comparison -------------------------------------------------------------------------

    def _kind_of(self, number: int) -> Hashable:
        """Return what decides whether an access may be simultaneous with others; None if more decides."""
        record = self._records[number]
        if record.semantics is MemoryOrder.WEAK or not (record.barrier or record.scope in _WIDE):
            return None
        return record.kind is AccessKind.READ, record.proxy, record.size, record.barrier

    def _members(self, number: int, view: View, current: Current) -> list[int]:
        """Return the members, for a record's number or minus a set's, of which some may conflict."""
        if number > 0:
            return [CODES * number + SAME_LANE]
        if self.sets.kind(-number) is not None:
            last = self._records[self.sets.last(-number) // CODES]
            if not may_conflict(last, current, view, self._agents):
                # All members are strong alike.
                return []
        return self.sets.members(-number)

    def _settled(self, earlier: Record, check: Check, view: View) -> bool:
        """True if nothing is to be found: no lane's access of the record can conflict now."""
        current = check.current
        if self._told and (id(earlier.location), id(check.records[0].location)) in self._told:
            check.raced = True
            return True
        key = earlier.number * 8 + current.number
        if key in view.ordered:
            return True
        if not may_conflict(earlier, current, view, self._agents):
            return True
        if not current.needs_more(earlier) and _contains_all(earlier, current, view):
            view.ordered.add(key)
            return True
        return False

    # --- comparing ------------------------------------------------------------------------------

    def _compare_whole(self, check: Check, old: Values) -> None:
        """Compare an access to all blocks by one agent, or by the lanes of a mask together."""
        for value in distinct(old):
            if value:
                blocks = check.blocks if len(old) == 1 else check.blocks[old == value]
                self._compare_value(check, value, 0, tuple(bits_of(check.mask)) or (-1,), blocks)

    def _compare_single(self, check: Check, my_lanes: list[int], olds: list[int]) -> None:
        before: tuple[int, int, int] | None = None
        for at, (old, my_lane) in enumerate(zip(olds, my_lanes, strict=True)):
            unit = 0 if check.units is None else int(check.units[at])
            if not old or (before == (old, unit, my_lane) and not check.conflicts):
                continue
            before = old, unit, my_lane
            self._compare_value(check, old, unit, (my_lane,), check.blocks[at : at + 1])

    def _compare_value(
        self, check: Check, old: int, unit: int, mine: Sequence[int], blocks: NDArray[np.int32]
    ) -> None:
        """Compare the access of the lanes ``mine`` to blocks with what one value of the shadow stands for."""
        number, lane = divmod(abs(old), CODES)
        view, current = check.views[unit], check.current
        for member in self._members(number if old > 0 else -number, view, current):
            record, their_lane = divmod(member, CODES)
            earlier = self._records[record]
            if self._settled(earlier, check, view):
                continue
            their_lane = lane if their_lane == SAME_LANE else their_lane
            clean = True
            for my_lane in mine:
                rule = broken_rule(earlier, their_lane, current, my_lane, view)
                clean = clean and not rule
                if rule:
                    check.breaks(rule, earlier, (their_lane, my_lane), unit, blocks)
            if clean:
                _remember(check, earlier, view)

    def _compare_many(self, check: Check, old: Values) -> None:
        numbers, lanes = _split_values(old)
        several = len(check.views)
        pairs = numbers if check.units is None else numbers * several + check.units
        for pair in distinct(pairs):
            number, unit = (pair, 0) if check.units is None else divmod(pair, several)
            if not number:
                continue
            view = check.views[unit]
            here: NDArray[np.bool_] | None = None
            for member in self._members(number, view, check.current):
                record, their_lane = divmod(member, CODES)
                earlier = self._records[record]
                if self._settled(earlier, check, view):
                    continue
                if here is None:
                    here = pairs == pair
                theirs = lanes[here] if their_lane == SAME_LANE else their_lane
                self._compare_lanes(check, earlier, theirs, here, unit)

    def _compare_lanes(
        self, check: Check, earlier: Record, theirs: Any, here: NDArray[np.bool_], unit: int
    ) -> None:
        """Compare the lanes of one pair of record and agent; report the first conflict of each rule."""
        view, current = check.views[unit], check.current
        assert check.lanes is not None
        mine = check.lanes[here]
        own = earlier.key == view.warp_key and earlier.time <= view.limit
        if own and (theirs == mine).all():
            return
        codes = theirs * 64 + (mine + 1)
        clean = True
        for code in distinct(codes):
            lane, my_lane = code // 64, code % 64 - 1
            rule = broken_rule(earlier, lane, current, my_lane, view)
            clean = clean and not rule
            if rule:
                check.breaks(rule, earlier, (lane, my_lane), unit, check.blocks[here][codes == code])
        if clean:
            _remember(check, earlier, view)

    def by_chance(self, rule: str, check: Check, earlier: Record, lane: int) -> None:
        """Report a read that nothing orders after the write that the rule asks for."""
        check.locate()
        check.breaks(rule, earlier, (lane, -1), 0, check.blocks)
        self._report_all(check)

    # --- storing --------------------------------------------------------------------------------

    def _store_single(self, check: Check) -> None:
        shadow, current, values = check.shadow, check.current, check.values
        for at, block in enumerate(check.blocks.tolist()):
            view = check.views[0 if check.units is None else int(check.units[at])]
            mine = check.mask if check.lanes is None else 1 << int(check.lanes[at])
            value = values if isinstance(values, int) else int(values[at])
            if current.kind is AccessKind.READ:
                shadow.reads[block] = self._joined(int(shadow.reads[block]), value, mine, view, current)
                continue
            if _stays(current) or (check.raced and self._count(int(shadow.writes[block])) < _RACING):
                value = self._joined(int(shadow.writes[block]), value, mine, view, current)
            shadow.writes[block] = value
            # Later accesses are still compared with reads that are not ordered before the write.
            read = int(shadow.reads[block]) if check.raced or current.strong else 0
            shadow.reads[block] = self._joined(read, 0, mine, view, current)

    def _store_reads(self, checks: Sequence[Check]) -> None:
        """Store reads of the same bytes by several agents, each with one value and the lanes of its mask."""
        reads = checks[0].shadow.reads
        made: dict[int, int] = {}
        for block in checks[0].blocks.tolist():
            old = int(reads[block])
            if old not in made:
                made[old] = self._with_reads(old, checks)
            reads[block] = made[old]

    def _with_reads(self, old: int, checks: Sequence[Check]) -> int:
        """Return the value for those members of ``old`` that must be kept, and for the reads."""
        members = self.sets.accesses(old) if old else []
        news = [check.values for check in checks if isinstance(check.values, int)]
        if _is_searched(len(members)):
            members = [
                member
                for member in members
                if not any(self._covered(member, c.mask, c.views[0], c.current) for c in checks)
            ]
        return self._value_of(members, *news)

    def _count(self, value: int) -> int:
        """Return how many accesses a value stands for."""
        return self.sets.count(-value // CODES) if value < 0 else int(value > 0)

    def _joined(self, old: int, value: int, mine: int, view: View, current: Current) -> int:
        """Return the value for the members of ``old`` that must be kept, and for ``value``.

        ``mine`` is the mask of the lanes that access; 0 for an engine.
        """
        if not old:
            return value
        number, lane = divmod(abs(old), CODES)
        if old > 0:
            if old == value or self._covered(old, mine, view, current):
                return value
            return self._value_of([old], value)
        if not _is_searched(self.sets.count(number)):
            member = value if value % CODES == ALL_LANES or value % CODES != lane else relative(value)
            lanes_fit = lane == ALL_LANES or member % CODES in (ALL_LANES, SAME_LANE)
            if lanes_fit and value:
                return self.sets.value(self.sets.extended(number, member), lane)
            members = absolute(self.sets.members(number), lane)
        else:
            members = absolute(self.sets.members(number), lane)
            members = [m for m in members if not self._covered(m, mine, view, current)]
        return self._value_of(members, value)

    def _value_of(self, members: list[int], *values: int) -> int:
        """Return the value for the members, which name their lanes, and for more accesses; 0 is none."""
        members = list(dict.fromkeys([*members, *(value for value in values if value)]))
        if not members:
            return 0
        lanes = {member % CODES for member in members} - {ALL_LANES}
        if len(lanes) != 1:
            return self.sets.value(self.sets.of(members), ALL_LANES)
        return self.sets.value(self.sets.of(map(relative, members)), lanes.pop())

    def _covered(self, value: int, mine: int, view: View, current: Current) -> bool:
        """True if an older access may be forgotten: what is ordered after the new one is also after it."""
        number, lane = divmod(value, CODES)
        earlier = self._records[number]
        if not _replaces(earlier, current):
            return False
        if not current.needs_more(earlier) and _contains_all(earlier, current, view):
            return True
        if earlier.key == view.warp_key and earlier.time <= view.limit and lane == ALL_LANES:
            return not earlier.mask & ~mine
        lanes = bits_of(mine) if mine else (-1,)
        return not any(broken_rule(earlier, lane, current, my_lane, view) for my_lane in lanes)

    def _store_many(self, check: Check) -> None:
        shadow, current, blocks = check.shadow, check.current, check.blocks
        if current.kind is AccessKind.READ:
            shadow.reads[blocks] = self._merged(check, shadow.reads[blocks], check.values)
            return
        if check.raced or _stays(current):
            shadow.writes[blocks] = self._merged(check, shadow.writes[blocks], check.values)
        else:
            shadow.writes[blocks] = check.values
        keeps = check.raced or current.strong
        shadow.reads[blocks] = self._merged(check, shadow.reads[blocks], 0) if keeps else 0

    def _merged(self, check: Check, old: Values, new: int | Values) -> int | Values:
        """Return values for the new accesses and for those old ones that are not ordered before them."""
        if not old.any():
            return new
        result = np.array(np.broadcast_to(np.asarray(new, np.int64), old.shape))
        numbers, lanes = _split_values(old)
        news = result // CODES
        several = len(check.views)
        units = 0 if check.units is None else check.units
        # One code for each old number, new number and agent that occur together.
        lowest, widest = int(numbers.min()), int(news.max()) + 1
        codes = np.where(numbers == 0, -1, ((numbers - lowest) * widest + news) * several + units)
        for code in distinct(codes):
            if code < 0:
                continue
            rest, unit = divmod(code, several)
            number, made = divmod(rest, widest)
            here = np.flatnonzero(codes == code)
            mine = None if check.lanes is None else check.lanes[here]
            self._merge(check, number + lowest, made, here, lanes[here], mine, unit, result)
        return result

    def _merge(
        self,
        check: Check,
        number: int,
        made: int,
        here: NDArray[np.intp],
        lanes: Values,
        mine: NDArray[Any] | None,
        unit: int,
        result: Values,
    ) -> None:
        """Write the values of blocks with one old number and one new record to ``result``."""
        view, current = check.views[unit], check.current
        racing = current.kind is not AccessKind.READ and not _stays(current)
        if racing and self.sets.count(max(0, -number)) >= _RACING:
            return
        if number > 0:
            left = self._uncovered(CODES * number + SAME_LANE, lanes, mine, view, current)
            if not np.any(left):
                return
            if not np.all(left):
                here, lanes = here[left], lanes[left]
            rest = self.sets.extended(0, CODES * number + SAME_LANE)
        else:
            rest = -number
            if _is_searched(self.sets.count(rest)):
                members = self.sets.members(rest)
                kept = [m for m in members if np.any(self._uncovered(m, lanes, mine, view, current))]
                rest = rest if len(kept) == len(members) else self.sets.of(kept)
        new_lanes = result[here] % CODES
        if not rest:
            return
        if (made and not (lanes == new_lanes).all()) or (lanes == ALL_LANES).any():
            pairs = lanes * CODES + new_lanes
            for pair in distinct(pairs):
                lane, new_lane = divmod(pair, CODES)
                value = CODES * made + new_lane if made else 0
                if lane == ALL_LANES:
                    # The members name their lanes, and so does the new one.
                    number = self.sets.extended(rest, value) if made else rest
                    result[here[pairs == pair]] = self.sets.value(number, ALL_LANES)
                else:
                    members = absolute(self.sets.members(rest), lane)
                    result[here[pairs == pair]] = self._value_of(members, value)
            return
        if made:
            rest = self.sets.extended(rest, CODES * made + SAME_LANE)
        result[here] = self.sets.values(rest, lanes)

    def _uncovered(
        self, member: int, lanes: Values, mine: NDArray[Any] | None, view: View, current: Current
    ) -> NDArray[np.bool_] | bool:
        """Return for which lanes an old access must be kept: most records are ordered before as a whole."""
        number, lane = divmod(member, CODES)
        earlier = self._records[number]
        if not _replaces(earlier, current):
            return True
        own = mine is not None and earlier.key == view.warp_key
        if not current.needs_more(earlier):
            if _contains_all(earlier, current, view):
                return False
            clock = level_of(earlier, current, view)
            special = earlier.barrier or earlier.bound or earlier.kind is AccessKind.INIT
            if (
                not own
                and not special
                and earlier.stream is None
                and not known_lanes(earlier, clock, earlier.mask)
            ):
                return True
        theirs = lanes if lane == SAME_LANE else np.full(len(lanes), lane)
        codes = theirs * 64 + (0 if mine is None else mine + 1)
        left = np.zeros(len(lanes), np.bool_)
        for code in distinct(codes):
            if broken_rule(earlier, code // 64, current, code % 64 - 1, view):
                left |= codes == code
        return left


def _remember(check: Check, earlier: Record, view: View) -> None:
    """Remember that an agent's access comes after one of an engine, if neither is of single lanes."""
    if not earlier.mask and check.lanes is None:
        view.ordered.add(earlier.number * 8 + check.current.number)


def _is_searched(count: int) -> bool:
    """True if a set of so many members is searched for what to forget: large ones when they have doubled."""
    return count <= _FEW or not count & (count - 1)


def _contains_all(earlier: Record, current: Current, view: View) -> bool:
    """True if the agent knows of all lanes' accesses of the record, at the level that is needed."""
    return known_lanes(earlier, level_of(earlier, current, view), 0) == FULL_MASK


def _stays(current: Current) -> bool:
    """True if earlier writes must be kept beside this one, if nothing orders them."""
    return current.strong or current.barrier or current.kind is AccessKind.RMW
