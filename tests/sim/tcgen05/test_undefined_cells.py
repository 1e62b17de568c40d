"""Undefined bits pass through tensor memory: from unwritten cells to registers, and from registers to cells."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.sim import Report
from tests.sim.build import Kernel
from tests.sim.tcgen05.test_tensor_memory import ALLOC, FREE, SETUP

SCHEDULES = ["eager", "late", "random", "starve:ld"]
#: Columns 0 to 3 are written, columns 4 to 31 are not.
WRITE = """
tcgen05.st.sync.aligned.32x32b.x4.b32 [tl], {t, t, t, t}
tcgen05.wait::st.sync.aligned
"""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x8.b32 {r0..r7}, [tl] // load\n"
WAIT = "tcgen05.wait::ld.sync.aligned\n"
STORE = "mad.wide.u32 o, t, 4, out\nst.global.b32 [o], {} // use\n"


def run(body: str, schedule: str = "eager") -> tuple[Kernel, Report]:
    text = (
        (SETUP + ALLOC + body + FREE)
        .replace("{columns}", "32")
        .replace("{r0..r7}", "{r0, r1, r2, r3, r4, r5, r6, r7}")
    )
    kernel = Kernel(text, "out:u64")
    return kernel, kernel.run(np.zeros(128, np.uint32), block=128, schedule=schedule)


def used(kernel: Kernel, report: Report, at: str = "use") -> str:
    (finding,) = report.findings
    assert finding.rule.name == "uninitialized-read", report
    assert finding.location is not None and finding.location.line == kernel.line("load")
    ((_, where),) = finding.other
    assert where is not None and where.line == kernel.line(at), report
    return finding.message


def unused(kernel: Kernel, report: Report) -> None:
    (finding,) = report.findings
    assert finding.rule.name == "undefined-load" and report.verdict == "review", report
    assert finding.location is not None and finding.location.line == kernel.line("load")


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", [WAIT, "", WAIT + "bar.sync 0\n"])
def test_unwritten_cells(wait: str, schedule: str) -> None:
    """With a wait, and without: the use of the registers waits for the load."""
    unused(*run(WRITE + LOAD + wait + STORE.format("r2"), schedule))
    unused(*run(WRITE + LOAD + wait + "add.u32 r6, r5, r6\n" + STORE.format("r2"), schedule))
    message = used(*run(WRITE + LOAD + wait + STORE.format("r5"), schedule))
    assert "column 5: never written" in message
    used(*run(WRITE + LOAD + wait + "add.u32 r6, r5, r2\n" + STORE.format("r6"), schedule))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_registers_that_are_written_over(schedule: str) -> None:
    again = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {r5, r6}, [tl]\n"
    unused(*run(WRITE + LOAD + WAIT + again + WAIT + STORE.format("r5"), schedule))
    unused(*run(WRITE + LOAD + WAIT + "mov.u32 r5, 3\n" + STORE.format("r5"), schedule))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_halves_of_cells(schedule: str) -> None:
    load = "tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {r0, r1}, [tl] // load\n"
    write = WRITE.replace("x4", "x1").replace("{t, t, t, t}", "{t}")
    low = "and.b32 r2, r0, 0xFFFF\n"
    unused(*run(write + load + WAIT + low + STORE.format("r2"), schedule))
    message = used(*run(write + load + WAIT + STORE.format("r0"), schedule))
    assert "column 1: never written" in message
    used(*run(write + load + WAIT + "shr.u32 r2, r0, 16\n" + STORE.format("r2"), schedule))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stores_of_undefined_registers(schedule: str) -> None:
    """The load from shared memory is named, not the load from tensor memory."""
    body = """
    ld.shared.v2.b32 {x0, x1}, [bar+8] // load
    tcgen05.st.sync.aligned.32x32b.x4.b32 [tl], {t, x1, t, x0}
    tcgen05.wait::st.sync.aligned
    """
    back = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1, r2, r3}, [tl]\n" + WAIT
    unused(*run(body + back + STORE.format("r2"), schedule))
    assert "byte 12 of 64" in used(*run(body + back + STORE.format("r1"), schedule))
    over = "tcgen05.st.sync.aligned.32x32b.x2.b32 [tl], {t, t}\ntcgen05.wait::st.sync.aligned\n"
    unused(*run(body + over + back + STORE.format("r1"), schedule))


def test_the_extreme_of_what_was_loaded() -> None:
    load = "tcgen05.ld.red.sync.aligned.32x32b.x8.max.u32 {r0..r7}, r8, [tl] // load\n"
    used(*run(WRITE + load + WAIT + STORE.format("r8")))
    unused(*run(WRITE + load + WAIT + STORE.format("r1")))


#: Copies 32 rows of 16 bytes to columns 0 to 3. Only the first word of each row has a value.
COPY = """
.shared b8 tile[512] 128
.reg u64 descriptor
mov.u32 m, tile
shl.b32 n, t, 4
add.u32 n, n, m
setp.lt.u32 p, t, 32
@p st.shared.b32 [n], t
setp.eq.u32 p, t, 0
@p mbarrier.init.shared::cta.b64 [bar+16], 1
fence.proxy.async.shared::cta
bar.sync 0
@!p bra COPIED
cvt.u64.u32 descriptor, m
shr.u64 descriptor, descriptor, 4
or.b64 descriptor, descriptor, 0x400800000000
tcgen05.cp.cta_group::1.32x128b.warpx4 [tm], descriptor // load
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+16]
COPIED:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar+16], 0
@!q bra COPIED
tcgen05.fence::after_thread_sync
tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1, r2, r3}, [tl]
tcgen05.wait::ld.sync.aligned
"""


@pytest.mark.parametrize("schedule", [*SCHEDULES, "starve:cp"])
def test_copies_of_unwritten_bytes(schedule: str) -> None:
    """The copy is no use of the bytes."""
    unused(*run(COPY + STORE.format("r0"), schedule))
    assert "byte 4 of 512" in used(*run(COPY + STORE.format("r1"), schedule))
    over = "tcgen05.st.sync.aligned.32x32b.x2.b32 [tl], {t, t}\ntcgen05.wait::st.sync.aligned\n"
    back = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0, r1}, [tl]\n" + WAIT
    unused(*run(COPY + over + back + STORE.format("r1"), schedule))
