"""Random kernels as PTX text, from a seed: every program ends, and its stores do not depend on any schedule.

``author(seed)`` writes kernels whose threads know nothing of each other: structured code, graphs of blocks that jump
anywhere, indexed branches, calls of every kind, exits.  ``author(seed, talk=True)`` writes kernels whose threads
talk: barriers where all come, collectives of exactly the lanes that are there, sums, locks and flags.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.sim.kernels.random_exchanges import SUMS, Talk, Together

__all__ = ["BLOCKS", "NUMBERS", "SHAPES", "STRIDE", "Text", "author"]

WORDS, LONGS, SHORTS, FLAGS = 5, 2, 2, 4
#: Bytes of the output of a thread.
STRIDE = 128
BLOCKS = [
    (1, 1, 1),
    (31, 1, 1),
    (32, 1, 1),
    (33, 1, 1),
    (64, 1, 1),
    (96, 1, 1),
    (100, 1, 1),
    (128, 1, 1),
    (7, 5, 3),
]

#: Instructions by the registers that they use: W word, L long, H short, P predicate, # an immediate.
SHAPES = {
    "W W W": ["add.u32", "add.sat.s32", "sub.s32", "sub.sat.s32", "mul.lo.u32", "mul.hi.s32", "mul.hi.u32", "min.s32",
              "max.u32", "and.b32", "or.b32", "xor.b32"],
    "W W #": ["add.u32", "sub.u32", "mul.lo.s32", "shl.b32", "shr.u32", "shr.s32", "div.s32", "rem.u32", "xor.b32"],
    "W W": ["not.b32", "neg.s32", "mov.u32"],
    "W #": ["mov.b32"],
    "W W W W": ["mad.lo.s32", "mad.hi.u32"],
    "W W W P": ["selp.u32"],
    "L L L": ["add.s64", "sub.u64", "mul.lo.s64", "mul.hi.u64", "min.u64", "max.s64", "xor.b64"],
    "L W W": ["mul.wide.s32", "mul.wide.u32"],
    "L W W L": ["mad.wide.u32"],
    "L L W": ["shl.b64", "shr.s64"],
    "L L L P": ["selp.b64"],
    "H H H": ["add.s16", "mul.lo.u16", "mul.hi.s16", "and.b16", "max.s16"],
    "W H H": ["mul.wide.s16"],
    "L W": ["cvt.s64.s32", "cvt.u64.u32", "cvt.s64.s8", "cvt.u64.u16"],
    "W L": ["cvt.u32.u64", "cvt.sat.s32.s64", "cvt.s32.s16"],
    "H W": ["cvt.u16.u32", "cvt.sat.u8.s32", "cvt.s16.s8"],
    "P W W": ["setp.lt.s32", "setp.ge.u32", "setp.eq.b32", "setp.hi.u32"],
    "P L L": ["setp.le.s64", "setp.ne.b64"],
    "P|P W #": ["setp.gt.s32"],
    "P P P": ["and.pred", "xor.pred", "or.pred"],
    "P P": ["not.pred", "mov.pred"],
}  # fmt: skip
COUNTS = {"W": ("x", WORDS), "L": ("y", LONGS), "H": ("h", SHORTS), "P": ("p", FLAGS)}
NUMBERS = [1, 2, 3, 7, 31, 33, 255, -5, -1, 0x7FFFFFFF]


@dataclass(frozen=True)
class Text:
    """A kernel, the block and the grid to launch it with."""

    ptx: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int]

    @property
    def threads(self) -> int:
        x, y, z = self.block
        gx, gy, gz = self.grid
        return x * y * z * gx * gy * gz


def author(seed: int, *, talk: bool = False, block: tuple[int, int, int] | None = None) -> Text:
    """The kernel of a seed, for a block of its choice or the given one."""
    return _Module(seed, talk, block).text()


class _Module(Together):
    """What the functions of a module share."""

    def __init__(self, seed: int, talk: bool, block: tuple[int, int, int] | None) -> None:
        chance = random.Random(seed)
        chosen = chance.choice(BLOCKS)
        super().__init__(chance, block or chosen, chance.choice([1, 1, 2, 3]))
        self.talk = talk
        # Functions: any may call any (depth counts down); leaves in registers; talkers with a mask.
        self.deep = [f"deep{i}" for i in range(self.chance.choice([0, 1, 2, 4]))]
        self.flat = [f"flat{i}" for i in range(self.chance.choice([0, 1, 2]))]
        self.talkers = [f"talker{i}" for i in range(self.chance.choice([0, 1]) if talk else 0)]

    def text(self) -> Text:
        deep = "(.param .b32 r) {} (.param .b32 a, .param .b32 b, .param .b32 d)"
        flat = "(.reg .b32 r) {} (.reg .b32 a, .reg .b32 b)"
        heads = {
            **{name: deep.format(name) for name in (*self.deep, *self.talkers)},
            **{name: flat.format(name) for name in self.flat},
        }
        bodies = [f".func {heads[name]}\n{self._device(name)}" for name in heads]
        entry = self._entry()
        lines = [".version 8.6", ".target sm_90a", ".address_size 64"]
        lines += [f".func {head};" for head in heads.values()]
        if self.deep:
            lines.append(f".global .u64 pointers[{len(self.deep)}] = {{{', '.join(self.deep)}}};")
        lines.append(f".shared .align 16 .b8 own[{16 * self.threads}];")
        lines.append(f".shared .align 16 .b8 cells[{4 * SUMS}];")
        lines.append(f".shared .align 16 .b8 bells[{16 * self.threads}];")
        lines += [*bodies, ".visible .entry kernel(.param .u64 out, .param .u64 sums)", entry]
        return Text("\n".join(lines) + "\n", self.block, self.grid)

    def _entry(self) -> str:
        f = _Function(self, "entry")
        f.emit("ld.param.u64 base, [out]", "ld.param.u64 total, [sums]", *_NUMBER)
        f.emit("mov.u32 one, %nctaid.x", "mul.wide.u32 o, gl, 128", "add.u64 o, o, base", *_SLOTS)
        if self.talk:
            f.emit(*_CLEAR, "vote.sync.ballot.b32 mask, true, -1", "bar.sync 0")
        f.registers()
        f.body(
            2 if self.talk else 3,
            f.chance.randrange(3, 9),
            mask="mask" if self.talk else "",
            uniform=self.talk,
        )
        f.label("FINISH")
        if self.talk:
            # What all have left in shared memory.
            f.emit("bar.sync 0", "mov.u32 one, cells", "mov.u32 fuel, 0")
            taken = [4 * (SUMS // 2 + i) for i in range(min(self.cells, SUMS // 2))]
            for offset in [*range(0, 64, 4), *taken]:
                f.emit(f"ld.shared.u32 two, [one+{offset}]", "mad.lo.u32 fuel, fuel, 31, two")
            f.emit("st.global.u32 [o+124], fuel")
        f.emit(*(f"st.global.u32 [o+{8 * i}], x{i}" for i in range(WORDS)))
        f.emit(*(f"st.global.u64 [o+{8 * WORDS + 8 * i}], y{i}" for i in range(LONGS)))
        f.emit("st.global.v2.b32 [o+56], v2", "st.global.v4.b32 [o+64], v4")
        f.emit(*(f"st.global.u16 [o+{80 + 2 * i}], h{i}" for i in range(SHORTS)))
        f.emit(
            *(
                line
                for i in range(FLAGS)
                for line in (f"selp.u32 one, 1, 0, p{i}", f"st.global.u32 [o+{84 + 4 * i}], one")
            )
        )
        f.emit(f.chance.choice(["ret", "exit"]))
        return f.text()

    def _device(self, name: str) -> str:
        f = _Function(self, name[:4])
        f.emit(*_NUMBER)
        if name in self.flat:
            f.emit("mov.b32 one, b", "mov.b32 gl, a", "mov.u32 depth, 0")
        else:
            f.emit("ld.param.b32 gl, [a]", "ld.param.b32 one, [b]", "ld.param.b32 depth, [d]")
        f.emit(*_SLOTS)
        if name in self.talkers:
            f.emit("mov.b32 mask, one")
        f.registers()
        f.emit("add.u32 x1, x1, one")
        f.body(1 if self.talk else 2, f.chance.randrange(2, 5), mask="mask" if name in self.talkers else "")
        f.label("FINISH")
        f.emit("mov.b32 r, x0" if name in self.flat else "st.param.b32 [r], x0")
        f.emit("ret")
        return f.text()


#: The number of the thread in the CTA and in the grid.
_NUMBER = [
    "setp.eq.u32 true, 0, 0", "mov.u32 lin, %tid.z", "mov.u32 one, %ntid.y", "mov.u32 two, %tid.y",
    "mad.lo.u32 lin, lin, one, two", "mov.u32 one, %ntid.x", "mov.u32 two, %tid.x", "mad.lo.u32 lin, lin, one, two",
    "mov.u32 two, %ntid.y", "mul.lo.u32 one, one, two", "mov.u32 two, %ntid.z", "mul.lo.u32 one, one, two",
    "mov.u32 two, %ctaid.x", "mad.lo.u32 gl, two, one, lin", "mov.u32 lane, %laneid", "mov.u32 depth, 2",
]  # fmt: skip
#: Addresses of the thread's own places in shared memory.
_SLOTS = [
    "mov.u32 slot, own", "mad.lo.u32 slot, lin, 16, slot", "mov.u32 bell, bells", "mad.lo.u32 bell, lin, 16, bell",
    "st.shared.v4.b32 [slot], {lin, gl, lin, gl}", "mov.u32 mask, 0",
]  # fmt: skip
_CLEAR = ["setp.ne.u32 again, lin, 0", "@again bra CLEARED", "mov.u32 one, 0", "NEXT_CELL:", "mov.u32 two, cells",
          "mad.lo.u32 two, one, 4, two", "st.shared.u32 [two], 0", "add.u32 one, one, 1",
          f"setp.lt.u32 again, one, {SUMS}", "@again bra NEXT_CELL", "CLEARED:"]  # fmt: skip


class _Function(Talk):
    """One function being written."""

    def __init__(self, module: _Module, kind: str) -> None:
        self.module: _Module = module
        self.kind, self.chance = kind, module.chance
        self.lines: list[str] = []
        self.declared: list[str] = []
        self._fresh = 0

    # --- writing ------------------------------------------------------------------------------

    def emit(self, *lines: str) -> None:
        self.lines += [line if line in ("{", "}") or line.endswith(":") else f"{line};" for line in lines]

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def fresh(self, prefix: str, kind: str = "") -> str:
        """A new name; a register of type ``kind`` unless that is empty."""
        self._fresh += 1
        name = f"{prefix}{self._fresh}"
        if kind:
            self.declared.append(f".reg .{kind} {name};")
        return name

    def text(self) -> str:
        head = [
            ".reg .b32 " + ", ".join(f"x{i}" for i in range(WORDS)) + ";",
            ".reg .b64 " + ", ".join(f"y{i}" for i in range(LONGS)) + ";",
            ".reg .b16 " + ", ".join(f"h{i}" for i in range(SHORTS)) + ";",
            ".reg .pred " + ", ".join(f"p{i}" for i in range(FLAGS)) + ", true, again;",
            ".reg .b32 lin, gl, lane, one, two, depth, mask, slot, bell, fuel;",
            ".reg .b64 base, total, o, far; .reg .v2 .b32 v2; .reg .v4 .b32 v4; .local .align 16 .b8 room[64];",
        ]
        return "\n".join(["{", *head, *self.declared, *self.lines, "}"])

    def registers(self) -> None:
        """First values of everything, another for each thread."""
        self.emit(*(f"mad.lo.u32 x{i}, gl, {0x9E3779B1 * (i + 1) % 2**32}, {i}" for i in range(WORDS)))
        self.emit(*(f"mad.wide.u32 y{i}, x{i}, x{i + 1}, {i}" for i in range(LONGS)))
        self.emit(*(f"cvt.u16.u32 h{i}, x{i}" for i in range(SHORTS)))
        self.emit(*(f"setp.lt.s32 p{i}, x{i}, x{i + 1}" for i in range(FLAGS)))
        self.emit("mov.v2.b32 v2, {x0, x1}", "mov.v4.b32 v4, {x0, x1, x2, x3}", "mov.u32 fuel, 0")
        self.emit(*(f"st.local.v2.b64 [room+{i}], {{y0, y1}}" for i in range(0, 64, 16)))

    def one_of(self, kind: str) -> str:
        prefix, count = COUNTS[kind]
        return f"{prefix}{self.chance.randrange(count)}"

    def operand(self, kind: str) -> str:
        if kind == "#":
            return str(self.chance.choice(NUMBERS))
        if kind == "P|P":
            first = self.chance.randrange(FLAGS)
            return f"p{first}|p{(first + 1) % FLAGS}"
        return self.one_of(kind)

    def guard(self, odds: float = 0.25) -> str:
        if self.chance.random() >= odds:
            return ""
        return f"@{self.chance.choice(['', '!'])}{self.one_of('P')} "

    # --- statements without control flow ------------------------------------------------------

    def straight(self) -> None:
        shape = self.chance.choice(list(SHAPES))
        name = self.chance.choice(SHAPES[shape])
        self.emit(f"{self.guard()}{name} {', '.join(map(self.operand, shape.split()))}")

    def piece(self) -> None:
        """Memory of the thread alone, vectors, and a barrier nobody else knows."""
        w, wide, g = self.one_of("W"), self.one_of("L"), self.guard()
        near = 8 * self.chance.randrange(7)
        what = self.chance.randrange(12)
        if what == 0:
            self.emit(f"{g}st.local.b32 [room+{near + 4}], {w}")
        elif what == 1:
            self.emit(f"{g}ld.local.b32 {w}, [room+{near}]")
        elif what == 2:
            self.emit(f"and.b32 one, {w}, 56", "mov.u64 far, room", "mad.wide.u32 far, one, 1, far",
                      f"{g}st.local.u64 [far], {wide}", f"{g}ld.local.s16 {w}, [far+2]")  # fmt: skip
        elif what == 3:
            self.emit(f"{g}st.shared.v2.b32 [slot], {{{w}, x0}}")
        elif what == 4:
            self.emit(f"{g}ld.shared.v2.u32 {{{w}, one}}, [slot+8]", f"{g}ld.shared.u8 {w}, [slot+3]")
        elif what == 5:
            self.emit(f"{g}mov.b64 {{{w}, one}}, {wide}", f"{g}mov.b64 {wide}, {{{w}, x1}}")
        elif what == 6:
            self.emit(f"{g}mov.v2.b32 v2, {{v4.x, {w}}}", f"{g}add.u32 {w}, v2.y, v4.w")
        elif what == 7:
            self.emit(f"{g}mov.v4.b32 v4, {{{w}, v4.x, v2.x, x0}}", f"{g}xor.b32 v4.z, v4.z, {w}")
        elif what == 8:
            self.emit(
                f"{g}st.local.v4.b32 [room+{near // 16 * 16}], v4", f"{g}ld.local.v2.b32 v2, [room+{near}]"
            )
        elif what == 9 and self.kind == "entry":
            self.emit(f"{g}st.global.u32 [o+{100 + 4 * self.chance.randrange(5)}], {w}")
        elif what == 10 and self.kind == "entry":
            self.emit(f"{g}ld.global.u32 {w}, [o+{100 + 4 * self.chance.randrange(5)}]")
        else:
            state, count = self.fresh("s", "b64"), self.chance.choice([1, 2])
            answer = "again" if g else self.one_of("P")
            self.emit(f"{g}mbarrier.init.shared.b64 [bell], {count}", f"mov.b64 {state}, 0",
                      f"{g}mbarrier.arrive.shared.b64 {state}, [bell]",
                      f"{g}mbarrier.test_wait.shared.b64 {answer}, [bell], {state}",
                      f"{g}selp.b32 {w}, 7, {w}, {answer}",
                      f"{g}mbarrier.inval.shared.b64 [bell]")  # fmt: skip

    # --- structure ----------------------------------------------------------------------------

    def body(self, depth: int, count: int, *, mask: str = "", uniform: bool = False) -> None:
        """``count`` statements. ``mask`` is the register with exactly the lanes of the warp that are here, if they
        are to talk; ``uniform`` says that all live threads of the CTA are.
        """
        for _ in range(count):
            kind = self.chance.random()
            if kind < 0.25 or depth == 0:
                for _ in range(self.chance.randrange(1, 9)):
                    self.straight()
            elif kind < 0.38:
                self.piece()
            elif kind < 0.55:
                self.choice_of(depth, mask)
            elif kind < 0.68:
                self.loop(depth, mask)
            elif kind < 0.75:
                self.switch(depth)
            elif kind < 0.82:
                self.soup(depth)
            elif kind < 0.92:
                self.call(mask)
            elif not self.module.talk:
                self.leave()
            if mask and self.chance.random() < 0.6:
                self.together(mask, uniform, depth)

    def choice_of(self, depth: int, mask: str) -> None:
        flag, other, join = self.one_of("P"), self.fresh("ELSE"), self.fresh("JOIN")
        inner = outer = ""
        if mask:
            inner, outer = self.fresh("m", "b32"), self.fresh("m", "b32")
            self.emit(f"vote.sync.ballot.b32 {inner}, {flag}, {mask}", f"xor.b32 {outer}, {inner}, {mask}")
        self.emit(f"@!{flag} bra {other}")
        self.body(depth - 1, self.chance.randrange(1, 4), mask=inner)
        if self.chance.random() < 0.6:
            self.emit(f"bra {join}")
            self.label(other)
            self.body(depth - 1, self.chance.randrange(1, 4), mask=outer)
            self.label(join)
        else:
            self.label(other)

    def loop(self, depth: int, mask: str) -> None:
        """As often as a register of the lane says; lanes that talk count those that are still there."""
        k, most, flag = self.fresh("k", "b32"), self.fresh("k", "b32"), self.fresh("q", "pred")
        top, after, out = self.fresh("TOP"), self.fresh("AFTER"), self.fresh("OUT")
        here = ""
        self.emit(f"mov.u32 {k}, 0", f"and.b32 {most}, {self.one_of('W')}, 3")
        if mask:
            here = self.fresh("m", "b32")
            self.emit(f"mov.b32 {here}, {mask}")
            self.label(top)
            self.emit(f"setp.lt.u32 {flag}, {k}, {most}", f"vote.sync.ballot.b32 {here}, {flag}, {here}",
                      f"@!{flag} bra {out}")  # fmt: skip
        elif self.chance.random() < 0.5:
            self.label(top)
            self.emit(f"setp.lt.u32 {flag}, {k}, {most}", f"@!{flag} bra {out}")
        else:
            self.label(top)
        self.body(depth - 1, self.chance.randrange(1, 4), mask=here)
        if not mask and self.chance.random() < 0.5:
            self.emit(f"@{self.one_of('P')} bra {self.chance.choice([after, out])}")
            self.body(depth - 1, 1)
        self.label(after)
        self.emit(f"add.u32 {k}, {k}, 1")
        if mask:
            self.emit(f"bra {top}")
        else:
            self.emit(f"setp.lt.u32 {flag}, {k}, {most}", f"@{flag} bra {top}")
        self.label(out)

    def switch(self, depth: int) -> None:
        ways = self.chance.randrange(2, 6)
        labels = [self.fresh("CASE") for _ in range(ways)]
        join, table, index = self.fresh("JOIN"), self.fresh("table"), self.fresh("i", "b32")
        targets = [self.chance.choice([*labels, join]) for _ in range(ways)]
        self.emit(
            f"rem.u32 {index}, {self.one_of('W')}, {ways}", f"{table}: .branchtargets {', '.join(targets)}"
        )
        self.emit(f"{self.guard(0.3)}brx.idx {index}, {table}")
        for label in labels:
            self.label(label)
            self.body(depth - 1, self.chance.randrange(1, 3))
            if self.chance.random() < 0.6:
                self.emit(f"{self.guard(0.3)}bra {join}")
        self.label(join)

    def soup(self, depth: int) -> None:
        """Blocks that go to any other block, until the thread has no fuel left."""
        blocks = [self.fresh("SOUP") for _ in range(self.chance.randrange(3, 8))]
        out, empty = self.fresh("DRY"), self.fresh("q", "pred")
        self.emit(f"and.b32 fuel, {self.one_of('W')}, 15", "add.u32 fuel, fuel, 5")
        for label in blocks:
            self.label(label)
            self.emit("sub.u32 fuel, fuel, 1", f"setp.eq.u32 {empty}, fuel, 0", f"@{empty} bra {out}")
            for _ in range(self.chance.randrange(1, 5)):
                self.straight()
            if self.chance.random() < 0.2:
                self.piece()
            if self.chance.random() < 0.1:
                self.call("")
            if self.chance.random() < 0.05 and not self.module.talk:
                self.leave()
            end = self.chance.random()
            if end < 0.25:
                self.emit(f"bra {self.chance.choice(blocks)}")
            elif end < 0.7:
                self.emit(f"{self.guard(1)}bra {self.chance.choice(blocks)}")
            elif end < 0.85:
                table, index = self.fresh("table"), self.fresh("i", "b32")
                targets = [self.chance.choice([*blocks, out]) for _ in range(4)]
                self.emit(
                    f"and.b32 {index}, {self.one_of('W')}, 3", f"{table}: .branchtargets {', '.join(targets)}"
                )
                self.emit(f"{self.guard(0.3)}brx.idx {index}, {table}")
        self.label(out)
        del depth

    def leave(self) -> None:
        """Threads end, or return, here or by way of the end."""
        if self.kind == "entry":
            w = self.chance.choice(["ret", "exit", "bra FINISH"])
            self.emit(f"st.global.u32 [o+{100 + 4 * self.chance.randrange(5)}], {self.one_of('W')}")
        else:
            w = self.chance.choice(["ret", "bra FINISH", "bra FINISH"])
            if self.chance.random() < 0.1:
                w = "exit"
            self.emit("mov.b32 r, x1" if self.kind == "flat" else "st.param.b32 [r], x2")
        self.emit(f"{self.guard(1)}{w}")

    # --- calls --------------------------------------------------------------------------------

    def call(self, mask: str) -> None:
        module = self.module
        kinds = [kind for kind in ("deep", "flat", "talkers") if getattr(module, kind)]
        if not mask or self.kind == "talk":
            kinds = [kind for kind in kinds if kind != "talkers"]
        if self.kind == "flat":
            return
        if not kinds:
            return
        kind = self.chance.choice(kinds)
        name = self.chance.choice(getattr(module, kind))
        w, v, flag = self.one_of("W"), self.one_of("W"), self.fresh("q", "pred")
        if kind == "flat":
            self.emit(f"{self.guard()}call ({w}), {name}, ({v}, {self.chance.choice(['7', 'x0'])})")
            return
        a, b, d, r = (self.fresh(c) for c in "abdr")
        self.emit("{", f".param .b32 {a}", f".param .b32 {b}", f".param .b32 {d}", f".param .b32 {r}")
        self.emit(f"st.param.b32 [{a}], {v}", f"st.param.b32 [{b}], {mask if kind == 'talkers' else w}", "sub.u32 one, depth, 1",
                  f"st.param.b32 [{d}], one")  # fmt: skip
        guard = ""
        if kind == "deep":
            # Nobody goes deeper than depth allows.
            self.emit(f"setp.gt.s32 {flag}, depth, 0")
            if self.chance.random() < 0.3:
                self.emit(f"and.pred {flag}, {flag}, {self.one_of('P')}")
            guard = f"@{flag} "
        if kind == "deep" and self.chance.random() < 0.4:
            far, proto = self.fresh("f", "b64"), self.fresh("proto")
            self.emit(f"rem.u32 one, {w}, {len(module.deep)}", f"mov.u64 {far}, pointers", f"mad.wide.u32 {far}, one, 8, {far}",
                      f"ld.global.u64 {far}, [{far}]",
                      f"{proto}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _, .param .b32 _)",
                      f"{guard}call ({r}), {far}, ({a}, {b}, {d}), {proto}")  # fmt: skip
        else:
            self.emit(f"{guard}call ({r}), {name}, ({a}, {b}, {d})")
        self.emit(f"{guard}ld.param.b32 {w}, [{r}]", "}")
