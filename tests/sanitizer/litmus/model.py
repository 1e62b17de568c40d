"""The outcomes that PTX's memory consistency model allows, by enumeration of candidate executions.

A candidate says from which write each read takes its value, how the writes to each location follow each other, and how
fences of kind ``sc`` follow each other.  It counts if it breaks none of the axioms.  Everything here follows the
sections of the PTX ISA from #morally-strong-operations to #axioms, and shares no code with the simulator.

All operations are of one size and use the generic proxy, so the model's rules for bytes and proxies do not appear.  No
test stores a value that depends on a load, so the axiom against values out of thin air does not either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations, product

from .program import Fence, Litmus, Load, Operation, Store, Update

__all__ = ["allowed", "forbidden", "races", "racy"]

Outcome = tuple[int, ...]
#: A relation: for each event, the set of the events that it precedes.
Relation = list[set[int]]


@dataclass(frozen=True)
class _Event:
    """An operation of a thread, or the write that initializes a location (thread -1)."""

    thread: int
    operation: Operation

    @property
    def reads(self) -> bool:
        return isinstance(self.operation, (Load, Update))

    @property
    def writes(self) -> bool:
        return isinstance(self.operation, (Store, Update))

    @property
    def location(self) -> str:
        return "" if isinstance(self.operation, Fence) else self.operation.location

    @property
    def strong(self) -> bool:
        return self.operation.order != "weak"

    def _has(self, *orders: str) -> bool:
        return self.operation.order in orders

    @property
    def releases(self) -> bool:
        return self._has("release", "acq_rel", "sc") and self.thread >= 0

    @property
    def acquires(self) -> bool:
        return self._has("acquire", "acq_rel", "sc") and self.thread >= 0


def _closure(relation: Relation) -> Relation:
    """The transitive closure."""
    closed = [set(after) for after in relation]
    for middle in range(len(closed)):
        for after in closed:
            if middle in after:
                after |= closed[middle]
    return closed


def _cyclic(relation: Relation) -> bool:
    return any(n in after for n, after in enumerate(_closure(relation)))


class _Test:
    """The events of a test and what does not depend on a candidate."""

    def __init__(self, test: Litmus) -> None:
        self.test = test
        self.events = [_Event(-1, Store(location, 0)) for location in test.locations]
        for number, thread in enumerate(test.threads):
            self.events += [_Event(number, operation) for operation in thread]
        self.all = range(len(self.events))
        self.reads = [n for n in self.all if self.events[n].reads]

    @cached_property
    def program_order(self) -> Relation:
        """Program order; the initializing writes precede everything."""
        events = self.events
        return [
            {
                m
                for m in self.all
                if m > n
                and events[m].thread >= 0
                and (events[n].thread < 0 or events[n].thread == events[m].thread)
            }
            for n in self.all
        ]

    @cached_property
    def same_location(self) -> Relation:
        """Pairs of different memory operations on one location."""
        events = self.events
        return [
            {
                m
                for m in self.all
                if m != n and events[n].location and events[n].location == events[m].location
            }
            for n in self.all
        ]

    def _in_scope(self, n: int, m: int) -> bool:
        """Whether the scope of operation n includes the thread of operation m."""
        ctas, events = self.test.ctas, self.events
        scope = events[n].operation.scope
        return scope == "gpu" or ctas[events[n].thread] == ctas[events[m].thread]

    def morally_strong(self, n: int, m: int) -> bool:
        """#morally-strong-operations."""
        one, other = self.events[n], self.events[m]
        if one.location and other.location and one.location != other.location:
            return False
        if one.thread < 0 or other.thread < 0:
            return False
        if one.thread == other.thread:
            return True
        return one.strong and other.strong and self._in_scope(n, m) and self._in_scope(m, n)

    def release_patterns(self) -> Iterator[tuple[int, int]]:
        """First operation and write of each release pattern (#release-acquire-patterns)."""
        for n in self.all:
            event = self.events[n]
            if not event.releases:
                continue
            if event.writes:
                yield n, n
            for m in self.program_order[n]:
                later = self.events[m]
                fits = not event.location or later.location == event.location
                if later.writes and later.strong and fits:
                    yield n, m

    def acquire_patterns(self) -> Iterator[tuple[int, int]]:
        """Read and last operation of each acquire pattern."""
        for n in self.all:
            event = self.events[n]
            if not event.acquires:
                continue
            if event.reads:
                yield n, n
            for m in self.all:
                earlier = self.events[m]
                fits = not event.location or earlier.location == event.location
                if n in self.program_order[m] and earlier.reads and earlier.strong and fits:
                    yield m, n


