"""A calibration of the timed machine gives back the constants that the machine was given, changed by up to 40%.

The expected values are the changed constants. What the machine does not model is listed in :data:`GAPS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain

import pytest

from pyptx.timing.constants import Gpu, gpu
from pyptx.tools.calibrate.bench import MHZ, Value
from pyptx.tools.calibrate.calibration import Calibration, calibrate, families_of
from pyptx.tools.calibrate.families.chip import TOLD
from pyptx.tools.calibrate.predicted import PredictedDevice

#: A value is recovered within this share. Some cycles come back with those of the instructions around an
#: operation, at most so many (a wait and its branch): then the value moves as far as the constant does.
CLOSE, AROUND = 0.03, 32.0

_FORMS = [f"g{group}_m{m}" for group, m in ((1, 64), (1, 128), (2, 128), (2, 256))]

#: For each GPU and family, constants and the factors by which they are changed. Rates change so that each
#: stays the limit of its microbenchmark.
CHANGED: dict[tuple[str, str], dict[str, float]] = {
    ("h200", "tensor"): {
        "wgmma.interval.per_n_clk": 1.25,
        "wgmma.interval.floor_ss_clk": 1.3,
        "wgmma.interval.floor_rs_clk": 1.4,
        "wgmma.latency.base_clk": 4.0,  # 30 cycles are few beside the instructions around a product
        "wgmma.latency.per_n_clk": 1.4,
        "hmma.flops_per_clk_16bit": 0.8,
    },
    ("h200", "copies"): {
        "tma.issue_clk": 1.4,
        "tma.row_per_clk": 0.75,
        "tma.sm_bytes_per_clk": 0.7,
        "tma.latency_l2_ns": 1.3,
        "tma.latency_hbm_ns": 1.3,
        "tma.store_bytes_per_clk": 1.3,
        "tma.store_issue_clk": 1.4,
        "tma.prefetch_map_ns": 4.0,  # 21 ns are few beside a load
        "tma.received_bytes_per_clk": 0.75,
    },
    ("h200", "synchronization"): {
        "bar.sync_clk": 1.4,
        "bar.sync_per_warp_clk": 1.3,
        "bar.cluster_clk": 1.3,
        "mbarrier.arrive_clk": 1.4,
        "mbarrier.test_clk": 1.3,
        "mbarrier.wake_clk": 1.4,
        "mbarrier.peer_wake_clk": 1.2,
        "fence.proxy_async_clk": 1.4,
        "fence.behind_store_clk": 1.4,
        "fence.proxy_async_all_clk": 1.3,
        "fence.gpu_clk": 1.3,
    },
    ("h200", "pipes"): {f"{pipe}.lanes_per_clk": 0.75 for pipe in ("mufu", "cvt", "fp64", "shfl")},
    ("h200", "code"): {"icache.line_clk": 1.3, "icache.jump_clk": 1.4},
    ("h200", "accesses"): {
        "lds.latency_clk": 1.4,
        "ldg.latency_l1_clk": 1.4,
        "ldg.sm_bytes_per_clk": 0.7,
        "ldg.latency_hbm_clk": 1.3,
        "l2.latency_clk": 1.2,
        "dsmem.latency_clk": 1.2,
        "dsmem.load_bytes_per_clk": 0.8,
        "tlb.reach_bytes": 2.2,
        "tlb.miss_ns": 1.3,
    },
    ("h200", "launches"): {
        "launch.ns": 1.3,
        "launch.event_ns": 0.7,
        "launch.gap_ns": 1.4,
        "launch.dependent_gap_ns": 1.3,
        "cta.turnaround_ns": 1.4,
    },
    ("h200", "power"): {
        "power.limit_w": 0.95,
        "power.tensor_droop": 0.8,
        "power.governor_ns": 1.4,
        "power.burst_limit_w": 0.95,
    },
    ("b200", "tensor"): {
        **{f"mma.interval.{form}.per_n_clk": 1.2 for form in _FORMS},
        "mma.interval.floor_clk": 1.4,
        "mma.port_bytes_per_clk": 0.75,
        "mma.interval.g2_m256_ss.extra_clk": 2.0,
        "mma.burst_clk": 1.4,
    },
    ("b200", "copies"): {
        "tma.issue_clk": 0.7,
        "tma.row_per_clk": 1.3,
        "tma.sm_bytes_per_clk": 0.8,
        "tma.latency_hbm_ns": 0.75,
        "tma.store_latency_ns": 0.7,
        "tma.store_bytes_per_clk": 0.8,
        "tma.store_issue_clk": 1.5,
        "tma.prefetch_map_ns": 5.0,
        "tma.received_bytes_per_clk": 1.25,
    },
    ("b200", "memory"): {
        "l2.fabric_bytes_per_ns": 1.1,
        "l2.bytes_per_ns": 0.7,
        "hbm.read_bytes_per_ns": 0.8,
        "hbm.mixed_bytes_per_ns": 0.75,
    },
    ("b200", "synchronization"): {"bar.sync_clk": 0.7, "mbarrier.wake_clk": 0.75},
    ("b200", "accesses"): {"lds.latency_clk": 1.2, "ldg.latency_hbm_clk": 0.7},
    ("b200", "tensor_memory"): {
        "tmem.load_bytes_per_clk_warp": 0.7,
        "tmem.store_bytes_per_clk_warp": 0.8,
        "tmem.load_latency_clk": 1.3,
    },
    ("b200", "launches"): {
        "launch.ns": 0.7,
        "launch.event_ns": 1.4,
        "cta.turnaround_ns": 0.7,
        "clc.latency_clk": 1.3,
    },
}

#: The same for those that take longest.
LONG: dict[tuple[str, str], dict[str, float]] = {
    ("h200", "atomics"): {
        "atom.latency_clk": 1.3,
        "atom.same_address_clk": 1.4,
        "atom.sectors_per_clk": 0.7,
    },
    ("h200", "tensor"): {"wgmma.start_clk": 1.4, "wgmma.start_rs_clk": 1.4},
    ("h200", "power"): {"power.simt_w": 0.7, "power.zeros_share": 1.2, "power.sustained_droop": 0.9},
    ("h200", "memory"): {
        "l2.fabric_bytes_per_ns": 0.8,
        "l2.bytes_per_ns": 0.7,
        "hbm.read_bytes_per_ns": 0.8,
        "hbm.write_bytes_per_ns": 0.8,
        "hbm.mixed_bytes_per_ns": 0.75,
    },
    ("b200", "tensor"): {
        **{f"mma.latency.{form}_{a}.base_clk": 1.3 for form in _FORMS for a in ("ss", "ts")},
        **{f"mma.latency.{form}_{a}.per_n_clk": 1.2 for form in _FORMS for a in ("ss", "ts")},
        "mma.latency.g2_m128_ss.narrow_base_clk": 1.3,
        "mma.latency.g2_m128_ss.narrow_per_n_clk": 1.2,
    },
}

#: Constants that a microbenchmark measures and the timed machine does not model as it says; and why.
GAPS = {
    "fma.lanes_per_clk": "the loop around takes issue slots as well",
    "alu.lanes_per_clk": "the loop around takes the same pipe",
    "hbm.latency_ns": "the difference of two latencies, which are constants, too",
    "ldg.l1_bytes_per_clk": "L1 looks up a line in a cycle, whatever the constant",
    "ldg.sectors_per_clk": "likewise, beside the code of the loop",
    "lds.bytes_per_clk": "one access without conflicts takes a cycle, whatever the constant",
    "bar.warp_sync_clk": "code costs what ptxas's schedule says",
    "mbarrier.visible_clk": "the sum of an arrival and a test, which have constants of their own",
    "wgmma.issue_clk": "code costs what ptxas's schedule says",
    "mma.issue_clk": "likewise",
    **{f"{pipe}.latency_clk": "ptxas's schedule has the latency" for pipe in ("fma", "alu", "mufu", "shfl")},
    "tmem.load_bytes_per_clk_sm": "four times that of a warp",
    "tmem.store_bytes_per_clk_sm": "four times that of a warp",
    "tmem.alloc_clk": "an allocation takes no time",
    "tmem.cp_clk": "copies to tensor memory have a latency and no rate",
    "tmem.shift_clk": "a shift takes no time",
    "power.base_w": "streams issue some instructions, which the machine counts and the load does not",
    "power.l2_pj_per_byte": "likewise, and so few W",
    "power.hbm_pj_per_byte": "likewise, within 4%",
    "power.mma_w": "what base_w is off goes into it",
    MHZ: "no constant: tested apart",
    "gpc.sizes": "tested apart",
    **{name: "the driver tells it" for name in TOLD},
}


def calibrated(device: Gpu, base: Gpu, *names: str) -> Calibration:
    """Measure families or microbenchmarks on the timed machine with the constants of ``device``."""
    return calibrate(PredictedDevice(device), base, name="again", date="2026-01-01", only=names)


def measuring(target: str, family: str, constants: Collection[str]) -> list[str]:
    """Return the microbenchmarks of a family that measure some of the constants."""
    return [each.name for each in families_of(target)[family] if not {*each.constants}.isdisjoint(constants)]


@pytest.mark.one_in(5)
@pytest.mark.full
@pytest.mark.parametrize(("name", "family"), list(CHANGED))
def test_changed_constants_are_recovered(name: str, family: str) -> None:
    check_recovered(name, family, CHANGED[name, family])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "family"), list(LONG))
def test_more_changed_constants_are_recovered(name: str, family: str) -> None:
    check_recovered(name, family, LONG[name, family])


def check_recovered(name: str, family: str, factors: Mapping[str, float]) -> None:
    base = gpu(name)
    wanted = {each: base.value(each) * factor for each, factor in factors.items()}
    found = calibrated(base.with_values(wanted), base, *measuring(base.target, family, wanted))
    assert set(found.failed) <= set(GAPS)
    apart = [
        each for each, value in wanted.items() if found.gpu.value(each) != pytest.approx(value, rel=CLOSE)
    ]
    before = calibrated(base, base, *measuring(base.target, family, apart)) if apart else found
    for each in apart:
        assert each.endswith("_clk") and "per_" not in each, each
        assert found.gpu.value(each) == pytest.approx(wanted[each], abs=AROUND), each
        moved = found.gpu.value(each) - before.gpu.value(each)
        assert moved == pytest.approx(wanted[each] - base.value(each), rel=CLOSE, abs=1.0), each
    for each in wanted:
        assert found.gpu.constant(each).source.startswith("measured by pyptx calibrate")


def test_every_constant_of_a_microbenchmark_is_recovered_or_a_known_gap() -> None:
    recovered = {each for changed in (*CHANGED.values(), *LONG.values()) for each in changed}
    measured = {
        each
        for name in ("h200", "b200")
        for benchmarks in families_of(gpu(name).target).values()
        for benchmark in benchmarks
        for each in benchmark.constants
    }
    assert recovered | set(GAPS) == measured
    assert not recovered & set(GAPS)


@pytest.mark.full
def test_barriers_are_recovered() -> None:
    base = gpu("h200")
    changed = base.with_values({"mbarrier.wake_clk": 170.0})
    (wake,) = measuring(base.target, "synchronization", ["mbarrier.wake_clk"])
    found, before = (calibrated(each, base, wake).measured for each in (changed, base))
    moved = _value(found["mbarrier.wake_clk"]) - _value(before["mbarrier.wake_clk"])
    assert moved == pytest.approx(170.0 - base.value("mbarrier.wake_clk"), rel=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h200", "b200"])
def test_the_other_microbenchmarks_run_on_the_timed_machine(name: str) -> None:
    """Those of which all constants are gaps."""
    base = gpu(name)
    others = [
        each.name
        for some in families_of(base.target).values()
        for each in some
        if {*each.constants} <= GAPS.keys()
    ]
    assert not calibrated(base, base, *others).failed.keys() - GAPS.keys()


def _value(found: Value) -> float:
    assert not isinstance(found.value, tuple)
    return found.value


@pytest.mark.full
def test_a_lower_clock_changes_no_constant() -> None:
    """What lies beyond the multiprocessor is in ns, or in cycles at the maximum clock."""
    base = gpu("h200")
    families = {
        "chip": ["sm.clock_max_mhz"],
        "copies": [
            *("tma.issue_clk", "tma.row_per_clk", "tma.sm_bytes_per_clk"),
            *("tma.latency_hbm_ns", "tma.store_latency_ns"),
        ],
        "accesses": ["ldg.latency_hbm_clk"],
        "launches": ["cta.turnaround_ns", "launch.ns"],
    }
    names = [each for family, some in families.items() for each in measuring(base.target, family, some)]
    found = calibrate(PredictedDevice(base, mhz=1200.0), base, name="again", date="2026-01-01", only=names)
    for each in chain.from_iterable(families.values()):
        # Times come back with the cycles of the instructions around.
        around = AROUND / 1.2 if each.endswith("_ns") else 0.0
        assert found.gpu.value(each) == pytest.approx(base.value(each), rel=CLOSE, abs=around), each


def test_a_device_with_other_gpcs() -> None:
    base = gpu("h200")
    sizes = (18.0, 18.0, 18.0, 16.0, 16.0, 16.0, 16.0, 14.0)
    found = calibrated(base.with_values({"gpc.sizes": sizes}), base, "chip").gpu.series("gpc.sizes")
    for size in (1, 2, 3, 4, 5, 6, 7, 8, 16):
        assert sum(int(group) // size for group in found) == sum(int(group) // size for group in sizes)
