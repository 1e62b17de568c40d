"""Requests of cluster launch control, and where their answers go.

A run that was given its :class:`~..threads.assignment.Assignment` has decided what each request gets. It may
stand for all runs with this assignment if the requests of each cluster are made one after another, none after
a refusal, and if the kernel does with an answer nothing but decode it: its encoding is the hardware's choice.

Owns the order of the requests, and the bytes of shared memory that hold answers, with the instructions that
load them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Any
from weakref import WeakKeyDictionary

from numpy.typing import NDArray

from ...core.records import dataclass
from ...flow import accesses
from ...ir import Instruction
from ..code.function import FunctionCode
from ..code.semantic import semantic_of
from ..engine.events import AsyncOperation, Step
from ..memory.access import Access, AccessKind
from ..memory.segments import Segment
from ..sanitizer.operations import Token
from ..sanitizer.world import World
from ..threads.grid import Grid
from .choices import Kind, is_copy
from .competing import Ledger
from .moments import execution, groups_of

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
class _Places:
    """The answers in one shared memory: by offset, True as long as all bytes are those of the answer."""

    segment: Segment
    owner: tuple[int, int] | None
    whole: dict[int, bool] = field(default_factory=dict)


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
        #: For each cluster: the steps of its last request.
        self._last: dict[tuple[int, int], Sequence[Step]] = {}
        self._operations: set[AsyncOperation] = set()
        #: By identity of the segment.
        self._places: dict[int, _Places] = {}
        self._loads: dict[int, _Loads] = {}

    def begin(self, grid: Grid) -> None:
        """Begin a launch."""
        self.watching = self.watching or grid.gives_away

    def request(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        """Add a request that is being issued: it must come after the answer to the one before."""
        self._operations.add(operation)
        cta = self._world.ctas[operation.cta_key]
        before = self._last.get(cta.cluster)
        self._last[cta.cluster] = list(steps)
        if before is None:
            return
        last = before[0].operation
        if not self._answered(operation, before):
            self._ledger.competes(
                f"{operation.name}: a cluster requests others, and the answer to its request before "
                "may not be there yet",
                operation.location,
                last.location,
            )
        elif self._world.machine.grids[cta.launch].answers[cta.cluster[1]][-1] is None:
            self._ledger.competes(
                f"{operation.name}: a request after a refusal, whose answer is undefined",
                operation.location,
                last.location,
            )

    def _answered(self, operation: AsyncOperation, before: Sequence[Step]) -> bool:
        """True if all threads that issue ``operation`` know of the answer to the request before."""
        keys = [step.observed.own() for step in before if isinstance(step.observed, Token)]
        groups = [each for each, _ in groups_of(self._world, operation.cta_key, operation.issuing_threads())]
        return bool(groups) and all(
            any(all(execution(group).get(key, 0) >= time for key, time in own.items()) for own in keys)
            for group in groups
        )

    # --- bytes of answers -----------------------------------------------------------------------

    def access(self, access: Access) -> None:
        """Follow an access of memory."""
        actor: Any = access.actor
        segment, kind = access.segment, access.kind
        starts, size = access.footprint.starts, access.footprint.size
        if isinstance(actor, AsyncOperation) and actor in self._operations:
            owner = self._world.owner_of(segment, actor.cta_key)
            found = self._places.setdefault(id(segment), _Places(segment, owner))
            found.whole.update(dict.fromkeys(starts.tolist(), True))
            return
        known = self._places.get(id(segment))
        whole = {} if known is None else known.whole
        touched = [p for p in whole if ((starts < p + _BYTES) & (starts > p - size)).any()]
        if kind in (AccessKind.READ, AccessKind.RMW):
            self._read(access, starts, size, whole, bool(touched))
        if kind in (AccessKind.WRITE, AccessKind.RMW, AccessKind.INIT):
            for place in touched:
                whole[place] = False
                if ((starts <= place) & (starts >= place + _BYTES - size)).any():
                    del whole[place]

    def _read(
        self, access: Access, starts: NDArray[Any], size: int, whole: Mapping[int, bool], touched: bool
    ) -> None:
        actor: Any = access.actor
        if isinstance(actor, AsyncOperation) or not hasattr(actor, "frame"):
            if touched:
                self._ledger.competes(
                    f"{actor.name}: a copy of an answer of clusterlaunchcontrol.try_cancel", actor.location
                )
            return
        op = actor.op
        alone = access.kind is AccessKind.READ and size == _BYTES and len(op.written_places()) == 1
        if not touched and not alone:
            return
        loads = self._loads.setdefault(id(actor.frame.code), _Loads())
        if touched:
            exact = alone and all(whole.get(start, False) for start in starts.tolist())
            loads.whole[op.statement] = loads.whole.get(op.statement, True) and exact
        else:
            loads.others.add(op.statement)

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
