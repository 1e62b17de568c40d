"""Clusters that are not equally long: which of them the busiest position gets, and the time of a launch."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx.sim.clock.lengths import busiest, differ, lengths_of, samples

#: Each CTA goes through its loop ``first + step * ctaid.x`` times, and stores a number.
TEXT = """
.version 8.5
.target sm_90a
.address_size 64
.visible .entry steps(.param .u64 out, .param .u32 first, .param .s32 step)
{{
    .reg .pred %p; .reg .b32 %r<8>; .reg .f32 %f<2>; .reg .b64 %rd<3>;
    ld.param.u64 %rd0, [out];
    ld.param.u32 %r0, [first];
    ld.param.u32 %r1, [step];
    mov.u32 %r2, %ctaid.{axis};
    mad.lo.u32 %r3, %r1, %r2, %r0;
    mov.f32 %f0, 0f3F800000;
LOOP:
    .pragma "nounroll";
    fma.rn.f32 %f0, %f0, %f0, %f0;
    sub.u32 %r3, %r3, 1;
    setp.ne.u32 %p, %r3, 0;
    @%p bra LOOP;
    mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, %ctaid.y;
    mov.u32 %r6, %ctaid.x;
    mad.lo.u32 %r7, %r4, %r5, %r6;
    mul.wide.u32 %rd1, %r7, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.f32 [%rd2], %f0;
    ret;
}}
"""


def cycles(grid: tuple[int, int], first: int, step: int, axis: str = "x") -> float:
    """The predicted cycles of a launch whose CTAs fill a multiprocessor each, at 1000 MHz."""
    found = pyptx.predict(
        TEXT.format(axis=axis),
        grid=(*grid, 1),
        block=(32, 1, 1),
        dynamic_smem=200 * 1024,
        args=[pyptx.sim.unknown((grid[0] * grid[1],), np.float32), np.uint32(first), np.int32(step)],
        gpu="h200",
        clock=1000.0,
    )
    return found.cycles


@pytest.mark.parametrize("first, step", [(55, 55), (660, -55)])
def test_a_launch_of_one_wave_takes_as_long_as_its_longest_cta(first: int, step: int) -> None:
    longest = cycles((12, 1), 660, 0)
    assert cycles((12, 1), first, step) == pytest.approx(longest, rel=0.03)
    assert cycles((12, 1), 5, 0) < longest / 5


@pytest.mark.full
@pytest.mark.full
def test_the_longest_last_make_a_tail() -> None:
    # 132 short CTAs, then as many of which each is longer than the one before: rows of the grid.
    one, two = cycles((132, 1), 30, 0), cycles((132, 1), 300, 0)
    start = cycles((132, 1), 1, 0)
    both = cycles((132, 2), 30, 270, axis="y")
    assert both == pytest.approx(one + two - start, rel=0.05)


def test_samples_lie_on_the_axes() -> None:
    assert samples((16, 32, 1)) == [(0, 0, 0), (8, 0, 0), (15, 0, 0), (0, 16, 0), (0, 31, 0)]
    assert samples((2, 1, 1)) == [(0, 0, 0), (1, 0, 0)]
    assert samples((1, 1, 1)) == [(0, 0, 0)]


def test_lengths_are_on_lines_between_the_samples() -> None:
    extents = (5, 3, 1)
    measured = dict(zip(samples(extents), [10.0, 30.0, 50.0, 12.0, 14.0], strict=True))
    found = lengths_of(extents, measured)
    assert found is not None
    assert found.tolist() == [10 + 10 * x + 2 * y for y in range(3) for x in range(5)]
    assert lengths_of((1 << 11, 1 << 10, 1), {}) is None


def test_the_busiest_position_gets_what_has_ended_last() -> None:
    # The second position is free at 1, then at 4 and at 9.
    share = busiest([2.0, 1.0, 3.0, 4.0, 5.0, 2.0], positions=2, together=1)
    assert share.clusters == (1, 2, 4)
    assert share.mean == pytest.approx(17 / 2 / 9)
    assert share.evenness == pytest.approx(17 / 2 / 9)
    together = busiest([4.0, 4.0, 4.0, 1.0], positions=1, together=2)
    assert together.clusters == (0, 1, 2, 3)
    assert together.evenness == pytest.approx(13 / 2 / 8)


def test_a_tenth_makes_no_difference() -> None:
    assert differ([90.0, 101.0]) and not differ([91.0, 100.0])


@pytest.mark.full
def test_what_clusters_that_run_before_store_is_not_left_in_arrays() -> None:
    # Of 264 CTAs position 0 runs two; the others that were looked at, number 263 among them, leave nothing.
    found = np.zeros((132, 2), np.float32)
    args = [found, np.uint32(3), np.int32(0)]
    pyptx.predict(
        TEXT.format(axis="x"), grid=(132, 2, 1), block=32, dynamic_smem=200 * 1024, args=args, gpu="h200"
    )
    assert found[0, 0] and not found[-1, -1]


def test_a_cluster_that_waits_for_others_does_not_run_for_ever() -> None:
    # CTA 0 ends at once; the others wait for a word that CTAs elsewhere would set.
    text = """
    .version 8.5
    .target sm_90a
    .address_size 64
    .visible .entry chain(.param .u64 flag)
    {
        .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd;
        mov.u32 %r0, %ctaid.x;
        ld.param.u64 %rd, [flag];
        setp.eq.u32 %p, %r0, 0;
        @%p bra DONE;
    AGAIN:
        ld.acquire.gpu.global.u32 %r1, [%rd];
        setp.eq.u32 %p, %r1, 0;
        @%p bra AGAIN;
    DONE:
        ret;
    }
    """
    found = pyptx.predict(text, grid=4, block=32, args=[np.zeros(1, np.uint32)], gpu="h200", clock=1000.0)
    assert found.cycles < 10_000