class _Candidate:
    """A choice of the write that each read takes its value from."""

    def __init__(self, test: _Test, sources: dict[int, int]) -> None:
        self.test, self.sources = test, sources
        self.values = self._values()

    def _values(self) -> dict[int, int] | None:
        """The value that each event writes; None if updates read from each other in a circle."""
        values: dict[int, int] = {}

        def value(n: int, seen: tuple[int, ...]) -> int | None:
            operation = self.test.events[n].operation
            if isinstance(operation, Store):
                return operation.value
            if n in seen:
                return None
            before = value(self.sources[n], (*seen, n))
            return None if before is None else before + 1

        for n in self.test.all:
            if self.test.events[n].writes:
                found = value(n, ())
                if found is None:
                    return None
                values[n] = found
        return values

    def observation(self) -> Relation:
        """#observation-order: a write, and the reads that take its value directly or through updates."""
        test = self.test
        relation: Relation = [set() for _ in test.all]
        for read, write in self.sources.items():
            if test.morally_strong(read, write):
                relation[write].add(read)
        changed = True
        while changed:
            changed = False
            for after in relation:
                for n in list(after):
                    if isinstance(test.events[n].operation, Update) and not relation[n] <= after:
                        after |= relation[n]
                        changed = True
        return relation

    def synchronizes(self, observation: Relation) -> Relation:
        """#memory-synchronization, item 4: release patterns with acquire patterns."""
        test = self.test
        relation: Relation = [set() for _ in test.all]
        acquires = list(test.acquire_patterns())
        for first, write in test.release_patterns():
            for read, last in acquires:
                if read in observation[write] and test.morally_strong(first, last):
                    relation[first].add(last)
        return relation


def _fence_orders(test: _Test) -> Iterator[Relation]:
    """#fence-sc-order: every order that relates all pairs of morally strong fences of kind sc."""
    fences = [n for n in test.all if test.events[n].operation.order == "sc"]
    known = []
    for order in permutations(fences):
        relation: Relation = [set() for _ in test.all]
        for n, m in combinations(order, 2):
            if test.morally_strong(n, m):
                relation[n].add(m)
        if relation not in known:
            known.append(relation)
            yield relation


def _coherence_orders(test: _Test, cause: Relation) -> Iterator[Relation]:
    """#coherence-order: writes to one location are related if morally strong or by causality."""
    forced: Relation = [set() for _ in test.all]
    open_pairs = []
    writes = [n for n in test.all if test.events[n].writes]
    for n, m in combinations(writes, 2):
        if m not in test.same_location[n]:
            continue
        if m in cause[n] or n in cause[m]:
            if m in cause[n]:
                forced[n].add(m)
            if n in cause[m]:
                forced[m].add(n)
        elif test.morally_strong(n, m):
            open_pairs.append((n, m))
    for turned in product((False, True), repeat=len(open_pairs)):
        relation = [set(after) for after in forced]
        for (n, m), turn in zip(open_pairs, turned, strict=True):
            relation[m if turn else n].add(n if turn else m)
        closed = _closure(relation)
        if not any(n in after for n, after in enumerate(closed)):
            yield closed


def _causality(test: _Test, base: Relation, observation: Relation) -> Relation:
    """#causality-order of memory operations on one location."""
    kept = [base[n] & test.same_location[n] for n in test.all]
    return [kept[n].union(*(kept[middle] for middle in observation[n])) for n in test.all]


def _from_reads(test: _Test, sources: dict[int, int], coherence: Relation) -> Relation:
    """Reads before the writes that follow their sources in coherence order (#communication-order, item 3)."""
    relation: Relation = [set() for _ in test.all]
    for read, write in sources.items():
        relation[read] = coherence[write] - {read}
    return relation


def _keeps_axioms(test: _Test, sources: dict[int, int], cause: Relation, coherence: Relation) -> bool:
    """#atomicity-axiom, #sc-per-loc-axiom and #causality-axiom; coherence holds by construction."""
    for read, write in sources.items():
        if write in cause[read]:
            return False
        if any(read in cause[later] for later in coherence[write]):
            return False
    before = _from_reads(test, sources, coherence)
    for n in sources:
        if isinstance(test.events[n].operation, Update) and any(
            n in coherence[m] and test.morally_strong(n, m) for m in before[n]
        ):
            return False
    relation = [test.program_order[n] & test.same_location[n] for n in test.all]
    for n in test.all:
        relation[n] |= {m for m in coherence[n] | before[n] if test.morally_strong(n, m)}
    for read, write in sources.items():
        if test.morally_strong(read, write):
            relation[write].add(read)
    return not _cyclic(relation)


