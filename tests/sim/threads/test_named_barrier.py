"""The sixteen barriers of a CTA: every form, counts, producers and consumers, reductions, and each way to misuse them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.core.findings import Finding
from tests.sim.build import Kernel

pytestmark = pytest.mark.one_in(2)

SCHEDULES = [("eager", 0), ("late", 0), *(("random", seed) for seed in range(4))]

HEAD = """
.shared b8 box[2048] 16
.reg u32 t lane warp s a n v w x
.reg u64 o
.reg pred p q r flag
mov.u32 t, %tid.x
mov.u32 lane, %laneid
shr.u32 warp, t, 5
mov.u32 s, box
mad.lo.u32 s, t, 4, s
mad.wide.u32 o, t, 4, out
mov.u32 v, 0
mov.u32 w, 0
"""


def launched(body: str, threads: int = 64, **options: Any) -> list[int]:
    out = np.full(threads, 99, np.uint32)
    Kernel(HEAD + body + "\nst.global.u32 [o], v\nEND:\nret", "out:u64").clean(out, block=threads, **options)
    return out.tolist()


def found(body: str, threads: int = 64, **options: Any) -> Finding:
    kernel = Kernel(HEAD + body + "\nst.global.u32 [o], v\nEND:\nret", "out:u64")
    (finding,) = kernel.run(np.zeros(threads, np.uint32), block=threads, **options).findings
    return finding


def misuse(body: str, threads: int = 64, **options: Any) -> str:
    finding = found(body, threads, **options)
    assert finding.rule.name == "barrier-misuse", finding
    return finding.message


# --- waiting ----------------------------------------------------------------------------------

MIRROR = """
st.shared.u32 [s], t
mov.u32 a, 3
mov.u32 n, %ntid.x
{barrier}
mov.u32 x, box
sub.u32 w, n, t
mad.lo.u32 x, w, 4, x
ld.shared.u32 v, [x+-4]
"""


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    "barrier",
    ["bar.sync 0", "bar.cta.sync a", "bar.sync a, n", "bar.sync 15, 128", "barrier.sync a, 128",
     "barrier.cta.sync.aligned 1", "bar.red.popc.u32 w, 2, p", "barrier.red.or.pred q, a, n, !p"],
)  # fmt: skip
def test_nobody_passes_before_all_have_arrived(barrier: str, schedule: str, seed: int) -> None:
    body = "setp.eq.u32 p, t, 5" + MIRROR.format(barrier=barrier)
    assert launched(body, 128, schedule=schedule, seed=seed) == [127 - t for t in range(128)]


def test_without_the_barrier_some_pass_early() -> None:
    out = np.zeros(128, np.uint32)
    kernel = Kernel(HEAD + MIRROR.format(barrier="") + "st.global.u32 [o], v\nret", "out:u64")
    verdicts = {str(kernel.run(out, block=128, schedule="random", seed=seed).verdict) for seed in range(6)}
    assert "error" in verdicts


def test_sixteen_barriers_do_not_touch_each_other() -> None:
    """Warp w waits at barrier w alone; the last warp arrives at each of them, in falling order."""
    body = """
    setp.eq.u32 p, warp, 16
    @p bra LAST
    bar.sync warp, 64
    ld.shared.u32 v, [box+2044]
    bra OUT
    LAST:
    mov.u32 a, 16
    mov.u32 v, 7
    st.shared.u32 [box+2044], v
    AGAIN:
    sub.u32 a, a, 1
    bar.arrive a, 64
    setp.ne.u32 q, a, 0
    @q bra AGAIN
    OUT:
    """
    for schedule, seed in SCHEDULES:
        assert launched(body, 17 * 32, schedule=schedule, seed=seed) == [7] * 17 * 32


PIPE = """
setp.ge.u32 p, warp, 2
@p bra CONSUMER
PRODUCE:
@q bar.sync EMPTY, 128
mad.lo.u32 x, v, 100, t
st.shared.u32 [s], x
bar.arrive FULL, 128
setp.eq.u32 q, t, t
add.u32 v, v, 1
setp.lt.u32 r, v, 10
@r bra PRODUCE
bra OUT
CONSUMER:
bar.sync FULL, 128
ld.shared.u32 x, [s+-256]
mad.lo.u32 v, v, 3, x
add.u32 w, w, 1
setp.eq.u32 q, w, 10
@q bra OUT
bar.arrive EMPTY, 128
bra CONSUMER
OUT:
"""


@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, *(("random", seed) for seed in range(4, 12))])
@pytest.mark.parametrize("kind", ["bar", "barrier"])
def test_producers_and_consumers_with_two_barriers(kind: str, schedule: str, seed: int) -> None:
    """Ten values through one buffer: barrier 1 says full, barrier 2 empty."""
    body = "setp.ne.u32 q, t, t" + PIPE.replace("bar.", f"{kind}.").replace("FULL", "1").replace("EMPTY", "2")
    assert launched(body, 128, schedule=schedule, seed=seed)[64:] == consumed()


def consumed() -> list[int]:
    """What the consumers of ten values make of them."""
    totals = []
    for t in range(64):
        total = 0
        for step in range(10):
            total = total * 3 + step * 100 + t & 0xFFFFFFFF
        totals.append(total)
    return totals


def test_one_barrier_for_full_and_empty_separates_nothing() -> None:
    """A producer's two arrivals make a round: nobody waits for the consumers."""
    body = "setp.ne.u32 q, t, t" + PIPE.replace("FULL", "1").replace("EMPTY", "1")
    kernel = Kernel(HEAD + body + "\nst.global.u32 [o], v\nEND:\nret", "out:u64")
    right = []
    for schedule, seed in SCHEDULES:
        out = np.zeros(128, np.uint32)
        report = kernel.run(out, block=128, schedule=schedule, seed=seed)
        right.append(report.verdict == "clean" and out[64:].tolist() == consumed())
    assert not all(right)


