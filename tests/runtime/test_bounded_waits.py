"""Bounded waits: every wait that takes too long reports itself and traps; others go on as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, Tile, ir, kernel, ptx, reg, sim, smem, toolchain
from pyptx.core.types import b64, pred, u32, u64
from pyptx.isa.checking import check_module
from pyptx.runtime.bounded_waits import BUFFER, RECORDS, BoundedWaits, ExpiredWait, bound_waits
from tests.examples.loading import load_example

BLOCK = 64


def build(body: Callable[[Any], None], *, arrive: bool = False) -> Kernel:
    """A kernel with the barriers ``full``; ``body`` waits for ``full[1]``, at which all threads arrive if asked."""

    @kernel(out_specs=(Tile(BLOCK, u32),), grid=2, block=BLOCK, arch="sm_90a")
    def waits(out):  # type: ignore[no-untyped-def]
        smem.alloc(16, u32, name="before")
        full = smem.alloc(1, u64, stages=3, align=8)
        tid = ptx.special.tid.x()
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full[1], BLOCK)
        ptx.bar.sync(0)
        if arrive:
            ptx.mbarrier.arrive(full[1])
        body(full[1])
        with ptx.if_(ptx.special.ctaid.x() == 0):
            ptx.inst.st.global_.u32(ptx.addr(out.ptr + ptx.cvt(tid, u64) * 4), tid + 7)

    return waits


def by_wrapper(bar: Any) -> None:
    ptx.mbarrier.wait(bar, 0)


def by_hand(bar: Any) -> None:
    again = ptx.label("again")
    done = reg.scalar(pred)
    ptx.inst.mbarrier.test_wait.parity.shared__cta.b64(done, ptx.addr(bar.addr), 0)
    ptx.bra(again, pred=~done)


def overwriting_its_guard(bar: Any) -> None:
    waiting = ptx.special.tid.x() >= 0
    again = ptx.label("again")
    ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(waiting, ptx.addr(bar.addr), 0, pred=waiting)
    ptx.inst.not_.pred(waiting, waiting)
    ptx.bra(again, pred=waiting)


def by_generic_address(bar: Any) -> None:
    address = reg.scalar(u64)
    ptx.inst.cvt.u64.u32(address, bar.addr)
    ptx.inst.cvta.shared.u64(address, address)
    again = ptx.label("again")
    done = reg.scalar(pred)
    ptx.inst.mbarrier.try_wait.parity.b64(done, ptx.addr(address), 0)
    ptx.bra(again, pred=~done)


def by_state(bar: Any) -> None:
    state = reg.scalar(b64)
    ptx.inst.mbarrier.arrive.shared__cta.b64(state, ptx.addr(bar.addr))
    ptx.mbarrier.wait(bar, state=state)


WAYS = [by_wrapper, by_hand, overwriting_its_guard, by_generic_address]


def run(waits: BoundedWaits, entry: str = "waits") -> tuple[sim.Report, np.ndarray, list[ExpiredWait]]:
    loaded = sim.load(waits.module)
    out = np.zeros(BLOCK, np.uint32)
    report = loaded.launch(entry, grid=2, block=BLOCK, args=[out])
    return report, out, waits.read(bytes(loaded.variable(RECORDS)))


@pytest.mark.parametrize("body", WAYS)
def test_a_wait_that_never_ends_reports_itself(body: Callable[[Any], None]) -> None:
    k = build(body)
    waits = bound_waits(k.module(), 1e-5)
    assert not check_module(waits.module)
    report, _, expired = run(waits)
    assert [f.rule.name for f in report.findings] == ["trap"]
    assert {(e.cta, e.warp) for e in expired} <= {((c, 0, 0), w) for c in range(2) for w in range(2)}
    first = expired[0]
    assert (first.phase, first.lanes) == (0, 0xFFFFFFFF) and 10_000 <= first.nanoseconds < 1_000_000
    assert first.barrier.startswith("full[1] (shared address ")
    wanted = body.__code__.co_firstlineno
    line = first.site.location
    assert line is not None and wanted < line.line < wanted + 9 and line.function == body.__name__
    assert report.findings[0].location == line
    assert f"warp {first.warp} (32 lanes, mask 0xffffffff) waited" in str(first) and "parity 0" in str(first)


@pytest.mark.parametrize("body", [*WAYS, by_state])
def test_waits_that_end_go_on_as_before(body: Callable[[Any], None]) -> None:
    waits = bound_waits(build(body, arrive=body is not by_state).module(), 1e-3)
    report, out, expired = run(waits)
    assert report.verdict == "clean", report
    assert not expired and np.array_equal(out, np.arange(BLOCK) + 7)


@pytest.mark.parametrize("others", [0, 1])
def test_waits_that_are_not_over_report_themselves_before_the_trap(others: int) -> None:
    """Where another wait has expired, which the module's count says, a wait does not use up its own time."""
    waits = bound_waits(build(by_wrapper).module(), 2.0)
    loaded = sim.load(waits.module)
    loaded.variable("pyptx_wait_count").view(np.uint32)[0] = others
    loaded.launch(grid=1, block=BLOCK, args=[np.zeros(BLOCK, np.uint32)])
    expired = waits.read(bytes(loaded.variable(RECORDS)))
    assert expired and all((each.nanoseconds < 2e9) == bool(others) for each in expired)


