"""Rows of memory-bound kernels: who loads them, where they wait, and how pieces of them reach the threads.

Owns the designs in which the rows of matrices stream through a CTA.  A kernel writes its arithmetic once,
piece by piece, and chooses a design by a number or a word::

    "registers"   a team of threads loads its row from global memory, all loads before the first use: one
                  row for each team or, persistent, rows at a constant distance; with ``ahead`` the loads of
                  the next row are in flight while the team computes this one
    "ring"        persistent: one thread of each team copies rows into a ring of shared memory, ``stages``
                  rows ahead (``cp.async.bulk``, an mbarrier for each stage); the team reads them from there.
                  Results go from registers to global memory, or (``store="bulk"``) through shared memory by
                  the copy engine. With ``stages=1`` nothing goes around: a CTA for each row, which the engine
                  brings, and the results take its place. With ``prefetch`` the engine also brings a later
                  row into L2, so that the wait of the CTA that takes it is short

    ring, row r
      team          wait full | ld.shared | reduce | st.shared | fence | barrier | row r+1 ...
      one thread                                     wait for the    | store row r,
                                                     store of r-1    | copy row r+stages

A *piece* is what one load of a thread moves: ``vector`` elements, 16 bytes of the widest input where the
width of the rows allows it.  A thread takes every ``threads``-th piece of its row; in the last step some
threads may have none.  A row is *held* if its threads keep all pieces in registers.  Otherwise each pass over
the row loads it again, from the ring or, if it is too long for registers, from L2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ..core.errors import SpecError
from ..core.types import ScalarType, f32, u32, u64
from ..dsl import Reg, TileParam, ptx, reg
from ..dsl.operands import Addr
from .row_plan import RowPlan
from .row_sources import GlobalRows, RingRows, RowSource
from .row_team import RowTeam
from .row_values import from_f32, load_words, to_f32

__all__ = ["Piece", "Row", "RowNumbers", "RowSlice", "RowStream", "RowVector"]

Words = Sequence[Reg]


class RowSlice:
    """The columns of a matrix from ``first`` on, of which a plan's ``width`` are the rows of a stream.

    A matrix itself is the slice from column 0 on.

    Attributes:
        tile: a matrix of two dims in global memory; the second one is a number.
        first: number of the first column.
        dtype: type of the elements.
        pitch: bytes from one row to the next.

    Raises:
        SpecError: the columns are a named dim.
    """

    def __init__(self, tile: TileParam, first: int = 0) -> None:
        columns = tile.extent(-1)
        if not isinstance(columns, int):
            raise SpecError(f"the columns of {tile!r} are a named dim: expected a number")
        self.tile, self.first, self.dtype = tile, first, tile.dtype
        self.pitch = columns * tile.dtype.nbytes

    def check(self, plan: RowPlan) -> None:
        """Raise :class:`SpecError` if rows of the plan are no part of this matrix, or pieces do not fit."""
        columns, width = self.pitch // self.dtype.nbytes, plan.width * plan.parts
        if self.first < 0 or self.first + width > columns:
            raise SpecError(f"{width} columns from {self.first} on: {self.tile!r} has {columns}")
        if columns % plan.unit or self.first % plan.unit:
            raise SpecError(
                f"the pitch {columns} or the first column {self.first} of {self.tile!r} is no multiple of "
                f"{plan.unit}, which the plan was made for",
                hint=f"pass multiples=({columns}, {self.first}) to RowPlan.make",
            )

    def row(self, index: Reg, base: Reg, plan: RowPlan) -> Reg:
        """Compute an address in a row (or part), given the one in the first row. Records a ``mad.wide``.

        For parts of rows that are not all of the matrix it records a shift, an ``and`` and two ``mad.wide``.
        """
        place, part = reg.scalar(u64), plan.width * self.dtype.nbytes
        if self.pitch == plan.parts * part or plan.parts == 1:
            ptx.inst.mad.wide.u32(place, index, self.pitch // plan.parts, base)
            return place
        ptx.inst.mad.wide.u32(place, index >> (plan.parts.bit_length() - 1), self.pitch, base)
        ptx.inst.mad.wide.u32(place, index & (plan.parts - 1), part, place)
        return place


class RowVector:
    """A vector over the columns, such as the weights of a norm; its pieces belong to every row.

    Made by :meth:`RowStream.vector`.
    """

    def __init__(self, stream: RowStream, tile: TileParam, keep: bool) -> None:
        self.tile = tile
        self.dtype = tile.dtype
        #: Address of this thread's first element.
        self.place = stream.column_address(tile)
        self.keep = keep
        self.kept: list[Words] | None = None

    def load_all(self, stream: RowStream) -> None:
        """Load this thread's elements, if they are kept."""
        if self.keep:
            self.kept = [self.load(stream, step) for step in range(stream.plan.steps)]

    def load(self, stream: RowStream, step: int) -> Words:
        plan = stream.plan
        at = ptx.addr(self.place, step * plan.threads * plan.vector * self.dtype.nbytes)
        return load_words(at, plan.vector, self.dtype, inside=stream.guards[step], nc=True)


