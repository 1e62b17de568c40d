"""atom and red: values against an oracle that takes the lanes one by one, order, shared words, what is announced."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pyptx.sim.memory.address_space import Memory
from tests.sim.build import Kernel

pytestmark = pytest.mark.one_in(2)

# --- the oracle: raw bits in, raw bits out ----------------------------------------------------------

INTEGERS = ("u32", "s32", "b32", "u64", "s64", "b64")
#: Significant bits, exponent bits.
FLOATS = {"f16": (11, 5), "bf16": (8, 8), "f32": (24, 8), "f64": (53, 11)}


def as_integer(bits: int, kind: str) -> int:
    size = int(kind[1:])
    return bits - (1 << size) if kind[0] == "s" and bits >> (size - 1) else bits


def integer(op: str, kind: str, old: int, b: int, c: int) -> int:
    x, y = as_integer(old, kind), as_integer(b, kind)
    result = {
        "add": lambda: x + y,
        "and": lambda: x & y,
        "or": lambda: x | y,
        "xor": lambda: x ^ y,
        "exch": lambda: y,
        "min": lambda: min(x, y),
        "max": lambda: max(x, y),
        "inc": lambda: 0 if x >= y else x + 1,
        "dec": lambda: y if x == 0 or x > y else x - 1,
        "cas": lambda: c if old == b else old,
    }[op]()
    return result % (1 << int(kind[1:]))


def value(bits: int, kind: str) -> Fraction:
    """A finite float."""
    precision, exponents = FLOATS[kind]
    fraction = bits & ((1 << (precision - 1)) - 1)
    exponent = bits >> (precision - 1) & ((1 << exponents) - 1)
    assert exponent != (1 << exponents) - 1
    least = 2 - (1 << (exponents - 1))
    scale = max(exponent - (1 << (exponents - 1)) + 1, least)
    number = Fraction(fraction | (1 << (precision - 1) if exponent else 0)) * Fraction(2) ** (
        scale - precision + 1
    )
    sign = bits >> (precision - 1 + exponents) & 1
    return -number if sign else number


def rounded(number: Fraction, kind: str, negative_zero: bool) -> int:
    """The nearest float, ties to even, as bits."""
    precision, exponents = FLOATS[kind]
    sign = 1 << (precision - 1 + exponents)
    if number == 0:
        return sign if negative_zero else 0
    magnitude = abs(number)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > magnitude
    least = 2 - (1 << (exponents - 1))
    quantum = Fraction(2) ** (max(exponent, least) - precision + 1)
    # Bits of a float count up through subnormal, normal numbers and infinity.
    bits = ((max(exponent, least) - least) << (precision - 1)) + round(magnitude / quantum)
    return min(bits, ((1 << exponents) - 1) << (precision - 1)) | (sign if number < 0 else 0)


def added(kind: str, old: int, b: int, flush: bool) -> int:
    """The sum of two finite floats."""
    precision, exponents = FLOATS[kind]
    sign = 1 << (precision - 1 + exponents)

    def flushed(bits: int) -> int:
        return bits & sign if flush and not bits >> (precision - 1) & ((1 << exponents) - 1) else bits

    old, b = flushed(old), flushed(b)
    total = value(old, kind) + value(b, kind)
    return flushed(rounded(total, kind, bool(old & b & sign)))


def one(op: str, kind: str, space: str, old: int, b: int, c: int) -> int:
    if kind in FLOATS:
        return added(kind, old, b, kind == "f32" and space == "global")
    return integer(op, kind, old, b, c)


def in_turn(
    memory: list[int], places: list[int], b: list[int], c: list[int], step: Callable[..., int]
) -> tuple[list[int], list[int]]:
    """Memory after all lanes have had their turns, and what each lane found."""
    memory, found = list(memory), []
    for lane, place in enumerate(places):
        found.append(memory[place])
        memory[place] = step(memory[place], b[lane], c[lane])
    return memory, found


# --- kernels ----------------------------------------------------------------------------------------

ATOMIC = """
.reg u32 t where
.reg CLASS b0 c0 d0
.reg u64 pb pc pm pw po s
.shared b8 room[512] 16
mov.u32 t, %tid.x
mad.wide.u32 pw, t, 4, place
ld.global.u32 where, [pw]
mad.wide.u32 pb, t, SIZE, b
mad.wide.u32 pc, t, SIZE, c
ld.global.MOVED b0, [pb]
ld.global.MOVED c0, [pc]
mad.wide.u32 pm, t, SIZE, memory
mov.u64 s, room
mad.wide.u32 s, t, SIZE, s
ld.global.MOVED d0, [pm]
st.shared.MOVED [s], d0
bar.sync 0
mov.u64 s, room
mad.wide.u32 s, where, SIZE, s
mad.wide.u32 po, where, SIZE, memory
INSTRUCTION
bar.sync 0
"""
KEEP_OLD = "mad.wide.u32 po, t, SIZE, old\nst.global.MOVED [po], d0\n"
KEEP_SHARED = (
    "mov.u64 s, room\nmad.wide.u32 s, t, SIZE, s\nld.shared.MOVED d0, [s]\nst.global.MOVED [pm], d0\n"
)
CLASS = {16: "b16", 32: "b32", 64: "b64"}


def run(
    instruction: str, kind: str, space: str, operands: tuple[np.ndarray, ...], places: np.ndarray
) -> tuple[list[int], list[int]]:
    """Memory and old values after ``instruction`` with {a} for the address, in one warp."""
    bits = 128 if kind == "b128" else int(kind[-2:])
    memory, b, c = (words.copy() for words in operands)
    old = np.zeros_like(memory)
    text = ATOMIC + KEEP_OLD + (KEEP_SHARED if space == "shared" else "")
    text = text.replace("INSTRUCTION", instruction.format(a="s" if space == "shared" else "po"))
    text = text.replace("CLASS", CLASS[bits]).replace("SIZE", str(bits // 8)).replace("MOVED", f"b{bits}")
    Kernel(text, "memory:u64 b:u64 c:u64 old:u64 place:u64").clean(
        memory, b, c, old, places.astype(np.uint32), block=len(places)
    )
    return memory.tolist(), old.tolist()


def operands(kind: str, count: int, seed: int) -> tuple[np.ndarray, ...]:
    """Memory, b and c: small numbers and large ones, equal ones for cas; finite floats, some subnormal."""
    random = np.random.default_rng(seed)
    bits = int(kind[-2:])
    dtype = np.dtype(f"u{bits // 8}")
    words = [random.integers(0, 1 << 64, count, np.uint64) >> np.uint64(64 - bits) for _ in range(3)]
    if kind in FLOATS:
        precision, exponents = FLOATS[kind]
        for row in words:
            row &= np.uint64(~(1 << (precision - 1 + exponents - 1)) & ((1 << bits) - 1))
            row[random.random(count) < 0.4] &= np.uint64(1 << (bits - 1) | (1 << (precision - 1)) - 1)
    else:
        for row in words:
            row[random.random(count) < 0.5] %= np.uint64(4)
    return tuple(row.astype(dtype) for row in words)


OPERATIONS = [
    *[(op, kind) for kind in ("b32", "b64") for op in ("and", "or", "xor", "exch", "cas")],
    *[(op, kind) for kind in ("u32", "s32", "u64", "s64") for op in ("min", "max")],
    *[("add", kind) for kind in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16")],
    *[("inc", "u32"), ("dec", "u32"), ("cas", "b16")],
]
PATTERNS = {
    "distinct": lambda lanes: lanes[::-1].copy(),
    "one word": lambda lanes: np.zeros_like(lanes),
    "few words": lambda lanes: lanes * 7 % 3,
    "pairs": lambda lanes: lanes // 2,
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("op", "kind"), OPERATIONS, ids=lambda part: part)
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_lanes_take_turns(op: str, kind: str, space: str, pattern: str) -> None:
    for count in (1, 20, 32):
        places = PATTERNS[pattern](np.arange(count))
        given = operands(kind, count, count)
        noftz = ".noftz" if kind in ("f16", "bf16") else ""
        third = ", c0" if op == "cas" else ""
        wanted = in_turn(
            *(x.tolist() for x in (given[0], places, given[1], given[2])),
            lambda old, b, c: one(op, kind, space, old, b, c),
        )
        assert run(f"atom.{space}.{op}{noftz}.{kind} d0, [{{a}}], b0{third}", kind, space, given, places) == (
            wanted
        )
        if op not in ("exch", "cas"):
            memory, _ = run(f"red.{space}.{op}{noftz}.{kind} [{{a}}], b0", kind, space, given, places)
            assert memory == wanted[0]


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_packed_halves_add_each_for_itself(kind: str, pattern: str) -> None:
    half = kind[:-2]
    low, high = operands(half, 32, 3), operands(half, 32, 4)
    given = tuple(a.astype(np.uint32) | b.astype(np.uint32) << 16 for a, b in zip(low, high, strict=True))
    places = PATTERNS[pattern](np.arange(32))

    def step(old: int, b: int, c: int) -> int:
        parts = [added(half, old >> s & 0xFFFF, b >> s & 0xFFFF, False) for s in (0, 16)]
        return parts[0] | parts[1] << 16

    wanted = in_turn(*(x.tolist() for x in (given[0], places, given[1], given[2])), step)
    assert run(f"atom.global.add.noftz.{kind} d0, [{{a}}], b0", "b32", "global", given, places) == wanted


def test_noftz_keeps_subnormal_numbers_in_global_memory() -> None:
    given = operands("f32", 32, 9)
    places = np.arange(32)
    wanted = in_turn(
        *(x.tolist() for x in (given[0], places, given[1], given[2])),
        lambda old, b, c: added("f32", old, b, False),
    )
    assert run("atom.global.add.noftz.f32 d0, [{a}], b0", "f32", "global", given, places) == wanted


# --- vectors, 128 bits ------------------------------------------------------------------------------


def bits_of(number: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", number))[0])


@pytest.mark.parametrize("name", ["atom", "red"])
@pytest.mark.parametrize("groups", [1, 5, 32])
def test_vectors(name: str, groups: int) -> None:
    """Each element for itself; lanes that share a vector take turns."""
    returned = "{d0..d3}, " if name == "atom" else ""
    keep = "st.global.v4.f32 [o], {d0..d3}" if name == "atom" else ""
    text = f"""
        .reg u32 t g
        .reg f32 x0..x3 d0..d3
        .reg u64 i o m
        mov.u32 t, %tid.x
        rem.u32 g, t, {groups}
        mad.wide.u32 i, t, 16, given
        mad.wide.u32 o, t, 16, out
        mad.wide.u32 m, g, 16, memory
        ld.global.v4.f32 {{x0..x3}}, [i]
        {name}.global.add.v4.f32 {returned}[m], {{x0..x3}}
        {keep}
    """
    random = np.random.default_rng(groups)
    given = random.standard_normal((32, 4)).astype(np.float32)
    memory = random.standard_normal((groups, 4)).astype(np.float32)
    expected, found = memory.copy(), np.zeros((32, 4), np.float32)
    for lane in range(32):
        for element in range(4):
            at = lane % groups, element
            found[lane, element] = expected[at]
            total = added("f32", bits_of(expected[at]), bits_of(given[lane, element]), True)
            expected[at] = np.uint32(total).view(np.float32)
    out = np.zeros((32, 4), np.float32)
    Kernel(text, "given:u64 out:u64 memory:u64").clean(given, out, memory)
    np.testing.assert_array_equal(memory, expected)
    if name == "atom":
        np.testing.assert_array_equal(out, found)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_vectors_of_halves_take_the_smaller_and_the_larger(kind: str) -> None:
    """min and max: a number before a NaN, -0 before +0; both NaN give the canonical one."""
    precision, exponents = FLOATS[kind]
    infinity = ((1 << exponents) - 1) << (precision - 1)
    one_half = ((1 << (exponents - 1)) - 2) << (precision - 1)
    table = [  # memory, operand, min, max
        (0x0000, 0x8000, 0x8000, 0x0000),
        (0x8000, 0x0000, 0x8000, 0x0000),
        (infinity | 3, one_half, one_half, one_half),
        (one_half, 0x8000 | infinity | 1, one_half, one_half),
        (infinity | 1, infinity | 2, 0x7FFF, 0x7FFF),
        (infinity, 0x8000 | infinity, 0x8000 | infinity, infinity),
        (0x8001, 0x0001, 0x8001, 0x0001),
        (one_half, one_half + 1, one_half, one_half + 1),
    ]
    text = f"""
        .reg b16 x0..x7 d0..d7
        .reg b32 w
        .reg u64 m
        ld.global.v4.b16 {{x0..x3}}, [given]
        ld.global.v4.b16 {{x4..x7}}, [given+8]
        atom.global.min.noftz.v8.{kind} {{d0..d7}}, [low], {{x0..x7}}
        red.global.max.noftz.v8.{kind} [high], {{x0..x7}}
        st.global.v4.b16 [old], {{d0..d3}}
        st.global.v4.b16 [old+8], {{d4..d7}}
    """
    memory, given, smaller, larger = np.array(table, np.uint16).T.copy()
    low, high, old = memory.copy(), memory.copy(), np.zeros(8, np.uint16)
    Kernel(text, "given:u64 low:u64 high:u64 old:u64").clean(given.copy(), low, high, old, block=1)
    np.testing.assert_array_equal(low, smaller)
    np.testing.assert_array_equal(high, larger)
    np.testing.assert_array_equal(old, memory)


@pytest.mark.parametrize("count", [1, 32])
def test_128_bits(count: int) -> None:
    """cas and exch of 16 bytes: lanes in pairs, of which the second finds what the first has put."""
    text = """
        .reg u32 t h
        .reg b128 b c d
        .reg u64 i o m
        mov.u32 t, %tid.x
        shr.u32 h, t, 1
        mad.wide.u32 i, t, 32, given
        mad.wide.u32 o, t, 32, out
        mad.wide.u32 m, h, 16, memory
        ld.global.b128 b, [i]
        ld.global.b128 c, [i+16]
        atom.global.cas.b128 d, [m], b, c
        st.global.b128 [o], d
        atom.global.exch.b128 d, [m], b
        st.global.b128 [o+16], d
    """
    random = np.random.default_rng(count)
    given = random.integers(0, 2, (count, 2, 2)).astype(np.uint64)
    memory = random.integers(0, 2, ((count + 1) // 2, 2)).astype(np.uint64)
    expected, found = memory.copy(), np.zeros((count, 2, 2), np.uint64)
    for step in range(2):
        for lane in range(count):
            place = lane // 2
            found[lane, step] = expected[place]
            if step or (expected[place] == given[lane, 0]).all():
                expected[place] = given[lane, 0 if step else 1]
    out = np.zeros_like(found)
    Kernel(text, "given:u64 out:u64 memory:u64").clean(given, out, memory, block=count)
    np.testing.assert_array_equal(out, found)
    np.testing.assert_array_equal(memory, expected)


# --- among warps, and the seam ----------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_a_lock_of_cas_and_exch(schedule: str) -> None:
    """One lane of each warp of two CTAs in turn; whoever finds the lock taken spins."""
    text = """
        .reg u32 t x
        .reg pred p
        mov.u32 t, %laneid
        setp.ne.u32 p, t, 0
        @p bra END
        AGAIN:
        atom.acquire.gpu.global.cas.b32 x, [memory], 0, 1
        setp.ne.u32 p, x, 0
        @p bra AGAIN
        ld.volatile.global.u32 x, [memory+4]
        add.u32 x, x, 1
        st.volatile.global.u32 [memory+4], x
        atom.release.gpu.global.exch.b32 x, [memory], 0
        END:
    """
    memory = np.zeros(2, np.uint32)
    Kernel(text, "memory:u64").clean(memory, block=96, grid=2, schedule=schedule, seed=5)
    np.testing.assert_array_equal(memory, [0, 6])


@pytest.mark.parametrize(
    ("instruction", "writes"),
    [
        ("atom.global.cas.b32 x, [memory], 1, 2", 0),
        ("atom.global.cas.b32 x, [memory], 0, 2", 1),
        ("atom.global.exch.b32 x, [memory], 0", 0),
        ("red.global.max.u32 [memory], 0", 0),
        ("red.global.add.u32 [memory], 1", 1),
    ],
)
def test_what_changes_nothing_is_no_write(
    monkeypatch: pytest.MonkeyPatch, instruction: str, writes: int
) -> None:
    """A spinning thread is parked until memory changes: a cas that fails must not wake it."""
    changes: list[int] = []
    original = Memory.changed

    def changed(self: Memory, segment: Any, offset: Any, size: int, actor: Any) -> None:
        changes.append(size)
        original(self, segment, offset, size, actor)

    monkeypatch.setattr(Memory, "changed", changed)
    Kernel(f".reg u32 x\n{instruction}", "memory:u64").clean(np.zeros(1, np.uint32), block=1)
    assert changes == [4][:writes]


def test_generic_addresses_of_several_spaces() -> None:
    """Lanes of one instruction reach shared and global memory, each with its rule for subnormal numbers."""
    text = """
        .reg u32 t
        .reg f32 x
        .reg u64 m s
        .reg pred p
        .shared b8 room[128] 16
        mov.u32 t, %tid.x
        mov.u64 s, room
        mad.wide.u32 s, t, 4, s
        st.shared.u32 [s], 3
        mad.wide.u32 m, t, 4, memory
        cvta.shared.u64 s, s
        setp.lt.u32 p, t, 9
        selp.b64 s, s, m, p
        atom.add.f32 x, [s], 0f00000002
        ld.f32 x, [s]
        mad.wide.u32 m, t, 4, out
        st.global.f32 [m], x
    """
    memory, out = np.full(32, 3, np.uint32), np.zeros(32, np.uint32)
    Kernel(text, "memory:u64 out:u64").clean(memory, out)
    np.testing.assert_array_equal(out, [5] * 9 + [0] * 23)
    np.testing.assert_array_equal(memory, [3] * 9 + [0] * 23)