def _executions(test: _Test) -> Iterator[tuple[_Candidate, Relation, Relation]]:
    """Every candidate that keeps the axioms, with base causality order and coherence order."""
    choices = [[n for n in test.same_location[read] if test.events[n].writes] for read in test.reads]
    fence_orders = list(_fence_orders(test))
    for chosen in product(*choices):
        candidate = _Candidate(test, dict(zip(test.reads, chosen, strict=True)))
        if candidate.values is None:
            continue
        observation = candidate.observation()
        pairs = candidate.synchronizes(observation)
        for fences in fence_orders:
            base = _closure([test.program_order[n] | pairs[n] | fences[n] for n in test.all])
            if any(n in base[m] for n in test.all for m in fences[n]):
                continue  # Fence-SC order contradicts causality (#fence-sc-axiom)
            cause = _causality(test, base, observation)
            for coherence in _coherence_orders(test, cause):
                if _keeps_axioms(test, candidate.sources, cause, coherence):
                    yield candidate, base, coherence


def _finals(test: _Test, candidate: _Candidate, coherence: Relation) -> Iterator[Sequence[int]]:
    """Every combination of last values: those of writes that no write follows in coherence order."""
    assert candidate.values is not None
    last = [
        {
            candidate.values[n]
            for n in test.all
            if test.events[n].writes and test.events[n].location == location and not coherence[n]
        }
        for location in test.test.finals
    ]
    return product(*last)


def _outcomes(test: _Test, candidate: _Candidate, coherence: Relation) -> Iterator[Outcome]:
    values = candidate.values
    assert values is not None
    registers = tuple(values[candidate.sources[read]] for read in test.reads)
    for last in _finals(test, candidate, coherence):
        yield (*registers, *last)


def allowed(test: Litmus, *, in_order: bool = False) -> frozenset[Outcome]:
    """The outcomes that the model allows: values of registers, then of :attr:`Litmus.finals`.

    With ``in_order`` those alone of executions in which program order, the order of each write before its reads,
    and the order of the fences of kind ``sc`` have no cycle: an order in time has all three.
    """
    events = _Test(test)
    return frozenset(
        outcome
        for one, base, order in _executions(events)
        if not in_order or _has_time(one, base)
        for outcome in _outcomes(events, one, order)
    )


def _has_time(candidate: _Candidate, base: Relation) -> bool:
    relation = [set(after) for after in base]
    for read, write in candidate.sources.items():
        relation[write].add(read)
    return not _cyclic(relation)


def forbidden(test: Litmus) -> frozenset[Outcome]:
    """The outcomes of values that occur in the test, which the model does not allow."""
    written = {location: {0} for location in test.locations}
    updates = {location: 0 for location in test.locations}
    places = []
    for thread in test.threads:
        for operation in thread:
            if isinstance(operation, Store):
                written[operation.location].add(operation.value)
            if isinstance(operation, Update):
                updates[operation.location] += 1
            if isinstance(operation, (Load, Update)):
                places.append(operation.location)
    values = {
        location: {value + more for value in found for more in range(updates[location] + 1)}
        for location, found in written.items()
    }
    every = product(*(values[location] for location in (*places, *test.finals)))
    return frozenset(every) - allowed(test)


def races(test: Litmus) -> dict[Outcome, set[bool]]:
    """For each outcome that the model allows: whether its executions have a data race (#conflict-and-data-races)."""
    events = _Test(test)
    found: dict[Outcome, set[bool]] = {}
    for candidate, base, coherence in _executions(events):
        race = _has_race(events, _causality(events, base, candidate.observation()))
        for outcome in _outcomes(events, candidate, coherence):
            found.setdefault(outcome, set()).add(race)
    return found


def _has_race(test: _Test, cause: Relation) -> bool:
    for n in test.all:
        for m in test.same_location[n]:
            conflict = test.events[n].writes or test.events[m].writes
            if conflict and m not in cause[n] and n not in cause[m] and not test.morally_strong(n, m):
                return True
    return False


def racy(test: Litmus) -> bool:
    """Whether an execution of the test has a data race."""
    return any(True in found for found in races(test).values())
