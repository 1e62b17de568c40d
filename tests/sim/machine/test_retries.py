"""Waits that a kernel gives up, after so many tries or so much time, and waits that never end."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.sim.machine import retries

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
every_schedule = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

#: Each thread of ``block`` waits for a barrier at which nobody arrives. {retry} follows a try that failed.
TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry patient(.param .u64 out)
{{
    .shared .align 8 .b64 bar;
    .reg .pred %p, %lead, %done, %enough;
    .reg .b32 %t, %tries;
    .reg .b64 %out, %start, %now;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %tries, 0;
    mov.u64 %start, %globaltimer;
    setp.eq.u32 %lead, %t, 0;
    @%lead mbarrier.init.shared::cta.b64 [bar], {count};
    bar.sync 0;
    {arrive}
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [bar], 0;
    @%done bra DONE;
    {retry}
    bra WAIT;
TRAP:
    {end}
DONE:
    mad.wide.u32 %out, %t, 4, %out;
    st.global.u32 [%out], %tries;
    ret;
}}
"""
COUNTED = "add.u32 %tries, %tries, 1; setp.gt.u32 %enough, %tries, 500; @%enough bra TRAP;"
TIMED = """
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.gt.u64 %enough, %now, 10000000000;
    @%enough bra TRAP;
"""


def run(
    retry: str, *, end: str = "trap;", count: int = 65, arrive: str = "", block: int = 64, **options: object
) -> tuple[sim.Report, np.ndarray]:
    out = np.zeros(block, np.uint32)
    text = TEXT.format(retry=retry, end=end, count=count, arrive=arrive)
    options.setdefault("max_steps", 2_000_000)
    report = sim.load(text).launch(grid=1, block=block, args=[out], **options)
    return report, out


@pytest.mark.one_in(2)
@every_schedule
@pytest.mark.parametrize("retry", [COUNTED, TIMED], ids=["counted", "timed"])
@pytest.mark.parametrize("block", [1, 64])
def test_a_bounded_retry_ends_in_its_trap(retry: str, block: int, schedule: str, seed: int) -> None:
    """500 tries, or ten seconds; the finding says what the warp had waited for."""
    report, _ = run(retry, block=block, schedule=schedule, seed=seed)
    (found,) = report.findings
    assert found.rule.name == "trap"
    assert "had timed out: it waits for parity 0 of mbarrier bar" in found.message
    assert "65 of 65 arrivals pending" in found.message
    ((note, where),) = found.other
    assert note == "the wait that timed out" and where is not None and where.line == 20


@every_schedule
def test_a_kernel_may_give_up_and_go_on(schedule: str, seed: int) -> None:
    report, out = run(COUNTED, end="", schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (out == 501).all()


@every_schedule
def test_waits_without_an_end_are_a_deadlock(schedule: str, seed: int) -> None:
    report, _ = run("", schedule=schedule, seed=seed)
    assert report.findings[0].rule.name == "deadlock"
    assert report.steps < 1000


def test_a_retry_that_counts_for_ever_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_MOST_STEPS", 1 << 14)
    report, _ = run("add.u32 %tries, %tries, 1;", block=1)
    assert report.findings[0].rule.name == "deadlock"


@every_schedule
def test_nobody_gives_up_while_somebody_can_still_arrive(schedule: str, seed: int) -> None:
    """The last thread arrives only after others have tried: none of them counts to its limit."""
    arrive = """
    mbarrier.arrive.shared::cta.b64 _, [bar];
    setp.eq.u32 %p, %t, 63;
    @%p mbarrier.arrive.shared::cta.b64 _, [bar];
    """
    report, out = run(COUNTED, arrive=arrive, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert (out < 500).all()


def test_a_later_trap_does_not_speak_of_waits_that_ended() -> None:
    """A wait that once timed out, because the thread that arrives was waiting itself, and then ended."""
    text = TEXT.format(
        retry="add.u32 %tries, %tries, 1;",
        end="",
        count=1,
        arrive="@%lead mbarrier.arrive.shared::cta.b64 _, [bar];",
    ).replace("    st.global.u32 [%out], %tries;", "    trap;")
    report = sim.load(text).launch(grid=1, block=64, args=[np.zeros(64, np.uint32)])
    assert report.findings[0].rule.name == "trap" and "given up" not in report.findings[0].message
