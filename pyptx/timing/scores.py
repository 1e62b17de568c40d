"""How far predictions were from measured times, by what bounds the kernel.

Owns ``scores.json``: for each target and stratum the interval of the ratio of measured to predicted time that
held 80% of the scored launches. An author who scores predictions replaces the entry of a stratum: quantiles
of the ratios at 10% and 90%, the number of launches, how far apart two launches must be for their order to be
known, and the source.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ..core.errors import SpecError
from ..core.records import dataclass
from .constants import Gpu

__all__ = ["STRATA", "Score", "score_of"]

#: What bounds a kernel, as far as scores are kept apart.
STRATA = ("tensor", "fabric", "HBM", "issue", "latency")

_FILE = Path(__file__).resolve().parent / "scores.json"
_FIELDS = {"low", "high", "rows", "apart", "covers", "source", "date"}


@dataclass(frozen=True)
class Score:
    """The error of predictions of one stratum on GPUs of one target.

    Attributes:
        low: the ratio of measured to predicted time that 10% of the scored launches stay below.
        high: the ratio that 10% are above.
        rows: number of scored launches; 0 for an estimate.
        apart: of scored pairs of launches on one GPU under one protocol whose predicted times differ by this
            share or more, 98% were in order; None if no pairs were scored.
        covers: beginnings of the names of constants whose uncertainty the ratios contain, since the scored
            launches depend on them.
        source: what was scored, or ``estimate:`` and its reason.
        date: when the entry was made, as ``YYYY-MM-DD``.
    """

    low: float
    high: float
    rows: int
    apart: float | None
    covers: tuple[str, ...]
    source: str
    date: str

    def contains(self, constant: str) -> bool:
        """True if the ratios contain the uncertainty of a constant."""
        return constant.startswith(self.covers)


def score_of(gpu: Gpu, stratum: str) -> Score:
    """Return the error of predictions for a GPU.

    Args:
        gpu: the constants; scores are kept for its target.
        stratum: a name of :data:`STRATA`.

    Raises:
        SpecError: there is no such stratum, or no scores for the GPU's target.
    """
    scores = _read().get(gpu.target)
    if scores is None:
        raise SpecError(f"there are no scores of predictions for {gpu.target}")
    if stratum not in scores:
        raise SpecError(f"stratum {stratum!r}: expected {', '.join(map(repr, STRATA))}")
    return scores[stratum]


@cache
def _read() -> dict[str, dict[str, Score]]:
    content = json.loads(_FILE.read_text("utf-8"))
    return {
        target: {name: _score(name, given) for name, given in its.items()} for target, its in content.items()
    }


def _score(stratum: str, given: dict[str, object]) -> Score:
    assert stratum in STRATA and given.keys() == _FIELDS, (stratum, given)
    fields = {**given, "covers": tuple(given["covers"])}  # type: ignore[arg-type]
    found = Score(**fields)  # type: ignore[arg-type]
    assert 0 < found.low <= 1 <= found.high, (stratum, given)
    return found
