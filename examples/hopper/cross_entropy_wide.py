"""Cross-entropy of rows that are wider than shared memory: one CTA on each SM, and no cluster.

A row of 128,256 logits in bf16 has 250 KiB, and a CTA 227 KiB of shared memory.  So a ring holds most of the
row, and its threads' registers the first parts; the CTA is persistent, and its rows follow each other in the
ring::

    parts          0 1 2 3 | 4 5 6 ... 15      16 of a row, 16 KiB each; 14 stages
    first pass     r r r r   s s s     s       maximum and sum; r: registers keep the part, and the stage is
                                               handed back, s: it stays in shared memory
    second pass    r r r r   s s s     s       exponentials, stores; the stages s are handed back, too
    copies         the next part, of this row or the next one, into each stage that is handed back

Stages are handed back in the order in which they were filled, so it is a ring like any other.  The copies of
a row overlap the second pass over the row before it; while the first pass runs, those of the registers'
stages are under way.  SMs are in different phases, and together keep memory busy.

The threads compute each exponential twice, relative to the maximum of a thread's elements so far and then
to that of the row, as ``kit.row_exponentials`` does for rows that no registers hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyptx import (
    Scalar,
    ScalarType,
    SpecError,
    Tile,
    bf16,
    f32,
    kernel,
    kit,
    ptx,
    reg,
    s64,
    smem,
    u32,
    u64,
)

LN_2 = 0.6931471805599453
#: The lowest f32: the maximum of a thread without elements.
LOWEST = -3.4028234663852886e38
#: Bytes of shared memory for the ring: those of a CTA without barriers and partial sums.
SHARED = 225 * 1024
#: Bytes of a row that the registers of a CTA keep.
MOST_KEPT = 64 * 1024
PIECE = 16


@dataclass(frozen=True)
class Sizes:
    """How a row lies in stages.

    Attributes:
        V, dtype: of a row.
        threads: threads that compute; 32 more copy.
        pieces: pieces of 16 bytes that each of them has in a stage.
        stages: stages of the ring.
        held: stages of a row that registers keep.
    """

    V: int
    dtype: ScalarType
    threads: int
    pieces: int
    stages: int
    held: int

    @staticmethod
    def make(V, dtype, *, threads=512, pieces=2, stages=None, held=None):
        """Choose what is None: as many stages as fit, and two to keep besides those that must be.

        Raises:
            SpecError: rows that are no multiple of 16 bytes, or that stages and registers have no room for.
        """
        each = threads * pieces * PIECE
        count = -(-V * dtype.nbytes // each)
        stages = min(SHARED // each, 2 * count) if stages is None else stages
        least = max(0, count - stages)
        held = min(count - 1, least + 2, MOST_KEPT // each) if held is None else held
        if V * dtype.nbytes % PIECE or not least <= held < count or held * each > MOST_KEPT:
            raise SpecError(
                f"rows of {V * dtype.nbytes} bytes in {count} parts of {each}, {held} in registers: expected "
                f"a multiple of {PIECE} bytes, and {least} or more, which have {MOST_KEPT} bytes"
            )
        return Sizes(V, dtype, threads, pieces, stages, held)

    @property
    def each(self):
        """Bytes of a stage."""
        return self.threads * self.pieces * PIECE

    @property
    def count(self):
        """Parts of a row."""
        return -(-self.V * self.dtype.nbytes // self.each)

    @property
    def last(self):
        """Bytes of the last part."""
        return self.V * self.dtype.nbytes - (self.count - 1) * self.each

    @property
    def vector(self):
        """Elements of a piece."""
        return PIECE // self.dtype.nbytes


def fits(V, dtype):
    """Return whether rows are too wide for shared memory, and this design has room for them."""
    if V * dtype.nbytes <= SHARED:
        return False
    try:
        Sizes.make(V, dtype)
    except SpecError:
        return False
    return True


class Team(kit.RowTeam):
    """The threads that compute; the CTA has a warp besides, which copies."""

    def sync(self):
        ptx.bar.sync(1, self.size)


class Passes:
    """Both passes of one thread over a row."""

    def __init__(self, sizes, stage, ring, lane):
        self.sizes, self.stage, self.ring, self.lane = sizes, stage, ring, lane
        self.leader = ptx.warp.elect()
        #: The sides of the ring: where the first pass is, and the second, which hands stages back.
        self.ahead, self.behind = ring.consumer(), ring.consumer()

    def first(self, hand_back):
        """Wait for all parts of a row; return maximum and sum of exponentials, and what registers keep.

        Args:
            hand_back: whether no second pass will read the other parts.
        """
        sizes = self.sizes
        self.maximum, self.total = reg.scalar(f32, init=LOWEST), reg.scalar(f32, init=0.0)
        kept = []
        for _ in range(sizes.held):
            words = self.load(self.ahead.acquire())
            self.hand_back()
            self.ahead.advance()
            self.add(words)
            kept.append(words)

        def step(last=False):
            words = self.load(self.ahead.acquire(), last)
            if hand_back:
                self.hand_back()
            self.ahead.advance()
            self.add(words)

        with ptx.for_(sizes.held, sizes.count - 1):
            step()
        step(last=True)
        return kept

    def second(self, kept, target, change):
        """Store what ``change`` makes of the words of each piece, at the row that begins at ``target``."""
        sizes, place = self.sizes, reg.scalar(u64)
        ptx.inst.mad.wide.u32(place, self.lane, PIECE, target)

        def store(words, last=False):
            for piece, some in enumerate(words):
                at, inside = ptx.addr(place, piece * sizes.threads * PIECE), self.inside(piece, last)
                kit.store_words(at, change(some), nbytes=PIECE, inside=inside)

        def step(last=False):
            words = self.load(self.ring.slot(self.behind.stage), last)
            self.hand_back()
            store(words, last)

        for words in kept:
            store(words)
            place += sizes.each
        with ptx.for_(sizes.held, sizes.count - 1):
            step()
            place += sizes.each
        step(last=True)

    def inside(self, piece, last):
        """Return the predicate of the threads that have a piece in a part of the row; None: all."""
        sizes = self.sizes
        left = (sizes.last // PIECE if last else sizes.each // PIECE) - piece * sizes.threads
        return None if left >= sizes.threads else self.lane < left

    def load(self, slot, last=False):
        """Return the words of this thread's pieces in a stage."""
        sizes, place = self.sizes, reg.scalar(u32)
        ptx.inst.mad.lo.u32(place, slot.index, sizes.each, self.stage.addr)
        ptx.inst.mad.lo.u32(place, self.lane, PIECE, place)
        return [
            kit.load_words(
                ptx.addr(place, piece * sizes.threads * PIECE),
                sizes.vector,
                sizes.dtype,
                space="shared",
                inside=self.inside(piece, last),
                fill=float("-inf"),
            )
            for piece in range(sizes.pieces)
            if not last or piece * sizes.threads * PIECE < sizes.last
        ]

    def hand_back(self):
        """Hand back the oldest stage, which this thread has read."""
        ptx.fence.proxy_async("shared::cta")
        ptx.warp.sync()
        self.behind.release(pred=self.leader)

    def add(self, words):
        """Add the exponentials of some pieces to the sum, relative to a maximum that may grow."""
        values = [x for some in words for x in kit.to_f32(some, self.sizes.dtype)]
        tops = list(values)
        while len(tops) > 1:
            tops = [ptx.max(*pair) for pair in zip(tops[::2], tops[1::2], strict=True)]
        new = ptx.max(self.maximum, tops[0])
        sums = [self.total * kit.exponential(self.maximum, new)]
        for number, x in enumerate(values):
            e = kit.exponential(x, new)
            if number < 3:
                sums.append(e)
            else:
                sums[number % 4] += e
        self.total.set((sums[0] + sums[1]) + (sums[2] + sums[3]))
        self.maximum.set(new)


