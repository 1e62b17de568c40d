"""Runs an unusual kernel in the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx import sim
from pyptx.core.findings import Finding
from tests.conformance.case import In, Map, Out, aligned

from .table import Unusual

__all__ = ["Result", "run_unusual", "schedule_options"]

#: Warp-instructions after which a run counts as endless.
MAX_STEPS = 400_000


@dataclass(frozen=True)
class Result:
    """What a run in the simulator gave.

    Attributes:
        findings: of all launches.
        right: whether the outputs are right.
        ended: whether all launches ran to their end.
        outputs: the arrays of the ``Out`` arguments.
        steps: warp-instructions.
        holds: the schedules for which the stream claims to hold.
    """

    findings: tuple[Finding, ...]
    right: bool
    ended: bool
    outputs: tuple[NDArray[Any], ...]
    steps: int
    holds: str = ""

    @property
    def errors(self) -> list[Finding]:
        return [f for f in self.findings if f.severity == "error"]

    @property
    def reviews(self) -> list[Finding]:
        return [f for f in self.findings if f.severity == "review"]


def schedule_options(text: str) -> dict[str, Any]:
    """The options of a run from ``eager``, ``late``, ``starve:tma`` or ``random:3``."""
    kind, _, seed = text.partition(":")
    return {"schedule": text} if kind == "starve" else {"schedule": kind, "seed": int(seed or 0)}


def run_unusual(kernel: Unusual, schedule: str = "eager", **more: Any) -> Result:
    """Run all launches of a kernel under one schedule, with fresh arguments; ``more`` are options of the run."""
    given: list[Any] = []
    for argument in kernel.arguments:
        if isinstance(argument, In):
            given.append(aligned(argument.array))
        elif isinstance(argument, Out):
            given.append(argument.before())
        else:
            given.append(argument if isinstance(argument, Map) else argument.value)
    values = [value.tensor_map(given[value.of]) if isinstance(value, Map) else value for value in given]
    options: dict[str, Any] = {"max_steps": MAX_STEPS, **schedule_options(schedule), **more}
    if kernel.memory is not None:
        options["memory"] = kernel.memory
    stream, loaded = sim.Stream(), sim.load(kernel.module)
    for step in kernel.launches:
        stream.launch(
            loaded,
            step.entry,
            grid=kernel.grid,
            block=kernel.block,
            cluster=kernel.cluster,
            dynamic_smem=kernel.dynamic_smem,
            args=[values[position] for position in step.arguments],
            dependent=step.dependent,
        )
    reports = stream.run(**options)
    outputs = tuple(np.asarray(values[position]) for position in kernel.written)
    ended = not any(report.verdict == "incomplete" for report in reports)
    findings = tuple(finding for report in reports for finding in report.findings)
    steps = sum(report.steps for report in reports)
    return Result(findings, bool(kernel.check(outputs)), ended, outputs, steps, reports[-1].holds)
