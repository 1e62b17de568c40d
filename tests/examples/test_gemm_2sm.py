"""The GEMM of a pair of CTAs: right under every schedule, assembled as one instruction per MMA and copy, and
what is said of it when one half of its protocol is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, TensorMap, bf16, kit, sim
from pyptx.ir import Immediate, Instruction, Module
from pyptx.toolchain import Tool

from .loading import load_example

pytestmark = pytest.mark.one_in(4)

gemm = load_example("blackwell/gemm_highperf_blackwell.py")
SCHEDULES = [("eager", 0), ("late", 0), *(("random", seed) for seed in range(10))]
SCHEDULES += [(f"starve:{engine}", 0) for engine in ("tma", "mma", "ld", "st")]


def _run(shape: tuple[int, int, int], schedule: str, seed: int, **options: Any) -> float:
    M, N, K = shape
    a, b = gemm.make_inputs(M, N, K, seed)
    d = np.full((M, N), np.nan, np.float32)
    kernel = gemm.build_gemm_2sm(M, N, K, **options)
    report = kernel.simulate(a, b, out=d, schedule=schedule, seed=seed, sanitize="strict")
    assert report.verdict == "clean", str(report)
    return float(gemm.worst_error(a, b, d))


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("shape", [(256, 256, 64), (256, 256, 512), (512, 768, 384)])
def test_right_under_every_schedule(shape: tuple[int, int, int], schedule: str, seed: int) -> None:
    assert _run(shape, schedule, seed) <= 1


@pytest.mark.one_in(8)
@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {"stages": 1},
        {"stages": 2},
        {"epilogue": "tma"},
        {"order": kit.tile_order.hilbert},
        {"stages": 3, "epilogue": "tma"},
    ],
)
def test_options(options: dict[str, Any]) -> None:
    assert _run((768, 512, 448), "late", 0, **options) <= 1


def test_bf16_output() -> None:
    M, N, K = 256, 512, 192
    a, b = gemm.make_inputs(M, N, K)
    d = np.full((M, N), np.nan, gemm.ml_dtypes.bfloat16)
    kernel = gemm.build_gemm_2sm(M, N, K, out_dtype=bf16, epilogue="tma")
    assert kernel.simulate(a, b, out=d, schedule="random", seed=3).verdict == "clean"
    wide = a.astype(np.float64), b.astype(np.float64)
    exact, bound = wide[0] @ wide[1].T, K * 2.0**-23 * (np.abs(wide[0]) @ np.abs(wide[1]).T)
    assert (np.abs(d.astype(np.float64) - exact) <= bound + (np.abs(exact) + bound) * 2.0**-8).all()


@pytest.mark.parametrize("epilogue", ["direct", "tma"])
def test_assembles_without_spills_or_warnings(epilogue: str, ptxas: Tool) -> None:
    assembly = gemm.build_gemm_2sm(8192, 8192, 8192, epilogue=epilogue).assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.full
def test_one_instruction_per_mma_and_copy(ptxas: Tool, nvdisasm: Tool) -> None:
    sass = gemm.build_gemm_2sm(1024, 1024, 1024).sass()
    assert sass.count("UTCHMMA") == sass.count("UTCHMMA.2CTA") == 4
    assert sass.count("UTMALDG") == 2
    assert "BRA.U.ANY" not in sass


def test_text_does_not_grow_with_the_problem() -> None:
    lines = {K: gemm.build_gemm_2sm(8192, 8192, K).ptx().count("\n") for K in (512, 8192, 65536)}
    assert len(set(lines.values())) == 1


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((128, 256, 64), {}, ("M = 128", "256", "pad M to 256")),
        ((256, 256, 64), {"stages": 6}, ("stages = 6", "1 to 5", "32768 bytes")),
        ((256, 256, 64), {"epilogue": "smem"}, ("'smem'", "'direct' or 'tma'")),
    ],
)
def test_refusals(arguments: tuple[int, ...], options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(PyptxError) as caught:
        gemm.build_gemm_2sm(*arguments, **options)
    assert all(word in str(caught.value) for word in words)


# --- planted bugs --------------------------------------------------------------------------------


def _changed(change: Callable[[int, Any], Any], K: int = 512) -> Module:
    """The kernel with statements changed: ``change`` gives another one, the same, or None to drop it."""
    module = gemm.build_gemm_2sm(256, 256, K).module()
    function = module.functions[0]
    body = [change(number, s) for number, s in enumerate(function.body)]
    assert body != list(function.body)
    return replace(module, functions=(replace(function, body=tuple(s for s in body if s is not None)),))


def _launch(module: Module, schedule: str, K: int = 512, seed: int = 1) -> tuple[sim.Report, float]:
    a, b = gemm.make_inputs(256, 256, K)
    d = np.full((256, 256), np.nan, np.float32)
    maps = [TensorMap.tiled(x, box=(128, 64), swizzle="128B") for x in (a, b)]
    report = sim.load(module).launch(
        grid=2, cluster=2, block=128, dynamic_smem=200_000, args=[*maps, d], schedule=schedule, seed=seed
    )
    return report, gemm.worst_error(a, b, d)


def _is(statement: Any, *words: str) -> bool:
    return isinstance(statement, Instruction) and all(
        w in (statement.opcode, *statement.modifiers) for w in words
    )


def _positions(*words: str) -> list[int]:
    body = gemm.build_gemm_2sm(256, 256, 512).module().functions[0].body
    return [number for number, s in enumerate(body) if _is(s, *words)]


def test_the_unchanged_kernel_is_clean() -> None:
    """What the twins below break is all that makes them fail."""
    for schedule in ("eager", "late"):
        report, error = _launch(gemm.build_gemm_2sm(256, 256, 512).module(), schedule)
        assert report.verdict == "clean" and error <= 1


def _half_expected() -> Module:
    def half(_: int, s: Any) -> Any:
        if _is(s, "expect_tx"):
            return replace(s, operands=(*s.operands[:-1], Immediate(32768)))
        return s

    return _changed(half)


@pytest.mark.parametrize("schedule", ["eager", "late", "sampled"])
def test_the_bytes_of_one_cta_expected_only(schedule: str) -> None:
    """The phase ends when the first half has come, or not at all."""
    report, _ = _launch(_half_expected(), schedule)
    assert report.verdict == "error", str(report)


@pytest.mark.full
def test_the_bytes_of_one_cta_expected_only_under_random_schedules() -> None:
    """A schedule that brings the second half of the first slots in time shows only by what it computes, from
    the bytes of an earlier turn: some schedules are an error, and none is clean with the right product."""
    module, verdicts = _half_expected(), []
    for seed in range(4):
        report, error = _launch(module, "random", seed=seed)
        verdicts.append(report.verdict)
        assert report.verdict == "error" or error > 1, f"seed {seed}: {report}"
    assert "error" in verdicts


@pytest.mark.full
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_copies_that_signal_their_own_cta(schedule: str) -> None:
    """The peer's bytes never come to the leader, who waits for ever."""

    module = gemm.build_gemm_2sm(256, 256, 512).module()
    function = module.functions[0]
    (mask,) = [s for s in function.body if _is(s, "and", "b32") and Immediate(0xFEFFFFFF) in s.operands]
    own = Instruction("mov", ("b32",), mask.operands[:2])
    body = tuple(own if s is mask else s for s in function.body)
    report, _ = _launch(replace(module, functions=(replace(function, body=body),)), schedule)
    assert [f.rule.name for f in report.findings] == ["deadlock"], str(report)
    assert "mbarrier full" in str(report)


