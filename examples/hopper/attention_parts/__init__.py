"""The loop of a consumer warpgroup that goes through each block of keys in two parts.

Owns the order of products, softmax and slots.  Each part has scores and exponentials of its own, so that the
products of one part run under the softmax of the other, and a warpgroup never waits for scores alone::

    softmax of part 0 of block j          <- O += P_1 V_(j-1), S_1 = Q K_j^T
    wait; start O += P_0 V_j, S_0 = Q K_(j+1)^T
    softmax of part 1 of block j          <- those two
    wait; start O += P_1 V_j, S_1 = Q K_(j+1)^T

The rules that make it correct:

* The wait stands behind the softmax and in front of everything that writes what products read or write: P, O
  (:class:`pyptx.kit.GuardedSoftmax` scales it there) and the scores of the part.
* K of block j is free when the scores of its part 1 are complete, which the wait in part 0 says; the same
  wait says that V of block j - 1 is free.
* A warpgroup leaves out the blocks that none of its rows sees, but waits for their slots, frees them, and
  takes its turns.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

from attention_tuning import middle

from pyptx import kit, pred, ptx, reg, s32, u32

__all__ = ["PartedKeys"]

_SPAN = 128  # bytes of a row of a slab


class PartedKeys:
    """What a consumer warpgroup keeps between blocks. The constructor records descriptors and a few ``mov``.

    Args:
        o: accumulator of O.
        softmax: a :class:`pyptx.kit.GuardedSoftmax`.
        load: the :class:`pyptx.kit.HeadOperand` of K and V.
        k, v: stages and ring of each, as pairs.
        turned: the :class:`pyptx.kit.TransposedOperand` whose stages are those of V, in 8 bits, or None.
        mask: bounds of the mask, left and right.
        leader: predicate of the lane that arrives.
        turns: numbers of the named barriers of this warpgroup's turn and the next one's, or None.
    """

    def __init__(self, o, softmax, load, k, v, *, turned, mask, leader, turns):
        depth, block = 32 // load.dtype.nbytes, load.rows
        self.o, self.softmax, self.load, self.block, self.leader = o, softmax, load, block, leader
        self.dtype, self.turns, self.turned = load.dtype, turns, turned
        (tile_k, k_ring), (tile_v, v_ring) = k, v
        rows_k = load.descriptors(tile_k[0])
        self.rows_v = turned.descriptors(tile_v[0]) if turned else load.descriptors(tile_v[0], "MN")
        self.next_k, self.this_k, self.this_v = k_ring.consumer(), k_ring.consumer(), v_ring.consumer()
        self.to_empty = v_ring.empty.offset - v_ring.full.offset
        self.last_v = reg.scalar(u32)  # address of the barriers of the block before
        # Whether a block of this tile stands before; the same in the lane that arrives alone.
        self.started, self.frees = reg.scalar(pred), reg.scalar(pred)
        self.parts = []
        first = middle(block, depth)
        for begin, end in ((0, first), (first, block)):
            part = SimpleNamespace(begin=begin, s=ptx.wgmma.accumulator(n=end - begin))
            part.blocks = kit.KeyBlocks(end - begin, *mask)
            part.steps = slice(begin // depth, end // depth)
            part.p = [ptx.wgmma.fragment(load.dtype) for _ in range((end - begin) // depth)]
            keys = ptx.wgmma.advance(rows_k.first, begin * _SPAN) if begin else rows_k.first
            part.k = kit.StageDescriptors(keys, load.nbytes, rows_k.offsets)
            self.parts.append(part)

    @contextmanager
    def _turn(self):
        """Wait for this warpgroup's turn to start products, and give it to the next one behind."""
        if self.turns:
            ptx.bar.sync(self.turns[0], 256)
        yield
        if self.turns:
            ptx.bar.arrive(self.turns[1], 256)

    def _start_scores(self, part, q, slot):
        for i, (a, b) in enumerate(zip(q, part.k.steps(slot.index), strict=True)):
            ptx.wgmma.mma_async(part.s, a, b, atype=self.dtype, scale_d=i > 0)

    def _settle(self, number):
        """Wait for all products, and free the slots that they have read."""
        ptx.wgmma.wait_group(0)
        if number == 0:
            self.this_k.release(pred=self.leader)
            ptx.mbarrier.arrive(ptx.addr(self.last_v, self.to_empty), pred=self.frees)

    def _step(self, tile, q, key, *, masked, last):
        """Go through the block at ``key``; unless it is the last one, start the scores of the next."""
        v_slot = k_slot = None
        for number, part in enumerate(self.parts):
            if masked:
                part.blocks.mask(part.s, tile.places, key + part.begin, tile.sequence.keys, tile.column)
            # ptxas moves no exponentials over a branch, so they stay behind the products of the other part.
            # This one is always taken, but ptxas does not know how many stages there are.
            always = self.this_v.stage < self.this_v.ring.stages
            started = always & self.started if self.turned else self.started
            self.softmax.part(
                part.s,
                part.p,
                self.o,
                dtype=self.dtype,
                masked=masked,
                known=always if number or masked else started,
                settle=partial(self._settle, number),
            )
            if number == 0:
                v_slot = self.this_v.acquire()
                k_slot = None if last else self.next_k.acquire()
            with self._turn():
                ptx.wgmma.fence()
                for a, b in zip(part.p, self.rows_v.steps(v_slot.index)[part.steps], strict=True):
                    ptx.wgmma.mma_async(self.o, a, b, trans_b=self.turned is None)
                if not last:
                    self._start_scores(part, q, k_slot)
                ptx.wgmma.commit_group()
        self.last_v.set(v_slot.full.base)
        ptx.inst.setp.eq.u32(self.started, 0, 0)
        ptx.inst.or_.pred(self.frees, self.leader, self.leader)
        self.this_v.advance()
        if not last:
            self.next_k.advance()

    def leave_out(self, blocks):
        """Go past some blocks, a number or a register, which this warpgroup does not read."""
        with ptx.for_(0, blocks, type=s32):
            for side in (self.next_k, self.this_v):
                side.acquire()
            self.next_k.advance()
            for side in (self.this_k, self.this_v):
                side.release(pred=self.leader)
            for _ in self.parts:
                with self._turn():
                    pass

    def run(self, tile, q, mine, *, cut):
        """Go through the blocks of a tile; then no product runs, and O and the sums are complete.

        Args:
            tile: ``blocks`` of the tile, ``places`` and ``column`` of this thread's rows and elements, and
                its ``sequence``.
            q: descriptors of Q, or its fragments.
            mine: the blocks that rows of this warpgroup see; :meth:`leave_out` has gone past those behind.
            cut: whether masks cut blocks.
        """
        block, left = self.block, self.parts[0].blocks.left
        key, low = reg.scalar(s32), tile.blocks.first * block
        key.set(mine.end * block - block)
        self.softmax.reset()
        for value in self.o:
            ptx.inst.mov.f32(value, 0.0)
        for flag in (self.started, self.frees):
            ptx.inst.setp.ne.u32(flag, 0, 0)
        slot = self.next_k.acquire()
        ptx.wgmma.fence()
        for part in self.parts:
            self._start_scores(part, q, slot)
            ptx.wgmma.commit_group()
        self.next_k.advance()
        ptx.wgmma.wait_group(1)
        # Blocks but the last: cut at the top, whole, cut at the bottom.
        edges = [(mine.whole_end * block, True)] if cut else []
        edges += [(low if left is None else mine.whole_first * block, False)]
        edges += [(low, True)] if left is not None else []

        def more(bound):
            return (key >= bound) & (key > low)

        for bound, masked in edges:
            with ptx.while_(partial(more, bound)):
                self._step(tile, q, key, masked=masked, last=False)
                key.set(key - block)
        whole = tile.blocks.first < mine.whole_end
        if left is not None:
            whole &= tile.blocks.first >= mine.whole_first
        if not cut or isinstance(whole, bool):
            self._step(tile, q, key, masked=cut and not whole, last=True)
        else:
            with ptx.if_(whole):
                self._step(tile, q, key, masked=False, last=True)
            with ptx.else_():
                self._step(tile, q, key, masked=True, last=True)
        ptx.wgmma.wait_group(0)
        ptx.mbarrier.arrive(ptx.addr(self.last_v, self.to_empty), pred=self.leader)
