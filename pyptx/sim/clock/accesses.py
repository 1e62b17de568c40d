"""What the accesses of threads to memory cost, and which registers wait for them.

A warp goes on behind a load and waits where an instruction reads the loaded register: before the access of a
block that this instruction belongs to, or behind it. Accesses to global memory move sectors of 32 bytes, and
L1 looks up each line of 128 bytes that a warp's access touches; sectors that it holds come from there.
Accesses to shared memory pass its banks (:mod:`.banks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...flow import accesses
from ...timing.access_order import AccessOrder
from ..code.function import CodeBlock
from ..code.semantic import Op
from ..engine.work import LINE, Copy
from ..memory.access import Access, AccessKind, MemoryOrder, StateSpace
from ..threads.warp import Split, Warp
from .banks import bank_cycles
from .figures import BANKS, WORD
from .l1 import L1, LINE_SECTORS
from .units import SECTOR, WAY, Units

__all__ = ["ThreadAccesses"]

#: What a load from global memory says if it does not take what L1 holds.
_PAST_L1 = frozenset({"cg", "cv", "L1::no_allocate"})
#: What it says if L1 shall lose it first.
_PASSING = frozenset({"cs", "lu", "L1::evict_first"})
#: Loads, and stores, of a scheduler's warps that wait for the banks of shared memory, before the next one
#: holds up its warp. Measured on an H200, 2026-11-29: 16 warps that access 512 bytes 8 or 16 times in a row.
_LOADS, _STORES = 16, 9
_SPACES = frozenset({StateSpace.GLOBAL, StateSpace.SHARED, StateSpace.LOCAL})
#: Lanes whose words of local memory share a sector.
_SECTOR_LANES = SECTOR // WORD


class ThreadAccesses:
    """The accesses of the block that runs, and the loads in flight of all warps.

    ``moved`` is called with the CTA, each access to global memory, and whether L2 may have to fetch it.
    """

    def __init__(self, moved: Callable[[tuple[int, int], Copy, bool], None]) -> None:
        self._now: list[Access] = []
        self._moved = moved
        #: L1 of each multiprocessor, by its number.
        self._caches: dict[int, L1] = {}
        #: For each warp, when the value of a register arrives that a load has not written yet.
        self._arriving: dict[Warp, dict[str, float]] = {}
        #: For each warp, when the values of its last loads that are parts of wider ones arrive.
        self._shared: dict[Warp, dict[int, float]] = {}
        #: For each warp, when it came to the last rounds of an unrolled loop, by the statement that loads.
        self._rounds: dict[Warp, dict[int, _Rounds]] = {}
        #: The lines of local memory, by CTA, warp and word.
        self._lines: dict[tuple[tuple[int, int], int, int], int] = {}
        #: For each warp, the wait that later loads pass.
        self._passed: dict[Warp, _Passed] = {}

    def note(self, access: Access) -> None:
        """Take an access of the block that runs."""
        if access.threads is not None and access.space in _SPACES:
            self._now.append(access)

    def ready(
        self, s: Split, block: CodeBlock, time: float, passed: Mapping[int, int], cycles: float
    ) -> float:
        """Return when a warp that comes to a block of ``cycles`` at ``time`` has what its access needs.

        That are the registers of all its instructions, if none of them accesses memory. Where ptxas has put
        later loads in front of an instruction that waits, the warp waits behind these loads.

        Args:
            passed: the last of such loads for each statement.
        """
        registers = _registers(block)
        wait = self._passed.get(s.warp)
        if wait is not None and not wait.contains(block):
            time = max(time, wait.time)
            del self._passed[s.warp]
        for name, number in self._awaited(s, registers.first):
            time = max(time, self._wait(s, block, name, number, time, passed))
        wait = self._passed.get(s.warp)
        if wait is not None and not registers.loaded:
            # What is no load lies behind the wait.
            wait.time += cycles
        return time

    def through(
        self, s: Split, block: CodeBlock, time: float, passed: Mapping[int, int], cycles: float
    ) -> tuple[float, int]:
        """Return when a warp is through a block of ``cycles`` whose access is on its way since ``time``.

        The instructions behind the access wait for what they read, which the access itself may have loaded.
        The number is that of the first of them that waits, or 0.
        """
        late, place = time, 0
        for name, number in self._awaited(s, _registers(block).then):
            arrived = self._wait(s, block, name, block.ops[number][1].statement, time, passed)
            arrived += cycles * (1 - number / len(block.ops))
            if arrived > late:
                late, place = arrived, number
        return late, place

    def _awaited(self, s: Split, read: Mapping[str, int]) -> list[tuple[str, int]]:
        """Return those of the registers that a block reads which a load writes, in the order of ``read``."""
        arriving = self._arriving.get(s.warp)
        return [each for each in read.items() if each[0] in arriving] if arriving else []

    def _wait(
        self, s: Split, block: CodeBlock, name: str, number: int, time: float, passed: Mapping[int, int]
    ) -> float:
        """Return when a statement has the register that it reads, or ``time`` if later loads pass it."""
        arriving = self._arriving[s.warp]
        last = passed.get(number)
        if last is None or arriving[name] <= time:
            return max(time, arriving.pop(name))
        wait = self._passed.get(s.warp)
        if wait is None:
            self._passed[s.warp] = _Passed(block.code.function.name, number, last, arriving[name])
        else:
            wait.last, wait.time = max(wait.last, last), max(wait.time, arriving[name])
        return time

    def charge(self, s: Split, block: CodeBlock, units: Units, time: float, order: AccessOrder) -> float:
        """Charge the accesses of a block that began at ``time``. Return when the last has left the warp.

        Args:
            order: how wide the accesses are, and in which rounds of an unrolled loop they are issued.
        """
        found, self._now = self._now, []
        arrives, left = 0.0, time
        registers = _registers(block)
        wider = order.merged.get(registers.access) if found else None
        if wider is not None:
            if wider.statement == registers.access:
                found = [_widened(access, wider.width) for access in found]
            else:
                found = []
                arrives = self._shared.get(s.warp, {}).get(wider.statement, 0.0)
        part, sooner = 1.0, 0.0
        early = order.ahead.get(registers.access) if found else None
        if early is not None:
            rounds = self._rounds.setdefault(s.warp, {}).setdefault(registers.access, _Rounds())
            sooner = time - rounds.issued(time, early.rounds)
            if early.part < 1:
                found, part = [_widened(access, early.width) for access in found], early.part
        for access in found:
            if access.space is StateSpace.SHARED and not s.warp.cta.owns(access.segment.base):
                served = units.access_peer(time, bank_cycles(access))
                done = served - units.figures.peer_word + units.figures.peer_latency
            elif access.space is StateSpace.SHARED:
                stores = access.kind is AccessKind.WRITE
                served = max(
                    units.access_shared(time, part * bank_cycles(access)),
                    units.pass_words(s.warp.index, time, _words(access), part, stores=stores),
                )
                left = max(left, units.queue(s.warp.index, served, _STORES if stores else _LOADS))
                # The latency is that of an access without conflicts, and contains its way to the banks.
                done = served - WAY + units.figures.shared_latency
            elif access.space is StateSpace.LOCAL:
                if not order.local:
                    continue
                left, done = self._use_local(s, access, units, left)
            elif access.kind is AccessKind.RMW:
                sectors = _parts(access, SECTOR)
                left = max(left, units.look_up(time, _parts(access, LINE)))
                word = access.segment.base + int(access.footprint.starts[0])
                left = max(left, units.add(left, sectors, word))
                done = left + units.figures.atomic_latency
                self._moved(s.warp.cta.key, _copy_of(access, SECTOR * sectors), True)
            elif access.kind is AccessKind.READ:
                done, left = self._load(s, access, units, time, left, sooner)
            else:
                touched, whole = _touched(access, SECTOR).tolist(), _filled(access)
                left = max(left, units.pass_on(time, _parts(access, LINE), whole, len(touched) - whole))
                units.access_global(left - units.figures.lookup, SECTOR * len(touched), loads=False)
                self._cache(s).ask(touched, access.segment, units)
                # Stores fill sectors part by part, and memory takes them whole.
                self._moved(s.warp.cta.key, _copy_of(access, _bytes(access)), True)
            if access.kind is not AccessKind.WRITE:
                arrives = max(arrives, done)
        arrives -= sooner
        if arrives > 0 and registers.loaded:
            self._arriving.setdefault(s.warp, {}).update(dict.fromkeys(registers.loaded, arrives))
            if wider is not None:
                self._shared.setdefault(s.warp, {})[wider.statement] = arrives
        return left

    def _use_local(self, s: Split, access: Access, units: Units, time: float) -> tuple[float, float]:
        """Return when an access to local memory has left its warp, and when its value arrives.

        The words that the lanes of a warp have at one address lie in one line. Stores pass L1, where their
        lines stay, to L2; memory need not take them.
        """
        assert access.threads is not None  # note keeps accesses of threads alone
        offsets = access.footprint.starts - access.threads * s.warp.cta.local_memory.capacity
        words = (offsets[:, None] + np.arange(0, max(WORD, access.footprint.size), WORD)) // WORD
        places = access.threads % BANKS // _SECTOR_LANES
        lines = {word: self._line(s.warp, word) for word in np.unique(words).tolist()}
        parts, lanes = np.unique(words * LINE_SECTORS + places[:, None], return_counts=True)
        sectors = [
            LINE_SECTORS * lines[each // LINE_SECTORS] + each % LINE_SECTORS for each in parts.tolist()
        ]
        cache = self._cache(s)
        if access.kind is AccessKind.WRITE:
            whole = int((lanes == _SECTOR_LANES).sum())
            left = max(time, units.pass_on(time, len(lines), whole, len(sectors) - whole))
            cache.fill(sectors, left)
            return left, left
        left = max(time, units.look_up(time, len(lines)))
        looked_up = left - units.figures.lookup
        missed, arrives = cache.read(sectors)
        arrives = max(arrives, looked_up + units.figures.load_l1_latency)
        if missed:
            nbytes = SECTOR * len(missed)
            done = units.access_global(looked_up, nbytes, loads=True, fresh=False, own=True)
            cache.fill(missed, done)
            arrives = max(arrives, done)
        return left, arrives

    def _line(self, warp: Warp, word: int) -> int:
        """Return the number of the line of local memory that the lanes of a warp have at a word: below 0."""
        key = warp.cta.key, warp.index, word
        return self._lines.setdefault(key, -1 - len(self._lines))

    def copied(self, cta: tuple[int, int], units: Units, time: float) -> None:
        """Take the accesses of a ``cp.async`` of a CTA when its step happens. No warp waits for them."""
        found, self._now = self._now, []
        for access in found:
            if access.space is StateSpace.SHARED:
                units.access_shared(time, bank_cycles(access), copied=True)
            else:
                self._moved(cta, _copy_of(access, SECTOR * _parts(access, SECTOR)), True)

    def _load(
        self, s: Split, access: Access, units: Units, time: float, left: float, sooner: float
    ) -> tuple[float, float]:
        """Return when a load from global memory is in registers, and when it has left the warp.

        It is issued by ``sooner`` cycles earlier.
        """
        figures, cache = units.figures, self._cache(s)
        sectors = _touched(access, SECTOR).tolist()
        left = max(left, units.look_up(time, len({each // LINE_SECTORS for each in sectors})))
        # The latencies are those of one line, whose time in L1 they contain.
        looked_up = left - figures.lookup
        said = () if s.op is None else s.op.chosen.values()
        missed, arrives = sectors, 0.0
        keeps = _PAST_L1.isdisjoint(said) and access.semantics is MemoryOrder.WEAK
        if keeps:
            missed, arrives = cache.read(sectors)
            arrives += sooner
        if len(missed) < len(sectors):
            arrives = max(arrives, looked_up + figures.load_l1_latency)
        if missed:
            nbytes, fresh = SECTOR * len(missed), cache.ask(missed, access.segment, units)
            done = units.access_global(looked_up, nbytes, loads=True, fresh=fresh)
            if keeps:
                cache.fill(missed, done - sooner, passing=not _PASSING.isdisjoint(said))
            self._moved(s.warp.cta.key, _copy_of(access, nbytes), fresh)
            arrives = max(arrives, done)
        return arrives, left

    def _cache(self, s: Split) -> L1:
        """Return L1 of the multiprocessor of a warp."""
        where = s.warp.cta.multiprocessor
        cache = self._caches.get(where.number)
        if cache is None:
            shared = where.held * s.warp.cta.grid.demand.shared
            cache = self._caches[where.number] = L1(shared)
        return cache


@dataclass(slots=True)
class _Passed:
    """A wait of a warp for registers that later loads pass, as ptxas has ordered them.

    Attributes:
        function: the function.
        first: the statement that waits.
        last: the last of the loads.
        time: when the warp is through the wait, and what it has run meanwhile that lies behind it.
    """

    function: str
    first: int
    last: int
    time: float

    def contains(self, block: CodeBlock) -> bool:
        """True if a block begins between the statement that waits and the last load."""
        begin = block.statements[0] if block.statements else self.first
        return self.first < begin <= self.last and block.code.function.name == self.function


class _Rounds:
    """When a warp came to the rounds of an unrolled loop, as many as ptxas has made copies of."""

    __slots__ = ("_count", "_times")

    def __init__(self) -> None:
        self._count, self._times = 0, list[float]()

    def issued(self, time: float, rounds: Sequence[int]) -> float:
        """Return when the load of the round that begins at ``time`` was issued."""
        copy = self._count % len(rounds)
        if copy == 0:
            self._times.clear()
        self._times.append(time)
        self._count += 1
        return self._times[copy - rounds[copy]]


@dataclass(frozen=True, slots=True)
class _Registers:
    """Registers of a block, by name.

    Attributes:
        first: those that its last access to memory and what stands in front of it read, and which statement
            does so first; all without such an access.
        then: those that are read behind it, or that the block has loaded from local memory, and by which
            instruction of the block first.
        loaded: those that its accesses write.
        access: the statement of its last access to memory; -1 without one.
    """

    first: Mapping[str, int]
    then: Mapping[str, int]
    loaded: frozenset[str]
    access: int


@cache
def _registers(block: CodeBlock) -> _Registers:
    places = [place for place, (_, op) in enumerate(block.ops) if _accesses_memory(op)]
    last = places[-1] if places else len(block.ops)
    first: dict[str, int] = {}
    then: dict[str, int] = {}
    loaded: set[str] = set()
    local: set[str] = set()
    for place, (instruction, op) in enumerate(block.ops):
        read, written = accesses(instruction, op.binding)
        for register in read:
            if place <= last and register.name not in local:
                first.setdefault(register.name, op.statement)
            else:
                then.setdefault(register.name, place)
        if _accesses_memory(op):
            loaded.update(register.name for register in written)
            if op.space is StateSpace.LOCAL:
                local.update(register.name for register in written)
    if block.branch is not None and block.branch.guard is not None:
        guard = block.branch.guard.register.name
        if places:
            then.setdefault(guard, len(block.ops) - 1)
        else:
            first.setdefault(guard, block.statements[-1])
    access = block.ops[last][1].statement if places else -1
    return _Registers(first, then, frozenset(loaded), access)


def _accesses_memory(op: Op) -> bool:
    return op.semantic.per != "value" and not op.semantic.registers_only


def _copy_of(access: Access, nbytes: int) -> Copy:
    """Return an access to global memory as a copy of so many bytes."""
    place = int(access.footprint.starts[0]), nbytes
    return Copy(nbytes, 1, (access.segment.base, place), (), loads=access.kind is AccessKind.READ)


def _widened(access: Access, width: int) -> Access:
    """Return an access of each lane to all of the aligned part of memory that its own lies in."""
    footprint, base = access.footprint, access.segment.base
    starts = (base + footprint.starts) // width * width - base
    return replace(access, footprint=replace(footprint, starts=starts, size=width))


def _parts(access: Access, size: int) -> int:
    """Return how many aligned parts of memory of ``size`` bytes an access touches."""
    return len(_touched(access, size))


def _touched(access: Access, size: int) -> NDArray[np.int64]:
    """Return the numbers of the aligned parts of memory of ``size`` bytes that an access touches."""
    footprint = access.footprint
    base = access.segment.base
    first = (base + footprint.starts) // size
    last = (base + footprint.starts + footprint.size - 1) // size
    return np.union1d(first, last)


def _bytes(access: Access) -> int:
    """Return how many bytes an access moves. Its pieces are equal or apart."""
    return len(np.unique(access.footprint.starts)) * access.footprint.size


def _filled(access: Access) -> int:
    """Return how many sectors an access fills. Its pieces are equal or apart."""
    first = access.segment.base + np.unique(access.footprint.starts)
    # A piece lies in at most two sectors.
    ends = np.minimum(first + access.footprint.size, (first // SECTOR + 1) * SECTOR)
    sectors = np.concatenate([first // SECTOR, ends // SECTOR])
    nbytes = np.concatenate([ends - first, first + access.footprint.size - ends])
    _, place = np.unique(sectors, return_inverse=True)
    return int((np.bincount(place, nbytes) == SECTOR).sum())


def _words(access: Access) -> int:
    """Return how many words of shared memory each lane accesses."""
    return max(1, access.footprint.size // WORD)
