"""Warp-level instructions and special registers, against loops written from the manual."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from pyptx.sim import Report
from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding

SHUFFLE = """
.reg u32 t mine b c got inside
.reg u64 row i o
.reg pred p
mov.u32 t, %tid.x
mul.wide.u32 row, t, 4
add.u64 i, input, row
add.u64 o, output, row
ld.global.u32 mine, [i]
ld.global.u32 b, [i+128]
ld.global.u32 c, [i+256]
shfl.sync.MODE.b32 got|p, mine, b, c, 0xffffffff
selp.u32 inside, 1, 0, p
st.global.u32 [o], got
st.global.u32 [o+128], inside
ret
"""


def shuffled(mode: str, values: list[int], b: list[int], c: list[int]) -> list[tuple[int, bool]]:
    """The pseudocode of the manual's section on shfl.sync, lane by lane."""
    results = []
    for lane in range(32):
        amount, clamp, segment = b[lane] & 0x1F, c[lane] & 0x1F, (c[lane] >> 8) & 0x1F
        max_lane = (lane & segment) | (clamp & ~segment)
        min_lane = lane & segment
        if mode == "up":
            j = lane - amount
            inside = j >= max_lane
        elif mode == "down":
            j = lane + amount
            inside = j <= max_lane
        elif mode == "bfly":
            j = lane ^ amount
            inside = j <= max_lane
        else:
            j = min_lane | (amount & ~segment)
            inside = j <= max_lane
        results.append((values[j if inside else lane], inside))
    return results


def controls(mode: str) -> list[tuple[list[int], list[int]]]:
    """Lane amounts and clamp-and-segment words: every segment width, a clamp inside, and random ones."""
    generator = random.Random(mode)
    found = []
    for width, amount in itertools.product((32, 16, 8, 4, 2, 1), (0, 1, 3, 17, 31)):
        segment = (~(width - 1) & 31) << 8
        clamp = 0 if mode == "up" else 31
        found.append(([amount] * 32, [segment | clamp] * 32))
    found.append(([5] * 32, [20] * 32))  # a clamp within the warp
    for _ in range(8):
        word = generator.getrandbits(13)
        # The amount and the control word may differ from lane to lane, and have bits that do not count.
        found.append(([generator.getrandbits(32) for _ in range(32)], [word | 0xFFFF0000] * 32))
        found.append(
            ([generator.getrandbits(5) for _ in range(32)], [generator.getrandbits(13) for _ in range(32)])
        )
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shfl(mode: str) -> None:
    kernel = Kernel(SHUFFLE.replace("MODE", mode), "input:u64 output:u64")
    values = list(range(1000, 1032))
    for b, c in controls(mode):
        output = np.zeros(64, np.uint32)
        kernel.clean(np.array([*values, *b, *c], np.uint32), output)
        expected = shuffled(mode, values, b, c)
        assert output[:32].tolist() == [value for value, _ in expected], (mode, b, c)
        assert output[32:].tolist() == [int(inside) for _, inside in expected], (mode, b, c)


def test_shfl_among_the_lanes_of_a_mask_and_without_the_predicate() -> None:
    """The odd lanes exchange inside a branch; immediates serve as amount, control and mask."""
    kernel = Kernel(
        """
        .reg u32 tid got odd
        .reg u64 o
        .reg pred even
        mov.u32 tid, %tid.x
        mad.wide.u32 o, tid, 4, out
        and.b32 odd, tid, 1
        setp.eq.u32 even, odd, 0
        mov.u32 got, 77
        @even bra DONE
        shfl.sync.bfly.b32 got, tid, 2, 0x1f, 0xaaaaaaaa
        DONE:
        st.global.u32 [o], got
        ret
        """,
        "out:u64",
    )
    out = np.zeros(32, np.uint32)
    kernel.clean(out)
    assert out.tolist() == [lane ^ 2 if lane % 2 else 77 for lane in range(32)]


def test_shfl_may_overwrite_its_source() -> None:
    kernel = Kernel(
        """
        .reg u32 x
        .reg u64 o
        mov.u32 x, %tid.x
        mad.wide.u32 o, x, 4, out
        shfl.sync.down.b32 x, x, 1, 0x1f, 0xffffffff
        st.global.u32 [o], x
        ret
        """,
        "out:u64",
    )
    out = np.zeros(32, np.uint32)
    kernel.clean(out)
    assert out.tolist() == [min(lane + 1, 31) for lane in range(32)]


