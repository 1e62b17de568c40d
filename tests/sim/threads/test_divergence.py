"""Divergence, reconvergence, independent progress, barriers, and the ways a launch can hang."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.sim import Report
from tests.sim.build import Kernel

pytestmark = pytest.mark.smoke

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("starve:tma", 0)]

HEAD = """
.reg u32 t x y i n
.reg u64 o
.reg pred p q
mov.u32 t, %tid.x
mad.wide.u32 o, t, 4, out
"""


def outputs(body: str, threads: int = 32, count: int = 64, **options: object) -> list[int]:
    """What a kernel of one CTA stores, a word a thread."""
    out = np.zeros(count, np.uint32)
    Kernel(HEAD + body, "out:u64").clean(out, block=threads, **options)
    return out.tolist()


# --- branches ---------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("threads", [32, 13, 1])
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_nested_divergence(threads: int, schedule: str, seed: int) -> None:
    body = """
    mov.u32 x, 0
    and.b32 y, t, 1
    setp.eq.u32 p, y, 0
    @p bra EVEN
    add.u32 x, x, 1
    setp.gt.u32 q, t, 16
    @q bra HIGH
    add.u32 x, x, 10
    bra JOIN
    HIGH:
    add.u32 x, x, 100
    JOIN:
    add.u32 x, x, 1000
    bra END
    EVEN:
    rem.u32 y, t, 3
    setp.ne.u32 q, y, 0
    @q bra END
    add.u32 x, x, 5
    END:
    add.u32 x, x, 10000
    st.global.u32 [o], x
    ret
    """
    expected = []
    for t in range(threads):
        if t % 2:
            expected.append(11001 + (100 if t > 16 else 10))
        else:
            expected.append(10000 + (5 if t % 3 == 0 else 0))
    assert outputs(body, threads, schedule=schedule, seed=seed)[:threads] == expected


@pytest.mark.parametrize("guard", ["@p", "@!p"])
@pytest.mark.parametrize("threads", [32, 20, 1])
def test_a_guarded_branch_to_the_next_statement(guard: str, threads: int) -> None:
    """Both ways lead to the same block: nobody may get lost."""
    body = f"""
    setp.lt.u32 p, t, 7
    {guard} bra NEXT
    NEXT:
    st.global.u32 [o], t
    ret
    """
    assert outputs(body, threads)[:threads] == list(range(threads))


def test_a_guarded_branch_to_the_next_statement_inside_a_branch() -> None:
    body = """
    setp.lt.u32 p, t, 20
    setp.lt.u32 q, t, 7
    @!p bra END
    @q bra END
    END:
    st.global.u32 [o], t
    ret
    """
    assert outputs(body)[:32] == list(range(32))


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_loops_with_a_trip_count_per_lane(schedule: str, seed: int) -> None:
    """x = sum of i < t; the innermost loop runs i times."""
    body = """
    mov.u32 x, 0
    mov.u32 i, 0
    OUTER:
    setp.ge.u32 p, i, t
    @p bra DONE
    mov.u32 n, 0
    INNER:
    setp.ge.u32 q, n, i
    @q bra NEXT
    add.u32 x, x, 1
    add.u32 n, n, 1
    bra INNER
    NEXT:
    add.u32 i, i, 1
    bra OUTER
    DONE:
    st.global.u32 [o], x
    ret
    """
    expected = [t * (t - 1) // 2 for t in range(32)]
    assert outputs(body, schedule=schedule, seed=seed)[:32] == expected


def test_loops_tested_at_the_end_and_left_in_the_middle() -> None:
    body = """
    mov.u32 x, t
    mov.u32 i, 0
    LOOP:
    add.u32 i, i, 1
    and.b32 y, x, 1
    setp.eq.u32 p, y, 1
    @p bra ODD
    shr.u32 x, x, 1
    bra NEXT
    ODD:
    mad.lo.u32 x, x, 3, 1
    NEXT:
    setp.le.u32 q, x, 1
    @q bra OUT
    setp.lt.u32 p, i, 200
    @p bra LOOP
    OUT:
    st.global.u32 [o], i
    ret
    """
    expected = []
    for t in range(32):
        x, steps = t, 0
        while True:
            steps += 1
            x = 3 * x + 1 if x % 2 else x // 2
            if x <= 1 or steps >= 200:
                break
        expected.append(steps)
    assert outputs(body)[:32] == expected


@pytest.mark.parametrize("word", ["ret", "exit"])
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_early_exits(word: str, schedule: str, seed: int) -> None:
    """Lanes end under a guard, in a branch, in a loop and at the end; the others go on."""
    body = f"""
    st.global.u32 [o], 1
    setp.lt.u32 p, t, 3
    @p {word}
    mov.u32 i, 3
    LOOP:
    setp.eq.u32 p, t, i
    @p bra LEAVE
    st.global.u32 [o], i
    add.u32 i, i, 1
    setp.lt.u32 q, i, 8
    @q bra LOOP
    bra REST
    LEAVE:
    st.global.u32 [o], 77
    {word}
    REST:
    setp.gt.u32 p, t, 20
    @!p bra STORE
    {word}
    STORE:
    st.global.u32 [o], 99
    """
    expected = [1] * 3 + [77] * 5 + [99] * 13 + [7] * 11
    assert outputs(body, schedule=schedule, seed=seed)[:32] == expected


def test_a_kernel_may_end_without_ret_or_be_empty() -> None:
    assert outputs("st.global.u32 [o], 5")[:32] == [5] * 32
    Kernel("").clean(block=64, grid=3)


def test_lanes_come_together_at_the_join() -> None:
    """What follows a branch runs once for the warp: counted in steps, and shown by a shuffle."""
    body = """
    setp.lt.u32 p, t, 9
    @p bra LOW
    mov.u32 x, 100
    bra JOIN
    LOW:
    mov.u32 x, 200
    JOIN:
    shfl.sync.bfly.b32 x, x, 31, 31, -1
    st.global.u32 [o], x
    ret
    """
    assert outputs(body)[:32] == [200 if 31 - t < 9 else 100 for t in range(32)]


def test_after_the_join_the_warp_runs_as_one() -> None:
    """Thirty-two arms, then a thousand instructions: they cost a thousand steps, not 32,000."""
    lines = [HEAD]
    for lane in range(31):
        lines += [f"setp.eq.u32 p, t, {lane}", f"@p bra A{lane}"]
    lines += ["mov.u32 x, 31", "bra JOIN"]
    for lane in range(31):
        lines += [f"A{lane}:", f"mov.u32 x, {lane}", "bra JOIN"]
    lines += ["JOIN:", *["add.u32 x, x, 1"] * 1000, "st.global.u32 [o], x", "ret"]
    out = np.zeros(32, np.uint32)
    report = Kernel("\n".join(lines), "out:u64").clean(out)
    assert out.tolist() == [t + 1000 for t in range(32)]
    assert report.steps < 2500


# --- collectives ------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_lanes_reach_a_collective_at_different_times(schedule: str, seed: int) -> None:
    """bar.sync inside a loop whose lanes arrive one after the other, by different ways."""
    body = """
    .shared b8 total[4] 4
    mov.u32 n, total
    mov.u32 i, 0
    setp.eq.u32 q, t, 0
    @q st.shared.u32 [n], 0
    TURN:
    setp.lt.u32 p, i, t
    @!p bra READY
    add.u32 i, i, 1
    bra TURN
    READY:
    bar.sync 0
    @q st.shared.u32 [n], 42
    bar.sync 0
    ld.shared.u32 x, [n]
    st.global.u32 [o], x
    ret
    """
    assert outputs(body, 64, schedule=schedule, seed=seed) == [42] * 64


def test_a_collective_that_some_lanes_never_reach() -> None:
    kernel = Kernel(
        HEAD
        + """
        setp.lt.u32 p, t, 8
        @p bra ELSE
        bar.sync 0            // upper lanes
        bra END
        ELSE:
        bar.sync 1            // lower lanes
        END:
        ret
        """,
        "out:u64",
    )
    report = in_few_steps(kernel, np.zeros(32, np.uint32))
    (found,) = report.findings
    assert found.rule.name == "divergent-collective"
    assert "lanes 0x000000ff of its warp, which are elsewhere" in found.message
    assert "lanes 0xffffff00 of its warp, which are elsewhere" in found.message
    lines = {location.line for _, location in found.other if location is not None}
    assert lines == {kernel.line("upper lanes"), kernel.line("lower lanes")}


def test_lanes_that_exit_are_not_waited_for() -> None:
    body = """
    setp.lt.u32 p, t, 8
    @p ret
    bar.sync 0
    shfl.sync.idx.b32 x, t, 20, 31, -1
    st.global.u32 [o], x
    ret
    """
    assert outputs(body, 64) == [0] * 8 + [20] * 24 + [52] * 32


@pytest.mark.parametrize("threads", [32, 30])
def test_lanes_that_exit_later_release_those_that_wait(threads: int) -> None:
    """The upper lanes wait at the barrier while the lower ones still run a loop and then end."""
    body = """
    setp.lt.u32 p, t, 8
    @!p bra WAIT
    mov.u32 i, 0
    LOOP:
    add.u32 i, i, 1
    setp.lt.u32 q, i, 50
    @q bra LOOP
    st.global.u32 [o], i
    ret
    WAIT:
    bar.sync 0
    st.global.u32 [o], 7
    ret
    """
    assert outputs(body, threads)[:threads] == [50] * 8 + [7] * (threads - 8)


# --- CTA barriers -----------------------------------------------------------------------------

STAGES = """
.shared b8 words[512] 4
mov.u32 n, words
mad.lo.u32 y, t, 4, n
st.shared.u32 [y], t
bar.sync 3
xor.b32 x, t, 127
mad.lo.u32 y, x, 4, n
ld.shared.u32 x, [y]
bar.sync 3
mad.lo.u32 y, t, 4, n
add.u32 x, x, 1000
st.shared.u32 [y], x
bar.sync 3
xor.b32 x, t, 64
mad.lo.u32 y, x, 4, n
ld.shared.u32 x, [y]
st.global.u32 [o], x
ret
"""


@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, *(("random", s) for s in range(3, 9))])
def test_bar_sync_orders_shared_memory(schedule: str, seed: int) -> None:
    expected = [1000 + ((t ^ 64) ^ 127) for t in range(128)]
    assert outputs(STAGES, 128, 128, schedule=schedule, seed=seed) == expected


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_named_barriers_with_thread_counts(schedule: str, seed: int) -> None:
    """Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2, twice; then all at 0."""
    body = """
    .shared b8 flags[16] 4
    .reg u32 warp pair other
    mov.u32 n, flags
    shr.u32 warp, t, 5
    shr.u32 pair, warp, 1
    add.u32 pair, pair, 1
    mad.lo.u32 y, warp, 4, n
    st.shared.u32 [y], 5
    bar.sync pair, 64
    xor.b32 other, warp, 1
    mad.lo.u32 other, other, 4, n
    ld.shared.u32 x, [other]
    bar.sync pair, 64
    add.u32 i, warp, x
    st.shared.u32 [y], i
    bar.sync 0
    xor.b32 other, warp, 3
    mad.lo.u32 other, other, 4, n
    ld.shared.u32 x, [other]
    st.global.u32 [o], x
    ret
    """
    expected = [5 + (t // 32 ^ 3) for t in range(128)]
    assert outputs(body, 128, 128, schedule=schedule, seed=seed) == expected


def test_warps_that_have_ended_do_not_count() -> None:
    body = """
    .reg u32 warp
    shr.u32 warp, t, 5
    setp.eq.u32 p, warp, 1
    @p ret
    bar.sync 0
    st.global.u32 [o], 3
    ret
    """
    assert outputs(body, 96, 96) == [3] * 32 + [0] * 32 + [3] * 32


def test_a_warp_that_ends_releases_those_that_wait() -> None:
    """The last of three warps ends after the others wait."""
    body = """
    .reg u32 warp
    shr.u32 warp, t, 5
    mov.u32 i, 0
    setp.ne.u32 p, warp, 0
    @p bra WAIT
    LOOP:
    add.u32 i, i, 1
    setp.lt.u32 q, i, 100
    @q bra LOOP
    ret
    WAIT:
    bar.sync 0
    st.global.u32 [o], 3
    ret
    """
    for schedule, seed in SCHEDULES:
        assert outputs(body, 96, 96, schedule=schedule, seed=seed) == [0] * 32 + [3] * 64


def test_partial_warps_count_whole() -> None:
    body = "bar.sync 0\nbar.sync 1, 64\nst.global.u32 [o], 1\nret"
    assert outputs(body, 40)[:40] == [1] * 40


# --- independent progress ---------------------------------------------------------------------

SPIN = """
.shared b8 flag[8] 4
mov.u32 n, flag
setp.eq.u32 p, t, 0
@p st.shared.u32 [n], 0
@p st.shared.u32 [n+4], 0
bar.sync 0
setp.eq.u32 p, t, WAITER
@!p bra OTHERS
mov.u32 i, 0
LOOP:
COUNT
ld.volatile x, [n]
setp.eq.u32 q, x, 0
@q bra LOOP
st.global.u32 [o], x
bra END
OTHERS:
BEFORE
END:
AFTER
st.global.u32 [o+256], t
ret
""".replace("ld.volatile x", "ld.relaxed.cta.shared.u32 x")

SET_FLAG = "setp.eq.u32 q, t, SETTER\n@q st.relaxed.cta.shared.u32 [n], 9"


@pytest.mark.one_in(5)
@pytest.mark.parametrize("where", ["in the other arm", "after the join"])
@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize(("waiter", "setter"), [(3, 5), (31, 0), (0, 40), (40, 0)])
@pytest.mark.parametrize(("schedule", "seed"), [("eager", 0), ("late", 0), ("random", 3)])
def test_a_lane_spins_on_a_flag_that_another_sets(
    where: str, counting: bool, waiter: int, setter: int, schedule: str, seed: int
) -> None:
    """In its own warp or another, in the other arm of its branch or behind the join; a spin may count."""
    text = SPIN.replace("COUNT", "add.u32 i, i, 1" if counting else "").replace("WAITER", str(waiter))
    in_arm = where == "in the other arm"
    text = text.replace("BEFORE", SET_FLAG if in_arm else "").replace("AFTER", "" if in_arm else SET_FLAG)
    out = np.zeros(128, np.uint32)
    Kernel(HEAD + text.replace("SETTER", str(setter)), "out:u64").clean(
        out, block=64, schedule=schedule, seed=seed, timeout=120
    )
    assert out[waiter] == 9
    assert out[64:].tolist() == list(range(64))


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_warps_take_turns_through_flags(schedule: str, seed: int) -> None:
    """Each warp spins until the one before it has passed the baton on."""
    body = """
    .shared b8 baton[4] 4
    .reg u32 warp
    mov.u32 n, baton
    shr.u32 warp, t, 5
    setp.eq.u32 p, t, 0
    @p st.shared.u32 [n], 0
    bar.sync 0
    LOOP:
    ld.acquire.cta.shared.u32 x, [n]
    setp.ne.u32 q, x, warp
    @q bra LOOP
    and.b32 y, t, 31
    setp.eq.u32 q, y, 0
    @q st.global.u32 [o], x
    add.u32 x, x, 1
    @q st.release.cta.shared.u32 [n], x
    ret
    """
    out = outputs(body, 128, 128, schedule=schedule, seed=seed)
    assert out[::32] == [0, 1, 2, 3]


def test_ctas_see_each_other_through_global_memory() -> None:
    """CTA 1 waits for CTA 0 and the other way round: both are resident."""
    kernel = Kernel(
        """
        .reg u32 c x other
        .reg u64 mine theirs
        .reg pred q
        mov.u32 c, %ctaid.x
        xor.b32 other, c, 1
        mad.wide.u32 mine, c, 4, out
        mad.wide.u32 theirs, other, 4, out
        st.release.gpu.global.u32 [mine], 1
        LOOP:
        ld.acquire.gpu.global.u32 x, [theirs]
        setp.eq.u32 q, x, 0
        @q bra LOOP
        ret
        """,
        "out:u64",
    )
    for schedule, seed in SCHEDULES:
        kernel.clean(np.zeros(2, np.uint32), grid=2, block=1, schedule=schedule, seed=seed)


def test_grids_larger_than_the_machine() -> None:
    kernel = Kernel(
        """
        .reg u32 x y z w
        .reg u64 o
        mov.u32 x, %ctaid.x
        mov.u32 y, %ctaid.y
        mad.lo.u32 x, y, 50, x
        mov.u32 y, %ctaid.z
        mad.lo.u32 x, y, 350, x
        mad.wide.u32 o, x, 4, out
        add.u32 x, x, 1
        st.global.u32 [o], x
        ret
        """,
        "out:u64",
    )
    out = np.zeros(700, np.uint32)
    kernel.clean(out, grid=(50, 7, 2), block=1)
    assert out.tolist() == list(range(1, 701))


# --- hangs ------------------------------------------------------------------------------------


def in_few_steps(kernel: Kernel, *args: object, **options: object) -> Report:
    """A launch that must end by itself as an error, long before a limit would end it."""
    report = kernel.run(*args, timeout=None, max_steps=1_000_000, **options)
    assert report.verdict == "error", report
    return report


ALL = [("eager", 0), ("late", 0), ("random", 0), ("random", 1), ("starve:mma", 0)]


@pytest.mark.parametrize(("schedule", "seed"), ALL)
def test_deadlock_at_a_cta_barrier(schedule: str, seed: int) -> None:
    kernel = Kernel(
        HEAD
        + """
        setp.lt.u32 p, t, 32
        @p bar.sync 1, 64   // waits
        bar.sync 0          // arrives
        ret
        """,
        "out:u64",
    )
    report = in_few_steps(kernel, np.zeros(1, np.uint32), block=64, schedule=schedule, seed=seed)
    (found,) = report.findings
    assert found.rule.name == "deadlock"
    assert "warp 0 lanes 0..31 waits at bar.sync 1: 32 of 64 threads have arrived" in found.message
    assert "warp 1 lanes 0..31 waits at bar.sync 0: 32 of 64 threads have arrived" in found.message
    lines = {location.line for _, location in found.other if location is not None}
    assert lines == {kernel.line("waits"), kernel.line("arrives")}


@pytest.mark.parametrize(("schedule", "seed"), ALL)
def test_deadlock_of_a_spin(schedule: str, seed: int) -> None:
    kernel = Kernel(
        HEAD
        + """
        LOOP:
        ld.global.u32 x, [out]  // read
        setp.eq.u32 p, x, 0
        @p bra LOOP
        ret
        """,
        "out:u64",
    )
    for threads in (32, 5, 1):
        report = in_few_steps(kernel, np.zeros(1, np.uint32), block=threads, schedule=schedule, seed=seed)
        (found,) = report.findings
        assert found.rule.name == "deadlock"
        assert "spins: no value that it reads changes any more" in found.message


@pytest.mark.parametrize(("schedule", "seed"), ALL)
def test_deadlock_between_a_spin_and_a_barrier(schedule: str, seed: int) -> None:
    kernel = Kernel(
        HEAD
        + """
        setp.lt.u32 p, t, 32
        @p bra SPIN
        bar.sync 0
        st.global.u32 [out], 1
        ret
        SPIN:
        ld.relaxed.gpu.global.u32 x, [out]
        setp.eq.u32 p, x, 0
        @p bra SPIN
        bar.sync 0
        ret
        """,
        "out:u64",
    )
    report = in_few_steps(kernel, np.zeros(1, np.uint32), block=64, schedule=schedule, seed=seed)
    (found,) = report.findings
    assert found.rule.name == "deadlock"
    assert "warp 0 lanes 0..31 spins" in found.message
    assert "warp 1 lanes 0..31 waits at bar.sync 0" in found.message


MBARRIER_WAIT = """
.shared b8 bar[8] 8
mov.u32 n, bar
setp.eq.u32 p, t, 0
@p mbarrier.init.shared::cta.b64 [n], 2   // init
bar.sync 0
@p mbarrier.arrive.shared::cta.b64 _, [n]
LOOP:
WAIT.parity.shared::cta.b64 q, [n], 0     // wait
@!q bra LOOP
ret
"""


@pytest.mark.parametrize("word", ["mbarrier.try_wait", "mbarrier.test_wait"])
@pytest.mark.parametrize("threads", [64, 5, 1])
@pytest.mark.parametrize(("schedule", "seed"), ALL)
def test_deadlock_on_an_mbarrier(word: str, threads: int, schedule: str, seed: int) -> None:
    kernel = Kernel(HEAD + MBARRIER_WAIT.replace("WAIT", word, 1), "out:u64")
    report = in_few_steps(kernel, np.zeros(1, np.uint32), block=threads, schedule=schedule, seed=seed)
    (found,) = report.findings
    assert found.rule.name == "deadlock"
    if word == "mbarrier.try_wait":
        assert "phase 0 (parity 0), 1 of 2 arrivals pending, tx-count 0" in found.message
        lines = {location.line for _, location in found.other if location is not None}
        assert lines == {kernel.line("init"), kernel.line("wait")}
    else:
        assert "spins" in found.message


def test_deadlock_report_of_a_large_grid_is_short() -> None:
    body = "setp.ge.u32 p, t, 480\n@p ret\nbar.sync 1, 512\nret"  # the last warp never comes
    kernel = Kernel(HEAD + body, "out:u64")
    report = in_few_steps(kernel, np.zeros(1, np.uint32), block=512, grid=100)
    text = str(report.findings[0])
    assert len(text.splitlines()) < 12
    assert "100 CTAs, (0, 0, 0) to (99, 0, 0), warps 0..14: each waits at bar.sync 1" in text


ENDLESS = """
mov.u32 i, 0
LOOP:
add.u32 i, i, 1
WORK
bra LOOP
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("threads", [64, 1])
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("work", ["", "st.global.u32 [o], i", "setp.eq.u32 p, i, t\n@p bra LOOP"])
def test_limits_of_steps_and_time(threads: int, schedule: str, work: str) -> None:
    kernel = Kernel(HEAD + ENDLESS.replace("WORK", work), "out:u64")
    out = np.zeros(64, np.uint32)
    report = kernel.run(out, block=threads, schedule=schedule, max_steps=10_000, timeout=None)
    assert report.verdict == "incomplete"
    assert report.findings[0].rule.name == "step-limit"
    assert 10_000 < report.steps < 11_000
    report = kernel.run(out, block=threads, schedule=schedule, timeout=0.1)
    assert report.verdict == "incomplete"
    assert "stopped after timeout=0.1 s" in report.findings[0].message


