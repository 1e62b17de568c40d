"""What the sanitizer knows about asynchronous operations: their issue, their groups, the waits for them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ..engine.events import AsyncOperation, Step, StepKind
from ..engine.stream import GroupKind, Sync
from .agents import CtaAgent, LaneGroup, WarpAgent, bits_of
from .clocks import LANES_KEY, NOTHING, ORDERS, READ_KEY, Clock, Level, Levels, join, join_levels
from .issue import Issue
from .operations import Stream, Token, with_operations
from .records import Record
from .release import sendable
from .world import World

__all__ = ["CopyPart", "Copies", "Issuing", "SignalToken", "learn_own", "sent"]

#: Steps that are observed apart from the write of their operation, if at all.
_READS = (StepKind.READ, StepKind.READ_SHARED, StepKind.READ_A, StepKind.CANCEL)
#: Groups whose operations one thread issues; the operations of the others belong to a whole warp.
_OF_A_THREAD = (GroupKind.BULK, GroupKind.TCGEN05_COMMIT)
_TENSOR = (GroupKind.TCGEN05_COMMIT, GroupKind.TCGEN05_LD, GroupKind.TCGEN05_ST)
#: Warps of a warpgroup.
_WARPGROUP = 4


@dataclass(eq=False, slots=True)
class SignalToken:
    """A step that only signals: what the agents learn that observe it, and what is ordered before it."""

    levels: Levels
    issued: Levels
    issue: Issue | None = None

    def knowledge(self) -> Levels:
        return self.levels


@dataclass(eq=False, slots=True)
class CopyPart:
    """The copies of the lanes of one warp by one ``cp.async``: each lane's copy is an operation of its own.

    Attributes:
        key: key of the copies in clocks; their time is 1.
        mask: the lanes.
        groups: what the lanes knew at the issue.
        issued: time of the warp at the issue.
        number: for each lane, the number of its group.
        signaled: True if an mbarrier was made to wait for the copies.
    """

    key: int
    warp: WarpAgent
    mask: int
    groups: list[LaneGroup]
    issued: int
    number: NDArray[np.int64]
    signaled: bool = False
    records: dict[tuple[object, ...], Record] = field(default_factory=dict)
    bound: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Copies:
    """All parts of one ``cp.async``, by warp; ``issue`` is the operation, for messages."""

    parts: dict[int, CopyPart]
    issue: Issue | None = None

    def knowledge_of(self, lanes: dict[int, int]) -> Levels:
        """Return what an mbarrier's signal says that stands for the copies of these lanes, by warp."""
        own: Clock = {}
        for number, part in self.parts.items():
            meant = lanes.get(number, 0) & part.mask
            if not meant:
                continue
            part.signaled = True
            if meant == part.mask:
                own[part.key] = 1
            else:
                own.update({part.key + 1 + lane: 1 for lane in bits_of(meant)})
                own[part.key + LANES_KEY] = 1
        return dict.fromkeys(ORDERS, own)


