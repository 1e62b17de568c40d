"""The units of one multiprocessor, and how long they take for what instructions ask of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Literal

from ...core.records import dataclass
from ..engine.work import LINE, Copy
from .beside import Multiplying, Warpgroup
from .figures import Figures
from .icache import InstructionCache
from .scheduler import ISSUE, Request, Scheduler
from .servers import Duty, GappedServer, Server, Share
from .starts import Start

__all__ = ["SECTOR", "WAY", "Contention", "L2State", "Units"]

#: Cycles of a scheduler's part of the multiprocessor for a load of shared memory, for a store, and more for
#: each word of a lane that it stores. Measured on an H200, 2026-11-29: four warps of one scheduler load 4, 8,
#: 16 bytes a lane in 8, 8, 19 cycles and store them in 16, 23, 39; 16 warps of all take 16, 33, 64.
WAY, _STORE, _STORE_WORD = 2.0, 2.0, 2.0
#: Accesses to shared memory whose end is known, for a queue.
_QUEUED = 32
#: Loads from global memory of a scheduler's warps that wait for L1 before the next one holds up its warp.
#: Measured on an H200, 2026-11-30: copies of which each lane reads a line of its own.
_WAITING = 8

#: Bytes of a sector of a line.
SECTOR = 32
#: How far back accesses of threads to shared memory and work of memory count, in cycles: about a round of
#: products of all warpgroups, and of loads of all stages.
_ACCESSES, _LOADS = 1000.0, 4000.0
#: Rounds in which the time of a block beside products settles.
_ROUNDS = 3
#: From which share of the loads on, that other multiprocessors of a GPC do, too, all ask L2 at the same time.
_SHARED = 0.3
#: Most of the cycles of shared memory that operands can take from accesses of threads. Measured on an H200,
#: 2026-11-29: beside products of N = 64, 128, 256, two warpgroups that only load get 37, 40, 39% of them.
_MOST = 0.62

#: What L2 holds before a launch: what the last one has stored, which makes room as fast as this one stores;
#: what the same launch on the same arrays has left of them; what a flush by writes has left, which must go to
#: memory; or nothing that must.
L2State = Literal["rotating", "warm", "flushed", "cold"]


@dataclass(frozen=True, slots=True)
class Contention:
    """What the multiprocessors of a chip leave to each of them.

    Attributes:
        sharers: multiprocessors that are busy, which share what the chip has.
        missing: share of the loaded bytes that L2 must fetch from memory.
        later: the same of those that threads load whose CTA has started in the place of another one.
        merged: share of the loaded bytes that a TPC does not ask for, since its other multiprocessor does.
        coalesced: share of them that another multiprocessor of the GPC asks for, too.
        met: share of those for which a GPC asks L2 only once, since they come at the same time.
        drifts: True if multiprocessors have several CTAs, which do not stay together.
        rested: True if the chip has been idle before the launch.
        l2: what L2 holds before the launch (:data:`L2State`).
        kept: share of its arrays that L2 holds before the launch.
        equal: how many CTAs of a wave ask for the same bytes, on average.
        spanned: bytes of all arrays of the launch.
    """

    sharers: int
    missing: float = 0.0
    later: float = 1.0
    merged: float = 0.0
    coalesced: float = 0.0
    met: float = 1.0
    drifts: bool = False
    rested: bool = True
    l2: L2State = "rotating"
    kept: float = 0.0
    equal: float = 1.0
    spanned: float = 0.0


class Units:
    """The units of one multiprocessor: schedulers and pipes, tensor core, copy engine, its share of memory.

    Args:
        figures: the figures of the GPU.
        contention: what the other multiprocessors leave.
    """

    def __init__(self, figures: Figures, contention: Contention) -> None:
        sharers = contention.sharers
        self.figures, self._missing, self._later = figures, contention.missing, contention.later
        # L2 answers equal requests of a GPC once, and the link of a TPC carries those of its two
        # multiprocessors once. The fabric may carry them twice.
        self._linked = 1 - contention.merged
        self._answered = 1 - contention.coalesced * contention.met
        self._coalesced = contention.coalesced
        #: After how many cycles CTAs that started together no longer ask at the same time.
        self._apart = figures.apart if contention.drifts else math.inf
        self._carried = 1 - contention.merged * figures.merge
        self.schedulers = [Scheduler() for _ in range(figures.schedulers)]
        self.tensor, self._operands, self.multiplying = Server(), 0.0, Multiplying()
        #: What threads take of the cycles of shared memory, and for which share of the time products run.
        self._taken, self._multiplies = Duty(_ACCESSES), Duty(_ACCESSES)
        self._ramp_end = figures.start + figures.ramp if contention.rested else 0.0
        limit = figures.ramp_limit(sharers)
        self._ramp = Share(limit, figures.credit, figures.start)
        self.shared_port = [GappedServer() for _ in range(figures.schedulers)]
        #: When the last accesses of each scheduler's warps to shared memory are served.
        self._queues = [deque[float](maxlen=_QUEUED) for _ in range(figures.schedulers)]
        #: Likewise of accesses to global memory that L1 looks up, and its port for each scheduler.
        self._loads = [deque[float](maxlen=_QUEUED) for _ in range(figures.schedulers)]
        self.lookup_port = [GappedServer() for _ in range(figures.schedulers)]
        self.tensor_port = [Server() for _ in range(figures.schedulers)]
        self.copies, self.shared, self.link, self.lookups = Server(), GappedServer(), Server(), GappedServer()
        #: What a load takes longer since some miss the TLBs.
        self._translation = figures.translation(contention.spanned)
        #: When each tensor map that was needed is here, by its address.
        self._maps: dict[int, float] = {}
        #: When the last load was served, without its latency, and by which unit at last.
        self.served = 0.0, ""
        # Those of a GPC that load the same get it at the same time and go on in step: all ask together again.
        in_step = contention.coalesced >= _SHARED and not contention.drifts
        self.l2 = Share(figures.l2 / sharers, 0.0 if in_step else figures.credit, figures.start)
        # All others ask at the same time, more or less.
        self._at_once, self._burst = Server(), figures.l2 / sharers * figures.l2_burst
        self.fabric = Share(figures.fabric / sharers, figures.credit, figures.start)
        self.memory = Share(figures.memory / sharers, figures.credit, figures.start)
        self._reading = Duty(_LOADS)
        #: For each part of memory that was loaded, how many bytes had come into L2 then.
        self._loaded: dict[Hashable, float] = {}
        # What L2 writes into itself: bytes that memory fills in, and stored ones. All multiprocessors store
        # at about the same time: copy engines get no more than their share, unless CTAs drift apart, and
        # threads `l2_burst` of it.
        self.entry = Share(figures.l2_write / sharers, figures.credit, figures.start)
        self._accepted = figures.l2_write / sharers
        self._accepted_copies = self._accepted * (figures.l2_burst if contention.drifts else 1.0)
        # A stored byte takes the place that it has in L2, if it has one, and goes to memory later, or never.
        self._replaces = 1 - contention.kept
        self._bytes_read = self._bytes_written = 0.0
        self._atomics, self._words, self._peers = Server(), set[int](), Server()
        #: What one multiprocessor sends there.
        self._added = Server()
        # What memory must take for each byte that comes into L2, and how many have come.
        self._dirty = figures.dirty * figures.write_cost if contention.l2 == "flushed" else 0.0
        self.sharers, self.brought = sharers, 0.0
        #: How many more bytes come into L2 until it has lost what was asked for.
        self.kept = figures.l2_bytes / 2
        #: When all of L2 has been replaced, and memory takes what is stored; infinite before.
        self.filled = math.inf if contention.l2 in ("cold", "flushed") else 0.0
        #: The code that has been fetched; None if the last launch has left all of it.
        self.code: InstructionCache | None = None
        if contention.l2 == "cold":
            self.code = InstructionCache(*figures.code(sharers))

    def busy(self) -> dict[str, float]:
        """Return for how many cycles each unit has worked; of equal units, the busiest one."""
        found = {
            ISSUE: 0.0,
            "tensor": self.tensor.busy,
            # How long the products of the time after idle time take at the limited rate.
            "ramp": self._ramp.busy,
            "tensor memory": max(each.busy for each in self.tensor_port),
            "copy engine": self.copies.busy,
            "shared memory": self.shared.busy,
            "L1": self.lookups.busy,
            "link": self.link.busy,
            "L2": max(self.l2.busy, self.entry.busy),
            "fabric": self.fabric.busy,
            "HBM": self.memory.busy,
        }
        for scheduler in self.schedulers:
            for name, cycles in scheduler.busy.items():
                found[name] = max(found.get(name, 0.0), cycles)
        return found

    def issue(
        self,
        warp: object,
        warpgroup: Warpgroup,
        partition: int,
        now: float,
        time: float,
        cycles: float,
        issues: float,
        pipes: Mapping[str, float],
        dense: Mapping[str, float],
        runs: float,
    ) -> float:
        """Return when a ``warp`` of a ``warpgroup`` that comes ``now`` is through a block of code.

        It can issue at ``time``. ``runs`` is the sum over its issue slots of how many of them it keeps in a
        row before another warp that is ready goes on.
        """
        beside, disturbed = self.figures.beside, 0.0
        if beside is not None:
            alone, needed, took = cycles, pipes, max(cycles, issues, *pipes.values())
            # The longer the block takes, the more of it comes behind the products that are known.
            for _ in range(_ROUNDS):
                duty = self.multiplying.expected(warpgroup, time, took)
                cycles, pipes, disturbed = beside.stretched(duty, alone, issues, needed, dense)
                before, took = took, max(cycles, issues, *pipes.values())
                if took == before:
                    break
        request = Request(cycles, issues, pipes, runs / max(1.0, issues), disturbed)
        return self.schedulers[partition].take(warp, now, time, request)

    def multiply_from(self, time: float, duration: float) -> float:
        """Return from when on the tensor core, free at ``time``, may work for ``duration``."""
        if time >= self._ramp_end:
            return time
        return max(time, self._ramp.serve(time, duration) - duration)

    # --- copies -----------------------------------------------------------------------------------

    def _rows(self, copy: Copy) -> float:
        """Return how long the copy engine takes for a copy."""
        figures = self.figures
        rows = max(copy.rows, copy.nbytes / figures.row_bytes)
        split = max(0.0, copy.lines - rows)
        return max(figures.copy_issue, (rows + split * (figures.split_row - 1)) * figures.copy_row)

    def fetch_map(self, time: float, address: int) -> float:
        """Return when a tensor map is here that is needed at ``time``, perhaps not for the first time."""
        return self._maps.setdefault(address, time + self.figures.map_fetch)

    def _late_map(self, time: float, copy: Copy) -> float:
        """Return how long a copy waits for its tensor map, beyond the wait for those before it.

        The copy engine serves others meanwhile.
        """
        if copy.tensor_map is None:
            return 0.0
        return max(0.0, self.fetch_map(time, copy.tensor_map) - max(time, self.copies.free))

    def load(self, time: float, copy: Copy, asked: float | None = None) -> float:
        """Return when the bytes of a load are in the multiprocessor that issued it.

        Memory has been asked for them since ``asked``, perhaps by another CTA, or is asked now.
        """
        figures = self.figures
        late = self._late_map(time, copy)
        linked, answered = copy.nbytes * self._linked, copy.nbytes * self._answered
        carried = copy.nbytes * self._carried
        passed = [
            (self.copies.serve(time, self._rows(copy)), "copy engine"),
            (self.link.serve(time, linked / figures.link), "link"),
            (self._read_l2(time, answered), "L2"),
            (self.fabric.serve(time, carried + self._filled(copy.nbytes)), "fabric"),
        ]
        latency = figures.l2_latency
        if self._missing:
            passed.append((self._fetch(time, copy.nbytes * self._missing), "HBM"))
            known = 0.0 if asked is None else time - asked
            if self._is_new(copy):
                spread = figures.memory_spread * math.log2(max(1.0, copy.lines, copy.nbytes / LINE))
                latency = max(latency, figures.memory_latency + spread - known)
        self.served = max(passed)
        return self.served[0] + late + self._translation + latency - figures.wake

    def _read_l2(self, time: float, nbytes: float) -> float:
        """Return when L2 has read bytes, where all other multiprocessors ask for some at the same time."""
        return max(self.l2.serve(time, nbytes), self._at_once.serve(time, nbytes / self._burst))

    def _is_new(self, copy: Copy) -> bool:
        """True if memory must be asked for what is loaded, since L2 has not got it by an earlier load."""
        before = self._loaded.get(copy.source, -math.inf)
        self._loaded[copy.source] = self.brought
        return self.brought - before > self.kept

    def receive(self, time: float, copy: Copy) -> float:
        """Return when the bytes that another multiprocessor loaded for this one are here."""
        linked = self.link.serve(time, copy.nbytes / self.figures.link_received)
        return max(time, linked, self.fabric.serve(time, copy.nbytes))

    def read_source(self, time: float, copy: Copy, *, adds: bool = False) -> float:
        """Return when a store, or a reduction that ``adds``, has read its bytes from shared memory."""
        figures = self.figures
        late = self._late_map(time, copy)
        entered = copy.nbytes * (figures.add_cost if adds else 1.0)
        passed = copy.nbytes / (figures.reduce if adds else figures.store)
        taken = max(self._rows(copy), passed, entered / self._accepted_copies) + figures.store_issue
        read = max(self.copies.serve(time, taken), self.entry.serve(time, entered))
        self.copies.free = read
        return read + late + figures.store_read

    def store(self, time: float, copy: Copy) -> float:
        """Return when the wait for a store ends whose bytes have been read. Memory takes them later."""
        self.write(time, copy.nbytes)
        return time + self.figures.store_latency

    def write(self, time: float, nbytes: float) -> float:
        """Return when memory has taken bytes, or L2 while it has room for them."""
        filled = nbytes * self.figures.store_fill
        passed = self.fabric.serve(time, filled) if filled else time
        room = self.filled > time
        replaced = nbytes * self._replaced() if room else 0.0
        self._bring(time, nbytes)
        if room:
            return max(passed, self._use_memory(time, replaced)) if replaced else passed
        written = nbytes * self._replaces
        if not written:
            return passed
        self._bytes_written += written
        # Memory loses time where it reads and writes in turn.
        mixed = min(1.0, self._bytes_read / self._bytes_written)
        cost = self.figures.write_alone + mixed * (self.figures.write_cost - self.figures.write_alone)
        return max(passed, self._use_memory(time, written * cost))

    # --- accesses of threads ----------------------------------------------------------------------

    def access_shared(self, time: float, cycles: float, *, copied: bool = False) -> float:
        """Return when shared memory has served an access that takes so many cycles.

        Operands of a ``wgmma`` that runs have their share of the cycles. Bytes that a ``cp.async`` has
        ``copied`` come like those of the copy engine: they hold up no products, and what those of the last
        rounds have taken is not theirs.
        """
        cycles *= self.figures.bank
        if copied:
            left = 1 - self._operands * self._multiplies.at(time)
        else:
            left = 1 - self._operands if self.tensor.free > time else 1.0
            self._taken.work(time, cycles)
        return self.shared.serve(time, cycles / left)

    def beside_accesses(self, time: float, interval: float, nbytes: float) -> float:
        """Return the interval of a product that reads ``nbytes`` of shared memory beside accesses of threads.

        Accesses hold up its reads as often as both want the same cycle: by the square of their share, and
        by all of it where operands need all cycles. Measured on an H200, 2026-11-29: beside loads that take
        20 to 40% of the cycles, products of N = 128 and 256 take 3 to 17% longer, with A in registers, too.
        """
        share = min(self._taken.at(time), _MOST)
        return max(interval / (1 - share * share), nbytes / self.figures.port / (1 - share))

    def pass_words(
        self, warp: int, time: float, words: int, cycles: float, part: float, *, stores: bool
    ) -> float:
        """Return when a scheduler's part has passed an access to shared memory of ``words`` of each lane.

        Conflicts make it longer than its words: ``cycles`` are those of the banks. ``part`` is that of the
        access which belongs to one round of a loop.
        """
        taken = _STORE + _STORE_WORD * words if stores else max(WAY, words)
        taken += WAY * max(0.0, cycles - words)
        return self.shared_port[warp % self.figures.schedulers].serve(time, part * taken * self.figures.bank)

    def queue(self, warp: int, served: float, depth: int) -> float:
        """Return when a warp goes on behind an access that the banks of shared memory have ``served`` then.

        The queue of its scheduler holds ``depth`` accesses.
        """
        return _behind(self._queues[warp % self.figures.schedulers], served, depth)

    def access_peer(self, time: float, cycles: float) -> float:
        """Return when the shared memory of another CTA has served an access of so many cycles."""
        return self._peers.serve(time, cycles * self.figures.peer_word)

    def read_operands(self, time: float, nbytes: float, interval: float) -> None:
        """Note what share of shared memory's cycles the operands of a product that runs from now on take."""
        self._multiplies.work(time, interval)
        self._operands = min(nbytes / self.figures.port / interval, _MOST) if interval else 0.0

    def look_up(self, warp: int, time: float, lines: int, *, more: float = 0.0) -> float:
        """Return when L1 has looked up the lines of a warp's access to global memory, which takes ``more``.

        Of one scheduler's warps it takes a line in two cycles.
        """
        passed = self.lookup_port[warp % self.figures.schedulers].serve(
            time, WAY * lines * self.figures.lookup
        )
        looked_up = self.lookups.serve(time, lines * self.figures.lookup + more)
        return max(looked_up, passed - (WAY - 1) * self.figures.lookup)

    def leave(self, warp: int, served: float) -> float:
        """Return when a warp goes on behind a load from global memory that L1 has looked up by ``served``."""
        return _behind(self._loads[warp % self.figures.schedulers], served, _WAITING)

    def pass_on(self, time: float, lines: int, whole: int, partial: int) -> float:
        """Return when L1 has passed on a warp's store: lines, and sectors that it fills or writes in part."""
        figures = self.figures
        sectors = whole * figures.whole_sector + partial * figures.part_sector
        nbytes = (whole + partial * figures.l2_partial) * SECTOR
        taken = max(lines * figures.lookup, sectors, nbytes / self._accepted / figures.l2_burst)
        self.lookups.free = max(self.lookups.serve(time, taken), self.entry.serve(time, nbytes))
        return self.lookups.free

    def access_global(
        self,
        time: float,
        nbytes: float,
        *,
        loads: bool,
        fresh: bool = True,
        start: Start | None = None,
        since: float = 0.0,
    ) -> float:
        """Return when the bytes of an access are in registers, or in L2.

        Those that are not ``fresh`` have been read before, and L2 has them. ``start`` is that of the CTA; for
        bytes of a warp's own, which no other one asks for, it is None. None is on its way before ``since``.
        """
        figures = self.figures
        if not loads:
            return self.write(time, nbytes)
        linked = self.link.serve(time, nbytes / figures.load_link)
        answered = 1.0 if start is None else self._answered_threads(time - start.time)
        read = self._read_l2(time, nbytes * answered)
        filled = 0.0 if start is None else self._filled(nbytes)
        arrived = max(linked, read, self.fabric.serve(time, nbytes + filled), since)
        if start is None or not self._missing or not fresh:
            return arrived + self._translation + figures.load_l2_latency
        arrived = max(arrived, self._fetch(time, nbytes * self._missing))
        more = figures.load_memory_latency - figures.load_l2_latency
        latency = figures.load_l2_latency + more * (self._later if start.wave else 1.0)
        return arrived + self._translation + latency

    def _answered_threads(self, age: float) -> float:
        """Return the share of the bytes of threads that a GPC asks L2 for, of CTAs that started so long ago.

        Where an SM has several CTAs, these drift apart.
        """
        return 1 - self._coalesced * math.exp(-max(0.0, age) / self._apart)

    def add(self, time: float, sectors: int, word: int, lanes: int) -> float:
        """Return when L2 has taken a warp's atomic on so many sectors, ``word`` among them.

        At most so many ``lanes`` add to the same word, one after the other. A single word to which this
        multiprocessor has added before counts as one to which all others add.
        """
        figures = self.figures
        taken = max(sectors * self.sharers / figures.atomics, lanes * figures.atomic_word)
        if sectors == 1:
            if word in self._words:
                taken = max(taken, self.sharers * lanes * figures.atomic_word)
            self._words.add(word)
        return max(self._atomics.serve(time, taken), self._added.serve(time, sectors * figures.atomic_sector))

    def _filled(self, nbytes: float) -> float:
        """Return what the bytes of a load that memory fills into L2 take of the fabric."""
        return nbytes * self._missing * self.figures.fill

    def _fetch(self, time: float, nbytes: float) -> float:
        """Return when memory has read bytes, and has written what they replace in L2."""
        self._bytes_read += nbytes
        replaced = self._replaced()
        # Others are served before it, also where there is bandwidth for all.
        queue = self.figures.memory_queue * self._reading.at(time)
        self._bring(time, nbytes)
        return max(self.entry.serve(time, nbytes), self._use_memory(time, nbytes * (1 + replaced))) + queue

    def _replaced(self) -> float:
        """Return what memory must take for each byte that comes into L2 now, of those that a flush left."""
        return self._dirty * math.exp(-self.brought / self.figures.l2_bytes) if self._dirty else 0.0

    def _use_memory(self, time: float, nbytes: float) -> float:
        """Return when memory has read or written bytes."""
        self._reading.work(time, nbytes / self.memory.rate)
        return self.memory.serve(time, nbytes)

    def _bring(self, time: float, nbytes: float) -> None:
        """Note bytes that come into L2, from memory or by stores."""
        self.brought += nbytes * self.sharers
        if self.brought >= self.figures.l2_bytes and self.filled > time:
            self.filled = time

    # --- tensor memory ----------------------------------------------------------------------------

    def load_tensor(self, time: float, partition: int, nbytes: float) -> float:
        """Return when a warp's load of tensor memory has its registers."""
        figures = self.figures
        return self.tensor_port[partition].serve(time, nbytes / figures.tensor_load) + figures.tensor_latency

    def store_tensor(self, time: float, partition: int, nbytes: float) -> float:
        """Return when a warp's store to tensor memory is complete."""
        figures = self.figures
        return self.tensor_port[partition].serve(time, nbytes / figures.tensor_store) + figures.tensor_latency


def _behind(queued: deque[float], served: float, depth: int) -> float:
    """Return when a queue of ``depth`` has room behind a request that is ``served`` then; 0 if it has now."""
    queued.append(served)
    return queued[-1 - depth] if len(queued) > depth else 0.0