def test_a_kernel_within_its_limits_is_clean() -> None:
    kernel = Kernel(HEAD + "st.global.u32 [o], t\nret", "out:u64")
    kernel.clean(np.zeros(32, np.uint32), max_steps=10, timeout=10.0)


def test_trap() -> None:
    kernel = Kernel(HEAD + "setp.eq.u32 p, t, 9\n@p trap // here\nst.global.u32 [o], 1\nret", "out:u64")
    report = kernel.run(np.zeros(32, np.uint32))
    (found,) = report.findings
    assert found.rule.name == "trap"
    assert found.thread == "CTA (0, 0, 0) warp 0 lane 9"
    assert found.location is not None and found.location.line == kernel.line("here")
    Kernel(HEAD + "setp.eq.u32 p, t, 99\n@p trap\nret", "out:u64").clean(np.zeros(32, np.uint32))


@pytest.mark.parametrize("threads", [32, 17, 1])
@pytest.mark.parametrize("guard", ["@p", "@!p"])
@pytest.mark.parametrize("pair", ["p|q", "q|p", "p"])
def test_an_instruction_may_write_its_own_guard(threads: int, guard: str, pair: str) -> None:
    """The lanes that execute it are those that the guard let through before it."""
    body = f"""
    and.b32 x, t, 1
    setp.eq.u32 p, x, 1
    mov.pred q, 0
    {guard} setp.lt.u32 {pair}, t, 8
    selp.u32 x, 1, 0, p
    selp.u32 y, 2, 0, q
    or.b32 x, x, y
    st.global.u32 [o], x
    ret
    """
    expected = []
    for t in range(threads):
        flags = {"p": t % 2 == 1, "q": False}
        if flags["p"] == (guard == "@p"):
            results = (t < 8, t >= 8)
            flags.update(zip(pair.split("|"), results, strict=False))
        expected.append(flags["p"] + 2 * flags["q"])
    assert outputs(body, threads)[:threads] == expected