def test_warps_that_exited_are_not_waited_for() -> None:
    for threads, leaving in ((128, 64), (96, 40), (70, 66)):
        body = f"setp.lt.u32 p, t, {leaving}\n@p bra END\nbar.sync 0\nadd.u32 v, t, 1"
        expected = [99 if t < leaving else t + 1 for t in range(threads)]
        for schedule, seed in SCHEDULES:
            assert launched(body, threads, schedule=schedule, seed=seed) == expected


def test_a_count_waits_for_them_all_the_same() -> None:
    finding = found("setp.lt.u32 p, t, 64\n@p bra END\nbar.sync 3, 128", 128, timeout=None)
    assert finding.rule.name == "deadlock"
    assert "waits at bar.sync 3: 64 of 128 threads have arrived" in str(finding)


# --- reductions -------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("kind", ["bar", "bar.cta", "barrier", "barrier.cta"])
@pytest.mark.parametrize("threads", [96, 77])
def test_reductions(threads: int, kind: str) -> None:
    """Who votes yes: nobody, all, one, all but one, some; of those threads that are still there."""
    aligned = ".aligned" if kind.startswith("barrier.") else ""
    for voters in (
        set(),
        set(range(threads)),
        {threads - 1},
        set(range(threads)) - {33},
        set(range(0, threads, 3)),
    ):
        for leaving in (0, 20, 40):
            given = np.array([t in voters for t in range(threads)], np.uint32)
            out = np.full((threads, 6), 99, np.uint32)
            lines = [
                HEAD,
                ".reg u64 i",
                "mad.wide.u32 i, t, 4, given",
                "ld.global.u32 v, [i]",
                "setp.ne.u32 p, v, 0",
            ]
            lines += [f"setp.lt.u32 q, t, {leaving}", "@q bra END", "mad.wide.u32 o, t, 24, out"]
            for slot, negated in enumerate(("", "!")):
                lines += [
                    f"{kind}.red.popc{aligned}.u32 w, 0, {negated}p",
                    f"st.global.u32 [o+{12 * slot}], w",
                    f"{kind}.red.and{aligned}.pred r, 1, {negated}p",
                    "selp.u32 w, 1, 0, r",
                    f"st.global.u32 [o+{12 * slot + 4}], w",
                    f"{kind}.red.or{aligned}.pred r, 0, {negated}p",
                    "selp.u32 w, 1, 0, r",
                    f"st.global.u32 [o+{12 * slot + 8}], w",
                ]
            kernel = Kernel("\n".join([*lines, "END:", "ret"]), "given:u64 out:u64")
            for schedule, seed in (("eager", 0), ("random", 1)):
                kernel.clean(given, out, block=threads, schedule=schedule, seed=seed)
                there = set(range(leaving, threads))
                expected: list[int] = []
                for yes in (voters & there, there - voters):
                    expected += [len(yes), int(yes == there), int(bool(yes))]
                for t in range(threads):
                    assert out[t].tolist() == (expected if t >= leaving else [99] * 6), (voters, leaving, t)


