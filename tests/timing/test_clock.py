"""The clock law: monotone, closed at the limit, and beside clocks that were measured."""

from __future__ import annotations

import math

import pytest

from pyptx.core.errors import SpecError
from pyptx.timing.clock import Activity, PowerFit, frequency, power
from pyptx.timing.constants import gpu

#: A large GEMM whose tensor pipe is nearly always busy, 2-SM tiles of 256 x 256.
DENSE = Activity(tensor=0.96, port_bytes_per_clk=62, l2_bytes_per_ns=12500, hbm_bytes_per_ns=1600)

# Our GEMM of 8192 cubed, bf16, launches back to back for 1.5 s on our H200: TFLOP/s, and the cycles that ncu
# counts over the time of a launch in MHz, which is less than NVML shows.
SUSTAINED = [
    ("normal", 683, 1343),
    ("normal", 691, 1397),
    ("zeros", 829, 1603),
]


@pytest.mark.parametrize(("data", "tflops", "mhz"), SUSTAINED)
@pytest.mark.sample(3)
def test_sustained_gemms_of_an_h200(data, tflops, mhz):
    busy = tflops * 1e6 / (132 * 4096 * mhz)
    activity = Activity(busy, 80 * busy, 6.3 / 690 * tflops * 1000, 900, 0.1, data)
    predicted, low, high = frequency(gpu("h200"), "sustained", activity)
    assert low <= mhz <= high
    assert predicted == pytest.approx(mhz, rel=0.05)


def test_sustained_clock_of_a_b200_that_no_coefficient_was_fitted_to():
    # The Tilus tutorial's profiler: 1.38 GHz for its V6 and 1.37 for cuBLAS at 8192 cubed, 96 % of tensor cycles.
    predicted, low, high = frequency(gpu("b200"), "sustained", DENSE)
    assert low < 1370 < 1380 < high
    assert predicted == pytest.approx(1375, rel=0.05)


def test_the_fit_to_the_ladder_gives_the_ladders_clocks():
    # Tilus V5: 1.32 GHz at 94 %, 96 B/clk of operands while busy, 20.8 % of 8 TB/s.
    v5 = Activity(0.94, 0.94 * 96, 0.94 * 96 * 148 * 1.32, 0.208 * 8000)
    predicted, low, high = frequency(gpu("b200"), "sustained", v5, fit=PowerFit.LADDER)
    assert low < 1320 < high
    assert predicted == pytest.approx(1320, rel=0.03)
    with pytest.raises(SpecError, match="has no constant"):
        frequency(gpu("h200"), "sustained", v5, fit=PowerFit.LADDER)


@pytest.mark.parametrize("name", ["b200", "h200"])
@pytest.mark.sample(2)
def test_the_power_at_a_capped_clock_is_the_limit(name):
    described = gpu(name)
    mhz, _, _ = frequency(described, "sustained", DENSE)
    assert mhz < described.value("sm.clock_max_mhz")
    assert power(described, mhz, DENSE) == pytest.approx(described.value("power.limit_w"), rel=1e-6)
    start, _, _ = frequency(described, "burst", DENSE, duration_ns=1)
    assert power(described, start, DENSE) == pytest.approx(described.value("power.burst_limit_w"), rel=1e-4)


@pytest.mark.parametrize("name", ["b200", "h200"])
@pytest.mark.parametrize(
    "more", ["tensor", "port_bytes_per_clk", "l2_bytes_per_ns", "hbm_bytes_per_ns", "issue", "data"]
)
@pytest.mark.sample(12)
def test_more_work_costs_power_and_never_raises_the_clock(name, more):
    most = {
        "tensor": 1,
        "port_bytes_per_clk": 128,
        "l2_bytes_per_ns": 15000,
        "hbm_bytes_per_ns": 4000,
        "issue": 1,
        "data": 1,
    }
    base = {
        "tensor": 0.7,
        "port_bytes_per_clk": 50,
        "l2_bytes_per_ns": 5000,
        "hbm_bytes_per_ns": 1000,
        "issue": 0.1,
        "data": 0.8,
    }
    clocks, powers = [], []
    for step in range(8):
        activity = Activity(**{**base, more: most[more] * step / 7})
        clocks.append(frequency(gpu(name), "sustained", activity)[0])
        powers.append(power(gpu(name), 1400, activity))
    assert clocks == sorted(clocks, reverse=True)
    assert powers == sorted(powers) and powers[0] < powers[-1]


