"""Groups of threads: who executes the block, what is recorded, and which instructions a group refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import (
    InstructionError,
    Kernel,
    SpecError,
    Tile,
    b64,
    f32,
    kernel,
    kit,
    ptx,
    reg,
    smem,
    u32,
)
from pyptx.dsl import Reg
from pyptx.kit.groups import Group
from pyptx.toolchain import Tool
from tests.dsl.helpers import body_of, in_kernel

Open = Callable[[Reg], Group]


def counted(opened: Open, threads: int = 512) -> Kernel:
    @kernel(out_specs=(Tile(threads, u32),), block=threads, arch="sm_90a", min_ctas_per_sm=1)
    def mark(out):  # type: ignore[no-untyped-def]
        warp = kit.warp_index()
        with opened(warp):
            ptx.inst.st.global_.u32(out.at(ptx.special.tid.x()), 1)

    return mark


@pytest.mark.parametrize(
    ("opened", "first", "count"),
    [
        (lambda warp: kit.single_thread(warp, 3), 96, 1),
        (lambda warp: kit.single_warp(warp, 0), 0, 32),
        (lambda warp: kit.single_warp(warp, 15), 480, 32),
        (lambda warp: kit.warp_group(warp, 2), 256, 128),
        (lambda warp: kit.warp_group(warp, 1, dec=40), 128, 128),
        (lambda warp: kit.thread_group(warp, 0, 96), 0, 96),
        (lambda warp: kit.thread_group(warp, 64, 320), 64, 320),
        (lambda warp: kit.thread_group(warp, 128, 256, dec=64), 128, 256),
    ],
)
def test_who_executes_the_block(opened: Open, first: int, count: int) -> None:
    out = np.zeros(512, np.uint32)
    report = counted(opened).simulate(out=out, sanitize="strict")
    assert report.verdict == "clean", str(report)
    expected = np.zeros(512, np.uint32)
    expected[first : first + count] = 1
    assert np.array_equal(out, expected)


def test_what_is_recorded() -> None:
    def body() -> None:
        warp = reg.scalar(u32, init=0)
        with kit.single_thread(warp, 3):
            pass
        with kit.warp_group(warp, 1, inc=232):
            pass
        with kit.thread_group(warp, 64, 96):
            pass

    opcodes = [line.split()[0] for line in body_of(body)[1:] if not line.endswith(":")]
    assert opcodes == [
        *["setp.eq.u32", "@!%mine", "elect.sync", "@!%elected"],
        *["shr.u32", "setp.eq.u32", "@!%mine_1", "setmaxnreg.inc.sync.aligned.u32"],
        *["sub.u32", "setp.lt.u32", "@!%mine_2"],
    ]


def refused(opened: Open, record: Callable[[], Any]) -> str:
    """The message with which an instruction is refused in a group; empty if it is not. Nothing is left of it."""
    found = []

    def body() -> None:
        warp = kit.warp_index()
        with opened(warp):
            try:
                record()
            except InstructionError as error:
                found.append(str(error))

    def nothing() -> None:
        with opened(kit.warp_index()):
            pass

    lines = body_of(body)
    if not found:
        return ""
    kinds = [line.split()[0] for line in lines if "mov" not in line.split()[0]]
    assert kinds == [line.split()[0] for line in body_of(nothing) if "mov" not in line.split()[0]]
    return found[0]


def thread(warp: Reg) -> Group:
    return kit.single_thread(warp, 0)


def whole_warp(warp: Reg) -> Group:
    return kit.single_warp(warp, 1)


def three_warps(warp: Reg) -> Group:
    return kit.thread_group(warp, 128, 96)


def warpgroup(warp: Reg) -> Group:
    return kit.warp_group(warp, 1)


WARP: list[Callable[[], Any]] = [
    lambda: ptx.warp.sync(),
    lambda: ptx.warp.elect(),
    lambda: ptx.warp.shfl_idx(reg.scalar(u32, init=0), 0),
    lambda: ptx.bar.sync(0),
    lambda: ptx.tcgen05.wait_ld(),
    lambda: ptx.tcgen05.relinquish_alloc_permit(),
    lambda: ptx.cluster.sync(aligned=True),
]


@pytest.mark.parametrize("number", range(len(WARP)))
def test_a_thread_refuses_what_a_warp_executes(number: int) -> None:
    message = refused(thread, WARP[number])
    assert "needs all lanes of a warp" in message and "kit.single_warp" in message
    for group in (whole_warp, three_warps, warpgroup):
        assert not refused(group, WARP[number])


@pytest.mark.parametrize("group", [thread, whole_warp, three_warps])
def test_only_a_warpgroup_sets_its_registers(group: Open) -> None:
    message = refused(group, lambda: ptx.setmaxnreg.dec(40))
    assert "needs a whole warpgroup" in message and "kit.warp_group" in message
    assert not refused(warpgroup, lambda: ptx.setmaxnreg.dec(40))


ONE: list[Callable[[], Any]] = [
    lambda: ptx.mbarrier.init(smem.alloc(1, b64), 1),
    lambda: ptx.tcgen05.commit(smem.alloc(1, b64)),
    lambda: ptx.cp.async_.bulk.prefetch(reg.scalar(b64, init=0), 16),
    lambda: ptx.clusterlaunchcontrol.try_cancel(smem.alloc(16), smem.alloc(1, b64)),
]


@pytest.mark.parametrize("number", range(len(ONE)))
def test_a_warp_refuses_what_one_thread_issues(number: int) -> None:
    for group, threads in ((whole_warp, 32), (three_warps, 96), (warpgroup, 128)):
        message = refused(group, ONE[number])
        assert f"each of the {threads} threads would issue it" in message and "elect" in message
    assert not refused(thread, ONE[number])

    def guarded() -> None:
        with ptx.for_(0, 3), ptx.if_(ptx.warp.elect()):
            ONE[number]()

    assert not refused(whole_warp, guarded)


def test_a_guard_is_enough() -> None:
    assert not refused(whole_warp, lambda: ptx.tcgen05.commit(smem.alloc(1, b64), pred=ptx.warp.elect()))


def test_lanes_of_a_mask_may_be_fewer() -> None:
    assert not refused(thread, lambda: ptx.warp.sync(1))


def test_after_the_block_nothing_is_refused() -> None:
    def body() -> None:
        warp = kit.warp_index()
        with pytest.raises(InstructionError), kit.single_thread(warp, 0):
            ptx.bar.sync(0)

    def again() -> None:
        with kit.single_thread(kit.warp_index(), 0):
            pass
        ptx.bar.sync(0)

    in_kernel(again)
    with pytest.raises(Exception, match="block"):
        in_kernel(body)


def test_refusals() -> None:
    def check() -> None:
        warp = kit.warp_index()
        for make, words in (
            (lambda: kit.single_thread(warp, 32), "number is 32"),
            (lambda: kit.single_warp(warp, -1), "number is -1"),
            (lambda: kit.warp_group(warp, 8), "0..7"),
            (lambda: kit.warp_group(warp, 0, inc=40, dec=40), "inc is 40 and dec is 40"),
            (lambda: kit.thread_group(warp, 16, 32), "first is 16"),
            (lambda: kit.thread_group(warp, 0, 40), "count is 40"),
            (lambda: kit.thread_group(warp, 992, 64), "at most 1024"),
            (lambda: kit.thread_group(warp, 32, 128, dec=40), "whole warpgroups"),
        ):
            with pytest.raises(SpecError, match=words):
                make()

    in_kernel(check)


def test_registers_move_between_roles(ptxas: Tool) -> None:
    """ptxas honors the counts: it notes nothing, and the second role uses more registers than the launch gives."""

    @kernel(
        in_specs=(Tile(512, f32),), out_specs=(Tile(512, f32),), block=256, arch="sm_90a", min_ctas_per_sm=1
    )
    def roles(X, out):  # type: ignore[no-untyped-def]
        warp = kit.warp_index()
        thread = ptx.special.tid.x()
        with kit.warp_group(warp, 0, dec=40):
            ptx.inst.st.global_.f32(out.at(thread), 0.0)
        with kit.warp_group(warp, 1, inc=240):
            value = reg.scalar(f32)
            ptx.inst.ld.global_.f32(value, X.at(thread))
            ptx.inst.st.global_.f32(out.at(thread), value)

    assembly = roles.assemble()
    assert not assembly.notes and not assembly.warnings
    x = np.arange(512, dtype=np.float32)
    out = roles.simulate(x).outputs[0]
    assert np.array_equal(out[:256], np.where(np.arange(256) < 128, 0, x[:256]))