def test_a_reduction_of_some_warps() -> None:
    body = """
    setp.ge.u32 q, warp, 2
    @q bra OUT
    setp.gt.u32 p, lane, 28
    mov.u32 n, 64
    bar.red.popc.u32 v, 6, n, p
    OUT:
    """
    assert launched(body, 128) == [6] * 64 + [0] * 64


# --- lanes of a warp apart --------------------------------------------------------------------

APART = """
and.b32 x, t, 1
setp.eq.u32 p, x, 0
st.shared.u32 [s], t
@p bra EVEN
{odd}
ld.shared.u32 v, [s+-4]
bra OUT
EVEN:
{even}
ld.shared.u32 v, [s+4]
OUT:
"""


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_lanes_of_a_warp_come_from_two_places(schedule: str, seed: int) -> None:
    body = APART.format(odd="barrier.sync 1, 64", even="barrier.sync 1, 64")
    assert launched(body, schedule=schedule, seed=seed) == [t ^ 1 for t in range(64)]


def test_an_aligned_barrier_has_one_place() -> None:
    # Whichever lanes come first: the manual leaves it undefined, so it is a finding.
    for odd, even in (
        ("barrier.sync.aligned 1", "barrier.sync.aligned 1"),
        ("barrier.sync 1", "barrier.sync.aligned 1"),
    ):
        finding = found(APART.format(odd=odd, even=even))
        assert finding.rule.name == "barrier-misuse" and "two places" in finding.message
    finding = found(APART.format(odd="bar.sync 1", even="bar.sync 1"))
    assert finding.rule.name == "divergent-collective"


def test_two_barriers_for_two_halves_of_a_warp_hang() -> None:
    finding = found(APART.format(odd="barrier.sync 1", even="barrier.sync 2"), timeout=None)
    assert finding.rule.name == "deadlock"
    assert (
        "waits at barrier.sync 1: 0 of 64 threads have arrived; lanes 0x55555555 of the same warp have not arrived"
        in str(finding)
    )


def test_an_arrival_waits_for_its_warp() -> None:
    """All lanes of a warp have arrived before any of them goes on; the others are not waited for."""
    even = "st.shared.u32 [s+1024], t\nbarrier.arrive 1, 64"
    body = APART.format(odd="barrier.arrive 1, 64\nld.shared.u32 w, [s+1020]", even=even)
    body = (
        "setp.ge.u32 q, warp, 1\n@q bra OTHERS"
        + body
        + "bra DONE\nOTHERS:\nbarrier.sync 1, 64\nDONE:\nmov.u32 v, w"
    )
    for schedule, seed in SCHEDULES:
        # An arrival acquires nothing: that the values are there is a matter of this machine.
        out = launched(body, schedule=schedule, seed=seed, sanitize=False)
        assert out[1:32:2] == list(range(0, 32, 2))


# --- misuse -----------------------------------------------------------------------------------


def test_counts_must_agree() -> None:
    text = "setp.eq.u32 p, warp, 0\nmov.u32 n, 64\n@p mov.u32 n, {first}\nbar.sync 1, n\nbar.sync 0"
    launched(text.format(first=64))
    message = misuse(text.format(first=96), 96)
    assert (
        "has a thread count of 64, but its round" in message
        or "has a thread count of 96, but its round" in message
    )


