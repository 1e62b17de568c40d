"""What a tuning has found: the best candidate, and what became of each, as a table and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...entry import Kernel
from ...entry.bounds import Estimate
from .candidates import Candidate, State
from .space import Configuration, written

__all__ = ["Tuning"]


class Tuning:
    """The result of one tuning.

    Attributes:
        name: name of what was tuned.
        configuration: the best configuration: the tuned names with their values.
        kernel: the kernel of the best configuration.
        constants: the constants that a call of the kernel needs.
        measured: True if candidates were timed on a GPU, now or in an earlier process; False if they were
            ranked by predictions or by their resources.
        predicted: True if they were ranked by predictions.
        where: name of the GPU, or of the target architecture.
        seconds: how long the tuning took.
        stages: seconds of each stage, if candidates were measured now.
        restarts: how often the worker process was started again, after a hang, a failure or a crash.
        stored: True if the result came from the disk.
    """

    def __init__(
        self,
        name: str,
        candidates: Sequence[Candidate],
        best: Candidate,
        *,
        measured: bool,
        where: str,
        seconds: float,
        restarts: int = 0,
        stored: bool = False,
        stages: Mapping[str, float] | None = None,
        forecasts: Mapping[int, Estimate] | None = None,
    ) -> None:
        assert best.kernel is not None
        self.name = name
        self.configuration: Configuration = dict(best.configuration)
        self.kernel: Kernel = best.kernel
        self.constants = dict(best.constants)
        self.measured, self.where, self.seconds = measured, where, seconds
        self.restarts, self.stored = restarts, stored
        self.stages = dict(stages or {})
        self.predicted = bool(forecasts)
        self._forecasts = [(forecasts or {}).get(each.number) for each in candidates]
        self._rows = [(written(each.configuration), each.state, each.us, each.reason) for each in candidates]

    def __repr__(self) -> str:
        how = "measured on" if self.measured else f"ranked by {self._ranked_by} for"
        return f"<tuning of {self.name}: {written(self.configuration)}, {how} {self.where}>"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each candidate.

        It has ``configuration``, ``state``, ``us`` (the measured time, or None), ``reason`` and
        ``predicted`` (us, low, high and what bounds it, or None).
        """
        return [
            {
                "configuration": configuration,
                "state": state.value,
                "us": us,
                "reason": reason,
                "predicted": None if forecast is None else _figures(forecast),
            }
            for (configuration, state, us, reason), forecast in zip(self._rows, self._forecasts, strict=True)
        ]

    @property
    def _ranked_by(self) -> str:
        return "predictions" if self.predicted else "resources"

    def __str__(self) -> str:
        how = "measured on" if self.measured else f"not measured, ranked by {self._ranked_by}, for"
        kept = ", from the disk" if self.stored else ""
        again = f", {self.restarts} restarts of the worker" if self.restarts else ""
        stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in self.stages.items())
        spent = f"{self.seconds:.1f} s" + (f" ({stages})" if stages else "")
        head = f"{self.name}: {how} {self.where} in {spent}{kept}{again}"
        order = sorted(self._rows, key=lambda row: (row[1] is not State.BEST, row[2] is None, row[2] or 0.0))
        width = max(len(configuration) for configuration, *_ in order)
        states = max(len(state.value) for _, state, *_ in order)
        lines = [
            f"{configuration.ljust(width)}  {'' if us is None else f'{us:.2f} us':>12}  "
            f"{state.value.ljust(states)}  {reason}".rstrip()
            for configuration, state, us, reason in order
        ]
        return "\n".join([head, *lines])

    def show(self) -> None:
        """Print the table."""
        print(self)


def _figures(forecast: Estimate) -> dict[str, Any]:
    return {"us": forecast.us, "low": forecast.low, "high": forecast.high, "bound": forecast.bound}