ELECT = """
.reg u32 tid who won mask
.reg u64 o
.reg pred p
mov.u32 tid, %tid.x
mad.wide.u32 o, tid, 4, out
mov.u32 mask, MASK
elect.sync who|p, mask
selp.u32 won, 1, 0, p
st.global.u32 [o], who
st.global.u32 [o+4096], won
elect.sync _|p, mask
selp.u32 won, 2, 0, p
st.global.u32 [o+8192], won
ret
"""


@pytest.mark.parametrize(
    ("schedule", "seed"), [("eager", 0), ("late", 0), *(("random", s) for s in range(6))]
)
def test_elect_is_one_lane_and_always_the_same(schedule: str, seed: int) -> None:
    kernel = Kernel(ELECT.replace("MASK", "0xffffffff"), "out:u64")
    out = np.full((3, 1024), 99, np.uint32)
    kernel.clean(out, block=64, schedule=schedule, seed=seed)
    for warp in range(2):
        who, won, again = out[:, 32 * warp : 32 * warp + 32].tolist()
        (leader,) = [lane for lane in range(32) if won[lane]]
        assert who == [leader] * 32
        assert again == [2 * w for w in won]
        assert leader == 0  # what an H200 does, and CUTLASS asks for; the manual leaves it open


def test_elect_chooses_among_the_live_lanes_of_its_mask() -> None:
    kernel = Kernel(
        """
        .reg u32 tid who won
        .reg u64 o
        .reg pred p q
        mov.u32 tid, %tid.x
        mad.wide.u32 o, tid, 4, out
        setp.lt.u32 q, tid, 8
        @q bra DONE
        elect.sync who|p, 0xffffff00
        selp.u32 won, 1, 0, p
        st.global.u32 [o], who
        st.global.u32 [o+128], won
        DONE:
        ret
        """,
        "out:u64",
    )
    for schedule, seed in (("eager", 0), *(("random", s) for s in range(10))):
        out = np.full(64, 99, np.uint32)
        kernel.clean(out, block=24, schedule=schedule, seed=seed)
        assert out[:8].tolist() == [99] * 8
        (leader,) = np.flatnonzero(out[32 + 8 : 32 + 24]) + 8
        assert out[8:24].tolist() == [leader] * 16


# --- bar.warp.sync ----------------------------------------------------------------------------

HANDED_OVER = """
.reg u32 tid half value
.reg u64 o
.reg pred upper
.shared b8 box[128] 16
.reg u32 s
mov.u32 tid, %tid.x
mad.wide.u32 o, tid, 4, out
mov.u32 s, box
mad.lo.u32 s, tid, 4, s
setp.ge.u32 upper, tid, 16
@upper bra UPPER
add.u32 value, tid, 100
st.shared.u32 [s+64], value
bar.warp.sync 0xffffffff // below
bra DONE
UPPER:
bar.warp.sync 0xffffffff // above
ld.shared.u32 value, [s]
st.global.u32 [o], value
DONE:
ret
"""


SYNC = "bar.warp.sync 0xffffffff"


@pytest.mark.parametrize(
    ("schedule", "seed"), [("eager", 0), ("late", 0), *(("random", s) for s in range(6))]
)
@pytest.mark.parametrize("threads", [32, 24])
def test_bar_warp_sync_meets_at_any_of_its_mask(threads: int, schedule: str, seed: int) -> None:
    out = np.zeros(32, np.uint32)
    Kernel(HANDED_OVER, "out:u64").clean(out, block=threads, schedule=schedule, seed=seed)
    assert out.tolist() == [0] * 16 + [100 + lane if lane + 16 < threads else 0 for lane in range(16)]


def test_bar_warp_sync_is_needed_where_it_stands() -> None:
    kernel = Kernel(HANDED_OVER.replace(SYNC, "// nothing"), "out:u64")
    reports = [kernel.run(np.zeros(32, np.uint32), block=32, schedule="random", seed=n) for n in range(8)]
    assert any(r.verdict == "error" for r in reports)


