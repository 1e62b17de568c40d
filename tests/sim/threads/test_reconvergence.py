"""Lanes that parted come together again: after exits, guards and calls, in teams of warps, and soon enough."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from tests.sim.build import Kernel
from tests.sim.kernels.random_exchanges import SUMS
from tests.sim.kernels.random_kernels import STRIDE, author
from tests.sim.reference.machine import Machine
from tests.sim.reference.simt_stack import stack_steps

pytestmark = pytest.mark.one_in(2)

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]

HEAD = """
.reg u32 t x y m
.reg u64 o
.reg pred p q r
mov.u32 t, %tid.x
mad.wide.u32 o, t, 4, out
mov.u32 x, 0
"""


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_teams_dissolve_inside_nested_branches(schedule: str, seed: int) -> None:
    """A warp whose lanes are all through the inner branch, while another's are in it, has parted once, not twice."""
    body = """
    and.b32 y, t, 1
    setp.ne.u32 p, y, 0
    @p bra OUTER
    setp.ge.u32 q, t, 33
    @q bra HIGH
    add.u32 x, x, 10
    setp.lt.u32 r, t, 20
    @!r bra SYNCED
    bar.warp.sync 0x55555
    add.u32 x, x, 100
    SYNCED:
    add.u32 x, x, 5
    bra JOIN
    HIGH:
    add.u32 x, x, 1
    JOIN:
    add.u32 x, x, 1000
    OUTER:
    add.u32 x, x, 10000
    st.global.u32 [o], x
    """
    out = np.zeros(96, np.uint32)
    Kernel(HEAD + body, "out:u64").clean(out, block=96, schedule=schedule, seed=seed)
    expected = [10000 if t % 2 else 11000 + (1 if t >= 33 else 115 if t < 20 else 15) for t in range(96)]
    assert out.tolist() == expected


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_guarded_wait_holds_only_the_lanes_that_its_guard_lets_through(schedule: str, seed: int) -> None:
    """Lanes 0 to 7 come to the barrier once lane 20, which is not let through, has set the flag."""
    body = """
    .shared b8 flag[4] 4
    mov.u32 m, flag
    st.shared.u32 [m], 0
    bar.warp.sync 0xffffffff
    setp.lt.u32 p, t, 8
    setp.lt.u32 q, t, 16
    @p bra SPIN
    @q bar.warp.sync 0xffff
    @!q st.volatile.shared.u32 [m], 1
    bra JOIN
    SPIN:
    ld.volatile.shared.u32 y, [m]
    setp.eq.u32 r, y, 0
    @r bra SPIN
    bar.warp.sync 0xffff
    JOIN:
    st.global.u32 [o], t
    """
    out = np.zeros(32, np.uint32)
    Kernel(HEAD + body, "out:u64").clean(out, block=32, schedule=schedule, seed=seed)
    assert out.tolist() == list(range(32))


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_lanes_without_the_guard_of_a_collective_need_nobody(schedule: str, seed: int) -> None:
    """Where the guard does not hold, the member mask may be anything."""
    body = """
    setp.ge.u32 p, t, 8
    and.b32 y, t, 1
    setp.ne.u32 q, y, 0
    mov.u32 m, 0xffffffff
    @q mov.u32 m, 0xaa
    @p bra JOIN
    @q redux.sync.add.u32 x, t, m
    JOIN:
    bar.warp.sync 0xffffffff
    st.global.u32 [o], x
    """
    out = np.zeros(32, np.uint32)
    Kernel(HEAD + body, "out:u64").clean(out, block=32, schedule=schedule, seed=seed)
    assert out.tolist() == [16 if t < 8 and t % 2 else 0 for t in range(32)]


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_tiles_of_a_warp_do_not_wait_for_each_other(schedule: str, seed: int) -> None:
    """Half of the upper tile comes to the vote only after the lower tile has been through it."""
    body = """
    .shared b8 flag[4] 4
    mov.u32 m, flag
    st.shared.u32 [m], 0
    bar.warp.sync 0xffffffff
    and.b32 y, t, 16
    shl.b32 y, 0xffff, y
    setp.lt.u32 p, t, 24
    @p bra VOTE
    SPIN:
    ld.volatile.shared.u32 x, [m]
    setp.eq.u32 r, x, 0
    @r bra SPIN
    VOTE:
    vote.sync.ballot.b32 x, p, y
    setp.lt.u32 q, t, 16
    @q st.volatile.shared.u32 [m], 1
    st.global.u32 [o], x
    """
    out = np.zeros(32, np.uint32)
    Kernel(HEAD + body, "out:u64").clean(out, block=32, schedule=schedule, seed=seed)
    assert out.tolist() == [0xFFFF] * 16 + [0xFF0000] * 16


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_lanes_in_several_activations_meet_in_a_collective(schedule: str, seed: int) -> None:
    """Lanes that take a lock one by one call the same function one by one: what it asks of all waits for all."""
    text = """
    .version 8.6
    .target sm_90a
    .address_size 64
    .func (.reg .b32 r) together (.reg .b32 a)
    {
        redux.sync.add.u32 r, a, -1;
        ret;
    }
    .visible .entry kernel(.param .u64 out)
    {
        .reg .b32 t, x, m; .reg .b64 o; .reg .pred p;
        .shared .b32 lock;
        ld.param.u64 o, [out];
        mov.u32 t, %tid.x;
        mad.wide.u32 o, t, 4, o;
        mov.u32 m, lock;
        st.shared.u32 [m], 0;
        bar.warp.sync -1;
    SPIN:
        atom.shared.cas.b32 x, [m], 0, 1;
        setp.ne.u32 p, x, 0;
        @p bra SPIN;
        atom.shared.exch.b32 x, [m], 0;
        call (x), together, (t);
        st.global.u32 [o], x;
        ret;
    }
    """
    out = np.zeros(32, np.uint32)
    sim.load(text).launch(grid=1, block=32, args=[out], schedule=schedule, seed=seed, timeout=20.0).check()
    assert out.tolist() == [sum(range(32))] * 32


