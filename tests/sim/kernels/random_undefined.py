"""Random kernels that load an array of which only some words are written, and store one register of each thread."""

from __future__ import annotations

import random

__all__ = ["BLOCK", "WORDS", "text_of"]

#: Threads of a launch, and 32-bit words of the array for each of them.
BLOCK, WORDS = 64, 8

_HEAD = """
.version 8.0
.target sm_90a
.address_size 64
.func (.reg .b32 back) twisted(.reg .b32 one, .reg .b32 two)
{
    .reg .b32 v; .reg .pred q;
    shr.u32 v, one, 7; setp.gt.u32 q, two, one; selp.b32 v, v, two, q; xor.b32 back, v, one; ret;
}
.visible .entry kernel(.param .u64 data, .param .u64 out)
{
    .reg .pred p0, p1, p2, even; .reg .b16 h0, h1; .reg .b32 t, s, a, r<8>; .reg .b64 from, to, d0, d1;
    .shared .align 16 .b8 area[2048]; .local .align 16 .b8 own[32];
    ld.param.u64 from, [data]; ld.param.u64 to, [out]; mov.u32 t, %tid.x;
    mad.wide.u32 from, t, 32, from; mad.wide.u32 to, t, 4, to;
    mov.u32 a, area; mad.lo.u32 a, t, 32, a;
    and.b32 s, t, 1; setp.eq.u32 even, s, 0; setp.lt.u32 p0, t, 40; setp.gt.u32 p1, t, 9; setp.eq.u32 p2, t, 3;
    st.local.v4.u32 [own], {t, t, t, t}; st.local.v4.u32 [own+16], {t, s, t, s};
    st.shared.v4.u32 [a], {t, t, s, t}; st.shared.v4.u32 [a+16], {t, s, t, s};
"""
#: The value that is stored is computed: copies of partly written values to global memory are no errors.
_TAIL = "    xor.b32 r0, {}, 0;\n    st.global.u32 [to], r0;\n    ret;\n}}\n"


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.labels = 0

    def r(self) -> str:
        return f"r{self.random.randrange(8)}"

    def constant(self) -> int:
        return self.random.choice(
            [0, 1, 8, 16, 0xFF, 0xFFFF, 0xFF00FF, 0x80000000, self.random.getrandbits(32)]
        )

    def source(self) -> str:
        return self.r() if self.random.random() < 0.75 else str(self.constant())

    def p(self) -> str:
        return self.random.choice(["p0", "p1", "p2"])

    def instruction(self) -> str:
        amount, width = self.random.randrange(33), self.random.randrange(33)
        r, source, p = self.r, self.source, self.p
        offset = 4 * self.random.randrange(8)
        return self.random.choice(
            [
                f"mov.u32 {r()}, {source()};",
                f"mov.b64 d0, {{{r()}, {r()}}}; mov.b64 {{{r()}, r0}}, d0;",
                f"mov.b64 d0, {{{r()}, {r()}}}; shr.u64 d1, d0, {2 * amount}; cvt.u32.u64 {r()}, d1;",
                f"mov.b64 d0, {{{r()}, {r()}}}; mul.lo.u64 d1, d0, 5; add.u64 d1, d1, 77; mov.b64 {{{r()}, r1}}, d1;",
                f"mov.b32 {{h0, h1}}, {r()}; mov.b32 {r()}, {{h1, h0}};",
                f"cvt.u16.u32 h0, {r()}; cvt.s32.s16 {r()}, h0;",
                f"and.b32 {r()}, {source()}, {source()};",
                f"or.b32 {r()}, {r()}, {source()};",
                f"xor.b32 {r()}, {r()}, {source()};",
                f"not.b32 {r()}, {r()};",
                f"lop3.b32 {r()}, {r()}, {source()}, {source()}, {self.random.randrange(256)};",
                f"shl.b32 {r()}, {r()}, {amount};",
                f"shr.{self.random.choice('us')}32 {r()}, {r()}, {amount};",
                f"shf.l.wrap.b32 {r()}, {r()}, {source()}, {amount};",
                f"bfe.{self.random.choice('us')}32 {r()}, {r()}, {amount % 32}, {width};",
                f"bfi.b32 {r()}, {r()}, {source()}, {amount % 32}, {width};",
                f"prmt.b32 {r()}, {r()}, {source()}, {self.random.getrandbits(16)};",
                f"brev.b32 {r()}, {r()};",
                f"add.u32 {r()}, {r()}, {source()};",
                f"sub.u32 {r()}, {r()}, {source()};",
                f"mul.lo.u32 {r()}, {r()}, {source()};",
                f"mul.hi.u32 {r()}, {r()}, {source()};",
                f"mad.lo.u32 {r()}, {r()}, {source()}, {source()};",
                f"add.cc.u32 {r()}, {r()}, {source()}; addc.u32 {r()}, {r()}, {source()};",
                f"min.u32 {r()}, {r()}, {source()};",
                f"popc.b32 {r()}, {r()};",
                f"selp.b32 {r()}, {r()}, {source()}, {p()};",
                f"setp.lt.u32 {p()}, {r()}, {source()};",
                f"and.pred {p()}, {p()}, {p()};",
                f"@{p()} mov.u32 {r()}, {r()};",
                f"@!{p()} add.u32 {r()}, {r()}, {source()};",
                f"shfl.sync.bfly.b32 {r()}, {r()}, {self.random.randrange(32)}, 31, -1;",
                f"shfl.sync.idx.b32 {r()}|{p()}, {r()}, t, {self.random.choice([31, 7175])}, -1;",
                f"st.shared.u32 [a+{offset}], {r()}; ld.shared.u32 {r()}, [a+{4 * self.random.randrange(8)}];",
                f"st.shared.u8 [a+{offset + 1}], {r()}; ld.shared.v2.u32 {{{r()}, r2}}, [a+{offset // 8 * 8}];".replace(
                    "{r2, r2}", "{r3, r2}"
                ),
                f"st.local.u16 [own+{offset}], {r()}; ld.local.u32 {r()}, [own+{offset}];",
                f"call ({r()}), twisted, ({r()}, {r()});",
            ]
        )

    def body(self, count: int) -> None:
        for _ in range(count):
            if self.random.random() < 0.08:
                self.labels += 1
                label = f"L{self.labels}"
                self.lines.append(f"@{self.random.choice(['even', '!even'])} bra {label};")
                for _ in range(3):
                    line = self.instruction()
                    if ".sync" not in line:
                        self.lines.append(line)
                self.lines.append(f"{label}:")
            else:
                self.lines.append(self.instruction())


def text_of(seed: int) -> str:
    """The text of the kernel with this number; its parameters are the array and the output."""
    writer = _Writer(seed)
    chance = writer.random
    for word in range(WORDS):
        if chance.random() < 0.6:
            size = chance.choice(["u32", "u32", "u16", "u8"])
            guard = chance.choice(["", "", "@even "])
            writer.lines.append(
                f"{guard}st.global.{size} [from+{4 * word}], {'h0' if size == 'u16' else 't'};"
            )
    writer.lines.insert(0, "cvt.u16.u32 h0, t;")
    writer.lines.append(
        "ld.global.v4.u32 {r0, r1, r2, r3}, [from]; ld.global.v4.u32 {r4, r5, r6, r7}, [from+16];"
    )
    writer.body(chance.randrange(2, 14))
    return _HEAD + "\n".join(f"    {line}" for line in writer.lines) + "\n" + _TAIL.format(writer.r())