def test_bar_warp_sync_without_all_of_its_mask_hangs() -> None:
    kernel = Kernel(HANDED_OVER.replace(SYNC + " // below", "bar.warp.sync 0x1ffff"), "out:u64")
    (found,) = kernel.run(np.zeros(32, np.uint32), block=32, timeout=None).findings
    assert found.rule.name == "deadlock"
    assert "waits at bar.warp.sync for lanes 0x0000ffff" in str(found)
    assert "waits at bar.warp.sync for lanes 0x00010000" in str(found)


def test_bar_warp_sync_outside_its_mask_is_refused() -> None:
    kernel = Kernel(HANDED_OVER.replace(SYNC + " // above", "bar.warp.sync 0xffff"), "out:u64")
    (found,) = kernel.run(np.zeros(32, np.uint32), block=32).findings
    assert found.rule.name == "member-mask"
    assert "executed by lanes 0xffff0000, which its member mask 0x0000ffff does not name" in found.message
    assert found.see.endswith("bar-warp-sync") and "lanes 16..31" in found.thread


# --- special registers ------------------------------------------------------------------------

NAMES = [
    *(f"{vector}.{axis}" for vector in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    *(
        f"{vector}.{axis}"
        for vector in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"
    ),
    *(
        "laneid",
        "warpid",
        "nwarpid",
        "cluster_ctarank",
        "cluster_nctarank",
        "dynamic_smem_size",
        "total_smem_size",
    ),
    *(f"lanemask_{which}" for which in ("eq", "le", "lt", "ge", "gt")),
]


def special(
    name: str, thread: tuple[int, int, int], cta: tuple[int, int, int], launch: dict[str, Any]
) -> int:
    """One special register of one thread."""
    block, grid = launch["block"], launch["grid"]
    linear = thread[0] + block[0] * (thread[1] + block[1] * thread[2])
    lane = linear % 32
    base, _, axis = name.partition(".")
    at = "xyz".index(axis) if axis else 0
    values = {
        "tid": thread[at],
        "ntid": block[at],
        "ctaid": cta[at],
        "nctaid": grid[at],
        "clusterid": cta[at],
        "nclusterid": grid[at],
        "cluster_ctaid": 0,
        "cluster_nctaid": 1,
        "laneid": lane,
        "warpid": linear // 32,
        "nwarpid": 64,  # warp identifiers of a multiprocessor, not the CTA's warps
        "cluster_ctarank": 0,
        "cluster_nctarank": 1,
        "dynamic_smem_size": launch["smem"],
        "total_smem_size": -(-(launch["smem"] + 64) // 128) * 128,  # in units of the allocation
        "lanemask_eq": 1 << lane,
        "lanemask_le": sum(1 << i for i in range(lane + 1)),
        "lanemask_lt": sum(1 << i for i in range(lane)),
        "lanemask_ge": sum(1 << i for i in range(lane, 32)),
        "lanemask_gt": sum(1 << i for i in range(lane + 1, 32)),
    }
    return values[base]


@pytest.mark.parametrize(
    ("block", "grid"),
    [((32, 1, 1), (1, 1, 1)), ((5, 4, 2), (2, 3, 2)), ((40, 1, 1), (3, 1, 1)), ((1, 7, 9), (1, 2, 1)), ((3, 1, 11), (1, 1, 4))],
)  # fmt: skip
def test_special_registers(block: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
    threads = block[0] * block[1] * block[2]
    lines = [
        ".reg u32 a b c n m",
        ".reg u64 o",
        ".shared b8 fixed[64] 16",
        ".shared b8 dyn[] 16",
        # The linear number of the thread in the grid, from the registers under test.
        "mov.u32 a, %tid.z", "mov.u32 b, %ntid.y", "mov.u32 c, %tid.y", "mad.lo.u32 a, a, b, c",
        "mov.u32 b, %ntid.x", "mov.u32 c, %tid.x", "mad.lo.u32 n, a, b, c",
        "mov.u32 a, %ctaid.z", "mov.u32 b, %nctaid.y", "mov.u32 c, %ctaid.y", "mad.lo.u32 a, a, b, c",
        "mov.u32 b, %nctaid.x", "mov.u32 c, %ctaid.x", "mad.lo.u32 m, a, b, c",
        f"mad.lo.u32 n, m, {threads}, n",
        f"mad.wide.u32 o, n, {4 * len(NAMES)}, out",
    ]  # fmt: skip
    for position, name in enumerate(NAMES):
        lines += [f"mov.u32 a, %{name}", f"st.global.u32 [o+{4 * position}], a"]
    kernel = Kernel("\n".join([*lines, "ret"]), "out:u64")
    ctas = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    places = [(x, y, z) for z in range(block[2]) for y in range(block[1]) for x in range(block[0])]
    out = np.full((len(ctas), threads, len(NAMES)), 12345, np.uint32)
    kernel.clean(out, block=block, grid=grid, smem=128)
    launch = {"block": block, "grid": grid, "smem": 128}
    for number, cta in enumerate(ctas):
        for thread, place in enumerate(places):
            expected = [special(name, place, cta, launch) for name in NAMES]
            assert out[number, thread].tolist() == expected, (cta, place)


def test_clocks_go_forward_and_grid_constants_are_uniform() -> None:
    kernel = Kernel(
        """
        .reg u32 tid a b
        .reg u64 o c d
        .reg pred p
        mov.u32 tid, %tid.x
        mad.wide.u32 o, tid, 32, out
        mov.u64 c, %clock64
        mov.u32 a, %clock
        mov.u64 d, %globaltimer
        mov.u32 b, %clock
        sub.u32 b, b, a
        st.global.u64 [o], c
        mov.u64 d, %clock64
        st.global.u64 [o+8], d
        st.global.u32 [o+16], b
        mov.u64 d, %gridid
        st.global.u64 [o+24], d
        LOOP:
        mov.u64 d, %clock64
        sub.u64 d, d, c
        setp.lt.u64 p, d, 1000
        @p bra LOOP          // waiting for time to pass ends
        ret
        """,
        "out:u64",
    )
    for threads in (32, 24, 1):
        out = np.zeros((32, 4), np.uint64)
        kernel.clean(out, block=threads)
        assert (out[:threads, 1] >= out[:threads, 0]).all()
        assert (out[:threads, 3] == out[0, 3]).all()


# --- sources that do not take part ------------------------------------------------------------------

PARTLY = """
.reg u32 t x y m n
.reg pred p
mov.u32 t, %tid.x
mov.u32 m, MASK
mov.u32 n, 1
setp.ge.u32 p, t, 16
@p bra HIGH
shfl.sync.MODE.b32 x, t, AMOUNT, 31, m // low
HIGH:
ret
"""


def partly(text: str, mode: str, amount: str, mask: str, block: int) -> tuple[Kernel, Report]:
    kernel = Kernel(text.replace("MODE", mode).replace("AMOUNT", amount).replace("MASK", mask))
    return kernel, kernel.run(block=block)


@pytest.mark.parametrize(("mode", "amount", "mask", "said"), [
    ("down", "1", "0xffff", "lane 15 reads from lane 16, which is not in the member mask 0x0000ffff"),
    ("down", "n", "0xffff", "lane 15 reads from lane 16, which is not in the member mask 0x0000ffff"),
    ("bfly", "16", "0xffff", "lane 0 reads from lane 16, which is not"),
    ("idx", "31", "0xffff", "lane 0 reads from lane 31, which is not"),
    ("up", "1", "0xffff", ""),
    ("bfly", "8", "0xffff", ""),
    ("idx", "15", "0xffff", ""),
])  # fmt: skip
@pytest.mark.parametrize("block", [32, 96])
def test_shfl_from_a_lane_outside_the_mask(mode: str, amount: str, mask: str, said: str, block: int) -> None:
    kernel, report = partly(PARTLY, mode, amount, mask, block)
    if not said:
        assert report.verdict == "clean", report
        return
    found = finding(report, "shuffle-source", "review")
    assert said in found.message
    assert found.location is not None and found.location.line == kernel.line("low")


def test_shfl_from_a_lane_that_has_exited() -> None:
    text = PARTLY.replace("@p bra HIGH", "@p exit")
    _, report = partly(text, "down", "4", "0xffffffff", 32)
    found = finding(report, "shuffle-source", "review")
    assert "lane 12 reads from lane 16, which has exited" in found.message and "lane 12" in found.thread


def test_shfl_from_a_lane_that_the_block_never_had() -> None:
    """20 threads: the warp's other lanes count as exited."""
    text = PARTLY.replace("@p bra HIGH\n", "")
    _, report = partly(text, "down", "4", "0xffffffff", 20)
    assert (
        "lane 16 reads from lane 20, which has exited" in finding(report, "shuffle-source", "review").message
    )
    assert partly(text, "down", "4", "0xffffffff", 32)[1].verdict == "clean"
