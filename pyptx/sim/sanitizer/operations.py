"""Asynchronous operations as agents: their tokens, and the chains whose times stand for them.

A token is one part of an operation that is observed as a whole: a copy's read and write in one CTA, an MMA.
Each token has a key and a time. Tokens of one chain have ascending times, and knowing one means knowing all
earlier ones. Operations for which a thread waits in order of issue (bulk groups, wgmma, tcgen05 loads and
stores, the operations of a commit) form one chain for each issuer. A copy that signals an mbarrier takes
over a chain whose last token its issuer knows.
"""

from __future__ import annotations

from dataclasses import field

from ...core.records import dataclass
from ...core.source import SourceLocation
from .agents import CtaAgent
from .clocks import KEYS, NO_CLOCK, ORDERS, READ_KEY, Clock, Level, Levels, extended
from .issue import Issue
from .records import Record

__all__ = ["Chain", "Chains", "Stream", "Token"]


@dataclass(eq=False, slots=True)
class Chain:
    """A key, and the time of its last token."""

    key: int
    time: int = 0


@dataclass(eq=False, slots=True)
class Stream:
    """The operations of one kind that one issuer waits for in order: their chain, and their groups.

    Attributes:
        groups: for each committed group, the time of its last operation.
        recent: tokens whose order among themselves comes from the edges of their steps.
    """

    chain: Chain
    groups: list[int] = field(default_factory=list)
    recent: list[Token] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Token:
    """One part of an operation: its key and time, and what is ordered before it.

    Attributes:
        reads: True for a read that is observed apart from the write of the operation.
        levels: what the issuer knew at the issue, and the earlier steps.
        stream: for the operations of a commit: their stream, whose tokens are ordered by ``after`` alone.
        serials: serial numbers of the steps.
        issuer: key of the warp that issued the operation.
        thread: number of the thread that issued the operation, in its CTA; -1 if several threads did.
        used: for a load of tensor memory: True if an instruction has used its registers.
        after: times of tokens of the stream that the ISA orders before, if they were in flight at the issue.
        assumed: the same, with the orders that only this machine adds.
        records: records of the accesses, by kind, segment and size.
        ordered: numbers of records that were found to be ordered before.
        issue: the operation, for messages.
    """

    key: int
    time: int
    reads: bool
    levels: Levels
    cta: CtaAgent
    name: str
    location: SourceLocation | None
    stream: Stream | None = None
    serials: tuple[int, ...] = ()
    issuer: int = -1
    thread: int = -1
    used: bool = False
    after: frozenset[int] = frozenset()
    assumed: frozenset[int] = frozenset()
    records: dict[tuple[object, ...], Record] = field(default_factory=dict)
    ordered: set[int] = field(default_factory=set)
    issue: Issue | None = None

    def own(self) -> Clock:
        """Return the key and time by which others know the token."""
        return {self.key + READ_KEY if self.reads else self.key: self.time}

    def knowledge(self) -> Levels:
        """Return what an agent knows that is ordered after the token."""
        return with_operations(self.levels, self.own(), sent=self.stream is not None)

    def follows(self, time: int, *, assumed: bool) -> bool:
        """True if edges order the token after the one of its stream with this time."""
        return time in self.after or (assumed and time in self.assumed)


def with_operations(levels: Levels, own: Clock, *, sent: bool) -> Levels:
    """Return ``levels`` with operations that are complete: their keys and times are ``own``.

    ``sent`` is True for operations of tcgen05 whose completion a commit signals.
    """
    made = dict(levels)
    done: dict[int, Clock] = {}
    for level in (*ORDERS, Level.SENT) if sent else ORDERS:
        clock = levels.get(level, NO_CLOCK)
        if id(clock) not in done:
            done[id(clock)] = extended(clock, own)
        made[level] = done[id(clock)]
    return made


class Chains:
    """Makes keys, and finds chains for copies that signal mbarriers."""

    def __init__(self) -> None:
        self._next = KEYS
        self._of_issuer: dict[object, list[Chain]] = {}

    def new_key(self) -> int:
        """Return the first key of a new warp or chain."""
        key = self._next
        self._next += KEYS
        return key

    def chain(self) -> Chain:
        """Return a new chain. Its key is negative: keys of chains and of threads can be told apart."""
        return Chain(-self.new_key())

    def free(self, issuer: object, levels: Levels) -> Chain:
        """Return a chain of the issuer whose last token it knows: a new one if there is none."""
        chains = self._of_issuer.setdefault(issuer, [])
        known = levels.get(Level.SYNC, {})
        for chain in chains:
            if known.get(chain.key, 0) >= chain.time:
                return chain
        chains.append(self.chain())
        return chains[-1]