AFTER = "\n".join(["add.u32 x, x, 1"] * 50)
#: Ways to end inside of a branch that not all lanes take.
ENDS = {
    "guarded exit": ("@q exit", ""),
    "guarded ret": ("@q ret", ""),
    "branch to the end": ("@q bra END", "END:\nret"),
    "exit after work": ("@!q bra ON\nadd.u32 x, x, 7\nexit\nON:", ""),
}


@pytest.mark.parametrize("block", [32, 96])
@pytest.mark.parametrize("way", ENDS)
def test_the_lanes_that_stay_come_together_though_others_end(way: str, block: int) -> None:
    """Only the code inside the branch is executed apart: the 50 instructions behind it once a warp."""
    ending, last = ENDS[way]
    body = f"""
    and.b32 y, t, 1
    setp.ne.u32 p, y, 0
    and.b32 y, t, 7
    setp.eq.u32 q, y, 2
    @p bra REST
    add.u32 x, x, 1000
    {ending}
    REST:
    {AFTER}
    st.global.u32 [o], x
    ret
    {last}
    """
    out = np.zeros(block, np.uint32)
    report = Kernel(HEAD + body, "out:u64").clean(out, block=block)
    expected = [50 if t % 2 else 0 if t % 8 == 2 else 1050 for t in range(block)]
    assert out.tolist() == expected
    assert report.steps < 80 * block // 32


#: Ways to return from a function inside of two branches that not all lanes take.
RETURNS = {
    "guarded ret": ("@q ret;", ""),
    "branch to the end": ("@q bra END;", "END: ret;"),
    "ret after work": ("@!q bra ON; add.u32 r, r, 7; ret; ON:", ""),
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("way", RETURNS)
def test_the_lanes_that_stay_in_a_function_come_together_though_others_return(
    way: str, schedule: str, seed: int
) -> None:
    """The 50 instructions behind the branches, in the function and after its call, are executed once a warp."""
    ending, last = RETURNS[way]
    after = "add.u32 r, r, 1; " * 50
    text = f"""
    .version 8.0
    .target sm_90a
    .address_size 64
    .func (.reg .b32 r) early (.reg .b32 t)
    {{
        .reg .b32 y; .reg .pred p, q;
        mov.u32 r, 0;
        and.b32 y, t, 1;
        setp.ne.u32 p, y, 0;
        @p bra ODD;
        add.u32 r, r, 1000;
        and.b32 y, t, 2;
        setp.ne.u32 p, y, 0;
        @p bra INNER;
        and.b32 y, t, 7;
        setp.eq.u32 q, y, 4;
        add.u32 r, r, 10000;
        {ending}
    INNER:
        add.u32 r, r, 500;
    ODD:
        {after}
        ret;
        {last}
    }}
    .visible .entry kernel(.param .u64 out)
    {{
        .reg .b32 t, r; .reg .b64 o;
        ld.param.u64 o, [out];
        mov.u32 t, %tid.x;
        mad.wide.u32 o, t, 4, o;
        call (r), early, (t);
        {after}
        st.global.u32 [o], r;
        ret;
    }}
    """
    out = np.zeros(64, np.uint32)
    report = sim.load(text).launch(grid=1, block=64, args=[out], schedule=schedule, seed=seed).check()
    early = 7 if way == "ret after work" else 0

    def expected(t: int) -> int:
        if t % 2:
            return 100
        if t % 4:
            return 1600
        return 11050 + early if t % 8 == 4 else 11600

    assert out.tolist() == [expected(t) for t in range(64)]
    assert report.steps < 2 * 145


@pytest.mark.parametrize("seed", [1, 3, 8, 14, 15, 24])
def test_no_more_steps_than_with_a_reconvergence_stack(seed: int) -> None:
    """Random kernels, which part and end in every way."""
    text = author(seed)
    module = sim.load(text.ptx)
    out, sums = np.zeros((text.threads, STRIDE), np.uint8), np.zeros(SUMS, np.uint32)
    threads = Machine(module.module, "kernel", [out, sums], block=text.block, grid=text.grid).run()
    for schedule in ("eager", "random"):
        report = module.launch(
            grid=text.grid, block=text.block, args=[out, sums], schedule=schedule, timeout=30.0
        )
        assert report.verdict == "clean", report
        assert report.steps <= stack_steps(threads)
