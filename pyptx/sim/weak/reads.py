"""Lets strong accesses of a run choose among the writes that PTX's memory model allows.

The memory of the machine holds, for each word, the last write in coherence order. This module keeps the
writes before it (:mod:`.history`); the sanitizer's clocks say which of them an access may not choose. A
strong read of another write gets its value through :attr:`Memory.older`, and a strong write that comes
earlier in coherence order is taken out of memory as soon as its instruction is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.records import dataclass
from ..engine.stream import Life, LifeKind, Observer
from ..memory.access import Access, AccessKind, MemoryOrder, Proxy, StateSpace
from ..memory.address_space import Memory
from ..sanitizer.access_records import element_size
from ..sanitizer.flags import places_of
from ..sanitizer.sanitizer import Sanitizer
from ..threads.choices import ScheduleChoices
from .history import Accessing, Choices, History, Write
from .words import Words

__all__ = ["Choose", "WeakReads", "chooser"]

#: Chooses a position for each word that one access reads or writes.
Choose = Callable[[Sequence[Choices]], Sequence[int]]

#: Only these spaces have words that several threads access.
_SHARED = (StateSpace.GLOBAL, StateSpace.SHARED)
#: In a long run, words whose writes are kept, and writes of each.
_WORDS, _WRITES = 1 << 14, 32


@dataclass(frozen=True, slots=True)
class _Pending:
    """A write that is about to happen: by lanes of ``actor``, to a position in the word's history."""

    word: History
    by: Accessing
    actor: Any
    position: int
    update: bool
    origin: object


