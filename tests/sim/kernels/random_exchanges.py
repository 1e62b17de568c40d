"""What the threads of random kernels do together, so that the outcome does not depend on any schedule."""

from __future__ import annotations

import random

__all__ = ["SUMS", "Talk"]

#: Words that all threads share, in global memory and in each CTA's shared memory.
SUMS = 256
#: What lanes do together, wherever they are, and where all threads of a CTA are.
EVERYWHERE = [
    "shuffle",
    "ballot",
    "vote",
    "redux",
    "sync",
    "slots",
    "shared sum",
    "global sum",
    "guarded",
    "lock",
    "bell",
]
AT_ONE_PLACE = ["barrier", "exchange", "flag", "some warps", "loop", "exit"]


class Together:
    """What all functions of a module know of its launch."""

    def __init__(self, chance: random.Random, block: tuple[int, int, int], ctas: int) -> None:
        self.chance, self.block, self.grid = chance, block, (ctas, 1, 1)
        self.threads = block[0] * block[1] * block[2]
        #: Flags, locks and cells that snippets have taken, each of their own.
        self.cells = 0

    def cell(self) -> int:
        """Offset of a word that nobody else uses (or a later one, of many, again)."""
        self.cells += 1
        return 4 * (SUMS // 2 + (self.cells - 1) % (SUMS // 2))


class Talk:
    """The part of a function's writer that lets lanes do something together."""

    module: Together
    chance: random.Random
    kind: str

    def emit(self, *lines: str) -> None:
        raise NotImplementedError

    def label(self, name: str) -> None:
        raise NotImplementedError

    def fresh(self, prefix: str, kind: str = "") -> str:
        raise NotImplementedError

    def one_of(self, kind: str) -> str:
        raise NotImplementedError

    def guard(self, odds: float = 0.25) -> str:
        raise NotImplementedError

    def body(self, depth: int, count: int, *, mask: str = "", uniform: bool = False) -> None:
        raise NotImplementedError

    def together(self, mask: str, uniform: bool, depth: int) -> None:
        """Lanes of ``mask``, all there are here, do something together."""
        w, v, flag = self.one_of("W"), self.one_of("W"), self.one_of("P")
        entry = self.kind == "entry"
        what = self.chance.choice(EVERYWHERE + (AT_ONE_PLACE if uniform else []))
        if what == "shuffle":
            self.emit(f"popc.b32 one, {mask}", f"rem.u32 one, {v}, one", "add.u32 one, one, 1",
                      f"fns.b32 one, {mask}, 0, one", f"shfl.sync.idx.b32 {w}, {v}, one, 31, {mask}")  # fmt: skip
        elif what == "ballot":
            self.emit(f"vote.sync.ballot.b32 {w}, {flag}, {mask}")
        elif what == "vote":
            self.emit(
                f"vote.sync.{self.chance.choice(['any', 'all', 'uni'])}.pred {flag}, {self.one_of('P')}, {mask}"
            )
        elif what == "redux":
            self.emit(f"redux.sync.{self.chance.choice(['add', 'max', 'min'])}.u32 {w}, {v}, {mask}")
        elif what == "sync":
            self.emit(f"bar.warp.sync {mask}")
        elif what == "slots":
            # Through shared memory: the slot of the lowest lane.
            self.emit(f"st.shared.u32 [slot+4], {v}", f"bar.warp.sync {mask}", f"bfind.u32 one, {mask}", "sub.u32 one, one, lane",
                      "mad.lo.s32 one, one, 16, slot", f"ld.shared.u32 {w}, [one+4]", f"bar.warp.sync {mask}")  # fmt: skip
        elif what == "shared sum":
            # Words that are added to, then words that keep the largest.
            word = self.chance.randrange(16)
            self.emit("mov.u32 one, cells", f"and.b32 two, {v}, 255",
                      f"{self.guard()}red.shared.{'add' if word < 8 else 'max'}.u32 [one+{4 * word}], two")  # fmt: skip
        elif what == "global sum" and entry:
            self.emit(f"{self.guard()}red.global.add.u32 [total+{4 * self.chance.randrange(8)}], {v}")
        elif what == "guarded":
            # A guard instead of a branch: both halves of the lanes, one after the other.
            inner = self.fresh("m", "b32")
            self.emit(f"vote.sync.ballot.b32 {inner}, {flag}, {mask}", f"@{flag} redux.sync.add.u32 {w}, {v}, {inner}",
                      f"@{flag} bar.warp.sync {inner}", f"xor.b32 {inner}, {inner}, {mask}",
                      f"@!{flag} shfl.sync.idx.b32 {w}, {v}, lane, 31, {inner}", f"@!{flag} bar.warp.sync {inner}")  # fmt: skip
        elif what == "lock":
            self.lock(v)
        elif what == "bell":
            self.bell_of_a_lane(mask)
        elif what == "barrier":
            self.emit("bar.sync 0")
        elif what == "exchange":
            step, threads = self.chance.choice([1, 5, 32]), self.module.threads
            self.emit(f"st.shared.u32 [slot+8], {v}", "bar.sync 0", f"add.u32 one, lin, {step}", f"rem.u32 one, one, {threads}",
                      "mov.u32 two, own", "mad.lo.u32 one, one, 16, two", f"ld.shared.u32 {w}, [one+8]", "barrier.sync 0")  # fmt: skip
        elif what == "flag":
            self.flag_of_a_thread()
        elif what == "some warps":
            self.some_warps()
        elif what == "loop" and depth:
            # A loop that all threads make alike.
            k, q, top = self.fresh("k", "b32"), self.fresh("q", "pred"), self.fresh("TOP")
            self.emit(f"mov.u32 {k}, 0")
            self.label(top)
            self.body(depth - 1, 2, mask=mask, uniform=True)
            self.emit(f"add.u32 {k}, {k}, 1", f"setp.lt.u32 {q}, {k}, 2", f"@{q} bra {top}")
        elif what == "exit" and entry:
            # Some lanes end; the first of each warp stays.
            q = self.fresh("q", "pred")
            self.emit(f"setp.ne.u32 {q}, lane, 0", f"and.pred {q}, {q}, {flag}", f"not.pred again, {q}",
                      f"vote.sync.ballot.b32 {mask}, again, {mask}", f"@{q} exit")  # fmt: skip

    def lock(self, v: str) -> None:
        """Lanes take a lock in turn, within a warp as well, and add to a word that no atomic guards."""
        cell, top, q = self.module.cell(), self.fresh("SPIN"), self.fresh("q", "pred")
        other = self.module.cell()
        self.emit("mov.u32 one, cells")
        if self.chance.random() < 0.5:
            self.label(top)
            self.emit(f"atom.shared.cas.b32 two, [one+{cell}], 0, 1", f"setp.ne.u32 {q}, two, 0", f"@{q} bra {top}",
                      f"ld.volatile.shared.u32 two, [one+{other}]", f"mad.lo.u32 two, {v}, 3, two",
                      f"st.volatile.shared.u32 [one+{other}], two", "membar.cta", f"atom.shared.exch.b32 two, [one+{cell}], 0")  # fmt: skip
        else:
            out = self.fresh("OUT")
            done = self.fresh("q", "pred")
            self.emit(f"setp.ne.u32 {done}, 0, 0")
            self.label(top)
            self.emit(f"atom.shared.cas.b32 two, [one+{cell}], 0, 1", f"setp.ne.u32 {q}, two, 0", f"@{q} bra {out}",
                      f"ld.volatile.shared.u32 two, [one+{other}]", f"mad.lo.u32 two, {v}, 5, two",
                      f"st.volatile.shared.u32 [one+{other}], two", "membar.cta", f"atom.shared.exch.b32 two, [one+{cell}], 0",
                      f"setp.eq.u32 {done}, 0, 0")  # fmt: skip
            self.label(out)
            self.emit(f"@!{done} bra {top}")

    def bell_of_a_lane(self, mask: str) -> None:
        """The lowest lane sets a flag that the others of its warp spin on."""
        q, spin, ring, join = (
            self.fresh("q", "pred"),
            self.fresh("SPIN"),
            self.fresh("RING"),
            self.fresh("JOIN"),
        )
        self.emit("st.shared.u32 [bell+8], 0", f"bar.warp.sync {mask}", f"bfind.u32 one, {mask}", f"setp.eq.u32 {q}, one, lane",
                  "sub.u32 one, one, lane", "mad.lo.s32 one, one, 16, bell", f"@{q} bra {ring}")  # fmt: skip
        self.label(spin)
        self.emit(
            "ld.volatile.shared.u32 two, [one+8]",
            f"setp.eq.u32 {q}, two, 0",
            f"@{q} bra {spin}",
            f"bra {join}",
        )
        self.label(ring)
        self.emit("st.volatile.shared.u32 [one+8], 1")
        self.label(join)
        self.emit(f"bar.warp.sync {mask}")

    def flag_of_a_thread(self) -> None:
        """A thread of the CTA, or of another CTA, sets a flag that everybody spins on."""
        cell, q = self.module.cell(), self.fresh("q", "pred")
        spin = self.fresh("SPIN")
        if self.kind == "entry" and self.chance.random() < 0.5:
            last = self.module.grid[0] * self.module.threads - self.module.threads
            place, space = f"[total+{cell}]", "global"
            self.emit(f"setp.eq.u32 {q}, gl, {self.chance.choice([0, last])}")
        else:
            place, space = f"[one+{cell}]", "shared"
            self.emit(f"setp.eq.u32 {q}, lin, 0", "mov.u32 one, cells")
        # Large numbers only, and never zero: cells are shared with other snippets.
        self.emit(f"@{q} atom.{space}.or.b32 two, {place}, 0x40000000")
        self.label(spin)
        self.emit(f"ld.volatile.{space}.u32 two, {place}", f"setp.eq.u32 {q}, two, 0", f"@{q} bra {spin}")

    def some_warps(self) -> None:
        """Producer and consumer warps at a barrier with a count."""
        if self.module.threads <= 32:
            return
        q, number = self.fresh("q", "pred"), self.chance.randrange(1, 4)
        out, take, v, w = self.fresh("OUT"), self.fresh("TAKE"), self.one_of("W"), self.one_of("W")
        self.emit("bar.sync 0", "shr.u32 one, lin, 5", f"setp.gt.u32 {q}, one, 1", f"@{q} bra {out}", f"setp.eq.u32 {q}, one, 1",
                  f"@{q} bra {take}", f"st.shared.u32 [slot+12], {v}", "membar.cta", f"bar.arrive {number}, 64", f"bra {out}")  # fmt: skip
        self.label(take)
        self.emit(
            f"bar.sync {number}, 64",
            "mov.u32 one, own",
            "mad.lo.u32 one, lane, 16, one",
            f"ld.shared.u32 {w}, [one+12]",
        )
        self.label(out)
        self.emit("bar.sync 0")
