"""Ranks candidates by their predicted time, where no GPU can measure them.

Owns the choice of the GPU by the kernel's target, the time that predictions may take, and the order:
predicted candidates first, by time; then the others, in the order that they were given in.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.arrays import describe, is_array
from ...core.errors import PyptxError
from ...core.findings import Verdict
from ...core.records import dataclass
from ...entry.bounds import Estimate
from ...entry.prediction import Prediction
from ...timing.constants import Gpu
from .candidates import Candidate, State
from .jobs import is_random

__all__ = ["Ranking", "drop_others", "predict_all"]

#: A candidate may take so many times its part of the time that is left.
_GENEROUS = 4.0


@dataclass(frozen=True)
class Ranking:
    """Candidates in order.

    Attributes:
        order: the candidates, the best first.
        forecasts: the predictions, by the candidates' numbers.
        seconds: how long the predictions took.
    """

    order: tuple[Candidate, ...]
    forecasts: Mapping[int, Estimate]
    seconds: float

    def alike(self) -> list[Candidate]:
        """Return the candidates that the predictions do not tell from the best one."""
        best = self.forecasts.get(self.order[0].number)
        if best is None:
            return []
        return [
            each
            for each in self.order[1:]
            if (its := self.forecasts.get(each.number)) is not None and best.overlaps(its)
        ]


def predict_all(
    candidates: Sequence[Candidate],
    on: Gpu,
    arrays: Sequence[Any],
    keywords: Mapping[str, Any],
    budget: float,
    step: Callable[[Candidate], None],
) -> Ranking:
    """Predict the time of candidates, as many as the time allows, and rank them.

    Args:
        candidates: in the order in which they are predicted.
        on: the GPU.
        arrays: the inputs of the call. Floats stand for any contents, other types have these contents.
        keywords: dims and constants that are not tuned.
        budget: seconds for all predictions together.
        step: called after each candidate.
    """
    began = time.monotonic()
    forecasts: dict[int, Estimate] = {}
    for place, candidate in enumerate(candidates):
        left = budget - (time.monotonic() - began)
        if left <= 0:
            why = f"not predicted: the {budget:g} s for predictions were over"
            for each in candidates[place:]:
                each.reason = why
            break
        limit = min(left, _GENEROUS * left / (len(candidates) - place))
        try:
            found = _predicted(candidate, on, arrays, keywords, limit)
        except PyptxError as error:
            candidate.reason = f"no prediction: {error.summary}"
        else:
            if found.verdict is Verdict.CLEAN:
                forecasts[candidate.number] = found.estimate
            else:
                candidate.reason = f"no prediction: {str(found.findings[0]).splitlines()[0]}"
        step(candidate)
    known = [each for each in candidates if each.number in forecasts]
    known.sort(key=lambda each: forecasts[each.number].us)
    others = [each for each in candidates if each.number not in forecasts]
    return Ranking((*known, *others), forecasts, time.monotonic() - began)


def drop_others(ranking: Ranking) -> None:
    """Say of every candidate but the best what its rank and its prediction are."""
    alike = set(map(id, ranking.alike()))
    for place, each in enumerate(ranking.order[1:], 2):
        forecast = ranking.forecasts.get(each.number)
        said = f"predicted {forecast}" if forecast is not None else each.reason
        same = ", not distinguishable from the best" if id(each) in alike else ""
        each.drop(State.SLOWER, f"rank {place}: {said}{same}")


def _predicted(
    candidate: Candidate, on: Gpu, arrays: Sequence[Any], keywords: Mapping[str, Any], limit: float
) -> Prediction:
    """Predict a candidate: without the contents of floats, and with them if they decide where threads go."""
    assert candidate.kernel is not None
    ends = time.monotonic() + limit
    for known in (False, True):
        found = candidate.kernel.predict(
            *(_given(value, known) for value in arrays),
            gpu=on,
            timeout=ends - time.monotonic(),
            **keywords,
            **candidate.constants,
        )
        if all(finding.rule.name != "needs-data" for finding in found.findings):
            break
    return found


def _given(value: Any, known: bool) -> Any:
    """Return an input for a prediction: the shape of an array, or a copy, which the kernel may write."""
    if not is_array(value):
        return value
    info = describe(value)
    if is_random(info.type) and not known:
        return tuple(info.shape)
    return value.detach().clone() if hasattr(value, "detach") else copy.deepcopy(value)