def test_a_light_kernel_runs_at_the_maximum():
    assert frequency(gpu("b200"), "sustained", Activity(hbm_bytes_per_ns=7000))[0] == 1965
    assert frequency(gpu("h200"), "burst", Activity(issue=0.2), duration_ns=1e5)[0] == 1980


def test_a_burst_slows_down_to_the_sustained_clock():
    b200 = gpu("b200")
    sustained = frequency(b200, "sustained", DENSE)[0]
    clocks = [frequency(b200, "burst", DENSE, duration_ns=ns)[0] for ns in (0, 1e6, 1e7, 1e8, 1e9, 1e12)]
    assert clocks == sorted(clocks, reverse=True)
    assert clocks[0] > 1.1 * sustained
    assert clocks[-1] == pytest.approx(sustained, rel=1e-3)
    # The mean over one time constant is start - (start - sustained) / e.
    one = frequency(b200, "burst", DENSE, duration_ns=b200.value("power.governor_ns"))[0]
    assert one == pytest.approx(sustained + (clocks[0] - sustained) * (1 - 1 / math.e))


@pytest.mark.parametrize(
    ("busy", "l2", "memory", "ns", "mhz"),
    [(0.92, 7060, 1010, 1.73e5, 1619), (0.977, 8230, 1240, 5.64e5, 1576), (0.986, 8540, 1280, 1.35e6, 1552)],
)
def test_single_launches_of_our_gemm_on_an_h200(busy, l2, memory, ns, mhz):
    # By ncu, 4096, 6144 and 8192 cubed, alone after idle time: what they take decides, not how long they last.
    activity = Activity(busy, 80 * busy, l2, memory, 0.09)
    assert frequency(gpu("h200"), "burst", activity, duration_ns=ns)[0] == pytest.approx(mhz, rel=0.04)
    assert frequency(gpu("h200"), "sustained", activity)[0] == pytest.approx(1343, rel=0.05)


def test_tensor_cores_lower_the_clock_of_an_h200_below_the_power_limit():
    # Alone, kernels that use them for 8 to 60% of the time get 1800 MHz, others all of 1980.
    h200 = gpu("h200")
    alone = [frequency(h200, "burst", Activity(share), duration_ns=1e3)[0] for share in (0.0, 0.08, 0.6)]
    assert alone == [1980, pytest.approx(1782), pytest.approx(1782, rel=0.001)]
    assert frequency(h200, "sustained", Activity(0.9, data="zeros"))[0] < 1700


def test_a_locked_clock_holds_where_the_power_allows_it():
    assert frequency(gpu("b200"), 1300, DENSE)[0] == 1300
    assert frequency(gpu("b200"), 1900, DENSE)[0] == frequency(gpu("b200"), "sustained", DENSE)[0]


def test_intervals_contain_their_value():
    for protocol in ("sustained", "burst", 1300):
        value, low, high = frequency(gpu("b200"), protocol, DENSE, duration_ns=1e5)
        assert low <= value <= high


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("boost", DENSE), "expected 'sustained', 'burst' or a clock"),
        ((5000, DENSE), "runs at 1 to 1965"),
        ((-1, DENSE), "runs at 1 to 1965"),
        (("sustained", Activity(tensor=1.5)), "share from 0 to 1"),
        (("sustained", Activity(l2_bytes_per_ns=-1)), "number from 0 on"),
        (("sustained", Activity(data="random")), "expected 'zeros', 'normal'"),
        (("sustained", Activity(data=3.0)), "from 0 .zeros. to 1"),
    ],
)
@pytest.mark.sample(7)
def test_what_the_law_does_not_know_is_refused(arguments, message):
    with pytest.raises(SpecError, match=message):
        frequency(gpu("b200"), *arguments)
