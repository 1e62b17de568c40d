"""Where the rows of a stream come from, and where results go: global memory, or a ring of shared memory.

Owns the two designs of :mod:`.row_stream`.  The rules that make the ring correct:

* A stage is filled again after all threads of the team have read it: each has executed ``fence.proxy.async``,
  since ordinary loads precede a write of the copy engine, and then the team's barrier.
* A staged row of results is written again after the engine has read it: the thread that stored it waits
  (``wait_group.read``) before the barrier of the row between.
* The stores of a row follow ``fence.proxy.async`` of all threads that wrote the staged row, and the barrier.
* With one stage a thread writes its results over its own pieces, which it has in registers.
* No CTA ends before the engine has read its shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import SpecError
from ..core.types import ScalarType, b64, u32
from ..dsl import Reg, TileParam, ptx, reg, smem
from .row_queue import RowQueue
from .row_values import load_words, store_words

if TYPE_CHECKING:
    from .row_stream import Piece, Row, RowSlice, RowStream

__all__ = ["GlobalRows", "RingRows", "RowSource"]

Words = Sequence[Reg]


class RowSource:
    """Loads and stores of pieces, for one design. Made by :class:`.row_stream.RowStream`.

    Attributes:
        queue: where the rows of this CTA come from; None for a constant distance.
    """

    def __init__(self, stream: RowStream) -> None:
        self.stream = stream
        self.plan = stream.plan
        self.queue: RowQueue | None = None

    def begin(self, row: Row) -> None:
        """Record what precedes the block of a row: for held rows, the loads."""
        raise NotImplementedError

    def load(self, piece: Piece, number: int) -> Words:
        """Load a piece of a row that is not held."""
        raise NotImplementedError

    def store(self, piece: Piece, number: int, words: Words) -> None:
        """Store a piece of a result from registers to global memory."""
        stream = self.stream
        dtype = stream.outputs[number].dtype
        row = piece.row
        inside = _both(piece.inside, row.inside)
        hints: dict[str, Any] = {} if stream.store_policy is None else {"cache_hint": stream.store_policy}
        at = piece.at(row.targets[number], dtype)
        store_words(at, words, nbytes=self.plan.vector * dtype.nbytes, inside=inside, **hints)

    def end(self, row: Row) -> None:
        """Record what follows the block of a row."""

    def finish(self) -> None:
        """Record what follows the loop."""


class GlobalRows(RowSource):
    """Rows that each thread loads for itself from global memory."""

    def __init__(self, stream: RowStream) -> None:
        super().__init__(stream)
        self._columns = [stream.column_address(each.tile, each.first) for each in stream.inputs]
        self._hints: dict[str, Any] = {}
        if stream.constant:
            self._hints = {"nc": True, "l1": "no_allocate"}
        if stream.load_policy is not None:
            self._hints["cache_hint"] = stream.load_policy
        self._next: list[list[Words]] = []
        if self.plan.ahead:
            index, inside = stream.index(stream.first)
            also = _both(stream.first < stream.blocks, self._own(inside))
            self._next = self._loaded(self._places(index), also=also)

    def _places(self, index: Reg) -> list[Reg]:
        """Compute this thread's first address in a row of each input."""
        return [
            matrix.row(index, column, self.plan)
            for matrix, column in zip(self.stream.inputs, self._columns, strict=True)
        ]

    def _loaded(
        self, places: list[Reg], out: list[list[Words]] | None = None, also: Reg | None = None
    ) -> list[list[Words]]:
        """Load a whole row of each input, into ``out`` if given, where ``also`` is true or None."""
        plan, stream = self.plan, self.stream
        found = []
        for number, (matrix, place) in enumerate(zip(stream.inputs, places, strict=True)):
            size = plan.threads * plan.vector * matrix.dtype.nbytes
            steps = []
            for step, guard in enumerate(stream.guards):
                inside = _both(guard, also)
                steps.append(
                    load_words(
                        ptx.addr(place, step * size),
                        plan.vector,
                        matrix.dtype,
                        inside=inside,
                        fill=stream.fill,
                        out=None if out is None else out[number][step],
                        **self._hints,
                    )
                )
            found.append(steps)
        return found

    def _own(self, inside: Reg | None) -> Reg | None:
        """Return the guard of a row's loads: another team may overwrite a row that is not this team's."""
        return None if self.stream.constant else inside

    def begin(self, row: Row) -> None:
        if not self.plan.held:
            self._row_places = self._places(row.index)
            return
        if not self.plan.ahead:
            row.words = self._loaded(self._places(row.index), also=self._own(row.inside))
            return
        for steps in self._next:
            row.words.append([[_copied(word) for word in words] for words in steps])
        block = row.block + self.stream.step
        index, inside = self.stream.index(block)
        also = _both(block < self.stream.blocks, self._own(inside))
        self._loaded(self._places(index), self._next, also)

    def load(self, piece: Piece, number: int) -> Words:
        dtype = self.stream.inputs[number].dtype
        at = piece.at(self._row_places[number], dtype)
        inside = _both(piece.inside, self._own(piece.row.inside))
        return load_words(at, self.plan.vector, dtype, inside=inside, fill=self.stream.fill, **self._hints)


