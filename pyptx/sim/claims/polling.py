"""The polling loops of a run, the words that they wait for, and whether every schedule ends them alike."""

from __future__ import annotations

from typing import Any

from ...ir import Instruction
from ..code.function import FunctionCode
from ..code.program import EntryProgram
from ..code.semantic import Op
from ..memory.access import Access, AccessKind
from ..memory.segments import Segment
from ..sanitizer.accesses import Accesses
from ..sanitizer.agents import LaneGroup
from ..sanitizer.flags import LastWrite
from ..sanitizer.release import acquires
from ..sanitizer.world import World
from .competing import Ledger
from .loops import polls_of
from .moments import Moment
from .polls import Poll
from .words import Lane, Word

__all__ = ["Polling"]

_STRONG = frozenset({"acquire", "relaxed", "volatile"})
#: Writes of all words together; beyond, no polling loop keeps the claim.
_MOST = 20_000


class Polling:
    """The words that the polling loops of one run may wait for."""

    def __init__(self, world: World, accesses: Accesses, ledger: Ledger) -> None:
        self._world, self._accesses, self._ledger = world, accesses, ledger
        self._programs: dict[int, tuple[EntryProgram, bool]] = {}
        self._words: dict[tuple[int, int, int], Word] = {}
        self._launch = -1
        self._writes = 0
        #: The bytes that strong operations of engines access, by identity of the segment.
        self._engines: dict[int, set[tuple[int, int]]] = {}
        #: For words whose loops end with the current access: the write that could end them first. Later ones
        #: may not have happened yet under another schedule.
        self._ended: dict[int, LastWrite | None] = {}
        #: True if the sanitizer takes values of the current access from other writes than the last ones.
        self._redirected = False
        #: Words that the current access has touched.
        self._touched: set[tuple[int, int, int]] = set()
        #: For each lane that has learned something by chance: the word, until the lane polls it.
        self._owing: dict[tuple[int, int], Word] = {}
        #: Launches in which CTAs wait for CTAs of other clusters.
        self.across: set[int] = set()

    # --- accesses -------------------------------------------------------------------------------

    def begin(self, access: Access) -> None:
        """Begin a strong access of threads or engines."""
        self._touched.clear()
        self._ended.clear()
        self._accesses.learn_nothing(False)
        if self._redirected:
            self._redirected = False
            self._accesses.read_from(access.segment, access.actor, {})
        launch = access.actor.cta_key[0]
        if launch != self._launch:
            # All accesses of the launches before are ordered before those of this launch.
            self.close()
            self._launch = launch

    def watches(self, code: FunctionCode) -> bool:
        """True if the program has loops that may poll a word with strong loads."""
        program = code.program
        found = self._programs.get(id(program))
        if found is None:
            strong = any(_is_strong_load(each) for each in program.function.instructions())
            found = self._programs[id(program)] = program, strong and bool(polls_of(program.entry).loops)
        return found[1]

    def loop(self, access: Access, op: Op) -> Poll | None:
        """Return the polling loop that an access belongs to, or None if it has no place in the claim."""
        actor: Any = access.actor
        code: FunctionCode = actor.frame.code
        if access.kind is not AccessKind.READ or not self.watches(code) or not code.is_entry:
            return None
        machine = self._world.machine
        if self._writes > _MOST or machine.policy.weak_reads or any(grid.dependent for grid in machine.grids):
            return None
        return polls_of(code).loops.get(op.statement)

    def quiet(self, code: FunctionCode, op: Op) -> bool:
        """True if only the ends of polling loops depend on the old value that an addition returns."""
        return self.watches(code) and code.is_entry and op.statement in polls_of(code).quiet

    def read(self, access: Access, place: int, size: int, lane: Lane, poll: Poll) -> None:
        """Add one pass of a polling loop by one lane."""
        word = self._word(access, place, size)
        owed = self._owing.pop(lane.key, None)
        if owed is not None and owed is not word:
            owed.broken = True
        known = word.read(lane, poll)
        if self._ended.setdefault(place, known) is not known:
            # Lanes that read one word with one instruction learn the same of it.
            word.broken, self._ended[place] = True, None
        sources = {where: write for where, write in self._ended.items() if write is not None}
        if sources or self._redirected:
            self._redirected = True
            self._accesses.read_from(access.segment, access.actor, sources)

    def engine(self, segment: Segment, low: int, high: int) -> None:
        """Add a strong operation of an engine: no loop may poll its bytes."""
        self._engines.setdefault(id(segment), set()).add((low, high))

    def write(
        self, access: Access, place: int, size: int, lane: Lane, operation: tuple[str, str] | None
    ) -> None:
        """Add a write of a word by one lane. ``operation`` is that of a commuting one."""
        self._writes += 1
        if self._writes > _MOST:
            return
        word = self._word(access, place, size)
        learns = operation is not None and self.learns(access, lane.op, place)
        if word.write(lane, operation, learns=learns):
            code = lane.split.frame.code
            if not code.is_entry or lane.op.statement not in polls_of(code).before or lane.key in self._owing:
                word.broken = True
            self._owing[lane.key] = word

    def learns(self, access: Access, op: Op, place: int) -> bool:
        """True if an atomic operation may learn of what others have released into the bytes."""
        if not op.dests:
            return False
        if acquires(access.semantics):
            return True
        if not self._accesses.has_flags(access.segment):
            return False
        return self._accesses.last_write(access.segment, access.actor, place).flag is not None

    def deafen(self) -> None:
        """Let the current access learn nothing of what others have released."""
        self._accesses.learn_nothing(True)

    def lane(self, group: LaneGroup, number: int, split: Any, thread: int, op: Op, now: Moment) -> Lane:
        """Return one lane of an access."""
        mine = Moment(now.key, now.time, 1 << number, now.launch, now.location)
        return Lane(group, number, split, thread - split.frame.span.start, op, mine)

    def _word(self, access: Access, place: int, size: int) -> Word:
        segment = access.segment
        key = (id(segment), place, size)
        found = self._words.get(key)
        if found is None:
            found = self._words[key] = self._new(access, place, size)
            self._touched.add(key)
        elif key not in self._touched:
            self._touched.add(key)
            if not found.settle(self._accesses.last_write(segment, access.actor, place)):
                # An access of another kind, which the sanitizer orders with all others, has changed the word.
                self._judge(found)
                found = self._words[key] = self._new(access, place, size)
        return found

    def _new(self, access: Access, place: int, size: int) -> Word:
        before = self._accesses.last_write(access.segment, access.actor, place)
        word = Word(access.segment, place, size, 0, [before])
        word.base = word.value()
        return word

    # --- the claim ------------------------------------------------------------------------------

    def end_segments(self, segments: set[int]) -> None:
        """Judge the words of segments that end, given by identity."""
        for key in [key for key in self._words if key[0] in segments]:
            self._judge(self._words.pop(key))
        for number in segments:
            self._engines.pop(number, None)

    def close(self) -> None:
        """Judge all words."""
        for word in self._words.values():
            self._judge(word)
        self._words.clear()

    def _judge(self, word: Word) -> None:
        owed = any(each is word for each in self._owing.values())
        engines = self._engines.get(id(word.segment), ())
        beside = any(low < word.place + word.size and word.place < high for low, high in engines)
        word.broken = word.broken or owed or beside or self._writes > _MOST
        for session, failed, across in word.judge():
            if failed is not None:
                self._ledger.competes(
                    f"{session.poll.name}: the order of accesses to the same bytes",
                    failed.location,
                    failed.other,
                )
            if across:
                self.across.add(self._launch)


def _is_strong_load(instruction: Instruction) -> bool:
    return instruction.opcode == "ld" and not _STRONG.isdisjoint(instruction.name.split("."))