class Issuing:
    """Follows asynchronous operations from their issue to the waits for them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._streams: dict[Hashable, Stream] = {}
        #: For each warp: the parts of its cp.async that no wait has covered, and the groups of its lanes.
        self._copies: dict[tuple[tuple[int, int], int], list[CopyPart]] = {}
        self._committed: dict[tuple[tuple[int, int], int], NDArray[np.int64]] = {}

    # --- issue ----------------------------------------------------------------------------------

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        """Give each step its token, in ``observed``: what is ordered before it, and how others know of it."""
        cta = self._world.ctas[operation.cta_key]
        if operation.group is GroupKind.CP_ASYNC:
            self._issue_copies(operation, steps, cta)
            return
        threads = operation.issuing_threads()
        levels = self._issuers_levels(cta, threads)
        stream = self._stream_of(operation.group, cta, threads)
        acting = [step for step in steps if step.kind is not StepKind.SIGNAL]
        if stream is not None:
            self._ordered_tokens(operation, acting, cta, levels, stream, _alone(threads))
        else:
            self._free_tokens(operation, acting, cta, levels, threads)
        if acting:
            operation.observed = acting[0].observed
        for step in steps:
            if step.kind is StepKind.SIGNAL:
                step.observed = self._signal(operation, step, cta, levels, threads)

    def _issuers_levels(self, cta: CtaAgent, threads: NDArray[np.int64]) -> Levels:
        levels = NOTHING
        for warp, mask in self._world.warps_of(cta, threads):
            for group in warp.groups_of(mask):
                levels = join_levels(levels, group.snapshot(group.mask))
            warp.merge()
        return levels

    def _ordered_tokens(
        self,
        operation: AsyncOperation,
        steps: list[Step],
        cta: CtaAgent,
        levels: Levels,
        stream: Stream,
        thread: int,
    ) -> None:
        """Make tokens for an operation for which its issuer waits in order."""
        if not steps:
            return
        stream.chain.time += 1
        key, time = stream.chain.key, stream.chain.time
        edges = stream if operation.group is GroupKind.TCGEN05_COMMIT else None
        whole = Token(key, time, False, levels, cta, operation.name, operation.location, edges)
        whole.serials = tuple(step.serial for step in steps)
        whole.issuer = cta.warps[operation.issuer.warp].key
        whole.thread = thread
        known = levels.get(Level.SYNC, {}).get(key, 0)
        for step in steps:
            step.observed = whole
            if operation.group is GroupKind.BULK and step.kind in _READS:
                step.observed = Token(key, time, True, levels, cta, operation.name, operation.location)
        _follow(whole, steps, known)
        stream.recent = [token for token in stream.recent if token.time > known]
        stream.recent.append(whole)

    def _free_tokens(
        self,
        operation: AsyncOperation,
        steps: list[Step],
        cta: CtaAgent,
        levels: Levels,
        threads: NDArray[np.int64],
    ) -> None:
        """Make tokens for an operation that mbarriers are signaled for: one for each write."""
        issuer, thread = (operation.cta_key, int(threads[0])), _alone(threads)
        read: Token | None = None
        for step in steps:
            reads = step.kind in _READS
            if read is not None and not reads:
                # The write comes after the read: a thread that knows of the write knows of the read.
                key, time, read = read.key, read.time, None
            else:
                chain = self._world.chains.free(issuer, levels)
                chain.time += 1
                key, time = chain.key, chain.time
            token = Token(key, time, reads, levels, cta, operation.name, operation.location, thread=thread)
            step.observed = token
            if reads:
                read = token

    def _signal(
        self,
        operation: AsyncOperation,
        step: Step,
        cta: CtaAgent,
        levels: Levels,
        threads: NDArray[np.int64],
    ) -> SignalToken:
        """Return what agents learn from a signal: the issuer's knowledge, and all steps that come before."""
        lanes = {warp.index: mask for warp, mask in self._world.warps_of(cta, threads)}
        thread = _alone(threads)
        own: Clock = {}
        counts = False
        for earlier in step.ordered:
            token = earlier.observed
            if isinstance(token, Copies):
                levels = join_levels(levels, token.knowledge_of(lanes))
            elif token is None:
                continue
            elif isinstance(token, Token) and token.cta is cta and token.thread == thread >= 0:
                # The issuer's knowledge has only grown since it issued the earlier operation.
                _add(own, token.own())
                counts = counts or token.stream is not None
            else:
                levels = join_levels(levels, token.knowledge())
        if own:
            levels = with_operations(levels, own, sent=counts)
        if operation.group is GroupKind.TCGEN05_COMMIT:
            levels = sent(levels)
        return SignalToken(_published(sendable(levels)), levels)

    # --- streams and their groups ---------------------------------------------------------------

    def _stream_of(self, kind: GroupKind | None, cta: CtaAgent, threads: NDArray[np.int64]) -> Stream | None:
        if kind is None:
            return None
        return self._stream(kind, cta, int(threads[0]) if kind in _OF_A_THREAD else int(threads[0]) >> 5)

    def _stream(self, kind: GroupKind, cta: CtaAgent, who: int) -> Stream:
        key = (kind, cta.key, who)
        found = self._streams.get(key)
        if found is None:
            found = self._streams[key] = Stream(self._world.chains.chain())
        return found

    def pending(self, cta: CtaAgent, thread: int) -> Clock:
        """Return the tcgen05 operations that one thread has issued and a commit covers, complete or not."""
        stream = self._streams.get((GroupKind.TCGEN05_COMMIT, cta.key, thread))
        return {} if stream is None or not stream.chain.time else {stream.chain.key: stream.chain.time}

    def commit(self, sync: Sync) -> None:
        """Close the open group of the threads."""
        cta = self._world.ctas[sync.cta]
        kind = sync.object
        assert isinstance(kind, GroupKind)
        if kind is GroupKind.CP_ASYNC:
            for warp, mask in self._world.warps_of(cta, sync.threads):
                self._groups_of(warp)[list(bits_of(mask))] += 1
            return
        whos = sync.threads if kind in _OF_A_THREAD else np.unique(sync.threads >> 5)
        for who in whos.tolist():
            stream = self._stream(kind, cta, who)
            stream.groups.append(stream.chain.time)

    def wait(self, sync: Sync) -> None:
        """Let threads learn of the operations for which they have waited."""
        cta = self._world.ctas[sync.cta]
        kind = sync.object
        assert isinstance(kind, GroupKind)
        if kind is GroupKind.CP_ASYNC:
            for warp, mask in self._world.warps_of(cta, sync.threads):
                self._wait_for_copies(warp, mask, sync.amount)
            return
        reads = kind is GroupKind.BULK_READ
        source = GroupKind.BULK if reads else kind
        for warp, mask in self._world.warps_of(cta, sync.threads):
            for group in warp.groups_of(mask):
                own = self._completed(source, warp, group.mask, sync.amount, READ_KEY if reads else 0)
                if own:
                    learn_own(group, own, tensor=source in _TENSOR)
            if source is GroupKind.TCGEN05_LD:
                self._mark_waited(warp)
            warp.merge()

    def _completed(self, kind: GroupKind, warp: WarpAgent, mask: int, keep: int, slot: int) -> Clock:
        """Return the keys and times of all operations but those of the newest ``keep`` groups."""
        own: Clock = {}
        if kind in _OF_A_THREAD:
            whos = [32 * warp.index + lane for lane in bits_of(mask)]
        elif kind is GroupKind.WGMMA:
            first = warp.index // _WARPGROUP * _WARPGROUP
            whos = list(range(first, first + _WARPGROUP))
        else:
            whos = [warp.index]
        # The groups of a warpgroup are counted by the warp that waits: the others may have committed more.
        mine = self._streams.get((kind, warp.cta.key, warp.index))
        for who in whos:
            stream = self._streams.get((kind, warp.cta.key, who))
            if stream is None:
                continue
            time = stream.chain.time
            if kind not in (GroupKind.TCGEN05_LD, GroupKind.TCGEN05_ST):
                counted = mine if kind is GroupKind.WGMMA and mine is not None else stream
                count = min(len(counted.groups) - keep, len(stream.groups))
                time = stream.groups[count - 1] if count > 0 else 0
            if time:
                own[stream.chain.key + slot] = time
        return own

    def _mark_waited(self, warp: WarpAgent) -> None:
        stream = self._streams.get((GroupKind.TCGEN05_LD, warp.cta.key, warp.index))
        if stream is not None:
            for token in stream.recent:
                for record in token.records.values():
                    record.waited = True
            stream.recent = []

    def registers_used(self, sync: Sync) -> None:
        """Instructions used registers of loads of tensor memory: the warp has waited for these loads.

        No ``tcgen05.wait::ld`` stands for this wait, so it counts as order of execution only.
        """
        cta = self._world.ctas[sync.cta]
        serials = set(sync.steps)
        for warp, _ in self._world.warps_of(cta, sync.threads):
            stream = self._streams.get((GroupKind.TCGEN05_LD, cta.key, warp.index))
            if stream is None:
                continue
            for token in stream.recent:
                token.used = token.used or not serials.isdisjoint(token.serials)
            unused = [token.time for token in stream.recent if not token.used]
            time = min(unused) - 1 if unused else stream.chain.time
            if time > 0:
                for group in warp.groups:
                    clock = join(group.levels.get(Level.EXECUTION, {}), {stream.chain.key: time})
                    group.levels = {**group.levels, Level.EXECUTION: clock}

    # --- cp.async -------------------------------------------------------------------------------

    def _groups_of(self, warp: WarpAgent) -> NDArray[np.int64]:
        """Return the number of groups that each lane of a warp has committed."""
        key = (warp.cta.key, warp.index)
        found = self._committed.get(key)
        if found is None:
            found = self._committed[key] = np.zeros(32, np.int64)
        return found

    def _issue_copies(self, operation: AsyncOperation, steps: Sequence[Step], cta: CtaAgent) -> None:
        copies = operation.observed
        if copies is None:
            copies = operation.observed = Copies({})
            for warp, mask in self._world.warps_of(cta, operation.issuing_threads()):
                groups = [_frozen(group) for group in warp.groups_of(mask)]
                for group in warp.groups_of(mask):
                    group.snapshot(group.mask)
                part = CopyPart(
                    self._world.chains.chain().key,
                    warp,
                    mask,
                    groups,
                    warp.time,
                    self._groups_of(warp).copy(),
                )
                warp.merge()
                copies.parts[warp.index] = part
                self._copies.setdefault((cta.key, warp.index), []).append(part)
        for step in steps:
            step.observed = copies

    def _wait_for_copies(self, warp: WarpAgent, mask: int, keep: int) -> None:
        """Bind the copies that lanes have waited for to these lanes' own accesses."""
        warp.advance()
        committed = self._groups_of(warp)
        here = (warp.key, warp.time)
        left: list[CopyPart] = []
        for part in self._copies.get((warp.cta.key, warp.index), ()):
            done = 0
            for lane in bits_of(mask & part.mask):
                if part.number[lane] < committed[lane] - keep:
                    done |= 1 << lane
                    part.bound.setdefault(lane, here)
            if done == part.mask and not part.signaled:
                for record in part.records.values():
                    record.key, record.time = here
            elif done:
                for record in part.records.values():
                    record.bound = part.bound
            if len(part.bound) < part.mask.bit_count():
                left.append(part)
        self._copies[warp.cta.key, warp.index] = left


