"""Which outputs count as those of one computation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx.tools.autotune.outputs import agree, group_of

RNG = np.random.default_rng(0)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_sums_in_another_order_agree_and_a_missing_tile_does_not(dtype: Any) -> None:
    a, b = (RNG.standard_normal((64, 512), np.float32) for _ in range(2))
    forward = (a @ b.T).astype(dtype)
    backward = (a[:, ::-1] @ b[:, ::-1].T).astype(dtype)
    assert agree(backward, forward)
    missing = forward.copy()
    missing[:8, :8] = 0
    assert not agree(missing, forward)
    unwritten = forward.copy()
    unwritten[0, 0] = np.nan
    assert not agree(unwritten, forward) and agree(unwritten, unwritten)


def test_integers_and_infinities() -> None:
    assert agree(np.arange(4), np.arange(4)) and not agree(np.arange(4), np.arange(1, 5))
    infinite = np.array([1.0, np.inf])
    assert agree(infinite, infinite) and not agree(infinite, -infinite)
    assert not agree(np.zeros(3), np.zeros(4)) and agree(np.zeros(3), np.zeros(3))


def test_groups_outlive_the_process_that_made_them(tmp_path: Path) -> None:
    a, b = np.ones(4, np.float32), np.full(4, 2, np.float32)
    assert [group_of(outputs, tmp_path) for outputs in ([a, b], [b, a], [a, b], [a], [b, a])] == [
        0,
        1,
        0,
        2,
        1,
    ]
    assert group_of([], tmp_path) == 3 and group_of([], tmp_path) == 3
