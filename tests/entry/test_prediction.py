"""Predictions: times that follow from constants by arithmetic, protocols, unknown contents, errors."""

from __future__ import annotations

import math
import os
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

from examples.blackwell.gemm_tiles import build_gemm_tiles
from examples.blackwell.ladder import v2b, v4, v6
from examples.blackwell.tilus import matmul_v1
from examples.hopper import attention, gemm_highperf_hopper, rmsnorm, vector_add
from examples.hopper import gemm as hopper_gemm
from examples.hopper.ladder import step3_wgmma
from examples.hopper.tma_copy import tma_copy
from pyptx import SpecError, Tile, b64, f32, kernel, ptx, reg, smem, u16, u32
from pyptx.entry.prediction import UNITS
from pyptx.sim.api import timing
from pyptx.sim.clock.freed import PIPES
from pyptx.sim.numbers import multiply
from pyptx.sim.tcgen05 import MmaOperation
from pyptx.timing.constants import gpu
from pyptx.timing.tensor import mma_interval
from pyptx.toolchain import Tool

B200 = gpu("b200")
STAGE = 64  # elements of K


def cycles(k: int, **options: int) -> float:
    """Return the cycles of one tile of a pair, with so many elements of K."""
    rows, columns = options["mma_m"], options["mma_n"]
    return build_gemm_tiles(rows, columns, k, **options).predict(gpu=B200, clock=1300.0).cycles


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize(("m", "n"), [(256, 256), (256, 128), (128, 128)])
def test_a_stage_takes_what_its_slowest_unit_takes(m: int, n: int) -> None:
    stage = (cycles(8192, mma_m=m, mma_n=n) - cycles(4096, mma_m=m, mma_n=n)) / (4096 / STAGE)
    products = 4 * mma_interval(B200, 2, m, n)
    rows = (m + n) / 2  # of 64 halves: lines
    asked = rows / B200.value("tma.row_per_clk")
    loaded = rows * 2 * STAGE / B200.value("tma.sm_bytes_per_clk")
    assert stage == pytest.approx(max(products, asked, loaded), rel=0.03)


@pytest.mark.full
def test_a_chip_that_was_idle_multiplies_less_at_first() -> None:
    gemm = build_gemm_tiles(4096, 4096, 4096)
    after_idle_time = gemm.predict(gpu=B200, clock=1300.0)
    share, ns = B200.value("tensor.ramp_share"), B200.value("tensor.ramp_ns")
    without = gemm.predict(gpu=B200.with_values({"tensor.ramp_share": 1.0}), clock=1300.0)
    assert without.microseconds > ns / 1000
    lost = after_idle_time.microseconds - without.microseconds
    assert lost == pytest.approx((1 - share) * ns / 1000, rel=0.15)
    # With few multiprocessors busy there is no limit.
    few = build_gemm_tiles(256, 256, 8192)
    assert (
        few.predict(gpu=B200, clock=1300.0).cycles
        == few.predict(gpu=B200.with_values({"tensor.ramp_share": 1.0}), clock=1300.0).cycles
    )


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize("pitch", [4096, 4104])
def test_rows_that_lie_in_two_lines_count_as_several(pitch: int) -> None:
    slow = B200.with_values({"tma.row_per_clk": 0.05})
    gemm = [build_gemm_tiles(256, 256, k, pitch=pitch) for k in (2048, 4096)]
    shapes = (256, pitch), (256, pitch)
    short, long = (each.predict(*shapes, gpu=slow, clock=1300.0).cycles for each in gemm)
    # Of eight rows that are 16 bytes longer than lines, seven begin within a line.
    rows = 256 * (1 if pitch == 4096 else (1 + 7 * B200.value("tma.split_row")) / 8)
    stage = rows / 0.05
    assert (long - short) / (2048 / STAGE) == pytest.approx(stage, rel=0.03)


@pytest.mark.full
def test_ctas_that_keep_their_permit_to_allocate_run_one_after_the_other() -> None:
    """Two CTAs are resident on a multiprocessor."""
    sizes = 128 * 74, 256 * 4, 1024
    tile = {"block_m": 128, "block_n": 256, "block_k": 64, "e_block_n": 32}
    together, apart = (
        matmul_v1.build_matmul_v1.what(*sizes[1:], **tile, relinquish=given).predict(
            (sizes[0], sizes[2]), (sizes[1], sizes[2]), gpu=B200, clock=1300.0
        )
        for given in (True, False)
    )
    assert 1.5 * together.cycles < apart.cycles < 2.1 * together.cycles


