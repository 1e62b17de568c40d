"""The end of a CTA: operations that no wait covers are found, alike under every schedule."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.sim import Report
from tests.sim.build import Kernel

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]
every_schedule = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

HEAD = """
.shared b8 area[512] 128
.shared b8 bar[16] 8
.reg u32 t a b x peer
.reg pred p q
mov.u32 t, %tid.x
mov.u32 a, area
mov.u32 b, bar
setp.eq.u32 p, t, 0
@!p bra END
mbarrier.init.shared::cta.b64 [b], 1
mbarrier.init.shared::cta.b64 [b+8], 1
fence.mbarrier_init.release.cluster
"""
TAIL = "\nEND:\nret"
LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
TWO_LOADS = f"""
mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 32
{LOAD} [a], [given], 32, [b]              // first
mbarrier.arrive.expect_tx.shared::cta.b64 _, [b+8], 32
{LOAD} [a+32], [given], 32, [b+8]         // second
"""


def wait(address: str, parity: int, number: int = 0) -> str:
    return f"\nW{number}:\nmbarrier.try_wait.parity.shared::cta.b64 q, [{address}], {parity}\n@!q bra W{number}\n"


def run(body: str, **options: object) -> tuple[Kernel, Report]:
    kernel = Kernel(HEAD + body + TAIL, "given:u64", target="sm_90a")
    return kernel, kernel.run(np.arange(512, dtype=np.uint8), **{"block": 32, **options})


def lines(report: Report, rule: str = "exit-in-flight") -> set[int]:
    assert {found.rule.name for found in report.findings} <= {rule}, report
    return {found.location.line for found in report.findings if found.location is not None}


@every_schedule
@pytest.mark.parametrize("waited", ["", "b", "b+8", "both"])
def test_loads_that_no_thread_has_seen_complete(waited: str, schedule: str, seed: int) -> None:
    places = ["b", "b+8"] if waited == "both" else [waited] if waited else []
    body = TWO_LOADS + "".join(wait(place, 0, number) for number, place in enumerate(places))
    kernel, report = run(body, schedule=schedule, seed=seed)
    missing = {"first", "second"} - {{"b": "first", "b+8": "second"}[place] for place in places}
    assert lines(report) == {kernel.line(name) for name in missing}
    for found in report.findings:
        assert found.message == (
            f"CTA (0, 0, 0) ended, and no wait ensured that {LOAD} had written its shared memory"
        )


@every_schedule
def test_a_wait_for_a_later_phase_covers_the_earlier_ones(schedule: str, seed: int) -> None:
    """The second load completes phase 1; the phase before is complete then, too."""
    again = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 32\n" + LOAD + " [a+64], [given], 32, [b]\n"
    for body, right in (
        (wait("b", 0) + again + wait("b", 1, 1), True),
        (wait("b", 0) + again, False),
    ):
        _, report = run(f"{again.replace('+64', '')}{body}", schedule=schedule, seed=seed)
        assert bool(lines(report)) is not right


@every_schedule
@pytest.mark.parametrize("asks", ["@p mbarrier.test_wait", "mbarrier.test_wait"])
def test_a_test_that_answers_true_is_a_wait(asks: str, schedule: str, seed: int) -> None:
    body = TWO_LOADS + wait("b", 0) + wait("b+8", 0, 1).replace("mbarrier.try_wait", asks)
    assert run(body, schedule=schedule, seed=seed)[1].verdict == "clean"


@every_schedule
def test_a_wait_for_the_phase_before_a_fresh_barriers_first_sees_nothing(schedule: str, seed: int) -> None:
    body = wait("b", 1) + TWO_LOADS + wait("b+8", 0, 1)
    kernel, report = run(body, schedule=schedule, seed=seed)
    assert lines(report) == {kernel.line("first")}


@every_schedule
@pytest.mark.parametrize("branch", ["", "@!q bra NEXT\nNEXT:\n"])
def test_an_answer_that_decides_nothing_ensures_nothing(branch: str, schedule: str, seed: int) -> None:
    body = TWO_LOADS + wait("b+8", 0) + "mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0\n" + branch
    kernel, report = run(body, schedule=schedule, seed=seed)
    found = [f for f in report.findings if f.rule.name == "exit-in-flight"]
    assert [f.location.line for f in found if f.location is not None] == [kernel.line("first")]
    assert {f.rule.name for f in report.findings} == {"exit-in-flight", "unused-wait"}


STORE = "cp.async.bulk.global.shared::cta.bulk_group"


@every_schedule
@pytest.mark.parametrize(("end", "found"), [
    ("", ["one", "two"]),
    ("cp.async.bulk.wait_group.read 0", []),
    ("cp.async.bulk.wait_group 0", []),
    ("cp.async.bulk.wait_group.read 1", ["two"]),
    ("cp.async.bulk.wait_group.read 2", ["one", "two"]),
])  # fmt: skip
def test_bulk_stores_whose_sources_no_wait_covers(
    end: str, found: list[str], schedule: str, seed: int
) -> None:
    body = f"""
