"""cp.async: values, groups, arrivals on mbarriers, and what a thread that has not waited sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.sim import Report
from tests.sim.build import Kernel

SCHEDULES: list[dict[str, Any]] = [
    {"schedule": "eager"},
    {"schedule": "late"},
    {"schedule": "starve:cp"},
    {"schedule": "starve:tma"},
    *[{"schedule": "random", "seed": seed} for seed in range(4)],
]
#: Each thread's 16 bytes: shared at s, given at g, out at o.
PLACES = """
.reg u32 t n x y
.reg u64 s g o
.reg b64 v w
.reg pred p q
.shared b8 room[4096] 16
.shared b8 bar[8] 8
mov.u32 t, %tid.x
mov.u64 s, room
mad.wide.u32 s, t, 16, s
mad.wide.u32 g, t, 16, given
mad.wide.u32 o, t, 16, out
"""
KEEP = """
ld.shared.v2.b64 {v, w}, [s]
st.global.v2.b64 [o], {v, w}
"""


def given(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, 16), np.uint8)


def kernel(body: str) -> Kernel:
    return Kernel(PLACES + body, "given:u64 out:u64")


def rule_of(report: Report) -> str:
    (finding,) = report.findings
    return finding.rule.name


# --- values -----------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("block", [1, 20, 64])
@pytest.mark.parametrize(
    ("copy", "size", "taken"),
    [
        *[(f"cp.async.ca.shared.global [s], [g], {size}", size, lambda lane: 16) for size in (4, 8, 16)],
        ("cp.async.cg.shared::cta.global.L2::128B [s], [g], 16", 16, lambda lane: 16),
        ("cp.async.cg.shared.global [s], [g], 16, x", 16, lambda lane: lane % 17),
        ("cp.async.ca.shared.global [s], [g], 8, x", 8, lambda lane: lane % 17),
        ("cp.async.ca.shared.global [s], [g], 8, 5", 8, lambda lane: 5),
        ("cp.async.cg.shared.global [s], [g], 16, 0", 16, lambda lane: 0),
        ("cp.async.ca.shared.global [s], [g], 4, p", 4, lambda lane: 0 if lane & 1 else 16),
        ("cp.async.cg.shared.global [s], [g], 16, p", 16, lambda lane: 0 if lane & 1 else 16),
    ],
)
def test_sizes_and_zero_filling(
    copy: str, size: int, taken: Any, block: int, options: dict[str, Any]
) -> None:
    text = f"""
        rem.u32 x, t, 17
        min.u32 x, x, {size}
        and.b32 y, t, 1
        setp.ne.u32 p, y, 0
        mov.b64 v, -1
        st.shared.v2.b64 [s], {{v, v}}
        {copy}
        cp.async.wait_all
        {KEEP}
    """
    source, out = given(block), np.zeros((block, 16), np.uint8)
    kernel(text).clean(source, out, block=block, **options)
    for lane in range(block):
        filled = min(taken(lane), size)
        expected = [*source[lane, :filled], *[0] * (size - filled), *[255] * (16 - size)]
        np.testing.assert_array_equal(out[lane], expected)


def test_a_source_of_which_nothing_is_taken_may_lie_nowhere() -> None:
    text = f"mov.u64 g, 64\ncp.async.cg.shared.global [s], [g], 16, 0\ncp.async.wait_all\n{KEEP}"
    out = np.ones((32, 16), np.uint8)
    kernel(text).clean(given(32), out)
    assert not out.any()


@pytest.mark.parametrize("place", ["[s+4], [g]", "[s], [g+4]"])
def test_both_addresses_are_aligned_to_the_size(place: str) -> None:
    text = f"cp.async.ca.shared.global {place}, 8\ncp.async.wait_all"
    report = kernel(text).run(given(64), np.zeros((32, 16), np.uint8))
    assert rule_of(report) == "misaligned"


# --- groups -----------------------------------------------------------------------------------------

#: Four copies of each thread in a group each, all in flight.
FOUR = "".join(
    f"cp.async.ca.shared.global [s+{1024 * i}], [g+{1024 * i}], 16\ncp.async.commit_group\n" for i in range(4)
)


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("pending", [0, 1, 2, 3])
def test_waiting_for_all_but_the_newest_groups(pending: int, options: dict[str, Any]) -> None:
    text = f"{FOUR}cp.async.wait_group {pending}\n"
    for i in range(4 - pending):
        text += f"ld.shared.v2.b64 {{v, w}}, [s+{1024 * i}]\nst.global.v2.b64 [o+{1024 * i}], {{v, w}}\n"
    source, out = given(256), np.zeros((256, 16), np.uint8)
    kernel(text + "cp.async.wait_all").clean(source, out, block=64, **options)
    np.testing.assert_array_equal(out[: 64 * (4 - pending)], source[: 64 * (4 - pending)])


@pytest.mark.parametrize("schedule", ["late", "starve:cp"])
@pytest.mark.parametrize(
    "wait", ["", "cp.async.wait_group 1", "cp.async.commit_group\ncp.async.wait_group 1", "bar.sync 0"]
)
def test_what_is_not_waited_for_has_not_arrived(wait: str, schedule: str) -> None:
    """The newest group, a copy in no group yet, a barrier: none of these waits completes the copy."""
    text = f"cp.async.cg.shared.global [s], [g], 16\ncp.async.commit_group\n{wait}\n"
    text = text if "commit" not in wait else text.replace("cp.async.commit_group\n", "", 1)
    report = kernel(text + KEEP + "cp.async.wait_all").run(
        given(32), np.zeros((32, 16), np.uint8), schedule=schedule, sanitize=False
    )
    assert rule_of(report) == "uninitialized-read"


@pytest.mark.parametrize("schedule", ["late", "starve:cp"])
def test_groups_are_each_threads_own(schedule: str) -> None:
    """Thread 0 waits for all warps' copies and a barrier follows: only its own copy has arrived."""
    text = f"""
        mov.b64 v, 0
        st.shared.v2.b64 [s], {{v, v}}
        bar.sync 0
        cp.async.cg.shared.global [s], [g], 16
        setp.ne.u32 p, t, 0
        @p bra JOIN
        cp.async.wait_all
        JOIN:
        bar.sync 0
        {KEEP}
        cp.async.wait_all
    """
    source, out = given(32), np.ones((32, 16), np.uint8)
    kernel(text).clean(source, out, schedule=schedule, sanitize=False)
    np.testing.assert_array_equal(out[0], source[0])
    assert not out[1:].any()


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(map(str, o.values())))
def test_lanes_that_part_wait_for_their_own_groups(options: dict[str, Any]) -> None:
    """Odd lanes put their copy into another group than even ones; all data is there in the end."""
    text = """
        and.b32 x, t, 1
        setp.eq.u32 p, x, 1
        @p cp.async.commit_group
        cp.async.ca.shared.global [s], [g], 8
        @!p cp.async.commit_group
        cp.async.ca.shared.global [s+8], [g+8], 8
        cp.async.commit_group
        @p cp.async.wait_group 0
        @!p cp.async.wait_group 1
        ld.shared.b64 v, [s]
        cp.async.wait_all
        ld.shared.b64 w, [s+8]
        st.global.v2.b64 [o], {v, w}
    """
    source, out = given(64), np.zeros((64, 16), np.uint8)
    kernel(text).clean(source, out, block=64, **options)
    np.testing.assert_array_equal(out, source)


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(map(str, o.values())))
def test_the_source_may_be_read_as_late_as_the_wait(options: dict[str, Any]) -> None:
    """A source that changes while the copy is in flight: one of the two values arrives."""
    text = f"""
        cp.async.cg.shared.global [s], [g], 16
        mov.b64 v, 7
        st.global.v2.b64 [g], {{v, v}}
        cp.async.wait_all
        {KEEP}
    """
    source, out = given(32), np.zeros((32, 16), np.uint8)
    before = source.copy()
    kernel(text).clean(source, out, **options, sanitize=False)
    after = np.full((32, 2), 7, np.uint64).view(np.uint8)
    old, new = (out == before).all(), (out == after).all()
    wanted = {"eager": (True, False), "late": (False, True), "starve:cp": (False, True)}
    assert (old, new) == wanted.get(options["schedule"], (old, not old)), out


