"""No engine is so fast that a thread which could wait for a phase does not see it, under any schedule.

One lane drives a barrier round after round, and every warp waits for each phase in turn: what a first kernel with
TMA or tcgen05 looks like.  Nothing in it keeps the driver from running ahead but the time that engines take.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim

ROUNDS = 9
TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry rounds(.param .u64 source, .param .u64 out)
{{
    .reg .pred p, elected; .reg .b32 thread, warp, round, parity; .reg .b64 from, to, offset;
    .shared .align 128 .b8 buffer[128]; .shared .align 8 .b64 bar;
    ld.param.u64 from, [source]; ld.param.u64 to, [out];
    mov.u32 thread, %tid.x; shr.u32 warp, thread, 5;
    setp.ne.u32 p, thread, 0; @p bra ready;
    mbarrier.init.shared::cta.b64 [bar], 1;
ready:
    bar.sync 0;
    mov.u32 round, 0; mov.u32 parity, 0;
again:
    setp.ne.u32 p, warp, {driver}; @p bra wait;
    elect.sync _|elected, -1; @!elected bra issued;
    {issue}
issued:
    bar.warp.sync -1;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], parity; @!p bra wait;
    xor.b32 parity, parity, 1; add.u32 round, round, 1;
    setp.lt.u32 p, round, {rounds}; @p bra again;
    mul.wide.u32 offset, thread, 4; add.u64 to, to, offset; st.global.u32 [to], round; ret;
}}
"""
COPY = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [buffer], [from], 128, [bar];"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;"


@pytest.mark.parametrize("schedule", ["eager", "late", "random", "starve:tma", "starve:mma"])
@pytest.mark.parametrize("issue", [EXPECT + COPY, COPY + EXPECT], ids=["expected first", "copied first"])
@pytest.mark.parametrize("driver", [0, 2])
def test_nobody_misses_a_phase(driver: int, issue: str, schedule: str) -> None:
    text = TEXT.format(driver=driver, issue=issue, rounds=ROUNDS)
    out = np.zeros(128, np.uint32)
    report = sim.load(text).launch(
        grid=1, block=128, args=[np.arange(128, dtype=np.uint8), out], schedule=schedule, seed=2
    )
    assert report.verdict == "clean" or schedule == "random", str(report)
    # A schedule that starves threads may let one be lapped, which is a hazard and no deadlock.
    assert {finding.rule.name for finding in report.findings} <= {"lapped-wait", "ordered-by-chance"}, str(
        report
    )
    assert (out == ROUNDS).all()


@pytest.mark.parametrize("poll", ["try_wait", "test_wait"])
def test_a_wait_that_random_schedules_lap_is_for_review(poll: str) -> None:
    text = TEXT.format(driver=2, issue=EXPECT + COPY, rounds=ROUNDS).replace("try_wait", poll)
    loaded = sim.load(text)
    verdicts = set()
    for seed in range(12):
        out = np.zeros(128, np.uint32)
        report = loaded.launch(
            grid=1, block=128, args=[np.arange(128, dtype=np.uint8), out], schedule="random", seed=seed
        )
        verdicts.add(str(report.verdict))
        assert (out == ROUNDS).all()
        for finding in report.findings:
            assert finding.rule.name in ("lapped-wait", "ordered-by-chance"), str(report)
            assert finding.location is not None and finding.location.line == 23
            assert "mbarrier bar" in finding.message
    assert verdicts == {"clean", "review"}


def test_a_phase_that_never_comes_is_a_deadlock_all_the_same() -> None:
    text = TEXT.format(driver=2, issue=EXPECT, rounds=ROUNDS)
    for seed in range(4):
        report = sim.load(text).launch(
            grid=1, block=128, args=[np.zeros(128, np.uint8), np.zeros(128, np.uint32)],
            schedule="random", seed=seed,
        )  # fmt: skip
        assert [finding.rule.name for finding in report.findings] == ["deadlock"], str(report)
