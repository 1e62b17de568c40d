"""Occupancy against the figures of CUDA's calculator, the filter, the rank, and the simulated check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import SpecError, Tile, f32, kernel, ptx, reg
from pyptx.ir import Launch
from pyptx.isa import target
from pyptx.runtime.driver import DeviceInfo
from pyptx.runtime.machine_code import cubins
from pyptx.toolchain import Assembly, Resources, Tool, ToolReport
from pyptx.tools.autotune import tuning
from pyptx.tools.autotune.candidates import Candidate, State, record
from pyptx.tools.autotune.resources import assemble_all, drop_unfit, fit, rank
from tests.tools.autotune.conftest import Gpu
from tests.tools.autotune.fakes import build_double

X = np.arange(1024, dtype=np.float32)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("threads", "registers", "shared", "ctas", "limit"),
    [
        (256, 32, 0, 8, "registers"),  # 2,048 threads; registers and threads alike
        (256, 64, 0, 4, "registers"),
        (256, 65, 0, 3, "registers"),  # registers come in units of 8 for each thread
        (384, 168, 196608, 1, "registers"),
        (128, 32, 100 * 1024, 2, "shared memory"),
        (128, 32, 114 * 1024, 1, "shared memory"),  # 1 KiB of each CTA is the system's
        (32, 16, 0, 32, "CTAs"),
        (1024, 80, 0, 0, "registers"),
        (96, 16, 0, 21, "threads"),
    ],
)
def test_ctas_on_a_multiprocessor(threads: int, registers: int, shared: int, ctas: int, limit: str) -> None:
    """Capability 9.0: 64 Ki registers, 2,048 threads, 228 KiB of shared memory, 32 CTAs."""
    launch = Launch((1000, 1, 1), (threads, 1, 1), dynamic_smem=shared)
    found = fit(launch, Resources("k", True, registers), target("sm_90a"))
    assert (found.ctas, found.limit) == (ctas, limit)


def test_waves() -> None:
    launch, resources = Launch((265, 1, 1), (1024, 1, 1)), Resources("k", True, 32)
    found = fit(launch, resources, target("sm_90a"))
    assert (found.ctas, found.waves, found.warps) == (2, 2, 64)
    assert found.filled == 265 / (2 * 264)
    assert fit(launch, resources, target("sm_90a"), multiprocessors=133).waves == 1


def _with(candidate: Candidate, tool: Any = None, **resources: Any) -> Candidate:
    """The candidate, as if ptxas had said this of it."""
    held = Resources("double", True, **{"registers": 32, **resources})
    candidate.assembly = Assembly(b"", ToolReport((), (held,)), tool, "sm_90a")
    return candidate


def _candidates(*configurations: dict[str, Any]) -> list[Candidate]:
    return record(
        lambda given: (build_double(4096, **given), {}), configurations, [np.ones(4096, np.float32)], {}
    )


def test_what_does_not_fit_and_what_spills() -> None:
    large, spilling, plain = _candidates({"block": 1024}, {"block": 64}, {"block": 32})
    _with(large, registers=168)
    _with(spilling, spill_stores=8, spill_loads=12)
    _with(plain)
    drop_unfit([large, spilling])
    assert spilling.ready, "all that are left spill"
    drop_unfit([large, spilling, plain])
    assert (large.state, spilling.state, plain.state) == (State.TOO_LARGE, State.SPILLS, State.READY)
    assert large.reason.startswith("not one CTA fits on a multiprocessor (registers): 1024 threads of 168")
    assert spilling.reason == "20 bytes are spilled, others spill none"


def test_the_rank() -> None:
    """Spills first, then empty places of the GPU, then warps on a multiprocessor."""
    few, many, spilling = _candidates({"block": 1024}, {"block": 32}, {"block": 64})
    _with(few), _with(many), _with(spilling, spill_stores=4)
    assert rank([spilling, few, many]) == [many, few, spilling]


def test_assembled_candidates(ptxas: Tool) -> None:
    """A text that ptxas refuses drops its own candidate alone."""
    good, bad = _candidates({"block": 32}, {"block": 64})
    assert bad.special is not None and bad.kernel is not None

    @kernel(in_specs=(Tile(4096, f32),), out_specs=(Tile(4096, f32),), block=32, arch="sm_90a")
    def raw(A: Any, B: Any) -> None:
        ptx.raw("add.nothing %A, 1;")
        ptx.ret()

    bad.special = raw.specialize()
    told: list[Candidate] = []
    assert assemble_all([good, bad], told.append)
    assert told == [good, bad] and bad.state is State.REFUSED and "ptxas" in bad.reason
    assert good.assembly is not None and good.assembly.registers > 0


def test_the_worker_and_the_user_load_what_was_assembled(
    gpu: Gpu, ptxas: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cubins of all candidates lie in the user's cache, where a launch finds them."""
    monkeypatch.setattr(tuning, "assemble_all", assemble_all)
    found = pyptx.autotune("block", [32, 64])(build_double)(1024).tune(X, gpu=0)
    special = found.kernel.specialize()
    device = DeviceInfo(0, "Fake", (9, 0), 132, 232448, (ptxas.version[0], 0))
    monkeypatch.setattr("pyptx.toolchain.assemble", None)
    loaded = next(cubins(special.lined, lambda: special.printed.text, special.entry, device))
    assert loaded.cubin.image == found.kernel.assemble().cubin