# --- mbarriers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("noinc", [False, True])
@pytest.mark.parametrize("block", [32, 64])
def test_arrival_when_the_copies_are_written(noinc: bool, block: int, options: dict[str, Any]) -> None:
    """Thread i reads what thread i ^ 5 has copied, three times over, after waiting on the mbarrier alone."""
    text = f"""
        setp.eq.u32 p, t, 0
        @p mbarrier.init.shared.b64 [bar], {block}
        bar.sync 0
        mov.u32 n, 0
        ROUND:
        cp.async.cg.shared.global [s], [g], 16
        cp.async.mbarrier.arrive{".noinc" if noinc else ""}.shared.b64 [bar]
        {"" if noinc else "mbarrier.arrive.shared.b64 _, [bar]"}
        and.b32 x, n, 1
        WAIT:
        mbarrier.try_wait.parity.shared.b64 q, [bar], x
        @!q bra WAIT
        xor.b32 x, t, 5
        mov.u64 o, room
        mad.wide.u32 o, x, 16, o
        ld.shared.v2.b64 {{v, w}}, [o]
        mad.lo.u32 x, n, {block}, t
        mad.wide.u32 o, x, 16, out
        st.global.v2.b64 [o], {{v, w}}
        add.u64 g, g, 16
        bar.sync 0
        add.u32 n, n, 1
        setp.lt.u32 p, n, 3
        @p bra ROUND
    """
    source, out = given(block + 8), np.zeros((3, block, 16), np.uint8)
    kernel(text).clean(source, out, block=block, **options)
    for number in range(3):
        np.testing.assert_array_equal(out[number], source[number : number + block][np.arange(block) ^ 5])


