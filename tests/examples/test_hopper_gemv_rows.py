"""One row times a matrix, a CTA for each row of W: right for any N and K, under every schedule, by a rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, bf16, e4m3, f16, f32
from pyptx.toolchain import Tool

from .loading import load_example

rows = load_example("hopper/gemv_rows.py")
gemv = load_example("hopper/gemv.py")

#: Teams of short rows, rows of several steps, odd widths, a last group of rows that is not full.
CASES: list[tuple[tuple[int, int, int], dict[str, Any]]] = [
    ((1, 40, 1032), {}),
    ((1, 7, 64), {}),
    ((1, 5, 4096), {"out_type": f32}),
    ((1, 3, 18432), {}),
    ((1, 9, 333), {"dtype": f16}),
    ((1, 9, 2056), {"dtype": f16, "threads": 64, "teams": 2}),
    ((1, 9, 1024), {"threads": 64, "design": "ring", "stages": 2, "ctas": 2}),
    ((1, 9, 1024), {"threads": 64, "design": "ring", "stages": 1}),
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "chosen"), CASES)
def test_right(shape: tuple[int, int, int], chosen: dict[str, Any]) -> None:
    kinds = {name: chosen[name] for name in ("dtype", "out_type") if name in chosen}
    for schedule in ("random", "late"):
        kernel = rows.build_gemv_rows(*shape[1:], **chosen)
        report, error = gemv.simulated(kernel, shape, schedule=schedule, **kinds)
        assert report.verdict == "clean" and report.holds == "every schedule", str(report)
        assert error <= 1


def test_special_values() -> None:
    x, w = gemv.make_inputs(1, 24, 520)
    x[0, 100], w[3] = np.inf, 0
    w[5, 519] = np.nan
    found = rows.build_gemv_rows(24, 520, out_type=f32)(x, w)
    assert np.isnan(found[0, [3, 5]]).all() and np.isinf(np.delete(found[0], [3, 5])).all()


def test_one_row_of_weights_in_a_cta() -> None:
    """Four pieces a thread, 1024 threads on an SM, short rows together."""
    for K, threads, teams, resident in (
        (4096, 128, 1, 8),
        (8192, 256, 1, 4),
        (14336, 448, 1, 2),
        (18432, 576, 1, 1),
        (1024, 32, 4, 8),
    ):
        plan = rows.plan_of(K, bf16, {})
        assert (plan.threads, plan.teams, plan.resident) == (threads, teams, resident)
        assert plan.held and plan.steps == 4


def test_options_are_checked() -> None:
    with pytest.raises(SpecError, match="dtype"):
        rows.build_gemv_rows(8, 64, dtype=e4m3)
    with pytest.raises(SpecError, match="out_type"):
        rows.build_gemv_rows(8, 64, out_type=e4m3)


@pytest.mark.full
def test_assembles_as_it_was_meant(ptxas: Tool, nvdisasm: Tool) -> None:
    for N, K in ((6144, 4096), (4096, 14336), (7168, 18432)):
        kernel = rows.build_gemv_rows(N, K)
        assembly = kernel.assemble()
        assert not assembly.spills and not assembly.warnings and not assembly.notes
    # Four loads of W before the first product.
    sass = rows.build_gemv_rows(6144, 4096).sass()
    assert sass[: sass.index("FFMA")].count("LDG.E.128") >= 4
