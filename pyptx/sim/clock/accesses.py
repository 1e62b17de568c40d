"""What the accesses of threads to memory cost, and which registers wait for them.

A warp goes on behind a load and waits where an instruction reads the loaded register: before the access of a
block that this instruction belongs to, or behind it. Accesses to global memory move sectors of 32 bytes, and
L1 looks up each line of 128 bytes that a warp's access touches; sectors that it holds come from there.
Accesses to shared memory pass its banks (:mod:`.banks`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...flow import accesses
from ...layout.wmma_fragments import FragmentOperand
from ...timing.access_order import Awaited
from ..code.function import CodeBlock
from ..code.semantic import Op
from ..engine.events import AsyncOperation
from ..engine.work import LINE, Copy, ThreadCopy
from ..memory.access import Access, AccessKind, MemoryOrder, StateSpace
from ..threads.cta import CTA
from ..threads.multiprocessor import Multiprocessor
from ..threads.warp import Split, Warp
from .banks import bank_cycles
from .costs import BlockCost
from .figures import BANKS, WORD
from .l1 import L1, LINE_SECTORS
from .local_memory import LocalMemory
from .starts import Start
from .units import SECTOR, WAY, Units

__all__ = ["ThreadAccesses"]

#: What a load from global memory says if it does not take what L1 holds.
_PAST_L1 = frozenset({"cg", "cv", "L1::no_allocate"})
#: What it says if L1 shall lose it first.
_PASSING = frozenset({"cs", "lu", "L1::evict_first"})
#: Loads, and stores, of a scheduler's warps that wait for the banks of shared memory, before the next one
#: holds up its warp. Measured on an H200, 2026-11-29: 16 warps that access 512 bytes 8 or 16 times in a row.
_LOADS, _STORES = 16, 9
#: What a warp's copies from global to shared memory take of L1 beyond their lines, in cycles. Measured on an
#: H200, 2026-11-30: 16 warps that copy what L1 holds, 4 bytes for each lane in 2.6 cycles, 16 in 5.7.
_COPIED = 1.6
#: How long they take from L1 to shared memory, beyond the latency of a load. Likewise.
_WRITTEN = 17.0
_SPACES = frozenset({StateSpace.GLOBAL, StateSpace.SHARED, StateSpace.LOCAL})


class ThreadAccesses:
    """The accesses of the block that runs, and the loads in flight of all warps.

    ``moved`` is called with the CTA, each access to global memory, and whether L2 may have to fetch it.
    What comes from shared memory is there for an address ``shared_use`` sooner than for arithmetic.
    """

    def __init__(
        self,
        moved: Callable[[tuple[int, int], Copy, bool], None],
        starts: Mapping[tuple[int, int], Start],
        shared_use: float,
    ) -> None:
        self._shared_use = shared_use
        self._now: list[Access] = []
        self._moved, self._starts = moved, starts
        #: When what a ``cp.async`` has read arrives.
        self._arrivals: dict[AsyncOperation, float] = {}
        #: L1 of each multiprocessor, by its number.
        self._caches: dict[int, L1] = {}
        #: For each warp, when the value of a register arrives that a load has not written yet.
        self._arriving: dict[Warp, dict[str, float]] = {}
        #: For each warp, when the values of its last loads that are parts of wider ones arrive.
        self._shared: dict[Warp, dict[int, float]] = {}
        #: For each warp, when it came to the last rounds of an unrolled loop, by the statement that loads.
        self._rounds: dict[Warp, dict[int, _Rounds]] = {}
        #: For each warp, when the copies of loads arrive that it waits for before others, by the statement.
        self._copies: dict[Warp, dict[int, list[float]]] = {}
        #: For each warp, the registers and the latency of its last loads, by the statement.
        self._taken: dict[Warp, dict[int, tuple[frozenset[str], float]]] = {}
        #: For each warp, when the wavefronts of its last access to shared memory have passed.
        self._returning: dict[Warp, float] = {}
        #: For each warp, the registers that it has loaded from shared memory last.
        self._near: dict[Warp, set[str]] = {}
        self._local = LocalMemory(self._cache)
        #: For each warp, the wait that later loads pass.
        self._passed: dict[Warp, _Passed] = {}

    def note(self, access: Access) -> None:
        """Take an access of the block that runs."""
        if access.threads is not None and access.space in _SPACES:
            self._now.append(access)

    def ready(self, s: Split, block: CodeBlock, time: float, cost: BlockCost) -> float:
        """Return when a warp that comes to a block at ``time`` can begin it, to have what its access needs.

        That are the registers of all its instructions, if none of them accesses memory. It needs each when
        the instruction that reads it is issued. Where ptxas has put later loads in front of an instruction
        that waits, the warp waits behind these loads.
        """
        registers = _registers(block)
        wait = self._passed.get(s.warp)
        if wait is not None and not wait.contains(block):
            time = max(time, wait.time)
            del self._passed[s.warp]
        for name, number in self._awaited(s, registers.first):
            before = max(0.0, cost.cycles - 1.0 - cost.behind.get(number, cost.cycles))
            if number == registers.access and name in self._near.get(s.warp, ()):
                before += self._shared_use
            time = max(time, self._wait(s, block, name, number, time + before, cost.order.passed) - before)
        wait = self._passed.get(s.warp)
        if wait is not None and not registers.loaded:
            # What is no load lies behind the wait.
            wait.time += cost.cycles
        return time

    def through(self, s: Split, block: CodeBlock, time: float, cost: BlockCost) -> tuple[float, int]:
        """Return when a warp is through a block that began at ``time``, and whose access is on its way.

        The instructions behind the access wait for what they read, which the access itself may have loaded.
        The number is that of the first of them that waits, or 0.
        """
        late, place = time, 0
        for name, number in self._awaited(s, _registers(block).then):
            statement = block.ops[number][1].statement
            arrived = self._wait(s, block, name, statement, time, cost.order.passed)
            arrived += 1.0 + cost.behind.get(statement, 0.0)
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

    def charge(
        self, s: Split, block: CodeBlock, units: Units, begun: float, through: float, cost: BlockCost
    ) -> float:
        """Charge the accesses of a block. Return when the last has left the warp.

        Args:
            s: the split of the warp that has run the block.
            block: the block.
            units: those of the multiprocessor.
            begun, through: when the warp has begun to issue it, and was through.
            cost: its cost, with how wide the accesses are, and when they are issued.
        """
        found, self._now = self._now, []
        if not found and s.warp not in self._shared:
            return begun
        registers, order = _registers(block), cost.order
        time = max(begun, through - 1.0 - cost.behind.get(registers.access, math.inf))
        arrives, left = 0.0, time
        wider = order.merged.get(registers.access) if found else None
        if wider is not None:
            if wider.statement == registers.access:
                found = [_widened(access, wider.width) for access in found]
            else:
                found = []
                arrives = self._shared.get(s.warp, {}).get(wider.statement, 0.0)
        if registers.together:
            found = [_in_pieces(access, registers.together) for access in found]
        part, issued = 1.0, time
        early = order.ahead.get(registers.access) if found else None
        if early is not None:
            rounds = self._rounds.setdefault(s.warp, {}).setdefault(registers.access, _Rounds())
            issued = rounds.issued(time, early.rounds)
            if early.part < 1:
                found, part = [_widened(access, early.width) for access in found], early.part
        waits = order.awaited.get(registers.access) if found else None
        if waits is not None:
            issued = max(issued, self._last_awaited(s.warp, registers.access, waits))
        # The units serve loads in PTX's order; what a load waits for before it is issued, others may pass.
        sooner = max(0.0, time - issued)
        for access in found:
            if access.space is StateSpace.SHARED and not s.warp.cta.owns(access.segment.base):
                served = units.access_peer(time, bank_cycles(access))
                done = served - units.figures.peer_word + units.figures.peer_latency
            elif access.space is StateSpace.SHARED:
                done, went_on = self._use_shared(s, access, units, time, issued, part)
                left = max(left, went_on)
            elif access.space is StateSpace.LOCAL:
                if not order.local:
                    continue
                left, done = self._local.use(s.warp, access, units, left)
            elif access.kind is AccessKind.RMW:
                served = self._add(s, access, units, time)
                left = max(left, units.leave(s.warp.index, served))
                done = served + units.figures.atomic_latency
            elif access.kind is AccessKind.READ:
                done, left = self._load(s, access, units, time, left, issued)
            else:
                touched, whole = _touched(access, SECTOR).tolist(), _filled(access)
                served = units.pass_on(time, _parts(access, LINE), whole, len(touched) - whole)
                left = max(left, units.leave(s.warp.index, served))
                units.access_global(served - units.figures.lookup, SECTOR * len(touched), loads=False)
                self._cache(s.warp.cta).ask(touched, access.segment, units)
                # Stores fill sectors part by part, and memory takes them whole.
                self._moved(s.warp.cta.key, _copy_of(access, _bytes(access)), True)
            if access.kind is not AccessKind.WRITE:
                arrives = max(arrives, done)
        arrives -= sooner
        if waits is not None:
            self._copies[s.warp][registers.access].append(arrives)
        if order.sunk and arrives > 0:
            latency = _least_latency(found[-1], arrives - time, units) if found else 0.0
            self._taken.setdefault(s.warp, {})[registers.access] = registers.loaded, latency
        if arrives > 0 and registers.loaded:
            self._arriving.setdefault(s.warp, {}).update(dict.fromkeys(registers.loaded, arrives))
            from_shared = found[-1].space is StateSpace.SHARED if found else wider is not None
            near = self._near.setdefault(s.warp, set())
            (near.update if from_shared else near.difference_update)(registers.loaded)
            if wider is not None:
                self._shared.setdefault(s.warp, {})[wider.statement] = arrives
        return left

    def issued(self, s: Split, block: CodeBlock, through: float, cost: BlockCost) -> None:
        """Note that a warp is through a block. Loads behind parts of it in machine code are issued now."""
        sunk = cost.order.sunk
        if not sunk or s.warp not in self._taken:
            return
        taken, arriving = self._taken[s.warp], self._arriving.setdefault(s.warp, {})
        for number in block.statements:
            for load in sunk.get(number, ()):
                if load in taken:
                    names, latency = taken.pop(load)
                    arrives = through - cost.behind[number] + latency
                    for name in names:
                        if arriving.get(name, arrives) < arrives:
                            arriving[name] = arrives

    def spill(
        self, s: Split, block: CodeBlock, units: Units, begun: float, through: float, cost: BlockCost
    ) -> float:
        """Charge the registers that a block keeps in local memory. Return when its warp is through."""
        return self._local.spill(s.warp, block, cost.order, units, begun, through)

    def _last_awaited(self, warp: Warp, statement: int, waits: Awaited) -> float:
        """Return when all has arrived for which a warp waits before the copy of a load that comes next."""
        copies = self._copies.setdefault(warp, {})
        own = copies.setdefault(statement, [])
        if len(own) == len(waits):
            own.clear()
        found = 0.0
        for other, copy in waits[len(own)]:
            arrived = copies.get(other, ())
            if copy < len(arrived):
                found = max(found, arrived[copy])
        return found

    def _use_shared(
        self, s: Split, access: Access, units: Units, time: float, issued: float, part: float
    ) -> tuple[float, float]:
        """Return when the value of an access to the CTA's shared memory is there, and its warp goes on."""
        stores, cycles = access.kind is AccessKind.WRITE, bank_cycles(access)
        served = max(
            units.access_shared(time, part * cycles),
            units.pass_words(s.warp.index, time, _words(access), cycles, part, stores=stores),
        )
        passed = max(time, self._returning.get(s.warp, 0.0)) + WAY * part * cycles
        self._returning[s.warp] = passed
        # The latency is that of an access without conflicts, and contains its way to the banks.
        done = max(served, passed, issued + WAY) - WAY + units.figures.shared_latency + self._shared_use
        return done, units.queue(s.warp.index, served, _STORES if stores else _LOADS)

    def _add(self, s: Split, access: Access, units: Units, time: float) -> float:
        """Return when L2 has taken an atomic."""
        sectors = _parts(access, SECTOR)
        looked_up = units.look_up(s.warp.index, time, _parts(access, LINE))
        word = access.segment.base + int(access.footprint.starts[0])
        _, lanes = np.unique(access.footprint.starts, return_counts=True)
        self._moved(s.warp.cta.key, _copy_of(access, SECTOR * sectors), True)
        return units.add(looked_up, sectors, word, int(lanes.max(initial=1)))

    def prepare(self, cta: CTA) -> None:
        """Let L1 of the multiprocessor of a CTA whose threads issue copies be there when they read."""
        self._cache(cta)

    def copied(
        self, operation: AsyncOperation, copy: ThreadCopy, place: Multiprocessor, units: Units, time: float
    ) -> None:
        """Take the accesses of a ``cp.async`` when a step of it happens. No warp waits for them."""
        found, self._now = self._now, []
        for access in found:
            if access.space is StateSpace.SHARED:
                units.access_shared(time, bank_cycles(access), copied=True)
                continue
            sectors = _touched(access, SECTOR).tolist()
            lines = len({each // LINE_SECTORS for each in sectors})
            served = units.look_up(operation.issuer.warp, time, lines, more=_COPIED)
            arrives = self._read(
                operation.cta_key,
                access,
                sectors,
                self._caches[place.number],
                units,
                served,
                keeps=copy.keeps,
            )
            least = served + units.figures.load_l1_latency + _WRITTEN
            self._arrivals[operation] = max(self._arrivals.get(operation, 0.0), arrives, least)

    def arrived(self, operation: AsyncOperation, time: float) -> float:
        """Return when all that a ``cp.async`` has read by ``time`` is there."""
        return max(time, self._arrivals.pop(operation, 0.0))

    def _load(
        self, s: Split, access: Access, units: Units, time: float, left: float, issued: float
    ) -> tuple[float, float]:
        """Return when a load from global memory is in registers, and when it has left the warp.

        L1 looks it up from ``time`` on, as if it were issued then.
        """
        sectors = _touched(access, SECTOR).tolist()
        served = units.look_up(s.warp.index, time, len({each // LINE_SECTORS for each in sectors}))
        left = max(left, units.leave(s.warp.index, served))
        said = () if s.op is None else s.op.chosen.values()
        arrives = self._read(
            s.warp.cta.key,
            access,
            sectors,
            self._cache(s.warp.cta),
            units,
            served,
            issued - time,
            keeps=_PAST_L1.isdisjoint(said) and access.semantics is MemoryOrder.WEAK,
            passing=not _PASSING.isdisjoint(said),
        )
        return arrives, left

    def _read(
        self,
        cta: tuple[int, int],
        access: Access,
        sectors: list[int],
        cache: L1,
        units: Units,
        served: float,
        later: float = 0.0,
        *,
        keeps: bool,
        passing: bool = False,
    ) -> float:
        """Return when sectors of global memory arrive, from L1 or L2, which L1 has looked up by ``served``.

        Args:
            cta: the CTA that reads them.
            access: the access.
            sectors: their numbers.
            cache: L1.
            units: those of the multiprocessor.
            served: when L1 has looked them up.
            later: by how much the access is issued later than that says, or, below 0, sooner. In the latter
                case what is returned is that much too late.
            keeps: whether L1 has a part in it.
            passing: whether L1 shall lose them first.
        """
        figures = units.figures
        # The latencies are those of one line, whose time in L1 they contain.
        looked_up, sooner = served - figures.lookup, max(0.0, -later)
        missed, arrives = sectors, 0.0
        if keeps:
            missed, arrives = cache.read(sectors)
            arrives += sooner
        since = looked_up + max(0.0, later)
        if len(missed) < len(sectors):
            arrives = max(arrives, since + figures.load_l1_latency)
        if missed:
            nbytes, fresh = SECTOR * len(missed), cache.ask(missed, access.segment, units)
            start = self._starts[cta]
            done = units.access_global(looked_up, nbytes, loads=True, fresh=fresh, start=start, since=since)
            if keeps:
                cache.fill(missed, done - sooner, passing=passing)
            self._moved(cta, _copy_of(access, nbytes), fresh)
            arrives = max(arrives, done)
        return arrives

    def _cache(self, cta: CTA) -> L1:
        """Return L1 of the multiprocessor of a CTA."""
        where = cta.multiprocessor
        cache = self._caches.get(where.number)
        if cache is None:
            cache = self._caches[where.number] = L1(where.held * cta.grid.demand.shared)
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
        together: for a fragment of ``wmma``, how many bytes of a line a warp accesses together; else 0.
    """

    first: Mapping[str, int]
    then: Mapping[str, int]
    loaded: frozenset[str]
    access: int
    together: int


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
    if not places:
        return _Registers(first, then, frozenset(loaded), -1, 0)
    op = block.ops[last][1]
    together = op.traits.together(op.chosen) if isinstance(op.traits, FragmentOperand) else 0
    return _Registers(first, then, frozenset(loaded), op.statement, together)


def _least_latency(access: Access, took: float, units: Units) -> float:
    """Return what a load that took so long takes where no others are in its way."""
    figures = units.figures
    if access.space is StateSpace.SHARED:
        return figures.shared_latency + figures.shared_use
    from_memory, from_l2 = figures.load_memory_latency, figures.load_l2_latency
    return from_memory if took >= from_memory else from_l2 if took >= from_l2 else figures.load_l1_latency


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


def _in_pieces(access: Access, size: int) -> Access:
    """Return an access to lines of memory as one to pieces of them, in the order in which they pass."""
    footprint = access.footprint
    if access.space is not StateSpace.SHARED or footprint.size <= size:
        return access
    columns = np.arange(0, footprint.size, size)
    starts = (columns[:, None] + footprint.starts).ravel()
    return replace(access, footprint=replace(footprint, starts=starts, size=size), threads=None)


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
    footprint = access.footprint
    if access.threads is None:
        return max(1, footprint.size * len(footprint.starts) // (BANKS * WORD))
    return max(1, footprint.size // WORD)
