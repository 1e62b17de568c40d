"""Code that no cache holds: by arithmetic, and beside what an H200 took under ncu."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import Tile, f32, kernel, ptx, reg, u32
from pyptx.entry import Kernel
from pyptx.sim.clock.figures import Figures
from pyptx.sim.clock.icache import InstructionCache
from pyptx.timeline import Cause
from pyptx.timing.constants import gpu

H200 = gpu("h200")


def test_lines_come_once_and_one_after_the_other() -> None:
    code = InstructionCache(10.0, 60.0)
    assert code.fetch(100.0, (4, 5, 6)) == 100 + 60 + 10 + 10
    assert code.fetch(300.0, (4, 5, 6)) == 300
    # Another warp comes while a line is on its way, and waits for it.
    assert code.fetch(400.0, (9,)) == 460
    assert code.fetch(410.0, (9,)) == 460
    assert code.fetch(500.0, ()) == 500
    assert code.fetch(500.0, (7, 8)) == 520


def test_a_line_takes_longer_the_more_multiprocessors_ask() -> None:
    alone = Figures(H200, 1700.0).code(1)
    assert all(few < many for few, many in zip(alone, Figures(H200, 1700.0).code(132), strict=True))
    assert Figures(H200.with_values({"sm.count": 1.0}), 1700.0).code(1) == alone


PARTS, FMAS = 8, 64


def straight(ctas: int) -> Kernel:
    """Build a kernel of 8 KiB of straight code, that runs twice."""

    @kernel(out_specs=(Tile(2, PARTS, u32),), grid=ctas, block=32, arch="sm_90a")
    def section(Out):
        chains = reg.array(f32, 4, init=1.0)
        y = reg.scalar(f32)
        ptx.inst.cvt.rn.f32.u32(y, ptx.special.ctaid.x())
        with ptx.for_(0, 2) as turn:
            ptx.pragma("nounroll")
            at, found = ptx.special.clock(), []
            for _ in range(PARTS):
                for i in range(FMAS):
                    ptx.inst.fma.rn.f32(chains[i % 4], chains[i % 4], y, y)
                after = ptx.special.clock()
                found.append(after - at)
                at = after
            for place, value in enumerate(found):
                ptx.inst.st.volatile.global_.u32(Out.at(turn, place), value)
        for x in chains:
            ptx.store(ptx.addr(Out.ptr), x, pred=ptx.special.nctaid.z() == 0)

    return section


@pytest.mark.full
@pytest.mark.parametrize(("ctas", "cycles"), [(1, 150), pytest.param(132, 163, marks=pytest.mark.full)])
def test_straight_code_beside_an_h200(ctas: int, cycles: float) -> None:
    """Under ncu, which empties all caches, a KiB took 150 (1 CTA) to 163 cycles (132 CTAs), and 66.5 again."""
    out = np.zeros((2, PARTS), np.uint32)
    found = straight(ctas).predict(gpu="h200", clock=1980.0, l2="cold", out=out)
    first, second = out[:, 1:].mean(axis=1)
    assert first == pytest.approx(cycles, rel=0.05)
    assert second == pytest.approx(66.5, rel=0.04)
    assert any(each.cause is Cause.CODE for each in found.stalls)
    # A launch before has left the code in the caches.
    found = straight(ctas).predict(gpu="h200", clock=1980.0, l2="warm", out=out)
    assert out[0, 1:].mean() == pytest.approx(out[1, 1:].mean(), rel=0.02)
    assert not any(each.cause is Cause.CODE for each in found.stalls)
