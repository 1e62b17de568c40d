"""Several launches in one stream: their order, programmatic dependent launch, and what goes wrong with it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import SpecError

SCHEDULES = [("eager", 0), ("late", 0), ("starve:st", 0), *(("random", seed) for seed in range(6))]
every_schedule = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

HEAD = """
.version 8.0
.target sm_90a
.address_size 64
"""
#: ``step(given, out)``: out = 3 * given + 1, element by element. {before} the load and {after} the store of it.
STEP = """
.visible .entry step(.param .u64 given, .param .u64 out)
{{
    .reg .pred %lead, %first;
    .reg .b32 %t, %c, %n, %x;
    .reg .b64 %given, %out, %at;
    ld.param.u64 %given, [given];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %c, %ctaid.x;
    mov.u32 %n, %ntid.x;
    setp.eq.u32 %lead, %t, 0;
    setp.eq.u32 %first, %c, 0;
    mad.lo.u32 %t, %c, %n, %t;
    mul.wide.u32 %at, %t, 4;
    add.u64 %given, %given, %at;
    add.u64 %out, %out, %at;
    {before}
    ld.global.u32 %x, [%given];
    mad.lo.u32 %x, %x, 3, 1;
    st.global.u32 [%out], %x;
    {after}
    ret;
}}
"""
GO = "griddepcontrol.launch_dependents;"
WAIT = "griddepcontrol.wait;"
GIVEN = np.arange(256, dtype=np.uint32)


@cache
def step(before: str = "", after: str = "") -> sim.LoadedModule:
    return sim.load(HEAD + STEP.format(before=before, after=after))


def chain(
    modules: list[sim.LoadedModule], *, dependent: bool = True, **options: object
) -> tuple[list[sim.Report], list[np.ndarray]]:
    """Each launch reads what the one before has written, as one of 4 CTAs of 64 threads."""
    arrays = [GIVEN.copy(), *(np.zeros_like(GIVEN) for _ in modules)]
    stream = sim.Stream()
    for index, module in enumerate(modules):
        stream.launch(
            module,
            grid=4,
            block=64,
            args=arrays[index : index + 2],
            dependent=dependent and index > 0,
        )
    return stream.run(**options), arrays[1:]


def expected(launches: int) -> np.ndarray:
    values = GIVEN.astype(np.uint64)
    for _ in range(launches):
        values = 3 * values + 1
    return values.astype(np.uint32)


@every_schedule
@pytest.mark.parametrize("dependent", [True, False])
def test_each_launch_sees_what_the_one_before_wrote(dependent: bool, schedule: str, seed: int) -> None:
    """With the trigger early, every launch waits: also for those before the one it waits for, which waited."""
    reports, arrays = chain([step(GO + WAIT)] * 3, dependent=dependent, schedule=schedule, seed=seed)
    assert [report.verdict for report in reports] == ["clean"] * 3, reports
    for count, array in enumerate(arrays, 1):
        np.testing.assert_array_equal(array, expected(count))
    # Eight warps each; a wait is no instruction more however long it takes.
    assert len({report.steps for report in reports}) == 1 and reports[0].entry == "step"


@every_schedule
def test_without_a_trigger_nothing_starts_early(schedule: str, seed: int) -> None:
    _, arrays = chain([step(), step()], schedule=schedule, seed=seed)
    np.testing.assert_array_equal(arrays[1], expected(2))


def test_without_a_wait_old_values_are_read() -> None:
    """Triggered before the stores and not waited for: wrong under eager and under some random schedules."""
    right = {}
    for schedule, seed in SCHEDULES:
        _, arrays = chain([step(GO), step()], schedule=schedule, seed=seed)
        right[schedule, seed] = bool((arrays[1] == expected(2)).all())
    assert not right["eager", 0] and right["late", 0]
    assert {right["random", seed] for seed in range(6)} == {True, False}


def test_the_last_cta_lets_go() -> None:
    """CTA 0 never triggers and writes late: until it has ended, nobody starts."""
    primary = step("@%first bra ON;" + GO + "ON:")
    for schedule, seed in SCHEDULES:
        _, arrays = chain([primary, step()], schedule=schedule, seed=seed)
        # Its own elements are there; others' may not be: they have triggered before their stores.
        np.testing.assert_array_equal(arrays[1][:64], expected(2)[:64])


def test_one_thread_of_each_cta_is_enough() -> None:
    primary = step("@!%lead bra ON;" + GO + "ON:")
    _, arrays = chain([primary, step()], schedule="eager")
    assert (arrays[1] != expected(2)).any()


def test_a_wait_is_not_for_what_came_before_the_launch_before() -> None:
    """The second launch ends without having waited for the first, so that the third may overtake that one."""
    spin = "mov.u32 %n, 40; SPIN: sub.u32 %n, %n, 1; setp.ne.u32 %lead, %n, 0; @%lead bra SPIN;"
    overtaken = set()
    for seed in range(12):
        arrays = [GIVEN.copy(), *(np.zeros_like(GIVEN) for _ in range(3))]
        first, second, third = step(GO + spin), step(GO), step(WAIT)
        stream = sim.Stream()
        stream.launch(first, grid=4, block=64, args=[arrays[0], arrays[1]])
        stream.launch(second, grid=4, block=64, args=[arrays[0], arrays[2]], dependent=True)
        stream.launch(third, grid=4, block=64, args=[arrays[1], arrays[3]], dependent=True)
        # The first and the third launch race: that shows in the values.
        reports = stream.run(schedule="random", seed=seed, sanitize=False)
        assert [report.verdict for report in reports] == ["clean"] * 3
        overtaken.add(bool((arrays[3] != expected(2)).any()))
    assert overtaken == {True, False}


@every_schedule
def test_asynchronous_stores_are_complete_at_the_end_of_a_launch(schedule: str, seed: int) -> None:
    """A bulk store that the primary only commits is there when it has completed."""
    copier = sim.load(
        HEAD
        + """