@pytest.mark.full
def test_a_kernel_that_the_tensor_core_bounds_has_as_many_cycles_at_any_clock() -> None:
    short, long = (build_gemm_tiles(256, 256, k) for k in (8192, 16384))

    def further(mhz: float) -> float:
        """Return the cycles of the second half of K, without the launch and the epilogue."""
        found = [gemm.predict(gpu=B200, clock=mhz) for gemm in (short, long)]
        assert {each.bound for each in found} == {"tensor"}
        return found[1].cycles - found[0].cycles

    assert further(1000.0) == pytest.approx(further(1900.0), rel=0.02)


@pytest.mark.full
def test_a_kernel_that_memory_bounds_moves_its_bytes_at_the_rate_of_memory() -> None:
    h200 = gpu("h200")
    found = tma_copy.predict((16384, 4096), gpu=h200, clock=1900.0)
    nbytes = 2 * 2 * 16384 * 4096
    assert found.bound == "HBM"
    rate = h200.value("hbm.mixed_bytes_per_ns")
    assert nbytes / rate / 1000 <= found.microseconds <= 1.1 * nbytes / rate / 1000


@pytest.mark.slow
@pytest.mark.full
def test_the_rest_of_a_periodic_launch_follows_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    gemm = build_gemm_tiles(4096, 4096, 512, mma_m=128, mma_n=128, clusters=8)
    short = gemm.predict(gpu=B200, clock=1300.0)
    monkeypatch.setattr(timing, "_WORTHWHILE", math.inf)
    whole = gemm.predict(gpu=B200, clock=1300.0)
    assert short.cycles == pytest.approx(whole.cycles, rel=0.02)
    assert short.timing.flops == pytest.approx(2 * 4096 * 4096 * 512, rel=0.05)
    assert whole.timing.flops == 2 * 4096 * 4096 * 512


def test_stores_that_fill_sectors_part_by_part_store_each_byte_once() -> None:
    """Each warp stores 16 bytes of four sectors, and then the other 16."""

    @kernel(out_specs=(Tile(64, u16),), grid=1, block=32, arch="sm_90a")
    def halves(Out):
        lane, at = ptx.special.laneid(), reg.scalar(u32)
        ptx.inst.mad.lo.u32(at, lane >> 3, 16, lane & 7)
        for half in range(2):
            ptx.inst.st.global_.u16(Out.at(at + 8 * half), 1)

    found = halves.predict(gpu="h200", clock=1700.0)
    assert found.timing.stored == 64 * 2


