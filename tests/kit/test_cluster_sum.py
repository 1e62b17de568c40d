"""Sums of accumulators over a cluster: each CTA gets its columns of all parts, added in the order of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, f32, kernel, kit, ptx
from pyptx.core.types import bf16
from tests.dsl.helpers import in_kernel

THREADS = 128


def sums(parts: int, columns: int, blocks: int) -> Kernel:
    """X[parts, blocks, registers, threads] summed over parts: the registers of each CTA's columns."""
    registers = columns // 2

    @kernel(
        in_specs=(Tile(parts * blocks * registers * THREADS, f32),),
        out_specs=(Tile(blocks * registers * THREADS, f32),),
        block=THREADS * blocks,
        grid=parts,
        cluster=(parts, 1, 1),
        arch="sm_90a",
        extern_smem=True,
    )
    def total(X, out):  # type: ignore[no-untyped-def]
        rank = ptx.cluster.rank()
        thread, block = ptx.special.tid.x() & 127, ptx.special.tid.x() >> 7
        exchange = kit.ClusterSum(parts=parts, columns=columns, blocks=blocks)
        acc = ptx.wgmma.accumulator(n=columns)
        for i, value in enumerate(acc):
            place = ((rank * blocks + block) * registers + i) * THREADS + thread
            ptx.inst.ld.global_.f32(value, X.at(place))
        exchange.put(acc, block if blocks > 1 else 0, thread)
        ptx.cluster.sync()
        own = exchange.take(rank, block if blocks > 1 else 0, thread)
        share = registers // parts
        for i, value in enumerate(own):
            place = (block * registers + rank * share + i) * THREADS + thread
            ptx.inst.st.global_.f32(out.at(place), value)
        ptx.cluster.sync()

    return total


@pytest.mark.sample(2)
@pytest.mark.parametrize(("parts", "columns", "blocks"), [(1, 8, 1), (2, 32, 2), (4, 32, 1), (8, 64, 1)])
@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_sums_in_order(parts: int, columns: int, blocks: int, schedule: str) -> None:
    rng = np.random.default_rng(parts)
    shape = (parts, blocks * columns // 2 * THREADS)
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape)).astype(np.float32)
    expected = x[0]
    for part in x[1:]:
        expected = expected + part
    report = sums(parts, columns, blocks).simulate(x.ravel(), schedule=schedule, sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert np.array_equal(report.outputs[0], expected)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parts": 0, "columns": 64, "blocks": 1}, "parts is 0"),
        ({"parts": 4, "columns": 48, "blocks": 1}, "multiple of 32"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    def check() -> None:
        with pytest.raises(SpecError, match=words):
            kit.ClusterSum(**options)
        exchange = kit.ClusterSum(parts=2, columns=32, blocks=1)
        thread = ptx.special.tid.x()
        with pytest.raises(SpecError, match="64 columns: expected 32"):
            exchange.put(ptx.wgmma.accumulator(n=64), 0, thread)
        with pytest.raises(SpecError, match="whole f32 accumulator"):
            exchange.put(ptx.wgmma.fragment(bf16), 0, thread)

    in_kernel(check, arch="sm_90a", extern_smem=True)