@pytest.mark.full
def test_the_simulated_check(gpu: Gpu) -> None:
    """The wrong one leaves before it is measured; a deadlock and a builder's refusal as well."""

    def build(N: int, *, kind: str) -> Any:
        if kind == "small" and N < 512:
            raise ValueError("no check at this size")
        return build_double(N, block=64, wrong=kind == "wrong", name=kind)

    gpu.us = lambda candidate, _: {"wrong": 1.0, "right": 9.0, "late": 8.0, "small": 1.0}[
        candidate.configuration["kind"]
    ]
    rows = ["wrong", "right", "late", "small"]
    decorate = pyptx.autotune("kind", rows, check={"N": 128}, reference=lambda a: 2 * a)
    found = decorate(build)(1024).tune(X, gpu=0)
    states = {row["configuration"]: (row["state"], row["reason"]) for row in found.rows()}
    assert found.configuration == {"kind": "late"}
    assert (
        states["kind='wrong'"][0] == "wrong"
        and "in the simulator: error: [wrong-result]" in states["kind='wrong'"][1]
    )
    assert states["kind='small'"] == ("refused", "for check=: no check at this size")
    assert {each.configuration["kind"] for each in gpu.places[0].asked} == {"right", "late"}


def test_the_check_without_a_reference(gpu: Gpu) -> None:
    """The first that runs clean says what is right; here that is two of three."""

    def build(N: int, *, block: int, wrong: bool) -> Any:
        return build_double(N, block=block, wrong=wrong)

    rows = [[32, False], [64, True], [64, False]]
    found = pyptx.autotune("block, wrong", rows, check={"N": 128})(build)(1024).tune(X, gpu=0)
    assert [row["state"] for row in found.rows()] == ["best", "wrong", "slower"]


def test_a_check_of_a_kernel_needs_all_dims(gpu: Gpu) -> None:
    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), block=32, arch="sm_90a")
    def copy(A: Any, B: Any, *, way: int) -> None:
        a = reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, A.at(ptx.special.tid.x()))
        ptx.inst.st.global_.f32(B.at(ptx.special.tid.x()), a)
        ptx.ret()

    with pytest.raises(SpecError, match="check= has no size for 'N', a dim of A"):
        pyptx.autotune("way", [1, 2], check={"M": 32})(copy).tune(X[:32], gpu=0)
    tuned = pyptx.autotune("way", [1], check={"N": 32})(copy)
    assert tuned.tune(X[:32], gpu=0).rows()[0]["state"] == "best"


def test_nothing_is_tuned_in_a_capture(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        is_initialized = is_current_stream_capturing = staticmethod(lambda: True)

    monkeypatch.setitem(tuning.sys.modules, "torch", type("torch", (), {"cuda": Cuda, "Tensor": int}))
    with pytest.raises(SpecError, match="cannot happen while a CUDA graph is captured"):
        pyptx.autotune("block", [32, 64])(build_double)(1024).tune(X, gpu=0)
