"""Random schedules let others run between any two instructions that others can notice."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import ir, sim
from tests.sim.build import Kernel

SEEDS = range(12)

#: Each CTA adds one, in three instructions.
COUNT = Kernel("""
.reg u32 x
ld.global.u32 x, [count]
add.u32 x, x, 1
st.global.u32 [count], x
ret
""", "count:u64", racy=True)  # fmt: skip

#: Warp 1 gives the slot back before it reads it; warp 0 then writes the slot again.
EARLY_RELEASE = Kernel("""
.reg u32 t x f e
.reg pred p w
.shared b8 slot[8] 8
.shared b8 full[8] 8
.shared b8 empty[8] 8
mov.u32 t, %tid.x
setp.eq.u32 p, t, 0
@p mbarrier.init.shared.b64 [full], 1
@p mbarrier.init.shared.b64 [empty], 1
bar.sync 0
setp.eq.u32 p, t, 32
@p bra CONSUMER
setp.ne.u32 p, t, 0
@p bra DONE
st.shared.u32 [slot], 1
mbarrier.arrive.shared.b64 _, [full]
FIRST:
mbarrier.try_wait.parity.shared.b64 w, [empty], 0
@!w bra FIRST
st.shared.u32 [slot], 2
bra DONE
CONSUMER:
mbarrier.try_wait.parity.shared.b64 w, [full], 0
@!w bra CONSUMER
mbarrier.arrive.shared.b64 _, [empty]
ld.shared.u32 x, [slot]
st.global.u32 [out], x
DONE:
ret
""", "out:u64", racy=True)  # fmt: skip

#: The second load is used; the first one nothing uses before the branch.
EARLY_LOAD = Kernel("""
.reg u32 x y
.reg pred p
.shared b8 tile[16] 16
st.shared.u32 [tile+4], 7
ld.shared.u32 x, [tile]         // not written
ld.shared.u32 y, [tile+4]
setp.eq.u32 p, y, 7
@p bra DONE
st.global.u32 [out], x
DONE:
ret
""", "out:u64")  # fmt: skip


def test_threads_interleave_inside_straight_line_code() -> None:
    sums = set()
    for seed in SEEDS:
        count = np.zeros(1, np.uint32)
        COUNT.clean(count, grid=8, block=1, schedule="random", seed=seed)
        sums.add(int(count[0]))
    assert min(sums) < 8 and max(sums) <= 8 and len(sums) > 2, sums
    for schedule in ("eager", "late"):
        count = np.zeros(1, np.uint32)
        COUNT.clean(count, grid=8, block=1, schedule=schedule)
        assert count[0] == 8


def test_a_slot_that_is_released_before_its_last_read_is_seen() -> None:
    read = set()
    for seed in SEEDS:
        out = np.zeros(1, np.uint32)
        EARLY_RELEASE.clean(out, block=64, schedule="random", seed=seed)
        read.add(int(out[0]))
    assert read == {1, 2}


@pytest.mark.parametrize("seed", range(6))
def test_a_block_that_ends_for_others_is_still_one_to_early_loads(seed: int) -> None:
    report = EARLY_LOAD.run(np.zeros(1, np.uint32), block=1, schedule="random", seed=seed)
    assert [finding.rule.name for finding in report.findings] == ["undefined-load"], report
    assert report.findings[0].location.line == EARLY_LOAD.line("not written")


def test_other_schedules_keep_long_blocks() -> None:
    loaded = COUNT.run(np.zeros(1, np.uint32)) and COUNT._loaded
    assert loaded is not None
    function = COUNT.module.entry("kernel")
    launch = ir.Launch((1, 1, 1), (1, 1, 1), (1, 1, 1), 0)
    long = loaded.program(function, launch, interleaved=False, check_time=lambda: None).blocks
    short = loaded.program(function, launch, interleaved=True, check_time=lambda: None).blocks
    assert [len(block.ops) for block in long] == [4, 0]
    assert [len(block.ops) for block in short] == [3, 1, 0]  # the parameter is each thread's own
    assert [block.continues for block in short] == [True, False, False]


SUMS = 12
WAITS = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out)
{{
.reg .b64 %rd<4>;
.reg .f32 %f<4>;
ld.param.u64 %rd1, [out];
ld.global.f32 %f1, [%rd1];
ld.global.f32 %f2, [%rd1+4];
add.f32 %f3, %f2, 0f3F800000;
{"fma.rn.f32 %f3, %f3, %f1, %f2;" * SUMS}
st.global.f32 [%rd1], %f3;
ld.global.f32 %f1, [%rd1+8];
add.f32 %f1, %f1, %f1;
st.global.f32 [%rd1], %f1;
ret;
}}
"""


def test_in_a_machine_that_keeps_time_arithmetic_behind_a_load_begins_a_block() -> None:
    loaded = sim.load(WAITS)
    function, launch = loaded.module.entry("kernel"), ir.Launch((1, 1, 1), (1, 1, 1), (1, 1, 1), 0)
    plain, waiting = (
        [
            [op.name for _, op in block.ops]
            for block in loaded.program(
                function, launch, interleaved=True, waits=waits, check_time=lambda: None
            ).blocks
        ]
        for waits in (False, True)
    )
    behind = ["add.f32", *["fma.rn.f32"] * SUMS]
    assert plain[1] == ["ld.global.f32", *behind]
    assert waiting[1:3] == [["ld.global.f32"], behind]
    # A few instructions are not worth it.
    assert plain[2:] == waiting[3:] and ["ld.global.f32", "add.f32"] in waiting