def _follow(token: Token, steps: list[Step], known: int) -> None:
    """Give a token the times of those of its stream, later than ``known``, that come before its steps."""
    direct: set[int] = set()
    after: set[int] = set()
    assumed: set[int] = set()
    for step in steps:
        for earlier in step.ordered:
            before = earlier.observed
            if not isinstance(before, Token) or before.key != token.key or before.time >= token.time:
                continue
            assumed |= before.assumed | {before.time}
            if earlier not in step.assumed:
                after |= before.after
                direct.add(before.time)
    token.after = frozenset(direct.union(time for time in after if time > known))
    token.assumed = frozenset(time for time in assumed if time > known)


def _frozen(group: LaneGroup) -> LaneGroup:
    """Return a group with what the lanes know now."""
    return LaneGroup(group.warp, group.mask, group.levels)


def sent(levels: Levels) -> Levels:
    """Return the levels behind a ``fence::before_thread_sync``, which a commit executes too."""
    tensor = levels.get(Level.TENSOR)
    if tensor is None:
        return levels
    return {**levels, Level.SENT: join(levels.get(Level.SENT, {}), tensor)}


def _published(levels: Levels) -> Levels:
    """Return what the signal of an operation publishes: operations, but no accesses of the issuing thread.

    Source: PTX ISA, ``#program-order-async-operations``.
    """
    made: dict[Hashable, Clock] = {}
    for level, clock in levels.items():
        if level in (Level.SYNC, Level.WIDE):
            made[level] = {key: time for key, time in clock.items() if key < 0}
        elif level in (Level.EXECUTION, Level.SENT):
            made[level] = clock
    return made


def learn_own(group: LaneGroup, own: Clock, *, tensor: bool = False) -> None:
    """Let lanes know of operations that they have waited for."""
    levels: dict[Hashable, Clock] = dict.fromkeys(ORDERS, own)
    if tensor:
        levels[Level.TENSOR] = own
    group.learn(levels)


def _alone(threads: NDArray[np.int64]) -> int:
    """Return the number of the only thread; -1 if there are several."""
    return int(threads[0]) if len(threads) == 1 else -1


def _add(clock: Clock, more: Clock) -> None:
    """Add the later times of ``more`` to a clock that no other agent has."""
    for key, time in more.items():
        if clock.get(key, 0) < time:
            clock[key] = time
