"""Undefined bits pass through loads, stores and transpositions of matrices; a product uses them."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.sim import Report
from tests.sim.build import Kernel

SCHEDULES = [("eager", 32), ("late", 64), ("random", 64)]
#: Each warp has 256 bytes of ``area``: an 8x8 matrix of halves that is written, and one that is not.
HEAD = """
.shared b8 area[1024] 128
.shared b8 other[1024] 128
.reg u32 t w l a b c x y z
.reg b32 r0..r3
.reg f32 d0..d3
.reg u64 o
mov.u32 t, %tid.x
shr.u32 w, t, 5
and.b32 l, t, 31
mov.u32 a, area
mad.lo.u32 a, w, 256, a
mad.lo.u32 b, l, 4, a
st.shared.u32 [b], 0
bar.warp.sync -1
and.b32 b, l, 15
mad.lo.u32 b, b, 16, a
mov.u32 c, other
mad.lo.u32 c, w, 256, c
mad.lo.u32 z, l, 4, c
mad.wide.u32 o, t, 8, out
mov.f32 d0, 0f00000000
mov.f32 d1, 0f00000000
"""
LOAD = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r0, r1}, [b] // load\n"
MMA = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {d0, d1, d2, d3}, {r0, R}, {r0}, {d0, d1, d0, d1} // use\n"
STORE = "st.global.u32 [o], X // use\n"


def run(body: str, schedule: str, threads: int) -> tuple[Kernel, Report]:
    kernel = Kernel(HEAD + body + "ret", "out:u64")
    return kernel, kernel.run(np.zeros(128, np.uint64), block=threads, schedule=schedule)


def used(body: str, schedule: str = "eager", threads: int = 32) -> None:
    kernel, report = run(body, schedule, threads)
    (finding,) = report.findings
    assert finding.rule.name == "uninitialized-read", report
    assert finding.location is not None and finding.location.line == kernel.line("load")
    ((_, where),) = finding.other
    assert where is not None and where.line == kernel.line("use"), report


def unused(body: str, schedule: str = "eager", threads: int = 32) -> None:
    kernel, report = run(body, schedule, threads)
    (finding,) = report.findings
    assert finding.rule.name == "undefined-load" and report.verdict == "review", report
    assert finding.location is not None and finding.location.line == kernel.line("load")


@pytest.mark.parametrize(("schedule", "threads"), SCHEDULES)
def test_a_product(schedule: str, threads: int) -> None:
    used(LOAD + MMA.replace("R", "r1"), schedule, threads)
    unused(LOAD + MMA.replace("R", "r0"), schedule, threads)


@pytest.mark.parametrize(("schedule", "threads"), SCHEDULES)
def test_single_rows(schedule: str, threads: int) -> None:
    """One row of the second matrix is written: the lanes that hold it have defined values."""
    row = "st.shared.v4.u32 [a+144], {w, w, w, w}\nbar.warp.sync -1\n"
    some = "setp.eq.u32 p, l, {}\n@p st.global.u32 [o], r1 // use\n"
    unused(".reg pred p\n" + row + LOAD + some.format(5), schedule, threads)
    used(".reg pred p\n" + row + LOAD + some.format(8), schedule, threads)


@pytest.mark.parametrize(("schedule", "threads"), SCHEDULES)
def test_transposed_and_stored(schedule: str, threads: int) -> None:
    turned = "movmatrix.sync.aligned.m8n8.trans.b16 r2, r{}\n"
    stored = "mad.lo.u32 x, l, 16, c\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [x], {{r2}}\nbar.warp.sync -1\nld.shared.u32 y, [z]\n"
    unused(LOAD + turned.format(0) + stored.format() + STORE.replace("X", "y"), schedule, threads)
    used(LOAD + turned.format(1) + stored.format() + STORE.replace("X", "y"), schedule, threads)


def test_fragments() -> None:
    """A fragment of wmma: loaded, stored and loaded again."""
    names = "{r0, r1, r2, r3, e0, e1, e2, e3}"
    head = ".reg b32 e0..e3\n"
    load = f"wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {names}, [area], 16 // load\n"
    store = f"wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [other], {names}, 16\nbar.warp.sync -1\n"
    # 16 rows of 64 bytes, of which the first two are written.
    used(head + load + store + "ld.shared.u32 y, [other+128]\n" + STORE.replace("X", "y"))
    unused(head + load + store + "ld.shared.u32 y, [other+124]\n" + STORE.replace("X", "y"))
