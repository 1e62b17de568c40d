"""What the tests of single instructions cannot show: carries from one to the next, and what ptxas 13.0 gets wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from pyptx.sim.numbers.bits import ones_by_table
from tests.sim.build import Kernel

THREADS = 96
LOW = (1 << 64) - 1

#: How the lanes come to execute the instructions: the body stands in the braces.
SHAPES = {
    "whole warps": "{body}",
    "guarded": "and.b32 n, t, 1\nsetp.ne.u32 p, n, 0\n{guarded}",
    "single lanes": "and.b32 n, t, 31\nmov.u32 turn, 0\nLOOP:\nsetp.ne.u32 p, n, turn\n@p bra NEXT\n{body}\nNEXT:\n"
    "add.u32 turn, turn, 1\nsetp.lt.u32 p, turn, 32\n@p bra LOOP",
}


def run(body: str, shape: str, words: np.ndarray[tuple[int, int], np.dtype[np.uint64]]) -> list[list[int]]:
    """``body`` reads x0, x1, y0, y1 (64 bits) or a0 to a3, b0 to b3 (32), and writes z0 and z1, or c0 to c3."""
    lines = body.strip().splitlines()
    guarded = "\n".join(f"@{guard}p {line.strip()}" for guard in ("", "!") for line in lines)
    text = [".reg u32 t n turn a0..a3 b0..b3 c0..c3", ".reg u64 at o x0..x1 y0..y1 z0..z1", ".reg pred p"]
    text += ["mov.u32 t, %tid.x", "mad.wide.u32 at, t, 32, given", "mad.wide.u32 o, t, 16, out"]
    text += [f"ld.global.u64 {'xy'[i // 2]}{i % 2}, [at+{8 * i}]" for i in range(4)]
    text += [f"ld.global.u32 {'ab'[i // 4]}{i % 4}, [at+{4 * i}]" for i in range(8)]
    text += [SHAPES[shape].format(body=body, guarded=guarded)]
    wide = "z0" in body
    text += [f"st.global.u64 [o+{8 * i}], z{i}" if wide else f"st.global.v2.u32 [o+{8 * i}], {{c{2 * i}, c{2 * i + 1}}}"
             for i in range(2)]  # fmt: skip
    out = np.zeros((THREADS, 2), np.uint64)
    Kernel("\n".join([*text, "ret"]), "given:u64 out:u64").clean(words, out, block=THREADS)
    return [[int(word) for word in row] for row in out]


def operands() -> list[list[int]]:
    draw = random.Random(5)
    edges = [0, 1, LOW, 1 << 63, (1 << 63) - 1, 0xFFFFFFFF, 0xFFFFFFFF << 32, LOW - 1]
    rows = [[draw.choice(edges) for _ in range(4)] for _ in range(THREADS // 2)]
    return rows + [[draw.getrandbits(64) for _ in range(4)] for _ in range(THREADS - len(rows))]


Expected = Callable[[int, int], int]

#: Instructions, and what they make of the 128-bit numbers x and y.
CHAINS: dict[str, tuple[str, Expected]] = {
    "add, 64 bits": ("add.cc.u64 z0, x0, y0\naddc.u64 z1, x1, y1", lambda x, y: x + y),
    "sub, 64 bits": ("sub.cc.s64 z0, x0, y0\nsubc.s64 z1, x1, y1", lambda x, y: x - y),
    "add, 32 bits": (
        "add.cc.u32 c0, a0, b0\naddc.cc.s32 c1, a1, b1\naddc.cc.u32 c2, a2, b2\naddc.s32 c3, a3, b3",
        lambda x, y: x + y,
    ),
    "sub, 32 bits": (
        "sub.cc.s32 c0, a0, b0\nsubc.cc.u32 c1, a1, b1\nsubc.cc.s32 c2, a2, b2\nsubc.u32 c3, a3, b3",
        lambda x, y: x - y,
    ),
    "add an immediate": ("add.cc.u64 z0, x0, -1\naddc.u64 z1, x1, 0", lambda x, y: x + LOW),
    "multiply, 64 bits": (
        "mul.lo.u64 z0, x0, y0\nmul.hi.u64 z1, x0, y0\nmad.lo.cc.u64 z1, x0, y1, z1\nmad.lo.u64 z1, x1, y0, z1",
        lambda x, y: x * y,
    ),
    # [c3..c0] = [a1, a0] * [b1, b0], as the manual's example has it.
    "multiply, 32 bits": (
        """mul.lo.u32 c0, a0, b0
        mul.hi.u32 c1, a0, b0
        mad.lo.cc.u32 c1, a1, b0, c1
        madc.hi.u32 c2, a1, b0, 0
        mad.lo.cc.u32 c1, a0, b1, c1
        madc.hi.cc.u32 c2, a0, b1, c2
        addc.u32 c3, 0, 0
        mad.lo.cc.u32 c2, a1, b1, c2
        madc.hi.u32 c3, a1, b1, c3""",
        lambda x, y: (x & LOW) * (y & LOW),
    ),
    # A signed high half, and its carry: x0 * y0, y1 added.
    "multiply, signed": (
        "mul.lo.s64 z0, x0, y0\nadd.cc.u64 z0, z0, y1\nmadc.hi.s64 z1, x0, y0, 0",
        lambda x, y: signed(x & LOW) * signed(y & LOW) + (y >> 64),
    ),
    # CC holds the adder's carry: after a subtraction it is one where nothing was borrowed.
    "a borrow added": (
        "sub.cc.u64 z0, x0, y0\naddc.u64 z1, x1, 0",
        lambda x, y: ((x & LOW) - (y & LOW) & LOW) | (x >> 64) + ((x & LOW) >= (y & LOW)) << 64,
    ),
    "a carry subtracted": (
        "add.cc.u64 z0, x0, y0\nsubc.u64 z1, x1, 0",
        lambda x, y: (x + y & LOW) | (x >> 64) - ((x & LOW) + (y & LOW) <= LOW) << 64,
    ),
}


def signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chain", CHAINS)
def test_carries(chain: str, shape: str) -> None:
    body, expected = CHAINS[chain]
    rows = operands()
    got = run(body, shape, np.array(rows, np.uint64))
    for row, (low, high) in zip(rows, got, strict=True):
        x, y = row[0] | row[1] << 64, row[2] | row[3] << 64
        assert low | high << 64 == expected(x, y) & ((1 << 128) - 1), f"{x:#x}, {y:#x}"


def test_ones_are_counted_without_numpy_2() -> None:
    for dtype in (np.uint32, np.uint64):
        words = np.array([row[0] for row in operands()], np.uint64).astype(dtype)
        assert ones_by_table(words).tolist() == [bin(word).count("1") for word in words.tolist()]


def test_each_lane_has_its_carry_whatever_others_do() -> None:
    """Lanes that an instruction leaves out keep theirs."""
    words = np.array([[LOW, 0, t % 4, 0] for t in range(THREADS)], np.uint64)
    body = "add.cc.u64 z0, x0, y0\nsetp.ge.u64 p, y0, 2\n@p add.cc.u64 z0, x1, y0\naddc.u64 z1, 0, 0"
    got = run(body, "whole warps", words)
    assert [high for _, high in got] == [1 if t % 4 == 1 else 0 for t in range(THREADS)]


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("vadd.u32.u32.u32 c0.h1, a0.h0, b0.b1, b1", lambda a, b: (a & 0xFFFF) + (b >> 8 & 0xFF)),
        ("vsub.s32.u32.u32 c0.h1, a0.b3, b0.b0, b1", lambda a, b: (a >> 24) - (b & 0xFF)),
        ("vset.u32.u32.gt c0.h1, a0.h0, b0.h0, b1", lambda a, b: int((a & 0xFFFF) > (b & 0xFFFF))),
    ],
)
def test_merges_into_the_upper_half(instruction: str, expected: Expected) -> None:
    """The lower half of the result, as the manual and ptxas 13.5 have it."""
    rows = operands()
    body = f"{instruction}\nmov.b32 c1, 0\nmov.b32 c2, 0\nmov.b32 c3, 0"
    for row, (low, _) in zip(rows, run(body, "whole warps", np.array(rows, np.uint64)), strict=True):
        merged = expected(row[0] & 0xFFFFFFFF, row[2] & 0xFFFFFFFF) & 0xFFFF
        assert low == merged << 16 | row[2] >> 32 & 0xFFFF
