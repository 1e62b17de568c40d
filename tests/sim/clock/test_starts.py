"""When CTAs start: one after the other where all have room, and in the place of others, by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx.sim.clock.figures import Figures
from pyptx.timing.constants import gpu

H200, MHZ = gpu("h200"), 1980.0
FIGURES, GHZ = Figures(H200, MHZ), MHZ / 1000


@pytest.mark.parametrize(("warps", "apart"), [(1, 24.5), (4, 24.5), (16, 16 * 3.1), (32, 32 * 3.1)])
def test_ctas_of_many_warps_are_further_apart(warps: int, apart: float) -> None:
    assert FIGURES.start_apart(warps, 1, 132, first=True) == pytest.approx(apart)


def test_clusters_share_the_rate_of_the_chip() -> None:
    pair, four = (FIGURES.start_apart(4, size, 132, first=True) for size in (2, 4))
    assert pair == pytest.approx(66 * H200.value("cluster.apart_ns") * GHZ) == pytest.approx(2 * four)
    later = FIGURES.start_apart(4, 2, 132, first=False)
    each = 2 * H200.value("cta.refill_ns") + H200.value("cluster.refill_ns")
    assert later == pytest.approx(66 * each * GHZ)


TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry starts(.param .u64 out) {
.reg .b64 %a, %c; .reg .b32 %i, %t; .reg .pred %p;
mov.u64 %c, %clock64;
ld.param.u64 %a, [out]; cvta.to.global.u64 %a, %a;
mov.u32 %i, %ctaid.x; mad.wide.u32 %a, %i, 8, %a;
mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
@%p st.global.u64 [%a], %c;
ret;
}
"""


def starts(ctas: int, threads: int) -> np.ndarray:
    """Return the clocks at which the CTAs of the first multiprocessor start, in their order."""
    out = np.zeros(ctas, np.int64)
    found = pyptx.predict(TEXT, "starts", grid=ctas, block=threads, args=[out], gpu="h200", clock=MHZ)
    assert str(found.verdict) == "clean"
    own = out[::132]
    return np.sort(own[own > 0])


def test_ctas_with_room_start_at_the_rate_of_their_multiprocessor() -> None:
    found = np.diff(starts(132 * 16, 128))
    assert found.mean() == pytest.approx(24.5, rel=0.02) and len(found) == 15


def test_ctas_without_room_wait_for_the_chip() -> None:
    # On an H200 33792 CTAs of 128 threads start 145 clk apart, those with room 28.
    found = np.diff(starts(132 * 64, 128))
    assert found[-16:].mean() == pytest.approx(145, rel=0.1)