@pytest.mark.slow
def test_few_equal_tiles_are_left_where_both_widths_have_been_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cluster has 7 tiles of 192 columns, then 15 of 176, whose boxes overlap."""
    # How exactly tiles agree depends on the version of ptxas.
    monkeypatch.setenv("PYPTX_PTXAS", os.devnull)
    tiles = {"tile": (128, 192), "cluster": (2, 1), "consumers": "pingpong", "widths": (176, 25, 6)}
    gemm = hopper_gemm.build_gemm(8192, 8192, 1024, **tiles)
    short = gemm.predict(gpu="h200", clock=1700.0)
    assert short.timing.stored < 1.01 * 2 * 8192 * 8192
    monkeypatch.setattr(timing, "_WORTHWHILE", math.inf)
    whole = gemm.predict(gpu="h200", clock=1700.0)
    assert short.cycles != whole.cycles
    assert short.cycles == pytest.approx(whole.cycles, rel=0.005)


@pytest.mark.full
def test_each_rung_of_the_ladder_is_faster() -> None:
    times = [
        build(2048, 2048, 1024).predict(gpu=B200, clock="burst").microseconds
        for build in (v2b.build_v2b, v4.build_v4, v6.build_v6)
    ]
    assert times == sorted(times, reverse=True)


@pytest.mark.full
def test_sustained_clocks_are_at_most_those_of_bursts() -> None:
    gemm = build_gemm_tiles(512, 512, 512)
    burst, sustained = (gemm.predict(gpu=B200, clock=clock) for clock in ("burst", "sustained"))
    assert sustained.mhz <= burst.mhz <= B200.value("sm.clock_max_mhz")
    low, high = burst.interval
    assert low < burst.microseconds < high


def test_contents_that_decide_where_threads_go_are_needed() -> None:
    @kernel(in_specs=(Tile(32, u32),), out_specs=(Tile(32, f32),), grid=1, block=32, arch="sm_90")
    def until(A, B):
        lane = ptx.special.laneid()
        count = ptx.load(u32, A.at(lane))
        with ptx.if_(count > 3):
            ptx.store(B.at(lane), 1.0, f32)

    found = until.predict(gpu="h200", clock=1900.0)
    assert str(found.verdict) == "incomplete"
    assert [finding.rule.name for finding in found.findings] == ["needs-data"]
    assert str(until.predict(np.zeros(32, np.uint32), gpu="h200", clock=1900.0).verdict) == "clean"


@pytest.mark.full
def test_a_short_launch_waits_for_the_bytes_that_memory_reads() -> None:
    sums = rmsnorm.build_weight_gradient(128, 8192)
    found = sums.predict(gpu="h200", clock=1900.0, l2="cold")
    h200 = gpu("h200")
    read = 128 * 8192 * 4 / h200.value("hbm.read_bytes_per_ns")
    latency = 1000 * h200.value("ldg.latency_hbm_clk") / h200.value("sm.clock_max_mhz")
    assert 1000 * found.microseconds > h200.value("launch.ns") + read + latency
    assert found.timing.traffic.missing == 1.0


@pytest.mark.parametrize(("onward", "verdict"), [(False, "clean"), (True, "incomplete")])
def test_contents_may_guard_arithmetic_that_decides_nothing(onward: bool, verdict: str) -> None:
    @kernel(in_specs=(Tile(32, u32),), out_specs=(Tile(32, u32),), grid=1, block=32, arch="sm_90")
    def clip(A, B):
        lane = ptx.special.laneid()
        count = ptx.load(u32, A.at(lane))
        kept = reg.scalar(u32, init=0)
        ptx.inst.add.u32(kept, count, 1, pred=count > 3)
        ptx.store(B.at(lane), kept, u32, pred=kept > 0 if onward else None)

    found = clip.predict(gpu="h200", clock=1900.0)
    assert str(found.verdict) == verdict
    assert {finding.rule.name for finding in found.findings} <= {"needs-data"}


@pytest.mark.parametrize(("decides", "rules"), [(False, []), (True, ["needs-data"])])
def test_others_may_have_written_what_a_kernel_reads_of_its_output(decides: bool, rules: list[str]) -> None:
    @kernel(out_specs=(Tile(32, f32),), grid=1, block=32, arch="sm_90")
    def add(Sums):
        at = Sums.at(ptx.special.laneid())
        before = ptx.load(f32, at)
        if decides:
            with ptx.if_(before > 0.0):
                ptx.store(at, before + 1.0, f32)
        else:
            ptx.store(at, before + 1.0, f32)

    found = add.predict(gpu="h200", clock=1900.0)
    assert [each.rule.name for each in found.findings] == rules


def test_zeros_that_a_copy_loads_may_decide() -> None:
    @kernel(in_specs=(Tile(32, u32),), out_specs=(Tile(32, f32),), grid=1, block=32, arch="sm_90")
    def until(A, B):
        lane, words, loaded = ptx.special.laneid(), smem.alloc(32, u32, align=128), smem.alloc(1, b64)
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(loaded, 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(loaded, words.nbytes)
            ptx.cp.async_.bulk.load(dst=words, src=A.ptr, size=words.nbytes, mbar=loaded)
        ptx.warp.sync()
        ptx.mbarrier.wait(loaded, 0)
        with ptx.if_(ptx.load(u32, words.at(lane)) > 3):
            ptx.store(B.at(lane), 1.0, f32)

    found = until.predict(gpu="h200", clock=1900.0)
    assert [finding.rule.name for finding in found.findings] == ["needs-data"]
    assert str(until.predict(gpu="h200", clock=1900.0, contents="zeros").verdict) == "clean"


@pytest.mark.slow
@pytest.mark.full
def test_sums_that_are_added_to_again_and_again_do_not_say_how_much_is_left() -> None:
    words, threads = 1 << 18, 128

    @kernel(out_specs=(Tile(words, f32),), grid=1, block=threads, arch="sm_90")
    def add(Sums, *, passes):
        first = ptx.special.tid.x()
        with ptx.for_(0, passes), ptx.for_(0, words, threads) as at:
            ptx.inst.red.global_.add.f32(Sums.at(first + at), 1.0)

    once, thrice = (add.predict(gpu="h200", clock=1900.0, passes=passes) for passes in (1, 3))
    start = gpu("h200").value("launch.ns") * 1.9
    assert thrice.cycles - start == pytest.approx(3 * (once.cycles - start), rel=0.1)


@pytest.mark.full
def test_a_rescaling_that_scores_decide_needs_data() -> None:
    found = attention.build_attention(1, 1, 512, 128).predict(gpu="h200", clock=1700.0)
    assert {finding.rule.name for finding in found.findings} == {"needs-data"}


def test_errors() -> None:
    gemm = build_gemm_tiles(256, 256, 256)
    with pytest.raises(SpecError, match="sm_100a, but the NVIDIA H200"):
        gemm.predict(gpu="h200", clock=1000.0)
    with pytest.raises(SpecError, match="no constants"):
        gemm.predict(gpu="b300x", clock=1000.0)
    with pytest.raises(SpecError, match="run at up to 1965"):
        gemm.predict(gpu=B200, clock=3000.0)
    norm = rmsnorm.build_rmsnorm(512)
    with pytest.raises(SpecError, match="dims that were not given: M"):
        norm.predict(gpu="h200", clock=1900.0)
    with pytest.raises(SpecError, match="numbers that were not given: n"):
        vector_add.vector_add.predict(gpu="h200", clock=1900.0, N=64)
    with pytest.raises(SpecError, match="inputs in order, and n by name"):
        vector_add.vector_add.predict((64,), (64,), 64, gpu="h200", clock=1900.0, n=64)
    with pytest.raises(SpecError, match="positive integers"):
        gemm.predict((256, 0), (256, 256), clock=1000.0)


@kernel(in_specs=(Tile("N", f32),), out_specs=(Tile(264, f32),), grid=264, block=128, arch="sm_90a")
def two_waves(A, Out):
    """Sixteen CTAs in a row sum up the same floats; shared memory leaves room for one CTA at a time."""
    kept = smem.alloc(40_000, f32)
    place = (ptx.special.ctaid.x() >> 4) * 8192 + ptx.special.tid.x()
    total = reg.scalar(f32, init=0.0)
    with ptx.for_(0, 64):
        total += ptx.load(f32, A.at(place))
        place += 128
    ptx.store(kept.at(ptx.special.tid.x()), total, f32)
    ptx.bar.sync(0)
    ptx.store(Out.at(ptx.special.ctaid.x()), total, f32, pred=ptx.special.tid.x() == 0)


def test_a_launch_takes_as_long_when_it_is_asked_for_again() -> None:
    found = two_waves.predict(gpu="h200", clock=1700.0, l2="cold", N=17 * 8192)
    assert found.timer.at(1700.0).cycles == pytest.approx(found.cycles, rel=0.01)


def test_numbers_by_name_are_those_in_order() -> None:
    by_name = vector_add.vector_add.predict(gpu="h200", clock=1900.0, N=4096, n=100)
    in_order = vector_add.vector_add.predict((4096,), (4096,), 100, gpu="h200", clock=1900.0)
    assert by_name.cycles == in_order.cycles


def test_the_text_names_the_bound_and_the_lines() -> None:
    text = str(build_gemm_tiles(256, 256, 4096).predict(gpu=B200, clock=1300.0))
    assert "bound by: tensor" in text
    assert "gemm_tiles.py:" in text and "mbarrier.try_wait" in text


@pytest.mark.full
@pytest.mark.parametrize("hopper", [True, False])
def test_unknown_contents_are_not_multiplied_and_take_as_long(
    hopper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter()
    for owner in (MmaOperation, multiply):
        name = "write" if owner is MmaOperation else "fused_sum"
        original = getattr(owner, name)

        def counted(*args, original=original, **options):
            calls["products"] += 1
            return original(*args, **options)

        monkeypatch.setattr(owner, name, counted)
    k = 1024
    if hopper:
        gemm, chip, dtype = gemm_highperf_hopper.build_gemm(256, 256, k), "h200", ml_dtypes.bfloat16
    else:
        gemm, chip, dtype = build_gemm_tiles(256, 256, k), "b200", np.float16
    shapes = (256, k), (256, k)
    by_shape = gemm.predict(*shapes, gpu=chip, clock=1300.0)
    few = calls.pop("products")
    by_content = gemm.predict(*(np.zeros(shape, dtype) for shape in shapes), gpu=chip, clock=1300.0)
    assert by_shape.cycles == by_content.cycles
    # Of all products along K only the first of a tile, which does not add, is computed.
    assert calls["products"] == few * k // 16


# --- without a limit ------------------------------------------------------------------------------


@pytest.mark.full
def test_without_a_unit_is_the_prediction_with_endless_rates() -> None:
    slow = B200.with_values({"tma.sm_bytes_per_clk": 4.0, "tma.received_bytes_per_clk": 4.0})
    fast = B200.with_values({"tma.sm_bytes_per_clk": math.inf, "tma.received_bytes_per_clk": math.inf})
    gemm = build_gemm_tiles(256, 256, 1024)
    found = gemm.predict(gpu=slow, clock=1300.0)
    assert found.bound == "link"
    without = found.without()
    assert without.lifted == "link" and without is found.without("link")
    assert without.cycles == gemm.predict(gpu=fast, clock=1300.0).cycles < found.cycles
    assert "without a limit of link" in str(without)


@pytest.mark.full
def test_without_any_unit_no_launch_is_slower() -> None:
    found = build_gemm_tiles(256, 256, 1024).predict(gpu=B200, clock=1300.0)
    times = {unit: found.without(unit).microseconds for unit in UNITS if unit not in PIPES}
    assert max(times.values()) <= 1.01 * found.microseconds
    # A start that takes no time leaves the rest as it is.
    launch = found.microseconds - B200.value("launch.ns") / 1000
    assert times["launch"] == pytest.approx(launch, rel=0.01)
    assert times["latency"] < times["link"]


@pytest.mark.slow
@pytest.mark.full
def test_tensor_cores_bound_a_short_launch_after_idle_time_by_their_ramp() -> None:
    gemm = build_gemm_tiles(4096, 4096, 2048)
    # At the maximum clock the fabric would be next.
    rested, sustained = (gemm.predict(gpu=B200, clock=clock) for clock in (1300.0, "sustained"))
    assert rested.bound == "ramp" and rested.busy["ramp"] > rested.busy["tensor"]
    assert rested.without().microseconds < 0.95 * rested.microseconds
    assert sustained.busy["ramp"] == 0.0 and sustained.without("ramp").cycles == sustained.cycles


@pytest.mark.full
def test_a_tail_is_what_the_last_wave_leaves_empty() -> None:
    @kernel(in_specs=(), out_specs=(Tile(444 * 1024, f32),), grid=444, block=1024, arch="sm_100a")
    def fill(A):
        ptx.store(A.at(ptx.special.ctaid.x() * 1024 + ptx.special.tid.x()), 1.0, f32)

    found = fill.predict(gpu=B200, clock=1300.0)
    # Two CTAs fit on each of 148 multiprocessors: a full wave, and a half one.
    assert found.timing.evenness == 1.5 / 2
    start = B200.value("launch.ns") * 1.3
    assert found.without("tail").cycles == pytest.approx(start + (found.cycles - start) * 0.75)


@pytest.mark.full
def test_questions_that_have_no_answer() -> None:
    found = build_gemm_tiles(256, 256, 256).predict(gpu=B200, clock=1300.0)
    with pytest.raises(SpecError, match="expected one of tensor"):
        found.without("tensors")
    with pytest.raises(SpecError, match="one unit at a time"):
        found.without("link").without("tensor")
    with pytest.raises(SpecError, match="timelines of real launches"):
        found.without("link").timeline()


# --- text and order -------------------------------------------------------------------------------


def test_an_estimate_of_a_prediction() -> None:
    found = build_gemm_tiles(256, 256, 256).predict(gpu=B200, clock=1300.0)
    estimate = found.estimate
    assert (estimate.us, estimate.low, estimate.high) == (found.microseconds, *found.interval)
    assert estimate.conditions == ("NVIDIA B200", 1300.0) and estimate.overlaps(estimate)


def test_a_notebook_gets_a_table() -> None:
    found = build_gemm_tiles(256, 256, 256).predict(gpu=B200, clock=1300.0)
    assert repr(found).startswith("<prediction of gemm_tiles on NVIDIA B200: ")
    shown = found._repr_markdown_().splitlines()
    assert shown[0].startswith("**gemm_tiles on NVIDIA B200 at 1300 MHz**: ")
    rows = [line for line in shown if line.startswith("| warp")]
    assert len(rows) == len(found.warps) + 1
    assert len({line.count("|") for line in rows}) == 1


@pytest.mark.slow
@pytest.mark.full
def test_zeros_take_less_power_and_a_flush_takes_time() -> None:
    gemm = gemm_highperf_hopper.build_gemm(2048, 2048, 1536)
    normal, zeros = (gemm.predict(gpu="h200", clock="sustained", data=data) for data in ("normal", "zeros"))
    assert zeros.mhz > normal.mhz
    states = ("cold", "rotating", "flushed")
    cold, rotating, flushed = (
        tma_copy.predict((4096, 4096), gpu="h200", clock=1900.0, l2=l2) for l2 in states
    )
    assert cold.microseconds < min(rotating.microseconds, flushed.microseconds)
    with pytest.raises(SpecError, match="l2 = 'hot': expected one of 'rotating', 'warm', 'flushed', 'cold'"):
        tma_copy.predict((64, 64), gpu="h200", l2="hot")


@pytest.mark.full
def test_what_the_same_launch_has_left_in_l2_is_not_read_from_memory() -> None:
    small, large = (
        {l2: tma_copy.predict((m, 4096), clock=1900.0, l2=l2) for l2 in ("warm", "rotating")}
        for m in (1024, 10560)
    )
    assert small["warm"].timing.traffic.fetched == 0
    assert small["warm"].microseconds < small["rotating"].microseconds
    # 173 MB leave next to nothing of themselves in 50.
    assert large["warm"].microseconds == pytest.approx(large["rotating"].microseconds, rel=0.01)


@pytest.mark.full
def test_the_gpu_is_that_of_the_target() -> None:
    assert build_gemm_tiles(256, 256, 256).predict(clock=1300.0).gpu == B200.title
    assert rmsnorm.build_rmsnorm(1024).predict(M=132, clock=1300.0).gpu == gpu("h200").title

    @kernel(out_specs=(Tile(32, u32),), grid=1, block=32, arch="sm_80")
    def lanes(A):
        lane = ptx.special.laneid()
        ptx.store(A.at(lane), lane, u32)

    assert lanes.predict(clock=1300.0).gpu == B200.title


@pytest.mark.slow
@pytest.mark.full
def test_registers_that_ptxas_takes_limit_what_is_resident(ptxas: Tool) -> None:
    gemm = step3_wgmma.build_wgmma(2048, 2048, 64)
    assembly = gemm.assemble()
    threads = gemm.options.block
    by_registers = 65536 // (-(-assembly.registers // 8) * 8 * threads)
    found = gemm.predict(gpu="h200", clock=1700.0)
    assert found.schedule == "ptxas"
    assert found.timing.placement.together == by_registers


@pytest.mark.full
def test_a_position_takes_its_share_of_the_rows_in_a_queue() -> None:
    options = {"threads": 64, "teams": 1, "design": "ring", "ctas": 132}
    fixed, queued = (rmsnorm.build_rmsnorm(1024, **options, queue=queue) for queue in (False, True))
    times = [norm.predict(M=2640, gpu="h200", clock=1900.0) for norm in (fixed, queued)]
    assert [str(each.verdict) for each in times] == ["clean", "clean"]
    stored = [each.timing.stored for each in times]
    assert stored == [pytest.approx(2640 * 1024 * 4, rel=0.1)] * 2
    # Each of a position's rows waits at most for an atomic, behind those of all other positions.
    h200 = gpu("h200")
    atomic = h200.value("atom.latency_clk") + 132 * h200.value("atom.same_address_clk")
    assert 0.9 * times[0].cycles <= times[1].cycles <= 1.1 * times[0].cycles + 2640 / 132 * atomic
