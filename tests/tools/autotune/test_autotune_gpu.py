"""``pyptx.autotune`` on a GPU: the fastest is found, though a candidate hangs, one traps, and one is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import Tile, b64, f32, kernel, ptx, reg, smem
from pyptx.tools.autotune import lab

N = 1 << 22
#: Seconds after which a candidate hangs. Other tests may use the GPU too, and a trap takes seconds to arrive then.
DEADLINE = 15.0


def build(*, per: int, fault: str) -> Any:
    """B = 2 A; the threads of a CTA copy ``per`` elements each, one after another."""

    @kernel(
        in_specs=(Tile("N", f32),),
        out_specs=(Tile("N", f32),),
        grid=lambda N: N // (128 * per),
        block=128,
        arch="sm_90a",
        name=f"double_{per}_{fault}",
    )
    def double(A: Any, B: Any) -> None:
        if fault == "trap":
            ptx.trap()
        if fault == "hang":
            barrier = smem.alloc(1, b64)
            with ptx.if_(ptx.special.tid.x() == 0):
                ptx.mbarrier.init(barrier, 1)
            ptx.bar.sync(0)
            ptx.mbarrier.wait(barrier, 0)
        start = ptx.special.ctaid.x() * (128 * per) + ptx.special.tid.x()
        repeats = 40 if fault == "slow" else 1
        for number in range(per * repeats):
            a = reg.scalar(f32)
            at = start + number % per * 128
            ptx.inst.ld.volatile.global_.f32(a, A.at(at))
            ptx.inst.st.volatile.global_.f32(B.at(at), a + a + a if fault == "wrong" else a + a)
        ptx.ret()

    return double


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("fault", "said"),
    [("", None), ("wrong", "wrong-result"), ("hang", "deadlock"), ("trap", "trap")],
)
def test_the_kernels_in_the_simulator(fault: str, said: str | None) -> None:
    """What is tuned below is right or wrong in the way that its name says."""
    x = np.arange(1024, dtype=np.float32)
    report = build(per=4, fault=fault).simulate(x, reference=2 * x)
    if said is None:
        assert not report.findings and (report.outputs[0] == 2 * x).all()
    else:
        assert any(said in str(finding) for finding in report.findings), report


@pytest.mark.gpu
def test_the_best_is_found_in_spite_of_a_hang_and_a_trap(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the kernels are for sm_90a")
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path))
    rows = [[1, "slow"], [4, "hang"], [4, ""], [4, "wrong"], [4, "trap"], [8, ""], [4, "slow"]]
    tuned = pyptx.autotune("per, fault", rows, deadline=DEADLINE)(build)
    monkeypatch.setattr(lab, "_workers", {})
    request.addfinalizer(lab._end_all)
    double = tuned()
    x = torch.randn(N, device="cuda")
    assert torch.equal(double(x), 2 * x)
    (found,) = double.tunings
    states = [row["state"] for row in found.rows()]
    assert states[1] == "hung" and states[3] == "wrong" and states[4] == "failed", str(found)
    assert found.configuration["fault"] == "" and found.restarts == 2 and found.measured, str(found)
    assert all(us is None or us > 0.5 for us in (row["us"] for row in found.rows()))
    # A run-time size: no new tuning. A new process: from the disk.
    y = torch.randn(N // 2, device="cuda")
    assert torch.equal(double(y), 2 * y) and len(double.tunings) == 1
    again = pyptx.autotune("per, fault", rows, deadline=DEADLINE)(build)()
    assert again.tune(x).stored and again.tune(x).configuration == found.configuration
