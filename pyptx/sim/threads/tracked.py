"""Executes a block instruction by instruction, and follows undefined bits through registers and memory.

Threads run this way only while some register of their warp has undefined bits (:mod:`.undefined`). Each
instruction executes as in the fast code; then its rule (:class:`~..code.propagation.Propagation`) says which
bits of its results are undefined, or that an undefined operand is an error.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation
from ...flow.graph import EXIT
from ...ir import Element, Instruction, Minus, Negated, Operand, Register, Vector
from ..code.bit_flow import BitFlow, Dest, Source, bit_flow
from ..code.function import CodeBlock
from ..code.liveness import CARRY, live_registers
from ..code.propagation import Rule
from ..code.semantic import Op, RegisterPlace
from ..code.translate import operands_function, single_function
from ..memory.access import AccessKind, StateSpace
from ..memory.segments import Segment
from .frames import WIDE
from .loads import transfer_of
from .origins import LoadedBytes
from .undefined import ALL_BITS
from .warp import Split

__all__ = ["run_tracked"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]
_NONE = np.uint64(0)


def run_tracked(s: Split, block: CodeBlock, first: Op | None = None) -> Any:
    """Run the block from operation ``first`` on; return what its generated function would return."""
    s.scatter()
    tracked = _Tracked(s, block)
    start = 0
    if first is not None:
        start = next(number for number, (_, op) in enumerate(block.ops) if op is first)
    outcome = None
    for position in range(start, len(block.ops)):
        outcome = tracked.step(position)
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


class _Tracked:
    """The execution of one block by one split."""

    def __init__(self, s: Split, block: CodeBlock) -> None:
        self.s, self.block, self.frame, self.code = s, block, s.frame, block.code
        self.undefined = s.frame.registers.undefined
        self.span = s.frame.span
        self.mask = np.ones(s.frame.columns, np.bool_) if s.k is None else s.k

    # --- one instruction ----------------------------------------------------------------------

    def step(self, position: int) -> Any:
        instruction, op = self.block.ops[position]
        flow = bit_flow(self.code, op)
        lanes, unsure = self._executing(instruction, op)
        rule = flow.rule
        if rule is Rule.LOADED:
            return self._load(position, op, flow, lanes)
        bad = not self.undefined.rows.keys().isdisjoint(flow.reads)
        if not bad and unsure is None and not op.semantic.collective:
            outcome = self._execute(position)
            self._define(flow, lanes)
            return outcome
        if rule is Rule.USED or rule is Rule.STORED:
            self._check(op, flow, lanes)
            outcome = self._execute(position)
            if rule is Rule.STORED:
                self._store(op, flow, lanes)
            self._define(flow, lanes)
            return outcome
        if op.semantic.collective == "membermask":
            return self._exchange(position, op, flow, lanes)
        found = self._results(op, flow, lanes)
        outcome = self._execute(position)
        self._put(flow, lanes, found)
        if unsure is not None:
            self._unsure(instruction, flow, unsure)
        return outcome

    def _execute(self, position: int) -> Any:
        function = single_function(self.block, position, masked=self.s.k is not None)
        return function(self.s, self.frame)

    def _executing(self, instruction: Instruction, op: Op) -> tuple[Mask, Mask | None]:
        """Return the threads that execute an instruction, and those of which the guard is undefined.

        The second result is None if there are none. An undefined guard of an effect is an error.
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
            return lanes, unsure
        self._use(place, unsure, f"used as the guard of {op.name}", op.location)
        return lanes, None

    def _unsure(self, instruction: Instruction, flow: BitFlow, unsure: Mask) -> None:
        """Record that results are undefined because the guard is."""
        assert instruction.guard is not None
        guard = self.code.places[instruction.guard.register.name]
        row = self.undefined.rows.get(guard.index)
        if row is None:
            return
        origins = row.origins[self.span].copy()
        for dest in flow.dests:
            self.undefined.set(dest.place, self.span, unsure, self._all(dest.place, unsure), origins)

    def _define(self, flow: BitFlow, lanes: Mask) -> None:
        for index in self.undefined.rows.keys() & flow.writes:
            self.undefined.define(index, self.span, lanes)

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
        return source.is_address or source.name == "membermask" or flow.rule in (Rule.USED, Rule.STORED)

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

    # --- values -------------------------------------------------------------------------------

    def _all(self, place: RegisterPlace, flags: Mask) -> Array:
        """Return all bits of a register in the threads that ``flags`` marks, and none in the others."""
        bits = np.where(flags, ALL_BITS[place.cls], _NONE)
        return np.stack([bits, bits], axis=1) if place.cls == "128" else bits

    def _results(self, op: Op, flow: BitFlow, lanes: Mask) -> list[tuple[Dest, Array, Array]]:
        """Return the undefined bits of each result, and their origins, in all threads."""
        sources = flow.sources
        flags, origins = self._gather(sources, carry=flow.propagation.reads_carry)
        self._check_addresses(op, flow, lanes)
        if flow.rule is Rule.MOVED:
            others = tuple(source for source in sources if source.name not in flow.propagation.operands)
            control, _ = self._gather(others)
            if not (control & lanes).any():
                return self._moved(op, flow, origins)
        elif flow.rule is Rule.BITWISE:
            return self._bitwise(op, flow, origins)
        elif flow.rule is Rule.UPWARD:
            return self._upward(flow, origins)
        elif flow.rule is Rule.EACH and _packed(flow):
            return self._each_element(flow, origins)
        return [(dest, self._all(dest.place, flags), origins) for dest in flow.dests]

    def _check_addresses(self, op: Op, flow: BitFlow, lanes: Mask) -> None:
        if op.semantic.per != "value":
            self._check(op, flow, lanes)

    def _gather(self, sources: tuple[Source, ...], *, carry: bool = False) -> tuple[Mask, Array]:
        """Return in which threads some register of ``sources`` has undefined bits, and their origins.

        With ``carry``, the carry flag counts, too.
        """
        flags = np.zeros(self.frame.columns, np.bool_)
        origins = np.zeros(self.frame.columns, np.int64)
        places = [place for source in sources for place in source.places]
        for place in (*places, CARRY) if carry else places:
            more = self.undefined.flags(place.index, self.span)
            if more is not None:
                known = self.undefined.origins(place.index, self.span)
                origins = np.where(more & ~flags, known, origins)
                flags |= more
        return flags, origins

    def _put(self, flow: BitFlow, lanes: Mask, found: list[tuple[Dest, Array, Array]]) -> None:
        for dest, bits, origins in found:
            self.undefined.set(dest.place, self.span, lanes, bits, origins)

    def _moved(self, op: Op, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        """Compute the undefined bits of the results as the form moves them."""
        if op.semantic.per == "value":
            lanes = None
            values = operands_function(self.block, op, select=False)(self.s, self.frame, None)
        else:
            lanes = np.flatnonzero(self.mask)
            values = operands_function(self.block, op, select=True)(self.s, self.frame, lanes)
        arguments = [
            self._shadow(source, lanes) if source.name in flow.propagation.operands else value
            for source, value in zip(flow.sources, values, strict=True)
        ]
        meaning = op.semantic
        if meaning.per == "value":
            result = meaning.function(op, *arguments) if meaning.wants_op else meaning.function(*arguments)
        else:
            result = meaning.function(self.s, op, lanes, *arguments)
            origins = np.full(self.frame.columns, origins[np.argmax(origins > 0)])
        return [
            (dest, self._words(result if dest.part is None else result[dest.part], dest, lanes), origins)
            for dest in flow.dests
        ]

    def _bitwise(self, op: Op, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        """Compute which bits of the results change if undefined bits of the operands change."""
        values = operands_function(self.block, op, select=False)(self.s, self.frame, None)
        shadows = [self._shadow(source, None) if source.places else None for source in flow.sources]
        meaning = op.semantic

        def evaluate(chosen: tuple[bool, ...]) -> Any:
            given = [
                value ^ shadow if flip and shadow is not None else value
                for value, shadow, flip in zip(values, shadows, chosen, strict=True)
            ]
            return meaning.function(op, *given) if meaning.wants_op else meaning.function(*given)

        known = evaluate((False,) * len(values))
        changing = [(False, True) if shadow is not None else (False,) for shadow in shadows]
        changed: Any = known ^ known
        for chosen in product(*changing):
            if any(chosen):
                changed = changed | (evaluate(chosen) ^ known)
        return [(dest, self._words(changed, dest, None), origins) for dest in flow.dests]

    def _upward(self, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        together = np.zeros(self.frame.columns, np.uint64)
        for source in flow.sources:
            for place in source.places:
                bits = self.undefined.bits(place.index, self.span)
                if bits is not None:
                    together |= bits
        bits = together | (~together + np.uint64(1))
        bits[together == 0] = 0
        return [(dest, bits & ALL_BITS[dest.place.cls], origins) for dest in flow.dests]

    def _each_element(self, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        """Apply the rule to each element of packed operands."""
        (dest,) = flow.dests
        width = dest.kind.bits // dest.kind.lanes
        element = np.uint64((1 << width) - 1)
        bits = np.zeros(self.frame.columns, np.uint64)
        for source in flow.sources:
            for place in source.places:
                more = self.undefined.bits(place.index, self.span)
                for start in range(0, dest.kind.bits if more is not None else 0, width):
                    assert more is not None
                    part = element << np.uint64(start)
                    bits |= np.where(more & part != 0, part, _NONE)
        return [(dest, bits, origins)]

    # --- conversions between flags and values -------------------------------------------------

    def _shadow(self, source: Source, lanes: Array | None) -> Any:
        """Return the undefined bits of an operand as a value of the operand's type."""
        operand, dtype = source.operand, source.kind.register_dtype
        if isinstance(operand, Vector):
            value = np.stack([self._shadow_of(element, dtype) for element in operand.elements])
        elif isinstance(operand, Register | Element | Minus | Negated):
            value = self._shadow_of(operand, dtype)
        else:
            return np.zeros((), dtype)[()]
        return value if lanes is None else value[..., lanes]

    def _shadow_of(self, operand: Operand, dtype: np.dtype[Any]) -> Array:
        if isinstance(operand, Minus | Negated | Element):
            operand = operand.operand if isinstance(operand, Minus) else operand.register
        bits = None
        if isinstance(operand, Register):
            place = self.code.places[operand.name]
            bits = self.undefined.bits(place.index, self.span)
        if bits is None:
            return np.zeros(self.frame.columns, dtype)
        value: Array
        if dtype == WIDE:
            value = np.ascontiguousarray(bits).view(WIDE)[:, 0]
        elif dtype == np.bool_:
            value = bits != 0
        else:
            value = bits.astype(f"u{dtype.itemsize}").view(dtype)
        return value

    def _words(self, value: Any, dest: Dest, lanes: Array | None) -> Array:
        """Return a computed value as undefined bits of a register, in all threads."""
        value = np.asarray(value)
        if dest.place.cls == "128":
            found = np.ascontiguousarray(np.broadcast_to(value, value.shape or (1,))).view(np.uint64)
            found = found.reshape(-1, 2)
        elif value.dtype.kind == "i":
            found = value.astype(np.int64).view(np.uint64) & ALL_BITS[dest.place.cls]
        else:
            raw = value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "f" else value
            found = raw.astype(np.uint64) & ALL_BITS[dest.place.cls]
        shape = (self.frame.columns, 2) if dest.place.cls == "128" else (self.frame.columns,)
        if lanes is None:
            everywhere: Array = np.broadcast_to(found, shape)
            return everywhere
        spread = np.zeros(shape, np.uint64)
        spread[lanes] = found
        return spread

    # --- collectives --------------------------------------------------------------------------

    def _exchange(self, position: int, op: Op, flow: BitFlow, lanes: Mask) -> Any:
        """Execute an instruction by which lanes of a warp exchange values."""
        s = self.s
        self._check(op, flow, lanes)
        data = tuple(source for source in flow.sources if source.name != "membermask")
        flags, origins = self._gather(data)
        bad = flags & lanes
        number = int(origins[np.argmax(bad)]) if bad.any() else 0
        meeting = s.rendezvous or s.warp.rendezvous
        if meeting is not None:
            # Lanes at several places of the code: an undefined operand of one makes all results undefined.
            meeting.undefined = meeting.undefined or number
            outcome = self._execute(position)
            every = lanes if meeting.undefined else np.zeros_like(lanes)
            origins = np.full(self.frame.columns, meeting.undefined, np.int64)
            found = [(dest, self._all(dest.place, every), origins) for dest in flow.dests]
        elif not number:
            outcome = self._execute(position)
            found = []
            self._define(flow, lanes)
        else:
            found = self._exchanged(op, flow, lanes, bad, origins)
            outcome = self._execute(position)
        self._put(flow, lanes, found)
        return outcome

    def _exchanged(
        self, op: Op, flow: BitFlow, lanes: Mask, bad: Mask, origins: Array
    ) -> list[tuple[Dest, Array, Array]]:
        number = origins[np.argmax(bad)]
        others = tuple(source for source in flow.sources if source.name not in flow.propagation.operands)
        control, _ = self._gather(others)
        if flow.rule is Rule.MOVED and not (control & lanes).any():
            active = np.flatnonzero(lanes)
            values = operands_function(self.block, op, select=True)(self.s, self.frame, active)
            moved = flow.propagation.operands

            def exchange(how: Any) -> Any:
                given = [
                    how(source) if source.name in moved else value
                    for source, value in zip(flow.sources, values, strict=True)
                ]
                result = op.semantic.function(self.s, op, active, *given)
                return result[0] if isinstance(result, tuple) else result

            bits = exchange(lambda source: self._shadow(source, active))
            spread = np.zeros(self.frame.columns, np.int64)
            spread[active] = exchange(lambda source: origins[active])
            found = []
            for dest in flow.dests:
                value = bits if dest.part in (None, 0) else np.zeros(len(active), np.bool_)
                found.append((dest, self._words(value, dest, active), spread))
            return found
        # Every lane of the warp gets a result that depends on all of them.
        warps = np.repeat(bad.reshape(-1, 32).any(axis=1), 32)
        everywhere = np.full(self.frame.columns, number)
        return [(dest, self._all(dest.place, warps), everywhere) for dest in flow.dests]

    # --- memory -------------------------------------------------------------------------------

    def _load(self, position: int, op: Op, flow: BitFlow, lanes: Mask) -> Any:
        s = self.s
        self._check_load(op, flow, lanes)
        active = np.flatnonzero(lanes)
        values: Any = ()
        if len(active):
            values = operands_function(self.block, op, select=True)(s, self.frame, active)
        s.unwritten = False
        try:
            outcome = self._execute(position)
        finally:
            noted, s.unwritten = s.unwritten, None
        if not noted:
            self._define(flow, lanes)
            return outcome
        view = _FlagsView(s, op)
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
                words = self._words(bits[:, part], dest, active)
                self.undefined.set(dest.place, self.span, lanes, words, origins)
            return outcome
        result = op.semantic.function(view, op, active, *values)
        numbers = self._origin(op, view, view.size)
        number = numbers[int(np.argmax(view.flags.any(axis=1))), 0]
        origins = np.full(self.frame.columns, number)
        for dest in flow.dests:
            words = self._words(result if dest.part is None else result[dest.part], dest, active)
            self.undefined.set(dest.place, self.span, lanes, words, origins)
        return outcome

    def _check_load(self, op: Op, flow: BitFlow, lanes: Mask) -> None:
        for source in flow.sources:
            what = "an address" if source.is_address else f"operand {source.name}"
            for place in source.places:
                self._use(place, lanes, f"used as {what} of {op.name}", op.location)

    def _origin(self, op: Op, view: _FlagsView, element: int) -> Array:
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
        flags, origins = self._gather((data,))
        bad = flags & lanes
        if not bad.any():
            return
        s = self.s
        active = np.flatnonzero(lanes)
        values = operands_function(self.block, op, select=True)(s, self.frame, active)
        shadow = self._shadow(data, active)
        view = _FlagsView(s, op, origins[active])
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
            for place in data.places:
                self._use(place, lanes, f"stored to global memory with {op.name}", op.location)


def _packed(flow: BitFlow) -> bool:
    """True if the result and all registers that the instruction reads have the same number of elements."""
    if len(flow.dests) != 1:
        return False
    kind = flow.dests[0].kind
    kinds = [source.kind for source in flow.sources if source.places]
    return kind.lanes > 1 and all(k.lanes == kind.lanes and k.bits == kind.bits for k in kinds)


class _FlagsView:
    """Stands for a split when the function of a load or store runs on the flags of unwritten bytes.

    Its segments hold 255 for an unwritten byte and 0 for any other.
    """

    def __init__(self, s: Split, op: Op, origins: Array | None = None) -> None:
        self._s, self._op, self._origins = s, op, origins
        self.acting: Any = None
        #: For a store: the origin of bytes if it is not known for each lane, and whether it was to global
        #: memory.
        self.first = 0
        self.in_global = False
        #: What was loaded: the threads, bytes of each, their segments and offsets, and the unwritten bytes.
        self.lanes: Array = np.zeros(0, np.int64)
        self.size = 0
        self.segments: list[Segment] = []
        self.offsets: Array = np.zeros(0, np.int64)
        self.flags: Mask = np.zeros((0, 0), np.bool_)

    def access(
        self, kind: AccessKind, op: Op, lanes: Array, address: Array, size: int, align: int | None = None
    ) -> list[tuple[Any, Any, Array]]:
        """Return the spans of an access that the split has already made, with segments of flags."""
        spans = self._s.access(AccessKind.PROBE, op, lanes, address, size, align=align, check_written=False)
        if kind is AccessKind.READ:
            self._note(lanes, size, spans)
        return [(which, _Flags(self, segment), offsets) for which, segment, offsets in spans]

    def _note(self, lanes: Array, size: int, spans: list[tuple[Any, Segment, Array]]) -> None:
        self.lanes, self.size = lanes, size
        count = len(lanes)
        segments: list[Any] = [None] * count
        self.offsets = np.zeros(count, np.int64)
        self.flags = np.zeros((count, size), np.bool_)
        for which, segment, offsets in spans:
            for position in np.arange(count)[which].tolist():
                segments[position] = segment
            self.offsets[which] = offsets
            self.flags[which] = segment.missing(offsets[:, None] + np.arange(size))
        self.segments = segments

    def missing(self, lanes: Array, address: Array, size: int) -> Mask:
        """Return which bytes of a load by each lane are unwritten."""
        self.access(AccessKind.READ, self._op, lanes, address, size)
        return self.flags

    def put(self, lanes: Array, address: Array, undefined: Mask, kept: Mask) -> None:
        """Record which bytes of a store by each lane are undefined; only ``kept`` ones are stored."""
        assert self._origins is not None
        size = undefined.shape[1]
        spans = self._s.access(AccessKind.PROBE, self._op, lanes, address, size, check_written=False)
        each = np.flatnonzero(kept)
        for which, segment, offsets in spans:
            self.store(segment, offsets[:, None] + each, undefined[which][:, each], self._origins[which])

    def store(self, segment: Segment, places: Array, undefined: Mask, origins: Array | int) -> None:
        if segment.space is StateSpace.GLOBAL:
            self.in_global |= bool(undefined.any())
        else:
            segment.store_undefined(places, undefined, np.asarray(origins))


class _Flags:
    """The flags of a segment's bytes in place of the segment; ``data`` is this object itself."""

    def __init__(self, view: _FlagsView, segment: Segment) -> None:
        self._view, self._segment = view, segment

    @property
    def data(self) -> _Flags:
        return self

    def __getitem__(self, places: Array) -> Array:
        return self._segment.missing(places) * np.uint8(255)

    def __setitem__(self, places: Array, value: Array) -> None:
        self._view.store(self._segment, places, value != 0, self._view.first)
