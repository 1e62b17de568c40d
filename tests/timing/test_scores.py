"""Scores of predictions: the file, and what they cover."""

from __future__ import annotations

import pytest

from pyptx.core.errors import SpecError
from pyptx.timing.constants import Gpu, gpu
from pyptx.timing.scores import STRATA, score_of


@pytest.mark.parametrize("name", ["b200", "h200"])
@pytest.mark.parametrize("stratum", STRATA)
def test_every_gpu_has_scores_of_every_stratum(name: str, stratum: str) -> None:
    on = gpu(name)
    score = score_of(on, stratum)
    assert 0 < score.low <= 1 <= score.high
    # An estimate covers nothing: only launches that were scored depend on constants.
    assert (score.rows > 0) == bool(score.covers) == (not score.source.startswith("estimate:"))
    for start in score.covers:
        assert any(constant.startswith(start) for constant in on.constants)


def test_constants_are_covered_by_the_beginning_of_their_names() -> None:
    score = score_of(gpu("b200"), "tensor")
    assert score.contains("mma.interval.g2_m256.per_n_clk") and not score.contains("lds.bytes_per_clk")


def test_what_has_no_scores() -> None:
    b200 = gpu("b200")
    with pytest.raises(SpecError, match="expected 'tensor', 'fabric'"):
        score_of(b200, "tail")
    with pytest.raises(SpecError, match="no scores of predictions for sm_120a"):
        score_of(Gpu("x", "X", "sm_120a", "2026-01-01", b200.constants), "tensor")
