"""Buffers in shared memory: named in findings, and an access that leaves its buffer is found."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.types import u32
from pyptx.dsl import ptx, smem
from pyptx.sim.memory.named_parts import NamedParts, Part
from tests.dsl.helpers import recorded
from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding

TWO = """
.shared b8 low[64] 16
.shared b8 high[SIZE] 16
.reg u32 t a x
.reg u64 big
mov.u32 t, %tid.x
mov.u32 a, low
mad.lo.u32 a, t, 4, a
"""


def kernel(body: str, size: int = 256) -> Kernel:
    return Kernel(TWO.replace("SIZE", str(size)) + body + "\nret")


def test_parts_by_offset() -> None:
    parts = NamedParts([Part(16, 24, "b"), Part(0, 8, "a"), Part(4, 12, "inside"), Part(30, 30, "empty")], 32)
    assert [getattr(parts.at(o), "name", None) for o in (-1, 0, 7, 8, 15, 16, 23, 24, 30)] == [
        None, "a", "a", None, None, "b", "b", None, None
    ]  # fmt: skip
    assert parts.describe(20) == "b, byte 4 of 8"
    assert parts.describe(10) == "2 bytes past the end of a"
    assert parts.describe(-1) == "before every buffer"


def test_accesses_that_one_part_holds() -> None:
    parts = NamedParts([Part(4, 8, "a"), Part(8, 16, "b")], 20)
    assert parts.hold(4, 4) and parts.hold(8, 8) and parts.hold(np.array([12, 40, 8]), 4)
    assert not any(parts.hold(offset, 4) for offset in (0, 6, 14, 16))
    assert not any(parts.hold(np.array(ends), 4) for ends in ([4, 8], [8, 4], [8, 16], [14, 8]))
    assert NamedParts([Part(0, 20, "all")], 20).hold(np.array([0, 16]), 4)


def test_lanes_that_run_into_the_neighbor() -> None:
    """16 words written by 32 lanes: the buffer behind it gets the rest."""
    found = finding(kernel("st.shared.u32 [a], t // here").run(block=32), "buffer-crossing", "review")
    assert "low, byte 0 of 64" in found.message and "high, byte 60 of 256" in found.message
    assert kernel("st.shared.u32 [a], t").run(block=16).verdict == "clean"
    assert kernel("st.shared.u32 [a+64], t").run(block=32).verdict == "clean"


def test_lanes_apart_are_no_overrun() -> None:
    """Lanes may address several buffers: what leaves a gap is not one range."""
    assert kernel("mad.lo.u32 a, t, 4, a\nst.shared.u32 [a], t").run(block=32).verdict == "clean"


@pytest.mark.parametrize("block", [1, 32])
def test_one_access_past_the_end_of_its_buffer(block: int) -> None:
    """A vector of 16 bytes in the last 8 of a buffer of 24."""
    text = ".shared b8 low[24] 16\n.shared b8 high[64] 8\n.reg u32 a\nmov.u32 a, low\n"
    good, bad = "st.shared.v2.u64 [a], {1, 2}", "st.shared.v2.u64 [a+16], {1, 2} // here"
    assert Kernel(text + good + "\nret").run(block=block).verdict == "clean"
    wrong = Kernel(text + bad + "\nret")
    found = finding(wrong.run(block=block), "buffer-overrun")
    assert "begins at low, byte 16 of 24" in found.message
    assert found.location is not None and found.location.line == wrong.line("here")


def test_padding_between_buffers() -> None:
    text = ".shared b8 low[8] 16\n.shared b8 high[64] 16\n.reg u32 a\nmov.u32 a, low\nst.shared.u32 [a+8], 1\nret"
    found = finding(Kernel(text).run(block=1), "buffer-overrun")
    assert "0 bytes past the end of low" in found.message


def test_a_bulk_copy_past_the_end_of_its_buffer() -> None:
    body = """
    st.shared.u32 [a], t
    st.shared.u32 [a+64], t
    fence.proxy.async.shared::cta
    bar.sync 0
    setp.eq.u32 p, t, 0
    @p cp.async.bulk.global.shared::cta.bulk_group [out], [s], BYTES // here
    @p cp.async.bulk.commit_group
    @p cp.async.bulk.wait_group 0
    """
    text = TWO.replace("SIZE", "64") + ".reg pred p\n.reg u32 s\nmov.u32 s, low\n" + body + "\nret"
    out = np.zeros(32, np.uint32)
    full = Kernel(text.replace("BYTES", "64"), "out:u64").run(out, block=16)
    assert full.verdict == "clean", full
    report = Kernel(text.replace("BYTES", "80"), "out:u64").run(out, block=16)
    assert "begins at low, byte 0 of 64" in finding(report, "buffer-overrun").message


def test_dynamic_memory_is_one_buffer() -> None:
    text = ".shared b8 own[64] 16\n.shared b8 all[] 16\n.reg u32 t a\nmov.u32 t, %tid.x\nmov.u32 a, all\nmad.lo.u32 a, t, 4, a\n"
    assert Kernel(text + "st.shared.u32 [a], t\nret").run(block=64, smem=256).verdict == "clean"


def test_findings_name_the_buffer() -> None:
    report = kernel("ld.shared.u32 x, [a+68]").run(block=1)
    assert "high, byte 4 of 256" in finding(report, "undefined-load", "review").message
    report = kernel("mbarrier.init.shared.b64 [a+72], 1\nmbarrier.arrive.shared.b64 _, [a+72], 2").run(
        block=1
    )
    assert "mbarrier high, byte 8 of 256" in finding(report, "mbarrier-misuse").message


def test_buffers_of_a_recording() -> None:
    """Each ``smem.alloc`` is a buffer, though the text has one variable."""

    def body() -> None:
        smem.alloc(16, u32, name="small")
        smem.alloc(16, u32, name="neighbor")
        lane = ptx.special.laneid()
        ptx.inst.st.shared.u32(ptx.addr(smem.base() + lane * 4), lane)

    report = sim.load(recorded(body).module).launch(grid=1, block=32)
    found = finding(report, "buffer-crossing", "review")
    assert "small, byte 0 of 64" in found.message and "neighbor, byte 60 of 64" in found.message
    assert sim.load(recorded(body).module).launch(grid=1, block=16).verdict == "clean"