@pytest.mark.parametrize(
    ("instruction", "rule"),
    [
        ("@low bar.sync 0", "divergent-collective"),
        ("@low shfl.sync.idx.b32 t, t, 0, 31, 0xffffffff", "divergent-collective"),
        ("shfl.sync.idx.b32 t, t, 0, 31, 0xffff", "member-mask"),
    ],
)
def test_a_collective_that_part_of_the_warp_executes(instruction: str, rule: str) -> None:
    kernel = Kernel(
        f".reg u32 t\n.reg pred low\nmov.u32 t, %tid.x\nsetp.lt.u32 low, t, 16\n{instruction} // partial\nret"
    )
    (found,) = kernel.run(block=32).findings
    assert found.rule.name == rule
    assert found.location is not None and found.location.line == kernel.line("partial")


def test_a_guard_that_holds_in_the_whole_warp_is_no_divergence() -> None:
    kernel = Kernel(
        ".reg u32 t\n.reg pred some\nmov.u32 t, %tid.x\nsetp.lt.u32 some, t, 32\n@some bar.sync 0, 32\nret"
    )
    assert kernel.run(block=64).verdict == "clean"


@pytest.mark.full
def test_as_many_ctas_run_at_once_as_fit() -> None:
    """A barrier of all CTAs of a grid that fits several to a multiprocessor."""
    kernel = Kernel(
        """
        .reg u32 n i v
        .reg u64 at
        .reg pred p
        mov.u32 n, %ctaid.x
        mul.wide.u32 at, n, 4
        add.u64 at, at, out
        st.relaxed.gpu.global.u32 [at], 1
        mov.u32 i, 0
        NEXT:
        mul.wide.u32 at, i, 4
        add.u64 at, at, out
        WAIT:
        ld.relaxed.gpu.global.u32 v, [at]
        setp.eq.u32 p, v, 0
        @p bra WAIT
        add.u32 i, i, 1
        setp.lt.u32 p, i, 140
        @p bra NEXT
        ret
        """,
        "out:u64",
    )
    flags = np.zeros(140, np.uint32)
    assert kernel.run(flags, block=1, grid=140, timeout=120).verdict == "clean"
    assert flags.all()
