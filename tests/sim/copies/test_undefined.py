"""Unwritten bytes pass through copies: the copied bytes are unwritten, too, and using them is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.core.findings import Finding
from pyptx.layout import TensorMap
from pyptx.sim import Report
from tests.sim.build import Kernel

#: Threads 0 and 1 write the first 8 bytes of ``data``, which counts as never written.
HEAD = """
.shared b8 area[1024] 1024
.shared b8 there[1024] 128
.shared b8 bar[8] 8
.reg u32 t a b c x y
.reg u64 o
.reg pred p q lead r
mov.u32 t, %tid.x
mov.u32 a, area
mov.u32 b, bar
mov.u32 c, there
setp.eq.u32 lead, t, 0
@lead mbarrier.init.shared::cta.b64 [b], 1
@lead st.global.u64 [data], 77
fence.proxy.async
bar.sync 0
"""
WAIT = """
W:
mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
@!q bra W
"""
BULK = (
    "@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 32\n"
    "@lead cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [a], [data], 32, [b] // copy\n"
    + WAIT
)
ASYNC = """
@lead cp.async.cg.shared.global [a], [data], 16 // copy
cp.async.wait_all
bar.sync 0
"""
USED = "ld.shared.u32 x, [a+8]\nst.global.u32 [out], x // use\nret"
WRITTEN = "ld.shared.u32 x, [a+4]\nst.global.u32 [out], x\nret"
SCHEDULES = ["eager", "late", "random"]


def run(text: str, schedule: str = "eager", **options: Any) -> tuple[Kernel, Report]:
    kernel = Kernel(text, "data:u64 out:u64")
    data, out = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    return kernel, kernel.run(data, out, schedule=schedule, uninitialized=[0], **options)


def used(kernel: Kernel, report: Report, at: str = "use") -> Finding:
    (finding,) = report.findings
    assert finding.rule.name == "uninitialized-read", report
    assert finding.location is not None and finding.location.line == kernel.line("copy")
    ((_, where),) = finding.other
    assert where is not None and where.line == kernel.line(at), report
    return finding


def unused(kernel: Kernel, report: Report, rule: str = "padding-read") -> None:
    (finding,) = report.findings
    assert finding.rule.name == rule and report.verdict == "review", report
    assert finding.location is not None and finding.location.line == kernel.line("copy")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("copy", [BULK, ASYNC], ids=["bulk", "cp.async"])
def test_from_global_to_shared(copy: str, schedule: str) -> None:
    unused(*run(HEAD + copy + WRITTEN, schedule))
    finding = used(*run(HEAD + copy + USED, schedule))
    assert "offset 8) was never written" in finding.message


def test_a_copy_of_nothing_written() -> None:
    copy = BULK.replace("[data]", "[data+64]")
    unused(*run(HEAD + copy + "ret"), rule="undefined-load")
    used(*run(HEAD + copy + USED))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_from_shared_to_shared_and_on(schedule: str) -> None:
    """Two copies and a load of the thread: the first copy is named."""
    more = """
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 32
    @lead cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [c], [a], 32, [b]
    V:
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 1
    @!q bra V
    """
    used(*run(HEAD + BULK + more + USED.replace("[a+", "[c+"), schedule))
    unused(*run(HEAD + BULK + more + WRITTEN.replace("[a+", "[c+"), schedule))


def test_a_copy_of_what_a_thread_stored() -> None:
    """An undefined value that a thread stored, and a bulk copy takes to global memory."""
    text = """
    ld.shared.v2.u32 {{x, y}}, [c+8] // copy
    mad.lo.u32 c, t, 4, a
    st.shared.u32 [c], {}
    fence.proxy.async
    bar.sync 0
    @lead cp.async.bulk.global.shared::cta.bulk_group [out], [a], 128 // use
    @lead cp.async.bulk.commit_group
    @lead cp.async.bulk.wait_group 0
    ret
    """
    written = "@lead st.shared.u32 [c+8], 5\nbar.sync 0\n"
    finding = used(*run(HEAD + written + text.format("y")))
    assert "copied to global memory by cp.async.bulk" in finding.other[0][0]
    unused(*run(HEAD + written + text.format("x")))


@pytest.mark.parametrize(("swizzle", "fill"), [("none", "zeros"), ("none", "nan"), ("32B", "nan")])
def test_boxes(swizzle: str, fill: str) -> None:
    """A box half outside of its tensor: the fill is defined, whatever its value."""
    text = """
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 128
    @lead cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [a], [map, {{0, 0}}], [b] // copy
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
    @!q bra W
    setp.eq.u32 r, t, {}
    mad.lo.u32 c, t, 4, a
    ld.shared.u32 x, [c]
    @r st.global.u32 [out], x // use
    ret
    """
    tensor = np.zeros((3, 8), np.float32)
    tensor_map = TensorMap.tiled(tensor, box=(4, 8), swizzle=swizzle, oob_fill=fill)
    states = {}
    for place in range(32):
        kernel = Kernel(
            HEAD.replace("[data]", "[data+4]").replace("u64 [data+4], 77", "u32 [data+4], 77")
            + text.format(place),
            "map:map data:u64 out:u64",
        )
        report = kernel.run(tensor_map, tensor, np.zeros(1, np.uint32), uninitialized=[0])
        states[place] = report.verdict == "error"
    defined = [place for place, wrong in states.items() if not wrong]
    assert len(defined) == 9, states


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_asynchronous_stores(schedule: str) -> None:
    text = """
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 256
    mad.lo.u32 y, t, 8, c
    st.shared.u32 [y], t
    ld.shared.v2.u32 {x, y}, [y] // copy
    mad.lo.u32 a, t, 8, a
    st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [a], {y, x}, [b]
    """
    after = "ld.shared.u32 x, [a+AT]\n@lead st.global.u32 [out], x // use\nret"
    unused(*run(HEAD + text + WAIT + after.replace("AT", "4"), schedule))
    finding = used(*run(HEAD + text + WAIT + after.replace("AT", "0"), schedule))
    assert "there, byte 4 of 1024" in finding.message
