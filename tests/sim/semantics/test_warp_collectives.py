"""vote, match, redux, shfl, elect, activemask: several warps, member masks of each lane, two places; against loops."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tests.sim.build import Kernel

HEAD = """
.reg u32 t lane mask got also shift cta size
.reg b32 v
.reg f32 f g
.reg u64 i o wide
.reg pred p q out_p
mov.u32 t, %tid.x
mov.u32 cta, %ctaid.x
mov.u32 size, %ntid.x
mad.lo.u32 t, cta, size, t
mov.u32 lane, %laneid
mad.wide.u32 i, t, 8, given
mad.wide.u32 o, t, 8, result
ld.global.u64 wide, [i]
cvt.u32.u64 v, wide
mov.b32 f, v
setp.ne.u32 p, v, 0
"""
TAIL = """
st.global.u32 [o], got
st.global.u32 [o+4], also
DONE:
ret
"""

#: How the lanes get their masks, and which lanes take part (as the model sees it).
WHO: dict[str, tuple[str, Callable[[int], list[int]]]] = {
    "warps": ("mov.u32 mask, 0xffffffff", lambda live: [live] * 32),
    "tiles": (
        "and.b32 shift, lane, 24\nmov.u32 mask, 0xff\nshl.b32 mask, mask, shift",
        lambda live: [(0xFF << (lane & 24)) & live for lane in range(32)],
    ),
    "parity": (
        "and.b32 shift, lane, 1\nmov.u32 mask, 0x55555555\nshl.b32 mask, mask, shift",
        lambda live: [(0x55555555 << (lane & 1)) & live for lane in range(32)],
    ),
    "branch": (
        "mov.u32 mask, 0xfff0\nsetp.lt.u32 q, lane, 4\n@q bra DONE\nsetp.gt.u32 q, lane, 15\n@q bra DONE",
        lambda live: [0xFFF0 & live if 4 <= lane < 16 else 0 for lane in range(32)],
    ),
}


def lanes_of(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


def check(
    operation: str,
    rows: list[list[int]],
    model: Callable[[int, int, list[int]], tuple[int, int]],
    ways: Sequence[str] = tuple(WHO),
    sizes: Sequence[int] = (32, 96, 77),
) -> None:
    """Run ``operation`` for ways to choose masks, a CTA for each row of values, in CTAs of several sizes.

    ``model(lane, members, words)`` says what a lane gets.
    """
    for who in ways:
        setup, members = WHO[who]
        kernel = Kernel(HEAD + setup + "\n" + operation + TAIL, "given:u64 result:u64")
        for threads in sizes:
            given = np.array([row[:threads] for row in rows], np.uint64)
            result = np.full((len(rows), threads, 2), 99, np.uint32)
            kernel.clean(given, result, block=threads, grid=len(rows))
            for row, values in enumerate(given.tolist()):
                for thread in range(threads):
                    warp, lane = thread & ~31, thread & 31
                    live = (1 << min(32, threads - warp)) - 1
                    mask = members(live)[lane]
                    expected = model(lane, mask, values[warp : warp + 32]) if mask else (99, 99)
                    assert tuple(result[row, thread].tolist()) == expected, (who, threads, row, thread)


def words(seed: str, few: bool = False) -> list[int]:
    generator = random.Random(seed)
    if few:
        return [generator.choice((0, 1, 1 << 40, (1 << 40) + 1)) for _ in range(128)]
    return [generator.getrandbits(64) for _ in range(128)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("negated", ["", "!"])
@pytest.mark.parametrize("mode", ["all", "any", "uni", "ballot"])
def test_vote(mode: str, negated: str) -> None:
    def model(lane: int, mask: int, values: list[int]) -> tuple[int, int]:
        flags = [bool(values[i] & 0xFFFFFFFF) != bool(negated) for i in lanes_of(mask)]
        if mode == "ballot":
            return sum(1 << i for i, flag in zip(lanes_of(mask), flags, strict=True) if flag), 5
        return int({"all": all(flags), "any": any(flags), "uni": len(set(flags)) == 1}[mode]), 5

    operation = (
        f"vote.sync.ballot.b32 got, {negated}p, mask"
        if mode == "ballot"
        else f"vote.sync.{mode}.pred out_p, {negated}p, mask\nselp.u32 got, 1, 0, out_p"
    )
    one = [int(i % 32 == 9) for i in range(128)]
    rows = [[0] * 128, [1] * 128, one, [1 - v for v in one], words("votes", few=True)]
    check(f"{operation}\nmov.u32 also, 5", rows, model)


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_match(kind: str) -> None:
    size = (1 << int(kind[1:])) - 1
    source = "v" if kind == "b32" else "wide"

    def any_model(lane: int, mask: int, values: list[int]) -> tuple[int, int]:
        return sum(1 << i for i in lanes_of(mask) if not (values[i] ^ values[lane]) & size), 5

    def all_model(lane: int, mask: int, values: list[int]) -> tuple[int, int]:
        same = len({values[i] & size for i in lanes_of(mask)}) == 1
        return (mask, 1) if same else (0, 0)

    rows = [words("match", few=True), [7 << 32] * 128, [(i % 2) << 33 for i in range(128)]]
    check(f"match.any.sync.{kind} got, {source}, mask\nmov.u32 also, 5", rows, any_model)
    check(f"match.all.sync.{kind} got|out_p, {source}, mask\nselp.u32 also, 1, 0, out_p", rows, all_model)
    alone = f"match.all.sync.{kind} got, {source}, mask\nmov.u32 also, 5"
    check(alone, rows, lambda *given: (all_model(*given)[0], 5))


def signed(value: int) -> int:
    return (value & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("operation", "model"),
    [
        ("add.u32", sum),
        ("add.s32", sum),
        ("min.u32", lambda v: min(x & 0xFFFFFFFF for x in v)),
        ("max.u32", lambda v: max(x & 0xFFFFFFFF for x in v)),
        ("min.s32", lambda v: min(map(signed, v))),
        ("max.s32", lambda v: max(map(signed, v))),
        ("and.b32", lambda v: reduce(lambda a, b: a & b, v)),
        ("or.b32", lambda v: reduce(lambda a, b: a | b, v)),
        ("xor.b32", lambda v: reduce(lambda a, b: a ^ b, v)),
    ],
)
def test_redux(operation: str, model: Callable[[list[int]], int]) -> None:
    def lane_model(lane: int, mask: int, values: list[int]) -> tuple[int, int]:
        return model([values[i] for i in lanes_of(mask)]) & 0xFFFFFFFF, 5

    rows = [words("redux"), words("few", few=True), [0xFFFFFFFF] * 128, [1 << 31] * 128]
    check(f"redux.sync.{operation} got, v, mask\nmov.u32 also, 5", rows, lane_model)


def number(bits: int) -> float:
    (value,) = struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))
    return float(value)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize("absolute", ["", ".abs"])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_redux_f32(operation: str, absolute: str, nan: str) -> None:
    def model(lane: int, mask: int, values: list[int]) -> tuple[int, int]:
        bits = [values[i] & (0x7FFFFFFF if absolute else 0xFFFFFFFF) for i in lanes_of(mask)]
        numbers = [b for b in bits if not math.isnan(number(b))]
        if not numbers or (nan and len(numbers) < len(bits)):
            return 0x7FFFFFFF, 5
        # +0 is above -0.
        key = lambda b: (number(b), math.copysign(1, number(b)))  # noqa: E731
        return (min if operation == "min" else max)(numbers, key=key), 5

    special = [
        0,
        1 << 31,
        1,
        0x80000001,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0xFFC12345,
        0x3F800000,
        0xBF800000,
    ]
    generator = random.Random("f32")
    rows = [
        [generator.choice(special) for _ in range(128)],
        [generator.choice(special[:2]) for _ in range(128)],
        [generator.choice(special[6:8]) for _ in range(128)],
        [generator.getrandbits(32) for _ in range(128)],
        [special[6 if i % 32 == 7 else i % 6] for i in range(128)],
    ]
    code = f"redux.sync.{operation}{absolute}{nan}.f32 g, f, mask\nmov.b32 got, g\nmov.u32 also, 5"
    check(code, rows, model)


def test_elect_in_every_tile() -> None:
    def model(lane: int, mask: int, values: list[int]) -> tuple[int, int]:
        leader = lanes_of(mask)[0]
        return leader, int(lane == leader)

    check("elect.sync got|out_p, mask\nselp.u32 also, 1, 0, out_p", [[0] * 128], model)


@pytest.mark.parametrize("threads", [32, 96, 77])
def test_activemask_is_who_executes_it(threads: int) -> None:
    kernel = Kernel(
        HEAD + "activemask.b32 also\nsetp.lt.u32 q, lane, 5\n@q bra DONE\nactivemask.b32 got\n" + TAIL,
        "given:u64 result:u64",
    )
    result = np.full((threads, 2), 99, np.uint32)
    kernel.clean(np.zeros(threads, np.uint64), result, block=threads)
    for thread in range(threads):
        live = (1 << min(32, threads - (thread & ~31))) - 1
        expected = [live & ~31, live] if thread & 31 >= 5 else [99, 99]
        assert result[thread].tolist() == expected


def faults(body: str, rule: str = "divergent-collective", **options: Any) -> str:
    kernel = Kernel(HEAD + body + TAIL, "given:u64 result:u64")
    report = kernel.run(np.zeros(32, np.uint64), np.zeros((32, 2), np.uint32), block=32, **options)
    (found,) = report.findings
    assert found.rule.name == rule, found
    return str(found)


COLLECTIVES = {
    "shfl.sync": "shfl.sync.bfly.b32 got, v, 1, 31, mask",
    "vote.sync": "vote.sync.ballot.b32 got, p, mask",
    "match.sync": "match.any.sync.b32 got, v, mask",
    "redux.sync": "redux.sync.add.u32 got, v, mask",
    "elect.sync": "elect.sync got|out_p, mask",
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_lane_outside_its_mask_is_refused(name: str) -> None:
    # Tiles of 16 are as in WHO; the twin gives the upper one the lower one's mask.
    setup = "and.b32 shift, lane, 16\nmov.u32 mask, 0xffff\nshl.b32 mask, mask, shift\nmov.u32 also, 0\n"
    kernel = Kernel(HEAD + setup + COLLECTIVES[name] + TAIL, "given:u64 result:u64")
    kernel.clean(np.zeros(32, np.uint64), np.zeros((32, 2), np.uint32), block=32)
    twin = setup.replace("shl.b32 mask, mask, shift", "")
    text = faults(twin + COLLECTIVES[name], "member-mask")
    assert "executed by lanes 0xffff0000, which its member mask 0x0000ffff does not name" in text
    assert "lanes 16..31" in text and "sync" in text.rpartition("#")[2]


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("lowest", [8, 20])
def test_a_lane_outside_its_mask_is_refused_before_it_waits(name: str, lowest: int) -> None:
    """The lanes from ``lowest`` on reach the instruction alone, with a mask that names lanes elsewhere."""
    text = faults(
        f"mov.u32 mask, 0xffff\nmov.u32 also, 0\nmov.u32 got, 0\nsetp.lt.u32 q, lane, {lowest}\n@q bra AWAY\n"
        f"{COLLECTIVES[name]}\nAWAY:\n",
        "member-mask",
    )
    assert "which its member mask 0x0000ffff does not name" in text
    assert f"lanes {max(16, lowest)}..31" in text


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_guard_that_leaves_members_out_is_refused(name: str) -> None:
    guard = "mov.u32 mask, 0xffffff00\nmov.u32 also, 0\nmov.u32 got, 0\nsetp.ge.u32 q, lane, 8\n@q "
    kernel = Kernel(HEAD + guard + COLLECTIVES[name] + TAIL, "given:u64 result:u64")
    kernel.clean(np.zeros(32, np.uint64), np.zeros((32, 2), np.uint32), block=32)
    text = faults(guard.replace("lane, 8", "lane, 9") + COLLECTIVES[name])
    assert "executed by lanes 0xfffffe00, but its mask and the live lanes give 0xffffff00" in text


# --- two places -------------------------------------------------------------------------------

APART = """
and.b32 shift, lane, 1
setp.eq.u32 q, shift, 1
mov.u32 mask, 0xffffffff
mov.u32 also, 0
@q bra ODD
{first}
add.u32 got, got, 100
bra MET
ODD:
{second}
add.u32 got, got, 200
MET:
"""


@pytest.mark.parametrize(
    ("schedule", "seed"), [("eager", 0), ("late", 0), *(("random", seed) for seed in range(4))]
)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_lanes_of_a_mask_meet_from_two_places(name: str, schedule: str, seed: int) -> None:
    """As on an H200: what counts is the instruction and the mask, not where it stands."""
    values = [3 * (lane // 2) + 1 for lane in range(32)]
    kernel = Kernel(
        HEAD + APART.format(first=COLLECTIVES[name], second=COLLECTIVES[name]) + TAIL, "given:u64 result:u64"
    )
    result = np.zeros((32, 2), np.uint32)
    kernel.clean(np.array(values, np.uint64), result, block=32, schedule=schedule, seed=seed)
    got = [int(word) - (200 if lane % 2 else 100) & 0xFFFFFFFF for lane, word in enumerate(result[:, 0])]
    model = {
        "shfl.sync": [values[lane ^ 1] for lane in range(32)],
        "vote.sync": [0xFFFFFFFF] * 32,
        "match.sync": [3 << (lane & 30) for lane in range(32)],
        "redux.sync": [sum(values)] * 32,
    }
    if name == "elect.sync":
        assert len(set(got)) == 1 and got[0] < 32
    else:
        assert got == model[name]


def test_other_modifiers_do_not_meet() -> None:
    first, second = "redux.sync.add.u32 got, v, mask", "redux.sync.max.u32 got, v, mask"
    assert "of its warp, which are elsewhere" in faults(
        APART.format(first=first, second=second), timeout=None
    )


def test_other_masks_do_not_meet() -> None:
    shuffles = [COLLECTIVES["shfl.sync"].replace("mask", mask) for mask in ("0xffffffff", "0xfffffffe")]
    kernel = Kernel(HEAD + APART.format(first=shuffles[0], second=shuffles[1]) + TAIL, "given:u64 result:u64")
    report = kernel.run(np.zeros(32, np.uint64), np.zeros((32, 2), np.uint32), block=32)
    assert report.verdict == "error"


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shfl_with_immediates_in_several_warps(mode: str) -> None:
    """Amount 3 in segments of 8 lanes: in range where the source lies in the segment."""

    def model(lane: int, mask: int, values: list[int]) -> tuple[int, int]:
        base, place = lane & 24, lane & 7
        source = {"up": place - 3, "down": place + 3, "bfly": place ^ 3, "idx": 3}[mode]
        inside = 0 <= source < 8
        taken = base + source if inside else lane
        return values[taken] & 0xFFFFFFFF, int(inside)

    control = 0x1800 if mode == "up" else 0x1807
    operation = f"shfl.sync.{mode}.b32 got|out_p, v, 3, {control}, mask\nselp.u32 also, 1, 0, out_p"
    rows = [words("shfl"), [5 * i + 1 for i in range(128)]]
    # Elsewhere a source may be no member of the mask, which the manual leaves undefined.
    check(operation, rows, model, ("warps", "tiles"), (32, 96))