def test_a_count_of_all_threads_is_no_count() -> None:
    text = "setp.eq.u32 p, warp, 0\n@p bra FIRST\nbar.sync 1\nbra OUT\nFIRST:\nbar.sync 1, {count}\nOUT:\nmov.u32 v, 1"
    assert launched(text.format(count=96), 96) == [1] * 96
    assert "no thread count" in misuse(text.format(count=64), 96)


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (48, "a multiple of 32"),
        (0, "a multiple of 32"),
        (96, "but the CTA has 64 threads"),
        (1 << 20, "but the CTA has"),
    ],
)
def test_counts_are_whole_warps_of_the_cta(count: int, says: str) -> None:
    for instruction in ("bar.sync", "bar.arrive", "barrier.sync"):
        assert says in misuse(f"mov.u32 n, {count}\n{instruction} 1, n")


def test_barriers_are_0_to_15() -> None:
    launched("mov.u32 a, 15\nbar.sync a")
    assert "barrier 16; a CTA has barriers 0 to 15" in misuse("mov.u32 a, 16\nbar.sync a")


@pytest.mark.parametrize("operands", ["warp, 64", "lane, 64", "1, n"])
def test_a_warp_agrees_on_its_operands(operands: str) -> None:
    body = "and.b32 n, lane, 1\nmad.lo.u32 n, n, 32, 32\nand.b32 lane, lane, 15\n"
    if operands.startswith("warp"):
        # Each warp has a barrier of its own.
        launched(body + "bar.sync warp, 32")
    else:
        assert "is not the same in all lanes" in misuse(body + f"bar.sync {operands}")


TURNS = """
setp.ne.u32 p, warp, 0
add.u32 a, warp, 1
sub.u32 n, 2, warp
mov.u32 x, box
setp.eq.u32 q, t, 0
@q st.shared.u32 [x], v
bar.sync 0
@p bra TURN
bar.arrive 1, 64
TURN:
bar.sync a, 64
ld.shared.u32 s, [x]
mad.lo.u32 v, v, 10, s
bar.warp.sync 0xffffffff
add.u32 s, s, 1
st.shared.u32 [x], s
bar.arrive n, 64
add.u32 w, w, 1
setp.lt.u32 q, w, 3
@q bra TURN
@p bra END2
bar.sync 1, 64
END2:
"""


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_warp_may_arrive_and_then_wait_in_one_round(schedule: str, seed: int) -> None:
    """Two warps take turns; the first gives itself the first one: the barrier counts arrivals, not warps."""
    assert launched(TURNS, schedule=schedule, seed=seed) == [24] * 32 + [135] * 32


def test_each_arrival_without_waiting_counts() -> None:
    text = "setp.eq.u32 p, warp, {first}\nsetp.eq.u32 q, warp, 2\n@q bra OUT\n@p bra FIRST\nbar.sync 1, 96\nbra OUT\nFIRST:\nbar.arrive 1, 96\n{again}\nOUT:\nbar.sync 0"
    for first in (0, 1):
        launched(text.format(first=first, again="bar.arrive 1, 96"), 96)
    hang = found(text.format(first=0, again=""), 96)
    assert hang.rule.name == "deadlock" and "64 of 96 threads have arrived" in str(hang)


def test_reductions_and_other_barriers_do_not_mix() -> None:
    text = "setp.eq.u32 p, warp, 0\n@p bra FIRST\nbar.red.popc.u32 v, 1, 64, p\nbra OUT\nFIRST:\n{other}\nOUT:\nbar.sync 0"
    launched(text.format(other="bar.red.popc.u32 v, 1, 64, p"))
    for other, words in (("bar.sync 1, 64", "a barrier without"), ("bar.arrive 1, 64", "a barrier without"),
                         ("bar.red.and.pred q, 1, 64, p", "a reduction .and")):  # fmt: skip
        message = misuse(text.format(other=other))
        assert "a reduction .popc" in message and words in message


def test_a_guard_that_some_lanes_fail_is_refused() -> None:
    text = "setp.lt.u32 p, t, {limit}\n@p bar.sync 1, 32\nbar.sync 0"
    launched(text.format(limit=32))
    assert found(text.format(limit=20)).rule.name == "divergent-collective"
