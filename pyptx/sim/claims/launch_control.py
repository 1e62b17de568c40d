"""Requests of cluster launch control, and where their answers go.

A run that was given its :class:`~..threads.assignment.Assignment` has decided what each request gets. It may
stand for all runs with this assignment if the requests of each cluster are ordered, all of them before a
thread of the cluster observes a refusal, and if the kernel does with an answer nothing but decode it: its
encoding is the hardware's choice.

Owns the order of the requests, and the bytes of shared memory that hold answers, with the instructions that
load them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Any
from weakref import WeakKeyDictionary

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...flow import accesses
from ...ir import Instruction
from ..code.function import FunctionCode
from ..code.semantic import semantic_of
from ..engine.events import AsyncOperation
from ..memory.access import Access, AccessKind
from ..memory.segments import Segment
from ..sanitizer.agents import LaneGroup
from ..sanitizer.world import World
from ..threads.grid import Grid
from .choices import Kind, is_copy
from .competing import Ledger
from .moments import Moment, execution, groups_of, known_lanes, moment

__all__ = ["LaunchControl"]

#: Bytes of an answer.
_BYTES = 16


@dataclass(eq=False, slots=True)
class _Loads:
    """The loads of one function, by statement.

    Attributes:
        whole: loads of bytes of answers: True if each of them loads one whole answer into one register.
        others: loads of 16 bytes into one register that were no answer.
    """

    whole: dict[int, bool] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class _Request:
    """One request: its launch, its cluster with its position there, and the moment of its issue."""

    launch: int
    place: tuple[int, int]
    moments: list[Moment]
    location: SourceLocation | None


@dataclass(eq=False, slots=True)
class _Places:
    """The answers in one shared memory, by offset: the request, and whether all bytes are of the answer."""

    segment: Segment
    owner: tuple[int, int] | None
    answers: dict[int, tuple[_Request, bool]] = field(default_factory=dict)


#: For each function: its queries, each with the statements that may have written its answer.
_Queries = dict[int, tuple[Instruction, dict[int, Instruction]]]
_FOUND: WeakKeyDictionary[FunctionCode, _Queries] = WeakKeyDictionary()


def _queries_of(code: FunctionCode) -> _Queries:
    """Return the statements of a function that decode answers. Copies of registers are followed back."""
    found = _FOUND.get(code)
    if found is not None:
        return found
    found = _FOUND[code] = {}
    body = [(n, each) for n, each in enumerate(code.function.body) if isinstance(each, Instruction)]
    bind = code.program.image.bind
    for number, each in body:
        meaning = semantic_of(bind(each).form_id)
        if meaning is not None and meaning.decodes_answer:
            found[number] = each, {}
    if not found:
        return found
    writers: dict[str, list[tuple[int, Instruction]]] = {}
    for number, each in body:
        for register in accesses(each)[1]:
            writers.setdefault(register.name, []).append((number, each))
    for query, written in found.values():
        guard = set() if query.guard is None else {query.guard.register.name}
        pending = [register.name for register in accesses(query)[0] if register.name not in guard]
        seen = set(pending)
        while pending:
            for number, each in writers.get(pending.pop(), ()):
                if not is_copy(each):
                    written[number] = each
                    continue
                names = {register.name for register in accesses(each)[0]} - seen
                seen |= names
                pending += names
    return found


class LaunchControl:
    """The requests of one run."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world, self._ledger = world, ledger
        #: True if accesses must be told to :meth:`access`.
        self.watching = False
        #: For each cluster: its last request, and the line at which a thread has observed a refusal.
        self._last: dict[tuple[int, int], _Request] = {}
        self._refused: dict[tuple[int, int], SourceLocation | None] = {}
        self._requests: dict[AsyncOperation, _Request] = {}
        #: By identity of the segment.
        self._places: dict[int, _Places] = {}
        self._loads: dict[int, _Loads] = {}

    def begin(self, grid: Grid) -> None:
        """Begin a launch."""
        self.watching = self.watching or grid.gives_away

    def request(self, operation: AsyncOperation) -> None:
        """Add a request that is being issued."""
        cluster = self._world.ctas[operation.cta_key].cluster
        before = self._last.get(cluster)
        place = 0 if before is None else before.place[1] + 1
        groups = list(groups_of(self._world, operation.cta_key, operation.issuing_threads()))
        if before is not None and not self._follow(groups, before):
            self._ledger.competes(
                f"{operation.name}: the order of two requests of a cluster",
                operation.location,
                before.location,
            )
        if cluster in self._refused:
            self._ledger.competes(
                f"{operation.name}: a request after a thread of the cluster has observed a refusal",
                operation.location,
                self._refused[cluster],
            )
        moments = [moment(self._world, group.warp, mask, operation.location) for group, mask in groups]
        mine = _Request(cluster[0], (cluster[1], place), moments, operation.location)
        self._last[cluster] = self._requests[operation] = mine

    @staticmethod
    def _follow(groups: Sequence[tuple[LaneGroup, int]], request: _Request) -> bool:
        """True if what the lanes do now is ordered after the issue of a request."""
        return all(
            known_lanes(execution(group), then, group.warp.key, mask) == then.mask
            for group, mask in groups
            for then in request.moments
        )

    # --- bytes of answers -----------------------------------------------------------------------

    def access(self, access: Access) -> None:
        """Follow an access of memory."""
        actor: Any = access.actor
        segment, kind = access.segment, access.kind
        starts, size = access.footprint.starts, access.footprint.size
        if isinstance(actor, AsyncOperation) and actor in self._requests:
            owner = self._world.owner_of(segment, actor.cta_key)
            found = self._places.setdefault(id(segment), _Places(segment, owner))
            found.answers.update(dict.fromkeys(starts.tolist(), (self._requests[actor], True)))
            return
        known = self._places.get(id(segment))
        answers = {} if known is None else known.answers
        touched = [p for p in answers if ((starts < p + _BYTES) & (starts > p - size)).any()]
        if kind in (AccessKind.READ, AccessKind.RMW):
            self._read(access, answers, touched)
        if kind in (AccessKind.WRITE, AccessKind.RMW, AccessKind.INIT):
            for place in touched:
                answers[place] = answers[place][0], False
                if ((starts <= place) & (starts >= place + _BYTES - size)).any():
                    del answers[place]

    def _read(self, access: Access, answers: Mapping[int, tuple[_Request, bool]], touched: list[int]) -> None:
        actor: Any = access.actor
        if isinstance(actor, AsyncOperation) or not hasattr(actor, "frame"):
            if touched:
                self._ledger.competes(
                    f"{actor.name}: a copy of an answer of clusterlaunchcontrol.try_cancel", actor.location
                )
            return
        op, starts = actor.op, access.footprint.starts.tolist()
        alone = (
            access.kind is AccessKind.READ
            and access.footprint.size == _BYTES
            and len(op.written_places()) == 1
        )
        if not touched and not alone:
            return
        loads = self._loads.setdefault(id(actor.frame.code), _Loads())
        if touched:
            exact = alone and all(start in answers and answers[start][1] for start in starts)
            loads.whole[op.statement] = loads.whole.get(op.statement, True) and exact
            for place in touched:
                self._observe(access, answers[place][0])
        else:
            loads.others.add(op.statement)

    def _observe(self, access: Access, request: _Request) -> None:
        """Check that no request of a cluster comes after threads have observed a refusal."""
        cluster = request.launch, request.place[0]
        if self._world.machine.grids[request.launch].answers.get(request.place) is not None:
            return
        actor: Any = access.actor
        last = self._last[cluster]
        self._refused.setdefault(cluster, actor.location)
        threads = access.threads
        if threads is None or not self._follow(list(groups_of(self._world, actor.cta_key, threads)), last):
            self._ledger.competes(
                f"{actor.op.name}: a refusal is observed, and the cluster may still request others",
                actor.location,
                last.location,
            )

    def end_cta(self, cta: tuple[int, int]) -> None:
        """Forget the shared memory of a CTA."""
        for number in [n for n, places in self._places.items() if places.owner == cta]:
            del self._places[number]

    # --- the claim ------------------------------------------------------------------------------

    def loads(self, code: FunctionCode) -> dict[int, Kind]:
        """Return the statements of a function that load bytes of answers."""
        found = self._loads.get(id(code))
        if found is None:
            return {}
        return {
            statement: "answer" if whole and statement not in found.others else "any"
            for statement, whole in found.whole.items()
        }

    def check(self, code: FunctionCode, loads: Mapping[int, Kind]) -> None:
        """Check that a function decodes nothing but answers."""
        if not self.watching:
            return
        queries = _queries_of(code)
        executed = code.program.executed().get(code.function.name, set()) if queries else set()
        for number, (query, writers) in queries.items():
            for place, writer in writers.items():
                if number in executed and place in executed and loads.get(place) != "answer":
                    self._ledger.competes(
                        f"{query.name}: its operand is no answer that one ld.b128 has loaded",
                        query.source,
                        writer.source,
                    )

    def close(self, across: AbstractSet[int]) -> None:
        """Check the launches. ``across`` has those whose CTAs wait for CTAs of other clusters."""
        grids = self._world.machine.grids
        for grid in grids:
            if not grid.gives_away:
                continue
            if any(each.dependent for each in grids):
                self._ledger.competes(
                    f"launch {grid.number}: cluster launch control beside programmatic dependent launch"
                )
            if grid.number in across:
                self._ledger.competes(
                    f"launch {grid.number}: CTAs wait for CTAs of other clusters, which may be canceled"
                )
