"""Running a case in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx import sim

from .case import In, Map, Number, Out, Run, aligned

__all__ = ["NotRun", "simulate"]

#: Warp-instructions after which a run counts as endless.
_MAX_STEPS = 1_000_000


class NotRun(Exception):
    """The simulator did not run a case to its end, cleanly; says why."""


def _argument(argument: In | Out | Number | Map) -> Any:
    if isinstance(argument, In):
        return aligned(argument.array)
    if isinstance(argument, Out):
        return argument.before()
    return argument.value if isinstance(argument, Number) else argument


def simulate(
    run: Run, schedule: str = "eager", seed: int = 0, *, sanitize: bool = True
) -> list[NDArray[Any]]:
    """What the outputs hold after the run. Raises :class:`NotRun`."""
    given = [_argument(a) for a in run.arguments]
    arguments = [a.tensor_map(given[a.of]) if isinstance(a, Map) else a for a in given]
    try:
        report = sim.load(run.module).launch(
            run.entry,
            grid=run.grid,
            block=run.block,
            cluster=run.cluster,
            dynamic_smem=run.dynamic_smem,
            args=arguments,
            schedule=schedule,
            seed=seed,
            max_steps=_MAX_STEPS,
            sanitize=sanitize and not run.races,
        )
    except Exception as error:
        # A crash is a disagreement of this case; the others still run.
        raise NotRun(" ".join(f"{type(error).__name__}: {error}".split())) from error
    # What is for review goes on as the hardware does.
    if report.verdict not in ("clean", "review"):
        raise NotRun(" ".join(str(report.findings[0]).split()))
    return [
        np.asarray(array)
        for array, argument in zip(arguments, run.arguments, strict=True)
        if isinstance(argument, Out)
    ]