st.shared.v4.u32 [a], {{t, t, t, t}}
fence.proxy.async.shared::cta
{STORE} [given], [a], 16 // one
cp.async.bulk.commit_group
{STORE} [given+16], [a], 16 // two
cp.async.bulk.commit_group
{end}"""
    kernel, report = run(body, schedule=schedule, seed=seed)
    assert lines(report) == {kernel.line(name) for name in found}
    assert all("had read its shared memory" in each.message for each in report.findings)


@every_schedule
def test_a_store_outside_of_any_group_is_not_covered(schedule: str, seed: int) -> None:
    body = "st.shared.v4.u32 [a], {t, t, t, t}\nfence.proxy.async.shared::cta\n"
    body += f"{STORE} [given], [a], 16 // one\n"
    kernel, report = run(body + "cp.async.bulk.wait_group 0", schedule=schedule, seed=seed)
    assert lines(report) == {kernel.line("one")}


SYNC = "barrier.cluster.arrive.aligned\nbarrier.cluster.wait.aligned"
#: The CTA of rank 1 sends 4 bytes to the CTA of rank 0, which waits for them or does not.
SENT = f"""
.shared b8 area[512] 128
.shared b8 bar[16] 8
.reg u32 t a b x peer rank
.reg pred p q
mov.u32 a, area
mov.u32 b, bar
mov.u32 rank, %cluster_ctarank
mbarrier.init.shared::cta.b64 [b], 1
fence.mbarrier_init.release.cluster
{SYNC}
setp.eq.u32 p, rank, 0
@p bra FIRST
mapa.shared::cluster.u32 peer, a, 0
mapa.shared::cluster.u32 x, b, 0
st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [peer], rank, [x] // sends
{SYNC}
bra END
FIRST:
mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 4
{SYNC}
WAITS
END:
ret
"""


@every_schedule
@pytest.mark.parametrize("waits", [True, False])
def test_a_store_of_another_cta_that_is_on_its_way(waits: bool, schedule: str, seed: int) -> None:
    text = SENT.replace("WAITS\n", wait("b", 0) if waits else "")
    kernel = Kernel(text, target="sm_90a")
    report = kernel.run(grid=2, cluster=2, block=1, schedule=schedule, seed=seed)
    assert lines(report) == (set() if waits else {kernel.line("sends")})


COPIED = SENT.replace(
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [peer], rank, [x]",
    "fence.proxy.async.shared::cta\n"
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [peer], [a], 16, [x]",
).replace(
    "mapa.shared::cluster.u32 peer",
    "st.shared.v4.u32 [a], {rank, rank, rank, rank}\nmapa.shared::cluster.u32 peer",
)
COPIED = COPIED.replace("[b], 4\n", "[b], 16\n")


@every_schedule
@pytest.mark.parametrize("waits", [True, False])
def test_a_copy_to_another_cta_that_still_reads(waits: bool, schedule: str, seed: int) -> None:
    """The sender ends after a barrier that comes behind the receiver's wait, or that comes before it."""
    again = f"{wait('b', 0)}{SYNC}\n"
    text = COPIED.replace(
        f"// sends\n{SYNC}\n", f"// sends\n{SYNC}\n{SYNC}\n" if waits else f"// sends\n{SYNC}\n"
    )
    late = "nanosleep.u32 1000\n"
    kernel = Kernel(text.replace("WAITS\n", again if waits else late + wait("b", 0)), target="sm_90a")
    report = kernel.run(grid=2, cluster=2, block=1, schedule=schedule, seed=seed)
    if waits:
        assert report.verdict == "clean", report
    elif schedule != "random":
        assert "exit-in-flight" in {found.rule.name for found in report.findings}, report


@every_schedule
def test_the_findings_are_equal_under_every_schedule(schedule: str, seed: int) -> None:
    def said(report: Report) -> set[tuple[str, str, str]]:
        return {(found.rule.name, found.message, str(found.location)) for found in report.findings}

    body = "st.shared.v4.u32 [a+128], {t, t, t, t}\nfence.proxy.async.shared::cta\n"
    body += f"{STORE} [given+64], [a+128], 16\n{TWO_LOADS}"
    _, first = run(body)
    _, again = run(body, schedule=schedule, seed=seed)
    assert said(first) == said(again) and len(said(first)) == 3