class WeakReads(Observer):
    """The strong accesses of one run. It must get each event before the sanitizer, whose clocks it reads.

    ``choose`` decides. ``origin`` returns what stands for the current transition in :attr:`Write.origin`.
    ``limited`` bounds the number of words and of their writes.
    """

    def __init__(
        self,
        memory: Memory,
        sanitizer: Sanitizer,
        choose: Choose,
        origin: Callable[[], object] = lambda: None,
        *,
        limited: bool = False,
    ) -> None:
        self._memory, self._sanitizer = memory, sanitizer
        self._choose, self._origin = choose, origin
        self._words_left = _WORDS if limited else math.inf
        self._kept = _WRITES if limited else 0
        #: The words with strong writes, by the segment's identity.
        self._words: dict[int, Words] = {}
        #: Writes of the last access.
        self._pending: list[_Pending] = []
        sanitizer.synchronization.follow_fences()

    # --- events ---------------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        self._settle()
        self._memory.older.clear()
        if access.space not in _SHARED:
            return
        words = self._words.get(id(access.segment))
        if not _is_strong(access):
            if words is not None and access.kind.writes:
                words.forget(access.footprint)
            return
        if words is None:
            if access.kind is AccessKind.READ:
                return
            words = self._begin_segment(access)
        found = self._accessed(access, words)
        if access.kind is AccessKind.READ:
            self._read(access, found)
        elif access.kind is AccessKind.WRITE:
            self._write(access, found)
        else:
            self._update(access, found)

    def end(self, life: Life) -> None:
        self._settle()
        for number, words in list(self._words.items()):
            shared = life.kind is LifeKind.CTA and words.owner == life.key
            base = words.segment.base if words.owner is None else None
            if shared or (life.kind is LifeKind.SEGMENT and base == life.key):
                del self._words[number]

    # --- words ----------------------------------------------------------------------------------

    def _begin_segment(self, access: Access) -> Words:
        owner = self._sanitizer.world.owner_of(access.segment, access.actor.cta_key)
        found = self._words[id(access.segment)] = Words(access.segment, owner)
        return found

    def _accessed(self, access: Access, words: Words) -> list[tuple[History, Accessing]]:
        """Return the words that an access reads or writes, with its lanes. A write begins their histories."""
        actor: Any = access.actor
        assert access.threads is not None
        warp = self._sanitizer.world.ctas[actor.cta_key].warps[int(access.threads[0]) >> 5]
        size, footprint, writes = element_size(access), access.footprint, access.kind.writes
        if writes:
            words.forget(footprint, unless=size)
        found = []
        for place, mask in places_of(access.threads & 31, footprint.starts, footprint.size, size):
            word = words.at(place, size)
            if word is None and writes and self._words_left:
                word = self._begin(access, place, size)
                words.add(word)
            if word is not None:
                found.append((word, Accessing(warp, mask, access.scope, size)))
        return found

    def _begin(self, access: Access, place: int, size: int) -> History:
        self._words_left -= 1
        segment = access.segment
        last = self._sanitizer.accesses.last_write(segment, access.actor, place)
        word = History(segment, place, size, [])
        if last.value or segment.written is None:
            record, lanes = self._sanitizer.accesses.record_of(last)
            word.writes.append(Write(_bytes_of(word), last, record, lanes))
        return word

    # --- accesses -------------------------------------------------------------------------------

    def _read(self, access: Access, found: list[tuple[History, Accessing]]) -> None:
        ctas = self._sanitizer.world.ctas
        chosen = self._choose([word.readable(by, ctas) for word, by in found])
        sources = {}
        for (word, by), position in zip(found, chosen, strict=True):
            write = word.writes[position]
            sources[word.place] = write.last
            word.see(by, write)
            if position < len(word.writes) - 1:
                self._memory.older[word.place] = write.data
        self._sanitizer.accesses.read_from(access.segment, access.actor, sources)

    def _write(self, access: Access, found: list[tuple[History, Accessing]]) -> None:
        ctas = self._sanitizer.world.ctas
        chosen = self._choose([word.insertable(by, ctas) for word, by in found])
        for (word, by), position in zip(found, chosen, strict=True):
            self._pending.append(_Pending(word, by, access.actor, position, False, self._origin()))

    def _update(self, access: Access, found: list[tuple[History, Accessing]]) -> None:
        """Let an atomic operation read the write before the position that it gets."""
        ctas = self._sanitizer.world.ctas
        chosen = self._choose([word.insertable(by, ctas) for word, by in found])
        sources = {}
        for (word, by), position in zip(found, chosen, strict=True):
            if position:
                sources[word.place] = word.writes[position - 1].last
                _hold(word, position - 1)
            self._pending.append(_Pending(word, by, access.actor, position, True, self._origin()))
        self._sanitizer.accesses.read_from(access.segment, access.actor, sources)

    def _settle(self) -> None:
        """Complete the writes of the last access: by now it has changed the memory."""
        for each in self._pending:
            word, writes = each.word, each.word.writes
            last = self._sanitizer.accesses.last_write(word.segment, each.actor, word.place)
            record, lanes = self._sanitizer.accesses.record_of(last)
            word.reordered |= each.position < len(writes)
            if word.reordered:
                before = writes[each.position - 1].last if each.position else None
                last = self._sanitizer.accesses.follows(last, before)
            write = Write(_bytes_of(word), last, record, lanes, each.update, each.origin)
            writes.insert(each.position, write)
            word.see(each.by, write)
            if write is not writes[-1]:
                _hold(word, -1)
            if self._kept:
                del writes[: -self._kept]
        self._pending.clear()


def chooser(memory: Memory, policy: ScheduleChoices) -> Choose:
    """Return the function by which a schedule chooses."""

    def choose(words: Sequence[Choices]) -> list[int]:
        found = [policy.position(word.positions) for word in words]
        if any(word.positions[0] != position for word, position in zip(words, found, strict=True)):
            # A loop that polls may see another value without a write in between.
            memory.version += 1
        return found

    return choose


def _is_strong(access: Access) -> bool:
    """True for a strong access by threads."""
    if access.threads is None or access.proxy is not Proxy.GENERIC:
        return False
    if access.kind is AccessKind.RMW:
        return True
    plain = access.kind in (AccessKind.READ, AccessKind.WRITE)
    return plain and access.semantics is not MemoryOrder.WEAK


def _hold(word: History, position: int) -> None:
    """Put the bytes of a write into memory."""
    here = slice(word.place, word.place + word.size)
    word.segment.data[here] = np.frombuffer(word.writes[position].data, np.uint8)


def _bytes_of(word: History) -> bytes:
    data: bytes = word.segment.data[word.place : word.place + word.size].tobytes()
    return data