def test_a_wait_by_state_names_the_state() -> None:
    def body(bar: Any) -> None:
        with ptx.if_(ptx.special.tid.x() == 3):
            by_state(bar)

    _, _, expired = run(bound_waits(build(body).module(), 1e-5))
    assert (
        expired[0].lanes == 8 and "the phase of state 0x" in str(expired[0]) and "1 lane" in str(expired[0])
    )


@pytest.mark.full
def test_the_time_of_an_earlier_wait_does_not_count() -> None:
    """Phases 0 and 2 have one parity: the polls of phase 2 fail later than the bound after those of phase 0."""

    @kernel(out_specs=(Tile(BLOCK, u32),), grid=2, block=BLOCK, arch="sm_90a")
    def waits(out):  # type: ignore[no-untyped-def]
        bar = smem.alloc(1, u64, align=8)
        polls = reg.scalar(u32, 0)
        tid = ptx.special.tid.x()
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bar, 1)
        ptx.bar.sync(0)
        with ptx.if_(tid < 32), ptx.for_(0, 2):
            fresh = reg.scalar(u32, 1)
            again = ptx.label("again")
            ptx.inst.add.u32(polls, polls, 1)
            done = ptx.mbarrier.test_wait(bar, 0)
            with ptx.if_(fresh == 1):
                ptx.bar.sync(2, BLOCK)
            ptx.inst.mov.u32(fresh, 0)
            ptx.bra(again, pred=~done)
            ptx.bar.sync(1, BLOCK)
            ptx.bar.sync(1, BLOCK)
        with ptx.if_(tid >= 32), ptx.for_(0, 2):
            ptx.bar.sync(2, BLOCK)
            ptx.nanosleep(100_000)
            ptx.mbarrier.arrive(bar, pred=tid == 32)
            ptx.bar.sync(1, BLOCK)
            ptx.nanosleep(100_000)
            ptx.mbarrier.arrive(bar, pred=tid == 32)  # phase 1, for which no thread waits
            ptx.bar.sync(1, BLOCK)
        ptx.inst.st.global_.u32(ptx.addr(out.ptr + ptx.cvt(tid, u64) * 4), polls)

    report, polls, expired = run(bound_waits(waits.module(), 1.9e-4))
    assert not expired and not any(f.rule.name == "trap" for f in report.findings), report
    assert polls[0] >= 4  # both phases were polled in vain


def test_a_device_function_is_rewritten_too() -> None:
    @ptx.func
    def wait_for(address: u64) -> None:  # type: ignore[valid-type]
        again = ptx.label("again")
        done = reg.scalar(pred)
        ptx.inst.mbarrier.try_wait.parity.b64(done, ptx.addr(address), 0)
        ptx.bra(again, pred=~done)

    def body(bar: Any) -> None:
        address = reg.scalar(u64)
        ptx.inst.cvt.u64.u32(address, bar.addr)
        ptx.inst.cvta.shared.u64(address, address)
        wait_for(address)

    waits = bound_waits(build(body).module(), 1e-5)
    assert not check_module(waits.module)
    _, _, expired = run(waits)
    assert expired[0].site.function != "waits"
    assert "mbarrier at shared address" in expired[0].barrier  # the function cannot name the kernel's memory


def test_a_module_without_waits_stays_as_it_is() -> None:
    module = build(lambda bar: None).module()
    assert bound_waits(module, 1.0).module is module


def test_the_ordinary_text_does_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build(by_wrapper).ptx()
    monkeypatch.setenv("PYPTX_DEBUG", "waits=1,sync")
    assert build(by_wrapper).ptx() == before and BUFFER not in before


@pytest.mark.parametrize("body", [by_wrapper, by_generic_address, by_state])
def test_ptxas_takes_the_text(body: Callable[[Any], None]) -> None:
    module = bound_waits(build(body).module(), 2.0).module
    assembly = toolchain.assemble(ir.print_module(module, lines=True))
    assert not assembly.report.messages
    text = ir.print_module(module).text
    assert ir.print_module(ir.parse_module(text)).text == text


@pytest.mark.full
def test_ptxas_does_not_serialize_the_wgmma_behind_a_wait() -> None:
    gemm = load_example("hopper/gemm_highperf_hopper.py").build_gemm(512, 512, 256)
    waits = bound_waits(gemm.module(), 5.0)
    assert len(waits.sites) == 3
    assembly = toolchain.assemble(ir.print_module(waits.module, lines=True))
    assert not assembly.report.messages
    assert assembly.report.resources[0].spill_stores == 0