def build_wide(
    V,
    *,
    dtype=bf16,
    gradient="in place",
    ignore_index=-100,
    target_dtype=s64,
    ctas=132,
    **tuning,
):
    """Build the kernel as ``cross_entropy.build_cross_entropy`` does, for rows of a multiple of 16 bytes.

    Args:
        V, dtype, gradient, ignore_index, target_dtype: as there.
        ctas: number of CTAs, one on each SM.
        tuning: options of :meth:`Sizes.make`.
    """
    sizes = Sizes.make(V, dtype, **tuning)
    threads = sizes.threads
    in_place = gradient == "in place"

    def copy(X, ring, stage, first):
        """Copy the rows of this CTA into the ring. In one thread."""
        producer = ring.producer()

        def part(nbytes):
            slot = producer.acquire()
            ptx.mbarrier.arrive_expect_tx(slot.full, nbytes)
            place = reg.scalar(u32)
            ptx.inst.mad.lo.u32(place, slot.index, sizes.each, stage.addr)
            ptx.cp.async_.bulk.load(ptx.addr(place), source, nbytes, slot.full)
            producer.advance()

        with ptx.for_(first, X.extent(0), ctas) as row:
            source = X.at(row, 0).base
            with ptx.for_(0, sizes.count - 1):
                part(sizes.each)
                source += sizes.each
            part(sizes.last)

    def entropy(X, target, factor, out, loss, lse):
        warp, first = kit.warp_index(), ptx.special.ctaid.x()
        stage = smem.alloc(sizes.each, align=128, stages=sizes.stages, name="logits")
        ring = kit.Ring(sizes.stages, consumers=threads // 32)
        with kit.single_thread(warp, 0):
            ring.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with kit.single_thread(warp, threads // 32):
            copy(X, ring, stage, first)
        with kit.thread_group(warp, 0, threads):
            team = Team(threads, most=2)
            passes = Passes(sizes, stage, ring, team.lane)
            with ptx.for_(first, X.extent(0), ctas) as row:
                one_row(team, passes, row, X, target, factor, out, loss, lse)
        ptx.ret()

    def one_row(team, passes, row, X, target, factor, out, loss, lse):
        wanted = ptx.load(target_dtype, target.at(row), space="global", nc=True)
        wanted = ptx.cvt(wanted, u32) if target_dtype is s64 else wanted.view(u32)
        counts, known = wanted != ignore_index & 0xFFFFFFFF, wanted < V
        # The thread that has the target's piece takes its logit, and stores its gradient last.
        mine = known & ((wanted // sizes.vector) % threads == team.lane)
        (logit,) = kit.to_f32(kit.load_words(X.at(row, wanted), 1, dtype, inside=mine), dtype)
        kept = passes.first(gradient is None)
        highest = team.reduce(passes.maximum, "max")
        total = passes.total * kit.exponential(passes.maximum, highest)
        total, found = team.reduce([total, logit], "add")
        logarithm = reg.scalar(f32)
        ptx.inst.lg2.approx.ftz.f32(logarithm, total)
        ptx.inst.fma.rn.f32(logarithm, logarithm, LN_2, highest)
        value = logarithm - found
        ptx.inst.selp.f32(value, value, float("nan"), known)
        ptx.inst.selp.f32(value, value, 0.0, counts)
        with ptx.if_(team.lane == 0):
            ptx.store(lse.at(row), logarithm, space="global")
            ptx.store(loss.at(row), value, space="global")
        if gradient is None:
            return
        scale = reg.scalar(f32)
        ptx.inst.rcp.approx.ftz.f32(scale, total)
        scale *= factor

        def change(words):
            """Return the gradient of a piece, but for the target; zeros where the row does not count."""
            results = kit.from_f32(
                [kit.exponential(x, highest) * scale for x in kit.to_f32(words, dtype)], dtype
            )
            for word in results:
                ptx.inst.selp.b32(word, word, 0, counts)
            return results

        passes.second(kept, out.at(row, 0).base, change)
        words = kit.from_f32([kit.exponential(logit, highest) * scale - factor], dtype)
        place = out.at(row, wanted)
        kit.store_words(place, words, nbytes=dtype.nbytes, inside=mine & counts)

    numbers, rows = (Tile("M", f32), Tile("M", f32)), Tile("M", V, dtype)
    given = (rows, Tile("M", target_dtype))
    options = {
        "in_specs": given if gradient is None else (*given, Scalar(f32)),
        "out_specs": (rows, *numbers) if gradient == "output" else numbers,
        "grid": (ctas,),
        "block": (threads + 32,),
        "arch": "sm_90a",
        "extern_smem": True,
        "min_ctas_per_sm": 1,
        "name": "cross_entropy_wide",
    }
    if gradient is None:
        return kernel(**options)(lambda X, target, loss, lse: entropy(X, target, None, None, loss, lse))
    if in_place:
        return kernel(**options)(
            lambda X, target, factor, loss, lse: entropy(X, target, factor, X, loss, lse)
        )
    return kernel(**options)(
        lambda X, target, factor, dX, loss, lse: entropy(X, target, factor, dX, loss, lse)
    )