.visible .entry copier(.param .u64 out)
{
    .shared .align 16 .b32 room[64];
    .reg .pred %lead;
    .reg .b32 %t, %at;
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %at, room;
    mad.lo.u32 %at, %t, 4, %at;
    st.shared.u32 [%at], %t;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    griddepcontrol.launch_dependents;
    setp.ne.u32 %lead, %t, 0;
    @%lead bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [room], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
END:
    ret;
}
"""
    )
    middle, out = np.full(64, 7, np.uint32), np.zeros(64, np.uint32)
    stream = sim.Stream().launch(copier, grid=1, block=64, args=[middle])
    stream.launch(step(WAIT), grid=1, block=64, args=[middle, out], dependent=True)
    for report in stream.run(schedule=schedule, seed=seed):
        assert report.verdict == "clean", report
    np.testing.assert_array_equal(out, 3 * np.arange(64) + 1)


def test_launches_of_one_module_share_its_variables() -> None:
    module = sim.load(
        HEAD
        + """
.global .u32 total = 5;
.const .u32 step = 10;
.visible .entry count(.param .u64 out)
{
    .reg .b32 %a, %b;
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    ld.const.u32 %b, [step];
    atom.global.add.u32 %a, [total], %b;
    st.global.u32 [%out], %a;
    ret;
}
"""
    )
    outs = [np.zeros(1, np.uint32) for _ in range(3)]
    stream = sim.Stream()
    for out in outs:
        stream.launch(module, "count", grid=1, block=1, args=[out])
    stream.run()
    assert [int(out[0]) for out in outs] == [5, 15, 25]
    other = sim.load(HEAD + ".global .u32 mine;\n.visible .entry k() { st.global.u32 [mine], 1; ret; }")
    stream.launch(module, "count", grid=1, block=1, args=[outs[0]]).launch(other, grid=1, block=1)
    with pytest.raises(SpecError, match="share a stream"):
        stream.run()


# --- reports --------------------------------------------------------------------------------------


def test_a_fault_is_in_the_report_of_its_launch() -> None:
    """The launch before is complete, the one after has not run."""
    bad = step("trap;")
    reports, arrays = chain([step(), bad, step()])
    assert [report.verdict for report in reports] == ["clean", "error", "incomplete"]
    assert [finding.rule.name for finding in reports[1].findings] == ["trap"]
    (stopped,) = reports[2].findings
    assert stopped.rule.name == "stream-stopped" and "the run ended in launch 1, step" in stopped.message
    np.testing.assert_array_equal(arrays[0], expected(1))
    assert not arrays[2].any() and reports[2].steps == 0


@every_schedule
def test_a_primary_that_waits_for_its_dependent_is_a_deadlock_where_that_starts_late(
    schedule: str, seed: int
) -> None:
    """Nothing says that a dependent launch starts before the end of the one before: nobody may count on it."""
    primary = step(
        GO, "ASK: ld.relaxed.gpu.global.u32 %x, [%given]; setp.ne.u32 %lead, %x, 4; @%lead bra ASK;"
    )
    second = sim.load(
        HEAD
        + """