class RowNumbers:
    """A vector with one number for each row, such as a factor that the forward kernel has stored.

    A persistent kernel without a queue loads the number of a team's next row while it computes this one.
    Made by :meth:`RowStream.numbers`.
    """

    def __init__(self, stream: RowStream, tile: TileParam) -> None:
        self.tile = tile
        self.next: Reg | None = None
        if stream.plan.persistent and not stream.plan.queue:
            self.next = reg.scalar(tile.dtype, init=0)
            self.load(stream, stream.first, self.next, stream.first < stream.blocks)

    def load(self, stream: RowStream, block: Reg, out: Reg, inside: Reg | None = None) -> None:
        index, _ = stream.index(block)
        ptx.load(self.tile.dtype, self.tile.at(index), space="global", nc=True, out=out, pred=inside)


class RowStream:
    """The rows of a kernel. The constructor records the set-up; all threads of the CTA call it once.

    ::

        plan = kit.RowPlan.make(N, [bf16], [bf16], threads=256, design="ring", stages=4)

        @kernel(in_specs=..., out_specs=..., grid=lambda M: plan.grid(M), **plan.options())
        def scaled(X, weight, Y):
            stream = kit.RowStream(plan, X.extent(0), [X], [Y])
            weights = stream.vector(weight)
            with stream.rows() as row:
                total = reg.scalar(f32, init=0.0)
                for piece in row.pieces():
                    for x in piece.values(0):
                        ptx.inst.fma.rn.f32(total, x, x, total)
                total = stream.team.reduce(total, "add")
                for piece in row.pieces():
                    piece.store(0, [x * w for x, w in zip(piece.values(0), piece.vector(weights))])

    Args:
        plan: the sizes.
        rows: number of rows, an int or a u32 register.
        inputs, outputs: the matrices, or slices of their columns, of ``rows`` rows, in the order of the
            plan's types.
        fill: what elements of pieces outside the row read as: 0.0 or minus infinity.
        constant: whether no thread writes the inputs while the kernel runs (``ld.global.nc``). Without, a
            team may overwrite its row; a ring then takes one team in each CTA.
        most: largest number of values that one reduction combines.
        queue: the kernel's last parameter, the workspace of a plan with ``queue``.

    Attributes:
        team: the :class:`.row_team.RowTeam` of this thread.
        guards: for each step, the predicate of the threads that have a piece in it; None: all have.
    """

    def __init__(
        self,
        plan: RowPlan,
        rows: Reg | int,
        inputs: Sequence[TileParam | RowSlice],
        outputs: Sequence[TileParam | RowSlice],
        *,
        fill: float = 0.0,
        constant: bool = True,
        most: int = 1,
        queue: TileParam | None = None,
    ) -> None:
        if plan.queue != (queue is not None):
            raise SpecError(
                f"the plan has queue={plan.queue}, the stream queue={queue!r}",
                hint="pass the last parameter of the kernel, the workspace, if the plan has a queue",
            )
        if plan.parts > 1:
            rows = rows * plan.parts
        self.plan = plan
        self.fill = fill
        self.constant = constant
        self.inputs, self.outputs = (
            tuple(each if isinstance(each, RowSlice) else RowSlice(each) for each in given)
            for given in (inputs, outputs)
        )
        for each in (*self.inputs, *self.outputs):
            each.check(plan)
        given = tuple(each.dtype for each in self.inputs), tuple(each.dtype for each in self.outputs)
        if given != (plan.inputs, plan.outputs):
            raise SpecError(f"the matrices have types {given}, the plan {(plan.inputs, plan.outputs)}")
        self.count = rows
        self.team = RowTeam(plan.threads, teams=plan.teams, cluster=plan.cluster, most=most)
        self.team.whole = plan.parts == 1
        self._numbers: list[RowNumbers] = []
        self._vectors: list[RowVector] = []
        self._columns()
        policies = {
            hint: ptx.cache.policy(hint)  # type: ignore[arg-type]
            for hint in dict.fromkeys((plan.load_hint, plan.store_hint))
            if hint is not None
        }
        self.load_policy = None if plan.load_hint is None else policies[plan.load_hint]
        self.store_policy = None if plan.store_hint is None else policies[plan.store_hint]
        self.first = ptx.special.ctaid.x() if plan.cluster == 1 else ptx.special.clusterid.x()
        self.step = ptx.special.nctaid.x() if plan.cluster == 1 else ptx.special.nclusterid.x()
        if isinstance(rows, Reg):
            self.blocks: Reg | int = (rows + (plan.teams - 1)) // plan.teams if plan.teams > 1 else rows
        else:
            self.blocks = -(-rows // plan.teams)
        self.source: RowSource
        if plan.design == "ring":
            self.source = RingRows(self, queue)
        else:
            self.source = GlobalRows(self)

    def _columns(self) -> None:
        """Find out which pieces this thread has: the guards, and its first column."""
        plan, team = self.plan, self.team
        pieces = plan.width // plan.vector
        least = pieces - (plan.cluster - 1) * plan.slice
        #: Pieces of this CTA's slice, and its first column.
        self.local: Reg | int = least
        self.column: Reg | int = 0
        if isinstance(team.rank, Reg):
            self.column = team.rank * (plan.slice * plan.vector)
            self.local = plan.slice
            if least < plan.slice:
                self.local = reg.scalar(u32)
                ptx.inst.sub.u32(self.local, pieces, team.rank * plan.slice)
                ptx.inst.min.u32(self.local, self.local, plan.slice)
        self.guards: list[Reg | None] = [None] * plan.steps
        if not plan.looped:
            for step in range(plan.steps):
                if (step + 1) * plan.threads > least:
                    here = team.lane + step * plan.threads if step else team.lane
                    self.guards[step] = here < self.local

    def column_address(self, tile: TileParam, first: int = 0) -> Reg:
        """Compute the address of this thread's first column in the first row."""
        place, size = reg.scalar(u64), tile.dtype.nbytes
        ptx.inst.mad.wide.u32(place, self.team.lane, self.plan.vector * size, tile.ptr)
        if isinstance(self.column, Reg):
            ptx.inst.mad.wide.u32(place, self.column, size, place)
        return place + first * size if first else place

    def vector(self, tile: TileParam, *, keep: bool = True) -> RowVector:
        """Return a vector over the columns, of ``width`` elements, for :meth:`Piece.vector`.

        Args:
            tile: the vector in global memory, which no thread writes.
            keep: load it once, and keep it in registers if the rows are held (and the plan says ``keep``);
                otherwise each piece loads its part.
        """
        self.check_whole("a vector over the columns")
        found = RowVector(self, tile, keep and self.plan.keep and self.plan.held)
        if self.plan.persistent or self.plan.design == "ring":
            found.load_all(self)
        else:
            self._vectors.append(found)  # behind the loads of the row, for which the thread waits first
        return found

    def numbers(self, tile: TileParam) -> RowNumbers:
        """Return a vector with one number for each row, for :meth:`Row.number`. No thread writes it."""
        self.check_whole("a number of each row")
        found = RowNumbers(self, tile)
        self._numbers.append(found)
        return found

    def check_whole(self, what: str) -> None:
        """Raise :class:`SpecError` if the stream has parts of rows."""
        if self.plan.parts > 1:
            raise SpecError(f"{what}, in a stream with parts={self.plan.parts}: expected whole rows")

    @contextmanager
    def rows(self) -> Iterator[Row]:
        """Open the loop over this team's rows, or the block for its only row.

        All threads of the CTA execute the block equally often: a team whose row would be past the last one
        computes the last row again, and its stores are guarded.
        """
        with ExitStack() as stack:
            queue = self.source.queue
            if queue is not None:
                # A CTA has one row at least; behind each row it looks for the next one.
                stack.enter_context(ptx.do_while(lambda: queue.block < self.blocks))
                block = queue.block
            elif self.plan.persistent:
                block = stack.enter_context(ptx.for_(self.first, self.blocks, self.step))
            else:
                block = self.first
            row = Row(self, block)
            for numbers in self._numbers:
                row.take(numbers)
            self.source.begin(row)
            for vector in self._vectors:
                vector.load_all(self)
            yield row
            self.source.end(row)
        self.source.finish()

    def index(self, block: Reg) -> tuple[Reg, Reg | None]:
        """Return this team's row of a block, not past the last, and the predicate that the block has it."""
        plan = self.plan
        if plan.teams == 1:
            return block, None
        wanted, row = reg.scalar(u32), reg.scalar(u32)
        ptx.inst.mad.lo.u32(wanted, block, plan.teams, self.team.number)
        ptx.inst.min.u32(row, wanted, self.count - 1)
        if isinstance(self.count, int) and self.count % plan.teams == 0:
            return wanted, None
        return row, wanted == row


class Row:
    """A row in the block of :meth:`RowStream.rows`.

    Attributes:
        index: number of the row, u32.
        inside: predicate of the teams whose row this is; None: all.
    """

    def __init__(self, stream: RowStream, block: Reg) -> None:
        self.stream = stream
        self.block = block
        self.index, self.inside = stream.index(block)
        #: For held rows, the words of each input by steps.
        self.words: list[list[Words]] = []
        #: This thread's first address in the row of each output, for stores to global memory.
        self.targets: list[Reg] = []
        if stream.plan.store == "direct":
            for out in stream.outputs:
                column = stream.column_address(out.tile, out.first)
                self.targets.append(out.row(self.index, column, stream.plan))
        self._numbers: dict[RowNumbers, Reg] = {}

    def pieces(self) -> Iterator[Piece]:
        """Go over this thread's pieces of the row: the iterator of a Python loop.

        Python unrolls the pass; for a row of more than 8 pieces that is not held, it records a loop of PTX
        with ``at_once`` pieces in a pass, whose loads are guarded. All threads of the team execute a pass
        equally often.
        """
        stream, plan = self.stream, self.stream.plan
        if not plan.looped:
            for step in range(plan.steps):
                yield Piece(self, step, stream.guards[step])
            return
        every = plan.threads * plan.at_once
        full = isinstance(stream.local, int) and stream.local % every == 0
        # All threads of the team go through the loop equally often, so that a pass may have shuffles.
        with ptx.for_(0, stream.local, every) as past:
            for step in range(plan.at_once):
                here = past + stream.team.lane + step * plan.threads if step else past + stream.team.lane
                yield Piece(self, step, None if full else here < stream.local, past)

    def derive(
        self, compute: Callable[[Piece], Sequence[Reg]], *, keep: bool = True
    ) -> Callable[[Piece], Sequence[Reg]]:
        """Return a function that computes values of a piece once: rows that are held keep them in registers.

        Args:
            compute: a function of a piece that records the computation and returns f32 registers.
            keep: False computes them again in each pass, with fewer registers.
        """
        found: dict[int, Sequence[Reg]] = {}
        if not (keep and self.stream.plan.held):
            return compute

        def once(piece: Piece) -> Sequence[Reg]:
            if piece.step not in found:
                found[piece.step] = compute(piece)
            return found[piece.step]

        return once

    def take(self, numbers: RowNumbers) -> None:
        """Load the row's number, or take it from the register where it waits and load the next one."""
        stream = self.stream
        found = reg.scalar(numbers.tile.dtype)
        if numbers.next is None:
            numbers.load(stream, self.block, found)
        else:
            found.set(numbers.next)
            block = self.block + stream.step
            numbers.load(stream, block, numbers.next, block < stream.blocks)
        self._numbers[numbers] = found

    def number(self, numbers: RowNumbers) -> Reg:
        """Return the row's number, in all threads of the team."""
        return self._numbers[numbers]

    def store(self, tile: TileParam, value: Reg) -> None:
        """Store the row's number of a vector with one number for each row, by one thread of the team."""
        team = self.stream.team
        self.stream.check_whole("a number of each row")
        first = team.lane == 0
        if isinstance(team.rank, Reg):
            first &= team.rank == 0
        if self.inside is not None:
            first &= self.inside
        ptx.store(tile.at(self.index), value, space="global", pred=first)


class Piece:
    """What a thread has of a row in one step: ``vector`` neighboring elements.

    Attributes:
        step: number of the step; in a loop of PTX, that within the pass.
        inside: predicate of the threads whose piece lies in the row; None: all.
    """

    def __init__(self, row: Row, step: int, inside: Reg | None, past: Reg | None = None) -> None:
        self.row = row
        self.step = step
        self.inside = inside
        #: In a loop, pieces from the thread's first piece to that of this pass.
        self.past = past
        self._values: dict[int, list[Reg]] = {}

    def at(self, base: Reg, dtype: ScalarType) -> Addr:
        """Return the address of this piece in a row in which the thread's first piece is at ``base``."""
        plan = self.row.stream.plan
        size = plan.vector * dtype.nbytes
        if self.past is not None:
            moved = reg.scalar(base.type)
            if base.type is u64:
                ptx.inst.mad.wide.u32(moved, self.past, size, base)
            else:
                ptx.inst.mad.lo.u32(moved, self.past, size, base)
            base = moved
        return ptx.addr(base, self.step * plan.threads * size)

    def words(self, number: int) -> Words:
        """Return the words of this piece of input ``number``."""
        if self.row.words:
            return self.row.words[number][self.step]
        return self.row.stream.source.load(self, number)

    def values(self, number: int) -> list[Reg]:
        """Return the elements of this piece of input ``number`` as f32: :func:`.row_values.to_f32`."""
        if number not in self._values:
            self._values[number] = to_f32(self.words(number), self.row.stream.inputs[number].dtype)
        return self._values[number]

    def vector(self, vector: RowVector) -> list[Reg]:
        """Return the elements of a vector at the columns of this piece as f32."""
        if vector.kept is not None:
            return to_f32(vector.kept[self.step], vector.dtype)
        plan = self.row.stream.plan
        words = load_words(
            self.at(vector.place, vector.dtype), plan.vector, vector.dtype, inside=self.inside, nc=True
        )
        return to_f32(words, vector.dtype)

    def keep(self, values: Sequence[Reg], other: float = 0.0) -> Sequence[Reg]:
        """Return the values where the piece lies in the row, else ``other``. Records ``selp``, or none."""
        if self.inside is None:
            return values
        found = [reg.scalar(f32) for _ in values]
        for out, value in zip(found, values, strict=True):
            ptx.inst.selp.f32(out, value, other, self.inside)
        return found

    def column(self) -> Reg:
        """Return the number of the piece's first column, u32."""
        stream = self.row.stream
        stream.check_whole("the number of a column")
        plan = stream.plan
        first = stream.team.lane * plan.vector + self.step * plan.threads * plan.vector
        if self.past is not None:
            first += self.past * plan.vector
        return first + stream.column if isinstance(stream.column, Reg) else first

    def store(self, number: int, values: Sequence[Reg]) -> None:
        """Round f32 values to the type of output ``number`` and store them: :func:`.row_values.from_f32`."""
        self.store_words(number, from_f32(values, self.row.stream.outputs[number].dtype))

    def store_words(self, number: int, words: Words) -> None:
        """Store words in the row of output ``number``."""
        self.row.stream.source.store(self, number, words)
