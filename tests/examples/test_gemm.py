"""The Blackwell GEMM: right under every schedule, assembled without spills, of constant length, and what a
planted bug in it looks like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, ScalarType, TensorMap, bf16, f32, kit, sim
from pyptx.ir import Instruction, Module
from pyptx.toolchain import Tool

from .loading import load_example

pytestmark = pytest.mark.one_in(2)

gemm = load_example("blackwell/gemm_highperf_blackwell.py")
ORDERS = [
    {"order": order}
    for order in (
        kit.tile_order.hilbert,
        kit.tile_order.snake,
        partial(kit.tile_order.boustrophedon, group=1),
        partial(kit.tile_order.grouped, group=2),
    )
]
SCHEDULES = [("eager", 0), ("late", 0), *(("random", seed) for seed in range(3))]
SCHEDULES += [(f"starve:{engine}", 0) for engine in ("tma", "mma", "ld", "st")]


def _special(rows: int, columns: int, seed: int) -> np.ndarray:
    """Values that cancel: large and small magnitudes of both signs, zeros, subnormals of bf16."""
    rng = np.random.default_rng(seed)
    values = [0.0, -0.0, 1.0, -1.0, 3.0, 256.0, -256.0, 2.0**-8, -(2.0**-20), 2.0**20, -(2.0**20), 2.0**-130]
    return rng.choice(np.array(values, np.float32), (rows, columns)).astype(gemm.ml_dtypes.bfloat16)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("shape", [(128, 256, 64), (128, 256, 320), (384, 512, 192)])
def test_right_under_every_schedule(shape: tuple[int, int, int], schedule: str, seed: int) -> None:
    M, N, K = shape
    a, b = gemm.make_inputs(M, N, K, seed)
    d = np.full((M, N), np.nan, np.float32)
    report = gemm.build_gemm(M, N, K).simulate(a, b, out=d, schedule=schedule, seed=seed, sanitize="strict")
    assert report.verdict == "clean", str(report)
    assert gemm.worst_error(a, b, d) <= 1


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_adversarial_values(schedule: str) -> None:
    a, b = _special(128, 512, 0), _special(256, 512, 1)
    d = np.full((128, 256), np.nan, np.float32)
    assert gemm.build_gemm(128, 256, 512).simulate(a, b, out=d, schedule=schedule).verdict == "clean"
    assert gemm.worst_error(a, b, d) <= 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "options", [{"stages": 2}, {"stages": 3}, {"stages": 1}, {"epilogue": "tma"}, *ORDERS]
)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_options(options: dict[str, Any], dtype: ScalarType) -> None:
    M, N, K = 640, 512, 256
    a, b = gemm.make_inputs(M, N, K)
    d = np.full((M, N), np.nan, np.float32 if dtype is f32 else gemm.ml_dtypes.bfloat16)
    report = gemm.build_gemm(M, N, K, out_dtype=dtype, **options).simulate(a, b, out=d, schedule="late")
    assert report.verdict == "clean"
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    bound = K * 2.0**-23 * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)).T)
    if dtype is bf16:
        bound += (np.abs(exact) + bound) * 2.0**-8
    assert (np.abs(d.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("dtype", [f32, bf16])
def test_the_tma_epilogue_assembles_without_spills_or_warnings(dtype: ScalarType, ptxas: Tool) -> None:
    assembly = gemm.build_gemm(1024, 1024, 1024, epilogue="tma", out_dtype=dtype).assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


def test_an_all_zero_output_is_wrong() -> None:
    """The tolerance can fail."""
    a, b = gemm.make_inputs(128, 256, 64)
    assert gemm.worst_error(a, b, np.zeros((128, 256), np.float32)) > 1e4


@pytest.mark.parametrize("shape", [(128, 256, 64), (8192, 8192, 8192)])
def test_assembles_without_spills_or_warnings(shape: tuple[int, int, int], ptxas: Tool) -> None:
    assembly = gemm.build_gemm(*shape).assemble()
    assert assembly.spills == 0
    assert not assembly.warnings and not assembly.notes


def test_one_instruction_per_mma_and_copy(ptxas: Tool, nvdisasm: Tool) -> None:
    """No loop over lanes around them, as ptxas makes where a thread index guards them."""
    sass = gemm.build_gemm(1024, 1024, 1024).sass()
    assert sass.count("UTCHMMA") == 4
    assert sass.count("UTMALDG") == 2
    assert "BRA.U.ANY" not in sass


def test_text_does_not_grow_with_the_problem() -> None:
    lines = {K: gemm.build_gemm(8192, 8192, K).ptx().count("\n") for K in (512, 8192, 65536)}
    assert len(set(lines.values())) == 1
    assert lines[8192] < 1500


@pytest.mark.full
def test_same_text_in_any_process() -> None:
    program = (
        "import runpy, sys; g = runpy.run_path(sys.argv[1])['build_gemm'](2048, 2048, 2048); "
        "sys.stdout.write(g.ptx())"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program, gemm.__file__],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert texts == {gemm.build_gemm(2048, 2048, 2048).ptx()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((128, 256, 100), ("K = 100", "64", "pad K to 128")),
        ((100, 256, 64), ("M = 100", "128")),
        ((128, 128, 64), ("N = 128", "256")),
        ((128, 256, 0), ("K = 0",)),
    ],
)
def test_sizes_that_are_no_multiple_of_the_tile(arguments: tuple[int, ...], words: tuple[str, ...]) -> None:
    with pytest.raises(PyptxError) as caught:
        gemm.build_gemm(*arguments)
    assert all(word in str(caught.value) for word in words)


# --- planted bugs --------------------------------------------------------------------------------


def _without(module: Module, drop: Callable[[Instruction], bool]) -> Module:
    """The module less the instructions that ``drop`` picks (at least one)."""
    function = module.functions[0]
    body = tuple(s for s in function.body if not (isinstance(s, Instruction) and drop(s)))
    assert len(body) < len(function.body)
    return replace(module, functions=(replace(function, body=body),))


def _launch(module: Module, K: int, schedule: str = "eager") -> tuple[sim.Report, np.ndarray]:
    a, b = gemm.make_inputs(128, 256, K)
    d = np.full((128, 256), np.nan, np.float32)
    maps = [
        TensorMap.tiled(a, box=(128, 64), swizzle="128B"),
        TensorMap.tiled(b, box=(256, 64), swizzle="128B"),
    ]
    report = sim.load(module).launch(
        grid=1, block=128, dynamic_smem=200_000, args=[*maps, d], schedule=schedule
    )
    return report, d


def test_a_dropped_expect_tx_is_a_deadlock_that_names_everything() -> None:
    module = _without(gemm.build_gemm(128, 256, 512).module(), lambda i: "expect_tx" in i.modifiers)
    report, _ = _launch(module, 512)
    assert report.verdict == "error"
    (finding,) = report.findings
    assert finding.rule.name == "deadlock"
    text = str(finding)
    # The barrier by its name in the kernel, its phase, its counts.
    assert "mbarrier full, byte 0 of 32 (shared 0x" in text
    assert "phase 0 (parity 0), 1 of 1 arrivals pending, tx-count -49152" in text
    assert "49152 bytes arrived that no expect_tx announced" in text
    # Who waits, and at which line of the kernel; where the barrier was made.
    lines = Path(str(gemm.__file__)).read_text().splitlines()
    waits = {location.line for note, location in finding.other if "waits" in note and location is not None}
    assert len(waits) == 4
    waiting = ("producer.acquire()", "consumer.acquire()", "ptx.warp.sync()", "ptx.mbarrier.wait(done, 0)")
    assert all(any(call in lines[line - 1] for call in waiting) for line in waits)
    made = [location for note, location in finding.other if "initialized" in note and location is not None]
    assert any("ring.init()" in lines[location.line - 1] for location in made)


@pytest.mark.parametrize("schedule", ["late", "random", "starve:tma"])
def test_the_deadlock_is_found_under_every_schedule(schedule: str) -> None:
    module = _without(gemm.build_gemm(128, 256, 512).module(), lambda i: "expect_tx" in i.modifiers)
    report, _ = _launch(module, 512, schedule)
    assert [f.rule.name for f in report.findings] == ["deadlock"]


def test_a_dropped_commit_starves_the_producer() -> None:
    commits: list[Instruction] = []

    def first_commit(i: Instruction) -> bool:
        if "commit" in i.modifiers and not commits:
            commits.append(i)
            return True
        return False

    module = _without(gemm.build_gemm(128, 256, 512).module(), first_commit)
    report, _ = _launch(module, 512)
    assert [f.rule.name for f in report.findings] == ["deadlock"]
    assert "mbarrier empty" in str(report)


def test_memory_not_freed_is_reported() -> None:
    module = _without(gemm.build_gemm(128, 256, 64).module(), lambda i: "dealloc" in i.modifiers)
    report, d = _launch(module, 64)
    assert [f.rule.name for f in report.findings] == ["tensor-memory"]
    assert "never freed" in str(report)
    a, b = gemm.make_inputs(128, 256, 64)
    assert gemm.worst_error(a, b, d) <= 1


def test_a_wait_for_the_full_barrier_left_out_reads_what_nobody_wrote() -> None:
    """Under late, the MMA meets a stage that TMA has not filled."""
    waits: list[Instruction] = []

    def consumer_wait(i: Instruction) -> bool:
        if "try_wait" in i.modifiers:
            waits.append(i)
            return len(waits) == 3
        return False

    module = gemm.build_gemm(128, 256, 64).module()
    function = module.functions[0]
    picked = [s for s in function.body if isinstance(s, Instruction) and consumer_wait(s)]
    after = function.body[function.body.index(picked[0]) + 1]
    body = tuple(s for s in function.body if s is not picked[0] and s is not after)
    report, _ = _launch(replace(module, functions=(replace(function, body=body),)), 64, "late")
    assert "uninitialized-read" in {f.rule.name for f in report.findings}