.visible .entry answer(.param .u64 out)
{
    .reg .b32 %t;
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %out, %t, 4, %out;
    st.relaxed.gpu.global.u32 [%out], 4;
    ret;
}
"""
    )
    given, out = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    stream = sim.Stream().launch(primary, grid=1, block=32, args=[given, out])
    stream.launch(second, grid=1, block=32, args=[given], dependent=True)
    # Its first reads of the word are ordinary ones: a race.
    reports = stream.run(schedule=schedule, seed=seed, max_steps=100_000, sanitize=False)
    if schedule == "late":
        assert [finding.rule.name for finding in reports[0].findings] == ["deadlock"]
        assert "1 CTAs of launch 1 have not started" in reports[0].findings[0].message
        assert reports[1].verdict == "incomplete"
    elif schedule == "eager":
        assert [report.verdict for report in reports] == ["clean", "clean"]
    else:
        assert reports[0].verdict in ("clean", "error")


def test_a_launch_that_cannot_start_stops_all() -> None:
    """A kernel with more local memory than a thread has; the other launch would be right."""
    deep = sim.load(HEAD + ".visible .entry deep() { .local .b8 much[600000]; ret; }")
    out = np.zeros_like(GIVEN)
    stream = sim.Stream().launch(step(), grid=4, block=64, args=[GIVEN.copy(), out])
    reports = stream.launch(deep, grid=1, block=1).run()
    assert [report.verdict for report in reports] == ["incomplete", "error"]
    assert [report.findings[0].rule.name for report in reports] == ["stream-stopped", "stack-overflow"]
    assert not out.any()


def test_what_a_stream_refuses() -> None:
    stream = sim.Stream()
    with pytest.raises(SpecError, match="the stream has no launch to run"):
        stream.run()
    with pytest.raises(SpecError, match="no launch comes before it"):
        stream.launch(step(), grid=1, block=1, args=[GIVEN, GIVEN], dependent=True)
    with pytest.raises(SpecError, match="no entry 'other'"):
        stream.launch(step(), "other", grid=1, block=1)
    stream.launch(step(), grid=1, block=1, args=[GIVEN, np.zeros(1, np.uint32)])
    stream.run()
    with pytest.raises(SpecError, match="the stream has no launch to run"):
        stream.run()


def test_alone_the_instructions_change_nothing() -> None:
    for schedule, seed in SCHEDULES:
        given, out = GIVEN.copy(), np.zeros_like(GIVEN)
        report = step(GO + WAIT, GO).launch(grid=4, block=64, args=[given, out], schedule=schedule, seed=seed)
        assert report.verdict == "clean"
        np.testing.assert_array_equal(out, expected(1))
