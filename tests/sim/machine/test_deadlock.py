"""What the report of a deadlock says: each wait once, the cause before its consequences, lines and sections."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.core.findings import Finding
from tests.sim.build import Kernel

BARRIER_SECTION = "parallel-synchronization-and-communication-instructions-bar"

#: Warps 4 to 7 wait for bytes that no copy brings, warps 0 to 3 for them.
BYTES = Kernel("""
.reg u32 t w
.reg pred p q
.shared b8 full[8] 8
mov.u32 t, %tid.x
setp.ne.u32 p, t, 0
@!p mbarrier.init.shared.b64 [full], 1
bar.sync 0
@!p mbarrier.arrive.expect_tx.shared.b64 _, [full], 128
setp.lt.u32 q, t, 128
@q bra LAST
WAIT:
mbarrier.try_wait.parity.shared.b64 p, [full], 0      // waits
@!p bra WAIT
LAST:
bar.sync 0
ret
""")  # fmt: skip


def _deadlock(kernel: Kernel, **options: object) -> Finding:
    report = kernel.run(**options)
    assert report.verdict == "error", report
    return report.findings[-1]


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_equal_waits_are_one_line_and_the_cause_comes_first(schedule: str) -> None:
    found = _deadlock(BYTES, grid=32, block=256, schedule=schedule)
    assert found.rule.name == "deadlock"
    first, *rest = [line.strip() for line in found.message.splitlines()[1:]]
    assert first.startswith(
        "32 CTAs, (0, 0, 0) to (31, 0, 0), warps 4..7: each waits for parity 0 of mbarrier"
    )
    assert first.endswith(": 128 announced bytes never arrive")
    assert rest == [
        "32 CTAs, (0, 0, 0) to (31, 0, 0), warps 0..3: each waits at bar.sync 0: "
        "128 of 256 threads have arrived"
    ]
    assert found.location is not None and found.location.line == BYTES.line("waits")
    assert found.see == "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait"


def test_one_warp_is_named_with_its_lanes_and_several_of_one_cta_without() -> None:
    found = _deadlock(BYTES, block=160)
    assert "\n    CTA (0, 0, 0) warp 4 lanes 0..31 waits for parity 0" in found.message
    assert "\n    CTA (0, 0, 0), warps 0..3: each waits at bar.sync 0" in found.message


def test_warps_that_differ_from_cta_to_cta_are_counted() -> None:
    kernel = Kernel("""
.reg u32 t c
.reg pred p
mov.u32 t, %tid.x
mov.u32 c, %ctaid.x
shl.b32 c, c, 5
add.u32 c, c, 32
setp.ge.u32 p, t, c
@p ret
bar.sync 0, 128
ret
""")  # fmt: skip
    found = _deadlock(kernel, grid=2, block=128)
    assert "waits at bar.sync 0: 32 of 128 threads have arrived" in found.message
    assert "CTA (1, 0, 0), warps 0..1: each waits at bar.sync 0: 64 of 128" in found.message


@pytest.mark.parametrize("schedule", ["eager", "random"])
def test_a_loop_of_registers_alone_has_its_lines(schedule: str) -> None:
    kernel = Kernel("""
.reg u32 x y
.reg pred p
ld.global.u32 x, [given]
LOOP:
mov.u32 y, 1                    // begins
setp.eq.u32 p, y, 1
@p bra LOOP                     // ends
ret
""", "given:u64")  # fmt: skip
    report = kernel.run(np.zeros(1, np.uint32), block=64, schedule=schedule)
    (found,) = report.findings
    assert found.rule.name == "deadlock" and "spins" in found.message
    assert found.location is not None and found.location.line == kernel.line("begins")
    assert [(note, where.line) for note, where in found.other if where is not None][-1] == (
        "the loop ends",
        kernel.line("ends"),
    )


def test_a_loop_that_polls_is_named_by_what_it_polls() -> None:
    kernel = Kernel("""
.reg u32 x
.reg pred p
LOOP:
ld.global.relaxed.gpu.u32 x, [given]     // polls
setp.eq.u32 p, x, 0
@p bra LOOP
ret
""", "given:u64")  # fmt: skip
    (found,) = kernel.run(np.zeros(1, np.uint32)).findings
    assert found.location is not None and found.location.line == kernel.line("polls")


@pytest.mark.parametrize(("instruction", "section"), [
    ("bar.sync 0", BARRIER_SECTION),
    ("vote.sync.any.pred p, p, -1", "parallel-synchronization-and-communication-instructions-vote-sync"),
])  # fmt: skip
def test_a_divergent_barrier_cites_the_barrier(instruction: str, section: str) -> None:
    kernel = Kernel(f"""
.reg u32 t
.reg pred p
mov.u32 t, %tid.x
setp.lt.u32 p, t, 16
@p bra HERE
LOOP:
bra LOOP
HERE:
{instruction}                   // waits
ret
""")  # fmt: skip
    found = _deadlock(kernel)
    assert found.location is not None and found.location.line == kernel.line("waits")
    assert found.see == section
    assert f"PTX ISA #{section}" in str(found)


def test_lanes_that_never_come_to_a_collective_are_divergence_not_a_deadlock() -> None:
    kernel = Kernel("""
.reg u32 t
.reg pred p
mov.u32 t, %tid.x
setp.lt.u32 p, t, 16
@p bra HERE
bar.sync 1
HERE:
bar.sync 0
ret
""")  # fmt: skip
    found = _deadlock(kernel)
    assert found.rule.name == "divergent-collective"
    assert found.see == BARRIER_SECTION