def _both(one: Reg | None, other: Reg | None) -> Reg | None:
    """Return the predicate that both are true; None is true. Records one ``and``, or nothing."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _copied(word: Reg) -> Reg:
    copy = reg.scalar(word.type, name="word")
    copy.set(word)
    return copy


class RingRows(RowSource):
    """Rows that the copy engine brings into a ring of shared memory, one ring for each team."""

    def __init__(self, stream: RowStream, queue: TileParam | None = None) -> None:
        super().__init__(stream)
        plan, team = self.plan, stream.team
        if plan.teams > 1 and not stream.constant:
            raise SpecError(
                f"{plan.teams} teams with rings, and a kernel that overwrites its rows: a team may copy the "
                "last row again, which another team overwrites",
                hint="use one team in a CTA",
            )
        stages = smem.alloc(plan.stage_bytes, align=128, stages=plan.stages * plan.teams, name="row_stages")
        full = smem.alloc(plan.stages * plan.teams, b64, name="row_full")
        staged = None
        if plan.staged_bytes:
            count = plan.staged_rows * plan.teams
            staged = smem.alloc(plan.staged_bytes, align=128, stages=count, name="row_staged")
        number = team.number
        #: Addresses of this team's first stage, mbarrier and staged row.
        self._stages, self._full = reg.scalar(u32), reg.scalar(u32)
        if isinstance(number, Reg):
            ptx.inst.mad.lo.u32(self._stages, number, plan.stages * plan.stage_bytes, stages.addr)
            ptx.inst.mad.lo.u32(self._full, number, plan.stages * 8, full.addr)
        else:
            ptx.inst.mov.u32(self._stages, stages.addr)
            ptx.inst.mov.u32(self._full, full.addr)
        if staged is not None:
            self._staged = reg.scalar(u32)
            if isinstance(number, Reg):
                ptx.inst.mad.lo.u32(self._staged, number, plan.staged_rows * plan.staged_bytes, staged.addr)
            else:
                ptx.inst.mov.u32(self._staged, staged.addr)
            self._turn = reg.scalar(u32, init=0)
        self._first_warp = ptx.warp.shfl_idx(team.lane >> 5, 0) == 0
        self._leader = ptx.warp.elect()
        self._stage, self._phase = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        if queue is not None:
            self.queue = RowQueue(stream, queue)
        self._hints: dict[str, Any] = {}
        if stream.load_policy is not None:
            self._hints["cache_hint"] = stream.load_policy
        with ptx.if_(self._first_warp), ptx.if_(self._leader):
            for stage in range(plan.stages):
                ptx.mbarrier.init(ptx.addr(self._full, 8 * stage), 1)
            ptx.fence.mbarrier_init()
            block, at = reg.scalar(u32, init=stream.first), reg.scalar(u32, init=0)
            if plan.stages == 1:
                self._copy(block, at)
                self._prefetch(block)
            else:
                with ptx.for_(0, plan.stages):
                    self._fill(block, at)
                    block += stream.step
                    at += 1
            if self.queue is not None:
                self.queue.ask()
        ptx.bar.sync(0)
        if self.queue is not None:
            ptx.mbarrier.wait(ptx.addr(self._full), 0)

    def _fill(self, block: Reg, stage: Reg) -> None:
        """Copy the row of a block into a stage, if it exists. In one thread of the team."""
        exists = block < self.stream.blocks
        if self.queue is None:
            with ptx.if_(exists):
                self._copy(block, stage)
            return
        self.queue.note(stage, block)
        with ptx.if_(exists):
            self._copy(block, stage)
        with ptx.else_():
            # The stage has a number and no row: the end.
            full = reg.scalar(u32)
            ptx.inst.mad.lo.u32(full, stage, 8, self._full)
            ptx.mbarrier.arrive(ptx.addr(full))

    def _copy(self, block: Reg, stage: Reg) -> None:
        """Copy the row of a block into a stage. In one thread of the team."""
        plan, stream = self.plan, self.stream
        index, _ = stream.index(block)
        full, place = reg.scalar(u32), reg.scalar(u32)
        ptx.inst.mad.lo.u32(full, stage, 8, self._full)
        ptx.inst.mad.lo.u32(place, stage, plan.stage_bytes, self._stages)
        sizes = [self._size(matrix.dtype) for matrix in stream.inputs]
        total: Reg | int = sizes[0]
        for size in sizes[1:]:
            total = total + size
        ptx.mbarrier.arrive_expect_tx(ptx.addr(full), total)
        offset = 0
        for matrix, size in zip(stream.inputs, sizes, strict=True):
            source = self._row_address(index, matrix)
            ptx.cp.async_.bulk.load(ptx.addr(place, offset), source, size, ptx.addr(full), **self._hints)
            offset += plan.row_bytes(matrix.dtype)

    def _prefetch(self, block: Reg) -> None:
        """Bring a later row than a block's into L2, if the plan says so. In one thread.

        The engine works in order: this follows the copy for which the CTA waits.
        """
        plan, stream = self.plan, self.stream
        if not plan.prefetch:
            return
        later = block + plan.prefetch
        wanted = later < stream.blocks
        if plan.prefetch_from:
            wanted &= later >= plan.prefetch_from
        with ptx.if_(wanted):
            for matrix in stream.inputs:
                source = self._row_address(later, matrix)
                ptx.cp.async_.bulk.prefetch(source, self._size(matrix.dtype), **self._hints)

    def _size(self, dtype: ScalarType) -> Reg | int:
        """Bytes of this CTA's slice of a row."""
        return self.stream.local * (self.plan.vector * dtype.nbytes)

    def _row_address(self, index: Reg, each: RowSlice) -> Reg:
        """Compute the address of this CTA's slice of a row in global memory."""
        place, size = each.row(index, each.tile.ptr, self.plan), each.dtype.nbytes
        if isinstance(self.stream.column, Reg):
            ptx.inst.mad.wide.u32(place, self.stream.column, size, place)
        return place + each.first * size if each.first else place

    def begin(self, row: Row) -> None:
        plan, stream = self.plan, self.stream
        self._place = []
        if self.queue is None:
            self._wait()
        offset = 0
        for matrix in stream.inputs:
            place = reg.scalar(u32)
            ptx.inst.mad.lo.u32(place, self._stage, plan.stage_bytes, self._stages)
            ptx.inst.mad.lo.u32(place, stream.team.lane, plan.vector * matrix.dtype.nbytes, place)
            self._place.append(place + offset if offset else place)
            offset += plan.row_bytes(matrix.dtype)
        if plan.store == "bulk":
            self._target = []
            offset = 0
            for number, matrix in enumerate(stream.outputs):
                if plan.overwrites(number):
                    self._target.append(self._place[number])
                    continue
                place = reg.scalar(u32)
                ptx.inst.mad.lo.u32(place, self._turn, plan.staged_bytes, self._staged)
                ptx.inst.mad.lo.u32(place, stream.team.lane, plan.vector * matrix.dtype.nbytes, place)
                self._target.append(place + offset if offset else place)
                offset += plan.row_bytes(matrix.dtype)
        if not plan.held:
            return
        for number in range(len(stream.inputs)):
            row.words.append([self.load(piece, number) for piece in row.pieces()])
        if plan.store == "direct" and plan.stages > 1:
            self._refill(row)

    def _wait(self) -> None:
        """Wait for the stage. In all threads of the team."""
        full = reg.scalar(u32)
        ptx.inst.mad.lo.u32(full, self._stage, 8, self._full)
        ptx.mbarrier.wait(ptx.addr(full), self._phase)

    def load(self, piece: Piece, number: int) -> Words:
        dtype = self.stream.inputs[number].dtype
        at = piece.at(self._place[number], dtype)
        return load_words(
            at, self.plan.vector, dtype, space="shared", inside=piece.inside, fill=self.stream.fill
        )

    def store(self, piece: Piece, number: int, words: Words) -> None:
        if self.plan.store == "direct":
            super().store(piece, number, words)
            return
        dtype = self.stream.outputs[number].dtype
        at = piece.at(self._target[number], dtype)
        store_words(at, words, nbytes=self.plan.vector * dtype.nbytes, space="shared", inside=piece.inside)

    def end(self, row: Row) -> None:
        plan = self.plan
        if plan.stages == 1:
            if plan.store == "bulk":
                self._refill(row)
            return
        if plan.store == "bulk":
            # The row that was staged before the last one has been read: its place is the next one's.
            ptx.cp.async_.bulk.wait_group(plan.staged_rows - 2, read=True)
        if plan.store == "bulk" or not plan.held:
            self._refill(row)
        if plan.store == "bulk":
            self._turn ^= 1
        self._stage += 1
        wrapped = self._stage == plan.stages
        ptx.inst.mov.u32(self._stage, 0, pred=wrapped)
        ptx.inst.xor.b32(self._phase, self._phase, 1, pred=wrapped)
        if self.queue is not None:
            self._wait()
            self.queue.look(self._stage)

    def _refill(self, row: Row) -> None:
        """Hand the stage back when all threads of the team have read it, and store the staged row."""
        plan, stream = self.plan, self.stream
        # The engine overwrites what this thread has read, and reads what it has written.
        ptx.fence.proxy_async("shared::cta")
        stream.team.sync()
        with ptx.if_(self._first_warp), ptx.if_(self._leader):
            if plan.store == "bulk":
                self._store_row(row)
            if plan.stages == 1:
                return
            if self.queue is not None:
                block = self.queue.next_row()
                self._fill(block, self._stage)
                with ptx.if_(block < stream.blocks):
                    self.queue.ask()
                self._prefetch(block)
                return
            block = reg.scalar(u32)
            ptx.inst.mad.lo.u32(block, stream.step, plan.stages, row.block)
            self._fill(block, self._stage)
            self._prefetch(block)

    def _store_row(self, row: Row) -> None:
        """Store the staged row of each output. In one thread of the team."""
        plan, stream = self.plan, self.stream
        hints: dict[str, Any] = {} if stream.store_policy is None else {"cache_hint": stream.store_policy}
        if plan.staged_bytes:
            place = reg.scalar(u32)
            ptx.inst.mad.lo.u32(place, self._turn, plan.staged_bytes, self._staged)
        offset = 0
        for number, matrix in enumerate(stream.outputs):
            if plan.overwrites(number):
                source = ptx.addr(self._stages, sum(map(plan.row_bytes, plan.inputs[:number])))
            else:
                source = ptx.addr(place, offset)
                offset += plan.row_bytes(matrix.dtype)
            ptx.cp.async_.bulk.store(
                self._row_address(row.index, matrix),
                source,
                self._size(matrix.dtype),
                pred=row.inside,
                **hints,
            )
        ptx.cp.async_.bulk.commit_group()

    def finish(self) -> None:
        if self.plan.store == "bulk":
            # The CTA may end, and give up its shared memory, only after the engine has read it.
            ptx.cp.async_.bulk.wait_group(0, read=True)
