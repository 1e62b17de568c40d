"""Exponentials of rows: maximum, sum and each of them, whether rows are held or read twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, Tile, f32, kernel, kit, ptx


def exponentials(width: int, tuning: dict[str, Any]) -> Kernel:
    plan = kit.RowPlan.make(width, [f32], [f32], **tuning)

    @kernel(
        in_specs=(Tile("M", width, f32),),
        out_specs=(Tile("M", width, f32), Tile("M", f32), Tile("M", f32)),
        grid=lambda M: plan.grid(M),
        arch="sm_90a",
        **plan.options(),
    )
    def powers(X, E, maxima, sums):  # type: ignore[no-untyped-def]
        stream = kit.RowStream(plan, X.extent(0), [X], [E], fill=float("-inf"))
        with stream.rows() as row:
            maximum, total, of = kit.row_exponentials(row)
            row.store(maxima, maximum)
            row.store(sums, total)
            for piece in row.pieces():
                piece.store(0, of(piece))
        ptx.ret()

    return powers


@pytest.mark.parametrize(
    ("width", "tuning"),
    [
        (100, {}),
        (999, {"threads": 64}),
        (999, {"threads": 32, "held": 1}),
        (600, {"threads": 32, "cluster": 2}),
    ],
)
def test_exponentials(width: int, tuning: dict[str, Any]) -> None:
    x = (10 * np.random.default_rng(0).standard_normal((4, width))).astype(np.float32)
    x[1, 5], x[2], x[3, 7] = -np.inf, -np.inf, np.nan
    report = exponentials(width, tuning).simulate(x, schedule="random")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    found, maxima, sums = report.outputs
    exact = np.exp(x[:2].astype(np.float64) - x[:2].max(axis=1, keepdims=True))
    assert np.array_equal(maxima[:2], x[:2].max(axis=1))
    assert np.allclose(found[:2], exact, rtol=1e-5, atol=2.0**-126)
    assert np.allclose(sums[:2], exact.sum(axis=1), rtol=1e-5)
    assert sums[2] == 0 and (found[2] == 0).all() and maxima[2] == np.finfo(np.float32).min
    assert np.isnan(sums[3])
