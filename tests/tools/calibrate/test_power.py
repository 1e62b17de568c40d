"""Power: the fit of coefficients, the decay of a burst, loads that do less than they should, and no NVML."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.timing.clock import Activity, power
from pyptx.timing.constants import gpu
from pyptx.tools.calibrate.board import Meter
from pyptx.tools.calibrate.device import Burst, Sustained
from pyptx.tools.calibrate.families.loads import tensored
from pyptx.tools.calibrate.families.power import Reading, Work, decay, fitted

H200 = gpu("h200")


def test_the_fit_gives_back_the_coefficients_of_the_law() -> None:
    wanted = {"power.base_w": 40.0, "power.simt_w": 450.0, "power.hbm_pj_per_byte": 60.0}
    law = H200.with_values(wanted)
    activities = [Activity(issue=1.0), Activity(issue=0.2), Activity(hbm_bytes_per_ns=4000.0)]
    activities += [Activity(issue=0.5, hbm_bytes_per_ns=2000.0), Activity(hbm_bytes_per_ns=500.0)]
    readings = [Reading(each, 1900.0, power(law, 1900.0, each)) for each in activities]
    found = fitted(H200, readings, list(wanted))
    for name, value in wanted.items():
        assert found[name].value == pytest.approx(value, rel=1e-6)
        assert found[name].low == pytest.approx(found[name].high, rel=1e-6), "all readings agree"
    readings[0] = Reading(activities[0], 1900.0, readings[0].watts + 30)
    wider = fitted(H200, readings, list(wanted))["power.simt_w"]
    assert wider.low <= 450.0 + 1e-6 < wider.high


def test_the_decay_of_a_burst() -> None:
    ns = np.linspace(0, 5e6, 500)
    clocks = 1.4 * ns + 0.3 * 5e5 * -np.expm1(-ns / 5e5)
    start, end, life = decay(Burst(clocks, ns))
    assert (start, end) == (pytest.approx(1700, rel=0.01), pytest.approx(1400, rel=0.01))
    assert life == pytest.approx(5e5, rel=0.04)


def test_a_load_that_is_faster_than_the_hardware_is_an_error() -> None:
    """ptxas once dropped three of four batches: 64 products of 128 cycles took 2152."""
    work = Work(lambda sections: None, "normal", tensor=8192.0)
    with pytest.raises(SpecError, match="3.81 times as fast"):
        work.activity(Sustained(1700.0, 500.0, 2152.0, 1300.0))
    assert work.activity(Sustained(1700.0, 500.0, 8300.0, 4882.0)).tensor == pytest.approx(0.987, abs=1e-3)


@pytest.mark.full
@pytest.mark.parametrize(("n", "batch"), [(256, 16), (256, 4), (64, 1)])
def test_ptxas_keeps_the_loop_of_products(n: int, batch: int) -> None:
    sass = tensored("sm_90a", 132, n, batch, 1000).sass()
    begin, end = (each.start() for each in re.finditer(r"\bCS2R\S* .*SR_CLOCKLO", sass))
    assert len(re.findall(r"\bHGMMA", sass)) == len(re.findall(r"\bHGMMA", sass[begin:end])) == batch
    assert f"64x{n}x16" in sass and "64x8x16" not in sass, "products that do nothing stand for dropped ones"


def test_without_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(SpecError, match="power cannot be read"):
        Meter("GPU-0")