def test_without_noinc_the_arrival_is_an_extra_one() -> None:
    """One arrival is expected and only the copy's comes: the phase never ends."""
    text = """
        mbarrier.init.shared.b64 [bar], 1
        cp.async.cg.shared.global [s], [g], 16
        cp.async.mbarrier.arriveNOINC.shared.b64 [bar]
        WAIT:
        mbarrier.try_wait.parity.shared.b64 q, [bar], 0
        @!q bra WAIT
    """
    out = np.zeros((1, 16), np.uint8)
    kernel(text.replace("NOINC", ".noinc")).clean(given(1), out, block=1)
    assert rule_of(kernel(text.replace("NOINC", "")).run(given(1), out, block=1)) == "deadlock"


@pytest.mark.parametrize("schedule", ["late", "starve:cp"])
def test_an_arrival_waits_for_lanes_that_were_split_off(schedule: str) -> None:
    """Half of the lanes wait for their copies by themselves; the arrival is still after the other half's."""
    text = f"""
        setp.eq.u32 p, t, 0
        @p mbarrier.init.shared.b64 [bar], 32
        bar.sync 0
        cp.async.cg.shared.global [s], [g], 16
        cp.async.mbarrier.arrive.noinc.shared.b64 [bar]
        setp.lt.u32 p, t, 16
        @p bra OWN
        bra JOIN
        OWN:
        cp.async.wait_all
        JOIN:
        WAIT:
        mbarrier.try_wait.parity.shared.b64 q, [bar], 0
        @!q bra WAIT
        {KEEP}
    """
    source, out = given(32), np.zeros((32, 16), np.uint8)
    kernel(text).clean(source, out, schedule=schedule)
    np.testing.assert_array_equal(out, source)


def test_an_mbarrier_of_no_initialization() -> None:
    report = kernel("cp.async.mbarrier.arrive.noinc.shared.b64 [bar]").run(given(1), given(1), block=1)
    assert rule_of(report) == "mbarrier-misuse"


def test_the_engine_has_a_name() -> None:
    with pytest.raises(SpecError, match="unknown schedule") as caught:
        kernel(KEEP).run(given(32), given(32), schedule="starve:copy")
    assert "cp" in str(caught.value)


# --- copies that nobody waits for -------------------------------------------------------------------

COPY = "cp.async.ca.shared.global [s], [g], 16\n"
ANOTHER = "cp.async.ca.shared.global [s+1024], [g], 16\n"
ARRIVE = """
setp.eq.u32 p, t, 0
@p mbarrier.init.shared.b64 [bar], 64
bar.sync 0
"""
#: What follows the copies of all 64 threads, and how many of them have not waited for their last one.
UNWAITED = {
    "nothing": (COPY, 64),
    "a commit": (COPY + "cp.async.commit_group", 64),
    "one group may be left": (COPY + "cp.async.commit_group\ncp.async.wait_group 1", 64),
    "the older group": (
        COPY + "cp.async.commit_group\n" + ANOTHER + "cp.async.commit_group\ncp.async.wait_group 1",
        64,
    ),
    "a copy behind the wait": (COPY + "cp.async.wait_all\n" + COPY, 64),
    "a copy behind the arrival": (
        ARRIVE + COPY + "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]\n" + ANOTHER,
        64,
    ),
    "half of them": (COPY + "setp.lt.u32 p, t, 32\n@p bra END\ncp.async.wait_all\nEND:", 32),
    "all of them": (COPY + "cp.async.wait_all", 0),
    "their group": (COPY + "cp.async.commit_group\ncp.async.wait_group 0", 0),
    "an arrival": (ARRIVE + COPY + "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]", 0),
    "an empty group behind": (
        COPY + "cp.async.commit_group\ncp.async.commit_group\ncp.async.wait_group 1",
        0,
    ),
}


@pytest.mark.parametrize("options", SCHEDULES[:3], ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("case", UNWAITED)
def test_copies_that_nobody_waits_for(case: str, options: dict[str, Any]) -> None:
    """Under every schedule, whether or not the copies have happened when the CTA ends."""
    body, count = UNWAITED[case]
    report = kernel(body).run(given(64), np.zeros((64, 16), np.uint8), block=64, **options)
    if not count:
        assert report.verdict == "clean", report
        return
    assert (report.verdict, rule_of(report)) == ("review", "copy-never-waited")
    assert f"{count} of its threads had not waited for their last cp.async.ca" in report.findings[0].message
    assert report.findings[0].location is not None
