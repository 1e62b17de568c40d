"""``pyptx.bench`` on a GPU: torch functions and a kernel of pyptx together, cache, clocks, what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import Tile, f32, kernel, ptx, reg, u64

N = 1 << 22


@kernel(
    in_specs=(Tile("N", f32), Tile("N", f32)),
    out_specs=(Tile("N", f32),),
    grid=lambda N: N // 256,
    block=256,
    arch="sm_90a",
)
def add(A: Any, B: Any, C: Any) -> None:
    index = ptx.special.ctaid.x() * 256 + ptx.special.tid.x()
    offset = reg.scalar(u64)
    ptx.inst.mul.wide.u32(offset, index, 4)
    a, b = reg.scalar(f32), reg.scalar(f32)
    ptx.inst.ld.global_.f32(a, ptx.addr(A.ptr + offset))
    ptx.inst.ld.global_.f32(b, ptx.addr(B.ptr + offset))
    total = reg.scalar(f32)
    ptx.inst.add.rn.f32(total, a, b)
    ptx.inst.st.global_.f32(ptx.addr(C.ptr + offset), total)
    ptx.ret()


def test_the_kernel_in_the_simulator() -> None:
    """What is timed below is a right kernel."""
    a, b = np.arange(512, dtype=np.float32), np.ones(512, np.float32)
    report = add.simulate(a, b).check()
    assert (report.outputs[0] == a + b).all()


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the kernel is for sm_90a")
    a, b = (torch.randn(N, device="cuda") for _ in range(2))

    def three_times(x: Any, y: Any) -> Any:
        for _ in range(3):
            found = torch.add(x, y)
        return found

    functions = {"pyptx": add, "torch": torch.add, "three": three_times}
    found = pyptx.bench(functions, (a, b), reference=torch.add, bytes=3 * 4 * N, repeats=60)
    assert [t.count for t in found.timings] == [60, 60, 60]
    # 50 MB cannot move faster than memory, nor, by any kernel like this, a hundred times slower.
    peak = 10_000.0
    assert all(t.gbps is not None and peak / 100 < t.gbps < peak for t in found.timings[:2])
    assert found["three"].median > 1.5 * found["torch"].median
    assert found.readings.summary() == {} or found.readings.summary()["sm_mhz"]["max"] > 100
    assert found.device == torch.cuda.get_device_name()
    json.dumps(found.to_dict())
    assert len(str(found).splitlines()) >= 6


@pytest.mark.gpu
def test_the_flush_empties_the_cache() -> None:
    """Inputs of 16 MB stay in L2 unless it is flushed: reading them again is then faster."""
    torch = pytest.importorskip("torch")
    x = torch.randn(1 << 22, device="cuda")
    cold = pyptx.bench({"sum": torch.sum}, (x,), reference=torch.sum, copies=1, rtol=1e-3, atol=1)
    warm = pyptx.bench(
        {"sum": torch.sum}, (x,), reference=torch.sum, copies=1, rtol=1e-3, atol=1, flush=False
    )
    assert cold["sum"].median > warm["sum"].median


@pytest.mark.gpu
def test_wrong_and_idle_functions_are_refused() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(N, device="cuda") for _ in range(2))
    with pytest.raises(pyptx.WrongResultError, match="wrong is wrong in"):
        pyptx.bench({"right": torch.add, "wrong": torch.sub}, (a, b), reference=torch.add)
    with pytest.raises(pyptx.WrongResultError, match="idle is wrong in .* NaN"):
        pyptx.bench(
            {"right": torch.add, "idle": lambda x, y: torch.empty_like(x)}, (a, b), reference=torch.add
        )
    with pytest.raises(pyptx.SpecError, match="input 1 is in host memory"):
        pyptx.bench(torch.add, (a, b.cpu()), reference=torch.add)


@pytest.mark.gpu
def test_sustained() -> None:
    """A kernel of pyptx and a function of torch, from graphs; a function that cannot be captured, from the host."""
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the kernel is for sm_90a")
    a, b = (torch.randn(N, device="cuda") for _ in range(2))

    def waits(x: Any, y: Any) -> Any:
        torch.cuda.synchronize()
        return torch.add(x, y)

    found = pyptx.bench(
        {"pyptx": add, "torch": torch.add, "waits": waits},
        (a, b),
        reference=torch.add,
        bytes=3 * 4 * N,
        flops=N,
        protocol="sustained",
        seconds=0.4,
    )
    assert [note for note in found.notes if "captured" in note] == [
        "waits cannot be captured in a CUDA graph: the host launches it, which may take longer"
    ]
    torch.randn(1, device="cuda")  # the capture that failed has left nothing behind
    for name in ("pyptx", "torch"):
        t = found[name]
        assert t.draw is not None and len(t.draw.windows) == 2
        assert t.gbps is not None and 100 < t.gbps < 10_000
        if t.draw.joules is not None:
            assert t.draw.watts is not None and 50 < t.draw.watts < 1500
            # Other processes on the GPU only add to it.
            assert t.draw.joules > 0.5 * t.draw.watts * t.median * 1e-6
    json.dumps(found.to_dict())
