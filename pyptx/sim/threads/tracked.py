"""Executes a block instruction by instruction, and follows undefined bits through registers and memory.

Threads run this way only while some register of their warp has undefined bits (:mod:`.undefined`). Each
instruction executes as in the fast code; then its rule (:class:`~..code.propagation.Propagation`) says which
bits of its results are undefined, or that an undefined operand is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation
from ...flow.graph import EXIT
from ...ir import Instruction
from ..code.bit_flow import BitFlow, Dest, Source, bit_flow
from ..code.emitter import touched_rows
from ..code.function import CodeBlock
from ..code.liveness import live_registers
from ..code.propagation import Rule
from ..code.semantic import Op, RegisterPlace
from ..code.translate import operands_function, single_function
from .bit_memory import FlagsView
from .bit_rules import BitRules, controls
from .loads import transfer_of
from .origins import COMPUTED, LoadedBytes
from .warp import Split

__all__ = ["run_tracked"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]
#: Rules of forms that use their operands, except those that they pass on.
_EFFECTS = frozenset({Rule.USED, Rule.STORED, Rule.TAKEN})


def run_tracked(
    s: Split, block: CodeBlock, first: Op | None = None, before: Callable[[int], None] | None = None
) -> Any:
    """Run the block from operation ``first`` on; return what its generated function would return.

    ``before`` is called before each operation, with its number in the block.
    """
    # The first run of an instruction translates it, which takes long.
    s.warp.cta.machine.check_time()
    s.scatter()
    s.stale = False
    tracked = _Tracked(s, block)
    start = 0
    if first is not None:
        start = next(number for number, (_, op) in enumerate(block.ops) if op is first)
    outcome = None
    s.unwritten = False
    try:
        for position in range(start, len(block.ops)):
            if before is not None:
                before(position)
            outcome = tracked.step(position)
    finally:
        s.unwritten = None
    tracked.end()
    if block.yields:
        return outcome
    return _following(s, block) if s.lane >= 0 and not block.deferred else None


def _following(s: Split, block: CodeBlock) -> int | None:
    """Return the number of the block that a split of one lane runs next; None for an indexed branch."""
    if block.selector is not None:
        return None
    if block.guard is None:
        return block.taken if block.taken is not None else block.next
    place, negated = block.guard
    return block.taken if bool(s.frame.p[place.row, s.lane]) != negated else block.next


class _Tracked(BitRules):
    """The execution of one block by one split."""

    # --- one instruction ----------------------------------------------------------------------

    def step(self, position: int) -> Any:
        instruction, op = self.block.ops[position]
        flow = bit_flow(self.code, op)
        lanes, unsure = self._executing(instruction, op)
        rows = touched_rows(self.code, instruction, op)
        if rows and lanes.any():
            # Loads in flight into these registers happen now, and may set marks.
            self.s.touch(op, rows)
        rule = flow.rule
        if rule is Rule.LOADED:
            return self._load(position, op, flow, lanes)
        bad = not self.undefined.rows.keys().isdisjoint(flow.reads)
        if rule in _EFFECTS or not (bad or unsure is not None or op.semantic.collective):
            if rule in _EFFECTS:
                self._check(op, flow, lanes)
            # Before the execution: an engine may write registers in it.
            self._define(flow, lanes)
            outcome = self._execute(position)
            if rule is Rule.STORED:
                self._store(op, flow, lanes)
            return outcome
        if op.semantic.collective == "membermask":
            return self._exchange(position, op, flow, lanes)
        if op.semantic.per != "value":
            self._check(op, flow, lanes)
        found = self.results(op, flow)
        outcome = self._execute(position)
        self._put(lanes, found)
        if unsure is not None:
            self._put_unsure(flow, *unsure)
        return outcome

    def _execute(self, position: int) -> Any:
        function = single_function(self.block, position, masked=self.s.k is not None)
        return function(self.s, self.frame)

    def _executing(self, instruction: Instruction, op: Op) -> tuple[Mask, tuple[Mask, Array] | None]:
        """Return the threads that execute an instruction, and those of which the guard is undefined.

        The second result also has the origins of the guard; it is None if there are no such threads. An
        undefined guard of an effect is an error.
        """
        guard = instruction.guard
        if guard is None:
            return self.mask, None
        place = self.code.places[guard.register.name]
        lanes = self.mask & (self.frame.p[place.row] != guard.negated)
        flags = self.undefined.flags(place.index, self.span)
        if flags is None or not (flags & self.mask).any():
            return lanes, None
        unsure = flags & self.mask
        if op.semantic.per == "value":
            return lanes, (unsure, self.undefined.origins(place.index, self.span) | COMPUTED)
        self._use(place, unsure, f"used as the guard of {op.name}", op.location)
        return lanes, None

    def _put_unsure(self, flow: BitFlow, unsure: Mask, origins: Array) -> None:
        """Record that results are undefined in threads of which the guard is."""
        for dest in flow.dests:
            self.undefined.set(dest.place, self.span, unsure, self.all_bits(dest.place, unsure), origins)

    def _define(self, flow: BitFlow, lanes: Mask) -> None:
        for index in self.undefined.rows.keys() & flow.writes:
            self.undefined.define(index, self.span, lanes)

    def _put(self, lanes: Mask, found: list[tuple[Dest, Array, Array]]) -> None:
        for dest, bits, origins in found:
            self.undefined.set(dest.place, self.span, lanes, bits, origins)

    # --- uses ---------------------------------------------------------------------------------

    def _use(self, place: RegisterPlace, lanes: Mask, how: str, location: SourceLocation | None) -> None:
        """Report that these threads use a register, if it has undefined bits in one of them."""
        flags = self.undefined.flags(place.index, self.span)
        if flags is None or not (flags & lanes).any():
            return
        column = int(np.argmax(flags & lanes))
        number = int(self.undefined.origins(place.index, self.span)[column])
        thread = self.s.warp.thread_names([column])
        self.s.warp.cta.machine.origins.used(number, f"{how} by {thread}", location)

    def _check(self, op: Op, flow: BitFlow, lanes: Mask) -> None:
        """Report undefined operands of an effect, except those that it only passes on."""
        passed = flow.propagation.operands
        for source in flow.sources:
            if source.name in passed or not self._is_used(source, flow):
                continue
            what = "an address" if source.is_address else f"operand {source.name}"
            for place in source.places:
                self._use(place, lanes, f"used as {what} of {op.name}", op.location)

    @staticmethod
    def _is_used(source: Source, flow: BitFlow) -> bool:
        return source.is_address or source.name == "membermask" or flow.rule in (*_EFFECTS, Rule.LOADED)

    def end(self) -> None:
        """Check the branch at the end of the block, and forget registers that no path reads any more."""
        block = self.block
        if block.branch is not None and block.guard is not None:
            how = f"used as the condition of {block.branch.name}"
            self._use(block.guard[0], self.mask, how, block.branch.source)
        if block.selector is not None:
            instruction, place = block.selector
            self._use(place, self.mask, f"used as the index of {instruction.name}", instruction.source)
        if not self.undefined:
            return
        live = live_registers(self.code)
        read: set[int] = set()
        for following in (block.taken, block.next, *block.table):
            if following is not None and following != EXIT:
                read |= live.get(following, frozenset())
        for index in self.undefined.rows.keys() - read:
            self.undefined.define(index, self.span, self.mask)

    # --- collectives --------------------------------------------------------------------------

    def _exchange(self, position: int, op: Op, flow: BitFlow, lanes: Mask) -> Any:
        """Execute an instruction by which lanes of a warp exchange values."""
        s = self.s
        self._check(op, flow, lanes)
        data = tuple(source for source in flow.sources if source.name != "membermask")
        flags, origins = self.gather(data)
        bad = flags & lanes
        number = int(origins[np.argmax(bad)]) if bad.any() else 0
        meeting = s.rendezvous or s.warp.rendezvous
        if meeting is not None:
            # Lanes at several places of the code: an undefined operand of one makes all results undefined.
            meeting.undefined = meeting.undefined or number
            outcome = self._execute(position)
            every = lanes if meeting.undefined else np.zeros_like(lanes)
            origins = np.full(self.frame.columns, meeting.undefined | COMPUTED, np.int64)
            found = [(dest, self.all_bits(dest.place, every), origins) for dest in flow.dests]
        elif not number:
            outcome = self._execute(position)
            found = []
            self._define(flow, lanes)
        else:
            found = self._exchanged(op, flow, lanes, bad, origins)
            outcome = self._execute(position)
        self._put(lanes, found)
        return outcome

    def _exchanged(
        self, op: Op, flow: BitFlow, lanes: Mask, bad: Mask, origins: Array
    ) -> list[tuple[Dest, Array, Array]]:
        number = origins[np.argmax(bad)]
        if flow.rule is Rule.MOVED:
            return self._shuffled(op, flow, lanes, origins)
        # Every lane of the warp gets a result that depends on all of them.
        warps = np.repeat(bad.reshape(-1, 32).any(axis=1), 32)
        everywhere = np.full(self.frame.columns, number | COMPUTED)
        return [(dest, self.all_bits(dest.place, warps), everywhere) for dest in flow.dests]

    def _shuffled(
        self, op: Op, flow: BitFlow, lanes: Mask, origins: Array
    ) -> list[tuple[Dest, Array, Array]]:
        """Compute marks and origins of a shuffle's results as the shuffle moves them."""
        active = np.flatnonzero(lanes)
        values = operands_function(self.block, op, select=True)(self.s, self.frame, active)
        moved = flow.propagation.operands

        def exchange(how: Callable[[Source], Array]) -> Any:
            given = [
                how(source) if source.name in moved else value
                for source, value in zip(flow.sources, values, strict=True)
            ]
            result = op.semantic.function(self.s, op, active, *given)
            return result[0] if isinstance(result, tuple) else result

        bits = exchange(lambda source: self.shadow(source, active))
        spread = np.zeros(self.frame.columns, np.int64)
        spread[active] = exchange(lambda source: origins[active])
        # An undefined source lane makes the whole result undefined.
        control, known = self.gather(controls(flow))
        control &= lanes
        spread = np.where(control, known | COMPUTED, spread)
        found = []
        for dest in flow.dests:
            value = bits if dest.part in (None, 0) else np.zeros(len(active), np.bool_)
            marks = self.words(value, dest, active) | self.all_bits(dest.place, control)
            found.append((dest, marks, spread))
        return found

    # --- memory -------------------------------------------------------------------------------

    def _load(self, position: int, op: Op, flow: BitFlow, lanes: Mask) -> Any:
        s = self.s
        self._check(op, flow, lanes)
        active = np.flatnonzero(lanes)
        values: Any = ()
        if len(active):
            values = operands_function(self.block, op, select=True)(s, self.frame, active)
        s.unwritten = False
        outcome = self._execute(position)
        if not s.unwritten:
            self._define(flow, lanes)
            return outcome
        view = FlagsView(s, op)
        if op.semantic.team:
            what = transfer_of(op)
            missing = view.missing(active, values[0], what.nbytes)
            numbers = self._origin(op, view, what.nbytes // max(1, what.count))
            raw: Array = np.ascontiguousarray(missing * np.uint8(255)).view(what.dtype)
            bits = raw.reshape((len(active), max(1, what.count)))
            for dest in flow.dests:
                part = dest.part or 0
                origins = np.zeros(self.frame.columns, np.int64)
                origins[active] = numbers[:, part]
                words = self.words(bits[:, part], dest, active)
                self.undefined.set(dest.place, self.span, lanes, words, origins)
            return outcome
        result = op.semantic.function(view, op, active, *values)
        numbers = self._origin(op, view, view.size)
        number = numbers[int(np.argmax(view.flags.any(axis=1))), 0]
        origins = np.full(self.frame.columns, number)
        for dest in flow.dests:
            words = self.words(result if dest.part is None else result[dest.part], dest, active)
            self.undefined.set(dest.place, self.span, lanes, words, origins)
        return outcome

    def _origin(self, op: Op, view: FlagsView, element: int) -> Array:
        """Store the load that ``view`` has seen; return the number of each element, ``[thread, element]``."""
        s, threads = self.s, np.array(view.lanes)
        loaded = LoadedBytes(
            view.segments,
            view.offsets,
            view.flags,
            element,
            lambda position: s.warp.thread_names([int(threads[position])]),
        )
        return loaded.numbers(s.warp.cta.machine.origins, op, op.location, s.warp.issuer.account)

    def _store(self, op: Op, flow: BitFlow, lanes: Mask) -> None:
        """Mark bytes that were stored with undefined bits as unwritten. In global memory this is an error."""
        (data,) = [source for source in flow.sources if source.name in flow.propagation.operands]
        flags, origins = self.gather((data,))
        bad = flags & lanes
        if not bad.any():
            return
        s = self.s
        active = np.flatnonzero(lanes)
        values = operands_function(self.block, op, select=True)(s, self.frame, active)
        shadow = self.shadow(data, active)
        view = FlagsView(s, op, origins[active])
        if op.semantic.team:
            what = transfer_of(op)
            raw = np.ascontiguousarray(shadow.T if what.count else shadow, what.dtype)
            given: Mask = raw.view(np.uint8).reshape(len(active), -1) != 0
            kept = np.ones(what.nbytes, np.bool_)
            if what.kept is not None:
                kept = np.isin(np.arange(what.nbytes) // what.dtype.itemsize, what.kept)
            view.put(active, values[0], given, kept)
        else:
            arguments = [
                shadow if source is data else value
                for source, value in zip(flow.sources, values, strict=True)
            ]
            view.first = int(origins[np.argmax(bad)])
            op.semantic.function(view, op, active, *arguments)
        if view.in_global:
            wrong = np.zeros(self.frame.columns, np.bool_)
            wrong[list(view.in_global)] = True
            for place in data.places:
                self._use(place, wrong & lanes, f"stored to global memory with {op.name}", op.location)