@pytest.mark.full
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_a_commit_to_the_leader_alone_starves_the_peer(schedule: str) -> None:
    first, _ = _positions("commit")

    def alone(number: int, s: Any) -> Any:
        if number != first:
            return s
        return replace(
            s,
            modifiers=tuple(m for m in s.modifiers if m != "multicast::cluster"),
            operands=s.operands[:1],
        )

    report, _ = _launch(_changed(alone), schedule)
    assert [f.rule.name for f in report.findings] == ["deadlock"], str(report)
    assert "mbarrier empty" in str(report) and "CTA (1, 0, 0)" in str(report)


@pytest.mark.full
def test_a_barrier_of_the_cta_where_the_cluster_s_belongs() -> None:
    """Somebody signals a barrier of the other CTA that nobody has initialized yet."""
    arrive, wait = _positions("barrier", "arrive")[0], _positions("barrier", "wait")[0]
    bar = Instruction("bar", ("sync",), (Immediate(0),))
    module = _changed(lambda n, s: bar if n == arrive else None if n == wait else s, K=64)
    for schedule in ("eager", "late"):
        found, _ = _launch(module, schedule, K=64)
        assert "data-race" in {finding.rule.name for finding in found.findings}, str(found)


@pytest.mark.full
def test_no_cluster_barrier_at_the_end() -> None:
    """A CTA may free tensor memory that the pair still uses, or wait for a peer that has gone."""
    arrive, wait = _positions("barrier", "arrive")[1], _positions("barrier", "wait")[1]
    dealloc = _positions("dealloc")[0]

    def leave(number: int, s: Any) -> Any:
        return None if number in (arrive, wait, dealloc) else s

    report, _ = _launch(_changed(leave), "late")
    assert report.verdict == "error"
    assert "tensor-memory" in {f.rule.name for f in report.findings}
